"""P4Info as the server needs it: ids to names, widths and kinds, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from weft.switch.messages import p4info_pb2
from weft.switch.p4runtime.data_plane import DataPlane
from weft.switch.p4runtime.p4info_objects import (
    KINDS,
    Action,
    Array,
    Digest,
    Field,
    MatchKind,
    Meter,
    PacketHeader,
    Param,
    Profile,
    Register,
    Table,
    ValueSet,
)
from weft.switch.p4runtime.refusals import Refusal, invalid, listed
from weft.switch.p4runtime.translation import Translations

PACKET_HEADERS = ("packet_in", "packet_out")

MOST_FOREIGN = 1024
"""Objects of a P4Info that its BMv2 JSON does not have."""

_DROPPED = (
    "actions", "action_profiles", "counters", "direct_counters", "meters", "direct_meters",
    "registers", "value_sets", "digests",
)  # fmt: skip

_ROLE = re.compile(r'@p4runtime_role\s*\(\s*"([^"]*)"\s*\)')


class _Named(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


class ProgramInfo:
    """All that a P4Info says, by id and by name.

    ``program`` is the BMv2 JSON that belongs to it. Raises Refusal (INVALID_ARGUMENT) for a P4Info
    that contradicts itself or the program, or asks for what the server does not do.
    """

    def __init__(
        self, message: Any, program: Mapping[str, Any], translations: Translations
    ) -> None:
        self.message = message
        self._translations = translations
        self._data_plane = DataPlane(program)
        _check_program(message, self._data_plane)
        self.actions = _by_id("action", map(self._action, message.actions))
        counters = {counter.preamble.id for counter in message.direct_counters}
        meters = _by_id("direct meter", (_meter(meter, 0) for meter in message.direct_meters))
        self.tables = _by_id("table", (self._table(t, counters, meters) for t in message.tables))
        self.profiles = _by_id("action profile", map(_profile, message.action_profiles))
        self.counters = _by_id("counter", map(_counter, message.counters))
        self.meters = _by_id("meter", (_meter(meter, meter.size) for meter in message.meters))
        self.registers = _by_id("register", map(_register, message.registers))
        self.value_sets = _by_id("value set", map(self._value_set, message.value_sets))
        self.digests = _by_id("digest", map(_digest, message.digests))
        self.packet_headers = self._packet_headers()
        self.tables_by_name = {table.name: table for table in self.tables.values()}
        self.actions_by_name = {action.name: action for action in self.actions.values()}
        self.profiles_by_name = {profile.name: profile for profile in self.profiles.values()}
        self.digests_by_name = {digest.name: digest for digest in self.digests.values()}
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

    def meter(self, meter_id: int) -> Meter:
        """The indirect meter of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("meter", meter_id, self.meters)

    def register(self, register_id: int) -> Register:
        """The register of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("register", register_id, self.registers)

    def value_set(self, value_set_id: int) -> ValueSet:
        """The value set of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("value set", value_set_id, self.value_sets)

    def digest(self, digest_id: int) -> Digest:
        """The digest of that id; INVALID_ARGUMENT if there is none."""
        return _look_up("digest", digest_id, self.digests)

    def tables_of(self, profile: Profile) -> list[Table]:
        """The tables that an action profile implements."""
        return self._profile_tables.get(profile.id, [])

    # -- from messages

    def _type(self, what: str, message: Any, data_width: int) -> Any:
        return self._translations.value_type(what, message, self.message.type_info, data_width)

    def _action(self, message: Any) -> Action:
        name = message.preamble.name
        params = tuple(
            Param(
                param.id,
                param.name,
                self._type(
                    f"parameter {param.name} of action {name}",
                    param,
                    self._data_plane.param_width(name, position),
                ),
            )
            for position, param in enumerate(message.params)
        )
        _check_ids(f"action {name}", params)
        return Action(message.preamble.id, name, params)

    def _field(self, what: str, match: Any, data_width: int) -> Field:
        kind = KINDS.get(match.match_type)
        if kind is None:
            raise invalid(
                f"P4Info: key field {match.name} of {what} has a match kind that is none of "
                + ", ".join(kind.value for kind in MatchKind)
            )
        value_type = self._type(f"key field {match.name} of {what}", match, data_width)
        if value_type.strings is not None and kind in (MatchKind.LPM, MatchKind.RANGE):
            raise invalid(
                f"P4Info: key field {match.name} of {what} is translated to strings: it cannot be "
                f"matched by {kind.value}"
            )
        return Field(match.id, match.name, value_type, kind)

    def _table(self, message: Any, counters: set[int], meters: Mapping[int, Meter]) -> Table:
        name = message.preamble.name
        fields = tuple(
            self._field(f"table {name}", match, self._data_plane.key_width(name, position))
            for position, match in enumerate(message.match_fields)
        )
        _check_ids(f"table {name}", fields)
        resources = set(message.direct_resource_ids)
        return Table(
            *_identity(message.preamble),
            fields=fields,
            scopes={reference.id: reference.scope for reference in message.action_refs},
            profile_id=message.implementation_id,
            const_default=message.const_default_action_id != 0,
            is_const=message.is_const_table,
            preinitialised=message.has_initial_entries and not message.is_const_table,
            ages=message.idle_timeout_behavior == p4info_pb2.Table.NOTIFY_CONTROL,
            direct_counter_id=min(resources & counters, default=0),
            direct_meter=meters.get(min(resources & set(meters), default=0)),
        )

    def _value_set(self, message: Any) -> ValueSet:
        preamble = message.preamble
        fields = tuple(
            self._field(f"value set {preamble.name}", match, match.bitwidth)
            for match in message.match
        )
        _check_ids(f"value set {preamble.name}", fields)
        return ValueSet(*_identity(preamble), fields, message.size)

    def _packet_headers(self) -> dict[str, PacketHeader]:
        headers: dict[str, PacketHeader] = {}
        for message in self.message.controller_packet_metadata:
            name = message.preamble.name
            if name not in PACKET_HEADERS or name in headers:
                raise invalid(
                    f"P4Info: controller_packet_metadata {name!r}; there is one packet_in and one "
                    "packet_out at most"
                )
            names = [one.name for one in message.metadata]
            fields = []
            widths = []
            known = self._data_plane.header_widths(names)
            for one, width in zip(message.metadata, known, strict=True):
                value_type = self._type(f"field {one.name} of {name}", one, width)
                fields.append(Param(one.id, one.name, value_type))
                translated = bool(one.type_name.name and width)
                widths.append(width if translated else value_type.width)
            _check_ids(name, fields)
            headers[name] = PacketHeader(name, tuple(fields), tuple(widths))
        return headers


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


