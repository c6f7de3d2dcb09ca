"""Matrices that are split along the dimension that is summed over, and the Reduce-Scatter of their
product: `fused_matmul_reduce_scatter` of PyTorch's asynchronous tensor parallelism."""

from functools import cache

import numpy as np

from weft.agents.fused.operator import (
    ITEM_BYTES,
    Floats,
    Operator,
    Sizes,
    Tile,
    divided,
    flat,
    rows_of_tile,
)
from weft.agents.fused.tasks import cut

TILES = 16
_LEFT, _RIGHT = range(2)


class MatmulReduceScatter(Operator):
    """A rank's result is float32 [batch / ranks, width]: its rows of the sum over ranks of [batch,
    inner / ranks] times [inner / ranks, width]."""

    name = "matmul-reduce-scatter"
    about = "products that are split along the sum; each rank gets its rows of the sums"
    adds = True
    defaults = Sizes(batch_size=1024, width=1024, inner=2048)

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        divided(sizes.width, 1, "width", "operation")
        self._inner = divided(sizes.inner, ranks, "inner", "ranks")
        self._rows = divided(sizes.batch_size, ranks, "batch-size", "ranks")
        self._tile_rows = rows_of_tile(sizes.tile_rows, self._rows, TILES, "rows of a rank")
        self._left = cache(self._make_left)
        self._right = cache(self._make_right)
        self._sums = cache(self._make_sums)

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        width, inner = self.sizes.width, self._inner
        tiles = self.ranks * (self._rows // self._tile_rows)
        return tuple(
            Tile(
                owner, rows.first * width * ITEM_BYTES, rows.size * width * ITEM_BYTES,
                2 * rows.size * inner * width,
                (rows.size * (inner + width) + inner * width // tiles) * ITEM_BYTES, source=owner,
            )
            for owner in range(self.ranks)
            for rows in cut(self._rows, self._tile_rows)
        )  # fmt: skip

    def landing_bytes(self, rank: int) -> int:
        return self._rows * self.sizes.width * ITEM_BYTES

    def kept_numbers(self) -> int:
        sizes = self.sizes
        return 2 * sizes.inner * (sizes.width + sizes.batch_size) + sizes.batch_size * sizes.width

    def result_bytes(self, rank: int) -> int:
        return self.landing_bytes(rank)

    def _make_left(self, rank: int, number: int) -> Floats:
        return self.numbers(_LEFT, rank, number, shape=(self.sizes.batch_size, self._inner))

    def _make_right(self, rank: int) -> Floats:
        return self.numbers(_RIGHT, rank, shape=(self._inner, self.sizes.width))

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        rows = self._left(rank, number)[tile * self._tile_rows : (tile + 1) * self._tile_rows]
        return flat(np.matmul(rows, self._right(rank)))

    def expected(self, rank: int, number: int) -> Floats:
        each = self._rows * self.sizes.width
        return self._sums(number)[rank * each : (rank + 1) * each]

    def _make_sums(self, number: int) -> Floats:
        ranks = range(self.ranks)
        left = np.concatenate([self._left(rank, number) for rank in ranks], axis=1)
        return flat(np.matmul(left, np.concatenate([self._right(rank) for rank in ranks])))
