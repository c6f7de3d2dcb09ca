"""Queue pairs as their user sees them: posts go in here, completions come out of
`Endpoint.poll`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.transport.sink import ChunkSink
from agents.transport.types import MemoryRegion, RemoteQueuePair, TransportMisuse

if TYPE_CHECKING:
    from agents.transport.endpoint import Endpoint


class RcQueuePair:
    """One end of a reliable connection; made by `Endpoint.create_rc`.

    Posts are carried out and completed in order. They may be posted before `connect`; they leave
    after it. A queue pair that failed (`error` is set) completes everything posted to it with an
    error.
    """

    def __init__(self, endpoint: Endpoint, index: int, number: int, initial_psn: int) -> None:
        self._endpoint = endpoint
        self._index = index
        self.number = number
        """The QP number (24 bits)."""
        self.initial_psn = initial_psn
        """The PSN of the first request that this end sends (24 bits)."""
        self.remote: RemoteQueuePair | None = None
        self.error = ""
        """Why the queue pair failed, or empty."""

    @property
    def local(self) -> RemoteQueuePair:
        """What the peer must be connected to: this end's address, number and first PSN."""
        return RemoteQueuePair(self._endpoint.address, self.number, self.initial_psn)

    def connect(self, remote: RemoteQueuePair) -> None:
        """Name the peer; TransportMisuse if there is one already."""
        raise NotImplementedError

    def post_send(self, data: bytes, context: object = None, immediate: int | None = None) -> None:
        """Send a message (it may be empty); completes as `sent`, and as `received` at the peer."""
        raise NotImplementedError

    def post_write(
        self,
        region: MemoryRegion,
        offset: int,
        length: int,
        remote_address: int,
        rkey: int,
        immediate: int | None = None,
        context: object = None,
    ) -> None:
        """RDMA WRITE `length` bytes at `offset` of `region` to the peer's memory; completes as
        `sent`.

        The bytes are read when they leave (and again if they are lost): keep them until then.
        With an immediate the peer gets `write_with_immediate`.
        """
        raise NotImplementedError

    def post_read(
        self,
        region: MemoryRegion,
        offset: int,
        length: int,
        remote_address: int,
        rkey: int,
        context: object = None,
    ) -> None:
        """RDMA READ `length` bytes of the peer's memory to `offset` of `region`; completes as
        `read_done`.

        Several may be outstanding; they complete in order.
        """
        raise NotImplementedError

    @property
    def outstanding(self) -> int:
        """Posted operations that have not completed."""
        raise NotImplementedError


class UdQueuePair:
    """A queue pair on a multicast group; made by `Endpoint.create_ud`. Sends paced runs of
    chunks, receives into sinks."""

    def __init__(
        self, endpoint: Endpoint, index: int, number: int, group_address: int, qkey: int
    ) -> None:
        self._endpoint = endpoint
        self._index = index
        self.number = number
        """The QP number that the DETH names as the source; the destination is always 0xFFFFFF."""
        self.group_address = group_address
        self.qkey = qkey
        self._sinks: dict[int, ChunkSink] = {}

    def post_chunks(
        self,
        region: MemoryRegion,
        first_chunk: int,
        count: int,
        chunk_bytes: int,
        immediate_base: int,
        rate_bps: int,
        context: object = None,
        *,
        offset: int = 0,
        length: int | None = None,
    ) -> None:
        """Multicast chunks `first_chunk` to `first_chunk + count - 1`, a packet each; completes
        as `chunks_sent`.

        Chunk i is the `chunk_bytes` bytes at `offset + i * chunk_bytes` of the region, cut short
        at `offset + length` (by default the region's end); its immediate is `immediate_base + i`
        (32 bits). Packets leave no faster than `rate_bps` of frame bytes (0: only the endpoint's
        own rate holds). Runs posted to one queue pair leave one after the other; a run of no
        chunks completes at the next `transmit`. The bytes are read when they leave.
        """
        raise NotImplementedError

    @property
    def sink(self) -> ChunkSink | None:
        """The sink last attached. Setting it detaches every other one; None detaches all."""
        return next(reversed(self._sinks.values()), None)

    @sink.setter
    def sink(self, sink: ChunkSink | None) -> None:
        for attached in list(self._sinks.values()):
            self.detach(attached)
        if sink is not None:
            self.attach(sink)

    def attach(self, sink: ChunkSink) -> None:
        """Receive the chunks of the sink's operation into it, beside those of other operations.

        TransportMisuse if another sink has the same operation number on this queue pair. One sink
        may be attached to several queue pairs (a buffer fed by several groups).
        """
        raise NotImplementedError

    def detach(self, sink: ChunkSink) -> None:
        """Receive no more into the sink: its late chunks count as `wrong_operation`."""
        raise NotImplementedError


__all__ = ["RcQueuePair", "TransportMisuse", "UdQueuePair"]
