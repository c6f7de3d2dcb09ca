"""Path schemes: what ``--paths`` names, and what it asks of switches, queue pairs and transport.

Ethereal, ECMP over N pieces a flow, spraying, REPS and PLB are those of "Challenging the Need for
Packet Spraying in Large-Scale Distributed Training" (arXiv 2407.00550) and of what it compares.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from weft.base.errors import InputError

MAX_LANES = 32
"""Of ECMP over N pieces."""

SPRAYED_REORDER_PACKETS = 32
REORDER_PACKETS = 3


@dataclass(frozen=True)
class PathScheme:
    """How the packets of a flow get to their paths."""

    routes: str
    """The switches' way: one of `weft.controller.routes.PATHS`."""
    lanes: int = 1
    """Queue pairs between two ranks, each with a UDP source port of its own."""
    assigned: str = ""
    """Whether paths are assigned: by ``pins``, entries of the switches, or by source ``ports`` that
    hash to them."""
    entropy: str = "fixed"
    """What the transport does with source ports: fixed, reps or plb."""
    reorders: bool = False
    """Whether packets of one queue pair overtake each other as a matter of course."""


_SCHEMES = {
    "ecmp": PathScheme("ecmp"),
    "destination": PathScheme("destination"),
    "spray": PathScheme("spray-random", reorders=True),
    "spray-round-robin": PathScheme("spray-round-robin", reorders=True),
    "reps": PathScheme("ecmp", entropy="reps", reorders=True),
    "plb": PathScheme("ecmp", entropy="plb"),
    "ethereal": PathScheme("pinned", assigned="pins"),
    "ethereal-ports": PathScheme("ecmp", assigned="ports"),
}
NAMES = ("ecmp", "ecmp-N", *list(_SCHEMES)[1:])
"""For messages and help; N is a number."""
WITHOUT_MARKS = ("ecmp", "destination")
"""Schemes of one path a flow, which the other collectives were made for."""


def scheme_of(name: str) -> PathScheme:
    """The scheme of a name. Raises `InputError` for one that is unknown."""
    if name in _SCHEMES:
        return _SCHEMES[name]
    pieces = re.fullmatch(r"ecmp-([0-9]{1,4})", name)
    if pieces is None:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise InputError(
            f"paths {name!r} is unknown{hint}: choose from {', '.join(NAMES)} (N pieces a flow)"
        )
    lanes = int(pieces[1])
    if not 2 <= lanes <= MAX_LANES:
        raise InputError(
            f"paths {name!r} cuts a flow into {lanes} pieces: ecmp-2 to ecmp-{MAX_LANES} are "
            "possible, and ecmp leaves it whole"
        )
    return PathScheme("ecmp", lanes=lanes)
