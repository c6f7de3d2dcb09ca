"""What theory says of bytes by tier, against the algorithms acted out on small networks."""

from __future__ import annotations

from collections import Counter, deque
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_definitions import messages_of
from tests.support.collective_names import COLLECTIVES
from tests.support.fabric import program_names
from tests.support.own_options import own_of
from tests.support.theory_support import (
    OFFLOADED,
    multicast_tier_bytes,
    on_servers,
    switch_tier_bytes,
    unicast_rounds,
    unicast_tier_bytes,
)

from weft.agents.collectives.algorithms.switch_model import switch_frames, switch_payload
from weft.agents.collectives.names import REDUCING, ROOTED
from weft.agents.collectives.overheads import (
    RC_OVERHEAD_BYTES,
    SWITCH_OVERHEAD_BYTES,
    UD_OVERHEAD_BYTES,
    frame_bytes,
)
from weft.agents.collectives.reduction_plan import ReductionPlan, terms_of
from weft.agents.collectives.transfers import even_parts, placed
from weft.base.errors import InputError
from weft.controller.features.aggregation import AggregationJob, plan_aggregation
from weft.controller.features.multicast import plan_trees
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.traffic_model import tier_model_bytes, tier_model_frame_bytes
from weft.topo import clos
from weft.topo.clos import LINK_TIERS, Topology
from weft.topo.reach import Reach

UNICAST = [
    (collective, algorithm)
    for collective, algorithms in COLLECTIVES.items()
    for algorithm in algorithms
    if algorithm not in ("multicast", *OFFLOADED)
]
FAT_TREES = [clos.fat_tree(2), clos.fat_tree(4), clos.fat_tree(4, 2), clos.fat_tree(6, 2)]
PODS = [clos.pods(3, 2, 2, 3, 2), clos.pods(2, 1, 3, 1, 1)]

shard_sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=20)
networks = st.one_of(
    st.builds(clos.single, st.integers(1, 20)),
    st.builds(clos.leaf_spine, st.integers(1, 5), st.integers(1, 3), st.integers(1, 4)),
    st.sampled_from([*FAT_TREES, *PODS]),
)


def way(network: Topology, source: str, destination: str) -> Counter[str]:
    """How many links of each tier a shortest way from host to host has."""
    ways = {source: Counter[str]()}
    waiting = deque([source])
    while destination not in ways:
        here = waiting.popleft()
        for direction in network.outward(here):
            there = direction.destination.node
            if there not in ways:
                ways[there] = ways[here] + Counter([direction.tier])
                waiting.append(there)
    return ways[destination]


def flood(network: Topology, source: str, index: int = 0) -> Counter[str]:
    """How many links of each tier a packet to all hosts crosses, by the controller's tree."""
    tree = plan_trees(
        program_names(), Reach(network), [[host.name for host in network.hosts]] * (index + 1)
    )[index]
    crossed: Counter[str] = Counter()
    waiting = [network.outward(source)[0]]
    while waiting:
        arrived = waiting.pop()
        crossed[arrived.tier] += 1
        here = arrived.destination
        if here.node in tree.ports:
            assert here.number in tree.ports[here.node]
            waiting += [
                direction
                for direction in network.outward(here.node)
                if direction.source.number in tree.ports[here.node]
                and direction.source.number != here.number
            ]
    return crossed


def fabric_ratio(network: Topology, algorithm: str) -> Fraction:
    """Bytes on all links between switches, of a unicast Allgather over the multicast one."""
    shards = [1] * len(network.hosts)
    unicast = unicast_tier_bytes(network, unicast_rounds("allgather", algorithm, shards))
    multicast = multicast_tier_bytes(network, shards)
    return Fraction(
        unicast["fabric_up"] + unicast["fabric_down"],
        multicast["fabric_up"] + multicast["fabric_down"],
    )


@pytest.mark.parametrize(("collective", "algorithm"), UNICAST)
@given(shards=shard_sizes, data=st.data())
def test_every_pair_exchanges_what_the_algorithm_acted_out_does(
    collective: str, algorithm: str, shards: list[int], data: st.DataObject
) -> None:
    root = data.draw(st.integers(0, len(shards) - 1)) if collective in ROOTED else 0
    radix = data.draw(st.integers(2, 6))
    found: Counter[tuple[int, int]] = Counter()
    own = tuple(own_of(algorithm, radix=radix).items())
    for each in unicast_rounds(collective, algorithm, shards, root=root, own=own):
        for source, destination, size_bytes in zip(*each, strict=True):
            found[int(source), int(destination)] += int(size_bytes)
    acted: Counter[tuple[int, int]] = Counter()
    for source, destination, size_bytes in messages_of(collective, algorithm, shards, root, radix):
        acted[source, destination] += size_bytes
    assert +found == +acted


