"""Members and groups of action profiles by handles, which count from 0.

A handle is the number of the member or group in P4Runtime, which counts from 1, less 1.
"""

from typing import Any

from weft.controller.bmv2_cli.access import Access
from weft.controller.bmv2_cli.refusals import (
    GROUP_CODES,
    PROFILE_CODES,
    CommandError,
    OperationRefused,
)
from weft.controller.bmv2_cli.values import fill_action
from weft.switch.messages import p4runtime_pb2


class Profiles:
    """The action profiles and selectors of a switch."""

    def __init__(self, switch: Access) -> None:
        self._switch = switch

    def members(self, profile: Any) -> dict[int, Any]:
        """Return the ``ActionProfileMember`` messages of a profile by their handles."""
        query = {"action_profile_id": profile.preamble.id}
        found = self._switch.read(action_profile_member=query)
        members = [one.action_profile_member for one in found]
        return {one.member_id - 1: one for one in sorted(members, key=lambda one: one.member_id)}

    def groups(self, profile: Any) -> dict[int, Any]:
        """Return the ``ActionProfileGroup`` messages of a selector by their handles."""
        if not profile.with_selector:
            return {}
        query = {"action_profile_id": profile.preamble.id}
        found = self._switch.read(action_profile_group=query)
        groups = [one.action_profile_group for one in found]
        return {one.group_id - 1: one for one in sorted(groups, key=lambda one: one.group_id)}

    def member(self, profile: Any, handle: int) -> Any:
        """Return a member."""
        return _found(profile, "member", "INVALID_MBR_HANDLE", self.members(profile), handle)

    def group(self, profile: Any, handle: int) -> Any:
        """Return a group."""
        check_selector(profile)
        return _found(profile, "group", "INVALID_GRP_HANDLE", self.groups(profile), handle)

    def create_member(self, profile: Any, action: Any, values: list[bytes]) -> int:
        """Make a member, and return its handle."""
        handle = _least_free(self.members(profile))
        self._put_member("insert", profile, handle, action, values)
        return handle

    def modify_member(self, profile: Any, handle: int, action: Any, values: list[bytes]) -> None:
        """Give a member another action."""
        self.member(profile, handle)
        self._put_member("modify", profile, handle, action, values)

    def delete_member(self, profile: Any, handle: int) -> None:
        """Delete a member."""
        self.member(profile, handle)
        member = _member(profile, handle)
        self._write("delete", f"delete member {handle}", action_profile_member=member)

    def create_group(self, profile: Any) -> int:
        """Make a group without members, and return its handle."""
        check_selector(profile)
        handle = _least_free(self.groups(profile))
        group = _group(profile, handle)
        self._write("insert", f"create group {handle}", action_profile_group=group)
        return handle

    def delete_group(self, profile: Any, handle: int) -> None:
        """Delete a group."""
        self.group(profile, handle)
        group = _group(profile, handle)
        self._write("delete", f"delete group {handle}", action_profile_group=group)

    def join(self, profile: Any, member: int, group: int) -> None:
        """Add a member to a group."""
        there = self.group(profile, group)
        self.member(profile, member)
        if member + 1 in {one.member_id for one in there.members}:
            raise _refused(
                profile, "MBR_ALREADY_IN_GRP", f"member {member} is in group {group} already"
            )
        there.members.add(member_id=member + 1, weight=1)
        self._write("modify", f"add member {member} to group {group}", action_profile_group=there)

    def leave(self, profile: Any, member: int, group: int) -> None:
        """Take a member out of a group."""
        there = self.group(profile, group)
        self.member(profile, member)
        left = [one for one in there.members if one.member_id != member + 1]
        if len(left) == len(there.members):
            raise _refused(profile, "MBR_NOT_IN_GRP", f"member {member} is not in group {group}")
        entry = _group(profile, group)
        entry.members.extend(left)
        self._write(
            "modify", f"take member {member} out of group {group}", action_profile_group=entry
        )

    def _put_member(
        self, kind: str, profile: Any, handle: int, action: Any, values: list[bytes]
    ) -> None:
        member = _member(profile, handle)
        fill_action(action, values, member.action)
        self._write(kind, f"{kind} member {handle}", action_profile_member=member)

    def _write(self, kind: str, what: str, **entity: Any) -> None:
        codes = GROUP_CODES if "action_profile_group" in entity else PROFILE_CODES
        message = p4runtime_pb2.Entity(**entity)
        self._switch.write(kind, [message], what, "table", codes)


def check_selector(profile: Any) -> None:
    """Raise CommandError for an action profile without selector, which has no groups."""
    if not profile.with_selector:
        raise CommandError(
            "Error: Cannot run this command on an action profile without selector: "
            f"{profile.preamble.name} is one"
        )


def _found(profile: Any, what: str, code: str, among: dict[int, Any], handle: int) -> Any:
    if handle not in among:
        handles = ", ".join(map(str, list(among)[:20])) or "none"
        raise _refused(profile, code, f"no {what} has handle {handle}; handles are {handles}")
    return among[handle]


def _refused(profile: Any, code: str, why: str) -> OperationRefused:
    return OperationRefused("table", code, f"{profile.preamble.name}: {why}")


def _least_free(taken: dict[int, Any]) -> int:
    return next(handle for handle in range(len(taken) + 1) if handle not in taken)


def _member(profile: Any, handle: int) -> Any:
    return p4runtime_pb2.ActionProfileMember(
        action_profile_id=profile.preamble.id, member_id=handle + 1
    )


def _group(profile: Any, handle: int) -> Any:
    return p4runtime_pb2.ActionProfileGroup(
        action_profile_id=profile.preamble.id, group_id=handle + 1
    )
