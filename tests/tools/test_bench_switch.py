"""``weft bench switch``: its program, its counting, its ratios; the whole needs root and time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.base.errors import MachineError
from weft.switch.compiler import compile_cached
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.realtime.bare import received_frames
from weft.tools.bench import switch as bench_switch
from weft.tools.bench.switch_rows import TWELVE_TABLES
from weft.tools.bench.switch_traffic import HOST, chosen_window, frames


@pytest.mark.slow
def test_the_program_has_twelve_tables_and_frames_go_through_all_of_them() -> None:
    files = compile_cached(TWELVE_TABLES)
    dataplane = Dataplane(1, 5, packets=128, plain=True)
    for port in range(1, 5):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0)
    control.load_program(files.json.read_text(), load="save")
    control.commit_program()
    pipeline = dataplane.build(files.json.read_text())
    assert sum(name.startswith("Twelve") for name in pipeline.program.tables) == 12
    sent = frames(128, HOST)
    dataplane.receive(0, 1, sent, 0)
    left = dataplane.transmit(0)
    assert [departure.port for departure in left] == [2] * len(sent) == [2] * 64
    for before, departure in zip(sent, left, strict=True):
        after = departure.frame
        assert len(after) == 128 and after[34:] == before[34:]
        assert after[:12] == bytes.fromhex("020000000009 020000000002")
        assert (after[15] >> 2, after[22]) == (8, 63)  # remarked, and one hop further


def test_counters_of_all_sinks_are_added(tmp_path: Path) -> None:
    files = []
    for name, text in (("a", "0\n"), ("b", "1234567890\n"), ("c", "7\n")):
        (tmp_path / name).write_text(text)
        files.append(os.open(tmp_path / name, os.O_RDONLY))
    assert received_frames(np.array(files, np.int64), np.zeros(32, np.uint8)) == 1234567897
    for file in files:
        os.close(file)


def row(what: str, traffic: str, rates: list[float], cpu: float, hops: int = 1) -> dict[str, Any]:
    turns = [{"packets_per_s": rate, "cpu_ns_per_packet": cpu, "lost": 1} for rate in rates]
    return {"what": what, "traffic": traffic, "frame_bytes": 1400, "hops": hops, "turns": turns}


def test_ratios_compare_medians_of_rows_of_one_kind() -> None:
    figures = bench_switch.summary(
        {
            "cores": 2, "load_before": 0.5, "stolen": 0.01, "skipped": ["something"],
            "processes": {"weft": {"start_s": 0.5, "start_bytes": 10**8, "end_bytes": 10**8}},
            "rows": [
                row("ceiling", "unicast", [400e3, 500e3, 100e3], 2000),
                row("weft", "unicast", [300e3, 100e3, 900e3], 3000),
                row("weft", "patch links", [200e3], 2000, hops=4),
                row("bmv2", "unicast", [100e3], 12_000),
                row("bmv2", "4 in a row", [20e3], 200_000, hops=4),
            ],
        }
    )  # fmt: skip
    ratios = {name: found["1400"] for name, found in figures["ratios"].items()}
    assert ratios == pytest.approx(
        {
            "of_ceiling": 0.75,
            "cpu_of_ceiling": 1.5,
            "patch_hops_per_s_per_core": 2e6,
            "packets_of_bmv2, unicast": 3,
            "cpu_of_bmv2, unicast": 0.25,
            "hops_of_bmv2": 10,
            "cpu_per_hop_of_bmv2": 0.01,
        }
    )
    text = "\n".join(bench_switch.lines(figures))
    assert "missed" not in text and text.count(" met ") == 6
    assert "left out: something" in text and "2,000,000" in text


def test_fewer_frames_are_under_way_only_where_that_is_clearly_better() -> None:
    assert chosen_window({16: 110.0, 64: 90.0, 512: 100.0}) == 512
    assert chosen_window({16: 110.0, 64: 130.0, 512: 100.0}) == 64


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="root: use sudo"):
        bench_switch.measure()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_every_row_is_measured_with_frames_of_one_size() -> None:
    figures = bench_switch.measure(sizes=(1400,), rounds=1, turn_s=0.1)
    measured = {(row["what"], row["traffic"]) for row in figures["rows"]}
    assert {("ceiling", "unicast"), ("weft", "unicast"), ("weft", "patch links")} <= measured
    assert all(row["packets_per_s"] > 0 for row in figures["rows"])