def _check_ids(what: str, parts: Iterable[Any]) -> None:
    seen: set[int] = set()
    for part in parts:
        if part.id == 0 or part.id in seen:
            raise invalid(
                f"P4Info: {what}: {part.name!r} has id {part.id}; ids are above 0, each once"
            )
        seen.add(part.id)


def _look_up(kind: str, wanted: int, known: Mapping[int, _T]) -> _T:
    found = known.get(wanted)
    if found is None:
        names = listed((f"{thing.name} ({thing.id})" for thing in known.values()), known)
        raise invalid(f"no {kind} has id {wanted}; there are {names}")
    return found


def _role(preamble: Any) -> str:
    """The role that an object belongs to by ``@p4runtime_role``; empty: to every role."""
    for annotation in preamble.annotations:
        found = _ROLE.match(annotation)
        if found:
            return found.group(1)
    for structured in preamble.structured_annotations:
        if structured.name == "p4runtime_role":
            for expression in structured.expression_list.expressions:
                return str(expression.string_value)
    return ""


def _identity(preamble: Any) -> tuple[int, str, str]:
    """Id, name and role."""
    return preamble.id, preamble.name, _role(preamble)


def _profile(message: Any) -> Profile:
    by_members = message.WhichOneof("selector_size_semantics") == "sum_of_members"
    return Profile(
        *_identity(message.preamble),
        message.with_selector,
        max(message.max_group_size, 0),
        by_members,
        message.sum_of_members.max_member_weight if by_members else 0,
    )


def _counter(message: Any) -> Array:
    return Array(*_identity(message.preamble), message.size)


def _meter(message: Any, size: int) -> Meter:
    return Meter(*_identity(message.preamble), size, message.spec.type)


def _register(message: Any) -> Register:
    return Register(*_identity(message.preamble), message.size, message.type_spec)


def _digest(message: Any) -> Digest:
    return Digest(*_identity(message.preamble), message.type_spec)


def _check_program(message: Any, data_plane: DataPlane) -> None:
    """Raise INVALID_ARGUMENT where a P4Info is not that of its BMv2 JSON.

    Some actions, counters and so on that the JSON does not have are let pass: compilers drop what
    nothing uses.
    """
    things = (thing.preamble.name for kind in _DROPPED for thing in getattr(message, kind))
    foreign = [name for name in things if not data_plane.knows(name)]
    if len(foreign) > MOST_FOREIGN:
        raise _not_of_one_program(
            f"{len(foreign)} objects of the P4Info are not in the BMv2 JSON, {MOST_FOREIGN} may "
            f"have been dropped: {listed(foreign, foreign)}"
        )
    for table in message.tables:
        name = table.preamble.name
        fields = data_plane.key_fields(name)
        if fields is None:
            raise _not_of_one_program(f"the P4Info has table {name}, the BMv2 JSON does not")
        _check_count(f"table {name}", "key fields", len(table.match_fields), fields)
    for action in message.actions:
        name = action.preamble.name
        params = data_plane.params(name)
        if params is not None:
            _check_count(f"action {name}", "parameters", len(action.params), params)


def _check_count(what: str, parts: str, described: int, present: int) -> None:
    if described != present:
        raise _not_of_one_program(
            f"{what} has {described} {parts} in the P4Info and {present} in the BMv2 JSON"
        )


def _not_of_one_program(difference: str) -> Refusal:
    return invalid(
        f"P4Info and p4_device_config are not of one program: {difference}; compile both together"
    )
