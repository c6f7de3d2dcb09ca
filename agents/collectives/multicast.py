"""Multicast Allgather: SC24, "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather" (arXiv
2408.13356).

Every rank is the root of one broadcast. The phases of one rank:

    barrier     everyone has its buffer posted; this rank arms its sink; everyone is armed
    data        roots multicast their chunks, M chains side by side, each root at its share of the
    link recovery    from the cutoff on: what is missing comes through the fetch ring
    handshake   nothing is missing; the successor is told, the predecessor must say the same
    done        and own chunks are sent, own posts acknowledged: the buffer may be used again

Departures from the paper: the cutoff is adaptive by default, a chunk's bit is tested before it is
counted, every control message is retried (by the reliable transport), and roots are paced, since
the network may drop.
"""

from __future__ import annotations

from agents.collectives.barrier import DisseminationBarrier
from agents.collectives.communicator import Communicator
from agents.collectives.control import Control, Kind
from agents.collectives.cutoff import AdaptiveCutoff, Cutoff, FetchOnlyCutoff, PaperCutoff
from agents.collectives.fetch import FetchRing
from agents.collectives.operation import Allgather, PhaseClock, Posts, Report, Ticket
from agents.collectives.timing import (
    UD_OVERHEAD_BYTES,
    expected_data_ns,
    root_rate_bps,
    send_time_ns,
)
from agents.transport.sink import ChunkSink
from agents.transport.types import MemoryRegion
from switch.errors import InputError, ProtocolError

POSTED, ARMED = 0, 1
"""The two barriers: all have posted their buffers; all have armed their sinks."""

MULTICAST_RUN = "own chunks to leave"


