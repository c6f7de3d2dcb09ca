"""Who reaches whom over the links that are up: shortest paths through switches of any network.

A path goes over switches that run the fabric's program. One with a program of its own may be where
a path ends, as the switch of the hosts that are to be reached; none goes through it.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.topo.network import Direction, Switch, Topology

Hops = npt.NDArray[np.int16]
UNREACHED = -1


class Reach:
    """The shortest paths between the switches of a topology.

    Args:
        without: names of links that are not to be used (failed ones).

    Raises:
        InputError: there is no such link.
    """

    def __init__(self, topology: Topology, without: Collection[str] = ()) -> None:
        self.topology = topology
        down = {topology.link(name).name for name in without}
        self.live: dict[str, tuple[Direction, ...]] = {
            switch.name: tuple(
                direction
                for direction in topology.outward(switch.name)
                if direction.link.name not in down
            )
            for switch in topology.switches
        }
        """The directions that leave every switch over links that are up, in the order of the
        ports."""
        self.live_at = {
            (name, each.source.number): each
            for name, directions in self.live.items()
            for each in directions
        }
        """The same by switch and port."""
        self.numbers = {switch.name: index for index, switch in enumerate(topology.switches)}
        """The places of switches in `Topology.switches`."""
        self._forwards = np.array([not switch.program for switch in topology.switches], bool)
        between = [
            (self.numbers[name], self.numbers[each.destination.node], each.source.number)
            for name, directions in self.live.items()
            for each in directions
            if each.destination.node in self.numbers
        ]
        edges = np.array(between, np.int64).reshape(-1, 3)
        self._source, self._target, self._port = edges.T
        self._hops: dict[str, Hops] = {}

    def hops(self, switch: str) -> Hops:
        """Return how many links every switch is away from one, int16 [switches], in the order of
        `Topology.switches`; `UNREACHED` where there is no path."""
        if switch not in self._hops:
            self._hops[switch] = self._search(self.numbers[switch])
        return self._hops[switch]

    def _search(self, start: int) -> Hops:
        found = np.full(len(self.numbers), UNREACHED, np.int16)
        found[start] = 0
        frontier = np.zeros(len(self.numbers), bool)
        frontier[start] = True
        distance = 0
        while frontier.any():
            distance += 1
            near = self._target[frontier[self._source]]
            near = near[found[near] == UNREACHED]
            found[near] = distance
            frontier[:] = False
            frontier[near] = True
            frontier &= self._forwards
        return found

    def joined(self, switches: Collection[str]) -> bool:
        """Return whether some switches reach each other, all over switches that run the fabric's
        program, and run it themselves."""
        names = list(switches)
        numbers = [self.numbers[name] for name in names]
        return bool(
            self._forwards[numbers].all() and (self.hops(names[0])[numbers] != UNREACHED).all()
        )

    def ports(self, destination: str) -> dict[str, tuple[int, ...]]:
        """Return, by switch, the ports on shortest paths to a switch, in order; switches that do
        not reach it are left out."""
        hops = self.hops(destination)
        goal = self.numbers[destination]
        through = self._forwards.copy()
        through[goal] = True
        on_way = (
            (hops[self._source] > 0)
            & (hops[self._target] == hops[self._source] - 1)
            & through[self._target]
        )
        found: dict[int, list[int]] = {}
        for source, port in zip(
            self._source[on_way].tolist(), self._port[on_way].tolist(), strict=True
        ):
            found.setdefault(source, []).append(port)
        switches = self.topology.switches
        return {switches[source].name: tuple(ports) for source, ports in found.items()}

    def bridges(self, source: str, destination: str) -> list[tuple[str, str]]:
        """Return the directions, by their ends, that lie on all shortest paths from one switch to
        another, in order."""
        ports = self.ports(destination)
        found: list[tuple[str, str]] = []
        frontier = {source}
        while frontier != {destination}:
            onward = [self.live_at[here, port] for here in frontier for port in ports.get(here, ())]
            if not onward:
                return []
            if len(onward) == 1:
                found.append(onward[0].ends)
            frontier = {each.destination.node for each in onward}
        return found

    def centres(self, switches: Sequence[str]) -> list[Switch]:
        """Return the switches from which the farthest of some switches is least far away, by device
        id: in a Clos, the lowest ones that have all of them below. Empty if none reaches all.

        Only switches that run the fabric's program can be centres, and be reached from them.
        """
        if not self._forwards[[self.numbers[name] for name in switches]].all():
            return []
        hops = np.stack([self.hops(name) for name in dict.fromkeys(switches)])
        able = (hops != UNREACHED).all(axis=0) & self._forwards
        if not able.any():
            return []
        farthest = hops.max(axis=0)
        least = farthest[able].min()
        return [
            self.topology.switches[index]
            for index in np.flatnonzero(able & (farthest == least)).tolist()
        ]

    def tree(self, root: str, switches: Collection[str]) -> dict[str, Direction]:
        """Return the tree of shortest paths from a root to some switches: by name of every other
        switch of the tree, the direction that leads into it. Parents come before children.

        Raises KeyError if the root does not reach one of them.
        """
        hops = self.hops(root)
        entered: dict[str, Direction] = {}
        for name in switches:
            here = name
            while here != root and here not in entered:
                entered[here] = self._entrance(here, hops)
                here = entered[here].source.node
        return dict(sorted(entered.items(), key=lambda item: hops[self.numbers[item[0]]]))

    def _entrance(self, switch: str, hops: Hops) -> Direction:
        """Return the direction into a switch from the first of its neighbours, by port, that are
        nearer to where the hops count from."""
        wanted = hops[self.numbers[switch]] - 1
        for each in self.live[switch]:
            there = self.numbers.get(each.destination.node)
            if there is not None and hops[there] == wanted >= 0 and self._passes(there, wanted):
                return self.topology.direction(*each.ends[::-1])
        raise KeyError(switch)

    def _passes(self, switch: int, hops: int) -> bool:
        """Return whether a path may go on from a switch that is so many links away from its
        start."""
        return hops == 0 or bool(self._forwards[switch])


@lru_cache(maxsize=64)
def longest_hops(topology: Topology) -> int:
    """Return how many links there are between the two switches with hosts that are farthest from
    each other, as far as they reach each other."""
    reach = Reach(topology)
    numbers = [reach.numbers[switch.name] for switch in topology.edge]
    return max(int(reach.hops(switch.name)[numbers].max()) for switch in topology.edge)
