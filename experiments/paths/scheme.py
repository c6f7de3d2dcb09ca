"""What a path scheme is: it decides how the packets of a flow get to their paths, from routes to
analysis."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.agents.transport.source_ports import source_port
from weft.agents.transport.types import Entropy
from weft.base.errors import refuse
from weft.base.registry import NoOptions
from weft.controller.clos_paths import ClosPaths
from weft.controller.entities import Entity
from weft.controller.features.feature import Planning
from weft.controller.features.routes import Paths, plan_routes
from weft.controller.flows import WITHIN_LEAF, Flows, IntArray, Pieces
from weft.controller.selector_hash import Salts, source_ports
from weft.experiments.loads.link_loads import (
    FloatArray,
    LinkLoads,
    ecmp_loads,
    loads_of,
    pieces_loads,
)
from weft.experiments.loads.uniform_loads import uniform_ecmp
from weft.topo.network import Topology


@dataclass(frozen=True, eq=False)
class Situation:
    """A network, the places of its ranks, and what all schemes have in common."""

    paths: ClosPaths
    hosts: IntArray
    """The host of every rank."""
    rates_bps: FloatArray
    """Rates in bit/s, by the number of a link's direction."""
    seed: int = 1
    unit_bytes: int = 1
    """The unit of which Ethereal's pieces are whole numbers."""


class PathScheme:
    """How the packets of a flow get to their paths; by default by a hash of the flow (ECMP).

    Another package brings an instance by an entry point in the group ``weft.path_schemes``.
    """

    name: str
    position: int | None = None
    """Its place among the schemes in lists; those without one are last."""
    about = ""
    """What help says of it beside its name, in a few words."""
    about_pieces = ""
    """What help says of the schemes that cut a flow into N pieces (`in_pieces`); empty if there are
    none."""
    colour = "#6a51a3"
    """The colour in plots, which are white."""
    routes: Paths = "ecmp"
    """How switches choose among paths; see `weft.controller.features.routes`."""
    lanes = 1
    """How many queue pairs there are between two ranks, each with a UDP source port of its own."""
    assigned = ""
    """Whether paths are assigned (`pieces`): by ``pins``, entries of the switches, or by source
    ``ports`` that hash to them."""
    entropy: Entropy = "fixed"
    """What the transport does with source ports."""
    reorders = False
    """Whether packets of one queue pair overtake each other as a matter of course."""
    by_chance = True
    """Whether the paths that are taken depend on a seed."""
    analysed_as = ""
    """The scheme, if any, whose loads stand for this one's where they are computed without
    packets."""
    ideal = False
    """Whether no scheme can have smaller loads than the computed ones, so that others are compared
    with them."""
    marks = True
    """Whether senders react to congestion marks if nothing else is said. A scheme with one path a
    flow needs no marks, except in collectives whose flows meet."""

    options: type[Any] = NoOptions
    """Options of its own, as those of `weft.agents.collectives.algorithm.Algorithm`."""
    asked: tuple[tuple[str, Any], ...] = ()
    """What is asked of them, by the names of their fields."""

    def __init__(self, **fields: object) -> None:
        """Set attributes of this instance by name; ``fields`` replace the values that the class
        has."""
        vars(self).update(fields)

    @property
    def own(self) -> Any:
        """What is asked of its own options, as an instance of `options`."""
        return self.options(**dict(self.asked))

    def plan_routes(self, planning: Planning) -> Mapping[str, Sequence[Entity]]:
        """Return the route entries of every switch, by its name, over links that have not
        failed."""
        return plan_routes(planning, self.routes)

    def pieces(
        self,
        network: Topology | ClosPaths,
        flows: Flows,
        seed: int,
        without: Collection[str] = (),
        unit_bytes: int = 1,
    ) -> Pieces:
        """Cut the flows of a step into pieces with a path for each. Only schemes that assign paths
        do this."""
        raise NotImplementedError

    def loads(self, situation: Situation, flows: Flows) -> tuple[LinkLoads, int]:
        """Compute without packets what a step's flows between hosts put on every link, and return
        that and the number of pieces that the flows are cut into."""
        paths = situation.paths
        if not self.assigned:
            pairs = np.stack([flows.source, flows.destination], axis=1)
            ports = drawn_ports(situation.seed, paths.address_of(pairs), self.lanes)
            salts = Salts.of(paths, situation.seed)
            return ecmp_loads(paths, salts, flows, ports), len(flows) * self.lanes
        pieces = self.pieces(paths, flows, situation.seed, unit_bytes=situation.unit_bytes)
        if self.assigned == "pins":
            return pieces_loads(paths, flows, pieces), len(pieces)
        ends = flows.source[pieces.flow], flows.destination[pieces.flow]
        path = _mapped(situation, *ends, pieces.path)
        return loads_of(paths, *ends, pieces.size_bytes, path), len(pieces)

    def uniform_loads(
        self, situation: Situation, size_bytes: int, step: int
    ) -> tuple[LinkLoads, int]:
        """Return what `loads` returns for a flow of this size from every host to every other.

        There are too many such flows to tell them apart, so their paths are drawn. Raises
        `InputError` if the scheme cannot do so.
        """
        paths = situation.paths
        flows = paths.hosts * (paths.hosts - 1)
        refuse(
            self.assigned,
            f"paths {self.name!r}: {flows:,} flows are too many to find a port for each; "
            "choose ethereal",
        )
        drawn = uniform_ecmp(paths, size_bytes, self.lanes, situation.seed + step)
        return drawn, flows * self.lanes

    def in_pieces(self, name: str, lanes: int) -> "PathScheme":
        """Return the scheme of this name that does the same with flows cut into so many pieces.
        Only a scheme with `about_pieces` can do this."""
        raise NotImplementedError


def drawn_ports(seed: int, addresses: IntArray, lanes: int) -> IntArray:
    """Return the source ports, int64 [pairs, lanes], that a run draws for the lanes of pairs of
    hosts.

    ``addresses`` has the IPv4 addresses of the two hosts of each pair, int64 [pairs, 2].
    """
    numbers = np.arange(lanes, dtype=np.int64)[None, :]
    return source_port(seed, addresses[:, :1], addresses[:, 1:], numbers)


def _mapped(
    situation: Situation, source: IntArray, destination: IntArray, path: IntArray
) -> IntArray:
    """Return the paths that the source ports for the wanted ``path`` lead to; where no port leads
    along it, another path is taken."""
    paths = situation.paths
    number = source * paths.hosts + destination
    pairs, pair = np.unique(number, return_inverse=True)
    ends = pairs // paths.hosts, pairs % paths.hosts
    ports = source_ports(paths, Salts.of(paths, situation.seed), *ends)
    found: IntArray = path.copy()
    for turn in range(1, ports.shape[1]):
        lost = (found != WITHIN_LEAF) & (ports[pair, found] < 0)
        if not lost.any():
            break
        found[lost] = (path[lost] + turn) % ports.shape[1]
    return found
