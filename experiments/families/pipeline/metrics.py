"""The metrics of training steps in pipelines."""

from collections.abc import Callable

from weft.experiments.families.pipeline.part import StepTimes
from weft.experiments.results.metric import COUNT, PERCENT, TIME, Figure, Metric
from weft.experiments.results.results import Run


def _of(read: Callable[[StepTimes], float]) -> Callable[[Run], Figure]:
    """Return what reads a figure of runs of training steps."""
    return lambda run: read(step) if (step := run.part(StepTimes)) else None


METRICS = (
    Metric(
        name="bubble", unit=PERCENT,
        about="part of a training step in which the busiest stage does not compute",
        run=_of(lambda step: step.bubble),
        kept=("percent",), is_of_the_machine=True,
    ),
    Metric(
        name="exposed", about="how much longer a training step is than without communication",
        unit=TIME, run=_of(lambda step: step.exposed_ns),
        kept=("ms",), is_of_the_machine=True,
    ),
    Metric(
        name="peak-activations", unit=COUNT,
        about="the most micro-batches whose activations a stage holds at a time",
        run=_of(lambda step: max(step.peak_activations)), kept=("",),
    ),
)  # fmt: skip
