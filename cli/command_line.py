"""The ``weft`` command.

Exit status: 0 done, and every run's data verified; 1 a run failed or did not verify; 2 bad input,
or the machine lacks something; 130 interrupted; 143 terminated.
"""

import gc
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from weft.base import VERSION, signals, streams
from weft.base.errors import InputError, WeftError
from weft.base.files import NO_WORKING_FOLDER, working_folder
from weft.base.limits import shortage

COMMANDS = {
    "run": (
        "weft.cli.run",
        "Run a collective, or a scenario file, and verify every byte of its result.",
    ),
    "demo": (
        "weft.cli.demo",
        "Allgather of 1 MiB per rank, ring and multicast, on 4 leaves, 2 spines and 8 hosts.",
    ),
    "p4c": ("weft.cli.programs", "Compile a v1model or PSA program to BMv2 JSON and P4Info."),
    "stf": (
        "weft.cli.programs",
        "Run packet tests (STF) of a program on the built-in switch, without root.",
    ),
    "debug": (
        "weft.cli.debug",
        "Debug a v1model program: stop at lines, states, tables and actions; step; look at "
        "headers, metadata and variables, and change them.",
    ),
    "ptf": (
        "weft.cli.programs",
        "Run p4lang's PTF tests of a program on the built-in switch, in a namespace of their own.",
    ),
    "lsp": (
        "weft.cli.programs",
        "Serve editors that speak the language server protocol, on standard input and output: "
        "errors while a P4 program is written, definitions, types, completion.",
    ),
    "switch": (
        "weft.cli.programs",
        "Run one built-in switch in place of simple_switch_grpc: weft switch --help.",
    ),
    "topology": (
        "weft.cli.network",
        "Draw a network (SVG) and list its links, without bringing it up.",
    ),
    "paths": (
        "weft.cli.network",
        "Say what every link carries under each path scheme, at once, without packets.",
    ),
    "simulate": (
        "weft.cli.simulate",
        "Carry flows that other programs send as lines of JSON, in virtual time.",
    ),
    "trace": (
        "weft.cli.way",
        "Show a packet's way through a network, or all its ways, without bringing it up.",
    ),
    "report": (
        "weft.cli.results",
        "Make one self-contained HTML page of a results folder: of 'weft run' or 'weft up --out'.",
    ),
    "plot": ("weft.cli.results", "Draw the plots of a results folder anew, as SVG and PNG."),
    "export": (
        "weft.cli.results",
        "Write results as a flat table, for spreadsheets and data frames.",
    ),
    "compare": (
        "weft.cli.results",
        "Compare two results folders: what was asked differently, times, bytes, verdicts.",
    ),
    "doctor": (
        "weft.cli.machine",
        "Say what this machine can do, what is missing, and how to get it.",
    ),
    "clean": ("weft.cli.machine", "Remove what killed runs left behind, and only that."),
    "prepare": ("weft.cli.machine", ""),
    "up": (
        "weft.cli.network",
        "Bring a network up and stay: Mininet's prompt, with ping, iperf, links, tables, programs.",
    ),
    "exec": (
        "weft.cli.nodes",
        "Run a command on a host of a testbed that is up, and end with its status.",
    ),
    "shell": (
        "weft.cli.nodes",
        "Open a shell on a host of a testbed that is up, or p4runtime-shell on a switch.",
    ),
    "cli": (
        "weft.cli.switch_commands",
        "Run commands of BMv2's simple_switch_CLI on a switch that is up.",
    ),
    "top": (
        "weft.cli.top",
        "Show what links of a network that is up carry, queue and drop, and how often packets hit "
        "and miss tables of its switches, as it goes on.",
    ),
    "load": (
        "weft.cli.network",
        "Load a P4 program into the switches of a testbed that is up, without taking it down.",
    ),
}
"""All commands in the order of the help: the module of each, which adds it to `app`, and the first
paragraph of its help; without one, it is hidden."""
GROUPS = {
    "torch": (
        "weft.cli.torch",
        "Run programs of PyTorch on the hosts of a network of P4 switches.",
    ),
}
"""The same of groups of commands, which help has last."""


class Commands(TyperGroup):
    """All commands; the one that is called is imported, all others are lines of the help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.homes = {**COMMANDS, **GROUPS}
        self.imported = self.commands
        self.commands = {
            name: TyperCommand(name, help=about, hidden=not about)
            for name, (_, about) in self.homes.items()
        }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words before the command."""
        _read_words(self, ctx)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command that is called, the command, and what it is given."""
        name, command, given = super().resolve_command(ctx, args)
        if name is not None:
            with signals.signals_held():  # as `weft.__getattr__` does
                import_module(self.homes[name][0])
            anew: Any = get_group(app)
            command = anew.imported[name]
            _read_words(command, ctx)
        return name, command, given


class _Words:
    """How what is given for a parameter is read: text, or nothing, as it is. typer reads all values
    by pydantic, whose import takes longer than all else that the command line needs."""

    def __init__(self, parameter: Any) -> None:
        self._kind, self._typers = parameter.type_descriptor.annotation, parameter.get_runtime_param

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Return what a value, as it was written, means for a parameter."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if self._kind is str and isinstance(value, str):
            return value
        if self._kind == list[str] and isinstance(value, tuple | list):
            return list(value)
        return self._typers().coerce(value, param=param, ctx=ctx)


def _read_words(command: Any, ctx: Any) -> None:
    for parameter in command.get_params(ctx):  # with --help
        if hasattr(parameter, "type_descriptor"):
            words = _Words(parameter)
            parameter.get_runtime_param = lambda words=words: words


app = typer.Typer(
    name="weft",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A packet-level testbed for network-offloaded collectives on P4 switches.",
    epilog="Exit status: 0 done and verified; 1 a run failed or did not verify; 2 bad input or the "
    "machine lacks something; 130 interrupted; 143 terminated.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"weft {VERSION}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print Weft's version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    """What all commands take."""


def main() -> NoReturn:
    """Run the command line; never returns."""
    streams.open_closed()
    signals.end_on_signals()
    streams.guard()
    try:
        try:
            app(prog_name="weft")
        except WeftError as error:
            _fail(error)
        except (OSError, MemoryError, RuntimeError, ImportError, SystemError) as error:
            if isinstance(error, FileNotFoundError) and not working_folder():
                _fail(InputError(NO_WORKING_FOLDER))
            told = shortage(error)
            if told is None:
                raise
            _fail(told)
        finally:
            streams.flush()
            gc.freeze()  # what there is goes with the process, and need not be looked through
    except WeftError as error:  # standard output takes no more
        _fail(error)
    finally:
        signals.leave()
    sys.exit(0)


def _fail(error: WeftError) -> NoReturn:
    print(f"weft: {error}", file=sys.stderr)
    sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
