"""A network in virtual time whose hosts send flows, each on connections of its own."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.agents.datagrams import Datagrams
from weft.agents.transport import CompletionKind, Endpoint
from weft.agents.transport.posting import Completion, Posting
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.agents.transport.source_ports import PORTS
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import RunError
from weft.base.units import shown
from weft.controller import Controller, fabric_plan
from weft.controller.fabric_planner import wants_of
from weft.controller.features.feature import Demand
from weft.controller.features.pinned_paths import Pin
from weft.controller.flows import Flows
from weft.experiments.runs.inputs import own_programs, program_of, transport_of
from weft.experiments.scenario.kinds import scheme_in
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.assigned_flows import Piece, assigned
from weft.interface.flows.flow import MOST_NS, FlowResult
from weft.topo.worlds.simulated.core import Idle
from weft.topo.worlds.simulated.world import SimulatedWorld

MESSAGE_BYTES = 1 << 22
"""Flows that are longer are several messages of one connection."""


@dataclass(frozen=True)
class CarriedFlow:
    """A flow between hosts by their numbers."""

    id: Hashable
    source: int
    destination: int
    size_bytes: int


@dataclass(eq=False)
class _UnderWay:
    """A flow that has begun."""

    flow: CarriedFlow
    start_ns: int
    pairs: list[RcQueuePair]
    """At its source, one for each of its pieces."""
    left: int
    """How many pieces have not arrived as a whole."""


@dataclass(eq=False)
class Sender(Idle):
    """A host whose transport sends and receives."""

    take: Callable[[Completion], None] = field(kw_only=True)
    sent: MemoryRegion = field(kw_only=True)
    written: MemoryRegion = field(kw_only=True)
    """Where others write to."""
    made: dict[int, int] = field(default_factory=dict)
    """How many connections there have been to each host."""

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Take the transport's completions."""
        self.endpoint.take_events(batch)
        for completion in self.endpoint.poll():
            self.take(completion)


