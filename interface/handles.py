"""Hosts, their interfaces, and links of a network that is up, as scripts see them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from weft.base import arguments as given
from weft.base.errors import InputError
from weft.base.outputs import MOST_OUTPUT_BYTES
from weft.base.units import format_rate, parse_rate, parse_size, shown
from weft.controller import LinkCounters
from weft.experiments.scenario.choices import RATES_BPS
from weft.interface.commands import MOST_TIMEOUT_S, Completed, Running, started, words_of
from weft.interface.frames import frame_bytes, packet_of
from weft.switch.engine.trace.text import packets_text
from weft.topo.addresses import Interface, format_mac
from weft.topo.interfaces import interface_name
from weft.topo.link_changes import LinkChange
from weft.topo.network import (
    Direction,
    Host,
    Link,
    Port,
    Topology,
)
from weft.topo.worlds.world import World

if TYPE_CHECKING:
    from scapy.packet import Packet


class HandlesNetwork(Protocol):
    """What handles ask of their network."""

    topology: Topology
    backend: World
    changed: dict[str, Link]

    @property
    def mininet(self) -> Any: ...
    @property
    def down(self) -> frozenset[str]: ...
    def check_up(self) -> None: ...
    def in_turn(self, doing: str) -> AbstractContextManager[None]: ...
    def set_link(self, node: str, neighbour: str, up: bool) -> None: ...
    def notice_loads(self) -> None: ...
    def counted_by(self, direction: Direction) -> str: ...
    def counts(self) -> dict[tuple[str, str], LinkCounters]: ...


@dataclass
class PacketTrace:
    """The steps of packets through a switch's program; its text is one for people."""

    events: list[dict[str, Any]] = field(default_factory=list)
    """The steps in order, as ``--trace`` of ``weft run`` writes them."""
    form: str | None = None
    """How the program ran at the end: ``compiled``, or ``plain`` until it has been compiled."""

    def __str__(self) -> str:
        return packets_text(self.events).rstrip() or "no packet came"


class HostHandle:
    """A handle on a host of a network that is up."""

    def __init__(self, net: HandlesNetwork, host: Host) -> None:
        self._net = net
        self.name = host.name
        self.rank = host.rank
        self.ip = host.ip
        """The IPv4 address, dotted; empty if it has none."""
        self.ip6 = host.interfaces[0].ip6
        """The IPv6 address; empty if it has none."""
        self.mac = format_mac(host.mac)
        """The MAC address, with colons."""
        self.interfaces = [InterfaceHandle(net, host, each) for each in host.interfaces]
        """All network interfaces. What is said of the host itself is the first one's."""
        self.gateway_mac = self.interfaces[0].gateway_mac
        """The MAC address of the switch, to which frames for hosts elsewhere go; or of the host
        that the first interface is linked to."""

    @property
    def mininet(self) -> Any:
        """Mininet's node of the host."""
        return self._net.mininet[self.name]

    def start(self, *command: object) -> Running:
        """Start a command and return it while it runs: ``start("iperf -s")``.

        The first argument is split into words as a shell does; each other argument is a word. No
        shell interprets them: for that, ``start("sh -c", "...")``.

        Raises InputError in the simulated world, which has no kernel.
        """
        self._net.check_up()
        return started(self.name, words_of(command), self._net.backend.popen)

    def run(
        self,
        *command: object,
        check: bool = False,
        timeout: float | None = None,
        input: str | None = None,
        most_output: str | int = MOST_OUTPUT_BYTES,
    ) -> Completed:
        """Run a command to its end: ``run("ping -c 1", other.ip).output``.

        Args:
            command: as for `start`.
            check: whether a status other than 0 is a RunError.
            timeout: after so many seconds it is killed, and RunError raised.
            input: what it reads.
            most_output: likewise once it has printed more than so many bytes, or ``"256MiB"``; let
                it write to a file what is more than memory should hold.
        """
        if timeout is not None:
            given.seconds("timeout", timeout, MOST_TIMEOUT_S)
        input = "" if input is None else given.text("input", input, "'yes'")
        parse_size(most_output, "most_output")
        done = self.start(*command).wait(timeout, input, most_output)
        return done.check() if check else done

    def send(self, packet: Packet | bytes, count: int = 1) -> None:
        """Send a frame from the host's first interface (`InterfaceHandle.send`)."""
        self.interfaces[0].send(packet, count)

    def sniff(self, timeout: float = 1.0, count: int = 0) -> list[Packet]:
        """Return what comes to the host's first interface (`InterfaceHandle.sniff`)."""
        return self.interfaces[0].sniff(timeout, count)

    def __repr__(self) -> str:
        return f"<host {self.name} ({self.interfaces[0].addresses})>"


