"""What is said beside a benchmark's figures of how busy the machine was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import weft.tools.commands  # noqa: F401, `bench` is one of them
from weft.cli import command_line as cli
from weft.experiments.runs.busyness import Busyness, Reading, between, watched
from weft.tools.bench import benchmarks
from weft.topo.worlds.processors import CpuTimes

SPIN = "while True: pass"


def reading(busy: int, steal: int, total: int, own_s: float) -> Reading:
    return Reading(CpuTimes(busy, steal, total), own_s)


def test_time_is_dealt_to_the_benchmark_to_others_and_to_the_thief() -> None:
    found = between(
        reading(1000, 10, 9000, 5.0), reading(1300, 30, 9400, 7.0),
        load_before=0.5, duration_s=2.0, ticks_per_s=100,
    )  # fmt: skip
    assert (found.own, found.others, found.stolen) == (0.5, 0.25, 0.05)
    assert found.disturbed
    assert found.to_dict()["disturbed"] is True


@pytest.mark.parametrize(("others", "warned"), [(0.02, False), (0.06, True), (0.9, True)])
def test_a_warning_stands_where_others_took_more_than_the_bound(
    others: float, warned: bool
) -> None:
    found = Busyness(2, 1.25, 3.0, 0.4, others, 0.05)
    line, *more = found.lines()
    assert "load before 1.25" in line and f"{others:.0%} to others, 5% was stolen" in line
    assert bool(more) == warned
    if warned:
        assert more[0].startswith(f"Warning: others took {others + 0.05:.0%} of the processors'")


def test_ticks_that_are_coarser_than_a_process_knows_make_no_negative_share() -> None:
    found = between(
        reading(0, 0, 0, 0.0), reading(1, 0, 10, 0.017),
        load_before=0.0, duration_s=0.05, ticks_per_s=100,
    )  # fmt: skip
    assert found.others == 0.0
    assert between(reading(5, 5, 5, 1), reading(5, 5, 5, 1), load_before=0.0, duration_s=0.0,
                   ticks_per_s=100).others == 0.0  # fmt: skip


def spent_ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def test_what_another_process_takes_meanwhile_is_others_and_what_a_child_takes_is_own() -> None:
    other = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        begin = spent_ticks(other.pid)

        def measure() -> dict[str, Any]:
            while spent_ticks(other.pid) < begin + 20:
                os.times()
            return {"ns": 1}

        figures, found = watched(measure)
    finally:
        other.kill()
        other.wait()
    assert figures == {"ns": 1}
    capacity_s = found.duration_s * found.processors
    assert found.others * capacity_s > 0.1  # 20 ticks are 200 ms

    ticks = 20 / os.sysconf("SC_CLK_TCK")
    spin = f"import os\nwhile os.times().user < {ticks}: pass"
    _, found = watched(lambda: {"rc": subprocess.run([sys.executable, "-c", spin]).returncode})
    assert found.own * found.duration_s * found.processors > 0.9 * ticks


def test_the_command_says_it_below_the_figures_and_in_the_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = SimpleNamespace(measure=lambda: {"ns": 7}, lines=lambda figures: ["seven"])
    monkeypatch.setattr(benchmarks, "load", lambda name: module)
    lines = CliRunner().invoke(cli.app, ["bench", "one"]).output.splitlines()
    assert lines[0] == "seven"
    assert lines[1].startswith("machine: ") and "load before" in lines[1]
    done = CliRunner().invoke(cli.app, ["bench", "one", "--json", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "one.json").read_text())
    assert written["ns"] == 7
    for name in ("load_before", "own", "others", "stolen", "disturbed"):
        assert name in written["machine"]
        assert f'"{name}"' in done.output
