"""Match keys, actions and parser value sets: P4Runtime messages to the engine's terms and back.

P4Runtime specification, sections "Match Format", "Action Specification" and "ValueSetEntry". What
comes in may be non-canonical bytestrings; what goes out is canonical, and a field that matches
anything is omitted.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.control.entities import ActionCall, Exact, Key, Lpm, Range, Ternary
from weft.switch.messages import MODIFY, p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.p4info_objects import (
    MatchField,
    MatchKind,
    Param,
    TableInfo,
    ValueSetInfo,
)
from weft.switch.p4runtime.refusals import already_exists, denied, exhausted, invalid, listed

_SCOPES = p4info_pb2.ActionRef


def decode_keys(table: TableInfo | ValueSetInfo, messages: Any) -> tuple[Key, ...]:
    """Return the key of an entry or member, one ``Key`` a field in the order of the table or set.

    Raises Refusal (INVALID_ARGUMENT, OUT_OF_RANGE) that names the table and the field.
    """
    given = by_id(table.label, "key field", table.fields, messages, "field_id")
    return tuple(_decode_key(table, field, given.get(field.id)) for field in table.fields)


def by_id(
    what: str, part: str, parts: Sequence[MatchField | Param], messages: Any, identifier: str
) -> dict[int, Any]:
    """Return messages about the parts of something by the ids of these parts.

    ``identifier`` is the field of a message that has the id. Raises Refusal (INVALID_ARGUMENT) for
    a part that does not exist, and for one that is given twice.
    """
    known = {one.id for one in parts}
    given: dict[int, Any] = {}
    for message in messages:
        number = getattr(message, identifier)
        if number not in known:
            names = listed((f"{one.name} ({one.id})" for one in parts), parts)
            raise invalid(f"{what} has no {part} with id {number}; it has {names}")
        if number in given:
            raise invalid(f"{what}: {part} {number} is given twice")
        given[number] = message
    return given


def _decode_key(table: TableInfo | ValueSetInfo, field: MatchField, message: Any) -> Key:
    what = f"{table.label}, key field {field.name}"
    kind = field.kind
    ones = (1 << field.width) - 1
    if message is None:
        if kind is MatchKind.EXACT:
            raise invalid(f"{what}: missing; an exact field must be given")
        anything: dict[MatchKind, Key] = {MatchKind.LPM: Lpm(0, 0), MatchKind.RANGE: Range(0, ones)}
        return anything.get(kind, Ternary(0, 0))
    found = message.WhichOneof("field_match_type")
    if found != kind.value:
        raise invalid(f"{what}: a match of kind {found or 'none'} where the table has {kind.value}")
    given = getattr(message, kind.value)
    match kind:
        case MatchKind.EXACT:
            return Exact(field.type.decode(given.value, what))
        case MatchKind.OPTIONAL:
            return Ternary(field.type.decode(given.value, what), ones)
        case MatchKind.LPM:
            value = bytestrings.decode(given.value, field.width, what)
            length = given.prefix_len
            if not 0 < length <= field.width:
                raise invalid(
                    f"{what}: prefix length {length} is not in 1 to {field.width}; leave the field "
                    "out to match anything"
                )
            if value & (ones >> length):
                raise invalid(f"{what}: {value:#x}/{length} has bits set beyond the prefix")
            return Lpm(value, length)
        case MatchKind.TERNARY:
            value = field.type.decode(given.value, what)
            mask = bytestrings.decode(given.mask, field.width, f"{what}, mask")
            if mask == 0:
                raise invalid(f"{what}: mask 0; leave the field out to match anything")
            if field.type.strings is not None and mask != ones:
                raise invalid(
                    f"{what}: mask {mask:#x}; of a string all bits match, or leave it out"
                )
            if value & ~mask:
                raise invalid(f"{what}: {value:#x} &&& {mask:#x} has bits set outside the mask")
            return Ternary(value, mask)
        case MatchKind.RANGE:
            low = bytestrings.decode(given.low, field.width, f"{what}, low")
            high = bytestrings.decode(given.high, field.width, f"{what}, high")
            if low > high:
                raise invalid(f"{what}: range from {low:#x} to {high:#x} is empty")
            if low == 0 and high == ones:
                raise invalid(
                    f"{what}: the range is everything; leave the field out to match anything"
                )
            return Range(low, high)


def encode_keys(table: TableInfo | ValueSetInfo, keys: tuple[Key, ...]) -> list[Any]:
    """Return the fields of a key that do not match everything, each as a ``FieldMatch``."""
    messages = []
    for field, key in zip(table.fields, keys, strict=True):
        encoded: dict[str, Any]
        match key:
            case Exact():
                encoded = {"value": field.type.encode(key.value)}
            case Lpm() if key.prefix_length:
                encoded = {"value": bytestrings.encode(key.value), "prefix_len": key.prefix_length}
            case Range() if key.low or key.high != (1 << field.width) - 1:
                encoded = {"low": bytestrings.encode(key.low), "high": bytestrings.encode(key.high)}
            case Ternary() if key.mask:
                encoded = {"value": field.type.encode(key.value)}
                if field.kind is MatchKind.TERNARY:
                    encoded["mask"] = bytestrings.encode(key.mask)
            case _:
                continue
        messages.append(p4runtime_pb2.FieldMatch(field_id=field.id, **{field.kind.value: encoded}))
    return messages


def check_scope(table: TableInfo, info: ProgramInfo, action_id: int, *, default: bool) -> None:
    """Raise Refusal unless an action may stand in a table's entries, or be its default action."""
    scope = table.scopes.get(action_id)
    if scope is None:
        actions = (f"{info.actions[known].name} ({known})" for known in table.scopes)
        names = listed(actions, table.scopes)
        raise invalid(f"{table.label} has no action with id {action_id}; it has {names}")
    if scope == (_SCOPES.TABLE_ONLY if default else _SCOPES.DEFAULT_ONLY):
        raise denied(
            f"{table.label}: action {info.actions[action_id].name} is for "
            + ("entries only, not the default" if default else "the default only, not entries")
        )


