"""Who sends how many bytes to whom: the unicast algorithms by their definitions.

P ranks, n_r bytes of rank r's shard. What is here is taken from the literature, not from
`weft.agents.collectives`: it is what their traffic is checked against.

Ring, linear, recursive doubling and halving: Thakur, Rabenseifner, Gropp, "Optimization of
Collective Communication Operations in MPICH", 2005. Trees: Hoefler, Moor, "Energy, Memory, and
Runtime Tradeoffs for Implementing Collective Communication Operations", 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.base.errors import InputError

IntArray = npt.NDArray[np.int64]
Sizing = Callable[[IntArray], IntArray]
"""From bytes of payload that are cut into packets together to the bytes that are to be counted."""


class Transfers(NamedTuple):
    """Messages between pairs of ranks: arrays of the same length, int64.

    In one round a rank is the source of at most one message of an exchange, and the destination of
    at most one; in a tree it may be the source of several.
    """

    source: IntArray
    destination: IntArray
    size_bytes: IntArray


def payload(size_bytes: IntArray) -> IntArray:
    """The `Sizing` that counts payload alone."""
    return size_bytes


def placed(rounds: Iterable[Transfers], hosts: Sequence[int]) -> Iterator[Transfers]:
    """Messages between members as those between their hosts, given by number for each member.

    What stays on a host is nothing.
    """
    host = np.asarray(hosts, np.int64)
    for source, destination, size_bytes in rounds:
        ends = host[source], host[destination]
        yield Transfers(*ends, size_bytes * (ends[0] != ends[1]))


def unicast_rounds(
    collective: str,
    algorithm: str,
    shards: Sequence[int],
    *,
    root: int = 0,
    radix: int = 2,
    item_bytes: int = 1,
    sizing: Sizing = payload,
) -> Iterator[Transfers]:
    """All messages of one operation, in rounds.

    A ring's P - 1 rounds, which are all alike to a link, are one. Of a broadcast the root's shard
    is what is sent, of an Allreduce or All-to-all the vector is all shards. Every shard is cut
    into packets by itself; recursive halving sends ranges of sums, which are cut as a whole.
    Elements of ``item_bytes`` stay whole where a vector is cut for other than P.

    Raises:
        InputError: there is no such unicast algorithm.
    """
    sizes = np.asarray(shards, np.int64)
    if collective == "broadcast":
        message = sizing(sizes[root : root + 1])[0]
        places = np.arange(1, len(sizes), dtype=np.int64)
        parents = parent_places(algorithm, len(sizes), radix)
        source, destination = (parents + root) % len(sizes), (places + root) % len(sizes)
        yield Transfers(source, destination, np.full(len(places), message))
    elif (collective, algorithm) == ("allgather", "ring"):
        yield from _ring(sizing(sizes), ends_at=1)
    elif (collective, algorithm) == ("reduce-scatter", "ring"):
        yield from _ring(sizing(sizes), ends_at=0)
    elif (collective, algorithm) == ("allgather", "linear"):
        yield from _linear(sizing(sizes))
    elif (collective, algorithm) == ("allgather", "recursive-doubling"):
        yield from _recursive_doubling(sizing(sizes))
    elif (collective, algorithm) == ("reduce-scatter", "recursive-halving"):
        for source, destination, size_bytes in _recursive_halving(sizes):
            yield Transfers(source, destination, sizing(size_bytes))
    elif (collective, algorithm) == ("allreduce", "ring"):
        yield from _ring(sizing(sizes), ends_at=0)
        yield from _ring(sizing(sizes), ends_at=1)
    elif (collective, algorithm) == ("allreduce", "halving-doubling"):
        yield from _halving_doubling(sizes, item_bytes, sizing)
    elif (collective, algorithm) == ("allreduce", "double-binary-tree"):
        yield from _double_binary_tree(sizes, item_bytes, sizing)
    elif (collective, algorithm) == ("alltoall", "direct"):
        yield from _to_owners(sizing(sizes))
    elif (collective, algorithm) == ("allreduce", "direct"):
        yield from _to_owners(sizing(sizes))
        yield from _linear(sizing(sizes))
    elif (collective, algorithm) == ("many-to-one", "direct"):
        others = np.delete(np.arange(len(sizes), dtype=np.int64), root)
        yield Transfers(others, np.full_like(others, root), sizing(sizes)[others])
    else:
        raise InputError(
            f"{collective} by {algorithm!r} has no traffic model: add its transfers to "
            "experiments/theory/transfers.py"
        )


def parent_places(algorithm: str, ranks: int, radix: int = 2) -> IntArray:
    """The parent of places 1 to P - 1 of a broadcast's tree, int64 [P - 1]; the root is place 0.

    k-nomial: the place without its lowest digit to base k that is not 0, so that the root has a
    child for each value that one digit can have. Binary: the complete tree in order of levels.

    Raises:
        InputError: there is no such tree.
    """
    places: IntArray = np.arange(1, ranks, dtype=np.int64)
    if algorithm == "pipelined-ring":
        return places - 1
    if algorithm == "binary-tree":
        return (places - 1) // 2
    if algorithm != "k-nomial":
        raise InputError(
            f"broadcast by {algorithm!r} has no tree: add it to experiments/theory/transfers.py"
        )
    parents: IntArray = places.copy()
    weight = 1
    while weight < ranks:
        # Where nothing has been taken off yet, all lower digits are 0.
        lowest = places // weight % radix
        parents = np.where(parents == places, places - lowest * weight, parents)
        weight *= radix
    return parents


def _ring(sizes: IntArray, *, ends_at: int) -> Iterator[Transfers]:
    """Every rank passes every shard on to the next, but the one whose way ends.

    A gathered shard ends at the rank before its source, so rank r does not send that of rank r + 1;
    a reduced one ends at its owner, so rank r does not send its own.
    """
    ranks = np.arange(len(sizes), dtype=np.int64)
    if len(sizes) > 1:
        yield Transfers(ranks, np.roll(ranks, -1), sizes.sum() - np.roll(sizes, -ends_at))


def _linear(sizes: IntArray) -> Iterator[Transfers]:
    ranks = np.arange(len(sizes), dtype=np.int64)
    for distance in range(1, len(sizes)):
        yield Transfers(ranks, np.roll(ranks, -distance), sizes)


def _to_owners(sizes: IntArray) -> Iterator[Transfers]:
    """Every rank sends to every other what is that one's of its vector."""
    ranks = np.arange(len(sizes), dtype=np.int64)
    for distance in range(1, len(sizes)):
        yield Transfers(ranks, np.roll(ranks, -distance), np.roll(sizes, -distance))


