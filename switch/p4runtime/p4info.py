"""P4Info as the server needs it: ids to names, widths and kinds, and back.

Names are P4Info's ``preamble.name``, which the BMv2 JSON uses too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from p4.config.v1 import p4info_pb2

from switch.p4runtime.refusals import invalid, unimplemented


class MatchKind(Enum):
    """The match kinds of P4Runtime; the value is the name of the field in ``FieldMatch``."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


_KINDS = {
    p4info_pb2.MatchField.EXACT: MatchKind.EXACT,
    p4info_pb2.MatchField.LPM: MatchKind.LPM,
    p4info_pb2.MatchField.TERNARY: MatchKind.TERNARY,
    p4info_pb2.MatchField.RANGE: MatchKind.RANGE,
    p4info_pb2.MatchField.OPTIONAL: MatchKind.OPTIONAL,
}

_BY_PRIORITY = {MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL}


@dataclass(frozen=True)
class Field:
    """A key field of a table."""

    id: int
    name: str
    width: int
    kind: MatchKind


@dataclass(frozen=True)
class Param:
    """A parameter of an action."""

    id: int
    name: str
    width: int


@dataclass(frozen=True)
class Action:
    """An action; parameters in the order of the source."""

    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True)
class Table:
    """A table."""

    id: int
    name: str
    fields: tuple[Field, ...]
    scopes: Mapping[int, int]
    """Its actions by id, each with P4Info's ActionRef.Scope."""
    profile_id: int
    const_default: bool
    is_const: bool
    ages: bool
    direct_counter_id: int
    direct_meter: bool

    @property
    def by_priority(self) -> bool:
        """Whether its entries have a priority."""
        return any(field.kind in _BY_PRIORITY for field in self.fields)


@dataclass(frozen=True)
class Profile:
    """An action profile, or with ``selector`` an action selector; ``max_group_size`` 0 = unset."""

    id: int
    name: str
    selector: bool
    max_group_size: int


@dataclass(frozen=True)
class Array:
    """An indirect counter (width 0) or a register: cells from 0 to ``size - 1``."""

    id: int
    name: str
    size: int
    width: int = 0


