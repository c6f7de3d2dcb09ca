"""One-sided communication on memory that peers have registered: put, signal, wait; sans-I/O.

Every rank of a group registers a buffer of its own, and has some *flags*, numbers of 64 bits. A
rank writes into a peer's buffer (put), sets or adds to a peer's flags (signal), and waits for its
own flags. The names are those of OpenSHMEM 1.5 (sections 9.6, 9.8, 9.10): put, put with signal,
fence, quiet, wait until.

**Data before flag.** When a flag of a rank shows a signal, all that the same source had put there
before that signal is in the buffer: under loss, reordering and on several paths. Puts are RDMA
WRITEs, and each packet may be placed as it comes. A signal is a SEND, which is taken in the order
of its queue pair only when all before it has come. Where data takes several queue pairs, a signal
leaves once all puts before it are acknowledged.

Between puts there is no order, unless a *fence* is put between them.
"""

import operator
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.communicator import Lane, Members
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion
from weft.agents.transport.types import CompletionKind, MemoryRegion
from weft.base.errors import InputError, ProtocolError, refuse

Bytes = npt.NDArray[np.uint8]

MAGIC = 0x57465347
"""'WFSG'."""
PROBE_NS = 500_000_000
"""How often a rank that waits for a flag asks whether its peers are there."""
MASK = (1 << 64) - 1

Comparison = Literal["eq", "ne", "gt", "ge", "lt", "le"]
"""How `wait` compares a flag with a value."""
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge,
    "lt": operator.lt, "le": operator.le,
}  # fmt: skip

_SIGNAL = struct.Struct("!IBxxxIQ")
"""Magic, kind, flag, value."""
_SET, _ADD, _PROBE = 1, 2, 3


@dataclass(frozen=True)
class Reached:
    """A flag that was waited for has such a value, or all that was to be quiet is."""

    key: int
    """What the caller has called it."""
    value: int
    """The flag's value; 0 of `SymmetricMemory.quiet`."""


@dataclass(frozen=True)
class Broken:
    """A peer is gone, and so nothing more can be waited for or done with it."""

    peer: int
    error: str


@dataclass
class _Put:
    data: Bytes
    offset: int


@dataclass
class _Signal:
    message: bytes


@dataclass
class _Fence:
    pass


@dataclass
class _Peer:
    """What is under way to one peer."""

    region: tuple[int, int, int] = (0, 0, 0)
    """Address, key and length of the peer's buffer."""
    flags: int = 0
    """How many flags the peer has."""
    waiting: deque[_Put | _Signal | _Fence] = field(default_factory=deque)
    """What must not leave yet, in order."""
    puts: int = 0
    """Puts that are not acknowledged."""
    signals: int = 0


