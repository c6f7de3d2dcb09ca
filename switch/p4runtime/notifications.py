"""What a switch tells its controllers on its own: packets, digests, idle entries; and the entities
by which they ask for digests.

P4Runtime specification, sections "ControllerPacketMetadata", "Packet I/O", "DigestEntry", "Table
Idle Timeout Notification". Metadata of packets are fields of messages, and a header in front of the
frame, which is packed bit by bit in the order of the P4Info, and filled with zeros to a whole byte,
as BMv2's server does.
No clock is read here and nothing is sent: whoever calls says what time it is, holds
``device.lock``, and hands the messages to the primaries.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.control.entities import DigestEvent, IdleTimeout, PacketIn, TableEntry
from weft.switch.engine.control.errors import NotFound
from weft.switch.messages import DELETE, INSERT, p4runtime_pb2
from weft.switch.p4runtime.data_values import encode_data
from weft.switch.p4runtime.device import Device, EntryId
from weft.switch.p4runtime.digests import Limits
from weft.switch.p4runtime.keys import by_id
from weft.switch.p4runtime.p4info_objects import NO_HEADER, PacketHeader
from weft.switch.p4runtime.refusals import Refusal, already_exists, invalid, not_found
from weft.switch.p4runtime.tables import encode_identity, fill_opaque

PADDING = ("_pad", "pad")
"""The beginnings of the names of fields that only fill a header to whole bytes."""
_log = logging.getLogger(__name__)


def pack(header: PacketHeader, message: Any) -> bytes:
    """Return the frame of a ``PacketOut``.

    Raises Refusal (INVALID_ARGUMENT) unless each field of the header is given once, and nothing
    else; the specification wants such packets dropped. Only padding may be left out, as clients
    written for BMv2 do it.
    """
    given = by_id("packet_out", "metadata", header.fields, message.metadata, "metadata_id")
    bits = 0
    for field, width in zip(header.fields, header.widths, strict=True):
        what = f"packet_out, {field.name} ({field.id})"
        if field.id not in given:
            if field.name.lower().startswith(PADDING):
                bits <<= width
                continue
            raise invalid(f"{what} is missing")
        try:
            value = field.type.decode(given[field.id].value, what)
        except Refusal as refusal:
            raise invalid(refusal.message) from None
        if value >> width:
            raise invalid(f"{what}: {value:#x} does not fit the data plane's bit<{width}>")
        bits = bits << width | value
    size = header.size_bytes
    bits <<= 8 * size - sum(header.widths)
    return bits.to_bytes(size, "big") + bytes(message.payload)


def unpack(header: PacketHeader, frame: bytes) -> Any | None:
    """Return the ``PacketIn`` of a frame, or None if the frame is too short for its header."""
    size = header.size_bytes
    if len(frame) < size:
        return None
    message = p4runtime_pb2.PacketIn(payload=frame[size:])
    bits = int.from_bytes(frame[:size], "big")
    left = 8 * size
    for field, width in zip(header.fields, header.widths, strict=True):
        left -= width
        value = bits >> left & ((1 << width) - 1)
        message.metadata.add(metadata_id=field.id, value=field.type.encode(value))
    return message


def write_digest(device: Device, kind: int, message: Any) -> None:
    """Switch a digest on (INSERT), off (DELETE), or change its limits (MODIFY)."""
    digest = device.info.digests.find(message.digest_id)
    learners = device.notes.digests.learners
    refuse(
        kind == INSERT and digest.name in learners,
        f"digest {digest.name} is switched on already",
        already_exists,
    )
    refuse(
        kind != INSERT and digest.name not in learners,
        f"digest {digest.name} is not switched on; INSERT it first",
        not_found,
    )
    if kind == DELETE:
        del learners[digest.name]
    else:
        limits = Limits(*(getattr(message.config, one.name) for one in fields(Limits)))
        refuse(
            min(astuple(limits)) < 0, f"digest {digest.name}: a negative limit in {limits}", invalid
        )
        device.notes.digests.configure(digest.name, limits)


def read_digests(device: Device, query: Any) -> Iterator[Any]:
    """Yield one digest's limits, or (id 0) those of all digests that are switched on."""
    for digest in device.info.digests.chosen(query.digest_id):
        if (learner := device.notes.digests.learners.get(digest.name)) is not None:
            config = p4runtime_pb2.DigestEntry.Config(**asdict(learner.limits))
            yield p4runtime_pb2.DigestEntry(digest_id=digest.id, config=config)


def acknowledge(device: Device, message: Any) -> None:
    """Take a ``DigestListAck``; raise INVALID_ARGUMENT for an unknown digest."""
    digest = device.running_info.digests.find(message.digest_id)
    if (learner := device.running_notes.digests.learners.get(digest.name)) is not None:
        learner.acknowledge(message.list_id)


def digest_lists(device: Device, now_ns: int, epoch_ns: int) -> Iterator[tuple[str, Any]]:
    """Yield the ``StreamMessageResponse`` messages that are due, each with the role of its
    digest."""
    info = device.running_info
    for name, list_id, messages in device.running_notes.digests.lists(now_ns):
        digest = info.digests.by_name[name]
        told = p4runtime_pb2.DigestList(digest_id=digest.id, list_id=list_id, timestamp=epoch_ns)
        try:
            for values in messages:
                encode_data(digest.type_spec, info.message.type_info, iter(values), told.data.add())
        except (Refusal, StopIteration) as error:
            _log.error("digest %s does not fit its P4Info: %s", name, error)
            continue
        yield digest.role, p4runtime_pb2.StreamMessageResponse(digest=told)


@dataclass(frozen=True)
class RoleMessage:
    """A ``StreamMessageResponse`` is for the primary of a role, or with an empty role for all of
    them."""

    role: str
    response: Any


def collect(device: Device, now_ns: int, epoch_ns: int) -> list[RoleMessage]:
    """Return what is to be told at ``now_ns`` of any clock; ``epoch_ns`` is the time since 1970."""
    events = device.switch.take_events()
    if device.running is None:
        return []
    messages = []
    idle: list[TableEntry] = []
    for event in events:
        match event:
            case PacketIn():
                header = device.running.info.packet_headers.get("packet_in", NO_HEADER)
                if (packet := unpack(header, event.frame)) is not None:
                    messages.append(
                        RoleMessage("", p4runtime_pb2.StreamMessageResponse(packet=packet))
                    )
            case DigestEvent():
                device.running_notes.digests.learn(event.digest, event.values, now_ns)
            case IdleTimeout():
                idle.append(event.entry)
    idle += _idle_again(device, now_ns)
    return [
        *messages,
        *_idle_notifications(device, idle, now_ns, epoch_ns),
        *(RoleMessage(*one) for one in digest_lists(device, now_ns, epoch_ns)),
    ]


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
            if 0 < 2 * entry.idle_timeout_ns <= device.switch.values.idle_ns(name, keys, priority):
                again.append(entry)
        except NotFound:
            continue
    return again


def _idle_notifications(
    device: Device, entries: Iterable[TableEntry], now_ns: int, epoch_ns: int
) -> list[RoleMessage]:
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
        RoleMessage(
            tables[name].role,
            p4runtime_pb2.StreamMessageResponse(
                idle_timeout_notification=told(timestamp=epoch_ns, table_entry=messages)
            ),
        )
        for name, messages in found.items()
    ]
