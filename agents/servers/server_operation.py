"""One operation on one reduction server.

A contributor, a rank or in a tree another server, sends its chunks in the plan's order, each into
the next of its slots here; it reuses a slot when it has the answer to the chunk that was in it:
the result, or in a Reduce-Scatter, where the result is somebody else's, an RDMA WRITE of nothing.
So a contributor is never ahead of the slowest by more than its slots, and nothing is kept for
longer. A chunk that all contributors have sent is combined at once, in the order of ranks. The root
of the piece writes the result to its contributors; another server writes its partial result to its
parent as a contributor does, and passes on the result.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.communicator import Members
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.reduction_plan import Contributor, ReductionPlan
from weft.agents.collectives.sums import Bytes
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import InputError, ProtocolError, refuse


class ServerMembers(Members):
    """One communicator's ranks and then its servers, numbered from 0, as one of the servers
    knows them.

    Raises:
        InputError: the endpoint is not that of the server's address.
    """

    def __init__(
        self, endpoint: Endpoint, index: int, addresses: Sequence[int], servers: Sequence[int]
    ) -> None:
        if not 0 <= index < len(servers):
            raise InputError(f"server {index}: the job has servers 0 to {len(servers) - 1}")
        self.index = index
        own = len(addresses) + index
        others = (each for each in range(len(addresses) + len(servers)) if each != own)
        super().__init__(endpoint, own, addresses, servers, others)
        self.servers = len(servers)
        self.path_mtu = endpoint.path_mtu

    def send(self, member: int, message: Control) -> None:
        """Send a control message."""
        self.queue_pairs[member].post_send(message.encode())


Register = Callable[[int], MemoryRegion]


class Incoming:
    """One contributor sends a sequence of chunks into a ring of slots."""

    def __init__(self, chunks: list[int], slots: int, slot_bytes: int, register: Register) -> None:
        self.chunks = chunks
        self.places = {chunk: place for place, chunk in enumerate(chunks)}
        self.next = 0
        """How many have come."""
        self.slot_bytes = slot_bytes
        self.region = register(slots * slot_bytes)
        self.memory = self.region.buffer.ctypes.data
        self.unanswered = [False] * slots
        self.window: tuple[int, int] | None = None
        """Address and key of the contributor's memory for results."""


class Outgoing:
    """The partial results that this server sends to its parent, and the results that come back."""

    def __init__(
        self, chunks: list[int], slots: int, partial_bytes: int, result_bytes: int,
        register: Register,
    ) -> None:  # fmt: skip
        self.chunks = chunks
        self.places = {chunk: place for place, chunk in enumerate(chunks)}
        self.next = 0
        """How many have been sent."""
        self.ready: set[int] = set()
        self.partial_bytes = partial_bytes
        self.result_bytes = result_bytes
        self.partials = register(slots * partial_bytes)
        self.results = register(slots * result_bytes)
        self.unanswered: set[int] = set()
        self.posted = [0] * slots
        """RDMA WRITEs that read a slot."""
        self.window: tuple[int, int] | None = None
        """Address and key of the parent's slots."""


@dataclass(frozen=True)
class Post:
    """The context of an RDMA WRITE says which slot of an operation's buffers is in use until it is
    acknowledged."""

    operation: "ServerOperation"
    slots: list[int]
    slot: int


