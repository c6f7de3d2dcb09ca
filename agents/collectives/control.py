"""The control messages of the collectives: the payload of RC SENDs.

24 bytes of fixed fields behind a magic word, then text where a message has some. Operations are
counted in 32 bits here; data packets carry the low 8 bits of that number in their immediate.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from switch.errors import ProtocolError

MAGIC = 0x57454654
"""'WEFT'; also keeps tshark's RPC-over-RDMA heuristic from seeing a version number in the second
word."""

_LAYOUT = struct.Struct("!IBBHIIQI")


class Kind(enum.IntEnum):
    TOKEN = 1
    """Barrier ``stage``, round ``round``: all that the sender waited for before that round has
    come."""
    READY = 2
    """Ring: the receiver's buffer may be written, at ``address`` with ``rkey``."""
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


@dataclass(frozen=True)
class Control:
    kind: Kind
    operation: int
    stage: int = 0
    round: int = 0
    rank: int = 0
    address: int = 0
    rkey: int = 0
    text: str = ""

    def encode(self) -> bytes:
        head = _LAYOUT.pack(
            MAGIC, self.kind, self.stage, self.round, self.operation & 0xFFFFFFFF, self.rank,
            self.address, self.rkey,
        )  # fmt: skip
        return head + self.text.encode()[:MAX_TEXT_BYTES]

    @staticmethod
    def decode(data: bytes) -> Control:
        """The message in a SEND's payload.

        Raises:
            ProtocolError: it is none.
        """
        if len(data) < _LAYOUT.size:
            raise ProtocolError(
                f"control message of {len(data)} bytes; the shortest has {_LAYOUT.size}"
            )
        magic, kind, stage, round_, operation, rank, address, rkey = _LAYOUT.unpack_from(data)
        if magic != MAGIC:
            raise ProtocolError(
                f"control message begins with {magic:#010x}; expected {MAGIC:#010x}"
            )
        try:
            named = Kind(kind)
        except ValueError as error:
            raise ProtocolError(f"control message of unknown kind {kind}") from error
        text = data[_LAYOUT.size :].decode(errors="replace")
        return Control(named, operation, stage, round_, rank, address, rkey, text)


MAX_TEXT_BYTES = 200
"""So that every control message fits in one packet of the smallest path MTU, 256 bytes."""
