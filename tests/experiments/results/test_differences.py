"""Two results side by side: ``weft compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_support import WEFT, start

from weft.base.errors import InputError
from weft.experiments.results.differences import difference_lines, pairs_of
from weft.experiments.results.results import Results
from weft.experiments.runner import run
from weft.experiments.scenario.scenario import Scenario


def results_of(**asked: Any) -> Results:
    return run(Scenario(**{"world": "simulated", "leaves": 2, "size_bytes": 8192, **asked}))


@pytest.fixture(scope="module")
def both() -> tuple[Results, Results]:
    return results_of(algorithms=("ring", "multicast")), results_of(
        algorithms=("ring", "multicast"), rate_bps=50_000_000
    )


def test_the_same_algorithms_are_paired_and_what_was_asked_differently_is_told(
    both: tuple[Results, Results],
) -> None:
    pairs = pairs_of(*both)
    assert [pair.one.algorithm for pair in pairs] == ["ring", "multicast"]
    assert pairs[0].asked[0] == "rate 100 Mbit/s -> 50 Mbit/s"
    assert difference_lines(pairs, *both)[0].startswith("Asked differently: rate 100 Mbit/s -> 50")


def test_what_is_in_one_document_only_is_counted(both: tuple[Results, Results]) -> None:
    single = results_of(algorithms=("ring",))
    lines = difference_lines(pairs_of(both[0], single), both[0], single)
    assert "1 points or algorithms are in one of them only" in lines


def test_a_single_run_is_compared_with_any_other() -> None:
    one, other = results_of(algorithms=("ring",)), results_of(algorithms=("multicast",))
    assert len(pairs_of(one, other)) == 1


def test_results_with_nothing_in_common_are_refused(both: tuple[Results, Results]) -> None:
    other = results_of(collective="broadcast", algorithms=("multicast", "k-nomial"))
    with pytest.raises(InputError, match="no algorithm in common"):
        pairs_of(both[0], other)


def test_the_command_shows_times_their_ratio_and_what_links_carried(
    both: tuple[Results, Results], tmp_path: Path
) -> None:
    for name, results in zip("ab", both, strict=True):
        (tmp_path / name).mkdir()
        results.write(tmp_path / name)
    done = start(*WEFT, "compare", "a", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if "ring" in line]
    ratio = (both[1].runs[0].completion_ns or 0) / (both[0].runs[0].completion_ns or 1)
    assert f"{ratio:.3f}" in row
    assert ratio > 1.8
    assert "ok" in row
    assert "Asked differently: rate" in done.stdout


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    done = start(*WEFT, "compare", "a", "b", cwd=tmp_path)
    assert done.returncode == 2
    assert "results 'a'" in done.stderr
    assert "Traceback" not in done.stderr
