"""How jobs go to an engine's workers and their results come back."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    wait,
)
from typing import Any, TypeVar

from weft.base.errors import RunError, WeftError, refuse
from weft.experiments.engines.work import Job, OtherVersionError

Key = TypeVar("Key")

MOST_LOSSES = 3
"""How many workers may die of a job before it is given up."""
AHEAD = 2
"""How many jobs each worker is given at a time, so that none waits for its next one."""
WITHOUT_WORKERS_S = 60.0
"""How long an engine may have no workers before it counts as gone."""
LOOK_S = 1.0
"""The time between two looks at whether the engine is still there, and how many workers it has."""


def gathered(
    executor: Executor,
    count: Callable[[], int],
    jobs: Mapping[Key, Job],
    gone: Callable[[], str] = lambda: "",
) -> Iterator[tuple[Key, Any]]:
    """Run all jobs and yield what each returns, or the exception that it raises, as it comes.

    What is lost with a worker that dies is run again.

    Args:
        count: returns how many workers there are.
        gone: returns why no result can come any more; empty as long as some can.

    Raises:
        OtherVersionError: a worker has another version of Weft.
        RunError: the engine is gone.
    """
    waiting: list[Key] = list(jobs)[::-1]
    losses: dict[Key, int] = {}
    running: dict[Future[Any], Key] = {}
    seen = time.monotonic()
    """When there were workers last."""
    try:
        while waiting or running:
            while waiting and len(running) < max(1, AHEAD * count()):
                key = waiting.pop()
                running[executor.submit(jobs[key])] = key
            done, _ = wait(running, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            if not done and (why := gone()):
                raise RunError(f"the engine is gone: {why}")
            if done or count():
                seen = time.monotonic()
            refuse(
                time.monotonic() - seen > WITHOUT_WORKERS_S,
                f"the engine has had no workers for {WITHOUT_WORKERS_S:g} s: start some",
                RunError,
            )
            for future in done:
                key = running.pop(future)
                try:
                    result = future.result()
                except BrokenExecutor as error:
                    losses[key] = losses.get(key, 0) + 1
                    if losses[key] < MOST_LOSSES:
                        waiting.append(key)
                        continue
                    result = RunError(
                        f"{MOST_LOSSES} workers died of it, one after the other ({error}): it may "
                        "take more memory than there is"
                    )
                except OtherVersionError:
                    raise
                except CancelledError:
                    why = gone() or "its connection or its scheduler has closed"
                    raise RunError(f"the engine is gone: {why}") from None
                except Exception as error:
                    result = error
                yield key, result
    finally:
        for future in running:
            future.cancel()


def said(error: Exception) -> str:
    """Return what a row says of the error that ended its point."""
    return str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
