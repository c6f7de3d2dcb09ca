"""What operators have in common that add products of matrices which are split along the dimension
that is summed over: each rank's product has all rows, and each rank owns some rows of the sum."""

import numpy as np

from weft.agents.operators.operator import (
    ITEM_BYTES,
    Floats,
    Operator,
    Tile,
    divided,
    flat,
    remembered,
    rows_of_tile,
)
from weft.agents.operators.tasks import cut

TILES = 16
"""The most tiles that an owner's rows make, if nobody asks for another number."""
LEFT, RIGHT = range(2)
"""The factors of a product: [rows, inner / ranks] and [inner / ranks, columns]."""


class SplitProduct(Operator):
    """The sum over ranks of [rows, inner / ranks] times [inner / ranks, columns]. A rank's result
    is its own rows of it, or all of it if owners give them to all."""

    adds = True
    rows, columns = "", ""
    """The fields of `Sizes` that have the rows and the columns."""
    changes = LEFT
    """Which of the factors is another one in each operation; the other one is the layer's."""

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        self._columns = divided(
            getattr(sizes, self.columns), 1, self.columns.replace("_", "-"), "operation"
        )
        self._inner = divided(sizes.inner, ranks, "inner", "ranks")
        self._all_rows: int = getattr(sizes, self.rows)
        self._rows: int = divided(self._all_rows, ranks, self.rows.replace("_", "-"), "ranks")
        self._tile_rows = rows_of_tile(sizes.tile_rows, self._rows, TILES, "rows of a rank")
        self._factor = remembered(self._make_factor, most=4 * ranks)
        self._sums = remembered(self._make_sums)

    def most_tiles(self) -> int:
        return self.ranks * self._all_rows // self._tile_rows

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        columns, inner = self._columns, self._inner
        tiles = self._all_rows // self._tile_rows
        return tuple(
            Tile(
                owner, rows.first * columns * ITEM_BYTES, rows.size * columns * ITEM_BYTES,
                2 * rows.size * inner * columns,
                (rows.size * (inner + columns) + inner * columns // tiles) * ITEM_BYTES,
                source=owner,
            )
            for owner in range(self.ranks)
            for rows in cut(self._rows, self._tile_rows)
        )  # fmt: skip

    def landing_bytes(self, rank: int) -> int:
        return self._rows * self._columns * ITEM_BYTES

    def result_bytes(self, rank: int) -> int:
        return self.landing_bytes(rank) * (self.ranks if self.gives else 1)

    def kept_numbers(self) -> int:
        rows, columns = self._all_rows, self._columns
        return 2 * self.sizes.inner * (rows + columns) + rows * columns

    def _part(self, which: int, rank: int, number: int) -> Floats:
        """Return a rank's part of a factor in an operation."""
        return self._factor(which, rank, number if which == self.changes else None)

    def _make_factor(self, which: int, rank: int, number: int | None) -> Floats:
        shape = (self._all_rows, self._inner) if which == LEFT else (self._inner, self._columns)
        key = (which, rank) if number is None else (which, rank, number)
        return self.numbers(*key, shape=shape)

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        first = tile * self._tile_rows
        rows = self._part(LEFT, rank, number)[first : first + self._tile_rows]
        return flat(np.matmul(rows, self._part(RIGHT, rank, number)))

    def expected(self, rank: int, number: int) -> Floats:
        sums, each = self._sums(number), self._rows * self._columns
        return sums if self.gives else sums[rank * each : (rank + 1) * each]

    def _make_sums(self, number: int) -> Floats:
        left, right = (
            np.concatenate([self._part(which, rank, number) for rank in range(self.ranks)], axis)
            for which, axis in ((LEFT, 1), (RIGHT, 0))
        )
        return flat(np.matmul(left, right))
