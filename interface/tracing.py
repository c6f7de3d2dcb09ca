"""What a network that is up tells of packets: those that come to a switch, and the ways of one
that is not sent."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, overload

from weft.base import arguments as given
from weft.base.errors import refuse
from weft.interface.frames import frame_bytes
from weft.interface.handles import PacketTrace
from weft.interface.ways.following import PacketWay, StandingNetwork, follow
from weft.interface.ways.packets import MOST_BYTES

if TYPE_CHECKING:
    from scapy.packet import Packet


class Tracing:
    """The part of `Net` that tells what packets go through."""

    @overload
    def trace(
        self: StandingNetwork, switch: str, packets: int = 100
    ) -> AbstractContextManager[PacketTrace]: ...
    @overload
    def trace(
        self: StandingNetwork, switch: "Packet | bytes", *, at: str, every: bool = False
    ) -> PacketWay: ...
    def trace(
        self: StandingNetwork,
        switch: "str | Packet | bytes",
        packets: int = 100,
        *,
        at: str = "",
        every: bool = False,
    ) -> "AbstractContextManager[PacketTrace] | PacketWay":
        """Trace what comes to a switch, or a packet through the whole network.

        ``with net.trace("leaf0") as trace:`` traces what comes to a switch within the block: every
        step of every packet through its program, at most so many packets. The trace is whole once
        the block has been left. The traced form of a program runs at once, and is compiled
        meanwhile.

        ``net.trace(packet, at="h0")`` returns the way of a packet that a host would send, through
        all switches, by their tables as they are now. Nothing is sent.

        Args:
            switch: a switch's name; or a packet: of scapy's, beginning with Ether, or bytes.
            packets: how many packets of a switch at most.
            at: the host that the packet leaves, by its first interface.
            every: all ways that the packet may take: every member of selectors, random number, and
                loss.

        Raises:
            InputError: there is no such node.
            RunError: BMv2 has no trace of what comes to it.
            SwitchError: a switch on the packet's way cannot be read.
        """
        if at:
            host = self.topology.host(at)
            refuse(isinstance(switch, str), f"trace: {switch!r} is no packet: give bytes")
            return follow(self, host, frame_bytes(switch, MOST_BYTES), every=every)
        name: Any = switch
        self.topology.switch(name)
        return _traced(self, name, given.whole("trace: packets", packets, "100"))


@contextmanager
def _traced(net: StandingNetwork, switch: str, packets: int) -> Iterator[PacketTrace]:
    net.check_up()
    net.backend.start_trace(switch, packets)
    trace = PacketTrace()
    try:
        yield trace
    finally:
        taken = net.backend.take_trace(switch, end=True)
        trace.events += taken["events"]
        trace.form = taken["form"]
