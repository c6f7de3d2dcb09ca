"""Where things are in the int64 arrays that compiled transport code works on.

An endpoint's state is one array of words; it holds the addresses of the tables: one row per queue
pair, per memory region and per multicast group. So a compiled function takes one argument for all
of it, and a later event loop can serve many endpoints without going back to Python.

An endpoint may have thousands of queue pairs, most of them idle: a row is small, and what a call
costs depends on the rows that have something to do. Trees of times find those.

Packet sequence numbers are kept unbounded (the wire has their lower 24 bits); times are ns; 0
means "not set" for times.
"""

from __future__ import annotations

# Endpoint.
ADDRESS = 0
PATH_MTU = 1
RATE_BPS = 2
QUEUE_PAIRS = 3
"""How many rows of the queue pair table are in use."""
FIRST_NUMBER = 4
"""The QP number of row 0; row i has FIRST_NUMBER + i."""
QUEUE_PAIR_TABLE = 5
"""Addresses of the tables."""
REGION_TABLE = 6
REGIONS = 7
GROUP_TABLE = 8
GROUPS = 9
EVENT_TABLE = 10
EVENT_ROOM = 11
EVENTS = 12
"""How many rows of the event table are filled."""
LINK_FREE = 13
"""When the endpoint's own rate lets the next packet go."""
WAS_IDLE = 14
"""Whether there was nothing to send at the end of the last transmit: then no credit builds up."""
ROTATION = 15
"""Who is served next: 2 * row for requests and chunks, 2 * row + 1 for READ responses."""
DEADLINE = 16
MAXIMUM_WINDOW = 17
READ_SEGMENT = 18
ACKNOWLEDGE_EVERY = 19
INITIAL_TIMEOUT = 20
MINIMUM_TIMEOUT = 21
MAXIMUM_TIMEOUT = 22
RETRY_LIMIT = 23
GIVE_UP = 24
PACING_CREDIT = 25
DATA_TIME = 26
"""When there is data to send, the endpoint's own rate aside."""
SCRATCH = 27
"""Address of the fields of the packet at hand."""
ACKNOWLEDGE_INTERVAL = 28
TREE_ROWS = 29
"""For how many rows of the queue pair table the trees have leaves: a power of 2."""
TIMER_TREE = 30
"""Addresses of the trees. A tree of n leaves has 2n words: word n + i is leaf i's time, word i the
earlier of words 2i and 2i + 1, so word 1 the earliest of all. A leaf is the row of a queue pair:
when its retransmission timer expires;"""
CONTROL_TREE = 31
"""0 while it has control to send, otherwise never;"""
DATA_TREE = 32
"""and of twice as many leaves, by turn as in ROTATION: when it may send data."""
CHANGED_TABLE = 33
"""Address of the rows that changed since the last transmit: their leaves may be out of date."""
CHANGED = 34
"""How many there are."""
READ_BLOCKS = 35
"""Address of the last READ block that was made, 0 for none; and of the first that nobody uses."""
FREE_READ_BLOCKS = 36
FIRST_AGGREGATION = 37
"""The first row of an aggregation queue pair, plus 1; 0 for none."""
CONGESTION = 38
"""WINDOW_CONTROL or DCTCP."""
RECOVERY = 39
"""GO_BACK_N or SELECTIVE."""
REORDER = 40
"""A gap counts as lost when a packet sent so much later has arrived."""
ENTROPY = 41
"""FIXED, REPS or PLB."""
ENTROPIES = 42
FREEZE = 43
RANDOM = 44
"""The state of the endpoint's random numbers."""
ECT = 45
"""The ECN bits of the data of connections."""
ECHO = 46
"""Whether acknowledgements echo marks: 0, ECHO_CHANGES or ECHO_EVERY."""
ECHO_TABLE = 47
"""Address of the ring of echoes to be sent, and how many there have been, and have been sent."""
ECHOES = 48
ECHOES_SENT = 49
BOARDS = 50
"""Address of the last board that was made, 0 for none; and of the first that nobody uses."""
FREE_BOARDS = 51
BOARD_ROOM = 52
"""How many sequence numbers a board knows: a power of 2."""
HELD_EVENTS = 53
"""How many of the packets kept ahead of a gap will be events."""
CONTROL_TIMEOUT = 54
"""After so long, and twice what is in flight, what is cheap to repeat is repeated."""
EXPLORE_PACKETS = 55
"""REPS: so many packets take random entropies at first, and after a freeze."""
STATISTICS = 56
"""From here on the counters of `Statistics`, in their order."""

