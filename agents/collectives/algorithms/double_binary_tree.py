"""Allreduce on two binary trees, each for one half of the vector.

Sanders, Speck, Traeff: "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
2009. Blocks are summed up towards the root of their half's tree, and the result goes down the same
tree. A rank has children in one of the trees at most, so that it sends and receives 2 L at most of
a vector of L bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.agents.collectives.algorithm import Algorithm, Order
from weft.agents.collectives.algorithms.trees import depths, double_binary_tree
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray, Transfers, even_parts, together
from weft.agents.collectives.unicast import Bytes, Pattern, Write, require, summed
from weft.agents.collectives.unicast_options import asked_block_bytes

BUFFER, OUTPUT, STAGING = range(3)
"""The memories of a rank."""

BLOCK_BYTES = 16 * 1024
BLOCKS_PER_HALF = 64
"""Small blocks, since links are idle while the first goes up the tree and the last one down;
smaller halves are cut into so many, down to one packet a block."""
AHEAD_PER_LEVEL = 3
"""Blocks, for each level of the tree, that a leaf is ahead of the results."""


@dataclass(frozen=True)
class TreePlace:
    """A place is where a rank stands in the tree of one half; parent and children are ranks."""

    parent: int | None
    children: Sequence[int]
    blocks: range
    """The blocks of the tree's half."""


class DoubleBinaryTreeAllreduce(Pattern):
    """A rank adds the sums of its children to its own part, (own + first child) + second child,
    sends the sum to its parent, and what the parent sends, the result, to its children. At the root
    the sum is the result. Leaves send no more blocks ahead of the results than the tree needs, so
    that the four streams that share a link do not fill its queue.

    The order of summation depends on P alone, and every block is summed up on one rank: the result
    is the same on all ranks and in every run. Half types are added in their own type, that of the
    wire. An average is divided once, at the root.

    Children's sums arrive in the output, those of a second child in memory of their own; the result
    that overwrites them contains them.

    Args:
        buffer: the vector that this rank contributes; only read.
        output: of the same size.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        first = -(-request.elements(1)[0] // 2) * request.item_bytes
        halves = [first, len(buffer) - first]
        if not asked_block_bytes(request.own):
            wanted = max(1, min(BLOCK_BYTES, -(-first // BLOCKS_PER_HALF)))
            request = replace(request, own={"block_bytes": wanted})
        super().__init__(request, rank, size, path_mtu, buffer, output, halves)
        self._trees = [
            TreePlace(*double_binary_tree(tree, rank, size), self._blocks.of(tree))
            for tree in (0, 1)
        ]
        self._staged = staged_child(rank, size)
        inner = next((tree for tree in (0, 1) if self._trees[tree].children), 0)
        staging = np.empty(halves[inner] if self._staged is not None else 0, np.uint8)
        self.memories = (buffer, output, staging)
        self._starts = [0, first]
        self._ahead = AHEAD_PER_LEVEL * request.lanes * size.bit_length()
        self._missing: dict[int, int] = {}
        """Children whose sum of a block has not come, where one has."""
        self.expected = summed(
            (peer, len(tree.blocks))
            for tree in self._trees
            for peer in (*tree.children, tree.parent)
            if peer is not None
        )
        self.targets = tuple(self.expected)

    def window(self, peer: int) -> int:
        """Return the staging memory for the child whose sums wait there, else the output."""
        return STAGING if peer == self._staged else OUTPUT

    def begin(self) -> Iterable[Write]:
        """Yield the first writes of a leaf, which go up its tree."""
        leaves = [tree for tree in self._trees if not tree.children and tree.parent is not None]
        for place in range(self._ahead):
            for tree in leaves:
                if place < len(tree.blocks):
                    yield self._up(tree, tree.blocks[place])

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block of a child's sum or of the result, and pass on what that completes."""
        kind, place = divmod(block, self._blocks.total)
        tree = self._trees[place in self._trees[1].blocks]
        length = self._blocks.span(place)[1]
        if kind == 2:
            require(peer == tree.parent, block)
            return length, self._down(tree, place)
        require(kind < len(tree.children) and peer == tree.children[kind], block)
        left = self._missing.pop(place, len(tree.children)) - 1
        if left:
            self._missing[place] = left
            return length, ()
        self._add(tree, place)
        return length, self._down(tree, place) if tree.parent is None else (self._up(tree, place),)

    def _down(self, tree: TreePlace, block: int) -> Iterator[Write]:
        """Yield what a block of the result that is there allows: it goes down, and a leaf's next
        block goes up."""
        for child in tree.children:
            yield self._write(child, block, OUTPUT, 2 * self._blocks.total)
        following = block + self._ahead
        if not tree.children and following in tree.blocks:
            yield self._up(tree, following)

    def _up(self, tree: TreePlace, block: int) -> Write:
        """Return the write of this rank's sum of a block to its parent."""
        assert tree.parent is not None
        which = self._trees.index(tree)
        siblings = double_binary_tree(which, tree.parent, self._size)[1]
        offset, length = self._blocks.span(block)
        staged = staged_child(tree.parent, self._size) == self._rank
        target = offset - (self._starts[which] if staged else 0)
        number = siblings.index(self._rank) * self._blocks.total + block
        return Write(
            tree.parent, number, OUTPUT if tree.children else BUFFER, offset, length, target
        )

    def _add(self, tree: TreePlace, block: int) -> None:
        offset, length = self._blocks.span(block)
        buffer, output = (memory[offset : offset + length] for memory in self.memories[:2])
        ranks = 0 if tree.parent is not None else self._size
        if len(tree.children) == 1:
            self._combine(buffer, output, output, ranks=ranks)
            return
        begin = offset - self._starts[self._trees.index(tree)]
        staged = self.memories[STAGING][begin : begin + length]
        one, two = (staged, output) if self._staged == tree.children[0] else (output, staged)
        self._combine(buffer, one, one)
        self._combine(one, two, output, ranks=ranks)


