"""Where things are in the flat arrays that compiled code works on.

All state is int64 words (and bytes for frames), reached from one *context* array of addresses and
sizes. So every compiled function has one short signature, and one long-running compiled loop can
drive all switches of a process, whatever programs they run.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.int64]
"""An array of words, as compiled functions take it; in a program's plain form a memoryview."""

Octets: TypeAlias = NDArray[np.uint8]
"""Bytes of frames, likewise."""

# Words of the context array.
(
    BUFFERS,  # address of uint8[buffer_count, buffer_stride]: frames
    BUFFER_STRIDE,
    BUFFER_REFERENCES,  # address of int64[buffer_count]
    FREE_BUFFERS,  # address of int64[buffer_count], a stack
    FREE_BUFFER_COUNT,
    PACKETS,  # address of int64[packet_count, PACKET_WORDS]
    FREE_PACKETS,
    FREE_PACKET_COUNT,
    PHV,  # address of int64[packet_count, phv_stride]
    PHV_STRIDE,
    HEADERS,  # address of uint8[packet_count, header_stride]: what the deparser wrote
    HEADER_STRIDE,
    SWITCHES,  # address of int64[switch_count, SWITCH_WORDS]
    PORTS,  # address of int64[switch_count * port_count, PORT_WORDS]
    PORT_COUNT,  # ports of each switch
    HEAP,  # address of int64[switch_count * port_count]: ports by the time of their next event
    HEAP_LENGTH,
    READY_HEAD,  # packets that have left: a list through NEXT
    READY_TAIL,
    AGAIN_HEAD,  # packets to be recirculated
    AGAIN_TAIL,
    SWITCH_COUNT,
    NO_BUFFER,  # frames lost for want of a buffer or a packet
    BUFFER_COUNT,
    PACKET_COUNT,
    DEPTHS,  # address of int64[switch_count * port_count, DEPTH_BUCKETS]: packets by queue depth
    LOADS,  # address of int64[LOAD_ROWS, LOAD_BINS]: bytes by time; departures, then arrivals
    LOAD_ROWS,
    LOAD_START_NS,  # when the first bin begins; what is before is not counted
    LOAD_BIN_NS,  # how long a bin is; it doubles when all of them are full
) = range(30)
(
    LANDED_HEAD,  # packets that have reached the far end of a patch link: a list through NEXT
    LANDED_TAIL,
    PATCHES,  # patched ports
    CAPTURE,  # address of the ring of captured frames (switch.engine.captures); 0 = none
) = range(32, 36)
(
    DROP,  # the egress port that means drop
    EVENTS_WAIT,  # 1: events for a controller have come since this was last set to 0
    PASSES,  # packets through ingress or egress, and copies made, since the start
    PASSES_END,  # at so many the driver's turn ends
    STORM,  # 1: a turn has ended before all was done, and since then all never was
    RESERVE,  # packets and buffers that are left to what comes in: copies do not get them
) = range(40, 46)
CONTEXT_WORDS = 48

DEPTH_BUCKETS = 192  # see switch.engine.telemetry
LOAD_BINS = 256
NEVER_NS = 1 << 62

NONE = -1

MOST_FRAME_BYTES = 65535

# A frame starts at HEADROOM in its buffer; reads of whole words may go SLACK bytes past its end.
HEADROOM = 256
SLACK = 64

# Words of a packet.
(
    P_BUFFER,
    P_FRAME,  # offset in the buffer of the frame as it came in
    P_FRAME_LENGTH,
    P_PAYLOAD,  # offset in the buffer of what the parser left
    P_PAYLOAD_LENGTH,
    P_HEADER_LENGTH,  # bytes that the deparser wrote
    P_NEXT,  # next packet of a list
    P_SWITCH,
    P_PORT,  # ingress port; from the queue on, egress port
    P_ENQUEUED_NS,
    P_QUEUE_BYTES,
    P_DEPARTURE_NS,
    P_LENGTH,  # of the frame that departs: header + payload, truncated
    P_REPEATS,  # how often it has been resubmitted or recirculated
    P_KEEP,  # bytes kept of a clone (0 = all)
    P_TRACE,  # number of a packet that its switch traces; 0 = not traced
    PACKET_WORDS,  # all of them
) = range(17)

# Words of a port.
(
    Q_RATE_BPS,  # 0 = unlimited
    Q_DELAY_NS,
    Q_LIMIT_BYTES,
    Q_LIMIT_PACKETS,
    Q_HEAD,  # the queue, through P_NEXT
    Q_TAIL,
    Q_BYTES,
    Q_PACKETS,
    Q_FREE_NS,  # when the last frame's last bit is on the link
    Q_REMAINDER,  # of the division that gave Q_FREE_NS
    W_HEAD,  # frames under way on the link, in the order of their departure
    W_TAIL,
    Q_EVENT_NS,  # next event of this port; NONE
    Q_HEAP_POSITION,  # NONE if not in the heap
    Q_UP,  # 0: no such port, frames to it are dropped and counted
    Q_DRIVER,  # free for the driver: the real-time loop keeps its socket number here
    S_RX_PACKETS,
    S_RX_BYTES,
    S_TX_PACKETS,
    S_TX_BYTES,
    S_QUEUE_DROPS,
    S_QUEUE_DROP_BYTES,
    S_QUEUE_PEAK_PACKETS,
    S_QUEUE_PEAK_BYTES,
    Q_PEER,  # index of the port that a patch link leads to; NONE: frames are the driver's
    Q_LINK_DOWN,  # 1: a patch link loses what reaches its far end
    S_LOST_PACKETS,  # by a patch link that was down
    S_LOST_BYTES,
    Q_CAPTURE_IN,  # capture file of what comes in, + 1; 0 = none
    Q_CAPTURE_OUT,
    Q_CPU,  # 1: what reaches the far end of the link is the controller's
) = range(31)
PORT_WORDS = 32

