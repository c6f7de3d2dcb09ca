"""``weft bench``."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from weft.base.command_line import Place, output_folder
from weft.base.errors import InputError
from weft.base.units import shown
from weft.cli.command_line import app
from weft.tools.bench import benchmarks
from weft.tools.bench.benchmarks import NAMES


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=f"{', '.join(NAMES[:-1])} or {NAMES[-1]}."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    out: Annotated[
        Place,
        typer.Option(metavar="DIR", help="Write NAME.json, and plots where there are some, to it."),
    ] = None,
    htsim: Annotated[
        Place,
        typer.Option(metavar="PATH", help="simulator: UEC's htsim_uec, to be measured beside it."),
    ] = None,
    cores: Annotated[
        int,
        typer.Option(metavar="N", help="simulator: how much faster N cores are than one.", min=1),
    ] = 1,
) -> None:
    """Measure something on this machine; figures come with something to compare them to."""
    from weft.experiments.runs.busyness import watched

    module = benchmarks.load(name)
    folder = output_folder(out)
    if folder is not None:
        benchmarks.check_writable(folder)
    measure = module.measure
    if htsim is not None:
        if name != "simulator":
            raise InputError(
                f"--htsim {shown(str(htsim))} means nothing for {name}: it is measured beside "
                "simulator; leave it out"
            )
        from weft.tools.bench.htsim import check

        measure = partial(measure, program=check(Path(htsim)))
    if cores > 1:
        if name != "simulator":
            raise InputError(
                f"--cores {cores} means nothing for {name}: it is for simulator; leave it out"
            )
        measure = partial(module.measure_cores, cores)
    figures, busyness = watched(measure)
    figures["machine"] = busyness.to_dict()
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        print("\n".join([*benchmarks.lines(name, figures), *busyness.lines()]))
    if folder is not None:
        for file in benchmarks.write(module, name, figures, folder):
            # What is asked for as JSON is JSON alone.
            print(f"Written: {file.resolve()}", file=sys.stderr if as_json else sys.stdout)
