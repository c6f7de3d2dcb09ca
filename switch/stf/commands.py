"""Counters, registers, meters, multicast, mirroring: as BMv2's command line has them."""

from __future__ import annotations

import operator
from collections.abc import Callable

from weft.switch.engine.control import (
    AlreadyExists,
    CounterCell,
    MeterConfig,
    NotPermitted,
    StillInUse,
    SwitchControl,
    TableFull,
)
from weft.switch.engine.program import Program, Table
from weft.switch.stf.names import resolve
from weft.switch.stf.replication import Replication
from weft.switch.stf.statements import CheckCounter, CheckRegister, Command, Value, Word
from weft.switch.stf.tables import Tables

REFUSALS = (AlreadyExists, TableFull, NotPermitted, StillInUse)
"""What BMv2 refuses too, and p4c's runner goes on after."""

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(got: int, comparison: str, wanted: int) -> bool:
    """Whether a comparison holds."""
    return _COMPARISONS[comparison](got, wanted)


class Arrays:
    """The arrays of a program, and what is replicated, by the names of commands."""

    def __init__(self, control: SwitchControl, program: Program, tables: Tables) -> None:
        self.control = control
        self.program = program
        self.tables = tables
        self.replication = Replication(control)
        self.direct_counters = {
            entry["name"]: str(entry["binding"])
            for entry in program.document.get("counter_arrays", ())
            if entry.get("is_direct")
        }
        self.direct_meters = {
            entry["name"]: str(entry["binding"])
            for entry in program.document.get("meter_arrays", ())
            if entry.get("is_direct")
        }

    # -- checks: what was read, in words, and its value

    def counter(self, check: CheckCounter) -> tuple[str, int]:
        """A counter's packets or bytes."""
        name, cell = self._counter(check.counter, check.index)
        index = check.index.value if isinstance(check.index, Value) else check.index.text
        count = cell.packets if check.counted == "packets" else cell.bytes
        return f"counter {name}({index}) in {check.counted}", count

    def register(self, check: CheckRegister) -> tuple[str, int]:
        """A register's value."""
        name = self._register(check.register)
        index = _number(check.index)
        return f"register {name}({index})", self.control.read_register(name, index)

    # -- commands

    def carry_out(self, command: Command) -> str:
        """Do it; what it reads, in words."""
        if command.target is None:
            return self._replicate(command.command, [_number(item) for item in command.numbers])
        if command.command.startswith("act_prof_"):
            member, group = command.numbers
            join = command.command.startswith("act_prof_add")
            self.tables.regroup(command.target, member, group, join)
            return ""
        kind, _, verb = command.command.partition("_")
        if kind == "counter":
            return self._count(verb, command)
        if kind == "register":
            return self._store(verb, command)
        return self._rate(verb, command)

    def _replicate(self, command: str, numbers: list[int]) -> str:
        replication = self.replication
        if command == "mc_node_create":
            handle = replication.create_node(numbers[0], tuple(numbers[1:]))
            return f"node {handle} was created"
        if command == "mc_node_update":
            replication.update_node(numbers[0], tuple(numbers[1:]))
            return ""
        if command == "mirroring_get":
            where = replication.describe_mirror(numbers[0])
            return f"session {numbers[0]} mirrors to {where}"
        simple: dict[str, Callable[..., None]] = {
            "mirroring_add": replication.mirror_to_port,
            "mirroring_add_mc": replication.mirror_to_group,
            "mirroring_delete": replication.remove_mirror,
            "mc_mgrp_create": replication.create_group,
            "mc_mgrp_destroy": replication.destroy_group,
            "mc_node_associate": replication.associate,
            "mc_node_dissociate": replication.dissociate,
            "mc_node_destroy": replication.destroy_node,
        }
        simple[command](*numbers)
        return ""

    def _table(self, name: str) -> Table:
        return next(table for table in self.program.tables.values() if table.name == name)

    def _counter(self, word: Word, index: Word | Value) -> tuple[str, CounterCell]:
        arrays = [cells.name for cells in self.program.counters.values()]
        name = resolve(word, "counter", dict.fromkeys([*arrays, *self.direct_counters]))
        if name in self.direct_counters:
            table = self._table(self.direct_counters[name])
            entry = self.tables.numbered_entry(table, index)
            return name, self.control.read_direct_counter(entry.table, entry.keys, entry.priority)
        return name, self.control.read_counter(name, _number(index))

    def _count(self, verb: str, command: Command) -> str:
        assert command.target is not None
        if verb == "reset":
            return self._reset_counter(command.target)
        index = command.numbers[0]
        name, cell = self._counter(command.target, index)
        if verb == "read":
            return f"counter {name} is {cell.packets} packets, {cell.bytes} bytes"
        packets, size = (_number(item) for item in command.numbers[1:])
        if name in self.direct_counters:
            table = self._table(self.direct_counters[name])
            entry = self.tables.numbered_entry(table, index)
            self.control.write_direct_counter(
                entry.table, entry.keys, entry.priority, CounterCell(packets, size)
            )
        else:
            self.control.write_counter(name, _number(index), CounterCell(packets, size))
        return ""

    def _reset_counter(self, word: Word) -> str:
        arrays = {cells.name: cells for cells in self.program.counters.values()}
        name = resolve(word, "counter", dict.fromkeys([*arrays, *self.direct_counters]))
        zero = CounterCell(0, 0)
        if name in self.direct_counters:
            for entry in self.control.entries(self.direct_counters[name]):
                self.control.write_direct_counter(entry.table, entry.keys, entry.priority, zero)
        else:
            for index in range(arrays[name].size):
                self.control.write_counter(name, index, zero)
        return ""

    def _register(self, word: Word) -> str:
        return resolve(word, "register", [c.name for c in self.program.registers.values()])

    def _store(self, verb: str, command: Command) -> str:
        assert command.target is not None
        name = self._register(command.target)
        if verb == "reset":
            size = next(c.size for c in self.program.registers.values() if c.name == name)
            for index in range(size):
                self.control.write_register(name, index, 0)
            return ""
        index = _number(command.numbers[0])
        if verb == "read":
            return f"register {name}({index}) is {self.control.read_register(name, index)}"
        self.control.write_register(name, index, _number(command.numbers[1]))
        return ""

    def _rate(self, verb: str, command: Command) -> str:
        assert command.target is not None
        arrays = {cells.name: cells for cells in self.program.meters.values()}
        name = resolve(command.target, "meter", dict.fromkeys([*arrays, *self.direct_meters]))
        if verb == "get_rates":
            config = self._read_meter(name, command.numbers[0])
            return f"meter {name} has {_rates_of(config)}"
        config = _config(command)
        if command.numbers:
            self._write_meter(name, command.numbers[0], config)
        elif name in self.direct_meters:
            for entry in self.control.entries(self.direct_meters[name]):
                self.control.write_direct_meter(entry.table, entry.keys, entry.priority, config)
        else:
            for index in range(arrays[name].size):
                self.control.write_meter(name, index, config)
        return ""

    def _read_meter(self, name: str, index: Word | Value) -> MeterConfig | None:
        if name not in self.direct_meters:
            return self.control.read_meter(name, _number(index))
        entry = self.tables.numbered_entry(self._table(self.direct_meters[name]), index)
        return self.control.read_direct_meter(entry.table, entry.keys, entry.priority)

    def _write_meter(self, name: str, index: Word | Value, config: MeterConfig) -> None:
        if name not in self.direct_meters:
            self.control.write_meter(name, _number(index), config)
            return
        entry = self.tables.numbered_entry(self._table(self.direct_meters[name]), index)
        self.control.write_direct_meter(entry.table, entry.keys, entry.priority, config)


def _config(command: Command) -> MeterConfig:
    """Rates are in units of a microsecond, as BMv2's command line has them."""
    if len(command.rates) != 2:
        raise command.place.error(
            f"{command.command} takes two pairs of RATE:BURST, committed and peak, not "
            f"{len(command.rates)}; rates are packets or bytes in a microsecond"
        )
    (committed, burst), (peak, peak_burst) = command.rates
    return MeterConfig(round(committed * 1e6), burst, round(peak * 1e6), peak_burst)


def _rates_of(config: MeterConfig | None) -> str:
    if config is None:
        return "no rates set"
    committed, peak = config.cir_per_s / 1e6, config.pir_per_s / 1e6
    return f"rates {committed:g}:{config.burst} {peak:g}:{config.peak_burst}"


def _number(index: Word | Value) -> int:
    if isinstance(index, Word):
        raise index.place.error(f"{index.text!r} is a name: a number is needed here")
    if index.wildcard_bits:
        raise index.place.error("a number without wildcards is needed here")
    return index.value
