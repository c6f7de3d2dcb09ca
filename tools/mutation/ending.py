"""Ctrl-C, SIGTERM and SIGHUP end the command as exceptions do, and not in mid clean-up.

`weft.base.signals` does that for Weft itself. It is not used here: a forked process has its state,
and the tests that run there use it, too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(SystemExit):
    """A signal ends the process, with status 128 and its number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.status = 128 + number


@dataclass
class _State:
    """The main thread's alone, as handlers run there."""

    held: int = 0
    """Blocks of `signals_held` that are entered."""
    waiting: int = 0
    """The first signal that came in such a block, or 0."""


_state = _State()


def _came(number: int, _frame: FrameType | None) -> None:
    if not _state.held:
        raise Ended(number)
    _state.waiting = _state.waiting or number


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within the block the signals raise `Ended`; one that is ignored stays so, as nohup wants it.

    Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    caught = [number for number in ENDING if before[number] not in (signal.SIG_IGN, None)]
    try:
        for number in caught:
            signal.signal(number, _came)
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


@contextmanager
def signals_held() -> Iterator[None]:
    """Within the block the signals wait; the first that came raises `Ended` after it."""
    _state.held += 1
    try:
        yield
    finally:
        _state.held -= 1
    if _state.waiting and not _state.held:
        number, _state.waiting = _state.waiting, 0
        raise Ended(number)


def leave_signals_to_the_parent() -> None:
    """In a process that was just forked: its parent sees to Ctrl-C, which comes to it too."""
    _state.held = _state.waiting = 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
