"""What a run leaves behind: the results document, ``results.json``.

The document (``schema`` "weft.results", ``schema_version`` 1) is `Results.to_dict()`: the fields of
the dataclasses below by their names. A run whose data did not verify has ``verified`` false and
``completion_ns`` null, says why in ``error``, and has the fidelity verdict ``failed`` (also if an
older document says otherwise: it is read so). An experiment of several points has the runs of all
of them, each with its scenario; ``swept`` names the options that differ, ``plots`` what is plotted.
A scenario with ``seeds`` has a run for each, whose scenario says its ``seed``. For each point and
algorithm, ``summary`` has the mean, the least and the greatest completion time of its verified
runs, and says whether it is exact, that is, whether nothing that is left to chance makes a
difference to it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec
from msgspec.structs import replace

from weft.base import documents, files
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.results.accuracy import Accuracy
from weft.experiments.results.document import DOCUMENT, MOST_BYTES, Document
from weft.experiments.results.queue_counts import PriorityQueueCounts
from weft.experiments.results.rows import frame_of, rows_of
from weft.experiments.results.spread import Spread
from weft.experiments.scenario.families import result_parts
from weft.experiments.scenario.options import field_of
from weft.experiments.scenario.part import Part
from weft.experiments.scenario.plot_spec import PlotSpec, check_names
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.chance import chances
from weft.topo.faults import Fault
from weft.topo.network import LINK_TIERS

if TYPE_CHECKING:
    import pandas

P = TypeVar("P", bound=Part)

SWEEP = Path("points", "sweep.json")
"""What the points of a sweep are of, which are written as they arrive, in its results folder
(`weft.experiments.runs.points`)."""

SCHEMA = "weft.results"
SCHEMA_VERSION = 1

FAILED = "failed"
"""The verdict on a run that failed or whose data did not verify: it has no times to be judged."""

_DERIVED = ("schema", "schema_version", "verified", "summary")
"""Keys of the document whose values follow from the rest of it."""

OTHERS = "others"
"""Both ends of a row of links that has several directions together."""

QUEUE_FIGURES = frozenset({"packets", "p50", "p99", "max"})


class RankResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one rank of one run."""

    rank: int
    host: str
    verified: bool
    completion_ns: int | None
    """The time from the common start to the end of its operation; None if it failed."""
    error: str | None = None
    retransmitted_packets: int = 0
    phases_ns: dict[str, int] = {}
    """Durations of the operation's phases, such as barrier, data, recovery, handshake."""
    statistics: dict[str, Any] = {}
    """Counters of the rank's transport, collective and driver."""
    spans_ns: list[tuple[int, ...]] = []
    """When each of the run's operations that ended began and was done, in order, in ns from the
    common start. FSDP interleaving has the Allgather and then the Reduce-Scatter of each step."""


class LinkResult(
    msgspec.Struct, forbid_unknown_fields=True, rename={"from_node": "from", "to_node": "to"}
):
    """What one direction of one link did during the run.

    Bytes are those of Ethernet frames without FCS. What was lost on purpose was transmitted, and is
    counted in `tx_packets`; what the sender's queue had no room for was not.
    """

    from_node: str
    to_node: str
    tier: str
    """host_up, host_down, fabric_up or fabric_down."""
    tx_packets: int
    tx_bytes: int
    lost: int
    """Packets lost on the link on purpose."""
    queue_dropped: int | None
    """Packets that the sending switch's queue had no room for; None where that is not known."""
    max_queue_bytes: int | None = None
    """The most that waited in the sending switch's queue; None where that is not known."""
    marked: int = 0
    """Packets that the sending switch marked (ECN) for a long queue."""
    queue_depths: Sequence[tuple[int, ...]] = []
    """How full the sending switch's queue was when packets came to it: pairs (bytes, packets),
    ascending. A pair says how many packets found at most so many bytes waiting, but more than the
    pair before says."""
    load_bytes: list[int] = []
    """Bytes that the link carried in each `Run.load_bin_ns`, from the common start on; what hosts
    sent is counted where and when it arrived."""
    queues: list[PriorityQueueCounts] = []
    """Of the sending switch's port, by priority, if it has several."""
    directions: int = 1
    """How many directions the row has together, with `OTHERS` as its ends."""
    dropped: int = 0
    """All packets of this direction that never arrived, whatever was given here."""

    def __post_init__(self) -> None:
        self.dropped = self.lost + (self.queue_dropped or 0)


