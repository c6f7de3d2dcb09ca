"""What a program on the hosts leaves behind: ``results.json`` with schema ``weft.training``.

Times are those of CLOCK_MONOTONIC on one machine, so ranks can be compared. The time of a rank,
from when its first group came together until its last step (or its end, without steps), is made of
*exposed* communication, in which the program waited for an operation, and *computation*, all the
rest. *Hidden* is the part of the computation in which an operation was under way.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from weft.experiments.plots.trace import complete, named
from weft.experiments.results.document import Document
from weft.experiments.results.results import Fidelity, LinkResult
from weft.pytorch.timeline import RankTimeline, RecordedOperation, Step

SCHEMA = "weft.training"
TRACE = "timeline.trace.json"
"""The timeline of all ranks, beside the document."""


class CollectiveFigures(msgspec.Struct, forbid_unknown_fields=True):
    """What all operations of one kind on one rank came to."""

    name: str
    algorithm: str
    count: int = 0
    size_bytes: int = 0
    """What this rank put in, all together."""
    under_way_ns: int = 0
    """The times that each took, added up."""
    failed: int = 0


class TorchRank(msgspec.Struct, forbid_unknown_fields=True):
    """What became of one rank."""

    rank: int
    host: str
    status: int
    """Its exit status; negative for the signal that ended it."""
    error: str = ""
    """Why it failed: its last words."""
    total_ns: int = 0
    computation_ns: int = 0
    exposed_ns: int = 0
    hidden_ns: int = 0
    cpu_ns: int = 0
    step_ns: list[int] = []
    """How long each step of the optimizer took, from the end of the one before it."""
    losses: list[float | None] = []
    collectives: list[CollectiveFigures] = []
    statistics: dict[str, int] = {}


class FaultResult(msgspec.Struct, forbid_unknown_fields=True):
    """What came of a fault that was asked for. Times begin when the ranks came together."""

    fault: str
    """What was asked for, like ``--kill-rank 2@step5``."""
    step: int | None
    """The step at whose end it was to come, if that was said."""
    attempt: int = 1
    """The number of the attempt in which it came: 1 is the first time that all ranks were started;
    `at_ns` counts from when the ranks came together in it, or from when their processes began if
    none of them has left a record."""
    at_ns: int | None = None
    """When it came; for a link, when routes led around it. None: the program ended before."""
    until_ns: int | None = None
    """When it ended, if it did."""
    step_before_ns: int | None = None
    """The median of all ranks' steps that had ended before it, and"""
    step_during_ns: int | None = None
    """of those that lie at least in part between it and its end, or the program's."""
    failed: int = 0
    """How many operations failed after it, of ranks that have left a record, and"""
    first_error_ns: int | None = None
    """how long after it the first of them did."""


class TorchRun(Document, msgspec.Struct, forbid_unknown_fields=True):
    """The result of a program on all hosts."""

    SCHEMA = SCHEMA
    WRITTEN_BY = "weft torch run --out DIR"

    script: str
    arguments: list[str]
    backend: str
    algorithms: dict[str, str]
    """The algorithm of each collective that has a choice, by size."""
    network: str
    scenario: dict[str, Any]
    """The network in full, as a scenario has it."""
    status: int
    """The exit status of the rank that failed first, or 0."""
    error: str
    ranks: list[TorchRank]
    links: list[LinkResult]
    tiers: dict[str, int]
    """Bytes of Ethernet frames by tier and direction."""
    fidelity: Fidelity
    management_bytes: int
    """What hosts sent by the management network, which is no part of the fabric."""
    groups_in_switches: int
    """The most groups of ranks for which switches held trees at a time."""
    notes: list[str] = []
    groups: dict[str, int] = {}
    """How many groups of ranks the program made, by their backends."""
    restarts: int = 0
    """How often all ranks were started anew, after one of them had failed; but for `links`, figures
    are of the last time."""
    faults: list[FaultResult] = []
    """What came of the faults that were asked for."""
    schema: str = SCHEMA
    schema_version: int = 1

    @property
    def ok(self) -> bool:
        """Return whether every rank ended with status 0."""
        return self.status == 0

    @property
    def backends(self) -> str:
        """Return the backends of the groups that there were."""
        return " and ".join(self.groups) or self.backend

    @property
    def losses(self) -> list[float | None]:
        """Return the losses of rank 0, step by step."""
        return self.ranks[0].losses if self.ranks else []

    @property
    def step_ns(self) -> list[int]:
        """Return how long each step took: that of the slowest rank."""
        steps = [rank.step_ns for rank in self.ranks]
        return [max(each) for each in zip(*steps, strict=False)]

    def collectives(self) -> dict[tuple[str, str], CollectiveFigures]:
        """Return the figures of all ranks together, by (collective, algorithm)."""
        return summed(figures for rank in self.ranks for figures in rank.collectives)


def summed(
    some: Iterable[CollectiveFigures],
) -> dict[tuple[str, str], CollectiveFigures]:
    """Return figures added up by (collective, algorithm)."""
    found: dict[tuple[str, str], CollectiveFigures] = {}
    for each in some:
        of = each.name, each.algorithm
        total = found.setdefault(of, CollectiveFigures(*of))
        total.count += each.count
        total.size_bytes += each.size_bytes
        total.under_way_ns += each.under_way_ns
        total.failed += each.failed
    return found


