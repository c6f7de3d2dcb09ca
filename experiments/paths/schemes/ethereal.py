"""Ethereal: it cuts flows into pieces, each on a single path, that load all paths alike (arXiv
2407.00550)."""

from collections.abc import Collection

from weft.controller.clos_paths import ClosPaths
from weft.controller.ethereal import ethereal
from weft.controller.flows import Flows, Pieces
from weft.experiments.loads.link_loads import LinkLoads
from weft.experiments.loads.uniform_loads import uniform_ethereal, uniform_pieces
from weft.experiments.paths.ethereal_options import EtherealOptions
from weft.experiments.paths.scheme import PathScheme, Situation
from weft.topo.network import Topology


class Ethereal(PathScheme):
    """Paths that are computed from the flows of each step; switches pin them, or source ports hash
    to them."""

    options = EtherealOptions

    def pieces(
        self,
        network: Topology | ClosPaths,
        flows: Flows,
        seed: int,
        without: Collection[str] = (),
        unit_bytes: int = 1,
    ) -> Pieces:
        """See `PathScheme.pieces`, and `weft.controller.ethereal.ethereal` for how flows
        are cut."""
        return ethereal(network, flows, seed, without, unit_bytes, self.own.whole_below_bytes)

    def uniform_loads(
        self, situation: Situation, size_bytes: int, step: int
    ) -> tuple[LinkLoads, int]:
        """See `PathScheme.uniform_loads`. Loads are exact if paths are pinned; with source ports,
        paths are drawn."""
        if self.assigned == "ports":
            return super().uniform_loads(situation, size_bytes, step)
        asked = situation.paths, size_bytes, situation.unit_bytes, self.own.whole_below_bytes
        return uniform_ethereal(*asked), uniform_pieces(*asked)


SCHEMES = (
    Ethereal(
        name="ethereal",
        position=6,
        routes="pinned",
        assigned="pins",
        colour="#009e73",
        ideal=True,
    ),
    Ethereal(name="ethereal-ports", position=7, assigned="ports", colour="#44546a"),
)
