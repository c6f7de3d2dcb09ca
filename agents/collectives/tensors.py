"""Tensors that flows carry in slices: what is in every rank's memory before and after, and whether
every device has its tile.

A tensor is as large as the sum of its shards, and nobody holds it as a whole. Its bytes are a
function of seed, operation, tensor and place (`weft.agents.collectives.pattern.words`): element i,
counted in row-major order, has the bytes of the words from i * ceil(item_bytes / 8) on. So any
slice can be made, and any tile compared with slicing the whole array, by whoever needs it.

Floating-point elements may have another type where they come from, on the way, and where they go
(`Cast`). They are then numbers of less than 2 in size, as weights are, so that all of them are
finite in each type.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.pattern import shard_key, words_at_places
from weft.base.errors import InputError

Bytes = npt.NDArray[np.uint8]
Box = tuple[tuple[int, int], ...]
"""A slice of a tensor: for each dimension, the first index and the one after the last."""

SLICE_ELEMENTS = 1 << 15
"""How many elements are made or compared at a time: what caches hold."""


class Cast(NamedTuple):
    """The types of a tensor's elements, which are floating-point numbers: one at least differs."""

    source: str
    """What they are where they come from..."""
    carried: str
    """... while they are in a rank's buffer or output, and on the way..."""
    destination: str
    """... and on the devices that need them."""


class TensorShape(NamedTuple):
    """A tensor: its shape, the bytes of an element as it is carried, and how its type changes, if
    it does."""

    shape: tuple[int, ...]
    item_bytes: int
    cast: Cast | None = None


class Piece(NamedTuple):
    """A piece is a slice of a tensor that is somewhere in a rank's memory, packed in row-major
    order."""

    tensor: int
    box: Box
    memory: int
    """0: in the rank's buffer; 1: in its output."""
    offset: int
    """The place of the first byte there."""


@dataclass(frozen=True)
class DeviceTile:
    """A tile is what one device has of a tensor in the end: the pieces of which it consists."""

    device: str
    """What messages call the device."""
    tensor: int
    box: Box
    pieces: tuple[Piece, ...]
    """They cover the box, each of its elements once, and lie in the rank's memory."""


@dataclass(frozen=True)
class Tensors:
    """What slices are in the buffers of all ranks, and what tiles must be there in the end, in
    columns with an entry for each rank."""

    tensors: tuple[TensorShape, ...]
    held: tuple[tuple[Piece, ...], ...]
    """What each rank's buffer has to hold at the start."""
    tiles: tuple[tuple[DeviceTile, ...], ...]
    """What its devices have to have in the end."""

    def fill(self, rank: int, buffer: Bytes, seed: int, operation: int) -> Iterator[None]:
        """Write the slices that a rank holds into its buffer, a part a step."""
        for piece in self.held[rank] if rank < len(self.held) else ():
            cast = self.tensors[piece.tensor].cast
            wanted = cast.carried if cast else ""
            for first, part in self._parts(piece.tensor, piece.box, seed, operation, wanted):
                buffer[piece.offset + first : piece.offset + first + len(part)] = part
                yield

    def checks(
        self, rank: int, memories: Sequence[Bytes], seed: int, operation: int
    ) -> Iterator[str]:
        """Put each tile of a rank's devices together, compare all of its bytes with slicing the
        whole array, and yield what is wrong, or nothing, a part a step.

        Args:
            memories: the rank's buffer and output, uint8.
        """
        for tile in self.tiles[rank] if rank < len(self.tiles) else ():
            shape = self.tensors[tile.tensor]
            there = assembled(tile, shape.item_bytes, memories)
            wanted = ""
            if shape.cast:
                wanted = shape.cast.destination
                there = converted(there, shape.cast.carried, wanted)
            for first, part in self._parts(tile.tensor, tile.box, seed, operation, wanted):
                wrong = np.flatnonzero(there[first : first + len(part)] != part)
                yield (
                    f"byte {first + int(wrong[0])} of tensor {tile.tensor} on device {tile.device}"
                    " is wrong"
                    if len(wrong)
                    else ""
                )

    def _parts(
        self, tensor: int, box: Box, seed: int, operation: int, wanted: str
    ) -> Iterator[tuple[int, Bytes]]:
        """Yield a slice in parts, each with its first byte, as a type if the tensor has a cast."""
        key = shard_key(seed, operation, tensor)
        shape, item_bytes, cast = self.tensors[tensor]
        made_bytes = dtype_of(cast.source).itemsize if cast else item_bytes
        total = prod(end - begin for begin, end in box)
        end = 0
        for first in range(0, total, SLICE_ELEMENTS):
            count = min(SLICE_ELEMENTS, total - first)
            part = elements(key, shape, made_bytes, box, first, count)
            if cast:
                part = converted(below_two(part, made_bytes), cast.source, wanted)
            yield end, part
            end += len(part)


