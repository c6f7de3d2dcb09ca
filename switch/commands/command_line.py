"""Commands for P4 programs without a network: ``weft p4c``, ``weft stf``, ``weft debug``, ``weft
switch``."""

import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand

from weft.base import VERSION
from weft.base.command_line import Place, Text, Texts, macros, output_file
from weft.base.errors import InputError, MachineError, refuse
from weft.switch.architecture_names import ARCHITECTURES

Includes = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("-I", help="Folder to look for includes in; may be repeated."),
]
Defines = Annotated[
    Texts, typer.Option("-D", help="NAME or NAME=VALUE for the preprocessor; may be repeated.")
]


class P4cCommand(TyperCommand):
    """``weft p4c``, some of whose options may be given without a value, as p4c has them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments: ``--Werror`` alone means all kinds of warnings."""
        from weft.switch.commands.p4c import KINDS

        given: list[str] = []
        for place, text in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else ""
            alone = text in ("--Wdisable", "--Werror", "--Wwarn")
            given.append(f"{text}=all" if alone and following not in KINDS else text)
        return super().parse_args(ctx, given)


def _p4c_version(asked: bool) -> None:
    if asked:
        print(f"weft p4c {VERSION}, P4_16 1.2.5")
        raise typer.Exit


def p4c(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4")],
    out: Annotated[
        Place,
        typer.Option("-o", "--out", metavar="DIR|FILE.json", help="Where to write to. [.]"),
    ] = None,
    p4info: Annotated[
        Texts,
        typer.Option(
            "--p4info",
            "--p4runtime-files",
            metavar="FILE",
            help="P4Info: .txtpb or .txt as text, .bin or .pb binary, .json; may be repeated. "
            "[PROGRAM.p4info.txtpb beside the JSON]",
        ),
    ] = None,
    described: Annotated[
        Text,
        typer.Option(
            "--p4runtime-file", metavar="FILE", help="P4Info in the format of --p4runtime-format."
        ),
    ] = None,
    p4info_format: Annotated[
        str,
        typer.Option(
            "--p4runtime-format", metavar="binary|json|text", help="[binary]", show_default=False
        ),
    ] = "binary",
    entries: Annotated[
        Texts,
        typer.Option(
            "--p4runtime-entries-files",
            "--p4runtime-entries-file",
            metavar="FILE",
            help="The entries that tables have in the program, as P4Runtime's WriteRequest; "
            "endings as --p4info's.",
        ),
    ] = None,
    preprocess_only: Annotated[
        bool, typer.Option("-E", help="Print the preprocessed program, and write nothing.")
    ] = False,
    pretty: Annotated[
        Text,
        typer.Option("--pp", metavar="FILE", help="The program in one file, without macros."),
    ] = None,
    tree: Annotated[
        Text,
        typer.Option("--toJSON", metavar="FILE", help="The checked syntax tree as JSON."),
    ] = None,
    include: Includes = None,
    define: Defines = None,
    undefine: Annotated[
        Texts, typer.Option("-U", help="NAME that -D is not to define; may be repeated.")
    ] = None,
    disabled: Annotated[
        Texts, typer.Option("--Wdisable", metavar="[KIND]", help="Warnings not to be given.")
    ] = None,
    fatal: Annotated[
        Texts, typer.Option("--Werror", metavar="[KIND]", help="Warnings to be errors.")
    ] = None,
    shown: Annotated[
        Texts,
        typer.Option(
            "--Wwarn",
            metavar="[KIND]",
            help="Warnings to be given, although all others are disabled or errors.",
        ),
    ] = None,
    diagnostics: Annotated[
        str,
        typer.Option(
            "--diagnostics",
            metavar="text|json",
            help="How errors and warnings are printed to stderr: json is an object a line. [text]",
            show_default=False,
        ),
    ] = "text",
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Compile anew whenever a file of the program changes."),
    ] = False,
    language: Annotated[
        Text, typer.Option("--p4v", "--std", metavar="16", help="The version of P4: only P4_16.")
    ] = None,
    target: Annotated[
        Text, typer.Option("-b", "--target", metavar="bmv2", help="As p4c's: only bmv2.")
    ] = None,
    architecture: Annotated[
        Text,
        typer.Option(
            "-a",
            "--arch",
            metavar="|".join(ARCHITECTURES),
            help="What the program must be for. [what it includes]",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the compiler's version.", is_eager=True, callback=_p4c_version
        ),
    ] = False,
) -> None:
    """Compile a v1model or PSA program to BMv2 JSON and P4Info."""
    from weft.switch.commands import p4c as command

    refuse(
        (language or "16").lower() not in ("16", "p4-16", "p4_16"),
        f"--p4v {language!r}: only P4_16 can be compiled, so leave it or write 16",
    )
    refuse(
        target not in (None, "bmv2"),
        f"--target {target!r}: there is bmv2 alone, which need not be said",
    )
    for option, value, known in (
        ("--p4runtime-format", p4info_format, tuple(command.FORMATS)),
        ("--diagnostics", diagnostics, ("text", "json")),
    ):
        if value not in known:
            raise InputError(f"{option} {value!r}: there are {', '.join(known)}")
    asked_macros = macros(define)
    for name in macros(undefine, "-U"):
        asked_macros.pop(name, None)
    request = command.CompilerRequest(
        program,
        out=None if out is None else str(output_file(out)),
        p4info=p4info or [],
        include_dirs=include or [],
        defines=asked_macros,
        kinds=command.WarningKinds.asked(disabled or [], fatal or [], shown or []),
        extras=command.Extras(pretty, tree, entries or [], described, p4info_format),
        as_json=diagnostics == "json",
        architecture=architecture,
    )
    if preprocess_only:
        command.print_preprocessed(request)
    elif watch:
        command.watch_program(request)
    else:
        command.compile_and_tell(request)


