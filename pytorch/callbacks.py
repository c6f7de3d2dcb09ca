"""Futures of operations, and the order in which what programs hang on them runs.

A callback may begin further collectives, as the hook of PowerSGD does. It runs beside the program,
so the order of those among the program's own is not the same on all ranks; they go by a
communicator of their own (`weft.pytorch.lanes`). Among themselves their order is the same,
since the callbacks of a group's collectives run one after another, in the order in which these were
begun. What a callback begins is told at once, so that a callback may wait for it.
"""

import codecs
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

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


_known: WeakKeyDictionary[torch._C.Future, "ReferenceType[Told] | None"] = WeakKeyDictionary()
"""Futures whose callbacks are known to be some, with the operations that they are of; none if one
is of a callback. An operation that is gone has told its future."""
_plain = {name: getattr(torch._C.Future, name) for name in (
    "add_done_callback", "then", "wait", "value", "done"
)}  # fmt: skip
"""What futures of torch do by themselves."""


class Outcome:
    """What becomes of an operation, as a future of torch.

    A future that fails must do so in torch's own code, since DDP and others read it there: what
    `torch.futures.Future.set_exception` stores is a value to them. A callback that raises makes
    such a one, so the future is that of a callback, which takes the value of another. Neither this
    nor what raises is a function in Python, since torch appends its lines to the message.
    """

    def __init__(self, work: Told) -> None:
        self._source = torch._C.Future([])
        self.future: Any = _plain["then"](self._source, _plain["value"])
        """The future. It has ended as soon as the operation has, even if callbacks of earlier ones
        are yet to run: they may wait for it."""
        _known[self.future] = ref(work)

    def succeed(self, value: object) -> None:
        """Let the future have a value."""
        self._source.set_result(value)

    def fail(self, error: Exception) -> None:
        """Let the future raise an error."""
        self._source._set_unwrap_func(codecs.strict_errors)
        self._source.set_result(error)


def _marked(callback: Callable[[Any], object]) -> Callable[[Any], object]:
    def run(done: Any) -> object:
        with _callback():
            return callback(done)

    return run


def _add_done_callback(self: Any, callback: Callable[[Any], object]) -> None:
    _plain["add_done_callback"](self, _marked(callback) if self in _known else callback)


def _then(self: Any, callback: Callable[[Any], object]) -> Any:
    if self not in _known:
        return _plain["then"](self, callback)
    following = _plain["then"](self, _marked(callback))
    _known[following] = None
    return following


def _work_of(future: Any) -> Told | None:
    reference = _known.get(future)
    return reference() if reference is not None else None


def _wait(self: Any) -> Any:
    work = _work_of(self)
    return _plain["wait"](self) if work is None else work.result()


def _value(self: Any) -> Any:
    work = _work_of(self)
    return work.result() if work is not None and work.is_completed() else _plain["value"](self)


def _done(self: Any) -> bool:
    work = _work_of(self)
    return bool(_plain["done"](self)) if work is None else work.is_completed()


def _watch_futures() -> None:
    """Let torch's futures do what is needed for those that are known. They cannot be of a class of
    our own: those that torch's own code makes never are."""
    for ours in (_add_done_callback, _then, _wait, _value, _done):
        setattr(torch._C.Future, ours.__name__[1:], ours)


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
        _watch_futures()

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
