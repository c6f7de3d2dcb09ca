"""What a switch tells its controllers on its own: packets, digests, idle entries.

P4Runtime specification, sections "Packet I/O", "DigestEntry", "Table Idle Timeout Notification".
No clock is read here and nothing is sent: whoever calls says what time it is, holds
``device.lock``, and hands the messages to the primaries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from weft.switch.engine.control import DigestEvent, IdleTimeout, NotFound, PacketIn, TableEntry
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.device import Device, EntryId
from weft.switch.p4runtime.digest_entries import digest_lists
from weft.switch.p4runtime.packets import unpack
from weft.switch.p4runtime.tables import encode_identity, fill_opaque


@dataclass(frozen=True)
class Message:
    """A ``StreamMessageResponse``, and the role whose primary it is for; empty for all roles."""

    role: str
    response: Any


def collect(device: Device, now_ns: int, epoch_ns: int) -> list[Message]:
    """Return what is to be told at ``now_ns`` of any clock; ``epoch_ns`` is the time since 1970."""
    events = device.switch.take_events()
    if device.running is None:
        return []
    messages = []
    idle: list[TableEntry] = []
    for event in events:
        match event:
            case PacketIn():
                packet = unpack(device.running.info.packet_headers.get("packet_in"), event.frame)
                if packet is not None:
                    messages.append(Message("", p4runtime_pb2.StreamMessageResponse(packet=packet)))
            case DigestEvent():
                device.running_notes.digests.learn(event.digest, event.values, now_ns)
            case IdleTimeout():
                idle.append(event.entry)
    idle += _idle_again(device, now_ns)
    messages += _idle_notifications(device, idle, now_ns, epoch_ns)
    messages += [Message(*one) for one in digest_lists(device, now_ns, epoch_ns)]
    return messages


def deadline(device: Device) -> int | None:
    """Return when ``collect`` is to be called even if no event waits; None for never."""
    notes = device.running_notes
    times = (*notes.idle.values(), notes.digests.deadline())
    return min((time for time in times if time is not None), default=None)


def _idle_again(device: Device, now_ns: int) -> list[TableEntry]:
    """Return the entries that were reported and have had no hit for another timeout since."""
    again = []
    for entry_id, due_ns in list(device.running_notes.idle.items()):
        if due_ns > now_ns:
            continue
        del device.running_notes.idle[entry_id]
        name, keys, priority = entry_id
        assert keys is not None
        try:
            entry = device.switch.find_entry(name, keys, priority)
            if 0 < 2 * entry.idle_timeout_ns <= device.switch.idle_ns(name, keys, priority):
                again.append(entry)
        except NotFound:
            continue
    return again


def _idle_notifications(
    device: Device, entries: Iterable[TableEntry], now_ns: int, epoch_ns: int
) -> list[Message]:
    """Return a message for each table that has idle entries, with all of these."""
    found: dict[str, list[Any]] = {}
    tables = device.running_info.tables.by_name
    notes = device.running_notes
    for entry in entries:
        if entry.table in tables:
            entry_id: EntryId = (entry.table, entry.keys, entry.priority)
            message = encode_identity(tables[entry.table], entry_id)
            message.idle_timeout_ns = entry.idle_timeout_ns
            fill_opaque(notes, entry_id, message)
            found.setdefault(entry.table, []).append(message)
            notes.idle[entry_id] = now_ns + entry.idle_timeout_ns
    told = p4runtime_pb2.IdleTimeoutNotification
    return [
        Message(
            tables[name].role,
            p4runtime_pb2.StreamMessageResponse(
                idle_timeout_notification=told(timestamp=epoch_ns, table_entry=messages)
            ),
        )
        for name, messages in found.items()
    ]
