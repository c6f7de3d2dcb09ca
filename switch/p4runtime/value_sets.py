"""Parser value sets (specification section "ValueSetEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.rpc import code_pb2

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.keys import decode_keys, encode_keys
from weft.switch.p4runtime.refusals import Refusal, invalid

MODIFY = p4runtime_pb2.Update.MODIFY


def write_value_set(device: Device, kind: int, message: Any) -> None:
    """Replace all members of a value set; only MODIFY."""
    if kind != MODIFY:
        raise invalid("a value set can only be modified, neither inserted nor deleted")
    value_set = device.info.value_set(message.value_set_id)
    if len(message.members) > value_set.size:
        raise Refusal(
            code_pb2.RESOURCE_EXHAUSTED,
            f"{value_set.label} has room for {value_set.size} members, not {len(message.members)}",
        )
    members = [decode_keys(value_set, member.match) for member in message.members]
    if len(set(members)) < len(members):
        raise Refusal(code_pb2.ALREADY_EXISTS, f"{value_set.label}: the same member twice")
    device.control.set_value_set(value_set.name, members)


def read_value_sets(device: Device, query: Any) -> Iterator[Any]:
    """One value set with all its members, or (id 0) all of them."""
    info = device.info
    if query.members:
        raise invalid("a query for value sets selects by id only: leave the members out")
    value_sets = (
        [info.value_set(query.value_set_id)] if query.value_set_id else info.value_sets.values()
    )
    for value_set in value_sets:
        entity = p4runtime_pb2.Entity()
        message = entity.value_set_entry
        message.value_set_id = value_set.id
        for member in device.control.value_set(value_set.name):
            encode_keys(value_set, member, message.members.add().match)
        yield entity
