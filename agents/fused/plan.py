"""A fused operator, or the same unfused, as a graph of flows and waits.

Computing a tile is a wait of its rank, after the one before it on its workgroup. A slice is a flow
that begins when its tiles are there: a put, whose arrival is its flag. Unfused, ranks first gather
all inputs, then compute all tiles, then send: the slices, the flows and the additions are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from weft.agents.collectives.flow_columns import NONE, FlowPlace, Sum
from weft.agents.collectives.flow_graph import DONE, MAX_TASKS, RECEIVED, FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.fused.device import ComputeDevice
from weft.agents.operators.computation import (
    ADD,
    FINISH,
    TILE,
    Computation,
    Layout,
    Work,
    operator_of,
)
from weft.agents.operators.operator import Operator, Sizes
from weft.agents.operators.registry import operator_named
from weft.agents.operators.tasks import compute_ns, in_order
from weft.base.errors import InputError

Event = tuple[int, int]

COMPUTING, SENDING = range(2)
"""The pools of workgroups: those that compute, and put unless there are others that only put."""


@dataclass(frozen=True)
class Way:
    """A way says how an operator is carried out."""

    fused: bool
    alone: str = ""
    """``communication`` or ``computation``: that alone, unfused."""
    multicasts: bool = False
    """Whether what goes to all ranks is replicated by the switches."""
    adds_in_switches: bool = False
    order: str = ""
    """The order of tasks; empty: the operator's own."""
    slice_bytes: int = 64 * 1024
    """The most that one put brings, if a tile is not larger."""
    senders: int = 0
    """How many workgroups of a fused operator do nothing but put."""


class TileSlice(NamedTuple):
    """A slice is a run of tiles for one owner."""

    owner: int
    source: int
    """The rank by whose turn it is computed."""
    tiles: tuple[int, ...]
    first: int
    """Its first byte, as `Tile.first` has it."""
    size_bytes: int
    contributors: tuple[int, ...] = ()
    """As `Tile.contributors` has them."""


class Computing(NamedTuple):
    """Which wait of the graph is what of a workgroup."""

    task: int
    rank: int
    what: str
    """``tile`` or ``put``."""


@dataclass(frozen=True)
class FusedPlan:
    """A graph and what its waits compute."""

    graph: FlowGraph
    computation: Computation
    kernel_ns: int
    """What the slowest rank takes to compute all of its tiles, from the launch on."""
    compute_ns: int
    """What the slowest rank takes for that and to add what comes to it, or to make its result of
    it."""
    add_ns: int
    """What the rank that adds most takes to do so."""
    busy_ns: int
    """The least that any order of tiles takes on the workgroups of the busiest rank, from the
    launch on."""
    computing: tuple[Computing, ...]

    def least_graph(self) -> FlowGraph:
        """Return the graph as if workgroups were never short and puts took no time: what is left
        is what any order of tiles has to wait for."""
        puts = {each.task for each in self.computing if each.what == "put"}
        delay_ns = tuple(
            0 if task in puts else delay_ns for task, delay_ns in enumerate(self.graph.delay_ns)
        )
        return replace(self.graph, delay_ns=delay_ns, pool=(), pools=())


def operator_for(
    name: str, sizes: Sizes, ranks: int, seed: int, way: Way, device: ComputeDevice
) -> Operator:
    """Return the operator that is carried out in a way.

    Raises:
        InputError: sizes that ranks or tiles do not divide, too many tiles, or workgroups that
            only send where none is left to compute.
    """
    if not 0 <= way.senders < device.workgroups:
        raise InputError(
            f"senders {way.senders} of {device.workgroups} workgroups: one at least has to "
            f"compute; choose 0 to {device.workgroups - 1}"
        )
    if way.adds_in_switches and operator_named(name).finishes:
        sizes = replace(sizes, combines=True)
    operator = operator_of(name, sizes, ranks, seed)
    if operator.most_tiles() > MAX_TASKS:
        raise InputError(
            f"operator {name} on {ranks} ranks has {operator.most_tiles()} tiles: at most "
            f"{MAX_TASKS} are valid; choose smaller sizes, or larger tiles (--tile-rows)"
        )
    return operator


