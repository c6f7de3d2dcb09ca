"""Spraying: the switches send every packet by another path, at random or in turn."""

from weft.analysis.link_loads import LinkLoads, spray_loads
from weft.analysis.uniform_loads import uniform_spray
from weft.controller.flows import Flows
from weft.experiments.paths.scheme import PathScheme, Situation


class Spraying(PathScheme):
    """Every packet takes another path. Analysis takes it as ideal: every path has as many bytes."""

    reorders = True
    ideal = True

    def loads(self, situation: Situation, flows: Flows) -> tuple[LinkLoads, int]:
        return spray_loads(situation.paths, flows), len(flows)

    def uniform_loads(
        self, situation: Situation, size_bytes: int, step: int
    ) -> tuple[LinkLoads, int]:
        paths = situation.paths
        return uniform_spray(paths, size_bytes), paths.hosts * (paths.hosts - 1)


SCHEMES = (
    Spraying(name="spray", position=2, routes="spray-random", colour="#0072b2"),
    Spraying(
        name="spray-round-robin",
        position=3,
        routes="spray-round-robin",
        colour="#56b4e9",
        analysed_as="spray",
    ),
)