@given(
    network=networks,
    case=st.sampled_from(UNICAST),
    sizes=st.lists(st.integers(0, 9999), min_size=1, max_size=5),
)
def test_unicast_crosses_the_links_of_shortest_ways(
    network: Topology, case: tuple[str, str], sizes: list[int]
) -> None:
    ranks = len(network.hosts)
    shards = [sizes[rank % len(sizes)] for rank in range(ranks)]
    walked: dict[str, int] = dict.fromkeys(LINK_TIERS, 0)
    for source, destination, size_bytes in messages_of(*case, shards):
        for tier, links in way(network, f"h{source}", f"h{destination}").items():
            walked[tier] += links * size_bytes
    assert unicast_tier_bytes(network, unicast_rounds(*case, shards)) == walked


@given(network=networks, index=st.integers(0, 5), data=st.data())
def test_multicast_crosses_every_link_of_the_controllers_tree_once(
    network: Topology, index: int, data: st.DataObject
) -> None:
    ranks = len(network.hosts)
    shards = data.draw(st.lists(st.integers(0, 9999), min_size=ranks, max_size=ranks))
    crossed: dict[str, int] = dict.fromkeys(LINK_TIERS, 0)
    for host, size_bytes in zip(network.hosts, shards, strict=True):
        for tier, links in flood(network, host.name, index).items() if ranks > 1 else ():
            crossed[tier] += links * size_bytes
    assert multicast_tier_bytes(network, shards) == crossed


def test_a_scenario_names_shards_root_radix_and_operations() -> None:
    options: dict[str, Any] = {"topology": "single", "hosts_per_leaf": 5}
    unequal = Scenario(**options, sizes_bytes=(8, 0, 4), operations=3)
    assert tier_model_bytes(unequal.network(), unequal, "multicast") == {
        "host_up": 3 * 20, "host_down": 3 * 80, "fabric_up": 0, "fabric_down": 0,
    }  # fmt: skip
    # Four leaves of two: of all ranks, 3 alone of its leaf's is the root's neighbour.
    broadcast = Scenario(collective="broadcast", root=2, radix=8, size_bytes=10)
    assert tier_model_bytes(broadcast.network(), broadcast, "k-nomial") == {
        "host_up": 70, "host_down": 70, "fabric_up": 60, "fabric_down": 60,
    }  # fmt: skip
    assert tier_model_bytes(broadcast.network(), broadcast, "multicast") == {
        "host_up": 10, "host_down": 70, "fabric_up": 10, "fabric_down": 30,
    }  # fmt: skip


def test_one_rank_and_empty_shards_put_nothing_on_any_link() -> None:
    nothing = dict.fromkeys(LINK_TIERS, 0)
    for collective, algorithms in COLLECTIVES.items():
        reducing = collective in REDUCING
        for ranks, size_bytes in ((1, 1000), (6, 0)):
            scenario = Scenario(
                collective, topology="single", hosts_per_leaf=ranks, size_bytes=size_bytes,
                algorithms=algorithms, server_placement="ranks" if reducing else "dedicated",
            )  # fmt: skip
            for algorithm in algorithms:
                assert tier_model_bytes(scenario.network(), scenario, algorithm) == nothing
                assert tier_model_frame_bytes(scenario.network(), scenario, algorithm) == nothing


@pytest.mark.parametrize(
    ("size_bytes", "frames"), [(0, 0), (1, 71), (256, 326), (257, 397), (1024, 1304)]
)
def test_every_packet_has_its_headers(size_bytes: int, frames: int) -> None:
    assert frame_bytes(np.array([size_bytes]), 256, UD_OVERHEAD_BYTES).tolist() == [frames]


