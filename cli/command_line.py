"""The ``weft`` command.

Exit status: 0 done, and every run's data verified; 1 a run failed or did not verify; 2 bad input,
or the machine lacks something; 130 interrupted; 143 terminated.
"""

import contextlib
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from weft.base import VERSION, cache, signals, streams
from weft.base.cache import BOUND_BYTES
from weft.base.command_line import (
    Place,
    Text,
    make_console,
    output_file,
    output_folder,
)
from weft.base.errors import InputError, MachineError, WeftError, refuse
from weft.base.files import NO_WORKING_FOLDER, working_folder
from weft.base.limits import shortage
from weft.base.units import format_size, listed, parse_size
from weft.cli import network as cli_network
from weft.cli import torch as cli_torch
from weft.cli.scenario_options import (
    GroupedCommand,
    complete_what,
    scenario_options,
)
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.families import choices, table_names
from weft.switch.commands import command_line as cli_p4

if TYPE_CHECKING:
    from weft.experiments.scenario.sweep import Experiment

app = typer.Typer(
    name="weft",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A packet-level testbed for network-offloaded collectives on P4 switches.",
    epilog="Exit status: 0 done and verified; 1 a run failed or did not verify; 2 bad input or the "
    "machine lacks something; 130 interrupted; 143 terminated.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"weft {VERSION}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print Weft's version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    """What all commands take."""


@app.command(cls=GroupedCommand)
@scenario_options(*(name for name in OPTIONS if name != "collective"))
def run(
    what: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTIVE|FILE.toml",
            help=f"{', '.join(choices())}, or a scenario file.",
            autocompletion=complete_what,
        ),
    ],
    options: dict[str, Any],
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/COLLECTIVE-ID]")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results document and nothing else.")
    ] = False,
    events: Annotated[
        Place,
        typer.Option(metavar="FILE", help="Write what happens to it as JSON lines, while it runs."),
    ] = None,
    on: Annotated[
        Text,
        typer.Option(
            metavar="ENGINE",
            help="Where the points of a sweep run: local:N, in N processes; dask:local, "
            "dask://HOST:PORT, dask+ssh://HOST,..., dask+slurm:JOBS, ray://HOST:PORT "
            "(docs/sweeps.md). [local, as many as fit]",
        ),
    ] = None,
    resume: Annotated[
        Place,
        typer.Option(
            metavar="DIR", help="Go on with a sweep: run what is missing or failed in its results."
        ),
    ] = None,
) -> None:
    """Run a collective, or a scenario file, and verify every byte of its result."""
    from weft.experiments.scenario.options import from_options
    from weft.experiments.scenario.sweep import Experiment, read_file

    folder = output_folder(out)
    if resume is not None:
        refuse(
            folder is not None,
            f"--resume {resume!r} beside --out: a sweep goes on in its own folder; leave --out out",
        )
        folder = output_folder(resume)
    if what.endswith(".toml"):
        experiment = read_file(Path(what), options)
    elif what in choices():
        experiment = Experiment.of(from_options({"collective": what, **options}))
    else:
        raise InputError(
            f"cannot run {what!r}: name a collective ({', '.join(choices())}) or a "
            "scenario file that ends in .toml"
        )
    _run(
        experiment,
        folder,
        as_json,
        events=output_file(events),
        on="local" if on is None else on,
        resume=resume is not None,
    )


@app.command()
def demo(
    out: Annotated[
        Place, typer.Option(metavar="DIR", help="Results folder. [results/demo-ID]")
    ] = None,
) -> None:
    """Allgather of 1 MiB per rank, ring and multicast, on 4 leaves, 2 spines and 8 hosts.

    Links have 100 Mbit/s, which two processors carry with room to spare.
    """
    from weft.experiments.scenario.scenario import Scenario
    from weft.experiments.scenario.sweep import Experiment

    asked = Experiment.of(Scenario(algorithms=("ring", "multicast")))
    _run(asked, output_folder(out), False, name="demo")


