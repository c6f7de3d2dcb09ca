"""A network in virtual time: switches, links and hosts' interfaces, driven by compiled code.

It knows agents only by what `HostAgent` shows to whoever drives it, and nothing of what they do.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams
from weft.agents.transport.endpoint import Endpoint
from weft.agents.wire.headers import HEADER_ROOM_BYTES
from weft.base.errors import RunError, refuse
from weft.base.machine_code import bound
from weft.switch.engine.control.port_queues import queues_told
from weft.switch.engine.dataplane import layout as engine
from weft.switch.engine.switches import MOST_PASSES, Dataplane, Queue
from weft.switch.engine.trace.entries import no_queue
from weft.switch.priority_queues import QueueChange
from weft.topo.clos import single
from weft.topo.network import Direction, Link, Topology
from weft.topo.worlds.simulated import layout as at
from weft.topo.worlds.simulated.landings import BARE_BYTES, Landings
from weft.topo.worlds.simulated.loop import call_host, run_events, send_frame
from weft.topo.worlds.world import MachineCode

Words = npt.NDArray[np.int64]

PACKETS = 1 << 14
"""The size of the pool at first; it grows when there are more under way."""
ADDED_BYTES = 256
"""What a P4 program may add to a frame."""
PAUSE_EVENTS = 50_000
"""Events between two looks at the progress."""
STUCK_CALLS = 100_000
"""So many calls of agents at one moment mean that time does not go on by itself."""


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

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Do what is due; ``batch`` has the datagram that the agent is called for."""


def _warn_denied(topology: Topology, switch: int, priority: int, queues: int) -> None:
    name = topology.switches[switch].name
    warnings.warn(f"{name} drops packets of {no_queue(priority, queues)}", stacklevel=2)


def queue_of(link: Link, bound: int, classes: Sequence[QueueChange] = ()) -> Queue:
    """Return what a direction of a link is to the engine, with bounds of its port's queues."""
    return Queue(
        link.rate_bps,
        link.delay_ns,
        limit_bytes=bound,
        loss=link.loss,
        jitter_ns=link.jitter_ns,
        classes=classes,
    )


