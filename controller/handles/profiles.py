"""Action profiles and selectors as a script handles them: their members, and their groups of
members."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from weft.base.arguments import whole, wholes
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.controller.entities import Action, PlannedGroup, PlannedMember
from weft.controller.handles.access import SwitchAccess
from weft.controller.handles.values import Value
from weft.controller.plan import Update

MOST_ID = 0xFFFFFFFF

Weights: TypeAlias = Sequence[int] | Mapping[int, int]
"""Ids of members, each with weight 1, or weights by ids of members."""


@dataclass(frozen=True)
class Member:
    """A member as the switch has it."""

    action: str
    """The full name of its action."""
    params: Mapping[str, int]
    """The action's parameters by name."""
    owner: str
    """Who has written it, as of `InstalledEntry`."""


class ProfileHandle:
    """A handle on an action profile or selector: ``leaf.profile("ecmp").members.insert(1, "send",
    port=2)``. Entries of its tables lead to members and groups by ``member=`` and ``group=``."""

    def __init__(self, switch: SwitchAccess, info: Any) -> None:
        self._info = info
        self.name: str = info.preamble.name
        """The full name."""
        self.members = MembersHandle(switch, info)
        """Its members, by their ids."""
        self.groups = MemberGroupsHandle(switch, info)
        """Its groups, by their ids; an action profile without selector has none."""

    @property
    def size(self) -> int:
        """How many members the profile has room for; of a selector, the sum of all weights."""
        return int(self._info.size)


class MembersHandle:
    """A handle on the members of an action profile or selector."""

    def __init__(self, switch: SwitchAccess, info: Any) -> None:
        self._switch = switch
        self._info = info
        self._name: str = info.preamble.name

    def insert(
        self, member: int, action: str, params: Mapping[str, Value] | None = None, /, **named: Value
    ) -> None:
        """Make a member (an id from 1) that has an action, with the parameters by name: as a
        mapping, as keywords, or some so and some so."""
        self._put("insert", member, action, params, named)

    def modify(
        self, member: int, action: str, params: Mapping[str, Value] | None = None, /, **named: Value
    ) -> None:
        """Give a member that the script has made another action; entries and groups that lead to it
        follow."""
        self._put("modify", member, action, params, named)

    def delete(self, member: int) -> None:
        """Delete a member that the script has made, and that no entry or group leads to."""
        gone = PlannedMember(self._name, self._id(member), Action(""))
        self._switch.write(Update("delete", self._switch.written(gone)))

    def read(self) -> dict[int, Member]:
        """Return all members, whoever has made them, by id."""
        query = {"action_profile_id": self._info.preamble.id}
        actions = {one.preamble.id: one for one in self._switch.p4info.actions}
        found = {}
        for entity in self._switch.read(action_profile_member=query):
            one = entity.action_profile_member
            info = actions[one.action.action_id]
            names = {param.id: param.name for param in info.params}
            params = {
                names[each.param_id]: int.from_bytes(each.value, "big")
                for each in one.action.params
            }
            key = PlannedMember(self._name, one.member_id, Action("")).key
            found[one.member_id] = Member(info.preamble.name, params, self._switch.owner_of(key))
        return found

    def _put(
        self,
        kind: Any,
        member: int,
        action: str,
        params: Mapping[str, Any] | None,
        named: Mapping[str, Any],
    ) -> None:
        number = self._id(member)
        among: set[int] = set()
        for table in self._switch.p4info.tables:
            if table.implementation_id == self._info.preamble.id:
                among |= {ref.id for ref in table.action_refs}
        given = self._switch.arguments(action, sorted(among), params, named)
        call = self._switch.call(action, given, sorted(among))
        self._switch.write(Update(kind, PlannedMember(self._name, number, call)))

    def _id(self, member: Any) -> int:
        number = _number(f"{self._switch.name}: member", member)
        refuse(
            any(
                (one.profile, one.member_id) == (self._name, number)
                for one in self._switch.members.values()
            ),
            f"{self._switch.name}: member {number} of {self._name} is of an entry that was written "
            "with an action: modify or delete that entry",
        )
        return number


class MemberGroupsHandle:
    """A handle on the groups of an action selector: from one of them the selector chooses a member
    for every packet."""

    def __init__(self, switch: SwitchAccess, info: Any) -> None:
        self._switch = switch
        self._info = info
        self._name: str = info.preamble.name

    def insert(self, group: int, members: Weights) -> None:
        """Make a group (an id from 1) of members: ``[1, 2]``, or ``{1: 3, 2: 1}`` with weights."""
        self._switch.write(Update("insert", self._group(group, members)))

    def modify(self, group: int, members: Weights) -> None:
        """Let a group that the script has made have other members."""
        self._switch.write(Update("modify", self._group(group, members)))

    def delete(self, group: int) -> None:
        """Delete a group that the script has made, and that no entry leads to."""
        gone = self._group(group, ())
        self._switch.write(Update("delete", self._switch.written(gone)))

    def read(self) -> dict[int, dict[int, int]]:
        """Return the weights of members of all groups, whoever has made them, by group."""
        if not self._info.with_selector:
            return {}
        query = {"action_profile_id": self._info.preamble.id}
        found = self._switch.read(action_profile_group=query)
        groups = (one.action_profile_group for one in found)
        return {
            one.group_id: {each.member_id: each.weight for each in one.members} for one in groups
        }

    def _group(self, group: Any, members: Any) -> PlannedGroup:
        number = _number(f"{self._switch.name}: group", group)
        what = f"{self._switch.name}: group {number} of {self._name}"
        if not self._info.with_selector:
            raise InputError(
                f"{what}: it is an action profile without selector, which has members alone"
            )
        place = f"{what}: members"
        ids = wholes(place, list(members) if isinstance(members, Mapping) else members, "[1, 2]")
        if len(set(ids)) != len(ids):
            raise InputError(f"{place} {shown([*ids])} has one twice: weigh it")
        weights = [members[one] for one in ids] if isinstance(members, Mapping) else [1] * len(ids)
        for weight in wholes(f"{what}: weights", weights, "[1, 2]"):
            refuse(weight < 1, f"{what}: weight {weight}: a weight is 1 or more")
        return PlannedGroup(self._name, number, tuple(sorted(zip(ids, weights, strict=True))))


def _number(what: str, given: Any) -> int:
    number = whole(what, given, "1")
    if not 1 <= number <= MOST_ID:
        raise InputError(f"{what} {number}: the ids are 1 to {MOST_ID}")
    return number
