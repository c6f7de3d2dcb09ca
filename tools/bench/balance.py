"""``weft bench balance``: how far the balancers of a resharding are from the best there is.

Random problems, whose shortest time the exact solver finds: slices of 1 to 20 units, each held by
some of three hosts and needed by some of three others. A balancer's figure is its makespan over the
exact one, both by the model of "On Optimizing the Communication of Model Parallelism" (MLSys 2023,
arXiv 2211.05322, section 3.2). No clock has a part in it, so it is the same on every machine.
"""

import random
from collections.abc import Mapping
from statistics import mean
from typing import Any

from weft.base.errors import RunError
from weft.experiments.families.resharding.balancers import BALANCERS, balanced
from weft.experiments.families.resharding.exact import solve
from weft.experiments.families.resharding.jobs import Job, makespan
from weft.tools.bench.benchmarks import table_lines

PROBLEMS = 40
SLICES = (5, 8)
"""The least and the most slices of a problem."""
SENDERS, RECEIVERS = range(3), range(3, 6)
UNITS = 20
EXACT = "exact"


def measure(problems: int = PROBLEMS, seed: int = 1) -> dict[str, Any]:
    """Return, for each balancer, makespans over the exact ones: mean, least, greatest, and how many
    are as short. Raises RunError if the solver does not come to its end."""
    names = [name for name in BALANCERS if name != EXACT]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for number in range(problems):
        jobs = problem(random.Random(seed + number))
        best = solve(jobs)
        if not best.optimal:
            raise RunError(f"problem {number} was not solved to the end")
        shortest = makespan(jobs, best.choice)
        for name in names:
            choice = balanced(name, jobs, seed + number)
            ratios[name].append(makespan(jobs, choice) / shortest)
    rows = [
        {
            "balance": name, "mean": mean(each), "least": min(each), "greatest": max(each),
            "as_short": sum(ratio == 1 for ratio in each),
        }
        for name, each in ratios.items()
    ]  # fmt: skip
    return {"problems": problems, "seed": seed, "rows": rows}


def problem(drawn: random.Random) -> list[Job]:
    """Return a random problem."""
    return [
        Job(
            drawn.randint(1, UNITS),
            tuple(sorted(drawn.sample(SENDERS, drawn.randint(1, len(SENDERS))))),
            tuple(sorted(drawn.sample(RECEIVERS, drawn.randint(1, len(RECEIVERS) - 1)))),
        )
        for _ in range(drawn.randint(*SLICES))
    ]


def lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as a table."""
    return table_lines(
        f"makespan over the exact one, {figures['problems']} random problems",
        {
            "balance": "{balance!s}", "mean": "{mean:.3f}", "least": "{least:.3f}",
            "greatest": "{greatest:.3f}", "as short": "{as_short}",
        },
        figures["rows"],
    )  # fmt: skip
