"""The records that compiled code works on: where things are in memory, by their names.

All state is records of int64 words (and bytes for frames), reached from one `Context`. So every
compiled function has one short signature, and one long-running compiled loop can drive all switches
of a process, whatever programs they run.
"""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.base.jit import READ_ONLY, Record, record, word_of, words_in

Words: TypeAlias = NDArray[np.int64]
"""An array of words, as compiled functions take it; in plain forms it is a memoryview."""

Octets: TypeAlias = NDArray[np.uint8]
"""The bytes of frames; in plain forms they are a memoryview, too."""

Frame: TypeAlias = Annotated[Octets, READ_ONLY]
"""A frame that is not changed."""


@record
class Chain(Record):
    """The first and the last of packets that name the next one each, or NONE."""

    head: int
    tail: int


@record
class Context(Record):
    """Lead to all switches of a process, and to the pool of packets and buffers that they share."""

    address: int
    """Where this record itself is."""
    buffers: int
    """Address of uint8[buffer_count, buffer_stride]: frames."""
    buffer_stride: int
    buffer_references: int
    """Address of int64[buffer_count]."""
    free_buffers: int
    """Address of int64[buffer_count], a stack."""
    free_buffer_count: int
    packets: int
    """Address of packet_count rows of `Packet`."""
    free_packets: int
    """Address of int64[packet_count], a stack."""
    free_packet_count: int
    phv: int
    """Address of int64[packet_count, phv_stride]."""
    phv_stride: int
    headers: int
    """Address of uint8[packet_count, header_stride]: what the deparser wrote."""
    header_stride: int
    switches: int
    """Address of switch_count rows of `SwitchRecord`."""
    ports: int
    """Address of switch_count * port_count rows of `PortRecord`."""
    priorities: int
    """The queues of each port, of priorities from 0 on (`scheduling` says which the link serves).
    """
    queues: int
    """Address of a `QueueRecord` for each port and each priority from 1 on."""
    port_count: int
    """The ports of each switch."""
    heap: int
    """Address of int64[switch_count * port_count, 2]: ports and the times of their next events, a
    heap by time, then port."""
    heap_positions: int
    """Address of int64[switch_count * port_count]: the place of each port in it, or NONE."""
    heap_length: int
    ready: Chain
    """The packets that have left."""
    again: Chain
    """The packets that are to be recirculated."""
    landed: Chain
    """The packets that have reached the far end of a patch link."""
    switch_count: int
    no_buffer: int
    """How many frames were lost for want of a buffer or a packet."""
    buffer_count: int
    packet_count: int
    depths: int
    """Address of int64[switch_count * port_count, DEPTH_BUCKETS]: packets by the queue's depth."""
    loads: int
    """Address of int64[load_rows, LOAD_BINS]: bytes by time, of departures, then of arrivals."""
    load_rows: int
    load_start_ns: int
    """When the first bin begins; what is before is not counted."""
    load_bin_ns: int
    """How long a bin is; it doubles when all of them are full."""
    patches: int
    """How many ports are patched."""
    capture: int
    """Address of the `switch.engine.dataplane.captures.CaptureRing` of captured frames, or 0."""
    drop: int
    """The egress port that means drop."""
    events_wait: int
    """1 if events for a controller have come since this was last set to 0."""
    passes: int
    """How often packets went through ingress or egress, or were copied, since the start."""
    passes_end: int
    """The driver's turn ends at so many passes."""
    storm: int
    """1 if a turn has ended before all was done, and since then all never was."""
    reserve: int
    """Packets and buffers that are left to what comes in: copies do not get them."""
    bare_bytes: int
    """Where frames' data travel without bytes: how much of what the parser left is copied at most,
    and `LEAST_BARE_BYTES` at least, however long the frame is; 0: all of it."""


@record
class Packet(Record):
    """A packet of the pool."""

    buffer: int
    frame: int
    """The offset in the buffer of the frame as it came in."""
    frame_length: int
    payload: int
    """The offset in the buffer of what the parser left."""
    payload_length: int
    header_length: int
    """How many bytes the deparser wrote."""
    next: int
    """The next packet of a list."""
    switch: int
    port: int
    """The ingress port; from the queue on, the egress port."""
    ready_ns: int
    """When its queue lets it go at the earliest: when it was enqueued, or later, as the queue's own
    rate has it."""
    queue_bytes: int
    departure_ns: int
    length: int
    """The length of the frame that departs: header and payload, truncated."""
    repeats: int
    """How often it has been resubmitted or recirculated."""
    keep: int
    """How many bytes of a clone are kept; 0 means all."""
    trace_number: int
    """The number of a packet that its switch traces; 0 means that it is not traced."""


