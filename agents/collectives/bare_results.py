"""Whether results are right where data travel without bytes: where bytes are brought as they are,
by what came where (`coverage`); where they are added or put together to tensors, by doing all that
happened again (`contents`)."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.contents import Content, Wanted, find_unlike
from weft.agents.collectives.coverage import Held, find_wrong
from weft.agents.collectives.names import REDUCING
from weft.agents.collectives.tensors import Piece, Tensors, check_cover, runs
from weft.agents.collectives.workload import Workload
from weft.agents.transport.noted_sums import NotedSum
from weft.agents.transport.payload_layout import weight_of

_KEYS = 1 << 32
"""How many vectors an operation may have."""


def find_wrong_results(
    landings: npt.NDArray[np.void], sums: Iterable[NotedSum], held: Sequence[Held]
) -> dict[int, str]:
    """Return what is wrong with results, by the number of their arrays in `held`.

    Args:
        landings: rows of `Landing`.
        sums: those that hosts have made.
        held: of all ranks.
    """
    made = [number for number, each in enumerate(held) if _is_made(each.workload)]
    brought = [number for number, each in enumerate(held) if not _is_made(each.workload)]
    if not made:
        return find_wrong(landings, held)
    wrong = {}
    if brought:
        there = [held[number] for number in brought]
        inside = _inside(landings["target"], there)
        found = find_wrong(landings[inside], there)
        wrong = {brought[number]: what for number, what in found.items()}
        landings = landings[~inside]
    numbers: dict[int, int] = {}
    for number in made:
        numbers.setdefault(id(held[number].workload), len(numbers))
    keys = {number: numbers[id(held[number].workload)] * _KEYS for number in made}
    contents = (each for number in made for each in _contributed(held[number], keys[number]))
    wanted = (each for number in made for each in _wanted(held[number], keys[number], number))
    return {**wrong, **find_unlike(landings, sums, contents, wanted)}


def _is_made(work: Workload) -> bool:
    """Return whether an operation makes results of what comes."""
    return work.request.collective in REDUCING or work.request.tensors is not None


def _inside(address: npt.NDArray[np.int64], held: Sequence[Held]) -> npt.NDArray[np.bool_]:
    """Return which addresses are in the arrays of operations."""
    spans = []
    for each in held:
        sizes = [(each.buffer, each.workload.buffer_bytes(each.rank))]
        if each.output is not None:
            parts = each.workload.output_parts(each.rank)
            sizes.append((each.output, sum(part.size_bytes for part in parts)))
        spans += [(start, start + size) for start, size in sizes if size]
    starts, ends = np.array(sorted(spans), np.int64).reshape(-1, 2).T
    behind = np.searchsorted(starts, address, "right")
    return (behind > 0) & (address < np.append(ends, 0)[behind - 1])


def _contributed(held: Held, key: int) -> Iterator[Content]:
    """Yield what is in a rank's arrays at the start."""
    work, start = held.workload, held.buffer
    tensors = work.request.tensors
    if tensors is not None:
        pieces = tensors.held[held.rank] if held.rank < len(tensors.held) else ()
        for piece in pieces:
            yield from _slices(tensors, piece, held, key)
        return
    size = work.buffer_bytes(held.rank)
    if size:
        item_bytes = work.request.item_bytes
        weight = weight_of(held.rank, work.size)
        yield Content(start, start + size, -start, item_bytes, key, weight)


def _slices(tensors: Tensors, piece: Piece, held: Held, key: int) -> Iterator[Content]:
    """Yield a piece of a tensor in a rank's memory in parts that follow each other in the tensor,
    too, whose bytes are told by their places in it."""
    shape, item_bytes, _ = tensors.tensors[piece.tensor]
    starts, length = runs(shape, piece.box)
    address = (held.buffer, held.output)[piece.memory]
    if not length or address is None:
        return
    at, size_bytes = address + piece.offset, length * item_bytes
    for start in starts.tolist():
        yield Content(at, at + size_bytes, start * item_bytes - at, 1, key + piece.tensor, 1)
        at += size_bytes


def _wanted(held: Held, key: int, number: int) -> Iterator[Wanted]:
    """Yield what has to be in a rank's arrays in the end; a rank alone has its own data."""
    work, start = held.workload, held.output
    tensors = work.request.tensors
    if tensors is not None:
        for tile in tensors.tiles[held.rank] if held.rank < len(tensors.tiles) else ():
            check_cover(tile)
            what = f"a slice of tensor {tile.tensor} on device {tile.device}"
            for piece in tile.pieces:
                for slice_ in _slices(tensors, piece, held, key):
                    yield Wanted(slice_, 1, what, number)
        return
    request, ranks = work.request, work.size
    count = request.output_elements(held.rank, ranks)
    if not count or start is None or ranks == 1:
        return
    item_bytes = request.item_bytes
    everything = request.collective == "allreduce"
    first = 0 if everything else sum(request.elements(ranks)[: held.rank])
    weight = sum(weight_of(rank, ranks) for rank in range(ranks))
    end, base = start + count * item_bytes, first * item_bytes - start
    content = Content(start, end, base, item_bytes, key, weight)
    yield Wanted(content, ranks, "the result", number)
