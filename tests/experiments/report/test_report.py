"""The HTML page and the terminal's table of a results document."""

from __future__ import annotations

import base64
import io
import re
import shlex
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import image
from msgspec import structs
from rich.console import Console
from rich.table import Table
from tests.support.collective_names import COLLECTIVES as ALGORITHMS_OF
from tests.support.results_samples import sample_experiment, sample_results, summarize

from weft.base.errors import InputError
from weft.experiments.families.pipeline.schedules import SCHEDULES
from weft.experiments.families.resharding.names import strategies
from weft.experiments.plots.heatmap import RAMP
from weft.experiments.plots.palette import (
    ALGORITHMS,
    algorithm_class,
    colour,
    style_sheet,
    with_page_colours,
)
from weft.experiments.report import base, render, write_page
from weft.experiments.report.charts import ticks
from weft.experiments.report.scenarios import command_line
from weft.experiments.report.words import headline
from weft.experiments.results.results import Results, Run, scenario_of
from weft.experiments.results.summary import (
    MAX_DOUBTS,
    by_point,
    doubts,
    short_duration,
    short_rate,
    three_digits,
    which_run,
)
from weft.experiments.results.table import links_table, summary_table
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.plot_spec import PlotSpec
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point
from weft.topo.faults import Fault, LinkLoss

VOID = {"meta", "br", "input", "col"}


