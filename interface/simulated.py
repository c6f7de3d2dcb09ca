"""A network of the simulated world, as the Python interface drives it."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

from weft.base.errors import InputError
from weft.controller import Controller
from weft.experiments.runs.operate import Testbed
from weft.experiments.runs.simulation import SimulatedTestbed
from weft.experiments.scenario.scenario import Scenario
from weft.interface.commands import Running
from weft.switch.realtime.traces import Traces
from weft.topo.network import Topology
from weft.topo.worlds.simulated.tap import HostTap
from weft.topo.worlds.simulated.world import SimulatedWorld

SLICES = 64
"""In how many slices of time is looked for frames, where some number of them is waited for."""


class SimulatedNet:
    """A network in virtual time, which does there what a `Net` asks for."""

    running = None

    def __init__(self, topology: Topology, mtu: int, seed: int) -> None:
        self.world = SimulatedWorld(topology, seed=seed, path_mtu=mtu, cpu_ports=True)
        self.most_frame_bytes = self.world.fabric.dataplane.frame_bytes
        self._tap: HostTap | None = None
        self._traces = Traces(
            self.world.controls, self.world.fabric.dataplane, Lock(), lambda action: action()
        )
        self.epochs: Iterator[int] = itertools.count(1)

    def bring_up(self) -> Mapping[str, Any]:
        """Return the switches' P4Runtime services, by name."""
        return self.world.switch_addresses

    def take_down(self) -> None:
        """Hear nothing more."""
        self.hush()

    def blaming_the_dead(self) -> AbstractContextManager[None]:
        """Do nothing: there are no processes."""
        return nullcontext()

    @property
    def mininet(self) -> Any:
        """Raise InputError: there is no Mininet."""
        raise self._without("no Mininet")

    @property
    def now_s(self) -> float:
        """The virtual time in seconds."""
        return self.world.now_ns / 1e9

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._go_on_to(self.world.now_ns + round(seconds * 1e9))

    def wait(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.advance(seconds)

    def _go_on_to(self, time_ns: int) -> None:
        self.world.fabric.run(stop_ns=time_ns)
        self.world.fabric.advance_to(time_ns)

    def start(self, host: str, command: list[str]) -> Running:
        """Raise InputError: there is no kernel."""
        raise self._without(f"no kernel that could run {' '.join(command)!r} on {host}")

    def listen(self) -> None:
        """Hear, from now on, what comes to hosts."""
        self._tap = self._tap or HostTap(self.world.fabric)

    def mute_hosts(self) -> None:
        """Do nothing: hosts have no kernels that could send something by themselves."""

    def hush(self) -> None:
        """Hear nothing more."""
        if self._tap is not None:
            self._tap.close()
        self._tap = None

    def send(self, station: int, frame: bytes) -> None:
        """Put a frame on the link of an interface of a host."""
        self.listen()
        host, interface = self.world.topology.stations[station]
        uplink = self.world.topology.outward(host.name)[interface.number - 1]
        self.world.fabric.inject(uplink.ends, frame)

    def sniff(self, station: int, timeout_s: float, count: int) -> list[tuple[float, bytes]]:
        """Let time pass, and return the frames that come to an interface of a host, each with its
        time in s."""
        self.listen()
        assert self._tap is not None
        begin_ns, timeout_ns = self.world.now_ns, round(timeout_s * 1e9)
        found = self._tap.take(station)
        for part in range(1, SLICES + 1):
            if count and len(found) >= count:
                break
            self._go_on_to(begin_ns + timeout_ns * part // SLICES)
            found += self._tap.take(station)
        return [(each.time_ns / 1e9, each.frame) for each in found]

    def sent(self, station: int) -> tuple[int, int]:
        """Return the packets and bytes that an interface of a host has sent."""
        fabric = self.world.fabric
        counted = fabric.dataplane.ports[fabric.host_index(station)].counted
        return int(counted.tx_packets), int(counted.tx_bytes)

    def start_trace(self, switch: str, packets: int) -> None:
        """Trace the next packets of a switch."""
        self._traces.start(switch, packets)

    def take_trace(self, switch: str) -> list[dict[str, Any]]:
        """End a trace, and return its events."""
        events = list(self._traces.take(switch)["events"])
        self._traces.end(switch)
        return events

    def set_link(self, node: str, neighbour: str, up: bool) -> None:
        """Let a link fail, or come back."""
        ends = self.world.topology.direction(node, neighbour).ends
        self.world.fabric.set_down([ends, ends[::-1]], not up)

    def set_rate(self, source: str, target: str, rate_bps: int) -> None:
        """Let a direction of a link go on at another rate."""
        self.world.fabric.set_rate((source, target), rate_bps)

    def take_over(self, controller: Controller) -> None:
        """Do nothing: nobody else can own the switches."""

    def addresses(self) -> dict[str, str]:
        """Raise InputError: switches have no sockets."""
        raise self._without("no sockets where switches serve P4Runtime")

    def programs(self) -> dict[str, str]:
        """Return the source that each switch runs; "" for the fabric's program."""
        return {switch.name: switch.program for switch in self.world.topology.switches}

    def emptied(self) -> set[str]:
        """Return nothing: nobody else loads programs."""
        return set()

    def testbed(self, scenario: Scenario, controller: Controller) -> Testbed:
        """Return a testbed for a scenario on this network."""
        self.hush()
        testbed = SimulatedTestbed(scenario, self.world, controller)
        testbed.epochs = self.epochs
        return testbed

    @staticmethod
    def _without(what: str) -> InputError:
        return InputError(
            f"the simulated world has {what}: it is for tables, frames, faults and collectives in "
            "virtual time; use world='emulated'"
        )
