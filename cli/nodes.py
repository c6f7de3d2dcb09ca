"""Commands on nodes of a testbed that is up, from other terminals: ``weft exec`` and
``weft shell``."""

import sys
from typing import Annotated

import typer

from weft.base.command_line import Text
from weft.base.errors import InputError
from weft.cli.command_line import app

RunOption = Annotated[
    Text, typer.Option("--run", metavar="ID", help="Which testbed, if several are up.")
]


def complete_node(incomplete: str) -> list[str]:
    """Return the nodes of testbeds that are up whose names begin so."""
    from weft.topo.worlds.emulated.testbeds import running_testbeds

    names = dict.fromkeys(name for each in running_testbeds() for name in each.nodes)
    return [name for name in names if name.startswith(incomplete)]


@app.command(name="exec", context_settings={"allow_interspersed_args": False})
def execute(
    name: Annotated[
        str,
        typer.Argument(
            metavar="HOST", help="Or a switch, for its interfaces.", autocompletion=complete_node
        ),
    ],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND")],
    run: RunOption = None,
) -> None:
    """Run a command on a host of a testbed that is up, and end with its status.

    It has this terminal; names of hosts stand for their addresses. Options of the command stand
    behind it, and options of weft exec before the host.
    """
    from weft.topo.worlds.emulated.inside import run_inside
    from weft.topo.worlds.emulated.testbeds import find_testbed

    if command[0] == "--":
        command = command[1:]
    if not command:
        raise InputError("weft exec: write a COMMAND behind the host")
    testbed = find_testbed(run)
    sys.exit(run_inside(testbed.node(name), testbed.run_id, command))


@app.command()
def shell(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Of a host or a switch.", autocompletion=complete_node),
    ],
    run: RunOption = None,
) -> None:
    """Open a shell on a host of a testbed that is up, or p4runtime-shell on a switch."""
    from weft.cli.shell_environment import open_shell
    from weft.topo.worlds.emulated.inside import run_inside, shell_command
    from weft.topo.worlds.emulated.testbeds import find_testbed

    testbed = find_testbed(run)
    if name in testbed.switches:
        open_shell(name, testbed.switches[name])
    sys.exit(run_inside(testbed.node(name), testbed.run_id, shell_command(name)))
