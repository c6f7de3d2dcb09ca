"""``weft bench reduction``: what it measures and says, and that it verifies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.base.errors import RunError
from weft.tools.bench import benchmarks
from weft.tools.bench import reduction as bench

DTYPES, OPS, RANKS = ("float32", "bfloat16"), ("sum", "max"), (2, 3)


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "ATTEMPTS", 1)
        return bench.measure(DTYPES, OPS, RANKS, attempt_ns=100_000)


def test_every_type_operation_and_number_of_ranks_is_measured(figures: dict[str, Any]) -> None:
    found = [(row["dtype"], row["op"], row["ranks"]) for row in figures["rows"]]
    assert found == [(dtype, op, ranks) for dtype in DTYPES for op in OPS for ranks in RANKS]
    for row in figures["rows"]:
        assert row["gbytes_per_s"] > 0 and row["numpy_gbytes_per_s"] > 0
        assert ("numpy_float32_gbytes_per_s" in row) == (row["dtype"] == "bfloat16")


def test_lines_json_and_a_plot_come_of_the_figures(figures: dict[str, Any], tmp_path: Path) -> None:
    assert json.loads(json.dumps(figures)) == figures
    lines = benchmarks.lines("reduction", figures)
    assert len(lines) == 2 + len(figures["rows"])
    assert "all results verified" in lines[0]
    pytest.importorskip("matplotlib")
    bench.plot(figures).savefig(tmp_path / "reduction.svg")
    assert (tmp_path / "reduction.svg").stat().st_size > 1000


def test_a_wrong_sum_is_a_failure() -> None:
    slots = bench._slots("float32", "sum", 2)

    def wrong(chunk: int) -> None:
        np.copyto(slots.out, slots.expected[chunk])
        slots.out.view(np.uint8)[5] ^= 1

    with pytest.raises(RunError, match="sum of 2 vectors is not what numpy makes"):
        bench._check(slots, wrong, "sum of 2 vectors")
