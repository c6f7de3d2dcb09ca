"""`weft paths`: its figures against each other, and against what a run's links carried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulated_support import completion_ns, network
from tests.support.workloads_support import encode
from typer.testing import CliRunner

from weft.base.errors import InputError
from weft.cli.command_line import app
from weft.cli.paths import analysis_of
from weft.controller.clos_paths import ClosPaths
from weft.experiments.families.flows.checks import GPTS
from weft.experiments.families.flows.formats.chakra_schema import COLLECTIVE, MESSAGES
from weft.experiments.families.flows.gpt import MODELS
from weft.experiments.loads.link_loads import LinkLoads, direction_name
from weft.experiments.paths.names import (
    COMPARED,
    analysed_schemes,
    scheme_names,
    unassigned_schemes,
)
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory import static_workloads
from weft.experiments.theory.static_paths import Situation, analyse, check_schemes, figures
from weft.experiments.theory.static_workloads import static_steps, workloads
from weft.topo.clos import Direction, Topology, fat_tree, leaf_spine, pods
from weft.topo.faults import FAULTS, Line, Outage, OutageKind

NETWORKS = (
    ClosPaths.leaf_spine(4, 4, 4),
    ClosPaths.leaf_spine(3, 5, 2),
    ClosPaths.fat_tree(4),
    ClosPaths(6, 2, 2, 3, 3),
)
RATE, QUEUE = 10**9, 1 << 24
"""Of links where nothing is lost or waits so long that it is sent again."""
SCHEMES = ("ecmp", "ecmp-3", "destination", "spray", "ethereal", "ethereal-ports")


def situation(paths: ClosPaths, **more: Any) -> Situation:
    return Situation(paths, np.arange(paths.hosts), np.full(paths.directions, 1e8), **more)


def every_workload() -> list[tuple[str, str]]:
    return [
        (name, algorithm) for name, algorithms in workloads().items() for algorithm in algorithms
    ]


@pytest.mark.parametrize(("workload", "algorithm"), every_workload())
@pytest.mark.parametrize("paths", NETWORKS, ids=lambda one: f"{one.hosts} hosts")
def test_all_schemes_carry_the_same_bytes_up_and_down(
    paths: ClosPaths, workload: str, algorithm: str
) -> None:
    steps = static_steps(workload, algorithm, paths.hosts, 17 * 4096)
    results = [analyse(situation(paths), steps, scheme) for scheme in SCHEMES]
    for result in results:
        assert result.loads.host_up.sum() == results[0].loads.host_up.sum()
        assert result.loads.leaf_up.sum() == pytest.approx(results[0].loads.leaf_up.sum())
        assert result.loads.leaf_down.sum() == pytest.approx(result.loads.leaf_up.sum())
        assert result.loads.core_down.sum() == pytest.approx(result.loads.core_up.sum())


@pytest.mark.parametrize(("workload", "algorithm"), every_workload())
def test_ethereals_fullest_link_has_ideal_sprayings_load(workload: str, algorithm: str) -> None:
    paths = ClosPaths.leaf_spine(4, 4, 4)
    steps = static_steps(workload, algorithm, 16, 16 * 4096)
    sprayed, cut = (analyse(situation(paths), steps, one) for one in ("spray", "ethereal"))
    assert cut.loads.by_direction().dtype == np.int64
    assert (cut.loads.by_direction() == sprayed.loads.by_direction()).all()
    assert cut.bound_ns == sprayed.bound_ns
    assert figures(situation(paths), cut)["max_over_mean"] == pytest.approx(
        figures(situation(paths), sprayed)["max_over_mean"]
    )


@given(
    st.sampled_from(NETWORKS), st.sampled_from(["alltoall", "allreduce"]),
    st.integers(1, 3000), st.sampled_from([1, 64]),
)  # fmt: skip
def test_flows_counted_by_pairs_of_leaves_give_the_same_figures(
    paths: ClosPaths, workload: str, part_bytes: int, unit_bytes: int
) -> None:
    given_situation = situation(paths, unit_bytes=unit_bytes)
    size_bytes = part_bytes * paths.hosts
    apart = static_steps(workload, "direct", paths.hosts, size_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static_workloads, "MOST_FLOWS", 1)
        counted = static_steps(workload, "direct", paths.hosts, size_bytes)
    assert all(step.flows is None for step in counted)
    for scheme in ("destination", "spray", "ethereal"):
        one, other = (analyse(given_situation, steps, scheme) for steps in (apart, counted))
        assert one.pieces == other.pieces
        assert one.bound_ns == pytest.approx(other.bound_ns, rel=1e-9)
        np.testing.assert_allclose(one.loads.by_direction(), other.loads.by_direction())


@pytest.mark.parametrize(
    "topology",
    [
        leaf_spine(3, 4, 2, rate_bps=RATE, queue_bytes=QUEUE),
        fat_tree(4, rate_bps=RATE, queue_bytes=QUEUE),
        pods(3, 2, 2, 3, 1, rate_bps=RATE, queue_bytes=QUEUE),
    ],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_simulated_runs_links_carry_what_the_hash_predicts(topology: Topology, seed: int) -> None:
    """Whole flows are told from what is not data: on no link is there as much of it."""
    shard_bytes = 8 * 4096
    hosts = len(topology.hosts)
    paths = ClosPaths.of(topology)
    steps = static_steps("allgather", "linear", hosts, shard_bytes)
    predicted = analyse(situation(paths, seed=seed), steps, "ecmp").loads
    flow_bytes = 8 * (4096 + 58) + 16 + 4  # frames of an RDMA WRITE with an immediate
    with network(topology, seed=seed) as net:
        before = net.controller.read_counters()
        completion_ns(net.run("linear", shard_bytes))
        after = net.controller.read_counters()
    for direction, load in zip(topology.directions, predicted.by_direction(), strict=True):
        sent = after[direction.ends].tx_bytes - before[direction.ends].tx_bytes
        assert sent // flow_bytes == load // shard_bytes, direction.name


# -- the command ------------------------------------------------------------------------------


def weft(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["paths", *arguments], catch_exceptions=True)


def test_the_command_says_what_links_carry(tmp_path: Path) -> None:
    plot = tmp_path / "loads.svg"
    counts = ("--leaves", "4", "--spines", "4", "--hosts-per-leaf", "4", "--size", "64KiB")
    done = weft(
        "alltoall", *counts, "--json", "--plot", str(plot), "--paths", "ecmp,spray,ethereal"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["flows"] == 16 * 15 and found["ranks"] == 16
    ecmp, spray, ethereal = found["schemes"]
    assert ethereal["fabric_max_bytes"] == spray["fabric_max_bytes"] == 4 * 12 * 4096 // 4
    assert ecmp["fabric_max_bytes"] > spray["fabric_max_bytes"]
    assert ecmp["bound_ns"] >= spray["bound_ns"] == 15 * 4096 * 8 * 10
    assert found["link_bytes"]["spray"]["leaf0>spine3"] == spray["fabric_max_bytes"]
    assert plot.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    "arguments",
    [
        ("allreduce", "--algorithm", "ring", "--topology", "fat-tree", "--placement", "random"),
        ("many-to-one", "--root", "3", "--fault", "leaf0-spine1"),
        ("alltoall", "--topology", "single"),
        ("permutation", "--oversubscription", "4", "--fault", "leaf0-spine1:slow,rate=0.25"),
        ("alltoall", "--leaves", "64", "--spines", "64", "--hosts-per-leaf", "64", "--size", "4MiB",
         "--fault", "leaf9-spine9", "--paths", "ecmp,ethereal"),
    ],
)  # fmt: skip
def test_the_command_prints_a_table_and_draws(arguments: Sequence[str], tmp_path: Path) -> None:
    plot = tmp_path / "loads.svg"
    done = weft(*arguments, "--plot", str(plot))
    assert done.exit_code == 0, done.output
    assert "ethereal" in done.output and "Plot:" in done.output
    assert plot.stat().st_size > 1000


CONNECTIONS = """Nodes 8
Connections 3
Triggers 1
0->2 id 1 start 0 size 100000 recv_done_trigger 1
1->3 id 2 start 0 size 80000 recv_done_trigger 1
2->0 id 3 trigger 1 size 50000
trigger id 1 barrier count 2
"""


def test_a_connection_matrix_is_analysed_trigger_by_trigger(tmp_path: Path) -> None:
    file = tmp_path / "flows.cm"
    file.write_text(CONNECTIONS)
    done = weft(str(file), "--json", "--paths", "spray,ethereal", "--rate", "100Mbit")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["steps"], found["flows"], found["algorithm"]) == (2, 3, "given")
    assert found["size_bytes"] == 100_000
    # Both flows from leaf 0 over two uplinks; hosts' links are what takes longest.
    assert found["link_bytes"]["ethereal"]["leaf0>spine0"] == 90_000
    assert found["link_bytes"]["ethereal"]["leaf1>spine1"] == 25_000
    assert {one["bound_ns"] for one in found["schemes"]} == {12_000_000}
    assert "computation" in weft(str(file)).output


def test_a_traces_collectives_are_those_of_the_name(tmp_path: Path) -> None:
    for rank in range(8):
        node = MESSAGES["Node"](id=1, name="sum", type=COLLECTIVE)
        for name, value in (("comm_type", 0), ("comm_size", 800_000)):
            node.attr.add(name=name, int64_val=value)
        data = encode(MESSAGES["GlobalMetadata"](version="0.0.4"), node)
        (tmp_path / f"trace.{rank}.et").write_bytes(data)
    trace = analysis_of(str(tmp_path / "trace.0.et"), {"algorithm": "ring"}).to_dict()
    named = analysis_of("allreduce", {"algorithm": "ring", "size": "800000"}).to_dict()
    for same in ("flows", "steps", "schemes", "link_bytes"):
        assert trace[same] == named[same]


def test_a_models_step_is_analysed_with_what_a_run_takes_by_default() -> None:
    options = {"layers": "2", "rate": "20Mbit", "algorithm": "direct"}
    found = analysis_of("gpt-7b", options)
    run = Scenario(
        "flows", workload="gpt-7b", layers=2, rate_bps=20_000_000, algorithms=("direct",)
    )
    sent = sum(run.flow_graph("direct").size_bytes)
    assert found.results[0].loads.host_up.sum() == sent
    assert found.asked["size_bytes"] == run.size_bytes
    ideal, ethereal = (found.to_dict()["schemes"][place] for place in (2, 3))
    assert ideal["fabric_max_bytes"] == ethereal["fabric_max_bytes"]


def test_slow_links_and_oversubscription_make_the_least_time_longer() -> None:
    def bound(**options: Any) -> int:
        found = analysis_of(
            "alltoall", {"paths": "ethereal", "size": "1MiB", "spines": "2", **options}
        )
        return found.results[0].bound_ns

    plain = bound()
    assert bound(oversubscription="4") == pytest.approx(4 * plain * 6 / 7, rel=1e-6)
    slow = bound(fault=["leaf0-spine0:slow,rate=0.25"])
    assert slow == pytest.approx(4 * plain * 6 / 7, rel=1e-6)
    assert bound(fault=["leaf0-spine0"]) == pytest.approx(2 * plain * 6 / 7, rel=1e-6)


@pytest.mark.parametrize(
    ("workload", "options", "message"),
    [
        ("alltoal", {}, "workload 'alltoal' is unknown"),
        ("allreduce", {"algorithm": "switch"}, "'switch' is unknown"),
        ("alltoall", {"paths": "reps"}, "goes by marks of queues"),
        ("alltoall", {"paths": "ecmp,ecmp"}, "named more than once"),
        ("alltoall", {"paths": "flowlet"}, "paths 'flowlet' is unknown"),
        ("alltoall", {"fault": ["leaf0-spine7"]}, "no link 'leaf0-spine7' between switches"),
        ("alltoall", {"fault": ["leaf0-spine1:loss=0.1"]}, "is not understood: write LINK"),
        ("alltoall", {"fault": ["leaf0-spine1:slow,rate=2"]}, "rate=2 is no part of a rate"),
        ("alltoall", {"fault": ["leaf0-spine1:slow,rate=0.5,at=1ms"]}, "there is no time"),
        ("alltoall", {"fault": ["h1:kill,at=0"]}, "is not understood: write LINK"),
        ("alltoall", {"fault": ["leaf0:fail,at=0"]}, "link h0-leaf0: without its only link"),
        ("alltoall", {"fault": ["leaf0-spine1:slwo"]}, "is not understood .did you mean slow"),
        ("alltoall", {"fault": ["leaf0-spine0", "leaf0-spine1"]}, "no path up and down is left"),
        ("alltoall", {"k": "4"}, "means nothing for --topology leaf-spine"),
        ("alltoall", {"leaves": "4000000"}, "leaves 4000000: from 1 to"),
        ("alltoall", {"topology": "fat-tree", "k": "2000"}, "at most 131072 are possible"),
        ("alltoall", {"topology": "fat-tree", "k": "3"}, "k has to be even"),
        ("alltoall", {"topology": "single", "hosts_per_leaf": "1"}, "1 rank sends nothing"),
        ("alltoall", {"oversubscription": "0"}, "oversubscription 0: from 0.125 to 64"),
        ("alltoall", {"oversubscription": "1000"}, "oversubscription 1000: from 0.125 to 64"),
        ("alltoall", {"size": "5GiB"}, "size 5368709120 is out of range: a whole number from 0"),
        ("alltoall", {"seed": "-1"}, "seed -1 is out of range: a whole number from 0 to"),
        ("alltoall", {"rate": "1bit"}, "rate 1 is out of range: a whole number from 100000 to"),
        ("alltoall", {"unit": "0"}, "unit 0 is out of range: a whole number from 1 to"),
        ("alltoall", {"topology": "fat-tree", "tiers": "99999"}, "tiers 99999 is out of range"),
        ("alltoall", {"root": "1"}, "root '1' means nothing for alltoall: it is for broadcast"),
        ("broadcast", {"root": "99"}, "root 99 is out of range: a whole number from 0 to 7"),
        ("many-to-one", {"root": "-1"}, "root -1 is out of range: a whole number from 0 to 7"),
        ("alltoall", {"leaves": "1000", "hosts_per_leaf": "64", "size": "1MiB"}, "a multiple of"),
        ("alltoall", {"placement": "odd"}, "placement 'odd' is unknown"),
        ("alltoall", {"tensor": "2"}, "tensor '2' means nothing for alltoall"),
        ("gpt-8b", {}, "workload 'gpt-8b' is unknown .did you mean gpt-7b"),
        ("gpt-7b", {"size": "1MiB"}, "size '1MiB' means nothing for workload 'gpt-7b'"),
        ("gpt-7b", {"tensor": "3"}, "tensor 3 does not divide 8 ranks"),
        ("gpt-7b", {"tensor": "99"}, "tensor 99 is out of range: 1 to 8"),
        ("gpt-7b", {"layers": "x"}, "layers 'x' is not a whole number"),
        ("gpt-7b", {"slowdown": "0"}, "slowdown 0 is out of range"),
        ("gpt-7b", {"algorithm": "given"}, "algorithm 'given' means nothing"),
        ("nowhere.cm", {}, "workload 'nowhere.cm' cannot be read: No such file"),
        ("nowhere.cm", {"layers": "1"}, "layers '1' means nothing for workload 'nowhere.cm'"),
        ("nowhere.0.et", {}, "workload 'nowhere.0.et' cannot be read: No such file"),
    ],
)
def test_what_cannot_be_analysed_is_said(
    workload: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        analysis_of(workload, options)


class Mute(OutageKind):
    """A fault of another package: a switch that sends nothing upwards, and nothing down by the
    same links."""

    name = "mute"
    lasting = "mute, like leaf0-spine1:mute"

    def read(self, line: Line) -> Outage:
        return Outage(self.name, line.where, 0, text=line.text)

    def down(self, outage: Outage, topology: Topology) -> tuple[Direction, ...]:
        return tuple(each for each in outage.directions(topology) if each.tier == "fabric_up")


def test_a_fault_of_another_package_is_analysed_as_its_kind_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FAULTS.others, "mute", Mute())
    muted, failed, at_start = (
        analysis_of("alltoall", {"fault": [line]}).to_dict()["link_bytes"]
        for line in ("leaf0-spine1:mute", "leaf0-spine1", "leaf0-spine1:fail,at=0")
    )
    assert muted == failed == at_start
    assert muted["ethereal"]["leaf0>spine1"] == 0 < muted["ethereal"]["leaf0>spine0"]
    with pytest.raises(InputError, match=r"or mute, like leaf0-spine1:mute; without packets"):
        analysis_of("alltoall", {"fault": ["leaf0-spine1:loss=0.1"]})


def test_one_direction_of_a_link_to_a_core_can_be_slow() -> None:
    options = {"topology": "fat-tree", "fault": ["agg2>core1:slow,rate=0.25"]}
    found = analysis_of("alltoall", options).situation
    slow = np.flatnonzero(found.rates_bps != 100e6)
    assert [direction_name(found.paths, int(number)) for number in slow] == ["agg2>core1"]
    assert found.rates_bps[slow] == 25e6


def test_help_names_the_schemes_and_models_that_there_are() -> None:
    assert set(scheme_names()) - set(analysed_schemes()) == {"spray-round-robin", "reps", "plb"}
    for name in analysed_schemes():
        assert check_schemes(name.replace("N", "4"))
    assert unassigned_schemes() == ("ecmp", "destination", "spray", "spray-round-robin")
    assert sorted(GPTS) == sorted(MODELS)
    assert check_schemes(COMPARED) == ("ecmp", "ecmp-4", "spray", "ethereal")


def test_root_0_is_for_every_workload_as_in_a_run() -> None:
    named, unsaid = (analysis_of("alltoall", root).to_dict() for root in ({"root": "0"}, {}))
    assert named == unsaid


def test_a_plot_goes_to_an_svg_file(tmp_path: Path) -> None:
    done = weft("alltoall", "--plot", str(tmp_path / "loads.png"))
    assert isinstance(done.exception, InputError) and ".svg" in str(done.exception)
    assert check_schemes("ecmp, spray") == ("ecmp", "spray")


def test_loads_add_up() -> None:
    paths = ClosPaths.fat_tree(4)
    one = analyse(situation(paths), static_steps("alltoall", "direct", 16, 4096), "spray").loads
    twice = one + one
    assert (twice.by_direction() == (one * 2).by_direction()).all()
    assert (LinkLoads.zeros(paths).by_direction() == 0).all()
