"""What packets leave behind in a switch: registers, counters, meters, digests."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from weft.switch.engine.control.entities import MeterConfig
from weft.switch.engine.control.tables import Identity
from weft.switch.engine.program.algorithms import CrcParameters
from weft.switch.engine.program.attachments import Meter
from weft.switch.engine.program.program import Program, Table

Cell = tuple[str, int | Identity | None]
"""A cell of an array by its index; of a table's by its entry, None for the default one."""

GREEN, YELLOW, RED = range(3)

MILLION = 1_000_000


@dataclass
class Bucket:
    """A bucket of a meter; ``level`` counts millionths of a token."""

    rate: int
    burst: int
    level: int

    def fill(self, elapsed_us: int) -> None:
        """Add the tokens of a time. What is left of one is kept, even in a full bucket."""
        self.level += self.rate * elapsed_us
        if self.level >= self.burst * MILLION:
            self.level = self.burst * MILLION + self.level % MILLION

    def take(self, tokens: int) -> bool:
        """Take so many tokens, if they are there."""
        enough = self.level >= tokens * MILLION
        self.level -= tokens * MILLION if enough else 0
        return enough


@dataclass
class MeterCell:
    """A two-rate three-colour marker, colour-blind (RFC 2698)."""

    peak: Bucket
    committed: Bucket
    last_us: int

    def mark(self, tokens: int, now_us: int) -> int:
        """Return the colour of a packet: a red one takes nothing, a yellow one of the peak
        bucket alone."""
        for bucket in (self.peak, self.committed):
            bucket.fill(now_us - self.last_us)
        self.last_us = now_us
        if not self.peak.take(tokens):
            return RED
        return GREEN if self.committed.take(tokens) else YELLOW


class Cells(Protocol):
    """The cells of a register."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int: ...
    def __setitem__(self, index: int, value: int, /) -> None: ...


class Overlay:
    """The cells of a register that are somewhere else, and are read where a packet asks for one;
    what packets write stays here."""

    def __init__(self, size: int, read: Callable[[int], int]) -> None:
        self._size, self._read = size, read
        self._written: dict[int, int] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        return self._written[index] if index in self._written else self._read(index)

    def __setitem__(self, index: int, value: int) -> None:
        self._written[index] = value


@dataclass
class Memory:
    """The state of a switch that packets change."""

    registers: dict[str, Cells]
    counters: dict[Cell, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    meters: dict[Cell, MeterCell] = field(default_factory=dict)
    digests: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """The number of each digest's list, and its values."""
    crcs: dict[str, CrcParameters] = field(default_factory=dict)
    """What has been set of custom CRCs, by the names of their calculations."""
    failed_assertions: int = 0
    lookups: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """How many packets have hit an entry of each table with a key, and how many have missed."""

    @classmethod
    def of(cls, program: Program) -> "Memory":
        """Return the memory of a switch that nothing has happened to."""
        return cls({name: [0] * cells.size for name, cells in program.registers.items()})

    def over(self) -> "Memory":
        """Return a memory in which registers begin as in this one, and which leaves this as it
        is; counters begin at 0, and meters have no rates."""
        return Memory(
            {
                name: Overlay(len(cells), cells.__getitem__)
                for name, cells in self.registers.items()
            },
            crcs=self.crcs,
        )

    def set_rates(self, cell: Cell, rates: MeterConfig, now_us: int = 0) -> None:
        """Give a cell of a meter rates, its buckets full."""
        self.meters[cell] = MeterCell(
            Bucket(rates.pir_per_s, rates.peak_burst, rates.peak_burst * MILLION),
            Bucket(rates.cir_per_s, rates.burst, rates.burst * MILLION),
            now_us,
        )

    def count(self, cell: Cell, size: int) -> None:
        """Count a packet and its bytes."""
        counted = self.counters[cell]
        counted[0] += 1
        counted[1] += size

    def look_up(self, table: Table, entry: Identity | None) -> None:
        """Count that an entry of a table was hit, or None. Nothing here grows old."""
        if table.keys:
            self.lookups[table.name][entry is None] += 1

    def learn(self, number: int, values: tuple[int, ...]) -> None:
        """Keep the sample of a digest."""
        self.digests.append((number, values))

    def mark(self, meter: Meter, cell: Cell, size: int, now_us: int) -> int:
        """Return the colour of a packet; without rates all are green."""
        if cell not in self.meters:
            return GREEN
        return self.meters[cell].mark(1 if meter.packets else size, now_us)
