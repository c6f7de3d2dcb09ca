"""The metrics of training steps in pipelines."""

from weft.experiments.results.metric import COUNT, PERCENT, TIME, Metric

METRICS = (
    Metric(
        name="bubble", unit=PERCENT,
        about="part of a training step in which the busiest stage does not compute",
        run=lambda run: run.step.bubble if run.step else None,
        kept=("percent",), is_of_the_machine=True,
    ),
    Metric(
        name="exposed", about="how much longer a training step is than without communication",
        unit=TIME, run=lambda run: run.step.exposed_ns if run.step else None,
        kept=("ms",), is_of_the_machine=True,
    ),
    Metric(
        name="peak-activations", unit=COUNT,
        about="the most micro-batches whose activations a stage holds at a time",
        run=lambda run: max(run.step.peak_activations) if run.step else None, kept=("",),
    ),
)  # fmt: skip
