"""The records that compiled transport code works on: where things are in memory, by their names.

An endpoint's state is one record; it holds the addresses of the tables: one row per queue pair, per
memory region and per multicast group. So a compiled function takes one argument for all of it, and
a later event loop can serve many endpoints without going back to Python.

An endpoint may have thousands of queue pairs, most of them idle: a row is small, and what a call
costs depends on the rows that have something to do. Trees of times find those.

Packet sequence numbers are kept unbounded (the wire has their lower 24 bits); times are ns; 0
means "not set" for times.
"""

from typing import Annotated

from weft.agents.transport.payload_layout import KEPT_LANDINGS
from weft.agents.transport.types import Statistics
from weft.base.jit import Record, Words, record


@record
class Pool(Record):
    """The pieces of memory of one size, each of which begins with a `Piece`."""

    made: int
    """Address of the last one that was made, 0 for none; and of the first that nobody uses."""
    free: int


@record
class Piece(Record):
    """The head of a piece of a pool's memory."""

    next_made: int
    """Address of the one that was made before it, and of the next one that nobody uses."""
    next_free: int


@record
class EndpointState(Record):
    """A record holds the state of an endpoint and the addresses of its tables."""

    address: int
    path_mtu: int
    rate_bps: int
    queue_pairs: int
    """How many rows of the queue pair table are in use."""
    first_number: int
    """The QP number of row 0; row i has FIRST_NUMBER + i."""
    queue_pair_table: int
    """Addresses of the tables."""
    region_table: int
    regions: int
    group_table: int
    groups: int
    event_table: int
    event_room: int
    """How many events there may be; behind their rows there is one more, for what finds no room."""
    events: int
    """How many rows of the event table are filled."""
    idle_events: int
    """How many of them may wait until others come: they say that posted work is done, and when they
    came `sends_can_wait` held."""
    sends_can_wait: int
    """Whether nobody waits for posted work to be done."""
    link_free: int
    """When the endpoint's own rate lets the next packet go."""
    was_idle: int
    """Whether there was nothing to send at the end of the last transmit: then no credit builds
    up."""
    rotation: int
    """Who is served next: 2 * row for requests and chunks, 2 * row + 1 for READ responses."""
    deadline: int
    maximum_window: int
    read_segment: int
    acknowledge_every: int
    initial_timeout: int
    minimum_timeout: int
    maximum_timeout: int
    retry_limit: int
    give_up: int
    pacing_credit: int
    burst: int
    """How far ahead of its rate the endpoint may send."""
    data_time: int
    """When there is data to send, the endpoint's own rate aside."""
    scratch: int
    """Address of the fields of the packet at hand."""
    acknowledge_interval: int
    tree_rows: int
    """How many rows of the queue pair table the trees have leaves for: a power of 2."""
    timer_tree: int
    """Addresses of the trees. A tree of n leaves has 2n words: word n + i is leaf i's time, word i
    the earlier of words 2i and 2i + 1, so word 1 the earliest of all. A leaf is the row of a queue
    pair: when its retransmission timer expires;"""
    control_tree: int
    """0 while it has control to send, otherwise never;"""
    data_tree: int
    """and of twice as many leaves, by turn as in ROTATION: when it may send data."""
    changed_table: int
    """Address of the rows that changed since the last transmit: their leaves may be out of date."""
    changed: int
    """How many there are."""
    read_blocks: Pool
    """Where free READ blocks are."""
    first_aggregation: int
    """The first row of an aggregation queue pair, plus 1; 0 for none."""
    congestion: int
    """The number of the congestion control: its place among their names."""
    control_options: Annotated[Words, 8]
    """What its options are, as it has them for compiled code (`CongestionControl.words`)."""
    repeats_early: int
    """Whether what is cheap to repeat is repeated early."""
    recovery: int
    """GO_BACK_N or SELECTIVE."""
    reorder: int
    """A gap counts as lost when a packet sent so much later has arrived."""
    entropy: int
    """FIXED, REPS or PLB."""
    entropies: int
    freeze: int
    random: int
    """The state of the endpoint's random numbers."""
    ect: int
    """The ECN bits of the data of connections."""
    echo: int
    """Whether acknowledgements echo marks: 0, ECHO_CHANGES or ECHO_EVERY."""
    echo_table: int
    """Address of the ring of echoes to be sent, and how many there have been, and have been
    sent."""
    echoes: int
    echoes_sent: int
    boards: Pool
    board_room: int
    """How many sequence numbers a board knows: a power of 2."""
    held_events: int
    """How many of the packets kept ahead of a gap will be events."""
    control_timeout: int
    """After so long, and twice what is in flight, what is cheap to repeat is repeated."""
    explore_packets: int
    """REPS: so many packets take random entropies at first, and after a freeze."""
    relay_table: int
    """Address of the addresses of the first `RelayState` of each operation's number; 0 as long as
    there has been none."""
    first_relay: int
    """Address of the first of those that are attached, 0 for none."""
    writing_bytes: int
    """How many bytes of the collectives' RDMA WRITEs are posted and not acknowledged."""
    room_awaited: int
    """Whether whoever posts work in Python waits for fewer of them."""
    landings: int
    """Address of the `Landings` (`payload_layout`) of data that travel without bytes; 0 where
    bytes travel."""
    last_landings: Annotated[Words, KEPT_LANDINGS]
    """The rows, plus 1, that queue pairs' packets came to last; 0: none."""
    statistics: Statistics


