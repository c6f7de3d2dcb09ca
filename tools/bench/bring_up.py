"""``weft bench bring-up``: how long it takes until agents on 16 hosts and 8 switches are ready to
start."""

import sys
import time
from typing import Any

from weft.base.children import last_words, run_tool
from weft.base.errors import RunError
from weft.base.progress import Progress
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.shared import algorithms_of, network_of
from weft.experiments.runs.testbed import make_testbed, start_of
from weft.experiments.scenario.scenario import Scenario

ATTEMPTS = 5


def measure(attempts: int = ATTEMPTS) -> dict[str, Any]:
    """Return the seconds from nothing until all ranks are ready to start, and until all is taken
    down again.

    Compiled programs are in the cache, so the first time is not counted. The same run also measures
    a bare ``import numba`` in a process of its own, since machines differ.
    """
    scenario = Scenario(leaves=4, spines=4, hosts_per_leaf=4)
    _bring_up(scenario)
    ready_s, total_s, import_s = [], [], []
    for _ in range(attempts):
        started = time.monotonic()
        done = run_tool([sys.executable, "-c", "import numba"])
        if done.returncode:
            raise RunError(f"Python does not import numba: {last_words(done)}")
        import_s.append(time.monotonic() - started)
        started = time.monotonic()
        ready_s.append(_bring_up(scenario) - started)
        total_s.append(time.monotonic() - started)
    return {"hosts": 16, "switches": 8, "ready_s": ready_s, "total_s": total_s,
            "import_numba_s": import_s}  # fmt: skip


def _bring_up(scenario: Scenario) -> float:
    """Bring a world and its ranks up and down; return the time (monotonic) at which the ranks were
    ready."""
    network = network_of(scenario, algorithms=algorithms_of(scenario))
    program = program_of(scenario)
    with make_testbed(network, scenario, program, Progress.silent()) as testbed:
        algorithm, repetition, _ = next(scenario.runs())
        names, topology = testbed.controller.names, network.topology
        _, first = start_of(names, scenario, topology, algorithm, repetition, 1)
        with network.gathered(first, lambda _: None):
            return time.monotonic()
