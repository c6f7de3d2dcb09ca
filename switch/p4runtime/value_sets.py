"""Parser value sets (specification section "ValueSetEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.switch.messages import MODIFY, p4runtime_pb2
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.keys import decode_keys, encode_keys
from weft.switch.p4runtime.refusals import already_exists, exhausted, invalid


def write_value_set(device: Device, kind: int, message: Any) -> None:
    """Replace all members of a value set; only MODIFY."""
    if kind != MODIFY:
        raise invalid("a value set can only be modified, neither inserted nor deleted")
    value_set = device.info.value_sets.find(message.value_set_id)
    if len(message.members) > value_set.size:
        raise exhausted(
            f"{value_set.label} has room for {value_set.size} members, not {len(message.members)}"
        )
    members = [decode_keys(value_set, member.match) for member in message.members]
    if len(set(members)) < len(members):
        raise already_exists(f"{value_set.label}: the same member twice")
    device.control.set_value_set(value_set.name, members)


def read_value_sets(device: Device, query: Any) -> Iterator[Any]:
    """One value set with all its members, or (id 0) all of them."""
    if query.members:
        raise invalid("a query for value sets selects by id only: leave the members out")
    for value_set in device.info.value_sets.chosen(query.value_set_id):
        entry = p4runtime_pb2.ValueSetEntry(value_set_id=value_set.id)
        for member in device.control.value_set(value_set.name):
            entry.members.add(match=encode_keys(value_set, member))
        yield entry