def test_the_frame_model_cuts_shards_and_a_halvings_ranges_into_packets() -> None:
    assert (UD_OVERHEAD_BYTES, RC_OVERHEAD_BYTES) == (70, 58)
    options: dict[str, Any] = {"topology": "single", "hosts_per_leaf": 4, "mtu": 1024}
    gathered = Scenario(**options, size_bytes=1500, chunk_bytes=500)
    network = gathered.network()
    multicast = tier_model_frame_bytes(network, gathered, "multicast")
    assert multicast["host_up"] == 4 * (1500 + 3 * 70)
    assert multicast["host_down"] == 3 * multicast["host_up"]
    for algorithm in ("ring", "linear", "recursive-doubling"):
        model = tier_model_frame_bytes(network, gathered, algorithm)
        assert model["host_up"] == model["host_down"] == 4 * 3 * (1500 + 2 * 58)
    reduced = Scenario(**options, collective="reduce-scatter", size_bytes=256)
    ring = tier_model_frame_bytes(network, reduced, "ring")
    assert ring["host_up"] == 4 * 3 * (256 + 58)
    halving = tier_model_frame_bytes(network, reduced, "recursive-halving")
    assert halving["host_up"] == 4 * (512 + 58 + 256 + 58)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 16, 100, 253])
@pytest.mark.parametrize("algorithm", ["ring", "linear"])
def test_below_one_switch_unicast_moves_two_minus_two_over_p_times_the_bytes(
    ranks: int, algorithm: str
) -> None:
    network, shards = clos.single(ranks), [1000] * ranks
    unicast = unicast_tier_bytes(network, unicast_rounds("allgather", algorithm, shards))
    multicast = multicast_tier_bytes(network, shards)
    assert Fraction(sum(unicast.values()), sum(multicast.values())) == 2 - Fraction(2, ranks)


@pytest.mark.parametrize(
    "network",
    [
        clos.leaf_spine(2, 1, 1),
        clos.leaf_spine(4, 2, 2),
        clos.leaf_spine(7, 3, 5),
        clos.leaf_spine(32, 16, 32),
        clos.fat_tree(8, 2),
        clos.fat_tree(2),
        clos.fat_tree(4),
        clos.fat_tree(16),
    ],
    ids=Topology.describe,
)
def test_a_ring_in_rank_order_moves_as_many_times_the_bytes_on_every_tree(
    network: Topology,
) -> None:
    """It passes every link of the tree twice for each of P - 1 shards, multicast once for P."""
    ranks = len(network.hosts)
    shards = [1] * ranks
    ring = unicast_tier_bytes(network, unicast_rounds("allgather", "ring", shards))
    multicast = multicast_tier_bytes(network, shards)
    assert ring["host_up"] == (ranks - 1) * multicast["host_up"]
    assert ring["host_down"] == multicast["host_down"]
    assert fabric_ratio(network, "ring") == 2 - Fraction(2, ranks)
    assert Fraction(sum(ring.values()), sum(multicast.values())) == 2 - Fraction(2, ranks)


@pytest.mark.parametrize(("leaves", "hosts"), [(2, 1), (4, 2), (4, 8), (16, 16), (32, 32)])
@pytest.mark.parametrize("algorithm", ["linear", "recursive-doubling"])
def test_linear_and_doubling_move_every_shard_across_two_tiers_once_for_each_host(
    leaves: int, hosts: int, algorithm: str
) -> None:
    """All h hosts of a leaf get it by themselves, where multicast comes to the leaf once."""
    network = clos.leaf_spine(leaves, 2, hosts)
    assert fabric_ratio(network, algorithm) == Fraction(2 * hosts * (leaves - 1), leaves)


@pytest.mark.parametrize("k", [2, 4, 8, 16])
@pytest.mark.parametrize("algorithm", ["linear", "recursive-doubling"])
def test_linear_and_doubling_move_still_more_across_three_tiers(k: int, algorithm: str) -> None:
    ranks, leaf, pod = k**3 // 4, k // 2, k**2 // 4
    levels = (pod - leaf) + 2 * (ranks - pod)
    assert fabric_ratio(clos.fat_tree(k), algorithm) == Fraction(2 * levels, ranks // leaf + k)


def test_the_k_nomial_tree_of_radix_two_is_the_binomial_one() -> None:
    edges = [
        (int(source), int(destination))
        for each in unicast_rounds("broadcast", "k-nomial", [1] * 8)
        for source, destination in zip(each.source, each.destination, strict=True)
    ]
    assert edges == [(0, 1), (0, 2), (2, 3), (0, 4), (4, 5), (4, 6), (6, 7)]


@pytest.mark.parametrize(("collective", "algorithm"), UNICAST)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_no_rank_sends_to_itself(collective: str, algorithm: str, ranks: int) -> None:
    if collective == "flows":
        pytest.skip("a workload says who sends to whom")
    for source, destination, _ in unicast_rounds(collective, algorithm, [40] * ranks):
        assert not (source == destination).any()


def test_an_unknown_algorithm_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="'bruck'"):
        list(unicast_rounds("allgather", "bruck", [1, 2]))
    with pytest.raises(InputError, match="'star'"):
        list(unicast_rounds("broadcast", "star", [1, 2]))


