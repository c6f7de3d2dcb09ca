"""`EmbeddingBagAllToAll`: the embedding tables of a DLRM, spread over the ranks."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.pytorch.errors import refuse
from weft.pytorch.fused import operators
from weft.pytorch.fused.call import weft_group
from weft.pytorch.fused.layers.exchanged import exchanged, generators, ranks_of
from weft.pytorch.fused.tiles import SLICE_TILES


class EmbeddingBagAllToAll(nn.Module):
    """Tables of which each rank has some, looked up for the whole batch; each rank gets the sums
    for its own rows of the batch.

    Args:
        rows: of each table of all ranks.
        dim: of all tables.
        tables: how many of them each rank has, those of rank 0 first; None: as even as can be.
        group: a process group, by default that of all ranks.
        fused: by ``weft::embedding_all_to_all``, which needs the backend weft; otherwise look-ups,
            and then torch's all-to-all. Results and gradients are the same bits.
        tile_rows, slice_tiles, order: as the operator has them.
        dtype: of the tables.

    Raises:
        BadCallError: a table has no rank, or it is fused and the group is not one of the backend
            weft; it is a ValueError.
    """

    def __init__(
        self,
        rows: Sequence[int],
        dim: int,
        *,
        tables: Sequence[int] | None = None,
        group: Any = None,
        fused: bool = True,
        tile_rows: int = 0,
        slice_tiles: int = SLICE_TILES,
        order: str = REMOTE_FIRST,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.group, self.rank, self.size = ranks_of(group)
        each, more = divmod(len(rows), self.size)
        self.tables = [*tables] if tables is not None else [
            each + (rank < more) for rank in range(self.size)
        ]  # fmt: skip
        refuse(
            len(self.tables) != self.size or sum(self.tables) != len(rows) or min(self.tables) < 0,
            f"EmbeddingBagAllToAll: {len(rows)} tables, and the {self.size} ranks have "
            f"{self.tables}: each table belongs to one rank",
        )
        self.fused, self.dim = fused, dim
        self.options = {"tile_rows": tile_rows, "slice_tiles": slice_tiles, "order": order}
        first = sum(self.tables[: self.rank])
        own = rows[first : first + self.tables[self.rank]] or [0]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(count, dim, dtype=dtype)) for count in own
        )
        """This rank's tables; one without rows if it has none."""
        self.reset_parameters()
        if fused:
            weft_group(type(self).__name__, self.group)
            operators.register()

    def reset_parameters(self) -> None:
        """Draw all rows as `torch.nn.EmbeddingBag` does; ranks that draw from the same seed have
        parts of the same layer."""
        draws = generators(self.own_tables.start, len(self.weights))
        with torch.no_grad():
            for weight, draw in zip(self.weights, draws, strict=True):
                weight.normal_(generator=draw)

    @property
    def own_tables(self) -> range:
        """Return which of all tables this rank has."""
        first = sum(self.tables[: self.rank])
        return range(first, first + self.tables[self.rank])

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Look up the whole batch.

        Args:
            indices: int64 [own tables, global batch, pooling], for the rows of all ranks, those of
                rank 0 first.

        Returns:
            [global batch / P, all tables, dim], for this rank's rows.
        """
        if self.fused:
            found: torch.Tensor = torch.ops.weft.embedding_all_to_all(
                list(self.weights), indices, self.tables, self.group.group_name, **self.options
            )
            return found
        batch = indices.shape[1]
        each = batch // self.size
        pooled = [
            F.embedding_bag(looked_up, weight, mode="sum").view(self.size, each, self.dim)
            for looked_up, weight in zip(indices, self.weights, strict=False)
        ]
        # A rank without tables takes part in the exchange, and so in that of gradients.
        rows = torch.stack(pooled, 1).view(-1, self.dim) if pooled else self.weights[0]
        received = [count * each for count in self.tables]
        come = exchanged(rows, [rows.shape[0] // self.size] * self.size, received, self.group)
        firsts = [0, *accumulate(self.tables)]
        return come.view(firsts[-1], each, self.dim).transpose(0, 1).contiguous()

    def extra_repr(self) -> str:
        """Return what `repr` says of it."""
        return f"tables={self.tables}, dim={self.dim}, fused={self.fused}"
