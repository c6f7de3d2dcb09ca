"""Multicast groups and clone sessions of a switch as its controller sees them."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weft.base.errors import refuse
from weft.switch.engine.amounts import MOST_REPLICAS, MOST_REPLICAS_IN_ALL
from weft.switch.engine.control import (
    AlreadyExists,
    CloneSession,
    InvalidValue,
    MulticastGroup,
    NotFound,
    TableFull,
)

Copied: TypeAlias = MulticastGroup | CloneSession

GROUP_IDS = range(1, 1 << 16)
SESSION_IDS = range(1 << 15)


@dataclass
class Replication:
    """Groups and sessions by their ids, and how many replicas they have together."""

    groups: dict[int, MulticastGroup] = field(default_factory=dict)
    sessions: dict[int, CloneSession] = field(default_factory=dict)
    replicas: int = 0

    def insert(self, new: Copied) -> None:
        """Insert a group or session. Raises AlreadyExists, InvalidValue, TableFull."""
        what, ids, identifier, items = self._of(new)
        refuse(identifier in items, f"{what} exists already", AlreadyExists)
        refuse(identifier not in ids, f"{what}: ids go from {ids[0]} to {ids[-1]}", InvalidValue)
        self._check(what, new, 0)
        items[identifier] = new

    def modify(self, new: Copied) -> None:
        """Change a group or session. Raises NotFound, InvalidValue, TableFull."""
        what, _, identifier, items = self._of(new)
        refuse(identifier not in items, f"there is no {what}", NotFound)
        self._check(what, new, len(items[identifier].replicas))
        items[identifier] = new

    def delete_group(self, group_id: int) -> None:
        """Delete a group. Raises NotFound."""
        refuse(group_id not in self.groups, f"there is no multicast group {group_id}", NotFound)
        self.replicas -= len(self.groups.pop(group_id).replicas)

    def delete_session(self, session_id: int) -> None:
        """Delete a session. Raises NotFound."""
        refuse(session_id not in self.sessions, f"there is no clone session {session_id}", NotFound)
        self.replicas -= len(self.sessions.pop(session_id).replicas)

    def _of(self, one: Copied) -> tuple[str, range, int, dict[int, Any]]:
        """Return what a group or session is called, the ids that there can be, its own, its
        like."""
        if isinstance(one, MulticastGroup):
            return f"multicast group {one.group_id}", GROUP_IDS, one.group_id, self.groups
        return f"clone session {one.session_id}", SESSION_IDS, one.session_id, self.sessions

    def _check(self, what: str, new: Copied, old: int) -> None:
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
            refuse(
                not 0 <= replica.port < 512 or not 0 <= replica.instance < 1 << 16,
                f"{what}: {replica} is out of range (port 511, instance 65535)",
                InvalidValue,
            )
        self.replicas = in_all
