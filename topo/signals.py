"""Ctrl-C, SIGTERM and SIGHUP: let them end a run as exceptions do, and not in mid clean-up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within the block, SIGTERM and SIGHUP raise SystemExit (128 + number) where they would kill.

    So context managers get to clean up, as they do at Ctrl-C. A handler that somebody else has
    set stays. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    changed = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in changed:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in changed:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)


@contextmanager
def signals_held() -> Iterator[None]:
    """Within the block, SIGINT, SIGTERM and SIGHUP wait; the first that came is raised after it.

    So a second Ctrl-C does not cut a clean-up short. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _frame: waiting.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for waited in waiting[:1]:
            signal.raise_signal(waited)
