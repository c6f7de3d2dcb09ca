"""What is where in hosts' memory in the end, where data travel without bytes and hosts or switches
add them up, or put them together to tensors.

Everything that was sent, landed, or was added is done again in the order in which it happened, to
pieces of memory in place of bytes. Of each piece is known which bytes it has (those of a place in a
vector or tensor), and the sum of the weights of the ranks that have contributed to it
(`weft.agents.transport.payload_layout.weight_of`). A result is right if each of its elements is
that of its place and has every rank's weight once: whatever was left out, came twice or belongs
elsewhere makes another sum.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.agents.transport.noted_sums import NotedSum
from weft.agents.transport.payload_layout import weight_of

_BUCKET_BITS = 24
_READ, _AGAIN, _WRITE, _ADD = range(4)


class Content(NamedTuple):
    """A piece of memory that holds bytes that follow each other in a vector."""

    start: int
    end: int
    """Addresses."""
    base: int
    """What makes the place in the vector, in bytes, of an address."""
    item_bytes: int
    """How large the vector's elements are here: partial sums may be wider."""
    key: int
    """Which vector it is: the same for the same bytes."""
    weight: int
    """The sum of the weights of those who contributed."""

    def moved(self, by: int) -> "Content":
        """Return the same bytes at another address."""
        return self._replace(start=self.start + by, end=self.end + by, base=self.base - by)


@dataclass(frozen=True)
class Wanted:
    """What a piece of a result has to hold in the end."""

    content: Content
    ranks: int
    """How many ranks have to have contributed to it; 1 for bytes that nobody adds."""
    what: str
    """What messages call the result."""
    holder: int
    """Whose it is: the number by which errors are told."""


class Memory:
    """The pieces of all hosts' memory of which it is known what they hold."""

    def __init__(self) -> None:
        self._buckets: dict[int, tuple[list[int], list[Content]]] = {}
        """By the upper bits of addresses: where pieces start, and the pieces."""

    def put(self, start: int, end: int, contents: Iterable[Content]) -> None:
        """Have memory hold nothing but these pieces, which are in it."""
        for number in range(start >> _BUCKET_BITS, (end - 1 >> _BUCKET_BITS) + 1):
            first = max(start, number << _BUCKET_BITS)
            last = min(end, number + 1 << _BUCKET_BITS)
            self._put(number, first, last, [*_within(contents, first, last)])

    def _put(self, number: int, start: int, end: int, contents: list[Content]) -> None:
        starts, there = self._buckets.setdefault(number, ([], []))
        first = max(bisect_right(starts, start) - 1, 0)
        behind = bisect_left(starts, end, first)
        if first < behind and there[first].end <= start:
            first += 1
        old = there[first:behind]
        if old and old[0].start < start:
            contents.insert(0, old[0]._replace(end=start))
        if old and old[-1].end > end:
            contents.append(old[-1]._replace(start=end))
        there[first:behind] = contents
        starts[first:behind] = [each.start for each in contents]

    def get(self, start: int, end: int) -> list[Content]:
        """Return the pieces within a part of memory, in order; gaps hold what is not known."""
        found: list[Content] = []
        for number in range(start >> _BUCKET_BITS, (end - 1 >> _BUCKET_BITS) + 1):
            starts, there = self._buckets.get(number, ([], []))
            first = max(bisect_right(starts, start) - 1, 0)
            found += _within(there[first : bisect_left(starts, end, first)], start, end)
        return found


def _within(contents: Iterable[Content], start: int, end: int) -> Iterator[Content]:
    """Yield what of pieces is within a part of memory."""
    for each in contents:
        if each.start >= start and each.end <= end:
            yield each
        elif each.start < end and each.end > start:
            yield each._replace(start=max(start, each.start), end=min(end, each.end))


def find_unlike(
    landings: npt.NDArray[np.void],
    sums: Iterable[NotedSum],
    held: Iterable[Content],
    wanted: Iterable[Wanted],
) -> dict[int, str]:
    """Return what is wrong with results, by the numbers of their holders.

    Args:
        landings: rows of `Landing`.
        sums: those that hosts have made.
        held: what is in memory at the start.
        wanted: what has to be in the end, in any order.
    """
    memory = Memory()
    for each in held:
        memory.put(each.start, each.end, [each])
    _replay(memory, landings, list(sums))
    wrong: dict[int, str] = {}
    for want in wanted:
        if want.holder not in wrong:
            found = _difference(memory, want)
            if found:
                wrong[want.holder] = found
    return wrong


