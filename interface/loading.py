"""Programs of switches that no controller of Weft's owns."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from weft.controller.client import LoadableProgram, Session
from weft.switch.compiler import ProgramFiles
from weft.topo.network import Topology


def load_programs(
    own: Mapping[str, ProgramFiles], topology: Topology, addresses: Mapping[str, Any]
) -> None:
    """Give switches their own programs, by their names, and leave them to whoever comes."""
    programs = {path: LoadableProgram.read(path) for path in set(own.values())}
    for name, path in own.items():
        device_id = topology.switch(name).device_id
        with closing(Session(name, device_id, addresses[name])) as session:
            session.connect()
            session.push_program(programs[path])
