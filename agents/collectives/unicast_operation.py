"""Who carries out a pattern of RDMA WRITEs: compiled code where it is a table, else Python.

Each rank tells its writers where they may write; a rank begins to write, in the pattern's order,
once all its peers have said so. Every block is an RDMA WRITE with immediate: 8 bits of operation,
24 bits of block. A rank is done when it has all its blocks and its own writes are acknowledged: its
buffers are free then.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.names import BLOCK_BYTES
from weft.agents.collectives.operation import (
    Operation,
    OperationReport,
    Ticket,
    WrittenBytes,
)
from weft.agents.collectives.requests import Request
from weft.agents.collectives.turns import Turns
from weft.agents.collectives.unicast import Bytes, Pattern, TablePattern, Write
from weft.agents.collectives.unicast_options import asked_block_bytes
from weft.agents.transport.relay import Relay, RelayLimits
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import ProtocolError, refuse

MAX_POSTED_BYTES = 1 << 20
MAX_POSTED_NS = 100_000_000
MAX_POSTED = 64
"""Writes under way from one rank, in bytes of all its operations and in time on its link, and in
number of one operation: enough to fill every link, and not all that is to be sent, so that a
pattern's order is kept, few queue pairs are busy at a time, and a failure is told soon, since that
message leaves behind them."""

MAX_POSTED_IN_ROUNDS_BYTES = 256 * 1024
MAX_POSTED_IN_ROUNDS_NS = 10_000_000
"""The same limits for algorithms in which each round has another partner."""

TO_ONE = "many-to-one"
"""The collective in which all write to one rank. No queue holds the windows of all, and a packet of
each may be too many: so that rank lets them write in turn (`Turns`)."""

AnyPattern = TypeVar("AnyPattern", bound=Pattern)


def most_posted(
    rate_bps: int, fewest: int, most: int = MAX_POSTED_BYTES, window_ns: int = MAX_POSTED_NS
) -> int:
    """Return how many bytes of RDMA WRITEs may be under way from a rank: what its link carries in a
    time, but no fewer than `fewest` and no more than `most`. At 0 bit/s the rate is not known."""
    in_time = rate_bps * window_ns // 8_000_000_000 if rate_bps else most
    return min(most, max(in_time, fewest))


class UnicastOperation(Operation, Generic[AnyPattern]):
    """One rank's part of a collective by RDMA WRITEs; see the module.

    Args:
        register: gives the memory region of an array.
        in_rounds: whether each round has another partner.

    Raises:
        InputError: the communicator has no queue pair with a peer of the pattern.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        pattern: AnyPattern,
        register: Callable[[Bytes], MemoryRegion],
        *,
        in_rounds: bool = False,
    ) -> None:
        super().__init__(communicator, request)
        self._pattern = pattern
        peers = {*pattern.expected, *pattern.targets}
        communicator.check_peers(peers, f"{request.collective} by {request.algorithm}")
        self._regions = [register(memory) for memory in pattern.memories]
        self._expected = sum(pattern.expected.values())
        self._ready: dict[int, tuple[int, int]] = {}
        """Address and key of the peers' memory."""
        self._turns = Turns({writer: 0 for writer in pattern.expected}, 0)
        if request.collective == TO_ONE:
            packets = communicator.endpoint.maximum_window
            lanes = {peer: len(communicator.pairs_of(peer)) for peer in peers}
            self._turns = Turns({writer: lanes[writer] for writer in pattern.expected}, packets)
            for peer in pattern.targets:
                at_once = max(1, packets // lanes[peer])
                communicator.share_window(peer, min(at_once, communicator.size - 1))
        rate_bps = communicator.endpoint.rate_bps
        block = asked_block_bytes(request.own) or BLOCK_BYTES
        most = MAX_POSTED_IN_ROUNDS_BYTES if in_rounds else MAX_POSTED_BYTES
        window_ns = MAX_POSTED_IN_ROUNDS_NS if in_rounds else MAX_POSTED_NS
        # While one block is under way there is room for the next, even on the slowest link.
        self._limits = RelayLimits(
            open_writes=MAX_POSTED,
            own_bytes=most_posted(rate_bps, block, most, window_ns),
            bytes=most_posted(rate_bps, block),
        )

    def start(self, now_ns: int) -> None:
        """Tell the peers that write to this rank, those whose turn it is, where they may write."""
        self._clock.enter("barrier", now_ns)
        self._begin()
        self._permit()
        self._proceed(now_ns)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """Take a READY from a target: where this rank may write."""
        if message.kind is not Kind.READY or peer not in self._pattern.targets:
            super().control(peer, message, now_ns)
        refuse(peer in self._ready, "READY a second time", ProtocolError)
        self._ready[peer] = (message.address, message.rkey)
        self._proceed(now_ns)

    def advance(self, now_ns: int) -> None:
        """Post the writes for which there is room, and end when nothing is outstanding."""
        if self._turns.waiting:
            self._permit()
        self._go_on()  # others' may have made room
        if self._clock.phase == "data" and not (self._busy or self._posts.outstanding):
            self._clock.enter("done", now_ns)

    def waits_on(self) -> set[int]:
        """Return the peers whose blocks are missing, and the targets while there is more to do."""
        waiting = self._missing()
        # Whom this rank writes to, perhaps much later, must be there too.
        more = waiting or self._has_more_to_post
        return {*waiting, *self._pattern.targets} if more else set()

    def waiting_for(self) -> str:
        """Return the permission, blocks or acknowledgements that are outstanding."""
        name = self._communicator.name
        unready = sorted(set(self._pattern.targets) - self._ready.keys())
        if unready:
            return f"{name(unready[0])} to be ready"
        missing = self._missing()
        if missing:
            return (
                f"{sum(missing.values())} of {self._expected} blocks, the first from "
                f"{name(min(missing))}"
            )
        return self._posts.describe()

    def _permit(self) -> None:
        for peer in self._turns.take(self._has_all_of):
            region = self._regions[self._pattern.window(peer)]
            ready = Control(Kind.READY, self._number, address=region.address, rkey=region.rkey)
            self._posts.send(peer, ready)

    def _proceed(self, now_ns: int) -> None:
        if self._clock.phase == "barrier" and len(self._ready) == len(self._pattern.targets):
            self._clock.enter("data", now_ns)
            self._open()

    @property
    def _busy(self) -> bool:
        """Whether blocks are missing, or writes are to be posted or acknowledged."""
        raise NotImplementedError

    @property
    def _has_more_to_post(self) -> bool:
        """Whether writes that have been let go are not posted."""
        raise NotImplementedError

    def _missing(self) -> Mapping[int, int]:
        """Return how many blocks are still to come, by the rank that writes them."""
        raise NotImplementedError

    def _has_all_of(self, peer: int) -> bool:
        """Return whether all blocks of a peer that writes to this rank have arrived."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Be ready for blocks, and let go what waits for none."""
        raise NotImplementedError

    def _open(self) -> None:
        """Post what has been let go: every target has said where it may be written to."""
        raise NotImplementedError

    def _go_on(self) -> None:
        """Post what there is room for."""
        raise NotImplementedError


class SteppedOperation(UnicastOperation[Pattern]):
    """A pattern that computes: each block that arrives is given to it."""

    def _begin(self) -> None:
        self._left = dict(self._pattern.expected)
        """Blocks to come, by writer."""
        self._missing_blocks = self._expected
        self._arrived: set[int] = set()
        self._to_post: deque[Iterator[Write]] = deque([iter(self._pattern.begin())])

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Take a block of a peer, and queue the writes that it allows."""
        if not self._left.get(peer) or block in self._arrived:
            super().written(peer, block, length_bytes, now_ns)
        length, following = self._pattern.arrived(peer, block)
        check_length(block, length_bytes, length)
        self._arrived.add(block)
        self._left[peer] -= 1
        self._missing_blocks -= 1
        self._received_bytes += length
        self._to_post.append(iter(following))
        self._go_on()

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that one of the posts is complete."""
        self._posts.completed(ticket)
        if isinstance(ticket.detail, WrittenBytes):
            self._go_on()

    @property
    def waits_for_sent(self) -> bool:
        return bool(self._to_post) or not self._missing_blocks or self._clock.phase != "data"

    @property
    def _busy(self) -> bool:
        return bool(self._missing_blocks or self._to_post)

    @property
    def _has_more_to_post(self) -> bool:
        return bool(self._to_post)

    def _missing(self) -> Mapping[int, int]:
        return {peer: left for peer, left in self._left.items() if left}

    def _has_all_of(self, peer: int) -> bool:
        return not self._left[peer]

    def _open(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self._clock.phase == "barrier":
            return
        while self._to_post and (
            self._communicator.has_room(self._limits.bytes)
            and self._posts.writing_bytes <= self._limits.own_bytes
            and self._posts.open_writes < self._limits.open_writes
        ):
            write = next(self._to_post[0], None)
            if write is None:
                self._to_post.popleft()
                continue
            address, rkey = self._ready[write.peer]
            self._posts.write(
                write.peer, self._regions[write.memory], write.offset, write.length,
                address + write.target, rkey, (self._number & 0xFF) << 24 | write.block,
            )  # fmt: skip


class RelayedOperation(UnicastOperation[TablePattern]):
    """A pattern that is a table: compiled code takes blocks and passes them on."""

    def _begin(self) -> None:
        communicator, pattern = self._communicator, self._pattern
        peers = {*pattern.expected, *pattern.targets}
        self._relay = Relay(
            communicator.endpoint,
            self._number & 0xFF,
            pattern.table,
            self._regions,
            {peer: communicator.lanes_to(peer) for peer in pattern.targets},
            {peer: communicator.queue_pairs[peer] for peer in peers},
            self._limits,
            tells_peers=bool(self._turns.limit),
        )

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Say what is wrong with a block that compiled code has not taken."""
        if self._missing().get(peer) and not self._relay.has(block):
            check_length(block, length_bytes, self._pattern.arrived(peer, block)[0])
        super().written(peer, block, length_bytes, now_ns)

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that one of the posts is complete."""
        self._posts.completed(ticket)

    @property
    def waits_for_sent(self) -> bool:
        return self._relay.posts_all or self._clock.phase != "data"

    def waiting_for(self) -> str:
        """Return the permission, blocks or acknowledgements that are outstanding."""
        busy = None if self._missing() else self._relay.busy_peer()
        if busy is not None:
            return f"{self._communicator.name(busy)} to acknowledge an RDMA WRITE"
        return super().waiting_for()

    def close(self) -> None:
        """Receive and post nothing more."""
        self._relay.close()

    def report(self, now_ns: int) -> OperationReport:
        """Return what has been counted and timed so far."""
        return replace(
            super().report(now_ns),
            received_bytes=self._relay.state.received_bytes,
            flow_count=self._relay.queue_pairs_used,
        )

    @property
    def _busy(self) -> bool:
        return not self._relay.finished

    @property
    def _has_more_to_post(self) -> bool:
        return not self._relay.posts_all

    def _missing(self) -> Mapping[int, int]:
        return self._relay.missing_by_peer()

    def _has_all_of(self, peer: int) -> bool:
        return self._relay.has_all_of(peer)

    def _open(self) -> None:
        for peer, (address, rkey) in self._ready.items():
            self._relay.permit(peer, address, rkey)
        self._relay.open()

    def _go_on(self) -> None:
        self._relay.proceed()


def check_length(block: int, announced_bytes: int, length_bytes: int) -> None:
    """Raise ProtocolError for a block that has come with another length than it has."""
    if announced_bytes != length_bytes:
        raise ProtocolError(
            f"an RDMA WRITE of {announced_bytes} bytes announced block {block}, which has "
            f"{length_bytes}"
        )


def operation_of(
    communicator: Communicator,
    request: Request,
    pattern: Pattern,
    register: Callable[[Bytes], MemoryRegion],
    *,
    in_rounds: bool,
) -> Operation:
    """Return what carries out a pattern; the arguments, and what it raises, are those of
    `UnicastOperation`."""
    if isinstance(pattern, TablePattern):
        return RelayedOperation(communicator, request, pattern, register, in_rounds=in_rounds)
    return SteppedOperation(communicator, request, pattern, register, in_rounds=in_rounds)
