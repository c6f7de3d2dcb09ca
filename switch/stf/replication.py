"""Multicast groups, their nodes, and mirroring sessions, as BMv2's command line sets them up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from weft.base.errors import refuse
from weft.switch.engine.control import (
    AlreadyExists,
    CloneSession,
    MulticastGroup,
    NotFound,
    Replica,
)
from weft.switch.engine.state import SwitchControl

Item = TypeVar("Item")


@dataclass
class Replication:
    """The nodes, groups and sessions of a switch; `apply` brings them there.

    Nodes, whose handles begin with 0, are copies to ports; groups are made of nodes; a session
    mirrors to a port or to a group.
    """

    control: SwitchControl
    nodes: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)
    to_port: dict[int, int] = field(default_factory=dict)
    to_group: dict[int, int] = field(default_factory=dict)
    next_node: int = 0

    def create_group(self, group: int) -> None:
        """Make a group without nodes."""
        refuse(group in self.groups, f"multicast group {group} exists already", AlreadyExists)
        self.groups[group] = []

    def destroy_group(self, group: int) -> None:
        """Forget a group."""
        self._group(group)
        del self.groups[group]

    def create_node(self, instance: int, *ports: int) -> str:
        """Make a node, and return what its handle is, in words."""
        handle = self.next_node
        self.next_node += 1
        self.nodes[handle] = (instance, ports)
        return f"node {handle} was created"

    def update_node(self, handle: int, *ports: int) -> None:
        """Give a node other ports."""
        instance, _ = self._node(handle)
        self.nodes[handle] = (instance, ports)

    def destroy_node(self, handle: int) -> None:
        """Forget a node."""
        self._node(handle)
        del self.nodes[handle]
        for handles in self.groups.values():
            if handle in handles:
                handles.remove(handle)

    def associate(self, group: int, handle: int) -> None:
        """Add a node to a group."""
        self._node(handle)
        self._group(group).append(handle)

    def dissociate(self, group: int, handle: int) -> None:
        """Take a node out of a group."""
        self._node(handle)
        refuse(
            handle not in self._group(group),
            f"node {handle} is not of multicast group {group}",
            NotFound,
        )
        self.groups[group].remove(handle)

    def mirror_to_port(self, session: int, port: int) -> None:
        """Let clones of a session leave at a port, and no longer where a group's copies go."""
        self.to_group.pop(session, None)
        self.to_port[session] = port

    def mirror_to_group(self, session: int, group: int) -> None:
        """Let clones of a session go where a group's copies go, and no longer to a port."""
        self.to_port.pop(session, None)
        self.to_group[session] = group

    def remove_mirror(self, session: int) -> None:
        """Forget a session."""
        self.describe_mirror(session)
        self.to_port.pop(session, None)
        self.to_group.pop(session, None)

    def describe_mirror(self, session: int) -> str:
        """Return in words where clones of a session go."""
        if session in self.to_port:
            return f"port {self.to_port[session]}"
        if session in self.to_group:
            return f"multicast group {self.to_group[session]}"
        raise NotFound(f"there is no mirroring session {session}")

    def _node(self, handle: int) -> tuple[int, tuple[int, ...]]:
        return _need("multicast node", "nodes", self.nodes, handle)

    def _group(self, group: int) -> list[int]:
        return _need("multicast group", "groups", self.groups, group)

    def _replicas(self, group: int) -> tuple[Replica, ...]:
        """Return the copies of a group: its nodes in order, and the ports of each node in order."""
        return tuple(
            Replica(port, self.nodes[handle][0])
            for handle in self.groups.get(group, ())
            for port in sorted(set(self.nodes[handle][1]))
        )

    def _mirrored(self, session: int) -> tuple[Replica, ...]:
        """Return the copies of a session."""
        if session in self.to_port:
            return (Replica(self.to_port[session]),)
        return self._replicas(self.to_group[session])

    def apply(self) -> None:
        """Bring what is set up here into the switch."""
        control, groups = self.control, self.groups.keys() - {0}  # to 0 no packet is multicast
        _agree(
            {group.group_id for group in control.multicast_groups()},
            {number: MulticastGroup(number, self._replicas(number)) for number in groups},
            control.delete_multicast_group,
            control.modify_multicast_group,
            control.insert_multicast_group,
        )
        sessions = {*self.to_port, *self.to_group}
        _agree(
            {session.session_id for session in control.clone_sessions()},
            {number: CloneSession(number, self._mirrored(number)) for number in sessions},
            control.delete_clone_session,
            control.modify_clone_session,
            control.insert_clone_session,
        )


def _need(kind: str, kinds: str, items: dict[int, Item], number: int) -> Item:
    refuse(
        number not in items,
        f"there is no {kind} {number}; {kinds} are: {', '.join(map(str, items)) or 'none'}",
        NotFound,
    )
    return items[number]


def _agree(
    present: set[int],
    wanted: dict[int, Item],
    delete: Callable[[int], None],
    modify: Callable[[Item], None],
    insert: Callable[[Item], None],
) -> None:
    """Bring what is wanted into the switch, and remove everything else."""
    for number in present - wanted.keys():
        delete(number)
    for number, item in wanted.items():
        (modify if number in present else insert)(item)
