"""What the ranks of a fused operator say to each other: slices of tiles go into peers' memory as
soon as they are computed; sans-I/O.

The calls of a group have numbers, the same on all ranks, from 1 on. In a call each rank knows the
slices that it will send to each peer and those that it expects from each, by their sizes.

**Ready.** A rank that begins a call tells every peer so: what it calls, which slices it sends to
and expects from that peer, where in its buffer they belong, and which flags are theirs. Whoever
hears of it compares: if the two do not call the same, both ranks fail, and all others with them. A
slice leaves as soon as it is computed and its receiver was ready, by `SymmetricMemory.put_signal`,
and sets its own flag to the number of the call.

**Memory is used again without a race.** A rank is ready for a call only when it has returned from
the one before, so it has read all that had come; and nobody writes to a rank that was not ready for
this very call. Nothing of an earlier call is under way to it then, since it has seen all the flags
of that call, and data is there before its flag. So it may also put a larger buffer in the place of
its own: where that is comes with its readiness. Flags only grow, and a flag may belong to another
peer from call to call.

**The end.** A call ends when all peers were ready, all that was expected has come, and all that was
sent has been placed. So no rank returns from a call before all ranks have begun it.

**Refused.** A rank whose arguments make no sense uses up the number of the call all the same, and
tells all peers why. Those that have begun it fail; those that have refused it, too, go on.

**The bell.** A rank that gives up tells all peers why, and sets a flag of theirs that is there for
nothing else. Those that listen to it no more, since it was ready, listen again when the flag is
set. Whoever is in the call before yet brings that to its end: the rank that gave up has done so.

The messages of the first call carry the queue pairs of the memory, and nobody is ready before it
has connected them.
"""

import enum
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple
from zlib import crc32

import numpy as np

from weft.agents.collectives.mailbox import Bytes
from weft.agents.collectives.symmetric import Broken, SymmetricMemory
from weft.base.errors import ProtocolError, refuse

MAGIC = 0x57464658
"""'WFFX'."""
MESSAGE_BYTES = 512
"""All messages have this size."""
ALIGNMENT = 64
"""What a peer writes begins at a multiple of it, so that numbers of any type may be there."""
LEAST_BYTES, LEAST_FLAGS = 1 << 16, 64
"""The buffer and the flags that a rank begins with."""

BELL = 0
"""The flag of a rank that others set to 1 when they have given up."""

_HEAD = struct.Struct("!IBxxxQ")
"""Magic, kind, number of the call."""
_PAIR = struct.Struct("!II")
"""Number and initial PSN of a queue pair."""
_READY = struct.Struct("!QIQIIQIQIIQI")
"""Address, key and length of the buffer, number of flags, first flag and first byte of the peer;
then the slices that are sent and those that are expected: count, bytes, digest."""


class _Kind(enum.IntEnum):
    MEETS = 1
    """Here is my queue pair."""
    READY = 2
    """I have begun the call; what I call follows as a text."""
    REFUSES = 3
    """I take no part in the call; a text says why."""
    GIVES_UP = 4
    """I take no part in the call, or not to its end, and in none after it; a text says why."""


@dataclass(frozen=True)
class Arrived:
    """A slice has come: `Exchange.received` has it."""

    source: int
    index: int


@dataclass(frozen=True)
class CallEnded:
    """The call that was begun last has ended."""


@dataclass(frozen=True)
class Failed:
    """Nothing more can be done."""

    error: str


Event = Arrived | CallEnded | Failed
Send = Callable[[int, Bytes], None]
"""Sends a message to a peer; its memory belongs to the sender."""
Receive = Callable[[int, Bytes, Callable[[str], None]], None]
"""Receives a message of a peer into memory, and then calls something, with an error or an empty
text."""


class _Slices(NamedTuple):
    """What two ranks compare of slices."""

    number: int = 0
    size_bytes: int = 0
    digest: int = 0

    @staticmethod
    def of(sizes: Sequence[int]) -> "_Slices":
        return _Slices(len(sizes), sum(sizes), crc32(str(list(sizes)).encode()))

    def __str__(self) -> str:
        return f"{self.number} slice{'s' * (self.number != 1)} of {self.size_bytes} bytes in all"


