"""Contributions to a reduction that look as gradients do: functions of seed, operation, rank and
place, as all data are, so that any rank can compute any part of any other's.

Numpy's Philox is counter-based: every page of elements is drawn from a counter of its own, so that
no page has to be drawn before another.
"""

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.dtypes import Array, dtype_of
from weft.agents.collectives.pattern import shard_key, words

PAGE = 1 << 12
"""Elements that are drawn at a time."""
LARGEST = {"normal": 16.0, "heavy-tailed": 1024.0, "mixed": 16.0}
"""What is larger in magnitude is cut to this. No normal number is; of Student's t with two degrees
of freedom, one in a million."""
MOST_HALVINGS = 20
"""For mixed magnitudes, a parameter's gradients are normal numbers times a power of two from 2**0
to 2**-20, which are six decades."""
_PLACES = -1
"""In place of a rank, in the key of what all ranks have in common."""


def gradients(
    data: str, dtype: str, seed: int, operation: int, rank: int, first: int, count: int
) -> Array:
    """Return elements ``first`` to ``first + count - 1`` of what a rank contributes, [count] of
    `dtype`.

    ``normal``: mean 0, standard deviation 1. ``heavy-tailed``: Student's t with two degrees of
    freedom, whose variance is infinite. ``mixed``: normal times a power of two that belongs to the
    place, so is the same on all ranks, as the gradients of one parameter are of one magnitude.
    """
    key = shard_key(seed, operation, rank)
    pages = range(first // PAGE, -(-(first + count) // PAGE))
    drawn = np.concatenate([np.zeros(0), *(_page(data, key, page) for page in pages)])
    start = first - first // PAGE * PAGE
    values = np.clip(drawn[start : start + count], -LARGEST[data], LARGEST[data])
    if data == "mixed":
        places = words(shard_key(seed, operation, _PLACES), first, count)
        halvings = (places % np.uint64(MOST_HALVINGS + 1)).astype(np.int64)
        values = np.ldexp(values, -halvings)
    found: Array = values.astype(dtype_of(dtype))
    return found


def _page(data: str, key: int, page: int) -> npt.NDArray[np.float64]:
    generator = np.random.Generator(np.random.Philox(key=key, counter=page << 64))
    if data == "heavy-tailed":
        return generator.standard_t(2.0, PAGE)
    return generator.standard_normal(PAGE)
