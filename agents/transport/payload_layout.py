"""The records of data that travel without bytes: who carries what, and what has come where."""

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
    """The step at which the first of it left."""
    landed: int
    """The step at which the last of it came."""
    fetched: int
    """Whether an RDMA READ brought it."""


@record
class Landings(Record):
    """All landings of a world's hosts."""

    rows: int
    """Address of `Landing`[room]."""
    count: int
    room: int
    step: int


KEPT_LANDINGS = 8
"""How many of its last landings an endpoint goes on with: one for each of so many queue pairs."""