class Page(HTMLParser):
    """Checks that elements close in order, and keeps what the page refers to, its ids and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: Counter[str] = Counter()
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(attrs)

    def _attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.references += [named[key] or "" for key in ("src", "href", "srcset") if key in named]
        if named.get("id"):
            self.ids[str(named["id"])] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


def changed(results: Results, index: int, **changes: Any) -> Results:
    results.runs[index] = structs.replace(results.runs[index], **changes)
    return results


def failed(results: Results, index: int, error: str) -> Results:
    return changed(
        results, index, verified=False, completion_ns=None, goodput_bps=None, error=error
    )


SCENARIOS: dict[str, Callable[[], Results]] = {
    "leaf-spine": sample_results,
    "repeated": lambda: sample_results(repeat=5),
    "single": lambda: sample_results(topology="single", hosts_per_leaf=40),
    "fat tree": lambda: sample_results(topology="fat-tree", k=4, tiers=3),
    "one algorithm": lambda: sample_results(algorithms=("multicast",), chains=2),
    "one rank": lambda: sample_results(topology="single", hosts_per_leaf=1),
    "no data": lambda: sample_results(size_bytes=0),
    "failed": lambda: failed(sample_results(), 0, "h3 did not answer"),
    "all failed": lambda: failed(failed(sample_results(), 0, "a"), 1, "b"),
    "no runs": lambda: structs.replace(sample_results(), runs=[]),
    "broadcast": lambda: sample_results(
        collective="broadcast",
        algorithms=("multicast", "k-nomial", "binary-tree", "pipelined-ring"),
    ),
    "reduce-scatter": lambda: sample_results(collective="reduce-scatter"),
    "sweep": lambda: sample_sweep(),
    "failed point": lambda: failed(sample_sweep(), 1, "no world"),
}


def sample_sweep() -> Results:
    """Four points: two numbers of hosts, one of which in both worlds, of two sizes."""
    points = [
        Point(Scenario(topology="single", world=world, hosts_per_leaf=hosts, size_bytes=size))
        for world, hosts in (("emulated", 2), ("simulated", 2), ("simulated", 16))
        for size in (1 << 16, 1 << 20)
    ]
    return sample_experiment(Experiment(tuple(points), ("world", "hosts-per-leaf", "size")))


@pytest.mark.parametrize("make", SCENARIOS.values(), ids=SCENARIOS)
def test_the_page_is_whole_and_needs_no_other_file(make: Callable[[], Results]) -> None:
    text = render(make())
    page = Page(text)
    assert all(each.startswith("data:image/png;base64,") for each in page.references)
    assert "url(" not in text
    assert "@import" not in text
    # An SVG's name of its own namespace is no address that anything is loaded from.
    assert "://" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert all(count == 1 for count in page.ids.values())


@pytest.mark.parametrize("make", SCENARIOS.values(), ids=SCENARIOS)
def test_the_table_fits_into_100_columns(make: Callable[[], Results]) -> None:
    text = printed(summary_table(make()))
    assert "…" not in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_the_table_fits_into_100_columns_with_large_figures() -> None:
    results = sample_results(repeat=20, size_bytes=1 << 30, rate_bps=12_345_678)
    for index, run in enumerate(results.runs):
        ranks = [structs.replace(rank, retransmitted_packets=99) for rank in run.ranks]
        links = [structs.replace(link, lost=999) for link in run.links]
        fidelity = structs.replace(run.fidelity, verdict="strained")
        changed(results, index, ranks=ranks, links=links, fidelity=fidelity)
    text = printed(summary_table(results))
    assert "…" not in text
    assert "20/20" in text
    assert "strained" in text


@pytest.mark.parametrize("collective", ALGORITHMS_OF)
def test_all_algorithms_are_told_apart_in_100_columns(collective: str) -> None:
    algorithms = ALGORITHMS_OF[collective]
    results = sample_results(repeat=9, collective=collective, algorithms=algorithms)
    for index, run in enumerate(results.runs):
        ranks = [structs.replace(rank, retransmitted_packets=123_456) for rank in run.ranks]
        links = [structs.replace(link, lost=123) for link in run.links]
        fidelity = structs.replace(run.fidelity, verdict="strained")
        changed(results, index, ranks=ranks, links=links, fidelity=fidelity)
    text = printed(summary_table(results))
    assert "…" not in text
    assert "8.89M" in text
    firsts = [line.split() for line in text.splitlines() if "9/9" in line]
    found = [words[0] for words in firsts]
    for index, words in enumerate(found):
        if words.endswith("-"):  # the rest is below
            rest = text.splitlines()[text.splitlines().index(_line(text, words)) + 1].strip()
            found[index] += rest
    assert tuple(found) == algorithms


def _line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({"collective": "broadcast"}, "Broadcast of 1 MiB, 8 ranks"),
        ({"collective": "reduce-scatter"}, "Reduce-Scatter of 1 MiB a rank, 8 ranks"),
        ({"sizes_bytes": (0, 3, 1 << 20)}, "Allgather of shards of 0 B to 1 MiB, 8 ranks"),
        ({"sizes_bytes": (1024, 1024)}, "Allgather of 1 KiB a rank, 8 ranks"),
        ({"operations": 9}, "1 MiB a rank, 9 operations, 8 ranks"),
        ({"operations": 9, "at_once": 3}, "1 MiB a rank, 9 operations, 3 at once, 8 ranks"),
        ({"topology": "single", "hosts_per_leaf": 1}, "1 MiB a rank, 1 rank, single"),
    ],
)
def test_the_title_says_what_was_run(options: dict[str, Any], title: str) -> None:
    assert title in printed(summary_table(sample_results(**options)))


def test_collectives_that_are_swept_are_all_named() -> None:
    scenarios = [Scenario(collective=name) for name in ALGORITHMS_OF]
    points = tuple(Point(each, each.collective, "1/3") for each in scenarios)
    results = sample_experiment(Experiment(points, ("collective",)))
    for text in (printed(summary_table(results)), render(results)):
        assert "Allgather, Broadcast, Reduce-Scatter" in " ".join(text.split())
    assert "…" not in printed(summary_table(results))


def test_phases_of_several_operations_are_called_sums() -> None:
    results = sample_results(operations=9)
    assert "phases of multicast (all operations of rank 0, the slowest)" in printed(
        summary_table(results)
    )
    assert "Sums over all operations" in render(results)
    assert "Sums over all operations" not in render(sample_results())


def printed(table: Table) -> str:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()


def test_the_table_shows_times_goodput_bytes_and_fidelity_of_each_algorithm() -> None:
    results = sample_results(repeat=1)
    multicast, ring = results.runs
    text = printed(summary_table(results))
    for run in (multicast, ring):
        (line,) = [line for line in text.splitlines() if line.strip().startswith(run.algorithm)]
        assert run.completion_ns
        assert run.goodput_bps
        for figure in (
            "verified",
            short_duration(run.completion_ns),
            short_duration(run.bound_ns),
            three_digits(run.goodput_bps / 1e6),
            *(three_digits(size / 2**20) for size in run.tiers.values()),
            "ok",
        ):
            assert f" {figure}" in line
    assert "Allgather of 1 MiB a rank, 8 ranks, leaf-spine, 100 Mbit/s links" in text


def test_a_run_that_did_not_verify_has_no_time_in_the_table() -> None:
    text = printed(summary_table(failed(sample_results(), 0, "h3 did not answer")))
    (line,) = [line for line in text.splitlines() if line.strip().startswith("multicast")]
    assert line.split()[1:3] == ["failed", "-"]


def test_means_are_of_the_verified_runs_alone() -> None:
    results = sample_results(repeat=3, algorithms=("ring",))
    changed(results, 0, completion_ns=100)
    changed(results, 1, completion_ns=300)
    failed(results, 2, "lost")
    (summary,) = summarize(results)
    assert summary.completion_ns == 200
    assert summary.completions_ns == [100, 300]
    assert summary.shown is results.runs[0]


def test_the_worst_verdict_stands_for_all_runs() -> None:
    results = sample_results(repeat=3, algorithms=("ring",))
    for index, verdict in enumerate(("strained", "invalid", "ok")):
        fidelity = structs.replace(results.runs[index].fidelity, verdict=verdict)
        changed(results, index, fidelity=fidelity)
    assert summarize(results)[0].fidelity == "invalid"


def test_the_page_names_every_rank_link_and_reason() -> None:
    results = sample_results()
    fidelity = structs.replace(
        results.runs[0].fidelity, verdict="strained", reasons=["the processors were 93% busy"]
    )
    changed(results, 0, fidelity=fidelity)
    results.notes.append("a run does not repeat")
    words = Page(render(results)).words()
    for link in results.runs[0].links:
        assert f"{link.from_node} {link.to_node} " in words
        assert f"{link.tx_bytes:,}" in words
    for rank in results.runs[0].ranks:
        assert rank.host in words
    assert "the processors were 93% busy" in words
    assert "fidelity strained" in words
    assert "a run does not repeat" in words
    assert "data verified in all 2 runs" in words


def test_a_run_has_its_loads_over_time_as_a_picture_of_a_pixel_a_bin() -> None:
    results = sample_results(algorithms=("ring",))
    run = results.runs[0]
    most = run.load_bin_ns * run.scenario["rate_bps"] // (8 * 10**9)
    links = [
        structs.replace(link, load_bytes=[0, most // 2, most] if number == 0 else [0, 0, 0])
        for number, link in enumerate(run.links)
    ]
    changed(results, 0, links=links)
    (picture,) = Page(render(results)).references
    pixels = image.imread(io.BytesIO(base64.b64decode(picture.partition(",")[2])))
    assert pixels.shape[:2] == (len(links), 3)
    colours = [tuple(round(255 * float(part)) for part in pixel[:3]) for pixel in pixels[0]]
    assert colours[0] == RAMP[0] and colours[2] == RAMP[-1]
    assert all(abs(one - other) < 8 for one, other in zip(colours[1], RAMP[2], strict=True))
    assert (pixels[1:, :, :3] == 1).all()


def test_marks_reordering_and_changes_of_path_are_told_where_paths_are_chosen() -> None:
    results = sample_results(
        collective="alltoall", algorithms=("direct",), paths="reps", rank_placement="strided"
    )
    for number, rank in enumerate(results.runs[0].ranks):
        rank.statistics.update(
            marks_received=100, reordered_packets=20, reorder_distance_peak=number, path_changes=1
        )
    ranks = len(results.runs[0].ranks)
    words = Page(render(results)).words()
    expected = f"{100 * ranks} {20 * ranks} {ranks - 1} 0 0 {ranks} Packets."
    assert expected in words
    assert "direct reps" in words
    assert "paths reps, ranks strided" in words
    assert "Paths and reordering" not in Page(render(sample_results())).words()


def test_queues_and_loads_are_told_by_kind_of_link() -> None:
    results = sample_results(algorithms=("ring",))
    queue = {"packets": 9, "p50": 0, "p99": 12 << 10, "max": 20 << 10}
    changed(results, 0, queues={"fabric_up": queue})
    words = Page(render(results)).words()
    ups = [link.tx_bytes for link in results.runs[0].links if link.tier == "fabric_up"]
    spread = three_digits(max(ups) * len(ups) / sum(ups))
    assert f"{spread} 0 B 12 KiB 20 KiB 0 0" in words


def test_an_error_is_shown_and_cannot_become_markup() -> None:
    results = failed(sample_results(), 0, "no answer from <script>alert(1)</script> & co")
    text = render(results)
    assert "<script>alert" not in text
    page = Page(text)
    assert "no answer from <script>alert(1)</script> & co" in page.words()
    assert "data verified in 1 of 2 runs" in page.words()
    assert page.ids["failures"] == 1


def test_the_headline_compares_the_algorithms() -> None:
    results = sample_results()
    run: Run = results.runs[0]
    assert run.completion_ns
    changed(results, 1, completion_ns=2 * run.completion_ns)
    sentence = headline(by_point(results))
    assert sentence is not None
    assert sentence.startswith("Multicast was 2 times as fast as ring; multicast put 43 % fewer")
    assert headline(by_point(sample_results(algorithms=("ring",)))) is None


def test_what_was_asked_is_told_by_the_rows_of_its_options() -> None:
    results = sample_results(
        collective="allreduce", algorithms=("ring",), retransmit_timeout_ns=10**8, loss=0.01
    )
    cells = " | ".join(Page(render(results)).text)
    for label, value in (
        ("retransmit timeout", "100 ms"),
        ("delay", "0 ns"),
        ("loss", "1 %"),
        ("rate", "100 Mbit/s"),
        ("size", "1 MiB"),
        ("mtu", "4096 B of payload a packet"),
        ("reorder", "3 packets"),
        ("placement", "in-order"),
        ("hosts per leaf", "2"),
        ("fault", "none"),
    ):
        assert re.search(rf"\b{label}[ |\n]+{value}(?!\w)", cells), label
    assert "timeout ns" not in cells


def test_a_report_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert write_page(render(sample_results()), out) == out
    assert out.read_text().startswith("<!DOCTYPE html>")


def test_a_place_that_takes_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write the report to .*missing/report\.html"):
        write_page(render(sample_results()), tmp_path / "missing" / "report.html")


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="not a results document"):
        Results.from_dict({"schema": "other"})


def test_the_headline_compares_multicast_with_each_other_algorithm() -> None:
    results = sample_results(
        collective="broadcast", algorithms=("k-nomial", "multicast", "pipelined-ring")
    )
    for index, factor in enumerate((3, 1, 1)):
        changed(results, index, completion_ns=10**9 * factor)
    sentence = headline(by_point(results))
    assert sentence is not None
    assert sentence.startswith("Multicast was 3 times as fast as k-nomial; multicast put ")
    assert "Multicast and pipelined-ring took the same time within 5 %" in sentence


def test_the_headline_of_a_sweep_has_the_range_of_its_points() -> None:
    results = sample_sweep()
    for index, run in enumerate(results.runs):
        times = 10**9 if run.algorithm == "multicast" else 10**9 * (1 + index)
        changed(results, index, completion_ns=times)
    assert headline(by_point(results)) == "Multicast was 2 to 12 times as fast as ring."


def test_runs_of_one_scenario_are_one_point_however_they_are_mixed() -> None:
    results = sample_sweep()
    repeated = [structs.replace(run, repetition=1) for run in results.runs]
    results.runs += reversed(repeated)
    points = by_point(results)
    assert len(points) == 6
    for point in points:
        assert [each.algorithm for each in point] == ["multicast", "ring"]
        for each in point:
            assert [run.repetition for run in each.runs] == [0, 1]
            assert each.runs[0].scenario == each.runs[1].scenario


def test_the_table_of_a_sweep_has_a_row_a_point_and_algorithm_with_its_values() -> None:
    text = printed(summary_table(sample_sweep()))
    rows = [line.split() for line in text.splitlines() if "simulated" in line]
    assert [row[:5] for row in rows] == [
        ["simulated", hosts, size, unit, algorithm]
        for hosts in ("2", "16")
        for size, unit in (("64", "KiB"), ("1", "MiB"))
        for algorithm in ("multicast", "ring")
    ]
    assert "fabric" not in text  # one switch has none


def test_the_page_of_a_sweep_has_every_point_its_failures_and_its_plots() -> None:
    results = failed(sample_sweep(), 1, "no world")
    results.plots.append(PlotSpec(x="ranks", y="completion", title="How long it takes"))
    text = render(results)
    page = Page(text)
    words = page.words()
    assert "world emulated, hosts per leaf 2, size 64 KiB, ring" in words
    assert "no world" in words
    assert "6 points, by world and hosts per leaf and size" in words
    assert {"failures", "plots", "figures", "fidelity", "scenario"} <= page.ids.keys()
    assert "simulated 16 1 MiB multicast" in words
    (image,) = page.references
    assert image.startswith("data:image/svg+xml;base64,")
    assert b"<svg" in base64.b64decode(image.partition(",")[2])


def test_the_slowest_ranks_phases_are_shown() -> None:
    results = sample_results()
    run = results.runs[0]
    slowest = max(run.ranks, key=lambda rank: rank.completion_ns or 0)
    handshake = short_duration(slowest.phases_ns["handshake"])
    assert f"(rank {slowest.rank}, the slowest): barrier" in printed(summary_table(results))
    assert f"handshake {handshake}" in printed(summary_table(results))
    page = Page(render(results))
    assert page.ids["phases"] == 1
    assert handshake in page.words()


def test_every_algorithm_has_a_colour_that_no_other_of_its_collective_has() -> None:
    for names in ALGORITHMS_OF.values():
        assert len({ALGORITHMS[name] for name in names}) == len(names)
        for name in names:
            assert f".{name} {{ --key: {ALGORITHMS[name][0]}; }}" in style_sheet()


@pytest.mark.parametrize(
    ("names", "with_parts"),
    [(strategies(), "{}/greedy"), (tuple(SCHEDULES), "{}/multicast/blocking")],
)
def test_strategies_and_schedules_have_colours_of_their_own(
    names: tuple[str, ...], with_parts: str
) -> None:
    assert len({colour(name) for name in names}) == len(names)
    for name in names:
        key = algorithm_class(name)
        assert re.fullmatch("[a-z][a-z0-9-]*", key) and key != "other"
        assert f".{key} {{ --key: {colour(name)}; }}" in style_sheet()
        assert algorithm_class(with_parts.format(name)) == key
        assert colour(with_parts.format(name)) == colour(name)
        assert with_page_colours(colour(name)) == f"var(--{colour(name)[1:]})"
    assert algorithm_class("own.toml") == "other"


FAILING = (Fault.parse("leaf0-spine0:fail,at=1ms"),)
SLOW = (Fault.parse("leaf0-spine1:slow,rate=0.25,at=1ms"),)


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(),
        Scenario(topology="fat-tree", k=6, tiers=2, loss=0.01, pcap=True),
        Scenario(switch="bmv2", algorithms=("ring",), rate_bps=12_500_000, size_bytes=1000),
        Scenario(chains=2, faults=(LinkLoss("leaf0>spine1", 1.0),), timeout_s=2.5, repeat=3),
        Scenario(topology="single", hosts_per_leaf=16, size_bytes=3 << 20, seed=9),
        Scenario(world="simulated", delay_ns=1500, sizes_bytes=(0, 1 << 20, 3), predict=False),
        Scenario(collective="broadcast", root=3, radix=4, block_bytes=1000),
        Scenario(collective="reduce-scatter", dtype="int16", op="max", queue_bytes=1 << 20),
        Scenario(workers=2, chunk_bytes=8192, batch=4, cutoff="paper", mtu=1024),
        Scenario(operations=5, at_once=2),
        Scenario(seeds=(3, 5, 6, 7)),
        Scenario(seeds=(4,)),
        Scenario(faults=FAILING, notice="late", notice_after_ns=2_500_000),
        Scenario(faults=(*FAILING, *SLOW), notice="at-once"),
        Scenario(mtu=1024, topology="fat-tree", tiers=2),
    ],
    ids=command_line,
)
def test_the_command_line_of_a_scenario_asks_for_the_same(scenario: Scenario) -> None:
    words = shlex.split(command_line(scenario))
    assert words[:3] == ["weft", "run", scenario.collective]
    options: dict[str, Any] = {"collective": scenario.collective}
    rest = iter(words[3:])
    for word in rest:
        name = word.removeprefix("--")
        if name in ("pcap", "no-predict"):
            options[name.removeprefix("no-")] = name == "pcap"
        elif name in ("algorithm", "fault"):
            options.setdefault(name, []).append(next(rest))
        else:
            options[name] = next(rest)
    assert from_options(options) == scenario


def test_a_scenario_reads_back_from_the_document_as_it_was() -> None:
    faults = (LinkLoss("h0-leaf0", 0.5),)
    scenario = Scenario(topology="single", faults=faults, algorithms=("ring",))
    assert scenario_of(scenario.to_dict()) == scenario


@given(st.floats(1e-6, 1e15), st.sampled_from([1, 1000, 1024, 1 << 20]))
def test_a_scale_has_a_few_round_marks_within_the_chart(largest: float, unit: int) -> None:
    marks = ticks(largest, unit)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 12
    assert marks[-1] <= largest * 1.000001


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [(0, "0 ns"), (31_500, "31.5 us"), (598_400_000, "598 ms"), (1_261_000_000, "1.26 s")],
)
def test_durations_are_written_with_three_digits(duration_ns: int, text: str) -> None:
    assert short_duration(duration_ns) == text


def test_rates_are_written_with_three_digits() -> None:
    assert [short_rate(rate) for rate in (93_412_345, 1e9, 999)] == [
        "93.4 Mbit/s",
        "1.00 Gbit/s",
        "999 bit/s",
    ]


def test_a_networks_links_are_listed_with_their_ports() -> None:
    text = printed(links_table(Scenario().network()))
    assert "leaf-spine: 8 hosts, 4 leaf switches, 2 spine switches, 16 links" in text
    assert re.search(r"leaf0-spine1 +leaf0:4 +spine1:1 +100 Mbit/s +0 ns +512 KiB", text)


@pytest.mark.system
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_runs_the_pages_script(tmp_path: Path) -> None:
    file = write_page(render(sample_results()), tmp_path / "report.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--no-first-run", "--disable-component-update", "--disable-sync", "--disable-quic"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *flags, file.as_uri()],
        capture_output=True,
        text=True,
        timeout=600,
    )
    headings = re.findall(r"<table class=\"sortable\">.*?<th[^>]*tabindex=\"0\"", done.stdout)
    tables = file.read_text("utf-8").count('<table class="sortable">')
    assert len(headings) == tables > 0


def test_the_terminal_is_told_why_figures_may_be_off() -> None:
    results = sample_results(repeat=2)
    results.runs[1] = structs.replace(
        results.runs[1],
        fidelity=structs.replace(
            results.runs[1].fidelity, verdict="invalid", reasons=["it was busy"]
        ),
    )
    results.runs[0] = structs.replace(
        results.runs[0],
        fidelity=structs.replace(results.runs[0].fidelity, verdict="ok", reasons=[]),
    )
    named = which_run(results, results.runs[1])
    assert (named, "invalid", "it was busy") in doubts(results)
    assert len(doubts(results)) <= MAX_DOUBTS


def test_what_draws_is_loaded_beside_other_work_and_what_fails_then_is_left_to_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []

    def load_module(name: str) -> None:
        loaded.append(name)
        raise ImportError(name)

    monkeypatch.setattr(base, "import_module", load_module)
    base.load()
    for thread in threading.enumerate():
        if thread.name == "report":
            thread.join()
    assert loaded == ["weft.experiments.report.charts"]
