"""Programs and P4Infos that are almost right, for the tests of the P4Runtime server."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Kind
from tests.support.p4runtime_support import KINDS

WRONG: list[Any] = [
    None, True, False, 0, -1, 1, 1 << 31, 1 << 63, 1 << 70, 1.5, 1e308, "", "x", "0x", "0xzz",
    "0x" + "f" * 30, [], {}, [[]], [0], [None], {"name": 0}, "a" * 300,
]  # fmt: skip
"""Values for any place in a JSON."""


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place within a JSON: what holds it, and its key or index."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def mutate_json(document: Any, random: Random) -> Any:
    """A JSON with one to four places changed: of another type, missing, doubled, moved, off."""
    document = deepcopy(document)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        places = list(_places(document))
        if not places:
            break
        holder, key = random.choice(places)
        other, other_key = random.choice(places)
        old, copied = holder[key], deepcopy(other[other_key])
        choice = random.random()
        if choice < 0.5:
            holder[key] = deepcopy(random.choice(WRONG))
        elif choice < 0.65:
            del holder[key]
        elif choice < 0.8:
            holder[key] = copied
        elif isinstance(old, int):
            holder[key] = int(old) + random.choice([-1, 1, 100, -100, 1 << 20])
        elif isinstance(holder, list):
            holder.insert(key, deepcopy(old))
    return document


def repeats(message: Any, field: Any) -> bool:
    """Whether a field of a message may occur several times. How descriptors say it differs from one
    version of protobuf to another."""
    return hasattr(getattr(message, field.name), "extend")


def _messages(message: Any) -> list[Any]:
    """A message and all within it."""
    found = [message]
    for field, value in message.ListFields():
        if field.type != Kind.TYPE_MESSAGE:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = [value[key] for key in sorted(value)]
        else:
            inner = list(value) if repeats(message, field) else [value]
        for one in inner:
            if hasattr(one, "ListFields"):
                found += _messages(one)
    return found


def mutate_info(info: Any, random: Random) -> Any:
    """A P4Info with one to four fields changed."""
    changed = type(info)()
    changed.CopyFrom(info)
    for _ in range(random.choice([1, 1, 2, 4])):
        message = random.choice(_messages(changed))
        fields = list(message.DESCRIPTOR.fields)
        present = [field for field, _ in message.ListFields()]
        if not fields:
            continue
        field = random.choice(present if present and random.random() < 0.8 else fields)
        if random.random() < 0.3:
            message.ClearField(field.name)
        elif field.type != Kind.TYPE_MESSAGE:
            _change_scalar(message, field, changed, random)
        elif not field.message_type.GetOptions().map_entry:
            _change_message(message, field, random)
    return changed


def _change_message(message: Any, field: Any, random: Random) -> None:
    value = getattr(message, field.name)
    if not repeats(message, field):
        value.SetInParent()
    elif not value:
        value.add()
    elif random.random() < 0.5:
        del value[random.randrange(len(value))]
    else:
        value.add().CopyFrom(random.choice(list(value)))


def _change_scalar(message: Any, field: Any, info: Any, random: Random) -> None:
    ids = [one.preamble.id for kind in KINDS for one in getattr(info, kind)] or [1]
    numbers = [0, 1, 2, 3, 9, 64, 65, 1024, 1 << 20, (1 << 31) - 1, random.choice(ids)]
    values: dict[int, list[Any]] = {
        Kind.TYPE_STRING: ["", "x", "packet_in", '@p4runtime_role("a")'],
        Kind.TYPE_BYTES: [b"", b"\xff", b"\x01\x02\x03"],
        Kind.TYPE_BOOL: [False, True],
        Kind.TYPE_INT32: [*numbers[:-1], -1, -65],
        Kind.TYPE_INT64: [*numbers, -1, -65, 1 << 40],
    }
    if field.type == Kind.TYPE_ENUM:
        value = random.choice([one.number for one in field.enum_type.values] + [77])
    else:
        value = random.choice(values.get(field.type, numbers))
    if repeats(message, field):
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def fill(message: Any, ids: list[int], random: Random, depth: int = 0) -> None:
    """Set about half of a message's fields, ids to ones that exist."""
    data = [b"", b"\x00", b"\x01", b"\x05", b"\x01\x02", b"\xff\xff", b"\x00" * 9, b"abc"]
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.5:
            continue
        repeated = repeats(message, field)
        for _ in range(random.randint(1, 3) if repeated else 1):
            if field.type == Kind.TYPE_MESSAGE:
                if depth > 5 or field.message_type.GetOptions().map_entry:
                    continue
                inner = getattr(message, field.name)
                inner = inner.add() if repeated else inner
                inner.SetInParent()
                fill(inner, ids, random, depth + 1)
                continue
            value: Any
            if field.type == Kind.TYPE_BYTES:
                value = random.choice(data)
            elif field.type == Kind.TYPE_STRING:
                value = random.choice(["", "a"])
            elif field.type == Kind.TYPE_BOOL:
                value = random.random() < 0.2
            elif field.type == Kind.TYPE_ENUM:
                value = random.choice([one.number for one in field.enum_type.values])
            elif field.name.endswith("_id") and field.name != "field_id":
                value = random.choice([*ids, 1, 2])
            else:
                value = random.choice([0, 1, 1, 2, 3, 5, 9])
            if repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
