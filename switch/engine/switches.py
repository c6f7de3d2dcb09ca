"""All switches of a process: the arrays that compiled code works on, and a view on each switch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import InputError, RunError, refuse
from weft.switch.engine.build import Programs
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.codegen.traced import Legend
from weft.switch.engine.control.entities import Event
from weft.switch.engine.control.memory import Memory, SwitchState
from weft.switch.engine.control.port_queues import change_queues
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.dataplane import events, pipeline, pool, queues, scheduling, telemetry
from weft.switch.engine.dataplane import layout as at
from weft.switch.engine.dataplane.layout import SwitchRecord
from weft.switch.engine.dataplane.outbox import Outbox
from weft.switch.engine.program.words import signed
from weft.switch.engine.trace.tracer import Tracer
from weft.switch.priority_queues import QueueChange, check_priority_queues

MOST_PASSES = 1 << 15
"""So many passes through a pipeline may happen at one time: packets may multiply without end."""
CERTAIN = 1 << 32
"""The threshold by which a link loses every frame (`layout.PortRecord.loss`)."""
PACKET_OUT_PASSES = 256
"""The passes that a packet from the controller gets at once; the next turn does the rest."""


@dataclass(frozen=True)
class Queue:
    """The link behind a port: rate in bit/s (0 = no limit), propagation delay, queue, probability
    by which it loses a frame that has been sent, jitter; what else its queues have, by priority.

    The rate counts Ethernet frame bytes without FCS. Frames that do not fit the queue are dropped
    (drop-tail); the frame being sent is not in the queue.
    """

    rate_bps: int = 0
    delay_ns: int = 0
    limit_bytes: int = 1 << 30
    limit_packets: int = at.NO_LIMIT_PACKETS
    loss: float = 0.0
    jitter_ns: int = 0
    classes: Sequence[QueueChange] = ()


@dataclass(frozen=True)
class Departure:
    """A frame that has reached the far end of a port's link."""

    switch: int
    port: int
    frame: bytes
    departure_ns: int


