"""The control side of meters, value sets, ageing and events: a part of ``EngineControl``.

The docstrings of the methods are those of ``weft.switch.engine.control.SwitchControl``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine import layout as at
from weft.switch.engine.attachments import Meter
from weft.switch.engine.control import (
    CounterCell,
    DigestEvent,
    Event,
    IdleTimeout,
    InvalidValue,
    Key,
    MeterConfig,
    MeterCounts,
    NoProgram,
    NotFound,
    PacketIn,
    TableEntry,
)
from weft.switch.engine.tables import TableState
from weft.switch.engine.value_sets import ValueSetState, need_value_set

if TYPE_CHECKING:
    from weft.switch.engine.build import Pipeline
    from weft.switch.engine.host import Host

MOST_RATE = (1 << 63) - 1


def check_rates(what: str, config: MeterConfig) -> None:
    """Raise InvalidValue for rates or bursts that a meter cannot have."""
    for name in ("cir_per_s", "burst", "pir_per_s", "peak_burst"):
        value = getattr(config, name)
        if not 0 <= value <= MOST_RATE:
            raise InvalidValue(f"{what}: {name} {value} is out of range, 0 to {MOST_RATE}")
    if config.pir_per_s < config.cir_per_s:
        raise InvalidValue(
            f"{what}: the peak rate {config.pir_per_s} is below the committed rate "
            f"{config.cir_per_s}"
        )


class Objects:
    """What ``EngineControl`` has beside tables, groups, counters and registers."""

    host: Host
    switch: int
    _name: str
    _pipeline: Pipeline | None
    _tables: dict[str, TableState]
    _rates: dict[int, MeterConfig]
    _value_sets: dict[str, ValueSetState]
    _changed: bool
    _running: bool
    """Whether the arrays of the present program are in place."""

    def _table(self, name: str) -> TableState:
        raise NotImplementedError

    def _loaded(self) -> Pipeline:
        if self._pipeline is None:
            raise NoProgram(f"switch {self._name!r} has no program: load one first")
        return self._pipeline

    # -- meters

    def _meter(self, name: str, index: int) -> tuple[Meter, int]:
        meters = self._loaded().program.meters
        if name not in meters:
            names = ", ".join(meters) or "none"
            raise NotFound(f"the program has no meter {name!r}; it has: {names}")
        meter = meters[name]
        if not 0 <= index < meter.size:
            raise InvalidValue(f"meter {name!r} has cells 0 to {meter.size - 1}, not {index}")
        return meter, meter.base + index

    def _direct_meter(self, table: str, keys: tuple[Key, ...] | None, priority: int) -> int:
        state = self._table(table)
        meter = state.table.meter
        if meter is None:
            raise NotFound(f"table {table!r} has no direct meter")
        if keys is None:
            return meter.base
        state.need(keys, priority)
        return meter.base + state.cells[keys, priority]

    def _set_rates(self, what: str, cell: int, config: MeterConfig | None) -> None:
        if config is not None:
            check_rates(what, config)
            self._rates[cell] = config
        else:
            self._rates.pop(cell, None)
        words = self.host.meters(self.switch)[cell * at.METER_CELL : (cell + 1) * at.METER_CELL]
        now_us = (self.host.clock_ns() - self.host.epoch_ns(self.switch)) // 1000

        def change() -> None:
            words[: at.M_COUNTS] = 0
            if config is None:
                return
            words[at.M_RATES] = 1
            words[at.M_LAST_US] = now_us
            for bucket, rate, burst in (
                (at.M_PEAK, config.pir_per_s, config.peak_burst),
                (at.M_COMMITTED, config.cir_per_s, config.burst),
            ):
                words[bucket + at.B_RATE] = rate
                words[bucket + at.B_BURST] = min(burst, at.MOST_TOKENS)
                words[bucket + at.B_TOKENS] = min(burst, at.MOST_TOKENS)

        self.host.at_once(change)

    def read_meter(self, meter: str, index: int) -> MeterConfig | None:
        return self._rates.get(self._meter(meter, index)[1])

    def read_meters(self, meter: str) -> list[MeterConfig | None]:
        found, base = self._meter(meter, 0)
        return [self._rates.get(base + index) for index in range(found.size)]

    def write_meter(self, meter: str, index: int, config: MeterConfig | None) -> None:
        self._set_rates(f"meter {meter!r}[{index}]", self._meter(meter, index)[1], config)

    def read_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterConfig | None:
        return self._rates.get(self._direct_meter(table, keys, priority))

    def write_direct_meter(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, config: MeterConfig | None
    ) -> None:
        cell = self._direct_meter(table, keys, priority)
        self._set_rates(f"the direct meter of table {table!r}", cell, config)

    def _meter_counts(self, cell: int) -> NDArray[np.int64]:
        """What a cell has marked, live: packets and bytes of each colour."""
        first = cell * at.METER_CELL + at.M_COUNTS
        return self.host.meters(self.switch)[first : first + 6].reshape(3, 2)

    def _read_counts(self, cell: int) -> MeterCounts:
        green, yellow, red = self._meter_counts(cell).tolist()
        return CounterCell(*green), CounterCell(*yellow), CounterCell(*red)

    def _write_counts(self, cell: int, counts: MeterCounts) -> None:
        words = self._meter_counts(cell)
        words[:] = [(colour.packets, colour.bytes) for colour in counts]

    def read_meter_counts(self, meter: str, index: int) -> MeterCounts:
        return self._read_counts(self._meter(meter, index)[1])

    def write_meter_counts(self, meter: str, index: int, counts: MeterCounts) -> None:
        self._write_counts(self._meter(meter, index)[1], counts)

    def read_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int = 0
    ) -> MeterCounts:
        return self._read_counts(self._direct_meter(table, keys, priority))

    def write_direct_meter_counts(
        self, table: str, keys: tuple[Key, ...] | None, priority: int, counts: MeterCounts
    ) -> None:
        self._write_counts(self._direct_meter(table, keys, priority), counts)

    # -- what entries have of their own: counter, meter, timeout

    def _start_entry(self, state: TableState, entry: TableEntry) -> None:
        """A new entry has counted nothing, has no rates, and was hit now."""
        if not self._running:
            return
        cell = state.cells[entry.keys, entry.priority]
        table = state.table
        if table.counter_base is not None:
            self.host.counters(self.switch)[table.counter_base + cell] = 0
        if table.meter is not None:
            self._rates.pop(table.meter.base + cell, None)
            self.host.meters(self.switch)[(table.meter.base + cell) * at.METER_CELL] = 0
            self._meter_counts(table.meter.base + cell)[:] = 0
        self._start_timeout(state, entry)

    def _start_timeout(self, state: TableState, entry: TableEntry) -> None:
        """An entry's time without hits begins now."""
        if state.table.hit_base is None or not self._running:
            return
        cell = state.table.hit_base + state.cells[entry.keys, entry.priority]
        self.host.set_timeout(self.switch, cell, entry.idle_timeout_ns)

    def _end_entry(self, state: TableState, cell: int) -> None:
        """An entry is gone, which had ``cell``."""
        if state.table.hit_base is not None:
            self.host.set_timeout(self.switch, state.table.hit_base + cell, 0)
        if state.table.meter is not None:
            self._rates.pop(state.table.meter.base + cell, None)

    def _start_all(self) -> None:
        """The arrays of a new program are in place: begin with all its entries."""
        self._running = True
        for state in self._tables.values():
            for entry in state.entries.values():
                self._start_entry(state, entry)

    def _resume(self) -> None:
        """Entries are again what they were: so are their rates and timeouts."""
        if not self._running:
            return
        timeouts = self.host.timeouts(self.switch)
        for state in self._tables.values():
            if state.table.hit_base is None:
                continue
            wanted = np.zeros(state.table.most_entries + 1, np.int64)
            for identity, cell in state.cells.items():
                wanted[cell] = state.entries[identity].idle_timeout_ns
            now = timeouts[state.table.hit_base :][: len(wanted)]
            for cell in np.flatnonzero(now != wanted).tolist():
                self.host.set_timeout(self.switch, state.table.hit_base + cell, int(wanted[cell]))
        rates = self.host.meters(self.switch)[at.M_RATES :: at.METER_CELL]
        for cell, config in list(self._rates.items()):
            if not rates[cell]:
                self._set_rates("a meter", cell, config)

    # -- value sets

    def set_value_set(self, name: str, members: Sequence[tuple[Key, ...]]) -> None:
        self._loaded()
        need_value_set(self._value_sets, name).replace(members)
        self._changed = True

    def value_set(self, name: str) -> list[tuple[Key, ...]]:
        self._loaded()
        return list(need_value_set(self._value_sets, name).members)

    # -- events

    def idle_ns(self, table: str, keys: tuple[Key, ...], priority: int = 0) -> int:
        state = self._table(table)
        state.need(keys, priority)
        if state.table.hit_base is None:
            raise NotFound(f"table {table!r} does not support idle timeouts")
        cell = state.table.hit_base + state.cells[keys, priority]
        return max(self.host.clock_ns() - int(self.host.hits(self.switch)[cell]), 0)

    def take_events(self) -> list[Event]:
        events: list[Event] = []
        lists = self._pipeline.program.learn_lists if self._pipeline is not None else {}
        for kind, time_ns, subject, words in self.host.take_records(self.switch):
            if kind == at.PACKET_IN:
                events.append(PacketIn(words.tobytes()[:subject], time_ns))
            elif subject in lists:
                learn_list = lists[subject]
                values = learn_list.values(words.tolist())
                events.append(DigestEvent(learn_list.name, values, time_ns))
        return events + self._idle_timeouts()

    def _idle_timeouts(self) -> list[Event]:
        now_ns = self.host.clock_ns()
        cells = set(self.host.idle_cells(self.switch, now_ns))
        if not cells:
            return []
        return [
            IdleTimeout(state.entries[identity], now_ns)
            for state in self._tables.values()
            if state.table.hit_base is not None
            for identity, cell in state.cells.items()
            if state.table.hit_base + cell in cells
        ]

    @property
    def events_lost(self) -> int:
        return self.host.events_lost(self.switch)

    def set_listener(self, callback: Callable[[], None] | None) -> None:
        self.host.set_listener(self.switch, callback)

    def packet_out(self, frame: bytes) -> None:
        self._loaded()
        if self.cpu_port is None:
            raise InvalidValue(
                f"switch {self._name!r} has no CPU port, which a packet from the controller needs"
            )
        if len(frame) > self.host.frame_bytes:
            raise InvalidValue(
                f"a packet of {len(frame)} bytes: this switch takes {self.host.frame_bytes} at most"
            )
        self.host.packet_out(self.switch, frame)

    @property
    def cpu_port(self) -> int | None:
        return self.host.cpu_port(self.switch)

    @property
    def drop_port(self) -> int:
        return self.host.drop_port

    # -- counters of default entries

    def write_default_counter(self, table: str, cell: CounterCell) -> None:
        state = self._table(table)
        if state.table.counter_base is None:
            raise NotFound(f"table {table!r} has no direct counter")
        self.host.counters(self.switch)[state.table.counter_base] = (cell.packets, cell.bytes)
