"""Figures of the documentation: kept, put into pages, and held to what is run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from experiments.figures import command, measure
from experiments.figures.kept import Kept, Row, rows_of
from experiments.figures.tables import END, TableSpec, number, rendered, table
from experiments.progress import Progress
from switch.errors import InputError, RunError
from tests.results_samples import sample_results

NOTE = "paths: completion-ms; rows algorithm; columns paths; placement in-order / random"


def row(
    algorithm: str, paths: str, placement: str, times: Sequence[float | None], cost_s: float = 1.0
) -> Row:
    return Row(
        algorithm,
        {"paths": paths, "placement": placement, "ranks": "16", "world": "simulated"},
        list(range(1, len(times) + 1)),
        {"completion-ms": list(times), "retransmitted": [0.0] * len(times)},
        ["ok" if time is not None else "failed" for time in times],
        cost_s,
        "commit abc123, 2026-11-22",
    )


KEPT = Kept(
    "paths",
    2,
    [
        row("ring", "ecmp", "in-order", [643.2, 643.2, 643.2]),
        row("ring", "ecmp", "random", [1900.0, 1921.0, 1800.0]),
        row("ring", "spray", "in-order", [651.0, 650.0, 655.0]),
        row("ring", "spray", "random", [731.0, None, 732.0]),
    ],
)


def test_a_table_has_means_with_their_range_and_says_what_they_are_of() -> None:
    assert table(TableSpec.parse(NOTE), KEPT) == (
        "| algorithm | ecmp | spray |\n"
        "|---|---|---|\n"
        "| ring | 643 / 1,874 (1,800 to 1,921) | 652 (650 to 655) / 1 of 3 failed |\n"
        "\n"
        "*`paths.toml`, seeds 1 to 3: mean (least to greatest); commit abc123, 2026-11-22.*\n"
    )


def test_figures_that_are_the_same_under_every_seed_are_called_exact() -> None:
    spec = TableSpec.parse("paths: completion-ms; rows algorithm; columns paths; paths ecmp; "
                           "placement in-order")
    made = table(spec, KEPT)
    assert "| ring | 643 |" in made
    assert "seeds 1 to 3, exact: all come to the same" in made


def test_figures_are_put_over_those_of_another_algorithm_seed_by_seed() -> None:
    rows = [
        row("multicast", "ecmp", "in-order", [100.0, 100.0, 100.0]),
        row("ring", "ecmp", "in-order", [200.0, 150.0, 400.0]),
        row("linear", "ecmp", "in-order", [500.0, 500.0]),
    ]
    kept = Kept("paths", 2, rows)
    note = "paths: completion-ms; rows algorithm; columns paths; {} multicast"
    over = table(TableSpec.parse(note.format("over")), kept)
    assert "| ring | 2.50 (1.50 to 4.00) |\n| linear | 5.00 |" in over
    under = table(TableSpec.parse(note.format("under")), kept)
    assert "| ring | 0.47 (0.25 to 0.67) |\n| linear | 0.20 |" in under
    assert "multicast |" not in over
    with pytest.raises(InputError, match="no 'tree' at"):
        table(TableSpec.parse(note.format("over").replace("multicast", "tree")), kept)


def test_a_page_keeps_its_text_and_gets_its_tables() -> None:
    page = f"# Title\n\n<!-- figures {NOTE} -->\nan old table\n{END}\n\nText.\n"
    made = rendered(page, {"paths": KEPT}.__getitem__)
    assert made.startswith(f"# Title\n\n<!-- figures {NOTE} -->\n| algorithm |")
    assert made.endswith(f"*\n{END}\n\nText.\n")
    assert "an old table" not in made
    assert rendered(made, {"paths": KEPT}.__getitem__) == made


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("paths completion-ms", "write NAME: METRIC; rows OPTION; columns OPTION"),
        ("paths: completion-ms; rows a; rows b", "'rows b' is no option with a value, told once"),
        ("paths: completion-ms; rows a; paths b", "does not say what rows and columns are"),
        ("paths: speed; rows a; columns b", "metric 'speed' is none of completion-ms, "),
    ],
)
def test_a_note_that_makes_no_sense_is_shown(note: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TableSpec.parse(note)


def test_figures_that_are_not_told_apart_are_an_error() -> None:
    spec = TableSpec.parse("paths: completion-ms; rows algorithm; columns paths")
    with pytest.raises(InputError, match=r"several rows have .*share an option more"):
        table(spec, KEPT)
    spec = TableSpec.parse("paths: completion-ms; rows algorithm; columns paths; placement strided")
    with pytest.raises(InputError, match="none has"):
        table(spec, KEPT)


def test_kept_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert Kept.read(KEPT.write(tmp_path)) == KEPT
    (tmp_path / "other.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(InputError, match="holds no figures of version 1: measure anew"):
        Kept.read(tmp_path / "other.json")
    (tmp_path / "cut.json").write_text((tmp_path / "paths.json").read_text()[:200])
    with pytest.raises(InputError, match="cannot be read"):
        Kept.read(tmp_path / "cut.json")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.12345, "0.12"), (1.018, "1.02"), (93.51, "93.5"), (643.2, "643"),
     (1234.5, "1,234"), (0.0, "0")],
)  # fmt: skip
def test_numbers_have_three_digits_and_more_where_they_are_whole(value: float, text: str) -> None:
    assert number(value) == text


def test_runs_that_differ_in_seed_and_repetition_alone_are_one_row() -> None:
    runs = [
        (run, 0.5)
        for seed in (1, 2)
        for run in sample_results(seed=seed, repeat=2, algorithms=("ring",)).runs
    ]
    (only,) = rows_of(runs, ["seed"])
    assert (only.algorithm, len(only.seeds), only.cost_s) == ("ring", 4, 2.0)
    assert only.options == {"ranks": "8", "world": "emulated"}
    assert only.values["completion-ms"] == [(run.completion_ns or 0) / 1e6 for run, _ in runs]


def moved(**changes: float) -> Kept:
    """Fresh figures: those of the first seed, with some completion times changed."""
    rows = [
        row(each.algorithm, each.options["paths"], each.options["placement"], [
            changes.get(f"{each.options['paths']}_{each.options['placement'].replace('-', '_')}",
                        each.values["completion-ms"][0] or 0)
        ])
        for each in KEPT.rows
    ]  # fmt: skip
    return Kept("paths", 2, rows)


def test_fresh_figures_within_the_range_are_as_they_were() -> None:
    fresh = moved(ecmp_random=1850.0)
    kept = Kept("paths", 2, KEPT.rows[:3])
    fresh = Kept("paths", 2, fresh.rows[:3])
    assert command.compared(kept, fresh) == []


def test_figures_that_left_their_range_are_named_with_what_they_were() -> None:
    kept = Kept("paths", 2, KEPT.rows[:3])
    fresh = Kept("paths", 2, moved(ecmp_in_order=643.3, spray_in_order=640.0).rows[:3])
    assert command.compared(kept, fresh) == [
        "paths: ring, paths ecmp, placement in-order, ranks 16, world simulated: completion-ms is "
        "643.3; it was 643.2",
        "paths: ring, paths spray, placement in-order, ranks 16, world simulated: completion-ms is "
        "640; it was 652 (650 to 655)",
    ]
    assert command.compared(kept, Kept("paths", 2, fresh.rows[:2])) == [
        "paths: ring, paths ecmp, placement in-order, ranks 16, world simulated: completion-ms is "
        "643.3; it was 643.2",
        "paths: ring, paths spray, placement in-order, ranks 16, world simulated is no longer run",
    ]


SMALL = """
collective = "allgather"
algorithm = ["multicast", "ring"]
topology = "single"
hosts-per-leaf = 2
world = "simulated"
size = "1KiB"
sweep.loss = [0, 0.1]
"""


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pages and one of scenario files, both of the test's own."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "scenarios" / "small.toml").write_text(SMALL)
    monkeypatch.setattr(measure, "SCENARIOS", tmp_path / "scenarios")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    note = "small: completion-ms; rows algorithm; columns loss"
    (tmp_path / "docs" / "page.md").write_text(f"<!-- figures {note} -->\n{END}\n")
    return tmp_path / "docs"


def test_figures_are_measured_kept_shown_and_found_again(docs: Path) -> None:
    with pytest.raises(InputError, match="'weft docs --measure small' measures them"):
        command.make_pages()
    (file,) = command.keep(["small"], Progress.silent())
    rows = Kept.read(file).rows
    lossless = [each for each in rows if each.options["loss"] == "0 %"]
    assert [each.seeds for each in lossless] == [[1, 2, 3]] * 2  # all the same: no more is needed
    assert all(each.seeds == list(range(1, 11)) for each in rows if each.options["loss"] != "0 %")
    assert [page.name for page in command.make_pages()] == ["page.md"]
    assert command.make_pages() == []
    assert "| ring | " in (docs / "page.md").read_text()
    assert command.quick_names() == ["small"]
    command.check([], Progress.silent())


def test_a_page_or_a_figure_that_was_changed_by_hand_is_found(docs: Path) -> None:
    (file,) = command.keep(["small"], Progress.silent())
    command.make_pages()
    page = (docs / "page.md").read_text()
    (docs / "page.md").write_text(page.replace("| ring |", "| Ring |"))
    document = json.loads(file.read_text())
    for each in document["rows"]:
        each["values"]["host-mib"] = [1.0] * len(each["seeds"])
    file.write_text(json.dumps(document))
    with pytest.raises(RunError) as failure:
        command.check([], Progress.silent())
    assert "page.md: its tables are not those of the kept figures" in str(failure.value)
    assert str(failure.value).count("host-mib is") == 4


def test_the_tables_of_the_pages_are_those_of_the_kept_figures() -> None:
    assert [page.name for page in command.stale_pages()] == []


@pytest.mark.system
def test_figures_of_the_pages_that_are_quick_to_make_are_found_again() -> None:
    names = command.quick_names()
    assert names, "docs/figures has none that are quick"
    assert command.moved(names, Progress.silent()) == []
