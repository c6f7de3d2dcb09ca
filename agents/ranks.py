"""What a rank is told of a run, and what it says of it: plain data, the same in both worlds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.agents.collectives.communicator import Lane
from weft.agents.collectives.requests import Request
from weft.agents.participant import Team, TeamMember
from weft.agents.transport.types import TransportOptions


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
    members: list[TeamMember] = field(default_factory=list)
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
class RankReport:
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
