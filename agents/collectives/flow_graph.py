"""Flows that depend on each other: who sends how much to whom, and what each waits for.

A *task* is a flow, a message from one rank to another, or a wait of one rank. It begins when enough
of the *events* that it waits for have happened, and its delay after that: a flow is then sent, a
wait is then over. Events are the end of a wait, a flow's bytes all acknowledged at its source, and
a flow's bytes all there at its destination. An event on another rank is told by a message.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from weft.base.errors import InputError, refuse

IntArray = npt.NDArray[np.int64]

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

    def __post_init__(self) -> None:
        tasks, edges = len(self.source), len(self.cause)
        columns = (self.destination, self.size_bytes, self.delay_ns, self.needed)
        lengths = {len(column) for column in columns}
        refuse(
            not (lengths == {tasks} and {len(self.event), len(self.waiting)} == {edges}),
            "flows: columns of different lengths",
        )
        refuse(not 0 < tasks <= MAX_TASKS, f"{tasks} flows and waits: 1 to {MAX_TASKS} are valid")
        self._check_tasks()
        self._check_dependencies()

    def _check_tasks(self) -> None:
        try:
            table = self.table
        except (OverflowError, TypeError, ValueError) as error:
            raise InputError(f"flows: a number is out of range: {error}") from None
        ranks = np.concatenate([table.source, table.destination])
        times = int(np.sum(table.delay_ns.astype(np.float64)) < MAX_TIME_NS)
        refuse(
            not (ranks.min() >= 0 and table.delay_ns.min() >= 0 and times),
            "flows: a rank or a time is out of range",
        )
        wait = table.source == table.destination
        for task in np.flatnonzero(np.where(wait, table.size_bytes != 0, table.size_bytes < 1))[:1]:
            raise InputError(
                f"flow {task} from rank {self.source[task]} to rank {self.destination[task]} of "
                f"{self.size_bytes[task]} bytes: a flow goes to another rank and has 1 at least"
            )

    def _check_dependencies(self) -> None:
        table, tasks = self.table, len(self.source)
        for column in (table.cause, table.waiting):
            refuse(
                not (not len(column) or (column.min() >= 0 and column.max() < tasks)),
                f"flows: a dependency on what is none of the {tasks}",
            )
        refuse(
            not np.isin(table.event, (DONE, RECEIVED)).all(),
            "flows: a dependency on an event that is none",
        )
        wait = (table.source == table.destination)[table.cause]
        refuse(
            (wait & (table.event == RECEIVED)).any(), "flows: a wait is not received: it is done"
        )
        found = np.bincount(table.waiting, minlength=tasks)
        for task in np.flatnonzero((table.needed < 0) | (table.needed > found))[:1]:
            raise InputError(
                f"flow {task} waits for {self.needed[task]} of {found[task]} events: never begins"
            )
        never = [task for task, time in enumerate(self.least_ns(0)) if time is None]
        if never:
            raise InputError(
                f"{len(never)} flows wait for each other, so that none of them begins; the first "
                f"is number {never[0]}, from rank {self.source[never[0]]} to rank "
                f"{self.destination[never[0]]}"
            )

    @cached_property
    def table(self) -> "FlowColumns":
        """Return the columns of the graph as arrays."""
        return FlowColumns(
            *(np.array(getattr(self, field.name), np.int64) for field in fields(self))
        )

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
            self._first_blocks[block_size] = _before(self._received, blocks)
        return self._first_blocks[block_size]

    @cached_property
    def target_bytes(self) -> IntArray:
        """Return for each task that is a flow where its bytes begin at its destination; int64
        [tasks]."""
        return _before(self._received, self.table.size_bytes)

    @cached_property
    def _first_blocks(self) -> dict[int, IntArray]:
        return {}

    @cached_property
    def _sent(self) -> dict[int, IntArray]:
        return _by_rank(self.flows, self.table.source)

    @cached_property
    def _received(self) -> dict[int, IntArray]:
        return _by_rank(self.flows, self.table.destination)

    def sizes(self, flows: IntArray) -> list[int]:
        """Return bytes of each of some flows."""
        sizes: list[int] = self.table.size_bytes[flows].tolist()
        return sizes

    @cached_property
    def total_bytes(self) -> int:
        """Return the bytes of all flows."""
        return int(self.table.size_bytes.sum())

    @cached_property
    def at_rank(self) -> IntArray:
        """Return the rank on which the event of each dependency happens."""
        table = self.table
        received = table.event == RECEIVED
        return np.where(received, table.destination[table.cause], table.source[table.cause])

    def partners(self, rank: int) -> set[int]:
        """Return the ranks that one sends to, or hears from."""
        table = self.table
        found: set[int] = set()
        told = table.source[table.waiting]
        for one, other in ((table.source, table.destination), (self.at_rank, told)):
            found.update(other[one == rank].tolist(), one[other == rank].tolist())
        return found - {rank}

    def least_ns(self, rate_bps: int) -> list[int | None]:
        """Return when each task ends at the earliest, counted from the start, as if a flow had its
        links to itself.

        0 bit/s: as if bytes took no time. None: never.
        """
        ends_ns = self.ends_ns(rate_bps)
        return [ends_ns.get(task) for task in range(len(self.source))]

    def ends_ns(self, rate_bps: int) -> dict[int, int]:
        """Return `least_ns` by task, in the order in which they end."""
        after: dict[int, list[int]] = {}
        for cause, waiting in zip(self.cause, self.waiting, strict=True):
            after.setdefault(cause, []).append(waiting)
        left = list(self.needed)
        ended: dict[int, int] = {}
        due = [(self._span_ns(task, rate_bps), task) for task in range(len(left)) if not left[task]]
        heapq.heapify(due)
        while due:
            now_ns, task = heapq.heappop(due)
            ended[task] = now_ns
            for following in after.get(task, ()):
                left[following] -= 1
                if not left[following]:
                    end_ns = now_ns + self._span_ns(following, rate_bps)
                    heapq.heappush(due, (end_ns, following))
        return ended

    def span_ns(self, rate_bps: int) -> int:
        """Return the latest of the times of `least_ns`."""
        return max(time for time in self.least_ns(rate_bps) if time is not None)

    def _span_ns(self, task: int, rate_bps: int) -> int:
        bits = 8 * self.size_bytes[task]
        return self.delay_ns[task] + (bits * 10**9 // rate_bps if rate_bps else 0)


def _by_rank(flows: IntArray, rank_of: IntArray) -> dict[int, IntArray]:
    """Return the flows, in order, by a rank that each has."""
    ranks = rank_of[flows]
    order = np.argsort(ranks, kind="stable")
    found, starts = np.unique(ranks[order], return_index=True)
    groups = np.split(flows[order], starts[1:])
    return dict(zip(found.tolist(), groups, strict=False))  # of no flows there is an empty group


def _before(groups: dict[int, IntArray], amounts: IntArray) -> IntArray:
    """Return the sum of the amounts of those before each task in its group."""
    sums = np.zeros(len(amounts), np.int64)
    for tasks in groups.values():
        sums[tasks] = np.cumsum(amounts[tasks]) - amounts[tasks]
    return sums


@dataclass(frozen=True, eq=False)
class FlowColumns:
    """The columns of a `FlowGraph` are int64 arrays of one length."""

    source: IntArray
    destination: IntArray
    size_bytes: IntArray
    delay_ns: IntArray
    needed: IntArray
    cause: IntArray
    event: IntArray
    waiting: IntArray


class GraphBuilder:
    """A builder makes a `FlowGraph` task by task. Events are (task, `DONE` or `RECEIVED`)."""

    def __init__(self) -> None:
        self._tasks: list[tuple[int, int, int, int, int]] = []
        self._edges: list[tuple[int, int, int]] = []

    @property
    def flows(self) -> int:
        """Return how many flows were added so far."""
        return sum(task[0] != task[1] for task in self._tasks)

    def flow(
        self, source: int, destination: int, size_bytes: int,
        after: Iterable[tuple[int, int]] = (), delay_ns: int = 0,
    ) -> int:  # fmt: skip
        """Add a flow that waits for all of some events, and return its number."""
        return self._add((source, destination, size_bytes, delay_ns), after, None)

    def wait(
        self, rank: int, delay_ns: int = 0, after: Iterable[tuple[int, int]] = (),
        needed: int | None = None,
    ) -> int:  # fmt: skip
        """Add a wait for some events, or for so many of them, and return its number."""
        return self._add((rank, rank, 0, delay_ns), after, needed)

    def build(self) -> FlowGraph:
        """Return the graph; raises InputError as `FlowGraph` does."""
        tasks = list(zip(*self._tasks, strict=True)) or [()] * 5
        edges = list(zip(*self._edges, strict=True)) or [()] * 3
        return FlowGraph(*tasks, *edges)

    def _add(
        self, task: tuple[int, int, int, int], after: Iterable[tuple[int, int]],
        needed: int | None,
    ) -> int:  # fmt: skip
        number = len(self._tasks)
        events = dict.fromkeys(after)
        self._edges += [(*event, number) for event in events]
        self._tasks.append((*task, len(events) if needed is None else needed))
        return number
