"""What the programs of tests/ that run for minutes show on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def progress_line(console: Console) -> Progress:
    """A line with the time so far, a bar and a description; nothing where there is no terminal."""
    return Progress(
        TimeElapsedColumn(), BarColumn(20), TextColumn("{task.description}"),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
