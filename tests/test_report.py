"""The HTML page and the terminal's table of a results document."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from experiments.report import write_report
from experiments.report.charts import ticks
from experiments.report.overview import headline
from experiments.report.page import render
from experiments.report.scenarios import command_line
from experiments.results import Results, Run, scenario_of
from experiments.scenario import Fault, Scenario, from_options
from experiments.summary import short_duration, short_rate, summarize, three_digits
from experiments.table import links_table, summary_table
from switch.errors import InputError
from tests.results_samples import sample_results

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
    results.runs[index] = dataclasses.replace(results.runs[index], **changes)
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
    "no runs": lambda: dataclasses.replace(sample_results(), runs=[]),
}


@pytest.mark.parametrize("make", SCENARIOS.values(), ids=SCENARIOS)
def test_the_page_is_whole_and_needs_no_other_file(make: Callable[[], Results]) -> None:
    text = render(make())
    page = Page(text)
    assert page.references == []
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
        ranks = [dataclasses.replace(rank, retransmitted_packets=99) for rank in run.ranks]
        links = [dataclasses.replace(link, lost=999) for link in run.links]
        fidelity = dataclasses.replace(run.fidelity, verdict="strained")
        changed(results, index, ranks=ranks, links=links, fidelity=fidelity)
    text = printed(summary_table(results))
    assert "…" not in text
    assert "20/20" in text
    assert "strained" in text


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


def test_medians_are_of_the_verified_runs_alone() -> None:
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
        fidelity = dataclasses.replace(results.runs[index].fidelity, verdict=verdict)
        changed(results, index, fidelity=fidelity)
    assert summarize(results)[0].fidelity == "invalid"


def test_the_page_names_every_rank_link_and_reason() -> None:
    results = sample_results()
    fidelity = dataclasses.replace(
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
    sentence = headline(summarize(results))
    assert sentence is not None
    assert sentence.startswith("Multicast was 2 times as fast as ring; multicast put 43 % fewer")
    assert headline(summarize(sample_results(algorithms=("ring",)))) is None


def test_a_report_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert write_report(sample_results().to_dict(), out) == out
    assert out.read_text().startswith("<!DOCTYPE html>")


def test_a_place_that_takes_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write the report to .*missing/report\.html"):
        write_report(sample_results().to_dict(), tmp_path / "missing" / "report.html")


def test_a_document_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a results document"):
        write_report({"schema": "other"}, tmp_path / "report.html")


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(),
        Scenario(topology="fat-tree", k=6, tiers=2, loss=0.01, pcap=True),
        Scenario(switch="bmv2", algorithms=("ring",), rate_bps=12_500_000, size_bytes=1000),
        Scenario(chains=2, faults=(Fault("leaf0>spine1", 1.0),), timeout_s=2.5, repeat=3),
        Scenario(topology="single", hosts_per_leaf=16, size_bytes=3 << 20, seed=9),
    ],
    ids=command_line,
)
def test_the_command_line_of_a_scenario_asks_for_the_same(scenario: Scenario) -> None:
    words = shlex.split(command_line(scenario))
    assert words[:3] == ["weft", "run", "allgather"]
    options: dict[str, Any] = {}
    rest = iter(words[3:])
    for word in rest:
        name = word.removeprefix("--")
        if name == "pcap":
            options[name] = True
        elif name in ("algorithm", "fault"):
            options.setdefault(name, []).append(next(rest))
        else:
            options[name] = next(rest)
    assert from_options(options) == scenario


def test_a_scenario_reads_back_from_the_document_as_it_was() -> None:
    scenario = Scenario(topology="single", faults=(Fault("h0-leaf0", 0.5),), algorithms=("ring",))
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
    file = write_report(sample_results().to_dict(), tmp_path / "report.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--no-first-run", "--disable-component-update", "--disable-sync", "--disable-quic"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *flags, file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    headings = re.findall(r"<table class=\"sortable\">.*?<th[^>]*tabindex=\"0\"", done.stdout)
    assert len(headings) == 5
