"""Allreduce by unicast algorithms: the result against numpy and exact arithmetic, the traffic
against theory, alone and on networks that lose packets."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.collective_names import COLLECTIVES
from tests.support.ideal_ranks import Ideal, carry_out
from tests.support.memory_network import Faults
from tests.support.theory_support import OFFLOADED, unicast_rounds

from weft.agents.collectives.algorithms.recursive_doubling import Folding
from weft.agents.collectives.algorithms.trees import double_binary_tree, in_order
from weft.agents.collectives.dtypes import average, dtype_of
from weft.agents.collectives.names import OPS
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import MAX_BLOCKS, block_bytes
from weft.base.errors import InputError

Array = npt.NDArray[np.generic]

UNICAST = [name for name in COLLECTIVES["allreduce"] if name not in OFFLOADED]
ALL = pytest.mark.parametrize("algorithm", UNICAST)
SIZES = [*range(1, 10), 16, 17]
DTYPES = ["float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "int8", "int16"]


def reduce_arrays(request: Request, inputs: Sequence[Array], seed: int = 0) -> list[Array]:
    """What each rank ends with, by ranks without a network."""
    arrays = [array.copy().view(np.uint8) for array in inputs]
    ideal = Ideal(replace(request, counts=len(inputs[0])), len(inputs), arrays, seed)
    ideal.run()
    for array, before in zip(arrays, inputs, strict=True):
        assert array.tobytes() == before.tobytes(), "the contribution is only read"
    return [output.view(dtype_of(request.dtype)) for output in ideal.outputs]


@ALL
@pytest.mark.parametrize("size", SIZES)
def test_every_dtype_and_operation_at_every_number_of_ranks(algorithm: str, size: int) -> None:
    counts = [0, 1, 2, size - 1, size, size + 1, 3 * size + 2, 100]
    for number, (dtype, op) in enumerate(itertools.product(DTYPES, OPS)):
        count = counts[number % len(counts)]
        carry_out(Request(0, "allreduce", algorithm, count, dtype=dtype, op=op), size, number)


@ALL
@pytest.mark.parametrize("size", SIZES)
def test_every_size_of_vector(algorithm: str, size: int) -> None:
    counts = range(2 * size) if size < 10 else [0, 1, size - 1, size, size + 1, 2 * size - 1]
    for count in [*counts, 257]:
        carry_out(Request(0, "allreduce", algorithm, count, dtype="int16"), size, count)


@given(data=st.data())
def test_any_order_of_arrival_gives_the_result(data: st.DataObject) -> None:
    request = Request(
        0,
        "allreduce",
        data.draw(st.sampled_from(UNICAST), "algorithm"),
        data.draw(st.integers(0, 400), "count"),
        dtype=data.draw(st.sampled_from(DTYPES), "dtype"),
        op=data.draw(st.sampled_from(OPS), "op"),
        own={"block_bytes": data.draw(st.sampled_from([None, 1, 16, 33, 1000]), "block bytes")},
    )
    size = data.draw(st.integers(1, 20), "ranks")
    carry_out(request, size, data.draw(st.integers(0, 1 << 30), "order"))


@ALL
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [2, 3, 5, 8, 12])
def test_sums_are_the_same_bits_on_all_ranks_and_in_any_order_of_arrival(
    algorithm: str, dtype: str, size: int
) -> None:
    chance = np.random.default_rng(size)
    inputs = [(chance.standard_normal(90) * 10).astype(dtype_of(dtype)) for _ in range(size)]
    for op in ("sum", "average"):
        request = Request(0, "allreduce", algorithm, 90, dtype=dtype, op=op)
        results = [
            result.tobytes() for seed in range(3) for result in reduce_arrays(request, inputs, seed)
        ]
        assert len(set(results)) == 1
        exact = np.sum([array.astype("float64") for array in inputs], axis=0)
        exact = exact / size if op == "average" else exact
        found = np.frombuffer(results[0], dtype_of(dtype)).astype("float64")
        close = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}[dtype]
        assert np.all(np.abs(found - exact) <= close * 10 * size / (size if op == "average" else 1))


def ring_order(part: int, size: int) -> list[int]:
    return [(part + 1 + step) % size for step in range(size)]


@pytest.mark.parametrize("size", [2, 3, 7, 8])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_ring_adds_from_the_rank_behind_the_owner_around_to_the_owner(
    size: int, dtype: str
) -> None:
    kind = dtype_of(dtype)
    chance = np.random.default_rng(1)
    count = 10 * size + 3
    inputs = [chance.standard_normal(count).astype(kind) for _ in range(size)]
    result = reduce_arrays(Request(0, "allreduce", "ring", 0, dtype=dtype), inputs)[0]
    parts = np.array_split(np.arange(count), size)
    for part, places in enumerate(parts):
        expected = functools.reduce(
            np.add, (inputs[rank][places] for rank in ring_order(part, size))
        )
        assert result[places].tobytes() == expected.astype(kind).tobytes()


@pytest.mark.parametrize("size", range(1, 18))
def test_two_trees_add_own_then_first_then_second_child(size: int) -> None:
    chance = np.random.default_rng(size)
    inputs = [chance.standard_normal(41).astype("float32") for _ in range(size)]
    request = Request(0, "allreduce", "double-binary-tree", 0, dtype="float32")
    result = reduce_arrays(request, inputs)[0]

    def total(tree: int, rank: int, places: slice) -> Array:
        sums = [total(tree, child, places) for child in double_binary_tree(tree, rank, size)[1]]
        return functools.reduce(np.add, [inputs[rank][places], *sums])

    for tree, places in enumerate([slice(0, 21), slice(21, 41)]):
        roots = [rank for rank in range(size) if double_binary_tree(tree, rank, size)[0] is None]
        assert len(roots) == 1
        assert result[places].tobytes() == total(tree, roots[0], places).tobytes()


@ALL
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_an_average_of_integers_truncates_toward_zero(
    algorithm: str, dtype: str, size: int
) -> None:
    limits = np.iinfo(dtype)
    chance = np.random.default_rng(size)
    inputs = [
        chance.integers(limits.min // size, limits.max // size, 60, dtype, endpoint=True)
        for _ in range(size)
    ]
    result = reduce_arrays(Request(0, "allreduce", algorithm, 0, dtype=dtype, op="average"), inputs)
    sums = [sum(int(array[place]) for array in inputs) for place in range(60)]
    assert [int(value) for value in result[0]] == [int(Fraction(one, size)) for one in sums]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "int64"])
def test_an_average_may_be_of_more_ranks_than_its_type_can_count(dtype: str) -> None:
    limits = np.iinfo(dtype)
    total = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype)
    expected = [int(Fraction(int(value), 300)) for value in total]
    average(total, 300)
    assert [int(value) for value in total] == expected


@pytest.mark.parametrize("algorithm", ["ring", "recursive-halving"])
@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatter_averages_and_takes_half_types(algorithm: str, size: int) -> None:
    for dtype in ("bfloat16", "float16", "float32", "int32", "int8"):
        request = Request(0, "reduce-scatter", algorithm, 13, dtype=dtype, op="average")
        carry_out(request, size)
        carry_out(replace(request, op="sum"), size)


@ALL
@pytest.mark.parametrize("size", SIZES)
def test_every_rank_writes_what_theory_says(algorithm: str, size: int) -> None:
    for count in (0, 5, 163):
        request = Request(0, "allreduce", algorithm, count, dtype="int32")
        expected = np.zeros(size, np.int64)
        for source, _, size_bytes in unicast_rounds(
            "allreduce", algorithm, request.shard_bytes(size), dtype="int32"
        ):
            np.add.at(expected, source, size_bytes)
        assert carry_out(request, size).sent_bytes == expected.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_a_ring_and_halving_send_twice_all_but_one_part(size: int) -> None:
    length = 4 * 7 * size
    for algorithm in ("ring", "halving-doubling"):
        if algorithm == "ring" or not Folding(size).pairs:
            request = Request(0, "allreduce", algorithm, length // 4, dtype="int32")
            share = 2 * (length - length // size)
            assert carry_out(request, size).sent_bytes == [share] * size


@pytest.mark.parametrize("size", range(2, 34))
def test_two_trees_send_no_more_than_twice_the_vector(size: int) -> None:
    sent = carry_out(Request(0, "allreduce", "double-binary-tree", 100), size).sent_bytes
    assert sum(sent) == 2 * 100 * (size - 1)
    assert max(sent) <= 2 * 100


def test_two_trees_reach_every_rank_and_nobody_is_inner_in_both() -> None:
    for size in range(1, 100):
        for tree in (0, 1):
            links = [double_binary_tree(tree, rank, size) for rank in range(size)]
            children = [child for _, found in links for child in found]
            assert len(set(children)) == len(children) == size - 1
            assert all(links[child][0] == rank for rank in range(size) for child in links[rank][1])
            assert all(len(found) <= 2 for _, found in links)
            for start in range(size):
                rank, depth = start, 0
                while (parent := links[rank][0]) is not None:
                    rank, depth = parent, depth + 1
                assert depth < size.bit_length()
        inner = [
            sum(bool(double_binary_tree(tree, rank, size)[1]) for tree in (0, 1))
            for rank in range(size)
        ]
        assert max(inner) <= 1


def test_the_in_order_tree_is_in_order() -> None:
    def places(place: int, size: int) -> list[int]:
        parent_children = in_order(place, size)[1]
        before = [child for child in parent_children if child < place]
        after = [child for child in parent_children if child > place]
        assert len(before) <= 1 and len(after) <= 1
        return [
            *itertools.chain.from_iterable(places(child, size) for child in before),
            place,
            *itertools.chain.from_iterable(places(child, size) for child in after),
        ]

    for size in range(1, 70):
        (root,) = [place for place in range(size) if in_order(place, size)[0] is None]
        assert places(root, size) == list(range(size))
        assert all(bool(in_order(place, size)[1]) == bool(place % 2) for place in range(size))


@ALL
def test_all_blocks_can_be_numbered(algorithm: str) -> None:
    for size in (2, 3, 7, 8, 1000):
        for count in (size, 1 << 20, 1 << 32, 1 << 42):
            request = Request(0, "allreduce", algorithm, count, own={"block_bytes": 1})
            parts = {"ring": size, "halving-doubling": 1 << Folding(size).rounds}.get(algorithm, 2)
            sizes = request.shard_bytes(parts)
            block = block_bytes(request, sizes, 4096)
            assert 3 * sum(-(-part // block) for part in sizes) <= MAX_BLOCKS


@ALL
@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("fault", ["lose", "duplicate", "late"])
def test_anything_may_happen_to_any_single_packet(algorithm: str, size: int, fault: str) -> None:
    request = Request(0, "allreduce", algorithm, 40, dtype="float32", op="average")
    faults = Faults()
    Group(size, faults=faults).complete(request)
    assert faults._number >= 2 * size
    for number in range(faults._number):
        one = Faults(late_ns=5_000_000, **{fault: {number}})  # type: ignore[arg-type]
        Group(size, faults=one).complete(request, timeout_ns=1_000_000_000)


@settings(derandomize=True)
@given(data=st.data())
def test_random_faults_are_survived_by_several_at_once(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 9), "ranks")
    faults = Faults(
        loss=data.draw(st.sampled_from([0.0, 0.01, 0.05, 0.15]), "loss"),
        duplication=data.draw(st.sampled_from([0.0, 0.05]), "duplication"),
        corruption=data.draw(st.sampled_from([0.0, 0.02]), "corruption"),
        lateness=data.draw(st.sampled_from([0.0, 0.1]), "lateness"),
        late_ns=data.draw(st.sampled_from([50_000, 500_000, 20_000_000]), "how late"),
        seed=data.draw(st.integers(0, 1000), "seed"),
    )
    requests = [
        Request(
            0,
            "allreduce",
            data.draw(st.sampled_from(UNICAST), "algorithm"),
            data.draw(st.integers(0, 2000), "count"),
            dtype=data.draw(st.sampled_from(DTYPES), "dtype"),
            op=data.draw(st.sampled_from(OPS), "op"),
        )
        for _ in range(data.draw(st.integers(1, 3), "operations"))
    ]
    Group(size, faults=faults).complete(*requests, timeout_ns=20_000_000_000)


@pytest.mark.parametrize(
    ("algorithm", "most"),
    [("ring", 1.03), ("halving-doubling", 1.04), ("double-binary-tree", 1.25)],
)
def test_links_are_busy_all_the_time(algorithm: str, most: float) -> None:
    """Against 2 L (P - 1) / P, in virtual time; packets have 2 % of headers."""
    size, length = 8, 1 << 20
    group = Group(size, rate_bps=100_000_000, path_mtu=4096, queue_bytes=512 * 1024, delay_ns=0)
    group.complete(Request(0, "allreduce", algorithm, length // 4, dtype="float32"))
    least_ns = 2 * length * (size - 1) // size * 8 * 10
    assert least_ns <= group.duration_ns <= most * least_ns
    assert not any(agent.endpoint.statistics.retransmitted_packets for agent in group.agents)


def test_a_result_has_an_array_of_its_own() -> None:
    group = Group(2)
    request = Request(0, "allreduce", "ring", 10, dtype="float32")
    vector = np.zeros(10, "float32")
    for output, message in (
        (None, "pass the array for the result"),
        (vector, "overlap"),
        (np.zeros(5, "float32"), "5 elements; 10 are needed"),
        (np.zeros(10, "float64"), "its elements are float64"),
    ):
        with pytest.raises(InputError, match=message):
            group.agents[0].start(request, vector, 0, output)
