"""Ctrl-C, SIGTERM and SIGHUP: let them end a run as exceptions do, surely, and not in mid clean-up.

Such a signal raises `Ended` in the main thread, wherever that is. But what is raised in a finalizer
or in a callback of compiled code is thrown away, and so it is by whoever catches everything. So the
first signal is kept, and a timer looks at it again and again: unless an `Ended` is on its way up,
through blocks that clean up after themselves, it is raised once more. No signal is ignored before
that; those that come while it is on its way change nothing.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from weft.base import entry_points
from weft.base.errors import Ended

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_S = 0.1
"""The time between two looks at a signal that has come."""
WATCH_S = 0.5
"""The time between two calls of the functions that are `watched`."""


@dataclass
class _State:
    """The state has what has come and what is to be done; only the main thread uses it, as handlers
    run there."""

    first: int = 0
    """The first ending signal that came, or 0."""
    held: int = 0
    """How many blocks of `signals_held` are entered."""
    blocks: int = 0
    """How many blocks of `ending_on_signals` are entered."""
    before: dict[int, Any] = field(default_factory=dict)
    """The handlers that were in place of this module's."""
    checks: list[Callable[[], None]] = field(default_factory=list)
    """The functions that are `watched`."""
    lost: bool = False
    """Whether a `KeyboardInterrupt` was thrown away, and is to be raised again."""


_state = _State()


def _came(number: int, _frame: FrameType | None) -> None:
    """Handle an ending signal."""
    _state.held += 1  # so that another one, now, does not keep the timer from being set
    if not _state.first:
        _state.first = number
        _set_timer()
    _state.held -= 1
    _look()


def _look() -> None:
    """Raise `Ended` if a signal has come that is neither held back nor on its way already."""
    if _state.first and not _state.held and not _under_way():
        raise Ended(_state.first)


def _tick(_number: int, _frame: FrameType | None) -> None:
    """Handle the timer."""
    _look()
    if _state.lost and not _state.held:
        _state.lost = False
        _set_timer()
        signal.raise_signal(signal.SIGINT)
    if not _state.first and not _state.held:
        for check in _state.checks:
            check()


def _set_timer() -> None:
    """Let the timer go as often as is needed now, or not at all."""
    interval_s = LOOK_S if _state.first or _state.lost else WATCH_S if _state.checks else 0.0
    if interval_s and signal.SIGALRM not in _state.before:
        _install(signal.SIGALRM, _tick)
    signal.setitimer(signal.ITIMER_REAL, interval_s, interval_s)
    if not interval_s and (before := _state.before.pop(signal.SIGALRM, None)) is not None:
        signal.signal(signal.SIGALRM, before)


def _under_way() -> bool:
    """Return whether the interrupted code runs because an `Ended` was raised: in a ``finally``, in
    an ``except``, or at the end of a ``with``."""
    error = sys.exc_info()[1]
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Ended):
            return True
        seen.add(id(error))
        error = error.__context__
    return False


def _install(number: int, handler: Callable[[int, FrameType | None], None]) -> None:
    _state.before[number] = signal.getsignal(number)
    signal.signal(number, handler)


def end_on_signals() -> None:
    """Let the three signals raise `Ended` from now on; the process must call `leave` last.

    Call in the main thread. A SIGHUP that is ignored stays so, as nohup wants it.
    """
    _state.blocks += 1
    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            _install(number, _came)
    say = sys.unraisablehook

    def say_unless_ended(thrown_away: Any) -> None:
        if not isinstance(thrown_away.exc_value, Ended):  # which comes again
            say(thrown_away)

    sys.unraisablehook = say_unless_ended


def acknowledged() -> None:
    """Say that a signal has had its effect, and the process ends as it would without.

    Later signals are ignored. Does nothing if no signal came.
    """
    if _state.first:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        _state.first = 0
        _set_timer()


def leave() -> None:
    """Raise `Ended` if a signal came, whatever became of what it raised before; later signals are
    ignored."""
    first = _state.first
    acknowledged()
    if first:
        raise Ended(first)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Ended` within the block, where they would kill otherwise.

    So context managers get to clean up, as they do at Ctrl-C. A handler that somebody else has
    set stays. A `KeyboardInterrupt` that Python throws away, because it was raised in a finalizer
    or in the callback of a weak reference, is raised again. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.blocks += 1
    say = sys.unraisablehook

    def say_or_repeat(thrown_away: Any) -> None:
        if not isinstance(thrown_away.exc_value, KeyboardInterrupt) or not _state.blocks:
            say(thrown_away)
        elif threading.current_thread() is threading.main_thread():
            _state.held += 1  # what is raised in here would be thrown away for good
            _state.lost = True
            try:
                _set_timer()
            finally:
                _state.held -= 1

    sys.unraisablehook = say_or_repeat
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                _install(number, _came)
        yield
    finally:
        _state.blocks -= 1
        if sys.unraisablehook is say_or_repeat:
            sys.unraisablehook = say
        if not _state.blocks:
            lost, _state.lost = _state.lost, False
            if _state.first or lost:
                _state.first = 0
                _set_timer()
            for number in (signal.SIGTERM, signal.SIGHUP):
                before = _state.before.pop(number, None)
                if before is not None and signal.getsignal(number) is _came:
                    signal.signal(number, before)
            if lost:
                signal.raise_signal(signal.SIGINT)


@contextmanager
def signals_held() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP wait within the block; the first that came is raised after it.

    So a second Ctrl-C does not cut a clean-up short. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    others = {
        number: handler
        for number in ENDING
        if (handler := signal.getsignal(number)) not in (_came, signal.SIG_IGN, None)
    }
    _state.held += 1
    try:
        for number in others:
            signal.signal(number, lambda number, _frame: waiting.append(number))
        yield
    finally:
        try:
            for number, handler in others.items():
                signal.signal(number, handler)
        finally:
            _state.held -= 1
        _look()
        for waited in waiting[:1]:
            signal.raise_signal(waited)


entry_points.held = signals_held


@contextmanager
def watched(check: Callable[[], None]) -> Iterator[None]:
    """Call ``check`` twice a second within the block, wherever the main thread is, even if it waits
    for input.

    It may raise, and raises again until that has ended the block. It is not called once a signal
    ends the block, nor while signals are held. The block must be entered in the main thread.
    """
    _state.checks.append(check)
    try:
        _set_timer()
        yield
    finally:
        _state.checks.remove(check)
        _set_timer()
