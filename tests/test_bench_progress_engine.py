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

from agents.drivers.progress_engine import RingSource
from experiments import bench_progress_engine as bench
from switch.errors import RunError

SIZES, WORKERS = (64, 4096, 16_384), (1, 2)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "ATTEMPTS", 1)
        patch.setattr(bench, "ATTEMPT_NS", 1_000_000)
        patch.setattr(bench, "MESSAGE_BYTES", 1 << 18)
        return bench.measure(SIZES, WORKERS, sockets=False)


def test_every_size_mode_and_number_of_workers_is_measured(figures: dict[str, Any]) -> None:
    found = [(row["chunk_bytes"], row["mode"], row["workers"]) for row in figures["memory"]]
    assert found == [
        (size, mode, count) for size in SIZES for mode in bench.MODES for count in WORKERS
    ]
    for row in figures["memory"]:
        assert row["more_workers_than_cores"] == (row["workers"] > figures["cores"])
        assert row["cpu_ns_per_chunk"] > 0
        rate = row["chunks_per_s"] * row["chunk_bytes"] / row["workers"] / 1e9
        assert rate == pytest.approx(row["gbytes_per_s_per_worker"])


def test_the_workers_that_a_rate_needs_follow_from_the_cost_of_a_chunk() -> None:
    rows = [
        {"workers": 1, "chunk_bytes": 4096, "mode": mode, "cpu_ns_per_chunk": cost_ns}
        for mode, cost_ns in (("direct", 500.0), ("staged", 1000.0))
    ]
    needed = {one["rate_gbit_per_s"]: one for one in bench._needed(rows)}
    # 6.1 and 48.8 million chunks a second, as the paper says.
    assert [round(needed[rate]["chunks_per_s"] / 1e5) for rate in (200, 1600)] == [61, 488]
    assert (needed[200]["direct_workers"], needed[200]["staged_workers"]) == (4, 7)
    assert (needed[1600]["direct_workers"], needed[1600]["staged_workers"]) == (25, 49)


def test_lines_json_and_plots_come_of_the_figures(figures: dict[str, Any], tmp_path: Path) -> None:
    assert json.loads(json.dumps(figures)) == figures
    text = "\n".join(bench.lines(figures))
    for part in ("from memory, direct", "from memory, staged", "skipped", "1600 Gbit/s", "11.9"):
        assert part in text
    pytest.importorskip("matplotlib")
    for suffix in ("svg", "png"):
        bench.plot(figures).savefig(tmp_path / f"plot.{suffix}")
        assert (tmp_path / f"plot.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("mode", bench.MODES)
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
    assert "over sockets: skipped, a network namespace needs root" in bench.lines(
        {**figures, "sockets_skipped": why}
    )


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(shutil.which("ip") is None, reason="not installed: ip")
def test_over_sockets_all_data_arrives_too(figures: dict[str, Any]) -> None:
    rows, why = bench._in_namespace((16_384,), WORKERS)
    assert why == ""
    assert [(row["mode"], row["workers"]) for row in rows] == [
        (mode, count) for mode in bench.MODES for count in WORKERS
    ]
    assert np.all([row["chunks_per_s"] > 0 for row in rows])
    small = [one for one in figures["references"] if one["chunk_bytes"] == 16_384]
    text = "\n".join(bench.lines({**figures, "references": small, "sockets": rows}))
    assert "from sockets, staged" in text
