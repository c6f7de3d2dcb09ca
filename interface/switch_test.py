"""One switch under test: packets in by a port, and packets that are expected at others."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from weft.base.errors import refuse
from weft.base.units import parse_duration, parse_rate, parse_size
from weft.controller.handles.switch import SwitchHandle
from weft.interface.net import Net
from weft.topo.clos import single
from weft.topo.network import Topology

if TYPE_CHECKING:
    from scapy.packet import Packet

LEAST_FRAME_BYTES = 60
"""A shorter frame may come with zeros behind it, as Ethernet demands."""
MOST_SHOWN = 5

Expected = Any
"""A packet of scapy's, bytes, or a function that says of a packet whether it is the one."""


def ports_of(
    ports: int, rate: str | int | None, delay: str | None, queue: str | int | None
) -> Topology:
    """Return the network of a switch with so many ports; None leaves a figure of its links as it is
    in any network. Raises InputError."""
    figures: dict[str, int] = {}
    if rate is not None:
        figures["rate_bps"] = parse_rate(rate)
    if delay is not None:
        figures["delay_ns"] = parse_duration(delay)
    if queue is not None:
        figures["queue_bytes"] = parse_size(queue, "queue")
    return single(ports, **figures)


class SwitchUnderTest(SwitchHandle):
    """The only switch of a network; each of its ports, from 1 on, leads to the test."""

    def __init__(self, net: Net) -> None:
        (switch,) = net.topology.switches
        super().__init__(net.controller, switch.name, net.backend.wait)
        self.net = net
        """The network: a host at each port, by rank in the order of the ports."""
        self.ports = range(1, len(net.topology.hosts) + 1)
        """The numbers of the ports."""
        self.sent: list[tuple[int, bytes]] = []
        """All that was sent, by port."""
        self._heard: dict[int, list[Packet]] = {port: [] for port in self.ports}
        """What has come at each port and was not expected yet."""
        net.backend.frames.mute_hosts()
        for host in net.hosts:
            host.sniff(timeout=0.0)  # listens, and forgets what came to earlier tests

    def send(self, port: int, packet: "Packet | bytes") -> None:
        """Let a frame come to a port of the switch."""
        self._check(port)
        self.net.host(port - 1).send(packet)
        self.sent.append((port, bytes(packet)))

    def expect(self, port: int, packet: Expected, timeout: float = 5.0) -> "Packet":
        """Return the frame that leaves by a port, as scapy's packet, once it has come.

        Args:
            packet: what has to come: a packet of scapy's or bytes, all of which have to be equal;
                or a function that says of a packet whether it is the one. Other packets may come
                before it; they are there for later calls.
            timeout: in seconds of the switch's world.

        Raises:
            AssertionError: it has not come; the message says what has, and in what it differs.
        """
        __tracebackhide__ = True  # the test's own line is what counts
        self._check(port)
        matches = packet if callable(packet) else _equal_to(bytes(packet))
        for last in (False, True):
            if last:
                self._hear(port, timeout, lambda heard: any(map(matches, heard)))
            for number, heard in enumerate(self._heard[port]):
                if matches(heard):
                    return self._heard[port].pop(number)
        raise AssertionError(self._missed(port, packet, timeout))

    def expect_nothing(self, *ports: int, timeout: float = 0.2) -> None:
        """Wait, and see that nothing leaves by these ports, or by any if none are named, but what
        was expected before.

        Raises:
            AssertionError: something has come.
        """
        __tracebackhide__ = True
        wanted = ports or tuple(self.ports)
        for port in wanted:
            self._check(port)
        self._hear(wanted[0], timeout, lambda _: False)
        for port in wanted[1:]:
            self._hear(port, 0.0, lambda _: False)
        lines = [line for port in wanted for line in self._came(port)]
        assert not lines, "\n".join([f"{self.name}: nothing was expected, and there came", *lines])

    def way(self) -> str:
        """Send what was sent last once more, and return its way through the program, step by step;
        tables and registers are as they are now. Empty if nothing was sent.

        Raises:
            RunError: this switch cannot be traced.
        """
        if not self.sent:
            return ""
        port, frame = self.sent[-1]
        with self.net.trace(self.name, 1) as trace:
            self.net.host(port - 1).send(frame)
            self.net.backend.wait(0.1)
        return str(trace)

    def _check(self, port: int) -> None:
        refuse(
            port not in self.ports,
            f"{self.name}: port {port!r}: there are ports {self.ports[0]} to {self.ports[-1]}",
        )

    def _hear(
        self, port: int, timeout: float, enough: Callable[[Iterable["Packet"]], bool]
    ) -> None:
        """Take in what comes to a port until the time is over, or it is enough."""
        heard = self._heard[port]
        begin = self.net.now
        while not enough(heard):
            left = max(timeout - (self.net.now - begin), 0.0)
            came = self.net.host(port - 1).sniff(timeout=left, count=1)
            heard += came
            if not came:
                return

    def _came(self, port: int) -> list[str]:
        heard = self._heard[port]
        more = f"  port {port}: and {len(heard) - MOST_SHOWN} more"
        lines = [f"  port {port}: {packet.summary()}" for packet in heard[:MOST_SHOWN]]
        return [*lines, *([more] if len(heard) > MOST_SHOWN else [])]

    def _missed(self, port: int, packet: Expected, timeout: float) -> str:
        for other in self.ports:
            if other != port:
                self._hear(other, 0.0, lambda _: False)
        lines = [f"{self.name}, port {port}: the expected packet has not come within {timeout:g} s"]
        if not callable(packet):
            wanted = _packet(packet)
            lines.append(f"  expected: {wanted.summary()}")
            for heard in self._heard[port][:MOST_SHOWN]:
                lines += [f"  came: {heard.summary()}", *_differences(wanted, heard)]
        else:
            lines += self._came(port)
        others = [line for other in self.ports if other != port for line in self._came(other)]
        if others:
            lines += ["elsewhere came", *others]
        elif len(lines) < 3:
            lines.append("  nothing came, here or elsewhere")
        return "\n".join(lines)


def _equal_to(wanted: bytes) -> Callable[[Any], bool]:
    def equal(packet: Any) -> bool:
        frame = bytes(packet)
        padded = len(wanted) < LEAST_FRAME_BYTES and len(frame) <= LEAST_FRAME_BYTES
        rest = frame[len(wanted) :]
        return frame[: len(wanted)] == wanted and (not rest or (padded and not any(rest)))

    return equal


def _packet(packet: Any) -> "Packet":
    """Return a packet as it is read from its bytes: with all lengths and checksums."""
    from scapy.layers.l2 import Ether

    return Ether(bytes(packet))


def _differences(wanted: "Packet", got: "Packet") -> list[str]:
    """Return lines about the fields in which two packets differ, layer by layer."""
    lines = []
    for one, other in zip(_layers(wanted), _layers(got), strict=False):
        if type(one) is not type(other):
            lines.append(f"    {one.name} was expected, and {other.name} came")
            break
        for field in one.fields_desc:
            expected, came = (each.getfieldval(field.name) for each in (one, other))
            if expected != came:
                shown = (field.i2repr(one, value) for value in (expected, came))
                lines.append("    {}.{}: {} was expected, {} came".format(
                    one.name, field.name, *shown))  # fmt: skip
    if not lines:
        lines.append(f"    {len(bytes(wanted))} bytes were expected, {len(bytes(got))} came")
    return lines


def _layers(packet: Any) -> "list[Packet]":
    return [packet.getlayer(number) for number in range(len(packet.layers()))]