# -- reductions by servers and switches ----------------------------------------------------------


def test_an_allreduce_by_ring_puts_twice_a_reduce_scatter_on_every_tier() -> None:
    network = clos.leaf_spine(4, 2, 2)
    shards = [1000] * 8
    one, both = (
        unicast_tier_bytes(network, unicast_rounds(collective, "ring", shards))
        for collective in ("reduce-scatter", "allreduce")
    )
    assert both == {tier: 2 * size_bytes for tier, size_bytes in one.items()}
    # Each of 7 rounds twice: 8 messages of 1000, 4 of them from leaf to leaf.
    assert (both["host_up"], both["fabric_up"]) == (2 * 7 * 8000, 2 * 7 * 4000)


def test_halving_and_doubling_and_two_trees_by_hand() -> None:
    network = clos.leaf_spine(2, 1, 2)
    halving = unicast_rounds("allreduce", "halving-doubling", [100] * 4)
    # Halves with the rank two away, on the other leaf; quarters with the neighbour; and back.
    assert unicast_tier_bytes(network, halving)["host_up"] == 2 * 4 * (200 + 100)
    halving = unicast_rounds("allreduce", "halving-doubling", [100] * 4)
    assert unicast_tier_bytes(network, halving)["fabric_up"] == 2 * 4 * 200
    trees = unicast_rounds("allreduce", "double-binary-tree", [100] * 4)
    # Trees of 4: 0 and 2 below 1, 1 below 3; and its mirror image. Each has one link in a leaf.
    assert unicast_tier_bytes(network, trees) == {
        "host_up": 2 * 2 * 3 * 200, "host_down": 2 * 2 * 3 * 200,
        "fabric_up": 2 * 2 * 2 * 200, "fabric_down": 2 * 2 * 2 * 200,
    }  # fmt: skip


def test_elements_stay_whole_where_a_vector_is_cut_in_halves() -> None:
    assert even_parts(7 * 8, 2, item_bytes=8).tolist() == [32, 24]
    assert even_parts(10, 4).tolist() == [3, 3, 2, 2]
    (up, *_) = unicast_rounds("allreduce", "double-binary-tree", [8] * 7, dtype="int64")
    assert set(up.size_bytes.tolist()) == {32}


