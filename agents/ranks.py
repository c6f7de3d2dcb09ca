"""What a rank is told of a run, and what it reports of it: plain data, the same in both worlds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from weft.agents.collectives.communicator import Lane
from weft.agents.collectives.operation import OperationReport
from weft.agents.collectives.requests import Request
from weft.agents.collectives.series import Series
from weft.agents.collectives.workload import Workload, accuracy_of
from weft.agents.participant import Team, TeamMember
from weft.agents.transport.types import TransportOptions


@dataclass(frozen=True)
class RankConfig:
    """A configuration tells a rank process everything but the operation when it is forked."""

    rank: int
    """The number of the process. Processes of ranks come first, team by team, then processes that
    are servers alone."""
    host: str
    """The name of the host, for messages."""
    teams: list[Team]
    rendezvous: str
    """The path of the runner's Unix socket."""
    members: list[TeamMember] = field(default_factory=list)
    """What the process is. An empty list means that it is the rank of that number in the first
    team; `roles` says so."""
    processes: int = 0
    """How many processes there are. 0 means as many as the first team has ranks."""
    partners: list[int] = field(default_factory=list)
    """The ranks that this one needs a queue pair with beside those that every rank has."""
    lanes: dict[int, list[Lane]] = field(default_factory=dict)
    """The lanes to each peer to which data takes paths that were chosen for it."""
    transport: TransportOptions = field(default_factory=TransportOptions)
    workers: int = 1
    """How many threads receive multicast, each the groups of one subgroup. With 1 the thread that
    does everything else receives multicast, too; with more they are threads of their own."""
    path_mtu: int = 4096
    """How many bytes of RoCE payload one packet has: 256, 512, 1024, 2048 or 4096."""
    rate_bps: int = 100_000_000
    """The rate of the host's link, counted in frame bytes."""
    seed: int = 1
    algorithms: list[str] = field(default_factory=list)
    """By which algorithms the operations are done."""
    collectives: list[str] = field(default_factory=list)
    """Which collectives the operations are."""
    log: str = ""
    """The file for the process's standard output and error. If it is empty, the process inherits
    those of the launcher."""
    connect_timeout_s: float = 30.0

    @property
    def roles(self) -> list[TeamMember]:
        """Return what the process is: one rank, a server of any number of teams, or both."""
        return self.members or [(0, self.rank)]

    @property
    def address(self) -> str:
        """Return the IPv4 address of the host."""
        team, member = self.roles[0]
        return (*self.teams[team].addresses, *self.teams[team].servers)[member]


@dataclass(frozen=True)
class OperationConfig:
    """A configuration tells every rank what the run does: one operation, or several, again and
    again."""

    request: Request
    """The first operation. The rendezvous sets its number."""
    seed: int = 1
    """The seed of the data."""
    operations: int = 1
    """How often the first operation and those in `more` are done."""
    at_once: int = 1
    """How many of the operations run at the same time."""
    more: tuple[Request, ...] = ()
    """The operations that follow the first one, each time."""
    waits: tuple[tuple[int, ...], ...] = ()
    """For each of `kinds`, how many places before it those operations are that must be done before
    it begins. If this is empty, no operation waits."""
    data: str = "exact"
    """Which floating-point numbers are reduced: one of `names.DATA`."""

    @property
    def kinds(self) -> tuple[Request, ...]:
        """Return the different operations, in their order."""
        return (self.request, *self.more)

    @property
    def count(self) -> int:
        """Return how many operations there are in all."""
        return self.operations * len(self.kinds)

    def requests(self) -> list[Request]:
        """Return the requests of all operations, numbered from the first one's number on."""
        first = self.request.number
        return [
            replace(self.kinds[index % len(self.kinds)], number=first + index)
            for index in range(self.count)
        ]

    def limited(self, size: int, rate_bps: int, number: int = 0) -> "OperationConfig":
        """Return a copy that is numbered from `number` on, with time limits for `size` ranks whose
        links have that rate."""
        first, *more = (
            replace(request, number=number, timeout_ns=request.limit_ns(size, rate_bps))
            for request in self.kinds
        )
        return replace(self, request=first, more=tuple(more))

    @property
    def limit_ns(self) -> int:
        """Return the time limit of all operations together, once they are `limited`."""
        return self.operations * sum(request.timeout_ns for request in self.kinds)

    def workloads(self, number: int, team: Team, *, keep: bool = False) -> list[Workload]:
        """Return the data of all operations in a team, given its number; `keep` as `Workload` has
        it."""
        return [
            Workload(
                request, len(team.addresses), self.seed + 1_000_003 * number, data=self.data,
                switch_values=team.switch_values, keep=keep,
            )
            for request in self.requests()
        ]  # fmt: skip


