"""How long the runner waits for its processes: for as long as they get on.

Filling, checking and reporting take as long as their bytes and the machine say, so no limit is laid
on them by the clock. A process tells the runner how far it is, and is given up when it has been no
further for `silence_s`. What it does has an end, so who gets on comes to it, and who hangs is named
within that time.
"""

import os
from collections.abc import Iterable

SILENCE_S = 30.0
"""The time within which a process must get on by one step: a MiB of a buffer, which is some
milliseconds' work."""
SHARE_S = 1.0
"""How much longer it may take for each process that shares a processor with it."""
MOST_STEP_S = 2.0
"""The longest time that counts between two looks. If more has passed, the runner was stopped
itself, and maybe everyone."""


def silence_s(processes: int) -> float:
    """Return the patience with each of so many processes on this machine."""
    return SILENCE_S + SHARE_S * processes / len(os.sched_getaffinity(0))


class Patience:
    """What tells processes that get on from those that stand still. Times are in s, of any clock.

    Args:
        processes: who is waited for.
        silence_s: how long each may stand still.
        together: whether a step of one is one of all, as they come one after the other.
        until_s: before that standing still does not count.
    """

    def __init__(
        self,
        processes: Iterable[int],
        silence_s: float,
        now_s: float,
        *,
        together: bool = False,
        until_s: float = 0.0,
    ) -> None:
        self._silence_s = silence_s
        self._together = together
        self._until_s = until_s
        self._looked_s = now_s
        self._passed_s = 0.0
        """Since it was made and since `until_s`, as far as the runner was awake."""
        self._moved_s = dict.fromkeys(processes, 0.0)
        """When each process that is still waited for was last heard to get on."""
        self._reached: dict[tuple[int, str], int] = {}

    @property
    def waiting(self) -> list[int]:
        """Return the processes that are still waited for."""
        return list(self._moved_s)

    def reported(self, process: int, what: str, how_far: int) -> None:
        """Take note how far a process says that it is with something; only to be further is to get
        on."""
        if how_far > self._reached.get((process, what), -1):
            self._reached[process, what] = how_far
            self._moved(process)

    def ended(self, process: int) -> None:
        """Take note that a process has given what it was waited for."""
        self._moved(process)
        self._moved_s.pop(process, None)

    def _moved(self, process: int) -> None:
        if self._together:
            self._moved_s = dict.fromkeys(self._moved_s, self._passed_s)
        elif process in self._moved_s:
            self._moved_s[process] = self._passed_s

    def overdue(self, now_s: float) -> list[int]:
        """Return who has stood still for too long; to be asked every second or so, with all news
        told."""
        step_s = now_s - max(self._looked_s, self._until_s)
        self._passed_s += min(max(0.0, step_s), MOST_STEP_S)
        self._looked_s = now_s
        late_s = self._passed_s - self._silence_s
        return [process for process, moved_s in self._moved_s.items() if moved_s <= late_s]
