"""What the processors of a machine have done, and how busy they were between two readings."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CpuTimes:
    """The clock ticks that some processors together have spent since boot (/proc/stat)."""

    busy: int
    """All time but that spent idle, waiting for discs, or stolen."""
    steal: int
    """Time that this virtual machine wanted and another one got."""
    total: int


@dataclass(frozen=True)
class CpuUse:
    """Shares of the processors' time over an interval, each from 0 to 1."""

    busy: float
    steal: float


def read_cpu_times(
    path: Path = Path("/proc/stat"), processors: Collection[int] | None = None
) -> CpuTimes:
    """Return the processors' times so far; `cpu_use` compares two readings, one before and one
    after.

    ``processors`` are numbers; by default those that this process may run on, which in a container
    or under taskset may be a few of many.
    """
    names = {f"cpu{number}" for number in processors or os.sched_getaffinity(0)}
    all_together, *rows = [line.split()[:9] for line in path.read_text().splitlines() if line]
    chosen = [row for row in rows if row[0] in names] or [all_together]
    figures = (sum(map(int, column)) for column in list(zip(*chosen, strict=True))[1:])
    user, nice, system, idle, waiting, hard, soft, steal = figures
    busy = user + nice + system + hard + soft
    return CpuTimes(busy, steal, busy + idle + waiting + steal)


def cpu_use(before: CpuTimes, after: CpuTimes) -> CpuUse:
    """Return how busy the machine was between two readings; zeros if no time passed."""
    total = after.total - before.total
    if total <= 0:
        return CpuUse(0.0, 0.0)
    return CpuUse((after.busy - before.busy) / total, (after.steal - before.steal) / total)
