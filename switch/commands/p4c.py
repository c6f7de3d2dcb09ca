"""``weft p4c``: compile a P4 program, print its warnings, and write what was asked for."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weft.base.errors import refuse
from weft.switch.compiler import CompiledProgram, CompileError, Diagnostic, compile_program
from weft.switch.compiler.diagnostics import WARNINGS
from weft.switch.compiler.outputs import p4info_bytes, write_file


def check_kinds(option: str, kinds: Sequence[str]) -> frozenset[str]:
    """Return the kinds of warnings that an option names; "all" stands for all of them."""
    for kind in kinds:
        known = ", ".join(["all", *WARNINGS])
        refuse(
            kind != "all" and kind not in WARNINGS,
            f"{option} {kind!r} is not a kind of warning: there are {known}",
        )
    return frozenset(WARNINGS) if "all" in kinds else frozenset(kinds)


def place_outputs(program: Path, out: str | None, p4info: Sequence[str]) -> tuple[Path, list[Path]]:
    """Return the files for the JSON and for P4Info; without `p4info` the latter goes beside the
    JSON."""
    if out is not None and out.endswith(".json") and not Path(out).is_dir():
        json = Path(out)
    else:
        folder = Path(out or ".")
        refuse(
            folder.exists() and not folder.is_dir(),
            f"--out {out!r} is a file: name a folder, there already or not, or a file that "
            "ends in .json",
        )
        json = folder / f"{program.stem}.json"
    names = [name for text in p4info for name in text.split(",") if name]
    return json, [Path(name) for name in names] or [json.with_suffix(".p4info.txtpb")]


def report(warnings: Sequence[Diagnostic], disabled: frozenset[str], fatal: frozenset[str]) -> None:
    """Print warnings to stderr; raise `CompileError` with those that are to be errors."""
    shown = [item for item in warnings if item.kind not in disabled]
    for item in shown:
        if item.kind not in fatal:
            print(item, file=sys.stderr)
    errors = [replace(item, severity="error") for item in shown if item.kind in fatal]
    if errors:
        raise CompileError(errors)


def compile_to_files(
    program: Path,
    *,
    out: str | None = None,
    p4info: Sequence[str] = (),
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
    disabled: Sequence[str] = (),
    fatal: Sequence[str] = (),
) -> list[Path]:
    """Compile a program, write the outputs, and return the files that were written.

    Nothing is written if anything is wrong.

    `out` is a folder, or a file whose name ends in .json. Raises `CompileError` and `InputError`.
    """
    quiet, errors = check_kinds("--Wdisable", disabled), check_kinds("--Werror", fatal)
    json, infos = place_outputs(program, out, p4info)
    compiled: CompiledProgram = compile_program(program, include_dirs=include_dirs, defines=defines)
    report(compiled.warnings, quiet, errors)
    contents = [(path, p4info_bytes(compiled, str(path))) for path in infos]
    for path, content in [(json, compiled.bmv2_json.encode()), *contents]:
        write_file(path, content)
    return [json, *infos]
