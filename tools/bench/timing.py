"""How long work takes: the quickest of some attempts counts, since other processes can only add
time."""

import gc
import time
import timeit
from collections.abc import Callable

BENCHMARK_LIMIT_S = 3600.0
"""How long a process may take that measures something."""


def quickest_ns(work: Callable[[], object], attempts: int) -> float:
    """Return the quickest of so many attempts, after one that does not count: what has to be loaded
    is. Python collects garbage meanwhile, as it does elsewhere."""
    work()
    return min(timeit.repeat(work, gc.enable, time.perf_counter_ns, attempts, number=1))