def plan(
    name: str, sizes: Sizes, ranks: int, seed: int, way: Way, device: ComputeDevice
) -> FusedPlan:
    """Return the plan of an operator.

    Raises:
        InputError: as `operator_for` does, or there are too many tasks.
    """
    operator = operator_for(name, sizes, ranks, seed, way, device)
    if way.alone == "communication":
        device = replace(device, slowdown=0.0, measured=False)
    build = _Build(operator, way, device)
    kernels = _kernels(operator, way, device)
    if way.alone == "computation":
        whole = plan(name, sizes, ranks, seed, replace(way, alone=""), device)
        adding_ns = _adding_ns(whole.graph, whole.computation.work)
        build.compute_alone(adding_ns)
    else:
        build.build()
    layouts = build.layouts
    graph = build.builder.build(
        [layout.buffer_bytes for layout in layouts], [layout.output_bytes for layout in layouts]
    )
    computation = Computation(
        name, operator.sizes, ranks, seed, tuple(build.work), way.alone, device.measured
    )
    if way.alone != "computation":
        adding_ns = _adding_ns(graph, build.work)
    return FusedPlan(
        graph, computation,
        device.launch_ns + max(kernel.greedy_ns for kernel in kernels),
        device.launch_ns + max(
            kernel.greedy_ns + each_ns for kernel, each_ns in zip(kernels, adding_ns, strict=True)
        ),
        max(adding_ns),
        device.launch_ns + max(kernel.least_ns for kernel in kernels),
        tuple(build.computing),
    )  # fmt: skip


def _adding_ns(graph: FlowGraph, work: Sequence[Work]) -> list[int]:
    """Return what each rank takes for what it computes of others' tiles."""
    found = [0] * graph.ranks
    for each in work:
        if each.what in (ADD, FINISH):
            found[each.rank] += graph.delay_ns[each.task]
    return found


class _Kernel(NamedTuple):
    """How long all workgroups of a rank compute if nothing is sent, after the launch."""

    greedy_ns: int
    """As they take the rank's tiles, in the order of the way."""
    least_ns: int
    """In any order."""


