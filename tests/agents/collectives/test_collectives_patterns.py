"""The patterns of the unicast algorithms by themselves, without network: what they write, whatever
the order in which it arrives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import EVERY, name_of
from tests.support.ideal_ranks import Ideal, carry_out
from tests.support.own_options import own_of

from weft.agents.collectives.algorithms.recursive_doubling import Folding
from weft.agents.collectives.algorithms.trees import Tree, k_nomial
from weft.agents.collectives.barrier import barrier_peers
from weft.agents.collectives.names import ALGORITHMS, OPS, VECTORS
from weft.agents.collectives.registry import partners
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import MAX_BLOCKS, Write, block_bytes
from weft.base.errors import ProtocolError

UNICAST = [request for request in EVERY if request.algorithm != "multicast"]
ALL = pytest.mark.parametrize("request_", UNICAST, ids=name_of)
POWERS_OF_TWO = [1, 2, 4, 8, 16]


@given(data=st.data())
def test_everything_arrives_once_in_any_order(data: st.DataObject) -> None:
    request = data.draw(st.sampled_from(UNICAST))
    size = data.draw(st.integers(1, 20), "ranks")
    count = st.integers(0, 40)
    counts: int | tuple[int, ...] = data.draw(count, "count")
    if request.collective not in ("broadcast", *VECTORS) and data.draw(st.booleans()):
        counts = data.draw(st.tuples(*[count] * size), "counts")
    request = replace(
        request,
        counts=counts,
        dtype=data.draw(st.sampled_from(["uint8", "int16", "float32", "float64"]), "dtype"),
        op=data.draw(st.sampled_from(OPS), "op"),
        root=data.draw(st.integers(0, size - 1), "root"),
        own=own_of(
            request.algorithm,
            block_bytes=data.draw(st.sampled_from([0, 1, 16, 33, 1000]), "block bytes"),
            radix=data.draw(st.sampled_from([2, 3, 4, 8]), "radix"),
        ),
    )
    carry_out(request, size, data.draw(st.integers(0, 1 << 30), "order"))


@ALL
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 11, 16, 20])
def test_who_writes_agrees_with_who_expects(request_: Request, size: int) -> None:
    for counts in (0, 1, 50, tuple((7 * rank) % 5 * 10 for rank in range(size))):
        if request_.collective in ("broadcast", *VECTORS) and isinstance(counts, tuple):
            continue
        request = replace(request_, counts=counts, root=size // 2)
        bytes_ = sum(request.shard_bytes(size))
        patterns = Ideal(request, size, [np.zeros(bytes_, np.uint8)] * size, 0).patterns
        for rank, pattern in enumerate(patterns):
            assert rank not in pattern.targets
            assert len(set(pattern.targets)) == len(pattern.targets)
            assert all(pattern.expected.values())
            writers = {other for other in range(size) if rank in patterns[other].targets}
            assert writers == pattern.expected.keys()
            known = partners(request, rank, size) | barrier_peers(rank, size)
            assert {*pattern.expected, *pattern.targets} <= known | {
                (rank + 1) % size, (rank - 1) % size
            }  # fmt: skip


@ALL
@pytest.mark.parametrize("size", range(1, 18))
def test_partners_are_mutual(request_: Request, size: int) -> None:
    for root in {0, size // 3, size - 1}:
        for radix in (2, 3, 8):
            request = replace(request_, root=root, own=own_of(request_.algorithm, radix=radix))
            of = [partners(request, rank, size) for rank in range(size)]
            for rank in range(size):
                assert of[rank] <= set(range(size)) - {rank}
                assert all(rank in of[peer] for peer in of[rank])


@pytest.mark.parametrize("size", range(2, 18))
def test_partners_in_trees_are_no_more_than_those_that_are_written_to(size: int) -> None:
    for request in UNICAST:
        if request.algorithm in ("k-nomial", "binary-tree", "double-binary-tree"):
            request = replace(request, counts=1000, root=size // 2)
            bytes_ = sum(request.shard_bytes(size))
            patterns = Ideal(request, size, [np.zeros(bytes_, np.uint8)] * size, 0).patterns
            for rank, pattern in enumerate(patterns):
                assert partners(request, rank, size) == {*pattern.expected, *pattern.targets}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13, 16])
def test_ring_and_linear_send_each_rank_its_share(size: int) -> None:
    for request in UNICAST:
        if request.algorithm in ("ring", "linear") and request.collective != "allreduce":
            ideal = carry_out(replace(request, counts=50), size)
            assert ideal.sent_bytes == [50 * (size - 1)] * size


@pytest.mark.parametrize("size", POWERS_OF_TWO)
def test_recursive_algorithms_send_no_more_than_the_ring_on_powers_of_two(size: int) -> None:
    for request in UNICAST:
        if request.algorithm.startswith("recursive"):
            ideal = carry_out(replace(request, counts=50), size)
            assert ideal.sent_bytes == [50 * (size - 1)] * size


@pytest.mark.parametrize("size", [1, 2, 3, 6, 9, 16, 20])
@pytest.mark.parametrize("algorithm", ["k-nomial", "binary-tree", "pipelined-ring"])
def test_a_tree_sends_each_child_one_copy(algorithm: str, size: int) -> None:
    tree: Tree = ALGORITHMS[algorithm]
    for radix in (2, 3, 4, 8):
        for root in {0, size - 1}:
            request = Request(
                0, "broadcast", algorithm, 70, root=root, own=own_of(algorithm, radix=radix)
            )
            ideal = carry_out(request, size)
            assert sum(ideal.sent_bytes) == 70 * (size - 1)
            for rank in range(size):
                _, children = tree.place(request, (rank - root) % size, size)
                assert ideal.sent_bytes[rank] == 70 * len(children)


@pytest.mark.parametrize("algorithm", ["k-nomial", "binary-tree", "pipelined-ring"])
def test_a_tree_reaches_every_place_once(algorithm: str) -> None:
    tree: Tree = ALGORITHMS[algorithm]
    for size in range(1, 70):
        for radix in (2, 3, 4, 8):
            request = Request(0, "broadcast", algorithm, 1, own=own_of(algorithm, radix=radix))
            places = [tree.place(request, place, size) for place in range(size)]
            assert places[0][0] is None
            children = [child for _, found in places for child in found]
            assert sorted(children) == list(range(1, size))
            for place, (_, found) in enumerate(places):
                assert all(places[child][0] == place for child in found)


@pytest.mark.parametrize("radix", [2, 3, 4, 8])
def test_a_k_nomial_tree_is_log_k_deep_and_its_root_has_the_most_children(radix: int) -> None:
    for size in range(1, 200):
        rounds = 0
        while radix**rounds < size:
            rounds += 1
        assert len(k_nomial(0, size, radix)[1]) <= rounds * (radix - 1)
        for place in range(size):
            depth, at = 0, place
            while (parent := k_nomial(at, size, radix)[0]) is not None:
                depth, at = depth + 1, parent
            assert at == 0 and depth <= rounds


def test_the_folding_leaves_a_power_of_two_places() -> None:
    for size in range(1, 70):
        folding = Folding(size)
        places = [folding.place(rank) for rank in range(size)]
        taken = [place for place in places if place is not None]
        assert taken == list(range(1 << folding.rounds))
        assert all(folding.rank(place) == places.index(place) for place in taken)
        everyone = folding.ranks(0, folding.rounds)
        assert everyone == range(size)


@pytest.mark.parametrize("algorithm", ["ring", "recursive-halving"])
@pytest.mark.parametrize("size", [2, 3, 5, 8, 12])
def test_float_sums_are_the_same_bits_in_any_order_of_arrival(algorithm: str, size: int) -> None:
    request = Request(0, "reduce-scatter", algorithm, 30, dtype="float32")
    chance = np.random.default_rng(size)
    inputs = [(chance.standard_normal(30 * size) * 1e3).astype("float32") for _ in range(size)]
    results = []
    for seed in range(4):
        ideal = Ideal(request, size, [array.copy().view(np.uint8) for array in inputs], seed)
        ideal.run()
        results.append(b"".join(output.tobytes() for output in ideal.outputs))
    assert len(set(results)) == 1
    total = np.sum(np.array(inputs, "float64"), axis=0)
    assert np.allclose(np.frombuffer(results[0], "float32"), total, rtol=1e-4, atol=1e-2)


@given(data=st.data())
def test_a_block_that_its_writer_may_not_write_is_refused(data: st.DataObject) -> None:
    request = replace(data.draw(st.sampled_from(UNICAST)), counts=50)
    size = data.draw(st.integers(2, 9), "ranks")
    bytes_ = sum(request.shard_bytes(size))
    ideal = Ideal(request, size, [np.zeros(bytes_, np.uint8) for _ in range(size)], 0)
    rank = data.draw(st.integers(0, size - 1), "rank")
    pattern = ideal.patterns[rank]
    peer = data.draw(st.sampled_from([p for p in range(size) if p != rank]), "peer")
    block = data.draw(st.one_of(st.integers(0, 60), st.just(MAX_BLOCKS - 1)), "block")
    allowed = expected_blocks(request, size).get((rank, peer), set())
    if block in allowed:
        pattern.arrived(peer, block)
    elif peer in pattern.expected:  # of others the executor knows that nothing is due
        with pytest.raises(ProtocolError, match=f"block {block}"):
            pattern.arrived(peer, block)


def expected_blocks(request: Request, size: int) -> dict[tuple[int, int], set[int]]:
    """The blocks that are written, by (receiver, sender)."""
    found: dict[tuple[int, int], set[int]] = {}

    class Watched(Ideal):
        def _arrive(self, sender: int, write: Write, data: bytes) -> None:
            found.setdefault((write.peer, sender), set()).add(write.block)
            super()._arrive(sender, write, data)

    bytes_ = sum(request.shard_bytes(size))
    Watched(request, size, [np.zeros(bytes_, np.uint8) for _ in range(size)], 0).run()
    return found


@pytest.mark.parametrize("path_mtu", [256, 4096])
def test_all_blocks_of_recursive_halving_can_be_numbered(path_mtu: int) -> None:
    for size in (2, 3, 7, 8, 1000):
        for shard in (1, 1 << 20, 1 << 32, 1 << 40):
            request = Request(
                0, "reduce-scatter", "recursive-halving", shard, own={"block_bytes": 1}
            )
            block = block_bytes(request, [shard] * size, path_mtu)
            folding = Folding(size)
            areas = [size] if folding.pairs else []
            areas += [len(folding.ranks(0, round_)) for round_ in range(folding.rounds)]
            assert sum(-(-ranks * shard // block) for ranks in areas) <= MAX_BLOCKS
