"""Progress on the terminal: what is going on, how far it is, how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress

PROGRESS_S = 0.25
"""The least time between two events that say how far a stage is."""


class Listener(Protocol):
    """Who hears of what happens: ``listener("end", stage="compile", duration_s=0.2)``."""

    def __call__(self, event: str, **more: Any) -> None: ...


def left_in_words(elapsed_s: float, fraction: float) -> str:
    """Return how much time is left if the rest takes as long as what is done: ``2:05 left``."""
    if fraction <= 0:
        return ""
    left_s = round(elapsed_s / fraction * (1 - min(1.0, fraction)))
    minutes, seconds = divmod(left_s, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"


class Progress:
    """Progress, shown as stages, one after another; each ends as a line with its duration.

    On a terminal the current stage is a live bar with the time that is left; elsewhere only
    finished stages are printed. A listener hears of each begin, of how far it is, and of the end.
    """

    def __init__(
        self, console: Console, *, quiet: bool = False, listener: Listener | None = None
    ) -> None:
        self._listener = listener
        self._console = console
        self._quiet = quiet
        self.timings_s: dict[str, float] = {}
        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
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
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def tell(self, event: str, **more: Any) -> None:
        """Tell the listener of something else that has happened."""
        if self._listener is not None:
            self._listener(event, **more)

    @contextmanager
    def stage(self, name: str, description: str) -> Iterator[Callable[[float], None]]:
        """Show a stage of the work; yields a function that takes the fraction done, 0 to 1.

        Durations of stages of the same name add up in `timings_s`.
        """
        started = told = time.monotonic()
        task = self._live.add_task(description, total=1.0, left="")
        stage = {"stage": name, "description": description}
        self.tell("begin", **stage)

        def advance(fraction: float) -> None:
            nonlocal told
            left = left_in_words(time.monotonic() - started, fraction)
            self._live.update(task, completed=min(1.0, fraction), left=left)
            if self._listener is not None and time.monotonic() - told >= PROGRESS_S:
                told = time.monotonic()
                self.tell("progress", **stage, fraction=min(1.0, fraction))

        try:
            yield advance
        finally:
            self._live.remove_task(task)
            duration_s = time.monotonic() - started
            self.timings_s[name] = self.timings_s.get(name, 0.0) + duration_s
            self.tell("end", **stage, duration_s=round(duration_s, 6))
        if not self._quiet:
            self._console.print(f"{description}: {duration_s:.2f} s", markup=False, highlight=False)
