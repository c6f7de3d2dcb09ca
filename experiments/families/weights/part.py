"""What a move of weights adds to a run's result: what leaves the trainer, and what comes where."""

from collections.abc import Sequence
from typing import ClassVar

from weft.base.units import format_size
from weft.experiments.scenario.part import Part, Run


class WeightsMoved(Part, frozen=True):
    """What a move of weights sends, of data without headers and repetitions.

    What each host sends and gets is a list for each property.
    """

    key: ClassVar = "weights"
    table: ClassVar = "weights"
    columns: ClassVar = ("host", "out_bytes", "in_bytes", "needed_bytes")

    model_bytes: int
    """All weights once, as they are carried."""
    buckets: int
    trainers: list[str]
    """The names of the trainer's hosts."""
    host: list[str]
    out_bytes: list[int]
    """What each host sends, a multicast once..."""
    in_bytes: list[int]
    """... what comes to it..."""
    needed_bytes: list[int]
    """... and what it needs of the model, each byte once: over its link's rate, that is the least
    time by its NIC."""

    @property
    def trainer_bytes(self) -> int:
        """Return what leaves all hosts of the trainer."""
        inside = {*self.trainers}
        return sum(
            size for host, size in zip(self.host, self.out_bytes, strict=True) if host in inside
        )

    @property
    def copies(self) -> float:
        """Return how many models leave the trainer."""
        return self.trainer_bytes / self.model_bytes

    @classmethod
    def remark(cls, algorithm: str, runs: Sequence[Run]) -> str:
        """Say how much leaves the trainer."""
        moved: WeightsMoved = runs[0].part(cls)
        return (
            f"{algorithm}: {format_size(moved.trainer_bytes)} leave the trainer, "
            f"{moved.copies:.3g} times the model, in {moved.buckets} buckets"
        )
