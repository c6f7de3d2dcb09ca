"""A switch as a script handles it: tables, counters, registers, meters and so on by their names.

What is written goes through the controller's own session, which owns the switch; what the
controller's plans hold stays theirs (`weft.controller.claims`). Names are those of the switch's own
program, whole or only their ends: ``ipv4_route`` for ``FabricIngress.forwarding.ipv4_route``.
"""

import time
from typing import TYPE_CHECKING, Any

from weft.controller.client import Session
from weft.controller.handles.access import Owner, SwitchAccess
from weft.controller.handles.cells import CounterHandle, MeterHandle, RegisterHandle
from weft.controller.handles.notices import (
    ControllerPacket,
    Digest,
    IdleEntry,
    SwitchNotices,
    Wait,
)
from weft.controller.handles.profiles import ProfileHandle
from weft.controller.handles.queues import QueueHandle
from weft.controller.handles.replication import ClonesHandle, GroupsHandle
from weft.controller.handles.table import TableHandle
from weft.controller.handles.value_sets import ValueSetHandle
from weft.controller.handles.values import Value
from weft.topo.switch_kinds import SwitchKind

if TYPE_CHECKING:
    from scapy.packet import Packet


class SwitchHandle:
    """A handle on one switch of a controller.

    All methods of this and of what it gives raise InputError for a name or a value that makes no
    sense, and SwitchError where the switch refuses.
    """

    def __init__(
        self,
        controller: Owner,
        switch: str,
        wait: Wait = time.sleep,
        kind: SwitchKind = "weft",
    ) -> None:
        """``wait`` lets so many seconds pass, in the time of the switch's world; ``kind`` is what
        the switch is, whose shortcomings errors then name."""
        self.name = switch
        """The switch's name."""
        self._access = SwitchAccess(controller, switch, kind)
        self._notices = SwitchNotices(self._access, wait)

    @property
    def session(self) -> Session:
        """The session that owns the switch, for what has no handle here."""
        return self._access.session

    @property
    def p4info(self) -> Any:
        """The ``p4.config.v1.P4Info`` of the program that the switch runs."""
        return self._access.p4info

    @property
    def tables(self) -> dict[str, TableHandle]:
        """The program's tables by their full names."""
        return {one.preamble.name: TableHandle(self._access, one) for one in self.p4info.tables}

    @property
    def counters(self) -> dict[str, CounterHandle]:
        """The program's indirect counters by their full names."""
        return {one.preamble.name: CounterHandle(self._access, one) for one in self.p4info.counters}

    @property
    def registers(self) -> dict[str, RegisterHandle]:
        """The program's registers by their full names."""
        return {
            one.preamble.name: RegisterHandle(self._access, one) for one in self.p4info.registers
        }

    @property
    def meters(self) -> dict[str, MeterHandle]:
        """The program's indirect meters by their full names."""
        return {one.preamble.name: MeterHandle(self._access, one) for one in self.p4info.meters}

    @property
    def profiles(self) -> dict[str, ProfileHandle]:
        """The program's action profiles and selectors by their full names."""
        found = self.p4info.action_profiles
        return {one.preamble.name: ProfileHandle(self._access, one) for one in found}

    @property
    def value_sets(self) -> dict[str, ValueSetHandle]:
        """The value sets of the program's parser by their full names."""
        found = self.p4info.value_sets
        return {one.preamble.name: ValueSetHandle(self._access, one) for one in found}

    def table(self, name: str) -> TableHandle:
        """Return the table of this name."""
        return TableHandle(
            self._access, self._access.find("table", name, self._access.p4info.tables)
        )

    def counter(self, name: str) -> CounterHandle:
        """Return the indirect counter of this name; what a direct one has counted is in the entries
        of its table."""
        return CounterHandle(
            self._access, self._access.find("counter", name, self._access.p4info.counters)
        )

    def register(self, name: str) -> RegisterHandle:
        """Return the register of this name."""
        return RegisterHandle(
            self._access, self._access.find("register", name, self._access.p4info.registers)
        )

    def meter(self, name: str) -> MeterHandle:
        """Return the indirect meter of this name; the rates of a direct one are set by
        `TableHandle.set_meter`, and are in the entries of its table."""
        return MeterHandle(
            self._access, self._access.find("meter", name, self._access.p4info.meters)
        )

    def profile(self, name: str) -> ProfileHandle:
        """Return the action profile or selector of this name."""
        return ProfileHandle(
            self._access,
            self._access.find("action profile", name, self._access.p4info.action_profiles),
        )

    def value_set(self, name: str) -> ValueSetHandle:
        """Return the parser's value set of this name."""
        return ValueSetHandle(
            self._access, self._access.find("value set", name, self._access.p4info.value_sets)
        )

    def queue(self, port: int, priority: int = 0) -> QueueHandle:
        """Return the queue of a priority at a port."""
        return QueueHandle(self._access, port, priority)

    @property
    def clones(self) -> ClonesHandle:
        """The clone sessions of the packet replication engine."""
        return ClonesHandle(self._access)

    @property
    def groups(self) -> GroupsHandle:
        """The multicast groups of the packet replication engine."""
        return GroupsHandle(self._access)

    def digests(self, timeout: float = 0.0, count: int = 0) -> list[Digest]:
        """Return the digests that have come since the network is up, or since the last call, and
        that come until ``timeout`` seconds are over or ``count`` are there (0: however many)."""
        return self._notices.digests(timeout, count)

    def packets_in(self, timeout: float = 0.0, count: int = 0) -> list[ControllerPacket]:
        """Return the packets that the switch has sent to the controller, by its CPU port, since the
        last call, and that it sends until ``timeout`` seconds are over or ``count`` are there."""
        return self._notices.packets_in(timeout, count)

    def idle_entries(self, timeout: float = 0.0, count: int = 0) -> list[IdleEntry]:
        """Return the entries with an idle timeout that the switch has told of since the last call,
        since nothing has hit them for so long, and those that it tells of until ``timeout`` seconds
        are over or ``count`` are there."""
        return self._notices.idle_entries(timeout, count)

    def packet_out(self, packet: "Packet | bytes", /, **metadata: Value) -> None:
        """Let the switch take a frame in from the controller: it comes in by the CPU port, behind
        the program's packet_out header, whose fields ``metadata`` has."""
        self._notices.packet_out(bytes(packet), metadata)
