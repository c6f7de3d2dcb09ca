"""PyTorch over the testbed, without torch and without a network: choices of algorithms, groups in
switches, figures, and what is refused."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import fabric
from typer.testing import CliRunner

import weft
from weft.base.errors import InputError
from weft.cli.torch import app as torch_app
from weft.controller import Plan
from weft.controller.features.aggregation import plan_aggregation, trees_of
from weft.experiments.families.programs.asked import ProgramAsked, check_program, limit_s
from weft.experiments.families.programs.group_trees import MOST_TREES, GroupTrees
from weft.experiments.families.programs.management import free_network
from weft.experiments.families.programs.ranks import MOST_LINE, LineCutter, Rank, failure
from weft.experiments.families.programs.results import (
    CollectiveFigures,
    TorchRank,
    rank_of,
    trace_of,
)
from weft.experiments.families.programs.torch_run import (
    fixed_point_notes,
    notes_on_backends,
)
from weft.pytorch.choices import Choices, choices_of, parse_choice
from weft.pytorch.launch import meant
from weft.pytorch.messages import MakeGroup, decode, encode
from weft.pytorch.timeline import RankTimeline, RecordedOperation, Step
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
    (note,) = switches.trees.notes()
    assert note.startswith("of 12 groups") and "4 found no room for sums" in note
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
    record = RankTimeline(
        0, "h0", 10, 110,
        operations=[RecordedOperation("allreduce", "ring", "0", 8, *each) for each in operations],
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


def a_rank(*printed: str) -> Rank:
    """A rank that has ended with status 5."""
    return Rank(2, "h2", status=5, last_lines=[*printed])


def test_why_a_rank_failed_is_what_ended_it_and_not_what_it_printed() -> None:
    printed = ["ValueError: handled long ago", "all is well"]
    assert failure(a_rank(*printed), "KeyError: 'x'").endswith("status 5: KeyError: 'x'")
    assert failure(a_rank(*printed), "").endswith("status 5; it printed last: all is well")
    assert failure(a_rank(), "").endswith("ended with status 5")
    assert len(failure(a_rank("x" * 10_000), "")) < 400


@given(st.lists(st.text("ab\r\n\u20ac", max_size=9), max_size=20), st.integers(1, 5))
def test_lines_are_cut_at_their_ends_however_they_come(texts: list[str], size: int) -> None:
    whole = "".join(texts).encode()
    found: list[str] = []
    cutter = LineCutter(found.append)
    for first in range(0, len(whole), size):
        cutter.take(whole[first : first + size])
    cutter.take(b"")
    right = whole.decode().split("\n")
    ends = [line.removesuffix("\r") for line in right[:-1]]
    assert found == [*ends, *filter(None, right[-1:])]


def test_a_line_without_an_end_is_cut_and_takes_no_longer_the_longer_it_gets() -> None:
    found: list[str] = []
    cutter = LineCutter(found.append)
    begun_s = time.process_time()
    for _ in range(1600):
        cutter.take(b"x" * 65_536)
    cutter.take(b"")
    assert sum(map(len, found)) == 1600 * 65_536
    assert max(map(len, found)) == MOST_LINE
    assert time.process_time() - begun_s < 10  # 0.2 s; minutes if each part is looked at again


def test_what_sums_lost_to_the_fixed_point_of_switches_is_told() -> None:
    names = ("fixed_point_blocks", "fixed_point_blocks_lossy", "fixed_point_blocks_nan")

    def rank(number: int, name: str, *counts: int) -> TorchRank:
        by = [CollectiveFigures(name, "switch"), CollectiveFigures("broadcast", "multicast")]
        statistics = dict(zip(names, counts, strict=False))
        return TorchRank(number, "h", 0, collectives=by, statistics=statistics)

    assert fixed_point_notes([]) == []
    assert fixed_point_notes([rank(0, "allreduce"), rank(1, "allreduce", 64, 0, 0)]) == []
    (one,) = fixed_point_notes([rank(0, "allreduce", 64, 1, 0), rank(1, "allreduce", 64, 16, 0)])
    assert "in 16 of 64 blocks (25 %) values other than 0 became 0" in one and "NaN" not in one
    assert "with --allreduce ring all" in one
    (other,) = fixed_point_notes([rank(0, "_reduce_scatter_base", 64, 0, 2)])
    assert "2 of 64 blocks (3.1 %) became NaN" in other and "became 0" not in other
    assert "with --reduce-scatter ring all" in other
    large = rank(0, "allreduce")
    large.statistics["blocks_saturated"] = 3
    (said,) = fixed_point_notes([rank(1, "allreduce"), large])
    assert "in 3 blocks a sum did not fit into 32 bits" in said and "--allreduce ring" in said


def test_groups_of_other_backends_are_told() -> None:
    assert notes_on_backends({"weft": 3}, "weft") == []
    assert notes_on_backends({"gloo": 3}, "gloo") == []
    (one,) = notes_on_backends({"gloo": 1, "weft": 2}, "weft")
    assert one.startswith("1 group of ranks is of the backend gloo") and "--as gloo" in one
    (other,) = notes_on_backends({"fake": 2}, "weft")
    assert other.startswith("2 groups of ranks are") and "--as" not in other


@pytest.mark.parametrize(
    ("name", "as_weft", "backend"),
    [
        ("gloo", [], "gloo"), ("gloo", ["gloo"], "weft"), ("GLOO", ["gloo"], "weft"),
        ("nccl", ["gloo"], "nccl"), ("cpu:gloo,cuda:nccl", ["gloo"], "weft"),
        ("cpu:gloo,cuda:nccl", ["nccl"], "cpu:gloo,cuda:nccl"),
        ("undefined", ["gloo"], "undefined"),
        ("cuda:nccl", ["nccl"], "cuda:nccl"),
    ],
)  # fmt: skip
def test_names_of_backends_mean_weft_where_that_is_asked(
    name: str, as_weft: list[str], backend: str
) -> None:
    assert meant(name, as_weft) == backend


def test_the_time_of_a_program_is_in_seconds() -> None:
    read = [limit_s("timeout", text) for text in ("25", "2.5", "25s", "1500ms")]
    assert read == [25, 2.5, 25, 1.5]
    with pytest.raises(InputError, match="timeout '5x'"):
        limit_s("timeout", "5x")
    for seconds in (0.0, 1e9):
        with pytest.raises(InputError, match="--timeout"):
            check_program("x.py", [], ProgramAsked(limit_s=seconds))
    with pytest.raises(InputError, match="--as 'mpi': choose gloo or nccl"):
        check_program("x.py", [], ProgramAsked(as_weft=("mpi",)))


@pytest.mark.parametrize("option", ["--nproc_per_node=4", "--nnodes", "--standalone", "--rdzv-id"])
def test_options_of_torchrun_get_a_hint(option: str) -> None:
    told = CliRunner().invoke(torch_app, ["run", option, "train.py"])
    assert isinstance(told.exception, InputError)
    assert "is an option of torchrun: " in str(told.exception)
    other = CliRunner().invoke(torch_app, ["run", "--nothing", "train.py"])
    assert other.exit_code == 2 and "No such option" in other.output


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
        (ProgramAsked(backend="nccl"), "x.py", "--backend 'nccl': choose weft or gloo"),
        (ProgramAsked(limit_s=0), "x.py", "--timeout 0"),
        (ProgramAsked(), "nowhere.py", "script 'nowhere.py': there is no such file"),
        (ProgramAsked(), "-m", "name the module"),
    ],
)
def test_a_program_that_cannot_be_run_is_refused(
    options: ProgramAsked, script: str, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        check_program(script, [], options)


def test_a_collective_without_a_choice_of_algorithms_is_refused() -> None:
    with pytest.raises(InputError, match="has no choice of algorithms"):
        choices_of({"alltoall": "direct"})


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
        check_program(str(script), [], ProgramAsked())
    assert sys.executable in str(raised.value)


def test_a_tree_moves_only_when_its_link_fails_and_has_another_epoch_then() -> None:
    network = leaf_spine(2, 3, 2)
    names = fabric.program_names()
    applied: list[list[tuple[str, str, int, int]]] = []

    def planner(*down: str) -> tuple[Reach, Callable[[Mapping[str, Any]], Plan]]:
        reach = Reach(network, down)

        def plan(wants: Mapping[str, Any]) -> Plan:
            return Plan({}, {"aggregation": plan_aggregation(names, reach, wants["aggregation"])})

        return reach, plan

    def apply(plan: Plan) -> None:
        applied.append(
            [
                (tree.job.address, tree.root, tree.job.pool_base, tree.job.epoch)
                for tree in trees_of(plan)
            ]
        )

    reach, plan = planner()
    trees = GroupTrees(names, reach, 64, 256, itertools.count(7), plan, apply)
    for name in "ab":
        trees.make(MakeGroup(name, [0, 1, 2, 3], True, True), ["h0", "h1", "h2", "h3"])
    first, second = ("239.255.0.1", "spine1", 0, 7), ("239.255.0.2", "spine2", 128, 8)
    assert applied[-1] == [first, second]
    assert trees.lead_around(*planner("leaf0-spine0")) == {}
    assert applied[2:] == [[first, second]], "nothing moves, and nothing is taken away meanwhile"
    assert trees.lead_around(*planner("leaf0-spine1")) == {"a": 9}
    moved = applied[-1][0]
    assert applied[3:] == [[second], [moved, second]]
    assert moved[1] != "spine1" and moved[2:] == (0, 9)
    assert trees.lead_around(*planner()) == {}
    assert applied[5:] == [[moved, second]], "it stays where it is when the link comes back"
    for epoch in range(10, 30):
        assert trees.lead_around(*planner(f"leaf0-{moved[1]}"))["a"] >= epoch
        moved = applied[-1][0]
        assert moved[0] == first[0], "it may move as often as links fail"
    with pytest.raises(InputError, match="no switch reaches"):
        trees.lead_around(*planner("leaf0-spine0", "leaf0-spine1", "leaf0-spine2"))
    assert trees.make(MakeGroup("c", [0, 1], True, True), ["h0", "h1"]).job is not None
