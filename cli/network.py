"""Commands that look at a network without bringing it up, ``weft topology`` and ``weft paths``, and
those for a testbed that stays up: ``weft up`` and ``weft load``."""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from weft.base import files
from weft.base.command_line import (
    Place,
    Text,
    Texts,
    macros,
    output_file,
    output_folder,
)
from weft.base.console import make_console
from weft.cli.command_line import app
from weft.cli.network_files import File, given_network
from weft.cli.nodes import RunOption
from weft.cli.scenario_options import scenario_options
from weft.experiments.paths.names import COMPARED, analysed_schemes, unassigned_schemes
from weft.experiments.scenario.families import families
from weft.experiments.scenario.networks import FILE_ENDING
from weft.switch.commands.command_line import Defines, Includes
from weft.topo.faults import lasting_lines

SHAPE = (
    "topology", "leaves", "spines", "hosts-per-leaf", "pods", "uplinks", "k", "tiers", "rate",
)  # fmt: skip
"""Options that say what a network is like."""
OTHER_WORKLOADS = [each.about_workloads for each in families() if each.about_workloads]
"""What ``weft paths`` can be asked for beside collectives and a permutation."""


@app.command()
@scenario_options(*SHAPE)
def topology(
    options: dict[str, Any],
    file: File = None,
    program: Annotated[
        Texts,
        typer.Option(
            metavar="PROGRAM.p4", help="As weft up takes it, for a file that names no programs."
        ),
    ] = None,
    out: Annotated[
        Place,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help=f"SVG file, or NAME{FILE_ENDING}: a network file of Weft's. [TOPOLOGY.svg]",
        ),
    ] = None,
) -> None:
    """Draw a network (SVG) and list its links, without bringing it up."""
    from weft.experiments.results.table import links_table
    from weft.interface.standing import Standing
    from weft.topo.drawing import draw_svg
    from weft.topo.network_text import network_text

    asked = given_network(file, options, program or ())
    scenario = asked.scenario
    written = output_file(out) or Path(f"{Path(scenario.topology).stem}.svg")
    network = Standing(asked.program).network(scenario.network())
    if as_text := written.suffix == FILE_ENDING:
        content = network_text(network, written.parent)
    else:
        content = draw_svg(network)
    with files.told_as_input(f"cannot write the drawing to {str(written)!r}"):
        files.write_whole(written, content)
    console = make_console()
    console.print(links_table(network))
    for each in network.left_out:
        console.print(f"Note: {each}", soft_wrap=True, markup=False)
    what = "Network file" if as_text else "Drawing"
    console.print(f"{what}: {written.resolve()}", soft_wrap=True, markup=False)


@app.command()
@scenario_options(
    "algorithm", "size", "paths", "placement", "fault", *SHAPE, "oversubscription",
    "core-oversubscription", "unit", "root", "tensor", "layers", "micro-batches", "slowdown",
    "seed",
    size="Bytes, as weft run has them.",
    paths=(f"Schemes, with commas: {', '.join(analysed_schemes())}.", COMPARED),
    fault=f"A link that is {', or '.join(lasting_lines())}; may be repeated.",
    root="Where there is one.",
    seed="Seed of hashes and order.",
    **{name: help for each in families() for name, help in each.workload_options.items()},
)  # fmt: skip
def paths(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="alltoall, allreduce, allgather, reduce-scatter, broadcast, many-to-one, "
            f"{', '.join(['permutation', *OTHER_WORKLOADS])}.",
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
    from weft.cli.paths import analysis_of, paths_table, write_plot

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
        for note in found.asked["notes"]:
            console.print(f"Note: {note}", markup=False)
        if file is not None:
            console.print(f"Plot: {file.resolve()}", soft_wrap=True, markup=False)


@app.command()
@scenario_options(
    *SHAPE, "oversubscription", "core-oversubscription", "priority-queues", "queue-weights",
    "queue-rates", "queue-depths",
    "switch", "paths", "links", "seed",
    paths=f"{', '.join(unassigned_schemes())}.",
    seed="Seed of hashes.",
)  # fmt: skip
def up(
    options: dict[str, Any],
    file: File = None,
    program: Annotated[
        Texts,
        typer.Option(
            metavar="PROGRAM.p4",
            help="A program of yours, with empty tables; SWITCH=PROGRAM.p4 is that of one switch. "
            "May be repeated. [the fabric's]",
        ),
    ] = None,
    script: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Commands to read in place of the terminal's."),
    ] = None,
    pcap: Annotated[
        Place,
        typer.Option(metavar="DIR", help="Capture every packet at both ends of every link to DIR."),
    ] = None,
    bypass_qdisc: Annotated[
        bool,
        typer.Option(
            "--bypass-qdisc",
            help="Switches send past their interfaces' queueing disciplines: faster, but tc and "
            "captures of what they send have no effect.",
        ),
    ] = False,
    cpu_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="PORT", help="The port to the controller. [510, or the network's]"),
    ] = None,
    no_controller: Annotated[
        bool,
        typer.Option(
            "--no-controller",
            help="Leave the switches to a P4Runtime client of yours: no program but --program's, "
            "no entries, no routes.",
        ),
    ] = False,
    grpc_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            metavar="BASE",
            help="Serve P4Runtime on TCP ports of 127.0.0.1, too: BASE for the first switch, and "
            "so on. [Unix sockets alone]",
        ),
    ] = None,
    out: Annotated[
        Place,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="At the end, write what links carried and switches hold to DIR, with a report.",
        ),
    ] = None,
    include: Includes = None,
    define: Defines = None,
) -> None:
    """Bring a network up and stay: Mininet's prompt, with ping, iperf, links, tables, programs."""
    from weft.cli.up import stay_up
    from weft.interface.standing import Standing
    from weft.topo.worlds.emulated.testbeds import check_grpc_port

    asked = given_network(file, options, program or ())
    scenario = asked.scenario
    if grpc_port is not None:
        check_grpc_port("--grpc-port", grpc_port, len(scenario.network().switches))
    standing = Standing(
        asked.program, pcap=output_folder(pcap, "--pcap"), bypass_qdisc=bypass_qdisc,
        cpu_port=cpu_port, controlled=not no_controller,
        grpc_port=grpc_port, include_dirs=tuple(include or ()), defines=macros(define),
    )  # fmt: skip
    stay = partial(
        stay_up, scenario, standing, console=make_console(stderr=True), out=output_folder(out)
    )
    if script is None:
        stay(sys.stdin)
        return
    from weft.topo.worlds.emulated.testbeds import read_script

    commands = read_script(script, f"script {str(script)!r}")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as read:  # Mininet wants a descriptor
        read.write(commands)
        read.seek(0)
        stay(read, source=str(script))


@app.command()
def load(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4")],
    switch: Annotated[
        Texts, typer.Option(metavar="NAME", help="May be repeated. [all switches]")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Load it again whenever it is saved, until Ctrl-C.")
    ] = False,
    run: RunOption = None,
    include: Includes = None,
    define: Defines = None,
) -> None:
    """Load a P4 program into the switches of a testbed that is up, without taking it down."""
    from weft.cli import load as load_command
    from weft.topo.worlds.emulated.testbeds import find_testbed

    testbed = find_testbed(run)

    def once() -> None:
        load_command.load(testbed, switch or [], program, include or [], macros(define), print)

    once()
    if watch:
        load_command.watch(program, include or [], once, print)
