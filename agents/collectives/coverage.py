"""Whether every byte of every result came, once and from where it had to, where data travel without
bytes (`weft.agents.transport.payload_layout`).

A byte is known by the part that it belongs to (`Workload.buffer_parts`, `output_parts`) and its
place in it. Each landing brought so many bytes from a place in the sender's memory to one in the
receiver's. It is right if both are the same bytes, and if the sender had them when it sent: they
were its own, or had come by then. A result is right if right landings cover all of it that is not
the rank's own, each byte once; what was fetched by RDMA READ may have come besides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.workload import ContributedPart, Workload

Longs = npt.NDArray[np.int64]

_TOGETHER = 1 << 16
"""About so many segments are looked at together."""


@dataclass(frozen=True)
class Held:
    """The arrays of one operation on one rank."""

    workload: Workload
    rank: int
    buffer: int
    """The address of the buffer."""
    output: int | None
    """The address of the output; None where the operation works in place."""


@dataclass(frozen=True, eq=False)
class _Segments:
    """Parts in memory, in order of their addresses; none is empty."""

    start: Longs
    end: Longs
    key: Longs
    """The same for the same bytes: by operation and part."""
    own: npt.NDArray[np.bool_]
    """Whether the rank had it from the start."""
    wanted: npt.NDArray[np.bool_]
    """Whether it is of a result."""
    holder: Longs
    """Whose it is: a number of `Held`."""

    def at(self, address: Longs) -> Longs:
        """Return the segments that addresses are in, or behind."""
        found = np.searchsorted(self.start, address, "right") - 1
        return np.maximum(found, 0).astype(np.int64)

    def parts(self, target: Longs) -> Iterator[tuple["_Segments", Longs]]:
        """Yield some of the segments after the other, all those of a `Held` together, and which of
        the addresses are in them: what is looked at by parts takes less memory, and is in a
        cache."""
        begins = np.flatnonzero(np.diff(self.holder, prepend=-1))
        least = np.arange(0, len(self.holder), _TOGETHER)
        firsts = np.unique(begins[np.searchsorted(begins, least, "right") - 1])
        if len(firsts) < 2:
            yield self, np.arange(len(target))
            return
        part = np.searchsorted(self.start[firsts[1:]], target, "right").astype(np.uint16)
        rows = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[rows], np.arange(len(firsts) + 1))
        ends = np.append(firsts[1:], len(self.holder))
        for number, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            columns = (column[first:end] for column in vars(self).values())
            yield _Segments(*columns), rows[bounds[number] : bounds[number + 1]]


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Landings, or parts of them."""

    target: Longs
    source: Longs
    length: Longs
    sent: Longs
    landed: Longs
    fetched: Longs

    @cached_property
    def end(self) -> Longs:
        return self.target + self.length

    def only(self, chosen: npt.NDArray[np.generic]) -> "_Pieces":
        return _Pieces(*(column[chosen] for column in vars(self).values() if column.ndim))

    def cut(self, segments: _Segments, by: Longs) -> "_Pieces":
        """Cut at the ends of segments, by the address of the source or that of the target."""
        first = segments.at(by)
        if (by + self.length <= segments.end[first]).all():
            return self
        count = segments.at(by + self.length - 1) - first + 1
        if count.max() == 1:
            return self
        row = np.repeat(np.arange(len(count)), count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        segment = first[row] + place
        begin = np.where(place == 0, 0, segments.start[segment] - by[row])
        last = place == count[row] - 1
        following = segments.start[np.minimum(segment + 1, len(segments.start) - 1)]
        end = np.where(last, self.length[row], following - by[row])
        return _Pieces(
            self.target[row] + begin, self.source[row] + begin, end - begin,
            self.sent[row], self.landed[row], self.fetched[row],
        )  # fmt: skip


def find_wrong(landings: npt.NDArray[np.void], held: Sequence[Held]) -> dict[int, str]:
    """Return what is wrong with results, by the number of their arrays in `held`.

    Args:
        landings: rows of `Landing`.
        held: of all ranks.
    """
    segments = _segments(held)
    wrong: dict[int, str] = {}
    for part, rows in segments.parts(landings["target"]):
        pieces = _pieces(segments, landings[rows])
        by = segments.at(pieces.source)
        if len(rows) < len(landings) and not segments.own[by].all():
            # What is passed on had to come before, so that all landings are looked at together.
            part, pieces, wrong = segments, _pieces(segments, landings), {}
            by = segments.at(pieces.source)
        _check_bytes(segments, pieces, by, wrong, held)
        _check_cover(part, pieces, wrong, held)
        if part is segments:
            break
    return wrong


def find_missing(
    target: Longs, length: Longs, fetched: Longs, held: Sequence[Held]
) -> dict[int, str]:
    """Return which results have bytes that did not come, or came twice, by the number of their
    arrays in `held`, of bytes that are known to be right.

    Args:
        target, length, fetched: of landings, as `Landing` has them.
    """
    segments = _segments(held)
    wrong: dict[int, str] = {}
    for part, rows in segments.parts(target):
        to = target[rows]
        none = np.zeros_like(to)
        pieces = _Pieces(to, to, length[rows], none, none, fetched[rows]).cut(segments, to)
        pieces = pieces.only(np.lexsort((pieces.fetched, pieces.target)))
        _check_cover(part, pieces, wrong, held)
    return wrong


def _pieces(segments: _Segments, landings: npt.NDArray[np.void]) -> _Pieces:
    """Return landings, cut so that each piece is in one segment and comes from one, in order of
    their places."""
    columns = ("target", "source", "length", "sent", "landed", "fetched")
    pieces = _Pieces(*(landings[name].astype(np.int64) for name in columns))
    pieces = pieces.cut(segments, pieces.target)
    pieces = pieces.cut(segments, pieces.source)
    return pieces.only(np.lexsort((pieces.landed, pieces.fetched, pieces.target)))


def _segments(held: Sequence[Held]) -> _Segments:
    """Return all parts of all arrays."""
    numbers: dict[int, int] = {}
    alike: dict[int, tuple[Longs, Longs, Longs]] = {}
    columns: list[tuple[Longs, ...]] = []
    for holder, each in enumerate(held):
        work = each.workload
        number = numbers.setdefault(id(work), len(numbers))
        if id(work) in alike:
            parts = alike[id(work)]
        else:
            parts = _columns(work.buffer_parts(each.rank))
            if work.is_alike:
                alike[id(work)] = parts
        columns.append(_placed(each.buffer, parts, number, holder, each, each.output is None))
        if each.output is not None:
            parts = _columns(work.output_parts(each.rank))
            columns.append(_placed(each.output, parts, number, holder, each, True))
    columns.sort(key=lambda found: int(found[0][0]) if len(found[0]) else 0)
    start, end, key, own, wanted, holders = map(np.concatenate, zip(*columns, strict=True))
    return _Segments(start, end, key, own.astype(bool), wanted.astype(bool), holders)


def _columns(parts: Sequence[ContributedPart]) -> tuple[Longs, Longs, Longs]:
    """Return sizes, keys and sources of parts."""
    table = np.array([part[:3] for part in parts], np.int64).reshape(-1, 3)
    return table[:, 1], table[:, 0], table[:, 2]


def _placed(
    address: int, parts: tuple[Longs, Longs, Longs], number: int, holder: int, held: Held,
    wanted: bool,
) -> tuple[Longs, ...]:  # fmt: skip
    """Return the columns of `_Segments` of an array's parts."""
    sizes, keys, sources = parts
    end = address + np.cumsum(sizes)
    own = sources == held.rank
    table = (end - sizes, end, keys + (number << 40), own, np.full(len(sizes), wanted & True))
    there = sizes > 0
    columns = (*table, np.full(len(sizes), holder, np.int64))
    return tuple(column[there] for column in columns)


def _check_bytes(
    segments: _Segments, pieces: _Pieces, by: Longs, wrong: dict[int, str], held: Sequence[Held]
) -> None:
    """Find landings of other bytes than those that belong where they went, or of bytes that the
    sender did not have yet; `by` are the segments that they came from."""
    to = segments.at(pieces.target)
    same = (
        (pieces.target >= segments.start[to])
        & (pieces.end <= segments.end[to])
        & (pieces.source >= segments.start[by])
        & (segments.key[to] == segments.key[by])
        & (pieces.target - segments.start[to] == pieces.source - segments.start[by])
    )
    for piece in np.flatnonzero(~same | segments.own[to]).tolist():
        segment = int(to[piece])
        offset = int(pieces.target[piece] - segments.start[segment])
        _blame(segments, segment, wrong, held, f"byte {offset} of {{}} is wrong")
    passed_on = np.flatnonzero(same & ~segments.own[by])
    source, length = pieces.source[passed_on], pieces.length[passed_on]
    if not len(passed_on):
        return
    landed = _first_landed(pieces)
    first = np.maximum(np.searchsorted(pieces.target, source, "right") - 1, 0)
    last = np.searchsorted(pieces.target, source + length, "left")
    bounds = np.stack([first, np.maximum(last, first + 1)], 1).reshape(-1)
    latest = np.maximum.reduceat(np.append(landed, 0), bounds)[::2]
    for place in np.flatnonzero(latest >= pieces.sent[passed_on]).tolist():
        segment = int(to[passed_on[place]])
        offset = int(pieces.target[passed_on[place]] - segments.start[segment])
        what = f"byte {offset} of {{}} was sent on before it had come"
        _blame(segments, segment, wrong, held, what)


def _first_landed(pieces: _Pieces) -> Longs:
    """Return when pieces had landed; of those that came twice, by a READ, too, and so may have been
    passed on from the first time on, nothing is known: 0."""
    landed: Longs = pieces.landed.copy()
    twice = pieces.target[1:] < pieces.end[:-1]
    landed[1:][twice] = 0
    landed[:-1][twice] = 0
    return landed


def _check_cover(
    segments: _Segments, pieces: _Pieces, wrong: dict[int, str], held: Sequence[Held]
) -> None:
    """Find bytes of results that came twice, or never."""
    reached = np.maximum.accumulate(pieces.end) if len(pieces.end) else pieces.end
    fetched = pieces.fetched != 0
    again = (pieces.target[1:] < reached[:-1]) & ~fetched[1:] & ~fetched[:-1]
    to = segments.at(pieces.target)
    for piece in (np.flatnonzero(again) + 1).tolist():
        segment = int(to[piece])
        offset = int(pieces.target[piece] - segments.start[segment])
        _blame(segments, segment, wrong, held, f"byte {offset} of {{}} came twice")
    wanted = np.flatnonzero(segments.wanted & ~segments.own)
    begins, ends = segments.start[wanted], segments.end[wanted]
    first = np.searchsorted(pieces.target, begins, "left")
    last = np.searchsorted(pieces.target, ends, "left")
    covered = np.zeros(len(wanted), bool)
    some = last > first
    covered[some] = pieces.target[first[some]] == begins[some]
    covered[some] &= reached[last[some] - 1] >= ends[some]
    # What begins behind all that came before it leaves a gap, unless a segment begins there, too.
    gaps = np.flatnonzero(pieces.target[1:] > reached[:-1]) + 1
    gaps = gaps[pieces.target[gaps] != segments.start[to[gaps]]]
    for place in np.flatnonzero(~covered).tolist():
        came = int(first[place])
        offset = 0
        if some[place] and pieces.target[came] == begins[place]:
            offset = int(reached[last[place] - 1] - begins[place])
        what = f"byte {offset} of {{}} did not come"
        _blame(segments, int(wanted[place]), wrong, held, what)
    for piece in gaps.tolist():
        segment = int(to[piece])
        offset = int(reached[piece - 1] - segments.start[segment])
        _blame(segments, segment, wrong, held, f"byte {max(offset, 0)} of {{}} did not come")


def _blame(
    segments: _Segments, segment: int, wrong: dict[int, str], held: Sequence[Held], what: str
) -> None:
    """Take note of what is wrong with a part, unless its array has something wrong before it."""
    holder = int(segments.holder[segment])
    if holder in wrong:
        return
    each = held[holder]
    parts = each.workload.buffer_parts(each.rank)
    start = each.buffer
    if each.output is not None:
        outputs = each.workload.output_parts(each.rank)
        inside = each.output <= segments.start[segment]
        inside &= segments.start[segment] < each.output + sum(part.size_bytes for part in outputs)
        if inside:
            parts, start = outputs, each.output
    for part in parts:
        if start == segments.start[segment] and part.size_bytes:
            wrong[holder] = what.format(part.what)
            return
        start += part.size_bytes