def _recursive_doubling(sizes: IntArray) -> Iterator[Transfers]:
    """In round i a rank exchanges all that it has with the one 2^i away.

    P = Q + rem, Q a power of two: of the first 2 rem ranks the even ones leave their shard to the
    odd ones, and get all others at the end.
    """
    evens, odds, active = _folded(len(sizes))
    if len(evens):
        yield Transfers(evens, odds, sizes[evens])
    held = sizes[active]
    held[: len(evens)] += sizes[evens]
    yield from _exchanges(active, held)
    if len(evens):
        yield Transfers(odds, evens, sizes.sum() - sizes[evens])


def _recursive_halving(sizes: IntArray) -> Iterator[Transfers]:
    """Recursive doubling backwards: a rank sends what its partner is to keep.

    The even ranks of a fold give away all P shards of their contribution first, and get their sum
    at the end.
    """
    evens, odds, active = _folded(len(sizes))
    if len(evens):
        yield Transfers(evens, odds, np.full(len(evens), sizes.sum()))
    held = sizes[active]
    held[: len(evens)] += sizes[evens]
    for source, destination, size_bytes in reversed(list(_exchanges(active, held))):
        yield Transfers(destination, source, size_bytes)
    if len(evens):
        yield Transfers(odds, evens, sizes[evens])


def even_parts(size_bytes: int, parts: int, item_bytes: int = 1) -> IntArray:
    """Bytes of nearly equal parts of a vector: the first have one element more, int64 [parts]."""
    each, more = divmod(size_bytes // item_bytes, parts)
    return (each + (np.arange(parts, dtype=np.int64) < more)) * item_bytes


def _halving_doubling(sizes: IntArray, item_bytes: int, sizing: Sizing) -> Iterator[Transfers]:
    """Rabenseifner's: halving between the 2^q that take part, and doubling back.

    The vector has a part for each of them. An even rank of a fold gives away all of its vector
    first, and gets the result at the end.
    """
    evens, odds, active = _folded(len(sizes))
    parts = sizing(even_parts(int(sizes.sum()), len(active), item_bytes))
    whole = np.full(len(evens), parts.sum())
    doubling = list(_exchanges(active, parts))
    if len(evens):
        yield Transfers(evens, odds, whole)
    for source, destination, size_bytes in reversed(doubling):
        yield Transfers(destination, source, size_bytes)
    yield from doubling
    if len(evens):
        yield Transfers(odds, evens, whole)


def in_order_parents(ranks: int) -> IntArray:
    """The parent of each place of a binary tree that is numbered in order, the root's own at the
    root, int64 [P].

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


def _double_binary_tree(sizes: IntArray, item_bytes: int, sizing: Sizing) -> Iterator[Transfers]:
    """Each half of the vector goes up a tree and down again (Sanders, Speck, Traeff, 2009).

    The second tree is the first one's mirror image, or of an odd number of ranks the first one
    moved on by a rank: what is inner in one is a leaf in the other.
    """
    ranks = len(sizes)
    halves = sizing(even_parts(int(sizes.sum()), 2, item_bytes))
    places = np.arange(ranks, dtype=np.int64)
    parents = in_order_parents(ranks)
    below = places[parents != places]
    second = (places + 1) % ranks if ranks % 2 else ranks - 1 - places
    for number, half in zip((places, second), halves, strict=True):
        children, above = number[below], number[parents[below]]
        size_bytes = np.full(len(below), half)
        yield Transfers(children, above, size_bytes)
        yield Transfers(above, children, size_bytes)


def _folded(ranks: int) -> tuple[IntArray, IntArray, IntArray]:
    """(even ranks that leave, odd ones that stand in for them, the 2^q that take part)."""
    rest = ranks - (1 << ranks.bit_length() - 1)
    paired = np.arange(2 * rest, dtype=np.int64)
    odds = paired[1::2]
    return paired[::2], odds, np.concatenate([odds, np.arange(2 * rest, ranks, dtype=np.int64)])


def _exchanges(active: IntArray, held: IntArray) -> Iterator[Transfers]:
    places = np.arange(len(active), dtype=np.int64)
    distance = 1
    while distance < len(active):
        partners = places ^ distance
        yield Transfers(active, active[partners], held)
        held = held + held[partners]
        distance *= 2
