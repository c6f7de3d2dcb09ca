"""The unicast algorithms acted out rank by rank, for the tests of what theory says of them.

Every function moves shards, or sums of them, as the algorithm's definition has it, asserts that in
the end all ranks have what the collective promises, and returns all messages in the order in which
they were sent: (source, destination, bytes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Message = tuple[int, int, int]


def messages_of(
    collective: str, algorithm: str, shards: Sequence[int], root: int = 0, radix: int = 2
) -> list[Message]:
    """All messages of one operation. Of an Allreduce, shards are parts of the vector."""
    if collective == "broadcast":
        ranks = len(shards)
        return [
            ((source + root) % ranks, (destination + root) % ranks, shards[root])
            for source, destination in tree_edges(algorithm, ranks, radix)
        ]
    if collective == "many-to-one":
        return [(rank, root, shard) for rank, shard in enumerate(shards) if rank != root]
    act = {
        ("allgather", "ring"): ring_allgather,
        ("allgather", "linear"): linear_allgather,
        ("allgather", "recursive-doubling"): recursive_doubling,
        ("allgather", "swing"): swing,
        ("allgather", "pat"): pat,
        ("reduce-scatter", "ring"): ring_reduce_scatter,
        ("reduce-scatter", "recursive-halving"): recursive_halving,
        ("allreduce", "ring"): ring_allreduce,
        ("allreduce", "halving-doubling"): halving_doubling,
        ("allreduce", "double-binary-tree"): double_binary_tree,
        ("allreduce", "direct"): direct_allreduce,
        ("alltoall", "direct"): everyone_to_owners,
    }[collective, algorithm]
    return act(shards)


def ring_allgather(shards: Sequence[int]) -> list[Message]:
    ranks = len(shards)
    has = [{rank} for rank in range(ranks)]
    messages = []
    for step in range(ranks - 1):
        for rank in range(ranks):
            shard, after = (rank - step) % ranks, (rank + 1) % ranks
            assert shard in has[rank] and shard not in has[after]
            has[after].add(shard)
            messages.append((rank, after, shards[shard]))
    assert all(len(found) == ranks for found in has)
    return messages


def pat(shards: Sequence[int]) -> list[Message]:
    """Each shard goes down its binomial tree: the rank d places behind its owner gets it from the
    one that has the lowest bit of d less."""
    ranks = len(shards)
    has = [{rank} for rank in range(ranks)]
    messages = []
    bits = [1 << bit for bit in range(ranks.bit_length()) if 1 << bit < ranks]
    for bit in reversed(bits):
        moved = []
        for rank in range(ranks):
            after = (rank + bit) % ranks
            shards_sent = [
                (rank - far) % ranks
                for far in range(ranks)
                if far & -far > bit or not far
                if far + bit < ranks
            ]
            assert has[rank].issuperset(shards_sent)
            assert not has[after].intersection(shards_sent)
            moved.append((after, shards_sent))
            messages.append((rank, after, sum(shards[shard] for shard in shards_sent)))
        for after, shards_sent in moved:
            has[after].update(shards_sent)
    assert all(len(found) == ranks for found in has)
    return messages


def swing(shards: Sequence[int]) -> list[Message]:
    """Distances 1, -1, 3, -5, 11, ...: each the one before, times -2, plus 1."""
    ranks = len(shards)
    pairs, active = _fold(ranks)
    has = [{rank} for rank in range(ranks)]
    messages = []
    distances = [1]
    while 1 << len(distances) < len(active):
        distances.append(1 - 2 * distances[-1])

    def send(source: int, destination: int, what: set[int]) -> None:
        has[destination] |= what
        messages.append((source, destination, sum(shards[shard] for shard in what)))

    for even, odd in pairs:
        send(even, odd, {even})
    for distance in reversed(distances if len(active) > 1 else []):
        before = [set(found) for found in has]
        for place, rank in list(enumerate(active))[::2]:
            other = active[(place + distance) % len(active)]
            assert not before[rank] & before[other], "sent once"
            send(rank, other, before[rank])
            send(other, rank, before[other])
    for even, odd in pairs:
        send(odd, even, set(range(ranks)) - {even})
    assert all(len(found) == ranks for found in has)
    return messages


def linear_allgather(shards: Sequence[int]) -> list[Message]:
    everyone = range(len(shards))
    return [(one, other, shards[one]) for one in everyone for other in everyone if one != other]


def everyone_to_owners(shards: Sequence[int]) -> list[Message]:
    """Of everybody's vector, each its own."""
    everyone = range(len(shards))
    return [(one, other, shards[other]) for one in everyone for other in everyone if one != other]


