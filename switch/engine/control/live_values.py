"""What a switch's packets change while its controller looks on: counters, registers, meters, times,
and the events that they leave.

The controller reads and writes these values live: they are no part of a version of the tables, so
nothing here waits for ``publish``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.control import meters
from weft.switch.engine.control.configuration import Configuration
from weft.switch.engine.control.entities import (
    CounterCell,
    DigestEvent,
    Event,
    IdleTimeout,
    Key,
    MeterConfig,
    MeterCounts,
    PacketIn,
    TableEntry,
)
from weft.switch.engine.control.errors import InvalidValue, NotFound
from weft.switch.engine.control.memory import SwitchState
from weft.switch.engine.control.surroundings import Surroundings
from weft.switch.engine.control.tables import TableState
from weft.switch.engine.dataplane import layout as at
from weft.switch.engine.program.algorithms import CUSTOM, CrcParameters
from weft.switch.engine.program.program import Cells
from weft.switch.engine.program.words import join_words, signed, split_words


@dataclass(eq=False)
class LiveValues:
    """Reach the counters, registers, meters and idle times of a switch by its program's names.

    All methods raise ``NoProgram`` when no program is loaded, and ``NotFound`` for an unknown name.
    """

    host: Surroundings
    state: SwitchState
    config: Configuration

    def _entry_cell(
        self, state: TableState, what: str, base: int | None, keys: tuple[Key, ...] | None,
        priority: int,
    ) -> int:  # fmt: skip
        """Return the cell of an entry, or (``keys`` None) of the default one, among a table's
        own."""
        if base is None:
            raise NotFound(f"table {state.table.name!r} {what}")
        if keys is None:
            return base
        state.need(keys, priority)
        return base + state.cells[keys, priority]

    # -- counters

    def _counters(self, name: str, index: int) -> NDArray[np.int64]:
        """Return the cells of a counter, live."""
        cells = self.config.array("counter", self.config.program().counters, name, index)
        return self.state.counters[cells.base : cells.base + cells.size]

    def read_counter(self, counter: str, index: int) -> CounterCell:
        """Return one cell of an indirect counter. Raises NotFound, InvalidValue."""
        return CounterCell(*self._counters(counter, index)[index].tolist())

    def read_counters(self, counter: str) -> list[CounterCell]:
        """Return all cells of an indirect counter."""
        return [CounterCell(*cell) for cell in self._counters(counter, 0).tolist()]

    def write_counter(self, counter: str, index: int, cell: CounterCell) -> None:
        """Set one cell of an indirect counter. Raises NotFound, InvalidValue."""
        self._counters(counter, index)[index] = cell.packets, cell.bytes

    def _direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> NDArray[np.int64]:
        """Return an entry's counter, live; ``keys`` None: the default entry's."""
        state = self.config.table(table)
        cell = self._entry_cell(
            state, "has no direct counter", state.table.counter_base, keys, priority
        )
        counter: NDArray[np.int64] = self.state.counters[cell]
        return counter

    def read_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> CounterCell:
        """Return the direct counter of one entry; with no ``keys`` that of the default entry, which
        counts the packets that missed. Raises NotFound (no such entry, no direct counter)."""
        return CounterCell(*self._direct_counter(table, keys, priority).tolist())

    def write_direct_counter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, cell: CounterCell
    ) -> None:
        """Set what `read_direct_counter` returns. Raises NotFound."""
        self._direct_counter(table, keys, priority)[:] = cell.packets, cell.bytes

    # -- custom CRCs

    def set_crc(self, name: str, width: int, parameters: CrcParameters) -> None:
        """Set the parameters of a calculation by a custom CRC of so many bits, which all packets
        meet from now on. Raises NotFound, InvalidValue."""
        program = self.config.program()
        found = [
            one["name"]
            for one in program.document.get("calculations", [])
            if CUSTOM.get(one["algo"]) == width
        ]
        if name not in found:
            raise NotFound(
                f"no calculation {name!r} by crc{width}_custom; such are "
                f"{', '.join(found) or 'none'}"
            )
        for value in (parameters.polynomial, parameters.initial, parameters.final):
            if not 0 <= value < 1 << width:
                raise InvalidValue(f"{value:#x} does not fit {width} bits")
        number = program.custom_crcs[name]
        self.host.at_once(lambda: self.state.set_crc(name, number, parameters))

    # -- registers

    def _register(self, name: str, index: int) -> tuple[Cells, NDArray[np.int64]]:
        """Return a register, and the words of one of its cells, live."""
        cells = self.config.array("register", self.config.program().registers, name, index)
        return cells, self.state.registers[cells.base + index * cells.words :][: cells.words]

    def read_register(self, register: str, index: int) -> int:
        """Return one cell of a register, without sign. Raises NotFound, InvalidValue."""
        cells, words = self._register(register, index)
        return next(join_words(words.tolist(), [cells.width]))

    def write_register(self, register: str, index: int, value: int) -> None:
        """Set one cell of a register. Raises NotFound, InvalidValue."""
        cells, words = self._register(register, index)
        if not 0 <= value < 1 << cells.width:
            raise InvalidValue(f"register {register!r} has cells of {cells.width} bits: {value}")
        if cells.signed and value >> (cells.width - 1):
            value -= 1 << cells.width
        words[:] = [signed(word) for word in split_words(value, cells.width)]

    # -- meters

    def _meter(self, name: str, index: int) -> int:
        """Return the cell of a meter."""
        return self.config.array("meter", self.config.program().meters, name, index).base + index

    def _direct_meter(self, table: str, keys: tuple[Key, ...] | None, priority: int) -> int:
        state = self.config.table(table)
        base = None if state.table.meter is None else state.table.meter.base
        return self._entry_cell(state, "has no direct meter", base, keys, priority)

    def _meter_cell(self, cell: int) -> at.MeterCell:
        return meters.cell_at(self.state.meters, cell)

    def _set_rates(self, what: str, cell: int, config: MeterConfig | None) -> None:
        if config is not None:
            meters.check_rates(what, config)
            self.config.contents.rates[cell] = config
        else:
            self.config.contents.rates.pop(cell, None)
        meter = self._meter_cell(cell)
        now_us = self.elapsed_us()
        self.host.at_once(lambda: meters.set_rates(meter, config, now_us))

    def elapsed_us(self) -> int:
        """Return the time since the zero of the switch's timestamps."""
        return (self.host.clock_ns() - int(self.state.words.epoch_ns)) // 1000

    def read_meter(self, meter: str, index: int) -> MeterConfig | None:
        """Return the rates of one cell; None if none are set: every packet is green. Raises
        NotFound, InvalidValue."""
        return self.config.contents.rates.get(self._meter(meter, index))

    def read_meters(self, meter: str) -> list[MeterConfig | None]:
        """Return the rates of all cells of an indirect meter."""
        found = self.config.array("meter", self.config.program().meters, meter, 0)
        return [self.config.contents.rates.get(found.base + index) for index in range(found.size)]

    def write_meter(self, meter: str, index: int, config: MeterConfig | None) -> None:
        """Set or take away the rates of one cell; its buckets are full afterwards.

        Raises NotFound, InvalidValue (negative, or the peak rate below the committed one).
        """
        self._set_rates(f"meter {meter!r}[{index}]", self._meter(meter, index), config)

    def read_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterConfig | None:
        """Return the rates of an entry's direct meter; ``keys`` None: of the default entry.

        Raises NotFound (no such entry, no direct meter).
        """
        return self.config.contents.rates.get(self._direct_meter(table, keys, priority))

    def write_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, config: MeterConfig | None
    ) -> None:
        """Do as `write_meter` for an entry. The default entry keeps its rates, but a miss runs no
        meter."""
        cell = self._direct_meter(table, keys, priority)
        self._set_rates(f"the direct meter of table {table!r}", cell, config)

    def read_meter_counts(self, meter: str, index: int) -> MeterCounts:
        """Return what one cell has marked, with or without rates. Raises NotFound, InvalidValue."""
        return meters.counts_of(self._meter_cell(self._meter(meter, index)))

    def write_meter_counts(self, meter: str, index: int, counts: MeterCounts) -> None:
        """Set what one cell has marked. Raises NotFound, InvalidValue."""
        meters.set_counts(self._meter_cell(self._meter(meter, index)), counts)

    def read_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterCounts:
        """Return what an entry's direct meter has marked. Raises NotFound."""
        return meters.counts_of(self._meter_cell(self._direct_meter(table, keys, priority)))

    def write_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, counts: MeterCounts
    ) -> None:
        """Set what an entry's direct meter has marked. Raises NotFound."""
        meters.set_counts(self._meter_cell(self._direct_meter(table, keys, priority)), counts)

    # -- events

    def take_events(self) -> list[Event]:
        """Return what packets and timers have left for the controller since the last call, in
        order."""
        pipeline = self.config.pipeline
        lists = pipeline.program.learn_lists if pipeline is not None else {}
        events: list[Event] = []
        for kind, time_ns, subject, words in self.state.take_records():
            if kind == at.PACKET_IN:
                events.append(PacketIn(words.tobytes()[:subject], time_ns))
            elif subject in lists:
                learn_list = lists[subject]
                events.append(
                    DigestEvent(learn_list.name, learn_list.values(words.tolist()), time_ns)
                )
        now_ns = self.host.clock_ns()
        idle = set(self.state.ageing.take(now_ns))
        return events + [
            IdleTimeout(state.entries[identity], now_ns)
            for state in (self.config.contents.tables.values() if idle else ())
            if state.table.hit_base is not None
            for identity, cell in state.cells.items()
            if state.table.hit_base + cell in idle
        ]

    # -- what entries have of their own: counter, meter, timeout

    def start_entry(self, state: TableState, entry: TableEntry) -> None:
        """Begin with a new entry: it has counted nothing, has no rates, and was hit now."""
        if not self.config.running:
            return
        cell = state.cells[entry.keys, entry.priority]
        table = state.table
        if table.counter_base is not None:
            self.state.counters[table.counter_base + cell] = 0
        if table.meter is not None:
            self.config.contents.rates.pop(table.meter.base + cell, None)
            meter = self._meter_cell(table.meter.base + cell)
            meter.has_rates = 0
            meter.counts[:] = 0
        self.start_timeout(state, entry)

    def start_timeout(self, state: TableState, entry: TableEntry) -> None:
        """Let an entry's time without hits begin now."""
        if state.table.hit_base is not None and self.config.running:
            cell = state.cells[entry.keys, entry.priority]
            self._set_timeout(state.table.hit_base + cell, entry.idle_timeout_ns)

    def _set_timeout(self, cell: int, timeout_ns: int) -> None:
        """Count what has a cell among the times of hits as hit now; 0 means that it has no
        timeout."""
        now_ns = self.host.clock_ns()
        self.state.ageing.start(cell, timeout_ns, now_ns)
        if timeout_ns:
            self.host.expect(now_ns + timeout_ns)

    def end_entry(self, state: TableState, cell: int) -> None:
        """Forget what an entry that is gone had in ``cell``."""
        if state.table.hit_base is not None:
            self._set_timeout(state.table.hit_base + cell, 0)
        if state.table.meter is not None:
            self.config.contents.rates.pop(state.table.meter.base + cell, None)

    def resume(self) -> None:
        """Give entries, which are again what they were, their rates and timeouts."""
        if not self.config.running:
            return
        for state in self.config.contents.tables.values():
            base = state.table.hit_base
            if base is None:
                continue
            wanted = np.zeros(state.table.most_entries + 1, np.int64)
            for identity, cell in state.cells.items():
                wanted[cell] = state.entries[identity].idle_timeout_ns
            now = self.state.ageing.timeouts[base:][: len(wanted)]
            for cell in np.flatnonzero(now != wanted).tolist():
                self._set_timeout(base + cell, int(wanted[cell]))
        rates = self.state.meters["has_rates"]
        for cell, config in list(self.config.contents.rates.items()):
            if not rates[cell]:
                self._set_rates("a meter", cell, config)

    def idle_ns(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> int:
        """Return the time since an entry's last hit, or since it was inserted. Raises NotFound."""
        state = self.config.table(table)
        state.need(keys, priority)
        cell = self._entry_cell(
            state, "does not support idle timeouts", state.table.hit_base, keys, priority
        )
        return max(self.host.clock_ns() - int(self.state.ageing.hits[cell]), 0)
