"""Lanes and pins of a scenario: what is assigned, and that it is what the flows then take."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from tests.support.fabric import program_names

from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF
from weft.controller.selector_hash import Salts, ecmp_paths
from weft.experiments.runs.inputs import cast_of, plan_around, plan_of, program_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.fabric_bound import fabric_bound_ns, is_oversubscribed
from weft.experiments.theory.lanes import assignment_of, placed_steps

SHAPE: dict[str, object] = {
    "world": "simulated", "leaves": 4, "spines": 4, "hosts-per-leaf": 4, "size": "64KiB",
}  # fmt: skip
FAT_TREE: dict[str, object] = {"world": "simulated", "topology": "fat-tree", "k": 4, "size": 65536}


def scenario_of(shape: dict[str, object], **options: object) -> Scenario:
    return from_options({"collective": "alltoall", **shape, **options})


@pytest.mark.parametrize("shape", [SHAPE, FAT_TREE])
@pytest.mark.parametrize("placement", ["in-order", "random"])
def test_pins_load_the_uplinks_of_every_leaf_alike(
    shape: dict[str, object], placement: str
) -> None:
    scenario = scenario_of(shape, paths="ethereal", placement=placement)
    assigned = assignment_of(scenario, "direct")
    network = ClosPaths.of(scenario.network())
    pinned = {(pin.source, pin.destination, pin.source_port): pin.path for pin in assigned.pins}
    assert len(pinned) == len(assigned.pins)
    loads: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for (source, destination), lanes in assigned.lanes.items():
        leaf, far = (int(network.leaf_of(np.array(host))) for host in (source, destination))
        paths = assigned.paths[source, destination]
        if leaf == far:
            assert set(paths) == {WITHIN_LEAF}
            continue
        assert [pinned[source, destination, lane[0]] for lane in lanes if lane] == [*paths]
        for path in paths:
            loads[source, far][path] += 1
    # All flows are of one size, and a source has as many to a leaf as that has hosts.
    for (source, far), counted in loads.items():
        own = int(network.leaf_of(np.array(source)))
        assert set(counted) == set(network.usable_paths(own, far).tolist())
        assert len(set(counted.values())) == 1


@pytest.mark.parametrize("shape", [SHAPE, FAT_TREE])
def test_source_ports_lead_where_pins_would(shape: dict[str, object]) -> None:
    by_pins = assignment_of(scenario_of(shape, paths="ethereal"), "direct")
    scenario = scenario_of(shape, paths="ethereal-ports")
    by_ports = assignment_of(scenario, "direct")
    assert by_ports.paths == by_pins.paths
    assert by_ports.pins == ()
    network = ClosPaths.of(scenario.network())
    rows = [
        (*pair, lane[0], path)
        for pair, paths in by_ports.paths.items()
        for lane, path in zip(by_ports.lanes[pair], paths, strict=False)
        if path != WITHIN_LEAF
    ]
    source, destination, port, path = np.array(rows, np.int64).T
    salts = Salts.of(network, scenario.seed)
    assert (ecmp_paths(network, salts, source, destination, port) == path).all()


@pytest.mark.parametrize("paths", ["ethereal", "ethereal-ports"])
def test_flows_smaller_than_asked_have_one_lane(paths: str) -> None:
    ways: dict[str, object] = {"collective": "allreduce", "algorithm": "halving-doubling"}
    lanes = {
        below: assignment_of(
            scenario_of(SHAPE, paths=paths, **ways, **{"whole-below": below}), "halving-doubling"
        ).pieces
        for below in ("0", "16KiB", "32769", "1GiB")
    }
    # Between leaves the last two exchanges of four are of a half and of a quarter, or the first.
    assert lanes == {"0": 4, "16KiB": 4, "32769": 1, "1GiB": 1}


def test_ecmp_in_pieces_has_as_many_lanes_with_ports_of_their_own() -> None:
    assigned = assignment_of(scenario_of(SHAPE, paths="ecmp-4"), "direct")
    assert assigned.pieces == 4
    for lanes in assigned.lanes.values():
        assert len({lane[0] for lane in lanes}) == 4


@pytest.mark.parametrize("paths", ["ecmp", "destination", "spray", "reps", "plb"])
def test_others_leave_paths_to_switches_and_transport(paths: str) -> None:
    assigned = assignment_of(scenario_of(SHAPE, paths=paths), "direct")
    assert not assigned.lanes
    assert not assigned.pins


def test_both_ends_have_as_many_lanes() -> None:
    scenario = scenario_of(SHAPE, paths="ethereal", collective="broadcast", algorithm="k-nomial")
    lanes = assignment_of(scenario, "k-nomial").lanes
    assert lanes
    for (one, other), chosen in lanes.items():
        assert len(chosen) == len(lanes[other, one])
    plan = plan_of(program_names(), scenario, scenario.network(), algorithm="k-nomial")
    cast = cast_of(scenario, scenario.network(), plan, "k-nomial")
    assert sum(len(peers) for peers in cast.lanes.values()) == len(lanes)


def test_pins_of_a_failed_link_are_moved_and_no_other() -> None:
    scenario = scenario_of(SHAPE, paths="ethereal")
    before = assignment_of(scenario, "direct")
    after = assignment_of(scenario, "direct", frozenset(), frozenset({"leaf0-spine1"}))
    assert after.lanes == before.lanes
    moved = 0
    for old, new in zip(before.pins, after.pins, strict=True):
        assert (old.source, old.destination) == (new.source, new.destination)
        ends = {old.source // 4, old.destination // 4}
        if 0 in ends and old.path == 1:
            assert new.path != 1
            moved += 1
        else:
            assert new == old
    assert moved == 2 * 4 * 3


def test_links_known_to_have_failed_are_planned_around_from_the_start() -> None:
    options = {"fault": ["leaf0-spine1:fail,at=0s"], "notice": "at-once"}
    scenario = scenario_of(SHAPE, paths="ethereal", **options)
    known = frozenset({"leaf0-spine1"})
    assigned = assignment_of(scenario, "direct", known)
    for (source, destination), paths in assigned.paths.items():
        if 0 in (source // 4, destination // 4):
            assert 1 not in paths
    network = scenario.network()
    at_start = plan_around(program_names(), scenario, network, sorted(known), algorithm="direct")
    assert (
        at_start.entities
        != plan_of(program_names(), scenario, network, algorithm="direct").entities
    )


@pytest.mark.parametrize("paths", ["ethereal", "ethereal-ports"])
def test_a_run_loads_the_fabric_evenly(paths: str) -> None:
    scenario = scenario_of({**SHAPE, "size": "1MiB"}, paths=paths, rate="1Gbit")
    run = simulate(scenario, program_of(scenario), "direct", 0, lambda fraction: None)
    assert run.verified, run.error
    for tier in ("fabric_up", "fabric_down"):
        loads = [link.tx_bytes for link in run.links if link.tier == tier]
        # Acknowledgements are hashed: a hundredth of the data.
        assert max(loads) < 1.02 * min(loads)


def test_the_bound_of_an_oversubscribed_network_is_that_of_its_fabric() -> None:
    bounds = []
    for ratio in (1, 2, 4):
        scenario = scenario_of(SHAPE, oversubscription=ratio)
        assert is_oversubscribed(scenario.network()) == (ratio > 1)
        bounds.append(fabric_bound_ns(scenario, "direct", frames=False))
    # 12 of 16 sixteenths of four vectors leave a leaf by four links of the rate over the ratio.
    leaving_ns = 64 * 1024 * 12 / 16 * 8 * 10**9 / 100_000_000
    assert bounds == [0, pytest.approx(2 * leaving_ns), pytest.approx(4 * leaving_ns)]


def test_steps_are_those_of_all_jobs_on_their_hosts() -> None:
    scenario = scenario_of(SHAPE, jobs=2)
    (step,) = placed_steps(scenario, "direct")
    jobs = [set(hosts) for hosts in scenario.placement.jobs]
    assert len(step) == 2 * 8 * 7
    for source, destination in zip(step.source.tolist(), step.destination.tolist(), strict=True):
        assert any({source, destination} <= job for job in jobs)
