"""Spraying: the switches send every packet by another path, at random or in turn."""

from __future__ import annotations

from weft.analysis.link_loads import LinkLoads, spray_loads
from weft.analysis.uniform_loads import uniform_spray
from weft.controller.flows import Flows
from weft.controller.routes import Paths
from weft.experiments.paths.scheme import PathScheme, Situation


class Spraying(PathScheme):
    """Ideal in analysis: every path has as many bytes."""

    reorders = True

    def __init__(self, name: str, routes: Paths, colour: str) -> None:
        self.name = name
        self.routes = routes
        self.colour = colour

    def loads(self, situation: Situation, flows: Flows) -> tuple[LinkLoads, int]:
        return spray_loads(situation.paths, flows), len(flows)

    def uniform_loads(
        self, situation: Situation, size_bytes: int, step: int
    ) -> tuple[LinkLoads, int]:
        paths = situation.paths
        return uniform_spray(paths, size_bytes), paths.hosts * (paths.hosts - 1)


SCHEMES = (
    Spraying("spray", "spray-random", "#0072b2"),
    Spraying("spray-round-robin", "spray-round-robin", "#56b4e9"),
)
