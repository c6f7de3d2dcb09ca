"""``weft.simulate(network, flows)``, and the simulation that goes on as flows are added."""

import os
from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from weft.base import arguments as given
from weft.base.errors import InputError, RunError
from weft.base.option import whole
from weft.base.units import listed, shown
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.kinds import scheme_in
from weft.interface.collectives import fields_of, network_of, scenario_on
from weft.interface.flows.fast_forward import (
    ROUND_TRIPS,
    FastForwardNetwork,
    Skipped,
    check_fast_forward,
)
from weft.interface.flows.flow import MOST_NS, Flow, FlowResult, check_flow, in_order
from weft.interface.flows.network import CarriedFlow, FlowNetwork
from weft.topo.network import Topology
from weft.topo.own import Network
from weft.topo.worlds.registry import PREDICTING

COLLECTIVE = "alltoall"
"""Options are those of a run of it: any host may send to any other, and several to the same."""
TRANSPORT = "Paths and transport"
"""The group of options that flows have."""
MORE_OPTIONS = ("mtu", "seed", "loss")


def simulate(
    network: "Topology | Network | str | os.PathLike[str] | Any",
    flows: Iterable[Flow],
    *,
    paths: str | None = None,
    fast_forward: int | None = None,
    **options: Any,
) -> dict[Any, FlowResult]:
    """Carry flows over a network in virtual time, packet by packet; return what became of each, by
    its id.

    ::

        flows = [weft.Flow("a", "h0", "h6", 1 << 20), weft.Flow("b", "h6", "h0", 4096, ["a"])]
        print(weft.simulate(weft.leaf_spine(4, 2, 2), flows, paths="reps")["b"].end_ns)

    The same arguments give the same results. Who decides what to send by what has ended uses a
    `Simulation`.

    Args:
        network: what `weft.up` takes.
        flows: those that begin at the same time begin in this order.
        paths: as of ``weft run``: ``ecmp``, ``ecmp-4``, ``spray``, ``reps``, ``plb``,
            ``ethereal`` and so on. Ethereal's are assigned to all flows together that have equally
            many others before them, one after the other.
        fast_forward: leave packets out where all flows were steady for twice so many round trips,
            2 to 10000 (`weft.interface.flows.fast_forward`); None: every packet is carried.
        options: of ``weft run alltoall``, those of paths and transport, ``mtu``, ``seed`` and
            ``loss``.

    Raises:
        InputError: something of this makes no sense: a host that is not there, a flow that waits
            for one that is not there, or for itself.
        RunError: a flow failed.
    """
    simulation = Simulation(network, flows, paths=paths, fast_forward=fast_forward, **options)
    simulation.run()
    return simulation.results


