"""Commands for P4 programs without a network: ``weft p4c``, ``weft stf``, ``weft switch``."""

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from weft.base.command_line import Place, Text, Texts, macros, output_file
from weft.base.errors import InputError, refuse

Includes = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("-I", help="Folder to look for includes in; may be repeated."),
]
Defines = Annotated[
    Texts, typer.Option("-D", help="NAME or NAME=VALUE for the preprocessor; may be repeated.")
]


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
    include: Includes = None,
    define: Defines = None,
    disabled: Annotated[
        Texts, typer.Option("--Wdisable", metavar="KIND", help="Warnings not to be given, or all.")
    ] = None,
    fatal: Annotated[
        Texts, typer.Option("--Werror", metavar="KIND", help="Warnings to be errors, or all.")
    ] = None,
    language: Annotated[
        Text, typer.Option("--p4v", "--std", metavar="16", help="The version of P4: only P4_16.")
    ] = None,
    target: Annotated[
        Text, typer.Option("-b", "--target", metavar="bmv2", help="As p4c's: only bmv2.")
    ] = None,
    architecture: Annotated[
        Text, typer.Option("-a", "--arch", metavar="v1model", help="As p4c's: only v1model.")
    ] = None,
) -> None:
    """Compile a v1model program to BMv2 JSON and P4Info."""
    from weft.switch.commands.p4c import compile_to_files

    refuse(
        language not in (None, "16", "p4-16", "p4_16"),
        f"--p4v {language!r}: only P4_16 can be compiled, so leave it or write 16",
    )
    for option, asked, only in (("--target", target, "bmv2"), ("--arch", architecture, "v1model")):
        refuse(
            asked not in (None, only),
            f"{option} {asked!r}: there is {only} alone, which need not be said",
        )
    written = compile_to_files(
        program, out=None if out is None else str(output_file(out)), p4info=p4info or [],
        include_dirs=include or [], defines=macros(define), disabled=disabled or [],
        fatal=fatal or [],
    )  # fmt: skip
    for path in written:
        print(path)


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
    """Run packet tests (STF) of a v1model program on the built-in switch, without root."""
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


def switch(
    arguments: Annotated[
        Texts, typer.Argument(metavar="[OPTIONS] PROGRAM.p4|PROGRAM.json|--no-p4")
    ] = None,
) -> None:
    """Run one P4 switch on interfaces of this namespace, until it is told to end."""
    from weft.switch.commands.switch import run_switch

    run_switch(arguments or [])
