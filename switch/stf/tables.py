"""Tables and action profiles, as a test changes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.base.errors import refuse
from weft.switch.engine.control.entities import (
    ActionCall,
    GroupTarget,
    MemberTarget,
    ProfileGroup,
    ProfileMember,
    TableEntry,
    Target,
)
from weft.switch.engine.control.errors import NotFound
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.program import Program, ProgramAction, Table
from weft.switch.stf.names import action_call, find_table, keys_of, resolve
from weft.switch.stf.statements import (
    Add,
    NewGroup,
    NewMember,
    Remove,
    RemoveEntry,
    SetDefault,
    StfCall,
    StfValue,
    StfWord,
    TextPlace,
)

LOWEST_BMV2_PRIORITY = 10_000
"""p4c's runner turns a test's priority P, the greatest of which wins, into BMv2's 10000 - P, the
least of which wins; entries of the program have BMv2's priorities."""
GREATEST_PRIORITY = 1 << 30
OWN_MEMBERS = 1 << 20
"""The first id of the members that entries with an action make for themselves in indirect
tables."""


@dataclass
class Tables:
    """The tables of a switch; entries, members and groups have the names that a test gave them."""

    control: SwitchControl
    program: Program
    handles: dict[str, TableEntry] = field(default_factory=dict)
    added: list[TableEntry] = field(default_factory=list)
    members: dict[str, tuple[str, int]] = field(default_factory=dict)
    groups: dict[str, tuple[str, int]] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)

    # -- entries

    def add(self, statement: Add) -> None:
        """Insert an entry."""
        table = find_table(self.program, statement.table)
        priority = _priority(table, statement.priority, statement.place)
        keys = keys_of(table, statement.matches)
        entry = TableEntry(table.name, keys, self._target(table, statement.call), priority)
        self.control.insert_entry(entry)
        self.added.append(entry)
        if statement.handle is not None:
            refuse(
                statement.handle in self.handles,
                f"the name {statement.handle!r} is taken already",
                statement.place.error,
            )
            self.handles[statement.handle] = entry

    def set_default(self, statement: SetDefault) -> None:
        """Set a default action."""
        table = find_table(self.program, statement.table)
        call = action_call(table.actions, statement.call, f"table {table.name!r}")
        self.control.set_default(table.name, call)

    def remove(self, statement: Remove) -> None:
        """Remove an entry by its name, or all that were added."""
        handle = statement.handle
        for entry in list(self.added) if handle is None else [self.entry(handle)]:
            self._remove(entry)

    def remove_entry(self, statement: RemoveEntry) -> None:
        """Remove an entry by its key."""
        table = find_table(self.program, statement.table)
        keys = keys_of(table, statement.matches)
        priority = _priority(table, statement.priority, statement.place)
        self._remove(self.control.find_entry(table.name, keys, priority))

    def _remove(self, entry: TableEntry) -> None:
        self.control.delete_entry(entry.table, entry.keys, entry.priority)
        self.added = [item for item in self.added if item != entry]
        self.handles = {name: item for name, item in self.handles.items() if item != entry}

    def entry(self, handle: StfWord) -> TableEntry:
        """Return the entry of a name, which may begin with ``$``."""
        found = self.handles.get(handle.text.lstrip("$"))
        if found is None:
            known = ", ".join(self.handles) or "none"
            raise handle.place.error(f"no entry is called {handle.text!r}; named are: {known}")
        return found

    def numbered_entry(self, table: Table, index: StfWord | StfValue) -> TableEntry:
        """Return an entry by its name or number; the program's come first, then those added, in
        order."""
        if isinstance(index, StfWord):
            return self.entry(index)
        entries = self.control.entries(table.name)
        refuse(
            index.value >= len(entries),
            f"table {table.name!r} has {len(entries)} entries: there is none {index.value}",
            index.place.error,
        )
        return entries[index.value]

    # -- targets

    def _target(self, table: Table, call: StfCall) -> Target:
        if table.profile is None:
            return action_call(table.actions, call, f"table {table.name!r}")
        profile = table.profile.name
        own = {action.name for action in table.actions}
        if call.name.text == "member" and "member" not in own:
            return MemberTarget(self._number(call, self.members, profile) + 1)
        if call.name.text == "group" and "group" not in own:
            return GroupTarget(self._number(call, self.groups, profile) + 1)
        target = action_call(table.actions, call, f"table {table.name!r}")
        return MemberTarget(self._own_member(profile, target))

    def _number(self, call: StfCall, named: dict[str, tuple[str, int]], profile: str) -> int:
        what = call.name.text
        refuse(
            len(call.arguments) != 1,
            f"{what}(...) takes one argument: its number or name",
            call.name.place.error,
        )
        return _numbered(call.arguments[0].value, named, profile, what)

    def _own_member(self, profile: str, call: ActionCall) -> int:
        number = OWN_MEMBERS + self.made.setdefault(f"own {profile}", 0)
        self.made[f"own {profile}"] += 1
        self.control.insert_member(ProfileMember(profile, number, call))
        return number

    # -- action profiles

    def _profile(self, word: StfWord) -> str:
        return resolve(
            word, "action profile", [profile.name for profile in self.program.profiles.values()]
        )

    def _actions(self, profile: str) -> Sequence[ProgramAction]:
        found = {
            action.code: action
            for table in self.program.tables.values()
            if table.profile is not None and table.profile.name == profile
            for action in table.actions
        }
        return list(found.values())

    def new_member(self, statement: NewMember) -> None:
        """Create a member; members are numbered from 0 on."""
        profile = self._profile(statement.profile)
        call = action_call(self._actions(profile), statement.call, f"action profile {profile!r}")
        number = self.made.setdefault(f"member {profile}", 0)
        self.control.insert_member(ProfileMember(profile, number + 1, call))
        self.made[f"member {profile}"] += 1
        if statement.handle is not None:
            self.members[statement.handle] = (profile, number)

    def new_group(self, statement: NewGroup) -> None:
        """Create a group; groups are numbered from 0 on."""
        profile = self._profile(statement.profile)
        number = self.made.setdefault(f"group {profile}", 0)
        self.control.insert_group(ProfileGroup(profile, number + 1, ()))
        self.made[f"group {profile}"] += 1
        if statement.handle is not None:
            self.groups[statement.handle] = (profile, number)

    def regroup(
        self, word: StfWord, member: StfWord | StfValue, group: StfWord | StfValue, join: bool
    ) -> None:
        """Let a member join a group, or leave it."""
        profile = self._profile(word)
        member_id = _numbered(member, self.members, profile, "member") + 1
        group_id = _numbered(group, self.groups, profile, "group") + 1
        found = [item for item in self.control.groups(profile) if item.group_id == group_id]
        if not found:
            raise NotFound(f"action profile {profile!r} has no group {group_id - 1}")
        rest = tuple(pair for pair in found[0].members if pair[0] != member_id)
        refuse(
            not join and len(rest) == len(found[0].members),
            f"member {member_id - 1} is not of group {group_id - 1}",
            NotFound,
        )
        members = (*rest, (member_id, 1)) if join else rest
        self.control.modify_group(ProfileGroup(profile, group_id, members))


def _numbered(
    index: StfWord | StfValue, named: dict[str, tuple[str, int]], profile: str, what: str
) -> int:
    if isinstance(index, StfValue):
        return index.value
    found = named.get(index.text.lstrip("$"))
    if found is None or found[0] != profile:
        known = [name for name, (of, _) in named.items() if of == profile]
        raise index.place.error(
            f"action profile {profile!r} has no {what} {index.text!r}; named are: "
            f"{', '.join(known) or 'none'}"
        )
    return found[1]


def _priority(table: Table, given: int | None, place: TextPlace) -> int:
    if not table.needs_priority:
        return 0
    refuse(
        given is not None and given >= GREATEST_PRIORITY,
        f"priority {given}: the greatest is {GREATEST_PRIORITY - 1}",
        place.error,
    )
    return GREATEST_PRIORITY - LOWEST_BMV2_PRIORITY + (given or 0)
