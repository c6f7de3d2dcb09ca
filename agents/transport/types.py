"""The transport's data: what is registered, connected and counted."""

import enum
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from weft.base.errors import WeftError, refuse

Entropy = Literal["fixed", "reps", "plb"]
"""What chooses the UDP source ports of data (`TransportOptions.entropy`), by the numbers that
kernels have for it."""
ENTROPIES: tuple[Entropy, ...] = get_args(Entropy)


class TransportMisuse(WeftError):
    """A call on an endpoint or a queue pair makes no sense: the caller is at fault, not the
    peer."""

    exit_status = 4


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRegion:
    """A memory region is a registered buffer, which RDMA may read and write.

    `address` is the virtual address of its first byte (64 bits; chosen by the endpoint,
    repeatable, not a pointer), `rkey` the 32-bit key that a peer must show. `buffer` is the
    caller's own memory, uint8 and C-contiguous: no copy is made.
    """

    address: int
    rkey: int
    buffer: npt.NDArray[np.uint8]

    @property
    def length(self) -> int:
        """Return the size in bytes."""
        return len(self.buffer)


@dataclass(frozen=True, slots=True)
class RemoteQueuePair:
    """An RC queue pair must know this of its peer: IPv4 address, QP number (24 bits) and first PSN
    (24 bits)."""

    address: int
    number: int
    initial_psn: int


