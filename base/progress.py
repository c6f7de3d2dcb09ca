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
    """Hear of what happens: ``listener("end", stage="compile", duration_s=0.2)``."""

    def __call__(self, event: str, **more: Any) -> None: ...


class Progress:
    """Progress is shown as stages, one after another; each ends as a line with its duration.

    On a terminal the current stage is a live bar; elsewhere only finished stages are printed. A
    listener hears of each begin, of how far it is, and of the end.
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
        task = self._live.add_task(description, total=1.0)
        stage = {"stage": name, "description": description}
        self.tell("begin", **stage)

        def advance(fraction: float) -> None:
            nonlocal told
            self._live.update(task, completed=min(1.0, fraction))
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
