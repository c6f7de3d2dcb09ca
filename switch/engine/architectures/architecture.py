"""What the engine asks of an architecture: how its programs are read, and in what order a packet
goes through their parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = Any

Slot = Callable[[str, str], int]
"""Returns the word of a PHV at which a field of a header, by their names, is."""

LEARN = """        if phv[R_DIGEST] != 0:
            learn(context, phv, state)
"""
"""What tells a controller of digests; it goes from programs that have none."""

MARK = "#: "
"""Begins the lines of a pipeline at which a trace has something to tell: ``begin``, ``frame``,
``parsed``, ``ingress``, ``ingress end``, ``egress``, ``egress end`` and ``deparsed``."""


def as_it_is(document: Json) -> None:
    """Leave a document that has simple_switch's words alone."""


@dataclass(frozen=True)
class EngineArchitecture:
    """An architecture of programs in BMv2 JSON."""

    name: str
    parsers: tuple[str, ...]
    """The functions that the parsers of the JSON become, in their order."""
    deparsers: tuple[str, ...]
    pipeline: Callable[[Slot], str]
    """Returns the source of ``pipeline(address, operation, switch, packet, other)``, the program's
    entry: see `weft.switch.engine.codegen.generate`."""
    prepare: Callable[[Json], None] = as_it_is
    ports: frozenset[int] = frozenset()
    """Ports that all switches have, whatever links there are."""
    """Puts primitives of simple_switch in place of the architecture's own words in a document."""
