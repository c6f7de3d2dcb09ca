"""Fused operators before anything is sent: their tiles, what these are made of, and what their
results must be."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fused_support import SMALL, operators, plainly, sizes, small

from weft.agents.operators.gemm_all_to_all import MOST_JOINED, GemmAllToAll
from weft.agents.operators.operator import Operator, Sizes
from weft.agents.operators.registry import OPERATORS, operator_named
from weft.base.errors import InputError
from weft.experiments.families.fused.names import OPERATORS as NAMES

Floats = npt.NDArray[np.float32]
EACH = pytest.mark.parametrize("name", [*OPERATORS])


def filled(bytes_: int) -> Floats:
    """Room in which nothing has been written."""
    assert bytes_ % 4 == 0
    return np.full(bytes_ // 4, np.nan, np.float32)


def gathered(operator: Operator, rank: int, number: int) -> Floats:
    """What a rank has of others when all inputs have come."""
    found = filled(operator.gathered_bytes(rank))
    for each in operator.inputs:
        assert each.source not in each.destinations
        assert len({*each.destinations}) == len(each.destinations) == len(each.targets)
        theirs = operator.own_inputs(each.source, number)
        assert theirs.nbytes == operator.input_bytes(each.source)
        for destination, target in zip(each.destinations, each.targets, strict=True):
            if destination == rank:
                piece = theirs[each.first // 4 : (each.first + each.size_bytes) // 4]
                place = slice(target // 4, (target + each.size_bytes) // 4)
                assert each.size_bytes == piece.nbytes > 0
                assert found[place].nbytes == each.size_bytes, "it is outside of what is gathered"
                assert np.isnan(found[place]).all(), "two inputs at one place"
                found[place] = piece
    return found


def by_hand(operator: Operator, number: int) -> list[Floats]:
    """All ranks' results: compute every tile, bring it to its owner, and add or finish there."""
    ranks = range(operator.ranks)
    parts = operator.ranks if operator.adds else 1
    landed = [
        [filled(operator.landing_bytes(rank)) for _ in range(parts)] for rank in ranks
    ]  # by owner, and where tiles are added by who has computed them
    for rank in ranks:
        own, others = operator.own_inputs(rank, number), gathered(operator, rank, number)
        for place, tile in enumerate(operator.tiles(rank)):
            values = operator.compute(rank, number, place, own, others)
            assert values.dtype == np.float32 and values.ndim == 1
            assert values.nbytes == tile.size_bytes > 0
            assert np.isfinite(values).all(), "it is made of an input that has not come"
            into = landed[tile.owner][rank if operator.adds else 0]
            run = slice(tile.first // 4, (tile.first + tile.size_bytes) // 4)
            assert into[run].nbytes == tile.size_bytes, "the tile is outside its owner's part"
            assert np.isnan(into[run]).all(), "two tiles at one place"
            into[run] = values
    for rank in ranks:
        assert not any(np.isnan(part).any() for part in landed[rank]), "no tile covers a place"
    if operator.adds:
        sums = [np.add.reduce(landed[rank]) for rank in ranks]
        if operator.finishes:
            return [operator.finish(rank, number, sums[rank]) for rank in ranks]
        return [np.concatenate(sums) if operator.gives else sums[rank] for rank in ranks]
    if operator.finishes:
        return [operator.finish(rank, number, landed[rank][0]) for rank in ranks]
    return [landed[rank][0] for rank in ranks]


def check(operator: Operator, number: int = 0) -> None:
    for rank, result in enumerate(by_hand(operator, number)):
        expected = operator.expected(rank, number)
        assert result.nbytes == operator.result_bytes(rank)
        assert expected.dtype == result.dtype == np.float32
        assert expected.tolist() == plainly(operator, rank, number).tolist()
        assert result.tolist() == expected.tolist()


@given(operators(combines=True), st.integers(0, 3))
def test_tiles_cover_what_lands_once_and_make_what_is_expected(
    operator: Operator, number: int
) -> None:
    check(operator, number)


@EACH
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_larger_ones_on_powers_of_two(name: str, ranks: int) -> None:
    check(OPERATORS[name](small(name), ranks, seed=1))


@EACH
def test_a_single_number_is_a_tile(name: str) -> None:
    ones: dict[str, Any] = dict.fromkeys(SMALL[name], 1)
    operator = OPERATORS[name](Sizes(**ones), 1, seed=0)
    assert len(operator.tiles(0)) == 1 and operator.result_bytes(0) == 4
    check(operator)


@given(operators(combines=True))
def test_tiles_of_an_owner_follow_each_other_and_so_do_their_bytes(operator: Operator) -> None:
    for rank in range(operator.ranks):
        tiles = operator.tiles(rank)
        assert [tile.owner for tile in tiles] == sorted(tile.owner for tile in tiles)
        for one, other in pairwise(tiles):
            assert other.owner != one.owner or other.first >= one.first + one.size_bytes
            if operator.adds and other.owner == one.owner:
                assert other.first == one.first + one.size_bytes


@given(operators(combines=True))
def test_a_tile_needs_inputs_that_come_to_its_rank(operator: Operator) -> None:
    for rank in range(operator.ranks):
        for tile in operator.tiles(rank):
            assert 0 <= tile.source < operator.ranks
            for need in tile.needs:
                assert rank in operator.inputs[need].destinations
        used = {need for tile in operator.tiles(rank) for need in tile.needs}
        come = {n for n, each in enumerate(operator.inputs) if rank in each.destinations}
        assert used == come, "an input comes that no tile needs"


@given(operators(combines=True), st.data())
def test_a_tile_is_made_of_what_it_needs_alone(operator: Operator, data: st.DataObject) -> None:
    """All other inputs may still be on the way: not a number in their place changes nothing."""
    rank = data.draw(st.integers(0, operator.ranks - 1), "rank")
    tiles = operator.tiles(rank)
    if not tiles:
        return
    number = data.draw(st.integers(0, len(tiles) - 1), "tile")
    own, whole = operator.own_inputs(rank, 0), gathered(operator, rank, 0)
    there = np.full_like(whole, np.nan)
    for need in tiles[number].needs:
        each = operator.inputs[need]
        first = each.targets[each.destinations.index(rank)] // 4
        there[first : first + each.size_bytes // 4] = whole[first : first + each.size_bytes // 4]
    found = operator.compute(rank, 0, number, own, there)
    assert found.tolist() == operator.compute(rank, 0, number, own, whole).tolist()


@EACH
def test_seed_operation_and_rank_make_other_numbers(name: str) -> None:
    def result(seed: int, rank: int, number: int) -> bytes:
        return OPERATORS[name](small(name), 4, seed).expected(rank, number).tobytes()

    assert result(1, 0, 0) == result(1, 0, 0)
    assert result(1, 0, 0) != result(2, 0, 0)
    assert result(1, 0, 0) != result(1, 0, 1)
    if not OPERATORS[name].gives:
        assert result(1, 0, 0) != result(1, 1, 0)
    assert len(set(np.frombuffer(result(1, 0, 0), np.float32).tolist())) > 10


@EACH
def test_what_tiles_compute_does_not_depend_on_how_they_are_cut(name: str) -> None:
    flops, results = set(), set()
    for tile_rows in (1, 2, 4):
        operator = OPERATORS[name](small(name, tile_rows=tile_rows), 4, seed=3)
        flops.add(tuple(sum(tile.flops for tile in operator.tiles(rank)) for rank in range(4)))
        results.add(tuple(result.tobytes() for result in by_hand(operator, 0)))
        assert all(tile.memory_bytes > tile.size_bytes for tile in operator.tiles(0))
    assert len(flops) == len(results) == 1


@EACH
def test_an_operator_is_gone_with_its_last_reference(name: str) -> None:
    """Its weights may be gigabytes, of which the garbage collector knows nothing."""
    operator = OPERATORS[name](small(name), 2, seed=0)
    check(operator)
    gone = ref(operator)
    gc.disable()
    try:
        del operator
        assert gone() is None
    finally:
        gc.enable()


def test_flops_are_those_of_the_textbook() -> None:
    def flops(name: str, **more: Any) -> int:
        operator = OPERATORS[name](small(name, **more), 4, seed=0)
        return sum(tile.flops for rank in range(4) for tile in operator.tiles(rank))

    assert flops("embedding-all-to-all") == 64 * 8 * 3 * 16
    assert flops("gemv-allreduce") == 2 * 4 * 128 * 64
    assert flops("gemm-all-to-all") == 2 * 64 * 2 * 16 * 24
    assert flops("all-gather-matmul") == 2 * 64 * 32 * 48
    assert flops("matmul-reduce-scatter") == 2 * 64 * 40 * 32


# -- experts


def routed(operator: Operator) -> npt.NDArray[np.int64]:
    """The experts of each token."""
    assert isinstance(operator, GemmAllToAll)
    return operator._routes


@given(st.integers(1, 4), st.data())
def test_a_token_goes_to_as_many_experts_as_are_asked_and_to_none_twice(
    ranks: int, data: st.DataObject
) -> None:
    operator = OPERATORS["gemm-all-to-all"](data.draw(sizes("gemm-all-to-all", ranks)), ranks, 1)
    for experts in routed(operator).tolist():
        assert len({*experts}) == operator.sizes.top_k
        assert set(experts) <= set(range(operator.sizes.experts))


def test_uneven_experts_get_uneven_tokens_and_an_expert_may_get_none() -> None:
    def tokens(imbalance: float) -> Counter[int]:
        asked = Sizes(512, 1, 1, experts=8, top_k=1, imbalance=imbalance)
        operator = OPERATORS["gemm-all-to-all"](asked, 4, seed=1)
        check(operator)
        return Counter(routed(operator).reshape(-1).tolist())

    even, uneven, one = tokens(0), tokens(1), tokens(10)
    assert all(40 < even[expert] < 90 for expert in range(8))
    expected = [512 / (expert + 1) / sum(1 / (e + 1) for e in range(8)) for expert in range(8)]
    assert [uneven[expert] for expert in range(8)] == pytest.approx(expected, rel=0.35)
    assert one[0] > 500 and not all(one[expert] for expert in range(8))


def test_a_rank_whose_experts_get_no_token_computes_nothing_and_gets_its_result() -> None:
    operator = OPERATORS["gemm-all-to-all"](
        Sizes(16, 3, 2, experts=4, top_k=1, imbalance=10.0), 4, seed=1
    )
    assert not operator.tiles(3)
    check(operator)


@given(st.integers(2, 5), st.data())
def test_dispatch_brings_each_token_once_to_each_host_that_has_an_expert_of_it(
    ranks: int, data: st.DataObject
) -> None:
    asked = data.draw(sizes("gemm-all-to-all", ranks))
    brought = {}
    for way in ("unicast", "multicast"):
        operator = OPERATORS["gemm-all-to-all"](
            Sizes(**{**vars(asked), "dispatch": way}), ranks, seed=2
        )
        own_experts = asked.experts // ranks
        own_tokens = asked.batch_size // ranks
        wanted: Counter[tuple[int, int]] = Counter()
        leaves = 0
        for token, experts in enumerate(routed(operator).tolist()):
            source = token // own_tokens
            hosts = {expert // own_experts for expert in experts} - {source}
            wanted.update((source, host) for host in hosts)
            leaves += bool(hosts)
        row_bytes = asked.inner * 4
        come: Counter[tuple[int, int]] = Counter()
        for each in operator.inputs:
            assert each.size_bytes % row_bytes == 0
            for destination in each.destinations:
                come[each.source, destination] += each.size_bytes // row_bytes
        assert come == wanted
        sent = sum(each.size_bytes for each in operator.inputs) // row_bytes
        brought[way] = sent
        if way == "unicast":
            assert all(len(each.destinations) == 1 for each in operator.inputs)
            assert sent == sum(wanted.values())
        else:
            assert leaves <= sent
            if 2 ** (ranks - 1) - 1 <= MOST_JOINED // ranks:  # as many groups as there may be
                assert sent == leaves, "a token leaves its host twice"
        for rank in range(ranks):
            assert operator.gathered_bytes(rank) == row_bytes * sum(
                count for (_, host), count in come.items() if host == rank
            )
    assert brought["multicast"] <= brought["unicast"]


def test_no_host_joins_more_multicast_groups_than_it_may() -> None:
    operator = OPERATORS["gemm-all-to-all"](
        Sizes(1024, 1, 1, experts=8, top_k=4, dispatch="multicast"), 8, seed=1
    )
    groups: dict[int, set[tuple[int, tuple[int, ...]]]] = defaultdict(set)
    for each in operator.inputs:
        if len(each.destinations) > 1:
            for host in (each.source, *each.destinations):
                groups[host].add((each.source, tuple(sorted(each.destinations))))
    assert groups and max(map(len, groups.values())) <= MOST_JOINED
    check(operator)


# -- what makes no sense


@EACH
def test_names_are_those_of_the_command_line(name: str) -> None:
    assert [*OPERATORS] == [*NAMES]
    assert operator_named(name).name == name


def test_an_operator_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"operator 'gemm': choose from embedding-all-to-all, ge"):
        operator_named("gemm")


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("embedding-all-to-all", {"tables": 6}, r"tables 6 for 4 ranks: .*multiple of 4"),
        ("embedding-all-to-all", {"tables": 3}, r"tables 3 for 4 ranks: .*multiple of 4"),
        ("embedding-all-to-all", {"batch_size": 50}, r"batch-size 50 for 4 ranks: .*of 4"),
        ("embedding-all-to-all", {"tile_rows": 5}, r"tile-rows 5: .*16 samples.*divisor of 16"),
        ("gemv-allreduce", {"width": 130}, r"width 130 for 4 ranks: .*multiple of 4"),
        ("gemv-allreduce", {"inner": 63}, r"inner 63 for 4 ranks: .*multiple of 4"),
        ("gemv-allreduce", {"tile_rows": 64}, r"tile-rows 64: .*32 rows.*divisor of 32"),
        ("gemm-all-to-all", {"experts": 6}, r"experts 6 for 4 ranks: .*multiple of 4"),
        ("gemm-all-to-all", {"experts": 2}, r"experts 2 for 4 ranks: .*multiple of 4"),
        ("gemm-all-to-all", {"batch_size": 65}, r"batch-size 65 for 4 ranks: .*of 4"),
        ("gemm-all-to-all", {"top_k": 9}, r"top-k 9: a token goes to 1 to 8 experts"),
        ("gemm-all-to-all", {"top_k": 0}, r"top-k 0: a token goes to 1 to 8 experts"),
        ("all-gather-matmul", {"width": 33}, r"width 33 for 4 ranks: .*multiple of 4"),
        ("all-gather-matmul", {"batch_size": 66}, r"batch-size 66 for 4 ranks: .*of 4"),
        ("all-gather-matmul", {"tile_rows": 3}, r"tile-rows 3: .*16 rows.*divisor of 16"),
        ("matmul-reduce-scatter", {"inner": 30}, r"inner 30 for 4 ranks: .*multiple of 4"),
        ("matmul-reduce-scatter", {"batch_size": 2}, r"batch-size 2 for 4 ranks: .*of 4"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OPERATORS[name](small(name, **more), 4, seed=0)