def stf(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4|PROGRAM.json")],
    tests: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(metavar="TEST.stf...", help="[PROGRAM.stf]", show_default=False),
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Run the program as machine code (seconds more).")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Packets at ports that a test does not name are failures."),
    ] = False,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Print what every packet of the tests went through."),
    ] = False,
    priority_queues: Annotated[
        int,
        typer.Option(
            "--priority-queues", metavar="N", help="Queues of each port, for priorities 0 to N-1."
        ),
    ] = 1,
    include: Includes = None,
    define: Defines = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Run packet tests (STF) of a program on the built-in switch, without root."""
    from weft.base.console import make_console
    from weft.switch.commands import stf as stf_command

    if not tests and not (beside := program.with_suffix(".stf")).is_file():
        raise InputError(f"no test is named, and there is no {str(beside)!r}: stf PROGRAM TEST.stf")
    text = stf_command.load_program(program, include or [], macros(define))
    outcomes = stf_command.run_tests(
        program, text, tests or [beside], compiled=compiled, strict=strict, trace=trace,
        priority_queues=priority_queues,
    )  # fmt: skip
    if as_json:
        stf_command.print_json(program, outcomes)
    else:
        stf_command.print_text(outcomes, make_console(), make_console(stderr=True))
    sys.exit(stf_command.exit_status(outcomes))


def ptf(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4|PROGRAM.json")],
    tests: Annotated[Path, typer.Argument(metavar="TESTDIR", help="PTF's tests.")],
    given: Annotated[Texts, typer.Argument(metavar="[-- PTF OPTIONS]")] = None,
    ports: Annotated[
        int,
        typer.Option("--ports", metavar="N", help="Ports 0 to N-1: veth0, veth2 and so on."),
    ] = 8,
    cpu_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--cpu-port", metavar="PORT", help="Port to the controller. [none]"),
    ] = None,
    include: Includes = None,
    define: Defines = None,
) -> None:
    """Run p4lang's PTF tests of a program on the built-in switch, in a namespace of their own."""
    from weft.switch.commands.ptf import run_tests

    sys.exit(
        run_tests(
            program, tests, given or [], ports=ports, cpu_port=cpu_port,
            include_dirs=include or [], defines=define or [],
        )
    )  # fmt: skip


def switch(
    arguments: Annotated[
        Texts, typer.Argument(metavar="[OPTIONS] PROGRAM.p4|PROGRAM.json|--no-p4")
    ] = None,
) -> None:
    """Run one P4 switch on interfaces of this namespace, until it is told to end."""
    from weft.switch.commands.switch import run_switch

    run_switch(arguments or [])


def lsp(include: Includes = None) -> None:
    """Serve editors that speak the language server protocol, on standard input and output: errors
    while a P4 program is written, definitions, types, completion."""
    from importlib.util import find_spec

    if find_spec("pygls") is None:
        raise MachineError(
            "weft lsp needs the package pygls, which is not installed: run "
            f"'{sys.executable} -m pip install pygls==2.1.1', or install weft[lsp]"
        )
    from weft.switch.language_server.server import make_server

    make_server(include or []).start_io()
