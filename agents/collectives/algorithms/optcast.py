"""Allreduce and Reduce-Scatter on reduction servers: a rank's part (Optcast).

A rank opens an operation at each server that it sends to, as
`reduction_plan` has it, and each server answers with the place of its slots.
Then the rank writes its chunks to its servers in turn; every rank begins with another server. Each
chunk goes into the next of that server's slots, which is free once the answer to the chunk before
in it has come: the result, written to where it belongs, or nothing where another rank owns it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.agents.collectives.algorithm import Algorithm, Order, Register
from weft.agents.collectives.algorithms.optcast_model import Optcast
from weft.agents.collectives.algorithms.optcast_options import ON_RANKS, OptcastOptions
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.names import OPS
from weft.agents.collectives.needs import Needs, Setting
from weft.agents.collectives.operation import Operation, Ticket, WrittenBytes
from weft.agents.collectives.places import TierBytes
from weft.agents.collectives.reduction_plan import ReductionPlan, plan_of, terms_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.unicast import Bytes
from weft.agents.collectives.unicast_operation import most_posted
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import InputError, ProtocolError, RunError, refuse


@dataclass
class _Server:
    """A rank keeps one of these for each of its servers, with what is still to be sent and
    answered."""

    member: int
    chunks: list[int]
    """In the order in which they are sent."""
    missing: int
    """Results that are to come."""
    next: int = 0
    """How many have been sent."""
    unanswered: set[int] = field(default_factory=set)
    window: tuple[int, int] | None = None
    """Address and key of its slots."""
    waits_for: int | None = None
    """The member that it said it waits for."""

    @property
    def busy(self) -> bool:
        """Return whether there is something to be sent to it or to come from it."""
        return bool(self.missing) or self.next < len(self.chunks)


class OptcastOperation(Operation):
    """One rank's part of a reduction on servers; see the module.

    Args:
        data: this rank's vector, uint8[bytes]; only read.
        result: uint8[bytes].
        register: gives the memory region of an array of bytes.

    Raises:
        InputError: the communicator's servers cannot do what is asked.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        own: OptcastOptions,
        data: Bytes,
        result: Bytes,
        register: Callable[[Bytes], MemoryRegion],
    ) -> None:
        super().__init__(communicator, request)
        elements = request.elements(communicator.size)
        scatters = request.collective == "reduce-scatter"
        terms = terms_of(
            request.collective, request.op, request.dtype,
            elements if scatters else (sum(elements),), communicator.size,
            len(communicator.servers), split=own.split or 0, fan_in=own.fan_in or 0,
            block_bytes=own.block_bytes or 0, cursor=communicator.server_cursor,
            packet_bytes=communicator.endpoint.path_mtu,
        )  # fmt: skip
        communicator.server_cursor += terms.split
        self._plan: ReductionPlan = plan_of(terms)
        self._servers = {} if communicator.size == 1 else self._my_servers()
        """The servers by member, in the order in which they are written to."""
        communicator.check_peers(self._servers, f"{request.collective} by optcast")
        self._expected = sum(each.missing for each in self._servers.values())
        if communicator.size == 1:
            result[:] = data
        self._data, self._result = register(data), register(result)
        every_server = 2 * len(self._servers) * terms.block_bytes
        self._most_posted_bytes = most_posted(communicator.endpoint.rate_bps, every_server)
        """Enough for two chunks a server on slow links, too: else some servers wait for ranks."""
        self._turns = deque(self._servers.values())

    def _my_servers(self) -> dict[int, _Server]:
        plan, rank, size = self._plan, self._communicator.rank, self._communicator.size
        servers = plan.servers_of(rank // plan.terms.fan_in)
        used = np.unique(servers).tolist()
        found = {}
        for server in used[rank % max(len(used), 1) :] + used[: rank % max(len(used), 1)]:
            chunks = np.flatnonzero(servers == server).tolist()
            missing = sum(self._gets(chunk) for chunk in chunks)
            found[size + server] = _Server(size + server, chunks, missing)
        return found

    def _gets(self, chunk: int) -> bool:
        return self._plan.gets(chunk, self._communicator.rank, self._communicator.rank + 1)

    def start(self, now_ns: int) -> None:
        """Open the operation at every server that this rank sends to."""
        self._clock.enter("barrier", now_ns)
        message = Control(
            Kind.OPEN, self._number, address=self._result.address, rkey=self._result.rkey,
            data=self._plan.terms.encode(),
        )  # fmt: skip
        for member in self._servers:
            self._posts.send(member, message)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """Take a server's answer to OPEN: that it admits the operation, refuses it, or waits for
        another."""
        server = self._servers.get(peer)
        if server is None or message.kind not in (Kind.REFUSE, Kind.WAITING, Kind.ADMIT):
            raise ProtocolError(f"{message.kind.name}, which does not belong to this algorithm")
        if message.kind is Kind.REFUSE:
            name = self._communicator.name(peer)
            raise RunError(f"{name} refused operation {self._number}: {message.text}")
        if message.kind is Kind.WAITING:
            refuse(
                message.rank >= len(self._communicator.members),
                f"WAITING for member {message.rank}, which does not exist",
                ProtocolError,
            )
            server.waits_for = message.rank
            return
        refuse(server.window is not None, "ADMIT a second time", ProtocolError)
        server.window = (message.address, message.rkey)
        if all(each.window is not None for each in self._turns):
            self._clock.enter("data", now_ns)
        self._post_writes()

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Take a result, or an empty answer, which frees the slot of its chunk."""
        server = self._servers.get(peer)
        if server is None or block not in server.unanswered:
            raise ProtocolError(f"an RDMA WRITE announced chunk {block}, which is not due")
        gets = self._gets(block)
        length = int(self._plan.lengths[block]) if gets else 0
        if length_bytes != length:
            raise ProtocolError(
                f"an RDMA WRITE of {length_bytes} bytes announced chunk {block}, which has {length}"
            )
        server.unanswered.remove(block)
        server.missing -= gets
        server.waits_for = None
        self._received_bytes += length
        self._post_writes()

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that an RDMA WRITE or a control message is complete."""
        self._posts.completed(ticket)
        if isinstance(ticket.detail, WrittenBytes):
            self._post_writes()

    def advance(self, now_ns: int) -> None:
        """Write the chunks for which servers have room."""
        self._post_writes()  # others' may have made room
        if not (self.done or self._posts.outstanding or any(each.busy for each in self._turns)):
            self._clock.enter("done", now_ns)

    def waits_on(self) -> set[int]:
        """Return the servers that have not admitted the operation or still owe answers."""
        return {
            member for member, each in self._servers.items() if each.window is None or each.busy
        }

    def waiting_for(self) -> str:
        """Return which servers have not answered, or which post is not acknowledged."""
        waiting = sorted(self.waits_on())
        if not waiting:
            return self._posts.describe()
        name = self._communicator.name
        told = [each for each in waiting if self._servers[each].waits_for is not None]
        first = (told or waiting)[0]
        server = self._servers[first]
        if server.window is None:
            return f"{name(first)} to admit the operation"
        missing = sum(each.missing for each in self._turns)
        found = f"{missing} of {self._expected} chunks, the first from {name(first)}"
        if server.waits_for is not None:
            found += f", which waits for {name(server.waits_for)}"
        return found

    def _post_writes(self) -> None:
        """Write what servers have room for, a chunk a server in turn."""
        passed = 0
        while passed < len(self._turns):
            if not self._communicator.has_room(self._most_posted_bytes):
                return
            self._turns.rotate(-1)
            passed = 0 if self._post_next(self._turns[-1]) else passed + 1

    def _post_next(self, server: _Server) -> bool:
        """Write a server's next chunk; False if it has no room for it, or there is none."""
        slots, place = self._plan.slots, server.next
        if server.window is None or place == len(server.chunks):
            return False
        if place >= slots and server.chunks[place - slots] in server.unanswered:
            return False
        chunk = server.chunks[place]
        address, rkey = server.window
        length = int(self._plan.lengths[chunk])
        server.next += 1
        if self._gets(chunk) or place + slots < len(server.chunks):
            server.unanswered.add(chunk)
        self._posts.write(
            server.member, self._data, int(self._plan.offsets[chunk]), length,
            address + place % slots * self._plan.terms.block_bytes, rkey,
            (self._number & 0xFF) << 24 | chunk,
        )  # fmt: skip
        return True


class OptcastAlgorithm(Algorithm):
    """Reduction servers combine what the ranks send them, as in Optcast."""

    name = "optcast"
    collectives = ("reduce-scatter", "allreduce")
    position: Mapping[str, int] = {"reduce-scatter": 2, "allreduce": 2}
    colours = ("#cc79a7", "#e09cc2")
    options = OptcastOptions
    serves = True
    buffers = 2

    def needs(self, own: OptcastOptions) -> Needs:
        return Needs(servers=own.servers or 0, on_ranks=own.server_placement == ON_RANKS)

    def check_setting(self, own: OptcastOptions, setting: Setting) -> None:
        if own.fan_in is None:
            return
        groups = -(-setting.ranks // own.fan_in)
        refuse(
            groups > (own.servers or 0),
            f"fan-in {own.fan_in}: {setting.ranks} ranks make {groups} groups, and each needs a "
            f"server of its own, so servers {own.servers} are too few; raise servers or fan-in",
        )

    def why_not(self, op: str, dtype: str) -> str:
        known = ", ".join(OPS)
        return "" if op in OPS else f"reduction servers know {known}, and this is {op}"

    def check(self, request: Request) -> None:
        if request.op not in OPS:
            raise InputError(
                f"op {request.op!r} by {request.algorithm}: servers know {', '.join(OPS)}; choose "
                "one of these, or other algorithms"
            )

    def operation(
        self, communicator: Communicator, request: Request, data: Bytes, result: Bytes | None,
        register: Register,
    ) -> Operation:  # fmt: skip
        """Return an `OptcastOperation`."""
        assert result is not None
        return OptcastOperation(communicator, request, self.own(request), data, result, register)

    def least_bytes(self, task: Task) -> int:
        """Return the bound of the model (`optcast_model.Optcast`)."""
        return Optcast(task, self.own(task)).bound_bytes()

    def tier_bytes(self, task: Task) -> TierBytes:
        """Return the bytes of the messages between ranks and servers by shortest ways."""
        model = Optcast(task, self.own(task))
        return model.members.unicast_bytes(model.rounds())

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """Return the order of sums in a tree of servers, each of which adds in order of what comes
        to it."""
        nodes: list[Order] = list(range(size))
        width = self.own(request).fan_in or size
        while len(nodes) > width:
            nodes = [tuple(nodes[at : at + width]) for at in range(0, len(nodes), width)]
        return tuple(nodes)


ALGORITHMS = (OptcastAlgorithm(),)
