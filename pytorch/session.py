"""What the process groups of one process share, made when the first of them is."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from weft.base.errors import InputError
from weft.pytorch.callbacks import MOST_THREADS
from weft.pytorch.choices import choices_of
from weft.pytorch.flight_recorder import FlightRecorder, size_of
from weft.pytorch.messages import Settings
from weft.pytorch.network import ProcessNetwork
from weft.pytorch.tensors import Pool
from weft.pytorch.timeline import Timeline

BUFFERED_BYTES = 64 << 20
"""The most bytes of messages that a process keeps for receives which have not come. A send beyond
that waits for its receive."""
FINISHERS = 8
"""The most threads in which results are brought to where they belong."""


class Session:
    """What the groups of one process share: its network, its record, its threads."""

    def __init__(self, settings: Settings, timeline: Timeline) -> None:
        self.settings = settings
        self.network = ProcessNetwork(settings)
        self.timeline = timeline
        self.recorder = FlightRecorder(size_of(os.environ))
        self.choices = choices_of(settings.algorithms)
        self.finishers = ThreadPoolExecutor(FINISHERS, "weft-results")
        self.callback_threads = ThreadPoolExecutor(MOST_THREADS, "weft-callbacks")
        self.pool = Pool()
        self.notes: set[str] = set()
        self.buffered_bytes = 0
        self.lock = threading.Lock()
        self.stores: list[Any] = []
        """The stores of all groups that there have been."""

    def buffer(self, size_bytes: int) -> bool:
        """Return whether there is room to keep so many bytes of messages."""
        with self.lock:
            if self.buffered_bytes + size_bytes > BUFFERED_BYTES:
                return False
            self.buffered_bytes += size_bytes
            return True

    def unbuffer(self, size_bytes: int) -> None:
        """Give such room back."""
        with self.lock:
            self.buffered_bytes -= size_bytes


_session: Session | None = None
_prepared: tuple[Settings, Timeline] | None = None


def prepare(settings: Settings, timeline: Timeline) -> None:
    """Say what the groups of this process are made with."""
    global _prepared
    _prepared = settings, timeline


def session() -> Session:
    """Return what the groups of this process share; it is made when it is first asked for.

    Raises:
        InputError: the process was not started as a rank.
        MachineError: its network cannot be opened.
    """
    global _session
    if _session is None:
        if _prepared is None:
            raise InputError(
                "backend weft: this process is no rank of a run; start the script by 'weft torch "
                "run SCRIPT'"
            )
        _session = Session(*_prepared)
    return _session


def open_session() -> Session | None:
    """Return what the groups of this process share, if there is any."""
    return _session
