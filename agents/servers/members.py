"""The members of a communicator as one of its reduction servers knows them: ranks and servers, and
a queue pair to each."""

from __future__ import annotations

from collections.abc import Sequence

from weft.agents.collectives.communicator import Members
from weft.agents.collectives.control import Control
from weft.agents.transport.endpoint import Endpoint
from weft.base.errors import InputError, demand


class ServerMembers(Members):
    """One communicator's ranks and then its servers, numbered from 0; one of the servers knows
    them.

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
        self.index = index
        own = len(addresses) + index
        others = (each for each in range(len(addresses) + len(servers)) if each != own)
        super().__init__(endpoint, own, addresses, servers, others)
        self.servers = len(servers)
        self.path_mtu = endpoint.path_mtu

    def send(self, member: int, message: Control) -> None:
        """Send a control message."""
        self.queue_pairs[member].post_send(message.encode())
