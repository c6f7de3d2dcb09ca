"""What a fused operator adds to a run's result: what its parts take, and when workgroups were at
work."""

from collections.abc import Sequence
from typing import ClassVar

from weft.experiments.scenario.part import Part, Run


class FusedTimes(Part, frozen=True):
    """What an operator takes, against its computation and its communication alone.

    When workgroups were at work is a list for each property, in ns from the common start.
    """

    key: ClassVar = "fused"
    is_always_written: ClassVar = True
    table: ClassVar = "workgroups"
    columns: ClassVar = ("rank", "workgroup", "what", "begin_ns", "end_ns")

    clock: str
    """``modelled``: computing takes the time that the declared device takes; ``measured``: what it
    took on this machine's processors."""
    compute_ns: int
    """What the slowest rank takes to compute if nothing is sent, its tiles and then what it adds of
    others', on the declared device..."""
    communication_ns: int
    """... and what the communication takes if nothing has to be computed."""
    bound_ns: int
    """What the operator takes at least, fused or not: the longest of what tiles take on all
    workgroups of a rank, of what the fullest link carries, with headers, and of the longest chain
    of what waits for each other (`weft.experiments.theory.bounds`)."""
    rank: list[int]
    workgroup: list[int]
    what: list[str]
    """``tile``, or ``put``."""
    begin_ns: list[int]
    end_ns: list[int]
    add_ns: int = 0
    """What the rank that adds most takes to add what has come of others: a part of
    `compute_ns`."""

    @property
    def serial_ns(self) -> int:
        """Return what both parts take, one after the other."""
        return self.compute_ns + self.communication_ns

    @property
    def most_gain(self) -> float:
        """Return how many times as fast the operator is at best as one after the other."""
        return self.serial_ns / self.bound_ns if self.bound_ns else 1.0

    @classmethod
    def remark(cls, algorithm: str, runs: Sequence[Run]) -> str:
        """Say what the parts take alone, and how near the best the operator comes."""
        from weft.experiments.results.summary import short_duration

        run = runs[0]
        if not run.completion_ns:
            return ""
        fused: FusedTimes = run.part(cls)
        return (
            f"{algorithm}: computing ({fused.clock}) {short_duration(fused.compute_ns)} and "
            f"communicating {short_duration(fused.communication_ns)}, each alone; "
            f"{fused.serial_ns / run.completion_ns:.2f} times as fast as one after the other, of "
            f"{fused.most_gain:.2f} at best; ranks end {100 * run.skew:.1f} % apart"
        )
