"""Multicast groups that are made of nodes, and mirroring sessions.

P4Runtime knows neither nodes nor sessions that follow a multicast group: these are in the switch's
memo. What packets see of them, groups and clone sessions with their copies, is written by
P4Runtime.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weft.controller.bmv2_cli.access import Access
from weft.controller.bmv2_cli.refusals import REPLICATION_CODES, OperationRefused
from weft.switch.messages import p4runtime_pb2

LAG_HASH = 0xFF
_MIRRORING = {"NOT_FOUND": "SESSION_NOT_FOUND"}


@dataclass
class Node:
    """A node copies packets to ports, and to one port of each of its LAGs, with a replication id; a
    group may have it."""

    rid: int
    ports: list[int]
    lags: list[int] = field(default_factory=list)


@dataclass
class Layout:
    """The nodes by handles, the nodes of groups, and the groups that sessions follow."""

    nodes: dict[int, Node] = field(default_factory=dict)
    groups: dict[int, list[int]] = field(default_factory=dict)
    mirrors: dict[int, int] = field(default_factory=dict)
    lags: dict[int, list[int]] = field(default_factory=dict)
    """The ports of LAGs."""

    def ports(self, node: Node) -> list[int]:
        """Return where a node's copies go. Of a LAG BMv2 takes the port that the hash 255 chooses,
        for every packet."""
        members = [self.lags[lag] for lag in node.lags if self.lags.get(lag)]
        return node.ports + [ports[LAG_HASH % len(ports)] for ports in members]

    def copies(self, group: int) -> list[tuple[int, int]]:
        """Return the copies of a group, as port and replication id."""
        return [
            (port, self.nodes[handle].rid)
            for handle in self.groups.get(group, ())
            for port in self.ports(self.nodes[handle])
        ]


class Replication:
    """What a switch makes copies of, and where they go."""

    def __init__(self, switch: Access) -> None:
        self._switch = switch

    def layout(self) -> Layout:
        """Return what is set up: what the memo has, as far as the switch's groups agree; the copies
        of a group that others have made are nodes with one port each."""
        memo = self._switch.memo().get("replication", {})
        layout = Layout(
            {int(handle): Node(**node) for handle, node in memo.get("nodes", {}).items()},
            {int(group): list(nodes) for group, nodes in memo.get("groups", {}).items()},
            {int(session): group for session, group in memo.get("mirrors", {}).items()},
            {int(lag): list(ports) for lag, ports in memo.get("lags", {}).items()},
        )
        if not self._switch.has_memo:
            return layout
        present = self._groups()
        for group in layout.groups.keys() - present.keys():
            del layout.groups[group]
        for group, copies in present.items():
            if sorted(layout.copies(group)) != sorted(copies):
                layout.groups[group] = [_added(layout, rid, [port]) for port, rid in copies]
        return layout

    def create_group(self, group: int) -> None:
        """Make a group without nodes; one that is there stays as it is, as in BMv2."""
        layout = self.layout()
        if group not in layout.groups:
            self._write("insert", group, [])
            layout.groups[group] = []
            self._keep(layout)

    def destroy_group(self, group: int) -> None:
        """Delete a group, if it is there; its nodes stay."""
        layout = self.layout()
        if layout.groups.pop(group, None) is not None:
            self._write("delete", group, [])
            self._keep(layout)

    def create_node(self, rid: int, ports: Sequence[int], lags: Sequence[int] = ()) -> int:
        """Make a node, and return its handle."""
        layout = self.layout()
        handle = _added(layout, rid, sorted(ports))
        layout.nodes[handle].lags = sorted(lags)
        self._keep(layout)
        return handle

    def set_lag(self, lag: int, ports: Sequence[int]) -> None:
        """Let a LAG have these ports."""
        layout = self.layout()
        layout.lags[lag] = sorted(ports)
        having = {handle for handle, node in layout.nodes.items() if lag in node.lags}
        changed = [group for group, nodes in layout.groups.items() if having & set(nodes)]
        self._apply(layout, changed)

    def update_node(self, handle: int, ports: Sequence[int], lags: Sequence[int] = ()) -> None:
        """Give a node other ports and LAGs."""
        layout = self.layout()
        node = _node(layout, handle)
        node.ports, node.lags = sorted(ports), sorted(lags)
        self._apply(layout, [group for group, nodes in layout.groups.items() if handle in nodes])

    def destroy_node(self, handle: int) -> None:
        """Delete a node; the group that has it loses it."""
        layout = self.layout()
        _node(layout, handle)
        changed = [group for group, nodes in layout.groups.items() if handle in nodes]
        for group in changed:
            layout.groups[group].remove(handle)
        del layout.nodes[handle]
        self._apply(layout, changed)

    def associate(self, group: int, handle: int) -> None:
        """Add a node to a group."""
        layout = self.layout()
        _node(layout, handle)
        nodes = _nodes(layout, group)
        for other, held in layout.groups.items():
            if handle in held:
                raise _refused("ERROR", f"node {handle} is in multicast group {other} already")
        nodes.append(handle)
        self._apply(layout, [group])

    def dissociate(self, group: int, handle: int) -> None:
        """Take a node out of a group."""
        layout = self.layout()
        _node(layout, handle)
        if handle not in _nodes(layout, group):
            raise _refused("ERROR", f"node {handle} is not in group {group}")
        layout.groups[group].remove(handle)
        self._apply(layout, [group])

    def mirror(self, session: int, port: int | None, group: int | None = None) -> None:
        """Let what is cloned to a session leave at a port, or where a group's copies go, or
        both."""
        layout = self.layout()
        layout.mirrors.pop(session, None)
        if group is not None:
            layout.mirrors[session] = group
        copies = [] if port is None else [(port, 0)]
        self._write_session(session, copies + ([] if group is None else layout.copies(group)))
        self._keep(layout)

    def mirrors(self) -> dict[int, tuple[int | None, int | None]]:
        """Return the group and the port of each session; None for none."""
        layout = self.layout()
        found = {}
        for session, copies in self._sessions().items():
            group = layout.mirrors.get(session)
            own = list(copies)
            for copy in layout.copies(group) if group is not None else ():
                if copy in own:
                    own.remove(copy)
            found[session] = (group, own[0][0] if own else None)
        return found

    def mirror_of(self, session: int) -> tuple[int | None, int | None]:
        """Return the group and the port of a session; None for none."""
        mirrors = self.mirrors()
        if session not in mirrors:
            raise OperationRefused(
                "mirroring",
                "SESSION_NOT_FOUND",
                f"there is no session {session}; sessions are "
                f"{', '.join(map(str, sorted(mirrors))) or 'none'}",
            )
        return mirrors[session]

    def remove_mirror(self, session: int) -> None:
        """Let what is cloned to a session go nowhere."""
        self.mirror_of(session)
        layout = self.layout()
        layout.mirrors.pop(session, None)
        entry = {"clone_session_entry": {"session_id": session}}
        self._send("delete", f"delete mirroring session {session}", entry)
        self._keep(layout)

    def _apply(self, layout: Layout, groups: Sequence[int]) -> None:
        """Bring groups, and the sessions that follow them, to what a layout says; and keep it."""
        before = self.mirrors() if layout.mirrors else {}
        for group in groups:
            self._write("modify", group, layout.copies(group))
        for session, group in layout.mirrors.items():
            if group in groups:
                port = before.get(session, (None, None))[1]
                copies = [] if port is None else [(port, 0)]
                self._write_session(session, copies + layout.copies(group))
        self._keep(layout)

    def _keep(self, layout: Layout) -> None:
        self._switch.keep_memo({**self._switch.memo(), "replication": asdict(layout)})

    def _groups(self) -> dict[int, list[tuple[int, int]]]:
        return {
            one.multicast_group_entry.multicast_group_id: _copies(one.multicast_group_entry)
            for one in self._read({"multicast_group_entry": {}})
        }

    def _sessions(self) -> dict[int, list[tuple[int, int]]]:
        return {
            one.clone_session_entry.session_id: _copies(one.clone_session_entry)
            for one in self._read({"clone_session_entry": {}})
        }

    def _read(self, query: dict[str, Any]) -> list[Any]:
        found = self._switch.read(packet_replication_engine_entry=query)
        return [one.packet_replication_engine_entry for one in found]

    def _write(self, kind: str, group: int, copies: Sequence[tuple[int, int]]) -> None:
        entry = {"multicast_group_id": group, "replicas": _replicas(copies)}
        self._send(kind, f"{kind} multicast group {group}", {"multicast_group_entry": entry})

    def _write_session(self, session: int, copies: Sequence[tuple[int, int]]) -> None:
        kind = "modify" if session in self._sessions() else "insert"
        entry = {"session_id": session, "replicas": _replicas(copies)}
        self._send(kind, f"set mirroring session {session}", {"clone_session_entry": entry})

    def _send(self, kind: str, what: str, entry: dict[str, Any]) -> None:
        entity = p4runtime_pb2.Entity(packet_replication_engine_entry=entry)
        mirrors = "clone_session_entry" in entry
        operation, codes = ("mirroring", _MIRRORING) if mirrors else ("PRE", REPLICATION_CODES)
        self._switch.write(kind, [entity], what, operation, codes)


def _copies(entry: Any) -> list[tuple[int, int]]:
    return [
        (
            one.egress_port
            if one.WhichOneof("port_kind") == "egress_port"
            else int.from_bytes(one.port, "big"),
            one.instance,
        )
        for one in entry.replicas
    ]


def _replicas(copies: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"egress_port": port, "instance": rid} for port, rid in copies]


def _added(layout: Layout, rid: int, ports: list[int]) -> int:
    taken = layout.nodes
    handle = next(number for number in range(len(taken) + 1) if number not in taken)
    taken[handle] = Node(rid, ports)
    return handle


def _refused(code: str, why: str) -> OperationRefused:
    return OperationRefused("PRE", code, why)


def _node(layout: Layout, handle: int) -> Node:
    if handle not in layout.nodes:
        handles = ", ".join(map(str, sorted(layout.nodes))) or "none"
        raise _refused("INVALID_L1_HANDLE", f"there is no node {handle}; nodes are {handles}")
    return layout.nodes[handle]


def _nodes(layout: Layout, group: int) -> list[int]:
    if group not in layout.groups:
        groups = ", ".join(map(str, sorted(layout.groups))) or "none"
        raise _refused("INVALID_MGRP_HANDLE", f"there is no group {group}; groups are {groups}")
    return layout.groups[group]