class InterfaceHandle:
    """A handle on a network interface of a host of a network that is up."""

    def __init__(self, net: HandlesNetwork, host: Host, interface: Interface) -> None:
        self._net = net
        self._station = net.topology.station_of[host.name, interface.number]
        self.name = interface_name(Port(host.name, interface.number), net.topology)
        """The kernel's name for it in the emulated world."""
        self.ip = interface.ip
        """The IPv4 address, dotted; empty if it has none."""
        self.ip6 = interface.ip6
        """The IPv6 address; empty if it has none."""
        self.addresses = interface.addresses
        """All of these, for people."""
        self.mac = format_mac(interface.mac)
        """The MAC address, with colons."""
        self.switch = interface.switch
        """The name of the switch that it is linked to; empty if it is linked to a host."""
        self.gateway_mac = format_mac(net.topology.far_mac(host.name, interface))
        """The MAC address of that switch, or of that host's interface."""

    def send(self, packet: Packet | bytes, count: int = 1) -> None:
        """Send a frame: a packet of scapy's that begins with Ether, or bytes. In the simulated
        world it leaves, and time stands still until `sniff` or `Net.advance`."""
        self._net.check_up()
        frame = frame_bytes(packet, self._net.backend.frames.most_bytes)
        for _ in range(given.whole("send: count", count, "1")):
            with self._net.in_turn("send"):
                self._net.backend.frames.send(self._station, frame)

    def sniff(self, timeout: float = 1.0, count: int = 0) -> list[Packet]:
        """Return what comes, as packets of scapy's with their times.

        That is what has come since the network's first `send` or `sniff`, or since the interface's
        last `sniff`, and what comes until ``timeout`` seconds have passed, or ``count`` frames are
        there (0: whatever comes). A collective ends that: then frames are heard from the next
        `send` or `sniff` on.
        """
        self._net.check_up()
        timeout_s = given.seconds("sniff:", timeout, MOST_TIMEOUT_S)
        count = given.whole("sniff: count", count, "1")
        with self._net.in_turn("sniff"):
            found = self._net.backend.frames.sniff(self._station, timeout_s, count)
        return [packet_of(frame, time_s) for time_s, frame in found]

    def __repr__(self) -> str:
        place = f" at {self.switch}" if self.switch else ""
        return f"<interface {self.name} ({self.addresses}){place}>"


class LinkHandle:
    """A handle on a link of a network that is up."""

    def __init__(self, net: HandlesNetwork, link: Link) -> None:
        self._net = net
        self._link = link
        self.name = link.name
        """The name: ``leaf0-spine1``."""
        self.ends = link.ends
        """The names of its ends: nodes, or ports, as ``s1:2``, if the nodes have several links."""

    @property
    def up(self) -> bool:
        """Whether it carries packets."""
        return self.name not in self._net.down

    @property
    def figures(self) -> Link:
        """What it is now: `rate_bps`, `delay_ns`, `jitter_ns`, `loss`."""
        return self._net.changed.get(self.name, self._link)

    def set(
        self,
        *,
        delay: str | int | None = None,
        jitter: str | int | None = None,
        loss: str | float | None = None,
        rate: str | int | None = None,
    ) -> None:
        """Let both directions go on with other figures; what is not given stays.

        Args:
            delay: ``"10ms"``, or ns.
            jitter: by how much at most a packet's delay is greater or less, at random; packets stay
                in order.
            loss: the probability by which a packet is lost: ``"1%"``, or 0.01.
            rate: ``"10Mbit"``, or bit/s.

        Raises:
            InputError: the link cannot have them; nothing has changed.
            MachineError: both its ends are hosts, and this kernel has no netem, by which they keep
                delay, jitter and loss.
            RunError: BMv2 has no such links.
        """
        self.change(LinkChange(delay, jitter, loss, rate))

    def change(self, change: LinkChange) -> None:
        """Let both directions go on with other figures (`set`)."""
        self._net.check_up()
        with self._net.in_turn("set"):
            before = self.figures
            after = change.applied(before)
            self._net.backend.change_link(before, after)
            self._net.changed[self.name] = after

    def fail(self) -> None:
        """Let the link lose everything, and lead routes around it (`Net.set_link`)."""
        self._net.set_link(*self.ends, up=False)

    def restore(self) -> None:
        """Let the link carry packets again, and lead routes over it."""
        self._net.set_link(*self.ends, up=True)

    def set_rate(self, rate: str | int) -> None:
        """Let both directions go on at another rate: ``"10Mbit"``, or bit/s, at most the link's
        own. Links between switches can do that, with the built-in switch."""
        rate_bps, most = parse_rate(rate), self._link.rate_bps
        least = min(RATES_BPS[0], most)
        if not least <= rate_bps <= most:
            raise InputError(
                f"link {self.name}: rate {shown(rate)} is out of range: from {format_rate(least)} "
                f"to the link's own, {format_rate(most)}; fail() lets it carry nothing"
            )
        switches = {switch.name for switch in self._net.topology.switches}
        if not set(self._link.nodes) <= switches:
            raise InputError(
                f"link {self.name}: a host sends at the rate of its interface; links between "
                "switches can be slowed"
            )
        with self._net.in_turn("set_rate"):
            self._net.backend.set_rates({self.ends: rate_bps, self.ends[::-1]: rate_bps})

    @property
    def counted_by(self) -> dict[str, str]:
        """By what each direction is counted, by its name (`Net.counted_by`)."""
        self._net.check_up()
        self._net.notice_loads()
        both = [self._net.topology.direction(*ends) for ends in (self.ends, self.ends[::-1])]
        return {each.name: self._net.counted_by(each) for each in both}

    @property
    def counts(self) -> dict[str, LinkCounters]:
        """What each direction has carried and lost, by its name: ``leaf0>spine1``; `counted_by`
        says by what that is counted."""
        found = self._net.counts()
        return {">".join(ends): found[ends] for ends in (self.ends, self.ends[::-1])}

    def __repr__(self) -> str:
        return f"<link {self.name}, {'up' if self.up else 'down'}>"
