"""Multicast groups and clone sessions (specification section "PacketReplicationEngineEntry")."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.amounts import MOST_REPLICAS
from weft.switch.engine.control import CloneSession, MulticastGroup, Replica
from weft.switch.messages import DELETE, INSERT, MODIFY, p4runtime_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.refusals import exhausted, invalid

PORT_BITS = 9
"""The bits of v1model's port numbers."""
INSTANCE_BITS = 16
"""The bits of v1model's egress_rid."""
SDN_PORT_BITS = 32
SDN_PORT_CPU = 0xFFFFFFFD
"""P4Runtime's number of the CPU port, whatever number it has in the data plane."""


def decode_port(device: Device, what: str, data: bytes) -> int:
    """Return the data plane's number of a port; raises Refusal (OUT_OF_RANGE, INVALID_ARGUMENT)."""
    return _data_plane_port(device, what, bytestrings.decode(data, SDN_PORT_BITS, what))


def _data_plane_port(device: Device, what: str, port: int) -> int:
    if port == SDN_PORT_CPU and device.switch.cpu_port:
        return device.switch.cpu_port
    refuse(port >> PORT_BITS, f"{what}: port {port} does not fit bit<{PORT_BITS}>", invalid)
    return port


_ENTRIES = {
    "multicast_group_entry": ("multicast group", "multicast_group_id"),
    "clone_session_entry": ("clone session", "session_id"),
}
"""For each kind of entry, what messages call it and the field that has its id."""


def write_replication(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a multicast group or a clone session."""
    device.info  # noqa: B018 - a program must run
    found = message.WhichOneof("type")
    refuse(
        found is None,
        "packet_replication_engine_entry is neither multicast group nor session",
        invalid,
    )
    what, identifier = _ENTRIES[found]
    entry = getattr(message, found)
    number = getattr(entry, identifier)
    refuse(not number, f"a {what}'s id cannot be 0", invalid)
    control, written = device.control, device.notes.replication
    does: Mapping[tuple[str, int], Callable[[Any], None]] = {
        ("multicast group", INSERT): control.insert_multicast_group,
        ("multicast group", MODIFY): control.modify_multicast_group,
        ("multicast group", DELETE): control.delete_multicast_group,
        ("clone session", INSERT): control.insert_clone_session,
        ("clone session", MODIFY): control.modify_clone_session,
        ("clone session", DELETE): control.delete_clone_session,
    }
    if kind == DELETE:
        does[what, kind](number)
        written.pop((found, number), None)
    else:
        bytes_kept = getattr(entry, "packet_length_bytes", 0)
        refuse(bytes_kept < 0, f"{what} {number}: packet length below 0", invalid)
        replicas = _decode(device, f"{what} {number}", entry.replicas)
        made = (
            MulticastGroup(number, replicas)
            if found == "multicast_group_entry"
            else CloneSession(number, replicas, bytes_kept)
        )
        does[what, kind](made)
        written[found, number] = deepcopy(entry)


def _decode(device: Device, what: str, messages: Any) -> tuple[Replica, ...]:
    refuse(
        len(messages) > MOST_REPLICAS,
        f"{what}: {len(messages)} replicas; the limit is {MOST_REPLICAS}",
        exhausted,
    )
    replicas = []
    for message in messages:
        kind = message.WhichOneof("port_kind")
        if kind == "port":
            port = decode_port(device, f"{what}, port", message.port)
        elif kind == "egress_port":
            port = _data_plane_port(device, what, message.egress_port)
        else:
            raise invalid(f"{what}: a replica without port")
        refuse(
            message.instance >> INSTANCE_BITS,
            f"{what}: instance {message.instance} does not fit bit<{INSTANCE_BITS}>",
            invalid,
        )
        replicas.append(Replica(port, message.instance))
    refuse(
        len(set(replicas)) < len(replicas),
        f"{what}: the same port and instance occur twice",
        invalid,
    )
    return tuple(replicas)


def _encode(replicas: tuple[Replica, ...], written: Any) -> Iterator[Any]:
    """Yield replicas as the client wrote them, with their ports as canonical bytestrings."""
    for position, replica in enumerate(replicas):
        original = written.replicas[position] if written is not None else None
        if original is not None and original.WhichOneof("port_kind") == "egress_port":
            port = {"egress_port": original.egress_port}
        else:  # of the CPU port there are two numbers, and the client may have written either
            number = int.from_bytes(original.port, "big") if original is not None else replica.port
            port = {"port": bytestrings.encode(number)}
        yield p4runtime_pb2.Replica(instance=replica.instance, **port)


def read_replication(device: Device, query: Any) -> Iterator[Any]:
    """Yield one or (id 0) all multicast groups, or clone sessions; a query with neither selects
    both."""
    device.info  # noqa: B018 - a program must run
    found = query.WhichOneof("type")
    messages = p4runtime_pb2
    for group in device.control.multicast_groups():
        wanted = (0, group.group_id) if found != "clone_session_entry" else ()
        if query.multicast_group_entry.multicast_group_id in wanted:
            written = device.notes.replication.get(("multicast_group_entry", group.group_id))
            group_entry = messages.MulticastGroupEntry(
                multicast_group_id=group.group_id,
                metadata=written.metadata if written is not None else b"",
                replicas=_encode(group.replicas, written),
            )
            yield messages.PacketReplicationEngineEntry(multicast_group_entry=group_entry)
    for session in device.control.clone_sessions():
        wanted = (0, session.session_id) if found != "multicast_group_entry" else ()
        if query.clone_session_entry.session_id in wanted:
            written = device.notes.replication.get(("clone_session_entry", session.session_id))
            session_entry = messages.CloneSessionEntry(
                session_id=session.session_id,
                packet_length_bytes=session.packet_length_bytes,
                class_of_service=written.class_of_service if written is not None else 0,
                replicas=_encode(session.replicas, written),
            )
            yield messages.PacketReplicationEngineEntry(clone_session_entry=session_entry)
