"""What a training step adds to a run's result."""

from collections.abc import Sequence
from itertools import chain

from weft.agents.ranks import RankReport
from weft.experiments.families.pipeline.part import StepTimes
from weft.experiments.families.pipeline.resolve import training_of
from weft.experiments.families.pipeline.schedules import peak_activations
from weft.experiments.families.pipeline.timing import timed
from weft.experiments.scenario.scenario import Scenario


def step_of(scenario: Scenario, algorithm: str, reports: Sequence[RankReport]) -> StepTimes | None:
    """Return when the stages of a pipeline computed, as their ranks reported it; None where a rank
    did not come to the end."""
    step = training_of(scenario, algorithm)
    graph, schedule = step.carried.graph, step.schedule
    over_ns = {
        task: at_ns
        for task, what, at_ns in chain.from_iterable(report.moments for report in reports)
        if what == "over"
    }
    known = [(task, *placed) for task, placed in step.computing if graph.delay_ns[task]]
    if not all(task in over_ns for task, *_ in known):
        return None
    alone = timed(schedule, step.times)
    return StepTimes(
        [graph.source[task] for task, _, _ in known],
        [stage for _, stage, _ in known],
        [action.kind for _, _, action in known],
        [action.microbatch for _, _, action in known],
        [action.chunk for _, _, action in known],
        [over_ns[task] - graph.delay_ns[task] for task, _, _ in known],
        [over_ns[task] for task, _, _ in known],
        [*peak_activations(schedule)],
        alone.ideal_ns,
        alone.step_ns,
    )
