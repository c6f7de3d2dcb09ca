"""Multicast Broadcast and Allgather: SC24, "Network-Offloaded Bandwidth-Optimal Broadcast and
Allgather" (arXiv 2408.13356).

In an Allgather every rank is the root of one broadcast; a Broadcast is an Allgather in which only
the root has a shard. The phases of one rank:

    barrier     everyone has its buffer posted; this rank arms its sinks; everyone is armed
    data        roots multicast their chunks, M chains side by side, each root at its share of the
                link
    recovery    from the cutoff on: what is missing comes through the fetch ring
    handshake   nothing is missing; the successor is told, the predecessor must say the same
    done        and own chunks are sent, own posts acknowledged: the buffer may be used again

Operations that run at the same time take turns with their data, so that no link is filled twice:
a rank sends its own of one when it expects no more multicast of those before. Where all roots send
at once, each goes on to the next operation when its own of the one before have left: it has its
share of the links all the time. All are armed by then, so that nothing is idle in between.

Departures from the paper: the cutoff is adaptive by default, a chunk's bit is tested before it is
counted, every control message is retried (by the reliable transport), and roots are paced, since
the network may drop.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from weft.agents.collectives.algorithm import Algorithm, Register
from weft.agents.collectives.algorithms.multicast_options import (
    FETCH_ONLY,
    PAPER,
    MulticastOptions,
)
from weft.agents.collectives.barrier import DisseminationBarrier, rounds
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.fetch import FetchRing
from weft.agents.collectives.needs import Needs, Setting
from weft.agents.collectives.operation import Operation, OperationReport, Ticket
from weft.agents.collectives.overheads import UD_OVERHEAD_BYTES, frame_bytes
from weft.agents.collectives.places import TierBytes
from weft.agents.collectives.requests import Request
from weft.agents.collectives.subgroups import Subgroups
from weft.agents.collectives.task import Task
from weft.agents.collectives.timing import (
    AdaptiveCutoff,
    Cutoff,
    FixedCutoff,
    Pace,
    chain_of,
    frames_bytes,
)
from weft.agents.collectives.transfers import IntArray, Sizing
from weft.agents.collectives.unicast import Bytes
from weft.agents.transport.types import MemoryRegion, TransportMisuse
from weft.base.errors import InputError, ProtocolError, refuse
from weft.base.option import whole

POSTED, ARMED = 0, 1
"""The two barriers: all have posted their buffers; all have armed their sinks."""

MULTICAST_RUN = "own chunks to leave"


class MulticastOperation(Operation):
    """One rank's part of a multicast Broadcast or Allgather; see the module.

    Args:
        region: the buffer of all shards; this rank's own is in its place.

    Raises:
        InputError: the communicator has too few multicast groups, or chains are out of range.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        own: MulticastOptions,
        region: MemoryRegion,
    ) -> None:
        size = communicator.size
        self._own = own
        self._fetch_only = own.cutoff == FETCH_ONLY
        in_chains = own.chains if request.collective == "allgather" else None
        self._chains = in_chains or size
        if not 1 <= self._chains <= size:
            raise InputError(f"{self._chains} chains of {size} ranks: choose 1 to {size}")
        super().__init__(communicator, request)
        self._request = request
        self._region = region
        self._barriers = [DisseminationBarrier(communicator.rank, size) for _ in (POSTED, ARMED)]
        self._shards = request.shard_bytes(size)
        self._subgroups = Subgroups(
            communicator, request, region, self._shards, own.workers,
            own.chunk_bytes or communicator.endpoint.path_mtu,
        )  # fmt: skip
        self._subgroups.mark_shard(communicator.rank)
        self._pace = Pace(
            self._shards, self._chains, self._subgroups.packet_bytes,
            request.pace_bps or communicator.endpoint.rate_bps, request.beside_bytes,
        )  # fmt: skip
        self._fetch = FetchRing(communicator, self._posts, region, self._subgroups, request.number)
        self._first, self._end = chain_of(communicator.rank, size, self._chains)
        self._my_turn = communicator.rank == self._first
        self._own_start_ns = 0
        self._own_posted = False
        self._runs_left = 0
        """How many runs of this rank's own chunks, one for each worker, have not left yet."""
        self._own_sent = False
        self._cutoff = self._make_cutoff()
        self._cutoff_check_ns: int | None = None

    def start(self, now_ns: int) -> None:
        """Enter the barrier and tell the first peers so."""
        self._clock.enter("barrier", now_ns)
        self._communicator.turns.append(self._request.number)
        self._send_tokens(POSTED, self._barriers[POSTED].enter())
        self._pass_barriers(now_ns)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """Take a barrier token, the turn of this rank in its chain, or a message of the fetch
        ring."""
        if message.kind is Kind.TOKEN and self._is_due(peer, message):
            self._send_tokens(message.stage, self._barriers[message.stage].hear(message.round))
            self._pass_barriers(now_ns)
        elif message.kind is Kind.ACTIVATE and peer == self._communicator.previous:
            self._my_turn = True
        elif message.kind in (Kind.FETCH, Kind.HOLD, Kind.HOLD_PART, Kind.FETCHED):
            self._fetch.control(peer, message)
        else:
            raise ProtocolError(f"{message.kind.name} in a multicast operation")

    def _is_due(self, peer: int, token: Control) -> bool:
        size = self._communicator.size
        sender = (self._communicator.rank - (1 << token.round)) % size
        return token.stage in (POSTED, ARMED) and token.round < rounds(size) and peer == sender

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Raise ProtocolError: no rank writes by RDMA WRITE in a multicast operation."""
        raise ProtocolError("an RDMA WRITE in a multicast operation")

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that a post is complete: own chunks are sent, or an RDMA READ has fetched
        some."""
        self._posts.completed(ticket)
        if ticket.what == MULTICAST_RUN:
            self._runs_left -= 1
            if not self._runs_left:
                self._sent_own()
        elif ticket.detail is not None:
            self._fetch.completed(ticket)

    def advance(self, now_ns: int) -> None:
        """Go on to the next phase when the present one is over, or when the cutoff is reached."""
        if self._clock.phase == "barrier":
            self._pass_barriers(now_ns)
        if self._clock.phase in ("start", "barrier", "done"):
            return
        if self._waits_to_send and now_ns >= self._own_start_ns:
            self._send_own()
        self._fetch.answer()
        if self._clock.phase == "data":
            mine = self._communicator.receiving[0] == self._request.number
            if mine and self._cutoff_check_ns is None:
                self._cutoff_check_ns = self._cutoff.first_check(now_ns)
            if not self._subgroups.missing:
                if self._own_sent:
                    self._shake_hands(now_ns)
            elif self._cutoff_check_ns is not None and now_ns >= self._cutoff_check_ns:
                self._check_cutoff(now_ns)
        if (
            self._clock.phase == "recovery"
            and not self._subgroups.missing
            and not self._fetch.reading
        ):
            self._shake_hands(now_ns)
        if (
            self._clock.phase == "handshake"
            and self._own_sent
            and self._fetch.predecessor_done
            and not self._posts.outstanding
        ):
            self._clock.enter("done", now_ns)

    def deadline(self) -> int | None:
        """Return when the cutoff is checked next, or None outside the data phase."""
        waiting = self._clock.phase == "data" and self._subgroups.missing
        check_ns = self._cutoff_check_ns if waiting else None
        if self._clock.phase == "barrier" or not self._waits_to_send:
            return check_ns
        return self._own_start_ns if check_ns is None else min(check_ns, self._own_start_ns)

    @property
    def _waits_to_send(self) -> bool:
        return self._my_turn and not self._own_posted

    @property
    def attentive(self) -> bool:
        """Return whether a peer waits for shards that single chunks may complete."""
        return self._fetch.asked

    @property
    def waits_for_sent(self) -> bool:
        return self._clock.phase != "barrier"

    def waits_on(self) -> set[int]:
        """Return the ranks whose tokens, chunks or answers this rank waits for."""
        if self._communicator.size == 1:
            return set()
        if self._clock.phase == "barrier":
            stage = self._barriers[ARMED if self._barriers[ARMED].entered else POSTED]
            return set() if stage.done else {stage.waiting_for}
        if self._clock.phase == "data":
            return {self._communicator.previous}  # so that every rank has one that asks for it
        if self._clock.phase == "recovery":
            return {self._communicator.next, self._communicator.previous}
        over = self._fetch.predecessor_done and self._own_posted
        return set() if over else {self._communicator.previous}

    def waiting_for(self) -> str:
        """Return the barrier token, data or handshake that the phase waits for, and from whom."""
        name = self._communicator.name
        if self._clock.phase == "barrier":
            stage = ARMED if self._barriers[POSTED].done else POSTED
            if self._barriers[ARMED].done:
                return f"operation {self._communicator.turns[0]}, whose turn it is"
            which = ("first", "second")[stage]
            return f"{name(self._barriers[stage].waiting_for)} at the {which} barrier"
        if self._clock.phase == "data" and self._subgroups.missing:
            lacking = [s for s in range(self._communicator.size) if self._subgroups.missing_in(s)]
            return f"{self._subgroups.missing} chunks, the first from {name(lacking[0])}"
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
        """Detach the sinks and let the next operation expect multicast."""
        self._subgroups.detach()
        self._expect_no_more()

    def report(self, now_ns: int) -> OperationReport:
        """Return the times of the phases and the counts of bytes by multicast and by fetching."""
        others = sum(self._shards) - self._shards[self._communicator.rank]
        return OperationReport(
            phases_ns=self._clock.durations(now_ns),
            received_bytes=others - self._subgroups.missing_bytes,
            chunks_multicast=self._subgroups.received,
            chunks_fetched=self._fetch.chunks_fetched,
            chunks_duplicate=self._subgroups.duplicates + self._fetch.chunks_read_twice,
        )

    def _make_cutoff(self) -> Cutoff:
        if self._fetch_only:
            return FixedCutoff(0)
        if self._own.cutoff == PAPER and self._pace.rate_bps:
            return FixedCutoff.of_paper(self._pace.expected_ns)
        return AdaptiveCutoff(self._pace.expected_ns, self._pace.packet_ns())

    def _send_tokens(self, stage: int, tokens: list[tuple[int, int]]) -> None:
        for peer, round_ in tokens:
            self._posts.send(
                peer, Control(Kind.TOKEN, self._request.number, stage=stage, round=round_)
            )

    def _pass_barriers(self, now_ns: int) -> None:
        posted, armed = self._barriers
        if self._clock.phase != "barrier":
            return
        mine = self._communicator.turns[0] == self._request.number
        if posted.done and not armed.entered:
            self._subgroups.attach()
            self._send_tokens(ARMED, armed.enter())
        if armed.done and mine:
            self._clock.enter("data", now_ns)
            # Where others receive already, this root goes on in step with the others.
            head_start_ns = 0 if self._communicator.receiving else self._head_start_ns()
            self._own_start_ns = now_ns + head_start_ns
            self._communicator.receiving.append(self._request.number)

    def _head_start_ns(self) -> int:
        """Return how long the chains before this one may send their first chunk by themselves.

        Roots that all began at once would stay in step, and at every receiver's link the chunks of
        all would meet, time after time. So each chain begins one chunk after the other; all end as
        late as the last chunks of all would.
        """
        rank, size = self._communicator.rank, self._communicator.size
        if self._fetch_only or rank != self._first:
            return 0
        roots = [root for root in range(rank) if self._shards[root]]
        chains_before = len({root * self._chains // size for root in roots})
        return chains_before * self._pace.packet_ns()

    def _send_own(self) -> None:
        self._own_posted = True
        rank = self._communicator.rank
        parts = (
            []
            if self._fetch_only or self._communicator.size == 1
            else [*self._subgroups.parts(rank)]
        )
        self._runs_left = len(parts)
        if not parts:
            self._sent_own()
        rate_bps = self._pace.rate_of(rank)
        packet_bytes = self._subgroups.packet_bytes
        frames = [frames_bytes(part.length, packet_bytes, UD_OVERHEAD_BYTES) for part in parts]
        for part, share in zip(parts, frames, strict=True):
            part.queue_pair.post_chunks(
                self._region, 0, part.count, packet_bytes,
                part.sink.number_base + part.first,
                rate_bps * share // sum(frames),
                self._posts.ticket(MULTICAST_RUN, part.worker),
                offset=part.offset, length=part.length, batch=self._own.batch,
            )  # fmt: skip

    def _sent_own(self) -> None:
        self._own_sent = True
        if self._chains == self._communicator.size and self._shards[self._communicator.rank]:
            self._pass_turn()
        if self._communicator.rank + 1 < self._end:
            self._posts.send(self._communicator.next, Control(Kind.ACTIVATE, self._request.number))

    def _check_cutoff(self, now_ns: int) -> None:
        lacking = self._subgroups.lacking
        self._cutoff_check_ns = None
        if any(self._subgroups.tail_missing(shard) for shard in lacking):
            self._cutoff_check_ns = self._cutoff.check(
                now_ns,
                self._subgroups.received,
                self._subgroups.missing,
                any(self._subgroups.unstarted(shard) for shard in lacking),
            )
        if self._cutoff_check_ns is None:
            self._clock.enter("recovery", now_ns)
            self._expect_no_more()
            self._fetch.request_missing()

    def _expect_no_more(self) -> None:
        receiving = self._communicator.receiving
        if self._request.number in receiving:
            receiving.remove(self._request.number)
        self._pass_turn()

    def _pass_turn(self) -> None:
        """Let the next operation have the link."""
        turns = self._communicator.turns
        if self._request.number in turns:
            turns.remove(self._request.number)

    def _shake_hands(self, now_ns: int) -> None:
        self._clock.enter("handshake", now_ns)
        self._expect_no_more()
        if self._communicator.size == 1:
            self._fetch.predecessor_done = True
        else:
            fetched = Control(Kind.FETCHED, self._request.number)
            self._posts.send(self._communicator.next, fetched)


class Multicast(Algorithm):
    """Every rank multicasts its shard, and missing chunks are fetched (SC24, "Network-Offloaded
    Bandwidth-Optimal Broadcast and Allgather", arXiv 2408.13356)."""

    name = "multicast"
    collectives = ("allgather", "broadcast")
    position: Mapping[str, int] = {"allgather": 0, "broadcast": 0, "fsdp-interleave": 1}
    interleaved_as = "in-network"
    colours = ("#0072b2", "#5aaae6")
    options = MulticastOptions
    multicasts = True
    in_turn = True

    def needs(self, own: MulticastOptions) -> Needs:
        return Needs(workers=own.workers)

    def check_setting(self, own: MulticastOptions, setting: Setting) -> None:
        chunk_bytes, path_mtu = own.chunk_bytes or setting.path_mtu, setting.path_mtu
        if own.chains is not None:
            whole("chains", own.chains, 1, setting.ranks)
        refuse(
            chunk_bytes > path_mtu and chunk_bytes % path_mtu,
            f"chunk {chunk_bytes} is larger than the path MTU and no multiple of it: choose "
            f"at most {path_mtu}, or a multiple of that",
        )
        packet_bytes, shards = min(chunk_bytes, path_mtu), setting.shard_sizes()
        packets = sum(-(-size // packet_bytes) for size in shards)
        if -(-packets // own.workers) > (1 << 24) - setting.ranks:
            raise InputError(
                f"{sum(shards)} bytes are {packets} chunks of {packet_bytes}: the immediate's 24 "
                f"bits number {1 << 24} for each worker; choose a smaller --size, a larger --mtu "
                "or --chunk, or more --workers"
            )

    def warm_ups(self, request: Request) -> Iterator[Request]:
        """Yield one that fetches every chunk, too."""
        yield from (request, replace(request, own={"cutoff": FETCH_ONLY}))

    def operation(
        self, communicator: Communicator, request: Request, data: Bytes, result: Bytes | None,
        register: Register,
    ) -> Operation:  # fmt: skip
        """Return a `MulticastOperation` on the registered buffer."""
        try:
            return MulticastOperation(communicator, request, self.own(request), register(data))
        except TransportMisuse as error:
            name = f"{request.collective.title()} on {communicator.size} ranks"
            raise InputError(f"{name}: {error}") from error

    def frames(self, task: Task) -> Sizing:
        """Return the `Sizing` of frames that carry a chunk, or a part of one, each."""
        packet_bytes = min(self.own(task).chunk_bytes or task.packet_bytes, task.packet_bytes)
        return lambda size_bytes: frame_bytes(size_bytes, packet_bytes, UD_OVERHEAD_BYTES)

    def host_bytes(self, task: Task) -> IntArray:
        """Return what every rank's link carries: its own shard up, and all others' down."""
        sizes = task.sizes
        return np.stack([sizes, sizes.sum() - sizes])

    def tier_bytes(self, task: Task) -> TierBytes:
        """Return the bytes on the links of the multicast trees of all shards."""
        return task.members.multicast_bytes(task.sizes).times(task.operations)

    def least_bytes(self, task: Task) -> int:
        """Return N for Broadcast; for Allgather with M = P chains T - min n_r, as a rank hears all
        but its own, and for M < P chains T, as at any time some rank only hears, so all roots
        together send at most B. Chains that are paced in proportion to their bytes reach it."""
        sizes = task.sizes
        in_chains = (self.own(task).chains or task.ranks) < task.ranks
        least = 0 if task.collective == "broadcast" or in_chains else sizes.min()
        return task.operations * int(sizes.sum() - least)


ALGORITHMS = (Multicast(),)
