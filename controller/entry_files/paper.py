"""A switch on paper: what is written to it is checked against its program, and goes nowhere."""

from collections.abc import Sequence
from typing import Any

from weft.base.errors import InputError
from weft.controller.client import LoadableProgram
from weft.controller.entities import Entity
from weft.controller.handles.switch import SwitchHandle
from weft.controller.plan import Update
from weft.topo.switch_kinds import SwitchKind


class PaperSession:
    """A session with a switch that is none."""

    def __init__(self, program: LoadableProgram) -> None:
        self.program = program

    def send(self, _kind: str, _entities: Sequence[Any], _what: str) -> None:
        """Send nothing."""

    def want_digests(self) -> None:
        """Want none."""


class PaperController:
    """A controller of a switch that is none; it knows what has been written."""

    def __init__(self, program: LoadableProgram) -> None:
        self._session = PaperSession(program)
        self._held: dict[tuple[object, ...], Entity] = {}

    def session(self, switch: str) -> Any:
        """Return the session with the switch."""
        return self._session

    def write(self, switch: str, updates: Sequence[Update], owner: str) -> None:
        """Note updates. Raises InputError for an entity that is inserted twice."""
        for update in updates:
            key = update.entity.key
            if update.kind == "insert" and key in self._held:
                raise InputError(f"{switch}: there is already {self._held[key]}")
            self._held[key] = update.entity

    def check(self, switch: str, updates: Sequence[Update], owner: str) -> None:
        """Raise InputError for an entity that would be inserted twice."""

    def owner_of(self, switch: str, key: tuple[object, ...]) -> str:
        """Return that nobody has written anything."""
        return ""

    def written(self, switch: str, key: tuple[object, ...]) -> Entity | None:
        """Return what has been written under a key."""
        return self._held.get(key)


def paper_switch(name: str, program: LoadableProgram, kind: SwitchKind) -> SwitchHandle:
    """Return a switch on paper that runs a program."""
    return SwitchHandle(PaperController(program), name, kind=kind)
