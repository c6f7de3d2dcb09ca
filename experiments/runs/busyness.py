"""How busy the machine was with other things while a benchmark measured something on it."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from weft.topo.worlds.processors import CpuTimes, read_cpu_times

MOST_BESIDES = 0.10
"""A part of all processors' time: if others take more, figures are worse than on a quiet
machine."""


@dataclass(frozen=True)
class Reading:
    """What had been counted at one moment."""

    cpu: CpuTimes
    own_s: float
    """Processor seconds of this process and of its children that have ended."""

    @staticmethod
    def now() -> "Reading":
        """Read everything now."""
        spent = os.times()
        own_s = spent.user + spent.system + spent.children_user + spent.children_system
        return Reading(read_cpu_times(), own_s)


@dataclass(frozen=True)
class Busyness:
    """How busy the processors that this process may use were while something was measured."""

    processors: int
    load_before: float
    """Average number of processes that wanted to run in the minute before."""
    duration_s: float
    own: float
    """Share of the processors' time that the benchmark and its processes took, 0 to 1."""
    others: float
    """Share that anything else took, interrupts included."""
    stolen: float
    """Share that this virtual machine wanted and another one got."""

    @property
    def disturbed(self) -> bool:
        """Return whether others took so much that the figures suffer."""
        return self.others + self.stolen > MOST_BESIDES

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in the form in which a document has them beside the figures."""
        return {**asdict(self), "disturbed": self.disturbed}

    def lines(self) -> list[str]:
        """Return lines for a person to read: what the machine did, and a warning if that was too
        much."""
        found = [
            f"machine: {self.processors} processor{'s' * (self.processors != 1)}, load before "
            f"{self.load_before:.2f}; during {self.duration_s:.1f} s of measuring {self.own:.0%} "
            f"of their time went to the benchmark, {self.others:.0%} to others, "
            f"{self.stolen:.0%} was stolen"
        ]
        if self.disturbed:
            found.append(
                f"Warning: others took {self.others + self.stolen:.0%} of the processors' time, "
                f"more than {MOST_BESIDES:.0%}: these figures are not those of a quiet machine; "
                "measure again when nothing else runs"
            )
        return found


def between(
    before: Reading, after: Reading, *, load_before: float, duration_s: float, ticks_per_s: int
) -> Busyness:
    """Return how busy the machine was between two readings."""
    total_s = max((after.cpu.total - before.cpu.total) / ticks_per_s, 1e-9)
    busy_s = (after.cpu.busy - before.cpu.busy) / ticks_per_s
    own_s = after.own_s - before.own_s
    return Busyness(
        processors=len(os.sched_getaffinity(0)),
        load_before=load_before,
        duration_s=round(duration_s, 3),
        own=round(min(own_s / total_s, 1.0), 4),
        # Ticks are coarser than what a process is told of itself.
        others=round(max(busy_s - own_s, 0.0) / total_s, 4),
        stolen=round((after.cpu.steal - before.cpu.steal) / ticks_per_s / total_s, 4),
    )


def watched(measure: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], Busyness]:
    """Return what `measure` returns, and how busy the machine was with other things meanwhile.

    Its figure ``elsewhere_s``, if there is one, is not returned: it is the processor time of
    processes of its own that are no children of this one.
    """
    load_before = os.getloadavg()[0]
    before, started = Reading.now(), time.monotonic()
    figures = measure()
    duration_s = time.monotonic() - started
    after = Reading.now()
    after = replace(after, own_s=after.own_s + figures.pop("elsewhere_s", 0.0))
    return figures, between(
        before,
        after,
        load_before=round(load_before, 2),
        duration_s=duration_s,
        ticks_per_s=os.sysconf("SC_CLK_TCK"),
    )
