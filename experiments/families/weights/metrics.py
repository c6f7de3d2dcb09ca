"""The metrics of moves of weights."""

from weft.experiments.families.weights.part import WeightsMoved
from weft.experiments.results.metric import BYTES, RATIO, Figure, Metric
from weft.experiments.results.results import Run


def _sent_bytes(run: Run) -> Figure:
    moved = run.part(WeightsMoved)
    return None if moved is None else moved.trainer_bytes


def _copies(run: Run) -> Figure:
    moved = run.part(WeightsMoved)
    return None if moved is None else moved.copies


def _carried(run: Run) -> Figure:
    """Return what the links of the trainer's hosts really carried, over the model."""
    moved = run.part(WeightsMoved)
    if moved is None:
        return None
    trainers = {*moved.trainers}
    return sum(link.tx_bytes for link in run.links if link.from_node in trainers) / (
        moved.model_bytes
    )


METRICS = (
    Metric(
        name="trainer-bytes", unit=BYTES, run=_sent_bytes, kept=("mib",),
        about="data that leave the hosts of a trainer, without headers and repetitions",
    ),
    Metric(
        name="models-sent", unit=RATIO, run=_copies, kept=("",),
        about="how many times the whole model leaves the hosts of a trainer",
    ),
    Metric(
        name="models-carried", unit=RATIO, run=_carried, kept=("",),
        about="the same as links carried it, with headers and repetitions",
    ),
)  # fmt: skip
