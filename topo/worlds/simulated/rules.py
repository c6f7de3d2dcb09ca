"""Faults by name in the simulated world, as rules of the compiled loop and as outages."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.switch.engine.dataplane.layout import NONE
from weft.topo.faults import Fault, Outage, PacketFault, PacketMatch
from weft.topo.faults.packets import PACKET_ACTIONS
from weft.topo.faults.schedule import OutageSchedule, known_from_start
from weft.topo.network import Direction, Host
from weft.topo.worlds.simulated import layout as at
from weft.topo.worlds.simulated.fabric import Fabric

Noticed = Callable[[Sequence[str]], None]


class FaultPlan:
    """The faults of one operation on a fabric; counts start at 0, and times at the operation's
    start.

    What an outage takes away at some time is gone for every event at that time. ``killed`` is
    called with a rank that is never heard of again. ``noticed`` is called with the links that are
    known to have failed, whenever these change.
    """

    def __init__(
        self,
        fabric: Fabric,
        faults: Sequence[Fault],
        started_ns: int,
        killed: Callable[[int], None],
        notice_after_ns: int | None = None,
        noticed: Noticed | None = None,
    ) -> None:
        for fault in faults:
            fault.check(fabric.topology)
        self._fabric = fabric
        after_ns = None if noticed is None else notice_after_ns
        known = known_from_start(faults, fabric.topology, after_ns)
        self._network = _FaultyFabric(fabric, killed, noticed, known)
        self._outages = OutageSchedule(self._network, faults, started_ns, after_ns)
        self._lines = [fault for fault in faults if isinstance(fault, PacketFault)]
        ruled = [
            fault
            for fault in faults
            if isinstance(fault, PacketFault)
            or (isinstance(fault, Outage) and fault.after is not None)
        ]
        self._rules = np.zeros(len(ruled), at.Rule.dtype)
        self._places = np.zeros((len(ruled), len(fabric.down)), np.uint8)
        self._opcodes = np.zeros((len(ruled), 256), np.uint8)
        self._triggers: dict[int, Outage] = {}
        for number, fault in enumerate(ruled):
            row = at.Rule.at(self._rules.ctypes.data, number)
            self._fill(number, row, fault.match)
            if isinstance(fault, PacketFault):
                row.fill(
                    action=at.LOSE + PACKET_ACTIONS.index(fault.action),
                    first=fault.first,
                    last=fault.last,
                    delay_ns=fault.by_ns,
                )
            else:
                row.fill(action=at.TRIGGER, first=fault.after or 1, last=fault.after or 1)
                self._triggers[number] = fault
        fabric.set_rules(self._rules, self._places, self._opcodes)

    def _fill(self, number: int, row: at.Rule, match: PacketMatch) -> None:
        fabric = self._fabric
        for direction in match.directions(fabric.topology):
            self._places[number, fabric.port_indices[direction.ends]] = 1
        self._opcodes[number, sorted(match.opcodes)] = 1
        hosts = fabric.topology.host
        row.fill(
            source=NONE if match.rank is None else hosts(match.rank).address,
            destination=NONE if match.to is None else hosts(match.to).address,
            receiver=NONE if match.to is None else fabric.host_index(match.to),
            chunk=NONE if match.chunk is None else match.chunk,
        )

    @property
    def next_ns(self) -> int | None:
        """Return when the next outage begins or ends, or becomes known; None if nothing is left to
        happen."""
        return self._outages.next_ns

    def go_on_to(self, now_ns: int) -> None:
        """Begin and end outages, and let the controller know of those that have lasted long
        enough."""
        self._fabric.advance_to(now_ns)
        self._outages.go_on_to(now_ns)

    def triggered(self) -> None:
        """Begin the outages whose packets have arrived."""
        for number in sorted(self._triggers):
            if self._rules["done"][number]:
                self._outages.begin(self._triggers.pop(number), self._fabric.now_ns)

    def done(self) -> dict[str, int]:
        """Return, by its line, how many packets each packet fault was done to."""
        counts = self._rules["done"][self._rules["action"] != at.TRIGGER]
        found: dict[str, int] = {}
        for fault, count in zip(self._lines, counts.tolist(), strict=True):
            found[str(fault)] = found.get(str(fault), 0) + count
        return found

    def close(self) -> None:
        """Let all links carry again, at their rates; no packet is touched from now on."""
        self._network.noticed = None
        self._outages.end()
        self._fabric.set_rules(self._rules[:0], self._places[:0], self._opcodes[:0])


class _FaultyFabric:
    """The network that outages are carried out on; see
    `weft.topo.faults.schedule.FaultyNetwork`."""

    def __init__(
        self,
        fabric: Fabric,
        killed: Callable[[int], None],
        noticed: Noticed | None,
        known: tuple[str, ...],
    ) -> None:
        self.topology = fabric.topology
        self.noticed = noticed
        self._fabric = fabric
        self._killed = killed
        self._down: set[tuple[str, str]] = set()
        self._known = known

    def kill(self, host: Host) -> None:
        self._fabric.kill(host.rank)
        self._killed(host.rank)

    def lose(self, down: Sequence[Direction], known: Sequence[str]) -> None:
        ends = {each.ends for each in down}
        self._fabric.set_down(self._down - ends, False)
        self._fabric.set_down(ends - self._down, True)
        changed = tuple(known) != self._known
        self._down, self._known = ends, tuple(known)
        if changed and self.noticed is not None:
            self.noticed(known)

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        for ends, rate_bps in rates_bps.items():
            self._fabric.set_rate(ends, rate_bps)
