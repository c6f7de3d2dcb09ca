"""Paths that the transport chooses by what it hears of them: REPS and PLB.

They go by marks of queues, which only a run has.
"""

from __future__ import annotations

from weft.experiments.paths.scheme import PathScheme


class Adaptive(PathScheme):
    """The transport changes source ports; switches hash them."""

    def __init__(self, name: str, colour: str, *, reorders: bool) -> None:
        self.name = name
        self.colour = colour
        self.entropy = name
        self.reorders = reorders


SCHEMES = (
    Adaptive("reps", "#cc79a7", reorders=True),
    Adaptive("plb", "#8c6d31", reorders=False),
)
