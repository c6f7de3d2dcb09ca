"""Figures that are kept: what the runs of a scenario file came to, seed by seed.

A file ``docs/figures/NAME.json`` (``schema`` "weft.figures") holds the figures of
``experiments/scenarios/NAME.toml``: a row for each point, algorithm and world, with a value of each
metric for each run. Tables of the documentation are made of nothing else.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from weft.base import documents, files
from weft.base.errors import InputError
from weft.base.units import shown
from weft.experiments.results.metric import SCALES, Metric, metrics
from weft.experiments.results.results import Run
from weft.experiments.scenario.options import OPTIONS, field_of, said, value_of

T = TypeVar("T")
SCHEMA = "weft.figures"
VERSION = 1
MOST_BYTES = 64 << 20


@cache
def kept_metrics() -> dict[str, tuple[Metric, str]]:
    """Return the metrics by the names under which figures of them are kept, each with its unit
    (`SCALES`).

    Bytes are those of Ethernet frames without FCS; the model's are those of all data packets with
    their headers, without acknowledgements, control and what is sent again.
    """
    return {
        f"{metric.name}-{unit}" if unit else metric.name: (metric, unit)
        for metric in metrics()
        for unit in metric.kept
    }


class AlgorithmRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of one algorithm at one point, which differ only in their seeds and repetitions."""

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
    """The figures of one scenario file."""

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
    found: dict[str, float | None] = {}
    for name, (metric, unit) in kept_metrics().items():
        value = metric.run(run) if metric.run and run.verified else None
        found[name] = None if value is None else SCALES[unit][1](value)
    return found


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
    if name not in kept_metrics():
        raise InputError(f"{place}: metric {shown(name)} is none of {', '.join(kept_metrics())}")
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
