"""What the kernel tells of a process, and how long one has been given, on a machine that may be
slow or have much else to do.

A limit by the clock means little there: a minute's compiling is any time by the clock. So a process
that works uses up its limit by the processor time that it gets, and one that does not work by the
clock.
"""

import os
from collections.abc import Callable
from pathlib import Path

SAMPLE_S = 1.0
"""The time between two looks at what a process does."""
WORKING_SHARE = 0.02
"""A process works if it gets this share of a processor; threads that wait use less."""
MOST_STEP_S = 5.0
"""The most time that counts between two looks; if more passes, the one who looks was stopped,
too."""
_PF_EXITING = 0x4
"""The kernel's flag of a process that is ending (linux/sched.h)."""


def stat_fields(pid: int) -> list[str]:
    """Return what the kernel tells of a process in ``/proc/PID/stat``, from its state on; nothing
    if none runs under that id."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None if none runs under that
    id.

    One that is ending counts as ended: the init of a PID namespace, once killed, waits until all
    in it have been waited for, which somebody else may have to do.
    """
    fields = stat_fields(pid)
    ended = not fields or fields[0] in "ZX" or int(fields[6]) & _PF_EXITING
    return None if ended else int(fields[19])


def processor_s(pid: int) -> float:
    """Return the user and system time that a process has used so far; 0 if it has ended."""
    return sum(map(int, stat_fields(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


class Effort:
    """An effort counts the time since it was made, as far as it counts; somebody looks at it every
    second or so."""

    def __init__(
        self, pid: int, now_s: float, used_s: Callable[[int], float] = processor_s
    ) -> None:
        self._pid = pid
        self._used_s = used_s
        self._looked_s = now_s
        self._had_s = used_s(pid)
        self._counted_s = 0.0

    def counted_s(self, now_s: float) -> float:
        """Return the seconds that count so far."""
        step_s = now_s - self._looked_s
        if step_s < SAMPLE_S:
            return self._counted_s + step_s
        had_s = self._used_s(self._pid)
        worked_s = max(0.0, had_s - self._had_s)
        working = worked_s >= WORKING_SHARE * step_s
        self._counted_s += min(worked_s, step_s) if working else min(step_s, MOST_STEP_S)
        self._looked_s, self._had_s = now_s, had_s
        return self._counted_s
