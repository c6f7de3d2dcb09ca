"""Source ports drawn by the seed: what ECMP makes of them is as good as independent choice."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fabric import program_names

from weft.agents.collectives.communicator import Communicator
from weft.agents.datagrams import ipv4
from weft.agents.participant import Cast
from weft.agents.ranks import OperationConfig
from weft.agents.transport import Endpoint, TransportOptions
from weft.agents.transport.source_ports import FIRST_PORT, PORTS, source_port
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import Flows, IntArray
from weft.experiments.loads.link_loads import FloatArray
from weft.experiments.paths.scheme import drawn_ports
from weft.experiments.runs.inputs import cast_of, operation_of, plan_at_start, transport_of
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.lanes import assignment_of
from weft.experiments.theory.static_paths import Situation, analyse
from weft.experiments.theory.static_workloads import Step

SEEDS = 150


@given(st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
@settings(max_examples=10)
def test_the_ports_of_two_hosts_are_all_the_dynamic_ones_in_an_order_of_their_own(
    seed: int, source: int, destination: int
) -> None:
    ports = [source_port(seed, source, destination, number) for number in range(PORTS)]
    assert sorted(ports) == list(range(FIRST_PORT, FIRST_PORT + PORTS))
    numbers = np.arange(PORTS, dtype=np.int64)
    ends = np.int64(source) + 0 * numbers, np.int64(destination) + 0 * numbers
    assert source_port(seed, *ends, numbers).tolist() == ports
    others = [source_port(seed + 1, source, destination, number) for number in range(64)]
    assert sum(one == other for one, other in zip(ports, others, strict=False)) < 4


def test_ports_are_even_over_seeds_hosts_and_lanes() -> None:
    """By the chi-squared statistic over 256 classes, of each by itself."""
    many = np.arange(1 << 16, dtype=np.int64)
    first = 10 << 24 | 1
    zero = 0 * many
    by_seed = np.array([source_port(seed, first, first + 1, 0) for seed in range(1 << 14)])
    for drawn in (
        by_seed,
        source_port(1, first + many, zero + first, zero),
        source_port(1, zero + first, first + many, zero),
        source_port(2, first + many % 256, first + (many >> 8), zero + 3),
    ):
        for shift in (0, 6):
            counts = np.bincount((drawn - FIRST_PORT >> shift) & 255, minlength=256)
            expected = len(drawn) / 256
            # Of 255 degrees of freedom: mean 255, standard deviation 22.6.
            assert 255 - 5 * 22.6 < ((counts - expected) ** 2 / expected).sum() < 255 + 5 * 22.6


# -- collisions


def offset_step(paths: ClosPaths) -> Flows:
    """A step of halving-doubling whose partners are below different leaves."""
    hosts = np.arange(paths.hosts, dtype=np.int64)
    return Flows(hosts, hosts ^ paths.hosts_per_leaf, np.full(paths.hosts, 1 << 20, np.int64))


def permutation(paths: ClosPaths) -> Flows:
    """Every host sends to the one half way round."""
    hosts = np.arange(paths.hosts, dtype=np.int64)
    there = (hosts + paths.hosts // 2) % paths.hosts
    return Flows(hosts, there, np.full(paths.hosts, 1 << 20, np.int64))


def fullest_over_mean(paths: ClosPaths, fabric: IntArray | FloatArray) -> float:
    """Of the links between switches that the flows could take."""
    return float(fabric.max() / fabric[fabric > 0].sum() * paths.leaves * paths.uplinks)


def hashed(paths: ClosPaths, flows: Flows, lanes: int, seed: int) -> float:
    situation = Situation(paths, np.arange(paths.hosts), np.ones(paths.directions), seed=seed)
    scheme = f"ecmp-{lanes}" if lanes > 1 else "ecmp"
    loads = analyse(situation, [Step(flows, 1)], scheme).loads
    return fullest_over_mean(paths, loads.leaf_up)


def drawn(paths: ClosPaths, flows: Flows, lanes: int, seed: int) -> float:
    """The same figure where numpy draws each lane's uplink, for all alike and each by itself."""
    random = np.random.default_rng(seed)
    loads = np.zeros((paths.leaves, paths.uplinks))
    leaf = np.repeat(paths.leaf_of(flows.source), lanes)
    np.add.at(loads, (leaf, random.integers(0, paths.uplinks, len(leaf))), 1.0)
    return fullest_over_mean(paths, loads)


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("step", [offset_step, permutation], ids=["halving", "permutation"])
@pytest.mark.parametrize(
    "paths",
    [
        ClosPaths.leaf_spine(4, 4, 4),
        ClosPaths.leaf_spine(4, 3, 4),
        ClosPaths.leaf_spine(8, 8, 8),
        ClosPaths.leaf_spine(16, 16, 16),
        ClosPaths.fat_tree(8),
    ],
    ids=lambda one: f"{one.leaves}x{one.uplinks}x{one.hosts_per_leaf}",
)
def test_collisions_over_seeds_are_those_of_independent_choice(
    paths: ClosPaths, step: object, lanes: int
) -> None:
    assert callable(step)
    flows = step(paths)
    found = np.array([hashed(paths, flows, lanes, seed) for seed in range(SEEDS)])
    ideal = np.array([drawn(paths, flows, lanes, seed) for seed in range(4 * SEEDS)])
    error = ideal.std() * (1 / SEEDS + 1 / len(ideal)) ** 0.5
    assert abs(found.mean() - ideal.mean()) < 4 * error
    assert 0.7 < found.std() / ideal.std() < 1.4