CONTROL_WORDS = 8


@record
class PairState(Record):
    """A row of the queue pair table holds the state of one queue pair."""

    kind: int
    state: int
    number: int
    source_port: int
    tos: int
    peer_address: int
    """The connected peer, or the multicast group."""
    peer_number: int

    # Requester side: posted work [first_work, next_work), oldest unacknowledged, next to send, one
    # past the highest ever sent.
    first_work: int
    next_work: int
    send_work: int
    """The work that SEND_NEXT belongs to."""
    unacknowledged: int
    send_next: int
    send_highest: int
    posted_end: int
    window: int
    """In 1/256 packets."""
    recovery_end: int
    """The window is not halved again before this is acknowledged."""
    acknowledge_asked: int
    timer: int
    smoothed_rtt: int
    rtt_variation: int
    timed_psn: int
    """The packet whose round trip is being measured, or -1."""
    timed_at: int
    retries: int
    last_progress: int
    probing: int
    """After a timeout: one packet at a time until something is acknowledged."""
    rewound_at: int
    """What was unacknowledged when a NAK or a missing READ response last made us go back."""
    asked_at: int
    """When an acknowledgement was last asked for."""
    retransmitted_packets: int
    """Requests sent again."""

    # Responder side.
    expected: int
    messages: int
    """The message sequence number of the AETH."""
    in_message: int
    write_address: int
    write_key: int
    write_remaining: int
    write_length: int
    acknowledge_pending: int
    since_acknowledge: int
    nak_pending: int
    """The syndrome to send, or 0."""
    nak_sent: int
    reads: int
    """How many READs wait to be answered, in order of their PSN."""

    # A UD queue pair.
    qkey: int
    chunk_due: int
    chunk_psn: int
    chunks_idle: int
    chunks_before_pause: int
    """How many more chunks of the batch at hand leave without a pause."""

    is_changed: int
    """Whether it is in the endpoint's CHANGED_TABLE."""
    read_block: int
    """Address of the READs that wait to be answered; 0 while there is none."""
    work_ring: int
    """Address of the ring of posted work; 0 as long as that in the row is large enough."""
    work_room: int
    """How much work the ring has room for: a power of 2."""
    first_ring: Annotated[Words, 20]
    """The first ring of posted work, FIRST_WORK_ROOM rows of `WorkRequest`: small, for thousands of
    queue pairs with an operation or two."""

    # What connections have beside that.
    ce_state: int
    """Whether the last request came with a congestion mark."""
    echo_port: int
    """The UDP source port that it came from."""
    marked: int
    """How many of the acknowledged packets of the round at hand were marked, and how many were
    acknowledged."""
    acked: int
    round_end: int
    """A round ends when this is acknowledged."""
    congested_rounds: int
    """How many in a row."""
    board: int
    """Address of the board of what is sent and what came ahead of a gap; 0 while there is none."""
    cache: Annotated[Words, 2]
    """REPS: two words of four entropies each, the place of the next, how many are fresh, how many
    there are, the next one while frozen."""
    cache_head: int
    cache_fresh: int
    cache_size: int
    cache_turn: int
    explore: int
    """So many packets more take a random entropy."""
    frozen_until: int
    ports: int
    """Address of the source ports that a timeout goes through, how many, and the one in use."""
    port_count: int
    port_at: int
    lanes: int
    """How many rows share one turn for data, the first of them, and there the leaf whose turn is
    next. Zero or one: the row has turns of its own."""
    first_lane: int
    lane_turn: int
    acknowledge_moves: int
    """Whether acknowledgements take another path where they seem to be lost."""
    acknowledge_port: int
    """The UDP source port that they leave from then, 0: that of the data; and its place among
    PORTS."""
    acknowledge_at: int

    # What an aggregation queue pair has.
    job: int
    """Address of the job's words."""
    next_aggregation: int
    """The next such row, plus 1; 0 after the last."""
    work_waits: int
    """Whether there is posted work for which the ring had no room."""
    control: Annotated[Words, CONTROL_WORDS]
    """What the congestion control keeps.

    Rows are whole cache lines, and no power of 2: the same word of many rows would share few places
    in the processor's cache."""