RECEIVED_PACKETS = STATISTICS
RECEIVED_BYTES = STATISTICS + 1
TRANSMITTED_PACKETS = STATISTICS + 2
TRANSMITTED_BYTES = STATISTICS + 3
RETRANSMITTED_PACKETS = STATISTICS + 4
DUPLICATE_PACKETS = STATISTICS + 5
OUT_OF_ORDER_PACKETS = STATISTICS + 6
TIMEOUTS = STATISTICS + 7
NAKS_SENT = STATISTICS + 8
NAKS_RECEIVED = STATISTICS + 9
ACKNOWLEDGEMENTS_SENT = STATISTICS + 10
BAD_ICRC = STATISTICS + 11
TRUNCATED = STATISTICS + 12
UNKNOWN_OPCODE = STATISTICS + 13
UNKNOWN_QUEUE_PAIR = STATISTICS + 14
ACCESS_ERRORS = STATISTICS + 15
OWN_LOOPBACK = STATISTICS + 16
WRONG_OPERATION = STATISTICS + 17
DUPLICATE_CHUNKS = STATISTICS + 18
CHUNKS_OUT_OF_BOUNDS = STATISTICS + 19
CHUNKS_RECEIVED = STATISTICS + 20
CHUNKS_SENT = STATISTICS + 21
CONGESTION_MARKS = STATISTICS + 22
MARKS_RECEIVED = STATISTICS + 23
MARKS_ECHOED = STATISTICS + 24
REORDERED_PACKETS = STATISTICS + 25
REORDER_PEAK_PACKETS = STATISTICS + 26
REORDER_DISTANCE_PEAK = STATISTICS + 27
PATH_CHANGES = STATISTICS + 28
ENTROPIES_DRAWN = STATISTICS + 29
ENDPOINT_WORDS = STATISTICS + 30

# A row of the queue pair table.
KIND = 0
STATE = 1
NUMBER = 2
SOURCE_PORT = 3
TOS = 4
PEER_ADDRESS = 5
"""The connected peer, or the multicast group."""
PEER_NUMBER = 6

# Requester side: posted work [FIRST_WORK, NEXT_WORK), oldest unacknowledged, next to send, one
# past the highest ever sent.
FIRST_WORK = 7
NEXT_WORK = 8
SEND_WORK = 9
"""The work that SEND_NEXT belongs to."""
UNACKNOWLEDGED = 10
SEND_NEXT = 11
SEND_HIGHEST = 12
POSTED_END = 13
WINDOW = 14
"""In 1/256 packets."""
RECOVERY_END = 15
"""The window is not halved again before this is acknowledged."""
ACKNOWLEDGE_ASKED = 16
TIMER = 17
SMOOTHED_RTT = 18
RTT_VARIATION = 19
TIMED_PSN = 20
"""The packet whose round trip is being measured, or -1."""
TIMED_AT = 21
RETRIES = 22
LAST_PROGRESS = 23
PROBING = 24
"""After a timeout: one packet at a time until something is acknowledged."""
REWOUND_AT = 25
"""What was unacknowledged when a NAK or a missing READ response last made us go back."""

ASKED_AT = 42
"""When an acknowledgement was last asked for."""

# Responder side.
EXPECTED = 26
MESSAGES = 27
"""The message sequence number of the AETH."""
IN_MESSAGE = 28
WRITE_ADDRESS = 29
WRITE_KEY = 30
WRITE_REMAINING = 31
WRITE_LENGTH = 32
ACKNOWLEDGE_PENDING = 33
SINCE_ACKNOWLEDGE = 34
NAK_PENDING = 35
"""The syndrome to send, or 0."""
NAK_SENT = 36
READS = 37
"""How many READs wait to be answered, in order of their PSN."""

# A UD queue pair.
QKEY = 38
CHUNK_DUE = 39
CHUNK_PSN = 40
CHUNKS_IDLE = 41
CHUNKS_BEFORE_PAUSE = 43
"""How many more chunks of the batch at hand leave without a pause."""

IS_CHANGED = 44
"""Whether it is in the endpoint's CHANGED_TABLE."""
WORK_RING = 45
"""Address of the ring of posted work; 0 as long as that in the row is large enough."""
WORK_ROOM = 46
"""How much work the ring has room for: a power of 2."""
READ_BLOCK = 47
"""Address of the READs that wait to be answered; 0 while there is none."""

WORK_TABLE = 48
"""The first ring of posted work: small, for thousands of queue pairs with an operation or two."""
FIRST_WORK_ROOM = 2
MAXIMUM_WORK_ROOM = 32
"""Posted work that compiled code knows; the rest waits in Python."""
WORK_KIND = 0
WORK_ADDRESS = 1
"""Of local memory."""
WORK_LENGTH = 2
WORK_REMOTE_ADDRESS = 3
WORK_RKEY = 4
WORK_BATCH = 4
"""Of a run of chunks: how many leave back to back."""
WORK_IMMEDIATE = 5
WORK_FIRST = 6
"""First PSN, or first chunk."""
WORK_END = 7
"""One past the last."""
WORK_CHUNK_BYTES = 8
WORK_RATE_BPS = 9
WORK_WORDS = 10

