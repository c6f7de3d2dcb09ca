"""A network in virtual time: switches, links and hosts' interfaces, driven by compiled code.

It knows agents only by what `HostAgent` shows to whoever drives it, and nothing of what they do.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.agents.transport.endpoint import Endpoint
from weft.agents.wire.headers import HEADER_ROOM_BYTES
from weft.base.errors import RunError, refuse
from weft.switch.engine.control.port_queues import queues_told
from weft.switch.engine.dataplane import layout as engine
from weft.switch.engine.switches import MOST_PASSES, Dataplane, Queue
from weft.switch.engine.trace.entries import no_queue
from weft.switch.priority_queues import QueueChange
from weft.topo.clos import single
from weft.topo.network import Direction, Link, Topology
from weft.topo.worlds.simulated import layout as at
from weft.topo.worlds.simulated.core import Agent, Core, Idle, Watch
from weft.topo.worlds.simulated.cut import Cut
from weft.topo.worlds.simulated.landings import BARE_BYTES, Landings
from weft.topo.worlds.simulated.loop import send_frame
from weft.topo.worlds.simulated.team import Team
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
        parts: how the network is cut, so that as many threads drive it; None: it is whole.
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
        parts: Cut | None = None,
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
        self.core = Core(self.world, self.dataplane.memory, path_mtu)
        """What drives the network, or its first part."""
        self._team: Team | None = None
        self._owners = np.zeros(indices, np.int64)
        """By port index, the part of the network that it is in."""
        if parts is not None:
            self._owners[:first_uplink] = np.repeat(parts.parts, ports)
            for first in (first_uplink, first_uplink + hosts):
                leaves = self._peers[first_uplink : first_uplink + hosts] // ports
                self._owners[first : first + hosts] = np.array(parts.parts)[leaves]
            self._team = Team(self.core, path_mtu, self._owners, self._peers, parts.window_ns)

    def _core_of(self, station: int) -> Core:
        """Return what drives a host."""
        if self._team is None:
            return self.core
        return self._team.cores[int(self._owners[self.world.first_call + station])]

    def now_at(self, rank: int) -> int:
        """Return the present virtual time in ns at a host, whose agent is called: where the network
        is cut, parts are not all as far."""
        return self._core_of(rank).world.now_ns

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
        agent.endpoint.state.sends_can_wait = not agent.waits_for_sent
        self._core_of(rank).call(rank)

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
        """Put a frame of any bytes on a link direction, behind the frame that is on it. Raises
        InputError where the network is cut."""
        refuse(self._team, "where several cores drive a network, no frames can be put on its links")
        send_frame(
            self.dataplane.context,
            self.port_indices[ends],
            np.frombuffer(frame, np.uint8).copy(),
            self.now_ns,
        )

    def advance_to(self, time_ns: int) -> None:
        """Let time pass without an event; the next event must not be earlier."""
        self.world.now_ns = self.dataplane.now_ns = max(self.now_ns, time_ns)
        if self._team is not None:
            self._team.set_now(self.now_ns)

    def set_rules(
        self,
        rules: npt.NDArray[np.void],
        places: npt.NDArray[np.uint8],
        opcodes: npt.NDArray[np.uint8],
    ) -> None:
        """Set the rules of packet faults, which are rows of `layout.Rule`; the arrays are kept and
        used. Raises InputError if there are some, and the network is cut."""
        refuse(
            self._team and len(rules),
            "where several cores drive a network, faults cannot count packets",
        )
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
        attended: Callable[[int], object] | None = None,
        pause: Callable[[], None] | None = None,
        triggered: Callable[[], None] | None = None,
    ) -> bool:
        """Go on to ``stop_ns``, included, or until ``until`` returns true after an agent was
        called. Where the network is cut, that may be after less than a window more.

        Args:
            attended: called with an agent's rank after the agent was called. Returns whether its
                host has come to what ``until`` waits for: where the network is cut, the time is
                then that of the last such call; without it, that of the last call of all.
            pause: called every so many events, for a progress bar.
            triggered: called when a rule of action TRIGGER has applied.

        Returns:
            whether something is left to happen.

        Raises:
            RunError: time stands still, packets multiply without end, or more frames are held by
                faults than there is room for.
        """
        self.take_code()
        self.world.stop_ns = stop_ns
        watch = Watch(until, attended, pause, triggered)
        if until is not None and until():
            reason = at.CALL
        elif self._team is not None:
            reason = self._team.run(stop_ns, lambda core: self._drive(core, watch))
        else:
            reason = self._drive(self.core, watch)
            if reason == at.STOPPED:
                self.world.now_ns = stop_ns
        self.dataplane.now_ns = self.world.now_ns
        self.dataplane.tell_denied()
        return reason != at.IDLE

    def _drive(self, core: Core, watch: Watch) -> int:
        """Let a loop of events go on, and do what it needs; return why it goes no further: IDLE,
        STOPPED or HALTED, or CALL if nothing is waited for any more."""
        world = core.world
        calls, called_ns = 0, -1
        while True:
            if world.budget <= 0:
                world.budget = PAUSE_EVENTS
            reason = core.go_on()
            now_ns = world.now_ns
            if reason == at.CALL:
                calls = calls + 1 if now_ns == called_ns else 0
                called_ns = now_ns
                rank = world.host
                if calls > STUCK_CALLS:
                    raise RunError(f"time stands still at {now_ns} ns: rank {rank} is always due")
                agent = self._agents[rank]
                if agent is not None:
                    agent.attend(core.received, now_ns)
                    self.wake(rank)
                    if watch.attended is None or watch.attended(rank):
                        core.left_ns = now_ns
            elif reason == at.GROW:
                core.grow()
                self.landings.make_room()
            elif reason == at.PAUSE:
                if watch.pause is not None and core.world is self.world:
                    watch.pause()
            elif reason == at.TRIGGERED:
                world.triggered = 0
                if watch.triggered is not None:
                    watch.triggered()
            elif reason == at.FAILED:
                raise RunError(self._failure(core))
            elif reason == at.ENDLESS:
                raise RunError(self.dataplane.storm(now_ns, MOST_PASSES))
            else:
                return reason
            if watch.until is not None and watch.until() and core.leave():
                return at.CALL

    @property
    def carries_bytes(self) -> bool:
        """Return whether data travel with their bytes."""
        return self.world.landings == 0 or self.landings.whole

    def take_code(self) -> None:
        """Let programs run as machine code that have been compiled by now."""
        for program, code in [] if self._code is None else self._code.told():
            if program is not None and isinstance(code, int):
                self.dataplane.run_machine_code(program, code)
            else:
                warnings.warn(f"a program that runs in the plain form {code}", stacklevel=2)

    def _failure(self, core: Core) -> str:
        lost = int(core.memory.context.no_buffer)
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
            "load_bin_ns": 0 if self._team else self.dataplane.load_bin_ns,
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
        return [] if self._team else self.dataplane.load_bytes(*self._port_of(ends))

    def record_loads(self, bin_ns: int) -> None:
        """Count from now on what links carry, in bins of time, unless the network is cut: its parts
        would have to agree on how long bins are."""
        if self._team is None:
            self.dataplane.record_loads(self.now_ns, bin_ns)

    def _port_of(self, ends: tuple[str, str]) -> tuple[int, int]:
        """Return where a direction, given by its ends, leaves: a switch and a port."""
        return divmod(self.port_indices[ends], self.dataplane.port_count)


def prepare() -> None:
    """Compile the event loop, or load it from the cache."""
    fabric = Fabric(single(2), host_queue_bytes=1 << 20)
    fabric.attach({0: Idle(Endpoint(fabric.topology.hosts[0].address))})
    fabric.inject(("leaf0", "h0"), bytes(64))
    fabric.run(stop_ns=1_000_000_000)
