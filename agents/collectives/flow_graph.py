"""Flows that depend on each other: who sends how much to whom, and what each waits for.

A *task* is a flow, a message from one rank to another, or a wait of one rank. It begins when enough
of the *events* that it waits for have happened, and its delay after that: a flow is then sent, a
wait is then over. Events are the end of a wait, a flow's bytes all acknowledged at its source, and
a flow's bytes all there at its destination. An event on another rank is told by a message.

A flow may *follow* another one: it sends on the bytes that come by that one, block by block, as
they come. Flows with the same bytes from one rank to several others may be one *multicast*: the
source sends the bytes once, and the switches bring them to all. Waits of all ranks may be one
*sum*: when each of them has begun, the switches add what their ranks have, and the waits are over
where the sums have come.

Waits may share *workgroups*: a rank carries out only so many of them at a time. Of those that could
begin, the one with the lowest number takes a workgroup that is free.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from weft.agents.collectives.flow_columns import (
    NONE,
    FlowColumns,
    FlowMulticast,
    FlowPlaces,
    IntArray,
    Sum,
    by_rank,
    partners_of,
    sums_before,
)
from weft.agents.collectives.workgroups import Workgroups
from weft.base.errors import InputError, refuse

DONE, RECEIVED = range(2)
"""Events: a wait is over or a flow acknowledged, at its rank; a flow has come, at its
destination."""
MAX_TASKS = 1 << 20
MAX_TIME_NS = 1 << 62


@dataclass(frozen=True)
class FlowGraph:
    """A graph of flows says what each task waits for; see the module. Tasks are numbered from 0,
    and columns have an entry for each.

    Raises:
        InputError: columns that do not fit each other, a size, time or rank out of range, or tasks
            that can never begin.
    """

    source: tuple[int, ...]
    """The rank that sends a flow, or waits."""
    destination: tuple[int, ...]
    """The rank that a flow goes to; of a wait, the source."""
    size_bytes: tuple[int, ...]
    """The size of a flow, at least 1; 0 for a wait."""
    delay_ns: tuple[int, ...]
    """From when a task could begin until a flow is sent or a wait is over."""
    needed: tuple[int, ...]
    """How many events must have happened before a task can begin. 0 means that it can begin at the
    start."""
    cause: tuple[int, ...] = ()
    """For each dependency, the task whose event is waited for..."""
    event: tuple[int, ...] = ()
    """... which event, `DONE` or `RECEIVED`..."""
    waiting: tuple[int, ...] = ()
    """... and the task that waits for it."""
    follows: tuple[int, ...] = ()
    """For each task, the flow that it follows, or `NONE`. Empty: no flow follows another."""
    multicast: tuple[int, ...] = ()
    """For each task, the number of the multicast that it belongs to, or `NONE`. Empty: there is
    none."""
    places: FlowPlaces | None = None
    """Where the bytes are. None: the flows that a rank sends follow each other in its buffer in
    order, and those that come to it in its output."""
    sums: tuple[Sum, ...] = ()
    """What switches add, in the order in which all ranks contribute."""
    pool: tuple[int, ...] = ()
    """For each task, the pool of workgroups that it needs one of, or `NONE`. Empty: none needs
    any."""
    pools: tuple[int, ...] = ()
    """How many workgroups of each pool a rank has."""

    def __post_init__(self) -> None:
        tasks, edges = len(self.source), len(self.cause)
        columns = (self.destination, self.size_bytes, self.delay_ns, self.needed)
        lengths = {len(column) for column in columns}
        refuse(
            lengths != {tasks} or {len(self.event), len(self.waiting)} != {edges},
            "flows: columns of different lengths",
        )
        if not 0 < tasks <= MAX_TASKS:
            raise InputError(f"{tasks} flows and waits: 1 to {MAX_TASKS} are valid")
        for column in (self.follows, self.multicast, self.pool):
            refuse(column and len(column) != tasks, "flows: columns of different lengths")
        self._check_tasks()
        self._check_followers()
        self._check_multicasts()
        self._check_places()
        self._check_sums()
        self._check_pools()
        self._check_dependencies()

    def _check_tasks(self) -> None:
        try:
            table = self.table
        except (OverflowError, TypeError, ValueError) as error:
            raise InputError(f"flows: a number is out of range: {error}") from None
        ranks = np.concatenate([table.source, table.destination])
        total_ns = np.sum(table.delay_ns.astype(np.float64))
        refuse(
            ranks.min() < 0 or table.delay_ns.min() < 0 or total_ns >= MAX_TIME_NS,
            "flows: a rank or a time is out of range",
        )
        wait = table.source == table.destination
        for task in np.flatnonzero(np.where(wait, table.size_bytes != 0, table.size_bytes < 1))[:1]:
            raise InputError(
                f"flow {task} from rank {self.source[task]} to rank {self.destination[task]} of "
                f"{self.size_bytes[task]} bytes: a flow goes to another rank and has 1 at least"
            )

    def _check_followers(self) -> None:
        table = self.table
        for task in np.flatnonzero(table.follows != NONE).tolist():
            followed = self.follows[task]
            fits = (
                0 <= followed < len(self.source)
                and self.destination[followed] == self.source[task] != self.source[followed]
                and self.size_bytes[followed] == self.size_bytes[task]
                and table.multicast[task] == NONE
                and self.places is not None
                and self.places.memory[task] == 1
                and self.places.offset[task] == self.places.target[followed]
            )
            if not fits:
                raise InputError(
                    f"flow {task} follows {followed}, which does not bring its bytes to its source"
                )

    def _check_multicasts(self) -> None:
        for number, cast in enumerate(self.multicasts):
            columns: list[tuple[int, ...]] = [self.source, self.size_bytes]
            if self.places is not None:
                columns += [self.places.memory, self.places.offset]
            alike = all(len({column[flow] for flow in cast.flows}) == 1 for column in columns)
            apart = len({*cast.destinations, cast.source}) == len(cast.flows) + 1
            if not (cast.flows and alike and apart and self.places is not None):
                raise InputError(
                    f"multicast {number}: its flows are not of the same bytes from one rank to "
                    "others"
                )

    def _check_places(self) -> None:
        places = self.places
        if places is None:
            return
        refuse(
            {len(column) for column in (places.memory, places.offset, places.target)}
            != {len(self.source)}
            or min(len(places.buffer_bytes), len(places.output_bytes)) < self.ranks,
            "flows: columns of different lengths",
        )
        sizes = np.array([places.buffer_bytes, places.output_bytes], np.int64)
        table, flows = self.table, self.flows
        memory, offset, target = (
            np.array(column, np.int64)[flows]
            for column in (places.memory, places.offset, places.target)
        )
        if not np.isin(memory, (0, 1)).all():
            raise InputError("flows: a memory that there is not")
        size = table.size_bytes[flows]
        outside = (
            (np.minimum(offset, target) < 0)
            | (offset + size > sizes[memory, table.source[flows]])
            | (target + size > sizes[1, table.destination[flows]])
        )
        for flow in flows[outside].tolist()[:1]:
            raise InputError(f"flow {flow}: its bytes are outside the memory of its ranks")

    def _check_sums(self) -> None:
        places = self.places
        refuse(self.sums and places is None, "flows: sums need places")
        for number, each in enumerate(self.sums):
            columns = each.waits, each.offset, each.target
            ranks = range(len(each.waits))
            fits = (
                places is not None
                and {len(column) for column in columns} == {self.ranks}
                and all(0 <= wait < len(self.source) for wait in each.waits)
                and all(
                    (self.source[wait], self.destination[wait]) == (rank, rank)
                    for rank, wait in zip(ranks, each.waits, strict=True)
                )
                and each.size_bytes > 0
                and not any(number % 4 for number in (each.size_bytes, *each.offset, *each.target))
                and (each.owner == NONE or each.owner in ranks)
                and {*each.contributors} <= {*ranks}
                and all(
                    0 <= offset <= places.buffer_bytes[rank] - each.size_bytes
                    and 0 <= target <= places.output_bytes[rank] - each.size_bytes * each.gets(rank)
                    for rank, offset, target in zip(ranks, each.offset, each.target, strict=True)
                )
            )
            if not fits:
                raise InputError(
                    f"sum {number}: it is no wait of each rank with whole float32 numbers in the "
                    "memory of each"
                )
        sum_of: dict[int, int] = {}
        for number, each in enumerate(self.sums):
            for wait in each.waits:
                other = sum_of.setdefault(wait, number)
                refuse(other != number, f"sums {other} and {number}: both have wait {wait}")

    def _check_pools(self) -> None:
        for pool, workgroups in enumerate(self.pools):
            refuse(workgroups < 1, f"pool {pool} has {workgroups} workgroups: 1 at least is valid")
        there = f"0 to {len(self.pools) - 1} are valid" if self.pools else "there is none"
        for task, pool in enumerate(self.pool):
            if pool == NONE:
                continue
            needs = f"task {task} needs a workgroup of pool {pool}"
            if not 0 <= pool < len(self.pools):
                raise InputError(f"{needs}: {there}")
            refuse(
                self.source[task] != self.destination[task] or task in self.sum_of,
                f"{needs}: neither flows nor waits of a sum need any",
            )

    def _check_dependencies(self) -> None:
        table, tasks = self.table, len(self.source)
        for column in (table.cause, table.waiting):
            refuse(
                len(column) and (column.min() < 0 or column.max() >= tasks),
                f"flows: a dependency on what is none of the {tasks}",
            )
        if not np.isin(table.event, (DONE, RECEIVED)).all():
            raise InputError("flows: a dependency on an event that is none")
        wait = table.source == table.destination
        refuse(
            (wait[table.cause] & (table.event == RECEIVED)).any(),
            "flows: a wait is not received: it is done",
        )
        found = np.bincount(table.waiting, minlength=tasks)
        for task in np.flatnonzero((table.needed < 0) | (table.needed > found))[:1]:
            raise InputError(
                f"flow {task} waits for {self.needed[task]} of {found[task]} events: never begins"
            )
        never = [task for task, time in enumerate(self.least_ns(0)) if time is None]
        if never:
            flows = [task for task in never if not wait[task]] or never
            raise InputError(
                f"{len(flows)} flows wait for each other, so that none of them begins; the first "
                f"is number {flows[0]}, from rank {self.source[flows[0]]} to rank "
                f"{self.destination[flows[0]]}"
            )

    @cached_property
    def table(self) -> "FlowColumns":
        """Return the columns of the graph as arrays."""
        none = np.full(len(self.source), NONE, np.int64)
        given = {each.name: getattr(self, each.name) for each in fields(FlowColumns)}
        columns = {name: np.array(column, np.int64) for name, column in given.items()}
        for name in ("follows", "multicast"):
            columns[name] = columns[name] if given[name] else none
        return FlowColumns(**columns)

    @property
    def ranks(self) -> int:
        """Return how many ranks the tasks are of: one more than the highest."""
        return 1 + max(max(self.source), max(self.destination))

    @cached_property
    def flows(self) -> IntArray:
        """Return the tasks that are flows, in order."""
        return np.flatnonzero(self.table.source != self.table.destination)

    def sent_by(self, rank: int) -> IntArray:
        """Return the flows of a source; their bytes follow each other in its buffer in this
        order."""
        return self._sent.get(rank, self.flows[:0])

    def received_by(self, rank: int) -> IntArray:
        """Return the flows to a destination; their bytes follow each other there in this order."""
        return self._received.get(rank, self.flows[:0])

    def first_blocks(self, block_size: int) -> IntArray:
        """Return for each task that is a flow which number its first block has at its destination,
        where the blocks of all flows that come there are numbered through; int64 [tasks]."""
        if block_size not in self._first_blocks:
            blocks = -(-self.table.size_bytes // block_size)
            self._first_blocks[block_size] = sums_before(self._received, blocks)
        return self._first_blocks[block_size]

    @cached_property
    def target_bytes(self) -> IntArray:
        """Return for each task that is a flow where its bytes begin at its destination; int64
        [tasks]."""
        if self.places is not None:
            return np.array(self.places.target, np.int64)
        return sums_before(self._received, self.table.size_bytes)

    @cached_property
    def offset_bytes(self) -> IntArray:
        """Return for each task that is a flow where its bytes begin in the memory of its source
        that it is read from; int64 [tasks]."""
        if self.places is not None:
            return np.array(self.places.offset, np.int64)
        return sums_before(self._sent, self.table.size_bytes)

    def buffer_bytes(self, rank: int) -> int:
        """Return the size of a rank's buffer, from which it sends."""
        if self.places is None:
            return sum(self.sizes(self.sent_by(rank)))
        return self.places.buffer_bytes[rank] if rank < len(self.places.buffer_bytes) else 0

    def output_bytes(self, rank: int) -> int:
        """Return the size of a rank's output, to which others send."""
        if self.places is None:
            return sum(self.sizes(self.received_by(rank)))
        return self.places.output_bytes[rank] if rank < len(self.places.output_bytes) else 0

    @cached_property
    def multicasts(self) -> tuple[FlowMulticast, ...]:
        """Return the multicasts by their numbers."""
        table = self.table
        flows: dict[int, list[int]] = {}
        for task in np.flatnonzero(table.multicast != NONE).tolist():
            flows.setdefault(self.multicast[task], []).append(task)
        refuse(sorted(flows) != [*range(len(flows))], "multicasts: numbers that do not follow")
        groups: dict[tuple[int, frozenset[int]], int] = {}
        shards: dict[int, int] = {}
        found = []
        for number in range(len(flows)):
            source = self.source[flows[number][0]]
            destinations = tuple(self.destination[flow] for flow in flows[number])
            group = groups.setdefault((source, frozenset(destinations)), len(groups))
            shard = shards[group] = shards.get(group, -1) + 1
            size_bytes = self.size_bytes[flows[number][0]]
            found.append(
                FlowMulticast(source, destinations, (*flows[number],), size_bytes, group, shard)
            )
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the ranks of each multicast group that is needed: the source, then those that
        receive from it, in order."""
        members = {
            cast.group: (cast.source, *sorted(cast.destinations)) for cast in self.multicasts
        }
        return tuple(members[group] for group in range(len(members)))

    @cached_property
    def sent_once(self) -> IntArray:
        """Return the flows that a source sends by itself, and of each multicast the first one."""
        later = {flow for cast in self.multicasts for flow in cast.flows[1:]}
        return np.array([flow for flow in self.flows.tolist() if flow not in later], np.int64)

    @cached_property
    def sum_of(self) -> dict[int, int]:
        """Return by wait the number of the sum that it belongs to."""
        return {wait: number for number, each in enumerate(self.sums) for wait in each.waits}

    @cached_property
    def _first_blocks(self) -> dict[int, IntArray]:
        return {}

    @cached_property
    def _sent(self) -> dict[int, IntArray]:
        return by_rank(self.flows, self.table.source)

    @cached_property
    def _received(self) -> dict[int, IntArray]:
        return by_rank(self.flows, self.table.destination)

    def sizes(self, flows: IntArray) -> list[int]:
        """Return bytes of each of some flows."""
        sizes: list[int] = self.table.size_bytes[flows].tolist()
        return sizes

    @cached_property
    def sent_bytes(self) -> tuple[int, ...]:
        """Return the bytes of the flows that each rank sends."""
        sent = np.zeros(self.ranks, np.int64)
        np.add.at(sent, self.table.source[self.flows], self.table.size_bytes[self.flows])
        return tuple(sent.tolist())

    @cached_property
    def total_bytes(self) -> int:
        """Return the bytes of all flows, and of what ranks send to be added by switches."""
        added = sum(
            each.size_bytes * sum(map(each.sends, range(len(each.waits)))) for each in self.sums
        )
        return int(self.table.size_bytes.sum()) + added

    @cached_property
    def at_rank(self) -> IntArray:
        """Return the rank on which the event of each dependency happens."""
        table = self.table
        received = table.event == RECEIVED
        return np.where(received, table.destination[table.cause], table.source[table.cause])

    def partners(self, rank: int) -> set[int]:
        """Return the ranks that one sends to, or hears from."""
        return self._partners.get(rank, set()) - {rank}

    @cached_property
    def _partners(self) -> dict[int, set[int]]:
        return partners_of(self.table, self.at_rank)

    def least_ns(self, rate_bps: int) -> list[int | None]:
        """Return when each task ends at the earliest, counted from the start, as if a flow had its
        links to itself; None: never. At 0 bit/s bytes take no time."""
        ends_ns = self.ends_ns(rate_bps)
        return [ends_ns.get(task) for task in range(len(self.source))]

    def ends_ns(self, rate_bps: int, carried_bytes: Sequence[int] = ()) -> dict[int, int]:
        """Return `least_ns` by task, in the order in which they end.

        Args:
            carried_bytes: by task, what links carry of a flow, if that is not its size.
        """
        sizes = carried_bytes or self.size_bytes
        after: dict[int, list[int]] = {}
        for cause, waiting in zip(self.cause, self.waiting, strict=True):
            after.setdefault(cause, []).append(waiting)
        followers: dict[int, list[int]] = {}
        for task, followed in enumerate(self.follows):
            if followed != NONE:
                followers.setdefault(followed, []).append(task)
        left = list(self.needed)
        ended: dict[int, int] = {}
        begun: dict[int, int] = {}
        due: list[tuple[int, int]] = []
        contributed: dict[int, list[int]] = {}
        """When each of the waits of a sum contributes, as far as it is known."""
        posted_ns: list[int] = []
        """When the last rank contributes to each sum, of those whose turn has come."""
        workgroups = Workgroups(self.source, self.pool, self.pools)

        def begin(task: int, now_ns: int) -> None:
            if workgroups.needs(task):
                workgroups.ready(task)
                return
            number = self.sum_of.get(task)
            if number is not None:
                contributed.setdefault(number, []).append(now_ns + self.delay_ns[task])
                add()
                return
            begun[task] = now_ns + self.delay_ns[task]
            begun[task] += 8 * sizes[task] * 10**9 // rate_bps if rate_bps else 0
            end(task, now_ns)

        def add() -> None:
            # All ranks contribute in the order of the sums.
            while (number := len(posted_ns)) < len(self.sums):
                each, times_ns = self.sums[number], contributed.get(number, [])
                if len(times_ns) < len(each.waits):
                    return
                posted_ns.append(max([*times_ns, *posted_ns[-1:]]))
                bits = 8 * each.size_bytes
                over_ns = posted_ns[-1] + (bits * 10**9 // rate_bps if rate_bps else 0)
                for wait in each.waits:
                    heapq.heappush(due, (over_ns, wait))

        def end(task: int, now_ns: int) -> None:
            # What follows another ends no earlier than that, however early it could begin.
            follows = bool(self.follows) and self.follows[task] != NONE
            if task in begun and (not follows or self.follows[task] in ended):
                heapq.heappush(due, (max(begun[task], now_ns), task))

        for task, needed in enumerate(left):
            if not needed:
                begin(task, 0)
        for each in workgroups.taken():
            heapq.heappush(due, (self.delay_ns[each], each))
        while due:
            now_ns, task = heapq.heappop(due)
            ended[task] = now_ns
            for following in after.get(task, ()):
                left[following] -= 1
                if not left[following]:
                    begin(following, now_ns)
            for follower in followers.get(task, ()):
                end(follower, now_ns)
            if workgroups.needs(task):
                workgroups.leave(task)
            for each in workgroups.taken():
                heapq.heappush(due, (now_ns + self.delay_ns[each], each))
        return ended

    def span_ns(self, rate_bps: int, carried_bytes: Sequence[int] = ()) -> int:
        """Return the latest of the times of `ends_ns`."""
        return max(self.ends_ns(rate_bps, carried_bytes).values())
