"""Commands that look at a network without bringing it up: ``weft topology``, ``weft paths``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.base import files
from weft.base.command_line import Place, Text, make_console, output_file
from weft.base.errors import InputError
from weft.experiments.commands.scenario_options import scenario_options

SHAPE = ("topology", "leaves", "spines", "hosts-per-leaf", "k", "tiers", "rate")
"""Options that say what a network is like."""


@scenario_options(*SHAPE)
def topology(
    options: dict[str, Any],
    out: Annotated[
        Place,
        typer.Option("-o", "--out", metavar="FILE", help="SVG file. [TOPOLOGY.svg]"),
    ] = None,
) -> None:
    """Draw a network (SVG) and list its links, without bringing it up."""
    from weft.experiments.results.table import links_table
    from weft.experiments.scenario.options import from_options
    from weft.topo.drawing import draw_svg

    scenario = from_options(options)
    file = output_file(out) or Path(f"{scenario.topology}.svg")
    network = scenario.network()
    try:
        files.write_whole(file, draw_svg(network))
    except OSError as error:
        raise InputError(f"cannot write the drawing to {str(file)!r}: {error.strerror}") from None
    console = make_console()
    console.print(links_table(network))
    console.print(f"Drawing: {file.resolve()}", soft_wrap=True, markup=False)


@scenario_options(
    "algorithm", "size", "paths", "placement", "fault", *SHAPE, "oversubscription", "unit", "root",
    "tensor", "layers", "micro-batches", "slowdown", "seed",
    size="Bytes, as weft run has them. [1MiB]",
    paths="Schemes, with commas: ecmp, ecmp-N, destination, spray, ethereal, ethereal-ports. "
    "[ecmp,ecmp-4,spray,ethereal]",
    fault="A link that is down, like leaf0-spine1, or slow, like leaf0-spine1:slow,rate=0.25; may "
    "be repeated.",
    root="Where there is one. [0]",
    layers="Flows of a model: its layers. [all]",
    slowdown="Flows: sizes are scaled so that all takes X times as long as at 400 Gbit/s. [a "
    "model's 10; a file's stay as they are]",
    seed="Seed of hashes and order. [1]",
)  # fmt: skip
def paths(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="alltoall, allreduce, allgather, reduce-scatter, broadcast, many-to-one, "
            "permutation, a connection matrix (FILE.cm), Chakra's traces (FILE.0.et), or a step of "
            "gpt-7b, gpt-13b, gpt-small, gpt-medium, gpt-xl.",
        ),
    ],
    options: dict[str, Any],
    algorithm: Annotated[
        Text, typer.Option(help="Of the collective: ring, direct and so on. [its first]")
    ] = None,
    unit: Annotated[
        Text, typer.Option(help="Bytes that Ethereal's pieces are whole numbers of. [1]")
    ] = None,
    plot: Annotated[
        Place, typer.Option(metavar="FILE.svg", help="Draw the loads of all links.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say what every link carries under each path scheme, at once, without packets."""
    from weft.experiments.commands.paths import analysis_of, paths_table, write_plot

    file = output_file(plot)
    found = analysis_of(workload, {"algorithm": algorithm, "unit": unit, **options})
    if file is not None:
        write_plot(found, file)
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        console = make_console()
        console.print()
        console.print(paths_table(found))
        if file is not None:
            console.print(f"Plot: {file.resolve()}", soft_wrap=True, markup=False)
