"""The members and groups of one action profile as its controller sees them."""

from dataclasses import dataclass, field

from weft.base.errors import refuse
from weft.switch.engine.control import (
    AlreadyExists,
    InvalidValue,
    NotFound,
    ProfileGroup,
    ProfileMember,
    StillInUse,
    TableFull,
)
from weft.switch.engine.program import Action, Profile, Program
from weft.switch.engine.tables import check_call


@dataclass
class ProfileState:
    """An action profile, the actions that its members may have, and what is in it."""

    profile: Profile
    actions: tuple[Action, ...]
    members: dict[int, ProfileMember] = field(default_factory=dict)
    groups: dict[int, ProfileGroup] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Its name, for messages."""
        return f"action profile {self.profile.name!r}"

    def member(self, member_id: int) -> ProfileMember:
        """Return a member. Raises NotFound."""
        if member_id not in self.members:
            raise NotFound(f"{self.what} has no member {member_id}")
        return self.members[member_id]

    def group(self, group_id: int) -> ProfileGroup:
        """Return a group. Raises NotFound."""
        if group_id not in self.groups:
            raise NotFound(f"{self.what} has no group {group_id}")
        return self.groups[group_id]

    def set_member(self, member: ProfileMember, *, new: bool) -> None:
        """Insert a member or give it another action.

        Raises AlreadyExists, TableFull, NotFound, InvalidAction.
        """
        if not new:
            self.member(member.member_id)
        elif member.member_id in self.members:
            raise AlreadyExists(f"{self.what} has a member {member.member_id} already")
        elif len(self.members) >= self.profile.size:
            raise TableFull(f"{self.what} is full: {self.profile.size} members")
        check_call(self.what, self.actions, member.call)
        self.members[member.member_id] = member

    def delete_member(self, member_id: int, used: bool) -> None:
        """Delete what no entry refers to, as ``used`` says. Raises NotFound, StillInUse."""
        self.member(member_id)
        in_groups = {member for group in self.groups.values() for member, _ in group.members}
        refuse(
            used or member_id in in_groups,
            f"member {member_id} of {self.what} is still in use",
            StillInUse,
        )
        del self.members[member_id]

    def set_group(self, group: ProfileGroup, *, new: bool) -> None:
        """Insert a group or give it other members. Raises AlreadyExists, NotFound, InvalidValue."""
        if not new:
            self.group(group.group_id)
        elif group.group_id in self.groups:
            raise AlreadyExists(f"{self.what} has a group {group.group_id} already")
        where = f"group {group.group_id} of {self.what}"
        refuse(
            self.profile.algorithm is None, f"{self.what} has no selector: no groups", InvalidValue
        )
        for member_id, weight in group.members:
            self.member(member_id)
            refuse(weight < 1, f"{where}: the weight {weight} is not positive", InvalidValue)
        refuse(
            len({member_id for member_id, _ in group.members}) != len(group.members),
            f"{where} names a member twice",
            InvalidValue,
        )
        limit = group.max_size or self.profile.size
        refuse(
            sum(weight for _, weight in group.members) > max(limit, 1),
            f"{where}: the sum of its weights exceeds {limit}",
            InvalidValue,
        )
        self.groups[group.group_id] = group

    def delete_group(self, group_id: int, used: bool) -> None:
        """Delete what no entry refers to, as ``used`` says. Raises NotFound, StillInUse."""
        self.group(group_id)
        refuse(used, f"group {group_id} of {self.what} is still in use", StillInUse)
        del self.groups[group_id]


def profile_states(program: Program) -> dict[str, ProfileState]:
    """Return the action profiles of a program, empty."""
    states = {}
    for profile in program.profiles.values():
        tables = [table for table in program.tables.values() if table.profile is profile]
        actions = {action.code: action for table in tables for action in table.actions}
        states[profile.name] = ProfileState(profile, tuple(actions.values()))
    return states
