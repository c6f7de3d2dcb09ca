"""Completion bounds, against schedules of the algorithms acted out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_definitions import Message, messages_of, tree_edges
from tests.support.collective_names import COLLECTIVES
from tests.support.theory_support import (
    OFFLOADED,
    bound_bytes,
    on_servers,
    switch_bound_bytes,
    unicast_rounds,
)

from weft.agents.collectives.algorithms.optcast_model import Optcast
from weft.agents.collectives.algorithms.switch_model import switch_frames, switch_payload
from weft.agents.collectives.overheads import RC_OVERHEAD_BYTES, frame_bytes
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.topo.clos import leaf_spine, single

RECURSIVE = [
    ("allgather", "recursive-doubling"),
    ("allgather", "swing"),
    ("reduce-scatter", "recursive-halving"),
]
BANDWIDTH_OPTIMAL = [
    ("allgather", "multicast"),
    ("allgather", "ring"),
    ("allgather", "linear"),
    ("allgather", "pat"),
    ("reduce-scatter", "ring"),
    *RECURSIVE,
]
CASES = [
    (collective, name)
    for collective, names in COLLECTIVES.items()
    for name in names
    if name not in OFFLOADED
]


def scheduled(ranks: int, messages: list[Message]) -> int:
    """When messages end that each take their source's uplink and their destination's downlink
    whole, and wait for all that the source has got before; the two of an exchange do not wait for
    each other."""
    up, down, ready = [0] * ranks, [0] * ranks, [0] * ranks
    before, ready_before = (-1, -1), 0
    for source, destination, size_bytes in messages:
        exchange = before == (destination, source)
        begin = max(ready_before if exchange else ready[source], up[source], down[destination])
        before, ready_before = (source, destination), ready[destination]
        if size_bytes:
            up[source] = down[destination] = begin + size_bytes
            ready[destination] = max(ready[destination], begin + size_bytes)
    return max(ready)


def copies_down(edges: list[tuple[int, int]], ranks: int, size_bytes: int) -> int:
    """When the last rank has a copy, if ranks pass on whole copies, one child after the other."""
    has = [0] * ranks
    busy = [0] * ranks
    for parent, child in edges:
        has[child] = busy[parent] = max(has[parent], busy[parent]) + size_bytes
    return max(has)


def blocks_down(edges: list[tuple[int, int]], ranks: int, size_bytes: int, block_bytes: int) -> int:
    """When the last rank has the last block, if every block is sent to all children as it comes."""
    blocks = [min(block_bytes, size_bytes - start) for start in range(0, size_bytes, block_bytes)]
    has = {0: [0] * len(blocks)}
    for place in range(ranks):
        now = 0
        children = [child for parent, child in edges if parent == place]
        has.update((child, []) for child in children)
        for came, block in zip(has[place], blocks, strict=True):
            for child in children:
                now = max(now, came) + block
                has[child].append(now)
    return max((max(times, default=0) for times in has.values()), default=0)


@pytest.mark.parametrize(("collective", "algorithm"), BANDWIDTH_OPTIMAL)
@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 64, 1024])
def test_of_powers_of_two_all_but_the_trees_take_n_times_p_minus_one(
    collective: str, algorithm: str, ranks: int
) -> None:
    assert bound_bytes(collective, algorithm, [4096] * ranks) == 4096 * (ranks - 1)


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12, 100, 1000, 1023])
def test_folding_costs_what_the_stand_in_of_another_rank_gets_and_sends(ranks: int) -> None:
    """It gets the other's shard first, speaks for two in the rounds, and sends all but one shard
    at the end; of a halving it gets all shards first, and sends one at the end."""
    power = 1 << ranks.bit_length() - 1
    rest = ranks - power
    rounds = sum((1 << i) + min(1 << i, rest) for i in range(power.bit_length() - 1))
    doubling = 1 + rounds + ranks - 1
    halving = ranks + rounds + 1
    assert bound_bytes("allgather", "recursive-doubling", [10] * ranks) == 10 * doubling
    assert bound_bytes("reduce-scatter", "recursive-halving", [10] * ranks) == 10 * halving


@given(
    case=st.sampled_from(RECURSIVE),
    shards=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
)
def test_no_schedule_of_recursive_rounds_is_faster_than_the_bound(
    case: tuple[str, str], shards: list[int]
) -> None:
    schedule = scheduled(len(shards), messages_of(*case, shards))
    assert bound_bytes(*case, shards) <= schedule


@pytest.mark.parametrize("case", RECURSIVE, ids=lambda case: case[1])
@pytest.mark.parametrize("ranks", range(1, 21))
def test_equal_shards_in_recursive_rounds_reach_the_bound(
    case: tuple[str, str], ranks: int
) -> None:
    shards = [10] * ranks
    assert scheduled(ranks, messages_of(*case, shards)) == bound_bytes(*case, shards)


@given(ranks=st.integers(2, 40), radix=st.integers(2, 8), size_bytes=st.integers(0, 1000))
def test_whole_copies_down_a_k_nomial_tree_reach_the_bound(
    ranks: int, radix: int, size_bytes: int
) -> None:
    edges = tree_edges("k-nomial", ranks, radix)
    bound = bound_bytes(
        "broadcast", "k-nomial", [size_bytes] + [0] * (ranks - 1), own=(("radix", radix),)
    )
    assert copies_down(edges, ranks, size_bytes) == bound


@pytest.mark.parametrize(
    ("ranks", "radix", "copies"), [(2, 2, 1), (8, 2, 3), (9, 3, 4), (10, 3, 5), (64, 4, 9)]
)
def test_the_root_of_a_k_nomial_tree_sends_k_minus_one_copies_a_level(
    ranks: int, radix: int, copies: int
) -> None:
    shards = [7] + [0] * (ranks - 1)
    assert bound_bytes("broadcast", "k-nomial", shards, own=(("radix", radix),)) == 7 * copies


@given(
    algorithm=st.sampled_from(("binary-tree", "pipelined-ring")),
    ranks=st.integers(1, 40),
    blocks=st.integers(0, 6),
    rest=st.integers(0, 99),
)
def test_blocks_down_a_tree_or_chain_reach_the_bound(
    algorithm: str, ranks: int, blocks: int, rest: int
) -> None:
    edges = tree_edges(algorithm, ranks, 2)
    size_bytes = 100 * blocks + rest
    shards = [size_bytes] + [0] * (ranks - 1)
    bound = bound_bytes("broadcast", algorithm, shards, block_bytes=100)
    reached = blocks_down(edges, ranks, size_bytes, 100)
    if rest and blocks and algorithm == "binary-tree":
        assert bound <= reached < bound + 100
    else:
        assert bound == reached


def test_a_binary_tree_takes_twice_the_bytes_and_its_last_blocks_way() -> None:
    def binary(ranks: int) -> int:
        return bound_bytes("broadcast", "binary-tree", [1000] + [0] * (ranks - 1), block_bytes=10)

    # Of seven ranks, the last is the second child of a second child: two blocks more.
    assert [binary(ranks) for ranks in (1, 2, 3, 4, 5, 7)] == [0, 1000, 2000, 2000, 2010, 2020]


def test_unequal_shards_wait_for_the_fullest_link() -> None:
    shards = [5, 0, 20, 1]
    assert bound_bytes("allgather", "multicast", shards) == 26
    assert bound_bytes("allgather", "multicast", shards[2:]) == 20
    assert bound_bytes("allgather", "multicast", shards, own=(("chains", 2),)) == 26
    assert bound_bytes("allgather", "multicast", [5, 5, 5], own=(("chains", 3),)) == 10
    assert bound_bytes("allgather", "multicast", [5, 5, 5], own=(("chains", 2),)) == 15
    assert bound_bytes("allgather", "linear", shards) == 3 * 20
    for collective in ("allgather", "reduce-scatter"):
        assert bound_bytes(collective, "ring", shards, block_bytes=1) == 26
        # One shard alone goes around as a broadcast does.
        assert bound_bytes(collective, "ring", [0, 20, 0, 0], block_bytes=4) == 20 + 2 * 4


@given(
    case=st.sampled_from(CASES),
    shards=st.lists(st.integers(0, 9999), min_size=2, max_size=20),
    operations=st.integers(1, 4),
)
def test_no_bound_is_below_what_any_hosts_link_carries(
    case: tuple[str, str], shards: list[int], operations: int
) -> None:
    if case[0] == "broadcast":
        shards = [shards[0]] + [0] * (len(shards) - 1)
    links = [[0] * len(shards), [0] * len(shards)]
    if case[1] == "multicast":
        links = [shards, [sum(shards) - own for own in shards]]
    else:
        for each in unicast_rounds(*case, shards):
            for source, destination, size_bytes in zip(*each, strict=True):
                links[0][source] += int(size_bytes)
                links[1][destination] += int(size_bytes)
    bound = bound_bytes(*case, shards, operations=operations)
    assert bound >= operations * max(max(links[0]), max(links[1]))
    assert bound_bytes(*case, shards) <= bound <= operations * bound_bytes(*case, shards)


def test_a_scenarios_bound_is_the_papers() -> None:
    n_over_b = (1 << 20) * 8 * 10**9 // 100_000_000
    scenario = Scenario()
    assert completion_bound_ns(scenario, "ring") == 7 * n_over_b
    assert completion_bound_ns(scenario, "multicast") == 7 * n_over_b
    # With fewer chains than ranks some rank only hears, so all together send at most B.
    assert completion_bound_ns(Scenario(chains=2), "multicast") == 8 * n_over_b
    assert completion_bound_ns(Scenario(chains=3), "multicast") == 8 * n_over_b
    assert completion_bound_ns(Scenario(operations=5), "multicast") == 5 * 7 * n_over_b
    broadcast = Scenario(collective="broadcast", root=3)
    assert completion_bound_ns(broadcast, "multicast") == n_over_b
    assert completion_bound_ns(broadcast, "k-nomial") == 3 * n_over_b
    # Blocks of 64 KiB, a sixteenth of the whole.
    assert completion_bound_ns(broadcast, "pipelined-ring") == n_over_b + 6 * n_over_b // 16
    small = Scenario(collective="broadcast", size_bytes=40_000, rate_bps=8_000_000_000)
    # An eighth is 5,000, which is two packets of 4,096.
    assert completion_bound_ns(small, "pipelined-ring") == 40_000 + 6 * 8192


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_expected_time_has_headers_and_the_bound_has_none(case: tuple[str, str]) -> None:
    collective, algorithm = case
    scenario = Scenario(collective=collective, mtu=1024, size_bytes=1 << 20)
    overhead = 70 if algorithm == "multicast" else 58
    bound_ns = completion_bound_ns(scenario, algorithm)
    assert (
        completion_bound_ns(scenario, algorithm, frames=True)
        == bound_ns * (1024 + overhead) // 1024
    )


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_one_rank_and_no_bytes_take_no_time(case: tuple[str, str]) -> None:
    collective, algorithm = case
    for ranks, size_bytes in ((1, 1000), (5, 0)):
        scenario = Scenario(
            collective, topology="single", hosts_per_leaf=ranks, size_bytes=size_bytes
        )
        assert completion_bound_ns(scenario, algorithm) == 0
        assert completion_bound_ns(scenario, algorithm, frames=True) == 0


# -- Allreduce -----------------------------------------------------------------------------------


def parts(size_bytes: int, ranks: int) -> list[int]:
    return [size_bytes // ranks + (rank < size_bytes % ranks) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 64])
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_bandwidth_optimal_allreduces_pass_every_part_twice_by_all_but_its_owner(
    algorithm: str, ranks: int
) -> None:
    assert bound_bytes("allreduce", algorithm, [1000] * ranks) == 2 * 1000 * (ranks - 1)


@pytest.mark.parametrize(("ranks", "eighths"), [(3, 16), (5, 20), (6, 20), (7, 20), (12, 22)])
def test_a_fold_costs_the_stand_in_another_whole_vector(ranks: int, eighths: int) -> None:
    """Two twice (1 - 1/2^q) of the vector, and once all of it, each way."""
    assert bound_bytes("allreduce", "halving-doubling", parts(8000, ranks)) == 1000 * eighths


def test_a_double_binary_tree_carries_the_vector_twice_on_the_fullest_link() -> None:
    found = [bound_bytes("allreduce", "double-binary-tree", parts(1000, n)) for n in range(1, 10)]
    # Two ranks are each other's only child. Of three each tree's root has two children; from four
    # on some rank has a parent in the same tree besides.
    assert found == [0, 1000, 1500] + [2000] * 6


def test_one_block_goes_around_a_ring_twice() -> None:
    # Seven parts of 100 bytes each pass 6 + 6 links, in blocks of 100 or of 50.
    assert bound_bytes("allreduce", "ring", [100] * 7, block_bytes=100) == 12 * 100
    assert bound_bytes("allreduce", "ring", [700] + [0] * 6, block_bytes=50) == 1400
    assert bound_bytes("allreduce", "ring", [700] + [0] * 6, block_bytes=700) == 12 * 700


# -- reduction servers ---------------------------------------------------------------------------

VECTOR = 8 * 8 * 4096
"""Bytes: eight packets for each of eight ranks."""


def vector_on(servers: int, **options: Any) -> Optcast:
    return on_servers("allreduce", parts(VECTOR, 8), servers, **options)


def test_as_many_servers_as_ranks_take_the_vector_once_and_a_packet_back() -> None:
    assert vector_on(8).bound_bytes() == VECTOR + 4096


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_fewer_servers_are_the_bottleneck(servers: int) -> None:
    assert vector_on(servers).bound_bytes() == VECTOR * 8 // servers + 4096


def test_servers_on_the_ranks_hosts_are_no_faster_than_a_ring() -> None:
    """A rank's own part stays on its host; its server sends and gets seven of eight parts too."""
    together = vector_on(8, hosts=[*range(8), *range(8)]).bound_bytes()
    assert together == 2 * VECTOR * 7 // 8 == bound_bytes("allreduce", "ring", parts(VECTOR, 8))


