"""The ranks of a group, its reduction servers, and the queue pairs that this rank has with some of
them.

*Members* are the ranks, 0 to P - 1, and then the servers, P to P + S - 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.agents.collectives.barrier import barrier_peers
from weft.agents.collectives.names import AGGREGATION_VALUES, SLOTS
from weft.agents.collectives.requests import whole_number
from weft.agents.datagrams import ipv4, ipv4_text
from weft.agents.transport.aggregation import AggregationQueuePair
from weft.agents.transport.connections import connect
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.posting import Posting
from weft.agents.transport.queue_pairs import RcQueuePair, UdQueuePair
from weft.agents.transport.relay import Lanes
from weft.agents.transport.types import RemoteQueuePair, TransportMisuse
from weft.base.errors import InputError


@dataclass(frozen=True)
class SwitchJob:
    """A job describes one communicator on one tree of switches to a rank that takes part.

    Raises:
        InputError: a value makes no sense.
    """

    address: str
    """The IPv4 multicast address of its packets, like ``239.255.0.1``."""
    epoch: int
    """A number that no job before it had, so that nothing is taken for its own that another left
    (32 bits, from 1 on)."""
    slots: int = SLOTS
    """N of the pool: a power of 2."""
    values: int = AGGREGATION_VALUES
    """V: 32-bit values of a packet, as the switches' program has it."""
    silence_ns: int | None = None
    """The job is given up when nothing has arrived of it for so long; None: four times the time
    after which a connection is given up."""
    may_move: bool = False
    """Whether other switches may add for it later (`AggregationQueuePair.move`)."""

    def __post_init__(self) -> None:
        for name in ("epoch", "slots", "values"):
            whole_number(f"aggregation job: {name}", getattr(self, name))
        try:
            ipv4(self.address)
        except ValueError as error:
            raise InputError(
                f"aggregation job: address {self.address!r} is no IPv4 address"
            ) from error


def join(
    endpoint: Endpoint, job: SwitchJob, rank: int, ranks: int, source_port: int
) -> AggregationQueuePair:
    """Make an endpoint a worker of a job.

    Raises:
        InputError: the job makes no sense, or its packets do not fit the path MTU.
    """
    try:
        return endpoint.create_aggregation(
            ipv4(job.address), job.epoch, slots=job.slots, values=job.values, ranks=ranks,
            rank=rank, source_port=source_port, silence_ns=job.silence_ns,
            may_move=job.may_move,
        )  # fmt: skip
    except TransportMisuse as error:
        raise InputError(f"aggregation job: {error}") from error


_FIRST_QKEY = 0x57454654
_QKEY_STEP = 0x4F1BBCDD
_FIRST_QKEYS = 1 << 31
"""From how many Q_Keys groups have their first; above is room for the later ones of the last."""


def multicast_qkey(epoch: int) -> int:
    """Return the Q_Key of the first 256 operations that a group of ranks multicasts, the next 256
    of which have the next one, and so on. All groups of ranks that ever have a multicast address
    have epochs of their own.

    The step from one epoch to the next is the golden ratio of all first Q_Keys. It keeps those of n
    groups (up to 100,000) apart by more than a third of an n-th of all, so that each can carry out
    256 * 2^31 / 3n operations before it comes to the Q_Keys of another one.
    """
    return (_FIRST_QKEY + (epoch - 1) * _QKEY_STEP) % _FIRST_QKEYS


_NUMBERS = 1 << 6
"""Source ports between two hosts that the queue pairs of a kind may take, by number."""
_SERVER_PORTS = 1 << 13
"""From this number on come the ports of queue pairs with servers, which may share ranks' hosts,"""
_ANSWERING_PORTS = 1 << 12
"""and from this those of lanes that only carry answers."""


Lane = tuple[int, ...]
"""The UDP source port of a lane's packets, then those with which to go on, one after the other,
where nothing is acknowledged on that, and from which acknowledgements may leave, too. Empty: this
end sends no data on it, but acknowledgements and small messages, as from any queue pair."""


