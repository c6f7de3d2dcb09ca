"""``weft run``."""

import contextlib
import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from weft.base.command_line import Place, Text, output_file, output_folder
from weft.base.errors import InputError, MachineError, refuse
from weft.base.garbage import uncollected
from weft.cli.command_line import app
from weft.cli.scenario_options import GroupedCommand, complete_what, scenario_options
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.families import choices

if TYPE_CHECKING:
    from weft.experiments.scenario.sweep import Experiment


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
    run_and_tell(
        experiment,
        folder,
        as_json,
        events=output_file(events),
        on="local" if on is None else on,
        resume=resume is not None,
    )


def run_and_tell(
    asked: "Experiment",
    out: Path | None,
    as_json: bool,
    name: str | None = None,
    events: Path | None = None,
    on: str = "local",
    resume: bool = False,
) -> NoReturn:
    """Run what is asked for, and say what came of it; never returns."""
    with uncollected():
        from weft.base.console import make_console
        from weft.base.native_code import begin
        from weft.base.progress import Progress
        from weft.experiments import runner
        from weft.experiments.results import table
        from weft.experiments.results.document import DOCUMENT
        from weft.experiments.results.summary import doubts, which_run
        from weft.experiments.runs.events import EventLines

        gc.freeze()  # it stays until the end, and need not be looked through

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
    begin()
    refuse(outcome.unwritten, outcome.unwritten, MachineError)
    sys.exit(0 if results.verified else 1)
