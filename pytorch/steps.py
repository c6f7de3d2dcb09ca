"""What becomes of a rank at the ends of its steps, and while it computes, where faults are asked
for: it is slow, it does nothing for a while, or it waits until the runner has done something."""

import threading
import time
from collections.abc import Callable

from weft.pytorch.messages import RunnerLink, Settings
from weft.pytorch.timeline import Timeline


class Steps:
    """The steps of the optimizers of one rank, counted from 1.

    Args:
        settings: of the rank.
        timeline: takes note of steps.
        runner: returns the connection to the runner; None where there is no runner.
    """

    def __init__(
        self, settings: Settings, timeline: Timeline, runner: Callable[[], RunnerLink | None]
    ) -> None:
        self._settings = settings
        self._timeline = timeline
        self._runner = runner
        self._ended = 0

    def slow_down(self) -> None:
        """Let the rank's program compute as slowly as is asked for.

        A thread sleeps in proportion to the processor time that it has used, where a module's
        forward pass ends, where it calls a collective or waits for one, and where a step ends.
        """
        if self._settings.slow > 1:
            from torch.nn.modules.module import register_module_forward_hook

            slow = _Slowness(self._settings.slow)
            self._timeline.computed = slow.sleep
            register_module_forward_hook(lambda *_: slow.sleep())

    def ended(self) -> None:
        """Take note that an optimizer has made a step, and let happen what is asked for there."""
        self._timeline.computed()
        self._timeline.stepped()
        self._ended += 1
        pauses_ns = self._settings.pauses_ns
        pause_ns = pauses_ns.get(0, 0) + pauses_ns.get(self._ended, 0)
        if pause_ns:
            time.sleep(pause_ns / 1e9)
        if self._ended in self._settings.waits_at and (runner := self._runner()) is not None:
            runner.wait_after(self._ended)


class _Slowness(threading.local):
    """The sleep that a thread owes for the processor time that it has used.

    Args:
        factor: how many times as long the thread is to take for what it computes.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._paid_ns = time.thread_time_ns()

    def sleep(self) -> None:
        """Sleep for what was computed since the last time."""
        owed_ns = (self._factor - 1) * (time.thread_time_ns() - self._paid_ns)
        time.sleep(max(0.0, owed_ns) / 1e9)
        self._paid_ns = time.thread_time_ns()