def test_a_tree_of_servers_costs_partial_sums_and_hops() -> None:
    """Eight ranks in two groups of four with two servers each. A server gets half of four vectors.
    A piece has a server of each group; pieces take turns for these, and for the root."""
    tree = vector_on(4, fan_in=4)
    assert tree.levels == 2
    # Of four pieces a server has two, half of each of four vectors. It is the root of one of them,
    # of which it gets the other group's sum; of the other one it gets the result.
    assert tree.bound_bytes() == 4 * VECTOR // 2 + VECTOR // 4 + VECTOR // 4


def test_operations_take_turns_for_the_servers() -> None:
    """One piece a request: four requests go to four servers, which each gets from all ranks."""
    one, four, five = (
        vector_on(4, split=1, operations=operations).bound_bytes() for operations in (1, 4, 5)
    )
    assert (one, four) == (8 * VECTOR + 4096, 8 * VECTOR + 4096)
    assert five == 16 * VECTOR + 4096


def test_a_reduce_scatter_on_servers_brings_everything_and_gets_its_shard() -> None:
    shards = [8 * 4096] * 8
    assert on_servers("reduce-scatter", shards, 8).bound_bytes() == 8 * 8 * 4096 + 4096


def test_servers_of_nothing_and_of_one_host_take_no_time() -> None:
    assert on_servers("allreduce", [0] * 4, 4).bound_bytes() == 0
    assert on_servers("allreduce", [1000], 1, hosts=[0, 0]).bound_bytes() == 0