def _kernels(operator: Operator, way: Way, device: ComputeDevice) -> list[_Kernel]:
    """Return the kernel of each rank."""
    found = []
    for rank in range(operator.ranks):
        costs = [
            device.work_ns(
                operator.tiles(rank)[tile].flops, operator.tiles(rank)[tile].memory_bytes
            )
            for each in slices_in_order(operator, way, rank)
            for tile in each.tiles
        ]
        least_ns = max(max(costs, default=0), -(-sum(costs) // device.workgroups))
        found.append(_Kernel(compute_ns(costs, device.workgroups), least_ns))
    return found


def slices_of(operator: Operator, rank: int, slice_bytes: int) -> list[TileSlice]:
    """Return a rank's slices in the order of its tiles."""
    found: list[TileSlice] = []
    for number, tile in enumerate(operator.tiles(rank)):
        last = found[-1] if found else None
        if (
            last is not None
            and (last.owner, last.source) == (tile.owner, tile.source)
            and last.contributors == tile.contributors
            and last.first + last.size_bytes == tile.first
            and last.size_bytes + tile.size_bytes <= slice_bytes
        ):
            size_bytes = last.size_bytes + tile.size_bytes
            found[-1] = last._replace(tiles=(*last.tiles, number), size_bytes=size_bytes)
        else:
            own = tile.owner, tile.source, (number,), tile.first, tile.size_bytes
            found.append(TileSlice(*own, tile.contributors))
    return found


def slices_in_order(operator: Operator, way: Way, rank: int) -> list[TileSlice]:
    """Return a rank's slices in the order in which it computes them."""
    found = slices_of(operator, rank, way.slice_bytes)
    turns = [each.source for each in found]
    # What switches add all ranks contribute in one order.
    first = 0 if way.adds_in_switches else rank
    order = in_order(turns, first, operator.ranks, way.order or operator.order)
    return [found[place] for place in order]


@dataclass
class _Build:
    """A graph in the making."""

    operator: Operator
    way: Way
    device: ComputeDevice
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    work: list[Work] = field(default_factory=list)
    computing: list[Computing] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    arrived: dict[tuple[int, int], Event] = field(default_factory=dict)
    """By input and destination."""
    made: dict[tuple[int, int], Event] = field(default_factory=dict)
    """By rank and tile."""
    landed: dict[int, list[Event]] = field(default_factory=dict)
    """By rank, what its result needs of others."""

    def __post_init__(self) -> None:
        senders = self.way.senders if self.way.fused else 0
        self.builder.pools = [self.device.workgroups - senders, *[senders] * (senders > 0)]
        self.layouts = [Layout(self.operator, rank) for rank in range(self.operator.ranks)]

    def compute_alone(self, adding_ns: Sequence[int]) -> None:
        """Add what ranks compute if nothing is sent: their tiles, and then, for so long, what they
        would add."""
        for rank, each_ns in enumerate(adding_ns):
            begins = self._compute(rank, slices_in_order(self.operator, self.way, rank))
            if each_ns:
                computed = dict.fromkeys(chain.from_iterable(begins.values()))
                self.builder.wait(rank, each_ns, computed)

    def build(self) -> None:
        ranks = range(self.operator.ranks)
        self._gather()
        slices = [slices_in_order(self.operator, self.way, rank) for rank in ranks]
        begins: list[dict[TileSlice, tuple[Event, ...]]] = [
            self._compute(rank, slices[rank]) for rank in ranks
        ]
        if self.operator.adds and self.way.adds_in_switches:
            self._add_in_switches(slices, begins)
        elif self.operator.adds:
            self._add(slices, begins)
        else:
            for rank in ranks:
                for each in slices[rank]:
                    self._send(rank, each, begins[rank][each])
        if self.operator.finishes:
            for rank in ranks:
                self._finish(rank)

    # -- inputs

    def _gather(self) -> None:
        multicasts = self.way.multicasts or self.operator.sizes.dispatch == "multicast"
        for number, each in enumerate(self.operator.inputs):
            targets = {
                destination: self.layouts[destination].gathered + target
                for destination, target in zip(each.destinations, each.targets, strict=True)
            }
            flows = self._bring(
                each.source, targets, each.size_bytes, 0, each.first, (), multicasts
            )
            for destination, event in flows.items():
                self.arrived[number, destination] = event

    def _bring(
        self, source: int, targets: dict[int, int], size_bytes: int, memory: int, offset: int,
        after: Sequence[Event], multicasts: bool,
    ) -> dict[int, Event]:  # fmt: skip
        """Add what brings the same bytes to some ranks, and return by rank when they are there."""
        if multicasts and len(targets) > 1:
            flows = self.builder.multicast(source, targets, size_bytes, memory, offset, after)
        else:
            flows = [
                self.builder.flow(
                    source, rank, size_bytes, after, place=FlowPlace(memory, offset, target)
                )
                for rank, target in targets.items()
            ]
        return {rank: (flow, RECEIVED) for rank, flow in zip(targets, flows, strict=True)}

    # -- tiles

    def _compute(
        self, rank: int, slices: Sequence[TileSlice]
    ) -> dict[TileSlice, tuple[Event, ...]]:
        """Add what a rank computes, and return after what each slice may be sent."""
        builder, device, fused = self.builder, self.device, self.way.fused
        come = [event for (_, to), event in self.arrived.items() if to == rank]
        launched = builder.wait(rank, device.launch_ns, () if fused else come), DONE
        tiles = self.operator.tiles(rank)
        numbers = [number for each in slices for number in each.tiles]
        costs = {
            number: device.work_ns(tiles[number].flops, tiles[number].memory_bytes)
            for number in numbers
        }
        come = [launched]
        putting = SENDING if self.way.senders and fused else COMPUTING
        begins: dict[TileSlice, tuple[Event, ...]] = {}
        for each in slices:
            for number in each.tiles:
                needs = tiles[number].needs if fused else ()
                needed = [self.arrived[need, rank] for need in needs]
                wait = builder.wait(rank, costs[number], [*come, *needed], pool=COMPUTING)
                self.work.append(Work(wait, rank, TILE, number))
                self.computing.append(Computing(wait, rank, "tile"))
                self.made[rank, number] = wait, DONE
            done = tuple(self.made[rank, number] for number in each.tiles)
            adding = not each.contributors or rank in each.contributors
            leaves = adding and (each.owner != rank or self.way.adds_in_switches)
            if fused and device.put_ns and leaves:
                wait = builder.wait(rank, device.put_ns, done, pool=putting)
                self.computing.append(Computing(wait, rank, "put"))
                done = ((wait, DONE),)
            begins[each] = done
        if not fused:
            ended = builder.wait(rank, 0, [self.made[rank, number] for number in numbers]), DONE
            begins = dict.fromkeys(slices, (ended,))
            self.landed[rank] = [ended]
        return begins

    def _send(self, rank: int, each: TileSlice, after: Sequence[Event]) -> Event:
        """Add the flow of a slice to its owner, if that is another rank, and return when it is
        there."""
        if each.owner == rank:
            self.landed.setdefault(rank, []).extend(after)
            return after[-1]
        place = FlowPlace(
            0, self.layouts[rank].tile_offsets[each.tiles[0]],
            self.layouts[each.owner].landing(rank) + each.first,
        )  # fmt: skip
        flow = self.builder.flow(rank, each.owner, each.size_bytes, after, place=place)
        self.landed.setdefault(each.owner, []).append((flow, RECEIVED))
        return flow, RECEIVED

    # -- sums

    def _add(
        self,
        slices: Sequence[Sequence[TileSlice]],
        begins: Sequence[dict[TileSlice, tuple[Event, ...]]],
    ) -> None:
        """Add that owners add what comes of all ranks, and give it to all."""
        come: dict[tuple[int, int, int], list[Event]] = {}
        for rank, own in enumerate(slices):
            for each in own:
                events = come.setdefault((each.owner, each.first, each.size_bytes), [])
                if each.owner == rank:
                    events += begins[rank][each]
                else:
                    events.append(self._send(rank, each, begins[rank][each]))
        ranks = self.operator.ranks
        for (owner, first, size_bytes), events in come.items():
            cost_ns = self.device.work_ns(ranks * size_bytes // 4, (ranks + 1) * size_bytes)
            cost_ns //= self.device.workgroups
            wait = self.builder.wait(owner, cost_ns, dict.fromkeys(events))
            self.work.append(Work(wait, owner, ADD, first, size_bytes))
            if self.operator.gives:
                place = self.layouts[owner].result + first
                others = [(owner + step) % ranks for step in range(1, ranks)]
                self._bring(
                    owner, dict.fromkeys(others, place), size_bytes, 1, place, ((wait, DONE),),
                    self.way.multicasts,
                )  # fmt: skip

    def _add_in_switches(
        self,
        slices: Sequence[Sequence[TileSlice]],
        begins: Sequence[dict[TileSlice, tuple[Event, ...]]],
    ) -> None:
        """Add that switches add the slices of all ranks, in the order in which rank 0 has them."""
        ranks, gives = range(self.operator.ranks), self.operator.gives
        own = [{(each.owner, each.first): each for each in found} for found in slices]
        for key in own[0]:
            of_ranks = [own[rank][key] for rank in ranks]
            waits = [self.builder.wait(rank, 0, begins[rank][of_ranks[rank]]) for rank in ranks]
            owner, first = key
            layout = self.layouts[owner]
            target = first + (layout.landing(owner) if self.operator.finishes else layout.result)
            places = [target * (gives or rank == owner) for rank in ranks]
            self.landed.setdefault(owner, []).append((waits[owner], DONE))
            offsets = [self.layouts[rank].tile_offsets[of_ranks[rank].tiles[0]] for rank in ranks]
            self.builder.add(
                Sum((*waits,), of_ranks[0].size_bytes, (*offsets,), (*places,),
                    NONE if gives else owner, of_ranks[0].contributors)
            )  # fmt: skip

    def _finish(self, rank: int) -> None:
        operator = self.operator
        moved = operator.landing_bytes(rank) + operator.result_bytes(rank)
        cost_ns = self.device.work_ns(operator.landing_bytes(rank) // 4, moved)
        cost_ns //= self.device.workgroups
        wait = self.builder.wait(rank, cost_ns, dict.fromkeys(self.landed[rank]))
        self.work.append(Work(wait, rank, FINISH, 0))