class Fabric:
    """The network's state. Times are ns since it was made.

    Args:
        seed: seeds the switches' random(), as in the emulated world.
        path_mtu: RoCE payload of a packet, in bytes.
        host_queue_bytes: the most that a host's interface queues; its transport sends no more.
        cpu_ports: whether switches have the port to the controller (`Topology.cpu_port`).
        code: has programs compiled that run at once, in the plain form; without it, programs run
            when they have been compiled.
        payload: whether data travel with their bytes; without, `landings` has what came where.
        headers_alone: whether the digest mixes frames' headers alone, as it does without bytes.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 1,
        path_mtu: int = 4096,
        host_queue_bytes: int,
        cpu_ports: bool = False,
        code: MachineCode | None = None,
        payload: bool = True,
        headers_alone: bool = False,
    ) -> None:
        self.topology = topology
        switches, hosts = len(topology.switches), len(topology.stations)
        numbers = {switch.name: index for index, switch in enumerate(topology.switches)}
        ports = 1 + max(
            each.source.number for each in topology.directions if each.source.node in numbers
        )
        if cpu_ports:
            ports = max(ports, topology.cpu_port + 1)
        extra = -(-2 * hosts // ports)
        sent_bytes = path_mtu + HEADER_ROOM_BYTES + at.STACK_BYTES
        refuse(
            host_queue_bytes < 2 * sent_bytes,
            f"host queue of {host_queue_bytes} bytes: it must hold two frames, "
            f"{2 * sent_bytes} bytes at a path MTU of {path_mtu}",
        )
        self.dataplane = Dataplane(
            switches + extra,
            ports,
            packets=PACKETS,
            frame_bytes=sent_bytes + ADDED_BYTES,
            seed=seed,
            priority_queues=topology.priority_queues,
            compiling=None if code is None else code.want,
        )
        self._code = code
        # Not a method of this object, which nothing that it has may refer to.
        self.dataplane.on_denied = partial(_warn_denied, topology)
        for index, switch in enumerate(topology.switches):
            self.dataplane.set_seed(index, (seed * 65536 + switch.device_id) % 2**63)
            if cpu_ports:
                self.dataplane.set_cpu_port(index, topology.cpu_port)
        for index in range(switches, switches + extra):  # of what hosts' links lose
            self.dataplane.set_seed(index, (seed * 65536 + 65535) % 2**63)
        first_uplink = switches * ports
        indices = (switches + extra) * ports
        self.port_indices: dict[tuple[str, str], int] = {}
        """Where a direction leaves, by its ends."""
        self._peers = np.full(indices, engine.NONE, np.int64)
        self._directions = np.full(indices, engine.NONE, np.int64)
        self.down = np.zeros(indices, np.int64)
        """By port index: not 0 for directions on which everything is lost."""
        self.lost_packets = np.zeros(indices, np.int64)
        self.lost_bytes = np.zeros(indices, np.int64)

        def place(node: str, port: int) -> int:
            if node in numbers:
                return numbers[node] * ports + port
            return first_uplink + topology.station_of[node, port]

        for number, direction in enumerate(topology.directions):
            source, target = direction.source, direction.destination
            index = place(source.node, source.number)
            self.port_indices[direction.ends] = index
            self._peers[index] = place(target.node, target.number)
            self._directions[index] = number
            link = direction.link
            of_switch = source.node in numbers
            bound = link.queue_bytes if of_switch else host_queue_bytes
            classes = topology.queue_changes if of_switch else ()
            self.dataplane.set_port(index // ports, index % ports, queue_of(link, bound, classes))

        self._sending = Datagrams.allocate(1, path_mtu + HEADER_ROOM_BYTES)
        self._received = Datagrams.allocate(1, path_mtu + HEADER_ROOM_BYTES)
        self._received.count = 1
        self._receiving_words = self._received.addresses.copy()
        self._sending_words = self._sending.addresses.copy()
        self._held = np.zeros(at.HELD_ROOM, at.Held.dtype)
        self._agents: list[Agent | None] = [None] * hosts
        self._groups: list[Words] = [np.zeros(0, np.int64)] * hosts
        self.hosts = np.zeros(hosts, at.HostRecord.dtype)
        """Rows of `layout.Host`, one for each interface of a host (`Topology.stations`)."""
        table = self.hosts.ctypes.data
        self._host_rows = [at.HostRecord.at(table, rank) for rank in range(hosts)]
        for number, (host, interface) in enumerate(topology.stations):
            self._host_rows[number].fill(
                address=interface.address,
                mac=interface.mac,
                gateway_mac=topology.far_mac(host.name, interface),
                queue_bytes=host_queue_bytes,
                due_ns=at.NEVER,
            )
        self.world = at.WorldRecord.zeroed(
            peers=self._peers.ctypes.data,
            directions=self._directions.ctypes.data,
            down=self.down.ctypes.data,
            lost_packets=self.lost_packets.ctypes.data,
            lost_bytes=self.lost_bytes.ctypes.data,
            sending=self._sending_words.ctypes.data,
            receiving=self._receiving_words.ctypes.data,
            received_row=self._received.data.ctypes.data,
            held=self._held.ctypes.data,
            hosts=hosts,
            host_table=table,
            first_uplink=first_uplink,
            first_call=first_uplink + hosts,
            margin=2 * ports + 16,  # a step takes at most a copy for every port, and its own
            port_indices=indices,
            frame_bytes=sent_bytes,
        )
        self.landings = Landings(noted=not payload)
        self.world.landings = self.landings.location
        self.world.headers_alone = headers_alone or not payload
        self.dataplane.context.bare_bytes = 0 if payload else BARE_BYTES
        while self.world.margin * 2 > self.dataplane.memory.packet_count:
            self.dataplane.memory.grow()
        self._host_calls: dict[int, Callable[[], None]] = {}

    @cached_property
    def _run_events(self) -> Callable[[], int]:
        return bound(run_events, self.world.location, self.dataplane.context)

    @property
    def now_ns(self) -> int:
        """Return the present virtual time in ns."""
        return self.world.now_ns

    @property
    def digest(self) -> str:
        """Return the digest of all frames that reached the far end of a link, by time, direction,
        length and content."""
        high, low = self.world.digest_high, self.world.digest_low
        return f"{high % (1 << 64):016x}{low % (1 << 64):016x}"

    def host_index(self, rank: int) -> int:
        """Return the port index of a host's uplink, which is also that of the far end of its
        downlink."""
        return self.world.first_uplink + rank

    def attach(self, agents: Mapping[int, Agent]) -> None:
        """Put agents on hosts, by rank; hosts without one take nothing in."""
        for rank, agent in agents.items():
            self._agents[rank] = agent
            agent.endpoint.state.landings = self.world.landings
            agent.endpoint.sums = self.landings.sums
            self._groups[rank] = np.array(sorted(agent.groups), np.int64)
            self._host_rows[rank].fill(
                endpoint=agent.endpoint.state_address,
                groups=self._groups[rank].ctypes.data,
                group_count=len(self._groups[rank]),
                alive=1,
            )
            self.wake(rank)
        self._set_bare_bytes()

    def _set_bare_bytes(self) -> None:
        """Say how much of a frame is there where data travel without bytes: all of it where
        switches add them, or where a fault may double messages between agents, which are whole."""
        if self.carries_bytes:
            return
        adds = any(
            agent is not None and agent.endpoint.state.first_aggregation for agent in self._agents
        )
        whole = adds or self.world.rule_count
        self.dataplane.context.bare_bytes = self.world.frame_bytes if whole else BARE_BYTES

    def detach(self) -> None:
        """Take all agents away; packets that are under way to them are refused."""
        self._agents = [None] * len(self._agents)
        for name in ("endpoint", "alive", "attentive"):
            self.hosts[name] = 0
        self.hosts["due_ns"] = at.NEVER

    def wake(self, rank: int) -> None:
        """Take note that something was posted on a host's endpoint, or that its agent has done
        something."""
        agent = self._agents[rank]
        assert agent is not None
        row = self._host_rows[rank]
        due_ns = agent.due_ns
        row.due_ns = at.NEVER if due_ns is None else due_ns
        row.attentive = agent.attentive
        call = self._host_calls.get(rank)
        if call is None:
            call = bound(call_host, self.world.location, self.dataplane.context, rank)
            self._host_calls[rank] = call
        call()

    def kill(self, rank: int) -> None:
        """Stop a host at once: it sends nothing more and takes nothing in."""
        self.hosts["alive"][rank] = 0

    def lost_on_links(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return, by direction, the packets and bytes that links lost: by faults, or at random by
        themselves (`weft.topo.network.Link.loss`)."""
        ports = self.dataplane.ports
        found = {
            ends: (
                int(self.lost_packets[index]) + int(ports[index].lost_packets),
                int(self.lost_bytes[index]) + int(ports[index].lost_bytes),
            )
            for ends, index in self.port_indices.items()
        }
        return {ends: lost for ends, lost in found.items() if lost[0]}

    def set_down(self, directions: Iterable[tuple[str, str]], down: bool) -> None:
        """Lose everything, or nothing, from now on, on directions given by their ends."""
        for ends in directions:
            self.down[self.port_indices[ends]] = down

    def set_rate(self, ends: tuple[str, str], rate_bps: int) -> None:
        """Let a direction, given by its ends, carry this many bit/s from now on."""
        self.dataplane.set_rate(*self._port_of(ends), rate_bps)

    def set_figures(self, link: Link) -> None:
        """Let both directions of a link go on with its rate, delay, jitter and loss."""
        for ends in (link.ends, link.ends[::-1]):
            self.dataplane.set_figures(*self._port_of(ends), queue_of(link, 0))

    def inject(self, ends: tuple[str, str], frame: bytes) -> None:
        """Put a frame of any bytes on a link direction, behind the frame that is on it."""
        send_frame(
            self.dataplane.context,
            self.port_indices[ends],
            np.frombuffer(frame, np.uint8).copy(),
            self.now_ns,
        )

    def advance_to(self, time_ns: int) -> None:
        """Let time pass without an event; the next event must not be earlier."""
        self.world.now_ns = self.dataplane.now_ns = max(self.now_ns, time_ns)

    def set_rules(
        self,
        rules: npt.NDArray[np.void],
        places: npt.NDArray[np.uint8],
        opcodes: npt.NDArray[np.uint8],
    ) -> None:
        """Set the rules of packet faults, which are rows of `layout.Rule`; the arrays are kept and
        used."""
        self._rules = (rules, places, opcodes)
        self.world.fill(
            rules=rules.ctypes.data,
            rule_places=places.ctypes.data,
            rule_opcodes=opcodes.ctypes.data,
            rule_count=len(rules),
        )
        self._set_bare_bytes()

    def run(
        self,
        *,
        stop_ns: int,
        until: Callable[[], bool] | None = None,
        attended: Callable[[int], None] | None = None,
        pause: Callable[[], None] | None = None,
        triggered: Callable[[], None] | None = None,
    ) -> bool:
        """Go on to ``stop_ns``, included, or until ``until`` returns true after an agent was
        called.

        Args:
            attended: called with an agent's rank after the agent was called.
            pause: called every so many events, for a progress bar.
            triggered: called when a rule of action TRIGGER has applied.

        Returns:
            whether something is left to happen.

        Raises:
            RunError: time stands still, packets multiply without end, or more frames are held by
                faults than there is room for.
        """
        world, context = self.world, self.dataplane.context
        self.take_code()
        world.stop_ns = stop_ns
        calls, called_ns = 0, -1
        while until is None or not until():
            if world.budget <= 0:
                world.budget = PAUSE_EVENTS
            reason = self._run_events()
            if reason == at.CALL:
                now_ns = self.now_ns
                calls = calls + 1 if now_ns == called_ns else 0
                called_ns = now_ns
                rank = world.host
                if calls > STUCK_CALLS:
                    raise RunError(f"time stands still at {now_ns} ns: rank {rank} is always due")
                agent = self._agents[rank]
                if agent is not None:
                    agent.attend(self._received, now_ns)
                    self.wake(rank)
                    if attended is not None:
                        attended(rank)
            elif reason == at.GROW:
                margin = world.margin
                packets = bool(context.free_packet_count < margin)
                buffers = bool(context.free_buffer_count < margin)
                if packets or buffers:
                    self.dataplane.memory.grow(packets=packets, buffers=buffers)
                self.landings.make_room()
            elif reason == at.PAUSE:
                if pause is not None:
                    pause()
            elif reason == at.TRIGGERED:
                world.triggered = 0
                if triggered is not None:
                    triggered()
            elif reason == at.FAILED:
                raise RunError(self._failure())
            elif reason == at.ENDLESS:
                raise RunError(self.dataplane.storm(self.now_ns, MOST_PASSES))
            else:
                if reason == at.STOPPED:
                    world.now_ns = stop_ns
                self._end_turn()
                return bool(reason == at.STOPPED)
        self._end_turn()
        return True

    @property
    def carries_bytes(self) -> bool:
        """Return whether data travel with their bytes."""
        return self.world.landings == 0

    def take_code(self) -> None:
        """Let programs run as machine code that have been compiled by now."""
        for program, code in [] if self._code is None else self._code.told():
            if program is not None and isinstance(code, int):
                self.dataplane.run_machine_code(program, code)
            else:
                warnings.warn(f"a program that runs in the plain form {code}", stacklevel=2)

    def _end_turn(self) -> None:
        self.dataplane.now_ns = self.world.now_ns
        self.dataplane.tell_denied()

    def _failure(self) -> str:
        lost = int(self.dataplane.context.no_buffer)
        held = f"faults hold more than {at.HELD_ROOM} frames at a time"
        return f"the pool had no room for {lost} frames" if lost else held

    def statistics(self) -> dict[str, Any]:
        """Return what the built-in switch process reports of itself in the emulated world."""
        return {
            "switches": [
                {
                    "name": switch.name,
                    "device_id": switch.device_id,
                    "form": self.dataplane.form(index)["form"],
                    "ports": [
                        self._port_statistics(index, direction)
                        for direction in self.topology.outward(switch.name)
                    ],
                }
                for index, switch in enumerate(self.topology.switches)
            ],
            "cpu_seconds": 0.0,
            "load_bin_ns": self.dataplane.load_bin_ns,
        }

    def _port_statistics(self, switch: int, direction: Direction) -> dict[str, Any]:
        number = direction.source.number
        return {
            "port": number,
            **self.dataplane.statistics(switch, number).__dict__,
            **queues_told(self.dataplane.queues_of(switch, number)),
            "kernel_drops": 0,
            "queue_depths": self.dataplane.queue_depths(switch, number),
            "load_bytes": self._load(direction.ends),
            "arrived_load_bytes": self._load(direction.ends[::-1]),
        }

    def _load(self, ends: tuple[str, str]) -> list[int]:
        return self.dataplane.load_bytes(*self._port_of(ends))

    def _port_of(self, ends: tuple[str, str]) -> tuple[int, int]:
        """Return where a direction, given by its ends, leaves: a switch and a port."""
        return divmod(self.port_indices[ends], self.dataplane.port_count)


def prepare() -> None:
    """Compile the event loop, or load it from the cache."""
    fabric = Fabric(single(2), host_queue_bytes=1 << 20)
    fabric.attach({0: Idle(Endpoint(fabric.topology.hosts[0].address))})
    fabric.inject(("leaf0", "h0"), bytes(64))
    fabric.run(stop_ns=1_000_000_000)


@dataclass(eq=False)
class Idle:
    """A host that does nothing by itself; its transport answers packets."""

    endpoint: Endpoint
    groups: Collection[int] = ()
    due_ns: int | None = None
    attentive: bool = False

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Take the transport's events and forget them."""
        self.endpoint.take_events(batch)
        self.endpoint.poll()