# Words of a switch.
(
    PIPELINE,  # address of the compiled program; 0 = no program
    IMAGE,  # address of the tables' image
    IMAGE_WORDS,
    COUNTERS,  # address of int64[cells, 2]: packets, bytes
    COUNTER_WORDS,
    REGISTERS,
    REGISTER_WORDS,
    METERS,  # address of int64[cells, METER_CELL]
    METER_WORDS,
    RANDOM,  # state of random()
    EPOCH_NS,  # when the switch started: zero of the timestamps
    FIELDS,  # words of a packet's PHV but for those of wide headers
    DROPS_NO_PROGRAM,
    DROPS_INGRESS,  # dropped by the program (or by a port that does not exist)
    DROPS_EGRESS,
    DROPS_NO_PORT,
    DROPS_REPEATS,  # resubmitted or recirculated too often
    DROPS_TOO_LONG,
    NOW_NS,  # the time of the pipeline run under way
    SCRATCH,  # address of int64[SCRATCH_WORDS]: keys and bytes to hash
    ASSERTIONS,  # failed assert() and assume()
    TRACE,  # address of int64[...]: the trace (switch.engine.trace_layout); 0 = none
) = range(22)
(
    OUTBOX,  # address of int64[OUTBOX_WORDS]: a ring of records for the controller
    OUTBOX_WORDS,  # a power of two, or 0: no ring
    OUTBOX_HEAD,  # words written since the program was loaded
    OUTBOX_TAIL,  # words read
    OUTBOX_WAITS,  # 1: records wait, and the controller has been told or will be
    EVENTS_LOST,  # records that found no room
    HITS,  # address of int64[HIT_WORDS]: when entries were last hit, in ns
    HIT_WORDS,
    SWITCH_WORDS,  # all of them
) = range(24, 33)
SCRATCH_WORDS = 9216  # 256 key words, 4096 bytes of fields, a payload of MOST_FRAME_BYTES

# Fields of a PHV that the engine itself reads and writes, at the same place in every program.
STANDARD_FIELDS = (
    "ingress_port",
    "egress_spec",
    "egress_port",
    "instance_type",
    "packet_length",
    "mcast_grp",
    "egress_rid",
    "checksum_error",
    "parser_error",
    "ingress_global_timestamp",
    "egress_global_timestamp",
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "qid",
)
(
    INGRESS_PORT,
    EGRESS_SPEC,
    EGRESS_PORT,
    INSTANCE_TYPE,
    PACKET_LENGTH,
    MCAST_GRP,
    EGRESS_RID,
    CHECKSUM_ERROR,
    PARSER_ERROR,
    INGRESS_GLOBAL_TIMESTAMP,
    EGRESS_GLOBAL_TIMESTAMP,
    ENQ_TIMESTAMP,
    ENQ_QDEPTH,
    DEQ_TIMEDELTA,
    DEQ_QDEPTH,
    QID,
) = range(16)

# What primitives leave for the engine; not visible to the program.
(
    R_CLONE,  # clone session + 1, 0 = no clone
    R_CLONE_LIST,
    R_RESUBMIT,  # field list, 0 = no resubmit
    R_RECIRCULATE,
    R_DIGEST,
    R_TRUNCATE,  # bytes + 1, 0 = no truncation
    R_EXIT,
    R_LENGTH,  # packet length with the headers added and removed since
    R_INGRESS_LENGTH,  # what counters count
    R_FIELDS,  # words of the PHV in use: up to the wide headers, or all
) = range(16, 26)
PRIORITY = 31  # the field of that name; it is not among STANDARD_FIELDS, whose words are full
FIRST_FIELD = 32

DROP_PORT = 511

# standard_metadata.instance_type, as BMv2 has it.
NORMAL, INGRESS_CLONE, EGRESS_CLONE, COALESCED, RECIRCULATED, REPLICATION, RESUBMITTED = range(7)

# What a pipeline function is asked to do.
(
    RUN_INGRESS,  # parse, verify checksums, ingress
    RUN_EGRESS,
    RUN_DEPARSER,  # update checksums, deparse
    RUN_PARSER,  # parse only, of a clone
    KEEP_FIELDS,  # copy a field list from packet `other` (low half; list in the high half)
    CLEAR_METADATA,  # metadata to 0 but for the fields of a list
) = range(6)

# Words of a record in a switch's outbox, and its kinds. A digest's record holds the words of its
# fields behind, a packet's the bytes of its frame.
(
    O_KIND,
    O_TIME_NS,
    O_SUBJECT,  # id of the learn list, or the frame's length in bytes
    O_WORDS,  # words that follow
    OUTBOX_HEADER,  # all of them
) = range(5)
DIGEST, PACKET_IN = 1, 2

# Words of a meter's cell, and of each of its two token buckets.
(
    M_RATES,  # 1: rates are set
    M_LAST_US,  # when tokens came last
    M_PEAK,
) = range(3)
M_COMMITTED = 6
M_COUNTS = 10  # packets and bytes that became green, yellow, red
METER_CELL = 16
(
    B_RATE,  # tokens a second
    B_BURST,
    B_TOKENS,
    B_REMAINDER,  # millionths of a token
) = range(4)
MOST_TOKENS = 1 << 61

# Words of a table image. Word 0 to 3 are the engine's own, a table's word follows at FIRST_TABLE.
I_MULTICAST = 0  # offset of a directory of groups, looked up as an exact table
I_CLONE = 1
FIRST_TABLE = 4
