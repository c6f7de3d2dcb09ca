"""What an engine's schedule comes to, in virtual time: a plan for machines that are not there."""

import heapq
from collections.abc import Sequence


def makespan_s(
    points_s: Sequence[float],
    workers: int,
    *,
    start_s: float = 0.0,
    warm_s: float = 0.0,
    dispatch_s: float = 0.0,
) -> float:
    """Return when the last of the points is done, if each goes to the worker that is free first.

    Args:
        points_s: what each point takes, in the order in which they are given out.
        workers: how many there are, each of which runs one point at a time.
        start_s: until the engine is up.
        warm_s: what each worker takes to load the code before its first point.
        dispatch_s: what the engine takes for a point; it does one after the other.
    """
    free_s = [start_s + warm_s] * workers
    heapq.heapify(free_s)
    engine_s = start_s
    end_s = start_s
    for point_s in points_s:
        engine_s = max(engine_s, heapq.heappop(free_s) - dispatch_s) + dispatch_s
        done_s = engine_s + point_s
        end_s = max(end_s, done_s)
        heapq.heappush(free_s, done_s)
    return end_s