def converted(values: Bytes, source: str, destination: str) -> Bytes:
    """Return elements of one floating-point type as those of another, rounded to the nearest."""
    cast: Bytes = values.view(dtype_of(source)).astype(dtype_of(destination)).view(np.uint8)
    return cast


def below_two(values: Bytes, item_bytes: int) -> Bytes:
    """Return floating-point numbers of so many bytes made finite and less than 2: the highest bit
    of their exponents is 0, in each of IEEE 754's formats and those like them."""
    mask = (1 << 8 * item_bytes - 2) ^ (1 << 8 * item_bytes) - 1
    kept: Bytes = (values.view(f"<u{item_bytes}") & mask).view(np.uint8)
    return kept


def size_of(box: Box) -> int:
    """Return how many elements a slice has."""
    return prod(end - begin for begin, end in box)


def elements(
    key: int, shape: Sequence[int], item_bytes: int, box: Box, first: int, count: int
) -> Bytes:
    """Return bytes of a slice of the tensor of a key: uint8 [count * item_bytes].

    Args:
        first, count: which elements of the slice, in row-major order.
    """
    index = indices(shape, box, first, count)
    per_item = -(-item_bytes // 8)
    if per_item > 1:
        index = (index[:, None] * per_item + np.arange(per_item)).reshape(-1)
    mixed = words_at_places(key, index.view(np.uint64)).astype("<u8", copy=False)
    if item_bytes in (1, 2, 4, 8):
        kept: Bytes = mixed.view(f"<u{item_bytes}")[:: 8 // item_bytes].copy().view(np.uint8)
        return kept
    rows = mixed.view(np.uint8).reshape(count, 8 * per_item)
    return np.ascontiguousarray(rows[:, :item_bytes]).reshape(-1)


def indices(shape: Sequence[int], box: Box, first: int, count: int) -> npt.NDArray[np.int64]:
    """Return the places of elements of a slice in the whole tensor, both in row-major order: int64
    [count]. They are counted run by run of those that follow each other there, too."""
    stride = length = 1
    whole = True
    outer: list[tuple[int, int]] = []
    start = 0
    for size, (begin, end) in zip(reversed(shape), reversed(box), strict=True):
        start += begin * stride
        if whole:
            length *= end - begin
        else:
            outer.append((end - begin, stride))
        whole = whole and (begin, end) == (0, size)
        stride *= size
    run = np.arange(first // length, -(-(first + count) // length), dtype=np.int64)
    begins = np.maximum(run * length, first)
    ends = np.minimum((run + 1) * length, first + count)
    starts = start - run * length
    for extent, along in outer:
        run, within = np.divmod(run, extent)
        starts += within * along
    return np.arange(first, first + count, dtype=np.int64) + np.repeat(starts, ends - begins)


def runs(shape: Sequence[int], box: Box) -> tuple[npt.NDArray[np.int64], int]:
    """Return the parts of a slice that follow each other in the whole tensor, too: the first
    element of each, counted in row-major order, int64 [n], and how many elements each has."""
    stride = length = 1
    starts = np.zeros(1, np.int64)
    whole = True
    for size, (begin, end) in zip(reversed(shape), reversed(box), strict=True):
        if whole:
            length *= end - begin
            starts = starts + begin * stride
        else:
            starts = (np.arange(begin, end)[:, None] * stride + starts).reshape(-1)
        whole = whole and (begin, end) == (0, size)
        stride *= size
    return starts, length


def check_cover(tile: DeviceTile) -> None:
    """Raise InputError unless a tile's pieces have as many elements as it has."""
    covered = sum(size_of(piece.box) for piece in tile.pieces)
    if covered != size_of(tile.box):
        raise InputError(
            f"the pieces of tensor {tile.tensor} on device {tile.device} have {covered} elements "
            f"of {size_of(tile.box)}"
        )


def assembled(tile: DeviceTile, item_bytes: int, memories: Sequence[Bytes]) -> Bytes:
    """Return a tile's bytes, in row-major order, put together from its pieces.

    Raises:
        InputError: the pieces do not cover the tile as they should.
    """
    extents = [end - begin for begin, end in tile.box]
    check_cover(tile)
    whole = np.zeros((*extents, item_bytes), np.uint8)
    for piece in tile.pieces:
        bounds = zip(piece.box, tile.box, strict=True)
        within = tuple(slice(begin - base, end - base) for (begin, end), (base, _) in bounds)
        size = [end - begin for begin, end in piece.box]
        data = memories[piece.memory][piece.offset :][: size_of(piece.box) * item_bytes]
        whole[within] = data.reshape(*size, item_bytes)
    return whole.reshape(-1)
