"""A parser's value set as a script handles it: the values that a ``select`` of the parser goes
by."""

from collections.abc import Iterable, Mapping
from typing import Any

from weft.base.errors import InputError, did_you_mean
from weft.base.units import listed, shown
from weft.controller.handles.access import SwitchAccess
from weft.controller.handles.table import match_of
from weft.controller.handles.values import read_key
from weft.controller.messages import fill_match
from weft.switch.engine.control.entities import Key
from weft.switch.messages import p4info_pb2, p4runtime_pb2

_KINDS = p4info_pb2.MatchField
Matched = Mapping[str, Key]


class ValueSetHandle:
    """A handle on a value set: ``leaf.value_set("kinds").insert(0x88b5)``. BMv2 has no value
    sets in P4Runtime."""

    def __init__(self, switch: SwitchAccess, info: Any) -> None:
        self._switch = switch
        self._info = info
        self.name: str = info.preamble.name
        """The full name."""

    @property
    def size(self) -> int:
        """How many members the value set has room for."""
        return int(self._info.size)

    @property
    def keys(self) -> dict[str, str]:
        """The kind of match of each field, by its name."""
        return {
            field.name: _KINDS.MatchType.Name(field.match_type).lower()
            for field in self._info.match
        }

    def read(self) -> list[Matched]:
        """Return what each member matches, by fields; those that match anything are left out."""
        self._check()
        query = {"value_set_id": self._info.preamble.id}
        found = self._switch.read(value_set_entry=query)
        return [
            match_of(self._info.match, member)
            for one in found
            for member in one.value_set_entry.members
        ]

    def insert(self, member: Any) -> None:
        """Add a member: a value as an entry's key field matches it, of a value set with one field;
        or such values by fields."""
        wanted, members = self._member(member), self.read()
        if wanted in members:
            raise InputError(f"{self._where(member)}: it is there already")
        self._write([*members, wanted])

    def delete(self, member: Any) -> None:
        """Remove a member."""
        gone, members = self._member(member), self.read()
        if gone not in members:
            raise InputError(f"{self._where(member)}: it is not there")
        self._write([one for one in members if one != gone])

    def set(self, members: Iterable[Any]) -> None:
        """Let the value set have these members, and no others."""
        self._write([self._member(each) for each in members])

    def _where(self, member: Any) -> str:
        return f"{self._switch.name}, member {shown(member)} of {self.name}"

    def _member(self, given: Any) -> Matched:
        fields = {field.name: field for field in self._info.match}
        if not isinstance(given, Mapping):
            if len(fields) > 1:
                raise InputError(
                    f"{self._where(given)}: give values by their fields, {listed(fields, 'and')}"
                )
            given = {next(iter(fields)): given}
        for name in given:
            if name not in fields:
                raise InputError(
                    f"{self._switch.name}: value set {self.name} has no field {name!r}"
                    f"{did_you_mean(str(name), fields)}; it has {', '.join(fields)}"
                )
        exact = [name for name, field in fields.items() if field.match_type == _KINDS.EXACT]
        if missing := [name for name in exact if name not in given]:
            raise InputError(f"{self._where(given)} needs a value of {listed(missing, 'and')}, too")
        keys = {
            name: read_key(value, fields[name], f"{self._switch.name}, {self.name}, {name}")
            for name, value in given.items()
        }
        return {name: key for name, key in keys.items() if key is not None}

    def _check(self) -> None:
        """Raise InputError if switches of this kind do not show value sets."""
        self._switch.require("value sets over P4Runtime", f"value set {self.name}")

    def _write(self, members: list[Matched]) -> None:
        self._check()
        fields = {field.name: field for field in self._info.match}
        entry = p4runtime_pb2.ValueSetEntry(value_set_id=self._info.preamble.id)
        for member in members:
            message = entry.members.add()
            for name, key in member.items():
                fill_match(f"{self.name}, {name}", key, fields[name], message.match.add())
        entity = p4runtime_pb2.Entity(value_set_entry=entry)
        self._switch.session.send("modify", [entity], f"write the members of {self.name}")