def _run(
    asked: "Experiment",
    out: Path | None,
    as_json: bool,
    name: str | None = None,
    events: Path | None = None,
    on: str = "local",
    resume: bool = False,
) -> NoReturn:
    from weft.base.progress import Progress
    from weft.experiments import runner
    from weft.experiments.results import table
    from weft.experiments.results.document import DOCUMENT
    from weft.experiments.results.summary import doubts, which_run
    from weft.experiments.runs.events import EventLines

    errors = make_console(stderr=True)
    with contextlib.ExitStack() as stack:
        told = None if events is None else stack.enter_context(EventLines(events))
        shown = Progress(errors, quiet=as_json and not errors.is_terminal, listener=told)
        progress = stack.enter_context(shown)
        outcome = runner.run_to_folder(
            asked, out=out, name=name, progress=progress, on=on, resume=resume
        )
        results = outcome.results
        progress.tell("results", verified=results.verified, folder=str(outcome.folder.resolve()))
    if as_json:
        json.dump(results.to_dict(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        console = make_console()
        console.print_whole(table.summary_table(results))
        for single in results.runs:
            if single.error:
                named = which_run(results, single)
                console.print(f"{named}: {single.error}", style="red", markup=False)
        for named, verdict, reason in doubts(results):
            console.print(f"fidelity of {named}: {verdict}, since {reason}", markup=False)
        for note in results.notes:
            console.print(f"Note: {note}", markup=False)
        lines = [
            f"Results: {outcome.folder / DOCUMENT}",
            f"Report:  {outcome.report}",
            *(f"Plot:    {plot}" for plot in outcome.plots),
        ]
        captures = [f"Captures: {outcome.captures}"] if outcome.captures else []
        for line in [*([] if outcome.unwritten else lines), *captures]:
            console.print(line, soft_wrap=True, markup=False)
    refuse(outcome.unwritten, outcome.unwritten, MachineError)
    sys.exit(0 if results.verified else 1)


app.command()(cli_p4.p4c)
app.command()(cli_p4.stf)
app.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    help="Run one built-in switch in place of simple_switch_grpc: weft switch --help.",
)(cli_p4.switch)
app.command()(cli_network.topology)
app.command()(cli_network.paths)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.")],
    out: Annotated[
        Place,
        typer.Option("-o", "--out", metavar="FILE", help="HTML file. [DIR/report.html]"),
    ] = None,
) -> None:
    """Make one self-contained HTML page of a results folder: of 'weft run' or 'weft up --out'."""
    from weft.experiments.report import network, render, write_page
    from weft.experiments.results.document import schema_of
    from weft.experiments.results.network import SCHEMA, NetworkResults
    from weft.experiments.results.results import Results

    file = output_file(out) or (folder if folder.is_dir() else folder.parent) / "report.html"
    if schema_of(folder) == SCHEMA:
        made = network.render(NetworkResults.read(folder))
    else:
        made = render(Results.read(folder))
    written = write_page(made, file)
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
    from weft.experiments.results.results import Results
    from weft.experiments.results.rows import columns_of, csv_of, parquet_of

    asked = (output_file(csv), csv_of), (output_file(parquet), parquet_of)
    results = Results.read(folder)
    rows = results.rows(table)
    columns = columns_of(results.swept, table)
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
    from weft.experiments.results.differences import difference_lines, difference_table, pairs_of
    from weft.experiments.results.results import Results

    both = Results.read(one), Results.read(other)
    pairs = pairs_of(*both)
    console = make_console()
    if not console.is_terminal:
        console.width = 1000  # nothing is cut where lines may be of any length
    console.print(difference_table(pairs, {"one": str(one), "other": str(other)}))
    for line in difference_lines(pairs, *both):
        console.print(line, markup=False, highlight=False)


@app.command()
def doctor() -> None:
    """Say what this machine can do, what is missing, and how to get it."""
    from weft.cli.doctor import examine

    sys.exit(examine(make_console()))


@app.command()
def clean(
    of_cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="Instead, remove what was not used for longest from the cache, until it takes at "
            "most SIZE.",
        ),
    ] = False,
    size: Annotated[
        str | None,
        typer.Argument(
            metavar="SIZE",
            help="Of --cache: like 200MiB, or 0.",
            show_default=format_size(BOUND_BYTES),
        ),
    ] = None,
) -> None:
    """Remove what killed runs left behind, and only that."""
    refuse(
        size is not None and not of_cache,
        f"clean takes a size ({size}) with --cache alone: weft clean --cache {size}",
    )
    if of_cache:
        most_bytes = BOUND_BYTES if size is None else parse_size(size)
        gone = cache.bound(most_bytes)
        print(f"removed {len(gone)} files, {cache.size_of(gone)}")
        print(f"left: {cache.size_of(cache.kept())} in {cache.cache_dir()}")
        return
    from weft.topo.worlds.emulated import cleanup

    removed = cleanup.clean()
    for what in removed:
        print(f"removed {what}")
    if not removed:
        print("nothing to remove")


@app.command(hidden=True)
def prepare() -> None:
    """Compile what the first run would otherwise compile; set-up calls it."""
    from weft.base.progress import Progress
    from weft.experiments.runs.prepare import prepare as fill_cache

    with Progress(make_console(stderr=True)) as progress:
        fill_cache(progress)


app.add_typer(cli_torch.app)
for command in (cli_network.up, cli_network.shell, cli_network.load):
    app.command()(command)


def main() -> NoReturn:
    """Run the command line; never returns."""
    streams.open_closed()
    signals.end_on_signals()
    streams.guard()
    try:
        try:
            app(prog_name="weft")
        except WeftError as error:
            _fail(error)
        except (OSError, MemoryError, RuntimeError, ImportError, SystemError) as error:
            if isinstance(error, FileNotFoundError) and not working_folder():
                _fail(InputError(NO_WORKING_FOLDER))
            told = shortage(error)
            if told is None:
                raise
            _fail(told)
        finally:
            streams.flush()
            gc.freeze()  # what there is goes with the process, and need not be looked through
    except WeftError as error:  # standard output takes no more
        _fail(error)
    finally:
        signals.leave()
    sys.exit(0)


def _fail(error: WeftError) -> NoReturn:
    print(f"weft: {error}", file=sys.stderr)
    sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
