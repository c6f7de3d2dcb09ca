"""What a rank process, the launcher and the runner say to each other: records as JSON lines.

One message is one line, ``{"kind": "start", "at_ns": 123}\\n``, with the fields of that kind;
msgspec reads it, and refuses what is not as declared. The connection is a Unix stream socket (they
cross network namespaces).

A rank and the runner, in order (``->`` from rank to runner)::

    -> hello        queue pairs made for each peer
    <- peers        the queue pairs that the peers made for this rank
    -> connected
    once per operation:
        <- prepare      what to do; the rank fills its buffer
        -> working      some ten times a second while it does
        -> ready
        <- start        at which time of CLOCK_MONOTONIC
        -> progress     some ten times a second
        -> finished     the operation is done or failed; the rank goes on serving its peers
        <- verify       once all ranks have finished, so that checking disturbs nobody's time
        -> working      some ten times a second while it does
        -> result
    <- close
    at any time: <- abort, -> fault
"""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass, field, replace

import msgspec

from weft.agents.collectives.communicator import Lane
from weft.agents.collectives.requests import Request
from weft.agents.participant import Introductions, Member, Team
from weft.agents.transport.types import TransportOptions
from weft.base.errors import InputError, ProtocolError


@dataclass(frozen=True)
class RankConfig:
    """What a rank process is told when it is forked. Everything but the operation."""

    rank: int
    """Its number among the processes: those of ranks first, team by team, then those of servers
    alone."""
    host: str
    """Name of the host, for messages."""
    teams: list[Team]
    rendezvous: str
    """Path of the runner's Unix socket."""
    members: list[Member] = field(default_factory=list)
    """What the process is; by default that rank of the first team."""
    processes: int = 0
    """How many there are; by default the ranks of the first team."""
    partners: list[int] = field(default_factory=list)
    """Ranks that this one needs a queue pair with beside those that every rank has."""
    lanes: dict[int, list[Lane]] = field(default_factory=dict)
    """Of the rank by peer, where data takes paths that were chosen for it."""
    transport: TransportOptions = field(default_factory=TransportOptions)
    workers: int = 1
    """Threads that receive multicast, each the groups of one subgroup, beside the one that does
    all the rest; with 1 that one receives multicast, too."""
    path_mtu: int = 4096
    """RoCE payload bytes of one packet: 256, 512, 1024, 2048 or 4096."""
    rate_bps: int = 100_000_000
    """Rate of the host's link, in frame bytes."""
    seed: int = 1
    log: str = ""
    """File for the process's standard output and error; empty: inherited."""
    connect_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.members:
            object.__setattr__(self, "members", [(0, self.rank)])
        if not self.processes:
            object.__setattr__(self, "processes", len(self.teams[0].addresses))

    @property
    def address(self) -> str:
        """IPv4 address of the host."""
        team, member = self.members[0]
        return (*self.teams[team].addresses, *self.teams[team].servers)[member]


@dataclass(frozen=True)
class OperationConfig:
    """What a run does, the same on every rank: one operation, or several, again and again."""

    request: Request
    """Of the first; its number is set by the rendezvous."""
    seed: int = 1
    """Of the data."""
    operations: int = 1
    """How often all this is done."""
    at_once: int = 1
    """How many of the operations run at the same time."""
    more: tuple[Request, ...] = ()
    """What follows the first, each time."""
    waits: tuple[tuple[int, ...], ...] = ()
    """Of each of `kinds`: how many places before it those operations are that must be done before
    it begins. Empty: none waits."""
    data: str = "exact"
    """What floating-point numbers are where they are reduced: one of `names.DATA`."""

    @property
    def kinds(self) -> tuple[Request, ...]:
        """The different operations, in order."""
        return (self.request, *self.more)

    @property
    def count(self) -> int:
        """Of all operations."""
        return self.operations * len(self.kinds)

    def requests(self) -> list[Request]:
        """Of all operations, numbered from the first's number on."""
        first = self.request.number
        return [
            replace(self.kinds[index % len(self.kinds)], number=first + index)
            for index in range(self.count)
        ]

    def limited(self, size: int, rate_bps: int, number: int = 0) -> OperationConfig:
        """With time limits for so many ranks at that rate, numbered from `number` on."""
        first, *more = (
            replace(request, number=number, timeout_ns=request.limit_ns(size, rate_bps))
            for request in self.kinds
        )
        return replace(self, request=first, more=tuple(more))

    @property
    def limit_ns(self) -> int:
        """For all operations together, once they are `limited`."""
        return self.operations * sum(request.timeout_ns for request in self.kinds)

    def seed_of(self, team: int) -> int:
        """Of a team's data."""
        return self.seed + 1_000_003 * team