class Members:
    """The members of a group as one of them knows them: their addresses, and a queue pair with
    each of its peers.

    Args:
        own: which member this one is.
        ranks, servers: the members' IPv4 addresses, as integers.
        peers: the members to have a queue pair with.
        lanes: as `Communicator` has them.

    Raises:
        InputError: the endpoint has another address than the member.
    """

    def __init__(
        self, endpoint: Endpoint, own: int, ranks: Sequence[int], servers: Sequence[int],
        peers: Iterable[int], lanes: Mapping[int, Sequence[Lane]] | None = None,
    ) -> None:  # fmt: skip
        self.endpoint = endpoint
        self.own = own
        self.size = len(ranks)
        """How many of the members are ranks."""
        self.members = (*ranks, *servers)
        """IPv4 addresses."""
        self._names: dict[int, str] = {}
        """What `name` has been asked for: posts ask for the same again and again."""
        address = self.members[own]
        if endpoint.address != address:
            raise InputError(
                f"{self.title(own)} has address {ipv4_text(address)}, but its endpoint "
                f"{ipv4_text(endpoint.address)}"
            )
        peers = list(peers)
        chosen = {peer: lane for peer, lane in (lanes or {}).items() if peer in peers}
        self._pairs: dict[int, list[RcQueuePair]] = {
            peer: make_lanes(endpoint, self.members[peer], each) for peer, each in chosen.items()
        }
        self.queue_pairs: dict[int, RcQueuePair] = {
            **{peer: made[0] for peer, made in self._pairs.items()},
            **self._without_lanes([peer for peer in peers if peer not in self._pairs]),
        }
        self.queue_pairs = {peer: self.queue_pairs[peer] for peer in peers}
        """The queue pair with each peer; for a peer with lanes, that of the first lane."""
        self._lanes: dict[int, Lanes] = {}
        """What data goes to a peer by, as far as it has been asked for."""
        for peer, each in chosen.items():
            sending = [pair for pair, lane in zip(self._pairs[peer], each, strict=True) if lane]
            self._lanes[peer] = Lanes(sending or self._pairs[peer][:1])

    def _without_lanes(self, peers: Sequence[int]) -> dict[int, RcQueuePair]:
        """Return a new queue pair with each of some peers, ranks before servers."""
        members, size, own = self.members, self.size, self.own
        alike = [peer for peer in peers if max(own, peer) < size and members[peer] != members[own]]
        made = self.endpoint.create_rcs_to([members[peer] for peer in alike])
        found = dict(zip(alike, made, strict=True))
        others = (peer for peer in peers if peer not in found)
        return found | {
            peer: queue_pair_to(self.endpoint, members, own, peer, size) for peer in others
        }

    def introduction(self) -> dict[int, tuple[int, ...]]:
        """Return what each peer must be told, by member: the queue pair number and initial PSN of
        each lane."""
        return {
            peer: tuple(
                word
                for pair in self.pairs_of(peer)
                for word in (pair.local.number, pair.local.initial_psn)
            )
            for peer in self.queue_pairs
        }

    def connect(self, introductions: Mapping[int, Sequence[int]]) -> None:
        """Connect all queue pairs, given what the peers say in their introductions to this member.

        Raises:
            InputError: a peer's is lacking, or it has another number of lanes.
        """
        own = self.title(self.own)
        remotes: list[tuple[RcQueuePair, RemoteQueuePair]] = []
        for peer in self.queue_pairs:
            if peer not in introductions:
                raise InputError(f"{own}: {self.title(peer)} said nothing of its queue pair")
            pairs, words = self.pairs_of(peer), introductions[peer]
            if len(words) != 2 * len(pairs):
                raise InputError(
                    f"{own} has {len(pairs)} lanes with {self.title(peer)}, which has "
                    f"{len(words) // 2}: both ends need the same number"
                )
            for pair, number, initial_psn in zip(pairs, words[::2], words[1::2], strict=True):
                remotes.append((pair, RemoteQueuePair(self.members[peer], number, initial_psn)))
        connect(self.endpoint, remotes)

    def pairs_of(self, peer: int) -> Sequence[RcQueuePair]:
        """Return the queue pairs with a peer: one, or one for each lane."""
        return self._pairs.get(peer) or (self.queue_pairs[peer],)

    def lanes_to(self, peer: int) -> Lanes:
        """Return the queue pairs by which data goes to a peer."""
        if peer not in self._lanes:
            self._lanes[peer] = Lanes([self.queue_pairs[peer]])
        return self._lanes[peer]

    def name(self, member: int) -> str:
        """Return a member as messages name it."""
        if member not in self._names:
            self._names[member] = f"{self.title(member)} ({ipv4_text(self.members[member])})"
        return self._names[member]

    def title(self, member: int) -> str:
        """Return a member's name without its address: `rank 3`, `server 0`."""
        size = self.size
        return f"rank {member}" if member < size else f"server {member - size}"