FIRST_WORK_ROOM = 2
MAXIMUM_WORK_ROOM = 32
"""Posted work that compiled code is handed by Python, where the rest waits."""


@record
class WorkRequest(Record):
    """A piece of posted work."""

    kind: int
    address: int
    """The address of local memory."""
    length: int
    remote_address_or_qkey: int
    """The Q_Key is that of a run of chunks."""
    rkey_or_batch: int
    """The peer's key; of a run of chunks, how many of them leave back to back."""
    immediate: int
    first: int
    """First PSN, or first chunk."""
    end: int
    """One past the last."""
    chunk_bytes_or_relay: int
    """How many bytes a chunk has; of an RDMA WRITE, the address of the relay that posted it, or
    NO_RELAY."""
    rate_bps: int


NO_RELAY = 0
"""A piece of work was posted in Python, where somebody is told when it is done."""
GONE_RELAY = 1
"""The relay that posted it has been detached."""


# RECOVERY, ENTROPY and ECHO.
UNLIMITED = 1 << 60
GO_BACK_N, SELECTIVE = range(2)
FIXED, REPS, PLB = range(3)
ECHO_CHANGES = 1
"""An acknowledgement's packets were all marked, or none."""
ECHO_EVERY = 2
"""Every packet has an acknowledgement of its own."""
ECHO_ROOM = 1024


@record
class Echo(Record):
    """A row of the ring of echoes: an acknowledgement with what it echoes."""

    pair: int
    psn: int
    aeth: int
    mark: int
    source_port: int


READ_ROOM = 64
"""How many READs, `Read`, there are behind the head of a READ block."""


@record
class Read(Record):
    """A READ that waits to be answered."""

    first: int
    next: int
    end: int
    address: int
    """Virtual address of the byte that READ_FIRST begins with."""
    key: int
    length: int
    repeated: int


# KIND, STATE, IN_MESSAGE and WORK_KIND.
RC, UD = range(1, 3)
UNCONNECTED, READY, FAILED = range(3)
NO_MESSAGE, SEND_MESSAGE, WRITE_MESSAGE = range(3)
SEND, SEND_WITH_IMMEDIATE, WRITE, WRITE_WITH_IMMEDIATE, READ = range(5)


@record
class Region(Record):
    """A row of the region table."""

    address: int
    length: int
    memory: int
    key: int


KEY_INDEX_MASK = 0xFFFF
"""The lower half of an rkey is the row."""


@record
class GroupRow(Record):
    """A row of the group table: the UD queue pairs again, for what arrives."""

    address: int
    qkey: int
    """Of operations 0 to 255; with every 256 more it is one more."""
    queue_pair: int
    sinks: Annotated[Words, 256]
    """Addresses of `SinkState`, by the lower 8 bits of the operation; 0 for none."""


@record
class Event(Record):
    """A row of the event table: what happened to a queue pair.

    Its kind says which of the fields it has.
    """

    kind: int
    queue_pair: int
    """The row of the queue pair, or of the group at a receive worker."""
    value: int
    """A number that the kind says the meaning of."""
    offset: int
    length: int
    bits: int
    """IS_FIRST | IS_LAST | HAS_IMMEDIATE, of a part of a SEND."""
    immediate: int
    sequence: int
    """A sequence number, or the number of a piece of work."""


EVENT_WORK_DONE = 0
"""Work is done: ``value`` pieces of it."""
EVENT_FRAGMENT = 1
"""A part of a SEND has arrived in row ``value`` of the batch: ``length`` bytes at ``offset``, with
``bits`` and ``immediate``."""
EVENT_WRITE_WITH_IMMEDIATE = 2
"""An RDMA WRITE of ``length`` bytes with ``immediate`` is complete."""
EVENT_CHUNKS_SENT = 3
EVENT_CHUNKS_RECEIVED = 4
"""The sink in place ``value`` is whole: of the operation with these lower 8 bits."""
EVENT_FAILED = 5
"""The queue pair failed: ``value`` is the reason, ``sequence`` where."""
EVENT_FRAGMENT_KEPT = 6
"""As EVENT_FRAGMENT, but for a part that came ahead of a gap; it has ``sequence``, too."""
EVENT_FRAGMENT_DUE = 7
"""It is the turn of the fragment that was kept with that ``sequence``."""
EVENT_REPATHED = 8
"""Packets leave from UDP source port ``value`` now."""
EVENT_RELAY_DONE = 9
"""All blocks of a relay have arrived, and all its RDMA WRITEs are acknowledged."""

REASON_TIMEOUT = 0
"""Otherwise a reason is the syndrome of a NAK."""


@record
class Batch(Record):
    """A batch of datagrams as compiled code sees it: `Datagrams.addresses`."""

    data: int
    length: int
    source: int
    destination: int
    source_port: int
    tos: int
    stride: int
    capacity: int
