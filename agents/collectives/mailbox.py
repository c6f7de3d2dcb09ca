"""Messages between any two ranks, each with a tag: what MPI and PyTorch call send and receive;
sans-I/O.

The payload of a short message is in the SEND that announces it. Of a longer one the SEND says where
it is, the receiver gets it by RDMA READ once it has room for it, straight to where it belongs, and
says that it has it. So a sender never waits for a queue of the receiver's, messages that nobody
wants yet take no memory there, and each byte crosses the network once.

Messages from one rank to another with the same tag are received in the order in which they were
sent. A receiver may take them from any rank.
"""

import enum
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.communicator import Members
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion
from weft.agents.transport.types import CompletionKind, MemoryRegion
from weft.base.errors import ProtocolError, refuse

Bytes = npt.NDArray[np.uint8]

MAGIC = 0x5746544D
"""'WFTM'."""
PROBE_NS = 500_000_000
"""How often a rank that waits for a peer asks whether it is there."""
KEPT_NS = 5_000_000_000
"""How long memory that has been read stays registered: an RDMA READ request may be repeated yet."""
MOST_READ_BYTES = 1 << 30
"""The most bytes of one RDMA READ."""
MOST_OFFERS = 1 << 16
"""The most messages of one peer that nobody has received."""

_HEAD = struct.Struct("!IBxxxiIQQI")
"""Magic, kind, tag, number, length in bytes, address, key."""


class _Kind(enum.IntEnum):
    SHORT = 1
    """A message; the payload follows."""
    LONG = 2
    """A message that is to be read at ``address`` with ``rkey``."""
    TAKEN = 3
    """The message of that number has been read."""
    REFUSED = 4
    """The message of that number does not fit what waits for it; a text says why."""
    PROBE = 5
    """Nothing: the sender waits for the receiver, and the acknowledgement says that it lives."""
    GIVES_UP = 6
    """The sender takes part in nothing any more; a text says why."""


@dataclass(frozen=True)
class Passed:
    """A send or a receive is done."""

    key: int
    """What the caller has called it."""
    source: int
    """The rank that sent the message."""


@dataclass(frozen=True)
class NotPassed:
    """A send or a receive has failed."""

    key: int
    error: str


@dataclass(frozen=True)
class GivenUp:
    """A peer takes part in nothing any more, and nobody else is to, either."""

    reason: str


@dataclass(frozen=True)
class PeerLost:
    """A peer cannot be reached any more. What others send still comes."""

    reason: str


@dataclass(frozen=True)
class _Offer:
    source: int
    tag: int
    number: int
    length: int
    address: int
    rkey: int
    payload: bytes | None
    """A short message's payload; None if it is to be read."""


@dataclass
class _Receive:
    key: int
    source: int | None
    tag: int
    memory: Bytes
    at_most: bool = False
    """Whether the message may be shorter."""
    offer: _Offer | None = None
    region: MemoryRegion | None = None
    reads: int = 0


@dataclass
class _Send:
    key: int
    peer: int
    tag: int
    region: MemoryRegion