def chain_of(rank: int, size: int, chains: int) -> tuple[int, int]:
    """(first, end) of the contiguous segment of ranks that a rank's chain consists of."""
    chain = rank * chains // size
    return -(-chain * size // chains), -(-(chain + 1) * size // chains)


class MulticastAllgather:
    """One rank's part of a multicast Allgather; see the module.

    Args:
        region: the gathered buffer, P x N bytes; this rank's shard is in its place.

    Raises:
        InputError: the communicator has no multicast group, or chains are out of range.
    """

    def __init__(
        self, communicator: Communicator, request: Allgather, region: MemoryRegion
    ) -> None:
        size = communicator.size
        self._fetch_only = request.cutoff == "fetch-only"
        if not communicator.multicast and not self._fetch_only and size > 1:
            raise InputError("multicast Allgather: the communicator has no multicast group")
        self._chains = request.chains or size
        if self._chains > size:
            raise InputError(f"{self._chains} chains of {size} ranks: choose 1 to {size}")
        self._communicator = communicator
        self._request = request
        self._region = region
        self._posts = Posts(communicator, request.number)
        self._clock = PhaseClock()
        self._barriers = [DisseminationBarrier(communicator.rank, size) for _ in (POSTED, ARMED)]
        self._sink = ChunkSink(
            region, request.number & 0xFF, communicator.endpoint.path_mtu,
            [request.shard_bytes] * size,
        )  # fmt: skip
        self._sink.mark_shard(communicator.rank)
        self._fetch = FetchRing(communicator, self._posts, region, self._sink, request.number)
        self._first, self._end = chain_of(communicator.rank, size, self._chains)
        self._my_turn = communicator.rank == self._first
        self._own_start_ns = 0
        self._own_posted = False
        self._own_sent = False
        self._cutoff = self._make_cutoff()
        self._cutoff_check_ns: int | None = None

    @property
    def done(self) -> bool:
        return self._clock.phase == "done"

    @property
    def phase(self) -> str:
        return self._clock.phase

    def start(self, now_ns: int) -> None:
        self._clock.enter("barrier", now_ns)
        self._send_tokens(POSTED, self._barriers[POSTED].enter())
        self._pass_barriers(now_ns)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        if message.kind is Kind.TOKEN and message.stage in (POSTED, ARMED):
            self._send_tokens(message.stage, self._barriers[message.stage].hear(message.round))
            self._pass_barriers(now_ns)
        elif message.kind is Kind.ACTIVATE and peer == self._communicator.previous:
            self._my_turn = True
        elif message.kind in (Kind.FETCH, Kind.HOLD, Kind.FETCHED):
            self._fetch.control(peer, message)
        else:
            raise ProtocolError(f"{message.kind.name} in a multicast Allgather")

    def written(self, peer: int, immediate: int, now_ns: int) -> None:
        raise ProtocolError("an RDMA WRITE in a multicast Allgather")

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        self._posts.completed(ticket)
        if ticket.what == MULTICAST_RUN:
            self._sent_own()
        elif ticket.detail is not None:
            self._fetch.completed(ticket)

    def advance(self, now_ns: int) -> None:
        if self._clock.phase in ("start", "barrier", "done"):
            return
        if self._waits_to_send and now_ns >= self._own_start_ns:
            self._send_own()
        self._fetch.answer()
        if self._clock.phase == "data":
            if not self._sink.missing:
                if self._own_sent:
                    self._shake_hands(now_ns)
            elif self._cutoff_check_ns is not None and now_ns >= self._cutoff_check_ns:
                self._check_cutoff(now_ns)
        if self._clock.phase == "recovery" and not self._sink.missing and not self._fetch.reading:
            self._shake_hands(now_ns)
        if (
            self._clock.phase == "handshake"
            and self._own_sent
            and self._fetch.predecessor_done
            and not self._posts.outstanding
        ):
            self._clock.enter("done", now_ns)

    def deadline(self) -> int | None:
        waiting = self._clock.phase == "data" and self._sink.missing
        check_ns = self._cutoff_check_ns if waiting else None
        if self._clock.phase == "barrier" or not self._waits_to_send:
            return check_ns
        return self._own_start_ns if check_ns is None else min(check_ns, self._own_start_ns)

    @property
    def _waits_to_send(self) -> bool:
        return self._my_turn and not self._own_posted

    @property
    def attentive(self) -> bool:
        return self._fetch.asked

    def waiting_for(self) -> str:
        name = self._communicator.name
        if self._clock.phase == "barrier":
            stage = ARMED if self._barriers[POSTED].done else POSTED
            which = ("first", "second")[stage]
            return f"{name(self._barriers[stage].waiting_for)} at the {which} barrier"
        if self._clock.phase == "data" and self._sink.missing:
            lacking = [s for s in range(self._communicator.size) if self._sink.missing_in(s)]
            return f"{self._sink.missing} chunks, the first from {name(lacking[0])}"
        if self._clock.phase == "recovery":
            return self._fetch.waiting_for()
        if not self._own_posted:
            return f"{name(self._communicator.previous)} to send its own chunks, for its turn"
        if not self._own_sent:
            return MULTICAST_RUN
        if not self._fetch.predecessor_done:
            return f"{name(self._communicator.previous)} to have fetched what it misses"
        return self._posts.describe()

    def close(self) -> None:
        for pair in self._communicator.multicast:
            pair.sink = None

    def report(self, now_ns: int) -> Report:
        missing = self._sink.missing_bytes
        others = self._request.shard_bytes * (self._communicator.size - 1)
        return Report(
            phases_ns=self._clock.durations(now_ns),
            received_bytes=others - missing,
            chunks_multicast=self._sink.received,
            chunks_fetched=self._fetch.chunks_fetched,
            chunks_duplicate=self._sink.duplicates + self._fetch.chunks_read_twice,
        )

    def _make_cutoff(self) -> Cutoff:
        size, rate_bps = self._communicator.size, self._communicator.endpoint.rate_bps
        if self._fetch_only:
            return FetchOnlyCutoff()
        if rate_bps <= 0:
            return AdaptiveCutoff(0, 0)
        chunk_bytes = self._communicator.endpoint.path_mtu
        expected_ns = expected_data_ns(
            size, self._chains, self._request.shard_bytes, chunk_bytes, rate_bps
        )
        if self._request.cutoff == "paper":
            return PaperCutoff(expected_ns)
        return AdaptiveCutoff(expected_ns, send_time_ns(chunk_bytes + UD_OVERHEAD_BYTES, rate_bps))

    def _send_tokens(self, stage: int, tokens: list[tuple[int, int]]) -> None:
        for peer, round_ in tokens:
            self._posts.send(
                peer, Control(Kind.TOKEN, self._request.number, stage=stage, round=round_)
            )

    def _pass_barriers(self, now_ns: int) -> None:
        posted, armed = self._barriers
        if self._clock.phase != "barrier":
            return
        if posted.done and not armed.entered:
            for pair in self._communicator.multicast:
                pair.sink = self._sink
            self._send_tokens(ARMED, armed.enter())
        if armed.done:
            self._clock.enter("data", now_ns)
            self._own_start_ns = now_ns + self._head_start_ns()
            self._cutoff_check_ns = self._cutoff.first_check(now_ns)

    def _head_start_ns(self) -> int:
        """How long the chains before this one may send their first chunk by themselves.

        Roots that all began at once would stay in step, and at every receiver's link the chunks of
        all would meet, time after time. So each chain begins one chunk after the other; all end as
        late as the last chunks of all would.
        """
        rate_bps = self._communicator.endpoint.rate_bps
        if rate_bps <= 0 or self._fetch_only or self._communicator.rank != self._first:
            return 0
        chunk_bytes = min(self._communicator.endpoint.path_mtu, self._request.shard_bytes)
        chain = self._communicator.rank * self._chains // self._communicator.size
        return chain * send_time_ns(chunk_bytes + UD_OVERHEAD_BYTES, rate_bps)

    def _send_own(self) -> None:
        self._own_posted = True
        chunks = self._sink.chunks_of(self._communicator.rank)
        if self._fetch_only or not chunks or self._communicator.size == 1:
            self._sent_own()
            return
        offset, length = self._sink.shard_region(self._communicator.rank)
        groups = self._communicator.multicast
        endpoint = self._communicator.endpoint
        groups[self._communicator.rank % len(groups)].post_chunks(
            self._region, 0, len(chunks), endpoint.path_mtu,
            self._sink.immediate_base + chunks.start,
            root_rate_bps(self._communicator.size, self._chains, endpoint.rate_bps),
            self._posts.ticket(MULTICAST_RUN), offset=offset, length=length,
        )  # fmt: skip

    def _sent_own(self) -> None:
        self._own_sent = True
        if self._communicator.rank + 1 < self._end:
            self._posts.send(self._communicator.next, Control(Kind.ACTIVATE, self._request.number))

    def _check_cutoff(self, now_ns: int) -> None:
        whole = not self._tails_missing()
        self._cutoff_check_ns = (
            None if whole else self._cutoff.check(now_ns, self._sink.received, self._unstarted())
        )
        if self._cutoff_check_ns is None:
            self._clock.enter("recovery", now_ns)
            self._fetch.request_missing()

    def _tails_missing(self) -> bool:
        """Some root's last chunk has not come: it may still be sending."""
        return any(
            not self._sink.has(self._sink.chunks_of(shard).stop - 1)
            for shard in range(self._communicator.size)
            if self._sink.missing_in(shard)
        )

    def _unstarted(self) -> bool:
        """Some root has sent nothing that arrived here."""
        return any(
            self._sink.missing_in(shard) == len(self._sink.chunks_of(shard))
            for shard in range(self._communicator.size)
            if self._sink.missing_in(shard)
        )

    def _shake_hands(self, now_ns: int) -> None:
        self._clock.enter("handshake", now_ns)
        if self._communicator.size == 1:
            self._fetch.predecessor_done = True
        else:
            fetched = Control(Kind.FETCHED, self._request.number)
            self._posts.send(self._communicator.next, fetched)