class Dataplane:
    """Switches that run, with their ports, their packet pool and their programs.

    ``context`` is the one argument that compiled functions need (``engine.dataplane.layout``).
    Nothing here reads a clock: every call that moves packets is told the time, in ns. Compiled code
    must not run while a method that changes programs or tables does.
    """

    def __init__(
        self,
        switches: int,
        ports: int,
        *,
        packets: int = 4096,
        buffers: int | None = None,
        frame_bytes: int = 9216,
        seed: int = 0,
        plain: bool = False,
        drop_port: int = at.DROP_PORT,
        priority_queues: int = 1,
        compiling: Callable[[Pipeline], None] | None = None,
    ) -> None:
        """Make switches with the port numbers 0 to ``ports - 1`` each; all ports start down.

        ``drop_port``: the egress port that means drop, up to 511. ``priority_queues``: the queues
        of each port, of priorities from 0 on; a packet of another priority is dropped.
        ``compiling``: programs that are yet to be compiled run at once, in the plain form; it is
        called with each, and has machine code made, which `run_machine_code` then takes. Without
        it, programs run when they have been compiled.
        """
        if not 0 <= drop_port <= at.DROP_PORT:
            raise InputError(f"drop port {drop_port}: ports have 9 bits, 0 to {at.DROP_PORT}")
        if not 64 <= frame_bytes <= at.MOST_FRAME_BYTES:
            raise InputError(
                f"frames of {frame_bytes} bytes: a pool takes 64 to {at.MOST_FRAME_BYTES}"
            )
        check_priority_queues(priority_queues)
        self.port_count = ports
        self.frame_bytes = frame_bytes
        self.drop_port = drop_port
        buffers = packets if buffers is None else buffers
        self.memory = Memory(switches, ports, packets, buffers, frame_bytes, priority_queues)
        self.context, self.switches = self.memory.context, self.memory.switches
        self.ports, self.port = self.memory.ports, self.memory.port
        self.queues_of = self.memory.queues_of
        self.states = tuple(SwitchState(words) for words in self.switches)
        self._listeners: dict[int, Callable[[], None]] = {}
        self._controls: WeakValueDictionary[int, SwitchControl] = WeakValueDictionary()
        """They hold the switches, not the other way round: so all of it goes with its last user."""
        self.on_denied: Callable[[int, int, int], None] = lambda switch, priority, queues: None
        """Called when packets of a priority without a queue are dropped, first or of a greater one:
        the switch, the priority, and how many queues a port has."""
        self._denied = [0] * switches
        self.now_ns = 0
        """The latest time that ``receive`` or ``transmit`` was told."""
        self.programs = Programs(plain, drop_port, compiling)
        self._tracers: dict[int, Tracer] = {}
        self._frame = np.zeros(self.memory.buffers.shape[1] + 65536, np.uint8)
        for switch in range(switches):
            self.set_seed(switch, seed * 1_000_003 + switch)
        self.context.drop = drop_port
        self.context.passes_end = MOST_PASSES

    # -- what is set up before packets move

    def set_seed(self, switch: int, seed: int) -> None:
        """Set the seed of a switch's random()."""
        self.switches[switch].random = signed((seed + 1) * 0xD1342543DE82EF95)

    def set_epoch(self, switch: int, now_ns: int) -> None:
        """Set the zero of the switch's timestamps."""
        self.switches[switch].epoch_ns = now_ns

    def set_port(self, switch: int, port: int, queue: Queue) -> None:
        """Bring a port up with the link behind it."""
        row, queues = self.memory.port(switch, port), self.queues_of(switch, port)
        change_queues(row, queues, QueueChange(queue.limit_packets, queue.limit_bytes))
        for one, change in zip(queues, queue.classes, strict=False):
            change_queues(row, [one], change)
        self.set_figures(switch, port, queue)
        row.up = 1

    def patch(self, end: tuple[int, int], other: tuple[int, int]) -> None:
        """Join two ports, (switch, port) each, by a link inside the process.

        What leaves the one enters the other when it has reached its far end, and is never among
        what `transmit` returns. Raises InputError for a port that is down or joined already.
        """
        for switch, port in (end, other):
            words = self.memory.port(switch, port)
            refuse(
                words.up == 0 or words.peer != at.NONE or end == other,
                f"port {port} of switch {switch} cannot be patched: a patch link joins two "
                "ports that are up, each to one other",
            )
        for (switch, port), (far, far_port) in ((end, other), (other, end)):
            self.memory.port(switch, port).peer = far * self.port_count + far_port
        self.context.patches += 2

    def lead(self, end: tuple[int, int], far: tuple[int, int]) -> None:
        """Let what leaves a port, (switch, port), enter another one as over a link in one
        direction."""
        self.memory.port(*end).peer = far[0] * self.port_count + far[1]
        self.context.patches += 1

    def set_link(self, switch: int, port: int, *, up: bool) -> None:
        """Let the patch link at a port fail, or come back: down, it loses all that reaches either
        end. Raises InputError if there is none."""
        words = self.memory.port(switch, port)
        refuse(words.peer == at.NONE, f"port {port} of switch {switch} is at no patch link")
        for end in (words, self.ports[words.peer]):
            end.link_down = not up

    def lost_on_link(self, switch: int, port: int) -> tuple[int, int]:
        """Return packets and bytes that left a port and that its link lost, at random or when down
        (a patch link)."""
        row = self.memory.port(switch, port)
        return int(row.lost_packets), int(row.lost_bytes)

    def set_cpu_port(self, switch: int, port: int) -> None:
        """Have what leaves at a port become ``PacketIn`` events. Raises InputError."""
        refuse(
            not 0 <= port < self.port_count or port == self.drop_port,
            f"CPU port {port}: this switch has ports 0 to {self.port_count - 1}, "
            f"and {self.drop_port} means drop",
        )
        self.set_port(switch, port, Queue())
        self.memory.port(switch, port).cpu = 1
        state = self.states[switch]
        state.cpu_port = port
        if state.outbox is None:
            state.outbox = Outbox(state.words)

    def set_rate(self, switch: int, port: int, rate_bps: int) -> None:
        """Let a port's link go on at another rate; the frame that is on it ends at its old one."""
        row = self.memory.port(switch, port)
        row.rate_bps, row.remainder = rate_bps, 0

    def hold(self, switch: int, port: int, priority: int, until_ns: int) -> None:
        """Let a port's link take nothing from its queue of a priority until a time."""
        scheduling.hold(self.context, switch * self.port_count + port, priority, until_ns)

    def set_figures(self, switch: int, port: int, queue: Queue) -> None:
        """Let a port's link go on with another rate, delay, jitter and loss."""
        row = self.memory.port(switch, port)
        if row.rate_bps != queue.rate_bps:
            self.set_rate(switch, port, queue.rate_bps)
        row.delay_ns, row.jitter_ns = queue.delay_ns, queue.jitter_ns
        row.loss = round(queue.loss * CERTAIN)

    def record_loads(self, start_ns: int, bin_ns: int) -> None:
        """Count from `start_ns` on, anew, what links carry: in bins of `bin_ns`, or longer ones as
        soon as there would be more than `layout.LOAD_BINS`."""
        refuse(bin_ns < 1, f"bins of {bin_ns} ns: a bin of time is 1 ns or longer")
        self.memory.clear_loads()
        self.context.load_start_ns, self.context.load_bin_ns = start_ns, bin_ns

    def end_loads(self) -> None:
        """Keep what was counted, and count nothing more."""
        self.context.load_start_ns = at.NEVER_NS

    def clear_depths(self) -> None:
        """Start the statistics of queues' depths anew."""
        self.memory.clear_depths()

    def control(self, switch: int, name: str = "") -> SwitchControl:
        """Return a new control side of a switch."""
        rows = self.ports[switch * self.port_count : (switch + 1) * self.port_count]
        ports = tuple(int(port) for port in np.flatnonzero(rows.up))
        control = self._controls[switch] = SwitchControl(
            self, switch, self.states[switch], name or f"switch {switch}", ports
        )
        return control

    # -- programs and tables (``weft.switch.engine.control.surroundings.Surroundings``)

    def build(self, bmv2_json: str) -> Pipeline:
        """Translate a program, and compile it or have it compiled, once for all the switches that
        run it."""
        pipeline = self.programs.built(bmv2_json, self._used)
        if self._tracers:
            self.build_traced(pipeline)
        return pipeline

    def _used(self) -> set[int]:
        """Return the identities of the programs that switches run or have saved."""
        controls = (control.pipelines for control in list(self._controls.values()))
        return {id(one) for one in chain((state.pipeline for state in self.states), *controls)}

    def build_traced(self, pipeline: Pipeline) -> tuple[Pipeline, Legend]:
        """Return the traced form of a program that `build` has made. Raises ``ProgramError``."""
        return self.programs.traced(pipeline)

    def run_machine_code(self, pipeline: Pipeline, address: int) -> None:
        """Let a program run as machine code that has run in the plain form so far."""
        pipeline.run_machine_code(address)
        for number, state in enumerate(self.states):
            if self._runs(number) is pipeline:
                state.words.pipeline = address

    def _runs(self, switch: int) -> Pipeline | None:
        """Return what a switch runs: the ordinary or the traced form of its program, if any."""
        tracer = self._tracers.get(switch)
        return self.states[switch].pipeline if tracer is None else tracer.pipeline

    def form(self, switch: int) -> dict[str, Any]:
        """Return in which ``form`` a switch runs its program, ``compiled`` or ``plain``, None for
        no program; and how many ``plain_packets`` of its the latter has taken."""
        runs, state, loaded = self._runs(switch), self.states[switch], self.states[switch].pipeline
        return {
            "form": runs and ("compiled" if runs.compiled and not state.debugged else "plain"),
            "plain_packets": 0 if loaded is None else self.programs.plain_packets(loaded, switch),
        }

    def start_trace(self, tracer: Tracer) -> None:
        """Trace the packets that a switch gets from now on (``weft.switch.engine.trace.tracer``).

        Raises ``ProgramError``; ``InputError`` if it is traced already.
        """
        self.prepare_trace(tracer)
        self.memory.packets.trace_number = 0
        self._run_traced(tracer)

    def _run_traced(self, tracer: Tracer) -> None:
        """Run the traced form of what a switch runs, if anything."""
        state = self.states[tracer.switch]
        if state.pipeline is not None:
            traced, legend = self.build_traced(state.pipeline)
            tracer.installed(state.words, state.image, traced, legend)
            state.words.pipeline = traced.address

    def prepare_trace(self, tracer: Tracer) -> None:
        """Build what ``start_trace`` needs, so that it takes no time; the same exceptions."""
        control = tracer.control
        refuse(
            self._tracers.get(control.switch, tracer) is not tracer,
            f"switch {control.name!r} is traced already: end that first",
        )
        for loaded in control.pipelines:
            self.build_traced(loaded)
        self._tracers[control.switch] = tracer
        control.on_image = tracer.remember

    def end_trace(self, switch: int) -> None:
        """Let a switch run the ordinary form of its program again."""
        del self._tracers[switch]
        control = self._controls.get(switch)
        if control is not None:
            control.on_image = None
        self.switches[switch].trace_head = 0
        loaded = self.states[switch].pipeline
        if loaded is not None:
            self.switches[switch].pipeline = loaded.address

    def install(
        self, switch: int, pipeline: Pipeline, image: NDArray[np.int64], *, fresh: bool
    ) -> None:
        """Let packets see an image; with ``fresh`` counters and registers start at 0."""
        state, program = self.states[switch], pipeline.program
        if fresh:
            self.memory.fit(program.field_count, program.header_bytes)
            state.start(program)
        state.run(pipeline, image)
        if switch in self._tracers:
            self._run_traced(self._tracers[switch])

    def at_once(self, action: Callable[[], None]) -> None:
        """Run an action at once. Its caller sees to it that no packet is under way."""
        action()

    def expect(self, time_ns: int) -> None:
        """Do nothing: idle timeouts are looked for whenever packets move, so nothing has to be
        waited for."""

    # -- events for controllers

    def clock_ns(self) -> int:
        """Return the present."""
        return self.now_ns

    def set_listener(self, switch: int, listener: Callable[[], None] | None) -> None:
        """Have a function called when a switch has events."""
        self._listeners.pop(switch, None)
        if listener is not None:
            self._listeners[switch] = listener
        self.states[switch].told = False

    @property
    def idle_deadlines_ns(self) -> list[int]:
        """Return when the next idle timeouts end, of the switches that have a listener."""
        ends = [self.states[switch].ageing.deadline() for switch in self._listeners]
        return [end for end in ends if end is not None]

    def tell_listeners(self, now_ns: int) -> None:
        """Call those listeners whose switches have events that they have not been told of."""
        self.context.events_wait = 0
        self.tell_denied()
        for switch, listener in list(self._listeners.items()):
            state = self.states[switch]
            if not state.told and state.has_events(now_ns):
                state.told = True
                listener()

    def tell_denied(self) -> None:
        """Call `on_denied` for what was dropped since this was last called."""
        denied = self.switches.denied_priority.tolist()
        for switch, priority in enumerate(denied):
            if priority > self._denied[switch]:
                self.on_denied(switch, priority, self.memory.priorities)
        self._denied = denied

    def take_events(self, switch: int) -> list[Event]:
        """Return the events of a switch, which its latest control side tells."""
        control = self._controls.get(switch)
        return control.take_events() if control is not None else []

    def packet_out(self, switch: int, frame: bytes) -> None:
        """Let a packet from the controller arrive at the CPU port."""
        self.inject(switch, frame, self.clock_ns())
        self._advance(self.now_ns)
        self._after(self.now_ns)

    def inject(self, switch: int, frame: bytes, now_ns: int) -> None:
        """Let a packet from the controller arrive at a time; mostly it goes its way at once."""
        port = self.states[switch].cpu_port
        assert port is not None
        pipeline.receive_frame(self.context, switch, port, np.frombuffer(frame, np.uint8), now_ns)
        events.advance_some(self.context, now_ns, PACKET_OUT_PASSES)

    # -- packets

    def receive(self, switch: int, port: int, frames: Sequence[bytes], now_ns: int) -> None:
        """Let frames arrive at a port at ``now_ns``."""
        self.now_ns = max(self.now_ns, now_ns)
        if self.context.patches:
            self._advance(now_ns)  # what other switches sent earlier comes first
        for frame in frames:
            pipeline.receive_frame(
                self.context, switch, port, np.frombuffer(frame, np.uint8), now_ns
            )
            self._advance(now_ns)
        self._after(now_ns)

    def _advance(self, now_ns: int) -> None:
        """Do what is due. Raises RunError where that has no end."""
        passes = max(MOST_PASSES, 4 * self.memory.packet_count)
        before_ns = at.NONE
        while True:
            event_ns = events.advance_some(self.context, now_ns, passes)
            if self.context.storm == 0:
                return
            if event_ns == before_ns:
                raise RunError(self.storm(event_ns, 2 * passes))
            before_ns = event_ns

    def storm(self, time_ns: int, passes: int) -> str:
        """Return a message about packets that multiply, or go round, without end at a time."""
        packet = int(self.context.again.head)
        if packet != at.NONE:
            switch = int(self.memory.packets[packet].switch)
            what = "its program recirculates, resubmits or clones packets that multiply"
        else:
            switch, port = divmod(int(self.memory.heap[0, 0]), self.port_count)
            what = f"its egress clones packets to port {port} that it clones again"
            if self.memory.port(switch, port).peer != at.NONE:
                what += ", or frames go round in a circle of patch links without rate and delay"
        control = self._controls.get(switch)
        name = control.name if control is not None else str(switch)
        return (
            f"switch {name!r}: {passes} passes through the pipeline at {time_ns} ns, and no end: "
            f"{what}"
        )

    def transmit(self, now_ns: int) -> list[Departure]:
        """Return the frames that have reached the far end of their link by ``now_ns``."""
        departures = []
        self.now_ns = max(self.now_ns, now_ns)
        self._advance(now_ns)
        while True:
            packet = queues.take_departure(self.context)
            if packet == at.NONE:
                break
            words = self.memory.packets[packet]
            length = pipeline.copy_frame(self.context, packet, self._frame)
            departures.append(
                Departure(
                    int(words.switch),
                    int(words.port),
                    self._frame[:length].tobytes(),
                    int(words.departure_ns),
                )
            )
            pool.release(self.context, packet)
        self._after(now_ns)
        return departures

    def failed_assertions(self, switch: int) -> int:
        """Return how many assert() and assume() of a switch's programs have not held so far."""
        return int(SwitchRecord(self.context.switches, switch).assertions)

    def deadline(self) -> int | None:
        """Return when `transmit` has something to do next, or None."""
        time = scheduling.next_deadline(self.context)
        return None if time == at.NONE else int(time)

    def _after(self, now_ns: int) -> None:
        """Tell listeners of events, and raise what failed in a plain program."""
        if self._listeners or self.context.events_wait:
            self.tell_listeners(now_ns)
        traced = [tracer.pipeline for tracer in self._tracers.values()]
        for loaded in (*(state.pipeline for state in self.states), *traced):
            if loaded is not None and loaded.failures:
                raise loaded.failures[0]

    def statistics(self, switch: int, port: int) -> at.QueueStatistics:
        """Return what a port has counted."""
        counted: Any = self.memory.port(switch, port).counted
        return at.QueueStatistics(*counted.tolist())

    def queue_depths(self, switch: int, port: int) -> list[tuple[int, int]]:
        """Return how full a port's queue was when packets came to it: (bytes, packets),
        ascending: so many packets found that many bytes waiting, or fewer but more than the pair
        before says."""
        return telemetry.depths_of(self.memory.depths[switch * self.port_count + port])

    @property
    def load_bin_ns(self) -> int:
        """Return how long the bins of `load_bytes` are by now, in ns."""
        return int(self.context.load_bin_ns)

    def load_bytes(self, switch: int, port: int, *, arrived: bool = False) -> list[int]:
        """Return the bytes that the link behind a port carried in each bin of time. ``arrived``:
        that came in there, where the driver counts it."""
        loads = self.memory.loads
        row = switch * self.port_count + port + (len(loads) // 2 if arrived else 0)
        sizes: list[int] = loads[row].tolist()
        return sizes
