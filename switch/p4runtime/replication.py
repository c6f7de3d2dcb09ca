"""Multicast groups and clone sessions (specification section "PacketReplicationEngineEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from switch.engine.control import CloneSession, MulticastGroup, Replica
from switch.p4runtime import bytestrings
from switch.p4runtime.device import Device, GroupForm
from switch.p4runtime.refusals import invalid

INSERT = p4runtime_pb2.Update.INSERT
DELETE = p4runtime_pb2.Update.DELETE

PORT_BITS = 9
"""v1model's port numbers."""
INSTANCE_BITS = 16
"""v1model's egress_rid."""


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
    replicas, as_bytes = _decode(f"multicast group {group_id}", message.replicas)
    group = MulticastGroup(group_id, replicas)
    if kind == INSERT:
        device.control.insert_multicast_group(group)
    else:
        device.control.modify_multicast_group(group)
    device.notes.multicast[group_id] = GroupForm(as_bytes, metadata=message.metadata)


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
    replicas, as_bytes = _decode(f"clone session {session_id}", message.replicas)
    session = CloneSession(session_id, replicas, message.packet_length_bytes)
    if kind == INSERT:
        device.control.insert_clone_session(session)
    else:
        device.control.modify_clone_session(session)
    form = GroupForm(as_bytes, class_of_service=message.class_of_service)
    device.notes.clones[session_id] = form


def _decode(what: str, messages: Any) -> tuple[tuple[Replica, ...], bool]:
    """Replicas, and whether the client wrote ports as bytestrings (since P4Runtime 1.4)."""
    replicas = []
    as_bytes = False
    for message in messages:
        kind = message.WhichOneof("port_kind")
        if kind == "port":
            port = bytestrings.decode(message.port, PORT_BITS, f"{what}, port")
            as_bytes = True
        elif kind == "egress_port":
            port = message.egress_port
        else:
            raise invalid(f"{what}: a replica without port")
        if port >> PORT_BITS:
            raise invalid(f"{what}: port {port} does not fit bit<{PORT_BITS}>")
        if message.instance >> INSTANCE_BITS:
            raise invalid(f"{what}: instance {message.instance} does not fit bit<{INSTANCE_BITS}>")
        replicas.append(Replica(port, message.instance))
    if len(set(replicas)) < len(replicas):
        raise invalid(f"{what}: the same port and instance occur twice")
    return tuple(replicas), as_bytes


def _encode(replicas: tuple[Replica, ...], form: GroupForm, messages: Any) -> None:
    for replica in replicas:
        message = messages.add(instance=replica.instance)
        if form.ports_as_bytes:
            message.port = bytestrings.encode(replica.port)
        else:
            message.egress_port = replica.port


def read_replication(device: Device, query: Any) -> Iterator[Any]:
    """One or (id 0) all multicast groups, or one or all clone sessions; unset selects both."""
    device.info  # noqa: B018 - a program must run
    found = query.WhichOneof("type")
    plain = GroupForm(ports_as_bytes=True)
    if found in (None, "multicast_group_entry"):
        wanted = query.multicast_group_entry.multicast_group_id
        for group in device.control.multicast_groups():
            if wanted in (0, group.group_id):
                form = device.notes.multicast.get(group.group_id, plain)
                entity = p4runtime_pb2.Entity()
                message = entity.packet_replication_engine_entry.multicast_group_entry
                message.multicast_group_id = group.group_id
                message.metadata = form.metadata
                _encode(group.replicas, form, message.replicas)
                yield entity
    if found in (None, "clone_session_entry"):
        wanted = query.clone_session_entry.session_id
        for session in device.control.clone_sessions():
            if wanted in (0, session.session_id):
                form = device.notes.clones.get(session.session_id, plain)
                entity = p4runtime_pb2.Entity()
                message = entity.packet_replication_engine_entry.clone_session_entry
                message.session_id = session.session_id
                message.packet_length_bytes = session.packet_length_bytes
                message.class_of_service = form.class_of_service
                _encode(session.replicas, form, message.replicas)
                yield entity
