"""All that a controller has set on a switch and that packets are to meet: one version of it.

That is tables, the members and groups of action profiles, the members of parser value sets,
multicast groups and clone sessions, as their controller sees them.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from weft.base.errors import refuse
from weft.switch.engine.architectures.registry import SPECIAL_PORTS
from weft.switch.engine.control.entities import (
    CloneSession,
    Exact,
    Key,
    Lpm,
    MeterConfig,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    Range,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.errors import (
    AlreadyExists,
    InvalidKey,
    InvalidValue,
    NotFound,
    StillInUse,
    TableFull,
)
from weft.switch.engine.control.tables import TableState, check_call, encode_key, normal_key
from weft.switch.engine.program.amounts import MOST_REPLICAS, MOST_REPLICAS_IN_ALL
from weft.switch.engine.program.headers import Groups, ValueSet
from weft.switch.engine.program.program import KeyField, Profile, Program, ProgramAction

GROUP_IDS = range(1, 1 << 16)
SESSION_IDS = range(1 << 15)


@dataclass(frozen=True)
class Version:
    """What a controller has set, as it was when packets began to meet it."""

    tables: Mapping[str, Mapping[int, TableEntry]]
    """Every table's entries by their cells."""
    groups: Mapping[int, MulticastGroup]
    sessions: Mapping[int, CloneSession]


@dataclass
class ProfileState:
    """An action profile, the actions that its members may have, and what is in it."""

    profile: Profile
    actions: tuple[ProgramAction, ...]
    members: dict[int, ProfileMember] = field(default_factory=dict)
    groups: dict[int, ProfileGroup] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Return its name, for messages."""
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


Members = list[tuple[Key, ...]]
Pairs = list[list[tuple[int, int]]]


@dataclass
class ValueSetState:
    """A value set, its members, and the widths of the parts of the keys that look it up."""

    value_set: ValueSet
    widths: tuple[int, ...]
    members: Members = field(default_factory=list)

    @property
    def what(self) -> str:
        """Return its name, for messages."""
        return f"value set {self.value_set.name!r}"

    def replace(self, members: Iterable[tuple[Key, ...]]) -> None:
        """Set all members; raises InvalidKey, TableFull, AlreadyExists."""
        checked = [self._member(member) for member in members]
        refuse(
            len(checked) > self.value_set.size,
            f"{self.what} has room for {self.value_set.size} members, not {len(checked)}",
            TableFull,
        )
        refuse(
            len(set(checked)) != len(checked),
            f"{self.what}: a member is given twice",
            AlreadyExists,
        )
        self.members, before = checked, self.members
        try:
            self.encode()
        except InvalidKey:
            self.members = before
            raise

    def _member(self, member: tuple[Key, ...]) -> tuple[Key, ...]:
        if len(member) == 1 and len(self.widths) > 1 and isinstance(member[0], Exact):
            member = self._split(member[0].value)
        refuse(
            len(member) != len(self.widths),
            f"{self.what} has {len(self.widths)} fields, not {len(member)}",
            InvalidKey,
        )
        kinds = {Exact: "exact", Lpm: "lpm", Range: "range"}
        return tuple(
            normal_key(
                self.what,
                key,
                KeyField(str(place), kinds.get(type(key), "ternary"), width, None, None),
            )
            for place, (key, width) in enumerate(zip(member, self.widths, strict=True))
        )

    def _split(self, value: int) -> tuple[Key, ...]:
        """Return all fields as one number, as BMv2's command line gives them."""
        keys: list[Key] = []
        for width in reversed(self.widths):
            keys.insert(0, Exact(value & ((1 << width) - 1)))
            value >>= width
        if value:
            raise InvalidKey(f"{self.what} has {sum(self.widths)} bits, a member has more")
        return tuple(keys)

    def encode(self) -> tuple[Pairs, list[bool]]:
        """Return of each member a (value, mask) or (low, high) pair for each part, and which parts
        are ranges."""
        parts = range(len(self.widths))
        ranges = [any(isinstance(member[k], Range) for member in self.members) for k in parts]
        return [
            [self._pair(member[k], self.widths[k], ranges[k]) for k in parts]
            for member in self.members
        ], ranges

    def _pair(self, key: Key, width: int, as_range: bool) -> tuple[int, int]:
        first, second = encode_key(key, width)
        if not as_range or isinstance(key, Range):
            return first, second
        rest = ((1 << width) - 1) & ~second
        refuse(
            rest & (rest + 1),
            f"{self.what}: {key} cannot be together with a range in the same field",
            InvalidKey,
        )
        return first, first | rest


