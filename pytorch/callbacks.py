"""Futures of operations, and the order in which what programs hang on them runs.

A callback may begin further collectives, as the hook of PowerSGD does. It runs beside the program,
so the order of those among the program's own is not the same on all ranks; they go by a
communicator of their own (`weft.pytorch.process_group`). Among themselves their order is the same,
since the callbacks of a group's collectives run one after another, in the order in which these were
begun. What a callback begins is told at once, so that a callback may wait for it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import torch

MOST_THREADS = 256
"""The most threads in which callbacks run: one for each group, and one for each operation that was
begun by one of them."""

_here = threading.local()


def in_callback() -> bool:
    """Return whether this thread runs a callback of a future."""
    return getattr(_here, "depth", 0) > 0


@contextmanager
def _callback() -> Iterator[None]:
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        yield
    finally:
        _here.depth -= 1


class Told(Protocol):
    """An operation that tells its future, if there is one, when it has ended."""

    in_order: bool
    """Whether its callbacks wait for those of operations that were begun before it."""

    def is_completed(self) -> bool:
        """Return whether it has ended."""

    def result(self) -> object:
        """Wait for its end, and return what it ends with, or raise what went wrong."""

    def has_turn(self) -> bool:
        """Take note that its future may be told now, and return whether somebody has asked for it.
        A future that is asked for later is told then."""

    def tell(self) -> None:
        """Tell the future."""


class CallbackFuture(torch.futures.Future):
    """A future whose callbacks are known to be some, whichever thread runs them.

    Args:
        work: the operation that it is of; none if it is of a callback. It has ended as soon as the
            operation has, even if callbacks of earlier ones are yet to run: they may wait for it.
    """

    def __init__(self, work: Told | None = None) -> None:
        super().__init__()
        self._work = work

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call something with the future once it is done."""

        def marked(done: Any) -> None:
            with _callback():
                callback(done)

        super().add_done_callback(marked)

    def then(self, callback: Callable[[Any], object]) -> "CallbackFuture":
        """Call something with the future once it is done, and return a future of what it
        returns."""
        following = CallbackFuture()

        def run(done: Any) -> None:
            try:
                found = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(found)

        self.add_done_callback(run)
        return following

    def wait(self) -> Any:
        """Wait for the end, and return the value."""
        return super().wait() if self._work is None else self._work.result()

    def value(self) -> Any:
        """Return the value; it must be done."""
        ended = self._work is not None and self._work.is_completed()
        return self.wait() if ended else super().value()

    def done(self) -> bool:
        """Return whether there is a value, or an error."""
        return bool(super().done()) if self._work is None else self._work.is_completed()


class Callbacks:
    """The callbacks of the operations of one group.

    Args:
        pool: where they run.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._queue: deque[Told] = deque()
        """Collectives whose turn has not come, in the order in which they were begun."""
        self._running = False

    def begun(self, work: Told) -> None:
        """Take note of a collective that has been begun: its callbacks run after those of the ones
        before it, unless a callback begins it."""
        if not in_callback():
            work.in_order = True
            with self._lock:
                self._queue.append(work)

    def ended(self, work: Told) -> None:
        """Take note that an operation has ended."""
        if work.in_order:
            self._next()
        elif work.has_turn():
            self._start(self._tell, work)

    def _next(self) -> None:
        """Run the callbacks whose turn it is."""
        with self._lock:
            while self._queue and not self._running and self._queue[0].is_completed():
                work = self._queue.popleft()
                if work.has_turn():
                    self._running = True
                    self._start(self._tell_in_turn, work)

    def _tell_in_turn(self, work: Told) -> None:
        self._tell(work)
        with self._lock:
            self._running = False
        self._next()

    def _tell(self, work: Told) -> None:
        with _callback():
            work.tell()

    def _start(self, tell: Callable[[Told], None], work: Told) -> None:
        try:
            self._pool.submit(tell, work)
        except RuntimeError:  # the interpreter is about to end
            threading.Thread(target=tell, args=(work,), daemon=True).start()
