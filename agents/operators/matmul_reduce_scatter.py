"""Matrices that are split along the dimension that is summed over, and the Reduce-Scatter of their
product: `fused_matmul_reduce_scatter` of PyTorch's asynchronous tensor parallelism."""

from weft.agents.operators.operator import Sizes
from weft.agents.operators.split_product import SplitProduct


class MatmulReduceScatter(SplitProduct):
    """A rank's result is float32 [batch / ranks, width]: its rows of the sum over ranks of [batch,
    inner / ranks] times [inner / ranks, width]."""

    name = "matmul-reduce-scatter"
    about = "products that are split along the sum; each rank gets its rows of the sums"
    rows, columns = "batch_size", "width"
    defaults = Sizes(batch_size=1024, width=1024, inner=2048)
