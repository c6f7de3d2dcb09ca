"""The switches of one process: the packet loop in a thread, and what other threads ask of it."""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import InputError, RunError, refuse
from weft.base.libc import wake_in_time
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.control.port_queues import queues_told
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.dataplane import layout
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.entries import no_queue
from weft.switch.realtime import loop
from weft.switch.realtime.captures import Captures
from weft.switch.realtime.config import ProcessConfig
from weft.switch.realtime.durations import Durations, lateness
from weft.switch.realtime.forms import Forms
from weft.switch.realtime.layout import BATCH
from weft.switch.realtime.notifier import Notifier, PacketsOut
from weft.switch.realtime.ports import PortSockets, close_all
from weft.switch.realtime.traces import Traces

TAKE_OVER_DEADLINE_S = 60.0
MOST_RATE_BPS = 10**13

DROPS = ("no_program", "ingress", "egress", "no_port", "repeats", "too_long", "priority")
"""Why a switch drops packets, in the order of `layout.DROPS_NO_PROGRAM` and the others."""


def prepare() -> None:
    """Compile the packet loop into the cache, so that a process later starts at once (seconds)."""
    process = SwitchProcess(ProcessConfig((), None, 64, 64, 0))
    process.packets_out.compile()
    process.start()
    process.stop()


def to_stderr(line: str) -> None:
    """Write a line to standard error."""
    print(line, file=sys.stderr, flush=True)


