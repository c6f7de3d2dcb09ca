"""One switch as the server sees it: its control, its programs, and what only P4Runtime knows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from weft.switch.engine.control import ControlError, Key, SwitchControl
from weft.switch.p4runtime.digests import Digests
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.refusals import failed_precondition
from weft.switch.p4runtime.translation import Translations
from weft.switch.p4runtime.turns import TurnLock

EntryId = tuple[str, tuple[Key, ...] | None, int]
"""Table, key and priority of an entry; key None stands for the default entry."""


@dataclass(frozen=True)
class Opaque:
    """What a client attaches to a table entry and gets back, unread by the switch."""

    controller_metadata: int = 0
    metadata: bytes = b""


@dataclass
class Notes:
    """What the server keeps beside the switch's own tables."""

    entries: dict[EntryId, Opaque] = field(default_factory=dict)
    one_shots: dict[str, dict[EntryId, Any]] = field(default_factory=dict)
    """Entries with a one-shot action set, by action profile, as the client wrote the set."""
    groups: dict[tuple[str, int], Any] = field(default_factory=dict)
    """Groups of action selectors with watch ports, as the client wrote them."""
    multicast: dict[int, Any] = field(default_factory=dict)
    """Multicast groups as the client wrote them."""
    clones: dict[int, Any] = field(default_factory=dict)
    """Clone sessions as the client wrote them."""
    digests: Digests = field(default_factory=Digests)
    idle: dict[EntryId, int] = field(default_factory=dict)
    """Entries that were reported idle, and when that is due again (ns)."""

    def copy(self) -> Notes:
        """A copy that keeps this state whatever happens to the original."""
        return Notes(
            dict(self.entries),
            {profile: dict(entries) for profile, entries in self.one_shots.items()},
            dict(self.groups),
            dict(self.multicast),
            dict(self.clones),
            deepcopy(self.digests),
            dict(self.idle),
        )


@dataclass(frozen=True)
class Config:
    """A forwarding pipeline config: the message as it came, and its P4Info looked through."""

    message: Any
    info: ProgramInfo


@dataclass
class Staged:
    """A config that was saved and waits for COMMIT.

    ``control`` is a switch of its own that runs the saved program and forwards nothing: what is
    written meanwhile is checked against it, read from it, and replayed on COMMIT.
    """

    config: Config
    control: SwitchControl
    notes: Notes = field(default_factory=Notes)
    updates: list[bytes] = field(default_factory=list)
    """What was written since, serialised."""
    updates_bytes: int = 0

    def keep(self, updates: list[bytes]) -> None:
        """Have updates done again on COMMIT."""
        self.updates += updates
        self.updates_bytes += sum(map(len, updates))


class Device:
    """State of one switch; all use of it happens with ``lock`` held."""

    def __init__(self, control: SwitchControl, device_id: int) -> None:
        self.switch = control
        self.device_id = device_id
        self.lock = TurnLock()
        self.running: Config | None = None
        self.staged: Staged | None = None
        self.translations = Translations()
        self.running_notes = Notes()
        self._deferred: list[Callable[[], None]] | None = None
        self._undo: list[Callable[[], None]] = []

    @property
    def control(self) -> SwitchControl:
        """What entities are written to and read from: the saved program's, or the switch."""
        return self.switch if self.staged is None else self.staged.control

    @property
    def notes(self) -> Notes:
        """The notes that go with ``control``."""
        return self.running_notes if self.staged is None else self.staged.notes

    @notes.setter
    def notes(self, notes: Notes) -> None:
        if self.staged is None:
            self.running_notes = notes
        else:
            self.staged.notes = notes

    @property
    def info(self) -> ProgramInfo:
        """The program that entities refer to; FAILED_PRECONDITION if there is none."""
        return self.running_info if self.staged is None else self.staged.config.info

    @property
    def running_info(self) -> ProgramInfo:
        """The program that packets meet; FAILED_PRECONDITION if there is none."""
        if self.running is None:
            raise failed_precondition(
                f"{self.switch.name}: no forwarding pipeline; call SetForwardingPipelineConfig"
            )
        return self.running.info

    def set_port_up(self, port: int, up: bool) -> None:
        """Say that a port went up or down: groups with members that watch it follow."""
        with self.lock:
            self.switch.set_port_up(port, up)
            self.switch.publish()

    # -- writes that packets see at once

    def live(self, write: Callable[[], None]) -> None:
        """Write to a counter, meter or register: now, or with the rest of an atomic batch."""
        if self._deferred is None:
            write()
        else:
            self._deferred.append(write)

    @property
    def atomic(self) -> bool:
        """Whether a batch is under way that may yet be undone."""
        return self._deferred is not None

    def begin(self) -> None:
        """From now on keep back what packets would see at once."""
        self._deferred, self._undo = [], []

    def on_failure(self, actions: list[Callable[[], None]]) -> None:
        """Have actions done if the batch is undone: its updates may reuse a deleted entry's
        counter and meter."""
        self._undo += actions

    def give_up(self) -> None:
        """End ``begin`` with nothing written; the control has been restored."""
        undo, self._deferred, self._undo = self._undo, None, []
        for action in undo:
            action()

    def take_deferred(self) -> Callable[[], None] | None:
        """End ``begin``: what was kept back, as one action; None if there was nothing."""
        writes, self._deferred, self._undo = self._deferred, None, []
        if not writes:
            return None

        def write_all() -> None:
            for write in writes:
                with contextlib.suppress(ControlError):  # its entry was deleted later on
                    write()

        return write_all
