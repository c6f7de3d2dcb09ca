"""The meters of a switch, by their cells: what their words hold."""

import numpy as np
from numpy.typing import NDArray

from weft.base.errors import refuse
from weft.base.jit import words_of
from weft.switch.engine.control.entities import CounterCell, MeterConfig, MeterCounts
from weft.switch.engine.control.errors import InvalidValue
from weft.switch.engine.dataplane.layout import MARKS, MOST_TOKENS, MeterCell

MOST_RATE = (1 << 63) - 1


def check_rates(what: str, config: MeterConfig) -> None:
    """Raise InvalidValue for rates or bursts that a meter cannot have."""
    for name, value in vars(config).items():
        if not 0 <= value <= MOST_RATE:
            raise InvalidValue(f"{what}: {name} {value} is out of range, 0 to {MOST_RATE}")
    refuse(
        config.pir_per_s < config.cir_per_s,
        f"{what}: the peak rate {config.pir_per_s} is below the committed rate {config.cir_per_s}",
        InvalidValue,
    )


def cell_at(meters: NDArray[np.void], cell: int) -> MeterCell:
    """Return a view of one cell, which keeps the memory of them all."""
    view = MeterCell.at(meters.ctypes.data, cell)
    view.memory = meters
    return view


def set_rates(cell: MeterCell, config: MeterConfig | None, now_us: int) -> None:
    """Give a cell rates, its buckets full, or take them away; what it has marked stays."""
    words_of(cell)[:-MARKS] = 0
    if config is not None:
        cell.has_rates = 1
        cell.last_us = now_us
        cell.peak.rate, cell.committed.rate = config.pir_per_s, config.cir_per_s
        for bucket, burst in ((cell.peak, config.peak_burst), (cell.committed, config.burst)):
            bucket.burst = bucket.tokens = min(burst, MOST_TOKENS)


def counts_of(cell: MeterCell) -> MeterCounts:
    """Return what a cell has marked."""
    green, yellow, red = cell.counts.reshape(3, 2).tolist()
    return CounterCell(*green), CounterCell(*yellow), CounterCell(*red)


def set_counts(cell: MeterCell, counts: MeterCounts) -> None:
    """Set what a cell has marked."""
    cell.counts[:] = [number for colour in counts for number in (colour.packets, colour.bytes)]