class Mailbox(EndpointAgent):
    """A mailbox sends and receives the messages of one rank of a group; see the module.

    Args:
        endpoint: of this host.
        rank: this rank, 0 to P - 1.
        addresses: the IPv4 address of every rank, as integers.

    Raises:
        InputError: the endpoint has another address than the rank.
    """

    def __init__(self, endpoint: Endpoint, rank: int, addresses: Sequence[int]) -> None:
        super().__init__(endpoint)
        others = [other for other in range(len(addresses)) if other != rank]
        self.members = Members(endpoint, rank, addresses, (), others)
        """The queue pairs with all others, which are to be connected (`Members.connect`)."""
        self._peers: dict[object, int] = {
            pair: peer for peer, pair in self.members.queue_pairs.items()
        }
        self.short_bytes = endpoint.path_mtu - _HEAD.size
        """The most bytes of a short message."""
        self._next_number = 0
        self._sends: dict[int, _Send] = {}
        """Long messages that have not been taken, by number."""
        self._receives: list[_Receive] = []
        """Receives that wait for their message, in order."""
        self._reading: list[_Receive] = []
        self._offers: list[_Offer] = []
        """Messages that nobody waits for yet, in order."""
        self._lost: dict[int, str] = {}
        """Why a rank cannot be reached any more."""
        self._silent: dict[int, str] = {}
        """Why a rank will begin nothing more; what it has sent has come."""
        self._kept: deque[tuple[int, MemoryRegion]] = deque()
        self._events: deque[Passed | NotPassed | GivenUp | PeerLost] = deque()
        self._probe_ns = 0
        self._now_ns = 0

    def serves(self, completion: Completion) -> bool:
        """Return whether a completion of the endpoint is of one of the mailbox's queue pairs."""
        return completion.qp in self._peers

    def send_to(self, key: int, peer: int, tag: int, memory: Bytes, now_ns: int) -> None:
        """Send a message; `Passed` comes when the memory belongs to the caller again: of a short
        message at once.

        Args:
            key: what the event calls it.
            peer: another rank of the group.
            tag: a number of 31 bits.
            memory: uint8[bytes], C-contiguous.
        """
        self._now_ns = now_ns
        if peer in self._lost:
            self._events.append(NotPassed(key, self._lost[peer]))
            return
        number = self._next_number
        self._next_number = (number + 1) & 0xFFFFFFFF
        if len(memory) <= self.short_bytes:
            head = _HEAD.pack(MAGIC, _Kind.SHORT, tag, number, len(memory), 0, 0)
            self._post(peer, head + memory.tobytes())
            self._events.append(Passed(key, self.members.own))
            return
        if tag >= 0 and peer in self._silent:
            self._events.append(NotPassed(key, self._silent[peer]))
            return
        region = self.endpoint.register(memory)
        self._sends[number] = _Send(key, peer, tag, region)
        self._post(
            peer,
            _HEAD.pack(MAGIC, _Kind.LONG, tag, number, len(memory), region.address, region.rkey),
        )

    def receive_from(
        self,
        key: int,
        source: int | None,
        tag: int,
        memory: Bytes,
        now_ns: int,
        *,
        at_most: bool = False,
    ) -> None:
        """Receive a message of exactly the memory's length; `Passed` says from whom it came.

        Args:
            key: what the event calls it.
            source: the rank that sends it; None: any of them.
            tag: the message's tag.
            memory: uint8[bytes], C-contiguous, writeable.
            at_most: whether a short message may be shorter than the memory, too, of which it has
                the beginning then.
        """
        self._now_ns = now_ns
        if not (self._receives or self._reading or self._sends):
            self._probe_ns = now_ns + PROBE_NS
        receive = _Receive(key, source, tag, memory, at_most)
        for place, offer in enumerate(self._offers):
            if _fits(receive, offer):
                del self._offers[place]
                self._take(receive, offer)
                return
        self._receives.append(receive)
        self._end_hopeless()

    def withdraw(self, key: int, reason: str) -> None:
        """Let a receive fail for a reason, unless its message has come."""
        for receive in self._receives:
            if receive.key == key:
                self._receives.remove(receive)
                self._events.append(NotPassed(key, reason))
                return

    def next_event(self) -> Passed | NotPassed | GivenUp | PeerLost | None:
        """Return the oldest event that was not taken yet, or None."""
        return self._events.popleft() if self._events else None

    @property
    def waits_for_sent(self) -> bool:
        """Whether somebody may wait until something that was sent has come: not of a message whose
        payload has left with it."""
        return False

    def has_event(self) -> bool:
        """Return whether `next_event` has something."""
        return bool(self._events)

    def give_up(self, reason: str) -> None:
        """Let all that is under way, and all that is asked for later, fail for a reason."""
        for peer in self.members.queue_pairs:
            self._lose(peer, reason)

    def disagree(self, why: str) -> None:
        """Let the mailboxes of all peers give up, for a reason, and this one."""
        text = why.encode()[: self.short_bytes]
        for peer in self.members.queue_pairs.keys() - self._lost.keys():
            self._post(peer, _HEAD.pack(MAGIC, _Kind.GIVES_UP, 0, 0, 0, 0, 0) + text)
        self.give_up(why)

    def silent(self, peer: int, reason: str) -> None:
        """Take note that a rank will begin nothing more, for a reason. What it has sent has come.
        Nor will it get a long message, unless the tag is negative: those are parts of what it has
        begun before."""
        self._silent[peer] = reason
        for number, sent in list(self._sends.items()):
            if sent.peer == peer and sent.tag >= 0:
                del self._sends[number]
                self._kept.append((self._now_ns + KEPT_NS, sent.region))
                self._events.append(NotPassed(sent.key, reason))
        self._end_hopeless()

    @property
    def sending(self) -> bool:
        """Return whether something that was sent is not acknowledged by its receiver's endpoint."""
        return any(pair.outstanding for pair in self.members.queue_pairs.values())

    def _end_hopeless(self) -> None:
        """Let receives fail for which no message can come any more."""
        for receive in list(self._receives):
            reasons = {**self._silent, **self._lost}
            peers = self._peers_of(receive.source)
            hopeless = peers <= reasons.keys() or (receive.source is None and self._lost)
            if hopeless:
                self._receives.remove(receive)
                reason = (self._lost or reasons) if receive.source is None else reasons
                self._events.append(NotPassed(receive.key, reason[min(peers & reason.keys())]))

    @property
    def due_ns(self) -> int | None:
        """Return when the mailbox must be looked after."""
        times = [self._kept[0][0]] if self._kept else []
        if self._receives or self._reading or self._sends:
            times.append(self._probe_ns)
        return min(times, default=None)

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Take completions, let memory go, and probe silent peers."""
        self._now_ns = now_ns
        for completion in (*completions, *self.poll()):
            peer = self._peers[completion.qp]
            try:
                self._completed(peer, completion)
            except ProtocolError as error:
                self._lose(peer, f"{self.members.name(peer)} broke the protocol: {error}")
        while self._kept and self._kept[0][0] <= now_ns:
            self.endpoint.deregister(self._kept.popleft()[1])
        if now_ns >= self._probe_ns:
            self._probe_ns = now_ns + PROBE_NS
            self._probe()

    def _probe(self) -> None:
        waited: set[int] = {each.peer for each in self._sends.values()}
        for receive in self._receives:
            waited |= self._peers_of(receive.source)
        for peer in sorted(waited - self._lost.keys()):
            if not self.members.queue_pairs[peer].outstanding:
                self._post(peer, _HEAD.pack(MAGIC, _Kind.PROBE, 0, 0, 0, 0, 0))

    def _peers_of(self, source: int | None) -> set[int]:
        return set(self.members.queue_pairs) if source is None else {source}

    def _post(self, peer: int, message: bytes) -> None:
        self.members.queue_pairs[peer].post_send(message)

    def _completed(self, peer: int, completion: Completion) -> None:
        kind = completion.kind
        if kind is CompletionKind.RECEIVED:
            self._heard(peer, completion.data)
        elif kind is CompletionKind.READ_DONE and isinstance(completion.context, _Receive):
            self._read(peer, completion.context)
        elif kind is CompletionKind.ERROR and peer not in self._lost:
            reason = f"lost {self.members.name(peer)}: {completion.error}"
            self._lose(peer, reason)
            self._events.append(PeerLost(reason))

    def _heard(self, peer: int, data: bytes) -> None:
        refuse(len(data) < _HEAD.size, f"a message of {len(data)} bytes", ProtocolError)
        magic, number_of_kind, tag, number, length, address, rkey = _HEAD.unpack_from(data)
        refuse(magic != MAGIC, f"a message begins with {magic:#010x}", ProtocolError)
        rest = data[_HEAD.size :]
        try:
            kind = _Kind(number_of_kind)
        except ValueError as error:
            raise ProtocolError(f"a message of unknown kind {number_of_kind}") from error
        if kind is _Kind.PROBE:
            return
        if kind is _Kind.GIVES_UP:
            reason = rest.decode(errors="replace")
            self._events.append(GivenUp(reason))
            self.give_up(reason)
            return
        if kind in (_Kind.TAKEN, _Kind.REFUSED):
            sent = self._sends.get(number)
            if sent is None and peer in self._silent:
                return  # it had begun to get the message, and this rank did not wait for that
            refuse(
                sent is None or sent.peer != peer,
                f"{kind.name} of message {number}, which is not under way",
                ProtocolError,
            )
            assert sent is not None
            del self._sends[number]
            self._kept.append((self._now_ns + KEPT_NS, sent.region))
            if kind is _Kind.TAKEN:
                self._events.append(Passed(sent.key, self.members.own))
            else:
                text = rest.decode(errors="replace")
                self._events.append(NotPassed(sent.key, f"{self.members.name(peer)}: {text}"))
            return
        short = kind is _Kind.SHORT
        refuse(
            length != len(rest) if short else bool(rest),
            f"{len(rest)} bytes follow a message of {length}",
            ProtocolError,
        )
        offer = _Offer(peer, tag, number, length, address, rkey, rest if short else None)
        for place, receive in enumerate(self._receives):
            if _fits(receive, offer):
                del self._receives[place]
                self._take(receive, offer)
                return
        refuse(
            sum(each.source == peer for each in self._offers) >= MOST_OFFERS,
            f"{MOST_OFFERS} messages that nobody receives",
            ProtocolError,
        )
        self._offers.append(offer)

    def _take(self, receive: _Receive, offer: _Offer) -> None:
        """Get a message that has met its receive."""
        room = len(receive.memory)
        may_be_shorter = receive.at_most and offer.payload is not None
        if not (offer.length == room or (may_be_shorter and offer.length < room)):
            why = (
                f"rank {offer.source} sent {offer.length} bytes with tag {offer.tag} to rank "
                f"{self.members.own}, which receives {room} bytes"
            )
            self._events.append(NotPassed(receive.key, why))
            if offer.payload is None:
                head = _HEAD.pack(MAGIC, _Kind.REFUSED, 0, offer.number, 0, 0, 0)
                self._post(offer.source, head + why.encode()[:180])
        elif offer.payload is not None:
            receive.memory[: offer.length] = np.frombuffer(offer.payload, np.uint8)
            self._events.append(Passed(receive.key, offer.source))
        else:
            receive.offer = offer
            receive.region = self.endpoint.register(receive.memory)
            pair = self.members.queue_pairs[offer.source]
            self._reading.append(receive)
            for first in range(0, offer.length, MOST_READ_BYTES):
                receive.reads += 1
                size = min(MOST_READ_BYTES, offer.length - first)
                pair.post_read(
                    receive.region, first, size, offer.address + first, offer.rkey, receive
                )

    def _read(self, peer: int, receive: _Receive) -> None:
        receive.reads -= 1
        if receive.reads:
            return
        assert receive.offer is not None and receive.region is not None
        self._reading.remove(receive)
        self.endpoint.deregister(receive.region)
        self._post(peer, _HEAD.pack(MAGIC, _Kind.TAKEN, 0, receive.offer.number, 0, 0, 0))
        self._events.append(Passed(receive.key, peer))

    def _lose(self, peer: int, reason: str) -> None:
        """Let all fail that waits for a rank."""
        if peer in self._lost:
            return
        self._lost[peer] = reason
        for number, sent in list(self._sends.items()):
            if sent.peer == peer:
                del self._sends[number]
                self._events.append(NotPassed(sent.key, reason))
        self._offers = [each for each in self._offers if each.source != peer]
        for receive in list(self._receives):
            if receive.source in (None, peer):
                self._receives.remove(receive)
                self._events.append(NotPassed(receive.key, reason))
        for receive in list(self._reading):
            if receive.offer is not None and receive.offer.source == peer:
                self._reading.remove(receive)
                self._events.append(NotPassed(receive.key, reason))


def _fits(receive: _Receive, offer: _Offer) -> bool:
    return receive.source in (None, offer.source) and receive.tag == offer.tag
