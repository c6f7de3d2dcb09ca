"""Where things are in the flat arrays that compiled code works on.

All state is int64 words (and bytes for frames), reached from one *context* array of addresses and
sizes. So every compiled function has one short signature, and one long-running compiled loop can
drive all switches of a process, whatever programs they run.
"""

from __future__ import annotations

# Words of the context array.
BUFFERS = 0  # address of uint8[buffer_count, buffer_stride]: frames
BUFFER_STRIDE = 1
BUFFER_REFERENCES = 2  # address of int64[buffer_count]
FREE_BUFFERS = 3  # address of int64[buffer_count], a stack
FREE_BUFFER_COUNT = 4
PACKETS = 5  # address of int64[packet_count, PACKET_WORDS]
FREE_PACKETS = 6
FREE_PACKET_COUNT = 7
PHV = 8  # address of int64[packet_count, phv_stride]
PHV_STRIDE = 9
HEADERS = 10  # address of uint8[packet_count, header_stride]: what the deparser wrote
HEADER_STRIDE = 11
SWITCHES = 12  # address of int64[switch_count, SWITCH_WORDS]
PORTS = 13  # address of int64[switch_count * port_count, PORT_WORDS]
PORT_COUNT = 14  # ports of each switch
HEAP = 15  # address of int64[switch_count * port_count]: ports by the time of their next event
HEAP_LENGTH = 16
READY_HEAD = 17  # packets that have left: a list through NEXT
READY_TAIL = 18
AGAIN_HEAD = 19  # packets to be recirculated
AGAIN_TAIL = 20
SWITCH_COUNT = 21
NO_BUFFER = 22  # frames lost for want of a buffer or a packet
BUFFER_COUNT = 23
PACKET_COUNT = 24
DEPTHS = 25  # address of int64[switch_count * port_count, DEPTH_BUCKETS]: packets by queue depth
LOADS = 26  # address of int64[LOAD_ROWS, LOAD_BINS]: bytes by time; departures, then arrivals
LOAD_ROWS = 27
LOAD_START_NS = 28  # when the first bin begins; what is before is not counted
LOAD_BIN_NS = 29  # how long a bin is; it doubles when all of them are full
LANDED_HEAD = 32  # packets that have reached the far end of a patch link: a list through NEXT
LANDED_TAIL = 33
PATCHES = 34  # patched ports
CAPTURE = 35  # address of the ring of captured frames (switch.engine.captures); 0 = none
DROP = 40  # the egress port that means drop
EVENTS_WAIT = 41  # 1: events for a controller have come since this was last set to 0
PASSES = 42  # packets through ingress or egress, and copies made, since the start
PASSES_END = 43  # at so many the driver's turn ends
STORM = 44  # 1: a turn has ended before all was done, and since then all never was
RESERVE = 45  # packets and buffers that are left to what comes in: copies do not get them
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
P_BUFFER = 0
P_FRAME = 1  # offset in the buffer of the frame as it came in
P_FRAME_LENGTH = 2
P_PAYLOAD = 3  # offset in the buffer of what the parser left
P_PAYLOAD_LENGTH = 4
P_HEADER_LENGTH = 5  # bytes that the deparser wrote
P_NEXT = 6  # next packet of a list
P_SWITCH = 7
P_PORT = 8  # ingress port; from the queue on, egress port
P_ENQUEUED_NS = 9
P_QUEUE_BYTES = 10
P_DEPARTURE_NS = 11
P_LENGTH = 12  # of the frame that departs: header + payload, truncated
P_REPEATS = 13  # how often it has been resubmitted or recirculated
P_KEEP = 14  # bytes kept of a clone (0 = all)
P_TRACE = 15  # number of a packet that its switch traces; 0 = not traced
PACKET_WORDS = 16

# Words of a port.
Q_RATE_BPS = 0  # 0 = unlimited
Q_DELAY_NS = 1
Q_LIMIT_BYTES = 2
Q_LIMIT_PACKETS = 3
Q_HEAD = 4  # the queue, through P_NEXT
Q_TAIL = 5
Q_BYTES = 6
Q_PACKETS = 7
Q_FREE_NS = 8  # when the last frame's last bit is on the link
Q_REMAINDER = 9  # of the division that gave Q_FREE_NS
W_HEAD = 10  # frames under way on the link, in the order of their departure
W_TAIL = 11
Q_EVENT_NS = 12  # next event of this port; NONE
Q_HEAP_POSITION = 13  # NONE if not in the heap
Q_UP = 14  # 0: no such port, frames to it are dropped and counted
Q_DRIVER = 15  # free for the driver: the real-time loop keeps its socket number here
S_RX_PACKETS = 16
S_RX_BYTES = 17
S_TX_PACKETS = 18
S_TX_BYTES = 19
S_QUEUE_DROPS = 20
S_QUEUE_DROP_BYTES = 21
S_QUEUE_PEAK_PACKETS = 22
S_QUEUE_PEAK_BYTES = 23
Q_PEER = 24  # index of the port that a patch link leads to; NONE: frames are the driver's
Q_LINK_DOWN = 25  # 1: a patch link loses what reaches its far end
S_LOST_PACKETS = 26  # by a patch link that was down
S_LOST_BYTES = 27
Q_CAPTURE_IN = 28  # capture file of what comes in, + 1; 0 = none
Q_CAPTURE_OUT = 29
Q_CPU = 30  # 1: what reaches the far end of the link is the controller's
PORT_WORDS = 32

