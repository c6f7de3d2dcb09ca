"""Conversion of entities to P4Runtime messages and back to text, by the names of a P4Info."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, cast

from weft.base.errors import InputError
from weft.controller.entities import (
    Action,
    DefaultAction,
    Entity,
    PlannedEntry,
    PlannedGroup,
    PlannedMember,
)
from weft.switch.engine.control.entities import (
    Exact,
    GroupTarget,
    Key,
    Lpm,
    MemberTarget,
    Range,
    TableEntry,
    Ternary,
)
from weft.switch.messages import p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime.bytestrings import encode


class EntityMessages:
    """The messages of entities for one program. Raises InputError for a name that the program has
    not."""

    def __init__(self, p4info: Any) -> None:
        self._tables = {table.preamble.name: table for table in p4info.tables}
        self._actions = {action.preamble.name: action for action in p4info.actions}
        self._profiles = {one.preamble.name: one.preamble.id for one in p4info.action_profiles}
        self._counters = {one.preamble.name: one.preamble.id for one in p4info.counters}
        self._fields = {
            name: {match.name: match for match in table.match_fields}
            for name, table in self._tables.items()
        }
        self._params = {
            name: {param.name: param.id for param in action.params}
            for name, action in self._actions.items()
        }
        self._decoded: dict[int, tuple[PlannedEntry, TableEntry]] = {}
        """By the `id` of the entry, which is kept with it."""

    def fill(self, message: Any, entity: Entity) -> None:
        """Make an empty ``p4.v1.Entity`` an entity; in its place, as a copy takes longer."""
        if isinstance(entity, PlannedEntry):
            self._fill_entry(entity, message.table_entry)
        elif isinstance(entity, DefaultAction):
            filled = message.table_entry
            filled.table_id = self._find("table", entity.table, self._tables).preamble.id
            filled.is_default_action = True
            if entity.action is not None:
                self._fill_action(entity.action, filled.action.action)
        elif isinstance(entity, PlannedMember):
            member = message.action_profile_member
            member.action_profile_id = self._find("action profile", entity.profile, self._profiles)
            member.member_id = entity.member_id
            self._fill_action(entity.action, member.action)
        elif isinstance(entity, PlannedGroup):
            group = message.action_profile_group
            group.action_profile_id = self._find("action profile", entity.profile, self._profiles)
            group.group_id = entity.group_id
            for member_id, weight in entity.members:
                group.members.add(member_id=member_id, weight=weight)
        else:
            group = message.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = entity.group_id
            for port, instance in entity.replicas:
                # The older of two ways to say it, which every server understands.
                group.replicas.add(egress_port=port, instance=instance)

    def decoded(self, entity: PlannedEntry, decode: Callable[[Any], TableEntry]) -> TableEntry:
        """Return what switches make of an entry's message, which is the same for all that run the
        program: the same object is decoded once."""
        known = self._decoded.get(id(entity))
        if known is None:
            message = p4runtime_pb2.Entity()
            self.fill(message, entity)
            known = self._decoded[id(entity)] = entity, decode(message.table_entry)
        return known[1]

    def forget(self) -> None:
        """Keep no entries: those of later plans are others."""
        self._decoded.clear()

    def counter_id(self, counter: str) -> int:
        """Return the id of an indirect counter."""
        return cast(int, self._find("counter", counter, self._counters))

    def _fill_entry(self, entity: PlannedEntry, message: Any) -> None:
        message.table_id = self._find("table", entity.table, self._tables).preamble.id
        message.priority = entity.priority
        message.idle_timeout_ns = entity.idle_timeout_ns
        fields = self._fields[entity.table]
        for name, match in entity.match:
            field = self._find(f"key field of table {entity.table}", name, fields)
            fill_match(f"{entity.table}, {name}", match, field, message.match.add())
        if isinstance(entity.target, MemberTarget):
            message.action.action_profile_member_id = entity.target.member_id
        elif isinstance(entity.target, GroupTarget):
            message.action.action_profile_group_id = entity.target.group_id
        else:
            self._fill_action(entity.target, message.action.action)

    def _find(self, kind: str, name: str, known: Mapping[str, Any]) -> Any:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            more = f"; the nearest it has is {near[0]}" if near else ""
            raise InputError(f"the switches' program has no {kind} {name!r}{more}")
        return known[name]

    def _fill_action(self, action: Action, message: Any) -> None:
        message.action_id = self._find("action", action.name, self._actions).preamble.id
        params = self._params[action.name]
        for name, value in action.params:
            param_id = self._find(f"parameter of action {action.name}", name, params)
            message.params.add(param_id=param_id, value=encode(value))


_KINDS = p4info_pb2.MatchField
_FORMS = {
    (Exact, _KINDS.EXACT): "exact",
    (Exact, _KINDS.OPTIONAL): "optional",
    (Lpm, _KINDS.LPM): "lpm",
    (Ternary, _KINDS.TERNARY): "ternary",
    (Range, _KINDS.RANGE): "range",
}
"""By class of match and the program's kind of key field: the field of a ``FieldMatch`` that is
filled."""


def fill_match(what: str, match: Key, field: Any, message: Any) -> None:
    """Fill an empty ``FieldMatch`` of a key field; ``what`` names it in messages. Raises InputError
    for a match of another kind than the field's."""
    form = _FORMS.get((type(match), field.match_type))
    if form is None:
        kind = _KINDS.MatchType.Name(field.match_type)
        raise InputError(f"{what}: {type(match).__name__} where the program has {kind}")
    message.field_id = field.id
    filled = getattr(message, form)
    for name, value in vars(match).items():
        if name == "prefix_length":
            filled.prefix_len = value
        else:
            setattr(filled, name, encode(value))