def test_cores_of_a_fat_tree_are_chosen_by_themselves_too() -> None:
    paths = ClosPaths.fat_tree(8)
    flows = permutation(paths)
    found, ideal = [], []
    for seed in range(SEEDS):
        situation = Situation(paths, np.arange(paths.hosts), np.ones(paths.directions), seed=seed)
        loads = analyse(situation, [Step(flows, 1)], "ecmp").loads.core_up
        found.append(loads.max() / loads.mean())
        random = np.random.default_rng(seed)
        counts = np.zeros(loads.shape)
        up = random.integers(0, paths.uplinks, len(flows))
        core = random.integers(0, paths.cores, len(flows))
        np.add.at(counts, (paths.pod_of(paths.leaf_of(flows.source)), up, core), 1)
        ideal.append(counts.max() / counts.mean())
    error = np.std(ideal) * (2 / SEEDS) ** 0.5
    assert abs(np.mean(found) - np.mean(ideal)) < 4 * error
    assert 0.7 < np.std(found) / np.std(ideal) < 1.4


# -- one function for all


def test_a_runs_queue_pairs_and_the_static_analysis_have_the_same_ports() -> None:
    scenario = Scenario("alltoall", leaves=4, seed=7, rank_placement="random")
    network = scenario.network()
    cast = cast_of(scenario, network, plan_at_start(program_names(), scenario, network), "direct")
    (hosts,) = scenario.placement.jobs
    addresses = [ipv4(address) for address in cast.teams[0].addresses]
    endpoint = Endpoint(addresses[2], options=transport_of(scenario))
    communicator = Communicator(endpoint, 2, addresses, partners=range(8))
    ends = np.array([(hosts[2], hosts[peer]) for peer in communicator.queue_pairs])
    expected = drawn_ports(7, ClosPaths.of(network).address_of(ends), 1)[:, 0].tolist()
    assert endpoint.source_ports == expected
    lanes = assignment_of(replace(scenario, paths="ecmp-4"), "direct").lanes
    for (one, other), chosen in lanes.items():
        pair = ClosPaths.of(network).address_of(np.array([[one, other]]))
        ports = drawn_ports(7, pair, 4)
        assert [lane[0] for lane in chosen] == ports[0].tolist()


def test_both_worlds_are_told_the_same_seed_of_ports() -> None:
    """Repetitions differ in their data, not in their ports."""
    scenario = Scenario(paths="ecmp", seed=11, repeat=2)
    assert transport_of(scenario).port_seed == 11
    for repetition in range(2):
        operation = operation_of(scenario, "ring", scenario.seed + repetition)
        assert isinstance(operation, OperationConfig) and operation.seed == 11 + repetition
        network = scenario.network()
        cast = cast_of(scenario, network, plan_at_start(program_names(), scenario, network), "ring")
        assert isinstance(cast, Cast) and cast.transport.port_seed == 11


@pytest.mark.parametrize("paths", ["ecmp-32", "ethereal", "ethereal-ports"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_two_lanes_to_a_peer_share_a_port(paths: str, seed: int) -> None:
    scenario = Scenario(
        "allreduce", algorithms=("halving-doubling",), leaves=4, spines=4, hosts_per_leaf=4,
        paths=paths, seed=seed,
    )  # fmt: skip
    for lanes in assignment_of(scenario, "halving-doubling").lanes.values():
        first = [lane[0] for lane in lanes if lane]
        assert len(set(first)) == len(first)
        assert all(FIRST_PORT <= port < FIRST_PORT + PORTS for port in chain(*lanes))


def test_a_rank_and_a_server_on_one_host_are_reached_from_different_ports() -> None:
    addresses = [ipv4("10.0.0.1") + rank for rank in range(3)]
    endpoint = Endpoint(addresses[0], options=TransportOptions(port_seed=5))
    Communicator(endpoint, 0, addresses, servers=addresses)
    assert len(endpoint.source_ports) == 4  # two ranks and two servers; its own is local
