"""Table entries of one program that many switches are to have: they are decoded once."""

from collections.abc import Callable, Iterable
from typing import Any

from weft.switch.engine.control.entities import TableEntry
from weft.switch.messages import INSERT
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.outcomes import Outcomes
from weft.switch.p4runtime.refusals import as_refusal
from weft.switch.p4runtime.tables import (
    check_insertable,
    check_resources,
    decode_target,
    identity_of,
)


def decode_entry(device: Device, message: Any) -> TableEntry:
    """Return the entry that a message describes, which brings nothing but its target and idle
    timeout. Raises Refusal."""
    table = device.info.tables.find(message.table_id)
    check_resources(table, message)
    check_insertable(table, message, INSERT)
    name, keys, priority = identity_of(table, message)
    target = decode_target(device, table, message.action)
    return TableEntry(name, keys, target, priority, message.idle_timeout_ns)


def insert(device: Device, entries: Iterable[Callable[[], TableEntry]]) -> Outcomes:
    """Insert entries of `decode_entry`, of this device or of one with the same program, each of
    which is asked for when its turn comes, and publish them as one version; return one outcome for
    each."""
    control = device.control
    outcomes = Outcomes()
    for decoded in entries:
        try:
            entry = decoded()
            control.insert_entry(entry)
            device.forget((entry.table, entry.keys, entry.priority))
        except Exception as error:
            outcomes.add(as_refusal(error))
        else:
            outcomes.add(None)
    control.publish()
    return outcomes
