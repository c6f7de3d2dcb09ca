"""Commands for a testbed that stays up: ``weft up``, ``weft shell``, ``weft load``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from weft.base.command_line import Text, Texts, macros, make_console
from weft.base.errors import InputError
from weft.base.files import read_text
from weft.experiments.commands.network import SHAPE
from weft.experiments.commands.scenario_options import scenario_options
from weft.switch.commands.command_line import Defines, Includes

RunOption = Annotated[
    Text, typer.Option("--run", metavar="ID", help="Which testbed, if several are up.")
]


@scenario_options(
    *SHAPE, "oversubscription", "switch", "paths", "links", "seed",
    paths="ecmp, destination, spray, spray-round-robin. [ecmp]",
    seed="Seed of hashes. [1]",
)  # fmt: skip
def up(
    options: dict[str, Any],
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

    scenario = from_options({"collective": "allgather", **options})
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
