"""Counters, registers, meters, multicast, mirroring: as BMv2's command line has them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from weft.switch.engine.attachments import Meter
from weft.switch.engine.control import (
    AlreadyExists,
    CounterCell,
    MeterConfig,
    NotPermitted,
    StillInUse,
    SwitchControl,
    TableEntry,
    TableFull,
)
from weft.switch.engine.program import Cells, Program
from weft.switch.stf.names import resolve
from weft.switch.stf.replication import Replication
from weft.switch.stf.statements import CheckCounter, CheckRegister, Command, Value, Word, number_of
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


class _Cells:
    """The counters of a program, or its meters: arrays of cells, and direct ones, a cell an entry.

    A *place* is what the switch's control wants to know of a cell.
    """

    def __init__(
        self, kind: str, arrays: Mapping[str, Cells | Meter], document: Any, tables: Tables
    ) -> None:
        self.kind = kind
        self.sizes = {name: array.size for name, array in arrays.items()}
        self.tables = tables
        self.direct = {
            entry["name"]: str(entry["binding"])
            for entry in document.get(f"{kind}_arrays", ())
            if entry.get("is_direct")
        }

    def find(self, word: Word) -> str:
        """The array that a name means."""
        return resolve(word, self.kind, dict.fromkeys([*self.sizes, *self.direct]))

    def place(self, name: str, index: Word | Value) -> tuple[Any, ...]:
        """A cell by its number, or by its entry's number or name."""
        if name not in self.direct:
            return name, number_of(index)
        table = self.tables.program.tables[self.direct[name]]
        return _place_of(self.tables.numbered_entry(table, index))

    def places(self, name: str) -> list[tuple[Any, ...]]:
        """All cells."""
        if name not in self.direct:
            return [(name, index) for index in range(self.sizes[name])]
        return [_place_of(entry) for entry in self.tables.control.entries(self.direct[name])]


def _place_of(entry: TableEntry) -> tuple[Any, ...]:
    return entry.table, entry.keys, entry.priority


class Arrays:
    """The arrays of a program, and what is replicated, by the names of commands."""

    def __init__(self, control: SwitchControl, program: Program, tables: Tables) -> None:
        self.control = control
        self.program = program
        self.tables = tables
        self.replication = Replication(control)
        self.counters = _Cells("counter", program.counters, program.document, tables)
        self.meters = _Cells("meter", program.meters, program.document, tables)

    # -- checks: what was read, in words, and its value

    def counter(self, check: CheckCounter) -> tuple[str, int]:
        """A counter's packets or bytes."""
        name = self.counters.find(check.counter)
        cell = self._read_counter(name, check.index)
        index = check.index.value if isinstance(check.index, Value) else check.index.text
        count = cell.packets if check.counted == "packets" else cell.bytes
        return f"counter {name}({index}) in {check.counted}", count

    def register(self, check: CheckRegister) -> tuple[str, int]:
        """A register's value."""
        name = self._register(check.register)
        index = number_of(check.index)
        return f"register {name}({index})", self.control.read_register(name, index)

    # -- commands

    def carry_out(self, command: Command) -> str:
        """Do it; what it reads, in words."""
        if command.target is None:
            return self._replicate(command.command, [number_of(item) for item in command.numbers])
        if command.command.startswith("act_prof_"):
            member, group = command.numbers
            join = command.command.startswith("act_prof_add")
            self.tables.regroup(command.target, member, group, join)
            return ""
        kind, _, verb = command.command.partition("_")
        does = {"counter": self._count, "register": self._store}.get(kind, self._rate)
        return does(verb, command.target, command)

    def _replicate(self, command: str, numbers: list[int]) -> str:
        replication = self.replication
        does: dict[str, Callable[..., str | None]] = {
            "mc_node_create": lambda instance, *ports: (
                f"node {replication.create_node(instance, ports)} was created"
            ),
            "mc_node_update": lambda handle, *ports: replication.update_node(handle, ports),
            "mc_node_associate": replication.associate,
            "mc_node_dissociate": replication.dissociate,
            "mc_node_destroy": replication.destroy_node,
            "mc_mgrp_create": replication.create_group,
            "mc_mgrp_destroy": replication.destroy_group,
            "mirroring_add": replication.mirror_to_port,
            "mirroring_add_mc": replication.mirror_to_group,
            "mirroring_delete": replication.remove_mirror,
            "mirroring_get": lambda session: (
                f"session {session} mirrors to {replication.describe_mirror(session)}"
            ),
        }
        return does[command](*numbers) or ""

    def _read_counter(self, name: str, index: Word | Value) -> CounterCell:
        place = self.counters.place(name, index)
        if name in self.counters.direct:
            return self.control.read_direct_counter(*place)
        return self.control.read_counter(*place)

    def _count(self, verb: str, target: Word, command: Command) -> str:
        name = self.counters.find(target)
        if verb == "read":
            cell = self._read_counter(name, command.numbers[0])
            return f"counter {name} is {cell.packets} packets, {cell.bytes} bytes"
        write = self.control.write_counter, self.control.write_direct_counter
        does: Callable[..., None] = write[name in self.counters.direct]
        if verb == "reset":
            for place in self.counters.places(name):
                does(*place, CounterCell(0, 0))
        else:
            index, *counts = command.numbers
            does(*self.counters.place(name, index), CounterCell(*map(number_of, counts)))
        return ""

    def _register(self, word: Word) -> str:
        return resolve(word, "register", self.program.registers)

    def _store(self, verb: str, target: Word, command: Command) -> str:
        name = self._register(target)
        if verb == "reset":
            for index in range(self.program.registers[name].size):
                self.control.write_register(name, index, 0)
            return ""
        index = number_of(command.numbers[0])
        if verb == "read":
            return f"register {name}({index}) is {self.control.read_register(name, index)}"
        self.control.write_register(name, index, number_of(command.numbers[1]))
        return ""

    def _rate(self, verb: str, target: Word, command: Command) -> str:
        name = self.meters.find(target)
        direct = name in self.meters.direct
        if verb == "get_rates":
            read = self.control.read_direct_meter if direct else self.control.read_meter
            rates = read(*self.meters.place(name, command.numbers[0]))
            return f"meter {name} has {_rates_of(rates)}"
        config = _config(command)
        places = [self.meters.place(name, index) for index in command.numbers]
        write = self.control.write_meter, self.control.write_direct_meter
        does: Callable[..., None] = write[direct]
        for place in places or self.meters.places(name):
            does(*place, config)
        return ""


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
