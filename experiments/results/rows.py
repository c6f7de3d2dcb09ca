"""Results as flat tables, for spreadsheets and data frames: a row for each run, rank, direction of
a link, or what kinds of work tell of.

Times are in ns, sizes in bytes, rates in bit/s. Every row names its run: its number in the
document, collective, algorithm, repetition, seed, and the options that differ between the
experiment's points.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from weft.base.errors import InputError, MachineError
from weft.experiments.scenario.families import result_parts
from weft.experiments.scenario.metric_names import all_metrics
from weft.experiments.scenario.options import value_of
from weft.experiments.scenario.part import Part, Run

if TYPE_CHECKING:
    import pandas

Row: TypeAlias = dict[str, Any]
NAMES = ("run", "collective", "algorithm", "repetition", "seed")
"""The columns that name a row's run, before those of swept options."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that spreadsheets compute."""


def rows_of(runs: Sequence[Run], swept: Sequence[str], table: str = "runs") -> list[Row]:
    """Return a table (`TABLES`) of a results document as rows, all with the same keys in the same
    order.

    Args:
        runs: those of the document, and ``swept`` the options that differ between them.

    Raises:
        InputError: there is no such table.
    """
    if table not in TABLES:
        raise InputError(f"table {table!r}: results have the tables {', '.join(TABLES)}")
    rows = [
        {**_named(swept, number, run), **row}
        for number, run in enumerate(runs)
        for row in TABLES[table](run)
    ]
    columns = dict.fromkeys(key for row in rows for key in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def columns_of(swept: Sequence[str], table: str) -> list[str]:
    """Return the names of the columns of a table for which no run has rows."""
    return [*NAMES, *_options_of(swept), *(_PARTS[table].columns if table in _PARTS else ())]


def csv_of(rows: list[Row], columns: Sequence[str] = ()) -> str:
    """Return rows as CSV (RFC 4180, but with single line feeds), with a line of names, which are
    ``columns`` where there are no rows; empty cells are what is not known.

    A text that a spreadsheet would compute, as one that begins with =, has a ' before it.
    """
    lines: list[str] = []
    names = list(rows[0]) if rows else columns
    # By the ends of its lines it knows what has to be in quotation marks: a carriage return, too.
    file = _Lines(lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
    writer = csv.DictWriter(file, fieldnames=names, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _as_text(cell) for name, cell in row.items()})
    return "".join(lines)


class _Lines(NamedTuple):
    """Lines of a `csv.writer`, which writes each at once."""

    write: Callable[[str], None]


def _as_text(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula (OWASP, "CSV Injection"). Numbers are
    none, whatever their sign."""
    is_formula = isinstance(cell, str) and cell.startswith(_FORMULAS)
    return f"'{cell}" if is_formula else cell


def frame_of(rows: list[Row]) -> "pandas.DataFrame":
    """Return rows as a data frame of pandas, whose whole numbers stay whole where some are not
    known. Raises MachineError where pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise MachineError(f"data frames need pandas ({error}): pip install pandas") from None
    return pandas.DataFrame(rows).convert_dtypes()


def parquet_of(rows: list[Row], columns: Sequence[str] = ()) -> bytes:
    """Return rows as a Parquet file, with columns as `csv_of` has them. Raises MachineError where
    pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MachineError(f"Parquet files need pyarrow ({error}): pip install pyarrow") from None
    file = io.BytesIO()
    empty = pyarrow.table({column: [] for column in columns})
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows) if rows else empty, file)
    return file.getvalue()


def _named(swept: Sequence[str], number: int, run: Run) -> Row:
    """Return what tells a run from the others."""
    scenario = run.scenario
    found = (number, scenario["collective"], run.algorithm, run.repetition, scenario["seed"])
    return {
        **dict(zip(NAMES, found, strict=True)),
        **{
            column: _cell(value_of(option, scenario))
            for column, option in _options_of(swept).items()
        },
    }


def _options_of(swept: Sequence[str]) -> dict[str, str]:
    """Return by column the swept options that have columns of their own."""
    own = (option for option in swept if option not in (*NAMES, "seeds"))
    return {option.replace("-", "_"): option for option in own}


def _cell(value: Any) -> Any:
    """Return a value that a cell can hold."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _figures(of: str, one: Any) -> Row:
    """Return the metrics of a ``run``, a ``rank``, a ``link`` or a ``queue`` that have columns."""
    return {
        metric.column: read(one)
        for metric in all_metrics().values()
        if metric.column and (read := getattr(metric, of))
    }


def _run_rows(run: Run) -> Iterator[Row]:
    scenario = run.scenario
    yield {
        "world": scenario["world"],
        "topology": scenario["topology"],
        "ranks": len(run.ranks),
        "rate_bps": scenario["rate_bps"],
        "size_bytes": scenario["size_bytes"],
        "verified": run.verified,
        "verdict": run.fidelity.verdict,
        **_figures("run", run),
        "error": run.error,
    }


def _rank_rows(run: Run) -> Iterator[Row]:
    for rank in run.ranks:
        figures = _figures("rank", rank)
        yield {
            "rank": rank.rank,
            "host": rank.host,
            "verified": rank.verified,
            **figures,
            **{f"{phase}_ns": duration for phase, duration in rank.phases_ns.items()},
            **{
                name: value
                for name, value in rank.statistics.items()
                if isinstance(value, (int, float)) and name not in figures
            },
            "error": rank.error,
        }


def _link_rows(run: Run) -> Iterator[Row]:
    for link in run.links:
        yield {
            "from": link.from_node,
            "to": link.to_node,
            "tier": link.tier,
            **_figures("link", link),
        }


def _queue_rows(run: Run) -> Iterator[Row]:
    for link in run.links:
        for queue in link.queues:
            yield {
                "from": link.from_node,
                "to": link.to_node,
                "tier": link.tier,
                "priority": queue.priority,
                **_figures("queue", queue),
            }


def _part_rows(kind: type[Part], run: Run) -> Iterator[Row]:
    """Return the rows of a part of a run, if it has that."""
    part = run.part(kind)
    return part.rows() if part is not None else iter(())


_PARTS = {kind.table: kind for kind in result_parts().values() if kind.table}
"""The parts of runs that tables are of, for which not every run has rows."""
TABLES: dict[str, Callable[[Run], Iterator[Row]]] = {
    "runs": _run_rows,
    "ranks": _rank_rows,
    "links": _link_rows,
    "queues": _queue_rows,
    **{table: partial(_part_rows, kind) for table, kind in _PARTS.items()},
}
"""The tables of results, each with what makes the rows of a run."""
