"""All balancers by name."""

from collections.abc import Callable, Sequence

from weft.base.errors import InputError, RunError, refuse
from weft.experiments.resharding.balance import (
    best_of_both,
    depth_first,
    first_replica,
    greedy,
    least_loaded,
)
from weft.experiments.resharding.exact import solve
from weft.experiments.resharding.jobs import Choice, Job, Model, by_links


def exactly(jobs: Sequence[Job], seed: int, model: Model = by_links) -> Choice:
    """Take the best choice there is (`weft.experiments.resharding.exact`)."""
    found = solve(jobs, model=model)
    refuse(
        not found.optimal,
        f"balance 'exact': no choice was shown to be the best of {len(jobs)} slices within the "
        "solver's time; choose best, or coarser shardings",
        RunError,
    )
    return found.choice


BALANCERS: dict[str, Callable[[Sequence[Job], int, Model], Choice]] = {
    "best": best_of_both,
    "none": first_replica,
    "least-loaded": least_loaded,
    "greedy": greedy,
    "dfs": depth_first,
    "exact": exactly,
}
"""By name, functions of the jobs, a seed, and what jobs take."""


def balanced(name: str, jobs: Sequence[Job], seed: int, model: Model = by_links) -> Choice:
    """Return what a balancer chooses. Raises InputError where there is none of that name."""
    if name not in BALANCERS:
        raise InputError(f"balance {name!r} is unknown: choose from {', '.join(BALANCERS)}")
    return BALANCERS[name](jobs, seed, model) if jobs else Choice((), ())
