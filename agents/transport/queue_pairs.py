"""Queue pairs as their user sees them: posts go in here, completions come out of
`Endpoint.poll`."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams, ipv4_text
from weft.agents.transport import layout as at
from weft.agents.transport.posting import LENGTH, Completion, Owner, Posting, Work, check_word
from weft.agents.transport.receive_worker import ReceiveWorker
from weft.agents.transport.sink import ChunkSink, in_its_place
from weft.agents.transport.types import (
    CompletionKind,
    MemoryRegion,
    RemoteQueuePair,
    TransportMisuse,
)
from weft.agents.wire.headers import (
    HAS_IMMEDIATE,
    IS_FIRST,
    IS_LAST,
    LAST_SEQUENCE,
    SYNDROME_INVALID_REQUEST,
    SYNDROME_REMOTE_ACCESS_ERROR,
)
from weft.base.errors import refuse
from weft.base.jit import Words, word_of

_MAXIMUM_MESSAGE = (1 << 31) - 1
_RELAY = word_of(at.WorkRequest, "chunk_bytes_or_relay")
_REFUSALS = {
    SYNDROME_REMOTE_ACCESS_ERROR: "remote access error: wrong key or outside the region",
    SYNDROME_INVALID_REQUEST: "invalid request",
}


def _signed(address: int) -> int:
    """Return a 64-bit address as the int64 with the same bits."""
    return (address + (1 << 63)) % (1 << 64) - (1 << 63)


class RcQueuePair(Posting):
    """An RC queue pair is one end of a reliable connection (IBTA specification 1.4, 9.7);
    `Endpoint.create_rc` makes it.

    Posts are carried out and completed in order. They may be posted before `connect`; they leave
    after it. A queue pair that failed (`error` is set) completes everything posted to it with an
    error.
    """

    __slots__ = ("_kept", "_parts", "_ports", "error", "initial_psn", "remote")

    def __init__(self, endpoint: Owner, index: int, number: int, initial_psn: int) -> None:
        super().__init__(endpoint, index, number)
        self.initial_psn = initial_psn
        """The PSN of the first request that this end sends (24 bits)."""
        self.remote: RemoteQueuePair | None = None
        self.error = ""
        """Why the queue pair failed, or empty."""
        self._parts: list[bytes] | None = None
        """The parts of a message that has not ended."""
        self._kept: dict[int, tuple[bytes, int, int]] | None = None
        """Parts of messages that came ahead of a gap, with bits and immediate, by sequence
        number."""
        self._ports: npt.NDArray[np.int64] | None = None

    @property
    def outstanding(self) -> int:
        """Return how many operations have not completed, of those that were posted to it and of
        those that relays have posted."""
        return super().outstanding + int(np.count_nonzero(self._relays()))

    def has_work_of(self, relay: int) -> bool:
        """Return whether there is work under way that the relay at an address has posted."""
        return bool(np.any(self._relays() == relay))

    def _relays(self) -> Words:
        """Return, for each piece of work that compiled code knows, the address of the relay that
        has posted it, or 0."""
        row, ring = self._endpoint.row_of(self._index), self._ring_of()
        places = np.arange(row.first_work, row.next_work) % len(ring)
        relays: Words = ring[places, _RELAY]
        return relays

    @property
    def retransmitted_packets(self) -> int:
        """Return how many packets of requests have been sent again."""
        return self._endpoint.row_of(self._index).retransmitted_packets

    @property
    def local(self) -> RemoteQueuePair:
        """Return what the peer must be connected to: this end's address, number and first PSN."""
        return RemoteQueuePair(self._endpoint.address, self.number, self.initial_psn)

    def connect(self, remote: RemoteQueuePair) -> None:
        """Name the peer; TransportMisuse if there is one already."""
        if self.remote is not None:
            raise TransportMisuse(
                f"queue pair {self.number:#x} is connected to {ipv4_text(self.remote.address)}"
            )
        self.remote = remote
        self._endpoint.row_of(self._index).fill(
            peer_address=remote.address,
            peer_number=remote.number,
            expected=remote.initial_psn,
            state=at.READY,
        )
        self._endpoint.changed(self._index)

    def share_turns(self, first: "RcQueuePair", queue_pairs: int) -> None:
        """Send as one of so many queue pairs with one peer, made one after the other from `first`
        on: all together have one turn for data, and begin with one window."""
        self._endpoint.row_of(self._index).fill(first_lane=first._index, lanes=queue_pairs)
        self.share_window(1)

    def share_window(self, hosts: int) -> None:
        """Go on with no more than a part of the first window, one packet at least, since so many
        hosts begin to send to the same one."""
        row = self._endpoint.row_of(self._index)
        part = self._endpoint.maximum_window * 256 // (max(1, row.lanes) * hosts)
        row.window = min(row.window, max(256, part))

    def move_acknowledgements(self) -> None:
        """Let acknowledgements leave from another UDP source port where what they acknowledge comes
        again and again, so that their way may be dead."""
        self._endpoint.row_of(self._index).acknowledge_moves = 1

    def set_source_ports(self, ports: Sequence[int]) -> None:
        """Set the UDP source ports of the packets: the first one, and after each timeout the next,
        round and round (completes as `repathed`). TransportMisuse if the endpoint's `entropy`
        chooses them, or for ports that there are not."""
        entropy = self._endpoint.options.entropy
        refuse(
            entropy != "fixed",
            f"source ports of a queue pair whose entropy is {entropy}",
            TransportMisuse,
        )
        if not (ports and all(0 < port < 1 << 16 for port in ports)):
            raise TransportMisuse(f"UDP source ports {list(ports)}: at least one, of 1 to 65535")
        self._ports = np.array(ports, np.int64)
        self._endpoint.row_of(self._index).fill(
            source_port=ports[0], ports=self._ports.ctypes.data, port_count=len(ports), port_at=0
        )
        self._endpoint.expect_repathing()

    def post_send(self, data: bytes, context: object = None, immediate: int | None = None) -> None:
        """Send a message (it may be empty); completes as `sent`, and as `received` at the peer."""
        memory = np.frombuffer(bytes(data), np.uint8)
        kind = at.SEND if immediate is None else at.SEND_WITH_IMMEDIATE
        address = memory.ctypes.data if len(memory) else 0
        work = (kind, address, len(memory), 0, 0, check_word("immediate", immediate or 0))
        self._post_rc(CompletionKind.SENT, context, len(memory), memory, work)

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
        """Write `length` bytes at `offset` of `region` to the peer's memory, by RDMA WRITE;
        completes as `sent`.

        The bytes are read when they leave (and again if they are lost): keep them until then.
        With an immediate the peer gets `write_with_immediate`.
        """
        address = self._endpoint.memory_of(region, offset, length)
        kind = at.WRITE if immediate is None else at.WRITE_WITH_IMMEDIATE
        word = check_word("immediate", immediate or 0)
        work = (kind, address, length, _signed(remote_address), check_word("rkey", rkey), word)
        self._post_rc(CompletionKind.SENT, context, length, region, work)

    def post_read(
        self,
        region: MemoryRegion,
        offset: int,
        length: int,
        remote_address: int,
        rkey: int,
        context: object = None,
    ) -> None:
        """Read `length` bytes of the peer's memory to `offset` of `region`, by RDMA READ; completes
        as `read_done`.

        Several may be outstanding; they complete in order.
        """
        address = self._endpoint.memory_of(region, offset, length)
        work = (at.READ, address, length, _signed(remote_address), check_word("rkey", rkey), 0)
        self._post_rc(CompletionKind.READ_DONE, context, length, region, work)

    def _post_rc(
        self, kind: CompletionKind, context: object, length: int, memory: object, work: Work
    ) -> None:
        if length > _MAXIMUM_MESSAGE:
            raise TransportMisuse(f"a message of {length} bytes: at most {_MAXIMUM_MESSAGE}")
        if self.error:
            self._complete(CompletionKind.ERROR, context, length)
            return
        self._post(kind, context, length, memory, work)

    def _place(self, row: at.PairState, work: Work) -> Work:
        first = row.posted_end
        if first > LAST_SEQUENCE:
            raise TransportMisuse(
                f"queue pair {self.number:#x} has used up its {LAST_SEQUENCE} sequence numbers: "
                "make a new one"
            )
        if row.next_work == row.first_work:
            row.send_work = row.next_work
        row.posted_end = first + max(1, -(-work[LENGTH] // self._endpoint.path_mtu))
        return (*work, first, row.posted_end, 0, 0)

    def _complete(self, kind: CompletionKind, context: object, length: int) -> None:
        self._endpoint.complete(
            Completion(kind, self, context=context, length=length, error=self.error)
        )

    def take_event(self, event: at.Event, batch: Datagrams) -> None:
        """Take what compiled code found, a row of `layout`'s event table; the endpoint calls it."""
        match event.kind:
            case at.EVENT_WORK_DONE:
                for done, context, length, _memory in self._posted[: event.value]:
                    self._complete(done, context, length)
                del self._posted[: event.value]
                self._fill()
            case at.EVENT_FRAGMENT | at.EVENT_FRAGMENT_KEPT:
                data = batch.data[event.value, event.offset :][: event.length].tobytes()
                if event.kind == at.EVENT_FRAGMENT:
                    self._take_fragment(data, event.bits, event.immediate)
                else:
                    self._keep_fragment(data, event.bits, event.immediate, event.sequence)
            case at.EVENT_FRAGMENT_DUE:
                if self._kept and event.sequence in self._kept:
                    self._take_fragment(*self._kept.pop(event.sequence))
            case at.EVENT_REPATHED:
                self._endpoint.complete(
                    Completion(CompletionKind.REPATHED, self, source_port=event.value)
                )
            case at.EVENT_WRITE_WITH_IMMEDIATE:
                self._endpoint.complete(
                    Completion(
                        CompletionKind.WRITE_WITH_IMMEDIATE,
                        self,
                        immediate=event.immediate,
                        length=event.length,
                    )
                )
            case at.EVENT_FAILED:
                self._fail(event.value, event.sequence)
            case at.EVENT_RELAY_DONE:
                pass  # whoever uses the endpoint looks at its relays after every event

    def _keep_fragment(self, data: bytes, bits: int, immediate: int, sequence: int) -> None:
        # Without what compiled code has forgotten since, because the peer contradicted itself.
        oldest = sequence - self._endpoint.state.board_room + 1
        known = {number: kept for number, kept in (self._kept or {}).items() if number >= oldest}
        self._kept = {**known, sequence: (data, bits, immediate)}

    def _take_fragment(self, data: bytes, bits: int, immediate: int) -> None:
        if bits & IS_FIRST or self._parts is None:
            self._parts = []
        self._parts.append(data)
        if bits & IS_LAST:
            data = b"".join(self._parts)
            self._parts = None
            self._endpoint.complete(
                Completion(
                    CompletionKind.RECEIVED,
                    self,
                    data=data,
                    immediate=immediate if bits & HAS_IMMEDIATE else None,
                    length=len(data),
                )
            )

    def _fail(self, reason: int, psn: int) -> None:
        assert self.remote is not None
        peer = f"{ipv4_text(self.remote.address)} (QP {self.remote.number:#x})"
        if reason == at.REASON_TIMEOUT:
            seconds = self._endpoint.options.give_up_ns / 1e9
            self.error = f"{peer} acknowledged nothing for {seconds:g} s (waiting for PSN {psn})"
        else:
            why = _REFUSALS.get(reason, f"NAK {reason:#x}")
            self.error = f"{peer} refused the request with PSN {psn}: {why}"
        self._waiting = None
        row = self._endpoint.row_of(self._index)
        row.fill(first_work=row.next_work, work_waits=0)
        if not self._posted:
            self._complete(CompletionKind.ERROR, None, 0)
        for _, context, length, _memory in self._posted:
            self._complete(CompletionKind.ERROR, context, length)
        self._posted.clear()


class UdQueuePair(Posting):
    """A UD queue pair sends to a multicast group and receives from it; `Endpoint.create_ud` makes
    it.

    Sends paced runs of chunks, receives into sinks.
    """

    def __init__(
        self,
        endpoint: Owner,
        index: int,
        number: int,
        group_address: int,
        qkey: int,
        group_index: int,
    ) -> None:
        super().__init__(endpoint, index, number)
        self.group_address = group_address
        self.qkey = qkey
        self.group_index = group_index
        self._sinks: dict[int, ChunkSink] = {}
        """By the lower 8 bits of their operations."""
        self._worker: tuple[ReceiveWorker, int] | None = None

    def post_chunks(
        self,
        region: MemoryRegion,
        first_chunk: int,
        count: int,
        chunk_bytes: int,
        number_base: int,
        rate_bps: int,
        context: object = None,
        *,
        offset: int = 0,
        length: int | None = None,
        batch: int = 1,
    ) -> None:
        """Multicast chunks `first_chunk` to `first_chunk + count - 1`, a packet each; completes
        as `chunks_sent`.

        Chunk i is the `chunk_bytes` bytes at `offset + i * chunk_bytes` of the region, cut short
        at `offset + length` (by default the region's end); its number is `number_base + i`, of 56
        bits: the lower 32 are its immediate, the others are added to the queue pair's Q_Key
        (`ChunkSink.number_base`). Packets leave no faster than `rate_bps` of frame bytes (0: only
        the endpoint's own rate holds) on average over batches of `batch` chunks (the paper's are of
        128), which leave back to back. Runs posted to one queue pair leave one after the other; a
        run of no chunks completes at the next `transmit`. The bytes are read when they leave.
        """
        if length is None:
            length = region.length - offset
        memory = self._endpoint.memory_of(region, offset, length)
        if not 1 <= chunk_bytes <= self._endpoint.path_mtu:
            raise TransportMisuse(
                f"chunks of {chunk_bytes} bytes: they have 1 to {self._endpoint.path_mtu},"
                " the path MTU"
            )
        end = first_chunk + count
        refuse(
            first_chunk < 0 or count < 0 or (count and (end - 1) * chunk_bytes >= length),
            f"chunks {first_chunk} to {end - 1} of {chunk_bytes} bytes in {length} bytes",
            TransportMisuse,
        )
        refuse(
            rate_bps < 0,
            f"a rate of {rate_bps} bit/s: it is positive, or 0 for no limit",
            TransportMisuse,
        )
        refuse(batch < 1, f"batches of {batch} chunks: at least 1 is needed", TransportMisuse)
        blocks, immediate = divmod(number_base, 1 << 32)
        if not 0 <= blocks < 1 << 24:
            raise TransportMisuse(
                f"chunk number {number_base}: it has 56 bits, 32 of the operation and 24 of the "
                "chunk"
            )
        check_word("immediate", immediate + max(end - 1, 0))
        qkey = (self.qkey + blocks) & 0xFFFFFFFF
        work = (
            0, memory, length, qkey, batch, immediate, first_chunk, end, chunk_bytes, rate_bps
        )  # fmt: skip
        self._post(CompletionKind.CHUNKS_SENT, context, count, region, work)

    @property
    def sink(self) -> ChunkSink | None:
        """Return the sink last attached. Setting it detaches every other one; None detaches all."""
        return next(reversed(self._sinks.values()), None)

    @sink.setter
    def sink(self, sink: ChunkSink | None) -> None:
        for attached in list(self._sinks.values()):
            self.detach(attached)
        if sink is not None:
            self.attach(sink)

    def attach(self, sink: ChunkSink) -> None:
        """Receive the chunks of the sink's operation into it, beside those of other operations.

        TransportMisuse if a sink of an operation with the same lower 8 bits is on this queue pair.
        One sink may be attached to several queue pairs (a buffer fed by several groups).
        """
        attached = self._sinks.get(sink.place)
        if attached is not None and attached is not sink:
            raise TransportMisuse(
                f"operation {attached.operation} has a sink on queue pair {self.number:#x} already"
                f"{in_its_place(attached, sink)}"
            )
        if self._worker is not None:
            worker, group = self._worker
            worker.attach(sink, group)
        else:
            sink.feed(self._endpoint)
            self._endpoint.sinks_of(self.group_index)[sink.place] = sink.state.location
        self._sinks[sink.place] = sink

    def detach(self, sink: ChunkSink) -> None:
        """Receive no more into the sink: its late chunks count as `wrong_operation`."""
        if self._sinks.get(sink.place) is sink:
            del self._sinks[sink.place]
            if self._worker is not None:
                worker, group = self._worker
                worker.detach(sink, group)
            else:
                self._endpoint.sinks_of(self.group_index)[sink.place] = 0

    def serve_by(self, worker: ReceiveWorker, group: int) -> None:
        """Leave what arrives to the worker from now on; the endpoint calls it."""
        if self._worker is not None or self._sinks:
            why = "sinks already" if self._sinks else "a receive worker already"
            raise TransportMisuse(f"queue pair {self.number:#x} has {why}")
        self._worker = (worker, group)

    def take_whole(self, sink: ChunkSink) -> bool:
        """Complete a sink that a worker found whole, and return whether it was here."""
        if self._sinks.get(sink.place) is not sink:
            return False
        self._endpoint.complete(
            Completion(CompletionKind.CHUNKS_RECEIVED, self, context=sink.context, sink=sink)
        )
        return True

    def take_event(self, event: at.Event, batch: Datagrams) -> None:
        """Take what compiled code found, a row of `layout`'s event table; the endpoint calls it."""
        if event.kind == at.EVENT_CHUNKS_SENT:
            _, context, count, _memory = self._posted.pop(0)
            self._endpoint.complete(
                Completion(CompletionKind.CHUNKS_SENT, self, context=context, length=count)
            )
            self._fill()
        elif event.kind == at.EVENT_CHUNKS_RECEIVED:
            sink = self._sinks.get(event.value)
            if sink is not None:
                self.take_whole(sink)
