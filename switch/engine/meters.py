"""The meters of a switch, by their cells: what their words hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine import layout as at
from weft.switch.engine.control import CounterCell, InvalidValue, MeterConfig, MeterCounts

MOST_RATE = (1 << 63) - 1


def check_rates(what: str, config: MeterConfig) -> None:
    """Raise InvalidValue for rates or bursts that a meter cannot have."""
    for name, value in vars(config).items():
        if not 0 <= value <= MOST_RATE:
            raise InvalidValue(f"{what}: {name} {value} is out of range, 0 to {MOST_RATE}")
    if config.pir_per_s < config.cir_per_s:
        raise InvalidValue(
            f"{what}: the peak rate {config.pir_per_s} is below the committed rate "
            f"{config.cir_per_s}"
        )


def words_of_cell(meters: NDArray[np.int64], cell: int) -> NDArray[np.int64]:
    """The words of one cell, live."""
    return meters[cell * at.METER_CELL : (cell + 1) * at.METER_CELL]


def set_rates(words: NDArray[np.int64], config: MeterConfig | None, now_us: int) -> None:
    """Give a cell rates, its buckets full, or take them away; what it has marked stays."""
    words[: at.M_COUNTS] = 0
    if config is None:
        return
    words[[at.M_RATES, at.M_LAST_US]] = 1, now_us
    for bucket, rate, burst in (
        (at.M_PEAK, config.pir_per_s, config.peak_burst),
        (at.M_COMMITTED, config.cir_per_s, config.burst),
    ):
        words[bucket + at.B_RATE] = rate
        words[[bucket + at.B_BURST, bucket + at.B_TOKENS]] = min(burst, at.MOST_TOKENS)


def _counts(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """What a cell has marked, live: packets and bytes of each colour."""
    return words[at.M_COUNTS : at.M_COUNTS + 6].reshape(3, 2)


def counts_of(words: NDArray[np.int64]) -> MeterCounts:
    """What a cell has marked."""
    green, yellow, red = _counts(words).tolist()
    return CounterCell(*green), CounterCell(*yellow), CounterCell(*red)


def set_counts(words: NDArray[np.int64], counts: MeterCounts) -> None:
    """Set what a cell has marked."""
    _counts(words)[:] = [(colour.packets, colour.bytes) for colour in counts]
