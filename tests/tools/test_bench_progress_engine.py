"""``weft bench progress-engine``: what it says, that it verifies, and what it does without root."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.agents.drivers.progress_engine import RingSource
from weft.base.errors import RunError
from weft.tools.bench import benchmarks
from weft.tools.bench import progress_engine as bench
from weft.tools.bench.progress_needs import MODES, needs_of

SIZES, WORKERS = (64, 4096, 16_384), (1, 2)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "ATTEMPTS", 1)
        patch.setattr(bench, "SOCKET_ATTEMPTS", 1)
        patch.setattr(bench, "ATTEMPT_NS", 1_000_000)
        patch.setattr(bench, "MESSAGE_BYTES", 1 << 18)
        return bench.measure(SIZES, WORKERS, sockets=False)


def test_every_size_mode_and_number_of_workers_is_measured(figures: dict[str, Any]) -> None:
    found = [(row["chunk_bytes"], row["mode"], row["workers"]) for row in figures["memory"]]
    assert found == [(size, mode, count) for size in SIZES for mode in MODES for count in WORKERS]
    for row in figures["memory"]:
        assert row["more_workers_than_cores"] == (row["workers"] > figures["cores"])
        assert row["cpu_ns_per_chunk"] > 0
        rate = row["chunks_per_s"] * row["chunk_bytes"] / row["workers"] / 1e9
        assert rate == pytest.approx(row["gbytes_per_s_per_worker"])


def made_up(cores: int, **costs_ns: tuple[float, ...]) -> dict[str, Any]:
    """Figures in which 1, 2, 4 and so on workers of a mode have such costs a chunk."""
    figures: dict[str, Any] = {
        "cores": cores,
        "memory": [
            {
                "workers": 1 << power, "chunk_bytes": 4096, "mode": mode,
                "cpu_ns_per_chunk": cost_ns, "chunks_per_s": (1 << power) * 1e9 / cost_ns,
                "more_workers_than_cores": 1 << power > cores,
                "gbytes_per_s_per_worker": 4096 / cost_ns,
            }
            for mode, costs in costs_ns.items()
            for power, cost_ns in enumerate(costs)
        ],
        "memcpy": [{"threads": 1, "gbytes_per_s": 30.0}, {"threads": 2, "gbytes_per_s": 50.0}],
    }  # fmt: skip
    return {**figures, **needs_of(figures)}


def test_the_workers_that_a_rate_needs_are_an_interval() -> None:
    # Two workers give 1.6 times one: 2 / 1.6 - 1 = 0.25. The law's limit is four times one.
    found = made_up(2, direct=(500.0, 625.0), staged=(1000.0, 1000.0))
    needed = {one["rate_gbit_per_s"]: one for one in found["needed"]}
    # 6.1 and 48.8 million chunks a second, as the paper says.
    assert [round(needed[rate]["chunks_per_s"] / 1e5) for rate in (200, 1600)] == [61, 488]
    # 6.104 W / (2 (1 + 0.25 (W - 1))) >= ...: W >= 6.104 x 0.75 / (2 - 6.104 x 0.25) = 9.66.
    assert needed[200]["direct_workers"] == {"least": 4, "most": 10, "extrapolated": True}
    assert needed[1600]["direct_workers"] == {"least": 25, "most": None, "extrapolated": True}
    assert needed[200]["staged_workers"] == {"least": 7, "most": 7, "extrapolated": True}
    assert found["scaling"]["direct"]["contention"] == pytest.approx(0.25)
    assert found["scaling"]["direct"]["limit_gbit_per_s"] == pytest.approx(8e6 * 4096 * 8 / 1e9)
    assert found["scaling"]["direct"]["fitted_to_workers"] == [1, 2]
    assert found["scaling"]["staged"]["limit_gbit_per_s"] is None
    assert found["memcpy_contention"] == pytest.approx(2 * 30 / 50 - 1)
    text = "\n".join(benchmarks.filled_in("progress-needs", found))
    for part in (
        "memcpy, on cores of their own: 1 thread 30.0 GB/s, 2 threads 50.0 GB/s: contention 0.20",
        "direct, 4 KiB: contention 0.25, fitted to 1 and 2 workers on cores of their own;"
        " limit 262 Gbit/s (of memcpy on these cores: 400)",
        "no limit (of memcpy on these cores: 200)",
        "extrapolated (*) beyond the 2 cores",
        "200 Gbit/s,  6.1 million chunks/s: direct 4 to 10* workers; staged 7* workers",
        "direct 25 to no number* workers",
    ):
        assert part in text
    assert "not told" not in text


def test_workers_whose_cores_others_were_on_do_not_count() -> None:
    figures = made_up(2, direct=(500.0, 625.0), staged=(1000.0, 1000.0))
    figures["memory"][1]["chunks_per_s"] *= 0.9
    figures.update(needs_of(figures))
    assert list(figures["scaling"]) == ["staged"]
    assert figures["needed"][0]["direct_workers"] is None
    (line,) = (
        line for line in benchmarks.filled_in("progress-needs", figures) if "is not told" in line
    )
    assert line.startswith("direct, 4 KiB: ")


@pytest.mark.parametrize("cores", [1, 2])
def test_without_two_counts_on_cores_of_their_own_nothing_is_extrapolated(cores: int) -> None:
    costs = (500.0, 900.0) if cores == 1 else (500.0,)
    found = made_up(cores, direct=costs, staged=costs)
    assert found["scaling"] == {}
    assert all(one["direct_workers"] is one["staged_workers"] is None for one in found["needed"])
    text = "\n".join(benchmarks.filled_in("progress-needs", found))
    assert text.count("is not told, since fewer than two numbers of them, 1 among them, had") == 2
    assert "* workers" not in text
    assert "modelled: direct 3, staged 4 threads" in text  # the model needs no measurement


def test_offloaded_threads_are_modelled_by_the_papers_cycles() -> None:
    found = made_up(2, direct=(500.0, 625.0), staged=(1000.0, 1000.0))
    model = found["offloaded_modelled"]
    # 598 and 1084 cycles at 1.8 GHz: 332 and 602 ns, where the paper reports 11.9 and 5.2 GiB/s.
    assert [round(model[mode]["chunk_ns"]) for mode in MODES] == [332, 602]
    assert model["direct"]["gbytes_per_s"] == pytest.approx(4096 * 1.8 / 598)
    for mode, reported in (("direct", 11.9), ("staged", 5.2)):
        assert 0.95 < model[mode]["gbytes_per_s"] / (reported * 2**30 / 1e9) < 1.25
    # 48.8 million a second times 332 ns is 16.2, times 602 ns 29.4.
    assert found["needed"][-1]["direct_threads_modelled"] == 17
    assert found["needed"][-1]["staged_threads_modelled"] == 30


def test_what_was_not_measured_is_drawn_hollow_and_dashed() -> None:
    pytest.importorskip("matplotlib")
    figures = made_up(2, direct=(500.0, 625.0, 700.0), staged=(1000.0, 1000.0))
    *sizes, workers = bench.plot({**figures, "sockets": []}).axes
    assert len(sizes) == len(MODES)
    drawn = {
        str(line.get_label()): line for panel in (*sizes, workers) for line in panel.get_lines()
    }
    told = {label: line for label, line in drawn.items() if not label.startswith("_")}
    modelled = {label for label in told if "modelled" in label or "extrapolated" in label}
    assert any("SmartNIC" in label for label in modelled)
    for label, line in told.items():
        solid = line.get_linestyle() == "-"
        hollow = line.get_markerfacecolor() == "none"
        assert (solid, hollow) == ((False, True) if label in modelled else (True, False)), label
    (measured,) = (line for label, line in told.items() if label == "direct, measured")
    assert np.array_equal(measured.get_xdata(), [1, 2])  # four workers have no cores of their own


def test_lines_json_and_plots_come_of_the_figures(figures: dict[str, Any], tmp_path: Path) -> None:
    assert json.loads(json.dumps(figures)) == figures
    text = "\n".join(benchmarks.lines("progress-engine", figures))
    for part in (
        "from memory, direct",
        "from memory, staged",
        "skipped",
        "1600 Gbit/s",
        "11.9",
        "modelled",
    ):
        assert part in text
    pytest.importorskip("matplotlib")
    for suffix in ("svg", "png"):
        bench.plot(figures).savefig(tmp_path / f"plot.{suffix}")
        assert (tmp_path / f"plot.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("mode", MODES)
def test_a_packet_that_is_lost_or_wrong_fails_the_benchmark(mode: str) -> None:
    parts = bench._parts(16_384, 2)
    parts[1].ring.data[5, 100] ^= 1
    gathering = bench._Gathering(parts, 16_384, mode)
    with pytest.raises(RunError, match="1 packets are missing"):
        gathering.run([RingSource(part.ring, 1) for part in parts])


def test_data_that_is_not_what_was_sent_fails_the_benchmark() -> None:
    parts = bench._parts(4096, 1)
    gathering = bench._Gathering(parts, 4096, "direct")
    parts[0].data[7] ^= 1
    with pytest.raises(RunError, match="did not arrive whole"):
        gathering.run([RingSource(part.ring, 1) for part in parts])


def test_without_root_sockets_are_skipped_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, figures: dict[str, Any]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    rows, why = bench._in_namespace(SIZES, WORKERS)
    assert rows == []
    assert "over sockets: skipped, a network namespace needs root" in benchmarks.lines(
        "progress-engine", {**figures, "sockets_skipped": why}
    )


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("ip") is None, reason="not installed: ip")
def test_over_sockets_all_data_arrives_too(figures: dict[str, Any]) -> None:
    rows, why = bench._in_namespace((16_384,), WORKERS)
    assert why == ""
    assert [(row["mode"], row["workers"]) for row in rows] == [
        (mode, count) for mode in MODES for count in WORKERS
    ]
    assert np.all([row["chunks_per_s"] > 0 for row in rows])
    small = [one for one in figures["references"] if one["chunk_bytes"] == 16_384]
    text = "\n".join(
        benchmarks.lines("progress-engine", {**figures, "references": small, "sockets": rows})
    )
    assert "from sockets, staged" in text