@given(network=networks, data=st.data())
def test_every_link_of_the_controllers_aggregation_tree_has_its_share(
    network: Topology, data: st.DataObject
) -> None:
    """Every block by itself, along the tree that the controller plans: up from all ranks, with
    values where a rank that is not the owner is below; down to all, with values to the owner."""
    numbers = data.draw(
        st.lists(st.sampled_from(range(len(network.hosts))), min_size=2, unique=True)
        if len(network.hosts) > 1
        else st.just([0])
    )
    names = [network.hosts[number].name for number in numbers]
    elements = data.draw(st.lists(st.integers(0, 40), min_size=len(names), max_size=len(names)))
    scatter = data.draw(st.booleans())
    (tree,) = plan_aggregation(
        program_names(), Reach(network), [AggregationJob("239.255.0.0", names, 1, 4, 0)]
    )
    owners = [rank for rank, count in enumerate(elements) for _ in range(-(-count // 16))]
    if not scatter:
        owners = [-1] * -(-sum(elements) // 16)
    walked: dict[str, int] = dict.fromkeys(LINK_TIERS, 0)
    prologue = [86] * min(4, len(owners))
    for switch, node in tree.nodes.items():
        for port in node.children:
            (direction,) = [d for d in network.outward(switch) if d.source.number == port]
            below = {rank for rank, through in node.owners.items() if through == port}
            tier = direction.tier.split("_")[0]
            for owner in owners:
                walked[f"{tier}_up"] += 86 + (0 if below == {owner} else 64)
                walked[f"{tier}_down"] += 86 + (64 if owner in (below | {-1}) else 0)
            walked[f"{tier}_up"] += sum(prologue)
            walked[f"{tier}_down"] += sum(prologue)
    collective = "reduce-scatter" if scatter else "allreduce"
    shards = [4 * count for count in elements]
    traffic = switch_frames(collective, shards, values=16, slots=4)
    found = switch_tier_bytes(network, traffic, numbers)
    assert found == (walked if len(names) > 1 else dict.fromkeys(LINK_TIERS, 0))


def test_switches_by_hand() -> None:
    assert SWITCH_OVERHEAD_BYTES == 42 + 12 + 8 + 4 + 16 + 4 == 86
    network = clos.leaf_spine(4, 2, 2)
    shards = [1000] * 8
    assert switch_tier_bytes(network, switch_payload("allreduce", shards)) == {
        "host_up": 8 * 8000, "host_down": 8 * 8000, "fabric_up": 4 * 8000, "fabric_down": 4 * 8000,
    }  # fmt: skip
    assert switch_tier_bytes(network, switch_payload("reduce-scatter", shards)) == {
        "host_up": 8 * 7000, "host_down": 8000, "fabric_up": 4 * 8000, "fabric_down": 8000,
    }  # fmt: skip
    # A leaf with a single rank below brings nothing of what that rank owns.
    thin = clos.leaf_spine(4, 2, 1)
    assert switch_tier_bytes(thin, switch_payload("reduce-scatter", [1000] * 4)) == {
        "host_up": 4 * 3000, "host_down": 4000, "fabric_up": 4 * 3000, "fabric_down": 4000,
    }  # fmt: skip


def test_servers_by_hand() -> None:
    """Two leaves of two ranks and two servers; what crosses the spine is half of everything."""
    network = clos.leaf_spine(2, 1, 4)
    hosts = [0, 1, 4, 5, 2, 3, 6, 7]
    shards = [4096] * 4
    found = unicast_tier_bytes(network, placed(on_servers("allreduce", shards, 4).rounds(), hosts))
    each_way = 4 * 4 * 4096
    assert found == {
        "host_up": 2 * each_way, "host_down": 2 * each_way,
        "fabric_up": each_way, "fabric_down": each_way,
    }  # fmt: skip
    found = unicast_tier_bytes(
        network, placed(on_servers("reduce-scatter", shards, 4).rounds(), hosts)
    )
    assert found["host_up"] == each_way + 4 * 4096


def test_servers_on_the_ranks_hosts_keep_a_share_off_the_links() -> None:
    network = clos.single(4)
    rounds = on_servers("allreduce", [4096] * 4, 4).rounds()
    found = unicast_tier_bytes(network, placed(rounds, [0, 1, 2, 3, 0, 1, 2, 3]))
    assert found["host_up"] == found["host_down"] == 2 * 4 * 3 * 4096


def test_partial_sums_of_half_types_take_twice_the_bytes() -> None:
    plain, wide = (
        unicast_tier_bytes(
            clos.single(6),
            on_servers(
                "allreduce", [1024] * 4, 2, fan_in=2, packet_bytes=256, dtype=dtype
            ).rounds(),
        )
        for dtype in ("float32", "float16")
    )
    # Two pieces, each with one server below the other: one partial sum and one result of each.
    assert plain["host_up"] == 2 * 4 * 4096 + 2 * 4096
    assert wide["host_up"] == plain["host_up"] + 4096


def test_a_reduce_scatters_result_goes_down_the_tree_to_its_owner_alone() -> None:
    rounds = on_servers(
        "reduce-scatter", [512] * 4, 2, split=1, fan_in=2, packet_bytes=256
    ).rounds()
    found = [sum(each.size_bytes.tolist()) for each in rounds]
    # From ranks; a group's sum to the root; of half the owners, results to the other group; to all.
    assert found == [4 * 2048, 2048, 2 * 512, 4 * 512]


@given(
    counts=st.lists(st.integers(0, 2000), min_size=1, max_size=12),
    servers=st.integers(1, 10),
    split=st.integers(0, 8),
    fan_in=st.sampled_from([0, 2, 3, 4, 5]),
    collective=st.sampled_from(["allreduce", "reduce-scatter"]),
    dtype=st.sampled_from(["float32", "float16"]),
    earlier=st.integers(0, 3),
)
def test_servers_plan_the_transfers_of_the_model(
    counts: list[int], servers: int, split: int, fan_in: int, collective: str, dtype: str,
    earlier: int,
) -> None:  # fmt: skip
    """Chunk by chunk, what members send and get by the servers' own plan."""
    ranks = len(counts)
    if fan_in >= ranks or (fan_in and -(-ranks // fan_in) > servers):
        fan_in = 0
    item_bytes = np.dtype(dtype).itemsize
    use = on_servers(
        collective, [count * item_bytes for count in counts], servers, split=split, fan_in=fan_in,
        packet_bytes=256, dtype=dtype, operations=earlier + 1,
    )  # fmt: skip
    cursor = earlier * use.pieces
    terms = terms_of(
        collective, "sum", dtype, (sum(counts),) if collective == "allreduce" else tuple(counts),
        ranks, servers, split=split, fan_in=fan_in, block_bytes=0, cursor=cursor, packet_bytes=256,
    )  # fmt: skip
    plan = ReductionPlan(terms)
    planned: Counter[tuple[int, int]] = Counter()
    for server in range(servers):
        member = ranks + server
        share = plan.share(server)
        for other, chunks in share.incoming.items():
            lengths = int(plan.lengths[chunks].sum())
            planned[other, member] += lengths * (4 // item_bytes if other >= ranks else 1)
        for role_piece, role in share.roles.items():
            for each in role.others(member):
                for chunk in np.flatnonzero(plan.pieces == role_piece).tolist():
                    if plan.gets(chunk, each.first, each.end):
                        planned[member, each.member] += int(plan.lengths[chunk])
    modelled: Counter[tuple[int, int]] = Counter()
    rounds = list(use.rounds())
    for each_round in rounds[-len(rounds) // (earlier + 1) :]:
        for source, destination, size_bytes in zip(*each_round, strict=True):
            modelled[int(source), int(destination)] += int(size_bytes)
    assert +modelled == +planned


OFFLOADING: dict[str, Any] = {
    "collective": "allreduce", "topology": "leaf-spine", "leaves": 2, "hosts_per_leaf": 2,
    "algorithms": ("ring", "optcast", "switch"), "size_bytes": 4 * 4096,
}  # fmt: skip


def test_a_scenarios_servers_have_hosts_of_their_own_that_a_ring_does_not_touch() -> None:
    scenario = Scenario(**OFFLOADING)
    network = scenario.network()
    assert len(network.hosts) == 8
    # Each of 4 ranks sends 6 parts of 4096; ranks 1 and 3 to the other leaf.
    assert tier_model_bytes(network, scenario, "ring") == {
        "host_up": 24 * 4096, "host_down": 24 * 4096, "fabric_up": 12 * 4096,
        "fabric_down": 12 * 4096,
    }  # fmt: skip
    # 16 parts up to servers and 16 down, half of them by a spine.
    assert tier_model_bytes(network, scenario, "optcast") == {
        "host_up": 32 * 4096, "host_down": 32 * 4096, "fabric_up": 16 * 4096,
        "fabric_down": 16 * 4096,
    }  # fmt: skip
    # Packets of 4096 with 58 bytes of headers; of 256 values with 86, and as many empty before.
    frames = tier_model_frame_bytes(network, scenario, "optcast")
    assert frames["host_up"] == 32 * (4096 + 58)
    frames = tier_model_frame_bytes(network, scenario, "switch")
    link = 16 * (1024 + 86) + 16 * 86
    assert frames == {
        "host_up": 4 * link, "host_down": 4 * link, "fabric_up": 2 * link, "fabric_down": 2 * link,
    }  # fmt: skip


def test_a_scenarios_jobs_add_up_and_operations_too() -> None:
    scenario = Scenario(**OFFLOADING, jobs=2, operations=3)
    network = scenario.network()
    # Two jobs of one rank a leaf; each halves its vector for a ring of two.
    assert tier_model_bytes(network, scenario, "ring")["host_up"] == 3 * 2 * 2 * 2 * 8192
    assert tier_model_bytes(network, scenario, "switch") == {
        tier: 3 * 2 * 2 * 4 * 4096 for tier in LINK_TIERS
    }
    servers = tier_model_bytes(network, scenario, "optcast")
    assert servers["host_up"] == servers["host_down"] == 3 * 2 * 2 * (2 * 4 * 4096)
