"""Where things are in a trace: the one array that a traced switch writes its events into.

A head, then records of ``RECORD`` words: kind and version, packet, copy, time in ns, and four
arguments. It is filled from the front until it is taken; what finds no room is counted.
"""

from __future__ import annotations

# Words of the head.
(
    T_CAPACITY,  # words of the whole array
    T_END,  # where the next record goes
    T_PACKET,  # number of the packet under way; 0 = not traced
    T_COPY,  # its place in the packet pool
    T_BEGUN,  # packets traced so far
    T_LIMIT,  # most packets
    T_PASSED,  # packets that came when the limit or the room was used up
    T_LOST,  # records that found no room
    T_VERSION,  # of program and tables
) = range(9)
TRACE_HEAD = 16

RECORD = 8
KIND_BITS = 8
"""Of a record's first word; the version is above them."""

ROOM = 4096
"""Words that must be free where a packet begins."""

FRAME_BYTES = 512
"""Most of a frame that is kept, for what was extracted from it."""

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
    INGRESS_MORE,  # repeats, priority, learn list, drop port
    EGRESS,  # port, enq_qdepth, deq_qdepth, deq_timedelta
    EGRESS_MORE,  # instance type, egress_rid, 0, bytes
    EGRESS_END,  # clone session + 1, egress_spec, drop port
    DEPARSED,  # header bytes, payload bytes, bytes kept of a clone, truncated to + 1
    LEFT,  # field list of recirculate, port, 1 if there is no such port, repeats
    QUEUE_DROP,  # port, packets, bytes that wait, bytes of the packet
) = range(21)
