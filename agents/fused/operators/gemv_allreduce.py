"""A matrix that is split by columns, times vectors that are split alike, and the Allreduce of it.

It is the row-parallel layer of tensor parallelism (Megatron-LM, arXiv 1909.08053, section 3) where
tokens are decoded: there are as many vectors as sequences.
"""

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
from weft.agents.fused.tasks import INTERLEAVED, cut

TILES = 16
_WEIGHTS, _VECTORS = range(2)


class GemvAllreduce(Operator):
    """Every rank's result is float32 [width, batch]: the sum over ranks of [width, inner / ranks]
    times [inner / ranks, batch]."""

    name = "gemv-allreduce"
    about = "a matrix split by columns times vectors; all get the sums"
    adds = gives = True
    order = INTERLEAVED
    """What an owner gives leaves early only if its own tiles are not the last."""
    defaults = Sizes(batch_size=64, width=8192, inner=8192)

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        divided(sizes.batch_size, 1, "batch-size", "operation")
        self._inner = divided(sizes.inner, ranks, "inner", "ranks")
        self._rows = divided(sizes.width, ranks, "width", "ranks")
        self._tile_rows = rows_of_tile(sizes.tile_rows, self._rows, TILES, "rows of a rank")
        self._weights = cache(self._make_weights)
        self._sums = cache(self._make_sums)

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        batch, inner = self.sizes.batch_size, self._inner
        tiles = self.ranks * (self._rows // self._tile_rows)
        return tuple(
            Tile(
                owner, rows.first * batch * ITEM_BYTES, rows.size * batch * ITEM_BYTES,
                2 * rows.size * inner * batch,
                (rows.size * (inner + batch) + inner * batch // tiles) * ITEM_BYTES, source=owner,
            )
            for owner in range(self.ranks)
            for rows in cut(self._rows, self._tile_rows)
        )  # fmt: skip

    def landing_bytes(self, rank: int) -> int:
        return self._rows * self.sizes.batch_size * ITEM_BYTES

    def kept_numbers(self) -> int:
        return 2 * self.sizes.inner * (self.sizes.width + self.sizes.batch_size)

    def result_bytes(self, rank: int) -> int:
        return self.sizes.width * self.sizes.batch_size * ITEM_BYTES

    def _make_weights(self, rank: int) -> Floats:
        return self.numbers(_WEIGHTS, rank, shape=(self.sizes.width, self._inner))

    def _vectors(self, rank: int, number: int) -> Floats:
        return self.numbers(_VECTORS, rank, number, shape=(self._inner, self.sizes.batch_size))

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        rows = self._weights(rank)[tile * self._tile_rows : (tile + 1) * self._tile_rows]
        return flat(np.matmul(rows, self._vectors(rank, number)))

    def expected(self, rank: int, number: int) -> Floats:
        return self._sums(number)

    def _make_sums(self, number: int) -> Floats:
        ranks = range(self.ranks)
        weights = np.concatenate([self._weights(rank) for rank in ranks], axis=1)
        vectors = np.concatenate([self._vectors(rank, number) for rank in ranks])
        return flat(np.matmul(weights, vectors))