# What connections have beside that, behind their ring of work.
CE_STATE = 68
"""Whether the last request came with a congestion mark."""
ECHO_PORT = 69
"""The UDP source port that it came from."""
MARKED = 70
"""Of the round at hand, how many packets are acknowledged, and how many of them were marked."""
ACKED = 71
ROUND_END = 72
"""A round ends when this is acknowledged."""
ALPHA = 73
"""The part of packets that are marked, smoothed; 1 is ONE_ALPHA."""
CONGESTED_ROUNDS = 74
"""How many in a row."""
BOARD = 75
"""Address of the board of what is sent and what came ahead of a gap; 0 while there is none."""
CACHE = 76
"""REPS: two words of four entropies each, the place of the next, how many are fresh, how many
there are, the next one while frozen."""
CACHE_HEAD = 78
CACHE_FRESH = 79
CACHE_SIZE = 80
CACHE_TURN = 81
EXPLORE = 82
"""So many packets more take a random entropy."""
FROZEN_UNTIL = 83
PORTS = 84
"""Address of the source ports that a timeout goes through, how many, and the one in use."""
PORT_COUNT = 85
PORT_AT = 86
LANES = 87
"""How many rows share one turn for data, the first of them, and there the leaf whose turn is next.
Zero or one: the row has turns of its own."""
FIRST_LANE = 88
LANE_TURN = 89
ACKNOWLEDGE_MOVES = 90
"""Whether acknowledgements take another path where they seem to be lost."""
ACKNOWLEDGE_PORT = 91
"""The UDP source port that they leave from then, 0: that of the data; and its place among PORTS."""
ACKNOWLEDGE_AT = 92

QUEUE_PAIR_WORDS = 96
"""Whole cache lines, and no power of 2: the same word of many rows would share few places in the
processor's cache."""

# CONGESTION, RECOVERY, ENTROPY and ECHO.
UNLIMITED = 1 << 60
WINDOW_CONTROL = 0
DCTCP = 1
GO_BACK_N = 0
SELECTIVE = 1
FIXED = 0
REPS = 1
PLB = 2
ECHO_CHANGES = 1
"""An acknowledgement's packets were all marked, or none."""
ECHO_EVERY = 2
"""Every packet has an acknowledgement of its own."""
ONE_ALPHA = 1 << 16

# A row of the ring of echoes: acknowledgements with what they echo.
ECHO_ROOM = 1024
ECHO_PAIR = 0
ECHO_PSN = 1
ECHO_AETH = 2
ECHO_MARK = 3
ECHO_FROM = 4
"""UDP source port."""
ECHO_WORDS = 5

# A board (selective repeat): these words, then a word for each sequence number that is sent and
# not acknowledged, then KEPT_WORDS for each that came ahead of a gap.
NEXT_BOARD = 0
"""Address of the board that was made before it, and of the next one that nobody uses."""
NEXT_FREE_BOARD = 1
SACKED_COUNT = 2
LOST_COUNT = 3
STAMP = 4
"""How many packets have been sent."""
DELIVERED = 5
"""The latest stamp of a packet that has arrived and was sent once."""
HIGHEST_SACKED = 6
PROMISED = 7
"""Everything before this has arrived; of READs the data may be missing."""
KEPT_COUNT = 8
BOARD_WORDS = 9

# A word of what is sent: a state, two bits, the stamp.
IN_FLIGHT = 0
SACKED = 1
LOST = 2
ASKED = 3
"""Of a READ: its request has arrived, or it is no packet of its own."""
STATE_MASK = 3
RESENT = 4
OF_READ = 8
STAMP_SHIFT = 4

# What is kept of a packet ahead of a gap. A word of kind, whether it begins a message, property
# bits, length and immediate; or for a READ of kind, key and length. Then a READ's address.
KEPT_WORDS = 2
KEPT_WRITE = 1
KEPT_SEND = 2
KEPT_READ = 3
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

# A block of READs that wait to be answered.
NEXT_READ_BLOCK = 0
"""Address of the block that was made before it, and of the next one that nobody uses."""
NEXT_FREE_READ_BLOCK = 1
READ_TABLE = 2
READ_ROOM = 64
READ_FIRST = 0
READ_NEXT = 1
READ_END = 2
READ_ADDRESS = 3
"""Virtual address of the byte that READ_FIRST begins with."""
READ_KEY = 4
READ_LENGTH = 5
READ_REPEATED = 6
READ_WORDS = 7

