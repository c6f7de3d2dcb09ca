"""What compiled code works on: the pool of packets and buffers, the rows of switches and ports.

All arrays belong to Python; compiled code reaches them from the one *context* array
(``weft.switch.engine.dataplane.layout``).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.jit import Record
from weft.base.pages import zeroed
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.engine.control.ageing import Ageing
from weft.switch.engine.dataplane import layout as at
from weft.switch.engine.dataplane.image_layout import FIRST_TABLE
from weft.switch.engine.dataplane.outbox import Outbox, Sent
from weft.switch.engine.program.algorithms import CrcParameters
from weft.switch.engine.program.program import Program


class SwitchState:
    """A switch: its words, its program, and what packets read and write there, live.

    ``counters``: int64[cells, 2] of packets, bytes; ``meters``: a `MeterCell` each;
    ``ageing``: when entries were hit.
    """

    def __init__(self, words: at.SwitchRecord) -> None:
        self.words = words
        self.pipeline: Pipeline | None = None
        self.image = np.zeros(FIRST_TABLE, np.int64)
        self.counters = np.zeros((0, 2), np.int64)
        self._lookups: dict[str, NDArray[np.int64]] = {}
        """The misses and hits of tables with a key, among the counters."""
        self.registers = np.zeros(0, np.int64)
        self.meters = np.zeros(0, at.MeterCell.dtype)
        self.ageing = Ageing(0)
        self.cpu_port: int | None = None
        self.outbox: Outbox | None = None
        self.told = False
        """Whether its listener has been told of the events that wait."""
        self.crcs: dict[str, CrcParameters] = {}
        """What has been set of custom CRCs, by the names of their calculations."""
        self.debugged = False
        """Whether a debugger takes its packets, and runs the program in their place."""
        self._scratch = zeroed(at.SCRATCH_WORDS, np.int64)
        words.scratch = self._scratch.ctypes.data

    def _lead(self, **arrays: NDArray[Any]) -> None:
        """Let the record of the switch say where arrays are and how many words they have."""
        for name, array in arrays.items():
            setattr(self.words, name, array.ctypes.data)
            setattr(self.words, f"{name.removesuffix('s')}_words", array.nbytes // 8)

    def start(self, program: Program) -> None:
        """Begin with empty arrays for a program: nothing is counted, no rates are set, no
        events wait."""
        self.counters = zeroed((program.counter_cells, 2), np.int64)
        self._lookups = {
            table.name: self.counters[table.lookups_cell]
            for table in program.tables.values()
            if table.lookups_cell is not None
        }
        self.registers = zeroed(program.register_cells, np.int64)
        self.meters = zeroed(program.meter_cells, at.MeterCell.dtype)
        self.ageing = Ageing(program.hit_words)
        self._lead(
            counters=self.counters, registers=self.registers, meters=self.meters,
            hits=self.ageing.hits,
        )  # fmt: skip
        self.crcs.clear()
        self._scratch[at.CRC_START // 8 :] = 0
        self.words.fields = program.common_fields
        if program.learn_lists or self.cpu_port is not None:
            self.outbox = Outbox(self.words)
        self.told = False

    def run(self, pipeline: Pipeline, image: NDArray[np.int64]) -> None:
        """Let packets see an image, through a program."""
        self.pipeline, self.image = pipeline, image
        self._lead(image=image)
        self.words.pipeline = pipeline.address

    def lookups(self) -> dict[str, tuple[int, int]]:
        """Return how many packets have hit an entry of each table with a key, and how many have
        missed."""
        told = ((name, cell.tolist()) for name, cell in self._lookups.items())
        return {name: (hits, misses) for name, (misses, hits) in told}

    def set_crc(self, name: str, number: int, parameters: CrcParameters) -> None:
        """Give a custom CRC its parameters, by its number in the program."""
        flags = 1 + 2 * parameters.reflects_data + 4 * parameters.reflects_result
        row = (flags, parameters.polynomial, parameters.initial, parameters.final)
        place = (at.CRC_START + at.CRC_BYTES * number) // 8
        self._scratch[place + 1 : place + 4] = np.array(row[1:], ">i8").view(np.int64)
        self._scratch[place] = np.array([flags], ">i8").view(np.int64)[0]
        self.crcs[name] = parameters

    def has_events(self, now_ns: int) -> bool:
        """Return whether records, or entries whose idle timeout has ended, wait for the
        controller."""
        if self.outbox is not None and self.outbox.waits:
            return True
        idle_ns = self.ageing.deadline()
        return idle_ns is not None and idle_ns <= now_ns

    def take_records(self) -> list[Sent]:
        """Return what is in its outbox."""
        self.told = False
        return self.outbox.take() if self.outbox is not None else []


_ARRAYS = (
    "buffers", "buffer_references", "free_buffers", "packets", "free_packets", "phv", "headers",
    "switches", "ports", "queues", "heap", "heap_positions", "depths", "loads",
)  # fmt: skip
"""The arrays whose addresses the context has by the same names."""
_SHARED = ("switches", "ports", "queues", "depths", "loads")
"""Those of them that are not of the pool or of the heap."""


def rows(kind: type[Record], count: int) -> Any:
    """Return so many records of zeros, which have their fields as attributes."""
    return zeroed(count, kind.dtype).view(np.recarray)


class Memory:
    """The arrays of all switches: ``context`` leads compiled code to the others.

    ``packet_count`` and the pool's arrays change as it grows; ``context``, ``switches`` and
    ``ports`` are the same for as long as it is there.
    """

    def __init__(
        self,
        switches: int,
        ports: int,
        packets: int,
        buffers: int,
        frame_bytes: int,
        priorities: int = 1,
    ) -> None:
        stride = (at.HEADROOM + frame_bytes + at.SLACK + 63) // 64 * 64
        count = switches * ports
        self.port_count = ports
        self.priorities = priorities
        contexts = rows(at.Context, 1)
        self.context: at.Context = contexts[0]
        self.buffers = zeroed((buffers, stride), np.uint8)
        self.buffer_references = zeroed(buffers, np.int64)
        self.free_buffers = np.arange(buffers - 1, -1, -1, dtype=np.int64)
        self.packets = rows(at.Packet, packets)
        self.free_packets = np.arange(packets - 1, -1, -1, dtype=np.int64)
        self.phv = zeroed((packets, 64), np.int64)
        self.headers = zeroed((packets, 256), np.uint8)
        self.switches = rows(at.SwitchRecord, switches)
        self.ports = rows(at.PortRecord, count)
        self.heap = zeroed((count + at.HEAP_WIDTH, 2), np.int64)[at.HEAP_WIDTH - 1 :]
        self.heap_positions = np.full(count, at.NONE, np.int64)
        self.depths = zeroed((count, at.DEPTH_BUCKETS), np.int64)
        self.loads = zeroed((2 * count, at.LOAD_BINS), np.int64)
        self.queues = rows(at.QueueRecord, count * (priorities - 1))
        for chain in (self.ports.queue.waiting, self.queues.waiting, self.ports.under_way):
            chain.head = chain.tail = at.NONE
        for chain in (contexts.ready, contexts.again, contexts.landed):
            chain.head = chain.tail = at.NONE
        self.ports.peer = at.NONE
        self.ports.unbounded_packets = at.NO_LIMIT_PACKETS
        context = self.context
        context.address = contexts.ctypes.data
        context.load_start_ns, context.load_bin_ns = at.NEVER_NS, 1
        context.free_packet_count, context.free_buffer_count = packets, buffers
        self._lead()

    @property
    def packet_count(self) -> int:
        """Return how many packets the pool has."""
        return len(self.packets)

    def _lead(self) -> None:
        """Let the context say where everything is, and how large."""
        context = self.context
        for name in _ARRAYS:
            setattr(context, name, getattr(self, name).ctypes.data)
        context.buffer_stride = self.buffers.shape[1]
        context.buffer_count = len(self.buffers)
        context.packet_count = len(self.packets)
        context.phv_stride = self.phv.shape[1]
        context.header_stride = self.headers.shape[1]
        context.switch_count = len(self.switches)
        context.port_count = self.port_count
        context.priorities = self.priorities
        context.load_rows = len(self.loads)

    def beside(self) -> "Memory":
        """Return a pool, and a heap of events, of its own for the same switches, ports and queues:
        for code that drives some of these while other code drives others."""
        other = Memory(
            len(self.switches), self.port_count, self.packet_count, len(self.buffers),
            self.buffers.shape[1] - at.HEADROOM - at.SLACK, self.priorities,
        )  # fmt: skip
        other.follow(self)
        return other

    def follow(self, first: "Memory") -> None:
        """Lead to what a memory that this one is beside has by now, and be as wide for programs.
        No loads are counted."""
        for name in _SHARED:
            setattr(self, name, getattr(first, name))
        for name in ("drop", "bare_bytes", "reserve"):
            setattr(self.context, name, getattr(first.context, name))
        self.fit(first.phv.shape[1], first.headers.shape[1] - at.SLACK)

    def port(self, switch: int, port: int) -> at.PortRecord:
        """Return the record of a port."""
        row: at.PortRecord = self.ports[switch * self.port_count + port]
        return row

    def queues_of(self, switch: int, port: int) -> list[at.QueueRecord]:
        """Return the records of a port's queues, by priority."""
        number, more = switch * self.port_count + port, self.priorities - 1
        return [self.ports[number].queue, *self.queues[number * more : (number + 1) * more]]

    def waiting_bytes(self, switch: int, port: int) -> int:
        """Return how many bytes wait in all queues of a port."""
        return sum(int(queue.bytes) for queue in self.queues_of(switch, port))

    def clear_depths(self) -> None:
        """Count how full queues are anew."""
        self.depths[self.ports.up != 0] = 0
        self.ports.counted.queue_peak_packets = self.ports.counted.queue_peak_bytes = 0
        for counted in (self.ports.queue.counted, self.queues.counted):
            counted.peak_packets = counted.peak_bytes = 0

    def clear_loads(self) -> None:
        """Count what links carry anew; memory that is not written to is not taken."""
        self.loads = zeroed(self.loads.shape, np.int64)
        self._lead()

    def fit(self, fields: int, header_bytes: int) -> None:
        """Widen PHVs and header rows for a program; packets under way keep theirs."""
        if fields > self.phv.shape[1]:
            self.phv = self._widened(self.phv, (fields + 7) // 8 * 8)
        if header_bytes + at.SLACK > self.headers.shape[1]:
            stride = (header_bytes + 2 * at.SLACK) // 64 * 64
            self.headers = self._widened(self.headers, stride)
        self._lead()

    def _widened(self, table: Any, width: int) -> Any:
        """Return a table of packets with wider rows. Where no packet is under way, nothing is
        written to it, so that it takes no memory yet."""
        if self.context.free_packet_count == self.packet_count:
            return zeroed((self.packet_count, width), table.dtype)
        return _enlarged(table, self.packet_count, width)

    def grow(self, *, packets: bool = True, buffers: bool = True) -> None:
        """Double the pool's packets or buffers (copies of a frame share one).

        Packets under way stay what they are. Compiled code must not run meanwhile.
        """

        def free(stack: NDArray[np.int64], name: str) -> NDArray[np.int64]:
            # What was used last is taken first: it is in the processor's cache.
            size, count = len(stack), int(getattr(self.context, name))
            setattr(self.context, name, count + size)
            new = np.arange(2 * size - 1, size - 1, -1)
            return np.concatenate([new, stack[:count], stack * 0])[: 2 * size]

        if packets:
            size = 2 * self.packet_count
            self.free_packets = free(self.free_packets, "free_packet_count")
            self.packets = _enlarged(self.packets, size)
            self.phv = _enlarged(self.phv, size, self.phv.shape[1])
            self.headers = _enlarged(self.headers, size, self.headers.shape[1])
        if buffers:
            size = 2 * len(self.buffers)
            self.free_buffers = free(self.free_buffers, "free_buffer_count")
            self.buffers = _enlarged(self.buffers, size, self.buffers.shape[1])
            self.buffer_references = _enlarged(self.buffer_references, size)
        self._lead()


def _enlarged(array: Any, *shape: int) -> Any:
    """Return a larger array of the same kind that begins with an array's content."""
    larger = zeroed(shape, array.dtype).view(type(array))
    larger[tuple(map(slice, array.shape))] = array
    return larger
