"""Threads that compute what operations want computed, and wake whoever drives the host."""

import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from weft.agents.collectives.operation import ComputeRequest


class Computed(NamedTuple):
    """Some work is done."""

    work: ComputeRequest
    began_ns: int
    """In CLOCK_MONOTONIC, as all times."""
    ended_ns: int
    error: str
    """Why it failed, or empty."""


class Workers:
    """Threads, one for each workgroup; `fileno` can be read when something is done."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, "weft-workgroup")
        self._done: deque[Computed] = deque()
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor that can be read when something is done."""
        return self._event

    def begin(self, work: ComputeRequest) -> None:
        """Compute something as soon as a thread is free."""
        self._threads.submit(self._compute, work)

    def done(self) -> list[Computed]:
        """Return what is done and was not returned before."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return []
        return [self._done.popleft() for _ in range(len(self._done))]

    def close(self) -> None:
        """Wait for what is under way, and end the threads."""
        self._threads.shutdown(cancel_futures=True)
        os.close(self._event)

    def _compute(self, work: ComputeRequest) -> None:
        began_ns, error = time.monotonic_ns(), ""
        try:
            work.compute()
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        self._done.append(Computed(work, began_ns, time.monotonic_ns(), error))
        os.eventfd_write(self._event, 1)
