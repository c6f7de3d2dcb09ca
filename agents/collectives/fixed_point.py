"""What sums lose to the fixed point and the 32 bits of switches, as it is counted and told.

Nothing of it is wrong: the values of a block have one scale (see `algorithms.switch`), so that one
that is too small beside the largest is 0, and a block with a number that is not finite has no scale
and is NaN. But a program that does not expect it had better be told.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.agents.transport.aggregation import Reduction

SATURATED = "blocks_saturated"
"""The counter of blocks in which a sum of int32 left its range."""
_BLOCKS = "fixed_point_blocks"
_LOSSY = "fixed_point_blocks_lossy"
_NAN = "fixed_point_blocks_nan"


@dataclass(frozen=True)
class FixedPoint:
    """The blocks that one rank has had added in fixed point."""

    blocks: int = 0
    lossy: int = 0
    """In how many a value of this rank that is not 0 became 0."""
    nan: int = 0
    """How many became NaN, since some rank had a NaN or an infinity there."""

    def __add__(self, other: "FixedPoint") -> "FixedPoint":
        """Return what both have counted together."""
        return FixedPoint(
            self.blocks + other.blocks, self.lossy + other.lossy, self.nan + other.nan
        )

    @staticmethod
    def of_reduction(reduction: Reduction) -> "FixedPoint":
        """Return what one reduction has lost so far."""
        return FixedPoint(
            reduction.fixed_blocks, reduction.lossy_blocks, reduction.not_finite_blocks
        )

    def statistics(self) -> dict[str, int]:
        """Return the counters by name; none if nothing was lost."""
        if not (self.lossy or self.nan):
            return {}
        return {_BLOCKS: self.blocks, _LOSSY: self.lossy, _NAN: self.nan}

    @staticmethod
    def of(statistics: Mapping[str, int]) -> "FixedPoint":
        """Return what `statistics` has put among a rank's counters."""
        return FixedPoint(*(statistics.get(name, 0) for name in (_BLOCKS, _LOSSY, _NAN)))


def losses(ranks: Iterable[Mapping[str, int]]) -> str:
    """Return what sums lost, in words: of the rank that lost most; empty if nothing.

    Args:
        ranks: the counters of each rank, by name.
    """
    counted = [FixedPoint.of(each) for each in ranks]
    lossy = max(counted, key=lambda each: each.lossy, default=FixedPoint())
    nan = max(counted, key=lambda each: each.nan, default=FixedPoint())
    found = []
    if lossy.lossy:
        found.append(
            f"in {_share(lossy.lossy, lossy.blocks)} values other than 0 became 0, which are too "
            "small beside the largest of their block"
        )
    if nan.nan:
        found.append(f"{_share(nan.nan, nan.blocks)} became NaN, for an inf or a NaN in them")
    return f"switches add in fixed point: {'; '.join(found)}" if found else ""


def saturation(ranks: Iterable[Mapping[str, int]]) -> str:
    """Return in how many blocks sums did not fit, in words: of the rank that has most of them;
    empty if there is none.

    Args:
        ranks: the counters of each rank, by name.
    """
    blocks = max((each.get(SATURATED, 0) for each in ranks), default=0)
    if not blocks:
        return ""
    in_blocks = f"in {blocks} block{'s' if blocks > 1 else ''}"
    return f"{in_blocks} a sum did not fit into 32 bits; it is the largest or the least that does"


def _share(some: int, of: int) -> str:
    """Return how many blocks of how many, with the share."""
    return f"{some} of {of} blocks ({100 * some / of:.2g} %)"
