"""The control messages of the collectives: the payload of RC SENDs.

24 bytes of fixed fields behind a magic word, then text, ranges or bytes where a message has some.
Operations are counted in 32 bits here; data packets carry the low 8 bits of that number in their
immediate.
"""

import enum
import struct
from dataclasses import dataclass

import numpy as np

from weft.base.errors import ProtocolError, refuse

MAGIC = 0x57454654
"""'WEFT'; also keeps tshark's RPC-over-RDMA heuristic from seeing a version number in the second
word."""

Range = tuple[int, int, int]
"""(worker, first, end): the packets from `first` to before `end` of a worker's sink."""

_LAYOUT = struct.Struct("!IBBHIIQI")


class Kind(enum.IntEnum):
    """A control message is of one of these kinds, which say what its other fields mean."""

    TOKEN = 1
    """Barrier ``stage``, round ``round``: all that the sender waited for before that round has
    come."""
    READY = 2
    """Unicast algorithms: the sender's buffer may be written, at ``address`` with ``rkey``."""
    ACTIVATE = 3
    """Multicast: the predecessor in the chain has sent its last chunk; it is the receiver's
    turn."""
    FETCH = 4
    """The sender misses chunks of ``rank``'s shard and asks from where it may read that shard."""
    HOLD = 5
    """Answer: the whole shard of ``rank`` is held; the gathered buffer is at ``address`` with
    ``rkey``."""
    FETCHED = 6
    """The sender will not fetch any more in this operation."""
    ABORT = 7
    """The operation failed; ``text`` says why, ``rank`` is the rank that found out."""
    HOLD_PART = 9
    """Answer while something of ``rank``'s shard is missing here too: all of it but ``ranges`` is
    held, at ``address`` with ``rkey``. A HOLD follows."""
    PROBE = 8
    """Nothing: the sender waits for the receiver, and the acknowledgement says that it lives."""
    OPEN = 10
    """Reduction servers: the sender will contribute to the operation of which ``data`` says all;
    results are to be written at ``address`` with ``rkey``."""
    ADMIT = 11
    """Answer: contributions are to be written at ``address`` with ``rkey``."""
    REFUSE = 12
    """Answer: the server does not take part; ``text`` says why."""
    WAITING = 13
    """From a server to who has contributed: nothing comes from member ``rank``."""
    HAPPENED = 14
    """Flows: the event of dependency ``address`` has happened on the sender."""
    SENT = 15
    """Flows: multicast ``rank`` has left; what is missing of it may be read at ``address`` with
    ``rkey``."""
    GOT = 16
    """Answer: all of multicast ``rank`` has come."""


@dataclass(frozen=True)
class Control:
    """A control message tells a peer of an operation; it is an RDMA SEND of its own."""

    kind: Kind
    operation: int
    stage: int = 0
    round: int = 0
    rank: int = 0
    address: int = 0
    rkey: int = 0
    text: str = ""
    ranges: tuple[Range, ...] = ()
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the message as it goes over the wire, which `decode` reads."""
        head = _LAYOUT.pack(
            MAGIC, self.kind, self.stage, self.round, self.operation & 0xFFFFFFFF, self.rank,
            self.address, self.rkey,
        )  # fmt: skip
        if self.kind is Kind.HOLD_PART:
            return head + np.array(self.ranges, ">u4").tobytes()
        if self.kind is Kind.OPEN:
            return head + self.data
        text = self.text.encode()
        if len(text) > MAX_TEXT_BYTES:
            text = text[: MAX_TEXT_BYTES - 3] + b"..."
        return head + text

    @staticmethod
    def decode(data: bytes) -> "Control":
        """Return the message in a SEND's payload.

        Raises:
            ProtocolError: it is none.
        """
        refuse(
            len(data) < _LAYOUT.size,
            f"control message of {len(data)} bytes; the shortest has {_LAYOUT.size}",
            ProtocolError,
        )
        magic, kind, stage, round_, operation, rank, address, rkey = _LAYOUT.unpack_from(data)
        refuse(
            magic != MAGIC,
            f"control message begins with {magic:#010x}; expected {MAGIC:#010x}",
            ProtocolError,
        )
        try:
            named = Kind(kind)
        except ValueError as error:
            raise ProtocolError(f"control message of unknown kind {kind}") from error
        rest = data[_LAYOUT.size :]
        if named is Kind.OPEN:
            return Control(named, operation, stage, round_, rank, address, rkey, data=rest)
        if named is not Kind.HOLD_PART:
            text = rest.decode(errors="replace")
            return Control(named, operation, stage, round_, rank, address, rkey, text)
        refuse(len(rest) % 12, f"{len(rest)} bytes of ranges: a range has 12", ProtocolError)
        numbers = np.frombuffer(rest, ">u4").reshape(-1, 3).tolist()
        ranges = tuple((worker, first, end) for worker, first, end in numbers)
        return Control(named, operation, stage, round_, rank, address, rkey, ranges=ranges)


MAX_TEXT_BYTES = 200
"""So that a message with text fits in one packet of the smallest path MTU, 256 bytes."""
MAX_RANGES = 4096
