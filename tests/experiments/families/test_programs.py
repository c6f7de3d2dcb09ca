"""Programs of PyTorch as a kind of work: what is told of their runs, as of all others."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console
from tests.support.cli_support import WEFT, start

from weft.base.errors import InputError
from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.families.programs.report import render
from weft.experiments.families.programs.results import TorchRank, TorchRun, records_of, trace_of
from weft.experiments.families.programs.table import ranks_table
from weft.experiments.report.kinds import opened
from weft.experiments.results.metric import metrics_in
from weft.experiments.results.results import Fidelity, LinkResult, tier_bytes
from weft.experiments.results.rows import csv_of
from weft.experiments.runner import run as run_scenario
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.families import FAMILIES, choices
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.scenario import Scenario
from weft.pytorch.timeline import RankTimeline, RecordedOperation, Step

MS = 10**6
RANKS = [
    TorchRank(
        0, "h0", 0, "", 9 * MS, 5 * MS, 4 * MS, 3 * MS, 2 * MS, [2 * MS, 7 * MS], [1.5, None]
    ),
    TorchRank(1, "h1", 1, "no luck"),
]
LINKS = [
    LinkResult("h0", "s0", "host_up", 12, 3456, 1, queue_dropped=None),
    LinkResult("s0", "h0", "host_down", 34, 5678, 0, queue_dropped=7, max_queue_bytes=2048),
]


def a_run() -> TorchRun:
    """What came of a program, one of whose two ranks has failed."""
    scenario = from_options(
        {"collective": "allgather", "topology": "single", "hosts-per-leaf": "2"}
    )
    late = Fidelity("strained", ["ranks woke late"], 0.5, 0.0, {"ranks": 1.25}, {"rank_p99": MS}, 0)
    return TorchRun(
        "train.py", ["--quick"], "weft", {}, "a network", scenario.to_dict(), 1, "rank 1 failed",
        RANKS, LINKS, tier_bytes(LINKS), late, 0, 0,
    )  # fmt: skip


def test_scenarios_neither_name_programs_nor_have_their_options() -> None:
    family = FAMILIES["programs"]
    assert family.options is ProgramAsked and not family.algorithms()
    assert "programs" not in choices() and not {"backend", "as", "allreduce"} & OPTIONS.keys()


def test_the_table_of_ranks_is_made_of_metrics() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(ranks_table(a_run()))
    assert isinstance(console.file, io.StringIO)
    rows = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["0", "h0", "2", "7", "ms", "5", "ms", "4", "ms", "3", "ms", "1.5", "0"] in rows
    assert ["1", "h1", "0", "-", "0", "ns", "0", "ns", "0", "ns", "-", "1"] in rows


def test_the_report_has_links_and_the_verdict_as_all_reports_have_them() -> None:
    page = render(a_run(), [])
    for metric in (*metrics_in("links"), *metrics_in("ranks of programs")):
        assert f">{metric.label}</th>" in page
    assert ">3,456</td>" in page and ">2 KiB</td>" in page and ">host up</td>" in page
    assert "ranks woke late" in page and ">strained</span>" in page and ">1.25</td>" in page


def written(tmp_path: Path, name: str, **changes: Any) -> Path:
    """A results folder of a program, with its timeline."""
    folder = tmp_path / name
    folder.mkdir()
    run = replace(a_run(), **changes)
    (folder / "results.json").write_text(run.text())
    (folder / "timeline.trace.json").write_text(json.dumps(trace_of(RECORDS)))
    return folder


RECORDS = [
    RankTimeline(
        rank, f"h{rank}", 1_000_000, 9_000_000,
        operations=[RecordedOperation("allreduce", "ring", "world", 64, 2_000_000, 3_500_000)],
        waits_ns=[(2_500_000, 3_500_000)],
        steps=[Step(4_000_000, 1.5), Step(9_000_000, None)],
    )
    for rank in range(2)
]  # fmt: skip


def test_a_timeline_is_read_back_as_it_was_recorded() -> None:
    for before, after in zip(
        RECORDS, records_of(json.dumps(trace_of(RECORDS)).encode()), strict=True
    ):
        assert (after.rank, after.host) == (before.rank, before.host)
        assert [(each.name, each.algorithm, each.size_bytes) for each in after.operations] == [
            ("allreduce", "ring", 64)
        ]
        assert [each.ended_ns - after.begun_ns for each in after.steps] == [3 * MS, 8 * MS]
        assert [each.loss for each in after.steps] == [1.5, None]
        assert after.waits_ns == [
            (begin - before.begun_ns, end - before.begun_ns) for begin, end in before.waits_ns
        ]


@given(st.binary() | st.text().map(str.encode))
def test_a_file_that_is_no_timeline_is_refused(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        records_of(text)


def test_the_commands_for_results_take_those_of_programs(tmp_path: Path) -> None:
    one = written(tmp_path, "one")
    written(tmp_path, "other", script="other.py", backend="gloo", status=0, error="")
    kind, run = opened(one)
    assert run == a_run()
    assert "Ranks" in kind.page(run, one)
    shown = start(*WEFT, "report", "one", cwd=tmp_path)
    assert shown.returncode == 0 and (one / "report.html").exists(), shown.stderr
    exported = {
        table: list(csv.DictReader(io.StringIO(csv_of(*kind.table(run, table)))))
        for table in kind.tables
    }
    (row,) = exported["runs"]
    assert (row["program"], row["step_ns"], row["exposed_ns"]) == ("train.py", "", "4000000")
    assert [row["host"] for row in exported["ranks"]] == ["h0", "h1"]
    assert [(row["step"], row["loss"]) for row in exported["steps"]] == [("1", "1.5"), ("2", "")]
    assert not exported["collectives"]
    assert [row["tx_bytes"] for row in exported["links"]] == ["3456", "5678"]
    compared = start(*WEFT, "compare", "one", "other", cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert "program train.py -> other.py; backend weft -> gloo" in compared.stdout
    assert "one failed: rank 1 failed" in compared.stdout
    (line,) = [line for line in compared.stdout.splitlines() if "exposed communication" in line]
    assert "1.000" in line


def test_tables_that_there_are_not_are_refused_and_so_are_results_of_two_commands(
    tmp_path: Path,
) -> None:
    folder = written(tmp_path, "one")
    kind, run = opened(folder)
    with pytest.raises(
        InputError, match="have the tables runs, ranks, steps, collectives, faults, links"
    ):
        kind.table(run, "flows")
    (tmp_path / "other").mkdir()
    scenario = Scenario(algorithms=("ring",), world="simulated", leaves=2, size_bytes=64)
    run_scenario(scenario).write(tmp_path / "other")
    done = start(*WEFT, "compare", "one", "other", cwd=tmp_path)
    assert done.returncode == 2
    assert "'weft torch run --out DIR', and 'other' of 'weft run --out DIR'" in done.stderr
