"""What drives a network, or a part of one that is cut: a loop of events with its world, and the
memory that it takes packets from."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from weft.agents.datagrams import Datagrams
from weft.agents.transport.endpoint import Endpoint
from weft.agents.wire.headers import HEADER_ROOM_BYTES
from weft.base.machine_code import bound
from weft.switch.engine.control.memory import Memory
from weft.switch.engine.dataplane.layout import NONE
from weft.topo.worlds.simulated.layout import WorldRecord
from weft.topo.worlds.simulated.loop import call_host, run_events


class Agent(Protocol):
    """What runs on a host: a `HostAgent`, or anything around an endpoint."""

    @property
    def endpoint(self) -> Endpoint:
        """Return the host's transport."""

    @property
    def groups(self) -> Collection[int]:
        """Return the multicast groups that the host joins."""

    @property
    def due_ns(self) -> int | None:
        """Return when the agent wants to be called; None means that it waits for packets."""

    @property
    def attentive(self) -> bool:
        """Return whether the agent is called for every packet that reaches its host."""

    @property
    def waits_for_sent(self) -> bool:
        """Return whether the agent goes on when what it has posted is done."""

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Do what is due; ``batch`` has the datagram that the agent is called for."""


@dataclass(eq=False)
class Idle:
    """A host that does nothing by itself; its transport answers packets."""

    endpoint: Endpoint
    groups: Collection[int] = ()
    due_ns: int | None = None
    attentive: bool = False
    waits_for_sent: bool = True

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Take the transport's events and forget them."""
        self.endpoint.take_events(batch)
        self.endpoint.poll()


@dataclass(frozen=True)
class Watch:
    """What whoever has a network go on wants to know meanwhile; see `fabric.Fabric.run`."""

    until: Callable[[], bool] | None
    attended: Callable[[int], object] | None
    pause: Callable[[], None] | None
    triggered: Callable[[], None] | None


class Core:
    """A loop of events, of which one thread at a time may ask that it goes on."""

    def __init__(self, world: WorldRecord, memory: Memory, path_mtu: int) -> None:
        self.world = world
        self.memory = memory
        self.received, self.sending = (
            Datagrams.allocate(1, path_mtu + HEADER_ROOM_BYTES) for _ in range(2)
        )
        """The datagram that an agent is called for, and room for one that a host sends."""
        self.received.count = 1
        self._addresses = [each.addresses.copy() for each in (self.sending, self.received)]
        sending, receiving = (each.ctypes.data for each in self._addresses)
        world.fill(
            sending=sending, receiving=receiving, received_row=self.received.data.ctypes.data
        )
        self.left_ns = NONE
        """When an agent was last called whose host then came to what was waited for."""
        self._calls: dict[int, Callable[[], None]] = {}

    @cached_property
    def _run_events(self) -> Callable[[], int]:
        return bound(run_events, self.world.location, self.memory.context)

    def go_on(self) -> int:
        """Go on until something needs Python; return the reason (`layout`, IDLE to HALTED)."""
        return self._run_events()

    def leave(self) -> bool:
        """Take note that nothing is waited for any more; return whether the loop is left at
        once."""
        return True

    def call(self, station: int) -> None:
        """Let a host send as soon as the events before it are done."""
        call = self._calls.get(station)
        if call is None:
            call = bound(call_host, self.world.location, self.memory.context, station)
            self._calls[station] = call
        call()

    def grow(self) -> None:
        """Have room for the next event, if there is none."""
        margin, context = self.world.margin, self.memory.context
        packets = bool(context.free_packet_count < margin)
        buffers = bool(context.free_buffer_count < margin)
        if packets or buffers:
            self.memory.grow(packets=packets, buffers=buffers)
