"""What a P4 program compiles to, and its files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf import json_format, text_format

from weft.base.errors import InputError
from weft.base.files import write_whole
from weft.switch.compiler.diagnostics import Diagnostic

P4INFO_ENDINGS = (".txtpb", ".txt", ".bin", ".pb", ".json")


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program holds all that a program compiles to. The same source always gives the
    same text, byte for byte."""

    bmv2_json: str
    p4info: Any
    p4info_text: str
    warnings: tuple[Diagnostic, ...] = ()
    entries: Any = field(default=None, compare=False, repr=False)
    """P4Runtime's WriteRequest of the entries that the program gives its tables."""
    tree: Any = field(default=None, compare=False, repr=False)
    """The checked syntax tree."""


@dataclass(frozen=True)
class ProgramFiles:
    """These are the files of a compiled program on disk."""

    json: Path
    p4info: Path


def write_outputs(program: CompiledProgram, stem: str, folder: Path) -> ProgramFiles:
    """Write ``<stem>.json`` and ``<stem>.p4info.txtpb`` into a folder, which is made if need be.

    Raises `InputError` where they cannot be written.
    """
    files = ProgramFiles(folder / f"{stem}.json", folder / f"{stem}.p4info.txtpb")
    try:
        write_whole(files.json, program.bmv2_json, folders=True, keep=True)
        write_whole(files.p4info, program.p4info_text, folders=True, keep=True)
    except OSError as error:
        raise InputError(
            f"cannot write {files.json.name} and {files.p4info.name} to {str(folder)!r}: "
            f"{error.strerror}; name a folder that you may write to"
        ) from None
    return files


def p4info_bytes(program: CompiledProgram, name: str) -> bytes:
    """Return a program's P4Info in the format that the ending of the file's name says; raises
    `InputError` for an ending that says none."""
    return message_bytes(program.p4info, program.p4info_text, name, "--p4info", "P4Info is")


def entries_bytes(program: CompiledProgram, name: str) -> bytes:
    """Return the request that writes a program's entries, in the format that the ending of the
    file's name says; raises `InputError` for an ending that says none."""
    text = text_format.MessageToString(program.entries)
    return message_bytes(
        program.entries, text, name, "--p4runtime-entries-files", "the entries are"
    )


def message_bytes(message: Any, text: str, name: str, option: str, what: str) -> bytes:
    """Return a message, whose text form is given, in the format that a file's ending says.

    ``.txtpb`` and ``.txt`` are protobuf's text form, ``.bin`` and ``.pb`` its wire form, ``.json``
    its JSON form. Raises `InputError` for any other ending.
    """
    match Path(name).suffix:
        case ".txtpb" | ".txt":
            return text.encode()
        case ".bin" | ".pb":
            return bytes(message.SerializeToString(deterministic=True))
        case ".json":
            return f"{json_format.MessageToJson(message)}\n".encode()
    raise InputError(
        f"{option} {name!r} has no ending that says in which format {what} to be written: "
        f"let it end in {', '.join(P4INFO_ENDINGS)}"
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, making its folder if need be; raises `InputError`."""
    try:
        write_whole(path, content, folders=True)
    except OSError as error:
        raise InputError(
            f"cannot write {str(path)!r}: {error.strerror}; name a file that you may write to"
        ) from None