class SwitchProcess:
    """All switches of a configuration in this process, which forward from ``start`` to ``stop``.

    Every other thread changes what packets see through ``at_once``: the loop comes back
    to Python, runs the change, and goes on.
    """

    def __init__(
        self, config: ProcessConfig, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        """Open all ports. Raises ``MachineError``. ``on_failure`` is called if the loop dies."""
        self.config = config
        self._on_failure = on_failure
        self._numbers = {switch.name: number for number, switch in enumerate(config.switches)}
        self._ports = {
            (switch.name, port.number): port for switch in config.switches for port in switch.ports
        }
        cpu_ports = [switch.cpu_port or 0 for switch in config.switches]
        ports_each = 1 + max([*(number for _, number in self._ports), *cpu_ports], default=0)
        delayed = [
            place
            for place, port in self._ports.items()
            if port.ingress_delay_ns or port.ingress_loss
        ]
        self.forms = Forms(
            self._programs,
            lambda *to: self.at_once(lambda: self.dataplane.run_machine_code(*to)),
            lambda line: self.say(line),
            lambda line: self.note(line),
        )
        # What comes to these goes over a port of its own first, which is like a link's far end.
        with_interface = [port for port in self._ports.values() if port.patch is None]
        lines = -(-len(with_interface) // ports_each)
        self.dataplane = Dataplane(
            max(len(config.switches), 1) + lines,
            ports_each,
            packets=2 * config.buffers,
            buffers=config.buffers,
            frame_bytes=config.frame_bytes,
            drop_port=config.drop_port,
            priority_queues=config.priority_queues,
            compiling=self.forms.want if config.at_once else None,
        )
        self.dataplane.on_denied = self._tell_denied
        self.port, self.queues_of = self.dataplane.port, self.dataplane.queues_of
        self.hold = self.dataplane.hold
        self.frame_bytes = self.dataplane.frame_bytes
        self.dataplane.context.reserve = min(2 * BATCH, config.buffers // 8)
        now = time.monotonic_ns()
        places = []
        for number, switch in enumerate(config.switches):
            self.dataplane.set_seed(number, switch.seed)
            self.dataplane.set_epoch(number, now)
            if switch.cpu_port is not None:
                self.dataplane.set_cpu_port(number, switch.cpu_port)
            for port in switch.ports:
                self.dataplane.set_port(
                    number,
                    port.number,
                    Queue(
                        port.rate_bps,
                        port.delay_ns,
                        port.queue_bytes,
                        port.queue_packets,
                        port.loss,
                        port.jitter_ns,
                        config.classes,
                    ),
                )
                if port.patch is None:
                    places.append((number, port.number, port.interface))
        self.sockets = PortSockets(self.dataplane, places, config.coalesce_ns, config.bypass_qdisc)
        self._places = places
        """Of each socket: the numbers of the switch and the port, and the interface."""
        self._lines: dict[tuple[str, int], tuple[int, int]] = {}
        """By switch and port: the port of its own that what comes there goes over first."""
        for place in delayed:
            port = self._ports[place]
            line = Queue(
                0, port.ingress_delay_ns, loss=port.ingress_loss, jitter_ns=port.ingress_jitter_ns
            )
            self.dataplane.set_figures(*self._line(place), line)
        for (name, port_number), port in self._ports.items():
            if port.patch is not None:
                near, far = self._place(name, port_number), self._place(*port.patch)
                if near < far:
                    self.dataplane.patch(near, far)
        files = {
            self._place(*place): (port.pcap_in, port.pcap_out)
            for place, port in self._ports.items()
            if port.pcap_in or port.pcap_out
        }
        self.captures = Captures(self.dataplane, files) if files else None
        self.notifier = Notifier(self.dataplane, self.sockets)
        self.packets_out = PacketsOut(self.dataplane)
        self._requests: list[tuple[Callable[[], None], Future[None]]] = []
        """What other threads want done between two batches, and where they wait for it."""
        self._lock = threading.Lock()
        self.building = threading.Lock()
        self._stopping = False
        self._takes_requests = False
        """Whether the loop's thread takes requests. It changes, and requests are made, with the
        lock held."""
        self._thread = threading.Thread(target=self._run, name="packet loop", daemon=True)
        self.failure: BaseException | None = None
        self.on_link: Callable[[int, int, bool], None] = lambda switch, port, up: None
        """Called for both ends of a patch link that has failed or come back: the numbers of the
        switch and the port, and whether the link is up."""
        self.say: Callable[[str], None] = to_stderr
        """What people are told by: of interfaces that are gone, of packets that no queue takes."""
        self.note: Callable[[str], None] = lambda line: None
        """What they are told by of what goes as it should."""
        self.controls = [
            SwitchControl(
                self,
                number,
                self.dataplane.states[number],
                switch.name,
                tuple(sorted(port.number for port in switch.ports)),
            )
            for number, switch in enumerate(config.switches)
        ]
        for control, switch in zip(self.controls, config.switches, strict=True):
            control.interfaces = {
                port.number: port.interface for port in switch.ports if port.patch is None
            }
        self.traces = Traces(
            {control.name: control for control in self.controls},
            self.dataplane,
            self.building,
            self.at_once,
        )

    def _place(self, name: str, port: int) -> tuple[int, int]:
        """Return the numbers of a switch and its port."""
        return self._numbers[name], port

    def _line(self, place: tuple[str, int]) -> tuple[int, int]:
        """Return the line that what comes to a port goes over first; from now on, if it did not
        before."""
        if place not in self._lines:
            ports = self.dataplane.port_count
            line = len(self.config.switches) * ports + len(self._lines)
            end = self._lines[place] = divmod(line, ports)
            self.dataplane.set_seed(end[0], -1 - self.config.switches[0].seed)  # of what is lost
            self.dataplane.set_port(*end, Queue())
            self.dataplane.lead(end, self._place(*place))
            socket = self._places.index((*self._place(*place), self._ports[place].interface))
            self.sockets.rows[socket].line = line
        return self._lines[place]

    # -- the loop's thread

    def start(self) -> None:
        """Start forwarding. The loop is compiled before, so that it answers at once."""
        self.sockets.wake()
        loop.run_loop(self.dataplane.context, self.sockets.io)
        self.sockets.calm()
        if any(switch.cpu_port is not None for switch in self.config.switches):
            self.packets_out.compile()
        self._takes_requests = True
        self.forms.start()
        self._thread.start()
        self.notifier.start()

    def stop(self) -> None:
        """Stop forwarding and close the ports."""
        self.forms.stop()
        self._stopping = True
        self.sockets.wake()
        self._thread.join(TAKE_OVER_DEADLINE_S)
        if not self._thread.is_alive():
            self.notifier.stop()
            self.sockets.close()
            self.end_captures()

    def _run(self) -> None:
        wake_in_time()
        try:
            while not self._stopping:
                loop.run_loop(self.dataplane.context, self.sockets.io)
                self.sockets.calm()
                self._take_requests()
        except BaseException as error:
            self.failure = error
            self._on_failure()
        finally:
            with self._lock:
                self._takes_requests = False
            self._take_requests()  # those that were made just before

    def _take_requests(self) -> None:
        with self._lock:
            requests, self._requests = self._requests, []
        self.packets_out.take_in()
        for request in requests:
            _carry_out(*request)

    def at_once(self, action: Callable[[], None]) -> None:
        """Run ``action`` in the loop's thread while no packet is under way in compiled code.

        Raises what the action raises, and RunError if the loop does not run it in time.
        """
        request = action, Future[None]()
        with self._lock:
            others = self._takes_requests and threading.current_thread() is not self._thread
            if others:
                self._requests.append(request)
                self.sockets.wake()
        if not others:
            _carry_out(*request)
        done = request[1]
        refuse(
            wait([done], TAKE_OVER_DEADLINE_S).not_done,
            "the packet loop does not answer: the switch process is broken",
            RunError,
        )
        done.result()

    def close_ports(self, switch: int) -> None:
        """Close the ports of one switch for good: nothing comes in there, and nothing leaves."""
        left: list[Any] = []
        self.at_once(lambda: left.extend(self.sockets.leave_out(switch)))
        close_all(left)

    # -- ``weft.switch.engine.control.surroundings.Surroundings``

    def build(self, bmv2_json: str) -> Pipeline:
        """Translate and compile, one program at a time: the switches of a run mostly share one."""
        with self.building:
            return self.dataplane.build(bmv2_json)

    def install(
        self, switch: int, pipeline: Pipeline, image: NDArray[np.int64], *, fresh: bool
    ) -> None:
        """Hand a version to the packet loop."""
        self.at_once(lambda: self.dataplane.install(switch, pipeline, image, fresh=fresh))
        if fresh:
            self.forms.tell(self.config.switches[switch].name, pipeline)

    def _programs(self) -> list[tuple[str, Pipeline]]:
        """Return the names of switches that have a program, each with its program."""
        states = zip(self.config.switches, self.dataplane.states, strict=False)
        return [(switch.name, state.pipeline) for switch, state in states if state.pipeline]

    def _tell_denied(self, switch: int, priority: int, queues: int) -> None:
        name = self.config.switches[switch].name
        self.say(f"{name} drops packets of {no_queue(priority, queues)}")

    def clock_ns(self) -> int:
        """Return the time of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def expect(self, time_ns: int) -> None:
        """Look at idle timeouts at that time."""
        self.notifier.expect(time_ns)

    def set_listener(self, switch: int, listener: Callable[[], None] | None) -> None:
        """Have a function called in the thread for events whenever the switch has events."""
        self.dataplane.set_listener(switch, listener)
        self.notifier.wake()

    def packet_out(self, switch: int, frame: bytes) -> None:
        """Give the packet loop a packet from the controller; waits if many packets wait."""
        room = self.packets_out.put(switch, frame)
        with self._lock:
            room = room and self._takes_requests
            if room:
                self.sockets.wake()
        if not room:
            self.at_once(self.packets_out.take_in)

    # -- statistics

    def reset_lateness(self) -> None:
        """Start the statistics of lateness, bursts and the queues' depths anew."""

        def reset() -> None:
            for durations in (self.sockets.io.lateness, self.sockets.io.bursts):
                durations.greatest_ns = 0
                durations.counts[:] = 0
            self.sockets.io.stood_ns = 0
            self.dataplane.clear_depths()

        self.at_once(reset)

    def record_loads(self, start_ns: int, bin_ns: int) -> None:
        """Count what links carry from that time of CLOCK_MONOTONIC on (`Dataplane.record_loads`).

        What comes in at a port is counted at the time when it is read. Raises ``InputError``.
        """
        if not (0 <= start_ns < layout.NEVER_NS and 1 <= bin_ns < layout.NEVER_NS):
            raise InputError(f"loads from {start_ns} ns in bins of {bin_ns} ns: no such times")
        self.at_once(lambda: self.dataplane.record_loads(start_ns, bin_ns))

    def end_loads(self) -> None:
        """Stop counting what links carry."""
        self.at_once(self.dataplane.end_loads)

    def set_link(self, name: str, port: int, *, up: bool) -> None:
        """Let the patch link at a port fail or come back. Raises ``InputError``."""
        refuse(
            (name, port) not in self._ports,
            f"link at port {port} of {name!r}: there is no such port",
        )
        far = self._ports[name, port].patch
        if far is None:
            raise InputError(
                f"link at port {port} of {name!r}: it is no patch link; the link of an interface "
                "goes down with the interface"
            )
        place = self._place(name, port)
        self.at_once(lambda: self.dataplane.set_link(*place, up=up))
        self.on_link(*place, up)
        self.on_link(*self._place(*far), up)

    def end_captures(self) -> list[dict[str, Any]]:
        """Write the captures out and end them; return the path, packets and lost packets of each
        file."""
        if self.captures is None:
            return []
        captures, self.captures = self.captures, None
        self.at_once(captures.silence)
        captures.close()
        refuse(captures.failure, f"a capture is not whole: {captures.failure}", RunError)
        return captures.counts()

    def set_rates(self, rates_bps: Mapping[tuple[str, int], int]) -> None:
        """Change the rates of links, which are named by switch and port. Raises ``InputError``."""
        for (name, port), rate_bps in rates_bps.items():
            refuse(
                (name, port) not in self._ports,
                f"rate of port {port} of {name!r}: there is no such port",
            )
            if not 0 < rate_bps <= MOST_RATE_BPS:
                raise InputError(
                    f"rate {rate_bps} bit/s of port {port} of {name!r} is out of range: 1 to "
                    f"{MOST_RATE_BPS}"
                )

        def change() -> None:
            for place, rate_bps in rates_bps.items():
                self.dataplane.set_rate(*self._place(*place), rate_bps)

        self.at_once(change)

    def set_figures(self, changes: Sequence[tuple[str, int, bool, Queue]]) -> None:
        """Let links go on with other rates, delays, jitters and losses. Each is named by switch and
        port, and by whether it is the direction that comes in there, from whoever cannot delay what
        they send. Raises ``InputError``."""
        for name, number, comes_in, _ in changes:
            port = self._ports.get((name, number))
            if port is None:
                raise InputError(f"figures of port {number} of {name!r}: there is no such port")
            refuse(
                comes_in and port.patch is not None,
                f"figures of what comes to port {number} of {name!r}: its link is a patch link, "
                "whose other end has them",
            )

        def change() -> None:
            for name, number, comes_in, queue in changes:
                place = self._line((name, number)) if comes_in else self._place(name, number)
                self.dataplane.set_figures(*place, queue)

        self.at_once(change)

    def statistics(self) -> dict[str, Any]:
        """Return everything that was counted, in the form that JSON has."""
        drops = self.sockets.count_kernel_drops()
        sockets = {place[:2]: i for i, place in enumerate(self.sockets.ports)}
        ports: dict[str, list[dict[str, Any]]] = {
            switch.name: [] for switch in self.config.switches
        }
        for (name, number), port in self._ports.items():
            place = self._place(name, number)
            socket = sockets.get(place)
            figures = {
                "port": number,
                "interface": port.interface,
                **self.dataplane.statistics(*place).__dict__,
                "queue_bytes": self.dataplane.memory.waiting_bytes(*place),
                **queues_told(self.queues_of(*place)),
                "queue_depths": self.dataplane.queue_depths(*place),
                "load_bytes": self.dataplane.load_bytes(*place),
                "arrived_load_bytes": self.dataplane.load_bytes(*place, arrived=True),
                "kernel_drops": 0 if socket is None else drops[socket],
                "send_errors": 0 if socket is None else self.sockets.send_errors(socket),
            }
            packets, size = self.dataplane.lost_on_link(*place)
            if port.patch is not None or port.loss or packets:
                figures |= {"lost_packets": packets, "lost_bytes": size}
            if port.patch is not None:
                figures["patch"] = list(port.patch)
            if (name, number) in self._lines:
                packets, size = self.dataplane.lost_on_link(*self._lines[name, number])
                if port.ingress_loss or packets:
                    figures |= {"arrived_lost_packets": packets, "arrived_lost_bytes": size}
            ports[name].append(figures)
        io = self.sockets.io
        return {
            "switches": [
                {
                    "name": switch.name,
                    "device_id": switch.device_id,
                    "program_loaded": self.controls[number].program_loaded,
                    **self.dataplane.form(number),
                    "drops": {
                        name: int(count)
                        for name, count in zip(
                            DROPS, self.dataplane.switches[number].drops, strict=True
                        )
                    },
                    "events_lost": int(self.dataplane.states[number].words.events_lost),
                    "tables": self.dataplane.states[number].lookups(),
                    "ports": ports[switch.name],
                }
                for number, switch in enumerate(self.config.switches)
            ],
            "lateness_ns": {**_quantiles(io.lateness), "stood": int(io.stood_ns)},
            "burst_ns": _quantiles(io.bursts),
            "load_bin_ns": self.dataplane.load_bin_ns,
            "no_buffer_drops": int(self.dataplane.context.no_buffer),
            "wake_ups": int(io.wake_ups),
            "cpu_seconds": self._cpu_seconds(),
        }

    def _cpu_seconds(self) -> float:
        """Return the CPU time of the packet loop's thread."""
        if not self._thread.is_alive() or self._thread.ident is None:
            return 0.0
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))


def _carry_out(action: Callable[[], Any], done: Future[Any]) -> None:
    """Run an action for whoever waits for it, and who gets what it raises; the loop goes on."""
    try:
        done.set_result(action())
    except Exception as error:
        done.set_exception(error)


def _quantiles(durations: Durations) -> dict[str, int]:
    histogram, greatest = durations.counts, int(durations.greatest_ns)
    return {
        "count": int(histogram.sum()),
        "p50": min(lateness(histogram, 0.5), greatest),
        "p99": min(lateness(histogram, 0.99), greatest),
        "max": greatest,
    }
