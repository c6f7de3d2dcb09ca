"""What came of the faults that a program ran under."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median_high

from weft.experiments.families.programs.faults import Faults, Happened
from weft.experiments.families.programs.results import FaultResult
from weft.pytorch.timeline import RankTimeline

Records = Sequence[RankTimeline]
"""What ranks have recorded; one that was killed has nothing."""


def fault_results(
    faults: Faults, happened: Sequence[Happened], attempts: Sequence[Records]
) -> list[FaultResult]:
    """Return what came of each fault, in the order in which they came; those that did not come are
    last.

    Args:
        happened: what the runner has brought about.
        attempts: the records of each time that all ranks were started.
    """
    ended_ns = {each.event.fault: each.at_ns for each in happened if each.event.ends}
    came = {each.event.fault: each for each in happened if not each.event.ends}
    found = []
    for event in (each for each in faults.events if not each.ends):
        told = FaultResult(event.fault, event.when.step or None)
        if event.fault in came:
            one = came[event.fault]
            told.attempt = one.attempt
            records = attempts[one.attempt - 1]
            begun_ns = _begun_ns(records) if records else one.begun_ns
            _tell(told, records, begun_ns, one.at_ns, ended_ns.get(event.fault))
        found.append(told)
    for fault, (rank, step) in faults.late.items():
        told = FaultResult(fault, step or None)
        reached = enumerate((_end_of(records, rank, step) for records in attempts), 1)
        for attempt, end_ns in [each for each in reached if each[1] is not None][:1]:
            pause_ns = faults.pauses_ns[rank][step] if step else None
            told.attempt, records = attempt, attempts[attempt - 1]
            until_ns = pause_ns and (end_ns or 0) + pause_ns
            _tell(told, records, _begun_ns(records), end_ns or 0, until_ns)
        found.append(told)
    return sorted(found, key=lambda each: (each.at_ns is None, each.attempt, each.at_ns or 0))


def _end_of(records: Records, rank: int, step: int) -> int | None:
    """Return when a rank has ended a step, if it has; step 0 is the begin of all."""
    ends = next(([each.ended_ns for each in one.steps] for one in records if one.rank == rank), [])
    return next(iter([_begun_ns(records), *ends][step:]), None)


def _begun_ns(records: Records) -> int:
    return min((record.begun_ns for record in records), default=0)


def _tell(
    told: FaultResult,
    records: Records,
    begun_ns: int,
    at_ns: int,
    until_ns: int | None,
) -> None:
    """Tell what came of a fault that came."""
    last_ns = until_ns or max((record.ended_ns for record in records), default=at_ns)
    steps = list(_steps(records))
    errors = [
        each.ended_ns - at_ns
        for record in records
        for each in record.operations
        if each.error and each.ended_ns >= at_ns
    ]
    told.at_ns = at_ns - begun_ns
    told.until_ns = None if until_ns is None else until_ns - begun_ns
    told.step_before_ns = _median([end - begin for begin, end in steps if end <= at_ns])
    told.step_during_ns = _median(
        [end - begin for begin, end in steps if begin < last_ns and end > at_ns]
    )
    told.failed = len(errors)
    told.first_error_ns = min(errors, default=None)


def _steps(records: Records) -> Iterator[tuple[int, int]]:
    """Yield when each step of each rank has begun and ended."""
    for record in records:
        yield from pairwise([record.begun_ns, *(step.ended_ns for step in record.steps)])


def _median(times_ns: Sequence[int]) -> int | None:
    return median_high(times_ns) if times_ns else None
