"""Figures of several runs that differ only by chance: mean, least and greatest."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The mean and the range of one figure over several runs."""

    mean: float
    least: float
    greatest: float
    count: int
    """How many runs have the figure."""

    @staticmethod
    def of(values: Iterable[float | None]) -> "Spread | None":
        """Return the spread over the runs that have the figure, or None if no run has it."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        # Rounding must not take a mean out of its range.
        low, high = min(known), max(known)
        return Spread(min(max(statistics.fmean(known), low), high), low, high, len(known))
