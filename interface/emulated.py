"""A network of the emulated world, as the Python interface drives it."""

import errno
import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from weft.agents.drivers.launcher import Launcher
from weft.base.errors import InputError, refuse
from weft.controller import Controller
from weft.experiments.runs.emulated import EmulatedTestbed
from weft.experiments.runs.operate import Testbed
from weft.experiments.scenario.scenario import Scenario
from weft.interface.commands import Running, started
from weft.interface.standing import Standing
from weft.switch.realtime.ports import PACKET_AUXDATA, SOL_PACKET, open_receiver, open_sender
from weft.topo.network import Topology
from weft.topo.worlds.emulated.namespaces import in_namespace, run_batch
from weft.topo.worlds.emulated.relays import LOOPBACK, Relays
from weft.topo.worlds.emulated.testbeds import RunningSwitch, RunningTestbed, check_grpc_port
from weft.topo.worlds.emulated.world import EmulatedWorld

VLAN_VALID = 1 << 4
ADDRESSES_BYTES = 12
UNIX = "unix:"
_AUXDATA = struct.Struct("=IIIHHHH")
"""A struct tpacket_auxdata (packet(7))."""
ETHERNET_BYTES = 14
FULL = (errno.EAGAIN, errno.ENOBUFS)
"""What a socket says whose own buffer, or whose interface's queue, is full."""
FULL_S = 0.001


