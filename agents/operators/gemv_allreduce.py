"""A matrix that is split by columns, times vectors that are split alike, and the Allreduce of it.

It is the row-parallel layer of tensor parallelism (Megatron-LM, arXiv 1909.08053, section 3) where
tokens are decoded: there are as many vectors as sequences.
"""

from weft.agents.operators.operator import Sizes
from weft.agents.operators.split_product import RIGHT, SplitProduct
from weft.agents.operators.tasks import INTERLEAVED


class GemvAllreduce(SplitProduct):
    """Every rank's result is float32 [width, batch]: the sum over ranks of [width, inner / ranks]
    times [inner / ranks, batch]."""

    name = "gemv-allreduce"
    about = "a matrix split by columns times vectors; all get the sums"
    rows, columns = "width", "batch_size"
    changes = RIGHT
    gives = True
    order = INTERLEAVED
    """What an owner gives leaves early only if its own tiles are not the last."""
    defaults = Sizes(batch_size=64, width=8192, inner=8192)
