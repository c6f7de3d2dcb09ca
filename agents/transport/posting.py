"""What all queue pairs have: work that is posted, the completions that come of it, and an endpoint
that they belong to."""

import weakref
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.noted_sums import NotedSums
from weft.agents.transport.sink import ChunkSink
from weft.agents.transport.types import (
    CompletionKind,
    MemoryRegion,
    RemoteQueuePair,
    TransportMisuse,
    TransportOptions,
)
from weft.base.jit import Words, words_in

Work = tuple[int, ...]
"""The first words of a piece of work, in the order of `layout.Work`."""
LENGTH = 2
"""Which of them is its length."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion tells of one finished operation or one arrival; `qp` is the queue pair,
    `context` what the caller posted with it."""

    kind: CompletionKind
    qp: "Posting"
    context: object = None
    data: bytes = b""
    immediate: int | None = None
    length: int = 0
    error: str = ""
    sink: ChunkSink | None = None
    source_port: int = 0


class Owner(Protocol):
    """An owner is an endpoint as its queue pairs know it; see `Endpoint`."""

    address: int
    path_mtu: int
    options: TransportOptions

    state: at.EndpointState
    sums: NotedSums | None

    @property
    def maximum_window(self) -> int:
        """Return how many packets a queue pair has under way at most."""

    def row_of(self, index: int) -> at.PairState:
        """Return a queue pair's row."""

    def first_ring_of(self, index: int) -> Words:
        """Return the ring of posted work in a queue pair's row."""

    def sinks_of(self, index: int) -> Words:
        """Return the addresses of a group's sinks, by operation."""

    def changed(self, index: int) -> None:
        """Take note that a queue pair's row is not what compiled code last saw."""

    def memory_of(self, region: MemoryRegion, offset: int, length: int) -> int:
        """Return where part of a region is in memory."""

    def named_memory(self, rkey: int, address: int, length: int) -> npt.NDArray[np.uint8] | None:
        """Return the registered memory that a peer names, or None."""

    def local_pair(self, remote: RemoteQueuePair) -> "Posting":
        """Return the local queue pair that this names."""

    def expect_repathing(self) -> None:
        """Have room for one more change of a path in a transmit."""

    def complete(self, completion: Completion) -> None:
        """Take something for `poll`."""


def check_word(name: str, value: int) -> int:
    """Return a number that goes out in 32 bits; TransportMisuse if it does not fit."""
    if not 0 <= value < 1 << 32:
        raise TransportMisuse(f"{name} {value} does not fit 32 bits")
    return value


class Posting:
    """What both kinds of queue pair have: work that compiled code knows, work that waits for room,
    and contexts.

    There may be a million of them in a process: what most do not need is made when it is needed.
    """

    __slots__ = ("_home", "_index", "_posted", "_ring", "_waiting", "number")

    def __init__(self, endpoint: Owner, index: int, number: int) -> None:
        # Weak, or an endpoint and its buffers would stay until a collection.
        self._home = weakref.ref(endpoint)
        self._index = index
        self.number = number
        """The QP number (24 bits)."""
        self._posted: list[tuple[CompletionKind, object, int, object]] = []
        self._waiting: deque[Work] | None = None
        self._ring: Words | None = None
        """The ring of posted work once that in the row was too small."""

    @property
    def _endpoint(self) -> Owner:
        """Return the endpoint whose queue pair it is; whoever uses the queue pair keeps that,
        too."""
        endpoint = self._home()
        if endpoint is None:
            raise TransportMisuse(
                f"queue pair {self.number:#x}: its endpoint is gone; keep the endpoint for as long "
                "as its queue pairs are used"
            )
        return endpoint

    @property
    def row(self) -> int:
        """Return the number of its row in the endpoint's table."""
        return self._index

    @property
    def outstanding(self) -> int:
        """Return how many posted operations have not completed."""
        return len(self._posted)

    def _post(
        self, kind: CompletionKind, context: object, length: int, memory: object, work: Work
    ) -> None:
        self._posted.append((kind, context, length, memory))
        if self._waiting is None and self._hand_over(work):
            self._endpoint.changed(self._index)
        else:
            self._waiting = self._waiting or deque()
            self._waiting.append(work)
            self._endpoint.row_of(self._index).work_waits = 1

    def _fill(self) -> None:
        """Hand compiled code as much of the work that waits as it has room for."""
        if self._waiting is None:
            return
        while self._waiting and self._hand_over(self._waiting[0]):
            self._waiting.popleft()
        if not self._waiting:
            self._waiting = None
            self._endpoint.row_of(self._index).work_waits = 0
        self._endpoint.changed(self._index)

    def _hand_over(self, work: Work) -> bool:
        """Put a piece of work into the ring; False if compiled code has as much as it takes."""
        row = self._endpoint.row_of(self._index)
        first, following, room = row.first_work, row.next_work, row.work_room
        if following - first == room:
            if room >= at.MAXIMUM_WORK_ROOM:
                return False
            room = 2 * room
            self._enlarge_ring(row, room)
        ring = self._ring_of()
        ring[following % room] = self._place(row, work)
        row.next_work = following + 1
        return True

    def _ring_of(self) -> Words:
        return self._endpoint.first_ring_of(self._index) if self._ring is None else self._ring

    def make_room(self, pieces: int) -> None:
        """Have room for so many pieces of work that compiled code posts."""
        row = self._endpoint.row_of(self._index)
        room = 1 << (pieces - 1).bit_length()
        if room > row.work_room:
            self._enlarge_ring(row, room)

    def _enlarge_ring(self, row: at.PairState, room: int) -> None:
        before = self._ring_of()
        first, following = row.first_work, row.next_work
        ring: Words = np.zeros((room, words_in(at.WorkRequest)), np.int64)
        for number in range(first, following):
            ring[number % room] = before[number % len(before)]
        self._ring = ring
        row.work_ring = ring.ctypes.data
        row.work_room = room

    def _place(self, row: at.PairState, work: Work) -> Work:
        return work