def staged_child(rank: int, size: int) -> int | None:
    """Return the child whose sums do not arrive in a rank's output, where it has two: the second,
    but not one that is its parent in the other tree, whose results arrive there."""
    links = [double_binary_tree(tree, rank, size) for tree in (0, 1)]
    for (_, children), (other, _) in zip(links, reversed(links), strict=True):
        if len(children) == 2:
            return children[0] if children[1] == other else children[1]
    return None


def in_order_parents(ranks: int) -> IntArray:
    """Return the parent of each place of a binary tree that is numbered in order, the root's own at
    the root, int64 [P].

    The root of a range has the largest complete tree below it on its left that the range has room
    for.
    """
    parents = np.arange(ranks, dtype=np.int64)
    waiting = [(0, ranks, -1)]
    while waiting:
        begin, end, parent = waiting.pop()
        if begin < end:
            root = begin + (1 << (end - begin).bit_length() - 1) - 1
            parents[root] = root if parent < 0 else parent
            waiting += [(begin, root, root), (root + 1, end, root)]
    return parents


class DoubleBinaryTree(Algorithm):
    """Each half of the vector goes up a tree and down again (Sanders, Speck, Traeff, 2009).

    The second tree is the first one's mirror image, or of an odd number of ranks the first one
    moved on by a rank: what is inner in one is a leaf in the other. So from P = 4 on the fullest
    link carries 2T, where some rank has two children and a parent in the same tree.
    """

    name = "double-binary-tree"
    collectives = ("allreduce",)
    position: Mapping[str, int] = {"allreduce": 4, "flows": 3}
    colours = ("#e69f00", "#f3bd4a")
    patterns: Mapping[str, type[Pattern]] = {"allreduce": DoubleBinaryTreeAllreduce}

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """Return the parents and children of a rank in both trees."""
        links = [double_binary_tree(tree, rank, size) for tree in (0, 1)]
        return {
            peer for parent, children in links for peer in (parent, *children) if peer is not None
        }

    @staticmethod
    def _trees(ranks: int) -> tuple[IntArray, IntArray]:
        """Return the rank at each place, of both trees."""
        places = np.arange(ranks, dtype=np.int64)
        return places, (places + 1) % ranks if ranks % 2 else ranks - 1 - places

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield the messages of each half up its tree, and down again."""
        halves = task.sizing(even_parts(task.vector_bytes, 2, task.item_bytes))
        parents = in_order_parents(task.ranks)
        below = np.flatnonzero(parents != np.arange(task.ranks))
        for number, half in zip(self._trees(task.ranks), halves, strict=True):
            children, above = number[below], number[parents[below]]
            size_bytes = np.full(len(below), half)
            yield Transfers(children, above, size_bytes)
            yield Transfers(above, children, size_bytes)

    def steps(self, task: Task) -> Iterator[Transfers]:
        """Yield a step for each level of both trees, which work at the same time: up with the
        deepest level first, and down again."""
        halves = even_parts(task.vector_bytes, 2, task.item_bytes)
        parents = in_order_parents(task.ranks)
        depth = depths(parents)
        levels = [np.flatnonzero(depth == level) for level in range(int(depth.max()), 0, -1)]
        ups = [
            together(
                [
                    Transfers(number[below], number[parents[below]], np.full(len(below), half))
                    for number, half in zip(self._trees(task.ranks), halves, strict=True)
                ]
            )
            for below in levels
        ]
        yield from ups
        for source, destination, size_bytes in reversed(ups):
            yield Transfers(destination, source, size_bytes)

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """Return the order in which the tree of the half `place` adds."""
        trees = (double_binary_tree(place, rank, size)[0] for rank in range(size))
        root = next(rank for rank, parent in enumerate(trees) if parent is None)
        return _subtree(place, root, size)

    def sum_spans(self, request: Request, size: int) -> Sequence[int]:
        """Return the ends of the two halves, which different trees add."""
        elements = sum(request.elements(size))
        return [-(-elements // 2), elements]


def _subtree(tree: int, rank: int, size: int) -> Order:
    children = double_binary_tree(tree, rank, size)[1]
    return (rank, *(_subtree(tree, child, size) for child in children))


ALGORITHMS = (DoubleBinaryTree(),)
