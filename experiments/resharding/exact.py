"""The exact least makespan of a resharding, by mixed-integer linear programming (HiGHS)."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from weft.base.errors import InputError, RunError, refuse
from weft.experiments.resharding.balance import Choice, Job, least_loaded, makespan

MOST_JOBS = 16
"""The most jobs that are solved: pairs that may share a link each have an order to be found."""


class Solution(NamedTuple):
    """A solution: a choice, and what is known of the best."""

    choice: Choice
    bound_bytes: float
    """No choice ends before, in bytes."""
    optimal: bool
    """Whether none is better; otherwise the time limit was reached."""


def solve(jobs: Sequence[Job], limit_s: float = 60.0) -> Solution:
    """Return the choice with the least makespan.

    Variables are the makespan, the start of each job, which sender it has, and, for each two jobs
    that may share a link, which comes first.

    Raises:
        InputError: there are more than `MOST_JOBS` jobs.
        RunError: the solver has found nothing within the limit.
    """
    count = len(jobs)
    if count > MOST_JOBS:
        raise InputError(
            f"balance 'exact' solves {MOST_JOBS} slices at most, and {count} have to be sent: "
            "choose best, greedy or dfs, or coarser shardings"
        )
    from scipy.optimize import Bounds, LinearConstraint, milp

    unit = max(job.size_bytes for job in jobs)
    sizes = [job.size_bytes / unit for job in jobs]
    longest = makespan(jobs, least_loaded(jobs, 0)) / unit
    senders = [(number, host) for number, job in enumerate(jobs) for host in job.senders]
    column = {pair: 1 + count + place for place, pair in enumerate(senders)}
    pairs = [
        (one, other)
        for one, other in combinations(range(count), 2)
        if {*jobs[one].senders} & {*jobs[other].senders}
        or {*jobs[one].receivers} & {*jobs[other].receivers}
    ]
    order = {pair: 1 + count + len(senders) + place for place, pair in enumerate(pairs)}
    columns = 1 + count + len(senders) + len(pairs)
    rows: list[dict[int, float]] = []
    lows: list[float] = []
    highs: list[float] = []

    def add(row: dict[int, float], low: float, high: float = np.inf) -> None:
        rows.append(row)
        lows.append(low)
        highs.append(high)

    for number, job in enumerate(jobs):
        add({0: 1, 1 + number: -1}, sizes[number])
        add({column[number, host]: 1 for host in job.senders}, 1, 1)
    for one, other in pairs:
        first = order[one, other]
        shared = [None] if {*jobs[one].receivers} & {*jobs[other].receivers} else [
            host for host in jobs[one].senders if host in jobs[other].senders
        ]  # fmt: skip
        for host in shared:
            # If both take the link, one ends before the other begins.
            both = {} if host is None else {column[one, host]: 1, column[other, host]: 1}
            slack = 0 if host is None else 2
            for early, late, sign in ((one, other, 1), (other, one, -1)):
                row = {1 + late: 1.0, 1 + early: -1.0, first: -sign * longest}
                row |= {place: -longest for place in both}
                base = sizes[early] - longest * (slack + (1 if sign > 0 else 0))
                add(row, base)
    matrix = np.zeros((len(rows), columns))
    for place, row in enumerate(rows):
        for index, value in row.items():
            matrix[place, index] = value
    objective = np.zeros(columns)
    objective[0] = 1
    whole = np.ones(columns)
    whole[: 1 + count] = 0
    upper = np.ones(columns)
    upper[: 1 + count] = longest
    found = milp(
        objective,
        constraints=LinearConstraint(matrix, lows, highs),
        integrality=whole,
        bounds=Bounds(np.zeros(columns), upper),
        options={"time_limit": limit_s},
    )
    refuse(found.x is None, f"balance 'exact': nothing was found within {limit_s:g} s", RunError)
    chosen = tuple(
        max(job.senders, key=lambda host: found.x[column[number, host]])
        for number, job in enumerate(jobs)
    )
    begun = sorted(range(count), key=lambda number: found.x[1 + number])
    bound = found.mip_dual_bound if found.mip_dual_bound is not None else found.fun
    return Solution(Choice(chosen, tuple(begun)), float(bound) * unit, found.status == 0)