class EmulatedNet:
    """A network of namespaces, which does what a `Net` asks for."""

    def __init__(self, topology: Topology, scenario: Scenario, standing: Standing) -> None:
        own = any(switch.program for switch in topology.switches)
        self.world = EmulatedWorld(
            topology,
            scenario.switch,
            path_mtu=scenario.mtu,
            seed=scenario.seed,
            links=scenario.link_kind,
            bypass_qdisc=not own if standing.bypass_qdisc is None else standing.bypass_qdisc,
            pcap_dir=standing.pcap,
        )
        self._standing = standing
        self.running: RunningTestbed | None = None
        """What other processes are told of the network, while it is up."""
        if standing.grpc_port is not None:
            check_grpc_port("grpc_port", standing.grpc_port, len(topology.switches))
        self.most_frame_bytes = self.world.link_mtu + ETHERNET_BYTES
        self._receivers: list[socket.socket] = []
        self._senders: list[socket.socket] = []
        self._launcher: Launcher | None = None
        self._at_frames = threading.Lock()
        self._frame_users = 0
        """How many threads send or receive frames just now."""
        self._stack = ExitStack()
        self.epochs: Iterator[int] = itertools.count(1)

    def bring_up(self) -> Mapping[str, Any]:
        """Bring the world up, tell other processes of it, and return where its switches serve
        P4Runtime, by name."""
        self._stack.enter_context(self.world)
        topology, record = self.world.topology, self.world.record
        served = self.world.switch_addresses
        switches = {
            each.name: RunningSwitch(served[each.name], each.device_id, each.program)
            for each in topology.switches
        }
        self.running = RunningTestbed(
            record.id, topology.describe(), switches, self._standing.controlled,
            self._standing.grpc_port,
        )  # fmt: skip
        if ports := self.running.ports():
            sockets = {port: served[name].removeprefix(UNIX) for name, port in ports.items()}
            relays = Relays(sockets)
            self._stack.callback(relays.close)
        self.running.write(record.folder)
        return served

    def addresses(self) -> dict[str, str]:
        """Return where each switch serves P4Runtime, as gRPC's clients take it."""
        assert self.running is not None
        ports = {name: f"{LOOPBACK}:{port}" for name, port in self.running.ports().items()}
        return {**self.world.switch_addresses, **ports}

    def programs(self) -> dict[str, str]:
        """Return the source that each switch runs; "" for the fabric's program, or for none."""
        return {name: each.program for name, each in self._now().switches.items()}

    def emptied(self) -> set[str]:
        """Return the switches that have lost entries since another program was loaded."""
        return {name for name, each in self._now().switches.items() if each.emptied}

    def _now(self) -> RunningTestbed:
        assert self.running is not None
        return self.running.again()

    def take_down(self) -> None:
        """Take everything down."""
        self._hush()
        self._stack.close()

    def blaming_the_dead(self) -> AbstractContextManager[None]:
        """Name the process that has ended, if the block fails because of that."""
        return self.world.blaming_the_dead()

    @property
    def mininet(self) -> Any:
        """The ``mininet.net.Mininet`` object."""
        return self.world.network

    @property
    def now_s(self) -> float:
        """The time of day in seconds."""
        return time.time()

    def advance(self, seconds: float) -> None:
        """Raise InputError: time goes by itself."""
        raise InputError(
            f"advance {seconds:g} s: in the emulated world time goes by itself; use time.sleep, or "
            "world='simulated'"
        )

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def start(self, host: str, command: list[str]) -> Running:
        """Start a command on a host."""
        return started(host, command, self.mininet[host].popen)

    def listen(self) -> None:
        """Hear, from now on, what comes to hosts."""
        with self._at_frames:
            self._listen()

    def _listen(self) -> None:
        if self._receivers:
            return
        for host, each in self.world.topology.stations:
            interface = self.world.host_interface(host.rank, each.number)
            pid = self.world.host_pid(host.rank)
            self._receivers.append(in_namespace(pid, partial(open_receiver, interface)))
            sender = partial(open_sender, interface, bypass_qdisc=False)
            self._senders.append(in_namespace(pid, sender))

    def mute_hosts(self) -> None:
        """Let hosts' kernels send nothing by themselves: they have no addresses any more."""
        for host, each in self.world.topology.stations:
            interface = self.world.host_interface(host.rank, each.number)
            lines = [f"addr flush dev {interface}", f"link set dev {interface} arp off"]
            in_namespace(self.world.host_pid(host.rank), partial(run_batch, "ip", lines))

    def hush(self) -> None:
        """Hear nothing more. Raises InputError while a thread sends or sniffs."""
        with self._at_frames:
            refuse(
                self._frame_users,
                "another thread sends or sniffs frames at a host just now: let it come to its end "
                "before a collective begins",
            )
            self._hush()

    def _hush(self) -> None:
        for each in self._receivers + self._senders:
            each.close()
        self._receivers, self._senders = [], []

    @contextmanager
    def _frames(self) -> Iterator[None]:
        """Keep the hosts' packet sockets open within the block."""
        with self._at_frames:
            self._listen()
            self._frame_users += 1
        try:
            yield
        finally:
            with self._at_frames:
                self._frame_users -= 1

    def send(self, station: int, frame: bytes) -> None:
        """Send a frame from an interface of a host."""
        with self._frames():
            sender = self._senders[station]
            while True:
                try:
                    sender.send(frame)
                    return
                except OSError as error:
                    if error.errno not in FULL:
                        raise
                    time.sleep(FULL_S)  # the link carries no more

    def sniff(self, station: int, timeout_s: float, count: int) -> list[tuple[float, bytes]]:
        """Return frames that come to an interface of a host, each with its time in s."""
        found: list[tuple[float, bytes]] = []
        end = time.monotonic() + timeout_s
        with self._frames():
            receiver = self._receivers[station]
            while not count or len(found) < count:
                left = end - time.monotonic()
                if not select.select([receiver], [], [], max(left, 0))[0]:
                    break
                with suppress(BlockingIOError):  # another thread took it
                    found.append((time.time(), _receive(receiver)))
        return found

    def sent(self, station: int) -> tuple[int, int]:
        """Return the packets and bytes that an interface of a host has sent."""
        host, interface = self.world.topology.stations[station]
        name = self.world.host_interface(host.rank, interface.number)
        counted = self.world.host_counters(host.name)[name]
        return counted["tx_packets"], counted["tx_bytes"]

    def start_trace(self, switch: str, packets: int) -> None:
        """Trace the next packets of a switch. Raises RunError if it cannot be traced."""
        self.world.start_trace(switch, packets)

    def take_trace(self, switch: str) -> list[dict[str, Any]]:
        """End a trace, and return its events."""
        return list(self.world.take_trace(switch, end=True)["events"])

    def set_link(self, node: str, neighbour: str, up: bool) -> None:
        """Let a link fail, or come back."""
        self.world.set_link(node, neighbour, up=up)

    def set_rate(self, source: str, target: str, rate_bps: int) -> None:
        """Let a direction of a link go on at another rate."""
        self.world.set_rates({(source, target): rate_bps})

    def take_over(self, controller: Controller) -> None:
        """Own all switches again, whoever has owned them meanwhile."""
        for switch in self.world.topology.switches:
            controller.session(switch.name).take_over()

    def testbed(self, scenario: Scenario, controller: Controller) -> Testbed:
        """Return a testbed for a scenario on this network."""
        self.hush()
        record = self.world.record
        if self._launcher is None:
            self._launcher = self._stack.enter_context(
                Launcher(record.folder, record.environment())
            )
        self._launcher.wait_warm()
        testbed = EmulatedTestbed(scenario, self.world, controller, self._launcher)
        testbed.epochs = self.epochs
        return testbed


def _receive(receiver: socket.socket) -> bytes:
    """Return the next frame of a packet socket, with the VLAN tag that the kernel took out of
    it. Raises BlockingIOError if there is none."""
    frame, told, _, _ = receiver.recvmsg(
        1 << 16, socket.CMSG_SPACE(_AUXDATA.size), socket.MSG_DONTWAIT
    )
    for level, kind, data in told:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tag, protocol = _AUXDATA.unpack(data[: _AUXDATA.size])
            if status & VLAN_VALID:
                tagged = struct.pack(">HH", protocol, tag)
                return frame[:ADDRESSES_BYTES] + tagged + frame[ADDRESSES_BYTES:]
    return frame
