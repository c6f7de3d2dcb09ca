"""What a program on the hosts leaves behind: ``results.json`` with schema ``weft.training``.

Times are those of CLOCK_MONOTONIC on one machine, so ranks can be compared. The time of a rank,
from when its first group came together until its last step (or its end, without steps), is made of
*exposed* communication, in which the program waited for an operation, and *computation*, all the
rest. *Hidden* is the part of the computation in which an operation was under way.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from weft.base.errors import InputError
from weft.base.files import read_bounded, told_as_input
from weft.experiments.results.results import MOST_BYTES, Fidelity, LinkResult
from weft.pytorch.timeline import Record

SCHEMA = "weft.training"
SCHEMA_VERSION = 1
DOCUMENT = "results.json"


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


class TorchRun(msgspec.Struct, forbid_unknown_fields=True):
    """Hold the result of a program on all hosts."""

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
    schema: str = SCHEMA
    schema_version: int = SCHEMA_VERSION

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
        found: dict[tuple[str, str], CollectiveFigures] = {}
        for each in (figures for rank in self.ranks for figures in rank.collectives):
            total = found.setdefault(
                (each.name, each.algorithm), CollectiveFigures(each.name, each.algorithm)
            )
            total.count += each.count
            total.size_bytes += each.size_bytes
            total.under_way_ns += each.under_way_ns
            total.failed += each.failed
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain values."""
        plain = msgspec.to_builtins(self, enc_hook=lambda value: value.item())
        assert isinstance(plain, dict)
        return plain

    def text(self) -> str:
        """Return the document as JSON."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    @staticmethod
    def read(path: Path) -> "TorchRun":
        """Return the result in a results folder, or in a document.

        Raises:
            InputError: there is none, or one of another kind.
        """
        file = path / DOCUMENT if path.is_dir() else path
        problem = f"results {str(file)!r} of a training cannot be read"
        with told_as_input(problem):
            content = read_bounded(file, MOST_BYTES, endings=(".json",))
        try:
            return msgspec.json.decode(content, type=TorchRun)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InputError(f"{problem}: {error}") from None


def rank_of(record: Record | None, rank: int, host: str, status: int, error: str) -> TorchRank:
    """Return what became of a rank, from what it has recorded, if it has."""
    found = TorchRank(rank, host, status, error)
    if record is None:
        return found
    end_ns = record.steps[-1].ended_ns if record.steps else record.ended_ns
    window = (record.begun_ns, end_ns)
    exposed = _union(record.waits_ns, window)
    under_way = _union(((each.begun_ns, each.ended_ns) for each in record.operations), window)
    found.total_ns = end_ns - record.begun_ns
    found.exposed_ns = _length(exposed)
    found.computation_ns = found.total_ns - found.exposed_ns
    found.hidden_ns = _length(under_way) - _length(_both(under_way, exposed))
    found.cpu_ns = record.cpu_ns
    ends = [record.begun_ns, *(step.ended_ns for step in record.steps)]
    found.step_ns = [end - begin for begin, end in pairwise(ends)]
    found.losses = [step.loss for step in record.steps]
    kinds: dict[tuple[str, str], CollectiveFigures] = {}
    for each in record.operations:
        figures = kinds.setdefault(
            (each.name, each.algorithm), CollectiveFigures(each.name, each.algorithm)
        )
        figures.count += 1
        figures.size_bytes += each.size_bytes
        figures.under_way_ns += each.ended_ns - each.begun_ns
        figures.failed += bool(each.error)
    found.collectives = list(kinds.values())
    found.statistics = dict(record.statistics)
    return found


Spans = Sequence[tuple[int, int]]


def _union(spans: Iterable[tuple[int, int]], window: tuple[int, int]) -> list[tuple[int, int]]:
    """Return spans that do not meet and cover the same, within a window."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        begin, end = max(begin, window[0]), min(end, window[1])
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _both(one: Spans, other: Spans) -> list[tuple[int, int]]:
    """Return what two sorted lists of spans, each without meetings, have in common."""
    found = []
    first = second = 0
    while first < len(one) and second < len(other):
        begin = max(one[first][0], other[second][0])
        end = min(one[first][1], other[second][1])
        if begin < end:
            found.append((begin, end))
        if one[first][1] < other[second][1]:
            first += 1
        else:
            second += 1
    return found


def _length(spans: Spans) -> int:
    return sum(end - begin for begin, end in spans)


def trace_of(records: Sequence[Record]) -> dict[str, Any]:
    """Return a timeline of all ranks in the Trace Event Format, which Perfetto and Chrome read: a
    process for each rank, with its waits, its steps, and its operations under way."""
    begun_ns = min((record.begun_ns for record in records), default=0)
    events: list[dict[str, Any]] = []

    def span(rank: int, row: int, name: str, begin: int, end: int, **more: Any) -> None:
        events.append(
            {"name": name, "ph": "X", "pid": rank, "tid": row, "ts": (begin - begun_ns) / 1e3,
             "dur": max(end - begin, 1) / 1e3, "args": more}
        )  # fmt: skip

    for record in records:
        events.append(
            {"name": "process_name", "ph": "M", "pid": record.rank,
             "args": {"name": f"rank {record.rank} ({record.host})"}}
        )  # fmt: skip
        since = record.begun_ns
        for number, step in enumerate(record.steps, 1):
            span(record.rank, 0, f"step {number}", since, step.ended_ns, loss=step.loss)
            since = step.ended_ns
        for begin, end in record.waits_ns:
            span(record.rank, 1, "wait", begin, end)
        rows: list[int] = []
        """When the last operation of each row ends."""
        names = {0: "steps", 1: "exposed communication"}
        for each in sorted(record.operations, key=lambda each: each.begun_ns):
            row = next((row for row, end in enumerate(rows) if end <= each.begun_ns), len(rows))
            rows[row:] = [each.ended_ns, *rows[row + 1 :]]
            names[row + 2] = f"operations {row + 1}"
            span(
                record.rank, row + 2, each.name, each.begun_ns, each.ended_ns,
                algorithm=each.algorithm, bytes=each.size_bytes, group=each.group,
            )  # fmt: skip
        events += [
            {"name": "thread_name", "ph": "M", "pid": record.rank, "tid": row,
             "args": {"name": name}}
            for row, name in names.items()
        ]  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ms"}
