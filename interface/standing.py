"""What is asked of a network that stays up, beside what a scenario says of it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from weft.base import arguments as given
from weft.base.command_line import macros
from weft.topo.figures import with_cpu_port
from weft.topo.labs.lab_format import Programs
from weft.topo.network import Topology
from weft.topo.own import with_ordinary_hosts, with_programs

Program: TypeAlias = str | os.PathLike[str]
"""The path of a P4_16 source."""


@dataclass(frozen=True)
class Standing:
    """The options of `weft.up` and of ``weft up`` that say nothing of the network's shape."""

    program: Program | Mapping[str, Program] | None = None
    """Of all switches, or of some by their names."""
    pcap: Path | None = None
    """The folder for captures."""
    bypass_qdisc: bool | None = None
    """Whether switches send past qdiscs; None: if all run the fabric's program."""
    cpu_port: int | None = None
    """None: the network's own."""
    controlled: bool = True
    """Whether there is a controller. Without one, switches with a program of their own get it, and
    nothing else is done to any switch."""
    grpc_port: int | None = None
    """The first switch's TCP port of loopback; None: there are Unix sockets alone."""
    include_dirs: tuple[Path, ...] = ()
    """Where programs' includes are looked for."""
    defines: Mapping[str, str | None] = field(default_factory=dict)
    """Macros of programs, None for one without a value."""

    def network(self, shape: Topology) -> Topology:
        """Return a network with what is asked of its switches and hosts. Raises InputError."""
        program = self.program
        if program is not None:
            if not isinstance(program, Mapping):
                program = dict.fromkeys((switch.name for switch in shape.switches), program)
            shape = with_programs(
                shape,
                {
                    name: given.path(f"program of {name}", one, "'router.p4'")
                    for name, one in program.items()
                },
            )
        if self.cpu_port is not None:
            shape = with_cpu_port(shape, self.cpu_port)
        return shape if self.controlled else with_ordinary_hosts(shape)


def programs_of(program: Program | Mapping[str, Program] | None) -> Programs:
    """Return the programs that somebody has given for the switches of another tool's network
    file."""
    if program is None or not isinstance(program, Mapping):
        return Programs("" if program is None else given.path("program", program, "'router.p4'"))
    return Programs(
        by_switch={
            name: given.path(f"program of {name}", one, "'router.p4'")
            for name, one in program.items()
        }
    )


def folders_of(include: Any) -> tuple[Path, ...]:
    """Return the folders for includes that somebody has given: one, or a sequence of them."""
    one = isinstance(include, (str, os.PathLike))
    folders = (include,) if one else given.items("include", include, "folders", "['include']")
    return tuple(Path(given.path("include", each, "'include'")) for each in folders)


def macros_of(define: Mapping[str, object] | Sequence[str]) -> dict[str, str | None]:
    """Return the macros that somebody has given: values by name, None for one without a value, or
    texts as ``-D`` takes them. Raises InputError."""
    if not isinstance(define, Mapping):
        return macros(given.texts("define", define, "['PORTS=64']"), "define")
    texts = [str(name) if value is None else f"{name}={value}" for name, value in define.items()]
    return macros(texts, "define")
