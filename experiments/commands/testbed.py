"""Commands for a testbed that stays up: ``weft up``, ``weft shell``, ``weft load``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Optional

import typer

from weft.base.command_line import Text, Texts, given, make_console
from weft.base.errors import InputError
from weft.base.files import read_text
from weft.experiments.commands.network_options import (
    HostsPerLeaf,
    K,
    Leaves,
    Oversubscription,
    Rate,
    Spines,
    Tiers,
    TopologyOption,
)
from weft.switch.commands.arguments import Defines, Includes, macros

RunOption = Annotated[
    Text, typer.Option("--run", metavar="ID", help="Which testbed, if several are up.")
]


def up(
    topology: TopologyOption = None,
    leaves: Leaves = None,
    spines: Spines = None,
    hosts_per_leaf: HostsPerLeaf = None,
    k: K = None,
    tiers: Tiers = None,
    rate: Rate = None,
    oversubscription: Oversubscription = None,
    switch: Annotated[
        Text, typer.Option(help="weft (built in) or bmv2 (simple_switch_grpc). [weft]")
    ] = None,
    paths: Annotated[
        Text, typer.Option(help="ecmp, destination, spray, spray-round-robin. [ecmp]")
    ] = None,
    links: Annotated[
        Text,
        typer.Option(help="Between built-in switches: veth pairs, or patch, in process. [veth]"),
    ] = None,
    seed: Annotated[Text, typer.Option(metavar="N", help="Seed of hashes. [1]")] = None,
    program: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="PROGRAM.p4", help="A program of yours, with empty tables. [the fabric's]"
        ),
    ] = None,
    script: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Commands to read in place of the terminal's."),
    ] = None,
) -> None:
    """Bring a network up and stay: Mininet's prompt, with ping, iperf, links, tables, programs."""
    from weft.experiments.commands.up import stay_up
    from weft.experiments.scenario.options import from_options

    options = given(
        collective="allgather", topology=topology, leaves=leaves, spines=spines,
        hosts_per_leaf=hosts_per_leaf, k=k, tiers=tiers, rate=rate, switch=switch, paths=paths,
        links=links, oversubscription=oversubscription, seed=seed,
    )  # fmt: skip
    scenario = from_options(options)
    console = make_console(stderr=True)
    if script is None:
        stay_up(scenario, program, sys.stdin, console)
        return
    from weft.topo.worlds.emulated.testbeds import MOST_SCRIPT_BYTES

    try:
        commands = read_text(script, MOST_SCRIPT_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"script {str(script)!r}: {reason}") from None
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:  # Mininet wants a descriptor
        file.write(commands)
        file.seek(0)
        stay_up(scenario, program, file, console)


def shell(
    name: Annotated[str, typer.Argument(metavar="SWITCH")],
    run: RunOption = None,
) -> None:
    """Open p4runtime-shell on a switch of a testbed that is up."""
    from weft.experiments.commands.shell import open_shell
    from weft.topo.worlds.emulated.testbeds import find_testbed

    open_shell(name, find_testbed(run).choose([name])[name])


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
    from weft.experiments.commands import load as load_command
    from weft.topo.worlds.emulated.testbeds import find_testbed

    switches = find_testbed(run).choose(switch or [])

    def once() -> None:
        load_command.load(switches, program, include or [], macros(define), print)

    once()
    if watch:
        load_command.watch(program, include or [], once, print)