@given(
    shards=st.lists(st.integers(0, 99_999), min_size=1, max_size=12),
    servers=st.integers(1, 9),
    split=st.integers(0, 9),
    fan_in=st.integers(2, 5),
    collective=st.sampled_from(("allreduce", "reduce-scatter")),
    operations=st.integers(1, 3),
)
def test_servers_get_every_byte_of_every_rank_once_and_each_rank_its_sums(
    shards: list[int], servers: int, split: int, fan_in: int, collective: str, operations: int
) -> None:
    """Sums of what comes to each member, piece by piece, whatever the tree."""
    ranks = len(shards)
    if -(-ranks // fan_in) > servers:
        fan_in = 0
    use = on_servers(
        collective, shards, servers, split=split, fan_in=fan_in, packet_bytes=512,
        operations=operations,
    )  # fmt: skip
    rounds = list(use.rounds())
    brought, got = [0] * ranks, [0] * ranks
    net = [0] * servers
    for each in rounds:
        for source, destination, size_bytes in zip(*each, strict=True):
            if source < ranks:
                brought[source] += int(size_bytes)
            if destination < ranks:
                got[destination] += int(size_bytes)
            if source >= ranks and destination >= ranks:
                net[source - ranks] += int(size_bytes)
                assert source != destination
    assert brought == [operations * sum(shards)] * ranks
    scatter = collective == "reduce-scatter"
    assert got == [operations * (own if scatter else sum(shards)) for own in shards]
    groups = -(-ranks // (fan_in or ranks))
    # Each piece's tree has an edge less than servers; results take the same edges, if not less.
    between = operations * (groups - 1) * sum(shards)
    assert between <= sum(net) <= 2 * between
    if not scatter:
        assert sum(net) == 2 * between


# -- aggregating switches ------------------------------------------------------------------------


def test_in_switches_every_rank_sends_and_gets_its_vector_once() -> None:
    assert switch_bound_bytes(single(8), switch_payload("allreduce", parts(VECTOR, 8))) == VECTOR
    # A packet of 256 values is 14 + 20 + 8 + 12 + 8 + 4 + 16 + 1024 + 4 = 1110 bytes.
    exact = switch_frames("allreduce", parts(VECTOR, 8), values=256, slots=64, floats=False)
    assert switch_bound_bytes(single(8), exact) == VECTOR // 1024 * 1110
    # Of floats, 64 rounds of 86 bytes come first; of few blocks, one for each.
    floats = switch_frames("allreduce", parts(VECTOR, 8), values=256, slots=64)
    assert switch_bound_bytes(single(8), floats) == VECTOR // 1024 * 1110 + 64 * 86
    few = switch_frames("allreduce", parts(1025, 8), values=256, slots=64)
    assert switch_bound_bytes(single(8), few) == 2 * 1110 + 2 * 86
    # Two bytes an element are four in packets, and 64 values are 256 bytes.
    halves = switch_frames("allreduce", [2048], values=64, slots=1, item_bytes=2, floats=False)
    assert halves.up([0]) == 16 * (86 + 256)


def test_in_switches_a_reduce_scatter_sends_all_shards_but_the_own_and_gets_that() -> None:
    shards = [4096] * 8
    assert switch_bound_bytes(single(8), switch_payload("reduce-scatter", shards)) == 7 * 4096
    exact = switch_frames("reduce-scatter", shards, values=256, slots=64, floats=False)
    assert exact.up([3]) == 7 * 4 * 1110 + 4 * 86
    assert exact.down([3]) == 4 * 1110 + 7 * 4 * 86
    assert switch_bound_bytes(single(8), exact) == exact.up([0])
    assert switch_bound_bytes(single(1), exact) == 0
    # From leaf to spine all blocks have values; from a leaf of one rank all but its own.
    assert switch_bound_bytes(leaf_spine(2, 1, 4), exact) == 8 * 4 * 1110
    assert switch_bound_bytes(leaf_spine(8, 1, 1), exact) == exact.up([0])


@pytest.mark.parametrize(
    ("algorithm", "ranks", "values", "times"),
    [
        ("optcast", 8, 256, 1.75),
        ("optcast", 16, 256, 1.875),
        ("switch", 8, 256, 1.6373),
        ("switch", 8, 64, 1.3285),
        ("switch", 16, 256, 1.7542),
    ],
)
def test_the_ideal_speed_up_over_a_ring(
    algorithm: str, ranks: int, values: int, times: float
) -> None:
    """2 (P - 1) / P, of switches times 4 V / (4 V + 86) over 4096 / 4154: that is the ratio of the
    bounds of a large vector, with headers."""
    packets = 4 * values / (4 * values + 86) * 4154 / 4096 if algorithm == "switch" else 1
    assert 2 * (ranks - 1) / ranks * packets == pytest.approx(times, abs=1e-4)
    shards = parts(1 << 26, ranks)
    ring = bound_bytes(
        "allreduce", "ring", shards, sizing=lambda size: frame_bytes(size, 4096, RC_OVERHEAD_BYTES)
    )
    if algorithm == "switch":
        frames = switch_frames("allreduce", shards, values=values, slots=64)
        bound = switch_bound_bytes(single(ranks), frames)
    else:
        bound = on_servers(
            "allreduce", shards, ranks,
            sizing=lambda size: frame_bytes(size, 4096, RC_OVERHEAD_BYTES),
        ).bound_bytes()  # fmt: skip
    assert ring / bound == pytest.approx(times, rel=1e-3)


def test_a_scenarios_bounds_on_servers_and_in_switches() -> None:
    options: dict[str, Any] = {
        "collective": "allreduce", "topology": "single", "hosts_per_leaf": 8,
        "algorithms": ("ring", "optcast", "switch"), "rate_bps": 8_000_000_000,
        "size_bytes": 1 << 20,
    }  # fmt: skip
    scenario = Scenario(**options)
    size = 1 << 20
    assert completion_bound_ns(scenario, "ring") == 2 * size * 7 // 8
    assert completion_bound_ns(scenario, "optcast") == size + 4096
    assert (
        completion_bound_ns(scenario, "optcast", frames=True) == (size + 4096) * (4096 + 58) // 4096
    )
    assert completion_bound_ns(scenario, "switch") == size
    assert completion_bound_ns(scenario, "switch", frames=True) == 1024 * 1110 + 128 * 86
    few = Scenario(**options, servers=2, operations=3)
    assert completion_bound_ns(few, "optcast") == 3 * 4 * size + 4096
    together = Scenario(**options, server_placement="ranks")
    assert completion_bound_ns(together, "optcast") == 2 * size * 7 // 8
    # Of two jobs, one alone: four ranks on eight servers.
    jobs = Scenario(**options, jobs=2, servers=8)
    assert completion_bound_ns(jobs, "optcast") == size + 4096
    assert completion_bound_ns(jobs, "ring") == 2 * size * 3 // 4
    halves = Scenario(**options, dtype="float16", values=64)
    assert completion_bound_ns(halves, "switch", frames=True) == 8192 * (86 + 256) + 128 * 86
