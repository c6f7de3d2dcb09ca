"""Multicast groups and clone sessions (specification section "PacketReplicationEngineEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from weft.switch.engine.amounts import MOST_REPLICAS
from weft.switch.engine.control import CloneSession, MulticastGroup, Replica
from weft.switch.messages import DELETE, INSERT, p4runtime_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.refusals import exhausted, invalid

PORT_BITS = 9
"""v1model's port numbers."""
INSTANCE_BITS = 16
"""v1model's egress_rid."""
SDN_PORT_BITS = 32
SDN_PORT_CPU = 0xFFFFFFFD
"""P4Runtime's number of the CPU port, whatever its number in the data plane."""


def decode_port(device: Device, what: str, data: bytes) -> int:
    """A port's number in the data plane; OUT_OF_RANGE, INVALID_ARGUMENT."""
    return _data_plane_port(device, what, bytestrings.decode(data, SDN_PORT_BITS, what))


def _data_plane_port(device: Device, what: str, port: int) -> int:
    if port == SDN_PORT_CPU and device.switch.cpu_port:
        return device.switch.cpu_port
    if port >> PORT_BITS:
        raise invalid(f"{what}: port {port} does not fit bit<{PORT_BITS}>")
    return port


def write_replication(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a multicast group or a clone session."""
    device.info  # noqa: B018 - a program must run
    found = message.WhichOneof("type")
    if found == "multicast_group_entry":
        _write_group(device, kind, message.multicast_group_entry)
    elif found == "clone_session_entry":
        _write_session(device, kind, message.clone_session_entry)
    else:
        raise invalid("packet_replication_engine_entry is neither multicast group nor session")


def _write_group(device: Device, kind: int, message: Any) -> None:
    control, group_id = device.control, message.multicast_group_id
    if not group_id:
        raise invalid("a multicast group's id cannot be 0")
    if kind == DELETE:
        control.delete_multicast_group(group_id)
        device.notes.multicast.pop(group_id, None)
        return
    replicas = _decode(device, f"multicast group {group_id}", message.replicas)
    put = control.insert_multicast_group if kind == INSERT else control.modify_multicast_group
    put(MulticastGroup(group_id, replicas))
    device.notes.multicast[group_id] = deepcopy(message)


def _write_session(device: Device, kind: int, message: Any) -> None:
    control, session_id = device.control, message.session_id
    if not session_id:
        raise invalid("a clone session's id cannot be 0")
    if kind == DELETE:
        control.delete_clone_session(session_id)
        device.notes.clones.pop(session_id, None)
        return
    if message.packet_length_bytes < 0:
        raise invalid(f"clone session {session_id}: packet length below 0")
    replicas = _decode(device, f"clone session {session_id}", message.replicas)
    put = control.insert_clone_session if kind == INSERT else control.modify_clone_session
    put(CloneSession(session_id, replicas, message.packet_length_bytes))
    device.notes.clones[session_id] = deepcopy(message)


def _decode(device: Device, what: str, messages: Any) -> tuple[Replica, ...]:
    if len(messages) > MOST_REPLICAS:
        raise exhausted(f"{what}: {len(messages)} replicas; the limit is {MOST_REPLICAS}")
    replicas = []
    for message in messages:
        kind = message.WhichOneof("port_kind")
        if kind == "port":
            port = decode_port(device, f"{what}, port", message.port)
        elif kind == "egress_port":
            port = _data_plane_port(device, what, message.egress_port)
        else:
            raise invalid(f"{what}: a replica without port")
        if message.instance >> INSTANCE_BITS:
            raise invalid(f"{what}: instance {message.instance} does not fit bit<{INSTANCE_BITS}>")
        replicas.append(Replica(port, message.instance))
    if len(set(replicas)) < len(replicas):
        raise invalid(f"{what}: the same port and instance occur twice")
    return tuple(replicas)


def _encode(replicas: tuple[Replica, ...], written: Any) -> Iterator[Any]:
    """Replicas as the client wrote them, ports canonical."""
    for position, replica in enumerate(replicas):
        original = written.replicas[position] if written is not None else None
        if original is not None and original.WhichOneof("port_kind") == "egress_port":
            port = {"egress_port": original.egress_port}
        else:  # of the CPU port there are two numbers, and the client may have written either
            number = int.from_bytes(original.port, "big") if original is not None else replica.port
            port = {"port": bytestrings.encode(number)}
        yield p4runtime_pb2.Replica(instance=replica.instance, **port)


def read_replication(device: Device, query: Any) -> Iterator[Any]:
    """One or (id 0) all multicast groups, or one or all clone sessions; unset selects both."""
    device.info  # noqa: B018 - a program must run
    found = query.WhichOneof("type")
    messages = p4runtime_pb2
    for group in device.control.multicast_groups():
        wanted = (0, group.group_id) if found != "clone_session_entry" else ()
        if query.multicast_group_entry.multicast_group_id in wanted:
            written = device.notes.multicast.get(group.group_id)
            group_entry = messages.MulticastGroupEntry(
                multicast_group_id=group.group_id,
                metadata=written.metadata if written is not None else b"",
                replicas=_encode(group.replicas, written),
            )
            yield messages.PacketReplicationEngineEntry(multicast_group_entry=group_entry)
    for session in device.control.clone_sessions():
        wanted = (0, session.session_id) if found != "multicast_group_entry" else ()
        if query.clone_session_entry.session_id in wanted:
            written = device.notes.clones.get(session.session_id)
            session_entry = messages.CloneSessionEntry(
                session_id=session.session_id,
                packet_length_bytes=session.packet_length_bytes,
                class_of_service=written.class_of_service if written is not None else 0,
                replicas=_encode(session.replicas, written),
            )
            yield messages.PacketReplicationEngineEntry(clone_session_entry=session_entry)