class SymmetricMemory(EndpointAgent):
    """Memory of a group that its ranks write directly; see the module.

    Args:
        endpoint: of this host.
        rank: this rank, 0 to P - 1.
        addresses: the IPv4 address of every rank, as integers.
        buffer: uint8[bytes], C-contiguous, which peers write.
        flags: how many flags there are, all 0 at first.
        lanes: of each peer to which data takes several paths, as `Communicator` has them.

    Raises:
        InputError: the endpoint has another address than the rank, or there are no flags.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rank: int,
        addresses: Sequence[int],
        buffer: Bytes,
        flags: int,
        lanes: Mapping[int, Sequence[Lane]] | None = None,
    ) -> None:
        super().__init__(endpoint)
        refuse(flags < 1, f"symmetric memory: {flags} flags: at least 1 is needed")
        others = [other for other in range(len(addresses)) if other != rank]
        self.members = Members(endpoint, rank, addresses, (), others, lanes)
        self.buffer = buffer
        self.flags: npt.NDArray[np.uint64] = np.zeros(flags, np.uint64)
        """The flags of this rank; only signals change them, and `reset`."""
        self._region: MemoryRegion = endpoint.register(buffer)
        self._peers = {other: _Peer() for other in others}
        self._of_pair: dict[object, int] = {
            pair: peer for peer in others for pair in self.members.pairs_of(peer)
        }
        self._ordered = endpoint.options.recovery == "go-back-n"
        """Whether a queue pair places packets in their order."""
        self._waits: dict[int, dict[int, tuple[Comparison, int]]] = {}
        """Of each flag that is waited for, how it is to compare with what, by key."""
        self._quiets: dict[int, list[int]] = {}
        self._lost: dict[int, str] = {}
        self._events: deque[Reached | Broken] = deque()
        self._probe_ns = 0

    # -- who meets

    def introduction(self) -> dict[int, tuple[int, ...]]:
        """Return what each peer must be told: queue pairs and first PSNs, as `Members` has them."""
        return self.members.introduction()

    @property
    def region(self) -> tuple[int, int, int]:
        """Return what all peers must be told: address, key and length of the buffer."""
        return self._region.address, self._region.rkey, self._region.length

    def connect(
        self,
        introductions: Mapping[int, Sequence[int]],
        regions: Mapping[int, tuple[int, int, int]],
    ) -> None:
        """Connect with all peers, given what they say. Raises InputError where one's is lacking."""
        self.members.connect(introductions)
        for peer, state in self._peers.items():
            if peer not in regions:
                raise InputError(f"{self.members.title(peer)} said nothing of its memory")
            state.region, state.flags = regions[peer], len(self.flags)

    def grow(self, buffer: Bytes, flags: int) -> None:
        """Have another buffer, and as many flags or more; flags keep their values. Peers must be
        told (`region`), and no put of theirs may be under way.

        Args:
            buffer: uint8[bytes], C-contiguous.
        """
        self.endpoint.deregister(self._region)
        self.buffer = buffer
        self._region = self.endpoint.register(buffer)
        more = max(flags - len(self.flags), 0)
        self.flags = np.concatenate([self.flags, np.zeros(more, np.uint64)])

    def moved(self, peer: int, region: tuple[int, int, int], flags: int) -> None:
        """Take note that a peer has another buffer, or another number of flags."""
        state = self._state(peer)
        state.region, state.flags = region, flags

    def serves(self, completion: Completion) -> bool:
        """Return whether a completion of the endpoint is of one of the queue pairs here."""
        return completion.qp in self._of_pair

    # -- what is done

    def put(self, peer: int, data: Bytes, offset: int) -> None:
        """Write bytes into a peer's buffer, at an offset. They must stay as they are until `quiet`.

        Args:
            data: uint8[bytes], C-contiguous.

        Raises:
            InputError: that is outside the peer's buffer.
        """
        length = self._state(peer).region[2]
        if not 0 <= offset <= length - len(data):
            raise InputError(
                f"put of {len(data)} bytes at {offset} of {self.members.title(peer)}: its buffer "
                f"has {length}"
            )
        if len(data):
            self._ask(peer, _Put(data, offset))

    def signal(self, peer: int, flag: int, value: int, *, add: bool = False) -> None:
        """Set a peer's flag, or add to it modulo 2**64, after all that was put there before.

        Raises:
            InputError: there is no such flag.
        """
        flags = self._state(peer).flags
        if not 0 <= flag < flags:
            raise InputError(f"flag {flag}: there are {flags}, from 0 on")
        self._ask(peer, _Signal(_SIGNAL.pack(MAGIC, _ADD if add else _SET, flag, value & MASK)))

    def put_signal(
        self, peer: int, data: Bytes, offset: int, flag: int, value: int, *, add: bool = False
    ) -> None:
        """Put, and signal when it is there."""
        self.put(peer, data, offset)
        self.signal(peer, flag, value, add=add)

    def fence(self, peer: int) -> None:
        """Let what is put later be placed after all that was put before."""
        self._ask(peer, _Fence())

    def quiet(self, key: int, peers: Sequence[int] | None = None) -> None:
        """Say, by `Reached` with this key, when all that was asked for so far has been placed at
        the peers, by default at all of them: the memory of puts is the caller's again."""
        self._quiets[key] = list(self._peers if peers is None else peers)
        self._look_for_quiet()

    def wait(self, key: int, flag: int, comparison: Comparison, value: int, now_ns: int) -> None:
        """Say, by `Reached` with this key, when a flag of this rank compares so with a value.

        Raises:
            InputError: there is no such flag or comparison.
        """
        if not 0 <= flag < len(self.flags):
            raise InputError(f"flag {flag}: there are {len(self.flags)}, from 0 on")
        if comparison not in _COMPARED:
            raise InputError(f"comparison {comparison!r}: choose from {', '.join(_COMPARED)}")
        if not self._waits:
            self._probe_ns = now_ns + PROBE_NS
        self._waits.setdefault(flag, {})[key] = comparison, value
        self._look_at(flag)

    def reset(self, flag: int, value: int = 0) -> None:
        """Set a flag of this rank. A signal that comes at the same time may be before or after."""
        self.flags[flag] = value & MASK
        self._look_at(flag)

    def give_up(self) -> None:
        """Wait for nothing any more."""
        self._waits.clear()
        self._quiets.clear()

    def leave(self) -> None:
        """Take the buffer back from the endpoint."""
        self.endpoint.deregister(self._region)

    def next_event(self) -> Reached | Broken | None:
        """Return the oldest event that was not taken yet, or None."""
        return self._events.popleft() if self._events else None

    # -- how

    def has_event(self) -> bool:
        """Return whether `next_event` has something."""
        return bool(self._events)

    @property
    def due_ns(self) -> int | None:
        """Return when the memory must be looked after."""
        return self._probe_ns if self._waits else None

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Take completions, let go what waited for them, and probe silent peers."""
        for completion in (*completions, *self.poll()):
            peer = self._of_pair[completion.qp]
            try:
                self._completed(peer, completion)
            except ProtocolError as error:
                self._lose(peer, f"{self.members.name(peer)} broke the protocol: {error}")
        if self._waits and now_ns >= self._probe_ns:
            self._probe_ns = now_ns + PROBE_NS
            for peer, state in self._peers.items():
                if peer not in self._lost and not (state.puts or state.signals):
                    self._post_signal(peer, _SIGNAL.pack(MAGIC, _PROBE, 0, 0))
        self._look_for_quiet()

    def _state(self, peer: int) -> _Peer:
        refuse(
            peer not in self._peers,
            f"peer {peer}: choose another rank than this one, {self.members.own}, of 0 to "
            f"{self.members.size - 1}",
        )
        return self._peers[peer]

    def _ask(self, peer: int, work: _Put | _Signal | _Fence) -> None:
        self._state(peer).waiting.append(work)
        self._let_go(peer)

    def _let_go(self, peer: int) -> None:
        """Post what may leave."""
        state = self._peers[peer]
        several = len(self.members.pairs_of(peer)) > 1
        while state.waiting:
            work = state.waiting[0]
            if isinstance(work, _Put):
                self._post_put(peer, work)
            elif isinstance(work, _Signal):
                if several and state.puts:
                    return
                self._post_signal(peer, work.message)
            elif state.puts and (several or not self._ordered):
                return
            state.waiting.popleft()

    def _post_put(self, peer: int, put: _Put) -> None:
        state = self._peers[peer]
        address, rkey, _ = state.region
        region = self.endpoint.register(put.data)
        pair = self.members.lanes_to(peer).take(len(put.data))
        state.puts += 1
        pair.post_write(region, 0, len(put.data), address + put.offset, rkey, context=region)

    def _post_signal(self, peer: int, message: bytes) -> None:
        self._peers[peer].signals += 1
        self.members.queue_pairs[peer].post_send(message, context="signal")

    def _completed(self, peer: int, completion: Completion) -> None:
        state = self._peers[peer]
        kind = completion.kind
        if kind is CompletionKind.RECEIVED:
            self._signalled(completion.data)
        elif kind is CompletionKind.ERROR:
            self._lose(peer, f"lost {self.members.name(peer)}: {completion.error}")
        elif isinstance(completion.context, MemoryRegion):
            self.endpoint.deregister(completion.context)
            state.puts -= 1
            self._let_go(peer)
        elif completion.context == "signal":
            state.signals -= 1

    def _signalled(self, data: bytes) -> None:
        refuse(len(data) != _SIGNAL.size, f"a signal of {len(data)} bytes", ProtocolError)
        magic, kind, flag, value = _SIGNAL.unpack(data)
        refuse(magic != MAGIC, f"a signal begins with {magic:#010x}", ProtocolError)
        refuse(kind not in (_SET, _ADD, _PROBE), f"a signal of unknown kind {kind}", ProtocolError)
        if kind == _PROBE:
            return
        refuse(flag >= len(self.flags), f"a signal to flag {flag}, which is not there",
               ProtocolError)  # fmt: skip
        if kind == _ADD:
            value = (int(self.flags[flag]) + value) & MASK
        self.flags[flag] = value
        self._look_at(flag)

    def _look_at(self, flag: int) -> None:
        """Tell of waits for a flag that are over."""
        now = int(self.flags[flag])
        waits = self._waits.get(flag, {})
        for key, (comparison, value) in list(waits.items()):
            if _COMPARED[comparison](now, value):
                del waits[key]
                self._events.append(Reached(key, now))
        if not waits:
            self._waits.pop(flag, None)

    def _look_for_quiet(self) -> None:
        """Tell of what has become quiet."""
        for key, peers in list(self._quiets.items()):
            states = (self._peers[peer] for peer in peers)
            if not any(state.puts or state.signals or state.waiting for state in states):
                del self._quiets[key]
                self._events.append(Reached(key, 0))

    def _lose(self, peer: int, reason: str) -> None:
        if peer in self._lost:
            return
        self._lost[peer] = reason
        self._peers[peer].waiting.clear()
        self._events.append(Broken(peer, reason))
