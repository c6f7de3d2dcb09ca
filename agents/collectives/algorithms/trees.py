"""Broadcast down a tree of unicast writes: k-nomial, binary, and a chain around the ring.

Blocks are passed on as soon as they have come. Ranks are counted from the root: v = (rank - root)
mod P.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.algorithms.trees_options import KNomialOptions
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray, Transfers
from weft.agents.collectives.unicast import Bytes, Pattern, TablePattern, columns
from weft.agents.transport.relay import RelayTable


def k_nomial(place: int, size: int, radix: int) -> tuple[int | None, list[int]]:
    """Return (parent, children) of a place in the k-nomial tree; the largest subtree's child comes
    first.

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
    """Return (parent, children) of a place in the complete binary tree, whose places are numbered
    level by level."""
    children = [child for child in (2 * place + 1, 2 * place + 2) if child < size]
    return (place - 1) // 2 if place else None, children


def chain(place: int, size: int) -> tuple[int | None, list[int]]:
    """Return (parent, children) of a place in the pipelined ring: the places before and behind
    it."""
    return place - 1 if place else None, [place + 1] if place + 1 < size else []


def in_order(place: int, size: int) -> tuple[int | None, list[int]]:
    """Return (parent, children) of a place in the binary tree whose places are numbered in order:
    those of the first child's subtree, then its own, then those of the second's. All even places,
    and no others, are leaves.

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
    """Return (parent, children), as ranks, of a rank in tree 0 or 1 of a pair of trees. A rank has
    children in at most one of the two.

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


class TreeBroadcast(TablePattern):
    """A Broadcast in which each block that comes from the parent is passed on to the children.

    Args:
        tree: the algorithm.
        buffer: of the whole message; on the root it is filled.
    """

    def __init__(
        self, tree: "Tree", request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes
    ) -> None:
        self._tree = tree
        super().__init__(request, rank, size, path_mtu, buffer)

    def _table(self) -> RelayTable:
        size, root = self._size, self._request.root
        parent, children = self._tree.place(self._request, (self._rank - root) % size, size)
        ranks = (np.array(children, np.int64) + root) % size
        _, offset, length = self._blocks.columns()
        number = np.arange(len(offset))
        if parent is None and self._tree.copies_whole:
            # The largest subtree gets its whole copy first, as in the textbook's rounds.
            child, block = np.repeat(ranks, len(number)), np.tile(number, len(ranks))
        else:
            child, block = np.tile(ranks, len(number)), np.repeat(number, len(ranks))
        writes = columns(child, block, 0, offset[block], length[block], offset[block])
        if parent is None:
            return RelayTable(writes, len(writes), columns(number[:0], 0, 0, 0, 0))
        above = (parent + root) % size
        return RelayTable(
            writes, 0, columns(number, above, length, number * len(ranks), len(ranks))
        )


