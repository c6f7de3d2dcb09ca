"""PyTorch over the testbed, without torch and without a network: choices of algorithms, groups in
switches, figures, and what is refused."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import fabric

import weft
from weft.base.errors import InputError
from weft.controller import Plan
from weft.controller.features.aggregation import plan_aggregation, trees_of
from weft.experiments.training.group_trees import MOST_TREES, GroupTrees
from weft.experiments.training.management import free_network
from weft.experiments.training.ranks import better_reason
from weft.experiments.training.results import rank_of, trace_of
from weft.experiments.training.torch_run import TorchOptions, check_program
from weft.pytorch.choices import Choices, choices_of, parse_choice
from weft.pytorch.messages import MakeGroup, decode, encode
from weft.pytorch.timeline import Operation, Record, Step
from weft.topo.clos import leaf_spine
from weft.topo.network import Topology
from weft.topo.reach import Reach


def test_a_choice_goes_by_size() -> None:
    choice = parse_choice("allreduce", "direct<16KiB, ring<1MiB, switch")
    assert [choice.of(size) for size in (0, 16383, 16384, 1 << 20)] == [
        "direct", "direct", "ring", "switch"
    ]  # fmt: skip
    assert parse_choice("allreduce", str(choice)).steps == choice.steps


@pytest.mark.parametrize(
    ("collective", "text", "why"),
    [
        ("allreduce", "rign", "algorithm 'rign' is unknown .did you mean ring"),
        ("allgather", "switch", "algorithm 'switch' is unknown"),
        ("allreduce", "ring<1MiB", "the last algorithm has no size"),
        ("allreduce", "ring,switch", "the last algorithm has no size"),
        ("allreduce", "ring<2MiB,direct<1MiB,switch", "sizes grow"),
        ("allreduce", "", "algorithm '' is unknown"),
        ("allreduce", "ring<x,switch", "size"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(collective: str, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_choice(collective, text)


def test_what_the_chosen_algorithm_cannot_do_another_does_and_a_note_says_so() -> None:
    asked = choices_of({"allreduce": "switch", "allgather": "multicast"})
    able = Choices(asked, multicasts=True, adds=True)
    assert able.algorithm("allreduce", 100, "float32") == "switch"
    assert able.algorithm("allgather", 100) == "multicast"
    assert not able.notes
    assert able.algorithm("allreduce", 1 << 20, "float64") == "ring"
    assert able.algorithm("allreduce", 100, "float32", "max") == "direct"
    unable = Choices(asked, multicasts=False, adds=False)
    assert unable.algorithm("allreduce", 1 << 20, "float32") == "ring"
    assert unable.algorithm("allgather", 1 << 20) == "ring"
    assert len(able.notes) == 2 and len(unable.notes) == 2
    silent = Choices(choices_of({}), multicasts=False, adds=False)
    assert silent.algorithm("allreduce", 1 << 20, "float32") == "ring"
    assert not silent.notes


class Switches:
    """Trees of groups on a network, and the plans that were made of them."""

    def __init__(self, network: Topology) -> None:
        self.network = network
        self.plans: list[dict[str, object]] = []
        self.trees = GroupTrees(
            fabric.program_names(), Reach(network), 64, 256, itertools.count(7),
            lambda wants: self.plans.append(dict(wants)) or Plan({}, {}),  # type: ignore[func-returns-value]
            lambda plan: None,
        )  # fmt: skip

    def make(self, name: str, ranks: list[int]) -> object:
        asked = MakeGroup(name, ranks, multicast=True, aggregation=True)
        return self.trees.make(asked, [self.network.hosts[rank].name for rank in ranks])


def test_groups_of_ranks_get_trees_and_give_them_back() -> None:
    switches = Switches(leaf_spine(2, 2, 2))
    whole = switches.trees.make(MakeGroup("0", [0, 1, 2, 3], True, True), ["h0", "h1", "h2", "h3"])
    assert whole.groups == ["239.0.0.0", "239.0.0.1"] and whole.job is not None
    pair = switches.trees.make(MakeGroup("1", [0, 1], True, True), ["h0", "h1"])
    assert pair.groups == ["239.0.0.2"] and pair.job is not None
    assert pair.job.address != whole.job.address and pair.job.epoch != whole.job.epoch
    for rank in range(3):
        switches.trees.drop("0", rank)
    assert switches.trees.names == ["0", "1"]
    switches.trees.drop("0", 3)
    assert switches.trees.names == ["1"]
    assert switches.plans[-1]["multicast"] == [None, None, ("h0", "h1")]
    again = switches.trees.make(MakeGroup("2", [1, 2], True, False), ["h1", "h2"])
    assert again.groups == ["239.0.0.0", "239.0.0.1"] and again.job is None
    switches.trees.clear()
    assert switches.plans[-1] == {"multicast": [], "aggregation": []}


def test_more_groups_than_tables_hold_go_by_unicast_with_a_note() -> None:
    switches = Switches(leaf_spine(2, 2, 2))
    made = [
        switches.trees.make(MakeGroup(str(n), [0, 3], True, True), ["h0", "h3"]) for n in range(12)
    ]
    jobs = [each.job for each in made]
    assert all(jobs[:8]) and not any(jobs[8:])
    assert "no room for sums is free" in made[8].note and "group 8 of 2 ranks" in made[8].note
    numbers = {job.address for job in jobs if job is not None}
    assert len(numbers) == 8
    assert all(len(each.groups) <= MOST_TREES for each in made)


spans = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 30)).map(lambda each: (each[0], sum(each))),
    max_size=8,
)


@given(waits=spans, operations=spans)
def test_times_of_a_rank_add_up(
    waits: list[tuple[int, int]], operations: list[tuple[int, int]]
) -> None:
    """Against counting instants one by one."""
    record = Record(
        0, "h0", 10, 110,
        operations=[Operation("allreduce", "ring", "0", 8, *each) for each in operations],
        waits_ns=waits,
        steps=[Step(40, 1.5), Step(100, None)],
    )  # fmt: skip
    found = rank_of(record, 0, "h0", 0, "")
    instants = range(10, 100)
    exposed = {at for at in instants if any(a <= at < b for a, b in waits)}
    busy = {at for at in instants if any(a <= at < b for a, b in operations)}
    assert found.total_ns == 90
    assert found.exposed_ns == len(exposed)
    assert found.computation_ns == 90 - len(exposed)
    assert found.hidden_ns == len(busy - exposed)
    assert found.step_ns == [30, 60] and found.losses == [1.5, None]
    assert sum(each.count for each in found.collectives) == len(operations)
    events = trace_of([record])["traceEvents"]
    assert sum(event["name"] == "allreduce" for event in events) == len(operations)
    rows: dict[int, list[tuple[float, float]]] = {}
    for event in events:
        if event["name"] == "allreduce":
            rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for each in rows.values():  # what is on one row does not overlap, but for what takes no time
        for (_, end), (begin, _) in itertools.pairwise(sorted(each)):
            assert begin >= end - 0.0011


def test_messages_come_back_as_they_were() -> None:
    message = MakeGroup("default", [3, 1], True, False)
    assert decode(encode(message).strip()) == message


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Traceback ...", "  File x", "KeyError: 'x'"], "KeyError: 'x'"),
        (["torch.distributed.DistNetworkError: no", "frame #1: c10", ""],
         "torch.distributed.DistNetworkError: no"),
        (["ValueError: first", "", "RuntimeError", "  note"], "RuntimeError"),
        (["warning", "give a folder"], "give a folder"),
        ([], ""),
    ],
)  # fmt: skip
def test_why_a_rank_failed_is_the_last_exception_that_it_printed(
    lines: list[str], reason: str
) -> None:
    assert functools.reduce(better_reason, lines, "") == reason


def test_the_management_network_keeps_clear_of_the_fabric() -> None:
    assert str(free_network(leaf_spine(2, 2, 2))) == "198.18.0.0/16"
    lab = weft.Network("lab")
    lab.switch("s")
    for number, ip in enumerate(("198.18.0.1/24", "198.19.7.1/24", "172.30.1.1/24")):
        lab.host(f"h{number}")
        lab.link(f"h{number}", "s", ip=ip)
    assert str(free_network(lab.topology())) == "192.168.0.0/16"


@pytest.mark.parametrize(
    ("options", "script", "why"),
    [
        (TorchOptions(backend="nccl"), "x.py", "--backend 'nccl': choose weft or gloo"),
        (TorchOptions(limit_s=0), "x.py", "--timeout 0"),
        (TorchOptions(), "nowhere.py", "script 'nowhere.py': there is no such file"),
        (TorchOptions(), "-m", "name the module"),
        (TorchOptions(algorithms={"alltoall": "direct"}), "x.py", "has no choice of algorithms"),
    ],
)
def test_a_program_that_cannot_be_run_is_refused(
    options: TorchOptions, script: str, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        check_program(script, [], options)


def test_the_simulated_world_has_no_processes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    with (
        weft.up(weft.single(hosts=2), world="simulated") as net,
        pytest.raises(InputError, match="the simulated world has none"),
    ):
        net.torch_run(script)


def test_without_torch_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(weft.base.errors.MachineError, match=r"setup --torch") as raised:
        check_program(str(script), [], TorchOptions())
    assert sys.executable in str(raised.value)


def test_a_tree_moves_only_when_its_link_fails_and_then_to_rows_it_never_had() -> None:
    network = leaf_spine(2, 3, 2)
    names = fabric.program_names()
    applied: list[list[tuple[str, str, int]]] = []

    def planner(*down: str) -> tuple[Reach, Callable[[Mapping[str, Any]], Plan]]:
        reach = Reach(network, down)

        def plan(wants: Mapping[str, Any]) -> Plan:
            return Plan({}, {"aggregation": plan_aggregation(names, reach, wants["aggregation"])})

        return reach, plan

    def apply(plan: Plan) -> None:
        applied.append(
            [(tree.job.address, tree.root, tree.job.pool_base) for tree in trees_of(plan)]
        )

    reach, plan = planner()
    trees = GroupTrees(names, reach, 64, 256, itertools.count(7), plan, apply)
    for name in "ab":
        trees.make(MakeGroup(name, [0, 1, 2, 3], True, True), ["h0", "h1", "h2", "h3"])
    first, second = ("239.255.0.1", "spine1", 0), ("239.255.0.2", "spine2", 128)
    assert applied[-1] == [first, second]
    trees.lead_around(*planner("leaf0-spine0"))
    assert applied[2:] == [[first, second]], "nothing moves, and nothing is taken away meanwhile"
    trees.lead_around(*planner("leaf0-spine1"))
    moved = applied[-1][0]
    assert applied[3:] == [[second], [moved, second]]
    assert moved[1] != "spine1" and moved[2] not in (0, 128)
    trees.lead_around(*planner())
    assert applied[5:] == [[moved, second]], "it stays where it is when the link comes back"
    had, root = {0, moved[2]}, moved[1]
    for _ in range(20):
        trees.lead_around(*planner(f"leaf0-{root}"))
        mine = [each for each in applied[-1] if each[0] == first[0]]
        if not mine:
            break  # no rows are left that it never had
        root = mine[0][1]
        assert mine[0][2] not in had, "an old sum of the job may be in rows that it had"
        had.add(mine[0][2])
    assert not mine and len(had) >= 6
    with pytest.raises(InputError, match="no switch reaches"):
        trees.lead_around(*planner("leaf0-spine0", "leaf0-spine1", "leaf0-spine2"))
    assert trees.make(MakeGroup("c", [0, 1], True, True), ["h0", "h1"]).job is not None
