"""``weft docs``."""

from typing import Annotated, Optional

import typer

from weft.base.command_line import Text
from weft.base.errors import refuse
from weft.cli.command_line import app


@app.command()
def docs(
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="[NAME]...", help="Scenario files in experiments/scenarios."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run them under ten seeds and keep their figures.")
    ] = False,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Run what is missing of them, simulated; go on where it was stopped. [those that "
            "claims of pages are about]",
        ),
    ] = False,
    size: Annotated[
        Text, typer.Option(metavar="<size>,...", help="Sweep these sizes alone, like 64KiB,1MiB.")
    ] = None,
    seeds: Annotated[
        Text, typer.Option(metavar="<seeds>", help="Sweep these seeds, like 1..3. [1..10]")
    ] = None,
    world: Annotated[
        Text, typer.Option(help="Measure in this one alone: emulated or simulated. [both]")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing: fail where a page or a figure has moved. [the quick]"
        ),
    ] = False,
) -> None:
    """Make the tables and plots of docs/ anew, from figures that are kept in docs/figures."""
    from weft.base.console import make_console
    from weft.base.progress import Progress
    from weft.experiments.scenario.options import read_option
    from weft.tools.figures import command
    from weft.tools.figures.measure import SEEDS
    from weft.topo.worlds.registry import WORLDS

    chosen = names or []
    refuse(
        measure + check + sweep > 1, "docs: --measure, --sweep and --check are three calls, not one"
    )
    refuse(measure and not chosen, "docs --measure: name the scenario files to measure")
    refuse(
        (size is not None or seeds is not None) and not sweep,
        "docs --size and --seeds are for --sweep alone",
    )
    refuse(
        world and (not measure or world not in WORLDS),
        f"docs --world {world!r}: it is emulated or simulated, with --measure",
    )
    refuse(
        chosen and not (measure or check or sweep),
        "docs NAME: say --measure, --sweep or --check; without names all pages are made",
    )
    with Progress(make_console(stderr=True)) as progress:
        if check:
            command.check(chosen, progress)
            return
        if sweep:
            sizes = [read_option("size", each.strip()) for each in size.split(",")] if size else []
            wanted = read_option("seeds", seeds) if seeds else SEEDS
            kept = command.sweep(chosen, progress, wanted, sizes)
        else:
            kept = command.keep(chosen, progress, [world] if world else WORLDS)
        for file in kept:
            print(f"Kept: {file}")
        for page in command.make_pages():
            print(f"Changed: {page}")
