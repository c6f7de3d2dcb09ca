"""What compiled code works on: the pool of packets and buffers, the rows of switches and ports.

All arrays belong to Python; compiled code reaches them from the one *context* array
(``weft.switch.engine.layout``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine import layout as at
from weft.switch.engine.ageing import Ageing
from weft.switch.engine.build import Pipeline
from weft.switch.engine.outbox import Outbox, Record
from weft.switch.engine.program import Program


class SwitchState:
    """A switch: its words, the program that it runs, and what packets read and write there, live.

    ``counters``: int64[cells, 2] of packets, bytes; ``meters``: ``METER_CELL`` words each;
    ``ageing``: when entries were hit.
    """

    def __init__(self, words: NDArray[np.int64]) -> None:
        self.words = words
        self.pipeline: Pipeline | None = None
        self.image = np.zeros(at.FIRST_TABLE, np.int64)
        self.counters = np.zeros((0, 2), np.int64)
        self.registers = np.zeros(0, np.int64)
        self.meters = np.zeros(0, np.int64)
        self.ageing = Ageing(0)
        self.cpu_port: int | None = None
        self.outbox: Outbox | None = None
        self.told = False
        """Whether its listener has been told of the events that wait."""
        self._scratch = np.zeros(at.SCRATCH_WORDS, np.int64)
        words[at.SCRATCH] = self._scratch.ctypes.data

    def _lead(self, place: int, array: NDArray[np.int64]) -> None:
        """Let two words say where an array is and how many words it has."""
        self.words[place] = array.ctypes.data
        self.words[place + 1] = array.size

    def start(self, program: Program) -> None:
        """Empty arrays for a program: nothing is counted, no rates are set, no events wait."""
        self.counters = np.zeros((program.counter_cells, 2), np.int64)
        self.registers = np.zeros(program.register_cells, np.int64)
        self.meters = np.zeros(program.meter_cells * at.METER_CELL, np.int64)
        self.ageing = Ageing(program.hit_words)
        self._lead(at.COUNTERS, self.counters)
        self._lead(at.REGISTERS, self.registers)
        self._lead(at.METERS, self.meters)
        self._lead(at.HITS, self.ageing.hits)
        self.words[at.FIELDS] = program.common_fields
        if program.learn_lists or self.cpu_port is not None:
            self.outbox = Outbox(self.words)
        self.told = False

    def run(self, pipeline: Pipeline, image: NDArray[np.int64]) -> None:
        """Let packets see an image, through a program."""
        self.pipeline, self.image = pipeline, image
        self._lead(at.IMAGE, image)
        self.words[at.PIPELINE] = pipeline.address

    @property
    def epoch_ns(self) -> int:
        """Zero of its timestamps."""
        return int(self.words[at.EPOCH_NS])

    @property
    def events_lost(self) -> int:
        """Events that found no room."""
        return int(self.words[at.EVENTS_LOST])

    def has_events(self, now_ns: int) -> bool:
        """Whether records, or entries whose idle timeout has ended, wait for the controller."""
        if self.outbox is not None and self.outbox.waits:
            return True
        idle_ns = self.ageing.deadline()
        return idle_ns is not None and idle_ns <= now_ns

    def take_records(self) -> list[Record]:
        """What is in its outbox."""
        self.told = False
        return self.outbox.take() if self.outbox is not None else []


class Memory:
    """The arrays of all switches: ``context`` leads compiled code to the others.

    ``packet_count`` and the pool's arrays change as it grows; ``context``, ``switches`` and
    ``ports`` are the same for as long as it is there.
    """

    def __init__(
        self, switches: int, ports: int, packets: int, buffers: int, frame_bytes: int
    ) -> None:
        stride = (at.HEADROOM + frame_bytes + at.SLACK + 63) // 64 * 64
        count = switches * ports
        self.port_count = ports
        self.context = np.zeros(at.CONTEXT_WORDS, np.int64)
        self.buffers = np.zeros((buffers, stride), np.uint8)
        self.references = np.zeros(buffers, np.int64)
        self.free_buffers = np.arange(buffers - 1, -1, -1, dtype=np.int64)
        self.packets = np.zeros((packets, at.PACKET_WORDS), np.int64)
        self.free_packets = np.arange(packets - 1, -1, -1, dtype=np.int64)
        self.phv = np.zeros((packets, 64), np.int64)
        self.headers = np.zeros((packets, 256), np.uint8)
        self.switches = np.zeros((switches, at.SWITCH_WORDS), np.int64)
        self.ports = np.zeros((count, at.PORT_WORDS), np.int64)
        self.heap = np.zeros(max(count, 1), np.int64)
        self.depths = np.zeros((count, at.DEPTH_BUCKETS), np.int64)
        self.loads = np.zeros((2 * count, at.LOAD_BINS), np.int64)
        self.ports[:, [at.Q_HEAD, at.Q_TAIL, at.W_HEAD, at.W_TAIL]] = at.NONE
        self.ports[:, [at.Q_EVENT_NS, at.Q_HEAP_POSITION, at.Q_PEER]] = at.NONE
        self.context[[at.READY_HEAD, at.READY_TAIL, at.AGAIN_HEAD, at.AGAIN_TAIL]] = at.NONE
        self.context[[at.LANDED_HEAD, at.LANDED_TAIL]] = at.NONE
        self.context[[at.LOAD_START_NS, at.LOAD_BIN_NS]] = at.NEVER_NS, 1
        self.context[[at.FREE_PACKET_COUNT, at.FREE_BUFFER_COUNT]] = packets, buffers
        self._lead()

    @property
    def packet_count(self) -> int:
        """Packets of the pool."""
        return len(self.packets)

    def _lead(self) -> None:
        """Let the context say where everything is."""
        for place, array in (
            (at.BUFFERS, self.buffers),
            (at.BUFFER_REFERENCES, self.references),
            (at.FREE_BUFFERS, self.free_buffers),
            (at.PACKETS, self.packets),
            (at.FREE_PACKETS, self.free_packets),
            (at.PHV, self.phv),
            (at.HEADERS, self.headers),
            (at.SWITCHES, self.switches),
            (at.PORTS, self.ports),
            (at.HEAP, self.heap),
            (at.DEPTHS, self.depths),
            (at.LOADS, self.loads),
        ):
            self.context[place] = array.ctypes.data
        for place, size in (
            (at.BUFFER_STRIDE, self.buffers.shape[1]),
            (at.BUFFER_COUNT, len(self.buffers)),
            (at.PACKET_COUNT, len(self.packets)),
            (at.PHV_STRIDE, self.phv.shape[1]),
            (at.HEADER_STRIDE, self.headers.shape[1]),
            (at.SWITCH_COUNT, len(self.switches)),
            (at.PORT_COUNT, self.port_count),
            (at.LOAD_ROWS, len(self.loads)),
        ):
            self.context[place] = size

    def port(self, switch: int, port: int) -> NDArray[np.int64]:
        """The words of a port."""
        row: NDArray[np.int64] = self.ports[switch * self.port_count + port]
        return row

    def clear_loads(self) -> None:
        """Start what links carry anew; memory that is not written to is not taken."""
        self.loads = np.zeros(self.loads.shape, np.int64)
        self._lead()

    def fit(self, fields: int, header_bytes: int) -> None:
        """Widen PHVs and header rows for a program; packets under way keep theirs."""
        if fields > self.phv.shape[1]:
            self.phv = _enlarged(self.phv, self.packet_count, (fields + 7) // 8 * 8)
        if header_bytes + at.SLACK > self.headers.shape[1]:
            stride = (header_bytes + 2 * at.SLACK) // 64 * 64
            self.headers = _enlarged(self.headers, self.packet_count, stride)
        self._lead()

    def grow(self, *, packets: bool = True, buffers: bool = True) -> None:
        """Double the pool's packets or buffers (copies of a frame share one).

        Packets under way stay what they are. Compiled code must not run meanwhile.
        """

        def free(stack: NDArray[np.int64], place: int) -> NDArray[np.int64]:
            # What was used last is taken first: it is in the processor's cache.
            size, count = len(stack), int(self.context[place])
            self.context[place] = count + size
            new = np.arange(2 * size - 1, size - 1, -1)
            return np.concatenate([new, stack[:count], stack * 0])[: 2 * size]

        if packets:
            size = 2 * self.packet_count
            self.free_packets = free(self.free_packets, at.FREE_PACKET_COUNT)
            self.packets = _enlarged(self.packets, size, at.PACKET_WORDS)
            self.phv = _enlarged(self.phv, size, self.phv.shape[1])
            self.headers = _enlarged(self.headers, size, self.headers.shape[1])
        if buffers:
            size = 2 * len(self.buffers)
            self.free_buffers = free(self.free_buffers, at.FREE_BUFFER_COUNT)
            self.buffers = _enlarged(self.buffers, size, self.buffers.shape[1])
            self.references = np.concatenate([self.references, self.references * 0])
        self._lead()


def _enlarged(array: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """An array's content at the beginning of a larger one."""
    larger = np.zeros((rows, columns), array.dtype)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
