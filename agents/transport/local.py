"""Queue pairs within one host: what two agents on the same endpoint say to each other is copied,
and becomes no packet."""

from collections.abc import Sequence
from dataclasses import replace

from weft.agents.transport.posting import Completion, Owner
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.agents.transport.types import (
    CompletionKind,
    MemoryRegion,
    RemoteQueuePair,
    TransportMisuse,
)
from weft.base.errors import refuse

FIRST_LOCAL_NUMBER = 0xF00000
"""Above all other QP numbers of an endpoint."""


class LocalQueuePair(RcQueuePair):
    """A local queue pair is one end of a connection from an endpoint to itself;
    `Endpoint.create_local` makes it.

    What is posted completes at once, in order, at both ends. SEND and RDMA WRITE work as they do
    on other RC queue pairs, with keys and bounds checked; there is no RDMA READ.
    """

    __slots__ = ("_before",)

    def __init__(self, endpoint: Owner, number: int) -> None:
        super().__init__(endpoint, -1, number, 0)
        self._before: list[tuple[object, int, Completion | None, str]] = []
        """What was posted before the other end was known."""

    def connect(self, remote: RemoteQueuePair) -> None:
        """Name the other end; TransportMisuse if there is one already, or it is not here."""
        refuse(
            self.remote is not None,
            f"queue pair {self.number:#x} is connected already",
            TransportMisuse,
        )
        self._endpoint.local_pair(remote)
        self.remote = remote
        before, self._before = self._before, []
        for context, length, arrival, error in before:
            self._deliver(context, length, arrival, error)

    @property
    def outstanding(self) -> int:
        """Return 0 once it is connected: what is posted then completes at once."""
        return len(self._before)

    def has_work_of(self, relay: int) -> bool:
        """Return False: no relay posts here, and there is no row to ask."""
        return False

    def move_acknowledgements(self) -> None:
        """Do nothing: there are no acknowledgements."""

    def share_window(self, hosts: int) -> None:
        """Do nothing: there is no window."""

    def set_source_ports(self, ports: Sequence[int]) -> None:
        """Do nothing: no packets are sent, so there are no ports."""

    def post_send(self, data: bytes, context: object = None, immediate: int | None = None) -> None:
        """Send a message; see `RcQueuePair.post_send`."""
        arrival = Completion(
            CompletionKind.RECEIVED, self, data=bytes(data), immediate=immediate, length=len(data)
        )
        self._deliver(context, len(data), arrival, "")

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
        """Copy to memory that the other end has named; see `RcQueuePair.post_write`."""
        self._endpoint.memory_of(region, offset, length)
        error = ""
        if length and not self.error:
            target = self._endpoint.named_memory(rkey, remote_address, length)
            if target is None:
                error = "remote access error: wrong key or outside the region"
            elif self._endpoint.sums is None:
                target[:] = region.buffer[offset : offset + length]
            else:
                source = region.buffer.ctypes.data + offset
                self._endpoint.sums.note_copy(target.ctypes.data, source, length)
        told = CompletionKind.WRITE_WITH_IMMEDIATE
        arrival = Completion(told, self, immediate=immediate, length=length)
        self._deliver(context, length, None if immediate is None else arrival, error)

    def post_read(self, *_: object, **__: object) -> None:
        """Raise TransportMisuse: there is no READ here."""
        raise TransportMisuse("RDMA READ within a host: copy the memory")

    def _deliver(
        self, context: object, length: int, arrival: Completion | None, error: str
    ) -> None:
        if self.remote is None:
            self._before.append((context, length, arrival, error))
            return
        endpoint = self._endpoint
        self.error = self.error or error
        kind = CompletionKind.ERROR if self.error else CompletionKind.SENT
        endpoint.complete(Completion(kind, self, context=context, length=length, error=self.error))
        if arrival is not None and not self.error:
            endpoint.complete(replace(arrival, qp=endpoint.local_pair(self.remote)))
