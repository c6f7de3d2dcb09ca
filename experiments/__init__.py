"""Scenarios, the command line, results and reports.

From Python::

    from experiments import Scenario, run

    results = run(Scenario(world="simulated", size_bytes=65536))
    assert results.verified
    print(results.runs[0].completion_ns)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.scenario import Fault, Scenario

if TYPE_CHECKING:
    from experiments.results import Results
    from experiments.runner import run

__all__ = ["Fault", "Results", "Scenario", "run"]


def __getattr__(name: str) -> Any:
    """What runs is imported when it is first asked for: the command line is quick without it."""
    if name == "run":
        from experiments.runner import run

        return run
    if name == "Results":
        from experiments.results import Results

        return Results
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