class CompletionKind(enum.Enum):
    """A completion is of one of these kinds, which say what happened."""

    SENT = "sent"
    """A posted SEND or RDMA WRITE was acknowledged as a whole."""
    RECEIVED = "received"
    """A SEND arrived: `data`, and `immediate` if it carried one."""
    WRITE_WITH_IMMEDIATE = "write_with_immediate"
    """A peer's RDMA WRITE with immediate arrived as a whole: `immediate`, `length` bytes."""
    READ_DONE = "read_done"
    """A posted RDMA READ has all its data in place."""
    CHUNKS_SENT = "chunks_sent"
    """The last chunk of a posted run was handed to the network."""
    CHUNKS_RECEIVED = "chunks_received"
    """Nothing is missing in `sink` any more (raised by a multicast packet, not by
    `ChunkSink.mark`)."""
    REDUCED = "reduced"
    """A posted reduction has its whole result in place: `length` values."""
    REPATHED = "repathed"
    """After a timeout the queue pair goes on from the next of several UDP source ports that it was
    given (`RcQueuePair.set_source_ports`): `source_port`."""
    ERROR = "error"
    """A posted operation failed and so did its queue pair: `error` says why and names the peer."""


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Options of the transport. The defaults fit links of 10 Mbit/s to 10 Gbit/s with switch queues
    of 256 KiB on a machine that may be late. Who knows the network gives better timeouts.

    A peer that does not answer fails a queue pair after `retries` retransmissions *and*
    `give_up_ns` without progress, whichever is later, and at most `maximum_timeout_ns` after
    that: with the defaults 2.0 to 2.3 s after the last progress.
    """

    window_bytes: int = 256 * 1024
    """Most payload in flight per RC queue pair; halved at a loss (not below 4 packets), grown
    back one packet a window."""
    read_segment_packets: int = 16
    """A posted READ goes out as requests of at most this many response packets, as the window
    opens."""
    acknowledge_every: int = 16
    """A responder acknowledges after this many packets even if no packet asks for it."""
    acknowledge_interval_ns: int = 1_000_000
    """A requester asks for an acknowledgement at least this often, besides four times a window."""
    first_timeout_ns: int | None = None
    """The first retransmission, before a round trip has been measured; by default 10 ms and the
    time that a whole window takes on the link."""
    minimum_timeout_ns: int | None = None
    """No retransmission earlier than this after the last progress; by default the time that a whole
    window takes on the link, but 5 to 25 ms, or that of 32 packets on a slow link, whose queues
    take so long. So where an acknowledgement is late because a machine is, the link is not idle for
    it."""
    control_timeout_ns: int | None = None
    """READ requests and small messages, those of barriers among them, are repeated earlier: after
    this and twice what is in flight; by default 5 ms, or 6 packets on a slow link."""
    maximum_timeout_ns: int = 256_000_000
    """The exponential back-off stops here, or at the round-trip time where that is longer."""
    retries: int = 7
    give_up_ns: int = 2_000_000_000
    pacing_credit_ns: int = 5_000_000
    """How far a pacer that was called late may catch up."""
    burst_ns: int = 0
    """How far ahead of its rate an endpoint may send, and how long a driver may let datagrams
    gather before it receives them: with more at a time, each takes less of the processor."""
    batch_packets: int = 64
    """Most datagrams in one `transmit`."""
    congestion: str = "window"
    """The congestion control, which governs the window (`weft.agents.transport.congestion`):
    by losses alone, or by ECN marks too."""
    congestion_options: tuple[tuple[str, Any], ...] = ()
    """What is asked of its own options, by the names of their fields."""
    recovery: Literal["go-back-n", "selective"] = "go-back-n"
    """What is sent again after a loss: everything from there on, or only what is missing (IRN,
    SIGCOMM 2018). READs are repeated from the loss on either way. The same at both ends."""
    reorder_packets: int = 3
    """With selective repeat, a packet counts as lost if it has not arrived when one that was sent
    this much later has."""
    entropy: Entropy = "fixed"
    """The UDP source port of data: a queue pair's own, one for each packet (REPS, arXiv
    2407.21625), or a new one when its path is congested (PLB, SIGCOMM 2022). The same at both
    ends."""
    entropies: int = 1 << 14
    """How many source ports REPS and PLB draw from for each peer: 1 to 16384, which is all dynamic
    ones. Few lead to paths unevenly: where 64 are hashed over 16 paths, to one half as often as to
    another."""
    explore_packets: int | None = None
    """REPS: so many packets of a queue pair take source ports at random first, and again after a
    freeze: a bandwidth-delay product. By default a window."""
    freeze_ns: int = 10_000_000
    """How long after a timeout REPS uses only paths that it knows to work."""
    port_seed: int = 0
    """The seed of the UDP source ports that are drawn for queue pairs
    (`Endpoint.source_port_to`)."""
    alternates: int = 1
    """How many source ports a queue pair has that `Endpoint.create_rc_to` makes: where nothing is
    acknowledged, or acknowledgements seem to be lost, it goes on with the next."""


def check_options(options: TransportOptions) -> None:
    """Raise TransportMisuse, by name, for options that make no sense."""
    choices = {
        "recovery": ("go-back-n", "selective"),
        "entropy": ENTROPIES,
    }
    for name, known in choices.items():
        value = getattr(options, name)
        if value not in known:
            raise TransportMisuse(f"{name} {value!r}: it is {' or '.join(known)}")
    refuse(
        options.reorder_packets < 1,
        f"reorder_packets {options.reorder_packets}: at least 1 is needed",
        TransportMisuse,
    )
    if not 1 <= options.entropies <= 1 << 14:
        raise TransportMisuse(f"entropies {options.entropies}: there are 1 to 16384")
    for name in ("first_timeout_ns", "minimum_timeout_ns", "control_timeout_ns"):
        value = getattr(options, name)
        refuse(
            value is not None and value < 1,
            f"{name} {value}: at least 1 ns is needed",
            TransportMisuse,
        )
    refuse(
        options.alternates < 1 or (options.alternates > 1 and options.entropy != "fixed"),
        f"alternates {options.alternates} with entropy {options.entropy}: at least 1 is "
        "needed, and 1 where the entropy chooses ports",
        TransportMisuse,
    )
    for name in ("explore_packets", "freeze_ns"):
        value = getattr(options, name)
        refuse((value or 0) < 0, f"{name} {value}: it is not negative", TransportMisuse)


@dataclass(slots=True)
class Statistics:
    """What an endpoint has counted since it was made; packets unless the name says otherwise."""

    received_packets: int = 0
    received_bytes: int = 0
    """Frame bytes, as links count them."""
    transmitted_packets: int = 0
    transmitted_bytes: int = 0
    """Frame bytes, as links count them."""
    retransmitted_packets: int = 0
    """Requests sent again (a repeated READ request is one packet) and READ responses sent again."""
    duplicate_packets: int = 0
    """Requests and responses that were there already."""
    out_of_order_packets: int = 0
    """Requests and responses ahead of the expected PSN, dropped."""
    timeouts: int = 0
    naks_sent: int = 0
    naks_received: int = 0
    acknowledgements_sent: int = 0
    bad_icrc: int = 0
    truncated: int = 0
    """Too short for their opcode, or with a length that does not fit it."""
    unknown_opcode: int = 0
    unknown_queue_pair: int = 0
    """No such QP number or group, or not from the connected peer, or a wrong Q_Key."""
    access_errors: int = 0
    """Requests refused for their key, bounds or sequence of opcodes."""
    own_loopback: int = 0
    wrong_operation: int = 0
    """Chunks of an operation that no attached sink is waiting for, such as one long ago."""
    duplicate_chunks: int = 0
    chunks_out_of_bounds: int = 0
    """Chunks whose number or length does not fit their sink."""
    chunks_received: int = 0
    chunks_sent: int = 0
    congestion_marks: int = 0
    """Packets that arrived with ECN congestion experienced."""
    marks_received: int = 0
    """How many of these were data of connections: requests with payload and READ responses."""
    marks_echoed: int = 0
    """Acknowledgements sent that tell of a mark."""
    reordered_packets: int = 0
    """Requests that came ahead of a gap and were kept (selective repeat)."""
    reorder_peak_packets: int = 0
    """The most that one queue pair kept ahead of gaps at a time."""
    reorder_distance_peak: int = 0
    """The most sequence numbers that a kept request was ahead of the expected one."""
    path_changes: int = 0
    """Source ports given up for others: by PLB, or for the next alternate."""
    entropies_drawn: int = 0
    """Source ports that REPS and PLB drew at random."""
    foreign_chunks: int = 0
    """Chunks of a shard that is another host's to send, or of no member of the group."""


PEAKS = frozenset({"reorder_peak_packets", "reorder_distance_peak"})
"""The counters of `Statistics` that are the most there ever was, and no sums."""


@dataclass(slots=True)
class AggregationStatistics:
    """What one host has sent and received in a job since the job was made."""

    rounds_sent: int = 0
    """Packets, repetitions included."""
    rounds_repeated: int = 0
    results: int = 0
    duplicate_results: int = 0
    """Results of rounds whose result was there already, or that this host has not sent."""
    other_epoch: int = 0
    """Packets of a job that had the address before."""
    malformed: int = 0
    """Packets with a wrong ICRC are the endpoint's `bad_icrc`."""
    saturated_blocks: int = 0
    """Blocks of this rank's results in which a sum left the range."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap is a run of chunks that did not arrive: `count` chunks from `first_chunk`, `length`
    bytes at `offset` of the buffer.

    `shard` is the shard they belong to and `shard_offset` the place of the first byte in it.
    """

    shard: int
    first_chunk: int
    count: int
    offset: int
    length: int
    shard_offset: int = field(default=0)