class Communicator(Members):
    """One rank's view of its group: one RC queue pair with every peer that it talks to, and
    one UD queue pair for each multicast group.

    The peers are the ring neighbours and the barrier's partners at the distances 2^k, so 2
    ceil(log2 P) queue pairs at most, and `partners`, of algorithms that need more
    (`weft.agents.collectives.registry.partners`). A queue pair serves everything between its two
    members, but for data that is to take several paths: peers with *lanes* have a queue pair for
    each, the first of them the one that serves all the rest. With every reduction server there is
    one.

    Args:
        endpoint: of this host.
        rank: 0 to P - 1.
        addresses: IPv4 address of every rank, as integers.
        groups: multicast groups, spread over roots and workers. Empty: no multicast. None in place
            of a group: this rank is no member of it.
        partners: further ranks to have a queue pair with; each of them must name this one.
        servers: IPv4 address of every reduction server; `weft.agents.servers.ReductionServer`s know
            of the group (`add_job`).
        aggregation: the job of the switches that add for this group; None: there is none.
        lanes: of each peer to which data takes paths that were chosen for it, those paths; what is
            written there goes to the lane that has been given least. A peer has the same number of
            them towards this rank.
        turns_from_next: whether queue pairs take turns from that with the next rank on, not from
            that with rank 0 on. Short messages of all to all that begin together then do not meet
            on one rank's link while others get nothing.
        epoch: a number, from 1 on, that no group of ranks before this one had whose multicast
            groups had the same addresses: nothing that those sent is taken for this one's.

    Raises:
        InputError: the rank is not one of the addresses', the endpoint has another address, or the
            aggregation job makes no sense.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rank: int,
        addresses: Sequence[int],
        groups: Sequence[int | None] = (),
        partners: Iterable[int] = (),
        servers: Sequence[int] = (),
        aggregation: SwitchJob | None = None,
        lanes: Mapping[int, Sequence[Lane]] | None = None,
        turns_from_next: bool = False,
        epoch: int = 1,
    ) -> None:
        whole_number("communicator: epoch", epoch)
        if not 0 <= rank < len(addresses):
            raise InputError(
                f"rank {rank}: a group of {len(addresses)} has 0 to {len(addresses) - 1}"
            )
        self.rank = rank
        self.addresses = tuple(addresses)
        self.servers = tuple(servers)
        size = len(addresses)
        self.next = (rank + 1) % size
        self.previous = (rank - 1) % size
        neighbours = {self.next, self.previous, *partners}
        peers = sorted((barrier_peers(rank, size) | neighbours) - {rank})
        if turns_from_next:
            peers.sort(key=lambda peer: (peer - rank) % size)
            lanes = {peer: lanes[peer] for peer in peers if peer in lanes} if lanes else None
        peers += range(size, size + len(servers))
        joined = {number: group for number, group in enumerate(groups) if group is not None}
        endpoint.expect_pairs(len(peers) + len(joined))
        super().__init__(endpoint, rank, addresses, servers, peers, lanes)
        own_port = endpoint.source_port_to(endpoint.address)
        made = endpoint.create_uds([*joined.values()], multicast_qkey(epoch), own_port)
        self.groups: dict[int, UdQueuePair] = dict(zip(joined, made, strict=True))
        """The queue pair for each multicast group of which this rank is a member, by the group's
        number."""
        self.multicast: list[UdQueuePair] = [*self.groups.values()]
        self.aggregation = (
            None if aggregation is None else join(endpoint, aggregation, rank, size, own_port)
        )
        self._peers: dict[object, int] = {
            pair: peer for peer in peers for pair in self.pairs_of(peer)
        }

        self.server_cursor = 0
        """Where the next request's pieces begin among the servers (Optcast's rule)."""
        self.turns: list[int] = []
        """Operations, by number, of which this rank has multicast to send or to wait for before the
        next may have the link: each of them fills it."""
        self.receiving: list[int] = []
        """The operations that have had their turn to send, and whose multicast data this rank waits
        for. The data of the first one are on their way, and the time runs until they are missed."""

    def check_peers(self, peers: Iterable[int], what: str) -> None:
        """Raise InputError if there is no queue pair with one of these members."""
        lacking = sorted(set(peers) - self.queue_pairs.keys())
        if lacking:
            raise InputError(
                f"{what}: rank {self.rank} has no queue pair with {self.title(lacking[0])}; make "
                "the communicators with what weft.agents.collectives.registry.partners says"
            )

    def pair_for(self, peer: int, size_bytes: int) -> RcQueuePair:
        """Return the queue pair on which so many bytes of data go to a peer."""
        return self.lanes_to(peer).take(size_bytes)

    def has_room(self, most_bytes: int) -> bool:
        """Return whether no more than so many bytes of RDMA WRITEs, of all operations, are posted
        and not acknowledged. If there are more, whoever asked is told of every acknowledgement."""
        state = self.endpoint.state
        if state.writing_bytes <= most_bytes:
            return True
        state.room_awaited = 1
        return False

    def share_window(self, peer: int, writers: int) -> None:
        """Divide the window towards a member among so many members that begin to write to it at the
        same time."""
        for pair in self.pairs_of(peer):
            pair.share_window(writers)

    def leave(self) -> None:
        """Take nothing more for the multicast groups and the aggregation job, whose addresses
        others may have then. No operation may be under way."""
        for pair in (*self.multicast, self.aggregation):
            if pair is not None:
                self.endpoint.forget(pair)

    def owns(self, pair: Posting) -> bool:
        """Return whether a queue pair is one of this communicator's."""
        return pair in self._peers or pair in self.multicast or pair is self.aggregation

    def peer_of(self, pair: Posting) -> int:
        """Return the member at the other end of an RC queue pair."""
        return self._peers[pair]


def make_lanes(endpoint: Endpoint, address: int, lanes: Sequence[Lane]) -> list[RcQueuePair]:
    """Make the queue pairs of the lanes to one peer."""
    pairs: list[RcQueuePair] = []
    for number, lane in enumerate(lanes):
        answering = _ANSWERING_PORTS + _NUMBERS * number
        pair = endpoint.create_rc(lane[0]) if lane else endpoint.create_rc_to(address, answering)
        if len(lane) > 1:
            pair.set_source_ports(lane)
            pair.move_acknowledgements()
        pairs.append(pair)
        pair.share_turns(pairs[0], len(lanes))
    return pairs


def queue_pair_to(
    endpoint: Endpoint, members: Sequence[int], own: int, peer: int, size: int
) -> RcQueuePair:
    """Make a queue pair of one member of a group of `size` ranks with another; a server on a rank's
    own host is reached without packets."""
    if members[peer] == endpoint.address:
        return endpoint.create_local()
    kind = 2 * (own >= size) + (peer >= size)
    number = _SERVER_PORTS + _NUMBERS * kind if kind else 0
    return endpoint.create_rc_to(members[peer], number)
