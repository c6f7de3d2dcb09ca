"""Claims of pages over kept sweeps, and sweeps that go on where they were stopped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.base.progress import Progress
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.tools.figures import command, measure
from weft.tools.figures.claims import Claim, cases_of, claims_in, table, with_claims
from weft.tools.figures.kept import AlgorithmRow, Kept
from weft.tools.figures.tables import END

NOTE = (
    "claims: completion-ms; of paths ethereal; against paths spray / spray-round-robin; "
    "best ecn-threshold; at-most 1.05; rows size"
)


def row(
    size: str, paths: str, threshold: str, times: Sequence[float | None], algorithm: str = "direct"
) -> AlgorithmRow:
    options = {"size": size, "paths": paths, "ecn-threshold": threshold, "ranks": "16"}
    return AlgorithmRow(
        algorithm,
        {**options, "world": "simulated"},
        list(range(1, len(times) + 1)),
        {"completion-ms": list(times)},
        ["failed" if time is None else "ok" for time in times],
        1.0,
        "commit abc123, 2026-11-28",
    )


KEPT = Kept(
    "claims",
    2,
    [
        row("64 KiB", "ethereal", "16", [12.0, 12.0]),
        row("64 KiB", "ethereal", "57", [11.0, 13.0]),
        row("64 KiB", "spray", "16", [20.0, 20.0]),
        row("64 KiB", "spray", "57", [10.0, 12.0]),
        row("64 KiB", "spray-round-robin", "16", [9.0, None]),
        row("64 KiB", "spray-round-robin", "57", [14.0, 14.0]),
        row("1 MiB", "ethereal", "57", [100.0, 104.0]),
        row("1 MiB", "spray", "57", [110.0, 108.0]),
        row("1 MiB", "spray-round-robin", "57", [100.0, 100.0]),
        row("4 MiB", "spray", "57", [400.0, 400.0]),
    ],
)


def test_each_is_taken_at_its_best_setting_and_the_better_rival_counts() -> None:
    assert table(Claim.parse(NOTE), KEPT) == (
        "| size | ethereal | best rival | ratio | holds |\n"
        "|---|---|---|---|---|\n"
        "| 64 KiB | 12.0 at ecn-threshold 16 | spray: 11.0 (10.0 to 12.0) at ecn-threshold 57 "
        "| 1.091 | **no** |\n"
        "| 1 MiB | 102 (100 to 104) at ecn-threshold 57 | spray-round-robin: 100 at ecn-threshold "
        "57 | 1.020 | yes |\n"
        "\n"
        "*The quotient is at most 1.05 in 1 of 2 cases.* *`claims.toml`, seeds 1 to 2: mean (least "
        "to greatest); commit abc123, 2026-11-28.*\n"
    )


def test_a_claim_of_who_failed_does_not_hold_and_a_rival_that_failed_is_beaten() -> None:
    claim = Claim.parse(NOTE)
    mine = Kept("claims", 2, [row("1", "ethereal", "57", [1.0, None]), KEPT.rows[3]])
    with pytest.raises(InputError, match="no kept figures have paths ethereal and paths spray"):
        cases_of(claim, mine)
    some = [row("1 MiB", "ethereal", "57", [1.0, None]), row("1 MiB", "spray", "57", [10.0, 10.0])]
    (case,) = cases_of(claim, Kept("claims", 2, some))
    assert not case.holds
    rival = [row("1 MiB", "ethereal", "57", [1.0]), row("1 MiB", "spray", "57", [None])]
    (case,) = cases_of(claim, Kept("claims", 2, rival))
    assert case.holds and case.ratio is None
    assert "| spray: 1 of 1 failed at ecn-threshold 57 |  | yes |" in table(
        claim, Kept("claims", 2, rival)
    )


def test_a_speed_up_is_not_claimed_over_who_failed_but_of_who_failed() -> None:
    claim = Claim.parse(
        "claims: completion-ms; of paths spray; against paths ethereal; at-least 2; rows size"
    )

    def holds(slow: list[float | None], fast: list[float | None]) -> bool:
        rows = [row("1", "spray", "57", slow), row("1", "ethereal", "57", fast)]
        (case,) = cases_of(claim, Kept("claims", 2, rows))
        return case.holds

    assert holds([2.0], [1.0]) and not holds([1.9], [1.0])
    assert holds([None, None], [1.0, 1.0]) and holds([4.0, None], [1.0, 1.0])
    assert not holds([4.0], [None]) and not holds([4.0, 4.0], [1.0, None])


@given(
    st.lists(st.floats(1, 100), min_size=1, max_size=4),
    st.lists(st.floats(1, 100), min_size=1, max_size=4),
    st.floats(0.1, 10),
)
def test_a_claim_holds_just_where_the_quotient_of_the_least_means_says_so(
    mine: list[float], its: list[float], limit: float
) -> None:
    rows = [row("1", "ethereal", str(at), [time]) for at, time in enumerate(mine)]
    rows += [row("1", "spray", str(at), [time]) for at, time in enumerate(its)]
    ratio = round(min(mine) / min(its), 4)
    for which, holds in (("at-most", ratio <= limit), ("at-least", ratio >= limit)):
        claim = Claim.parse(NOTE.replace("at-most 1.05", f"{which} {limit!r}"))
        (case,) = cases_of(claim, Kept("claims", 2, rows))
        assert case.holds == holds


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("at-most 1.05; ", "", "say either at-most or at-least"),
        ("at-most 1.05", "at-most much", "at-most 'much' is no number"),
        ("of paths ethereal", "of paths", "of 'paths': write an option and its value"),
        ("of paths ethereal", "of paths a / b", "of 'a / b': name one value"),
        ("of paths ethereal; ", "", "it does not say what of and against and rows are"),
        ("best ecn-threshold", "best ecn-treshold", "did you mean 'ecn-threshold'"),
        ("completion-ms", "time", "metric 'time' is none of"),
    ],
)
def test_claims_that_make_no_sense_are_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Claim.parse(NOTE.replace(old, new))


def test_an_option_that_is_neither_a_case_nor_a_setting_is_named() -> None:
    claim = Claim.parse(NOTE.replace("best ecn-threshold; ", ""))
    with pytest.raises(InputError, match="several rows of a case differ in ecn-threshold"):
        cases_of(claim, KEPT)
    both = [*KEPT.rows[:4], row("64 KiB", "ethereal", "16", [1.0], "ring")]
    with pytest.raises(InputError, match="several rows of a case differ in algorithm"):
        cases_of(Claim.parse(NOTE), Kept("claims", 2, both))


def test_a_page_has_the_tables_of_its_claims() -> None:
    page = f"Text\n\n<!-- claim {NOTE} -->\nformer\n{END}\nMore\n"
    assert claims_in(page) == [Claim.parse(NOTE)]
    made = with_claims(page, {"claims": KEPT}.__getitem__)
    assert "former" not in made and "| 1 MiB | 102" in made
    assert with_claims(made, {"claims": KEPT}.__getitem__) == made


def test_runs_of_a_row_are_replaced_seed_by_seed() -> None:
    first = row("1 MiB", "spray", "57", [1.0, 2.0, 3.0])
    more = AlgorithmRow(
        "direct", first.options, [4, 2], {"completion-ms": [4.0, None]}, ["ok", "failed"], 2.0, "x"
    )
    both = first.with_runs(more)
    assert both.seeds == [1, 2, 3, 4]
    assert both.values == {"completion-ms": [1.0, None, 3.0, 4.0]}
    assert both.verdicts == ["ok", "failed", "ok", "ok"]
    assert both.cost_s == pytest.approx(2.0 + 2 / 3)
    assert both.source == "x"


SCENARIO = """
collective = "allgather"
algorithm = "ring"
topology = "single"
hosts-per-leaf = 2
world = "simulated"
sweep.loss = [0, 0.1]
sweep.size = ["1KiB", "2KiB"]
"""
PAGE = f"""
<!-- claim small: completion-ms; of loss 10 %; against loss 0 %; at-least 1; rows size -->
{END}
"""


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "scenarios" / "small.toml").write_text(SCENARIO)
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    monkeypatch.setattr(measure, "SCENARIOS", tmp_path / "scenarios")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    return tmp_path / "docs"


def test_a_sweep_goes_on_where_it_was_stopped(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = simulate

    def watched(scenario: Scenario, *others: Any) -> Any:
        with (docs / "ran").open("a") as file:
            print(scenario.size_bytes, scenario.seed, file=file)
        return simulated(scenario, *others)

    def ran_now() -> list[str]:
        file = docs / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    monkeypatch.setattr(measure, "simulate", watched)
    monkeypatch.setattr(measure, "is_current", lambda _: True)
    (file,) = command.sweep([], Progress.silent(), (1, 2), [1024])
    assert sorted(ran_now()) == ["1024 1", "1024 1", "1024 2", "1024 2"]  # two losses
    assert {row.options["size"] for row in Kept.read(file).rows} == {"1 KiB"}
    (file,) = command.sweep([], Progress.silent(), (1, 2, 3), [1024])
    assert sorted(ran_now()) == ["1024 3", "1024 3"]
    (file,) = command.sweep([], Progress.silent(), (1, 2, 3))
    assert sorted(set(ran_now())) == ["2048 1", "2048 2", "2048 3"]
    assert all(row.seeds == [1, 2, 3] for row in Kept.read(file).rows)
    assert len(Kept.read(file).rows) == 4
    assert [page.name for page in command.make_pages()] == ["page.md"]
    assert "in 2 of 2 cases" in (docs / "page.md").read_text()
    command.sweep([], Progress.silent(), (1, 2, 3))
    assert ran_now() == []
    # Other code: what is asked for is measured anew, and the rest stays.
    monkeypatch.setattr(measure, "is_current", lambda _: False)
    command.sweep([], Progress.silent(), (1,), [2048])
    assert ran_now() == ["2048 1", "2048 1"]
    assert [row.seeds for row in Kept.read(file).rows] == [[1, 2, 3], [1], [1, 2, 3], [1]]


def test_what_is_measured_is_kept_though_a_sweep_is_stopped(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(kept: Kept) -> None:
        if len(kept.rows) == 1:
            raise KeyboardInterrupt

    given_saving = command.Saving.__call__

    def saving(self: command.Saving, kept: Kept) -> None:
        given_saving(self, kept)
        stopped(kept)

    monkeypatch.setattr(command.Saving, "__call__", saving)
    with pytest.raises(KeyboardInterrupt):
        command.sweep(["small"], Progress.silent(), (1,))
    assert len(Kept.read(docs / "figures" / "small.json").rows) == 1


def test_code_is_that_of_a_commit_while_no_file_that_figures_are_made_by_differs(
    tmp_path: Path,
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        told = subprocess.run(
            ["git", *who, "-C", str(tmp_path), *words], check=True, capture_output=True, text=True
        )
        return told.stdout.strip()

    git("init", "-q")
    for folder in ("agents", "docs", "experiments/scenarios"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("old")
    git("add", ".")
    git("commit", "-qm", "old")
    source = f"commit {git('rev-parse', '--short=10', 'HEAD')}, 2026-11-28"
    assert measure.is_current(source, tmp_path)
    (tmp_path / "docs" / "file").write_text("new")
    (tmp_path / "experiments/scenarios" / "file").write_text("new")
    assert measure.is_current(source, tmp_path)
    (tmp_path / "agents" / "file").write_text("new")
    assert not measure.is_current(source, tmp_path)
    git("commit", "-qam", "new")
    assert not measure.is_current(source, tmp_path)
    assert not measure.is_current(source.replace(",", "+,"), tmp_path)
    assert not measure.is_current("commit unknown, 2026-11-28", tmp_path)


def test_the_file_of_a_sweep_is_one_that_figures_are_read_from(docs: Path) -> None:
    (file,) = command.sweep(["small"], Progress.silent(), (1,), [1024])
    assert json.loads(file.read_text())["schema"] == "weft.figures"
    with pytest.raises(InputError, match="no scenario file 'smal'"):
        command.sweep(["smal"], Progress.silent())
