"""Multicast groups and clone sessions (specification section "PacketReplicationEngineEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.rpc import code_pb2

from weft.switch.engine.amounts import MOST_REPLICAS
from weft.switch.engine.control import CloneSession, MulticastGroup, Replica
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.refusals import Refusal, invalid

INSERT = p4runtime_pb2.Update.INSERT
DELETE = p4runtime_pb2.Update.DELETE

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
    group_id = message.multicast_group_id
    if not group_id:
        raise invalid("a multicast group's id cannot be 0")
    if kind == DELETE:
        device.control.delete_multicast_group(group_id)
        device.notes.multicast.pop(group_id, None)
        return
    group = MulticastGroup(
        group_id, _decode(device, f"multicast group {group_id}", message.replicas)
    )
    if kind == INSERT:
        device.control.insert_multicast_group(group)
    else:
        device.control.modify_multicast_group(group)
    device.notes.multicast[group_id] = message


def _write_session(device: Device, kind: int, message: Any) -> None:
    session_id = message.session_id
    if not session_id:
        raise invalid("a clone session's id cannot be 0")
    if kind == DELETE:
        device.control.delete_clone_session(session_id)
        device.notes.clones.pop(session_id, None)
        return
    if message.packet_length_bytes < 0:
        raise invalid(f"clone session {session_id}: packet length below 0")
    replicas = _decode(device, f"clone session {session_id}", message.replicas)
    session = CloneSession(session_id, replicas, message.packet_length_bytes)
    if kind == INSERT:
        device.control.insert_clone_session(session)
    else:
        device.control.modify_clone_session(session)
    device.notes.clones[session_id] = message


def _decode(device: Device, what: str, messages: Any) -> tuple[Replica, ...]:
    if len(messages) > MOST_REPLICAS:
        raise Refusal(
            code_pb2.RESOURCE_EXHAUSTED,
            f"{what}: {len(messages)} replicas; the limit is {MOST_REPLICAS}",
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
        if message.instance >> INSTANCE_BITS:
            raise invalid(f"{what}: instance {message.instance} does not fit bit<{INSTANCE_BITS}>")
        replicas.append(Replica(port, message.instance))
    if len(set(replicas)) < len(replicas):
        raise invalid(f"{what}: the same port and instance occur twice")
    return tuple(replicas)


def _encode(replicas: tuple[Replica, ...], written: Any, messages: Any) -> None:
    """Replicas as the client wrote them, ports canonical."""
    for position, replica in enumerate(replicas):
        message = messages.add(instance=replica.instance)
        original = written.replicas[position] if written is not None else None
        if original is None:
            message.port = bytestrings.encode(replica.port)
        elif original.WhichOneof("port_kind") == "port":
            message.port = bytestrings.encode(int.from_bytes(original.port, "big"))
        else:
            message.egress_port = original.egress_port


def read_replication(device: Device, query: Any) -> Iterator[Any]:
    """One or (id 0) all multicast groups, or one or all clone sessions; unset selects both."""
    device.info  # noqa: B018 - a program must run
    found = query.WhichOneof("type")
    if found in (None, "multicast_group_entry"):
        wanted = query.multicast_group_entry.multicast_group_id
        for group in device.control.multicast_groups():
            if wanted in (0, group.group_id):
                written = device.notes.multicast.get(group.group_id)
                entity = p4runtime_pb2.Entity()
                message = entity.packet_replication_engine_entry.multicast_group_entry
                message.multicast_group_id = group.group_id
                message.metadata = written.metadata if written is not None else b""
                _encode(group.replicas, written, message.replicas)
                yield entity
    if found in (None, "clone_session_entry"):
        wanted = query.clone_session_entry.session_id
        for session in device.control.clone_sessions():
            if wanted in (0, session.session_id):
                written = device.notes.clones.get(session.session_id)
                entity = p4runtime_pb2.Entity()
                message = entity.packet_replication_engine_entry.clone_session_entry
                message.session_id = session.session_id
                message.packet_length_bytes = session.packet_length_bytes
                message.class_of_service = written.class_of_service if written is not None else 0
                _encode(session.replicas, written, message.replicas)
                yield entity
