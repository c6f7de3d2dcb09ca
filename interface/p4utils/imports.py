"""p4-utils' modules for scripts that import them: names that lead here."""

from collections.abc import Sequence
from typing import Any

from weft.interface.p4runtime_names import install, run_as_main
from weft.interface.p4utils.graph import NetworkGraph, load_topo
from weft.interface.p4utils.network_api import NetworkAPI
from weft.interface.p4utils.p4runtime_api import SimpleSwitchP4RuntimeAPI
from weft.interface.p4utils.thrift_api import SimpleSwitchThriftAPI

MODULES: dict[str, dict[str, Any]] = {
    "p4utils": {},
    "p4utils.utils": {},
    "p4utils.utils.helper": {"load_topo": load_topo},
    "p4utils.utils.topology": {"NetworkGraph": NetworkGraph, "Topology": NetworkGraph},
    "p4utils.utils.sswitch_thrift_API": {"SimpleSwitchThriftAPI": SimpleSwitchThriftAPI},
    "p4utils.utils.sswitch_API": {"SimpleSwitchAPI": SimpleSwitchThriftAPI},
    "p4utils.utils.sswitch_p4runtime_API": {"SimpleSwitchP4RuntimeAPI": SimpleSwitchP4RuntimeAPI},
    "p4utils.mininetlib": {},
    "p4utils.mininetlib.network_API": {"NetworkAPI": NetworkAPI},
}
"""What scripts import from each module of p4-utils."""


def run_script(words: Sequence[str]) -> None:
    """Run a script that imports p4-utils, with its arguments, as the main program."""
    install(MODULES)
    run_as_main(words, "python -m weft.compat.p4utils")
