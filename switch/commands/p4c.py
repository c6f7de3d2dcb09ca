"""``weft p4c``: compile a P4 program, print its warnings, and write what was asked for."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.base.errors import InputError, refuse
from weft.switch.commands.watching import files_of, watch
from weft.switch.compiler import CompiledProgram, CompileError, Diagnostic, compile_program
from weft.switch.compiler.diagnostics import WARNINGS
from weft.switch.compiler.driver import run_deep
from weft.switch.compiler.emit.tree_json import tree_text
from weft.switch.compiler.outputs import entries_bytes, p4info_bytes, write_file
from weft.switch.compiler.parse.preprocess import preprocess
from weft.switch.compiler.parse.printing import preprocessed_text, pretty_text

NEVER_GIVEN = frozenset(
    {
        "duplicate-priorities", "entries-out-of-priority-order", "failed", "ignore-prop", "invalid",
        "legacy", "missing", "ordering", "overflow", "parser-transition", "type-inference",
        "uninitialized", "unknown", "unsupported",
    }
)  # fmt: skip
"""The kinds of warnings that only p4c has; builds that name them are taken as they are."""
KINDS = {"all", *WARNINGS, *NEVER_GIVEN}


def check_kinds(option: str, kinds: Sequence[str]) -> frozenset[str]:
    """Return the kinds of warnings that an option names; "all" stands for all of them."""
    named = [kind.replace("_", "-") for text in kinds for kind in text.split(",") if kind]
    for kind in named:
        known = ", ".join(["all", *WARNINGS])
        refuse(
            kind not in KINDS,
            f"{option} {kind!r} is not a kind of warning: there are {known}",
        )
    return frozenset(WARNINGS) if "all" in named else frozenset(named)


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
    return json, [Path(name) for name in _listed(p4info)] or [json.with_suffix(".p4info.txtpb")]


@dataclass(frozen=True)
class WarningKinds:
    """What becomes of warnings, by their kinds. Those that are `shown` are neither left out nor
    errors because ``all`` of them are."""

    disabled: frozenset[str] = frozenset()
    fatal: frozenset[str] = frozenset()

    @classmethod
    def asked(
        cls, disabled: Sequence[str] = (), fatal: Sequence[str] = (), shown: Sequence[str] = ()
    ) -> "WarningKinds":
        """Return what ``--Wdisable``, ``--Werror`` and ``--Wwarn`` ask for; raise `InputError` for
        a kind that there is none of."""
        usual = check_kinds("--Wwarn", [kind for kind in shown if kind != "all"])
        quiet, errors = check_kinds("--Wdisable", disabled), check_kinds("--Werror", fatal)
        return cls(
            quiet - usual if "all" in disabled else quiet,
            errors - usual if "all" in fatal else errors,
        )


def print_diagnostics(diagnostics: Sequence[Diagnostic], as_json: bool) -> None:
    """Print diagnostics to stderr: as text, or one JSON object a line."""
    for item in diagnostics:
        print(json_line(item) if as_json else item, file=sys.stderr)


def json_line(item: Diagnostic) -> str:
    """Return a diagnostic as one line of JSON. Lines and columns count from 1; they are 0 where it
    is about no place."""
    fields = ("file", "line", "column", "length", "severity", "kind", "message")
    return json.dumps({name: getattr(item, name) for name in fields})


def report(warnings: Sequence[Diagnostic], kinds: WarningKinds, as_json: bool = False) -> None:
    """Print warnings to stderr; raise `CompileError` with those that are to be errors."""
    shown = [item for item in warnings if item.kind not in kinds.disabled]
    print_diagnostics([item for item in shown if item.kind not in kinds.fatal], as_json)
    errors = [replace(item, severity="error") for item in shown if item.kind in kinds.fatal]
    if errors:
        raise CompileError(errors)


@dataclass(frozen=True)
class Extras:
    """What may be written of a program besides BMv2 JSON and P4Info: files, or none."""

    pretty: str | None = None
    """The program in one file, without comments and macros."""
    tree: str | None = None
    """Its syntax tree as JSON."""
    entries: Sequence[str] = ()
    """The entries of its tables, as P4Runtime's WriteRequest."""
    described: str | None = None
    """P4Info in the `format` that is named, whatever the file is called."""
    format: str = "binary"


