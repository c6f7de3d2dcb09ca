"""Results of programs on hosts, as commands for results take them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING

import msgspec

from weft.base.files import read_bounded
from weft.base.units import format_duration, format_size
from weft.experiments.families.programs.report import render
from weft.experiments.families.programs.results import (
    TRACE,
    CollectiveFigures,
    FaultResult,
    TorchRun,
    records_of,
)
from weft.experiments.families.programs.table import program_of
from weft.experiments.results.kind import ResultsKind
from weft.experiments.results.rows import Row
from weft.experiments.results.table import empty_table
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.options import said, value_of
from weft.pytorch.timeline import RankTimeline

if TYPE_CHECKING:
    from rich.table import Table

MOST_TRACE_BYTES = 1 << 30


class OfPrograms(ResultsKind[TorchRun]):
    """Results of ``weft torch run``."""

    document = TorchRun
    tables = ("runs", "ranks", "steps", "collectives", "faults", "links")

    def rows(self, results: TorchRun, table: str) -> list[Row]:
        return list(_ROWS[table](results))

    def columns(self, results: TorchRun, table: str) -> tuple[str, ...]:
        return _COLUMNS.get(table, ())

    def page(self, results: TorchRun, folder: Path) -> str:
        return render(results, _records_in(folder))

    def differences(
        self, one: TorchRun, other: TorchRun, names: tuple[str, str]
    ) -> "Iterator[Table | str]":
        table = empty_table("Times of the slowest rank, and bytes on all links", "")
        table.add_column("")
        for heading in (*names, "ratio"):
            table.add_column(heading, justify="right")
        for name, (write, read) in _COMPARED.items():
            table.add_row(name, *_cells(write, read(one), read(other)))
        both = one.collectives(), other.collectives()
        for key in dict.fromkeys([*both[0], *both[1]]):
            name, algorithm = key
            means = [_mean_ns(each.get(key)) for each in both]
            said_of = f"{name}, {algorithm}" if algorithm else name
            table.add_row(f"mean {said_of}", *_cells(format_duration, *means))
        verdicts = dict.fromkeys((one.fidelity.verdict, other.fidelity.verdict))
        table.add_row("fidelity", " -> ".join(verdicts), "", "")
        yield table
        asked = list(_asked_differently(one, other))
        if asked:
            yield f"Asked differently: {'; '.join(asked)}"
        for name, run in zip(names, (one, other), strict=True):
            if not run.ok:
                yield f"{name} failed: {run.error}"


def _run_rows(run: TorchRun) -> Iterator[Row]:
    yield {
        "program": program_of(run),
        "backend": run.backends,
        "network": run.network,
        "ranks": len(run.ranks),
        "status": run.status,
        "verdict": run.fidelity.verdict,
        "steps": len(run.step_ns),
        "step_ns": median_high(run.step_ns) if run.step_ns else None,
        **{f"{name}_ns": _slowest_ns(run, name) for name in _TIMES},
        **{f"{tier}_bytes": size_bytes for tier, size_bytes in run.tiers.items()},
        "management_bytes": run.management_bytes,
        "error": run.error or None,
    }


def _rank_rows(run: TorchRun) -> Iterator[Row]:
    for rank in run.ranks:
        yield {
            "rank": rank.rank,
            "host": rank.host,
            "status": rank.status,
            "steps": len(rank.step_ns),
            **{f"{name}_ns": getattr(rank, f"{name}_ns") for name in (*_TIMES, "cpu")},
            "error": rank.error or None,
        }


def _step_rows(run: TorchRun) -> Iterator[Row]:
    for rank in run.ranks:
        for step, step_ns in enumerate(rank.step_ns):
            loss = rank.losses[step] if step < len(rank.losses) else None
            yield {"rank": rank.rank, "step": step + 1, "step_ns": step_ns, "loss": loss}


def _collective_rows(run: TorchRun) -> Iterator[Row]:
    for rank in run.ranks:
        for each in rank.collectives:
            yield {"rank": rank.rank, **msgspec.to_builtins(each)}


def _fault_rows(run: TorchRun) -> Iterator[Row]:
    for each in run.faults:
        yield msgspec.to_builtins(each)


def _link_rows(run: TorchRun) -> Iterator[Row]:
    for link in run.links:
        yield {
            name: value
            for name, value in msgspec.to_builtins(link).items()
            if not isinstance(value, (list, tuple))
        }


_ROWS: dict[str, Callable[[TorchRun], Iterator[Row]]] = {
    "runs": _run_rows,
    "ranks": _rank_rows,
    "steps": _step_rows,
    "collectives": _collective_rows,
    "faults": _fault_rows,
    "links": _link_rows,
}
_COLUMNS = {
    "steps": ("rank", "step", "step_ns", "loss"),
    "collectives": ("rank", *CollectiveFigures.__struct_fields__),
    "faults": FaultResult.__struct_fields__,
}
_TIMES = ("total", "computation", "exposed", "hidden")
"""Where the time of a rank goes."""


def _slowest_ns(run: TorchRun, name: str) -> int | None:
    return max((getattr(rank, f"{name}_ns") for rank in run.ranks), default=None)


def _mean_ns(figures: CollectiveFigures | None) -> float | None:
    return figures.under_way_ns / figures.count if figures and figures.count else None


_COMPARED: dict[str, tuple[Callable[[float], str], Callable[[TorchRun], float | None]]] = {
    "median step": (
        format_duration, lambda run: median_high(run.step_ns) if run.step_ns else None
    ),
    "in all": (format_duration, lambda run: _slowest_ns(run, "total")),
    "computation": (format_duration, lambda run: _slowest_ns(run, "computation")),
    "exposed communication": (format_duration, lambda run: _slowest_ns(run, "exposed")),
    "hidden communication": (format_duration, lambda run: _slowest_ns(run, "hidden")),
    "all links": (lambda size: format_size(round(size)), lambda run: sum(run.tiers.values())),
}  # fmt: skip


def _cells(write: Callable[[float], str], one: float | None, other: float | None) -> list[str]:
    texts = ["-" if each is None else write(each) for each in (one, other)]
    return [*texts, f"{other / one:.3f}" if one and other is not None else "-"]


def _faults_of(run: TorchRun) -> str:
    return "; ".join(each.fault for each in run.faults) or "-"


def _asked_differently(one: TorchRun, other: TorchRun) -> Iterator[str]:
    pairs = {
        "program": (program_of(one), program_of(other)),
        "arguments": (" ".join(one.arguments), " ".join(other.arguments)),
        "backend": (one.backends, other.backends),
        "ranks": (str(len(one.ranks)), str(len(other.ranks))),
        "faults": tuple(
            "; ".join(each.fault for each in run.faults) or "-" for run in (one, other)
        ),
        **{
            name: (one.algorithms.get(name, "-"), other.algorithms.get(name, "-"))
            for name in sorted({*one.algorithms, *other.algorithms})
        },
    }
    for name, (before, after) in pairs.items():
        if before != after:
            yield f"{name} {before} -> {after}"
    for name in OPTIONS:
        values = value_of(name, one.scenario), value_of(name, other.scenario)
        if OPTIONS[name].network and values[0] != values[1]:
            yield f"{name} {said(name, values[0])} -> {said(name, values[1])}"


def _records_in(folder: Path) -> list[RankTimeline]:
    """Return what ranks recorded, from the timeline in a results folder; nothing without one."""
    try:
        return records_of(read_bounded(folder / TRACE, MOST_TRACE_BYTES, endings=(".json",)))
    except (OSError, ValueError):
        return []
