"""Links that lose packets at random."""

from __future__ import annotations

from dataclasses import dataclass

from weft.base.units import parse_probability
from weft.topo.faults.fault import Fault, Line, not_understood, register
from weft.topo.network import Topology


@dataclass(frozen=True)
class LinkLoss(Fault):
    """A link by its text, ``leaf0-spine1`` (both directions) or ``leaf0>spine1``, and the
    probability with which it loses a packet. The switches' fault tables lose it, in both worlds."""

    link: str
    loss: float

    def check(self, topology: Topology) -> None:
        """Raise InputError unless it fits the topology."""
        topology.select(self.link)

    def __str__(self) -> str:
        return f"{self.link}:loss={self.loss:g}"


class LossKind:
    """``LINK:loss=P``."""

    name = "loss"

    def read(self, line: Line) -> LinkLoss:
        """See `FaultKind.read`."""
        _, equals, value = line.text.partition(":")[2].partition("=")
        if not equals:
            raise not_understood(line)
        return LinkLoss(line.where, parse_probability(value, f"fault {line.text!r}: loss"))


register(LossKind())