@dataclass
class QueueStatistics:
    """What a port has counted: all frames that it received, and those that it sent."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    queue_drops: int
    queue_drop_bytes: int
    queue_peak_packets: int
    queue_peak_bytes: int


@dataclass
class QueueCounts:
    """What a queue has counted."""

    taken_packets: int
    """Packets that the link has taken from it, as long as they were when they came."""
    taken_bytes: int
    drops: int
    drop_bytes: int
    peak_packets: int
    peak_bytes: int


@record
class QueueRecord(Record):
    """The packets of one priority that wait for a port's link, and what holds for them."""

    waiting: Chain
    bytes: int
    packets: int
    limit_bytes: int
    """What it holds at most."""
    limit_packets: int
    packet_ns: int
    """The least time between two packets that leave it; 0 means that it has no rate of its own."""
    next_ns: int
    """When the next packet may leave that comes, at the earliest."""
    held_until_ns: int
    """Until then the link takes nothing from it, `NEVER_NS` for a pause without an end."""
    weight: int
    """Its share of what the queues without a weight leave; 0 means that it has none."""
    deficit: int
    """The bytes that it may still send in its turn (`scheduling.queue_in_turn`)."""
    counted: QueueCounts


@record
class PortRecord(Record):
    """A port of a switch, its queues and the link behind it. What packets touch is together, in the
    order of their way: a row is whole cache lines."""

    queue: QueueRecord
    """The queue of priority 0; `Context.queues` leads to those of the others."""
    free_ns: int
    """When the last frame's last bit is on the link."""
    remainder: int
    """What the division that gave `free_ns` left."""
    under_way: Chain
    """The frames on the link, in the order of their departure."""
    rate_bps: int
    """0 means that the link has no limit."""
    delay_ns: int
    up: int
    """0 means that there is no such port: frames to it are dropped and counted."""
    preferred: int
    """How many packets wait in the queues of priorities from 1 on."""
    governed: int
    """1 if any of its queues is held or has a weight, or was or had."""
    peer: int
    """The index of the port that a patch link leads to; NONE where frames are the driver's."""
    cpu: int
    """1 if what reaches the far end of the link is the controller's."""
    watcher: int
    """Address of a function that is told of this port's packets, or 0 (`hooks`)."""
    loss: int
    """Of 2^32 frames the link loses about so many, at random."""
    jitter_ns: int
    """The delay of a frame is greater or less by so much at most, at random; frames stay in
    order."""
    unbounded_packets: int
    """What a queue without a bound, of `NO_LIMIT_PACKETS` or more, holds all the same."""
    counted: QueueStatistics
    driver: int
    """Free for the driver: the real-time loop has its socket's number here."""
    link_down: int
    """1 while a patch link loses what reaches its far end."""
    lost_packets: int
    """Lost by the link: at random, or as a patch link that was down."""
    lost_bytes: int
    capture_in: int
    """The number of the capture file of what comes in, plus 1; 0 means none."""
    capture_out: int
    turn: int
    """The priority whose turn it is among queues with weights."""
    overflow: int
    """Address of a function that may take what finds no place in a queue, or 0 (`hooks`)."""


DROP_REASONS = 7
(
    DROPS_NO_PROGRAM,
    DROPS_INGRESS,  # dropped by the program (or by a port that does not exist)
    DROPS_EGRESS,
    DROPS_NO_PORT,
    DROPS_REPEATS,  # resubmitted or recirculated too often
    DROPS_TOO_LONG,
    DROPS_PRIORITY,  # of a priority that has no queue
) = range(DROP_REASONS)


@record
class SwitchRecord(Record):
    """Lead to the program and the arrays of a switch."""

    pipeline: int
    """Address of the compiled program, or 0."""
    image: int
    """Address of the tables' image, int64[image_words]."""
    image_words: int
    counters: int
    """Address of int64[cells, 2]: packets and bytes."""
    counter_words: int
    registers: int
    register_words: int
    meters: int
    """Address of rows of `MeterCell`."""
    meter_words: int
    random: int
    """The state of random()."""
    epoch_ns: int
    """When the switch started: the zero of its timestamps."""
    fields: int
    """Words of a packet's PHV without those of wide headers."""
    drops: Annotated[Words, DROP_REASONS]
    """How many packets were dropped, by reason."""
    denied_priority: int
    """The greatest priority of a packet that was dropped as no queue has it, or 0."""
    now_ns: int
    """The time of the pipeline run under way."""
    scratch: int
    """Address of int64[SCRATCH_WORDS]: keys and bytes to hash, and parameters of custom CRCs."""
    assertions: int
    """How many assert() and assume() failed."""
    trace_head: int
    """Address of the `TraceHead` of a trace, or 0."""
    outbox: int
    """Address of int64[outbox_words]: a ring of records for the controller; behind it is room for
    one `OutboxRecord` that begins at its end."""
    outbox_words: int
    """A power of two, or 0 for no ring."""
    outbox_head: int
    """Words written since the program was loaded."""
    outbox_tail: int
    """Words read."""
    outbox_waits: int
    """1 if records wait, and the controller has been told or will be."""
    events_lost: int
    """Records that found no room."""
    hits: int
    """Address of int64[hit_words]: when entries were last hit, in ns."""
    hit_words: int


