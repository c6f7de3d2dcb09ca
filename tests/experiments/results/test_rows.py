"""Results as flat tables, and ``weft export``."""

from __future__ import annotations

import csv
import importlib.util
import io
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_support import WEFT, start

from weft.base.errors import InputError, MachineError
from weft.experiments.results.results import Results
from weft.experiments.results.rows import TABLES, csv_of, frame_of, parquet_of
from weft.experiments.runner import run
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import read_file

MATRIX = """Nodes 4
Connections 2
0->1 id 1 start 0 size 5000
1->2 id 2 start 0 size 7000
"""
SWEPT = """
collective = "allgather"
algorithm = ["ring", "multicast"]
world = "simulated"
topology = "single"
hosts-per-leaf = 3

[sweep]
size = ["1KiB", "4KiB"]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    file = tmp_path_factory.mktemp("swept") / "swept.toml"
    file.write_text(SWEPT)
    return run(read_file(file))


def test_every_run_has_a_row(results: Results) -> None:
    rows = results.rows()
    assert [(row["run"], row["algorithm"], row["size"]) for row in rows] == [
        (0, "ring", 1024), (1, "multicast", 1024), (2, "ring", 4096), (3, "multicast", 4096),
    ]  # fmt: skip
    for row, one in zip(rows, results.runs, strict=True):
        assert row["completion_ns"] == one.completion_ns
        assert row["verified"] is True
        assert row["host_up_bytes"] == one.tiers["host_up"]
        assert row["error"] is None


@pytest.mark.parametrize(("table", "each"), [("ranks", 3), ("links", 6), ("flows", 0)])
def test_every_rank_link_and_flow_has_a_row(results: Results, table: str, each: int) -> None:
    rows = results.rows(table)
    assert len(rows) == each * len(results.runs)
    assert len({tuple(row) for row in rows}) <= 1  # the same columns everywhere
    if table == "links":
        assert sum(row["tx_bytes"] for row in rows if row["run"] == 0) == sum(
            link.tx_bytes for link in results.runs[0].links
        )


def test_flows_have_rows_of_their_times(tmp_path: Path) -> None:
    (matrix := tmp_path / "two.cm").write_text(MATRIX)
    done = run(Scenario("flows", workload=str(matrix), world="simulated", leaves=2, spines=1))
    rows = done.rows("flows")
    assert [(row["source"], row["destination"], row["size_bytes"]) for row in rows] == [
        (0, 1, 5000), (1, 2, 7000),
    ]  # fmt: skip
    assert all(row["received_ns"] > row["begun_ns"] for row in rows)


def test_csv_says_the_same_and_leaves_unknown_cells_empty(results: Results) -> None:
    rows = results.rows()
    read = list(csv.DictReader(io.StringIO(csv_of(rows))))
    assert [list(row) for row in read] == [list(row) for row in rows]
    assert [int(row["completion_ns"]) for row in read] == [row["completion_ns"] for row in rows]
    assert {row["predicted_ns"] for row in read} == {""}


def test_text_with_commas_quotes_and_lines_is_one_cell() -> None:
    rows: list[dict[str, Any]] = [{"error": 'a, "b"\nc', "run": 1}]
    assert list(csv.DictReader(io.StringIO(csv_of(rows)))) == [{"error": 'a, "b"\nc', "run": "1"}]


def test_a_text_is_no_formula_and_a_number_stays_one() -> None:
    texts = ["=HYPERLINK(0)", "+1", "-1+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", "ok", "a=1"]
    rows: list[dict[str, Any]] = [{"text": text, "number": -5, "part": -0.5} for text in texts]
    read = list(csv.DictReader(io.StringIO(csv_of(rows), newline="")))
    assert [row["text"] for row in read] == [*(f"'{text}" for text in texts[:6]), "ok", "a=1"]
    assert {(row["number"], row["part"]) for row in read} == {("-5", "-0.5")}


def test_a_table_that_does_not_exist_is_named(results: Results) -> None:
    with pytest.raises(InputError, match="table 'hosts': results have the tables runs, ranks"):
        results.rows("hosts")


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_data_frames_keep_whole_numbers_whole(results: Results) -> None:
    frame = results.to_frame()
    assert list(frame.columns) == list(results.rows()[0])
    assert str(frame["completion_ns"].dtype) == "Int64"
    assert frame.groupby("algorithm")["run"].count().to_dict() == {"multicast": 2, "ring": 2}


@pytest.mark.parametrize(
    ("package", "make"), [("pandas", frame_of), ("pyarrow", parquet_of)], ids=["pandas", "pyarrow"]
)
def test_what_is_not_installed_is_named(
    package: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MachineError, match=f"pip install {package}"):
        make([{"run": 1}])


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_parquet_has_the_same_rows(results: Results) -> None:
    import pyarrow.parquet

    rows = results.rows("links")
    assert pyarrow.parquet.read_table(io.BytesIO(parquet_of(rows))).to_pylist() == rows


def test_the_command_writes_a_table(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path)
    shown = start(*WEFT, "export", ".", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (0, csv_of(results.rows()))
    written = start(*WEFT, "export", ".", "--table", "links", "--csv", "links.csv", cwd=tmp_path)
    assert written.stdout.strip() == str(tmp_path / "links.csv")
    assert (tmp_path / "links.csv").read_text() == csv_of(results.rows("links"))


@pytest.mark.parametrize("table", ["flows", "stages", "workgroups"])
def test_a_table_without_rows_has_a_line_of_names(
    results: Results, tmp_path: Path, table: str
) -> None:
    results.write(tmp_path)
    shown = start(*WEFT, "export", ".", "--table", table, cwd=tmp_path)
    (names,) = csv.reader(io.StringIO(shown.stdout))
    assert names[:6] == ["run", "collective", "algorithm", "repetition", "seed", "size"]
    assert len(names) >= 11


def test_nothing_is_written_where_pyarrow_is_lacking(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path)
    (tmp_path / "pyarrow.py").write_text("raise ImportError('none here')")  # found before others
    files = ("--csv", "a.csv", "--parquet", "a.parquet")
    done = start(*WEFT, "export", ".", *files, cwd=tmp_path)
    assert done.returncode and "pip install pyarrow" in done.stderr
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "nowhere"), "nowhere"),
        (("export", ".", "--table", "hosts"), "table 'hosts': results have the tables runs,"),
        (("export", ".", "--csv", "no/folder/x.csv"), "no/folder"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: tuple[str, ...], words: str, results: Results, tmp_path: Path
) -> None:
    results.write(tmp_path)
    done = start(*WEFT, *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.startswith("weft: ")
    assert "Traceback" not in done.stderr


def test_tables_are_those_that_the_help_names() -> None:
    assert list(TABLES) == [
        "runs",
        "ranks",
        "links",
        "queues",
        "flows",
        "stages",
        "workgroups",
        "weights",
    ]