class Simulation:
    """A network in virtual time that carries flows, which may be added as time goes on.

    ::

        simulation = weft.Simulation(weft.leaf_spine(4, 2, 2), paths="spray")
        simulation.add([weft.Flow("request", "h0", "h6", 4096)])
        while ended := simulation.advance():
            ...                                                   # add what these set off
    """

    def __init__(
        self,
        network: "Topology | Network | str | os.PathLike[str] | Any",
        flows: Iterable[Flow] = (),
        *,
        paths: str | None = None,
        fast_forward: int | None = None,
        **options: Any,
    ) -> None:
        """Check what is asked for, and add flows; the arguments are those of `simulate`."""
        topology = network_of(network)
        asked = {**options, **({} if paths is None else {"paths": paths})}
        fields = fields_of(COLLECTIVE, asked)
        for name, row in OPTIONS.items():
            if row.field in fields and row.group != TRANSPORT and name not in MORE_OPTIONS:
                raise InputError(
                    f"{name} {shown(fields[row.field])}: a simulation of flows has options of "
                    f"paths and transport, and {listed(MORE_OPTIONS, 'and')}"
                )
        self._scenario = scenario_on(topology, COLLECTIVE, world=PREDICTING, **fields)
        self.fast_forward = fast_forward
        """How many round trips windows have, of which packets may be left out; None: of none."""
        if fast_forward is not None:
            whole("fast_forward", fast_forward, *ROUND_TRIPS)
            check_fast_forward(self._scenario)
        self.hosts = {host.name: host.rank for host in topology.hosts}
        """The numbers of the hosts, by name."""
        self._depths: dict[Hashable, int] = {}
        """How many flows there are before each, one after the other."""
        self._waiting: dict[Hashable, int] = {}
        """How many flows each waits for."""
        self._followers: dict[Hashable, list[Flow]] = {}
        """The flows that wait for each."""
        self._due: list[tuple[int, int, Flow]] = []
        """A heap of flows that wait for their time alone: (time, number, flow)."""
        self._numbers = count()
        self.results: dict[Any, FlowResult] = {}
        """What became of the flows that have ended, by id."""
        self._network: FlowNetwork | None = None
        """Up once time has gone on."""
        self._first: list[Flow] = []
        """The flows that are known before that."""
        self.add(flows)

    @property
    def now_ns(self) -> int:
        """The virtual time, in ns from the start."""
        return 0 if self._network is None else self._network.now_ns

    @property
    def digest(self) -> str:
        """What tells all frames so far, 32 hexadecimal digits, from any others."""
        return self._up().digest

    @property
    def skipped(self) -> Skipped:
        """What has been left out so far, and how far off that was where it was looked at."""
        known = self._network
        return known.skipped if isinstance(known, FastForwardNetwork) else Skipped()

    @property
    def unfinished(self) -> int:
        """How many flows have not ended."""
        return len(self._depths) - len(self.results)

    def add(self, flows: Iterable[Flow]) -> None:
        """Add flows, all of them or, where one makes no sense (InputError), none. What could have
        begun before begins now."""
        added = list(flows)
        if added and self._network is not None and scheme_in(self._scenario).assigned:
            raise InputError(
                f"paths {shown(self._scenario.paths)} are assigned to flows that are known from "
                "the start: add all of them before time goes on, or choose paths that are not "
                "assigned"
            )
        for flow in added:
            check_flow(flow, self.hosts)
        for flow in in_order(added, self._depths):
            before = (self._depths[each] for each in flow.after)
            self._depths[flow.id] = 1 + max(before, default=-1)
        for flow in added:
            waits = {each for each in flow.after if each not in self.results}
            self._waiting[flow.id] = len(waits)
            for each in waits:
                self._followers.setdefault(each, []).append(flow)
            if not waits:
                self._make_due(flow)
        if self._network is None:
            self._first += added

    def advance(self, until_ns: int | None = None) -> dict[Any, FlowResult]:
        """Go on until flows end, at the latest to a time, and return those that ended.

        Without a time, nothing is returned once all flows have ended. Raises RunError where a flow
        fails.
        """
        if until_ns is not None:
            given.whole("until_ns", until_ns, "1000000")
            if not self.now_ns <= until_ns <= MOST_NS:
                raise InputError(f"until_ns {until_ns}: it is {self.now_ns} (now) to {MOST_NS}")
        network = self._up()
        while until_ns is not None or self.unfinished:
            while self._due and self._due[0][0] <= self.now_ns:
                network.begin(self._carried(heappop(self._due)[2]))
            limit_ns = MOST_NS if until_ns is None else until_ns
            begins = bool(self._due) and self._due[0][0] <= limit_ns
            ended = network.go_on(self._due[0][0] if begins else limit_ns, before=begins)
            if ended:
                self.results |= ended
                for each in ended:
                    self._let_go(each)
                return ended
            if not begins:
                if until_ns is None:
                    raise RunError(f"{self.unfinished} flows do not end")
                break
        return {}

    def run(self) -> dict[Any, FlowResult]:
        """Go on until all flows have ended, and return those that ended meanwhile."""
        found: dict[Any, FlowResult] = {}
        while self.unfinished:
            found |= self.advance()
        return found

    def _up(self) -> FlowNetwork:
        """Return the network, which comes up with the flows that are known."""
        if self._network is None:
            steps: list[list[CarriedFlow]] = []
            for flow in sorted(self._first, key=lambda each: self._depths[each.id]):
                steps.extend([] for _ in range(1 + self._depths[flow.id] - len(steps)))
                steps[-1].append(self._carried(flow))
            self._first = []
            self._network = (
                FlowNetwork(self._scenario, steps)
                if self.fast_forward is None
                else FastForwardNetwork(self._scenario, steps, self.fast_forward)
            )
        return self._network

    def _carried(self, flow: Flow) -> CarriedFlow:
        ends = self.hosts[flow.source], self.hosts[flow.destination]
        return CarriedFlow(flow.id, *ends, int(flow.size_bytes))

    def _make_due(self, flow: Flow) -> None:
        heappush(self._due, (max(int(flow.start_ns), self.now_ns), next(self._numbers), flow))

    def _let_go(self, ended: Hashable) -> None:
        """Let what waits for a flow wait for one less."""
        for flow in self._followers.pop(ended, ()):
            self._waiting[flow.id] -= 1
            if not self._waiting[flow.id]:
                self._make_due(flow)
