"""Commands for results that are there: ``weft report``, ``weft plot``, ``weft export`` and ``weft
compare``."""

from pathlib import Path
from typing import Annotated

import typer

from weft.base.command_line import Place, output_file
from weft.base.console import make_console
from weft.base.errors import InputError
from weft.base.units import listed
from weft.cli.command_line import app
from weft.experiments.scenario.families import table_names


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.")],
    out: Annotated[
        Place,
        typer.Option("-o", "--out", metavar="FILE", help="HTML file. [DIR/report.html]"),
    ] = None,
) -> None:
    """Make one self-contained HTML page of a results folder: of 'weft run' or 'weft up --out'."""
    from weft.experiments.report import write_page
    from weft.experiments.report.kinds import opened

    place = folder if folder.is_dir() else folder.parent
    file = output_file(out) or place / "report.html"
    kind, results = opened(folder)
    written = write_page(kind.page(results, place), file)
    print(written.resolve())


@app.command()
def plot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.")],
) -> None:
    """Draw the plots of a results folder anew, as SVG and PNG."""
    from weft.experiments.plots.draw import write_plots
    from weft.experiments.results.results import Results

    results = Results.read(folder)
    if not results.plots:
        raise InputError(
            f"the results in {str(folder)!r} ask for no plots: a scenario file does, with [[plot]]"
        )
    for file in write_plots(results, folder if folder.is_dir() else folder.parent):
        print(file.resolve())


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.")],
    table: Annotated[
        str,
        typer.Option(metavar="TABLE", help=f"{listed(table_names(), 'or')}."),
    ] = "runs",
    csv: Annotated[
        Place, typer.Option(metavar="FILE", help="Write CSV to it; to the terminal by default.")
    ] = None,
    parquet: Annotated[
        Place, typer.Option(metavar="FILE", help="Write Parquet to it; it needs pyarrow.")
    ] = None,
) -> None:
    """Write results as a flat table, for spreadsheets and data frames."""
    from weft.base import files
    from weft.experiments.report.kinds import opened
    from weft.experiments.results.rows import csv_of, parquet_of

    asked = (output_file(csv), csv_of), (output_file(parquet), parquet_of)
    kind, results = opened(folder)
    rows, columns = kind.table(results, table)
    # All forms are made before the first is written: pyarrow may be lacking.
    made = [(file, form(rows, columns)) for file, form in asked if file is not None]
    for file, content in made:
        with files.told_as_input(f"table {str(file)!r} cannot be written"):
            files.write_whole(file, content)
        print(file.resolve())
    if not made:
        print(csv_of(rows, columns), end="")


@app.command()
def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A results folder.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
) -> None:
    """Compare two results folders: what was asked differently, times, bytes, verdicts."""
    from weft.experiments.report.kinds import opened

    (kind, results), (other_kind, others) = opened(one), opened(other)
    if type(kind) is not type(other_kind):
        raise InputError(
            f"{str(one)!r} are results of {kind.document.WRITTEN_BY!r}, and {str(other)!r} of "
            f"{other_kind.document.WRITTEN_BY!r}: compare results of the same command"
        )
    console = make_console()
    if not console.is_terminal:
        console.width = 1000  # nothing is cut where lines may be of any length
    for each in kind.differences(results, others, (str(one), str(other))):
        console.print(each, markup=False, highlight=False)
