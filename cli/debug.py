"""``weft debug``: a P4 program, or a switch that runs one, stopped and looked at."""

import os
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from weft.base.command_line import Text, Texts, macros
from weft.base.errors import InputError, refuse
from weft.cli.command_line import app
from weft.switch.commands.command_line import Defines, Includes


@app.command()
def debug(
    program: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="[PROGRAM.p4|PROGRAM.json]", show_default=False),
    ] = None,
    test: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="[TEST.stf]", help="Its packets, one after the other."),
    ] = None,
    packet: Annotated[
        Texts,
        typer.Option("--packet", metavar="PORT:HEX", help="A packet; may be repeated."),
    ] = None,
    priority_queues: Annotated[
        int,
        typer.Option(
            "--priority-queues", metavar="N", help="Queues of each port, for priorities 0 to N-1."
        ),
    ] = 1,
    dap: Annotated[
        bool,
        typer.Option(
            "--dap", help="Speak the debug adapter protocol on standard input and output."
        ),
    ] = False,
    attach: Annotated[
        Text,
        typer.Option(
            "--attach",
            metavar="SWITCH",
            help="Debug the packets of a switch of a network that is up, or with --socket.",
        ),
    ] = None,
    run: Annotated[
        Text, typer.Option("--run", metavar="ID", help="Which network, if several are up.")
    ] = None,
    socket: Annotated[
        Text,
        typer.Option("--socket", metavar="SOCKET", help="That of weft switch --debug-socket."),
    ] = None,
    include: Includes = None,
    define: Defines = None,
) -> None:
    """Debug a v1model program: stop at lines, states, tables and actions; step; look at headers,
    metadata and variables, and change them."""
    from weft.switch.commands import debug as debug_command
    from weft.switch.priority_queues import check_priority_queues

    if attach is not None:
        given = program or test or packet or include or define or priority_queues != 1
        refuse(given, "--attach debugs what runs: no program, test or packet goes with it")
        _attach(attach, run, socket, dap=dap)
        return
    refuse(run or socket, "--run and --socket say where the switch of --attach is: name one")
    if dap:
        # A thread reads until the end of the process, which would wait for Python's own stdin.
        incoming = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
        debug_command.serve_editor(incoming, sys.stdout.buffer, program, include or [])
        return
    if program is None:
        raise InputError("no program is named: weft debug PROGRAM.p4 [TEST.stf]")
    check_priority_queues(priority_queues)
    source, debugger = debug_command.load(
        program, test, packet or [], include or [], macros(define), priority_queues
    )
    sys.exit(debug_command.run(source, debugger))


def _attach(switch: str, run: str | None, socket: str | None, *, dap: bool) -> None:
    """Debug a switch of a process that runs."""
    from weft.switch.commands.attach import attach
    from weft.topo.worlds.emulated.watching import find_run

    refuse(run and socket, "--run and --socket: the switch is in one process, name it once")
    path = Path(socket) if socket else find_run(run).socket
    attach(path, switch, dap=dap)
