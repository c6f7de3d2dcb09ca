"""The comparison of two checkouts' benchmarks: its numbers and its interval."""

from __future__ import annotations

from math import comb
from pathlib import Path

import pytest

from weft.base.errors import RunError
from weft.tools import pairs as compare


def test_the_interval_of_ten_pairs_leaves_out_the_least_and_the_largest() -> None:
    # With ten pairs the second and the ninth hold the median in all but 2 (1 + 10) of 1024 cases.
    assert 2 * (1 + 10) / 1024 < 0.05 < 2 * (1 + 10 + comb(10, 2)) / 1024
    ratios = [5.0, 1.0, 10.0, 3.0, 7.0, 2.0, 9.0, 4.0, 8.0, 6.0]
    assert compare.interval_of(ratios) == (2.0, 9.0)
    assert compare.interval_of(ratios[:6]) == (1.0, 10.0)
    with pytest.raises(ValueError, match="5 ratios are too few"):
        compare.interval_of(ratios[:5])


def test_every_number_has_a_name_and_a_list_is_its_median() -> None:
    figures = {
        "compile_s": 2.5, "p4c_s": None, "runs_s": [3.0, 1.0, 2.0], "zero": 0, "ok": True,
        "rows": [{"ns": 7}, {"ns": 8}], "machine": {"processors": 2},
    }  # fmt: skip
    assert dict(compare.numbers_of(figures)) == {
        "compile_s": 2.5, "runs_s": 2.0, "rows 0 ns": 7.0, "rows 1 ns": 8.0,
    }  # fmt: skip


def test_a_table_shows_the_ratio_pair_by_pair() -> None:
    pairs = [({"s": 2.0 * n, "hosts": 4.0}, {"s": 4.0 * n, "hosts": 4.0}) for n in range(1, 11)]
    table = compare.table_of("compiler", pairs)
    (name, *figures) = (list(column.cells) for column in table.columns)
    assert name == ["s"]
    assert figures == [["11"], ["22"], ["0.500"], ["0.500 to 0.500"]]


def test_a_benchmark_that_fails_is_an_error_that_names_it(tmp_path: Path) -> None:
    script = tmp_path / "weft"
    script.write_text("#!/bin/sh\necho 'no such program' >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(RunError, match="weft bench switch failed: no such program"):
        compare.measured(tmp_path, "switch")
