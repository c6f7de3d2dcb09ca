"""The metrics of fused operators."""

from collections.abc import Callable

from weft.experiments.families.fused.part import FusedTimes
from weft.experiments.results.metric import PERCENT, TIME, Figure, Metric
from weft.experiments.results.results import Run


def _of(read: Callable[[FusedTimes, Run, int], float]) -> Callable[[Run], Figure]:
    """Return what reads a figure of runs of operators that have both parts."""

    def figure(run: Run) -> Figure:
        fused = run.part(FusedTimes)
        if fused is None or not run.completion_ns or not fused.serial_ns:
            return None
        return read(fused, run, run.completion_ns)

    return figure


METRICS = (
    Metric(
        name="compute", about="what the slowest rank of a fused operator takes to compute, alone",
        unit=TIME, run=_of(lambda fused, *_: fused.compute_ns),
        kept=("ms",), is_of_the_machine=True,
    ),
    Metric(
        name="communication", about="what the communication of a fused operator takes, alone",
        unit=TIME, run=_of(lambda fused, *_: fused.communication_ns),
        kept=("ms",), is_of_the_machine=True,
    ),
    Metric(
        name="gain", about="how much less time than its parts take one after the other",
        unit=PERCENT, run=_of(lambda fused, run, time_ns: 1 - time_ns / fused.serial_ns),
        kept=("percent",), is_of_the_machine=True,
        axis="less time than one after the other ({unit})", from_zero=True,
    ),
    Metric(
        name="best-gain", unit=PERCENT,
        about="the same of a run that takes no longer than its bound",
        run=_of(lambda fused, *_: 1 - fused.bound_ns / fused.serial_ns),
        kept=("percent",), is_of_the_machine=True,
    ),
    Metric(
        name="skew", unit=PERCENT,
        about="how far apart the first and the last rank end, as a part of the last one's time",
        run=_of(lambda fused, run, time_ns: run.skew), kept=("percent",), is_of_the_machine=True,
    ),
)  # fmt: skip
