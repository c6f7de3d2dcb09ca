"""The handle that torch gets of an operation that was begun."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from weft.pytorch.callbacks import Callbacks, Outcome
from weft.pytorch.flight_recorder import Entry
from weft.pytorch.timeline import Timeline

LATE_S = 3.0
"""How much later than an operation's own end a wait for it ends."""


class WeftWork(dist._Work):
    """An operation that was begun.

    Args:
        what: its name in messages.
        timeout: how long `wait` waits if it is not told.
        result: the tensors that it ends with.
        timeline: takes note of waits.
        callbacks: of its group.
    """

    def __init__(
        self, what: str, timeout: timedelta, result: Sequence[torch.Tensor], timeline: Timeline,
        callbacks: Callbacks,
    ) -> None:  # fmt: skip
        super().__init__()
        self.what = what
        self.begun_ns = time.monotonic_ns()
        self.size_bytes = 0
        """What the record will say of it."""
        self.algorithm = ""
        self.entry: Entry | None = None
        """What the flight recorder has of it."""
        self._timeout_s = timeout.total_seconds()
        self._result: list[Any] = list(result)
        self._timeline = timeline
        self._callbacks = callbacks
        self.in_order = False
        self._outcome: Outcome | None = None
        self._may_tell = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error = ""
        self._source = -1
        self.withdraw: Callable[[str], None] = lambda reason: None
        """Called when nobody waits any longer, with the reason."""
        self.ends_itself = False
        """Whether it ends by itself when its time is over."""
        self.missing: Callable[[], str] = lambda: ""
        """Returns in words what it waits for; it may take a moment."""
        self._over: Callable[[str], None] = lambda error: None

    def ends_with(self, result: Sequence[Any]) -> None:
        """Let it end with something else than it was made with: lists of tensors, of some."""
        self._result = list(result)

    def end(self, error: str = "", source: int = -1) -> None:
        """Say that the operation has ended, in failure if there is an error."""
        self._error, self._source = error, source
        with self._lock:
            self._ended.set()
        self._over(error)
        self._callbacks.ended(self)

    def when_over(self, over: Callable[[str], None]) -> None:
        """Call something with the error, or an empty text, as soon as the operation has ended."""
        with self._lock:
            has_ended = self._ended.is_set()
            if not has_ended:
                self._over = over
        if has_ended:
            over(self._error)

    def has_turn(self) -> bool:
        """Take note that the future may be told, and return whether somebody has asked for it."""
        with self._lock:
            self._may_tell = True
            return self._outcome is not None

    def tell(self) -> None:
        """Tell the future that the operation has ended."""
        assert self._outcome is not None
        failure = self.exception()
        if failure is not None:
            self._outcome.fail(failure)
        else:
            self._outcome.succeed(self._result)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end. Raises RuntimeError for a failure, or when the time is over."""
        self._timeline.computed()
        if not self._ended.is_set():
            begun_ns = time.monotonic_ns()
            given = timeout.total_seconds() if timeout else 0.0
            seconds = given if given > 0 else self._timeout_s
            late_s = LATE_S if self.ends_itself and given <= 0 else 0.0
            over = self._ended.wait(seconds + late_s)
            self._timeline.waited(begun_ns)
            if not over:
                why = f"timeout: no end within {seconds:g} s"
                missing = self.missing()
                self.withdraw(why)
                raise RuntimeError(f"{self.what}: {why}{missing and f'; {missing}'}")
        if self._error:
            raise RuntimeError(f"{self.what}: {self._error}")
        return True

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether it has ended."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Return whether it has ended well."""
        return self._ended.is_set() and not self._error

    def exception(self) -> RuntimeError | None:
        """Return what went wrong, if anything."""
        return RuntimeError(f"{self.what}: {self._error}") if self._error else None

    def get_future(self) -> "torch.futures.Future[list[Any]]":
        """Return a future of the tensors that it ends with, or lists of such."""
        with self._lock:
            is_late = self._outcome is None and self._may_tell
            if self._outcome is None:
                self._outcome = Outcome(self)
            future = self._outcome.future
        if is_late:
            self.tell()
        return future

    def result(self) -> list[Any]:
        """Return the tensors that it ends with, or lists of such."""
        self.wait()
        return self._result

    def _source_rank(self) -> int:
        return self._source

    source_rank = _source_rank


class Countdown:
    """Calls something once a number of things have ended, with the first error there was."""

    def __init__(self, left: int, over: Callable[[str], None]) -> None:
        self._left = left
        self._over = over
        self._error = ""
        self._lock = threading.Lock()

    def one(self, error: str, _source: int = -1) -> None:
        """Take note that one of them has ended. The first error ends it all."""
        with self._lock:
            if self._left <= 0:
                return
            self._left = 0 if error else self._left - 1
            self._error = error
            over = self._left == 0
        if over:
            self._over(self._error)
