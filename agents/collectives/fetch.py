"""The fetch ring: how a rank gets what multicast did not bring (SC24, "Slow path").

For every shard with gaps a request goes to the ring successor. That rank answers, with its buffer's
address and key, once it holds the whole shard (it is the source, or all has arrived or been
fetched); until then it remembers the request. The requester reads one run of missing chunks at a
time per RDMA READ, several outstanding. In the worst case the chain of requests ends at the source
itself.

Where losses are many, nearly every rank misses something, and each would wait for the next to be
whole, all around the ring. So, beyond the paper, a rank that is not whole says at once what it
misses too, and all the rest can be read from it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import MAX_RANGES, Control, Kind, Range
from weft.agents.collectives.operation import Posts, Ticket
from weft.agents.collectives.subgroups import Subgroups, without
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import ProtocolError, refuse

MAX_READS = 8
"""RDMA READs outstanding at a time: more of them only means more to repeat when one is lost."""


@dataclass(frozen=True)
class ReadTicket:
    """The detail of an RDMA READ's ticket says what it fills, and from where."""

    shard: int
    part: Range
    address: int
    rkey: int


class FetchRing:
    """A fetch ring asks the successor of one rank for missing chunks and answers its predecessor,
    in one operation (SC24, arXiv 2408.13356, "Slow path")."""

    def __init__(
        self,
        communicator: Communicator,
        posts: Posts,
        region: MemoryRegion,
        subgroups: Subgroups,
        operation: int,
    ) -> None:
        self._communicator = communicator
        self._posts = posts
        self._region = region
        self._subgroups = subgroups
        self._operation = operation
        self._asked: set[int] = set()
        self._unanswered: set[int] = set()
        self._remembered: set[int] = set()
        self._to_read: deque[ReadTicket] = deque()
        self._requested: dict[int, list[Range]] = {}
        """The ranges of each shard that were read or will be read."""
        self._reads = 0
        self.chunks_fetched = 0
        """Chunks that only an RDMA READ brought."""
        self.chunks_read_twice = 0
        """Chunks that multicast brought while an RDMA READ for them was under way."""
        self.predecessor_done = False
        """The predecessor has said that it will fetch no more."""

    @property
    def reading(self) -> bool:
        """Return whether RDMA READs are under way, or wait for their turn."""
        return bool(self._reads or self._to_read)

    @property
    def asked(self) -> bool:
        """Return whether the predecessor waits for shards that are not whole yet."""
        return bool(self._remembered)

    def request_missing(self) -> None:
        """Ask the successor for every shard that has gaps, each once."""
        for shard in self._subgroups.lacking:
            if shard not in self._asked:
                self._asked.add(shard)
                self._unanswered.add(shard)
                self._send(self._communicator.next, Kind.FETCH, shard)

    def control(self, peer: int, message: Control) -> None:
        """Take a message of kind FETCH, HOLD, HOLD_PART or FETCHED."""
        kind, shard = message.kind, message.rank
        refuse(
            shard >= self._communicator.size,
            f"{kind.name} for rank {shard}, which does not exist",
            ProtocolError,
        )
        if kind in (Kind.HOLD, Kind.HOLD_PART) and peer == self._communicator.next:
            if shard in self._unanswered:
                if kind is Kind.HOLD:
                    self._unanswered.remove(shard)
                self._read_from(message)
        elif kind is Kind.FETCH and peer == self._communicator.previous:
            self._take_request(shard)
        elif kind is Kind.FETCHED and peer == self._communicator.previous:
            self.predecessor_done = True
            self._remembered.clear()
        else:
            raise ProtocolError(f"{kind.name} from the wrong neighbour")

    def answer(self) -> None:
        """Answer the remembered requests for shards that are whole by now."""
        for shard in sorted(self._remembered):
            if not self._subgroups.missing_in(shard):
                self._remembered.remove(shard)
                self._send(self._communicator.previous, Kind.HOLD, shard)

    def completed(self, ticket: Ticket) -> None:
        """Take note that an RDMA READ is complete: its chunks are in place."""
        read = ticket.detail
        assert isinstance(read, ReadTicket)
        worker, first, end = read.part
        fresh = self._subgroups.sinks[worker].mark(first, end - first)
        self.chunks_fetched += fresh
        self.chunks_read_twice += end - first - fresh
        self._reads -= 1
        self._read()

    def waiting_for(self) -> str:
        """Return what recovery is waiting for, for an error message."""
        name = self._communicator.name(self._communicator.next)
        if self._reads:
            return f"{name} to answer an RDMA READ"
        shards = ", ".join(str(shard) for shard in sorted(self._unanswered)[:8])
        return f"{name} to hold the whole shard of rank {shards}"

    def _take_request(self, shard: int) -> None:
        self._remembered.add(shard)
        self.answer()
        if shard in self._remembered:
            gaps = self._subgroups.gaps(shard)
            if sum(end - first for _, first, end in gaps) < self._subgroups.packets(shard):
                self._send(self._communicator.previous, Kind.HOLD_PART, shard, gaps)

    def _read_from(self, message: Control) -> None:
        """Read what the successor holds and this rank misses and has not asked for."""
        shard, lacking = message.rank, sorted(message.ranges)
        requested = self._requested.setdefault(shard, [])
        found = without(without(self._subgroups.gaps(shard), lacking), requested)
        self._requested[shard] = sorted([*requested, *found])
        self._to_read += [ReadTicket(shard, part, message.address, message.rkey) for part in found]
        self._read()

    def _read(self) -> None:
        while self._to_read and self._reads < MAX_READS:
            read = self._to_read.popleft()
            self._reads += 1
            offset, length = self._subgroups.span(read.shard, read.part)
            self._posts.read(
                self._communicator.next, self._region, offset, length,
                read.address + offset, read.rkey, read,
            )  # fmt: skip

    def _send(self, peer: int, kind: Kind, shard: int, ranges: Sequence[Range] = ()) -> None:
        if len(ranges) > MAX_RANGES:
            worker = ranges[MAX_RANGES - 1][0]  # the rest as if it were missing altogether
            last = [sink.chunks_of(shard).stop for sink in self._subgroups.sinks]
            ranges = [
                *ranges[: MAX_RANGES - 1],
                (worker, ranges[MAX_RANGES - 1][1], last[worker]),
                *((other, 0, last[other]) for other in range(worker + 1, len(last))),
            ]
        message = Control(
            kind, self._operation, rank=shard, address=self._region.address,
            rkey=self._region.rkey, ranges=tuple(ranges),
        )  # fmt: skip
        self._posts.send(peer, message)
