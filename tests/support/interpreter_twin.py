"""The interpreter beside a switch of the engine: the same program, tables, and random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.switch.engine.control.meters import cell_at
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.program import Program
from weft.switch.engine.program.words import join_words
from weft.switch.engine.switches import Dataplane, Departure
from weft.switch.interpreter.description import FieldType
from weft.switch.interpreter.interpreter import Interpreter, Sent, follow
from weft.switch.interpreter.memory import MILLION, Cell, Memory
from weft.switch.interpreter.steps import Choice, Step
from weft.switch.interpreter.surroundings import Surroundings

WORD = (1 << 64) - 1


class Random:
    """The numbers that a switch of the engine draws (splitmix64)."""

    def __init__(self, state: int) -> None:
        self.state = state & WORD

    def below(self, count: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        word = self.state
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
        word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
        return (word ^ word >> 31) % count


def meter_cells(program: Program, control: SwitchControl) -> dict[int, Cell]:
    """The cells of all meters by their number in the engine."""
    cells: dict[int, Cell] = {
        meter.base + index: (name, index)
        for name, meter in program.meters.items()
        for index in range(meter.size)
    }
    for name, state in control.contents().tables.items():
        if state.table.meter is not None:
            base = state.table.meter.base
            cells |= {base + cell: (name, identity) for identity, cell in state.cells.items()}
    return cells


class Twin:
    """An interpreter of what a switch of the engine runs, from this moment on."""

    def __init__(self, dataplane: Dataplane, control: SwitchControl) -> None:
        number = control.switch
        self.program = control.pipelines[0].program
        self.words = dataplane.states[number].words
        self.random = Random(int(self.words.random))
        contents, memory = control.contents(), Memory.of(self.program)
        memory.crcs = control.values.state.crcs
        cells = meter_cells(self.program, control)
        for cell, rates in contents.rates.items():
            kept = cell_at(control.values.state.meters, cell)
            memory.set_rates(cells[cell], rates, kept.last_us)
            for bucket, their in (
                (memory.meters[cells[cell]].peak, kept.peak),
                (memory.meters[cells[cell]].committed, kept.committed),
            ):
                bucket.level = their.tokens * MILLION + their.remainder
        for name in memory.registers:
            kind = FieldType(name, self.program.registers[name].width, self.signed(name))
            memory.registers[name] = list(map(kind.cut, self.engines(control, name)))
        around = Surroundings(
            drop_port=dataplane.drop_port,
            priorities=dataplane.memory.priorities,
            cpu_port=next(
                (
                    port
                    for port in range(dataplane.port_count)
                    if dataplane.memory.port(number, port).cpu
                ),
                None,
            ),
            has_port=lambda port: (
                0 <= port < dataplane.port_count and bool(dataplane.memory.port(number, port).up)
            ),
        )
        self.switch = Interpreter(self.program, contents, memory, around)

    def signed(self, name: str) -> bool:
        return self.program.registers[name].signed

    def engines(self, control: SwitchControl, name: str) -> list[int]:
        """The cells of a register of the engine, without sign."""
        cells = self.program.registers[name]
        words = control.values.state.registers[cells.base :][: cells.size * cells.words]
        if not words.any():
            return [0] * cells.size
        return list(join_words(words.tolist(), [cells.width] * cells.size))

    def choose(self, choice: Choice) -> int:
        """Choose as the engine does."""
        if choice.usual is not None:
            return choice.usual
        assert isinstance(choice.alternatives, range)
        return self.random.below(choice.alternatives.stop - choice.alternatives.start)

    def steps(self, port: int, frame: bytes, now_ns: int = 0) -> list[Step]:
        """All steps of a packet."""
        self.switch.around.now_us = (now_ns - int(self.words.epoch_ns)) // 1000
        return list(follow(self.switch.run(port, frame), self.choose))

    def sent(self, port: int, frame: bytes, now_ns: int = 0) -> list[tuple[int, bytes]]:
        """What leaves for a packet, by port."""
        steps = self.steps(port, frame, now_ns)
        left = [(step.port, step.frame) for step in steps if isinstance(step, Sent)]
        return sorted(left, key=lambda one: one[0])

    def counters(self, name: str) -> list[tuple[int, int]]:
        """The packets and bytes of a counter's cells."""
        size = self.program.counters[name].size
        counted = self.switch.memory.counters
        return [tuple(counted.get((name, at), (0, 0))) for at in range(size)]  # type: ignore[misc]

    def lookups(self) -> dict[str, tuple[int, int]]:
        """The hits and misses of all tables with a key."""
        keyed = [one.name for one in self.program.tables.values() if one.keys]
        met = self.switch.memory.lookups
        return {name: (met[name][0], met[name][1]) for name in keyed}

    def registers(self, name: str) -> list[int]:
        """The cells of a register, without sign."""
        width = self.program.registers[name].width
        cells = self.switch.memory.registers[name]
        return [cells[at] & ((1 << width) - 1) for at in range(len(cells))]

    def digests(self) -> list[tuple[str, tuple[int, ...]]]:
        """All digests so far, by their names."""
        lists = self.program.learn_lists
        return [(lists[number].name, values) for number, values in self.switch.memory.digests]


class Watched(Dataplane):
    """Switches of the engine beside each of which an interpreter takes the same packets.

    What leaves them, and what they remember, must be the same; time may not pass in queues.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sides: dict[int, SwitchControl] = {}
        self.expected: dict[tuple[int, int], list[bytes]] = {}
        self.compared = 0

    def control(self, switch: int, name: str = "") -> SwitchControl:
        self.sides[switch] = super().control(switch, name)
        return self.sides[switch]

    def receive(self, switch: int, port: int, frames: Sequence[bytes], now_ns: int) -> None:
        for frame in frames:
            with self.twin(switch, port, frame, now_ns):
                super().receive(switch, port, [frame], now_ns)

    @contextmanager
    def twin(self, switch: int, port: int, frame: bytes, now_ns: int) -> Iterator[None]:
        """Compare what a packet does to a switch's memory, and keep what is to leave it."""
        control = self.sides[switch]
        if self.states[switch].pipeline is None:
            yield
            return
        twin = Twin(self, control)
        before = {name: control.values.read_counters(name) for name in twin.program.counters}
        looked_up = self.states[switch].lookups()
        for out, data in twin.sent(port, frame, now_ns):
            if not self.memory.port(switch, out).cpu:
                self.expected.setdefault((switch, out), []).append(data)
        yield
        for name in twin.program.registers:
            assert twin.registers(name) == twin.engines(control, name), name
        for name, cells in before.items():
            after = control.values.read_counters(name)
            counted = [(b.packets - a.packets, b.bytes - a.bytes)
                       for a, b in zip(cells, after, strict=True)]  # fmt: skip
            assert twin.counters(name) == counted, name

        for name, (hits, misses) in self.states[switch].lookups().items():
            earlier = looked_up[name]
            assert twin.lookups()[name] == (hits - earlier[0], misses - earlier[1]), name

    def transmit(self, now_ns: int) -> list[Departure]:
        found = super().transmit(now_ns)
        for one in found:
            waiting = self.expected.get((one.switch, one.port))
            assert waiting, f"port {one.port}: {one.frame.hex()}, where the interpreter sends none"
            assert waiting.pop(0).hex() == one.frame.hex(), f"port {one.port}"
            self.compared += 1
        return found

    def missing(self) -> dict[tuple[int, int], list[bytes]]:
        """What the interpreter has sent, and the engine has not."""
        return {place: frames for place, frames in self.expected.items() if frames}