@record
class Bucket(Record):
    """A token bucket of a meter."""

    rate: int
    """Tokens a second."""
    burst: int
    tokens: int
    remainder: int
    """Millionths of a token."""


MARKS = 6


@record
class MeterCell(Record):
    """A cell of a meter."""

    has_rates: int
    last_us: int
    """When tokens came last."""
    peak: Bucket
    committed: Bucket
    counts: Annotated[Words, MARKS]
    """Packets and bytes that became green, yellow and red."""


NO_LIMIT_PACKETS = 1 << 20
"""The bound of a queue that has none."""

DEPTH_BUCKETS = 192  # see switch.engine.dataplane.telemetry
LOAD_BINS = 256
HEAP_WIDTH = 4
"""How many ports are below each in the heap of events; they share a cache line."""
NEVER_NS = 1 << 62
NONE = -1

MOST_FRAME_BYTES = 65535
LEAST_BARE_BYTES = 128
"""What stands in place of data may be longer than they are."""

# A frame starts at HEADROOM in its buffer; reads of whole words may go SLACK bytes past its end.
HEADROOM = 256
SLACK = 64
CRC_START = 8 * 9216  # behind 256 key words, 4096 bytes of fields, a payload of MOST_FRAME_BYTES
CRC_BYTES = 32  # what a custom CRC has of its own: flags, polynomial, initial and final value
MOST_CUSTOM_CRCS = 256
SCRATCH_WORDS = (CRC_START + CRC_BYTES * MOST_CUSTOM_CRCS) // 8


@record
class PhvHead(Record):
    """The fields of a packet-header vector that the engine itself reads and writes; the program's
    own are behind them."""

    ingress_port: int
    egress_spec: int
    egress_port: int
    instance_type: int
    packet_length: int
    mcast_grp: int
    egress_rid: int
    checksum_error: int
    parser_error: int
    ingress_global_timestamp: int
    egress_global_timestamp: int
    enq_timestamp: int
    enq_qdepth: int
    deq_timedelta: int
    deq_qdepth: int
    qid: int
    r_clone: int
    """From here on it is what primitives leave for the engine: the clone session + 1, or 0;"""
    r_clone_list: int
    r_resubmit: int
    """a field list, or 0 for no resubmit;"""
    r_recirculate: int
    r_digest: int
    r_truncate: int
    """the bytes + 1, or 0 for no truncation;"""
    r_exit: int
    r_length: int
    """the packet's length with the headers added and removed since;"""
    r_ingress_length: int
    """what counters count;"""
    r_fields: int
    """the words of the PHV in use: up to the wide headers, or all."""
    spare: Annotated[Words, 5]
    priority: int
    """The field of that name of intrinsic_metadata."""


HEAD_PLACES = {name: word_of(PhvHead, name) for name in PhvHead.__annotations__ if name != "spare"}
"""The word of a PHV at which each field of its head is."""
FIRST_FIELD = words_in(PhvHead)
REQUEST_START, REQUEST_END = HEAD_PLACES["r_clone"], HEAD_PLACES["r_length"]
"""The words of what primitives ask for; they are 0 where a packet begins."""
STANDARD_FIELDS = {name: place for name, place in HEAD_PLACES.items() if place < REQUEST_START}
"""The words of the fields of standard_metadata and its like."""

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

DIGEST, PACKET_IN = 1, 2


@record
class OutboxRecord(Record):
    """Begin a record in a switch's outbox.

    Behind it are the words of a digest's fields, or the bytes of a packet's frame.
    """

    kind: int
    """DIGEST or PACKET_IN."""
    time_ns: int
    subject: int
    """The id of the learn list, or the frame's length in bytes."""
    words: int
    """How many words follow."""


OUTBOX_RECORD = words_in(OutboxRecord)

MOST_TOKENS = 1 << 61