READ_BLOCK_WORDS = READ_TABLE + READ_ROOM * READ_WORDS

# KIND, STATE, IN_MESSAGE and WORK_KIND.
RC = 1
UD = 2
UNCONNECTED = 0
READY = 1
FAILED = 2
NO_MESSAGE = 0
SEND_MESSAGE = 1
WRITE_MESSAGE = 2
SEND = 0
SEND_WITH_IMMEDIATE = 1
WRITE = 2
WRITE_WITH_IMMEDIATE = 3
READ = 4

# A row of the region table.
REGION_ADDRESS = 0
REGION_LENGTH = 1
REGION_MEMORY = 2
REGION_KEY = 3
REGION_WORDS = 4
KEY_INDEX_MASK = 0xFFFF
"""The lower half of an rkey is the row."""

# A row of the group table: the UD queue pairs again, for what arrives.
GROUP_ADDRESS = 0
GROUP_QKEY = 1
GROUP_QUEUE_PAIR = 2
GROUP_SINKS = 3
"""From here on the addresses of 256 sinks' words, by operation; 0 for none."""
GROUP_WORDS = GROUP_SINKS + 256

# A row of the event table: kind, row of the queue pair, and what the kind says.
EVENT_WORDS = 8
EVENT_WORK_DONE = 0
"""How many."""
EVENT_FRAGMENT = 1
"""A part of a SEND: row of the batch, offset, length, IS_FIRST | IS_LAST | HAS_IMMEDIATE,
immediate."""
EVENT_WRITE_WITH_IMMEDIATE = 2
"""Immediate, length."""
EVENT_CHUNKS_SENT = 3
EVENT_CHUNKS_RECEIVED = 4
"""Operation."""
EVENT_FAILED = 5
"""Reason, PSN."""
EVENT_FRAGMENT_KEPT = 6
"""As EVENT_FRAGMENT, but ahead of a gap; then its sequence number."""
EVENT_FRAGMENT_DUE = 7
"""The turn of a fragment that was kept: its sequence number."""
EVENT_REPATHED = 8
"""UDP source port."""

REASON_TIMEOUT = 0
"""Otherwise a reason is the syndrome of a NAK."""

# What a batch of datagrams is to compiled code: `Datagrams.addresses`.
BATCH_DATA = 0
BATCH_LENGTH = 1
BATCH_SOURCE = 2
BATCH_DESTINATION = 3
BATCH_SOURCE_PORT = 4
BATCH_TOS = 5
BATCH_STRIDE = 6
BATCH_CAPACITY = 7

# A receive worker: the words of an endpoint without queue pairs, then these.
WORKER_STAGING = ENDPOINT_WORDS
"""Address of the staging ring's slots; 0 where payloads go straight to their places."""
WORKER_SLOTS = ENDPOINT_WORDS + 1
WORKER_SLOT_BYTES = ENDPOINT_WORDS + 2
WORKER_COMPLETIONS = ENDPOINT_WORDS + 3
"""Address of a completion entry for each slot."""
WORKER_STAGED = ENDPOINT_WORDS + 4
"""How many payloads have gone into the ring, ever, and how many of them have been polled."""
WORKER_POLLED = ENDPOINT_WORDS + 5
WORKER_WINDOW = ENDPOINT_WORDS + 6
"""How many completions a poll takes at most."""
WORKER_ROUND = ENDPOINT_WORDS + 7
"""Odd while a batch is being received."""
WORKER_WORDS = ENDPOINT_WORDS + 8

# A completion entry of a staging ring.
COMPLETION_DESTINATION = 0
COMPLETION_QKEY = 1
COMPLETION_IMMEDIATE = 2
COMPLETION_LENGTH = 3
COMPLETION_WORDS = 4

# A chunk sink: these words, then per shard: missing[shards], offset[shards], size[shards], first
# chunk[shards + 1].
SINK_OPERATION = 0
SINK_CHUNK_BYTES = 1
SINK_SHARDS = 2
SINK_CHUNKS = 3
SINK_MISSING = 4
SINK_DUPLICATES = 5
SINK_OUT_OF_BOUNDS = 6
SINK_RECEIVED = 7
SINK_BUFFER = 8
SINK_PRESENT = 9
SINK_FETCHED = 10
"""Address of a byte a chunk, written only by who marks chunks; everything else in these words is
written only where packets arrive."""
SINK_MARKED = 11
"""Address of how many bytes of SINK_FETCHED are set."""
SINK_WHOLE_BEFORE = 12
"""No chunk before this one is missing: where the search for a gap goes on."""
SINK_WORDS = 13
