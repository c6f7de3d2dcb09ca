"""All switches of a process: the arrays that compiled code works on, and a view on each switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switch.engine import layout as at
from switch.engine import pipeline, queues, telemetry
from switch.engine.build import Pipeline, build
from switch.engine.state import EngineControl
from switch.errors import InputError


@dataclass(frozen=True)
class Queue:
    """The link behind a port: rate in bit/s (0 = no limit), propagation delay, and its queue.

    The rate counts Ethernet frame bytes without FCS. Frames that do not fit the queue are dropped
    (drop-tail); the frame being sent is not in the queue.
    """

    rate_bps: int = 0
    delay_ns: int = 0
    limit_bytes: int = 1 << 30
    limit_packets: int = 1 << 20


@dataclass(frozen=True)
class Departure:
    """A frame that has reached the far end of a port's link."""

    switch: int
    port: int
    frame: bytes
    departure_ns: int


@dataclass(frozen=True)
class PortStatistics:
    """What a port has counted. Received: all frames; transmitted: those put on the link."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    queue_drops: int
    queue_drop_bytes: int
    queue_peak_packets: int
    queue_peak_bytes: int


class Dataplane:
    """Switches, their ports, the packet pool and the programs that they run.

    ``context`` is the one argument that compiled functions need (see ``switch.engine.layout``).
    Nothing here reads a clock: every call that moves packets is told the time, in ns.
    Compiled code must not run while a method that changes programs or tables does.
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
    ) -> None:
        """``ports``: the port numbers of each switch are 0 to ``ports - 1``; all start down."""
        if not 64 <= frame_bytes <= at.MOST_FRAME_BYTES:
            raise InputError(
                f"frames of {frame_bytes} bytes: a pool takes 64 to {at.MOST_FRAME_BYTES}"
            )
        self.switch_count = switches
        self.port_count = ports
        self.plain = plain
        buffers = packets if buffers is None else buffers
        self.frame_bytes = frame_bytes
        stride = (at.HEADROOM + frame_bytes + at.SLACK + 63) // 64 * 64
        self.packet_count = packets
        self.context = np.zeros(at.CONTEXT_WORDS, np.int64)
        self.buffers = np.zeros((buffers, stride), np.uint8)
        self.references = np.zeros(buffers, np.int64)
        self.free_buffers = np.arange(buffers - 1, -1, -1, dtype=np.int64)
        self.packets = np.zeros((packets, at.PACKET_WORDS), np.int64)
        self.free_packets = np.arange(packets - 1, -1, -1, dtype=np.int64)
        self.switches = np.zeros((switches, at.SWITCH_WORDS), np.int64)
        self.port_words = np.zeros((switches * ports, at.PORT_WORDS), np.int64)
        self.heap = np.zeros(max(switches * ports, 1), np.int64)
        self.scratch = np.zeros((switches, at.SCRATCH_WORDS), np.int64)
        self.phv = np.zeros((packets, 64), np.int64)
        self.headers = np.zeros((packets, 256), np.uint8)
        self.depths = np.zeros((switches * ports, at.DEPTH_BUCKETS), np.int64)
        self.loads = np.zeros((2 * switches * ports, at.LOAD_BINS), np.int64)
        self.port_words[:, [at.Q_HEAD, at.Q_TAIL, at.W_HEAD, at.W_TAIL]] = at.NONE
        self.port_words[:, [at.Q_EVENT_NS, at.Q_HEAP_POSITION]] = at.NONE
        self._images = [np.zeros(at.FIRST_TABLE, np.int64)] * switches
        self._counters = [np.zeros((0, 2), np.int64)] * switches
        self._registers = [np.zeros(0, np.int64)] * switches
        self._pipelines: list[Pipeline | None] = [None] * switches
        self._built: dict[str, Pipeline] = {}
        self._frame = np.zeros(stride + 65536, np.uint8)
        for switch in range(switches):
            self.set_seed(switch, seed * 1_000_003 + switch)
            self.switches[switch, at.SCRATCH] = self.scratch[switch].ctypes.data
        self.context[[at.READY_HEAD, at.READY_TAIL, at.AGAIN_HEAD, at.AGAIN_TAIL]] = at.NONE
        self.context[[at.LOAD_START_NS, at.LOAD_BIN_NS]] = at.NEVER_NS, 1
        self._fill_context()

    def _fill_context(self) -> None:
        values = {
            at.BUFFERS: self.buffers.ctypes.data,
            at.BUFFER_STRIDE: self.buffers.shape[1],
            at.BUFFER_REFERENCES: self.references.ctypes.data,
            at.FREE_BUFFERS: self.free_buffers.ctypes.data,
            at.FREE_BUFFER_COUNT: len(self.free_buffers),
            at.PACKETS: self.packets.ctypes.data,
            at.FREE_PACKETS: self.free_packets.ctypes.data,
            at.FREE_PACKET_COUNT: len(self.free_packets),
            at.PHV: self.phv.ctypes.data,
            at.PHV_STRIDE: self.phv.shape[1],
            at.HEADERS: self.headers.ctypes.data,
            at.HEADER_STRIDE: self.headers.shape[1],
            at.SWITCHES: self.switches.ctypes.data,
            at.PORTS: self.port_words.ctypes.data,
            at.PORT_COUNT: self.port_count,
            at.HEAP: self.heap.ctypes.data,
            at.SWITCH_COUNT: self.switch_count,
            at.BUFFER_COUNT: len(self.references),
            at.PACKET_COUNT: self.packet_count,
            at.DEPTHS: self.depths.ctypes.data,
            at.LOADS: self.loads.ctypes.data,
            at.LOAD_ROWS: len(self.loads),
        }
        for place, value in values.items():
            self.context[place] = value

    # -- what is set up before packets move

    def set_seed(self, switch: int, seed: int) -> None:
        """Seed of a switch's random()."""
        mixed = ((seed + 1) * 0xD1342543DE82EF95) & ((1 << 64) - 1)
        self.switches[switch, at.RANDOM] = mixed - (1 << 64) if mixed >> 63 else mixed

    def set_epoch(self, switch: int, now_ns: int) -> None:
        """Zero of the switch's timestamps."""
        self.switches[switch, at.EPOCH_NS] = now_ns

    def set_port(self, switch: int, port: int, queue: Queue) -> None:
        """Bring a port up with the link behind it."""
        row = self.port_words[switch * self.port_count + port]
        row[at.Q_RATE_BPS] = queue.rate_bps
        row[at.Q_DELAY_NS] = queue.delay_ns
        row[at.Q_LIMIT_BYTES] = queue.limit_bytes
        row[at.Q_LIMIT_PACKETS] = queue.limit_packets
        row[at.Q_UP] = 1

    def set_rate(self, switch: int, port: int, rate_bps: int) -> None:
        """Let a port's link go on at another rate; the frame that is on it ends at its old one."""
        row = self.port_words[switch * self.port_count + port]
        row[at.Q_RATE_BPS] = rate_bps
        row[at.Q_REMAINDER] = 0

    def record_loads(self, start_ns: int, bin_ns: int) -> None:
        """Count from `start_ns` on, anew, what links carry: in bins of `bin_ns`, or longer ones as
        soon as there would be more than `layout.LOAD_BINS`."""
        if bin_ns < 1:
            raise InputError(f"bins of {bin_ns} ns: a bin of time is 1 ns or longer")
        self.loads = np.zeros(self.loads.shape, np.int64)
        self.context[at.LOADS] = self.loads.ctypes.data
        self.context[[at.LOAD_START_NS, at.LOAD_BIN_NS]] = start_ns, bin_ns

    def end_loads(self) -> None:
        """Keep what was counted; nothing more comes to it."""
        self.context[at.LOAD_START_NS] = at.NEVER_NS

    def clear_depths(self) -> None:
        """Start the statistics of queues' depths anew."""
        self.depths[:] = 0
        self.port_words[:, [at.S_QUEUE_PEAK_PACKETS, at.S_QUEUE_PEAK_BYTES]] = 0

    def control(self, switch: int, name: str = "") -> EngineControl:
        """The control side of a switch."""
        rows = self.port_words[switch * self.port_count : (switch + 1) * self.port_count]
        ports = tuple(int(port) for port in np.flatnonzero(rows[:, at.Q_UP]))
        return EngineControl(self, switch, name or f"switch {switch}", ports)

    # -- programs and tables (``switch.engine.state.Host``)

    def build(self, bmv2_json: str) -> Pipeline:
        """Translate and compile a program, once for all the switches that run it."""
        if bmv2_json not in self._built:
            self._built[bmv2_json] = build(bmv2_json, plain=self.plain)
        return self._built[bmv2_json]

    def install(
        self, switch: int, pipeline: Pipeline, image: NDArray[np.int64], *, fresh: bool
    ) -> None:
        """Let packets see an image; with ``fresh`` counters and registers start at 0."""
        program = pipeline.program
        row = self.switches[switch]
        if fresh:
            self._make_room(program.field_count, program.header_bytes)
            self._counters[switch] = np.zeros((program.counter_cells, 2), np.int64)
            self._registers[switch] = np.zeros(program.register_cells, np.int64)
            row[at.COUNTERS] = self._counters[switch].ctypes.data
            row[at.COUNTER_WORDS] = program.counter_cells * 2
            row[at.REGISTERS] = self._registers[switch].ctypes.data
            row[at.REGISTER_WORDS] = program.register_cells
            row[at.FIELDS] = program.common_fields
        self._pipelines[switch] = pipeline
        self._images[switch] = image
        row[at.IMAGE] = image.ctypes.data
        row[at.IMAGE_WORDS] = len(image)
        row[at.PIPELINE] = pipeline.address

    def _make_room(self, fields: int, header_bytes: int) -> None:
        """Widen PHVs and header rows for a program; packets under way keep theirs."""
        if fields > self.phv.shape[1]:
            wider = np.zeros((self.packet_count, (fields + 7) // 8 * 8), np.int64)
            wider[:, : self.phv.shape[1]] = self.phv
            self.phv = wider
        if header_bytes + at.SLACK > self.headers.shape[1]:
            stride = (header_bytes + 2 * at.SLACK) // 64 * 64
            longer = np.zeros((self.packet_count, stride), np.uint8)
            longer[:, : self.headers.shape[1]] = self.headers
            self.headers = longer
        self.context[at.PHV] = self.phv.ctypes.data
        self.context[at.PHV_STRIDE] = self.phv.shape[1]
        self.context[at.HEADERS] = self.headers.ctypes.data
        self.context[at.HEADER_STRIDE] = self.headers.shape[1]

    def grow(self, *, packets: bool = True, buffers: bool = True) -> None:
        """Double the pool's packets or buffers (copies of a frame share one).

        Packets under way stay what they are. Compiled code must not run meanwhile.
        """

        def double(array: NDArray[Any]) -> NDArray[Any]:
            wider = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
            wider[: len(array)] = array
            return wider

        def more(free: NDArray[np.int64], count: int, size: int) -> NDArray[np.int64]:
            # What was used last is taken first: it is in the processor's cache.
            return np.concatenate([np.arange(2 * size - 1, size - 1, -1), free[:count], free * 0])

        free_packets = int(self.context[at.FREE_PACKET_COUNT])
        free_buffers = int(self.context[at.FREE_BUFFER_COUNT])
        if packets:
            size = self.packet_count
            self.packets, self.phv = double(self.packets), double(self.phv)
            self.headers = double(self.headers)
            self.free_packets = more(self.free_packets, free_packets, size)[: 2 * size]
            free_packets += size
            self.packet_count = 2 * size
        if buffers:
            size = len(self.references)
            self.buffers, self.references = double(self.buffers), double(self.references)
            self.free_buffers = more(self.free_buffers, free_buffers, size)[: 2 * size]
            free_buffers += size
        self._fill_context()
        self.context[at.FREE_PACKET_COUNT] = free_packets
        self.context[at.FREE_BUFFER_COUNT] = free_buffers

    def counters(self, switch: int) -> NDArray[np.int64]:
        """A switch's counter cells, live: int64[cells, 2] of packets, bytes."""
        return self._counters[switch]

    def registers(self, switch: int) -> NDArray[np.int64]:
        """A switch's register cells, live."""
        return self._registers[switch]

    # -- packets

    def receive(self, switch: int, port: int, frames: Sequence[bytes], now_ns: int) -> None:
        """Frames arrive at a port at ``now_ns``."""
        for frame in frames:
            array = np.frombuffer(frame, np.uint8)
            pipeline.receive_frame(self.context, switch, port, array, now_ns)
            pipeline.advance(self.context, now_ns)
        self._raise_failure()

    def transmit(self, now_ns: int) -> list[Departure]:
        """The frames that have reached the far end of their link by ``now_ns``."""
        departures = []
        pipeline.advance(self.context, now_ns)
        while True:
            packet = queues.take_departure(self.context)
            if packet == at.NONE:
                break
            words = self.packets[packet]
            length = pipeline.copy_frame(self.context, packet, self._frame)
            departures.append(
                Departure(
                    int(words[at.P_SWITCH]),
                    int(words[at.P_PORT]),
                    self._frame[:length].tobytes(),
                    int(words[at.P_DEPARTURE_NS]),
                )
            )
            queues.release(self.context, packet)
        self._raise_failure()
        return departures

    def deadline(self) -> int | None:
        """When ``transmit`` has something to do next, or None."""
        time = queues.next_deadline(self.context)
        return None if time == at.NONE else int(time)

    def _raise_failure(self) -> None:
        for loaded in self._pipelines:
            if loaded is not None and loaded.failures:
                raise loaded.failures[0]

    def statistics(self, switch: int, port: int) -> PortStatistics:
        """What a port has counted."""
        row = self.port_words[switch * self.port_count + port]
        return PortStatistics(*(int(word) for word in row[at.S_RX_PACKETS :][:8]))

    def queue_depths(self, switch: int, port: int) -> list[tuple[int, int]]:
        """How full a port's queue was when packets came to it: (bytes, packets), ascending: so many
        packets found that many bytes waiting, or fewer but more than the pair before says."""
        return telemetry.depths_of(self.depths[switch * self.port_count + port])

    @property
    def load_bin_ns(self) -> int:
        """How long the bins of `load_bytes` are by now."""
        return int(self.context[at.LOAD_BIN_NS])

    def load_bytes(self, switch: int, port: int, *, arrived: bool = False) -> list[int]:
        """Bytes that the link behind a port carried in each bin of time. ``arrived``: that came in
        there, where the driver counts it."""
        row = switch * self.port_count + port + (len(self.loads) // 2 if arrived else 0)
        return [int(size) for size in self.loads[row]]
