"""The records of a trace: the one array that a traced switch writes its events into.

It has a `TraceHead`, then as many `TraceRecord` as have been written. It is filled from the front
until it is taken; what finds no room is counted.
"""

from weft.base.jit import Record, record, words_in


@record
class TraceHead(Record):
    """Begin a trace; the records are behind it."""

    capacity: int
    """Words of the whole array."""
    end: int
    """The word where the next record goes."""
    packet: int
    """The number of the packet under way; 0 means that it is not traced."""
    row: int
    """Its row in the packet pool."""
    begun: int
    """How many packets have been traced so far."""
    limit: int
    """The most packets that are traced."""
    passed: int
    """How many packets came when the limit or the room was used up."""
    lost: int
    """How many records found no room."""
    version: int
    """The version of program and tables."""


@record
class TraceRecord(Record):
    """What happened to a packet."""

    kind: int
    """The kind in the lower KIND_BITS, the version of program and tables above them."""
    packet: int
    row: int
    time_ns: int
    a: int
    """Four arguments, which the kind says more about."""
    b: int
    c: int
    d: int


TRACE_HEAD = words_in(TraceHead)
RECORD = words_in(TraceRecord)
KIND_BITS = 8

ROOM = 8192
"""How many words must be free where a packet begins."""

FRAME_BYTES = 512
"""How many bytes of a frame are kept at most, for what is extracted from it."""

# Kinds of records, and their arguments.
(
    RECEIVED,  # port, bytes, instance type, repeats
    FRAME,  # 32 bytes of the frame
    STATE,  # state
    KEY,  # word of a key, its place
    EXTRACTED,  # family of headers, element, first byte, bytes
    REJECTED,  # parser error, byte
    PARSED,  # bytes, parser error
    CHECKSUM,  # one is wrong
    TABLE,  # table, entry's cell or -1
    ACTION,  # code, parameter words
    ARGUMENTS,  # up to four of them
    CONDITION,  # condition, 1 if it holds
    MESSAGE,  # log message, values
    INGRESS_END,  # clone session + 1, field list of resubmit, group, egress_spec
    INGRESS_MORE,  # repeats, 0, learn list, drop port
    EGRESS,  # port, enq_qdepth, deq_qdepth, deq_timedelta
    EGRESS_MORE,  # instance type, egress_rid, priority, bytes
    EGRESS_END,  # clone session + 1, egress_spec, drop port
    DEPARSED,  # header bytes, payload bytes, bytes kept of a clone, truncated to + 1
    LEFT,  # field list of recirculate, port, 1 if there is no such port, repeats
    QUEUE_DROP,  # port, packets, bytes that wait, bytes of the packet
    PRIORITY_DROP,  # priority, queues of a port
    WORDS,  # up to four words of the value that the next record tells
    ASSIGNED,  # field, element of a stack or -1, up to two words of its value
    REGISTER,  # access, index, up to two words of the cell
) = range(25)