@dataclass(frozen=True)
class RankResult:
    """What one rank says of a run."""

    rank: int
    """Its number among the ranks of all teams."""
    host: str
    algorithm: str
    verified: bool
    error: str = ""
    completion_ns: int = 0
    """From the common start until the data is complete and the operation (of several the last)
    done; 0 if it failed."""
    phases_ns: dict[str, int] = field(default_factory=dict)
    """Summed over the operations."""
    received_bytes: int = 0
    """Of other ranks' data."""
    chunks_multicast: int = 0
    chunks_fetched: int = 0
    chunks_duplicate: int = 0
    blocks_saturated: int = 0
    """Blocks of sums by switches in which some did not fit into 32 bits."""
    accuracy: dict[str, float] = field(default_factory=dict)
    """Of data whose sums are rounded: `SumErrors.figures` of all operations."""
    flow_count: int = 0
    """Queue pairs that RDMA WRITEs left by."""
    retransmitted_packets: int = 0
    cpu_ns: int = 0
    """Processor time of the rank process between start and finish."""
    wake_lateness_ns: dict[str, int] = field(default_factory=dict)
    """How late the process was called for its deadlines: p50, p99, max."""
    team: int = 0
    socket_drops: int = 0
    """Datagrams that the receive buffer of the UDP socket had no room for."""
    statistics: dict[str, int] = field(default_factory=dict)
    """Counters of the transport and of the driver, by name."""
    spans_ns: list[tuple[int, int]] = field(default_factory=list)
    """Of each operation that ended: when it began and when it was done, from the common start."""
    moments: list[tuple[int, str, int]] = field(default_factory=list)
    """Of the collective flows: (flow, what happened to it as `operation.Moment` has it, when, in ns
    from the common start)."""


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all messages have in common: ``kind`` in the JSON object says which one it is."""

    @property
    def kind(self) -> str:
        """Its name on the wire."""
        return str(self.__struct_config__.tag)


class Hello(_Message, frozen=True, tag="hello"):
    rank: int
    pid: int
    queue_pairs: Introductions


class Connected(_Message, frozen=True, tag="connected"):
    rank: int


class Ready(_Message, frozen=True, tag="ready"):
    rank: int


class Progress(_Message, frozen=True, tag="progress"):
    rank: int
    received_bytes: int


class Working(_Message, frozen=True, tag="working"):
    """The rank fills or checks its buffers, and gets on."""

    rank: int
    slices: int
    """That it has done so far, of all operations."""


class Finished(_Message, frozen=True, tag="finished"):
    rank: int
    completion_ns: int
    error: str = ""


class Result(_Message, frozen=True, tag="result"):
    rank: int
    result: RankResult


class Fault(_Message, frozen=True, tag="fault"):
    """The rank process cannot go on; it ends after this message."""

    rank: int
    error: str


class Peers(_Message, frozen=True, tag="peers"):
    queue_pairs: Introductions


class Prepare(_Message, frozen=True, tag="prepare"):
    operation: OperationConfig


class Start(_Message, frozen=True, tag="start"):
    at_ns: int


class Verify(_Message, frozen=True, tag="verify"):
    pass


class Abort(_Message, frozen=True, tag="abort"):
    reason: str


class Close(_Message, frozen=True, tag="close"):
    pass


class Spawn(_Message, frozen=True, tag="spawn"):
    """Runner to launcher: fork a rank process."""

    namespace: str
    """Path of the network namespace; empty: the launcher's own."""
    config: RankConfig


class EndRanks(_Message, frozen=True, tag="end_ranks"):
    """Runner to launcher: kill and reap every rank process that is left."""


class RanksEnded(_Message, frozen=True, tag="ranks_ended"):
    """Launcher to runner: of the ranks forked so far none is left."""


class Warm(_Message, frozen=True, tag="warm"):
    """Launcher to runner: compiled code is loaded; forks are quick from now on."""


class Spawned(_Message, frozen=True, tag="spawned"):
    rank: int
    pid: int


class Exited(_Message, frozen=True, tag="exited"):
    """Launcher to runner: a rank process ended. ``status`` as os.waitstatus_to_exitcode has it."""

    rank: int
    pid: int
    status: int


Message = (
    Hello | Connected | Ready | Working | Progress | Finished | Result | Fault
    | Peers | Prepare | Start | Verify | Abort | Close
    | Spawn | EndRanks | RanksEnded | Warm | Spawned | Exited
)  # fmt: skip

_ENCODER = msgspec.json.Encoder(enc_hook=lambda value: value.item())  # numpy's own numbers
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """One line of JSON."""
    return _ENCODER.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    """The message of one line.

    Raises:
        ProtocolError: the line is not a message, or one with fields that make no sense.
    """
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, InputError) as error:
        raise ProtocolError(f"not a message of the rendezvous: {error}: {line[:80]!r}") from error


SEND_SILENCE_S = 60.0
"""For the peer to take any more of a message."""


class LineChannel:
    """Messages over a connected stream socket.

    The socket is switched to non-blocking; writing waits for room (both sides read) for as long as
    the peer takes something now and then, reading never waits: ``receive`` hands over what has
    arrived and ``closed`` says that the peer is gone.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.closed = False
        """The peer is gone and all that it said has been received."""
        self._deaf = False
        self._partial = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    @property
    def partial_bytes(self) -> int:
        """What has arrived of a message that is not complete."""
        return len(self._partial)

    def send(self, message: Message) -> None:
        """Send one message. It is lost if the peer has gone, whose words can still be received; or
        takes nothing in `SEND_SILENCE_S`."""
        if self.closed or self._deaf:
            return
        left = memoryview(encode(message))
        try:
            while left:
                try:
                    left = left[self.socket.send(left) :]
                except (BlockingIOError, InterruptedError):
                    if not select.select([], [self.socket], [], SEND_SILENCE_S)[1]:
                        self._deaf = True
                        return
        except OSError:
            self._deaf = True

    def receive(self) -> list[Message]:
        """The messages that have arrived since the last call; sets ``closed`` at the end of the
        stream."""
        chunks = []
        while not self.closed:
            try:
                chunk = self.socket.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                chunk = b""
            if not chunk:
                self.closed = True
            chunks.append(chunk)
        *ends, rest = b"".join(chunks).split(b"\n")
        lines = []
        for end in ends:
            lines.append(bytes(self._partial) + end)
            self._partial = bytearray()
        self._partial += rest
        return [decode(line) for line in lines]

    def close(self) -> None:
        self.closed = True
        self.socket.close()
