"""The records of selective repeat: what is sent, and what came ahead of a gap."""

from weft.agents.transport.layout import Piece
from weft.base.jit import Record, record


@record
class Board(Record):
    """What selective repeat knows of what is sent and of what came ahead of a gap.

    Behind it are BOARD_ROOM words of what is sent and not acknowledged, and then as many
    `KeptRequest`, by the lower bits of their sequence numbers.
    """

    head: Piece
    sacked_count: int
    lost_count: int
    stamp: int
    """How many packets have been sent."""
    delivered: int
    """The latest stamp of a packet that has arrived and was sent once."""
    highest_sacked: int
    promised: int
    """Everything before this has arrived; of READs the data may be missing."""
    kept_count: int


@record
class Sent(Record):
    """A packet that is sent and not acknowledged."""

    word: int
    """A state, two bits, the stamp."""


IN_FLIGHT, SACKED, LOST, ASKED = range(4)
"""The state of a READ's response whose request has arrived, or that is no packet of its own."""
STATE_MASK = 3
RESENT = 4
OF_READ = 8
STAMP_SHIFT = 4


@record
class KeptRequest(Record):
    """A packet that came ahead of a gap."""

    word: int
    """Kind, whether it begins a message, property bits, length and immediate; or for a READ kind,
    key and length. 0 where there is none."""
    address: int
    """The virtual address that a READ names."""


KEPT_WRITE, KEPT_SEND, KEPT_READ = range(1, 4)
KEPT_KIND_MASK = 3
KEPT_BEGINS = 4
KEPT_SHIFT = 3
KEPT_LENGTH_SHIFT = 16
KEPT_LENGTH_MASK = 0x3FFF
KEPT_IMMEDIATE_SHIFT = 30
KEPT_KEY_MASK = 0xFFFFFFFF
KEPT_READ_SHIFT = 35
MAXIMUM_KEPT_READ = (1 << 28) - 1
MAXIMUM_HELD_EVENTS = 256