@dataclass(frozen=True)
class CompilerRequest:
    """What ``weft p4c`` is asked for. `out` is a folder, or a file whose name ends in .json."""

    program: Path
    out: str | None = None
    p4info: Sequence[str] = ()
    include_dirs: Sequence[Path] = ()
    defines: Mapping[str, str | None] | None = None
    kinds: WarningKinds = WarningKinds()
    extras: Extras = Extras()
    as_json: bool = False
    architecture: str | None = None
    """What the program must be for, if anything is said."""


def check_architecture(asked: str | None, found: str) -> None:
    """Raise `InputError` if a program is not for the architecture that ``--arch`` names."""
    if asked is None:
        return
    from weft.switch.compiler.architectures.registry import known

    names = sorted(each.name for each in known())
    if asked not in names:
        raise InputError(f"--arch {asked!r}: there are {', '.join(names)}")
    refuse(
        asked != found,
        f"--arch {asked!r}: the program is for {found}, as its include says and its 'main'",
    )


def compile_to_files(
    program: Path,
    *,
    out: str | None = None,
    p4info: Sequence[str] = (),
    disabled: Sequence[str] = (),
    fatal: Sequence[str] = (),
    shown: Sequence[str] = (),
) -> list[Path]:
    """Compile a program, write the outputs, and return the files that were written; the options
    are those of `CompilerRequest` and `WarningKinds`."""
    kinds = WarningKinds.asked(disabled, fatal, shown)
    return write_program(CompilerRequest(program, out, p4info, kinds=kinds))


def write_program(request: CompilerRequest) -> list[Path]:
    """Compile a program, write the outputs, and return the files that were written.

    Nothing is written if anything is wrong. Raises `CompileError` and `InputError`.
    """
    program, extras = request.program, request.extras
    given = {"include_dirs": request.include_dirs, "defines": request.defines}
    main, infos = place_outputs(program, request.out, request.p4info)
    if extras.described is not None and not request.p4info:
        infos = []
    compiled: CompiledProgram = compile_program(program, **given)  # type: ignore[arg-type]
    check_architecture(request.architecture, compiled.p4info.pkg_info.arch)
    report(compiled.warnings, request.kinds, request.as_json)
    contents = [(main, compiled.bmv2_json.encode())]
    contents += [(path, p4info_bytes(compiled, str(path))) for path in infos]
    if extras.described is not None:
        ending = FORMATS[extras.format]
        contents.append((Path(extras.described), p4info_bytes(compiled, f"p4info{ending}")))
    contents += [(Path(name), entries_bytes(compiled, name)) for name in _listed(extras.entries)]
    if extras.pretty is not None:
        text = preprocess(program, request.include_dirs, request.defines)
        pretty = pretty_text(text, request.defines or {})
        contents.append((Path(extras.pretty), pretty.encode()))
    if extras.tree is not None:
        tree = compiled.tree
        contents.append((Path(extras.tree), run_deep(lambda: tree_text(tree)).encode()))
    for path, content in contents:
        write_file(path, content)
    return [path for path, _ in contents]


def print_preprocessed(request: CompilerRequest) -> None:
    """Print a program as the preprocessor leaves it."""
    text = preprocess(request.program, request.include_dirs, request.defines)
    print(preprocessed_text(text), end="")


def compile_and_tell(request: CompilerRequest) -> None:
    """Compile a program, and print which files were written. Raises `CompileError` and
    `InputError`; errors that are to be JSON are printed, and end the command."""
    try:
        written = write_program(request)
    except CompileError as error:
        if not request.as_json:
            raise
        print_diagnostics(error.diagnostics, as_json=True)
        raise SystemExit(error.exit_status) from None
    for path in written:
        print(path, flush=True)


def watch_program(request: CompilerRequest) -> None:
    """Compile a program, and again whenever one of its files has changed, until Ctrl-C."""

    def compile_once() -> None:
        try:
            compile_and_tell(request)
        except InputError as error:
            print(f"weft: {error}", file=sys.stderr)
        except SystemExit:
            return

    watch(
        compile_once,
        lambda: files_of(request.program, request.include_dirs, request.defines),
    )


FORMATS = {"binary": ".bin", "json": ".json", "text": ".txtpb"}
"""What ``--p4runtime-format`` takes, with the endings of files in these formats."""


def _listed(texts: Sequence[str]) -> list[str]:
    """Return the names in lists that commas separate."""
    return [name for text in texts for name in text.split(",") if name]