def _replay(memory: Memory, landings: npt.NDArray[np.void], sums: Sequence[NotedSum]) -> None:
    """Do all that happened, in its order."""
    rows = np.arange(len(landings))
    again = np.flatnonzero(landings["left"] > landings["sent"])
    steps = np.concatenate([
        landings["sent"], landings["left"][again], landings["landed"],
        np.array([each.step for each in sums], np.int64),
    ])  # fmt: skip
    kinds = np.repeat([_READ, _AGAIN, _WRITE, _ADD], [len(rows), len(again), len(rows), len(sums)])
    numbers = np.concatenate([rows, again, rows, np.arange(len(sums))])
    under_way: dict[int, list[Content]] = {}
    columns = ("target", "source", "length", "weight")
    targets, sources, lengths, weights = (landings[name].tolist() for name in columns)
    order = np.lexsort((kinds, steps))
    for kind, number in zip(kinds[order].tolist(), numbers[order].tolist(), strict=True):
        if kind == _ADD:
            _add(memory, sums[number])
            continue
        source, length = sources[number], lengths[number]
        if kind == _WRITE:
            by, start = targets[number] - source, targets[number]
            come = [each.moved(by) for each in under_way.pop(number)]
            memory.put(start, start + length, come)
            continue
        there = memory.get(source, source + length)
        if weights[number]:
            there = [each._replace(weight=weights[number]) for each in there]
        changed = kind == _AGAIN and there != under_way[number]  # while it was sent
        under_way[number] = [] if changed else there


def _add(memory: Memory, made: NotedSum) -> None:
    """Combine vectors; where they are not the same elements of one vector, nothing is known of the
    result."""
    size = made.item_bytes
    if not size:
        (source,) = made.vectors
        come = [
            each.moved(made.out - source) for each in memory.get(source, source + made.elements)
        ]
        memory.put(made.out, made.out + made.elements, come)
        return
    vectors = [memory.get(start, start + made.elements * size) for start in made.vectors]
    ends = {0, made.elements}
    for start, vector in zip(made.vectors, vectors, strict=True):
        for each in vector:
            for offset in (each.start - start, each.end - start):
                ends |= {offset // size, -(-offset // size)}
    found = []
    bounds = sorted(ends)
    for first, behind in pairwise(bounds):
        terms = [
            each
            for start, vector in zip(made.vectors, vectors, strict=True)
            for each in vector
            if each.start <= start + first * size and each.end >= start + behind * size
        ]
        if len(terms) != len(vectors):
            continue
        places = {
            (each.key, each.item_bytes, start + first * size + each.base)
            for start, each in zip(made.vectors, terms, strict=True)
        }
        if len(places) > 1:
            continue
        ((key, item_bytes, place),) = places
        if item_bytes != size or place % size:
            continue
        wide, at = made.out_item_bytes, made.out + first * made.out_item_bytes
        found.append(
            Content(
                at, made.out + behind * wide, place // size * wide - at, wide, key,
                sum(each.weight for each in terms),
            )
        )  # fmt: skip
    memory.put(made.out, made.out + made.elements * made.out_item_bytes, found)


def _difference(memory: Memory, want: Wanted) -> str:
    """Return what is wrong with a piece of a result, or nothing."""
    right, what = want.content, want.what
    reached = right.start
    for each in memory.get(right.start, right.end):
        if each.start > reached:
            break
        if each[2:5] != right[2:5]:
            return f"{_named(right, reached)} of {what} belongs elsewhere"
        if each.weight != right.weight:
            return f"{_named(right, reached)} of {what} {_miscounted(each.weight, want)}"
        reached = each.end
    if reached < right.end:
        return f"{_named(right, reached)} of {what} did not come, or is made of what did not"
    return ""


def _named(right: Content, address: int) -> str:
    """Return what an address of a result is called."""
    offset = address - right.start
    if right.item_bytes > 1:
        return f"element {offset // right.item_bytes}"
    return f"byte {offset}"


def _miscounted(weight: int, want: Wanted) -> str:
    """Say which rank's contribution is too few or too many, if it is one."""
    over = weight - want.content.weight
    for rank in range(want.ranks):
        if abs(over) == weight_of(rank, want.ranks):
            return f"{'lacks' if over < 0 else 'has'} rank {rank}'s part" + " twice" * (over > 0)
    return "does not have each rank's part once"