def direct_allreduce(shards: Sequence[int]) -> list[Message]:
    return everyone_to_owners(shards) + linear_allgather(shards)


def ring_reduce_scatter(shards: Sequence[int]) -> list[Message]:
    ranks = len(shards)
    added = [{shard: {rank} for shard in range(ranks)} for rank in range(ranks)]
    messages = []
    for step in range(ranks - 1):
        for rank in range(ranks):
            shard, after = (rank - step - 1) % ranks, (rank + 1) % ranks
            assert len(added[rank][shard]) == step + 1
            added[after][shard] |= added[rank][shard]
            messages.append((rank, after, shards[shard]))
    assert all(len(added[rank][rank]) == ranks for rank in range(ranks))
    return messages


def ring_allreduce(shards: Sequence[int]) -> list[Message]:
    return ring_reduce_scatter(shards) + ring_allgather(shards)


def halving_doubling(shards: Sequence[int]) -> list[Message]:
    ranks = len(shards)
    pairs, active = _fold(ranks)
    parts = [len(part) for part in np.array_split(np.zeros(sum(shards)), len(active))]
    everything = list(range(len(parts)))
    added = [{part: {rank} for part in everything} for rank in range(ranks)]
    messages = []

    def send(source: int, destination: int, what: Sequence[int], whole: bool) -> None:
        for part in what:
            if whole:
                assert added[source][part] == set(range(ranks))
                added[destination][part] = set(range(ranks))
            else:
                assert not added[source][part] & added[destination][part], "added once"
                added[destination][part] |= added[source][part]
        messages.append((source, destination, sum(parts[part] for part in what)))

    def exchange(places: list[int]) -> None:
        half = len(places) // 2
        if not half:
            return
        left, right = places[:half], places[half:]
        for one, other in zip(left, right, strict=True):
            send(active[one], active[other], right, False)
            send(active[other], active[one], left, False)
        exchange(left)
        exchange(right)
        for one, other in zip(left, right, strict=True):
            send(active[one], active[other], left, True)
            send(active[other], active[one], right, True)

    for even, odd in pairs:
        send(even, odd, everything, False)
    exchange(everything)
    for even, odd in pairs:
        send(odd, even, everything, True)
    assert all(found == set(range(ranks)) for held in added for found in held.values())
    return messages


