"""What a rank computes for each rank in a fused operator: rows, cut into tiles and slices.

The rows of a rank's block are those of its *units* (tables, experts) one after the other; a tile is
a run of rows of one unit, and a slice a run of tiles (`weft.agents.operators.tasks`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from weft.agents.operators.tasks import ORDERS, REMOTE_FIRST, cut, in_order
from weft.pytorch.errors import BadCallError, refuse

SLICE_BYTES = 64 << 10
"""What a slice has where tiles have no size, as near as rows allow."""
SLICE_TILES = 4


class RowTile(NamedTuple):
    """A run of rows of one unit."""

    unit: int
    first: int
    """Its first row among those of the unit,"""
    place: int
    """and in the slice."""
    size: int


@dataclass(frozen=True)
class TileRun:
    """Tiles that are sent together."""

    tiles: tuple[RowTile, ...]
    first: int
    """Its first row in the block."""
    size: int


@dataclass(frozen=True)
class Options:
    """How an operator is cut.

    Args:
        tile_rows: the rows of a tile; 0: as many as make slices of about 64 KiB.
        slice_tiles: the tiles of a slice.
        order: in which a rank computes slices, one of `ORDERS`.

    Raises:
        BadCallError: there is no such order, or a size makes no sense.
    """

    tile_rows: int = 0
    slice_tiles: int = SLICE_TILES
    order: str = REMOTE_FIRST

    def __post_init__(self) -> None:
        refuse(self.tile_rows < 0, f"tile_rows {self.tile_rows}: choose 1 or more, or 0: by itself")
        refuse(self.slice_tiles < 1, f"slice_tiles {self.slice_tiles}: choose 1 or more")
        if self.order not in ORDERS:
            raise BadCallError(f"order {self.order!r}: choose from {', '.join(ORDERS)}")

    def slices(self, unit_rows: Sequence[int], row_bytes: int) -> list[TileRun]:
        """Cut a block whose units have so many rows of so many bytes."""
        rows = self.tile_rows or max(1, SLICE_BYTES // self.slice_tiles // max(row_bytes, 1))
        spans = [(unit, span) for unit, total in enumerate(unit_rows) for span in cut(total, rows)]
        found: list[TileRun] = []
        first = 0
        for begin in range(0, len(spans), self.slice_tiles):
            tiles, place = [], 0
            for unit, span in spans[begin : begin + self.slice_tiles]:
                tiles.append(RowTile(unit, span.first, place, span.size))
                place += span.size
            found.append(TileRun(tuple(tiles), first, place))
            first += place
        return found


def sizes(slices: Sequence[Sequence[TileRun]], row_bytes: int, rank: int) -> list[list[int]]:
    """Return the sizes in bytes of the slices for, or of, each rank; none for this one."""
    return [
        [] if peer == rank else [each.size * row_bytes for each in own]
        for peer, own in enumerate(slices)
    ]


def computed(
    slices: Sequence[Sequence[TileRun]], rank: int, order: str
) -> Iterator[tuple[int, int, TileRun]]:
    """Return owner, index and slice of all that a rank computes, in its order."""
    places = [(owner, index) for owner, own in enumerate(slices) for index in range(len(own))]
    for place in in_order([owner for owner, _ in places], rank, len(slices), order):
        owner, index = places[place]
        yield owner, index, slices[owner][index]


def sum_in_order(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum of tensors, added from the first to the last; numbers of 16 bits are added as
    float32 and rounded once."""
    dtype = parts[0].dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    total = parts[0].to(wide, copy=True)
    for part in parts[1:]:
        total += part.to(wide)
    return total.to(dtype)


def check_tensors(dtypes: Sequence[torch.dtype], **named: torch.Tensor) -> None:
    """Raise BadCallError for a tensor that is no dense one on the CPU, or of another type."""
    for name, tensor in named.items():
        refuse(
            tensor.device.type != "cpu" or tensor.layout != torch.strided,
            f"{name} is on device {tensor.device} with layout {tensor.layout}: a dense tensor on "
            "the CPU is needed",
        )
        if tensor.dtype not in dtypes:
            raise BadCallError(f"{name} is of {tensor.dtype}: choose {', '.join(map(str, dtypes))}")


FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""The types of numbers that fused operators compute with."""
CUT = ("tile_rows", "slice_tiles")
"""The options that a backward pass takes over."""
