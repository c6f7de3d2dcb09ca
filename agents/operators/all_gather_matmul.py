"""The Allgather of a matrix that is split by rows, and its product with a matrix of each rank:
`fused_all_gather_matmul` of PyTorch's asynchronous tensor parallelism."""

import numpy as np

from weft.agents.operators.operator import (
    ITEM_BYTES,
    Floats,
    Input,
    Operator,
    Sizes,
    Tile,
    divided,
    flat,
    remembered,
    rows_of_tile,
)
from weft.agents.operators.tasks import LOCAL_FIRST, cut

TILES = 16
_LEFT, _RIGHT = range(2)


class AllGatherMatmul(Operator):
    """A rank's result is float32 [batch, width / ranks]: all rows of [batch, inner], of which each
    rank has batch / ranks, times its own [inner, width / ranks]."""

    name = "all-gather-matmul"
    about = "rows of all ranks, times the matrix of each"
    order = LOCAL_FIRST
    defaults = Sizes(batch_size=1024, width=2048, inner=1024)

    def check(self) -> None:
        sizes, ranks = self.sizes, self.ranks
        divided(sizes.inner, 1, "inner", "operation")
        self._columns = divided(sizes.width, ranks, "width", "ranks")
        self._rows = divided(sizes.batch_size, ranks, "batch-size", "ranks")
        self._tile_rows = rows_of_tile(sizes.tile_rows, self._rows, TILES, "rows of a rank")
        self._left = remembered(self._make_left)
        self._right = remembered(self._make_right)

    def __init__(self, sizes: Sizes, ranks: int, seed: int) -> None:
        super().__init__(sizes, ranks, seed)
        row_bytes = sizes.inner * ITEM_BYTES
        self.inputs = tuple(
            Input(
                source, tuple((source + step) % ranks for step in range(1, ranks)),
                rows.first * row_bytes,
                ((source * self._rows + rows.first) * row_bytes,) * (ranks - 1),
                rows.size * row_bytes,
            )
            for source in range(ranks)
            for rows in cut(self._rows, self._tile_rows)
            if ranks > 1
        )  # fmt: skip

    def _tiles(self, rank: int) -> tuple[Tile, ...]:
        columns, inner = self._columns, self.sizes.inner
        per_rank = self._rows // self._tile_rows
        rows, tiles = self._tile_rows, self.ranks * per_rank
        return tuple(
            Tile(
                rank, tile * rows * columns * ITEM_BYTES, rows * columns * ITEM_BYTES,
                2 * rows * inner * columns,
                (rows * (inner + columns) + inner * columns // tiles) * ITEM_BYTES,
                needs=() if tile // per_rank == rank else (tile,), source=tile // per_rank,
            )
            for tile in range(tiles)
        )  # fmt: skip

    def landing_bytes(self, rank: int) -> int:
        return self.result_bytes(rank)

    def most_tiles(self) -> int:
        return self.ranks * self.sizes.batch_size // self._tile_rows

    def kept_numbers(self) -> int:
        return self.sizes.inner * (2 * self.sizes.batch_size + self.sizes.width)

    def result_bytes(self, rank: int) -> int:
        return self.sizes.batch_size * self._columns * ITEM_BYTES

    def input_bytes(self, rank: int) -> int:
        return self._rows * self.sizes.inner * ITEM_BYTES

    def gathered_bytes(self, rank: int) -> int:
        return self.ranks * self.input_bytes(rank)

    def own_inputs(self, rank: int, number: int) -> Floats:
        return self._left(rank, number).reshape(-1)

    def _make_left(self, rank: int, number: int) -> Floats:
        return self.numbers(_LEFT, rank, number, shape=(self._rows, self.sizes.inner))

    def _make_right(self, rank: int) -> Floats:
        return self.numbers(_RIGHT, rank, shape=(self.sizes.inner, self._columns))

    def compute(self, rank: int, number: int, tile: int, own: Floats, gathered: Floats) -> Floats:
        source, block = divmod(tile, self._rows // self._tile_rows)
        place = block if source == rank else tile
        count = self._tile_rows * self.sizes.inner
        rows = (own if source == rank else gathered)[place * count : (place + 1) * count]
        return flat(np.matmul(rows.reshape(-1, self.sizes.inner), self._right(rank)))

    def expected(self, rank: int, number: int) -> Floats:
        left = np.concatenate([self._left(each, number) for each in range(self.ranks)])
        return flat(np.matmul(left, self._right(rank)))
