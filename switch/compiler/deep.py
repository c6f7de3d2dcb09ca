"""Room for programs that are nested deeply: each level of the syntax tree takes some calls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

MAXIMUM_CALLS = 60_000
STACK_BYTES = 256 << 20
"""Virtual memory: of it only what is used is ever there."""

Result = TypeVar("Result")

_turn = threading.Lock()


def run_deep(function: Callable[[], Result]) -> Result:
    """Call a function in a thread with a large stack; what it raises is raised here."""
    results: list[Result] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as problem:  # handed on to the caller
            problems.append(problem)

    with _turn:
        limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(max(limit, MAXIMUM_CALLS))
        try:
            thread = threading.Thread(target=run, name="p4c")
            thread.start()
            threading.stack_size(size)
            thread.join()
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)
    if problems:
        raise problems[0]
    return results[0]
