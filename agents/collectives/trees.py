"""Broadcast down a tree of unicast writes: k-nomial, binary, and a chain around the ring.

Blocks are passed on as soon as they have come. Ranks are counted from the root: v = (rank - root)
mod P.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Blocks, Bytes, Write, block_bytes, require


def k_nomial(place: int, size: int, radix: int) -> tuple[int | None, list[int]]:
    """(parent, children) of a place in the k-nomial tree; the largest subtree's child comes first.

    The parent clears the lowest digit, to base k, that is not zero; 2 is the binomial tree.
    """
    parent = None
    weight = 1
    while weight < size:
        digit = place // weight % radix
        if digit:
            parent = place - digit * weight
            break
        weight *= radix
    children = []
    while weight > 1:
        weight //= radix
        children += [place + digit * weight for digit in range(1, radix)]
    return parent, [child for child in children if child < size]


def binary(place: int, size: int) -> tuple[int | None, list[int]]:
    """(parent, children) of a place in the complete binary tree in order of levels."""
    parent = (place - 1) // 2 if place else None
    return parent, [child for child in (2 * place + 1, 2 * place + 2) if child < size]


def chain(place: int, size: int) -> tuple[int | None, list[int]]:
    """(parent, children) of a place in the pipelined ring."""
    return place - 1 if place else None, [place + 1] if place + 1 < size else []


def in_order(place: int, size: int) -> tuple[int | None, list[int]]:
    """(parent, children) of a place in the binary tree whose places are numbered in order: those of
    the first child's subtree, then its own, then those of the second's. All even places, and no
    others, are leaves.

    Counted from 1, a place's lowest bit that is set is its height above the leaves.
    """
    number = place + 1
    height = number & -number
    parent = None
    if height << 1 <= size or number != height:
        parent, bit = number, height
        while parent == number or parent > size:
            parent, bit = (parent ^ bit) | bit << 1, bit << 1
    children = [number - height // 2] if height > 1 else []
    step = height // 2
    while step and number + step > size:
        step //= 2
    if step:
        children.append(number + step)
    return None if parent is None else parent - 1, [child - 1 for child in children]


def double_binary_tree(tree: int, rank: int, size: int) -> tuple[int | None, list[int]]:
    """(parent, children), as ranks, of a rank in tree 0 or 1 of a pair: one has children in one
    tree at most.

    Sanders, Speck, Traeff: "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    2009. Tree 1 is the mirror image of tree 0; of an odd number of ranks, it is tree 0 moved on by
    one rank.
    """
    if not tree:
        return in_order(rank, size)
    moved = size % 2
    parent, children = in_order((rank - 1) % size if moved else size - 1 - rank, size)
    ranks = [(place + 1) % size if moved else size - 1 - place for place in children]
    if parent is None:
        return None, ranks
    return (parent + 1) % size if moved else size - 1 - parent, ranks


def place_in_tree(request: Request, place: int, size: int) -> tuple[int | None, list[int]]:
    """(parent, children) of a place in the tree of the request's algorithm."""
    if request.algorithm == "k-nomial":
        return k_nomial(place, size, request.radix)
    return binary(place, size) if request.algorithm == "binary-tree" else chain(place, size)


class TreeBroadcast:
    """One rank's part.

    Args:
        buffer: of the whole message; on the root it is filled.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes
    ) -> None:
        sizes = [len(buffer)]
        self.memories: Sequence[Bytes] = (buffer,)
        self._blocks = Blocks(sizes, block_bytes(request, sizes, path_mtu))
        self._child_by_child = request.algorithm == "k-nomial"
        parent, children = place_in_tree(request, (rank - request.root) % size, size)
        ranks = [(child + request.root) % size for child in children]
        total = self._blocks.total
        self._root = parent is None
        self.expected: Mapping[int, int] = (
            {(parent + request.root) % size: total} if parent is not None and total else {}
        )
        self.targets: Collection[int] = ranks if total else ()

    def window(self, peer: int) -> int:
        return 0

    def begin(self) -> Iterable[Write]:
        if not self._root:
            return
        if self._child_by_child:
            # The largest subtree gets its whole copy first, as in the textbook's rounds.
            for child in self.targets:
                for block in self._blocks.of(0):
                    yield self._write(child, block)
        else:
            for block in self._blocks.of(0):
                yield from self._pass_on(block)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        require(block < self._blocks.total, block)
        return self._blocks.span(block)[1], self._pass_on(block)

    def _pass_on(self, block: int) -> Iterator[Write]:
        return (self._write(child, block) for child in self.targets)

    def _write(self, child: int, block: int) -> Write:
        offset, length = self._blocks.span(block)
        return Write(child, block, 0, offset, length, offset)
