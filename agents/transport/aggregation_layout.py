"""Where things are in the words of an aggregation queue pair: its job, its slots, its operations.

The queue pair is a row of the endpoint's table like all others (`layout`); what only aggregation
needs is in one array that belongs to the job. Rounds are kept unbounded (the wire has their lower
32 bits).
"""

from __future__ import annotations

from weft.agents.transport.layout import WORK_TABLE

AGGREGATION = 3
"""KIND of such a row."""

# In the row, where an ever larger ring of work would never be: its ring is in the job's words.
JOB = WORK_TABLE
"""Address of the job's words."""
NEXT_AGGREGATION = WORK_TABLE + 1
"""The next such row, plus 1; 0 after the last."""

# The job.
EPOCH = 0
SLOTS = 1
"""N: a power of 2."""
VALUES = 2
"""V: values of a packet."""
RANK = 3
HEADROOM_BITS = 4
"""30 - ceil(log2 P): a quantized value is below 2 to this power."""
RANKS = 5
OPENED = 6
"""Rounds before this one have been given to their slots."""
OPENED_WORK = 7
"""Operations before this one have been looked at."""
QUEUE_HEAD = 8
QUEUE_COUNT = 9
OUTSTANDING = 10
"""Slots whose round was sent and whose result has not come."""
SILENCE = 11
"""After so many ns in which nothing arrives the job is given up."""
SLOT_TABLE = 12
"""Addresses of the tables."""
QUEUE_TABLE = 13
SCRATCH_TABLE = 14
ORDER_TABLE = 15
"""Which slot sent the packet of a place in the order of sending; places are order & (2N - 1)."""
NEXT_ORDER = 16
SEARCHED_ORDER = 17
"""Everything before this was looked at for losses."""
HIGHEST_ORDER = 18
"""Of the packets that were not repetitions and whose results have come."""
REORDERING = 19
"""A packet is taken for lost when results have come of packets sent so much later."""
REPEATED_RESULTS = 20
"""Results of repeated rounds in a row."""
JOB_STATISTICS = 21
"""From here on the counters of `AggregationStatistics`, in their order."""
ROUNDS_SENT = JOB_STATISTICS
ROUNDS_REPEATED = JOB_STATISTICS + 1
RESULTS = JOB_STATISTICS + 2
DUPLICATE_RESULTS = JOB_STATISTICS + 3
OTHER_EPOCH = JOB_STATISTICS + 4
MALFORMED = JOB_STATISTICS + 5
SATURATED_BLOCKS = JOB_STATISTICS + 6
JOB_WORDS = JOB_STATISTICS + 7

# A row of the slot table.
SLOT_STATE = 0
SLOT_ROUND = 1
"""The round that it is about to send or has sent."""
SLOT_WORK = 2
"""The operation that the round belongs to, or an earlier one."""
SLOT_SENT_AT = 3
SLOT_EXPIRES = 4
SLOT_RETRIES = 5
SLOT_QUEUED = 6
"""Whether it is in the queue of slots to be served."""
SLOT_EXPONENT = 7
"""What was agreed with the round before, for the block of this one."""
SLOT_ORDER = 8
"""The place of its packet in the order of sending."""
SLOT_REPEATS = 9
"""How often the round was sent again; SLOT_RETRIES counts what a timer made it repeat."""
SLOT_WORDS = 10

IDLE = 0
"""Its round is of no posted operation."""
WAITING = 1
"""Its block's exponent is not agreed yet."""
TO_SEND = 2
TO_REPEAT = 3
SENT = 4

# An operation; WORK_ADDRESS of its work is the address of these words, WORK_FIRST its first round
# and WORK_END one past its last.
OPERATION_NUMBER = 0
DATA_KIND = 1
INPUT = 2
"""Addresses of the values."""
OUTPUT = 3
COUNT = 4
"""Of elements of the input."""
HEADERS = 5
"""Rounds that carry exponents alone."""
BLOCKS = 6
REMAINING = 7
"""Rounds whose results have not come."""
SATURATED = 8
DIVISOR = 9
"""What sums are divided by; 0 for not at all."""
OWNERS = 10
"""Address of int32[BLOCKS], the owners of the blocks, and of int64[BLOCKS], their first elements;
0 where everybody needs every block."""
FIRSTS = 11
SHARD_FIRST = 12
"""The first element of this rank's shard: the output begins with it."""
ENDS = 13
"""Address of int64[ranks], where each shard ends."""
FIRST_EXPONENTS = 14
"""Address of int64[HEADERS]: what the header rounds agreed on, UNKNOWN before. Slots do not wait
for each other: the slot of a block may be many rounds behind that of its header."""
OPERATION_WORDS = 15

# DATA_KIND.
FLOAT32 = 0
FLOAT16 = 1
BFLOAT16 = 2
INT32 = 3

# What arrives and leaves: the aggregation header.
AGGREGATION_QKEY = 0x57454147
HEADER_BYTES = 16
HAS_VALUES = 1
IS_RESULT = 2
IS_SCATTER = 4
IS_SATURATED = 8
NO_EXPONENT = -32768
"""Of a block of zeros, and where there is no block."""
NOT_FINITE = 32767
UNKNOWN = 1 << 20
LARGEST_EXPONENT = 160
"""No finite value of any kind has a larger one, or a smaller one than its negative."""

REASON_NOT_FINITE = -1
"""Of a failed queue pair, beside those of `layout`."""