def rank_of(
    record: RankTimeline | None, rank: int, host: str, status: int, error: str
) -> TorchRank:
    """Return what became of a rank, from what it has recorded, if it has."""
    if record is None:
        return TorchRank(rank, host, status, error)
    ends = [record.begun_ns, *(step.ended_ns for step in record.steps)]
    end_ns = ends[-1] if record.steps else record.ended_ns
    window = (record.begun_ns, end_ns)
    under_way = [(each.begun_ns, each.ended_ns) for each in record.operations]
    exposed_ns = covered_ns(record.waits_ns, window)
    figures = (
        CollectiveFigures(
            each.name, each.algorithm, 1, each.size_bytes, each.ended_ns - each.begun_ns,
            int(bool(each.error)),
        )
        for each in record.operations
    )  # fmt: skip
    return TorchRank(
        rank,
        host,
        status,
        error,
        total_ns=end_ns - record.begun_ns,
        computation_ns=end_ns - record.begun_ns - exposed_ns,
        exposed_ns=exposed_ns,
        hidden_ns=covered_ns([*under_way, *record.waits_ns], window) - exposed_ns,
        cpu_ns=record.cpu_ns,
        step_ns=[end - begin for begin, end in pairwise(ends)],
        losses=[step.loss for step in record.steps],
        collectives=list(summed(figures).values()),
        statistics=dict(record.statistics),
    )


def covered_ns(spans: Iterable[tuple[int, int]], window: tuple[int, int]) -> int:
    """Return how much of a window some spans, which may overlap, cover all together."""
    covered, done = 0, window[0]
    for begin, end in sorted(spans):
        begin, end = max(begin, done), min(end, window[1])
        if begin < end:
            covered, done = covered + end - begin, end
    return covered


def trace_of(records: Sequence[RankTimeline]) -> dict[str, Any]:
    """Return a timeline of all ranks in the Trace Event Format, which Perfetto and Chrome read: a
    process for each rank, with its waits, its steps, and its operations under way."""
    begun_ns = min((record.begun_ns for record in records), default=0)
    events: list[dict[str, Any]] = []

    def span(row: int, name: str, kind: str, begin: int, end: int, **more: Any) -> None:
        event = complete(
            name, kind, record.rank, row, begin - begun_ns, max(end, begin + 1) - begun_ns
        )
        events.append({**event, "args": more})

    for record in records:
        events.append(named("process_name", record.rank, 0, f"rank {record.rank} ({record.host})"))
        since = record.begun_ns
        for number, step in enumerate(record.steps, 1):
            span(0, f"step {number}", "step", since, step.ended_ns, loss=step.loss)
            since = step.ended_ns
        for wait in record.waits_ns:
            span(1, "wait", "wait", *wait)
        rows: list[int] = []
        """When the last operation of each row ends."""
        for each in sorted(record.operations, key=lambda each: each.begun_ns):
            row = next((row for row, end in enumerate(rows) if end <= each.begun_ns), len(rows))
            rows[row:] = [each.ended_ns, *rows[row + 1 :]]
            span(
                row + 2, each.name, "operation", each.begun_ns, each.ended_ns,
                algorithm=each.algorithm, bytes=each.size_bytes, group=each.group,
            )  # fmt: skip
        names = [
            "steps",
            "exposed communication",
            *(f"operations {n + 1}" for n in range(len(rows))),
        ]
        events += [named("thread_name", record.rank, *each) for each in enumerate(names)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


class _Event(msgspec.Struct):
    """An event of a timeline."""

    ph: str
    pid: int
    name: str = ""
    cat: str = ""
    ts: float = 0
    dur: float = 0
    args: dict[str, Any] = {}


class _Trace(msgspec.Struct, rename={"events": "traceEvents"}):
    events: list[_Event]


def records_of(text: bytes) -> list[RankTimeline]:
    """Return what ranks have recorded from their timeline, as `trace_of` makes one; times begin
    with the first rank's. Raises ValueError for one that it has not made."""
    found: dict[int, RankTimeline] = {}
    for each in msgspec.json.decode(text, type=_Trace).events:
        if each.name == "process_name":
            host = str(each.args.get("name", "")).partition("(")[2].rstrip(")")
            found[each.pid] = RankTimeline(each.pid, host, begun_ns=1 << 62)
        record = found.get(each.pid)
        if record is None or each.ph != "X":
            continue
        begun_ns, ended_ns = round(each.ts * 1000), round((each.ts + each.dur) * 1000)
        record.begun_ns = min(record.begun_ns, begun_ns)
        record.ended_ns = max(record.ended_ns, ended_ns)
        if each.cat == "step":
            record.steps.append(Step(ended_ns, each.args.get("loss")))
        elif each.cat == "wait":
            record.waits_ns.append((begun_ns, ended_ns))
        else:
            algorithm, size_bytes, group = (
                each.args.get(name, usual)
                for name, usual in (("algorithm", ""), ("bytes", 0), ("group", ""))
            )
            record.operations.append(
                RecordedOperation(each.name, algorithm, group, size_bytes, begun_ns, ended_ns)
            )
    return [record for record in found.values() if record.ended_ns]
