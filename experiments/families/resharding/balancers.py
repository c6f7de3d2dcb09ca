"""All balancers by name."""

from collections.abc import Callable, Sequence

from weft.base.errors import InputError, RunError
from weft.experiments.families.resharding.balance import (
    best_of_both,
    depth_first,
    first_replica,
    greedy,
    least_loaded,
)
from weft.experiments.families.resharding.exact import solve
from weft.experiments.families.resharding.jobs import Job, SenderChoice


def exactly(jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Take the best choice there is (`weft.experiments.families.resharding.exact`)."""
    found = solve(jobs)
    if not found.optimal:
        raise RunError(
            f"balance 'exact': no choice was shown to be the best of {len(jobs)} slices within the "
            "solver's time; choose best, or coarser shardings"
        )
    return found.choice


BALANCERS: dict[str, Callable[[Sequence[Job], int], SenderChoice]] = {
    "best": best_of_both,
    "none": first_replica,
    "least-loaded": least_loaded,
    "greedy": greedy,
    "dfs": depth_first,
    "exact": exactly,
}
"""By name, functions of the jobs and a seed."""


def balanced(name: str, jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Return what a balancer chooses. Raises InputError where there is none of that name."""
    if name not in BALANCERS:
        raise InputError(f"balance {name!r} is unknown: choose from {', '.join(BALANCERS)}")
    return BALANCERS[name](jobs, seed) if jobs else SenderChoice((), ())
