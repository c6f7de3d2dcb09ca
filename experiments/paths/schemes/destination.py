"""Routing by destination: each host is reached by a fixed way, so that flows to different hosts
keep apart."""

from weft.controller.flows import Flows
from weft.experiments.loads.link_loads import LinkLoads, destination_loads
from weft.experiments.loads.uniform_loads import uniform_destination
from weft.experiments.paths.scheme import PathScheme, Situation


class Destination(PathScheme):
    """Routes by destination (D-Mod-K); see `weft.controller.features.routes`."""

    name = "destination"
    position = 1
    about = "a fixed way to each"
    routes = "destination"
    by_chance = False
    marks = False

    def loads(self, situation: Situation, flows: Flows) -> tuple[LinkLoads, int]:
        """See `PathScheme.loads`."""
        return destination_loads(situation.paths, flows), len(flows)

    def uniform_loads(
        self, situation: Situation, size_bytes: int, step: int
    ) -> tuple[LinkLoads, int]:
        """See `PathScheme.uniform_loads`. No path is drawn here, so the loads are exact."""
        paths = situation.paths
        return uniform_destination(paths, size_bytes), paths.hosts * (paths.hosts - 1)


SCHEMES = (Destination(),)
