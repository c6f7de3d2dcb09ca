"""Fused operators in the emulated world: real namespaces, packets, switches, and threads that
compute."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support.emulated_support import needs_machine
from tests.support.fused_support import SMALL
from tests.support.system_support import left_as_it_was, on_one_network

from weft.experiments.results.results import Run
from weft.topo.faults import Fault

pytestmark = [needs_machine, pytest.mark.system]

NETWORK: dict[str, Any] = {"rate_bps": 50_000_000, "collective": "fused", "predict": False}
MEASURED: dict[str, Any] = {
    "clock": "measured", "batch_size": 64, "width": 64, "inner": 4096, "slice_bytes": 1024,
}  # fmt: skip
LONG: dict[str, Any] = {"batch_size": 512, "width": 2048, "inner": 64, "tile_rows": 4}
"""What takes seconds longer to be sent than it takes until a rank is killed."""


def check_verified(runs: list[Run]) -> None:
    for one in runs:
        assert one.verified, f"{one.scenario['operator']} by {one.algorithm}: {one.error}"
        assert [rank.verified for rank in one.ranks] == [True] * 4
        assert one.fused is not None and one.completion_ns is not None
        assert 0 < one.fused.bound_ns <= one.completion_ns


def test_declared_devices_and_this_machine_compute_and_a_killed_rank_is_named() -> None:
    """On one network: what takes time is bringing it up."""
    reduce_scatter = {"operator": "matmul-reduce-scatter"}
    killed = {"faults": (Fault.parse("h3:kill,at=40ms"),), **reduce_scatter, **LONG}
    with left_as_it_was():
        modelled, measured, gathered, *broken, whole = on_one_network(
            {"operator": "gemv-allreduce", **SMALL["gemv-allreduce"], "ways": ("direct", "switch")},
            {**reduce_scatter, **MEASURED, "algorithms": ("unfused", "fused", "fused/switch")},
            {
                "operator": "all-gather-matmul", **MEASURED, "width": 512, "inner": 512,
                "algorithms": ("fused", "fused/multicast"),
            },
            {**killed, "algorithms": ("fused",), "slowdown": 1.0},
            {**killed, "algorithms": ("unfused",), "slowdown": 1.0},
            {**killed, "algorithms": ("fused",), "clock": "measured"},
            {"operator": "gemm-all-to-all", **SMALL["gemm-all-to-all"], "dispatch": "multicast"},
            **NETWORK,
        )  # fmt: skip
    check_verified(modelled)
    assert {one.fused.clock for one in modelled if one.fused} == {"modelled"}
    check_verified(measured)
    check_verified(gathered)
    for one in (*measured, *gathered):
        check_measured(one)
    for (one,) in broken:
        check_killed(one)
    check_verified(whole)


def check_measured(one: Run) -> None:
    """Tiles took time of this machine's processors, in no more threads than there are."""
    assert one.fused is not None and one.completion_ns is not None
    assert one.fused.clock == "measured"
    assert one.fused.compute_ns > 0 < one.fused.communication_ns
    assert {*one.fused.what} == {"tile"} and {*one.fused.workgroup} <= {0, 1}
    spans = zip(one.fused.begin_ns, one.fused.end_ns, strict=True)
    assert all(0 <= begin < end <= one.completion_ns for begin, end in spans)


def check_killed(one: Run) -> None:
    assert not one.verified and one.completion_ns is None
    assert re.search(r"^rank 3 \(host h3, pid \d+\): .*SIGKILL", one.error or ""), one.error
    for rank in one.ranks:
        assert not rank.verified and "rank 3" in (rank.error or ""), rank.error
