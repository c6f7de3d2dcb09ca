"""Progress on the terminal: what is going on, how far it is, how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Progress is shown as stages, one after another; each ends as a line with its duration.

    On a terminal the current stage is a live bar; elsewhere only finished stages are printed.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self.timings_s: dict[str, float] = {}
        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )

    @staticmethod
    def silent() -> "Progress":
        """Return an object that shows nothing."""
        return Progress(Console(quiet=True), quiet=True)

    def __enter__(self) -> "Progress":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line between stages."""
        if not self._quiet:
            self._console.print(text, markup=False, highlight=False)

    @contextmanager
    def stage(self, name: str, description: str) -> Iterator[Callable[[float], None]]:
        """Show a stage of the work; yields a function that takes the fraction done, 0 to 1.

        Durations of stages of the same name add up in `timings_s`.
        """
        started = time.monotonic()
        task = self._live.add_task(description, total=1.0)
        try:
            yield lambda fraction: self._live.update(task, completed=min(1.0, fraction))
        finally:
            self._live.remove_task(task)
            duration_s = time.monotonic() - started
            self.timings_s[name] = self.timings_s.get(name, 0.0) + duration_s
        if not self._quiet:
            self._console.print(f"{description}: {duration_s:.2f} s", markup=False, highlight=False)
