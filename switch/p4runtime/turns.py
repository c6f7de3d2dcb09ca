"""A lock that goes round: the thread that has waited longest gets it next.

A thread that frees a ``threading.Lock`` and takes it again mostly gets it, whoever waits.
"""

import threading
from collections import deque


class TurnLock:
    """A lock for ``with`` statements."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        """Held for moments, while the two below are used."""
        self._held = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        turn = threading.Lock()
        turn.acquire()
        with self._guard:
            if not self._held:
                self._held = True
                return
            self._waiting.append(turn)
        try:
            turn.acquire()  # until ``__exit__`` of the one before
        except BaseException:
            with self._guard:
                waits = turn in self._waiting
                if waits:
                    self._waiting.remove(turn)
            if not waits:
                self.__exit__()
            raise

    def __exit__(self, *exception: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._held = False
