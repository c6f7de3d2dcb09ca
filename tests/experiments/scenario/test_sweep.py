"""Experiments: sweeps and parts of scenario files, and what is said of bad ones."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulated_support import needs_machine

from weft.base.errors import InputError, MachineError, RunError
from weft.base.progress import Progress
from weft.experiments.results.results import Results
from weft.experiments.results.summary import common_of
from weft.experiments.runner import _networks, run, run_to_folder
from weft.experiments.scenario import sweep
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point, read_file
from weft.topo.worlds.emulated import world as emulated
from weft.topo.worlds.emulated.world import EmulatedWorld


def read(tmp_path: Path, text: str, **overrides: Any) -> Experiment:
    file = tmp_path / "sizes.toml"
    file.write_text(text)
    return read_file(file, overrides)


def labels(experiment: Experiment) -> list[str]:
    return [point.label for point in experiment.points]


TWO_BY_TWO = """
topology = "single"
world = "simulated"
[sweep]
hosts-per-leaf = [2, 4]
size = ["64KiB", "1MiB"]
"""

TWO_PARTS = """
topology = "single"
size = "64KiB"
[[part]]
world = "emulated"
[part.sweep]
hosts-per-leaf = [2, 4]
[[part]]
world = "simulated"
[part.sweep]
hosts-per-leaf = [2, 4, 8]
"""


def test_a_file_without_a_sweep_is_one_point(tmp_path: Path) -> None:
    experiment = read(tmp_path, 'topology = "single"')
    assert experiment == Experiment((Point(Scenario(topology="single")),), name="allgather")
    assert experiment == Experiment.of(Scenario(topology="single"))


def test_a_sweep_is_all_combinations_in_order(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_BY_TWO)
    assert labels(experiment) == [
        "hosts-per-leaf 2, size 64 KiB",
        "hosts-per-leaf 2, size 1 MiB",
        "hosts-per-leaf 4, size 64 KiB",
        "hosts-per-leaf 4, size 1 MiB",
    ]
    assert experiment.swept == ("hosts-per-leaf", "size")
    assert experiment.name == "sizes"
    assert [point.number for point in experiment.points] == ["1/4", "2/4", "3/4", "4/4"]
    assert [point.scenario.size_bytes for point in experiment.points[:2]] == [1 << 16, 1 << 20]


def test_a_workload_is_found_beside_the_scenario_file(tmp_path: Path) -> None:
    flow = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 4096\n"
    (tmp_path / "flows.cm").write_text(flow)
    text = 'collective = "flows"\nworkload = "{}"\nworld = "simulated"\n'
    (tmp_path / "one.toml").write_text(text.format("flows.cm"))
    (point,) = read_file(tmp_path / "one.toml").points
    assert point.scenario.own.workload == str(tmp_path / "flows.cm")
    (tmp_path / "other.toml").write_text(text.format("nowhere.cm"))
    with pytest.raises(InputError, match=r"nowhere\.cm"):
        read_file(tmp_path / "other.toml")


def test_a_workload_in_the_current_folder_gives_way_to_one_beside_the_scenario_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 4096\n"
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "flows.cm").write_text(flow)
    scenario = there / "one.toml"
    scenario.write_text('collective = "flows"\nworkload = "flows.cm"\nworld = "simulated"\n')
    monkeypatch.chdir(here)

    def found(overrides: dict[str, str]) -> str | None:
        (point,) = read_file(scenario, overrides).points
        workload: str | None = point.scenario.own.workload
        return workload

    assert found({}) == str(there / "flows.cm")
    assert found({"workload": "flows.cm"}) == "flows.cm"
    (here / "flows.cm").unlink()
    assert found({"workload": "flows.cm"}) == str(there / "flows.cm")
    (here / "flows.cm").write_text(flow)
    (there / "flows.cm").unlink()
    assert found({}) == "flows.cm"


@pytest.mark.parametrize(
    ("workload", "message"),
    [("x" * 300 + ".cm", r"workload 'x.*\.cm' cannot be read: File name too long"),
     ("a\\u0000b.cm", r"workload 'a\\x00b.cm' cannot be read: embedded null byte"),
     ("own.toml/flows.cm", r"workload 'own.toml/flows.cm' cannot be read: No such file"),
     ("loop.cm", r"workload 'loop.cm' cannot be read: Too many levels of symbolic links")],
)  # fmt: skip
def test_a_workload_whose_name_no_file_can_have_is_said(
    tmp_path: Path, workload: str, message: str
) -> None:
    (tmp_path / "loop.cm").symlink_to("loop.cm")
    scenario = tmp_path / "own.toml"
    scenario.write_text(f'collective = "flows"\nworkload = "{workload}"\nworld = "simulated"\n')
    with pytest.raises(InputError, match=message):
        read_file(scenario)


def test_parts_go_before_the_files_own_keys_and_have_sweeps_of_their_own(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_PARTS)
    found = [(point.scenario.world, point.scenario.hosts_per_leaf) for point in experiment.points]
    assert found == [
        ("emulated", 2), ("emulated", 4), ("simulated", 2), ("simulated", 4), ("simulated", 8)
    ]  # fmt: skip
    assert experiment.swept == ("world", "hosts-per-leaf")
    assert {point.scenario.size_bytes for point in experiment.points} == {1 << 16}


def test_a_part_leaves_the_files_sweep_or_replaces_it(tmp_path: Path) -> None:
    text = """
    world = "simulated"
    [sweep]
    leaves = [2, 3]
    size = ["1KiB", "2KiB"]
    [[part]]
    [[part]]
    leaves = 5
    [[part]]
    sweep = { leaves = [6], loss = [0, "1%"] }
    """
    found = labels(read(tmp_path, text))
    assert found[:4] == [
        f"leaves {leaves}, size {size} KiB, loss 0 %" for leaves in (2, 3) for size in (1, 2)
    ]
    assert found[4:6] == [f"leaves 5, size {size} KiB, loss 0 %" for size in (1, 2)]
    assert found[6:] == [
        f"leaves 6, size {size} KiB, loss {loss} %" for size in (1, 2) for loss in (0, 1)
    ]


def test_an_option_of_the_command_line_replaces_its_sweep(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_BY_TWO, size="4KiB")
    assert labels(experiment) == ["hosts-per-leaf 2", "hosts-per-leaf 4"]
    assert {point.scenario.size_bytes for point in experiment.points} == {4096}
    assert experiment.swept == ("hosts-per-leaf",)


@pytest.mark.parametrize(
    ("text", "option", "points"),
    [
        ("sizes = [1, 2]", {"size": "4"}, [(4, ())]),
        ("size = 1", {"sizes": "4,8"}, [(1 << 20, (4, 8))]),
        ("sweep.sizes = [[1], [2]]", {"size": "4"}, [(4, ())]),
        ("sizes = [1, 2]\n[[part]]\nsweep.size = [4, 8]", {}, [(4, ()), (8, ())]),
        ("sizes = [1, 2]\n[[part]]\nsize = 4", {}, [(4, ())]),
        ("sweep.size = [1, 2]\n[[part]]\nsizes = [4, 8]", {}, [(1 << 20, (4, 8))]),
    ],
)
def test_size_and_sizes_take_each_others_place(
    tmp_path: Path, text: str, option: dict[str, str], points: list[Any]
) -> None:
    experiment = read(tmp_path, text, **option)
    found = [(point.scenario.size_bytes, point.scenario.sizes_bytes) for point in experiment.points]
    assert found == points


def test_an_option_of_the_command_line_may_leave_a_plot_without_runs(tmp_path: Path) -> None:
    text = TWO_PARTS + "[plot]\nx = 'ranks'\ny = 'goodput'\nwhere.world = 'emulated'"
    assert read(tmp_path, text, world="simulated").plots


def test_points_that_an_option_makes_the_same_run_once(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_PARTS, world="simulated")
    assert labels(experiment) == ["hosts-per-leaf 2", "hosts-per-leaf 4", "hosts-per-leaf 8"]
    assert len(read(tmp_path, TWO_PARTS, world="simulated", hosts_per_leaf="2").points) == 1


def test_algorithms_can_be_swept_and_are_no_column(tmp_path: Path) -> None:
    experiment = read(tmp_path, 'sweep = { algorithm = ["ring", ["multicast", "ring"]] }')
    assert [point.scenario.algorithms for point in experiment.points] == [
        ("ring",), ("multicast", "ring")
    ]  # fmt: skip
    assert experiment.swept == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sweep = 3", ["sweep is 3", "[sweep]"]),
        ("[sweep]\nsize = '1MiB'", ["sweep.size is '1MiB'", "list"]),
        ("[sweep]\nsize = []", ["sweep.size is []", "list"]),
        ("[sweep]\nsise = [1]", ["sweep: unknown key 'sise'", "'size'"]),
        ("[sweep]\nhosts-per-leaf = [1]\nhosts_per_leaf = [2]", ["is there twice"]),
        ("size = 1\n[sweep]\nsize = [1]", ["'size' is both set and swept"]),
        ("[sweep]\nleaves = [2, 0]", ["point 2 (leaves = 0)", "leaves 0 is out of range"]),
        ("[sweep]\nleaves = [2, 'x']", ["point 2 (leaves = 'x')", "whole number"]),
        ("[[part]]\nleaves = 2\n[[part]]\nk = 4", ["point 2 (k = 4)", "--k 4 means nothing"]),
        ("part = 3", ["part is 3", "[[part]]"]),
        ("part = []", ["part is []", "[[part]]"]),
        ("[part]\nleaves = 2", ["part is {'leaves': 2}", "[[part]]"]),
        ("part = [1]", ["part 1 is 1", "[[part]]"]),
        ("[[part]]\n[[part]]\nleafs = 2", ["part 2: unknown key 'leafs'", "'leaves'"]),
        ("[[part]]\n[[part.part]]\n", ["part 1: unknown key 'part'"]),
        ("[[part]]\nsweep = 1", ["part 1: sweep is 1"]),
        (
            "seeds = '1..3'\n[sweep]\nseed = [1, 2]",
            ["'seeds' is set and 'seed' swept, which say the same thing twice: keep one of them"],
        ),
        ("size = 1\n[sweep]\nsizes = ['1,2']", ["'size' is set and 'sizes' swept"]),
        (
            "[[part]]\ncase = 1\nsweep.one-to-many = ['1x2']",
            ["part 1: 'case' is set and 'one-to-many' swept"],
        ),
        ("[[part]]\nsize = 1\nsweep.size = [1]", ["part 1: 'size' is both set and swept"]),
        ("[[part]]\nsweep.sise = [1]", ["part 1: sweep: unknown key 'sise'"]),
        (
            "[sweep]\nseed = [" + ",".join(map(str, range(101))) + "]\n"
            "size = [" + ",".join(map(str, range(100))) + "]\nworld = ['simulated']",
            ["more than 10000 points"],
        ),
        ("plot = 3", ["plot is 3", "[plot]"]),
        ("size = 1\nsizes = [1]", ["size 1 and sizes [1] say the same thing twice"]),
        ("[sweep]\nat-once = [1, 5]", ["point 2 (at-once = 5)", "more than operations 1"]),
        (
            "[sweep]\nsize = [1, 2]\n[plot]\nx = 'leaves'\ny = 'goodput'",
            ["plot: x 'leaves' is not swept", "[sweep]", "size, ranks"],
        ),
        (
            "[sweep]\nsize = [1, 2]\n[plot]\nx = 'size'\ny = 'goodput'\nwhere.size = [1, 3]",
            ["plot 'goodput-size': where.size 3 matches no run"],
        ),
        (
            "[[part]]\nsize = 1\nalgorithm = 'ring'\n[[part]]\nsize = 2\n"
            "[plot]\nx = 'size'\ny = 'goodput'\nwhere = { algorithm = 'multicast', size = 1 }",
            ["where.size 1 matches no run among those that the rest of where leaves"],
        ),
        (
            "[sweep]\nsize = [1, 2]\n[plot]\nx = 'size'\ny = 'goodput'\nwhere.leaves = 'x'",
            ["plot: where.leaves 'x' is not a whole number"],
        ),
        (
            "[sweep]\nsize = [1, 2]\n[plot]\nx = 'size'\ny = 'bytes-ratio'\n"
            "numerator = 'ring'\ndenominator = 'ring'",
            ["both 'ring'"],
        ),
        ("[[plot]]\nx = 'ranks'\ny = 'completion'\n[[plot]]\n", ["plot 2: y is missing"]),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_the_place(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert message.count("sizes.toml") == 1
    for word in words:
        assert word in message
    assert len(message) < 600


def test_a_bad_option_of_the_command_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="options: unknown key 'sise'"):
        read(tmp_path, TWO_BY_TWO, sise=3)


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.booleans(), st.integers(-2, 9), st.text(max_size=4), st.sampled_from(["1KiB"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["size", "leaves", "sweep", "part", "plot", "x"]), inner),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["size", "leaves", "sweep", "part", "plot"]), _VALUES))
def test_any_document_is_an_experiment_or_an_input_error(document: dict[str, Any]) -> None:
    from weft.experiments.scenario.sweep import _experiment

    with contextlib.suppress(InputError):
        assert _experiment(document, {}, "a file", Path("stem.toml")).points


def test_points_that_differ_in_operations_alone_share_a_network(tmp_path: Path) -> None:
    text = "[sweep]\nsize = [1024, 2048]\nleaves = [2, 3]\nloss = [0, 0.1]"
    experiment = read(tmp_path, text)
    networks = _networks(experiment.points)
    assert [{point.scenario.leaves for point in network} for network in networks] == [{2}, {3}]
    assert [len(network) for network in networks] == [4, 4]
    # A simulated network is fresh for each run.
    assert len(_networks(read(tmp_path, text, world="simulated").points)) == 8


def test_all_points_run_and_are_told_apart_by_their_scenarios(tmp_path: Path) -> None:
    experiment = read(tmp_path, TWO_BY_TWO.replace("64KiB", "4KiB").replace("1MiB", "8KiB"))
    outcome = run_to_folder(experiment, progress=Progress.silent(), out=tmp_path / "out")
    results = Results.read(outcome.folder)
    assert results == outcome.results
    assert results.verified
    assert results.swept == ["hosts-per-leaf", "size"]
    found = [(one.scenario["hosts_per_leaf"], one.scenario["size_bytes"]) for one in results.runs]
    assert found == [(hosts, size) for hosts in (2, 4) for size in (4096, 8192) for _ in range(2)]


def test_a_point_that_fails_is_in_the_results_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.experiments.runs import here, simulation

    def simulate(scenario: Scenario, *rest: Any) -> Any:
        if scenario.hosts_per_leaf == 2:
            raise RunError("the world fell over")
        return simulation.simulate(scenario, *rest)

    monkeypatch.setattr(here, "simulate", simulate)
    experiment = read(tmp_path, TWO_BY_TWO, size="4KiB")
    results = run(experiment)
    assert [one.verified for one in results.runs] == [False, False, True, True]
    assert results.runs[0].error == "the world fell over"
    assert not results.verified
    with pytest.raises(RunError, match="fell over"):  # of one scenario by itself, as ever
        run(experiment.points[0].scenario)


def test_an_interrupted_sweep_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.experiments.runs import here

    def simulate(*_: Any) -> Any:
        raise SystemExit(130)

    monkeypatch.setattr(here, "simulate", simulate)
    experiment = read(tmp_path, TWO_BY_TWO)
    with pytest.raises(SystemExit):
        run_to_folder(experiment, progress=Progress.silent(), out=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["sizes.toml"]


def test_what_a_machine_cannot_do_is_said_of_the_point(tmp_path: Path) -> None:
    text = 'world = "simulated"\nalgorithm = "ring"\n[sweep]\nsize = ["1KiB", "4GiB"]\n'
    experiment = read(tmp_path, text + "[[part]]\ntopology = 'single'\nhosts-per-leaf = 250\n")
    with pytest.raises(MachineError, match=r"\[2/2\] size 4 GiB: .* of memory"):
        run(experiment)


@pytest.mark.slow
@pytest.mark.system
@needs_machine
@pytest.mark.system
def test_emulated_points_share_a_network_and_one_that_breaks_ends_its_own_point_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.experiments.runs import operate as sequence
    from weft.experiments.runs import shared

    brought_up = []

    class World(EmulatedWorld):
        def __enter__(self) -> Any:
            brought_up.append(len(self.topology.hosts))
            return super().__enter__()

    def operate(testbed: Any, algorithm: str, repetition: int, *rest: Any) -> Any:
        if (testbed.scenario.size_bytes, algorithm) == (8192, "ring"):
            raise RunError("a switch is gone")
        return sequence.operate(testbed, algorithm, repetition, *rest)

    monkeypatch.setattr(emulated, "EmulatedWorld", World)
    monkeypatch.setattr(shared, "operate", operate)
    text = TWO_BY_TWO.replace('"64KiB", "1MiB"', '"4KiB", "8KiB", "12KiB"')
    text = text.replace("[2, 4]", "[2, 3]").replace("simulated", "emulated")
    results = run(read(tmp_path, f'predict = false\nalgorithm = ["ring", "multicast"]{text}'))
    # The first three points share a network until it breaks; what is left gets a new one.
    assert brought_up == [2, 2, 3, 3]
    found = [(one.scenario["size_bytes"], one.algorithm, one.verified) for one in results.runs]
    assert found == 2 * [
        (4096, "ring", True), (4096, "multicast", True), (8192, "ring", False),
        (12288, "ring", True), (12288, "multicast", True),
    ]  # fmt: skip
    assert results.notes[0] == (
        "[2/6] hosts-per-leaf 2, size 8 KiB: the network broke; 1 runs were not started"
    )


EXPERIMENTS = sorted((Path(sweep.__file__).parent.parent / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_every_experiment_of_the_project_can_be_read(file: Path) -> None:
    experiment = read_file(file, {})
    assert experiment.points
    for plot in experiment.plots:
        assert plot.name


def test_a_title_says_what_all_points_have_in_common() -> None:
    options = {"collective": "allgather", "rate": "20Mbit", "size": "64KiB", "loss": "1%"}
    first, second, third = (
        from_options({**options, **more}).to_dict()
        for more in (
            {"chains": 2, "workers": 2, "world": "simulated"},
            {"chains": 2, "workers": 1, "world": "simulated"},
            {"chains": 2, "loss": "2%", "world": "emulated"},
        )
    )
    assert common_of([first], ["chains", "workers"]) == (
        "Allgather of 64 KiB a rank, leaf-spine, 20 Mbit/s links, chains 2, workers 2, 1 % loss, "
        "simulated"
    )
    assert common_of([first, second], ["chains", "workers", "split"]) == (
        "Allgather of 64 KiB a rank, leaf-spine, 20 Mbit/s links, chains 2, 1 % loss, simulated"
    )
    assert common_of([first, third], ["loss", "world", "workers"]) == (
        "Allgather of 64 KiB a rank, leaf-spine, 20 Mbit/s links"
    )