@dataclass
class _Peer:
    """What a call is about with one peer."""

    met: bool = False
    """Whether its queue pair is known."""
    listening: bool = False
    """Whether a message of it is waited for."""
    ready: bool = False
    first_flag: int = 0
    offsets: list[int] = field(default_factory=list)
    """Where in its buffer each slice belongs, relative to the first."""
    base: int = 0
    waiting: list[tuple[int, Bytes]] = field(default_factory=list)
    """Slices that are computed, while it is not ready."""
    region: tuple[int, int, int] = (0, 0, 0)
    """Address, key and length of its buffer,"""
    flags: int = 0
    """and how many flags it has."""
    sends: _Slices = field(default_factory=_Slices)
    expects: _Slices = field(default_factory=_Slices)


class Exchange:
    """An exchange carries out the calls of one rank, one after the other; see the module.

    Args:
        memory: of the group, which nobody has connected.
        send, receive: carry messages of `MESSAGE_BYTES` between ranks, in their order.
    """

    def __init__(self, memory: SymmetricMemory, send: Send, receive: Receive) -> None:
        self.memory = memory
        self.rank = memory.members.own
        self.number = 0
        """Of the call that was begun, or refused, last."""
        self._send, self._receive = send, receive
        self._pairs: dict[int, tuple[int, ...]] = {}
        self._peers = {peer: _Peer() for peer in range(memory.members.size) if peer != self.rank}
        self._introduced = False
        self._connected = False
        self._text = ""
        self._running = False
        self._finishing = False
        self._places: dict[int, list[tuple[int, int]]] = {}
        """Offset and size of each slice that is expected, by source."""
        self._flags_of: dict[int, int] = {}
        self._missing: dict[int, tuple[int, int]] = {}
        """Source and index of each slice that has not come, by the key of its wait."""
        self._next_key = 0
        self._quiet_key = self._bell_key = -1
        self._rung = False
        """Whether a peer has rung the bell: all are listened to, whether they are ready or not."""
        self._failure = self._doom = ""
        """Why nothing more can be done, and why it cannot after the call that runs."""
        self._events: deque[Event] = deque()

    @property
    def running(self) -> bool:
        """Return whether a call was begun that has not ended."""
        return self._running

    def next_event(self) -> Event | None:
        """Return the oldest event that was not taken yet, or None."""
        return self._events.popleft() if self._events else None

    # -- what the rank does

    def begin(
        self, text: str, sends: Sequence[Sequence[int]], expects: Sequence[Sequence[int]],
        now_ns: int,
    ) -> None:  # fmt: skip
        """Begin a call. `Arrived` comes for each slice that is expected, and, after `finish`,
        `CallEnded`; or `Failed`.

        Args:
            text: what all ranks must call the same.
            sends: the sizes of the slices for each rank, in bytes; none for this one.
            expects: the sizes of the slices that each rank sends to this one.
        """
        refuse(self._running, "a call of the group has not ended", ProtocolError)
        self.number += 1
        if self._failure:
            self._events.append(Failed(self._failure))
            return
        self._text, self._running, self._finishing = text, True, False
        self._lay_out(expects)
        for peer, state in self._peers.items():
            sizes = sends[peer]
            state.ready, state.waiting = False, []
            state.offsets = [0, *accumulate(sizes)]
            state.sends, state.expects = _Slices.of(sizes), _Slices.of(expects[peer])
        self._bell_key = self._new_key()
        self.memory.wait(self._bell_key, BELL, "ge", 1, now_ns)
        for source, places in self._places.items():
            for index in range(len(places)):
                key = self._new_key()
                self._missing[key] = source, index
                self.memory.wait(
                    key, self._flags_of[source] + index, "ge", self.number, now_ns
                )  # fmt: skip
        if not self._introduced:
            self._introduced = True
            self._connected = not self._peers
            for peer, pair in self.memory.introduction().items():
                self._tell(peer, _Kind.MEETS, _PAIR.pack(*pair) + self._text.encode())
        if self._connected:
            self._tell_ready()
        for peer in self._peers:
            self._listen(peer)

    def give(self, peer: int, index: int, data: Bytes) -> None:
        """Send a slice, as soon as the peer is ready. Its memory must stay as it is until the call
        has ended."""
        state = self._peers[peer]
        if state.ready and self._connected:
            self._put(peer, index, data)
        else:
            state.waiting.append((index, data))

    def finish(self) -> None:
        """Say that all slices were given."""
        self._finishing = True
        self._look()

    def refuse(self, why: str) -> None:
        """Take no part in the next call, and tell the peers why."""
        self.number += 1
        for peer in self._peers:
            self._tell(peer, _Kind.REFUSES, why.encode())

    def disagree(self, why: str) -> None:
        """Fail, and let all peers know: this rank takes part in no call any more."""
        if not self._failure:
            number = self.number + (not self._running)
            for peer in self._peers:
                self._tell(peer, _Kind.GIVES_UP, why.encode(), number)
                if self._connected:
                    self.memory.signal(peer, BELL, 1)
            self.fail(why)

    def fail(self, reason: str) -> None:
        """Let the call that runs, and all later ones, fail for a reason."""
        if self._failure:
            return
        self._failure = reason
        self.memory.give_up()
        self._running = False
        self._events.append(Failed(reason))

    def received(self, source: int, index: int) -> Bytes:
        """Return a slice that has come, in the rank's buffer; it stays until the next call."""
        offset, size = self._places[source][index]
        return self.memory.buffer[offset : offset + size]

    def look_after(self) -> None:
        """Take what the memory has to tell."""
        while (event := self.memory.next_event()) is not None:
            if isinstance(event, Broken):
                self.fail(event.error)
            elif event.key == self._bell_key:
                self._rung = True
                for peer in self._peers:
                    self._listen(peer)
            elif event.key == self._quiet_key:
                self._running = False
                self.memory.give_up()  # to wait for the bell, and so to ask whether peers are there
                self._events.append(CallEnded())
                if self._doom:
                    self.fail(self._doom)
            else:
                place = self._missing.pop(event.key, None)
                if place is not None:
                    self._events.append(Arrived(*place))
        self._look()

    # -- how

    def _new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def _lay_out(self, expects: Sequence[Sequence[int]]) -> None:
        """Give all that is expected a place and a flag, and grow if that is needed."""
        self._places, self._flags_of, self._missing = {}, {}, {}
        end, flags = 0, BELL + 1
        for source in self._peers:
            self._flags_of[source] = flags
            self._places[source] = []
            for size in expects[source]:
                self._places[source].append((end, size))
                end += size
            end += -end % ALIGNMENT
            flags += len(expects[source])
        buffer = self.memory.buffer
        if end > len(buffer) or flags > len(self.memory.flags):
            if end > len(buffer):
                buffer = np.zeros(max(end, 2 * len(buffer)), np.uint8)
            self.memory.grow(buffer, max(flags, len(self.memory.flags)))

    def _tell(self, peer: int, kind: _Kind, content: bytes, number: int | None = None) -> None:
        message = _HEAD.pack(MAGIC, kind, self.number if number is None else number) + content
        memory = np.zeros(MESSAGE_BYTES, np.uint8)
        message = message[:MESSAGE_BYTES]
        memory[: len(message)] = np.frombuffer(message, np.uint8)
        self._send(peer, memory)

    def _tell_ready(self) -> None:
        for peer, state in self._peers.items():
            places = self._places[peer]
            content = _READY.pack(
                *self.memory.region, len(self.memory.flags), self._flags_of[peer],
                places[0][0] if places else 0, *state.sends, *state.expects,
            )  # fmt: skip
            self._tell(peer, _Kind.READY, content + self._text.encode())

    def _listen(self, peer: int) -> None:
        state = self._peers[peer]
        if state.listening:
            return
        state.listening = True
        memory = np.zeros(MESSAGE_BYTES, np.uint8)

        def heard(error: str) -> None:
            state.listening = False
            if error:
                self.fail(error)
                return
            try:
                self._heard(peer, memory.tobytes())
            except ProtocolError as problem:
                self.fail(f"{self.memory.members.name(peer)} broke the protocol: {problem}")

        self._receive(peer, memory, heard)

    def _heard(self, peer: int, data: bytes) -> None:
        """Take a message of a peer that was not ready yet, or that has rung the bell."""
        magic, kind, number = _HEAD.unpack_from(data)
        refuse(magic != MAGIC, f"a message begins with {magic:#010x}", ProtocolError)
        rest = data[_HEAD.size :]
        if self._failure:
            return
        if kind == _Kind.GIVES_UP or (kind == _Kind.REFUSES and number >= self.number):
            how = "gave up" if kind == _Kind.GIVES_UP else "takes no part in it"
            reason = f"{self.memory.members.title(peer)} {how}: {_text(rest)}"
            if self._running and number > self.number:
                self._doom = self._doom or reason
            else:
                self.fail(reason)
            return
        if kind != _Kind.REFUSES and not (self._rung and number > self.number):
            refuse(kind not in (_Kind.MEETS, _Kind.READY), f"a message of unknown kind {kind}",
                   ProtocolError)  # fmt: skip
            said = _PAIR if kind == _Kind.MEETS else _READY
            text = _text(rest[said.size :])
            if number < self.number:
                who = self.memory.members.title(peer)
                self.disagree(
                    f"{who} calls {text}, as fused call {number} of the group, in which rank "
                    f"{self.rank} has taken no part"
                )
                return
            refuse(number > self.number, f"call {number} before {self.number}", ProtocolError)
            if kind == _Kind.MEETS:
                self._meet(peer, _PAIR.unpack_from(rest))
            else:
                self._is_ready(peer, _READY.unpack_from(rest), text)
        if not self._peers[peer].ready or self._rung:
            self._listen(peer)

    def _meet(self, peer: int, pair: tuple[int, ...]) -> None:
        state = self._peers[peer]
        refuse(state.met, "it introduced itself twice", ProtocolError)
        state.met = True
        self._pairs[peer] = pair
        if all(state.met for state in self._peers.values()):
            self.memory.connect(self._pairs, dict.fromkeys(self._peers, (0, 0, 0)))
            self._connected = True
            self._tell_ready()
            for other, known in self._peers.items():
                if known.ready:
                    self._let_go(other)

    def _is_ready(self, peer: int, said: tuple[int, ...], text: str) -> None:
        state, who = self._peers[peer], self.memory.members.title(peer)
        refuse(not state.met or state.ready, "it is ready out of turn", ProtocolError)
        sends, expects = _Slices(*said[6:9]), _Slices(*said[9:12])
        if text != self._text:
            self.disagree(
                f"the ranks do not call the same: as fused call {self.number} of the group, rank "
                f"{self.rank} calls {self._text}, and {who} {text}"
            )
            return
        for own, theirs, how in (
            (state.sends, expects, f"rank {self.rank} sends {{}}, and {who} expects {{}}"),
            (state.expects, sends, f"{who} sends {{1}}, and rank {self.rank} expects {{0}}"),
        ):
            if own != theirs:
                self.disagree(
                    f"{self._text}: the sizes do not fit together: {how.format(own, theirs)}"
                )
                return
        state.region, state.flags = (said[0], said[1], said[2]), said[3]
        state.ready, state.first_flag, state.base = True, said[4], said[5]
        if self._connected:
            self._let_go(peer)

    def _let_go(self, peer: int) -> None:
        """Send what has waited for a peer to be ready."""
        state = self._peers[peer]
        self.memory.moved(peer, state.region, state.flags)
        waiting, state.waiting = state.waiting, []
        for index, data in waiting:
            self._put(peer, index, data)
        self._look()

    def _put(self, peer: int, index: int, data: Bytes) -> None:
        state = self._peers[peer]
        refuse(
            len(data) != state.offsets[index + 1] - state.offsets[index],
            f"slice {index} for rank {peer} has {len(data)} bytes",
            ProtocolError,
        )
        offset = state.base + state.offsets[index]
        self.memory.put_signal(peer, data, offset, state.first_flag + index, self.number)

    def _look(self) -> None:
        """Wait for quiet once nothing else is to be waited for."""
        if not (self._running and self._finishing) or self._missing:
            return
        if self._connected and all(state.ready for state in self._peers.values()):
            self._finishing = False
            self._quiet_key = self._new_key()
            self.memory.quiet(self._quiet_key)


def _text(content: bytes) -> str:
    return content.rstrip(b"\0").decode(errors="replace")