def double_binary_tree(shards: Sequence[int]) -> list[Message]:
    """Trees by the bits of a place counted from 1: the lowest that is set is its height; one level
    up it is cleared and the next is set, as often as that is above P."""
    ranks, messages = len(shards), []
    inner: list[set[int]] = []
    for tree, half in enumerate((-(-sum(shards) // 2), sum(shards) // 2)):
        added = {place: {place} for place in range(1, ranks + 1)}
        edges = []
        for place in sorted(added, key=lambda place: place & -place):
            above, bit = place, place & -place
            while above == place or (above > ranks and bit <= ranks):
                above, bit = (above & ~bit) | bit << 1, bit << 1
            if above <= ranks:
                assert not added[place] & added[above]
                edges.append((place, above))
        # Highest places last: a place's children have sent before it does.
        for place, above in edges:
            added[above] |= added[place]
        assert max(len(found) for found in added.values()) == ranks
        inner.append(set())
        for place, above in edges:
            child, parent = (
                place - 1 if not tree else ranks - place if ranks % 2 == 0 else place % ranks
                for place in (place, above)
            )
            inner[tree].add(parent)
            messages += [(child, parent, half), (parent, child, half)]
    assert not inner[0] & inner[1], "a rank has children in one tree at most"
    return messages


def recursive_doubling(shards: Sequence[int]) -> list[Message]:
    ranks = len(shards)
    has = [{rank} for rank in range(ranks)]
    messages = []

    def send(source: int, destination: int, what: set[int]) -> None:
        assert not what & has[destination], "nothing comes twice"
        messages.append((source, destination, sum(shards[shard] for shard in what)))

    pairs, active = _fold(ranks)
    for even, odd in pairs:
        send(even, odd, has[even])
        has[odd] |= has[even]
    groups = [[rank] for rank in active]
    while len(groups) > 1:
        joined = []
        for left, right in zip(groups[::2], groups[1::2], strict=True):
            for one, other in zip(left, right, strict=True):
                mine, theirs = set(has[one]), set(has[other])
                send(one, other, mine)
                send(other, one, theirs)
                has[one], has[other] = mine | theirs, mine | theirs
            joined.append(left + right)
        groups = joined
    for even, odd in pairs:
        send(odd, even, has[odd] - has[even])
        has[even] = set(has[odd])
    assert all(len(found) == ranks for found in has)
    return messages


def recursive_halving(shards: Sequence[int]) -> list[Message]:
    ranks = len(shards)
    added = [{shard: {rank} for shard in range(ranks)} for rank in range(ranks)]
    messages = []

    def send(source: int, destination: int, what: Sequence[int]) -> None:
        for shard in what:
            assert not added[source][shard] & added[destination][shard], "added once"
            added[destination][shard] |= added[source].pop(shard)
        messages.append((source, destination, sum(shards[shard] for shard in what)))

    pairs, active = _fold(ranks)
    keeps = {rank: [rank] for rank in active}
    for even, odd in pairs:
        send(even, odd, range(ranks))
        keeps[odd] = [even, odd]

    def halve(group: list[int]) -> None:
        half = len(group) // 2
        if not half:
            return
        left, right = group[:half], group[half:]
        for one, other in zip(left, right, strict=True):
            theirs = [shard for rank in right for shard in keeps[rank]]
            mine = [shard for rank in left for shard in keeps[rank]]
            send(one, other, theirs)
            send(other, one, mine)
        halve(left)
        halve(right)

    halve(active)
    for even, odd in pairs:
        added[even][even] = set()
        send(odd, even, [even])
    assert all(len(added[rank][rank]) == ranks for rank in range(ranks))
    return messages


def tree_edges(algorithm: str, ranks: int, radix: int) -> list[tuple[int, int]]:
    """(parent, child) of all places but the root's; a parent's children in the order of service."""
    edges: list[tuple[int, int]] = []
    if algorithm == "pipelined-ring":
        edges = [(place, place + 1) for place in range(ranks - 1)]
    elif algorithm == "binary-tree":
        waiting, free = [0], iter(range(1, ranks))
        while waiting:
            parent = waiting.pop(0)
            for _, child in zip(range(2), free, strict=False):
                edges.append((parent, child))
                waiting.append(child)
    else:
        reached = [0]
        distance = 1
        while distance * radix < ranks:
            distance *= radix
        while distance:
            for parent in tuple(reached):
                for child in range(parent + distance, parent + radix * distance, distance):
                    if child < ranks:
                        edges.append((parent, child))
                        reached.append(child)
            distance //= radix
    assert sorted(child for _, child in edges) == list(range(1, ranks))
    return edges


def _fold(ranks: int) -> tuple[list[tuple[int, int]], list[int]]:
    power = 1
    while power * 2 <= ranks:
        power *= 2
    pairs = [(2 * pair, 2 * pair + 1) for pair in range(ranks - power)]
    return pairs, [rank for rank in range(ranks) if rank not in {even for even, _ in pairs}]