class Tree(Algorithm):
    """A broadcast goes down a tree, as in Hoefler, Moor, "Energy, Memory, and Runtime Tradeoffs for
    Implementing Collective Communication Operations", 2014."""

    collectives = ("broadcast",)
    copies_whole = False
    """Whether the root sends each child a whole copy, one after the other."""

    def place(self, request: Request, place: int, size: int) -> tuple[int | None, list[int]]:
        """Return (parent, children) of a place; the root is place 0."""
        raise NotImplementedError

    def parents(self, task: Task) -> IntArray:
        """Return the parent of places 1 to P - 1, int64 [P - 1]."""
        raise NotImplementedError

    def pattern(
        self,
        request: Request,
        rank: int,
        size: int,
        path_mtu: int,
        data: Bytes,
        result: Bytes | None,
    ) -> Pattern:
        return TreeBroadcast(self, request, rank, size, path_mtu, data)

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """Return the parent and the children of a rank."""
        parent, children = self.place(request, (rank - request.root) % size, size)
        places = children if parent is None else [parent, *children]
        return {(place + request.root) % size for place in places}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield one round in which every place but the root gets the message from its parent."""
        places = np.arange(1, task.ranks, dtype=np.int64)
        yield self._down(task, places, task.sizing(task.shards[task.root : task.root + 1])[0])

    def steps(self, task: Task) -> Iterator[Transfers]:
        """Yield a step for each level of the tree."""
        depth = depths(np.concatenate([[0], self.parents(task)]))
        places = np.arange(task.ranks, dtype=np.int64)
        for level in range(1, int(depth.max()) + 1):
            yield self._down(task, places[depth == level], task.shards[task.root])

    def _down(self, task: Task, children: IntArray, size_bytes: int) -> Transfers:
        """Return a message to each of these places from its parent."""
        parents = self.parents(task)[children - 1]
        source, destination = ((each + task.root) % task.ranks for each in (parents, children))
        return Transfers(source, destination, np.full(len(children), size_bytes))


def depths(parents: IntArray) -> IntArray:
    """Return how far each place is from the root, which is its own parent; int64 [P]."""
    depth = np.zeros(len(parents), np.int64)
    above = parents.copy()
    own = np.arange(len(parents))
    while np.any(above != own):
        depth += above != own
        own, above = above, parents[above]
    return depth


class KNomial(Tree):
    """The parent of a place is the place without its lowest digit to base k that is not 0, so that
    the root has a child for each value that one digit can have."""

    name = "k-nomial"
    position: Mapping[str, int] = {"broadcast": 1}
    colours = ("#d55e00", "#f08c3c")
    options = KNomialOptions
    copies_whole = True

    def place(self, request: Request, place: int, size: int) -> tuple[int | None, list[int]]:
        return k_nomial(place, size, self.own(request).radix)

    def parents(self, task: Task) -> IntArray:
        """Return the places without their lowest digit to base `radix` that is not 0."""
        ranks, radix = task.ranks, self.own(task).radix
        places: IntArray = np.arange(1, ranks, dtype=np.int64)
        parents: IntArray = places.copy()
        weight = 1
        while weight < ranks:
            # Where nothing has been taken off yet, all lower digits are 0.
            lowest = places // weight % radix
            parents = np.where(parents == places, places - lowest * weight, parents)
            weight *= radix
        return parents

    def least_bytes(self, task: Task) -> int:
        """Return N for each child of the root, (k - 1) log_k P if P is a power of k. Whole copies,
        the largest subtree first, reach it: a child has fewer children than the root still has to
        serve after it."""
        children = int((self.parents(task) == 0).sum())
        return task.operations * int(task.sizes.sum()) * children


class BinaryTree(Tree):
    """The places of a complete binary tree are numbered level by level."""

    name = "binary-tree"
    position: Mapping[str, int] = {"broadcast": 2}
    colours = ("#cc79a7", "#e09cc2")

    def place(self, request: Request, place: int, size: int) -> tuple[int | None, list[int]]:
        return binary(place, size)

    def parents(self, task: Task) -> IntArray:
        """Return (v - 1) // 2 of each place v."""
        places: IntArray = np.arange(1, task.ranks, dtype=np.int64)
        return (places - 1) // 2

    def least_bytes(self, task: Task) -> int:
        """Return 2N of the root's uplink (N if P = 2), and the last block's way further down. Every
        block goes to the first child, then to the second."""
        total = task.operations * int(task.sizes.sum())
        return min(2, task.ranks - 1) * total + self._tail(task.ranks) * task.block

    @staticmethod
    def _tail(ranks: int) -> int:
        """Return the blocks for which the slowest rank waits longer than the root's uplink is busy.

        A first child has a block one block after its parent, a second child two: after the leading
        1, a place's digits of (place + 1) to base 2 say which child each is. The root's own last
        two are in its 2N.
        """
        if ranks == 2:
            return 0
        return max(place.bit_length() + place.bit_count() for place in range(2, ranks + 1)) - 4


class PipelinedRing(Tree):
    """Every rank passes on the message to the next rank, so that the tree is a chain."""

    name = "pipelined-ring"
    position: Mapping[str, int] = {"broadcast": 3}
    colours = ("#009e73", "#3fc79e")

    def place(self, request: Request, place: int, size: int) -> tuple[int | None, list[int]]:
        return chain(place, size)

    def parents(self, task: Task) -> IntArray:
        """Return the place before each place."""
        return np.arange(task.ranks - 1, dtype=np.int64)

    def least_bytes(self, task: Task) -> int:
        """Return N bytes for each operation, and P - 2 blocks to fill the pipeline."""
        return task.operations * int(task.sizes.max()) + (task.ranks - 2) * task.block


ALGORITHMS = (KNomial(), BinaryTree(), PipelinedRing())
