"""ECMP: a flow's path is by a hash; or a flow is cut into N pieces, each with a hash of its own."""

from __future__ import annotations

from weft.experiments.paths.scheme import PathScheme


class Ecmp(PathScheme):
    """By a hash of addresses and source port (RFC 2992)."""

    def __init__(self, name: str = "ecmp", lanes: int = 1) -> None:
        self.name = name
        self.lanes = lanes
        self.marks = lanes > 1
        self.colour = "#d55e00" if lanes == 1 else "#e69f00"


SCHEMES = (Ecmp(),)