class _Named(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


class ProgramInfo:
    """All that a P4Info says, by id and by name.

    Raises Refusal (INVALID_ARGUMENT, UNIMPLEMENTED) for a P4Info that contradicts itself or asks
    for what the server does not do.
    """

    def __init__(self, message: Any) -> None:
        self.message = message
        self.actions = _by_id("action", (_action(action) for action in message.actions))
        counters = {counter.preamble.id for counter in message.direct_counters}
        meters = {meter.preamble.id for meter in message.direct_meters}
        self.tables = _by_id("table", (_table(t, counters, meters) for t in message.tables))
        self.profiles = _by_id("action profile", map(_profile, message.action_profiles))
        self.counters = _by_id("counter", map(_counter, message.counters))
        self.registers = _by_id("register", map(_register, message.registers))
        self.tables_by_name = {table.name: table for table in self.tables.values()}
        self.actions_by_name = {action.name: action for action in self.actions.values()}
        self.profiles_by_name = {profile.name: profile for profile in self.profiles.values()}
        for table in self.tables.values():
            for action_id in table.scopes:
                if action_id not in self.actions:
                    raise invalid(f"P4Info: table {table.name} has unknown action {action_id}")
            if table.profile_id and table.profile_id not in self.profiles:
                raise invalid(
                    f"P4Info: table {table.name} has unknown action profile {table.profile_id}"
                )
        self._profile_tables: dict[int, list[Table]] = {}
        for table in self.tables.values():
            self._profile_tables.setdefault(table.profile_id, []).append(table)

    def table(self, table_id: int) -> Table:
        """The table of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("table", table_id, self.tables)

    def action(self, action_id: int) -> Action:
        """The action of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("action", action_id, self.actions)

    def profile(self, profile_id: int) -> Profile:
        """The action profile of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("action profile", profile_id, self.profiles)

    def counter(self, counter_id: int) -> Array:
        """The indirect counter of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("counter", counter_id, self.counters)

    def register(self, register_id: int) -> Array:
        """The register of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("register", register_id, self.registers)

    def tables_of(self, profile: Profile) -> list[Table]:
        """The tables that an action profile implements."""
        return self._profile_tables.get(profile.id, [])


def _by_id(kind: str, objects: Iterable[_T]) -> dict[int, _T]:
    found: dict[int, _T] = {}
    names: set[str] = set()
    for thing in objects:
        if thing.id == 0 or not thing.name:
            raise invalid(f"P4Info: {kind} {thing.name!r} has id {thing.id}; both must be set")
        if thing.id in found or thing.name in names:
            raise invalid(f"P4Info: {kind} {thing.name} (id {thing.id}) occurs twice")
        found[thing.id] = thing
        names.add(thing.name)
    return found


def _look_up(kind: str, wanted: int, known: Mapping[int, _T]) -> _T:
    found = known.get(wanted)
    if found is None:
        names = ", ".join(f"{thing.name} ({thing.id})" for thing in list(known.values())[:8])
        more = f" and {len(known) - 8} more" if len(known) > 8 else ""
        raise invalid(f"no {kind} has id {wanted}; there are {names or 'none'}{more}")
    return found


def _width(what: str, message: Any) -> int:
    if message.bitwidth <= 0:
        raise unimplemented(
            f"P4Info: {what} has no bit width; values translated to strings are not supported"
        )
    return int(message.bitwidth)


def _action(message: Any) -> Action:
    name = message.preamble.name
    params = tuple(
        Param(param.id, param.name, _width(f"parameter {param.name} of action {name}", param))
        for param in message.params
    )
    return Action(message.preamble.id, name, params)


def _table(message: Any, counters: set[int], meters: set[int]) -> Table:
    name = message.preamble.name
    fields = []
    for match in message.match_fields:
        kind = _KINDS.get(match.match_type)
        if kind is None:
            raise unimplemented(
                f"P4Info: key field {match.name} of table {name} has a match kind that is none of "
                + ", ".join(kind.value for kind in MatchKind)
            )
        width = _width(f"key field {match.name} of table {name}", match)
        fields.append(Field(match.id, match.name, width, kind))
    resources = set(message.direct_resource_ids)
    return Table(
        id=message.preamble.id,
        name=name,
        fields=tuple(fields),
        scopes={reference.id: reference.scope for reference in message.action_refs},
        profile_id=message.implementation_id,
        const_default=message.const_default_action_id != 0,
        is_const=message.is_const_table,
        ages=message.idle_timeout_behavior == p4info_pb2.Table.NOTIFY_CONTROL,
        direct_counter_id=min(resources & counters, default=0),
        direct_meter=bool(resources & meters),
    )


def _profile(message: Any) -> Profile:
    preamble = message.preamble
    return Profile(preamble.id, preamble.name, message.with_selector, message.max_group_size)


def _counter(message: Any) -> Array:
    return Array(message.preamble.id, message.preamble.name, message.size)


def _register(message: Any) -> Array:
    width = message.type_spec.bitstring.bit.bitwidth
    return Array(message.preamble.id, message.preamble.name, message.size, width)


def check_names(info: ProgramInfo, bmv2_json: Mapping[str, Any]) -> None:
    """Raise INVALID_ARGUMENT where a P4Info has a table that its BMv2 JSON does not have."""
    try:
        present = {
            table["name"] for pipeline in bmv2_json["pipelines"] for table in pipeline["tables"]
        }
    except (KeyError, TypeError) as error:
        raise invalid("p4_device_config: not BMv2 JSON, as it has no tables") from error
    missing = [table.name for table in info.tables.values() if table.name not in present]
    if missing:
        raise invalid(
            f"P4Info and p4_device_config are not of one program: the P4Info has table "
            f"{missing[0]}, the BMv2 JSON does not; compile both together"
        )
