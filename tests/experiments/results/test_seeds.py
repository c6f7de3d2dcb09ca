"""A scenario over many seeds: means and ranges where chance has a part, ``exact`` where not."""

from __future__ import annotations

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console
from tests.support.results_samples import sample_experiment, summarize

from weft import Scenario, run
from weft.base.errors import InputError
from weft.base.units import format_seeds, parse_seeds
from weft.cli import command_line as cli
from weft.experiments.plots.draw import svg_of
from weft.experiments.plots.series import lines_of
from weft.experiments.report import render
from weft.experiments.results.results import Results
from weft.experiments.results.spread import Spread
from weft.experiments.results.summary import by_point, which_run
from weft.experiments.results.table import summary_table
from weft.experiments.runner import _networks
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.plot_spec import PlotSpec
from weft.experiments.scenario.sweep import Experiment, read_file
from weft.experiments.theory.chance import chances

SWEEP = """
collective = "alltoall"
world = "simulated"
seeds = "1..3"
[sweep]
size = ["64KiB", "1MiB"]
[[plot]]
x = "size"
y = "completion"
"""


def seeded(**options: Any) -> Results:
    """Runs of five seeds as they could have come out; all differ."""
    scenario = Scenario(seeds=(1, 2, 3, 4, 5), **options)
    results = sample_experiment(Experiment.of(scenario))
    for index, one in enumerate(results.runs):
        time_ns = (one.completion_ns or 0) + 10_000_000 * (7 * index % 5)
        results.runs[index] = structs.replace(one, completion_ns=time_ns)
    return results


def printed(results: Results) -> str:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(summary_table(results))
    return console.export_text()


