"""Networks that several threads drive, a part each: what happens is the same as on one core."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.golden.recording import scenario_of

from weft import Scenario
from weft.agents.datagrams import Datagrams
from weft.base.errors import InputError, RunError
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.notes import notes_on
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.sweep import Point
from weft.tools.bench import benchmarks, simulator
from weft.topo.clos import fat_tree, leaf_spine, single
from weft.topo.worlds.simulated import fabric, team
from weft.topo.worlds.simulated.cut import cut
from weft.topo.worlds.simulated.layout import COMPILED, PartRecord

FLOWS = "flows --workload tests/golden/permutation.cm --delay 1us --rate 10Gbit"


def ran(scenario: Scenario) -> dict[str, Any]:
    """What came of a run, but for what links carried by time, which is not counted on several
    cores."""
    (algorithm,) = scenario.algorithms
    run = simulate(scenario, program_of(scenario), algorithm, 0, lambda _: None).to_dict()
    for link in run["links"]:
        del link["load_bytes"]
    del run["load_bin_ns"], run["scenario"]
    return run


@pytest.mark.parametrize(
    "more",
    [
        "--leaves 4",
        "--leaves 4 --spines 3 --paths spray --loss 1%",
        "--leaves 4 --paths reps --fault leaf0-spine1:fail,at=20us,for=300us",
        "--leaves 4 --paths plb --fault 'leaf0>spine1:loss=0.2' --fault h3:kill,at=40us",
        "--leaves 4 --paths ethereal --fault leaf2-spine0:slow,rate=0.25,at=9us --congestion dctcp",
        "--topology fat-tree --k 4 --paths ecmp-4 --placement random --fault agg0:fail,at=5us",
    ],
)
def test_any_number_of_cores_gives_the_same_run(more: str) -> None:
    scenario = scenario_of(f"{FLOWS} {more}")
    one = ran(scenario)
    for cores in (2, 3):
        assert ran(replace(scenario, cores=cores)) == one, f"with {cores} cores"


@pytest.mark.parametrize(
    "line",
    [
        "allgather --algorithm multicast --loss 1%",
        "allreduce --algorithm switch --dtype float16 --op average",
        "fsdp-interleave --algorithm in-network --size 16KiB",
    ],
)
def test_collectives_on_several_cores_are_the_same(line: str) -> None:
    scenario = scenario_of(f"{line} --delay 2us")
    assert ran(replace(scenario, cores=3)) == ran(scenario)


def test_any_number_of_cores_gives_the_same_run_where_queues_are_full() -> None:
    rows = [simulator.carry(32, 1 << 18, seed=3, cores=cores) for cores in (1, 2, 3, 4)]
    assert rows[0]["retransmitted_packets"] > 0
    for name in ("digest", "simulated_ns", "hops", "retransmitted_packets"):
        assert len({row[name] for row in rows}) == 1, name


def test_the_room_that_parts_have_at_first_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = simulator.carry(32, 1 << 17, cores=2)
    monkeypatch.setattr(fabric, "PACKETS", 64)
    monkeypatch.setattr(team, "FIRST_ROOM", 1)
    assert simulator.carry(32, 1 << 17, cores=2)["digest"] == before["digest"]


def test_an_error_of_one_part_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = simulator.Flow.attend

    def attend(flow: simulator.Flow, batch: Datagrams, now_ns: int) -> None:
        taken(flow, batch, now_ns)
        if flow.endpoint.address & 0xFFFF00 == last & 0xFFFF00:
            raise RunError("this one has had enough")

    last = simulator.clos(16).hosts[-1].address
    monkeypatch.setattr(simulator.Flow, "attend", attend)
    with pytest.raises(RunError, match="had enough"):
        simulator.carry(16, 1 << 16, cores=4)


def test_the_benchmark_of_cores_says_how_much_faster_they_are() -> None:
    figures = simulator.measure_cores(2, [16], 1 << 14)
    assert len(figures["pairs"][0]["ratios"]) == simulator.CORES_PAIRS
    said = benchmarks.lines("simulator", figures)
    assert "on 2 cores and on one" in said[0]
    assert said[-1].split()[:2] == ["16", "64"]


def test_spines_are_shared_out_and_pods_stay_whole() -> None:
    made = cut(leaf_spine(8, 4, 2, delay_ns=700), 2)
    assert made.parts == (0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1)
    assert (made.count, made.window_ns) == (2, 700)
    pods = cut(fat_tree(4, delay_ns=500), 4).parts
    assert pods[:8] == pods[8:16] == (0, 0, 1, 1, 2, 2, 3, 3)
    assert sorted(pods[16:]) == [0, 1, 2, 3]


@pytest.mark.parametrize("leaves", [3, 5, 7])
def test_every_part_has_hosts(leaves: int) -> None:
    for cores in range(1, leaves + 1):
        parts = cut(leaf_spine(leaves, 2, 2, delay_ns=1), cores).parts[:leaves]
        assert sorted(parts) == list(parts)
        assert set(parts) == set(range(cores))


def test_more_cores_than_leaves_are_refused() -> None:
    with pytest.raises(InputError, match=r"cores 5: .* 4 of these can be parted: choose 1 to 4"):
        cut(leaf_spine(), 5)
    with pytest.raises(InputError, match=r"cores 2: .* choose 1 to 1"):
        cut(single(8), 2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{FLOWS} --cores 5", "cores 5: .* choose 1 to 4"),
        (f"{FLOWS} --cores 0", "cores 0"),
        (f"{FLOWS} --cores 2 --fault '*:lose=1,opcode=ack'", "lose=1.* counts packets"),
        (f"{FLOWS} --cores 2 --fault h3:kill,after=5", "after=5.* counts packets"),
        (f"{FLOWS} --cores 2 --payload none", "payload none: with cores 2"),
        (f"{FLOWS} --cores 2 --world emulated", "cores 2: the emulated world"),
    ],
)
def test_what_cannot_be_cut_is_refused_by_name(line: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        scenario_of(line)


def test_work_that_is_yet_to_be_cut_is_refused_by_name() -> None:
    asked = {"collective": "reshard", "case": 1, "world": "simulated", "cores": 2}
    with pytest.raises(InputError, match="cores 2: reshard runs on one core"):
        from_options(asked)


def test_where_delays_leave_no_window_one_core_drives_all_and_it_is_said() -> None:
    scenario = scenario_of(f"{FLOWS.replace('--delay 1us', '')} --delay 0us --leaves 4")
    several = replace(scenario, cores=2)
    assert ran(several) == ran(scenario)
    said = "cores 2: links between parts of the network have no delay"
    assert any(note.startswith(said) for note in notes_on([], [Point(several)]))
    notes = notes_on([], [Point(replace(several, delay_ns=5))])
    assert not any(note.startswith("cores") for note in notes)


def test_parts_share_no_cache_line() -> None:
    assert PartRecord.dtype.itemsize % 64 == 0


def test_all_modules_with_compiled_functions_are_in_the_digest_of_their_code() -> None:
    folder = Path(fabric.__file__).parent
    compiled = re.compile(r"^@(internal|entry)$", re.MULTILINE)
    found = [each.stem for each in folder.glob("*.py") if compiled.search(each.read_text())]
    assert {*found, "layout"} == {*COMPILED}
