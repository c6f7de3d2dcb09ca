"""Programs of PyTorch as a kind of work: what is told of their runs, as of all others."""

from __future__ import annotations

import io

from rich.console import Console

from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.families.programs.report import render
from weft.experiments.families.programs.results import TorchRank, TorchRun
from weft.experiments.families.programs.table import ranks_table
from weft.experiments.results.metric import metrics_in
from weft.experiments.results.results import Fidelity, LinkResult, tier_bytes
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.families import FAMILIES, choices
from weft.experiments.scenario.options import from_options

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
