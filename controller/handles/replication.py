"""The packet replication engine as a script handles it: multicast groups and clone sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from weft.base.arguments import items, whole, wholes
from weft.base.errors import InputError
from weft.base.units import shown
from weft.controller.entities import REPLICA_INSTANCE, PlannedMulticast
from weft.controller.handles.access import SwitchAccess
from weft.controller.plan import Update
from weft.switch.messages import p4runtime_pb2
from weft.topo.switch_kinds import BMV2_MAX_GROUP

MAX_GROUP = 65535
MAX_SESSION = 32767
"""The largest clone session that v1model's clones can name in BMv2, too."""
MAX_RID = 65535
MAX_PORT = 511


class Replica(NamedTuple):
    """A copy that the packet replication engine makes."""

    port: int
    """The port where it leaves; the CPU port, too."""
    rid: int = REPLICA_INSTANCE
    """What egress sees as ``standard_metadata.egress_rid``."""


Replicas: TypeAlias = Sequence[int | tuple[int, int] | Replica]
"""Ports, or pairs of port and egress_rid; a port alone gets the rid 1."""


@dataclass(frozen=True)
class CloneSession:
    """What a clone session does."""

    replicas: tuple[Replica, ...]
    packet_length: int
    """To how many bytes a clone is cut; 0: it is whole."""


class GroupsHandle:
    """A handle on the multicast groups of the packet replication engine, by their numbers."""

    def __init__(self, switch: SwitchAccess) -> None:
        self._switch = switch

    def insert(self, group: int, ports: Replicas) -> None:
        """Make a group (1 to 65535; on BMv2 to 32767) that copies a packet to each of some ports:
        ``[1, 2]``, or ``[(1, 5), (2, 6)]`` where the program looks at the copies' egress_rid."""
        self._switch.write(Update("insert", self._group(group, ports)))

    def modify(self, group: int, ports: Replicas) -> None:
        """Let a group that the script has made copy to other ports."""
        self._switch.write(Update("modify", self._group(group, ports)))

    def delete(self, group: int) -> None:
        """Delete a group that the script has made."""
        self._switch.write(Update("delete", self._group(group, ())))

    def read(self) -> dict[int, tuple[int, ...]]:
        """Return the ports of all groups, whoever has made them, by group."""
        return {
            group: tuple(each.port for each in replicas)
            for group, replicas in self.replicas().items()
        }

    def replicas(self) -> dict[int, tuple[Replica, ...]]:
        """Return the ports and rids of all groups, whoever has made them, by group."""
        query = {"multicast_group_entry": {"multicast_group_id": 0}}
        found = self._switch.read(packet_replication_engine_entry=query)
        groups = (one.packet_replication_engine_entry.multicast_group_entry for one in found)
        return {one.multicast_group_id: _read(one.replicas) for one in groups}

    def _group(self, group: int, ports: Replicas) -> PlannedMulticast:
        what = _numbered(self._switch, "group", group, MAX_GROUP)
        if group > BMV2_MAX_GROUP:
            self._switch.require(f"multicast group above {BMV2_MAX_GROUP}", f"group {group}")
        replicas = _replicas(what, ports)
        rids = tuple(each.rid for each in replicas)
        alike = all(rid == REPLICA_INSTANCE for rid in rids)
        return PlannedMulticast(group, tuple(each.port for each in replicas), () if alike else rids)


class ClonesHandle:
    """A handle on the clone sessions, by the numbers that the program's ``clone`` names."""

    def __init__(self, switch: SwitchAccess) -> None:
        self._switch = switch

    def insert(self, session: int, ports: Replicas, packet_length: int = 0) -> None:
        """Make a session (1 to 32767) that copies a packet to each of some ports.

        Args:
            ports: as for multicast groups (`GroupsHandle.insert`); the CPU port is one of them.
            packet_length: to how many bytes the switch cuts the clones; 0 leaves them whole, and
                BMv2 always does.
        """
        self._send("insert", session, ports, packet_length)

    def modify(self, session: int, ports: Replicas, packet_length: int = 0) -> None:
        """Let a session copy to other ports; the arguments are as for `insert`."""
        self._send("modify", session, ports, packet_length)

    def delete(self, session: int) -> None:
        """Delete a session."""
        self._send("delete", session, (), 0)

    def read(self) -> dict[int, CloneSession]:
        """Return all sessions by their numbers."""
        query = {"clone_session_entry": {"session_id": 0}}
        found = self._switch.read(packet_replication_engine_entry=query)
        sessions = (one.packet_replication_engine_entry.clone_session_entry for one in found)
        return {
            one.session_id: CloneSession(_read(one.replicas), one.packet_length_bytes)
            for one in sessions
        }

    def _send(self, kind: str, session: int, ports: Replicas, packet_length: int) -> None:
        what = _numbered(self._switch, "clone session", session, MAX_SESSION)
        length = whole(f"{what}: packet_length", packet_length, "128")
        if not 0 <= length < 1 << 31:
            raise InputError(
                f"{what}: packet_length {length}: a number of bytes from 1, or 0 for whole packets"
            )
        if length:
            self._switch.require(
                "clone session that cuts packets",
                f"clone session {session}, packet_length {length}",
            )
        replicas: list[Mapping[str, int]] = [
            {"egress_port": each.port, "instance": each.rid} for each in _replicas(what, ports)
        ]
        entry = {"session_id": session, "replicas": replicas, "packet_length_bytes": length}
        entity = p4runtime_pb2.Entity(
            packet_replication_engine_entry={"clone_session_entry": entry}
        )
        self._switch.session.send(kind, [entity], f"{kind} clone session {session}")


def _numbered(switch: SwitchAccess, kind: str, number: Any, most: int) -> str:
    """Return what a group or session is called in messages; raise InputError for a number that none
    can have."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise InputError(f"{switch.name}: {kind} {shown(number)}: the numbers are 1 to {most}")
    return f"{switch.name}: {kind} {number}"


def _replicas(what: str, ports: Any) -> list[Replica]:
    """Return the replicas that ports and pairs name, in order. Raises InputError."""
    place = f"{what}: ports"
    replicas = []
    for each in items(place, ports, "whole numbers", "[1, 2]"):
        pair = isinstance(each, tuple)
        if pair and len(each) != 2:
            raise InputError(f"{place}: {shown(each)}: a copy is a port, or a pair (port, rid)")
        numbers = wholes(place, each if pair else [each], "[1, 2]")
        replicas.append(Replica(*numbers))
    for replica in replicas:
        for name, number, most in (
            ("port", replica.port, MAX_PORT), ("rid", replica.rid, MAX_RID),
        ):  # fmt: skip
            if not 0 <= number <= most:
                raise InputError(f"{what}: {name} {number} is not in 0 to {most}")
    if len(set(replicas)) != len(replicas):
        raise InputError(f"{place} {shown([*ports])} has one twice")
    return sorted(replicas)


def _read(replicas: Any) -> tuple[Replica, ...]:
    """Return what the ``Replica`` messages of a group or session name, in order."""

    def port(one: Any) -> int:
        if one.WhichOneof("port_kind") == "port":
            return int.from_bytes(one.port, "big")
        return int(one.egress_port)

    return tuple(sorted(Replica(port(one), one.instance) for one in replicas))
