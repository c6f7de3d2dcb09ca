"""Sums in switches and on reduction servers in the simulated world, under every fault there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.support.aggregation_networks import SLOTS, VALUES, Summing, check_verified, summing
from tests.support.own_options import own_of

from weft.agents.collectives.names import OPS
from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import Workload
from weft.agents.ranks import RankReport
from weft.experiments.scenario.choices import DTYPES
from weft.topo.faults.packets import PACKET_ACTIONS

COUNT = 100
"""Elements of a vector: six packets and a bit."""
BLOCKS = -(-COUNT // VALUES)
ROUNDS = BLOCKS + min(SLOTS, BLOCKS)
"""Of an Allreduce of floats: first come rounds that agree on exponents."""
LEAF_SPINE: dict[str, Any] = {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}
NETWORKS: dict[str, dict[str, Any]] = {
    "single": {"topology": "single", "hosts_per_leaf": 3},
    "leaf-spine": LEAF_SPINE,
    "chain": {"topology": "fat-tree", "k": 2, "tiers": 3},
    "fat-tree": {"topology": "fat-tree", "k": 4, "tiers": 3},
}
"""The chain: two hosts, five switches between them."""
FAULTS = (*PACKET_ACTIONS, "late")
"""Late: when its sender has long sent it again, and many rounds have gone by."""
TIERS = ("host_up", "host_down", "fabric_up", "fabric_down")
SMALL = {"size_bytes": 4 * COUNT}
DEAD_PEER_NS = 3_000_000_000
"""Within which every rank knows of a death."""


def fault_line(where: str, fault: str, which: object) -> str:
    if fault == "late":
        return f"{where}:delay={which},by=60ms"
    return f"{where}:{fault}={which}"


def ended_ns(result: RankReport) -> int:
    """From the start to the end of a rank's last operation, failed or not."""
    return result.spans_ns[-1][1]


@pytest.fixture(scope="module", params=list(NETWORKS))
def switches(request: pytest.FixtureRequest) -> Iterator[Summing]:
    with summing("switch", **NETWORKS[request.param], **SMALL) as made:
        yield made


@pytest.fixture(scope="module")
def pair_of_leaves() -> Iterator[Summing]:
    with summing("switch", **LEAF_SPINE, **SMALL) as made:
        yield made


@pytest.fixture(scope="module")
def servers() -> Iterator[Summing]:
    with summing("optcast", **LEAF_SPINE, **SMALL, servers=2) as made:
        yield made


