"""A communicator as one of its reduction servers knows it: members, queue pairs, operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.agents.collectives.communicator import queue_pair_to, title
from weft.agents.collectives.control import Control
from weft.agents.datagrams import ipv4_text
from weft.agents.servers.operation import ServerOperation
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.agents.transport.types import MemoryRegion, RemoteQueuePair
from weft.base.errors import InputError


@dataclass(frozen=True)
class Post:
    """The context of an RDMA WRITE: a slot of an operation's buffers is in use until it is
    acknowledged."""

    operation: ServerOperation
    slots: list[int]
    slot: int


class Job:
    """One communicator's ranks and servers; members are ranks and then servers.

    Raises:
        InputError: the endpoint is not that of the server's address.
    """

    def __init__(
        self, endpoint: Endpoint, index: int, addresses: Sequence[int], servers: Sequence[int]
    ) -> None:
        if not 0 <= index < len(servers):
            raise InputError(f"server {index}: the job has servers 0 to {len(servers) - 1}")
        if endpoint.address != servers[index]:
            raise InputError(
                f"server {index} has address {ipv4_text(servers[index])}, "
                f"but its endpoint {ipv4_text(endpoint.address)}"
            )
        self.index = index
        self.size = len(addresses)
        self.servers = len(servers)
        self.own = self.size + index
        self.members = (*addresses, *servers)
        self.queue_pairs: dict[int, RcQueuePair] = {
            member: queue_pair_to(endpoint, self.members, self.own, member, self.size)
            for member in range(len(self.members))
            if member != self.own
        }
        self.operations: dict[int, ServerOperation] = {}
        self.last_number = 0
        """Of the operations so far."""
        self.opened: dict[int, int] = {}
        """The number of the last operation that each rank has opened."""
        self.failure = ""
        """Why the job does nothing more, or empty."""
        self.path_mtu = endpoint.path_mtu

    def name(self, member: int) -> str:
        """A member as messages name it."""
        return f"{title(member, self.size)} ({ipv4_text(self.members[member])})"

    def introduction(self) -> dict[int, tuple[int, ...]]:
        """What each member must be told: (queue pair number, initial PSN) by member."""
        return {
            member: (pair.local.number, pair.local.initial_psn)
            for member, pair in self.queue_pairs.items()
        }

    def connect(self, introductions: Mapping[int, Sequence[int]]) -> None:
        """Connect all queue pairs. Raises InputError where a member's introduction is lacking."""
        for member, pair in self.queue_pairs.items():
            if member not in introductions:
                raise InputError(
                    f"server {self.index}: {title(member, self.size)} said nothing of its queue "
                    "pair"
                )
            pair.connect(RemoteQueuePair(self.members[member], *introductions[member]))

    def send(self, member: int, message: Control) -> None:
        """Send a control message."""
        self.queue_pairs[member].post_send(message.encode())

    def write(
        self, member: int, region: MemoryRegion, offset: int, length: int, address: int, rkey: int,
        immediate: int, operation: ServerOperation, slots: list[int], slot: int,
    ) -> None:  # fmt: skip
        """RDMA WRITE with immediate; `slots[slot]` counts those that are not acknowledged."""
        slots[slot] += 1
        self.queue_pairs[member].post_write(
            region, offset, length, address, rkey, immediate, Post(operation, slots, slot)
        )

    def operation_of(self, low_bits: int, member: int) -> ServerOperation | None:
        """The oldest operation with these low 8 bits of its number to which a member has more to
        say."""
        for number, operation in self.operations.items():
            if number & 0xFF == low_bits and operation.expects(member):
                return operation
        return None
