"""Who sends how many bytes to whom, as arrays: what theory says of an algorithm's traffic."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Sizing = Callable[[IntArray], IntArray]
"""From bytes of payload that are cut into packets together to the bytes that are to be counted."""


class Transfers(NamedTuple):
    """Messages between pairs of members: int64 arrays of one length.

    In one round a rank is the source of at most one message of an exchange, and the destination of
    at most one; in a tree it may be the source of several.
    """

    source: IntArray
    destination: IntArray
    size_bytes: IntArray


def payload(size_bytes: IntArray) -> IntArray:
    """Return sizes as they are: this `Sizing` counts payload alone."""
    return size_bytes


def placed(rounds: Iterable[Transfers], hosts: Sequence[int] | IntArray) -> Iterator[Transfers]:
    """Yield messages between members as those between their hosts, given by number for each member.

    What stays on a host is nothing.
    """
    host = np.asarray(hosts, np.int64)
    for source, destination, size_bytes in rounds:
        ends = host[source], host[destination]
        yield Transfers(*ends, size_bytes * (ends[0] != ends[1]))


def together(parts: Sequence[Transfers]) -> Transfers:
    """Return several rounds as one."""
    return Transfers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def at_once(rounds: Iterable[Transfers], each: int) -> Iterator[Transfers]:
    """Yield the rounds of a direct exchange, so many at a time in one step."""
    left = iter(rounds)
    while some := list(itertools.islice(left, each)):
        yield together(some)


def even_parts(size_bytes: int, parts: int, item_bytes: int = 1) -> IntArray:
    """Return bytes of nearly equal parts of a vector: the first have one element more, int64
    [parts]."""
    each, more = divmod(size_bytes // item_bytes, parts)
    return (each + (np.arange(parts, dtype=np.int64) < more)) * item_bytes


def to_all(sizes: IntArray) -> Iterator[Transfers]:
    """Yield the rounds in which every rank sends its shard to every other."""
    ranks = np.arange(len(sizes), dtype=np.int64)
    for distance in range(1, len(sizes)):
        yield Transfers(ranks, np.roll(ranks, -distance), sizes)


def to_owners(sizes: IntArray) -> Iterator[Transfers]:
    """Yield the rounds in which every rank sends to every other what is that one's of its
    vector."""
    ranks = np.arange(len(sizes), dtype=np.int64)
    for distance in range(1, len(sizes)):
        yield Transfers(ranks, np.roll(ranks, -distance), np.roll(sizes, -distance))


def folded(ranks: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (even ranks that leave, odd ones that stand in for them, the 2^q that take part).

    P = Q + rem, Q = 2^q: of the first 2 rem ranks the even ones leave.
    """
    rest = ranks - (1 << ranks.bit_length() - 1)
    paired = np.arange(2 * rest, dtype=np.int64)
    odds = paired[1::2]
    return paired[::2], odds, np.concatenate([odds, np.arange(2 * rest, ranks, dtype=np.int64)])


def exchanges(active: IntArray, held: IntArray) -> Iterator[Transfers]:
    """Yield rounds: in round i a place exchanges all that it has with the one 2^i away."""
    places = np.arange(len(active), dtype=np.int64)
    for round_ in range(len(active).bit_length() - 1):
        partners = places ^ 1 << round_
        yield Transfers(active, active[partners], held)
        held = held + held[partners]


def critical_path_bytes(ranks: int, rounds: Iterable[Transfers]) -> int:
    """Return the least time of rounds of pairwise exchanges, in bytes that one link could carry
    meanwhile.

    A rank may send in a round when it has all that comes to it in the rounds before. Its uplink
    carries its messages since then one after the other; its downlink has carried all that came.
    """
    ready = np.zeros(ranks, np.int64)
    busy = np.zeros(ranks, np.int64)
    received = np.zeros(ranks, np.int64)
    for each in rounds:
        sent = each.size_bytes > 0
        source, destination, size_bytes = (column[sent] for column in each)
        begin = ready[source]
        busy[source] = np.maximum(busy[source], begin) + size_bytes
        received[destination] += size_bytes
        arrived = np.maximum(begin + size_bytes, received[destination])
        ready[destination] = np.maximum(ready[destination], arrived)
    return int(max(busy.max(), ready.max()))


def link_bytes(hosts: int, rounds: Iterable[Transfers]) -> IntArray:
    """Return what every host's link carries up and down, int64 [2, hosts]."""
    links = np.zeros((2, hosts), np.int64)
    for source, destination, size_bytes in rounds:
        np.add.at(links[0], source, size_bytes)
        np.add.at(links[1], destination, size_bytes)
    return links


def fullest_link_bytes(hosts: int, rounds: Iterable[Transfers]) -> int:
    """Return the most that any host's link carries in one direction."""
    return int(link_bytes(hosts, rounds).max())
