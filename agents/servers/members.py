"""The members of a communicator as one of its reduction servers knows them: ranks and servers, and
a queue pair to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.agents.collectives.communicator import queue_pair_to, title
from weft.agents.collectives.control import Control
from weft.agents.datagrams import ipv4_text
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.agents.transport.types import RemoteQueuePair
from weft.base.errors import InputError, demand


class Members:
    """One communicator's ranks and then its servers, numbered from 0.

    Raises:
        InputError: the endpoint is not that of the server's address.
    """

    def __init__(
        self, endpoint: Endpoint, index: int, addresses: Sequence[int], servers: Sequence[int]
    ) -> None:
        demand(
            0 <= index < len(servers),
            InputError,
            f"server {index}: the job has servers 0 to {len(servers) - 1}",
        )
        if endpoint.address != servers[index]:
            raise InputError(
                f"server {index} has address {ipv4_text(servers[index])}, "
                f"but its endpoint {ipv4_text(endpoint.address)}"
            )
        self.index = index
        self.size = len(addresses)
        self.servers = len(servers)
        self.own = self.size + index
        self.addresses = (*addresses, *servers)
        self.queue_pairs: dict[int, RcQueuePair] = {
            member: queue_pair_to(endpoint, self.addresses, self.own, member, self.size)
            for member in range(len(self.addresses))
            if member != self.own
        }
        self.path_mtu = endpoint.path_mtu

    def name(self, member: int) -> str:
        """A member as messages name it."""
        return f"{title(member, self.size)} ({ipv4_text(self.addresses[member])})"

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
            pair.connect(RemoteQueuePair(self.addresses[member], *introductions[member]))

    def send(self, member: int, message: Control) -> None:
        """Send a control message."""
        self.queue_pairs[member].post_send(message.encode())
