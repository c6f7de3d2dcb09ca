"""What came of the faults that a program ran under."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median_high

from weft.experiments.families.programs.faults import Faults, Happened
from weft.experiments.families.programs.results import FaultResult
from weft.pytorch.timeline import RankTimeline


def fault_results(
    faults: Faults, happened: Sequence[Happened], records: Sequence[RankTimeline]
) -> list[FaultResult]:
    """Return what came of each fault, in the order in which they came; those that did not come are
    last.

    Args:
        happened: what the runner has brought about.
        records: what ranks have recorded; one that was killed has nothing.
    """
    begun_ns = min((record.begun_ns for record in records), default=0)
    ended_ns = {each.event.fault: each.at_ns for each in happened if each.event.ends}
    came = {each.event.fault: each for each in happened if not each.event.ends}
    of_links = [event for event in faults.events if not event.ends]
    found = [
        _result(event.fault, event.when.step, each.at_ns if each else None,
                ended_ns.get(event.fault), begun_ns, records)
        for event in of_links
        for each in [came.get(event.fault)]
    ]  # fmt: skip
    by_rank = {record.rank: record for record in records}
    for fault, (rank, step) in faults.late.items():
        record = by_rank.get(rank)
        at_ns = None if record is None else _end_of(record, step) if step else begun_ns
        until_ns = at_ns + faults.pauses_ns[rank][step] if at_ns and step else None
        found.append(_result(fault, step, at_ns, until_ns, begun_ns, records))
    return sorted(found, key=lambda each: (each.at_ns is None, each.at_ns or 0))


def _end_of(record: RankTimeline, step: int) -> int | None:
    """Return when a rank has ended a step, if it has."""
    return record.steps[step - 1].ended_ns if step <= len(record.steps) else None


def _result(
    fault: str,
    step: int,
    at_ns: int | None,
    until_ns: int | None,
    begun_ns: int,
    records: Sequence[RankTimeline],
) -> FaultResult:
    if at_ns is None:
        return FaultResult(fault, step or None)
    last_ns = until_ns or max((record.ended_ns for record in records), default=at_ns)
    steps = list(_steps(records))
    errors = [
        each.ended_ns - at_ns
        for record in records
        for each in record.operations
        if each.error and each.ended_ns >= at_ns
    ]
    return FaultResult(
        fault,
        step or None,
        at_ns=at_ns - begun_ns,
        until_ns=None if until_ns is None else until_ns - begun_ns,
        step_before_ns=_median(end - begin for begin, end in steps if end <= at_ns),
        step_during_ns=_median(
            end - begin for begin, end in steps if begin < last_ns and end > at_ns
        ),
        failed=len(errors),
        first_error_ns=min(errors, default=None),
    )


def _steps(records: Sequence[RankTimeline]) -> Iterator[tuple[int, int]]:
    """Yield when each step of each rank has begun and ended."""
    for record in records:
        yield from pairwise([record.begun_ns, *(step.ended_ns for step in record.steps)])


def _median(times_ns: Iterator[int]) -> int | None:
    known = list(times_ns)
    return median_high(known) if known else None
