"""Multicast groups, their nodes, and mirroring sessions, as BMv2's command line sets them up."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.switch.engine.control import (
    AlreadyExists,
    CloneSession,
    MulticastGroup,
    NotFound,
    Replica,
    SwitchControl,
)


@dataclass
class Replication:
    """Nodes (handles from 0 on) are copies to ports; groups are made of nodes; a session mirrors to
    a port or to a group."""

    control: SwitchControl
    nodes: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)
    to_port: dict[int, int] = field(default_factory=dict)
    to_group: dict[int, int] = field(default_factory=dict)
    next_node: int = 0

    def create_group(self, group: int) -> None:
        """A group without nodes."""
        if group in self.groups:
            raise AlreadyExists(f"multicast group {group} exists already")
        self.groups[group] = []
        self._apply()

    def destroy_group(self, group: int) -> None:
        """Forget a group."""
        self._group(group)
        del self.groups[group]
        self._apply()

    def create_node(self, instance: int, ports: tuple[int, ...]) -> int:
        """A node's handle."""
        handle = self.next_node
        self.next_node += 1
        self.nodes[handle] = (instance, ports)
        return handle

    def update_node(self, handle: int, ports: tuple[int, ...]) -> None:
        """Give a node other ports."""
        instance, _ = self._node(handle)
        self.nodes[handle] = (instance, ports)
        self._apply()

    def destroy_node(self, handle: int) -> None:
        """Forget a node."""
        self._node(handle)
        del self.nodes[handle]
        for handles in self.groups.values():
            if handle in handles:
                handles.remove(handle)
        self._apply()

    def associate(self, group: int, handle: int) -> None:
        """Let a node be of a group."""
        self._node(handle)
        self._group(group).append(handle)
        self._apply()

    def dissociate(self, group: int, handle: int) -> None:
        """Let a node be of a group no more."""
        self._node(handle)
        if handle not in self._group(group):
            raise NotFound(f"node {handle} is not of multicast group {group}")
        self.groups[group].remove(handle)
        self._apply()

    def mirror_to_port(self, session: int, port: int) -> None:
        """Let clones of a session leave at a port, and at no group's any more."""
        self.to_group.pop(session, None)
        self.to_port[session] = port
        self._apply()

    def mirror_to_group(self, session: int, group: int) -> None:
        """Let clones of a session go where a group's copies go, and to no port any more."""
        self.to_port.pop(session, None)
        self.to_group[session] = group
        self._apply()

    def remove_mirror(self, session: int) -> None:
        """Forget a session."""
        self.describe_mirror(session)
        self.to_port.pop(session, None)
        self.to_group.pop(session, None)
        self._apply()

    def describe_mirror(self, session: int) -> str:
        """Where clones of a session go."""
        if session in self.to_port:
            return f"port {self.to_port[session]}"
        if session in self.to_group:
            return f"multicast group {self.to_group[session]}"
        raise NotFound(f"there is no mirroring session {session}")

    def _node(self, handle: int) -> tuple[int, tuple[int, ...]]:
        if handle not in self.nodes:
            known = ", ".join(map(str, self.nodes)) or "none"
            raise NotFound(f"there is no multicast node {handle}; nodes are: {known}")
        return self.nodes[handle]

    def _group(self, group: int) -> list[int]:
        if group not in self.groups:
            known = ", ".join(map(str, self.groups)) or "none"
            raise NotFound(f"there is no multicast group {group}; groups are: {known}")
        return self.groups[group]

    def _replicas(self, group: int) -> tuple[Replica, ...]:
        """The copies of a group: its nodes in order, the ports of each in theirs."""
        return tuple(
            Replica(port, self.nodes[handle][0])
            for handle in self.groups.get(group, ())
            for port in sorted(set(self.nodes[handle][1]))
        )

    def _mirrored(self, session: int) -> tuple[Replica, ...]:
        """The copies of a session."""
        if session in self.to_port:
            return (Replica(self.to_port[session]),)
        return self._replicas(self.to_group[session])

    def _apply(self) -> None:
        """Let the switch have what is set up here."""
        present = {group.group_id for group in self.control.multicast_groups()}
        for number in present - set(self.groups):
            self.control.delete_multicast_group(number)
        for number in self.groups.keys() - {0}:  # to group 0 no packet is multicast
            group = MulticastGroup(number, self._replicas(number))
            if number in present:
                self.control.modify_multicast_group(group)
            else:
                self.control.insert_multicast_group(group)
        sessions = {session.session_id for session in self.control.clone_sessions()}
        wanted = set(self.to_port) | set(self.to_group)
        for number in sessions - wanted:
            self.control.delete_clone_session(number)
        for number in wanted:
            session = CloneSession(number, self._mirrored(number))
            if number in sessions:
                self.control.modify_clone_session(session)
            else:
                self.control.insert_clone_session(session)
