"""A path scheme: all flows between two leaves take their first path, the worst that can be done."""

from collections.abc import Collection

import numpy as np

from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF, Flows, Pieces
from weft.experiments.paths.scheme import PathScheme
from weft.topo.network import Topology


class FirstPath(PathScheme):
    """The switches pin every flow to path 0."""

    name = "first-path"
    about = "all on one"
    colour = "#8b0000"
    routes = "pinned"
    assigned = "pins"
    by_chance = False

    def pieces(
        self,
        network: Topology | ClosPaths,
        flows: Flows,
        seed: int,
        without: Collection[str] = (),
        unit_bytes: int = 1,
    ) -> Pieces:
        """Leave every flow in one piece, on path 0; within a leaf there are no paths."""
        paths = network if isinstance(network, ClosPaths) else ClosPaths.of(network, without)
        away = paths.leaf_of(flows.source) != paths.leaf_of(flows.destination)
        path = np.where(away, 0, WITHIN_LEAF)
        number = np.arange(len(flows))
        return Pieces(number, path, np.zeros(len(flows), np.int64), flows.size_bytes)


FIRST_PATH = FirstPath()
