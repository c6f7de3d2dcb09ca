"""What packets leave behind in a switch of the engine, reached by the interpreter: there is one
state, and both see it."""

from dataclasses import dataclass, field

from weft.switch.engine.control.entities import CounterCell, MeterConfig
from weft.switch.engine.control.meters import cell_at
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.program import Program
from weft.switch.interpreter.memory import MILLION, Cell, Memory


@dataclass(frozen=True)
class LiveCells:
    """The cells of a register of a switch."""

    control: SwitchControl
    name: str
    size: int
    width: int
    signed: bool

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        value = self.control.values.read_register(self.name, index)
        return value - (1 << self.width) if self.signed and value >> (self.width - 1) else value

    def __setitem__(self, index: int, value: int) -> None:
        mask = (1 << self.width) - 1
        self.control.values.write_register(self.name, index, value & mask)


@dataclass
class LiveMemory(Memory):
    """The memory of a switch of the engine: registers and counters are the switch's own. Meters
    have buckets of their own, which begin as those of the switch when they get their rates."""

    control: SwitchControl | None = None
    rates: dict[int, MeterConfig] = field(default_factory=dict)

    @classmethod
    def of_switch(cls, control: SwitchControl) -> "LiveMemory":
        """Return the memory of a switch that runs a program."""
        program = control.pipelines[0].program
        registers = program.registers
        return cls(
            {
                name: LiveCells(control, name, one.size, one.width, one.signed)
                for name, one in registers.items()
            },
            crcs=control.values.state.crcs,
            control=control,
        )

    def refresh(self) -> None:
        """Take the rates that meters have been given meanwhile."""
        assert self.control is not None
        rates = self.control.contents().rates
        changed = {cell: one for cell, one in rates.items() if self.rates.get(cell) != one}
        cells = meter_cells(self.control.pipelines[0].program, self.control) if changed else {}
        for number, config in changed.items():
            kept = cell_at(self.control.values.state.meters, number)
            self.set_rates(cells[number], config, kept.last_us)
            meter = self.meters[cells[number]]
            for bucket, its in ((meter.peak, kept.peak), (meter.committed, kept.committed)):
                bucket.level = its.tokens * MILLION + its.remainder
        self.rates = dict(rates)

    def count(self, cell: Cell, size: int) -> None:
        """Count a packet and its bytes in the switch."""
        assert self.control is not None
        name, index = cell
        values = self.control.values
        if isinstance(index, int):
            before = values.read_counter(name, index)
            values.write_counter(name, index, _more(before, size))
            return
        entry = self.control.contents().tables[name].entries[index] if index is not None else None
        keys, priority = (entry.keys, entry.priority) if entry else (None, 0)
        before = values.read_direct_counter(name, keys, priority)
        values.write_direct_counter(name, keys, priority, _more(before, size))


def _more(cell: CounterCell, size: int) -> CounterCell:
    return CounterCell(cell.packets + 1, cell.bytes + size)


def meter_cells(program: Program, control: SwitchControl) -> dict[int, Cell]:
    """Return the cells of all meters by their number in the engine."""
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