class Fidelity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether links, not processors, were the bottleneck, so that the figures can be believed."""

    verdict: str
    """``ok``, ``strained`` (figures may be off), ``invalid`` (the machine was measured) or
    ``failed`` (there are no figures)."""
    reasons: list[str]
    cpu_busy: float
    """Fraction of the machine's processors in use during the run, 0 to 1."""
    cpu_stolen: float
    """Fraction taken by a hypervisor's other guests."""
    cpu_s: dict[str, float]
    """CPU seconds of the switch process and of the ranks together."""
    lateness_ns: dict[str, int]
    """How late the switch sent packets (p50, p99, max), and the ranks woke; and for how long they
    stood still all together (stood)."""
    unplanned_losses: int
    """Packets that were lost neither by a fault nor by a full queue."""

    def of_failed(self) -> "Fidelity":
        """Return the fidelity of a run that failed; it keeps the other reasons, since they may be
        why."""
        if self.verdict == FAILED:
            return self
        reasons = [
            "the run failed, so it has no times that could be judged",
            *(self.reasons if self.verdict != "ok" else []),
        ]
        return replace(self, verdict=FAILED, reasons=reasons)


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one run of an algorithm on the network."""

    scenario: dict[str, Any]
    algorithm: str
    repetition: int
    verified: bool
    completion_ns: int | None
    """The slowest rank, from the common start."""
    bound_ns: int
    """The least time that the payload takes on the slowest link
    (`weft.experiments.theory.bounds`)."""
    goodput_bps: float | None
    """Bits of other ranks' data that a rank receives, over the completion time; for Reduce-Scatter,
    the bits of a rank's data that go into the results of others. The rank with the most counts."""
    ranks: list[RankResult]
    links: list[LinkResult]
    tiers: dict[str, int]
    """Bytes by tier and direction: host_up, host_down, fabric_up, fabric_down."""
    fidelity: Fidelity
    error: str | None = None
    digest: str | None = None
    """What tells the trace of a simulated run, that is, every frame on every link, from any
    other."""
    predicted_ns: int | None = None
    """The completion time of the same run in the simulated world; emulated runs alone have it."""
    queues: dict[str, dict[str, int]] = {}
    """The bytes, by kind of link, that packets found waiting in switches' queues (``p50``, ``p99``,
    ``max``), and how many packets came (``packets``)."""
    load_bin_ns: int = 0
    """How much time each entry of `LinkResult.load_bytes` covers; 0 if they were not counted."""
    parts: dict[str, Any] = {}
    """What its kind of work adds, such as ``flows``, by names (`weft.experiments.scenario.part`).
    In the document they are fields of the run; they are attributes of it, too, and None where a run
    has no such part."""
    accuracy: Accuracy | None = None
    """How far sums are off where they are rounded (``data`` of the scenario)."""

    @property
    def skew(self) -> float:
        """Return by how much the first rank came to its end before the last one, as a part of the
        time of the last."""
        ends_ns = [rank.completion_ns for rank in self.ranks if rank.completion_ns]
        return 1 - min(ends_ns) / max(ends_ns) if ends_ns else 0.0

    @property
    def retransmitted_packets(self) -> int:
        """Return how many packets all ranks sent again."""
        return sum(rank.retransmitted_packets for rank in self.ranks)

    @property
    def dropped(self) -> int:
        """Return how many packets were lost anywhere in the network."""
        return sum(link.dropped for link in self.links)

    def part(self, kind: type[P]) -> P | None:
        """Return the part of a kind, or None if the run has none."""
        return self.parts.get(kind.key)

    def __getattr__(self, name: str) -> Any:
        """Return the part of a name."""
        if name not in result_parts():
            raise AttributeError(f"a run has no {name!r}")
        return self.parts.get(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the run as it stands in the document."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        after = {"accuracy": document.pop("accuracy")}
        parts = document.pop("parts")
        for key, kind in result_parts().items():
            if key in parts or kind.is_always_written:
                document[key] = parts.get(key)
        return document | after


class Results(Document, msgspec.Struct, forbid_unknown_fields=True):
    """All the runs of a scenario, or of an experiment of several, and where they ran."""

    SCHEMA = SCHEMA
    WRITTEN_BY = "weft run --out DIR"

    runs: list[Run]
    run_id: str
    started: str
    """UTC, ISO 8601."""
    duration_s: float = 0.0
    timings_s: dict[str, float] = {}
    """How long compiling, bringing up and taking down took, in seconds."""
    environment: dict[str, Any] = {}
    """Versions, and a description of the machine."""
    notes: list[str] = []
    """What a reader of the results must know, such as that a run does not repeat."""
    swept: list[str] = []
    """Options that differ between the experiment's points."""
    plots: list[PlotSpec] = []

    @property
    def verified(self) -> bool:
        """Return whether every run's data verified."""
        return bool(self.runs) and all(run.verified for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Return the results document."""
        document = msgspec.to_builtins(replace(self, runs=[]))
        del document["runs"]
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "verified": self.verified,
            "summary": [
                _summed_up(runs, self.swept)
                for point in points_of(self.runs)
                for runs in point.values()
            ],
            **document,
            "runs": [run.to_dict() for run in self.runs],
        }

    def rows(self, table: str = "runs") -> list[dict[str, Any]]:
        """Return a table of the results: a row for each of its ``runs``, ``ranks``, directions of
        ``links``, or ``flows``, all with the same columns (`weft.experiments.results.rows`).

        Raises InputError for a table that does not exist.
        """
        return rows_of(self.runs, self.swept, table)

    def to_frame(self, table: str = "runs") -> "pandas.DataFrame":
        """Return a table of the results, as `rows` does, as a data frame of pandas.

        Raises InputError for a table that does not exist, MachineError where pandas is not
        installed.
        """
        return frame_of(self.rows(table))

    def write(self, folder: Path) -> Path:
        """Write ``results.json`` into `folder`, whole or not at all. Raises OSError."""
        files.write_whole(folder / DOCUMENT, self.text())
        return folder / DOCUMENT

    @staticmethod
    def from_dict(document: dict[str, Any]) -> "Results":
        """Read a results document.

        Raises `InputError` for one of another schema or version, and for a damaged one.
        """
        kind, version = document.get("schema"), document.get("schema_version")
        if kind != SCHEMA or version != SCHEMA_VERSION:
            raise InputError(
                f"this is {shown(kind)} version {shown(version)}, not a results document: a file "
                f"that 'weft run' wrote has schema {SCHEMA!r} version {SCHEMA_VERSION}"
            )
        try:
            kept = {key: value for key, value in document.items() if key not in _DERIVED}
            results = documents.read(Results, with_parts(kept))
            for index, run in enumerate(results.runs):
                _check(run, f"runs[{index}]")
            _check_swept(results)
            # Older documents do not say of a run that failed that its verdict is that.
            results.runs = [
                run if run.verified else replace(run, fidelity=run.fidelity.of_failed())
                for run in results.runs
            ]
        except InputError as damage:
            raise InputError(f"the results document is damaged: {damage}") from None
        return results

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Read ``results.json``, or the one in a results folder. Raises `InputError`."""
        file = path / DOCUMENT if path.is_dir() else path
        hint = "name a folder that 'weft run --out DIR' wrote"
        if (path / SWEEP).exists():
            hint = (
                "it has points of a sweep that did not come to its end: go on with 'weft run FILE "
                f"--resume {path}'"
            )
        document = documents.opened(file, MOST_BYTES, f"results {str(file)!r}", hint=hint)
        if not isinstance(document, dict):
            raise InputError(f"results {str(file)!r} are not a results document")
        return Results.from_dict(document)


def with_parts(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of runs in which the parts of each are read, and in one field, `Run.parts`.

    Raises `InputError` for parts that are none. Of the rest nothing is checked.
    """
    runs = document.get("runs")
    if not isinstance(runs, list):
        return document
    return {**document, "runs": [_with_parts(*each) for each in enumerate(runs)]}


def _with_parts(index: int, run: Any) -> Any:
    if not isinstance(run, dict):
        return run
    known, place = result_parts(), f"runs[{index}]"
    refuse("parts" in run, f"{place}.parts means nothing")
    parts = {
        key: documents.read(kind, run[key], f"{place}.{key}")
        for key, kind in known.items()
        if run.get(key) is not None
    }
    return {**{key: value for key, value in run.items() if key not in known}, "parts": parts}


def tier_bytes(links: Sequence[LinkResult]) -> dict[str, int]:
    """Return the bytes transmitted, summed by tier and direction."""
    return {tier: sum(link.tx_bytes for link in links if link.tier == tier) for tier in LINK_TIERS}


def points_of(runs: Sequence[Run]) -> list[dict[str, list[Run]]]:
    """Return runs by point and algorithm, in the order in which these first ran. Runs of one
    scenario belong to one point, whichever of its seeds they had."""
    points: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        left_out = ("algorithms", "seed") if run.scenario.get("seeds") else ("algorithms",)
        asked = {key: value for key, value in run.scenario.items() if key not in left_out}
        point = points.setdefault(json.dumps(asked, sort_keys=True), {})
        point.setdefault(run.algorithm, []).append(run)
    return list(points.values())


def completions_of(runs: Sequence[Run]) -> Spread | None:
    """Return the mean and the range of the completion times of verified runs."""
    return Spread.of(run.completion_ns for run in runs if run.verified)


def is_exact(runs: Sequence[Run]) -> bool:
    """Return whether the completion time of an algorithm at one point is the same whatever the seed
    is: nothing in the scenario is drawn, and all runs took the same time."""
    spread = completions_of(runs)
    if spread is None or spread.count < len(runs) or spread.least != spread.greatest:
        return False
    return not chances(scenario_of(runs[0].scenario))


def _summed_up(runs: Sequence[Run], swept: Sequence[str]) -> dict[str, Any]:
    """Return what ``summary`` says of the runs of one algorithm at one point."""
    spread = completions_of(runs)
    return {
        "point": {name: runs[0].scenario.get(field_of(name)) for name in swept},
        "algorithm": runs[0].algorithm,
        "seeds": list(dict.fromkeys(run.scenario.get("seed") for run in runs)),
        "runs": len(runs),
        "verified": sum(run.verified for run in runs),
        "mean_ns": spread and spread.mean,
        "least_ns": spread and spread.least,
        "greatest_ns": spread and spread.greatest,
        "exact": is_exact(runs),
    }


@cache
def _kinds() -> dict[str, Any]:
    """Return the types of a scenario's fields."""
    return get_type_hints(Scenario)


def scenario_of(document: Mapping[str, Any]) -> Scenario:
    """Return the scenario that a run's ``scenario`` was written from; unknown keys are passed over.

    Raises `InputError`.
    """
    kinds = _kinds()
    values: dict[str, Any] = {}
    for item in fields(Scenario):
        if item.name in document:
            kind = tuple[str, ...] if item.name == "faults" else kinds[item.name]
            values[item.name] = documents.read(kind, document[item.name], item.name)
        elif item.name in ("collective", "topology", "algorithms", "size_bytes", "rate_bps"):
            raise InputError(f"{item.name} is missing")
    values["faults"] = tuple(Fault.parse(text) for text in values.get("faults", ()))
    return Scenario(**values)


def _check(run: Run, place: str) -> None:
    """Raise `InputError` for what a run's types do not say."""
    for tier in LINK_TIERS:
        refuse(tier not in run.tiers, f"{place}.tiers.{tier} is missing")
    for index, link in enumerate(run.links):
        if link.tier not in LINK_TIERS:
            raise InputError(
                f"{place}.links[{index}].tier is {shown(link.tier)}, not one of "
                f"{', '.join(LINK_TIERS)}"
            )
    _check_telemetry(run, place)
    for rank in run.ranks:
        refuse(
            any(len(span) != 2 for span in rank.spans_ns),
            f"{place}: a span of rank {rank.rank} is not a begin and an end",
        )
    try:
        asked = scenario_of(run.scenario).algorithms
    except InputError as error:
        raise InputError(f"{place}.scenario: {error}") from None
    if run.algorithm not in asked:
        raise InputError(
            f"{place}.algorithm is {shown(run.algorithm)}, not one of the scenario's: "
            f"{', '.join(asked)}"
        )


def _check_telemetry(run: Run, place: str) -> None:
    """Raise `InputError` for distributions and loads over time that are none."""
    refuse(
        run.load_bin_ns < 0,
        f"{place}.load_bin_ns is {run.load_bin_ns}, which is no time",
    )
    bins = {len(link.load_bytes) for link in run.links}
    refuse(
        len(bins) > 1 or (any(bins) and not run.load_bin_ns),
        f"{place}: the links' load_bytes are not bins of the same times",
    )
    for index, link in enumerate(run.links):
        figures = [*link.load_bytes, *(each for pair in link.queue_depths for each in pair)]
        refuse(
            any(len(pair) != 2 for pair in link.queue_depths) or min(figures, default=0) < 0,
            f"{place}.links[{index}]: queue_depths are pairs of bytes and packets, load_bytes "
            "are bytes, and none is below 0",
        )
    for tier, queue in run.queues.items():
        if tier not in LINK_TIERS or set(queue) != QUEUE_FIGURES or min(queue.values()) < 0:
            raise InputError(
                f"{place}.queues.{tier} is not {', '.join(sorted(QUEUE_FIGURES))} of one of "
                f"{', '.join(LINK_TIERS)}"
            )


def _check_swept(results: Results) -> None:
    """Raise `InputError` for sweeps and plots that are none."""
    for index, name in enumerate(results.swept):
        try:
            field_of(name)
        except KeyError:
            raise InputError(f"swept[{index}] is {shown(name)}, which is no option") from None
    check_names(results.plots)
