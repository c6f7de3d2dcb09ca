"""The records of an aggregation queue pair: its job, its slots, its operations.

The queue pair is a row of the endpoint's table like all others (`layout`). Rounds are kept
unbounded (the wire has their lower 48 bits).
"""

from weft.agents.transport.types import AggregationStatistics
from weft.agents.wire.headers import AGGREGATION_QKEY as AGGREGATION_QKEY
from weft.base.jit import Record, record

AGGREGATION = 3
"""KIND of such a row."""


@record
class JobState(Record):
    """A record holds the state of one aggregation job."""

    epoch: int
    slots: int
    """N: a power of 2."""
    values: int
    """V: values of a packet."""
    rank: int
    headroom_bits: int
    """30 - ceil(log2 P): a quantized value is below 2 to this power."""
    ranks: int
    opened: int
    """Rounds before this one have been given to their slots."""
    opened_work: int
    """Operations before this one have been looked at."""
    queue_head: int
    queue_count: int
    outstanding: int
    """Slots whose round was sent and whose result has not come."""
    silence: int
    """After so many ns in which nothing arrives the job is given up."""
    slot_table: int
    """Addresses of the tables."""
    queue_table: int
    scratch_table: int
    order_table: int
    """Which slot sent the packet of a place in the order of sending; places are order & (2N -
    1)."""
    next_order: int
    searched_order: int
    """Everything before this was looked at for losses."""
    highest_order: int
    """The highest place among the packets that were no repetitions and whose results have come."""
    reordering: int
    """A packet is taken for lost when results have come of packets sent so much later."""
    repeated_results: int
    """Results of repeated rounds in a row."""
    keep_table: int
    """Address of what was sent in the last two rounds of each slot, 2N rows of KEEP_BYTES; 0:
    nothing is kept."""
    keep_bytes: int
    is_moved: int
    """Whether other switches add from now on, which know of nothing that was sent."""
    statistics: AggregationStatistics


@record
class Slot(Record):
    """A row of the slot table holds what a slot sends and waits for."""

    state: int
    round: int
    """The round that it is about to send or has sent."""
    work: int
    """The operation that the round belongs to, or an earlier one."""
    sent_at: int
    expires: int
    retries: int
    queued: int
    """Whether it is in the queue of slots to be served."""
    exponent: int
    """What was agreed with the round before, for the block of this one."""
    order: int
    """The place of its packet in the order of sending."""
    repeats: int
    """How often the round was sent again; SLOT_RETRIES counts what a timer made it repeat."""
    again: int
    """Whether the round before is sent again, too, until there is a result of this one: 0 if not,
    1 next, 2 whenever this one is repeated."""


@record
class KeptPacket(Record):
    """A record begins a row of the packets that are kept; the packet is behind it."""

    end: int
    """The packet's round and 1, or 0: there is none."""
    length: int
    """Of the packet without its ICRC."""


KEPT_HEADER_BYTES = 16


IDLE = 0
"""The slot's round belongs to no posted operation."""
WAITING = 1
"""The ranks have not agreed on the exponent of the slot's block yet."""
TO_SEND = 2
TO_REPEAT = 3
SENT = 4


@record
class AggregationOperation(Record):
    """A record holds the state of one posted reduction.

    The `address` of its work is the address of this record, `first` its first round and `end` one
    past its last.
    """

    number: int
    data_kind: int
    input: int
    """Addresses of the values."""
    output: int
    count: int
    """How many elements the input has."""
    headers: int
    """Rounds that carry exponents alone."""
    blocks: int
    remaining: int
    """Rounds whose results have not come."""
    saturated: int
    lossy: int
    """Blocks in which a value of this rank that is not 0 became 0 in fixed point."""
    not_finite: int
    """Blocks of which some rank has a NaN or an infinity."""
    divisor: int
    """What sums are divided by; 0 for not at all."""
    owners: int
    """Address of int32[BLOCKS], the owners of the blocks, and of int64[BLOCKS], their first
    elements; 0 where everybody needs every block."""
    firsts: int
    shard_first: int
    """The first element of this rank's shard: the output begins with it."""
    ends: int
    """Address of int64[ranks], where each shard ends."""
    silent: int
    """Whether this rank contributes nothing: its packets have headers only..."""
    unaided: int
    """... and whether no other rank does, so that sums come without values."""
    weight: int
    """What stands for each of this rank's values where data travel without bytes, else 0
    (`weft.agents.transport.payload_layout`)."""
    first_exponents: int
    """Address of int64[HEADERS]: what the header rounds agreed on, UNKNOWN before. Slots do not
    wait for each other: the slot of a block may be many rounds behind that of its header."""


# DATA_KIND.
FLOAT32, FLOAT16, BFLOAT16, INT32 = range(4)

# What arrives and leaves: the aggregation header.
HEADER_BYTES = 16
HAS_VALUES = 1
IS_RESULT = 2
IS_SCATTER = 4
IS_SATURATED = 8
NO_EXPONENT = -32768
"""The exponent of a block of zeros, and where there is no block."""
NOT_FINITE = 32767
"""The exponent of a block in which some rank has a NaN or an infinity; its sums are NaN."""
UNKNOWN = 1 << 20
LARGEST_EXPONENT = 160
"""No finite value of any kind has a larger one, or a smaller one than its negative."""
