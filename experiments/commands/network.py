"""Commands that look at a network without bringing it up: ``weft topology``, ``weft paths``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weft.base import files
from weft.base.command_line import Place, Text, Texts, given, make_console, output_file
from weft.base.errors import InputError
from weft.experiments.commands.network_options import (
    HostsPerLeaf,
    K,
    Leaves,
    MicroBatches,
    Oversubscription,
    PlacementOption,
    Rate,
    Spines,
    Tensor,
    Tiers,
    TopologyOption,
)


def topology(
    topology: TopologyOption = None,
    leaves: Leaves = None,
    spines: Spines = None,
    hosts_per_leaf: HostsPerLeaf = None,
    k: K = None,
    tiers: Tiers = None,
    rate: Rate = None,
    out: Annotated[
        Place,
        typer.Option("-o", "--out", metavar="FILE", help="SVG file. [TOPOLOGY.svg]"),
    ] = None,
) -> None:
    """Draw a network (SVG) and list its links, without bringing it up."""
    from weft.experiments.results.table import links_table
    from weft.experiments.scenario.options import from_options
    from weft.topo.drawing import draw_svg

    options = given(
        topology=topology, leaves=leaves, spines=spines, hosts_per_leaf=hosts_per_leaf, k=k,
        tiers=tiers, rate=rate,
    )  # fmt: skip
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
    algorithm: Annotated[
        Text, typer.Option(help="Of the collective: ring, direct and so on. [its first]")
    ] = None,
    size: Annotated[Text, typer.Option(help="Bytes, as weft run has them. [1MiB]")] = None,
    paths: Annotated[
        Text,
        typer.Option(
            help="Schemes, with commas: ecmp, ecmp-N, destination, spray, ethereal, "
            "ethereal-ports. [ecmp,ecmp-4,spray,ethereal]"
        ),
    ] = None,
    placement: PlacementOption = None,
    fault: Annotated[
        Texts,
        typer.Option(
            help="A link that is down, like leaf0-spine1, or slow, like "
            "leaf0-spine1:slow,rate=0.25; may be repeated."
        ),
    ] = None,
    topology: TopologyOption = None,
    leaves: Leaves = None,
    spines: Spines = None,
    hosts_per_leaf: HostsPerLeaf = None,
    k: K = None,
    tiers: Tiers = None,
    rate: Rate = None,
    oversubscription: Oversubscription = None,
    unit: Annotated[
        Text, typer.Option(help="Bytes that Ethereal's pieces are whole numbers of. [1]")
    ] = None,
    root: Annotated[Text, typer.Option(metavar="RANK", help="Where there is one. [0]")] = None,
    tensor: Tensor = None,
    layers: Annotated[
        Text, typer.Option(metavar="N", help="Flows of a model: its layers. [all]")
    ] = None,
    micro_batches: MicroBatches = None,
    slowdown: Annotated[
        Text,
        typer.Option(
            metavar="X",
            help="Flows: sizes are scaled so that all takes X times as long as at 400 Gbit/s. [a "
            "model's 10; a file's stay as they are]",
        ),
    ] = None,
    seed: Annotated[Text, typer.Option(metavar="N", help="Seed of hashes and order. [1]")] = None,
    plot: Annotated[
        Place, typer.Option(metavar="FILE.svg", help="Draw the loads of all links.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say what every link carries under each path scheme, at once, without packets."""
    from weft.experiments.commands.paths import analysis_of, paths_table, write_plot

    file = output_file(plot)
    found = analysis_of(
        workload,
        {
            "algorithm": algorithm, "size": size, "paths": paths, "placement": placement,
            "fault": fault, "topology": topology, "leaves": leaves, "spines": spines,
            "hosts_per_leaf": hosts_per_leaf, "k": k, "tiers": tiers, "rate": rate,
            "oversubscription": oversubscription, "unit": unit, "root": root, "seed": seed,
            "tensor": tensor, "layers": layers, "micro_batches": micro_batches,
            "slowdown": slowdown,
        },
    )  # fmt: skip
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
