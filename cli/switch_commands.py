"""``weft cli``: commands of BMv2's simple_switch_CLI, from a text or as they are typed."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from weft.base.command_line import Text
from weft.base.errors import InputError
from weft.cli.command_line import app
from weft.cli.nodes import RunOption

DEVICE = Optional[int]  # noqa: UP045


def complete_switch(incomplete: str) -> list[str]:
    """Return the switches of testbeds that are up whose names begin so."""
    from weft.topo.worlds.emulated.testbeds import running_testbeds

    names = dict.fromkeys(name for each in running_testbeds() for name in each.switches)
    return [name for name in names if name.startswith(incomplete)]


@app.command(name="cli")
def switch_cli(
    name: Annotated[
        Text,
        typer.Argument(metavar="SWITCH", help="[the only one]", autocompletion=complete_switch),
    ] = None,
    commands: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--commands", metavar="FILE", help="Take them from a file. [standard input]"),
    ] = None,
    grpc_addr: Annotated[
        Text,
        typer.Option(
            "--grpc-addr",
            metavar="ADDRESS",
            help="Of any switch that runs: HOST:PORT or unix:PATH, where it serves P4Runtime.",
        ),
    ] = None,
    device_id: Annotated[
        DEVICE,
        typer.Option("--device-id", metavar="N", help="Its device id, with --grpc-addr. [0]"),
    ] = None,
    run: RunOption = None,
) -> None:
    """Run commands of BMv2's simple_switch_CLI on a switch that is up.

    At a terminal there is a prompt. What fails is told with its line, and the next command is read;
    the exit status is that of the first failure.
    """
    from weft.controller.bmv2_cli.run import PROMPT, run_commands
    from weft.topo.worlds.emulated.testbeds import read_script

    lines: Any = sys.stdin
    if commands is not None:
        lines = read_script(commands, f"commands {str(commands)!r}")
    with closing(_session(name, grpc_addr, device_id, run)) as session:
        if commands is None and sys.stdin.isatty():
            from weft.cli.switch_prompt import SwitchPrompt

            SwitchPrompt(session).run()
            return
        failures = run_commands(
            lines,
            session,
            "standard input" if commands is None else str(commands),
            lambda line: print(line, flush=True),
            begin=lambda: print(PROMPT, end="", flush=True),
            fail=lambda failure: print(failure, file=sys.stderr, flush=True),
        )
    print()
    if failures:
        raise typer.Exit(failures[0].error.exit_status)


def _session(name: str | None, address: str | None, device_id: int | None, run: str | None) -> Any:
    """Return a session with a switch of a testbed, or with that at an address."""
    from weft.controller.client import Session
    from weft.topo.worlds.emulated.testbeds import find_testbed

    if address is not None:
        if name is not None or run is not None:
            raise InputError("--grpc-addr names a switch: leave SWITCH and --run out")
        if ":" not in address:
            raise InputError(f"--grpc-addr {address!r}: write HOST:PORT or unix:PATH")
        return Session("the switch", device_id or 0, address, election_id=None)
    if device_id is not None:
        raise InputError("--device-id is for --grpc-addr; the switches of a testbed have theirs")
    testbed = find_testbed(run)
    if name is None and len(testbed.switches) > 1:
        raise InputError(
            f"which switch: testbed {testbed.run_id} has {', '.join(testbed.switches)}"
        )
    ((found, switch),) = testbed.choose([name] if name else []).items()
    return Session(found, switch.device_id, switch.address, election_id=None)