class ServerOperation:
    """One operation on one reduction server; see the module. `members` has the queue
    pairs, `plan` says what is to be done, `register` makes registered memory of a size."""

    def __init__(
        self, members: ServerMembers, number: int, plan: ReductionPlan, register: Register
    ) -> None:
        self._members = members
        self.number = number
        self.plan = plan
        self.idle = False
        """Whether nothing has come since that was last set."""
        block_bytes, slots = plan.terms.block_bytes, plan.slots
        items = block_bytes // plan.reduction.item_bytes
        self._partial_bytes = items * plan.reduction.partial_bytes
        share = plan.share(members.index)
        self._roles = share.roles
        self._unfinished = share.chunks
        self._needed = {piece: len(role.others(members.own)) for piece, role in share.roles.items()}
        self._incoming = {
            member: Incoming(
                chunks,
                slots,
                block_bytes if member < members.size else self._partial_bytes,
                register,
            )
            for member, chunks in share.incoming.items()
        }
        self._outgoing = {
            member: Outgoing(chunks, slots, self._partial_bytes, block_bytes, register)
            for member, chunks in share.outgoing.items()
        }
        self._scratch = np.empty((2, self._partial_bytes), np.uint8)
        self._results = register(2 * slots * block_bytes)
        self._results_posted = [0] * (2 * slots)
        self._free = deque(range(2 * slots))
        self._arrived: dict[int, int] = {}
        """Contributions by chunk, of chunks that are not complete."""
        self._complete: deque[int] = deque()
        """Chunks of which this server is the root and that no result has been made of."""
        self._posted = 0
        self._credits_posted = [0]

    @staticmethod
    def memory_bytes(plan: ReductionPlan, index: int) -> int:
        """Return what an operation takes on a server."""
        share = plan.share(index)
        block_bytes, size = plan.terms.block_bytes, plan.terms.size
        partial = block_bytes // plan.reduction.item_bytes * plan.reduction.partial_bytes
        each = [block_bytes if member < size else partial for member in share.incoming]
        each += [block_bytes + partial for _ in share.outgoing]
        return plan.slots * (sum(each) + 2 * block_bytes)

    @property
    def done(self) -> bool:
        """Return whether every chunk is finished and all that was written is acknowledged."""
        return not self._unfinished and not self._posted

    def start(self) -> None:
        """Open the operation at this server's parents."""
        data = self.plan.terms.encode()
        for parent, outgoing in self._outgoing.items():
            self._offer(Kind.OPEN, parent, outgoing.results, data)

    def open(self, member: int, message: Control) -> None:
        """Take note that a contributor has opened the operation.

        Raises ProtocolError if it is none, or has done so before.
        """
        incoming = self._incoming.get(member)
        if incoming is None:
            raise ProtocolError(f"OPEN of operation {self.number}, in which it has no part here")
        refuse(
            incoming.window is not None,
            f"OPEN of operation {self.number} a second time",
            ProtocolError,
        )
        incoming.window = (message.address, message.rkey)
        self._offer(Kind.ADMIT, member, incoming.region)

    def _offer(self, kind: Kind, member: int, region: MemoryRegion, data: bytes = b"") -> None:
        """Say where a member is to write."""
        message = Control(kind, self.number, address=region.address, rkey=region.rkey, data=data)
        self._members.send(member, message)

    def admitted(self, member: int, message: Control) -> None:
        """Take note where a parent has us write. Raises ProtocolError if it is none, or has done
        so."""
        outgoing = self._outgoing.get(member)
        if outgoing is None or outgoing.window is not None:
            raise ProtocolError(f"ADMIT of operation {self.number}, which was not asked for")
        outgoing.window = (message.address, message.rkey)
        self._proceed()

    def expects(self, member: int) -> bool:
        """Return whether a member has more to write."""
        incoming, outgoing = self._incoming.get(member), self._outgoing.get(member)
        return (incoming is not None and incoming.next < len(incoming.chunks)) or (
            outgoing is not None and bool(outgoing.unanswered)
        )

    def written(self, member: int, chunk: int, length_bytes: int) -> None:
        """Take a chunk that a member's RDMA WRITE has announced: a contribution, or a parent's
        answer.

        Raises ProtocolError if it is not due.
        """
        self.idle = False
        if chunk >= self.plan.chunks:
            raise ProtocolError(f"an RDMA WRITE announced chunk {chunk}, which does not exist")
        role = self._roles.get(int(self.plan.pieces[chunk]))
        if role is not None and role.parent == member:
            self._answered(member, chunk, length_bytes)
        else:
            self._contributed(member, chunk, length_bytes)
        self._proceed()

    def acknowledged(self, slots: list[int], slot: int) -> None:
        """Take note that an RDMA WRITE that read a slot is complete."""
        self._posted -= 1
        slots[slot] -= 1
        if slots is self._results_posted and not slots[slot]:
            self._free.append(slot)
        self._proceed()

    def waits_on(self) -> set[int]:
        """Return the members that must do something before the operation can end."""
        late = {
            member
            for member, incoming in self._incoming.items()
            if incoming.next < len(incoming.chunks)
        }
        return late | {
            member
            for member, outgoing in self._outgoing.items()
            if outgoing.window is None or outgoing.unanswered
        }

    def behind(self) -> int | None:
        """Return a member that has not contributed what others have, if there is one."""
        for chunk in self._arrived:
            for each in self._roles[int(self.plan.pieces[chunk])].others(self._members.own):
                incoming = self._incoming[each.member]
                if incoming.next <= incoming.places[chunk]:
                    return each.member
        return next((each for each, one in self._incoming.items() if one.window is None), None)

    def opened(self) -> list[int]:
        """Return the members that contribute and have opened the operation."""
        return [member for member, one in self._incoming.items() if one.window is not None]

    def _items(self, chunk: int) -> int:
        return int(self.plan.lengths[chunk]) // self.plan.reduction.item_bytes

    def _contributed(self, member: int, chunk: int, length_bytes: int) -> None:
        incoming = self._incoming.get(member)
        if incoming is None or incoming.window is None or incoming.next == len(incoming.chunks):
            raise ProtocolError(f"an RDMA WRITE announced chunk {chunk}, which is not its")
        if incoming.chunks[incoming.next] != chunk:
            raise ProtocolError(
                f"an RDMA WRITE announced chunk {chunk}; {incoming.chunks[incoming.next]} is due"
            )
        length = int(self.plan.lengths[chunk])
        if member >= self._members.size:
            length = self._items(chunk) * self.plan.reduction.partial_bytes
        if length_bytes != length:
            raise ProtocolError(
                f"an RDMA WRITE of {length_bytes} bytes announced chunk {chunk}, which has {length}"
            )
        slot = incoming.next % self.plan.slots
        if incoming.unanswered[slot]:
            raise ProtocolError(f"an RDMA WRITE of chunk {chunk} to a slot that is in use")
        incoming.unanswered[slot] = True
        incoming.next += 1
        arrived = self._arrived.pop(chunk, 0) + 1
        piece = int(self.plan.pieces[chunk])
        if arrived < self._needed[piece]:
            self._arrived[chunk] = arrived
            return
        parent = self._roles[piece].parent
        if parent is None:
            self._complete.append(chunk)
        else:
            self._outgoing[parent].ready.add(chunk)

    def _proceed(self) -> None:
        """Make results and partial results for which there is room."""
        while self._complete and self._free:
            chunk, slot = self._complete.popleft(), self._free.popleft()
            offset = slot * self.plan.terms.block_bytes
            self._combine(chunk, self._results.buffer[offset:], final=True)
            self._credit(chunk)
            self._hand_out(chunk, self._results, offset, self._results_posted, slot)
            if not self._results_posted[slot]:
                self._free.append(slot)
        for parent, outgoing in self._outgoing.items():
            self._send_up(parent, outgoing)

    def _send_up(self, parent: int, outgoing: Outgoing) -> None:
        plan, slots = self.plan, self.plan.slots
        while outgoing.window is not None and outgoing.next < len(outgoing.chunks):
            place = outgoing.next
            chunk, slot = outgoing.chunks[place], place % slots
            before = outgoing.chunks[place - slots] if place >= slots else None
            blocked = before in outgoing.unanswered or outgoing.posted[slot]
            if blocked or chunk not in outgoing.ready:
                return
            outgoing.ready.remove(chunk)
            outgoing.next += 1
            offset = slot * outgoing.partial_bytes
            self._combine(chunk, outgoing.partials.buffer[offset:], final=False)
            address, rkey = outgoing.window
            self._write(
                parent, outgoing.partials, offset,
                self._items(chunk) * plan.reduction.partial_bytes, address + offset, rkey,
                chunk, outgoing.posted, slot,
            )  # fmt: skip
            self._credit(chunk)
            gets = self._gets_result(chunk)
            self._unfinished -= not gets
            if gets or place + slots < len(outgoing.chunks):
                outgoing.unanswered.add(chunk)

    def _gets_result(self, chunk: int) -> bool:
        top = self._roles[int(self.plan.pieces[chunk])].levels[-1]
        return self.plan.gets(chunk, top[0].first, top[-1].end)

    def _answered(self, parent: int, chunk: int, length_bytes: int) -> None:
        outgoing = self._outgoing[parent]
        if chunk not in outgoing.unanswered:
            raise ProtocolError(f"an RDMA WRITE announced chunk {chunk}, which is not due")
        gets = self._gets_result(chunk)
        length = int(self.plan.lengths[chunk]) if gets else 0
        if length_bytes != length:
            raise ProtocolError(
                f"an RDMA WRITE of {length_bytes} bytes announced chunk {chunk}, which has {length}"
            )
        outgoing.unanswered.remove(chunk)
        if gets:
            slot = outgoing.places[chunk] % self.plan.slots
            offset = slot * outgoing.result_bytes
            self._hand_out(chunk, outgoing.results, offset, outgoing.posted, slot)

    def _combine(self, chunk: int, out: Bytes, *, final: bool) -> None:
        """Combine what the contributors have sent of a chunk, level by level."""
        levels = self._roles[int(self.plan.pieces[chunk])].levels
        below = self._scratch[0]
        for number, level in enumerate(levels):
            last = number == len(levels) - 1
            target = out if last else self._scratch[number % 2]
            vectors = [
                below.ctypes.data if each.member == self._members.own else self._place(each, chunk)
                for each in level
            ]
            ranks = self.plan.terms.size if final and last else 0
            self._add(vectors, self._items(chunk), target, partial=number > 0, ranks=ranks)
            below = target

    def _add(
        self, vectors: list[int], count: int, out: Bytes, *, partial: bool, ranks: int
    ) -> None:
        """Do as `ReductionKind.combine`, or take note of it, if data travel without bytes."""
        kind, sums = self.plan.reduction, self._members.endpoint.sums
        if sums is None:
            addresses = np.array(vectors, np.int64)
            kind.combine(addresses, count, out, partial=partial, ranks=ranks)
            return
        sums.note(
            out.ctypes.data, vectors, count,
            kind.partial_bytes if partial else kind.item_bytes,
            kind.item_bytes if ranks else kind.partial_bytes,
        )  # fmt: skip

    def _place(self, contributor: Contributor, chunk: int) -> int:
        incoming = self._incoming[contributor.member]
        return incoming.memory + incoming.places[chunk] % self.plan.slots * incoming.slot_bytes

    def _contributors(self, chunk: int) -> list[Contributor]:
        """Return whose values are added, in an order that begins elsewhere on every server."""
        others = self._roles[int(self.plan.pieces[chunk])].others(self._members.own)
        first = self._members.index % len(others) if others else 0
        return others[first:] + others[:first]

    def _credit(self, chunk: int) -> None:
        """Let those go on who get no result of a chunk that has been combined."""
        if self.plan.terms.collective == "allreduce":
            return
        slots = self.plan.slots
        for each in self._contributors(chunk):
            if self.plan.gets(chunk, each.first, each.end):
                continue
            incoming = self._incoming[each.member]
            place = incoming.places[chunk]
            incoming.unanswered[place % slots] = False
            if place + slots < len(incoming.chunks):
                assert incoming.window is not None
                self._write(
                    each.member, self._results, 0, 0, *incoming.window, chunk,
                    self._credits_posted, 0,
                )  # fmt: skip

    def _hand_out(
        self, chunk: int, region: MemoryRegion, offset: int, posted: list[int], slot: int
    ) -> None:
        """Write a result to those contributors that get it."""
        plan = self.plan
        self._unfinished -= 1
        for each in self._contributors(chunk):
            if not plan.gets(chunk, each.first, each.end):
                continue
            incoming = self._incoming[each.member]
            place = incoming.places[chunk]
            incoming.unanswered[place % plan.slots] = False
            assert incoming.window is not None
            address, rkey = incoming.window
            if each.member < self._members.size:
                address += int(plan.targets[chunk])
            else:
                address += place % plan.slots * plan.terms.block_bytes
            self._write(
                each.member, region, offset, int(plan.lengths[chunk]), address, rkey, chunk,
                posted, slot,
            )  # fmt: skip

    def _write(
        self, member: int, region: MemoryRegion, offset: int, length: int, address: int, rkey: int,
        chunk: int, posted: list[int], slot: int,
    ) -> None:  # fmt: skip
        self._posted += 1
        posted[slot] += 1
        immediate = (self.number & 0xFF) << 24 | chunk
        self._members.queue_pairs[member].post_write(
            region, offset, length, address, rkey, immediate, Post(self, posted, slot)
        )
