"""Reshardings as flows: every device's tile, the bytes that are sent, and the time they take."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.fabric import program_names
from tests.support.memory_network import Faults
from tests.support.resharding_support import QUICK, asked_of, reshardings

from weft import Scenario, run
from weft.agents.collectives.agent import Done
from weft.agents.collectives.names import FLOWS, GIVEN
from weft.agents.collectives.overheads import UD_OVERHEAD_BYTES, frame_bytes
from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import Workload
from weft.base.errors import InputError
from weft.experiments.families.resharding import carrier
from weft.experiments.families.resharding.carrier import MOST_GROUPS, Carried, Carrier
from weft.experiments.families.resharding.cases import case
from weft.experiments.families.resharding.choice import groups_of, time_ns
from weft.experiments.families.resharding.meshes import Mesh
from weft.experiments.families.resharding.names import AUTO, STRATEGIES
from weft.experiments.families.resharding.plan import ReshardingPlan, Tensor, plan
from weft.experiments.families.resharding.strategy import Flows
from weft.experiments.families.resharding.timing import Links

HOSTS = 5
RATE_BPS = 1_000_000_000


def carried_by(found: ReshardingPlan, strategy: str, block_bytes: int = 256) -> Carried:
    made = Carrier(Flows(HOSTS, RATE_BPS, 50.0, block_bytes), lambda host: (host // 2,))
    made.add(found, STRATEGIES[strategy])
    return made.carried()


def request_of(carried: Carried) -> Request:
    return Request(
        0, FLOWS, GIVEN, 0, flows=carried.graph, tensors=carried.tensors,
        own={"block_bytes": carried.block_bytes},
    )  # fmt: skip


def group_of(carried: Carried, **more: Any) -> Group:
    return Group(HOSTS, rate_bps=RATE_BPS, groups=len(carried.graph.groups), **more)


@given(
    reshardings(HOSTS), st.sampled_from(QUICK), st.sampled_from([*STRATEGIES]),
    st.sampled_from([0.0, 0.0, 0.05]), st.integers(0, 99),
)  # fmt: skip
def test_every_tile_is_there(
    asked: tuple[Mesh, Mesh, list[Tensor]], balance: str, strategy: str, loss: float, seed: int
) -> None:
    """Random meshes, also with hosts in common, and specs; with and without loss."""
    found = plan(*asked, balance, seed)
    if not found.senders:
        return
    carried = carried_by(found, strategy)
    faults = Faults(loss=loss, duplication=loss / 5, lateness=loss / 5, seed=seed)
    group_of(carried, faults=faults).complete(request_of(carried))


@given(reshardings(HOSTS), st.sampled_from([*STRATEGIES]))
def test_bytes_sent_are_those_of_the_unit_tasks(
    asked: tuple[Mesh, Mesh, list[Tensor]], strategy: str
) -> None:
    """By the formulas of MLSys 2023, section 3.1, written out for each strategy."""
    found = plan(*asked)
    if not found.senders:
        return
    graph = carried_by(found, strategy).graph
    sent = int(graph.table.size_bytes[graph.sent_once].sum())
    expected = 0
    for task in found.tasks:
        hosts, devices = len(task.remote), sum(map(len, task.remote.values()))
        size = task.size_bytes * bool(hosts)
        if strategy == "send-recv":
            expected += size * devices
        elif strategy in ("send-recv+allgather", "broadcast"):
            expected += size * hosts
        elif strategy == "multicast":
            expected += size
        else:  # the scatter, and every share to all hosts but its own
            expected += size * hosts
    assert sent == expected


def test_what_is_not_sent_is_found() -> None:
    """A byte that is wrong in one place of one host's memory is wrong on the device there."""
    tensor = Tensor((8, 6), "int32", "S0R", "RS1")
    found = plan(Mesh((0, 1), 1), Mesh((2, 3), 2), [tensor])
    carried = carried_by(found, "broadcast")
    workload = Workload(request_of(carried), HOSTS, 1)
    group = group_of(carried)
    group.complete(request_of(carried))
    buffers = [workload.buffer(rank) for rank in range(HOSTS)]
    outputs = [workload.output(rank) for rank in range(HOSTS)]
    assert "of tensor 0 on device 0 of host 2 is wrong" in workload.check(2, buffers[2], outputs[2])
    for rank in (0, 1, 4):  # what they have from the start is no tile of the destination
        assert not workload.check(rank, buffers[rank], outputs[rank])