def test_any_packet_may_have_any_accident_and_is_added_once(switches: Summing) -> None:
    """In fat trees some packets, and the kind of accident changes from one to the next."""
    count = 3 * VALUES + 1
    before = switches.frames()
    check_verified(switches.run(counts=count))
    frames = switches.frames() - before
    kinds = cycle(FAULTS)
    fat_tree = switches.scenario.topology == "fat-tree"
    for number in range(1, frames + 1, -(-frames // 80) if fat_tree else 1):
        for fault in [next(kinds)] if fat_tree else FAULTS:
            line = fault_line("*", fault, number)
            check_verified(switches.run([line], counts=count), line)
            assert switches.world.faults_done == {line: 1}
            switches.check_added_once(4 + SLOTS)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tier", TIERS)
def test_a_whole_tier_may_have_accidents_for_a_while(
    pair_of_leaves: Summing, tier: str, fault: str
) -> None:
    for which in ("1-4", "2-9", "5-16"):
        line = fault_line(tier, fault, which)
        check_verified(pair_of_leaves.run([line]), line)
        pair_of_leaves.check_added_once(ROUNDS)


@pytest.mark.parametrize("fault", FAULTS)
def test_any_packet_to_or_from_a_server_may_have_any_accident(servers: Summing, fault: str) -> None:
    before = servers.frames()
    check_verified(servers.run())
    for number in range(1, servers.frames() - before + 1):
        line = fault_line("*", fault, number)
        check_verified(servers.run([line]), line)
        assert servers.world.faults_done == {line: 1}


def fault_lines() -> st.SearchStrategy[str]:
    """Accidents of packets, and outages that end, where two leaves have two hosts each."""
    packets = st.builds(
        fault_line,
        st.sampled_from(["*", *TIERS, "h0>leaf0", "leaf1-spine1"]),
        st.sampled_from(FAULTS),
        st.one_of(st.integers(1, 60), st.sampled_from(["1-5", "3-20"])),
    )
    outages = st.builds(
        "{}:fail,at={}us,for={}us".format,
        st.sampled_from(["leaf0-spine1", "h1-leaf0", "h0>leaf0", "leaf1", "spine1"]),
        st.integers(0, 2000),
        st.integers(1, 100_000),
    )
    return st.one_of(packets, packets, outages)


@given(
    lines=st.lists(fault_lines(), max_size=6),
    dtype=st.sampled_from(["int32", "float32", "float16", "bfloat16"]),
    counts=st.one_of(
        st.sampled_from([0, 1, VALUES, COUNT]),
        st.tuples(*[st.integers(0, 40)] * 4),
    ),
    op=st.sampled_from(["sum", "average"]),
)
def test_random_accidents_in_switches_leave_every_sum_right(
    pair_of_leaves: Summing, lines: list[str], dtype: str, counts: int | tuple[int, ...], op: str
) -> None:
    scatter = isinstance(counts, tuple)
    each = counts if isinstance(counts, tuple) else (counts,)
    blocks = sum(-(-count // VALUES) for count in each)
    collective = "reduce-scatter" if scatter else "allreduce"
    note(f"{collective} of {counts}")
    check_verified(
        pair_of_leaves.run(lines, collective=collective, counts=counts, dtype=dtype, op=op)
    )
    rounds = blocks if dtype == "int32" else blocks + min(SLOTS, blocks)
    pair_of_leaves.check_added_once(rounds)


@given(
    lines=st.lists(fault_lines(), max_size=4),
    dtype=st.sampled_from(["int64", "float32", "bfloat16"]),
    counts=st.one_of(
        st.sampled_from([0, 1, 5, 3000]),
        st.tuples(*[st.integers(0, 2000)] * 4),
    ),
    op=st.sampled_from(OPS),
    split=st.sampled_from([0, 1, 3, 9]),
    fan_in=st.sampled_from([0, 2, 3]),
    block_bytes=st.sampled_from([0, 1, 1000]),
)
def test_random_accidents_on_the_way_to_servers_leave_every_sum_right(
    servers: Summing,
    lines: list[str],
    counts: int | tuple[int, ...],
    split: int,
    fan_in: int,
    block_bytes: int,
    **more: Any,
) -> None:
    collective = "reduce-scatter" if isinstance(counts, tuple) else "allreduce"
    own = own_of("optcast", split=split, fan_in=fan_in, block_bytes=block_bytes)
    check_verified(servers.run(lines, collective=collective, counts=counts, own=own, **more))


@pytest.mark.parametrize("where", ["host", "leaf1"])
@pytest.mark.parametrize("algorithm", ["switch", "optcast"])
def test_a_worker_that_stalls_is_waited_for(
    pair_of_leaves: Summing, servers: Summing, algorithm: str, where: str
) -> None:
    net = pair_of_leaves if algorithm == "switch" else servers
    if where == "host":
        where = f"h{net.scenario.placement.jobs[0][2]}-leaf1"
    results = net.run([f"{where}:fail,at=200us,for=300ms"], counts=1000)
    check_verified(results)
    assert min(result.completion_ns for result in results) > 300_000_000
    if algorithm == "switch":
        net.check_added_once(-(-1000 // VALUES) + SLOTS)


def test_what_a_crashed_job_left_in_the_slots_is_in_no_later_sum(pair_of_leaves: Summing) -> None:
    net = pair_of_leaves
    for at_us in (200, 290, 380):
        results = net.run([f"h3:kill,at={at_us}us"], counts=1000)
        assert all(not result.verified for result in results)
        left = net.counted()["239.255.0.1", "leaf0"]
        assert left.contributions > left.results, "some round waits for the dead rank"
        check_verified(net.run(), at_us)
        net.check_added_once(ROUNDS)
        check_verified(net.run(dtype="int32"), at_us)
        net.check_added_once(BLOCKS)


@pytest.mark.parametrize("algorithm", ["switch", "optcast"])
def test_a_killed_rank_is_named_by_every_other(
    pair_of_leaves: Summing, servers: Summing, algorithm: str
) -> None:
    net = pair_of_leaves if algorithm == "switch" else servers
    victim = net.scenario.placement.jobs[0][3]
    results = net.run([f"h{victim}:kill,at=400us"], counts=20_000)
    for result in results[:3]:
        assert not result.verified
        assert re.search(r"rank 3\b", result.error), result.error
        assert ended_ns(result) < DEAD_PEER_NS
    check_verified(net.run())


@pytest.mark.parametrize("server", [0, 1])
def test_a_killed_server_is_named_by_every_rank(servers: Summing, server: int) -> None:
    host = servers.world.topology.hosts[servers.scenario.placement.servers[server]]
    results = servers.run([f"{host.name}:kill,at=400us"], counts=20_000)
    for result in results:
        assert not result.verified
        assert re.search(rf"server {server}\b", result.error), result.error
        assert ended_ns(result) < DEAD_PEER_NS
    check_verified(servers.run())


@pytest.mark.parametrize("algorithm", ["switch", "optcast"])
def test_of_two_jobs_at_once_one_may_die(algorithm: str) -> None:
    options = {"servers": 2} if algorithm == "optcast" else {}
    with summing(algorithm, **LEAF_SPINE, size_bytes=40_000, jobs=2, **options) as net:
        check_verified(net.run())
        _, second = net.scenario.placement.jobs
        results = net.run([f"h{second[1]}:kill,at=400us"])
        assert [(one.team, one.verified) for one in results] == [
            (0, True), (0, True), (1, False), (1, False),
        ]  # fmt: skip
        assert "rank 1" in results[2].error
        check_verified(net.run())
        if algorithm == "switch":
            net.check_added_once(10_000 // VALUES + SLOTS)


@pytest.mark.parametrize(
    "options",
    [
        {"jobs": 2, "servers": 2, "split": 3},
        {"fan_in": 2, "servers": 4},
        {"fan_in": 2, "servers": 4, "server_placement": "ranks", "split": 8},
        {"servers": 3, "server_placement": "ranks", "jobs": 2},
        {"servers": 1, "hosts_per_leaf": 1, "leaves": 1, "spines": 1},
        {"topology": "fat-tree", "leaves": None, "spines": None, "hosts_per_leaf": None, "k": 4},
    ],
    ids=str,
)
@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter"])
def test_servers_may_be_anywhere_and_in_trees(options: dict[str, Any], collective: str) -> None:
    lossy = {"collective": collective, "size_bytes": 20_000, "loss": 0.01, "seed": 3}
    with summing("optcast", **{**LEAF_SPINE, **lossy, **options}) as net:
        check_verified(net.run())


@pytest.mark.parametrize("algorithm", ["switch", "optcast"])
def test_operations_at_once_on_links_that_lose(algorithm: str) -> None:
    options = {"servers": 2} if algorithm == "optcast" else {}
    many = {"operations": 5, "at_once": 3, "size_bytes": 2000, "loss": 0.02}
    with summing(algorithm, **LEAF_SPINE, **many, **options) as net:
        check_verified(net.run(["*:corrupt=20-25"]))
        if algorithm == "switch":
            net.check_added_once(5 * (-(-500 // VALUES) + SLOTS))


@pytest.mark.parametrize("algorithm", ["switch", "optcast"])
def test_the_same_run_twice_is_the_same_to_the_last_bit(algorithm: str) -> None:
    options = {"servers": 2} if algorithm == "optcast" else {}
    digests = []
    for seed in (5, 5, 6):
        with summing(algorithm, **LEAF_SPINE, **SMALL, loss=0.02, seed=seed, **options) as net:
            check_verified(net.run(["*:swap=3"]))
            digests.append(net.world.digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter"])
@pytest.mark.parametrize("dtype", [*DTYPES])
def test_servers_reduce_every_type_by_every_operation(
    servers: Summing, dtype: str, collective: str
) -> None:
    for op in OPS:
        check_verified(servers.run(collective=collective, dtype=dtype, op=op), op)


@pytest.mark.parametrize("dtype", [*DTYPES])
@pytest.mark.parametrize("op", OPS)
def test_what_ranks_are_held_to_is_what_numpy_makes_of_their_contributions(
    dtype: str, op: str
) -> None:
    """Exact by Python's own integers, for the numbers are whole."""
    for algorithm in ("optcast", *(["switch"] if dtype == "int32" and op in OPS[::3] else [])):
        request = Request(0, "allreduce", algorithm, 50, dtype=dtype, op=op)
        workload = Workload(request, 3, seed=1)
        given = [workload.buffer(rank) for rank in range(3)]
        columns = list(zip(*([int(x) for x in each] for each in given), strict=True))
        if op in ("min", "max"):
            expected = [(min if op == "min" else max)(column) for column in columns]
        else:
            expected = [sum(column) for column in columns]
        exact = np.array(expected, object)
        if given[0].dtype.kind in "iu":
            bits = 8 * given[0].dtype.itemsize
            exact = exact & ((1 << bits) - 1)
            if given[0].dtype.kind == "i":
                exact = np.array([x - (1 << bits) * (x >> (bits - 1)) for x in exact], object)
            if op == "average":
                exact = np.array([abs(x) // 3 * (1 if x >= 0 else -1) for x in exact], object)
        elif op == "average":
            exact = exact / 3
        result = exact.astype(given[0].dtype)
        assert workload.check(0, given[0], result) == ""
