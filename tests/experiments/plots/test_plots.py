"""Plots: what is said of a bad one, the figures that are drawn, and the files."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.support.results_samples import sample_experiment, sample_results

from weft.base.errors import InputError
from weft.experiments.plots.canvas import saved
from weft.experiments.plots.draw import _drawn, svg_of, title_of, write_plots
from weft.experiments.plots.heatmap import heat_map, heat_maps_of
from weft.experiments.plots.palette import in_order
from weft.experiments.plots.series import lines_of, phases_of, tiers_of
from weft.experiments.results.results import Results, scenario_of
from weft.experiments.results.summary import by_point
from weft.experiments.scenario.metric_names import plotted
from weft.experiments.scenario.plot_spec import KINDS, TIERS, PlotSpec, read_plots
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point
from weft.experiments.theory.bounds import completion_bound_ns

CHECKOUT = Path(__file__).resolve().parents[3]


def points(*scenarios: Scenario, swept: tuple[str, ...]) -> Results:
    return sample_experiment(Experiment(tuple(map(Point, scenarios)), swept))


def scaling(**options: Any) -> Results:
    """Ring and multicast on one switch: 2 and 4 hosts emulated, and 8 simulated, too."""
    settings = {"topology": "single", "size_bytes": 1 << 18, **options}
    return points(
        *(Scenario(world="emulated", hosts_per_leaf=hosts, **settings) for hosts in (2, 4)),
        *(Scenario(world="simulated", hosts_per_leaf=hosts, **settings) for hosts in (2, 4, 8)),
        swept=("world", "hosts-per-leaf"),
    )


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "pie"}, ["kind 'pie'", "lines, phases, tiers"]),
        ({"x": "ranks"}, ["y is missing", "completion"]),
        ({"y": "completion"}, ["x is missing", "ranks"]),
        ({"x": "ranks", "y": "completions"}, ["'completions'", "did you mean completion?"]),
        ({"x": "sise", "y": "completion"}, ["x 'sise'", "did you mean size?", "ranks"]),
        ({"x": "leaves", "y": "completion"}, ["x 'leaves'", "choose from size, ranks"]),
        ({"x": "ranks", "y": "bytes", "tier": "hosts"}, ["tier 'hosts'", "did you mean host?"]),
        ({"x": "ranks", "y": "completion", "tier": "host"}, ["tier 'host' means nothing here"]),
        ({"x": "ranks", "y": "bytes", "log": "z"}, ["log 'z'", "none, x, y, xy"]),
        ({"x": "ranks", "y": "bytes-ratio"}, ["numerator is missing"]),
        ({"x": "ranks", "y": "bytes-ratio", "numerator": "ring"}, ["denominator is missing"]),
        (
            {"x": "ranks", "y": "bytes-ratio", "numerator": "rang", "denominator": "ring"},
            ["numerator 'rang'", "did you mean ring?"],
        ),
        ({"x": "ranks", "y": "bytes", "numerator": "ring"}, ["numerator means nothing"]),
        ({"kind": "phases"}, ["x is missing"]),
        ({"kind": "phases", "x": "ranks", "y": "bytes"}, ["y means nothing", "'phases'"]),
        ({"kind": "phases", "x": "ranks", "log": "x"}, ["log means nothing"]),
        ({"kind": "tiers", "x": "ranks"}, ["x means nothing", "'tiers'"]),
        ({"kind": "heatmap", "log": "x"}, ["log means nothing", "'heatmap'"]),
        ({"kind": "tiers", "tier": "host"}, ["tier 'host' means nothing", "'heatmap'"]),
        ({"kind": "tiers", "name": "../up"}, ["name '../up'", "letters"]),
        ({"kind": "tiers", "colour": "red"}, ["unknown key 'colour'", "where"]),
        ({"kind": "tiers", "model": "no"}, ["model 'no' is not true or false"]),
        ({"kind": 3}, ["kind 3 is not text"]),
        ({"kind": "tiers", "where": 3}, ["where 3 is not a table"]),
        ({"kind": "tiers", "where": {"sise": 3}}, ["where: unknown key 'sise'"]),
        ({"kind": "tiers", "where": {"size": []}}, ["where.size is an empty list"]),
        ({"kind": "tiers", "where": {"size": "big"}}, ["size 'big' is not understood"]),
    ],
)
def test_what_is_wrong_with_a_plot_is_said(table: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_plots(table, ["size"], ["ring", "multicast"])
    for word in ["plot: ", *words]:
        assert word in str(caught.value)


_ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["size", "world", "x"]), inner, max_size=2),
    ),
)


@given(
    st.dictionaries(
        st.sampled_from([item.name for item in structs.fields(PlotSpec)]),
        st.one_of(_ANYTHING, st.sampled_from([*KINDS, *plotted(), *TIERS, "ranks", "ring", "xy"])),
    )
)
def test_any_table_is_a_plot_or_an_input_error(table: dict[str, Any]) -> None:
    try:
        (plot,) = read_plots(table, ["size"], ["ring"])
    except InputError:
        return
    assert PlotSpec(**structs.asdict(plot)) == plot


def test_plots_that_would_be_one_file_are_refused() -> None:
    table = {"x": "ranks", "y": "bytes"}
    with pytest.raises(InputError, match="two plots are named 'bytes-ranks'"):
        read_plots([table, table], [], [])
    first, second = read_plots([table, {**table, "name": "again"}], [], [])
    assert (first.name, second.name) == ("bytes-ranks", "again")


def test_a_line_is_drawn_for_each_algorithm_and_world() -> None:
    results = scaling()
    shown = lines_of(results, PlotSpec(x="hosts-per-leaf", y="completion"))
    assert [(line.label, line.world, line.x) for line in shown.lines] == [
        ("multicast", "emulated", (2, 4)),
        ("ring", "emulated", (2, 4)),
        ("multicast", "simulated", (2, 4, 8)),
        ("ring", "simulated", (2, 4, 8)),
    ]
    times = [run.completion_ns for run in results.runs if run.algorithm == "ring"]
    assert shown.lines[1].y == tuple((time or 0) / 1e6 for time in times[:2])
    assert shown.lines[3].y == tuple((time or 0) / 1e6 for time in times[2:])
    bounds = [
        completion_bound_ns(scenario_of(run.scenario), "ring") / 1e6
        for run in results.runs
        if run.algorithm == "ring"
    ]
    assert shown.lines[3].model == tuple(bounds[2:])
    assert shown.y_label == "completion time (ms)"
    assert shown.model_label == "bound"
    assert shown.axis.ticks == ("2", "4", "8")


def test_the_ratio_of_bytes_below_one_switch_is_2_less_2_over_p() -> None:
    spec = PlotSpec(x="ranks", y="bytes-ratio", numerator="ring", denominator="multicast")
    emulated, simulated = lines_of(scaling(), spec).lines
    assert simulated.x == (2, 4, 8)
    assert simulated.model == pytest.approx([2 - 2 / ranks for ranks in (2, 4, 8)])
    # Headers are of all packets alike, nearly.
    assert simulated.y == pytest.approx(simulated.model, rel=0.02)
    assert (emulated.label, emulated.algorithm) == ("ring / multicast", "ring")


def test_bytes_are_summed_over_the_tiers_that_are_asked_for() -> None:
    results = points(
        *(Scenario(size_bytes=size, world="simulated") for size in (1 << 18, 1 << 20)),
        swept=("size",),
    )
    for name, tiers in TIERS.items():
        shown = lines_of(results, PlotSpec(x="size", y="bytes", tier=name))
        assert shown.y_label.endswith(f"{name.replace('-', ' ')} links (MiB)")
        for line in shown.lines:
            runs = [run for run in results.runs if run.algorithm == line.label]
            expected = [sum(run.tiers[tier] for tier in tiers) / (1 << 20) for run in runs]
            assert line.y == pytest.approx(expected)
            ratio = lines_of(results, PlotSpec(x="size", y="over-model", tier=name))
            (same,) = [other for other in ratio.lines if other.label == line.label]
            model = [model or 0 for model in line.model]
            assert same.y == pytest.approx([y / m for y, m in zip(line.y, model, strict=True)])
            assert set(same.model) == {1.0}
    assert shown.axis.ticks == ("256 KiB", "1 MiB")


def test_repeated_runs_have_a_spread() -> None:
    results = scaling(repeat=3, algorithms=("ring",))
    for metric in ("completion", "over-bound", "goodput"):
        for line in lines_of(results, PlotSpec(x="ranks", y=metric)).lines:
            for low, y, high in zip(line.low, line.y, line.high, strict=True):
                assert low < y < high
    goodput = lines_of(results, PlotSpec(x="ranks", y="goodput")).lines[0]
    rates = [(run.goodput_bps or 0) / 1e6 for run in results.runs[:3]]
    expected = min(rates), sum(rates) / 3, max(rates)
    assert (goodput.low[0], goodput.y[0], goodput.high[0]) == pytest.approx(expected)
    sent = [sum(run.tiers.values()) for run in results.runs[:3]]
    (bytes_,) = lines_of(results, PlotSpec(x="ranks", y="over-model")).lines[:1]
    ratio = sum(sent) / 3 / bytes_.y[0]
    assert bytes_.low[0] == pytest.approx(min(sent) / ratio)
    assert bytes_.high[0] == pytest.approx(max(sent) / ratio)


def test_what_else_is_swept_makes_lines_of_its_own() -> None:
    results = points(
        *(
            Scenario(world="simulated", size_bytes=size, loss=loss, algorithms=("ring",))
            for size in (1024, 2048)
            for loss in (0.0, 0.01)
        ),
        swept=("size", "loss"),
    )
    shown = lines_of(results, PlotSpec(x="size", y="goodput"))
    assert [(line.other, line.x) for line in shown.lines] == [
        ("loss 0 %", (1024, 2048)),
        ("loss 1 %", (1024, 2048)),
    ]
    narrowed = PlotSpec(x="size", y="goodput", where={"loss": ["1%"]})
    assert [line.other for line in lines_of(results, narrowed).lines] == [""]


def test_only_the_runs_that_are_asked_for_are_drawn() -> None:
    where: dict[str, list[Any]] = {"world": ["simulated"], "algorithm": ["ring"]}
    spec = PlotSpec(x="ranks", y="completion", where={**where, "hosts-per-leaf": [4, 8]})
    (line,) = lines_of(scaling(), spec).lines
    assert (line.label, line.world, line.x) == ("ring", "simulated", (4, 8))


def test_values_that_are_no_numbers_stand_side_by_side() -> None:
    results = points(
        *(Scenario(world="simulated", cutoff=cutoff) for cutoff in ("paper", "adaptive")),
        swept=("cutoff",),
    )
    shown = lines_of(results, PlotSpec(x="cutoff", y="completion"))
    assert shown.axis.ticks == ("paper", "adaptive")
    assert shown.axis.positions == (0, 1)
    assert [line.x for line in shown.lines] == [(0, 1), (0, 1)]


def test_runs_that_failed_are_left_out_and_doubtful_ones_marked() -> None:
    results = scaling(algorithms=("ring",))
    results.runs[0] = structs.replace(results.runs[0], verified=False, completion_ns=None)
    bad = structs.replace(results.runs[1].fidelity, verdict="invalid")
    results.runs[1] = structs.replace(results.runs[1], fidelity=bad)
    emulated, simulated = lines_of(results, PlotSpec(x="ranks", y="completion")).lines
    assert (emulated.x, emulated.doubtful) == ((4,), (True,))
    assert simulated.doubtful == (False, False, False)
    emulated, _ = lines_of(results, PlotSpec(x="ranks", y="bytes")).lines
    assert emulated.doubtful == (False,)  # bytes do not hang on time


def test_phases_are_those_of_the_slowest_rank() -> None:
    results = scaling(algorithms=("multicast",))
    shown = phases_of(results, PlotSpec(kind="phases", x="ranks", where={"world": ["simulated"]}))
    (panel,) = shown.panels
    assert panel.title == "multicast"
    assert panel.groups == ("2", "4", "8")
    assert shown.names == ("barrier", "data", "recovery", "handshake")
    assert in_order(["handshake", "odd", "data"]) == ["data", "handshake", "odd"]
    run = results.runs[-1]
    slowest = max(run.ranks, key=lambda rank: rank.completion_ns or 0)
    for name in shown.names:
        assert panel.values[name][-1] == slowest.phases_ns[name] / 1e6
    titles = [each.title for each in phases_of(results, PlotSpec(kind="phases", x="ranks")).panels]
    assert titles == ["multicast, emulated", "multicast, simulated"]


def test_a_heat_map_has_what_part_of_its_rate_each_link_carried_when() -> None:
    results = scaling(algorithms=("ring",))
    spec = PlotSpec(kind="heatmap", tier="host")
    [(title, shown), *_] = heat_maps_of(results, spec)
    run = results.runs[0]
    assert title.startswith("ring, ")
    assert len(shown.names) == sum(link.tier.startswith("host") for link in run.links)
    assert shown.names[0] == "h0>leaf0" and shown.sources[-1].startswith("leaf")
    assert [name for _, name in shown.marks()] == list(shown.names)
    for name, loads in zip(shown.names, shown.loads, strict=True):
        (link,) = (each for each in run.links if f"{each.from_node}>{each.to_node}" == name)
        carried = sum(loads) * shown.bin_ns * run.scenario["rate_bps"] / 8e9
        assert carried == pytest.approx(sum(link.load_bytes))
    assert shown.end_ns == run.load_bin_ns * len(run.links[0].load_bytes)


def test_rows_of_a_large_heat_map_are_named_by_node() -> None:
    results = sample_results(algorithms=("ring",), leaves=8, spines=8, hosts_per_leaf=8)
    shown = heat_map(results.runs[0], ["fabric_up"])
    assert shown is not None and len(shown.names) == 64
    assert shown.marks() == [(8 * leaf + 4.0, f"leaf{leaf}>") for leaf in range(8)]
    nothing = structs.replace(results.runs[0], load_bin_ns=0)
    assert heat_map(nothing, ["fabric_up"]) is None


def test_tiers_are_measured_and_modelled_for_each_algorithm() -> None:
    results = points(Scenario(world="simulated"), swept=())
    shown = tiers_of(results, PlotSpec(kind="tiers"))
    (panel,) = shown.panels
    assert panel.groups == ("host up", "host down", "fabric up", "fabric down")
    assert shown.names == ("multicast", "ring")
    for summary in by_point(results)[0]:
        assert panel.values[summary.algorithm] == pytest.approx(
            [size / (1 << 20) for size in summary.tiers.values()]
        )
        assert panel.models[summary.algorithm] == pytest.approx(
            [summary.model[tier] / (1 << 20) for tier in summary.tiers]
        )
    two = tiers_of(scaling(), PlotSpec(kind="tiers", where={"hosts-per-leaf": [4]}))
    assert [panel.title for panel in two.panels] == ["world emulated", "world simulated"]


SPECS = [
    *(PlotSpec(x="ranks", y=y) for y in plotted() if y != "bytes-ratio"),
    PlotSpec(x="ranks", y="bytes-ratio", numerator="ring", denominator="multicast", log="x"),
    PlotSpec(x="hosts-per-leaf", y="bytes", tier="host-up", log="xy", title="Ünits in $ & <b>"),
    PlotSpec(kind="phases", x="ranks"),
    PlotSpec(kind="tiers"),
    PlotSpec(kind="heatmap"),
    PlotSpec(kind="heatmap", tier="fabric-up"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_plot_is_drawn_as_svg_and_png(tmp_path: Path, spec: PlotSpec) -> None:
    results = structs.replace(scaling(repeat=2), plots=[spec])
    assert write_plots(results, tmp_path) == (tmp_path / f"{spec.name}.svg",)
    assert (tmp_path / f"{spec.name}.png").read_bytes().startswith(b"\x89PNG")
    root = ElementTree.parse(tmp_path / f"{spec.name}.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg_of(results, spec) == (tmp_path / f"{spec.name}.svg").read_bytes()
    assert title_of(spec)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_of_nothing_says_so(kind: str) -> None:
    spec = PlotSpec(
        kind,
        x="" if kind in ("tiers", "timeline", "heatmap") else "ranks",
        y="bytes" * (kind == "lines"),
    )
    empty = structs.replace(scaling(), runs=[])
    assert b"<svg" in svg_of(empty, spec)


def test_a_place_that_takes_no_plot_is_an_error_that_names_it(tmp_path: Path) -> None:
    results = structs.replace(scaling(), plots=[PlotSpec(kind="tiers")])
    with pytest.raises(InputError, match=r"cannot write the plot to .*missing/tiers\.svg"):
        write_plots(results, tmp_path / "missing")


def test_plots_come_back_from_the_document() -> None:
    results = structs.replace(scaling(), plots=list(SPECS))
    assert Results.from_dict(results.to_dict()).plots == SPECS


@pytest.mark.parametrize(
    ("plots", "words"),
    [
        ([{"kind": "pie"}], "kind 'pie'"),
        ([{"kind": "tiers", "name": "../../x"}], "no name for a file"),
        ([{"kind": "tiers"}, {"kind": "tiers"}], "two plots are named"),
        ([{"kind": "tiers", "where": {"x": [1]}}], "unknown key 'x'"),
        ([{"kind": "tiers", "colour": 1}], "plots[0].colour means nothing"),
    ],
)
def test_damaged_plots_are_refused(plots: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Results.from_dict({**scaling().to_dict(), "plots": plots})
    assert str(caught.value).startswith("the results document is damaged: ")
    assert words in str(caught.value)


@pytest.mark.filterwarnings("error")  # as of axes that end where they begin
@given(
    st.sampled_from([spec for spec in SPECS if spec.kind == "lines"]),
    st.lists(st.integers(0, 1 << 40), min_size=10, max_size=10),
)
@settings(max_examples=10)
def test_any_times_can_be_drawn(spec: PlotSpec, times: list[int]) -> None:
    results = scaling()
    for index, time in enumerate(times):
        run = structs.replace(results.runs[index], completion_ns=time, bound_ns=time // 2)
        results.runs[index] = run
    assert b"<svg" in svg_of(results, spec)


@pytest.mark.parametrize("log", ["", "x"])
def test_labels_below_the_axis_do_not_run_into_each_other(log: str) -> None:
    losses = (0.0, 0.001, 0.0011, 0.01, 0.1)
    results = points(*(Scenario(world="simulated", loss=loss) for loss in losses), swept=("loss",))
    spec = PlotSpec(x="loss", y="completion", log=log)
    with _drawn(results, spec) as figure:
        svg = saved(figure, "svg")
        boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) >= 3
    boxes.sort(key=lambda box: float(box.x0))
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0
    assert b"<svg" in svg


def test_nothing_but_drawing_waits_for_matplotlib() -> None:
    code = (
        "import sys, weft.cli.command_line, weft.experiments.runner;"
        "import weft.experiments.results.table, weft.experiments.report;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False, timeout=600)
    assert done.returncode == 0