@pytest.mark.parametrize(
    ("value", "seeds"),
    [
        ("1..20", tuple(range(1, 21))),
        ("1,2,5", (1, 2, 5)),
        (" 7 .. 9 , 2", (7, 8, 9, 2)),
        ("4..4", (4,)),
        ([1, 2, 5], (1, 2, 5)),
        ([3, "8..9"], (3, 8, 9)),
        (f"0,{2**63 - 1}", (0, 2**63 - 1)),
    ],
)
def test_seeds_are_ranges_and_lists(value: object, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(value) == seeds
    assert from_options({"seeds": value}).seeds == seeds


@given(st.lists(st.integers(0, 30), min_size=1, unique=True))
def test_seeds_are_written_as_they_are_read(seeds: list[int]) -> None:
    assert parse_seeds(format_seeds(seeds)) == tuple(seeds)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("20", "seeds '20' is one number: for the seeds 1 to 20 write 1..20"),
        ("5..1", "the range '5..1' runs backwards: write 1..5"),
        ("1..10001", "more than 10000: name fewer"),
        ("0..9223372036854775807", "more than 10000"),
        ("1..3,2", "2 is there twice"),
        ("", "no seed and no range: write a range like 1..20"),
        ("-3", "'-3' is no seed"),
        ("1.5", "'1.5' is no seed"),
        ([], r"seeds \[\] is an empty list"),
        ([1, True], "True is no seed"),
        ([-1], "-1 is no seed"),
        (5, "seeds 5 is no list of seeds"),
        (str(2**63) + ",1", "a seed is at most"),
    ],
)
def test_bad_seeds_get_one_clear_error(value: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_options({"seeds": value})


def test_seeds_take_the_place_of_seed_and_of_repeat() -> None:
    with pytest.raises(InputError, match=r"seed 3 and seeds '1\.\.5' say the same thing twice"):
        from_options({"seed": 3, "seeds": "1..5"})
    with pytest.raises(InputError, match=r"repeat 2 beside seeds 1\.\.5"):
        from_options({"repeat": 2, "seeds": "1..5"})
    with pytest.raises(InputError, match=r"seed 9 is none of the seeds 1\.\.2"):
        Scenario(seed=9, seeds=(1, 2))
    assert Scenario(seeds=(4, 5)).seed == 4
    assert [each.seed for each in Scenario(seeds=(4, 5)).each_seed()] == [4, 5]
    assert Scenario(seed=5).each_seed() == [Scenario(seed=5)]


def test_the_command_line_takes_the_place_of_a_files_seed_and_back(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text("seed = 9\n")
    assert [p.scenario.seed for p in read_file(file, {"seeds": "1..3"}).points] == [1, 2, 3]
    file.write_text("seeds = [4, 5]\n")
    assert [p.scenario.seed for p in read_file(file).points] == [4, 5]
    (point,) = read_file(file, {"seed": "7"}).points
    assert (point.scenario.seed, point.scenario.seeds) == (7, ())


def test_seeds_are_no_axis_of_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    experiment = read_file(file)
    assert experiment.swept == ("size",)
    assert [point.label for point in experiment.points[:2]] == [
        "size 64 KiB, seed 1", "size 64 KiB, seed 2",
    ]  # fmt: skip
    assert len(experiment.points) == 6
    results = sample_experiment(experiment)
    assert [len(each.runs) for each in summarize(results)] == [3, 3]
    (line,) = lines_of(results, experiment.plots[0]).lines
    assert line.x == (65536, 1 << 20)
    assert all(low < y < high for low, y, high in zip(line.low, line.y, line.high, strict=True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[sweep]\nseeds = ["1..2", "1..3"]', "sweep.seeds: figures are means over seeds"),
        ('seeds = "1..2"\n[[plot]]\ny = "completion"\nx = "ranks"\nwhere.seed = 2',
         "where.seed picks seeds, but what is plotted are means"),
        ('seeds = "1..2"\n[[plot]]\ny = "completion"\nx = "seed"', "x 'seed' is not swept"),
    ],
)  # fmt: skip
def test_seeds_as_an_axis_are_refused_unless_swept(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read_file(file)


def test_a_swept_seed_is_an_axis(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text("[sweep]\nseed = [1, 2]\n")
    experiment = read_file(file)
    assert experiment.swept == ("seed",)
    assert len(by_point(sample_experiment(experiment))) == 2


def test_the_table_has_one_row_an_algorithm_with_mean_least_and_greatest() -> None:
    results = seeded(algorithms=("ring",))
    times_ms = [(one.completion_ns or 0) / 1e6 for one in results.runs]
    (row,) = [line.split() for line in printed(results).splitlines() if line.startswith(" ring ")]
    assert row[1] == "5/5"
    assert row[2:4] == [f"{statistics.fmean(times_ms):.0f}", "ms"]
    assert row[4] == f"{min(times_ms):.0f}-{max(times_ms):.0f}"
    assert "means of 5 seeds" in " ".join(printed(results).split())


def test_the_report_has_the_mean_the_range_every_run_and_how_to_run_it_again() -> None:
    results = seeded(algorithms=("ring",))
    page = render(results)
    spread = summarize(results)[0].completions
    assert spread
    for end in (spread.mean, spread.least, spread.greatest):
        assert f"{end / 1e6:.0f} ms" in page
    assert "Means of 5 seeds" in page
    assert "--seeds 1..5" in page and "--seed " not in page
    for one in results.runs:
        assert f"ring, seed {one.scenario['seed']}" in page
        assert which_run(results, one) == f"ring, seed {one.scenario['seed']}"


def test_plots_have_a_band_from_the_least_to_the_greatest(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    experiment = read_file(file)
    several = svg_of(sample_experiment(experiment), experiment.plots[0])
    single = read_file(file, {"seed": "1"})
    alone = svg_of(sample_experiment(single), single.plots[0])
    assert b"PolyCollection" in several
    assert b"PolyCollection" not in alone


def test_a_ratio_has_the_range_of_the_ratios_seed_by_seed() -> None:
    results = seeded(collective="allreduce", algorithms=("switch", "ring"))
    times = {(one.algorithm, one.scenario["seed"]): one.completion_ns or 0 for one in results.runs}
    ratios = [times["ring", seed] / times["switch", seed] for seed in range(1, 6)]
    mean = sum(times["ring", seed] for seed in range(1, 6)) / sum(
        times["switch", seed] for seed in range(1, 6)
    )
    (line,) = lines_of(results, PlotSpec(x="ranks", y="speed-up")).lines
    assert (line.low[0], line.y[0], line.high[0]) == pytest.approx((min(ratios), mean, max(ratios)))


def test_the_document_keeps_every_run_with_its_seed_and_sums_up(tmp_path: Path) -> None:
    results = seeded(algorithms=("ring",))
    results.write(tmp_path)
    assert Results.read(tmp_path) == results
    document = json.loads((tmp_path / "results.json").read_text())
    assert [one["scenario"]["seed"] for one in document["runs"]] == [1, 2, 3, 4, 5]
    times = [one["completion_ns"] for one in document["runs"]]
    (summary,) = document["summary"]
    assert summary == {
        "point": {}, "algorithm": "ring", "seeds": [1, 2, 3, 4, 5], "runs": 5, "verified": 5,
        "mean_ns": pytest.approx(statistics.fmean(times)), "least_ns": min(times),
        "greatest_ns": max(times), "exact": False,
    }  # fmt: skip


def test_every_seed_of_the_emulated_world_has_a_network_of_its_own() -> None:
    points = Experiment.of(Scenario(seeds=(1, 2, 5))).points
    assert [point.heading for point in points] == [f"[{i}/3] seed {s}: " for i, s in
                                                   ((1, 1), (2, 2), (3, 5))]  # fmt: skip
    assert [[point.scenario.seed for point in each] for each in _networks(points)] == [
        [1], [2], [5],
    ]  # fmt: skip


def test_a_seed_that_failed_is_counted_and_has_no_part_in_the_mean() -> None:
    results = seeded(algorithms=("ring",))
    last = results.runs[-1]
    results.runs[-1] = structs.replace(
        last, verified=False, completion_ns=None, fidelity=last.fidelity.of_failed()
    )
    (summary,) = summarize(results)
    times = [one.completion_ns or 0 for one in results.runs[:4]]
    assert summary.completions == Spread.of(times)
    assert "4/5" in printed(results)
    assert results.to_dict()["summary"][0]["verified"] == 4


@pytest.mark.parametrize(
    ("options", "drawn"),
    [
        ({"topology": "single"}, []),
        ({"topology": "single", "loss": 0.01}, ["losses"]),
        ({"spines": 1}, []),
        ({}, ["paths by ecmp"]),
        ({"paths": "destination"}, []),
        ({"paths": "spray"}, ["paths by spray"]),
        ({"paths": "ethereal"}, ["paths by ethereal"]),
        ({"topology": "fat-tree"}, ["paths by ecmp"]),
        ({"spines": 1, "rank_placement": "random"}, ["where ranks are"]),
        ({"world": "emulated", "spines": 1}, ["the machine"]),
    ],
)
def test_what_is_drawn_follows_from_the_scenario(options: dict[str, Any], drawn: list[str]) -> None:
    assert chances(Scenario(**{"world": "simulated", "algorithms": ("ring",), **options})) == drawn


def test_what_chance_has_no_part_in_is_exact() -> None:
    single: dict[str, Any] = {
        "world": "simulated", "topology": "single", "hosts_per_leaf": 3, "size_bytes": 20_000,
        "algorithms": ("ring",),
    }  # fmt: skip
    results = run(Scenario(seeds=(1, 2, 3), **single))
    assert len({one.digest for one in results.runs}) == 3  # other data
    (summary,) = summarize(results)
    assert summary.exact and results.to_dict()["summary"][0]["exact"]
    assert "exact" in printed(results) and "exact" in render(results)
    assert "all times are exact" in printed(run(Scenario(**single)))
    # Equal times of a scenario in which something is drawn are no proof.
    lucky = run(Scenario(seeds=(1, 2), **{**single, "loss": 1e-9}))
    assert len({one.completion_ns for one in lucky.runs}) == 1
    assert not summarize(lucky)[0].exact
    # Nor is a scenario without chance, if times differ.
    results.runs[0] = structs.replace(results.runs[0], completion_ns=1)
    assert not summarize(results)[0].exact


def test_losses_over_seeds_have_a_spread_and_every_seed_is_a_run_of_its_own() -> None:
    scenario = Scenario(
        world="simulated", topology="single", hosts_per_leaf=3, size_bytes=200_000, loss=0.05,
        algorithms=("ring",), seeds=(2, 3, 9),
    )  # fmt: skip
    results = run(scenario)
    assert results.verified
    (summary,) = summarize(results)
    assert summary.completions
    assert summary.completions.least < summary.completions.mean < summary.completions.greatest
    for one in results.runs:
        seed = one.scenario["seed"]
        (alone,) = run(dataclasses.replace(scenario, seed=seed, seeds=())).runs
        assert alone.digest == one.digest


def test_a_single_seed_of_several_possible_says_so_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "allgather", "--world", "simulated", "--size", "4KiB", "--algorithm", "ring"]
    with pytest.raises(SystemExit):
        cli.app([*words, "--out", str(tmp_path / "one")])
    assert "of a single seed, which decides paths by ecmp" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.app([*words, "--seeds", "1..2", "--out", str(tmp_path / "two")])
    shown = capsys.readouterr()
    assert "means of 2 seeds" in shown.out and "single seed" not in shown.out