# Words of a switch.
PIPELINE = 0  # address of the compiled program; 0 = no program
IMAGE = 1  # address of the tables' image
IMAGE_WORDS = 2
COUNTERS = 3  # address of int64[cells, 2]: packets, bytes
COUNTER_WORDS = 4
REGISTERS = 5
REGISTER_WORDS = 6
METERS = 7  # address of int64[cells, METER_CELL]
METER_WORDS = 8
RANDOM = 9  # state of random()
EPOCH_NS = 10  # when the switch started: zero of the timestamps
FIELDS = 11  # words of a packet's PHV but for those of wide headers
DROPS_NO_PROGRAM = 12
DROPS_INGRESS = 13  # dropped by the program (or by a port that does not exist)
DROPS_EGRESS = 14
DROPS_NO_PORT = 15
DROPS_REPEATS = 16  # resubmitted or recirculated too often
DROPS_TOO_LONG = 17
NOW_NS = 18  # the time of the pipeline run under way
SCRATCH = 19  # address of int64[SCRATCH_WORDS]: keys and bytes to hash
ASSERTIONS = 20  # failed assert() and assume()
TRACE = 21  # address of int64[...]: the trace (switch.engine.trace_layout); 0 = none
OUTBOX = 24  # address of int64[OUTBOX_WORDS]: a ring of records for the controller
OUTBOX_WORDS = 25  # a power of two, or 0: no ring
OUTBOX_HEAD = 26  # words written since the program was loaded
OUTBOX_TAIL = 27  # words read
OUTBOX_WAITS = 28  # 1: records wait, and the controller has been told or will be
EVENTS_LOST = 29  # records that found no room
HITS = 30  # address of int64[HIT_WORDS]: when entries were last hit, in ns
HIT_WORDS = 31
SWITCH_WORDS = 32
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
R_CLONE = 16  # clone session + 1, 0 = no clone
R_CLONE_LIST = 17
R_RESUBMIT = 18  # field list, 0 = no resubmit
R_RECIRCULATE = 19
R_DIGEST = 20
R_TRUNCATE = 21  # bytes + 1, 0 = no truncation
R_EXIT = 22
R_LENGTH = 23  # packet length with the headers added and removed since
R_INGRESS_LENGTH = 24  # what counters count
R_FIELDS = 25  # words of the PHV in use: up to the wide headers, or all
PRIORITY = 31  # the field of that name; it is not among STANDARD_FIELDS, whose words are full
FIRST_FIELD = 32

DROP_PORT = 511

# standard_metadata.instance_type, as BMv2 has it.
NORMAL, INGRESS_CLONE, EGRESS_CLONE, COALESCED, RECIRCULATED, REPLICATION, RESUBMITTED = range(7)

# What a pipeline function is asked to do.
RUN_INGRESS = 0  # parse, verify checksums, ingress
RUN_EGRESS = 1
RUN_DEPARSER = 2  # update checksums, deparse
RUN_PARSER = 3  # parse only, of a clone
KEEP_FIELDS = 4  # copy a field list from packet `other` (low half; list in the high half)
CLEAR_METADATA = 5  # metadata to 0 but for the fields of a list

# Words of a record in a switch's outbox, and its kinds. A digest's record holds the words of its
# fields behind, a packet's the bytes of its frame.
O_KIND = 0
O_TIME_NS = 1
O_SUBJECT = 2  # id of the learn list, or the frame's length in bytes
O_WORDS = 3  # words that follow
OUTBOX_HEADER = 4
DIGEST, PACKET_IN = 1, 2

# Words of a meter's cell, and of each of its two token buckets.
M_RATES = 0  # 1: rates are set
M_LAST_US = 1  # when tokens came last
M_PEAK = 2
M_COMMITTED = 6
M_COUNTS = 10  # packets and bytes that became green, yellow, red
METER_CELL = 16
B_RATE = 0  # tokens a second
B_BURST = 1
B_TOKENS = 2
B_REMAINDER = 3  # millionths of a token
MOST_TOKENS = 1 << 61

# Words of a table image. Word 0 to 3 are the engine's own, a table's word follows at FIRST_TABLE.
I_MULTICAST = 0  # offset of a directory of groups, looked up as an exact table
I_CLONE = 1
FIRST_TABLE = 4
