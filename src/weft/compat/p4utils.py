"""p4-utils' Python API, by its names: the switches of a network that is up, and its graph.

::

    from weft.compat.p4utils import SimpleSwitchThriftAPI, load_topo

    topo = load_topo()
    for name in topo.get_p4switches():
        controller = SimpleSwitchThriftAPI(topo.get_thrift_port(name))
        controller.table_add("ipv4_lpm", "drop", ["10.0.9.0/24"])

``python -m weft.compat.p4utils SCRIPT.py`` runs a script as it is, whose imports of p4utils lead
here.
"""

import sys

from weft.base.errors import WeftError
from weft.interface.p4utils.graph import NetworkGraph, Topology, load_topo
from weft.interface.p4utils.imports import run_script
from weft.interface.p4utils.network_api import NetworkAPI
from weft.interface.p4utils.p4runtime_api import SimpleSwitchP4RuntimeAPI
from weft.interface.p4utils.thrift_api import SimpleSwitchThriftAPI, UIn_Error

__all__ = [
    "NetworkAPI",
    "NetworkGraph",
    "SimpleSwitchP4RuntimeAPI",
    "SimpleSwitchThriftAPI",
    "Topology",
    "UIn_Error",
    "load_topo",
]

if __name__ == "__main__":
    try:
        run_script(sys.argv[1:])
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
