"""Groups of what a packet may take, and of what it is copied to: members and groups of action
profiles, multicast groups and clone sessions.

Specification, sections "ActionProfileMember & Group" and "PacketReplicationEngineEntry".
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.control.entities import (
    CloneSession,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    Replica,
)
from weft.switch.engine.program.amounts import MOST_REPLICAS
from weft.switch.messages import DELETE, INSERT, p4runtime_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.keys import check_scope, decode_action, encode_action
from weft.switch.p4runtime.p4info_objects import ProfileInfo
from weft.switch.p4runtime.refusals import exhausted, invalid, unimplemented

MAX_GROUP_SIZE = 4096
"""The greatest sum of a group's weights: the engine has one slot for each unit of weight."""
PORT_BITS = 9
"""The bits of v1model's port numbers."""
INSTANCE_BITS = 16
"""The bits of v1model's egress_rid."""
SDN_PORT_BITS = 32
SDN_PORT_CPU = 0xFFFFFFFD
"""P4Runtime's number of the CPU port, whatever number it has in the data plane."""


def write_member(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a member."""
    profile = device.info.profiles.find(message.action_profile_id)
    if not message.member_id:
        raise invalid(f"{profile.label}: a member's id cannot be 0")
    if kind == DELETE:
        device.control.delete_member(profile.name, message.member_id)
        return
    if not message.HasField("action"):
        raise invalid(f"{profile.label}, member {message.member_id}: no action")
    for table in device.info.tables_of(profile):
        check_scope(table, device.info, message.action.action_id, default=False)
    member = ProfileMember(
        profile.name, message.member_id, decode_action(device.info, message.action)
    )
    if kind == INSERT:
        refuse_mixing(device, profile)
        device.control.insert_member(member)
    else:
        device.control.modify_member(member)


def write_group(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a group."""
    profile = device.info.profiles.find(message.action_profile_id)
    what = f"{profile.label}, group {message.group_id}"
    if not profile.selector:
        raise invalid(f"{what}: an action profile without selector has no groups")
    if not message.group_id:
        raise invalid(f"{what}: a group's id cannot be 0")
    if kind == DELETE:
        device.control.delete_group(profile.name, message.group_id)
        device.notes.groups.pop((profile.name, message.group_id), None)
        return
    members = tuple((member.member_id, member.weight) for member in message.members)
    refuse(
        len({member_id for member_id, _ in members}) < len(members),
        f"{what}: a member occurs twice; give it a weight instead",
        invalid,
    )
    _check_max_size(what, message.max_size, profile)
    check_size(what, message.members, profile, message.max_size or profile.max_group_size)
    watched = decode_watch(device, what, message.members)
    group = ProfileGroup(profile.name, message.group_id, members, message.max_size, watched)
    if kind == INSERT:
        refuse_mixing(device, profile)
        device.control.insert_group(group)
    else:
        sizes = {old.group_id: old.max_size for old in device.control.groups(group.profile)}
        old_size = sizes.get(group.group_id, group.max_size)
        refuse(
            old_size != group.max_size,
            f"{what}: max_size cannot change from {old_size} to {group.max_size}",
            invalid,
        )
        device.control.modify_group(group)
    device.notes.groups.pop((profile.name, group.group_id), None)
    if watched:
        device.notes.groups[profile.name, group.group_id] = deepcopy(message)


def _check_max_size(what: str, max_size: int, profile: ProfileInfo) -> None:
    limit = profile.max_group_size
    refuse(
        max_size < 0 or (limit and max_size > limit),
        f"{what}: max_size {max_size} is not in 0 to {limit or MAX_GROUP_SIZE}",
        invalid,
    )
    refuse(
        max_size > MAX_GROUP_SIZE,
        f"{what}: max_size {max_size}; this switch supports up to {MAX_GROUP_SIZE}",
        exhausted,
    )


def check_size(what: str, members: Sequence[Any], profile: ProfileInfo, limit: int) -> None:
    """Raise Refusal unless all weights are right and the size is within ``limit`` (0 is the
    switch's limit).

    ``members`` are messages with ``weight``. Raises Refusal: INVALID_ARGUMENT for a weight,
    RESOURCE_EXHAUSTED for the size.
    """
    weights = [member.weight for member in members]
    least, most, total = min(weights, default=1), max(weights, default=0), sum(weights)
    refuse(least <= 0, f"{what}: weight {least}; a weight is above 0", invalid)
    refuse(
        profile.max_member_weight and most > profile.max_member_weight,
        f"{what}: weight {most}; a member's is at most {profile.max_member_weight}",
        invalid,
    )
    refuse(
        profile.by_members and limit and len(members) > limit,
        f"{what}: {len(members)} members; the limit is {limit}",
        exhausted,
    )
    limit = MAX_GROUP_SIZE if profile.by_members else min(limit or MAX_GROUP_SIZE, MAX_GROUP_SIZE)
    refuse(total > limit, f"{what}: weights sum to {total}; the limit is {limit}", exhausted)


def check_one_shot(what: str, actions: Sequence[Any], profile: ProfileInfo) -> None:
    """Do as ``check_size``, but raise INVALID_ARGUMENT beyond the P4Info's ``max_group_size``."""
    limit = profile.max_group_size
    size = len(actions) if profile.by_members else sum(max(one.weight, 0) for one in actions)
    if limit and size > limit:
        counted = "members" if profile.by_members else "weights"
        raise invalid(f"{what}: {counted} sum to {size}; max_group_size is {limit}")
    check_size(what, actions, profile, 0)


def decode_watch(device: Device, what: str, members: Sequence[Any]) -> tuple[int | None, ...]:
    """Return the port that each member's liveness depends on (None: on none), or () if none has
    one.

    Raises INVALID_ARGUMENT for a port that the switch does not have.
    """
    ports = tuple(_watched(device, what, member) for member in members)
    return ports if any(port is not None for port in ports) else ()


def _watched(device: Device, what: str, member: Any) -> int | None:
    kind = member.WhichOneof("watch_kind")
    if kind is None or not getattr(member, kind):
        return None
    port: int = (
        decode_port(device, f"{what}, watch_port", member.watch_port)
        if kind == "watch_port"
        else member.watch
    )
    if port not in device.switch.ports:
        known = ", ".join(map(str, device.switch.ports[:16])) or "none"
        raise invalid(f"{what}: no port {port} to watch; there are {known}")
    return port


def refuse_mixing(device: Device, profile: ProfileInfo, who: str = "") -> None:
    """Raise INVALID_ARGUMENT if a selector has one-shot action sets, and so takes no members or
    groups.

    ``who`` is the beginning of the message.
    """
    if device.notes.one_shots.get(profile.name):
        raise invalid(
            f"{who}action selector {profile.name} is programmed with one-shot action sets; members "
            "and groups cannot be mixed with them"
        )


def copy_watch(written: Sequence[Any], messages: Sequence[Any]) -> None:
    """Let members watch the ports that they had as the client wrote them."""
    for original, message in zip(written, messages, strict=True):
        if (kind := original.WhichOneof("watch_kind")) is not None:
            setattr(message, kind, getattr(original, kind))


def read_members(device: Device, query: Any) -> Iterator[Any]:
    """Yield one member, all of a profile (member id 0), or all of all profiles (profile id 0)."""
    for profile in device.info.profiles.chosen(query.action_profile_id):
        for member in device.control.members(profile.name):
            if query.member_id in (0, member.member_id):
                message = p4runtime_pb2.ActionProfileMember(
                    action_profile_id=profile.id, member_id=member.member_id
                )
                encode_action(device.info, member.call, message.action)
                yield message


def read_groups(device: Device, query: Any) -> Iterator[Any]:
    """Yield one group, all of a selector (group id 0), or all of all selectors (profile id 0)."""
    for profile in device.info.profiles.chosen(query.action_profile_id):
        for group in device.control.groups(profile.name) if profile.selector else ():
            if query.group_id in (0, group.group_id):
                message = p4runtime_pb2.ActionProfileGroup(
                    action_profile_id=profile.id,
                    group_id=group.group_id,
                    max_size=group.max_size,
                    members=[
                        {"member_id": each, "weight": weight} for each, weight in group.members
                    ],
                )
                if (written := device.notes.groups.get((profile.name, group.group_id))) is not None:
                    copy_watch(written.members, message.members)
                yield message


def decode_port(device: Device, what: str, data: bytes) -> int:
    """Return the data plane's number of a port; raises Refusal (OUT_OF_RANGE, INVALID_ARGUMENT)."""
    return _data_plane_port(device, what, bytestrings.decode(data, SDN_PORT_BITS, what))


def _data_plane_port(device: Device, what: str, port: int) -> int:
    if port == SDN_PORT_CPU and device.switch.cpu_port:
        return device.switch.cpu_port
    if port in device.switch.pipelines[0].program.architecture.ports:
        return port
    refuse(port >> PORT_BITS, f"{what}: port {port} does not fit bit<{PORT_BITS}>", invalid)
    return port


_ENTRIES = {
    "multicast_group_entry": ("multicast group", "multicast_group_id", MulticastGroup),
    "clone_session_entry": ("clone session", "session_id", CloneSession),
}
"""For each kind of entry, what messages call it, the field that has its id, and what the engine has
for it."""


def write_replication(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a multicast group or a clone session."""
    device.info  # noqa: B018 - a program must run
    found = message.WhichOneof("type")
    refuse(
        found is None,
        "packet_replication_engine_entry is neither multicast group nor session",
        invalid,
    )
    what, identifier, made = _ENTRIES[found]
    entry = getattr(message, found)
    number = getattr(entry, identifier)
    if not number:
        raise invalid(f"a {what}'s id cannot be 0")
    control, written = device.control, device.notes.replication
    if kind == DELETE:
        control.delete_replication(made, number)
        written.pop((found, number), None)
    else:
        bytes_kept = getattr(entry, "packet_length_bytes", 0)
        refuse(bytes_kept < 0, f"{what} {number}: packet length below 0", invalid)
        replicas = _decode(device, f"{what} {number}", entry.replicas)
        put = control.insert_replication if kind == INSERT else control.modify_replication
        put(
            MulticastGroup(number, replicas)
            if made is MulticastGroup
            else CloneSession(number, replicas, bytes_kept)
        )
        written[found, number] = deepcopy(entry)


def _decode(device: Device, what: str, messages: Any) -> tuple[Replica, ...]:
    refuse(
        len(messages) > MOST_REPLICAS,
        f"{what}: {len(messages)} replicas; the limit is {MOST_REPLICAS}",
        exhausted,
    )
    replicas = []
    for message in messages:
        refuse(
            message.backup_replicas,
            f"{what}: a replica has backup_replicas (P4Runtime 1.5), and this switch takes none: "
            "watch the port, and modify the entry when it is down",
            unimplemented,
        )
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
        if not session.session_id:  # PSA's to the controller, which no client can name
            continue
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
