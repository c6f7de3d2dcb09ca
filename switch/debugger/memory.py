"""What packets leave behind in a switch of the engine, reached by the interpreter: there is one
state, and both see it."""

from dataclasses import dataclass, field

from weft.base.errors import InputError
from weft.switch.debugger.values import shown
from weft.switch.engine.control.contents import Contents
from weft.switch.engine.control.meters import cell_at
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.control.tables import Identity
from weft.switch.engine.dataplane import layout
from weft.switch.engine.dataplane.layout import DIGEST
from weft.switch.engine.program.attachments import Meter
from weft.switch.engine.program.program import Table
from weft.switch.engine.program.words import signed, split_words
from weft.switch.interpreter.memory import MILLION, Bucket, Cell, Memory, MeterCell

MOST_CELLS = 16


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
    """The memory of a switch of the engine: registers, counters, meters, times of hits and what the
    controller is told are the switch's own."""

    control: SwitchControl = field(kw_only=True)
    contents: Contents = field(kw_only=True)
    """What packets meet now."""
    now_ns: int = 0
    """When they do."""

    @classmethod
    def of_switch(cls, control: SwitchControl) -> "LiveMemory":
        """Return the memory of a switch that runs a program."""
        registers = control.pipelines[0].program.registers
        return cls(
            {
                name: LiveCells(control, name, one.size, one.width, one.signed)
                for name, one in registers.items()
            },
            crcs=control.values.state.crcs,
            control=control,
            contents=control.contents(),
        )

    def _cell(self, base: int, cell: Cell) -> int:
        """Return which of the switch's cells it is: an entry's own are behind that of the default
        entry."""
        name, index = cell
        if index is None or isinstance(index, int):
            return base + (index or 0)
        return base + self.contents.tables[name].cells[index]

    def count(self, cell: Cell, size: int) -> None:
        """Count a packet and its bytes in the switch."""
        name = cell[0]
        program = self.control.pipelines[0].program
        array = program.counters.get(name) if isinstance(cell[1], int) else None
        base = array.base if array else program.tables[name].counter_base
        assert base is not None
        self.control.values.state.counters[self._cell(base, cell)] += (1, size)

    def mark(self, meter: Meter, cell: Cell, size: int, now_us: int) -> int:
        """Return the colour of a packet by the switch's own buckets, and count it there."""
        kept = cell_at(self.control.values.state.meters, self._cell(meter.base, cell))
        colour = 0
        if kept.has_rates:
            peak, committed = _bucket(kept.peak), _bucket(kept.committed)
            marker = MeterCell(peak, committed, int(kept.last_us))
            colour = marker.mark(1 if meter.packets else size, now_us)
            for mine, bucket in ((kept.peak, peak), (kept.committed, committed)):
                mine.tokens, mine.remainder = divmod(bucket.level, MILLION)
            kept.last_us = marker.last_us
        kept.counts[2 * colour : 2 * colour + 2] += (1, size)
        return colour

    def look_up(self, table: Table, entry: Identity | None) -> None:
        """Count in the switch that an entry of a table was hit, or None, and note when."""
        state = self.control.values.state
        if table.lookups_cell is not None:
            state.counters[table.lookups_cell][int(entry is not None)] += 1  # misses, hits
        if table.hit_base is not None and entry is not None:
            state.ageing.hits[self._cell(table.hit_base, (table.name, entry))] = self.now_ns

    def learn(self, number: int, values: tuple[int, ...]) -> None:
        """Tell the controller the sample of a digest."""
        control = self.control
        elements = control.pipelines[0].program.learn_lists[number].elements
        words = [
            signed(word)
            for element, value in zip(elements, values, strict=True)
            if not isinstance(element, int)
            for word in split_words(value, element.width)
        ]
        outbox = control.values.state.outbox
        if outbox is not None:
            control.host.at_once(lambda: outbox.put(DIGEST, number, words, self.now_ns))
            control.host.expect(self.now_ns)

    def register_text(self, line: str) -> str:
        """Return cells of a register, of which a line has the name, and perhaps the first and how
        many. Raises InputError."""
        name, *numbers = line.split() or [""]
        known = self.registers
        found = [one for one in known if one == name] or [
            one for one in known if one.endswith(f".{name}")
        ]
        if len(found) != 1 or not all(map(is_number, numbers)) or len(numbers) > 2:
            listed = ", ".join(known) or "none"
            raise InputError(f"registers NAME [FIRST [COUNT]]; the program's registers: {listed}")
        cells = known[found[0]]
        first, count = [*map(int, numbers), *(0, MOST_CELLS)[len(numbers) :]]
        wanted = range(first, min(first + min(count, MOST_CELLS), len(cells)))
        return "\n".join(f"{found[0]}[{index}] = {shown(cells[index])}" for index in wanted) or (
            f"{found[0]} has {len(cells)} cells, 0 to {len(cells) - 1}"
        )


def _bucket(kept: layout.Bucket) -> Bucket:
    """Return a bucket of the switch as the interpreter has it."""
    level = int(kept.tokens) * MILLION + int(kept.remainder)
    return Bucket(int(kept.rate), int(kept.burst), level)


def is_number(text: str) -> bool:
    """Return whether a text is a whole number that is not too long."""
    return text.isascii() and text.isdecimal() and len(text) < 10