def decode_action(info: ProgramInfo, message: Any) -> ActionCall:
    """Return an action with its parameters in the order of the source.

    Raises Refusal (INVALID_ARGUMENT, OUT_OF_RANGE) that names the action and the parameter.
    """
    action = info.actions.find(message.action_id)
    given: dict[int, bytes] = {}
    for param in message.params:
        if param.param_id in given:
            raise invalid(f"action {action.name}: parameter {param.param_id} is given twice")
        given[param.param_id] = param.value
    values = []
    for known in action.params:
        if known.id not in given:
            raise invalid(f"action {action.name}: parameter {known.name} ({known.id}) is missing")
        values.append(
            known.type.decode(given.pop(known.id), f"action {action.name}, parameter {known.name}")
        )
    if given:
        names = listed((f"{param.name} ({param.id})" for param in action.params), action.params)
        raise invalid(f"action {action.name} has no parameter with id {min(given)}; it has {names}")
    return ActionCall(action.name, tuple(values))


def encode_action(info: ProgramInfo, call: ActionCall, message: Any) -> None:
    """Fill in an ``Action`` message for an action of the program."""
    action = info.actions.by_name[call.action]
    message.action_id = action.id
    for param, value in zip(action.params, call.params, strict=True):
        message.params.add(param_id=param.id, value=param.type.encode(value))


def write_value_set(device: Device, kind: int, message: Any) -> None:
    """Replace all members of a parser's value set, which is only allowed to MODIFY."""
    refuse(
        kind != MODIFY, "a value set can only be modified, neither inserted nor deleted", invalid
    )
    value_set = device.info.value_sets.find(message.value_set_id)
    refuse(
        len(message.members) > value_set.size,
        f"{value_set.label} has room for {value_set.size} members, not {len(message.members)}",
        exhausted,
    )
    members = [decode_keys(value_set, member.match) for member in message.members]
    refuse(
        len(set(members)) < len(members),
        f"{value_set.label}: the same member twice",
        already_exists,
    )
    device.control.set_value_set(value_set.name, members)


def read_value_sets(device: Device, query: Any) -> Iterator[Any]:
    """Yield one value set with all its members, or (id 0) all value sets."""
    refuse(
        query.members, "a query for value sets selects by id only: leave the members out", invalid
    )
    for value_set in device.info.value_sets.chosen(query.value_set_id):
        members = device.control.value_set(value_set.name)
        yield p4runtime_pb2.ValueSetEntry(
            value_set_id=value_set.id,
            members=[{"match": encode_keys(value_set, member)} for member in members],
        )
