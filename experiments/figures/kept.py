"""Figures that are kept: what the runs of a scenario file came to, seed by seed.

A file ``docs/figures/NAME.json`` (``schema`` "weft.figures") holds the figures of
``experiments/scenarios/NAME.toml``: a row for each point, algorithm and world, with a value of each
metric for each run. Tables of the documentation are made of nothing else.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from weft.base import documents, files
from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.results.path_figures import path_figures
from weft.experiments.results.results import Run, scenario_of
from weft.experiments.results.summary import Summary
from weft.experiments.scenario.options import OPTIONS, field_of, said, value_of
from weft.experiments.theory.traffic_model import tier_model_frame_bytes
from weft.topo.network import LINK_TIERS

T = TypeVar("T")
SCHEMA = "weft.figures"
VERSION = 1
MOST_BYTES = 64 << 20

_TIERS = {tier.replace("_", "-"): tier for tier in LINK_TIERS}
METRICS = {
    "completion-ms": "completion time of the slowest rank, ms",
    "completion-us": "the same in us",
    "barrier-us": "the slowest rank's barriers, us",
    "data-us": "the slowest rank's time for data, us",
    "handshake-us": "the slowest rank's last handshake, us",
    "bound-ms": "the least completion time by theory, ms",
    "predicted-ms": "completion time as simulated, of emulated runs under the same seed, ms",
    "over-bound": "completion time over the bound",
    "imbalance": "bytes of the fullest link between switches over the mean",
    "retransmitted": "packets sent again",
    "reordered": "packets that arrived before an earlier one",
    "queue-dropped": "packets that full queues had no room for",
    "links-mib": "MiB on all links",
    "host-mib": "MiB on all hosts' links",
    "ranks-mib": "MiB on the links of ranks' hosts",
    "fabric-mib": "MiB on all links between switches",
    **{f"{tier}-over-model": f"bytes on all {tier} links over the model's" for tier in _TIERS},
    "error-rms": "root mean square of a sum's errors over that of the exact sum",
    "error-of-terms": "greatest error of an element over the magnitudes added to it",
    "error-of-bound": "greatest error of an element over what theory allows",
    "bubble-percent": "part of a training step in which the busiest stage does not compute, %",
    "exposed-ms": "how much longer a training step is than without communication, ms",
    "peak-activations": "the most micro-batches whose activations a stage holds at a time",
    "compute-ms": "what the slowest rank of a fused operator takes to compute, alone, ms",
    "communication-ms": "what the communication of a fused operator takes, alone, ms",
    "gain-percent": "how much less time than its parts take one after the other, %",
    "best-gain-percent": "the same of a run that takes no longer than its bound, %",
    "skew-percent": "how far apart the first and the last rank end, % of the last one's time",
}
"""The metrics by name, each with what it is. Bytes are those of Ethernet frames without FCS; the
model's are those of all data packets with their headers, without acknowledgements, control and what
is sent again."""
TIMES = (
    "completion-ms", "completion-us", "over-bound", "barrier-us", "data-us", "handshake-us",
    "bubble-percent", "exposed-ms", "compute-ms", "communication-ms", "gain-percent",
    "best-gain-percent", "skew-percent",
)  # fmt: skip
"""The metrics that are the machine's where a run's fidelity is not ``ok``."""
COUNTS = ("retransmitted", "reordered", "queue-dropped", "peak-activations")
"""The metrics that are whole numbers in each run."""


class AlgorithmRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the runs of one algorithm at one point, which differ only in their seeds and
    repetitions."""

    algorithm: str
    options: dict[str, str]
    """What differs between the scenario file's points, as people write it; ``ranks`` and
    ``world``, too."""
    seeds: list[int]
    """The seed of each run."""
    values: dict[str, list[int | float | None]]
    """The value of each run, by metric; null where a run failed, or has no such figure."""
    verdicts: list[str]
    """The verdict on the fidelity of each run; ``failed`` for one that did not verify."""
    cost_s: float = 0.0
    """How many seconds the runs took together; for simulated ones, of processor time."""
    source: str = ""
    """The commit that was run, with a ``+`` where files differed from it, and the day."""

    def value(self, option: str) -> str:
        """Return the row's value of an option, of ``ranks``, or of ``algorithm``. Raises
        `InputError` for another name."""
        mine = {"algorithm": self.algorithm, **self.options}
        if option not in mine:
            raise InputError(
                f"figures of {self.algorithm} are not told apart by {shown(option)}: they are by "
                f"{', '.join(mine)}"
            )
        return mine[option]

    def is_like(self, wanted: Mapping[str, str]) -> bool:
        """Return whether options (and ``algorithm``) have the wanted values."""
        mine = {**self.options, "algorithm": self.algorithm}
        return all(mine.get(name) == value for name, value in wanted.items())

    def with_runs(self, more: "AlgorithmRow") -> "AlgorithmRow":
        """Return the row with the runs of another one, in the order of seeds; runs of its own under
        the other one's seeds are left out."""
        old = [at for at, seed in enumerate(self.seeds) if seed not in more.seeds]
        seeds = [self.seeds[at] for at in old] + more.seeds
        order = sorted(range(len(seeds)), key=seeds.__getitem__)

        def merged(mine: Sequence[T], its: Sequence[T]) -> list[T]:
            both = [*(mine[at] for at in old), *its]
            return [both[at] for at in order]

        none: list[int | float | None] = [None] * len(self.seeds)
        return replace(
            more,
            seeds=merged(self.seeds, more.seeds),
            values={
                name: merged(self.values.get(name, none), its) for name, its in more.values.items()
            },
            verdicts=merged(self.verdicts, more.verdicts),
            cost_s=more.cost_s + self.cost_s * len(old) / max(1, len(self.seeds)),
        )


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hold the figures of one scenario file."""

    name: str
    processors: int
    """How many processors the machine of the emulated runs had."""
    rows: list[AlgorithmRow] = []

    def write(self, folder: Path) -> Path:
        """Write ``NAME.json``. Raises OSError."""
        path = folder / f"{self.name}.json"
        document = {"schema": SCHEMA, "schema_version": VERSION, **asdict(self)}
        document["rows"] = None
        head = json.dumps(document, indent=1)
        rows = ",\n".join(f"  {json.dumps(asdict(row))}" for row in self.rows)
        files.write_whole(path, head.replace('"rows": null', f'"rows": [\n{rows}\n ]') + "\n")
        return path

    @staticmethod
    def read(path: Path) -> "Kept":
        """Read a file that `write` wrote. Raises `InputError`."""
        document = documents.opened(path, MOST_BYTES, f"figures {str(path)!r}")
        known = isinstance(document, dict) and document.pop("schema", None) == SCHEMA
        if not known or document.pop("schema_version", None) != VERSION:
            raise InputError(f"{str(path)!r} holds no figures of version {VERSION}: measure anew")
        return documents.typed(Kept, document, f"figures {str(path)!r} are damaged")


def metrics_of(run: Run) -> dict[str, float | None]:
    """Return all the metrics of a run; of a run that failed each is None."""
    if not run.verified:
        return dict.fromkeys(METRICS)
    paths, sums, step = path_figures(run), run.accuracy, run.step
    time_ns = run.completion_ns
    phases_ns = Summary(run.algorithm, (run,)).phases_ns
    hosts = {rank.host for rank in run.ranks}
    ranks_bytes = sum(link.tx_bytes for link in run.links if {link.from_node, link.to_node} & hosts)
    model = _model_bytes(run)
    return {
        **_fused_metrics(run),
        "completion-ms": None if time_ns is None else time_ns / 1e6,
        "completion-us": None if time_ns is None else time_ns / 1e3,
        **{
            f"{phase}-us": phases_ns[phase] / 1e3 if phase in phases_ns else None
            for phase in ("barrier", "data", "handshake")
        },
        "bound-ms": run.bound_ns / 1e6,
        "predicted-ms": None if run.predicted_ns is None else run.predicted_ns / 1e6,
        "over-bound": None if time_ns is None or not run.bound_ns else time_ns / run.bound_ns,
        "imbalance": paths.imbalance,
        "retransmitted": float(paths.retransmitted),
        "reordered": float(paths.reordered),
        "queue-dropped": float(sum(link.queue_dropped or 0 for link in run.links)),
        "links-mib": sum(run.tiers.values()) / 2**20,
        "host-mib": (run.tiers["host_up"] + run.tiers["host_down"]) / 2**20,
        "ranks-mib": ranks_bytes / 2**20,
        "fabric-mib": (run.tiers["fabric_up"] + run.tiers["fabric_down"]) / 2**20,
        **{
            f"{name}-over-model": run.tiers[tier] / model[tier] if model.get(tier) else None
            for name, tier in _TIERS.items()
        },
        "error-rms": sums.error_rms_relative if sums else None,
        "error-of-terms": sums.error_max_of_terms if sums else None,
        "error-of-bound": sums.error_max_of_bound if sums else None,
        "bubble-percent": 100 * step.bubble if step else None,
        "exposed-ms": step.exposed_ns / 1e6 if step else None,
        "peak-activations": float(max(step.peak_activations)) if step else None,
    }


def _fused_metrics(run: Run) -> dict[str, float | None]:
    """Return the metrics that fused operators alone have."""
    fused, time_ns = run.fused, run.completion_ns
    if fused is None or not time_ns or not fused.serial_ns:
        names = ("compute-ms", "communication-ms", "gain-percent", "best-gain-percent")
        return dict.fromkeys((*names, "skew-percent"))
    return {
        "compute-ms": fused.compute_ns / 1e6,
        "communication-ms": fused.communication_ns / 1e6,
        "gain-percent": 100 * (1 - time_ns / fused.serial_ns),
        "best-gain-percent": 100 * (1 - fused.bound_ns / fused.serial_ns),
        "skew-percent": 100 * run.skew,
    }


def _model_bytes(run: Run) -> dict[str, int]:
    """Return the frame bytes by tier that theory has of a run; none where it says nothing."""
    try:
        scenario = scenario_of(run.scenario)
        return tier_model_frame_bytes(scenario.network(), scenario, run.algorithm)
    except InputError:
        return {}


def rows_of(
    runs: Sequence[tuple[Run, float]], swept: Sequence[str], source: str = ""
) -> list[AlgorithmRow]:
    """Return the rows of runs in order of appearance; each run comes with what it cost in seconds.

    Args:
        swept: options that tell points apart; ``seed`` does not.
        source: as `AlgorithmRow.source`.
    """
    found: dict[str, AlgorithmRow] = {}
    for run, cost_s in runs:
        scenario = run.scenario
        options = options_of(scenario, swept, str(len(run.ranks)))
        key = json.dumps([run.algorithm, options])
        row = found.setdefault(key, AlgorithmRow(run.algorithm, options, [], {}, []))
        row.seeds.append(int(value_of("seed", scenario)))
        for name, value in metrics_of(run).items():
            row.values.setdefault(name, []).append(value)
        row.verdicts.append(run.fidelity.verdict if run.verified else "failed")
        found[key] = replace(row, cost_s=row.cost_s + cost_s, source=source)
    return list(found.values())


def options_of(scenario: Mapping[str, Any], swept: Sequence[str], ranks: str) -> dict[str, str]:
    """Return a scenario's options as `AlgorithmRow.options` has them."""
    options = {name: _said(name, scenario) for name in swept if name != "seed"}
    return options | {"ranks": ranks, "world": str(scenario.get("world"))}


def _said(option: str, scenario: Mapping[str, Any]) -> str:
    """Return an option's value as people write it; of a workload's file the name, wherever the
    checkout is."""
    text = said(option, scenario.get(field_of(option)))
    return Path(text).name if option == "workload" else text


def check_metric(name: str, place: str) -> str:
    """Return a metric's name. Raises `InputError` if there is no such metric."""
    if name not in METRICS:
        raise InputError(f"{place}: metric {shown(name)} is none of {', '.join(METRICS)}")
    return name


def check_option(name: str, place: str) -> str:
    """Return the name of something that rows may differ in. Raises `InputError` if there is no such
    option."""
    known = (*OPTIONS, "ranks")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
        raise InputError(f"{place}: {shown(name)} is no option that figures differ in: {hint}")
    return name
