"""What is said of an attack: failures as they come, a table at the end, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from weft.tools.attack.schedule import Failure, Tally

MOST_OUTCOMES = 6
MOST_LINES = 60


def failure_text(failure: Failure) -> str:
    """A failed trial: how to repeat it, how it failed, what it had drawn."""
    lines = failure.text.rstrip().splitlines() or ["no word"]
    if len(lines) > MOST_LINES:
        lines = [*lines[:10], "...", *lines[10 - MOST_LINES :]]
    return "\n".join(
        [
            f"{failure.kind}, trial {failure.trial}, failed: {lines[0]}",
            *(f"    {line}" for line in lines[1:]),
            *(f"    drawn: {note}" for note in failure.notes),
            f"    repeat: {failure.repeat}",
        ]
    )


def summary_table(tallies: Sequence[Tally]) -> Table:
    """Trials, failures and time of each kind, and what came of the trials."""
    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("kind", "trials", "failed", "time", "what came of the others"):
        table.add_column(name, justify="right" if name in ("trials", "failed", "time") else "left")
    for tally in tallies:
        table.add_row(
            tally.kind,
            f"{tally.trials:,}",
            Text(f"{len(tally.failures):,}", style="red" if tally.failures else ""),
            f"{tally.seconds:.0f} s",
            f"skipped: {tally.skipped}" if tally.skipped else _outcomes(tally),
        )
    return table


def _outcomes(tally: Tally) -> str:
    common = tally.outcomes.most_common()
    shown = [f"{outcome} {count:,}" for outcome, count in common[:MOST_OUTCOMES]]
    left = sum(count for _, count in common[MOST_OUTCOMES:])
    return ", ".join([*shown, *([f"other {left:,}"] if left else [])])


def closing_line(tallies: Sequence[Tally]) -> str:
    """One line for all."""
    trials = sum(tally.trials for tally in tallies)
    failed = sum(len(tally.failures) for tally in tallies)
    return f"{trials:,} trials, {failed:,} failed"


def document(seed: int, tallies: Sequence[Tally]) -> dict[str, Any]:
    """All of it as JSON has it."""
    return {
        "seed": seed,
        "trials": sum(tally.trials for tally in tallies),
        "failed": sum(len(tally.failures) for tally in tallies),
        "kinds": [
            {
                "kind": tally.kind,
                "trials": tally.trials,
                "seconds": round(tally.seconds, 3),
                "skipped": tally.skipped or None,
                "outcomes": dict(tally.outcomes),
                "failures": [
                    {
                        "trial": failure.trial,
                        "text": failure.text,
                        "drawn": failure.notes,
                        "repeat": failure.repeat,
                    }
                    for failure in tally.failures
                ],
            }
            for tally in tallies
        ],
    }
