"""How long work takes: the quickest of some attempts, since other processes only add."""

import time
from collections.abc import Callable


def quickest_ns(work: Callable[[], object], attempts: int) -> int:
    """Return the quickest of so many attempts, after one that does not count: what has to be loaded
    is."""
    work()
    times = []
    for _ in range(attempts):
        started = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - started)
    return min(times)
