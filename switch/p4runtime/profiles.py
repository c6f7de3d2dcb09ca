"""Action profile members and groups (specification section "ActionProfileMember & Group")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from switch.engine.control import ProfileGroup, ProfileMember
from switch.p4runtime.device import Device
from switch.p4runtime.keys import check_scope, decode_action, encode_action
from switch.p4runtime.p4info import Profile
from switch.p4runtime.refusals import Refusal, invalid, unimplemented

INSERT = p4runtime_pb2.Update.INSERT
DELETE = p4runtime_pb2.Update.DELETE

MAX_GROUP_SIZE = 4096
"""Greatest sum of weights of a group: the engine has one slot for each."""


def write_member(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a member."""
    profile = device.info.profile(message.action_profile_id)
    if not message.member_id:
        raise invalid(f"action profile {profile.name}: a member's id cannot be 0")
    if kind == DELETE:
        device.control.delete_member(profile.name, message.member_id)
        return
    if not message.HasField("action"):
        raise invalid(f"action profile {profile.name}, member {message.member_id}: no action")
    for table in device.info.tables_of(profile):
        check_scope(table, device.info, message.action.action_id, default=False)
    call = decode_action(device.info, message.action)
    member = ProfileMember(profile.name, message.member_id, call)
    if kind == INSERT:
        _refuse_mixing(device, profile)
        device.control.insert_member(member)
    else:
        device.control.modify_member(member)


def write_group(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete a group."""
    profile = device.info.profile(message.action_profile_id)
    what = f"action profile {profile.name}, group {message.group_id}"
    if not profile.selector:
        raise invalid(f"{what}: an action profile without selector has no groups")
    if not message.group_id:
        raise invalid(f"{what}: a group's id cannot be 0")
    if kind == DELETE:
        device.control.delete_group(profile.name, message.group_id)
        return
    members = tuple((member.member_id, member.weight) for member in message.members)
    if len({member_id for member_id, _ in members}) < len(members):
        raise invalid(f"{what}: a member occurs twice; give it a weight instead")
    _check_max_size(what, message.max_size, profile.max_group_size)
    check_weights(what, message.members, message.max_size or profile.max_group_size)
    group = ProfileGroup(profile.name, message.group_id, members, message.max_size)
    if kind == INSERT:
        _refuse_mixing(device, profile)
        device.control.insert_group(group)
        return
    for old in device.control.groups(profile.name):
        if old.group_id == group.group_id and old.max_size != group.max_size:
            raise invalid(f"{what}: max_size cannot change from {old.max_size} to {group.max_size}")
    device.control.modify_group(group)


def _check_max_size(what: str, max_size: int, limit: int) -> None:
    if max_size < 0 or (limit and max_size > limit):
        raise invalid(f"{what}: max_size {max_size} is not in 0 to {limit or MAX_GROUP_SIZE}")
    if max_size > MAX_GROUP_SIZE:
        raise Refusal(
            code_pb2.RESOURCE_EXHAUSTED,
            f"{what}: max_size {max_size}; this switch supports up to {MAX_GROUP_SIZE}",
        )


def check_weights(what: str, members: Iterable[Any], limit: int) -> None:
    """Raise unless all weights are positive and their sum within ``limit`` (0 = the switch's).

    ``members`` are messages with ``weight`` and ``watch_kind``; liveness of ports is not watched.
    """
    total = 0
    for member in members:
        if member.weight <= 0:
            raise invalid(f"{what}: weight {member.weight}; a weight is above 0")
        if member.WhichOneof("watch_kind") is not None:
            raise unimplemented(f"{what}: watch ports are not supported")
        total += member.weight
    limit = min(limit or MAX_GROUP_SIZE, MAX_GROUP_SIZE)
    if total > limit:
        raise Refusal(
            code_pb2.RESOURCE_EXHAUSTED, f"{what}: weights sum to {total}; the limit is {limit}"
        )


def _refuse_mixing(device: Device, profile: Profile) -> None:
    if device.notes.one_shots.get(profile.name):
        raise invalid(
            f"action selector {profile.name} is programmed with one-shot action sets; members and "
            "groups cannot be mixed with them"
        )


def _selected(device: Device, profile_id: int) -> list[Profile]:
    if profile_id:
        return [device.info.profile(profile_id)]
    return list(device.info.profiles.values())


def read_members(device: Device, query: Any) -> Iterator[Any]:
    """One member, or all of a profile (member id 0), or all (profile id 0 too)."""
    actions = device.info.actions_by_name
    for profile in _selected(device, query.action_profile_id):
        for member in device.control.members(profile.name):
            if query.member_id in (0, member.member_id):
                entity = p4runtime_pb2.Entity()
                message = entity.action_profile_member
                message.action_profile_id = profile.id
                message.member_id = member.member_id
                encode_action(actions, member.call, message.action)
                yield entity


def read_groups(device: Device, query: Any) -> Iterator[Any]:
    """One group, or all of a selector (group id 0), or all (profile id 0 too)."""
    for profile in _selected(device, query.action_profile_id):
        if not profile.selector:
            continue
        for group in device.control.groups(profile.name):
            if query.group_id in (0, group.group_id):
                entity = p4runtime_pb2.Entity()
                message = entity.action_profile_group
                message.action_profile_id = profile.id
                message.group_id = group.group_id
                message.max_size = group.max_size
                for member_id, weight in group.members:
                    message.members.add(member_id=member_id, weight=weight)
                yield entity
