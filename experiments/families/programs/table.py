"""What a program on the hosts came to, as tables for the terminal."""

from collections.abc import Sequence

from rich.table import Table

from weft.base.units import format_duration, format_size
from weft.experiments.families.programs.metrics import METRICS
from weft.experiments.families.programs.results import TorchRun
from weft.experiments.results.summary import TIERS, byte_unit, three_digits
from weft.experiments.results.table import empty_table

MOST_LOSSES = 6


def _table(title: str, left: Sequence[str], right: Sequence[str], caption: str = "") -> Table:
    table = empty_table(title, caption)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def program_of(run: TorchRun) -> str:
    """Return the program that was run: a script, or a module."""
    return f"{run.script} {run.arguments[0]}" if run.script == "-m" else run.script


def ranks_table(run: TorchRun) -> Table:
    """Return a table with a row for each rank: steps and where its time went."""
    shown = [metric for metric in METRICS if metric.heading]
    table = _table(
        f"{program_of(run)} on {len(run.ranks)} hosts, {run.network}, backend {run.backends}",
        ("rank", "host"),
        [*(metric.heading for metric in shown), "status"],
        "exposed: the program waited for it; hidden: it computed meanwhile; the first step counts "
        "from when the ranks came together",
    )  # fmt: skip
    for rank in run.ranks:
        figures = [(metric, metric.rank(rank) if metric.rank else None) for metric in shown]
        cells = ("-" if value is None else metric.unit.terminal(value) for metric, value in figures)
        table.add_row(str(rank.rank), rank.host, *cells, str(rank.status))
    return table


def collectives_table(run: TorchRun) -> Table:
    """Return a table with a row for each collective and algorithm, all ranks together."""
    table = _table(
        "What the ranks put into collectives",
        ("collective", "algorithm"),
        ("calls\na rank", "size a call", "in all", "mean time"),
    )
    for (name, algorithm), each in run.collectives().items():
        table.add_row(
            name,
            algorithm or "-",
            three_digits(each.count / max(len(run.ranks), 1)),
            format_size(round(each.size_bytes / max(each.count, 1))),
            format_size(each.size_bytes),
            format_duration(each.under_way_ns / max(each.count, 1)),
        )
    return table


def faults_table(run: TorchRun) -> Table:
    """Return a table with a row for each fault that was asked for, and what came of it."""
    table = _table(
        "Faults",
        ("fault",),
        ("came at", "ended at", "step\nbefore", "step\nduring", "calls\nfailed", "first\nafter"),
        "times since the ranks came together; steps: the median of all ranks",
    )
    for each in run.faults:
        table.add_row(
            each.fault,
            *("-" if time is None else format_duration(time) for time in
              (each.at_ns, each.until_ns, each.step_before_ns, each.step_during_ns)),
            str(each.failed),
            "-" if each.first_error_ns is None else format_duration(each.first_error_ns),
        )  # fmt: skip
    return table


def lines(run: TorchRun) -> list[str]:
    """Return what is said below the tables."""
    unit, unit_bytes = byte_unit(max(run.tiers.values(), default=0))
    carried = ", ".join(
        f"{name} {three_digits(run.tiers[tier] / unit_bytes)}"
        for tier, name in TIERS.items() if tier in run.tiers
    )  # fmt: skip
    found = [
        f"Ethernet frames on all links, {unit}: {carried}",
        f"Management network: {format_size(run.management_bytes)}, which is no part of the fabric",
        f"Fidelity: {run.fidelity.verdict}"
        + "".join(f"\n  {reason}" for reason in run.fidelity.reasons),
    ]
    losses = [loss for loss in run.losses if loss is not None]
    if losses:
        shown = [f"{loss:.6g}" for loss in losses]
        if len(shown) > MOST_LOSSES:
            shown = [*shown[: MOST_LOSSES // 2], "...", *shown[-MOST_LOSSES // 2 :]]
        found.append(f"Losses of rank 0: {', '.join(shown)}")
    return [*found, *(f"Note: {note}" for note in run.notes)]
