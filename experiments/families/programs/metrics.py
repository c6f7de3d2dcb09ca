"""The metrics of the ranks of programs of PyTorch: where a rank's time went, step by step."""

from statistics import median_high

from weft.base.units import format_duration
from weft.experiments.families.programs.results import TorchRank
from weft.experiments.results.metric import Figure, Metric, Unit

RANKS = "ranks of programs"
"""The table on the terminal, and the section of the report, that have these metrics."""
TIME = Unit(format_duration, format_duration)
STEPS = Unit(str, str)
LOSS = Unit("{:.6g}".format, "{:.6g}".format)


def _last_loss(rank: TorchRank) -> Figure:
    return next((loss for loss in reversed(rank.losses) if loss is not None), None)


METRICS = (
    Metric(
        name="rank-steps", about="steps of the optimizer", unit=STEPS,
        rank=lambda rank: len(rank.step_ns),
        heading="steps", label="steps", tables=(RANKS,), sections=(RANKS,),
    ),
    Metric(
        name="rank-step", about="how long a step of the optimizer took, the median", unit=TIME,
        rank=lambda rank: median_high(rank.step_ns) if rank.step_ns else None,
        heading="median\nstep", label="median step", tables=(RANKS,), sections=(RANKS,),
    ),
    Metric(
        name="rank-computation", about="when the program waited for no operation", unit=TIME,
        rank=lambda rank: rank.computation_ns,
        heading="computation", label="computation", tables=(RANKS,), sections=(RANKS,),
    ),
    Metric(
        name="rank-exposed", about="when the program waited for an operation", unit=TIME,
        rank=lambda rank: rank.exposed_ns,
        heading="exposed\ncommunication", label="exposed communication",
        hint="the program waited for an operation", tables=(RANKS,), sections=(RANKS,),
    ),
    Metric(
        name="rank-hidden", about="when an operation was under way while the program computed",
        unit=TIME, rank=lambda rank: rank.hidden_ns,
        heading="hidden\ncommunication", label="hidden communication",
        hint="an operation was under way while the program computed",
        tables=(RANKS,), sections=(RANKS,),
    ),
    Metric(
        name="rank-loss", about="the loss of the last step", unit=LOSS, rank=_last_loss,
        heading="last\nloss", label="last loss", tables=(RANKS,), sections=(RANKS,),
    ),
    Metric(
        name="rank-processor", about="the processor time of a rank", unit=TIME,
        rank=lambda rank: rank.cpu_ns, label="CPU", sections=(RANKS,),
    ),
)  # fmt: skip
