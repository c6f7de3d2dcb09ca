"""What a P4Info says, in the form in which the server looks things up."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from weft.base.errors import refuse
from weft.switch.messages import p4info_pb2
from weft.switch.p4runtime.p4info_objects import (
    KINDS,
    ActionInfo,
    ArrayInfo,
    DigestInfo,
    MatchField,
    MatchKind,
    MeterInfo,
    Objects,
    PacketHeader,
    Param,
    ProfileInfo,
    RegisterInfo,
    TableInfo,
    Translations,
    ValueSetInfo,
)
from weft.switch.p4runtime.refusals import Refusal, invalid, listed

PACKET_HEADERS = ("packet_in", "packet_out")

MOST_FOREIGN = 1024
"""The most objects of a P4Info that its BMv2 JSON may lack."""

_DROPPED = (
    "actions", "action_profiles", "counters", "direct_counters", "meters", "direct_meters",
    "registers", "value_sets", "digests",
)  # fmt: skip

_ROLE = re.compile(r'@p4runtime_role\s*\(\s*"([^"]*)"\s*\)')


_NAMED = ("counter_arrays", "meter_arrays", "register_arrays", "learn_lists", "parse_vsets")


class DataPlane:
    """What knows the names of a program's objects, and the widths of its key fields, parameters and
    headers."""

    tables: Mapping[str, Sequence[Any]]
    """The widths of each table's key fields."""
    actions: Mapping[str, Sequence[Any]]
    """The widths of each action's parameters."""
    filled_tables: set[str]
    """The tables that only a client can fill: with a key, and without entries of the program."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        """Raise Refusal (INVALID_ARGUMENT) for what is not BMv2 JSON; the engine checks the
        rest."""
        try:
            self._headers = {
                kind["name"]: [(str(field[0]), field[1]) for field in kind["fields"]]
                for kind in program.get("header_types", [])
            }
            types = {one["name"]: one["header_type"] for one in program.get("headers", [])}
            self.tables = {
                table["name"]: [
                    1 if key["match_type"] == "valid" else self._width(types, key["target"])
                    for key in table.get("key", [])
                ]
                for pipeline in program["pipelines"]
                for table in pipeline["tables"]
            }
            self.filled_tables = {
                table["name"]
                for pipeline in program["pipelines"]
                for table in pipeline["tables"]
                if table.get("key") and not table.get("entries")
            }
            self.actions = {
                action["name"]: [data["bitwidth"] for data in action["runtime_data"]]
                for action in program.get("actions", [])
            }
            profiles = [
                profile
                for pipeline in program["pipelines"]
                for profile in pipeline.get("action_profiles", [])
            ]
            others = [program.get(kind, []) for kind in _NAMED]
            self._others = {str(one["name"]) for some in (profiles, *others) for one in some}
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise invalid("p4_device_config: not BMv2 JSON, as it has no tables") from error

    def _width(self, types: Mapping[str, str], target: Any) -> int:
        header, field = target
        fields = self._headers.get(types.get(header, ""), [])
        widths = (width for name, width in fields if name == field and isinstance(width, int))
        return next(widths, 0)

    def knows(self, name: str) -> bool:
        """Return whether a table, action, profile, counter, meter, register, digest or value set
        has that name."""
        return name in self.tables or name in self.actions or name in self._others

    def header_widths(self, names: Sequence[str]) -> list[int]:
        """Return the bits of the fields in the header type that has fields of just these names, or
        0 for each of them if there is none."""
        for fields in self._headers.values():
            known = [(name, width) for name, width in fields if not name.startswith("_padding")]
            if [name for name, _ in known] == list(names):
                widths = [width for _, width in known]
                return [width_at(widths, position) for position in range(len(names))]
        return [0] * len(names)


def width_at(widths: Sequence[Any], position: int) -> int:
    """Return one of some widths in bits, 0 if it is unknown."""
    if position < len(widths) and isinstance(widths[position], int):
        return min(max(int(widths[position]), 0), 1 << 16)
    return 0


class ProgramInfo:
    """All objects of a P4Info, by id and by name.

    ``program`` is the BMv2 JSON that belongs to the P4Info. Raises Refusal (INVALID_ARGUMENT) for a
    P4Info that contradicts itself or the program, or asks for what the server does not do.
    """

    def __init__(
        self, message: Any, program: Mapping[str, Any], translations: Translations
    ) -> None:
        self.message = message
        self._translations = translations
        self._data_plane = DataPlane(program)
        _check_program(message, self._data_plane)
        self.actions = Objects("action", map(self._action, message.actions))
        counters = {counter.preamble.id for counter in message.direct_counters}
        meters = Objects("direct meter", (_meter(meter, 0) for meter in message.direct_meters))
        self.tables = Objects("table", (self._table(t, counters, meters) for t in message.tables))
        self.profiles = Objects("action profile", map(_profile, message.action_profiles))
        self.counters = Objects(
            "counter", (ArrayInfo(*_identity(one.preamble), one.size) for one in message.counters)
        )
        self.meters = Objects("meter", (_meter(meter, meter.size) for meter in message.meters))
        self.registers = Objects(
            "register",
            (
                RegisterInfo(*_identity(one.preamble), one.size, one.type_spec)
                for one in message.registers
            ),
        )
        self.value_sets = Objects("value set", map(self._value_set, message.value_sets))
        self.digests = Objects(
            "digest",
            (DigestInfo(*_identity(one.preamble), one.type_spec) for one in message.digests),
        )
        self.packet_headers = self._packet_headers()
        self._profile_tables: dict[int, list[TableInfo]] = {}
        for table in self.tables.values():
            self._profile_tables.setdefault(table.profile_id, []).append(table)
            refuse(
                table.profile_id and table.profile_id not in self.profiles,
                f"P4Info: table {table.name} has unknown action profile {table.profile_id}",
                invalid,
            )

    def tables_of(self, profile: ProfileInfo) -> list[TableInfo]:
        """Return the tables that an action profile implements."""
        return self._profile_tables.get(profile.id, [])

    # -- from messages

    def _type(self, what: str, message: Any, data_width: int) -> Any:
        return self._translations.value_type(what, message, self.message.type_info, data_width)

    def _action(self, message: Any) -> ActionInfo:
        name = message.preamble.name
        widths = self._data_plane.actions.get(name, ())
        params = (
            Param(
                param.id,
                param.name,
                self._type(
                    f"parameter {param.name} of action {name}",
                    param,
                    width_at(widths, position),
                ),
            )
            for position, param in enumerate(message.params)
        )
        return ActionInfo(message.preamble.id, name, _numbered(f"action {name}", params))

    def _field(self, what: str, match: Any, data_width: int) -> MatchField:
        kind = KINDS.get(match.match_type)
        if kind is None:
            raise invalid(
                f"P4Info: key field {match.name} of {what} has a match kind that is none of "
                + ", ".join(kind.value for kind in MatchKind)
            )
        value_type = self._type(f"key field {match.name} of {what}", match, data_width)
        refuse(
            value_type.strings is not None and kind in (MatchKind.LPM, MatchKind.RANGE),
            f"P4Info: key field {match.name} of {what} is translated to strings: it cannot be "
            f"matched by {kind.value}",
            invalid,
        )
        return MatchField(match.id, match.name or str(match.id), value_type, kind)

    def _table(
        self, message: Any, counters: set[int], meters: Mapping[int, MeterInfo]
    ) -> TableInfo:
        name = message.preamble.name
        widths = self._data_plane.tables.get(name, ())
        fields = (
            self._field(f"table {name}", match, width_at(widths, position))
            for position, match in enumerate(message.match_fields)
        )
        resources = set(message.direct_resource_ids)
        return TableInfo(
            *_identity(message.preamble),
            fields=_numbered(f"table {name}", fields),
            scopes={  # @hidden actions are not described, but those of a table are named, as by p4c
                reference.id: reference.scope
                for reference in message.action_refs
                if reference.id in self.actions
            },
            profile_id=message.implementation_id,
            const_default=message.const_default_action_id != 0,
            is_const=message.is_const_table,
            preinitialised=message.has_initial_entries and not message.is_const_table,
            ages=message.idle_timeout_behavior == p4info_pb2.Table.NOTIFY_CONTROL,
            direct_counter=min(resources & counters, default=0),
            direct_meter=meters.get(min(resources & set(meters), default=0)),
        )

    def _value_set(self, message: Any) -> ValueSetInfo:
        what = f"value set {message.preamble.name}"
        fields = (self._field(what, match, match.bitwidth) for match in message.match)
        return ValueSetInfo(*_identity(message.preamble), _numbered(what, fields), message.size)

    def _packet_headers(self) -> dict[str, PacketHeader]:
        headers: dict[str, PacketHeader] = {}
        for message in self.message.controller_packet_metadata:
            name = message.preamble.name
            refuse(
                name not in PACKET_HEADERS or name in headers,
                f"P4Info: controller_packet_metadata {name!r}; there is one packet_in and one "
                "packet_out at most",
                invalid,
            )
            known = self._data_plane.header_widths([one.name for one in message.metadata])
            parts = list(zip(message.metadata, known, strict=True))
            params = (
                Param(one.id, one.name, self._type(f"field {one.name} of {name}", one, width))
                for one, width in parts
            )
            fields = _numbered(name, params)
            widths = tuple(
                width if one.type_name.name and width else field.type.width
                for field, (one, width) in zip(fields, parts, strict=True)
            )
            headers[name] = PacketHeader(name, fields, widths)
        return headers


_Part = TypeVar("_Part", MatchField, Param)


def _numbered(what: str, parts: Iterable[_Part]) -> tuple[_Part, ...]:
    """Return the parts of something; raise INVALID_ARGUMENT unless each has an id of its own."""
    found: dict[int, _Part] = {}
    for part in parts:
        refuse(
            part.id == 0 or part.id in found,
            f"P4Info: {what}: {part.name!r} has id {part.id}; ids are above 0, each once",
            invalid,
        )
        found[part.id] = part
    return tuple(found.values())


def _role(preamble: Any) -> str:
    """Return the role that an object belongs to by ``@p4runtime_role``; empty for every role."""
    plain = (found.group(1) for found in map(_ROLE.match, preamble.annotations) if found)
    structured = (
        str(expression.string_value)
        for annotation in preamble.structured_annotations
        if annotation.name == "p4runtime_role"
        for expression in annotation.expression_list.expressions
    )
    return next(chain(plain, structured), "")


def _identity(preamble: Any) -> tuple[int, str, str]:
    """Return the id, name and role of an object."""
    return preamble.id, preamble.name, _role(preamble)


def _profile(message: Any) -> ProfileInfo:
    by_members = message.WhichOneof("selector_size_semantics") == "sum_of_members"
    return ProfileInfo(
        *_identity(message.preamble),
        message.with_selector,
        max(message.max_group_size, 0),
        by_members,
        message.sum_of_members.max_member_weight if by_members else 0,
    )


def _meter(message: Any, size: int) -> MeterInfo:
    return MeterInfo(*_identity(message.preamble), size, message.spec.type)


def _check_program(message: Any, data_plane: DataPlane) -> None:
    """Raise INVALID_ARGUMENT if a P4Info and a BMv2 JSON are not of one program.

    The JSON may lack some actions, counters and so on: compilers drop what nothing uses.
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
        refuse(
            name not in data_plane.tables,
            f"the P4Info has table {name}, the BMv2 JSON does not",
            _not_of_one_program,
        )
        _check_count(
            f"table {name}", "key fields", len(table.match_fields), len(data_plane.tables[name])
        )
    untold = data_plane.filled_tables - {table.preamble.name for table in message.tables}
    if untold:
        raise _not_of_one_program(
            f"the BMv2 JSON has table {min(untold, default='')}, the P4Info does not"
        )
    for action in message.actions:
        name = action.preamble.name
        if name in data_plane.actions:
            _check_count(
                f"action {name}", "parameters", len(action.params), len(data_plane.actions[name])
            )


def _check_count(what: str, parts: str, described: int, present: int) -> None:
    refuse(
        described != present,
        f"{what} has {described} {parts} in the P4Info and {present} in the BMv2 JSON",
        _not_of_one_program,
    )


def _not_of_one_program(difference: str) -> Refusal:
    return invalid(
        f"P4Info and p4_device_config are not of one program: {difference}; compile both together"
    )
