"""What a fused operator adds to a run's result."""

from collections.abc import Sequence
from itertools import chain

from weft.agents.ranks import RankReport
from weft.base.option import own_of
from weft.experiments.families.fused.asked import FusedAsked
from weft.experiments.families.fused.part import FusedTimes
from weft.experiments.families.fused.resolve import plan_of
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns


def fused_times_of(scenario: Scenario, algorithm: str, reports: Sequence[RankReport]) -> FusedTimes:
    """Return when the workgroups of a fused operator were at work; what its communication takes
    alone is filled in by `weft.experiments.families.fused.alone.compared`."""
    plan = plan_of(scenario, algorithm, scenario.ranks)
    moments = list(chain.from_iterable(report.moments for report in reports))
    over_ns = {task: at_ns for task, what, at_ns in moments if what == "over"}
    began_ns = {task: over_ns[task] - plan.graph.delay_ns[task] for task in over_ns}
    began_ns |= {task: at_ns for task, what, at_ns in moments if what == "began"}
    known = [each for each in plan.computing if each.task in over_ns]
    known.sort(key=lambda each: (each.rank, over_ns[each.task]))
    spans = [
        ((each.rank, plan.graph.pool[each.task]), began_ns[each.task], over_ns[each.task])
        for each in known
    ]
    groups = [
        sum(plan.graph.pools[:pool]) + group
        for ((_, pool), _, _), group in zip(spans, workgroups_of(spans), strict=True)
    ]
    return FusedTimes(
        own_of(scenario, FusedAsked).clock or "modelled",
        plan.compute_ns,
        0,
        completion_bound_ns(scenario, algorithm, frames=True),
        [each.rank for each in known],
        groups,
        [each.what for each in known],
        [begin_ns for _, begin_ns, _ in spans],
        [end_ns for _, _, end_ns in spans],
        plan.add_ns,
    )


def workgroups_of(spans: Sequence[tuple[tuple[int, int], int, int]]) -> list[int]:
    """Return a workgroup for each of ((rank, pool), begin, end), numbered in its pool, so that none
    is at two at a time."""
    free: dict[tuple[int, int], list[tuple[int, int]]] = {}
    found = [0] * len(spans)
    for place in sorted(range(len(spans)), key=lambda place: (spans[place][1], place)):
        pool, begin_ns, end_ns = spans[place]
        mine = free.setdefault(pool, [])
        able = [number for number, (until_ns, _) in enumerate(mine) if until_ns <= begin_ns]
        number = able[0] if able else len(mine)
        mine[number : number + 1] = [(end_ns, number)]
        found[place] = number
    return found
