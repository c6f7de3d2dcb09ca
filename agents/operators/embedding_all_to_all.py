"""Pooled look-ups of embedding tables that lie on different ranks, and the All-to-All that follows.

It is the embedding operator of a DLRM (arXiv 1906.00091): tables are split over ranks, and samples,
too. Each rank looks up its tables for all samples, and their owners get the sums.
"""

import numpy as np
import numpy.typing as npt

from weft.agents.operators.operator import (
    ITEM_BYTES,
    Floats,
    Operator,
    Sizes,
    Tile,
    divided,
    flat,
    remembered,
    rows_of_tile,
)
from weft.agents.operators.tasks import cut

TILES = 16
_WEIGHTS, _INDICES = range(2)


class EmbeddingAllToAll(Operator):
    """A rank's result is float32 [tables, batch / ranks, width]."""

    name = "embedding-all-to-all"
    about = "pooled look-ups of tables on all ranks, to the owners of the samples"
    defaults = Sizes(batch_size=1024, width=64, tables=128, table_rows=1000, pooling=32)

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        self._own_tables = divided(sizes.tables, ranks, "tables", "ranks")
        self._rows = divided(sizes.batch_size, ranks, "batch-size", "ranks")
        tiles = max(1, TILES // self._own_tables)
        self._tile_rows = rows_of_tile(sizes.tile_rows, self._rows, tiles, "samples of a rank")
        self._weights = remembered(self._make_weights)
        self._indices = remembered(self._make_indices)

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        sizes, row_bytes = self.sizes, self.sizes.width * ITEM_BYTES
        found = []
        for owner in range(self.ranks):
            for table in range(rank * self._own_tables, (rank + 1) * self._own_tables):
                for rows in cut(self._rows, self._tile_rows):
                    first = (table * self._rows + rows.first) * row_bytes
                    read = rows.size * sizes.pooling * (row_bytes + 8)
                    found.append(
                        Tile(owner, first, rows.size * row_bytes,
                             rows.size * sizes.pooling * sizes.width, read + rows.size * row_bytes,
                             source=owner)
                    )  # fmt: skip
        return tuple(found)

    def landing_bytes(self, rank: int) -> int:
        return self.sizes.tables * self._rows * self.sizes.width * ITEM_BYTES

    def most_tiles(self) -> int:
        return self.sizes.tables * self.sizes.batch_size // self._tile_rows

    def kept_numbers(self) -> int:
        sizes = self.sizes
        indices = 2 * sizes.batch_size * sizes.pooling
        return sizes.tables * (sizes.table_rows * sizes.width + indices)

    def result_bytes(self, rank: int) -> int:
        return self.landing_bytes(rank)

    def _make_weights(self, table: int) -> Floats:
        shape = self.sizes.table_rows, self.sizes.width
        return self.numbers(_WEIGHTS, table, shape=shape)

    def _make_indices(self, table: int, number: int) -> npt.NDArray[np.int64]:
        random = np.random.default_rng([self.seed, _INDICES, table, number])
        return random.integers(
            0, self.sizes.table_rows, (self.sizes.batch_size, self.sizes.pooling)
        )

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        per_table = self._rows // self._tile_rows
        owner, within = divmod(tile, self._own_tables * per_table)
        table, block = divmod(within, per_table)
        table += rank * self._own_tables
        first = owner * self._rows + block * self._tile_rows
        wanted = self._indices(table, number)[first : first + self._tile_rows]
        return flat(self._weights(table)[wanted].sum(axis=1))

    def expected(self, rank: int, number: int) -> Floats:
        found = np.empty((self.sizes.tables, self._rows, self.sizes.width), np.float32)
        for table in range(self.sizes.tables):
            wanted = self._indices(table, number)[rank * self._rows : (rank + 1) * self._rows]
            found[table] = 0
            for each in wanted.T:  # in another order than the tiles have
                found[table] += self._weights(table)[each]
        return found.reshape(-1)
