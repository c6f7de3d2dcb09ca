"""The records of data that travel without bytes: who carries what, and what has come where.

Sums of data without bytes are sums of weights: each rank's part of a sum has the rank's `weight_of`
in place of every element, so a sum shows how often each rank has contributed to it.
"""

import zlib

from weft.base.jit import Record, record


@record
class Carried(Record):
    """What stands behind a packet's headers in place of its bytes."""

    source: int
    """The address in the sender's memory."""
    sent: int
    """The step at which the packet left: sending and landing are numbered through."""


@record
class Landing(Record):
    """Bytes of one message that came one behind the other, from one place to another."""

    target: int
    """An address in the receiver's memory."""
    source: int
    """The address in the sender's."""
    length: int
    sent: int
    """The step at which the first of it left..."""
    left: int
    """... and the last of it."""
    landed: int
    """The step at which the last of it came."""
    fetched: int
    """Whether an RDMA READ brought it."""
    weight: int
    """Of a sum that switches made, for each of its elements, the sum of contributors' weights; then
    `source` is the place of the same elements in the receiver's own contribution. 0 of all else."""


@record
class Expected(Record):
    """Buffers of ranks that all are to have the same bytes, and have them already."""

    start: int
    """The address of the first, behind which the others follow..."""
    end: int
    stride: int
    """... after so many bytes each."""
    result: int
    """The address of the bytes, and how many there are."""
    length: int


@record
class Landings(Record):
    """All landings of a world's hosts."""

    rows: int
    """Address of `Landing`[room]."""
    count: int
    room: int
    step: int
    whole: int
    """1 if bytes travel, too: then `Landing.source` is the place where they landed."""
    expected: int
    """Address of `Expected`[expectations], if bytes travel: what comes there as it is to be is not
    written, as it is there."""
    expectations: int
    unlike: int
    """Whether something has come there that is not as it is to be: from then on all is written."""


UNLIKE = -1
"""The weight of a sum whose elements are not all alike."""


def weight_of(rank: int, ranks: int) -> int:
    """Return what stands for each element of a rank's contribution to a sum: a positive number of
    as many bits as sums of 31 bits on so many ranks leave, by a hash, so that other contributions
    hardly make the same sum."""
    bits = 30 - (ranks - 1).bit_length()
    return 1 + zlib.crc32(b"%d of %d" % (rank, ranks)) % ((1 << bits) - 1)


KEPT_LANDINGS = 8
"""How many of its last landings an endpoint goes on with: one for each of so many queue pairs."""
