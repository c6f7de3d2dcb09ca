"""What a rank records of its program: collectives, waits, steps of the optimizer, losses."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from weft.base.files import write_whole

MOST_OPERATIONS = 200_000
"""The most operations that a rank keeps."""


class RecordedOperation(msgspec.Struct, frozen=True):
    """One collective, send or receive."""

    name: str
    algorithm: str
    """How it was done; empty where there is no choice."""
    group: str
    size_bytes: int
    """The bytes of this rank's input, or of a receive its output."""
    begun_ns: int
    """Times are those of CLOCK_MONOTONIC."""
    ended_ns: int
    error: str = ""


class Step(msgspec.Struct, frozen=True):
    """The end of one step of an optimizer."""

    ended_ns: int
    loss: float | None
    """The number that was last the beginning of a backward pass, if there was one."""


class RankTimeline(msgspec.Struct):
    """All that a rank has recorded."""

    rank: int
    host: str
    begun_ns: int
    ended_ns: int = 0
    cpu_ns: int = 0
    """Processor time of the process in this time."""
    operations: list[RecordedOperation] = []
    waits_ns: list[tuple[int, int]] = []
    """When the program waited for an operation: (from, until)."""
    steps: list[Step] = []
    notes: list[str] = []
    groups: dict[str, list[str]] = {}
    """The names of the groups that it was in, by their backends."""
    statistics: dict[str, int] = {}
    """The counters of the transport and the driver, by name."""
    wake_lateness_ns: dict[str, int] = {}

    @property
    def socket_drops(self) -> int:
        """Return how many datagrams its socket had no room for."""
        return self.statistics.get("socket_drops", 0)


class Timeline:
    """A timeline records what happens in this process; its methods may be called in any thread."""

    def __init__(self, rank: int, host: str) -> None:
        self.record = RankTimeline(rank, host, time.monotonic_ns())
        self._cpu_ns = time.process_time_ns()
        self._lock = threading.Lock()
        self._loss: float | None = None
        self._begun = False
        self._left_out = 0
        self.computed: Callable[[], None] = lambda: None
        """Called where the program has computed and is about to communicate or to wait."""

    def begin(self) -> None:
        """Let the record begin now, when the first group has come together."""
        with self._lock:
            if not self._begun:
                self._begun = True
                self.record.begun_ns = time.monotonic_ns()
                self._cpu_ns = time.process_time_ns()

    def ended(self, operation: RecordedOperation) -> None:
        """Take note of an operation that has ended."""
        with self._lock:
            if len(self.record.operations) < MOST_OPERATIONS:
                self.record.operations.append(operation)
            else:
                self._left_out += 1

    def grouped(self, name: str, backend: str) -> None:
        """Take note of a group that was made."""
        with self._lock:
            self.record.groups.setdefault(backend, []).append(name)

    def waited(self, since_ns: int) -> None:
        """Take note that the program has waited since then."""
        with self._lock:
            if not self._left_out:
                self.record.waits_ns.append((since_ns, time.monotonic_ns()))

    def loss(self, value: float) -> None:
        """Take note of the number that a backward pass begins with."""
        self._loss = value

    def stepped(self) -> None:
        """Take note that an optimizer has made a step."""
        with self._lock:
            self.record.steps.append(Step(time.monotonic_ns(), self._loss))
            self._loss = None

    def write(
        self, path: Path, statistics: dict[str, int], lateness_ns: dict[str, int], notes: set[str]
    ) -> None:
        """Write all that was recorded as JSON."""
        with self._lock:
            record = self.record
            record.ended_ns = time.monotonic_ns()
            record.cpu_ns = time.process_time_ns() - self._cpu_ns
            record.statistics = statistics
            record.wake_lateness_ns = lateness_ns
            record.notes = sorted(notes)
            if self._left_out:
                record.notes.append(
                    f"rank {record.rank}: {self._left_out} operations after the first "
                    f"{MOST_OPERATIONS} are in no figure but those of links"
                )
            write_whole(path, msgspec.json.encode(record))


def read(path: Path) -> RankTimeline:
    """Return what a rank has written. Raises OSError or msgspec.MsgspecError."""
    return msgspec.json.decode(path.read_bytes(), type=RankTimeline)
