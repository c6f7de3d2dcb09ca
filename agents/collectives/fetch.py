"""The fetch ring: how a rank gets what multicast did not bring (SC24, "Slow path").

For every shard with gaps a request goes to the ring successor. That rank answers, with its buffer's
address and key, once it holds the whole shard (it is the source, or all has arrived or been
fetched); until then it remembers the request. The requester reads one run of missing chunks at a
time per RDMA READ, several outstanding. In the worst case the chain of requests ends at the source
itself.
"""

from __future__ import annotations

from collections import deque

from agents.collectives.communicator import Communicator
from agents.collectives.control import Control, Kind
from agents.collectives.operation import Posts, Ticket
from agents.transport.sink import ChunkSink
from agents.transport.types import Gap, MemoryRegion
from switch.errors import ProtocolError

MAX_READS = 8
"""RDMA READs outstanding at a time: more of them only means more to repeat when one is lost."""


class FetchRing:
    """One rank's part in the fetch ring of one operation: asks its successor, answers its
    predecessor."""

    def __init__(
        self,
        communicator: Communicator,
        posts: Posts,
        region: MemoryRegion,
        sink: ChunkSink,
        operation: int,
    ) -> None:
        self._communicator = communicator
        self._posts = posts
        self._region = region
        self._sink = sink
        self._operation = operation
        self._asked: set[int] = set()
        self._unanswered: set[int] = set()
        self._remembered: set[int] = set()
        self._to_read: deque[tuple[Gap, int, int]] = deque()
        self._reads = 0
        self.chunks_fetched = 0
        """Chunks that only an RDMA READ brought."""
        self.chunks_read_twice = 0
        """Chunks that multicast brought while an RDMA READ for them was under way."""
        self.predecessor_done = False
        """The predecessor has said that it will fetch no more."""

    @property
    def reading(self) -> bool:
        """RDMA READs are under way, or wait for their turn."""
        return bool(self._reads or self._to_read)

    @property
    def asked(self) -> bool:
        """The predecessor waits for shards that are not whole yet."""
        return bool(self._remembered)

    def request_missing(self) -> None:
        """Ask the successor for every shard that has gaps, each once."""
        for shard in range(self._communicator.size):
            if self._sink.missing_in(shard) and shard not in self._asked:
                self._asked.add(shard)
                self._unanswered.add(shard)
                self._send(self._communicator.next, Kind.FETCH, shard)

    def control(self, peer: int, message: Control) -> None:
        """Take a message of kind FETCH, HOLD or FETCHED."""
        if message.rank >= self._communicator.size:
            raise ProtocolError(
                f"{message.kind.name} for rank {message.rank}, which does not exist"
            )
        if message.kind is Kind.HOLD and peer == self._communicator.next:
            if message.rank in self._unanswered:
                self._unanswered.remove(message.rank)
                gaps = self._sink.gaps(message.rank)
                self._to_read += [(gap, message.address, message.rkey) for gap in gaps]
                self._read()
        elif message.kind is Kind.FETCH and peer == self._communicator.previous:
            self._remembered.add(message.rank)
            self.answer()
        elif message.kind is Kind.FETCHED and peer == self._communicator.previous:
            self.predecessor_done = True
            self._remembered.clear()
        else:
            raise ProtocolError(f"{message.kind.name} from the wrong neighbour")

    def answer(self) -> None:
        """Answer the remembered requests for shards that are whole by now."""
        for shard in sorted(self._remembered):
            if not self._sink.missing_in(shard):
                self._remembered.remove(shard)
                self._send(self._communicator.previous, Kind.HOLD, shard)

    def completed(self, ticket: Ticket) -> None:
        """An RDMA READ is complete: its chunks are in place."""
        gap = ticket.detail
        assert isinstance(gap, Gap)
        fresh = self._sink.mark(gap.first_chunk, gap.count)
        self.chunks_fetched += fresh
        self.chunks_read_twice += gap.count - fresh
        self._reads -= 1
        self._read()

    def waiting_for(self) -> str:
        """What recovery cannot go on without."""
        name = self._communicator.name(self._communicator.next)
        if self._unanswered:
            shards = ", ".join(str(shard) for shard in sorted(self._unanswered)[:8])
            return f"{name} to hold the whole shard of rank {shards}"
        return f"{name} to answer an RDMA READ"

    def _read(self) -> None:
        while self._to_read and self._reads < MAX_READS:
            gap, address, rkey = self._to_read.popleft()
            self._reads += 1
            self._posts.read(
                self._communicator.next, self._region, gap.offset, gap.length,
                address + gap.offset, rkey, gap,
            )  # fmt: skip

    def _send(self, peer: int, kind: Kind, shard: int) -> None:
        message = Control(
            kind, self._operation, rank=shard, address=self._region.address, rkey=self._region.rkey
        )
        self._posts.send(peer, message)
