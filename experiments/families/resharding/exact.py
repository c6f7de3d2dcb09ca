"""The exact least makespan of a resharding, by mixed-integer linear programming (HiGHS)."""

from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from weft.base.errors import InputError
from weft.experiments.families.resharding.balance import best_of_both
from weft.experiments.families.resharding.bounds import lower_bound
from weft.experiments.families.resharding.jobs import Job, Link, SenderChoice, links_of, makespan

MOST_JOBS = 16
"""The most jobs that are solved: pairs that may share a link each have an order to be found."""
_SEED = 1


class Solution(NamedTuple):
    """A solution: a choice, and what is known of the best."""

    choice: SenderChoice
    bound_bytes: float
    """No choice ends before, in bytes."""
    optimal: bool
    """Whether none is better, by more than the gap that was allowed; otherwise the time limit was
    reached."""


def solve(jobs: Sequence[Job], limit_s: float = 60.0, mip_rel_gap: float = 0.0) -> Solution:
    """Return the choice with the least makespan.

    If `best_of_both` reaches a lower bound, that is it. Otherwise a program is solved; its
    variables are the makespan, the start of each job, which sender it has, and, for each two jobs
    that may share a link, which comes first.

    Args:
        limit_s: how long the solver may take; after that the best that is known is returned.
        mip_rel_gap: the share of the makespan that may be missing to the optimum.

    Raises:
        InputError: there are more than `MOST_JOBS` jobs.
    """
    if len(jobs) > MOST_JOBS:
        raise InputError(
            f"balance 'exact' solves {MOST_JOBS} slices at most, and {len(jobs)} have to be sent: "
            "choose best, greedy or dfs, or coarser shardings"
        )
    if not jobs:
        return Solution(SenderChoice((), ()), 0.0, True)
    known = best_of_both(jobs, _SEED)
    longest = makespan(jobs, known)
    least = lower_bound(jobs)
    if longest <= least:
        return Solution(known, float(longest), True)
    return _Program(jobs, longest).solve(known, least, limit_s, mip_rel_gap)


class _Program:
    """The mixed-integer program, in units of a makespan that can be reached.

    Columns are the makespan, the starts, the senders (job, option), the orders (pair).
    """

    def __init__(self, jobs: Sequence[Job], longest: int) -> None:
        self._jobs, self._longest = jobs, longest
        self._links = [[links_of(job, sender) for sender in job.senders] for job in jobs]
        self._option: dict[tuple[int, int], int] = {}
        for number, choices in enumerate(self._links):
            for option in range(len(choices)):
                self._option[number, option] = 1 + len(jobs) + len(self._option)
        self._columns = 1 + len(jobs) + len(self._option)
        self._rows: list[tuple[dict[int, float], float, float]] = []
        for number, choices in enumerate(self._links):
            options = [self._option[number, option] for option in range(len(choices))]
            self._add(dict.fromkeys(options, 1.0), 1, 1)
            lasting = dict.fromkeys(options, -self._duration(number))
            self._add({0: 1.0, 1 + number: -1.0, **lasting}, 0)
        self._takers = self._by_link()
        self._loads()
        self._orders()
        self._twins()

    def _duration(self, number: int) -> float:
        return self._jobs[number].size_bytes / self._longest

    def _add(self, row: dict[int, float], low: float, high: float = np.inf) -> None:
        self._rows.append((row, low, high))

    def _by_link(self) -> dict[Link, dict[int, list[int]]]:
        """Return, by link and job, with which senders it takes that."""
        found: dict[Link, dict[int, list[int]]] = {}
        for number, option in self._option:
            for each in self._links[number][option]:
                found.setdefault(each, {}).setdefault(number, []).append(option)
        return found

    def _loads(self) -> None:
        """Nothing ends before all that a link is taken for; the solver does not see that by the
        orders."""
        for takers in self._takers.values():
            lasting = {
                self._option[number, option]: -self._duration(number)
                for number, options in takers.items()
                for option in options
            }
            self._add({0: 1.0, **lasting}, 0)

    def _orders(self) -> None:
        """If two jobs take a link, one ends before the other begins."""
        first: dict[tuple[int, int], int] = {}
        said: set[Hashable] = set()
        for takers in self._takers.values():
            for one, other in combinations(takers, 2):
                if (one, other) not in first:
                    first[one, other] = self._columns
                    self._columns += 1
                both: dict[int, float] = {}
                slack = 0
                for number in (one, other):
                    if len(takers[number]) < len(self._links[number]):
                        both |= {self._option[number, option]: 1.0 for option in takers[number]}
                        slack += 1
                key = (one, other, tuple(both))
                if key not in said:
                    said.add(key)
                    self._order(one, other, first[one, other], both, slack)

    def _order(self, one: int, other: int, first: int, both: dict[int, float], slack: int) -> None:
        for early, late, sign in ((one, other, 1), (other, one, -1)):
            row = {1 + late: 1.0, 1 + early: -1.0, first: -float(sign)}
            row |= {column: -value for column, value in both.items()}
            for option in range(len(self._links[early])):
                column = self._option[early, option]
                row[column] = row.get(column, 0.0) - self._duration(early)
            self._add(row, -slack - (1 if sign > 0 else 0))

    def _twins(self) -> None:
        """Of jobs that are no different the first begins first: other orders are no better."""
        last: dict[Hashable, int] = {}
        for number, choices in enumerate(self._links):
            key = (self._jobs[number].size_bytes, *choices)
            if key in last:
                self._add({1 + number: 1.0, 1 + last[key]: -1.0}, 0)
            last[key] = number

    def solve(
        self, known: SenderChoice, least: int, limit_s: float, mip_rel_gap: float
    ) -> Solution:
        """Return the solution: what the solver finds, or what was known if that is no worse."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        matrix = np.zeros((len(self._rows), self._columns))
        for place, (row, _, _) in enumerate(self._rows):
            matrix[place, list(row)] = list(row.values())
        lows, highs = ([row[side] for row in self._rows] for side in (1, 2))
        objective, whole = np.zeros(self._columns), np.ones(self._columns)
        objective[0] = 1
        whole[: 1 + len(self._jobs)] = 0
        lower = np.zeros(self._columns)
        lower[0] = least / self._longest
        found = milp(
            objective,
            constraints=LinearConstraint(matrix, lows, highs),
            integrality=whole,
            bounds=Bounds(lower, np.ones(self._columns)),
            options={"time_limit": limit_s, "mip_rel_gap": mip_rel_gap},
        )
        bound = max(float(least), (found.mip_dual_bound or 0.0) * self._longest)
        choices = [known] if found.x is None else [known, self._choice(found.x)]
        best = min(choices, key=lambda choice: makespan(self._jobs, choice))
        end = makespan(self._jobs, best)
        return Solution(best, min(bound, float(end)), found.status == 0)

    def _choice(self, x: "np.typing.NDArray[np.float64]") -> SenderChoice:
        senders = tuple(
            job.senders[max(range(len(job.senders)), key=lambda n: x[self._option[number, n]])]
            for number, job in enumerate(self._jobs)
        )
        begun = sorted(range(len(self._jobs)), key=lambda number: x[1 + number])
        return SenderChoice(senders, tuple(begun))