def test_memory_is_at_most_twice_the_tiles() -> None:
    for strategy in STRATEGIES:
        tensor = Tensor((16, 12), "float32", "S0R", "RS0")
        found = plan(Mesh((0, 1), 4), Mesh((2, 3), 4), [tensor])
        carried = carried_by(found, strategy)
        assert carried.graph.places is not None
        held = sum(carried.graph.places.buffer_bytes) + sum(carried.graph.places.output_bytes)
        assert held <= 2 * 4 * tensor.size_bytes


def test_a_chain_visits_hosts_of_a_switch_one_after_the_other() -> None:
    """Hosts 2 and 3, and 4 and 5, share a switch in pairs; the sender's own comes first."""
    tensor = Tensor((64,), "int32", "R", "R")
    found = plan(Mesh((2,), 1), Mesh((0, 4, 3, 1), 1), [tensor])
    made = Carrier(Flows(HOSTS, RATE_BPS, 50.0, 256), lambda host: (host // 2,))
    made.add(found, STRATEGIES["broadcast"])
    graph = made.carried().graph
    flows = graph.flows.tolist()
    assert [graph.source[flow] for flow in flows] == [2, 3, 0, 1]
    assert [graph.destination[flow] for flow in flows] == [3, 0, 1, 4]


def simulated(**asked: Any) -> Scenario:
    given = {"topology": "single", "hosts_per_leaf": 8, **asked}
    return Scenario("reshard", world="simulated", **given)


@pytest.mark.parametrize("number", range(1, 10))
def test_the_nine_cases_are_within_a_tenth_of_the_bound(number: int) -> None:
    """Of a tensor of the same form with 1/64 of the elements."""
    one = case(number)
    shape = [size // 4 for size in one.shape]
    results = run(
        simulated(
            source=f"{one.source.describe()}:{one.source_spec}",
            destination=f"{one.destination.describe()}:{one.destination_spec}",
            shape=",".join(map(str, shape)), strategies=("broadcast", "multicast"),
        )
    )  # fmt: skip
    for each in results.runs:
        assert each.verified and each.completion_ns is not None
        assert each.completion_ns <= 1.1 * each.bound_ns, (each.algorithm, each.bound_ns)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 10))
def test_the_nine_cases_themselves(number: int) -> None:
    results = run(simulated(case=number, strategies=("broadcast", "multicast")))
    for each in results.runs:
        assert each.verified and each.completion_ns is not None
        assert each.completion_ns <= 1.1 * each.bound_ns, (each.algorithm, each.bound_ns)


def test_links_carry_what_theory_says() -> None:
    from weft.experiments.theory.traffic_model import tier_model_frame_bytes

    scenario = Scenario(
        "reshard", world="simulated", one_to_many="3x2", shape="60000",
        strategies=("multicast", "broadcast", "send-recv"), paths="ethereal",
    )  # fmt: skip
    for each in run(scenario).runs:
        model = tier_model_frame_bytes(scenario.network(), scenario, each.algorithm)
        for tier, size_bytes in each.tiers.items():
            assert size_bytes == pytest.approx(model[tier], rel=0.03), (each.algorithm, tier)


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("strategy", ["broadcast", "multicast"])
def test_slow_copies_inside_a_host_are_not_hidden_by_the_link(devices: int, strategy: str) -> None:
    """They begin with the first block that comes, and all but that is hidden by the link at most,
    which carries the slice once, for however many devices."""
    elements = 65536
    network_ns = elements * 4 * 8e9 / 1e8
    copying_ns = network_ns * (devices - 1)  # as fast as a link of 100 Mbit/s
    scenario = simulated(
        one_to_many=f"1x{devices}", shape=str(elements), hosts_per_leaf=2, local_factor=1.0,
        strategies=(strategy,),
    )  # fmt: skip
    (found,) = run(scenario).runs
    assert found.completion_ns is not None
    assert copying_ns <= found.completion_ns <= copying_ns + 0.1 * network_ns


def test_loss_and_other_paths() -> None:
    results = run(
        simulated(
            topology="leaf-spine", hosts_per_leaf=2, case=None, source="2x4:S0RR",
            destination="3x4:S0RR", shape="96,32,34", dtype="bfloat16", loss=0.01,
            strategies=("broadcast", "multicast", "auto"), balances=("greedy", "none"),
            paths="spray",
        )
    )  # fmt: skip
    assert [each.algorithm for each in results.runs] == [
        "broadcast/greedy", "broadcast/none", "multicast/greedy", "multicast/none", "auto/greedy",
        "auto/none",
    ]  # fmt: skip
    assert results.verified


def test_meshes_of_named_hosts_and_several_tensors() -> None:
    results = run(
        simulated(
            source="h5,h1x2/dp=2,tp=2:Shard(0),Replicate();S01",
            destination="h1,h2x2:S1R;R", shape="7,5;11", dtype="complex128",
        )
    )  # fmt: skip
    assert results.verified


def test_each_tensor_may_have_a_type_of_its_own() -> None:
    scenario = simulated(
        source="2x2:S0R;S01", destination="2x2:S1R;R", shape="7,5;11", dtype="complex128; int8"
    )
    assert scenario.size_bytes == 7 * 5 * 16 + 11
    assert run(scenario).verified


@pytest.mark.parametrize(
    "asked, message",
    [
        ({}, "reshard needs to know what: choose --case 1 to 9"),
        ({"source": "2x4:S0RR"}, "source '2x4:S0RR' without destination: say --destination, too"),
        (
            {"source": "2x4:S0R", "destination": "2x4:S0R"},
            "source '2x4:S0R' without shape: say --shape, too",
        ),
        ({"destination": "2x4:S0R", "shape": "4,4"}, "destination and shape are for a source"),
        ({"case": 10}, "case 10 is out of range"),
        ({"case": 1, "strategies": ("what",)}, "strategy 'what' is unknown: choose from broadcast"),
        ({"case": 1, "balances": ("what",)}, "balance 'what' is unknown: choose from best"),
        ({"case": 1, "hosts_per_leaf": 3}, "the meshes have 4 hosts: the network has 3 ranks"),
        ({"one_to_many": "4"}, "one-to-many '4' is no mesh: write hosts x devices, like 4x2"),
        (
            {"source": "what", "destination": "1x1:R", "shape": "4"},
            "source 'what' is no mesh with a sharding",
        ),
        (
            {"source": "h0,h0x1:R", "destination": "1x1:R", "shape": "4"},
            "a mesh has host 0 twice",
        ),
        (
            {"source": "h99x1:R", "destination": "1x1:R", "shape": "4"},
            "source 'h99x1:R': 'h99' is the host of no rank",
        ),
        (
            {"source": "1x1:R;R", "destination": "1x1:R", "shape": "4"},
            "source '1x1:R;R' shards 2 tensors, and shape '4' is of 1",
        ),
        ({"source": "1x1:R", "destination": "1x1:R", "shape": "4,x"}, "shape '4,x' is none"),
        (
            {"source": "2x2/3x2:R", "destination": "1x1:R", "shape": "4"},
            "a mesh of shape 3x2 on 2 hosts with 2 devices each, which are 4",
        ),
        (
            {"source": "h0x1:R", "destination": "h0x2:R", "shape": "4"},
            "every host has all that its devices need",
        ),
        ({"case": 1, "dtype": "what"}, "dtype 'what' is unknown"),
        ({"case": 1, "dtype": "int32;"}, "dtype 'int32;' is unknown"),
        (
            {"case": 1, "dtype": "int32;bool"},
            "dtype 'int32;bool' is of 2 tensors, and a case has one: give one for all, or one for",
        ),
        (
            {
                "source": "1x1:R;R;R",
                "destination": "1x1:R;R;R",
                "shape": "4;5;6",
                "dtype": "int32;bool",
            },
            "dtype 'int32;bool' is of 2 tensors, and shape '4;5;6' is of 3: give one for all, or",
        ),
        ({"case": 4, "balances": ("exact",)}, "balance 'exact' solves 16 slices at most, and 64"),
        ({"source": "1x1:R", "full": True}, "full is for the paper's cases|without destination"),
        (
            {"case": 1, "strategies": ("broadcast",), "algorithms": ("multicast",)},
            "name strategies and balances, or algorithms, but not both",
        ),
        (
            {"case": 1, "dtype": "foo"},
            "dtype 'foo' is unknown: choose from .*float64, bool, complex64",
        ),
        ({"source": "1x1:R", "destination": "1x1:R", "shape": "\u0663,5"}, "shape .* is none"),
        ({"one_to_many": "\u0661x2"}, "one-to-many .* is no mesh"),
        ({"source": "1x\u0661:R", "destination": "1x1:R", "shape": "4"}, "is no mesh with a"),
        ({"source": "\u0661x1:R", "destination": "1x1:R", "shape": "4"}, "is the host of no rank"),
        ({"case": 1, "local_factor": 0.0}, "local-factor 0: from 0.01"),
        (
            {"source": "1x1:R", "destination": "1x1:R", "shape": str(10**20)},
            "shape 1(0){20} of int32 is .* at most 1.*iB are valid",
        ),
        (
            {"source": "2x999999999:S1RR", "destination": "2x4:RRR", "shape": "4,64,8"},
            "a mesh of 2 hosts with 999999999 devices each has 1999999998: at most 65536",
        ),
        (
            {"source": "999999999x1:R", "destination": "1x1:R", "shape": "4"},
            "a mesh of 999999999 hosts, and the network has 8 ranks",
        ),
        ({"case": 3, "shape": "8,8,8;4,4,4"}, "is of 2 tensors, and a case has one"),
        ({"case": 1, "shape": "8,8,8", "full": True}, "full is for the paper's cases and their"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulated(**asked)


def test_options_of_others_are_refused() -> None:
    with pytest.raises(InputError, match=r"strategy .* means nothing for allgather"):
        Scenario("allgather", world="simulated", strategies=("broadcast",))
    with pytest.raises(InputError, match="dtype 'bool' is for reshard"):
        Scenario("allgather", world="simulated", dtype="bool")
    with pytest.raises(InputError, match="dtype 'int32;float16' is for reshard"):
        Scenario("allgather", world="simulated", dtype="int32;float16")


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.base.errors import MachineError
    from weft.experiments.runs import capacity

    monkeypatch.setattr(capacity, "available_bytes", lambda: 1 << 30)
    scenario = simulated(case=8, full=True, payload="all")
    # Source 2 GiB, destination eight times as much; twice that is 36 GiB.
    with pytest.raises(MachineError, match=re.escape("are 18 GiB, and up to twice as much memory")):
        capacity.check_capacity(scenario)
    with pytest.raises(MachineError, match=r"or --payload none, which takes \d+ MiB"):
        capacity.check_capacity(scenario)
    assert capacity.check_capacity(replace(scenario, payload="none")) < 1 << 30


def test_frames_of_a_multicast() -> None:
    """Ethernet 14, IPv4 20, UDP 8, BTH 12, DETH 8, immediate 4 and ICRC 4, by hand."""
    found = frame_bytes(np.array([4096, 1]), 4096, UD_OVERHEAD_BYTES)
    assert found.tolist() == [4096 + 70, 1 + 70]


def plan_of(number: int) -> ReshardingPlan:
    one = case(number)
    tensor = Tensor(one.shape, "int32", one.source_spec, one.destination_spec)
    return plan(one.source, one.destination, [tensor])


def test_the_model_of_strategies() -> None:
    """The formulas of section 3.1 for one slice of t, A = 2 hosts of B = 4 devices, K blocks."""
    one = case(7)
    tensor = Tensor(one.shape, "int32", "RRR", "RRR")
    found = plan(Mesh((0,), 1), one.destination, [tensor])
    whole = tensor.size_bytes
    rate_bps = 8_000_000_000  # a byte a nanosecond
    like = Carrier(Flows(3, rate_bps, 1e9, whole // 64))
    links = Links(rate_bps, 1, whole // 64, headers=False)
    times_t = {name: time_ns(found, STRATEGIES[name], like, links) / whole for name in STRATEGIES}
    assert times_t == pytest.approx({
        "send-recv": 8, "send-recv+allgather": 2, "global-allgather": 1.5,
        "broadcast": 1 + 1 / 64, "multicast": 1,
    }, rel=1e-4)  # fmt: skip
    assert not like.flows.buffer_bytes[0], "it is asked how long it takes, and nothing is added"


SMALL_SLICES: list[dict[str, Any]] = [
    {"source": "2x4:S0RR", "destination": "2x4:RRS0", "shape": "64,8,8"},
    {"source": "2x4:S0RR", "destination": "2x4:RRR", "shape": "64,8,4"},
    {"source": "3x1:RS0R", "destination": "4x4:S1RR", "shape": "4,8,12"},
    {"source": "4x2:RRS0", "destination": "3x4:RRR", "shape": "3,4,24", "delay_ns": 50_000},
    {"source": "1x2:RRS1", "destination": "2x2:RRS1", "shape": "12,16,24"},
    {"source": "1x1:RRR", "destination": "6x1:RRR", "shape": "4,4,4"},
]


@pytest.mark.parametrize("network", [{"topology": "single", "hosts_per_leaf": 8}, {}], ids=str)
@pytest.mark.parametrize("asked", SMALL_SLICES, ids=lambda asked: asked["source"])
def test_auto_is_the_best_where_slices_are_smaller_than_a_packet(
    asked: dict[str, Any], network: dict[str, Any]
) -> None:
    strategies = (*STRATEGIES, AUTO)
    results = run(Scenario("reshard", world="simulated", strategies=strategies, **asked, **network))
    assert results.verified
    times = {each.algorithm: each.completion_ns or 0 for each in results.runs}
    assert times[AUTO] <= 1.05 * min(times.values()), times


def test_groups_are_counted() -> None:
    """Case 4 has a receiver for each slice; in case 7 one host sends to the same two."""
    for number, groups in ((4, 0), (7, 1)):
        assert groups_of(plan_of(number)) == groups
        assert len(carried_by(plan_of(number), "multicast").graph.groups) == groups


def test_more_groups_than_tables_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four hosts each send a quarter to all others: four groups, and the table has three."""
    tensor = Tensor((8,), "int32", "S0", "R")
    found = plan(Mesh((0, 1, 2, 3), 1), Mesh((0, 1, 2, 3), 1), [tensor])
    assert groups_of(found) == 4
    monkeypatch.setattr(carrier, "MOST_GROUPS", 4)
    carried_by(found, "multicast")
    monkeypatch.setattr(carrier, "MOST_GROUPS", 3)
    with pytest.raises(InputError, match="4 groups are needed, and the table of a switch holds 3"):
        carried_by(found, "multicast")
    assert not carried_by(found, "broadcast").graph.groups


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_slice_that_nobody_sends_is_missed(strategy: str) -> None:
    """A plan that leaves out a unit task: the tile that lacks it is told, by its device."""
    tensor = Tensor((8, 6), "int32", "S0R", "RS1")
    found = plan(Mesh((0, 1), 1), Mesh((2, 3), 2), [tensor])
    *order, left_out = found.order
    carried = carried_by(replace(found, order=(*order,)), strategy)
    group = group_of(carried)
    group.start(request_of(carried))
    assert all(isinstance(event, Done) for event in group.finish(10_000_000_000))
    with pytest.raises(InputError, match=r"the pieces of tensor 0 on device . of host . have"):
        group.verify()
    assert left_out in found.senders


def test_groups_are_as_many_as_tables_hold() -> None:
    """`MOST_GROUPS` is the size of the program's table."""
    assert program_names().size("multicast_route") == MOST_GROUPS


@settings(max_examples=12)
@given(
    reshardings(HOSTS), st.sampled_from([*STRATEGIES]), st.sampled_from([0.0, 0.02]),
    st.sampled_from(["ecmp", "spray", "ethereal"]),
)  # fmt: skip
def test_every_tile_is_there_in_the_simulated_world(
    asked: tuple[Mesh, Mesh, list[Tensor]], strategy: str, loss: float, paths: str
) -> None:
    """The same with the P4 program in every switch of a leaf-spine."""
    source, destination, tensors = asked
    if not plan(source, destination, tensors).senders:
        return
    results = run(
        Scenario(
            "reshard", world="simulated", strategies=(strategy,), loss=loss, paths=paths,
            **asked_of((source, destination), tensors),
        )
    )  # fmt: skip
    assert results.verified, results.runs[0].error