def value_set_states(groups: Groups) -> dict[str, ValueSetState]:
    """Return the value sets of a program, empty."""
    return {
        name: ValueSetState(
            value_set,
            min(
                (use.widths for use in groups.uses if use.value_set == name),
                default=(value_set.bits,),
            ),
        )
        for name, value_set in groups.value_sets.items()
    }


Replicated: TypeAlias = MulticastGroup | CloneSession


@dataclass
class Replication:
    """The groups and sessions by their ids, and how many replicas they have together."""

    groups: dict[int, MulticastGroup] = field(default_factory=dict)
    sessions: dict[int, CloneSession] = field(default_factory=dict)
    replicas: int = 0

    def insert(self, new: Replicated) -> None:
        """Insert a group or session. Raises AlreadyExists, InvalidValue, TableFull."""
        what, ids, identifier, items = self._of(new)
        refuse(identifier in items, f"{what} exists already", AlreadyExists)
        refuse(identifier not in ids, f"{what}: ids go from {ids[0]} to {ids[-1]}", InvalidValue)
        self._check(what, new, 0)
        items[identifier] = new

    def modify(self, new: Replicated) -> None:
        """Change a group or session. Raises NotFound, InvalidValue, TableFull."""
        what, _, identifier, items = self._of(new)
        refuse(identifier not in items, f"there is no {what}", NotFound)
        self._check(what, new, len(items[identifier].replicas))
        items[identifier] = new

    def delete(self, kind: type[Replicated], number: int) -> None:
        """Delete a group or session. Raises NotFound."""
        what, items = (
            ("multicast group", self.groups)
            if kind is MulticastGroup
            else ("clone session", self.sessions)
        )
        refuse(number not in items, f"there is no {what} {number}", NotFound)
        self.replicas -= len(items.pop(number).replicas)

    def _of(self, one: Replicated) -> tuple[str, range, int, dict[int, Any]]:
        """Return what a group or session is called, the ids that there can be, its own, its
        like."""
        if isinstance(one, MulticastGroup):
            return f"multicast group {one.group_id}", GROUP_IDS, one.group_id, self.groups
        return f"clone session {one.session_id}", SESSION_IDS, one.session_id, self.sessions

    def _check(self, what: str, new: Replicated, old: int) -> None:
        """Count replicas in place of so many others, if they can be taken."""
        count = len(new.replicas)
        refuse(
            count > MOST_REPLICAS,
            f"{what} has {count} replicas: at most {MOST_REPLICAS}",
            TableFull,
        )
        in_all = self.replicas + count - old
        refuse(
            in_all > max(MOST_REPLICAS_IN_ALL, self.replicas),
            f"{what} with its {count} replicas would make {in_all} in all groups and "
            f"sessions: at most {MOST_REPLICAS_IN_ALL}",
            TableFull,
        )
        for replica in new.replicas:
            is_port = 0 <= replica.port < 512 or replica.port in SPECIAL_PORTS
            refuse(
                not is_port or not 0 <= replica.instance < 1 << 16,
                f"{what}: {replica} is out of range (port 511, instance 65535)",
                InvalidValue,
            )
        self.replicas = in_all


State = TypeVar("State")


@dataclass
class Contents:
    """Tables, profiles and value sets by name, and the rates of meters by their cells."""

    tables: dict[str, TableState] = field(default_factory=dict)
    profiles: dict[str, ProfileState] = field(default_factory=dict)
    value_sets: dict[str, ValueSetState] = field(default_factory=dict)
    replication: Replication = field(default_factory=Replication)
    rates: dict[int, MeterConfig] = field(default_factory=dict)
    ports_down: set[int] = field(default_factory=set)

    def copy(self) -> "Contents":
        """Return a copy, which does not change with this one."""
        return Contents(
            {name: _copied(state) for name, state in self.tables.items()},
            {name: _copied(state) for name, state in self.profiles.items()},
            {name: _copied(state) for name, state in self.value_sets.items()},
            _copied(self.replication),
            dict(self.rates),
            set(self.ports_down),
        )


def contents_of(program: Program, cpu_port: int | None = None) -> Contents:
    """Return what a program itself gives: its own entries, and what its architecture has from the
    start where there is a port to the controller."""
    contents = Contents(
        {table.name: TableState(table) for table in program.tables.values()},
        profile_states(program),
        value_set_states(program.groups),
    )
    session = program.architecture.cpu_session
    if session is not None and cpu_port is not None:
        contents.replication.insert(CloneSession(session, (Replica(cpu_port),)))
    return contents


def _copied(state: State) -> State:
    """Return a copy of an object, and of the containers that it holds."""
    new = copy(state)
    for name, value in vars(state).items():
        if isinstance(value, (dict, list, set)):
            setattr(new, name, copy(value))
    return new
