"""One switch as the server sees it: its control, its programs, and what P4Runtime alone knows.

Its lock goes round: the thread that has waited longest gets it next. A thread that frees a
``threading.Lock`` and takes it again mostly gets it, whoever waits.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from weft.switch.engine.control.entities import Key
from weft.switch.engine.control.errors import ControlError
from weft.switch.engine.control.state import SwitchControl
from weft.switch.p4runtime.digests import Digests
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.p4info_objects import Translations
from weft.switch.p4runtime.refusals import failed_precondition


class TurnLock:
    """A lock, for ``with`` statements, that is given to those who wait in turn."""

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


EntryId = tuple[str, tuple[Key, ...] | None, int]
"""The table, key and priority of an entry; key None stands for the default entry."""


@dataclass(frozen=True)
class Opaque:
    """A client attaches this to a table entry and gets it back; the switch does not read it."""

    controller_metadata: int = 0
    metadata: bytes = b""


@dataclass
class Notes:
    """The server keeps these notes beside the switch's own tables."""

    entries: dict[EntryId, Opaque] = field(default_factory=dict)
    one_shots: dict[str, dict[EntryId, Any]] = field(default_factory=dict)
    """Entries with a one-shot action set, by action profile, as the client wrote the set."""
    groups: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Groups of action selectors with watch ports, as the client wrote them."""
    replication: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Multicast groups and clone sessions as the client wrote them, by kind of entry and id."""
    digests: Digests = field(default_factory=Digests)
    idle: dict[EntryId, int] = field(default_factory=dict)
    """For each entry that was reported idle, the time (ns) at which that is due again."""
    memo: str = ""
    """A text that clients keep here for each other; it goes with the program."""

    def copy(self) -> "Notes":
        """Return a copy that keeps this state whatever happens to the original."""
        return Notes(
            dict(self.entries),
            {profile: dict(entries) for profile, entries in self.one_shots.items()},
            dict(self.groups),
            dict(self.replication),
            deepcopy(self.digests),
            dict(self.idle),
            self.memo,
        )


@dataclass(frozen=True)
class PipelineConfig:
    """A forwarding pipeline config has the message as it came, and what its P4Info says."""

    message: Any
    info: ProgramInfo
    number: int = field(default_factory=count().__next__)
    """Another one for each config."""


@dataclass
class StagedConfig:
    """A config that was saved and waits for COMMIT.

    ``control`` is a switch of its own that runs the saved program and forwards nothing: what is
    written meanwhile is checked against it, read from it, and replayed on COMMIT.
    """

    config: PipelineConfig
    control: SwitchControl
    notes: Notes = field(default_factory=Notes)
    updates: list[bytes] = field(default_factory=list)
    """The updates that were written since then, serialised."""
    updates_bytes: int = 0

    def keep(self, updates: list[bytes]) -> None:
        """Keep updates, so that COMMIT carries them out again."""
        self.updates += updates
        self.updates_bytes += sum(map(len, updates))


class Device:
    """A device holds the state of one switch; whoever uses it holds ``lock``."""

    def __init__(self, control: SwitchControl, device_id: int) -> None:
        self.switch = control
        self.device_id = device_id
        self.lock = control.lock = TurnLock()
        self.running: PipelineConfig | None = None
        self.staged: StagedConfig | None = None
        self.translations = Translations()
        self.running_notes = Notes()
        self._deferred: list[Callable[[], None]] | None = None
        self._undo: list[Callable[[], None]] = []

    @property
    def control(self) -> SwitchControl:
        """Return where entities are written to and read from: a saved program's control, or the
        switch's."""
        return self.switch if self.staged is None else self.staged.control

    @property
    def notes(self) -> Notes:
        """Return the notes that belong to ``control``."""
        return self.running_notes if self.staged is None else self.staged.notes

    @notes.setter
    def notes(self, notes: Notes) -> None:
        if self.staged is None:
            self.running_notes = notes
        else:
            self.staged.notes = notes

    def forget(self, entry_id: EntryId) -> None:
        """Keep nothing of an entry beside the switch's own tables."""
        for kept in (self.notes.entries, *self.notes.one_shots.values()):
            kept.pop(entry_id, None)

    @property
    def config(self) -> PipelineConfig:
        """Return the config that entities refer to; raise FAILED_PRECONDITION if there is none."""
        return self._running if self.staged is None else self.staged.config

    @property
    def info(self) -> ProgramInfo:
        """Return the program that entities refer to; raise FAILED_PRECONDITION if there is none."""
        return self.config.info

    @property
    def running_info(self) -> ProgramInfo:
        """Return the program that packets meet; raise FAILED_PRECONDITION if there is none."""
        return self._running.info

    @property
    def _running(self) -> PipelineConfig:
        if self.running is None:
            raise failed_precondition(  # finsy looks for BMv2's words, as far as "config"
                f"{self.switch.name}: no forwarding pipeline config is set; call "
                "SetForwardingPipelineConfig"
            )
        return self.running

    def set_port_up(self, port: int, up: bool) -> None:
        """Say whether a port is up; groups with members that watch the port follow."""
        with self.lock:
            self.switch.set_port_up(port, up)
            self.switch.publish()

    # -- writes that packets see at once

    def live(self, write: Callable[[], None]) -> None:
        """Write to a counter, meter or register now, or together with the rest of an atomic
        batch."""
        if self._deferred is None:
            write()
        else:
            self._deferred.append(write)

    @property
    def atomic(self) -> bool:
        """Return whether a batch is under way that may yet be undone."""
        return self._deferred is not None

    def begin(self) -> None:
        """Keep back, from now on, the writes that packets would see at once."""
        self._deferred, self._undo = [], []

    def on_failure(self, actions: list[Callable[[], None]]) -> None:
        """Add actions to be done if the batch is undone, whose updates may reuse the counter and
        meter of a deleted entry."""
        self._undo += actions

    def give_up(self) -> None:
        """End what ``begin`` began without writing anything; the control has been restored
        before."""
        undo, self._deferred, self._undo = self._undo, None, []
        for action in undo:
            action()

    def take_deferred(self) -> Callable[[], None] | None:
        """End what ``begin`` began; return the writes that were kept back as one action, None for
        none."""
        writes, self._deferred, self._undo = self._deferred, None, []
        if not writes:
            return None

        def write_all() -> None:
            for write in writes:
                with contextlib.suppress(ControlError):  # its entry was deleted later on
                    write()

        return write_all
