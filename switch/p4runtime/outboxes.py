"""What waits to be sent to one client, which may read slowly or never."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

MAX_WAITING = 1024
"""Messages that wait for a client that does not read."""

MAX_WAITING_BYTES = 32 << 20
"""What they take together: a list of digests may be large."""


class Outbox:
    """Messages of a stream in their order. Thread-safe; bounded, if all look at ``full`` first."""

    def __init__(self) -> None:
        self._waiting: deque[Any] = deque()
        self._bytes = 0
        self._change = threading.Condition()

    @property
    def full(self) -> bool:
        """Whether so much waits that nothing should be added."""
        return len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES

    def put(self, message: Any) -> None:
        """Add a message, or anything else that the reader is to see at this place."""
        with self._change:
            self._waiting.append(message)
            self._bytes += _size(message)
            self._change.notify()

    def put_latest(self, message: Any) -> None:
        """Add an arbitration update, which if too much waits is the only one of its kind: each
        tells all that there is to know."""
        with self._change:
            if self.full:
                kept = [one for one in self._waiting if not _arbitrates(one)]
                self._bytes -= sum(map(_size, self._waiting)) - sum(map(_size, kept))
                self._waiting = deque(kept)
        self.put(message)

    def get(self) -> Any:
        """Take the next message, and wait for it if there is none."""
        with self._change:
            while not self._waiting:
                self._change.wait()
            message = self._waiting.popleft()
            self._bytes -= _size(message)
            return message

    def take_all(self) -> list[Any]:
        """Take all that waits."""
        with self._change:
            messages = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            return messages


def _size(message: Any) -> int:
    return int(message.ByteSize()) if hasattr(message, "ByteSize") else 0


def _arbitrates(message: Any) -> bool:
    return hasattr(message, "WhichOneof") and message.WhichOneof("update") == "arbitration"
