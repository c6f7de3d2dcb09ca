"""What an interpreter yields: each step of a packet, and the choices that others make for it.

A step is told in the words of the engine's traces (`weft.switch.engine.trace`), so that the same
text is made of both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.switch.interpreter.packet import Packet

Json = Any

PAUSES = frozenset(("block", "operation", "transition", "node"))
"""Events that come before something is done, and are no part of what a trace tells."""


@dataclass(frozen=True)
class Step:
    """One thing that happens to a packet; ``packet`` is as it is at this moment, and may be
    changed before the next step is asked for."""

    event: str
    packet: Packet
    told: Mapping[str, Any] = field(default_factory=dict)
    source: Json = None
    """Where it stands in the P4 source: ``filename``, ``line``, ``column``, ``source_fragment``."""

    def as_event(self) -> dict[str, Any]:
        """Return it as traces have it, with the line of the source if that is known."""
        line = {"source": source_text(self.source)} if self.source else {}
        return {"copy": self.packet.copy, "event": self.event, **self.told, **line}


@dataclass(frozen=True)
class Entered(Step):
    """An action begins; its arguments may be changed before the next step is asked for."""

    arguments: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Choice(Step):
    """A step at which a packet may go more than one way: what is sent to the generator is the
    number of the one that it goes."""

    alternatives: Sequence[Any] = ()
    usual: int | None = None
    """What a switch would choose, where the packet alone says that."""


def source_text(source: Json) -> str:
    """Return a place in a P4 source as text."""
    return f"{source.get('filename', '')}:{source.get('line', '?')}"
