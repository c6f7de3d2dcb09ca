"""Spraying: the switches send every packet along another path, at random or in turn."""

from weft.controller.flows import Flows
from weft.experiments.loads.link_loads import LinkLoads, spray_loads
from weft.experiments.loads.uniform_loads import uniform_spray
from weft.experiments.paths.scheme import PathScheme, Situation


class Spraying(PathScheme):
    """Another path for every packet. Analysis takes spraying as ideal: every path has as many
    bytes."""

    reorders = True
    ideal = True

    def loads(self, situation: Situation, flows: Flows) -> tuple[LinkLoads, int]:
        """See `PathScheme.loads`. The loads are those of ideal spraying."""
        return spray_loads(situation.paths, flows), len(flows)

    def uniform_loads(
        self, situation: Situation, size_bytes: int, step: int
    ) -> tuple[LinkLoads, int]:
        """See `PathScheme.uniform_loads`. The loads are those of ideal spraying."""
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
