"""What a training step adds to a run's result: when its stages computed."""

from collections.abc import Sequence
from typing import ClassVar

from weft.experiments.scenario.part import Part, Run


class StepTimes(Part, frozen=True):
    """When each host of each stage of a pipeline computed what, as a list for each property, in ns
    from the common start."""

    key: ClassVar = "step"
    is_always_written: ClassVar = True
    table: ClassVar = "stages"
    columns: ClassVar = ("rank", "stage", "kind", "microbatch", "chunk", "begin_ns", "end_ns")

    rank: list[int]
    stage: list[int]
    kind: list[str]
    """F: a forward pass; B: a backward pass; W: delayed gradients of weights."""
    microbatch: list[int]
    chunk: list[int]
    begin_ns: list[int]
    end_ns: list[int]
    peak_activations: list[int]
    """By stage, the most micro-batches whose activations it holds at a time."""
    ideal_ns: int
    """What the step would take if the busiest stage never waited."""
    alone_ns: int
    """What it would take if tensors took no time on their way."""

    @property
    def step_ns(self) -> int:
        """Return when the last stage ended."""
        return max(self.end_ns, default=0)

    @property
    def bubble(self) -> float:
        """Return the part of the step in which the busiest stage does not compute."""
        return 1 - self.ideal_ns / self.step_ns if self.step_ns else 0.0

    @property
    def exposed_ns(self) -> int:
        """Return how much longer the step took than without communication."""
        return max(0, self.step_ns - self.alone_ns)

    @classmethod
    def remark(cls, algorithm: str, runs: Sequence[Run]) -> str:
        """Say how much of the step no stage computes, and why."""
        from weft.experiments.results.summary import short_duration

        step: StepTimes = runs[0].part(cls)
        return (
            f"{algorithm}: bubble {100 * step.bubble:.1f} % of the step, communication exposed "
            f"{short_duration(step.exposed_ns)}, activations of "
            f"{', '.join(map(str, step.peak_activations))} micro-batches"
        )
