"""Faults as a scenario asks for them: links that lose packets, and what happens to single ones."""

from __future__ import annotations

from dataclasses import dataclass

from weft.base.errors import InputError
from weft.base.units import parse_probability
from weft.topo.packet_faults import OUTAGES, PACKET_ACTIONS, InjectedFault, is_injected, parse_fault


@dataclass(frozen=True)
class Fault:
    """A link or one direction of it, and its probability of loss."""

    link: str
    loss: float

    @staticmethod
    def parse(text: str) -> Fault | InjectedFault:
        """Read one ``--fault``.

        ``LINK:loss=P``, LINK being ``leaf0-spine1`` (both ways) or ``leaf0>spine1``; or a fault by
        name, as `weft.topo.packet_faults` has them.
        """
        if is_injected(text):
            return parse_fault(text)
        link, colon, what = text.partition(":")
        key, equals, value = what.partition("=")
        if not (link.strip() and colon and equals) or key.strip() != "loss":
            raise InputError(
                f"fault {text!r} is not understood: write LINK:loss=P, like leaf0-spine1:loss=0.1 "
                "for both directions or 'leaf0>spine1:loss=1.0' for one; or WHERE:ACTION, ACTION "
                f"one of {', '.join((*PACKET_ACTIONS, *OUTAGES))} (see docs/faults.md)"
            )
        return Fault(link.strip(), parse_probability(value, f"fault {text!r}: loss"))

    def __str__(self) -> str:
        return f"{self.link}:loss={self.loss:g}"
