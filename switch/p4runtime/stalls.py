"""Ends calls whose client does not read the answer: each holds a thread of the server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

STALL_S = 60.0
"""How long a client may take to read one message of an answer."""


def unless_stalled(
    messages: Iterable[bytes], cancel: Callable[[], object], stall_s: float = STALL_S
) -> Iterator[bytes]:
    """The messages of an answer; ``cancel`` is called if one of them is not taken in time.

    An answer of one message fits what gRPC keeps for a client, and needs no watch.
    """
    messages = list(messages)
    if len(messages) < 2:
        yield from messages
        return
    watch = _Watch(cancel, stall_s)
    try:
        for message in messages:
            watch.progress += 1
            yield message
    finally:
        watch.end()


class _Watch:
    def __init__(self, cancel: Callable[[], object], stall_s: float) -> None:
        self.progress = 0
        self._cancel = cancel
        self._stall_s = stall_s
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        seen = -1
        while not self._ended.wait(self._stall_s):
            if self.progress == seen:
                self._cancel()
                return
            seen = self.progress
