"""What a controller puts into a switch, by name and as plain data.

Names are those of the P4 program's P4Info. Nothing here knows a switch or protobuf:
``weft.controller.messages`` makes messages of these entities. Every entity has a ``key``, which
tells it from the others of one switch, and a text for messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from weft.switch.engine.control.entities import GroupTarget, Key, MemberTarget

REPLICA_INSTANCE = 1
"""The egress_rid of copies whose makers do not ask for one."""


@dataclass(frozen=True)
class Action:
    """An action by its name, with its parameters as (name, value) pairs."""

    name: str
    params: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(name: str, **params: int) -> "Action":
        """Return an action with this name and these parameters, as in
        ``Action.of("FabricIngress.forwarding.set_salt", salt=7)``."""
        return Action(name, tuple(params.items()))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:#x}' for name, value in self.params)})"


@dataclass(frozen=True)
class PlannedEntry:
    """A table entry; a field that ``match`` leaves out matches anything. `entry` makes
    one."""

    table: str
    match: tuple[tuple[str, Key], ...]
    target: Action | MemberTarget | GroupTarget
    priority: int = 0
    referred: bool = field(default=False, compare=False)
    """Whether members refer to the entry, so that it must be written before them and deleted after
    them."""
    idle_timeout_ns: int = 0
    """After so long without a hit the switch tells its controller; 0: it never does."""

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Return what tells the entry from the others of its switch."""
        return "entry", self.table, self.match, self.priority

    @property
    def match_text(self) -> str:
        """Return what the entry matches, as text."""
        match = ", ".join(f"{name} = {value}" for name, value in self.match) or "anything"
        return match + (f" (priority {self.priority})" if self.priority else "")

    def __str__(self) -> str:
        return f"entry of {self.table}: {self.match_text} -> {self.target}"


def entry(
    table: str,
    match: Mapping[str, Key],
    target: Action | MemberTarget | GroupTarget,
    priority: int = 0,
    *,
    referred: bool = False,
    idle_timeout_ns: int = 0,
) -> PlannedEntry:
    """Return a table entry; the order of ``match`` does not matter."""
    key = tuple(sorted(match.items()))
    return PlannedEntry(table, key, target, priority, referred, idle_timeout_ns)


@dataclass(frozen=True)
class DefaultAction:
    """The default action of a table; None puts back the one that the P4 program has."""

    table: str
    action: Action | None

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells the default action from the other entities of its switch."""
        return "default", self.table

    def __str__(self) -> str:
        return f"default action of {self.table} -> {self.action or 'as in the program'}"


@dataclass(frozen=True)
class PlannedMember:
    """A member of an action profile or selector."""

    profile: str
    member_id: int
    action: Action

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells the member from the other entities of its switch."""
        return "member", self.profile, self.member_id

    def __str__(self) -> str:
        return f"member {self.member_id} of {self.profile} -> {self.action}"


@dataclass(frozen=True)
class PlannedGroup:
    """A group of an action selector by (member id, weight) pairs in the order of
    the ids."""

    profile: str
    group_id: int
    members: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells the group from the other entities of its switch."""
        return "group", self.profile, self.group_id

    def __str__(self) -> str:
        members = ", ".join(str(member_id) for member_id, _ in self.members)
        return f"group {self.group_id} of {self.profile} -> members {members or 'none'}"


@dataclass(frozen=True)
class PlannedMulticast:
    """A group of the packet replication engine, which copies a packet to each of its
    ports; these are sorted."""

    group_id: int
    ports: tuple[int, ...]
    instances: tuple[int, ...] = ()
    """The egress_rid of each copy; empty: `REPLICA_INSTANCE` of all, as a copy is known by its
    port."""

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells the group from the other entities of its switch."""
        return "multicast group", self.group_id

    def __str__(self) -> str:
        told = [
            f"{port} (rid {rid})" for port, rid in zip(self.ports, self.instances, strict=False)
        ]
        return (
            f"multicast group {self.group_id} -> ports "
            f"{', '.join(told or map(str, self.ports)) or 'none'}"
        )

    @property
    def replicas(self) -> tuple[tuple[int, int], ...]:
        """Return (port, egress_rid) of each copy."""
        rids = self.instances or (REPLICA_INSTANCE,) * len(self.ports)
        return tuple(zip(self.ports, rids, strict=True))


Entity: TypeAlias = PlannedEntry | DefaultAction | PlannedMember | PlannedGroup | PlannedMulticast
