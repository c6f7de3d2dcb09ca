"""The agents of a group of ranks on the endpoint of one of them, and how they are connected."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from weft.agents.collectives.agent import HostAgent
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.mailbox import Bytes, Mailbox
from weft.agents.collectives.symmetric import SymmetricMemory
from weft.agents.datagrams import ipv4
from weft.agents.drivers.background import Background
from weft.agents.fused.exchange import LEAST_BYTES, LEAST_FLAGS, Exchange
from weft.agents.participant import Part
from weft.agents.servers.server import ReductionServer
from weft.agents.transport.endpoint import Endpoint
from weft.base.errors import InputError
from weft.pytorch.deadlines import Deadlines
from weft.pytorch.messages import GroupMade

FUSED_TAG = 1 - (1 << 31)
"""The tag of what ranks say to each other of the calls of fused operators."""

Done = Callable[[str, int], None]
"""Called in the network's thread when an operation ends: the error, or an empty text; and of a
receive the rank that the message came from."""
Introduction = dict[str, dict[str, list[int]]]
"""What a rank tells each other rank of a group: its queue pairs by what they are for."""


class GroupAgents:
    """The agents of a group on an endpoint: of collectives and of messages; of its host as a
    reduction server, if it serves; and of fused operators, once one is called.

    Args:
        rank: this process's rank in the group.
        addresses: of all its ranks.
        made: what the switches hold for it.
        serves: whether each rank's host is a reduction server for it, too.
        subsets: the group's ranks that are members of each multicast group; by default all.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        background: Background,
        rank: int,
        addresses: Sequence[int],
        made: GroupMade,
        *,
        serves: bool,
        subsets: Sequence[Sequence[int]],
    ) -> None:
        self._endpoint = endpoint
        self._background = background
        self.rank = rank
        self.size = len(addresses)
        servers = list(addresses) if serves else []
        self.communicator = Communicator(
            endpoint,
            rank,
            addresses,
            [
                ipv4(group) if not subsets or rank in subsets[number] else None
                for number, group in enumerate(made.groups)
            ],
            [other for other in range(self.size) if other != rank],
            servers,
            made.job,
            turns_from_next=True,
            epoch=made.epoch,
        )
        self.host = HostAgent(endpoint, self.communicator)
        self.mailbox = Mailbox(endpoint, rank, addresses)
        self.server: ReductionServer | None = None
        self.deadlines = Deadlines(endpoint)
        self._parts: list[Part] = []
        for part in (self.host, self.mailbox, self.deadlines):
            self._add(part)
        if serves:
            self.server = ReductionServer(endpoint)
            self.server.add_job(0, rank, addresses, servers)
            self._add(self.server)
        self.exchange: Exchange | None = None
        """What fused operators use; it is made when the first one is called."""
        self.messages: dict[int, Done] = {}
        """Who is told when a message has come, or was passed on, by its key."""
        self._next_key = 0

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._background.agents.add(part)

    def introduction(self) -> Introduction:
        """Return what the other ranks must be told, by their number in the group."""
        known = {
            "rank": self.communicator.introduction(),
            "mail": self.mailbox.members.introduction(),
        }
        if self.server is not None:
            known["server"] = self.server.jobs[0].members.introduction()
        return {
            what: {str(peer): [*words] for peer, words in each.items()}
            for what, each in known.items()
        }

    def connect(self, name: str, introductions: Sequence[Introduction]) -> None:
        """Connect all queue pairs, given what every rank of the group says.

        Args:
            name: of the group.

        Raises:
            InputError: something is lacking.
        """
        size = self.size

        def said(peers: Sequence[int], to: int) -> dict[int, list[int]]:
            """Return what ranks, and behind them their servers, say to one of both."""
            return {
                peer: introductions[peer % size]["rank" if peer < size else "server"][str(to)]
                for peer in peers
            }

        try:
            mail = self.mailbox.members
            self.communicator.connect(said([*self.communicator.queue_pairs], self.rank))
            mail.connect(
                {peer: introductions[peer]["mail"][str(self.rank)] for peer in mail.queue_pairs}
            )
            if self.server is not None:
                server = self.server.jobs[0].members
                server.connect(said([*server.queue_pairs], size + self.rank))
        except (KeyError, IndexError) as error:
            raise InputError(f"group {name}: a rank did not name {self.rank}: {error}") from error

    def send(self, peer: int, tag: int, memory: Bytes, done: Done) -> None:
        """Send a message to a rank."""
        self.mailbox.send_to(self._key(done), peer, tag, memory, time.monotonic_ns())

    def receive(
        self, source: int | None, tag: int, memory: Bytes, done: Done, *, at_most: bool = False
    ) -> int:
        """Receive a message from a rank, or from any, of the memory's length, or `at_most` of that.
        Return the key by which it is withdrawn."""
        key = self._key(done)
        self.mailbox.receive_from(key, source, tag, memory, time.monotonic_ns(), at_most=at_most)
        return key

    def _key(self, done: Done) -> int:
        self._next_key += 1
        self.messages[self._next_key] = done
        return self._next_key

    def exchange_of_all(self) -> Exchange:
        """Return the exchange between all ranks, which connect when the first call is begun."""
        if self.exchange is None:
            memory = SymmetricMemory(
                self._endpoint, self.rank, self.communicator.addresses,
                np.zeros(LEAST_BYTES, np.uint8), LEAST_FLAGS,
            )  # fmt: skip
            self._add(memory)
            self.exchange = Exchange(
                memory,
                lambda peer, message: self.send(peer, FUSED_TAG, message, lambda *_: None),
                lambda peer, message, heard: self._hear(peer, message, heard),
            )
        return self.exchange

    def _hear(self, peer: int, memory: Bytes, heard: Callable[[str], None]) -> None:
        self.receive(peer, FUSED_TAG, memory, lambda error, _: heard(error))

    def leave(self) -> None:
        """Leave the endpoint. Nothing may be under way."""
        self.communicator.leave()
        for part in self._parts:
            self._background.agents.remove(part)
        if self.exchange is not None:
            self.exchange.memory.leave()