@dataclass(frozen=True)
class RankReport:
    """A report has what one rank counted, timed and found wrong in a run."""

    rank: int
    """The number of the rank among the ranks of all teams."""
    host: str
    algorithm: str
    verified: bool
    error: str = ""
    completion_ns: int = 0
    """The time from the common start until the data is complete and the operation, of several the
    last one, is done. It is 0 if the rank failed."""
    phases_ns: dict[str, int] = field(default_factory=dict)
    """The durations of the phases, each added up over the operations."""
    received_bytes: int = 0
    """How many bytes of other ranks' data came."""
    chunks_multicast: int = 0
    chunks_fetched: int = 0
    chunks_duplicate: int = 0
    blocks_saturated: int = 0
    """How many blocks of sums by switches had sums that did not fit into 32 bits."""
    accuracy: dict[str, float] = field(default_factory=dict)
    """`SumErrors.figures` of all operations, if the data's sums are rounded."""
    flow_count: int = 0
    """How many queue pairs RDMA WRITEs left by."""
    retransmitted_packets: int = 0
    cpu_ns: int = 0
    """The processor time of the rank process between start and finish."""
    wake_lateness_ns: dict[str, int] = field(default_factory=dict)
    """How late the process was called for its deadlines: p50, p99 and max; for how long it stood
    still all together."""
    team: int = 0
    socket_drops: int = 0
    """How many datagrams the receive buffer of the UDP socket had no room for."""
    statistics: dict[str, int] = field(default_factory=dict)
    """The counters of the transport and of the driver, by name; and those of fixed point, if
    something was lost to it."""
    spans_ns: list[tuple[int, int]] = field(default_factory=list)
    """When each operation that ended began and when it was done, from the common start."""
    moments: list[tuple[int, str, int]] = field(default_factory=list)
    """What happened to the flows of the collective flows: (flow, what happened to it as
    `operation.Moment` has it, when, in ns from the common start)."""

    def checked(self, error: str, workloads: Iterable[Workload]) -> "RankReport":
        """Return the report after every byte has been compared: with the error that was found, or
        else verified, with the accuracy of the results."""
        if error:
            return replace(self, error=error, completion_ns=0)
        return replace(self, verified=True, accuracy=accuracy_of(workloads))


def report_of(
    rank: int,
    team: int,
    host: str,
    series: Series,
    counted: OperationReport,
    statistics: Mapping[str, int],
    start_ns: int,
    *,
    cpu_ns: int = 0,
    wake_lateness_ns: Mapping[str, int] | None = None,
) -> RankReport:
    """Return the report of a rank whose series has ended, or was stopped; its data is yet to be
    `checked`.

    Args:
        counted: what the series has counted.
        statistics: the counters of the transport and of the driver, by name.
        start_ns: the common start.
    """
    return RankReport(
        rank=rank,
        team=team,
        host=host,
        algorithm=series.algorithm,
        verified=False,
        error=series.error,
        completion_ns=0 if series.error else series.finished_ns - start_ns,
        phases_ns=counted.phases_ns,
        received_bytes=counted.received_bytes,
        chunks_multicast=counted.chunks_multicast,
        chunks_fetched=counted.chunks_fetched,
        chunks_duplicate=counted.chunks_duplicate,
        blocks_saturated=counted.blocks_saturated,
        flow_count=counted.flow_count,
        retransmitted_packets=statistics["retransmitted_packets"],
        cpu_ns=cpu_ns,
        wake_lateness_ns=dict(wake_lateness_ns or {}),
        socket_drops=statistics["socket_drops"],
        statistics={**statistics, **counted.fixed_point.statistics()},
        spans_ns=series.spans_since(start_ns),
        moments=counted.moments_since(start_ns),
    )