class FlowNetwork:
    """A network that is up, with its routes, and the flows that are under way on it.

    What flows carry is nobody's, so that it travels without bytes.
    """

    def __init__(self, scenario: Scenario, steps: Sequence[Sequence[CarriedFlow]]) -> None:
        """Bring it up.

        Args:
            scenario: says what of the network, its paths and its transport is asked for.
            steps: the flows whose paths are assigned together, where paths are assigned.
        """
        self._scenario = scenario
        self._topology = topology = scenario.network()
        self._pieces: Mapping[Hashable, Sequence[Piece]] = {}
        pins: Sequence[Pin] = ()
        if scheme_in(scenario).assigned:
            pieces, pins = assigned(
                scenario,
                [
                    Flows.of((each.source, each.destination, each.size_bytes) for each in step)
                    for step in steps
                ],
            )
            ids = [each.id for step in steps for each in step]
            self._pieces = dict(zip(ids, pieces, strict=True))
        self._world = SimulatedWorld(
            topology, seed=scenario.seed, path_mtu=scenario.mtu, payload=False
        )
        self._fabric = self._world.fabric
        demand = Demand(
            [], 0, [], slots=0, epoch=1, plan_routes=scheme_in(scenario).plan_routes, pins=pins,
            ecn_threshold_packets=scenario.ecn_threshold_packets or 0, loss=scenario.loss,
            losses=scenario.losses,
        )  # fmt: skip
        addresses = self._world.switch_addresses
        others = own_programs(topology)
        with Controller(topology, addresses, program_of(scenario), others=others) as owner:
            owner.apply(
                fabric_plan(
                    owner.names, topology, seed=scenario.seed, wants=wants_of(demand, topology),
                    options=vars(scenario),
                )
            )  # fmt: skip
        self._options = transport_of(scenario)
        self._data = np.zeros(MESSAGE_BYTES, np.uint8)
        self._written = np.zeros(MESSAGE_BYTES, np.uint8)
        self._senders: dict[int, Sender] = {}
        self._arriving: dict[Posting, _UnderWay] = {}
        """By the queue pair at the destination."""
        self._under_way: dict[Posting, _UnderWay] = {}
        """By the queue pair at the source."""
        self._ended: dict[Hashable, FlowResult] = {}
        """Flows that have ended, and nobody has been told of."""

    @property
    def digest(self) -> str:
        """What tells the headers of all frames so far from any others."""
        return self._world.digest

    @property
    def now_ns(self) -> int:
        """The virtual time."""
        return self._fabric.now_ns

    def begin(self, flow: CarriedFlow) -> None:
        """Let a flow begin now."""
        source, target = self._sender(flow.source), self._sender(flow.destination)
        pieces = self._pieces.get(flow.id) or self._cut(flow, source)
        begun = _UnderWay(flow, self.now_ns, [], len(pieces))
        for piece in pieces:
            pair = source.endpoint.create_rc(source_port=piece.source_port)
            other = target.endpoint.create_rc()
            pair.connect(other.local)
            other.connect(pair.local)
            begun.pairs.append(pair)
            self._arriving[other] = begun
            self._under_way[pair] = begun
        if len(pieces) > 1:
            for pair in begun.pairs:
                pair.share_turns(begun.pairs[0], len(pieces))
        for piece, pair in zip(pieces, begun.pairs, strict=True):
            self._post(pair, piece.size_bytes, source, target)
        self._fabric.wake(flow.source)

    def _post(self, pair: RcQueuePair, size_bytes: int, source: Sender, target: Sender) -> None:
        """Post a piece of a flow, in messages."""
        for start in range(0, size_bytes, MESSAGE_BYTES):
            length = min(MESSAGE_BYTES, size_bytes - start)
            self._write(pair, length, start + length == size_bytes, source, target)

    def _write(
        self, pair: RcQueuePair, length: int, last: bool, source: Sender, target: Sender
    ) -> None:
        pair.post_write(
            source.sent, 0, length, target.written.address, target.written.rkey,
            immediate=0 if last else None,
        )  # fmt: skip

    def _cut(self, flow: CarriedFlow, source: Sender) -> Sequence[Piece]:
        """Return a flow's pieces where their paths are left to hashes."""
        mtu, lanes = self._scenario.mtu, scheme_in(self._scenario).lanes
        packets = -(-flow.size_bytes // mtu)
        each = -(-packets // lanes) * mtu
        sizes = [min(each, flow.size_bytes - at) for at in range(0, flow.size_bytes, each)]
        first = source.made.get(flow.destination, 0)
        source.made[flow.destination] = first + len(sizes)
        address = self._topology.hosts[flow.destination].address
        return [
            Piece(size, source.endpoint.source_port_to(address, (first + number) % PORTS))
            for number, size in enumerate(sizes)
        ]

    def _sender(self, host: int) -> Sender:
        """Return what runs on a host; it is made when the host's first flow begins."""
        if host not in self._senders:
            node = self._topology.hosts[host]
            endpoint = Endpoint(
                node.address,
                self._scenario.mtu,
                self._topology.outward(node.name)[0].link.rate_bps,
                seed=self._scenario.seed * len(self._topology.hosts) + host,
                options=self._options,
            )
            sent, written = (endpoint.register(each) for each in (self._data, self._written))
            self._senders[host] = Sender(endpoint, take=self._take, sent=sent, written=written)
            self._fabric.attach({host: self._senders[host]})
        return self._senders[host]

    def _take(self, completion: Completion) -> None:
        """Take what a host's transport tells: that a piece has arrived, or that a connection has
        failed."""
        if completion.kind is CompletionKind.ERROR:
            begun = self._under_way[completion.qp]
            name = self._topology.hosts[begun.flow.source].name
            raise RunError(f"flow {shown(begun.flow.id)} from {name}: {completion.error}")
        if completion.kind is not CompletionKind.WRITE_WITH_IMMEDIATE:
            return
        begun = self._arriving.pop(completion.qp)
        begun.left -= 1
        if not begun.left:
            again = sum(pair.retransmitted_packets for pair in begun.pairs)
            self._ended[begun.flow.id] = FlowResult(begun.start_ns, self.now_ns, again)

    def go_on(self, until_ns: int, before: bool) -> dict[Hashable, FlowResult]:
        """Go on until flows end, and return these; or to a time, when what happens at that time has
        happened, or, ``before`` that, has not."""
        going = self._run_to(until_ns, before)
        if not self._ended and (before or (not going and until_ns < MOST_NS)):
            self._fabric.advance_to(until_ns - self.now_ns + self._fabric.now_ns)
        ended, self._ended = self._ended, {}
        return ended

    def _run_to(self, until_ns: int, before: bool) -> bool:
        """Go on until flows end or to a time; return whether something is left to happen."""
        fabric = self._fabric
        fabric.landings.forget()  # which nobody looks at
        stop_ns = until_ns - before - (self.now_ns - fabric.now_ns)
        return fabric.run(stop_ns=stop_ns, until=lambda: bool(self._ended))
