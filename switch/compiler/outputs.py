"""What a P4 program compiles to, and its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format

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
    """Return a program's P4Info in the format that the ending of the file's name says.

    ``.txtpb`` and ``.txt`` are protobuf's text form, ``.bin`` and ``.pb`` its wire form, ``.json``
    its JSON form. Raises `InputError` for any other ending.
    """
    match Path(name).suffix:
        case ".txtpb" | ".txt":
            return program.p4info_text.encode()
        case ".bin" | ".pb":
            return bytes(program.p4info.SerializeToString(deterministic=True))
        case ".json":
            return f"{json_format.MessageToJson(program.p4info)}\n".encode()
    raise InputError(
        f"--p4info {name!r} has no ending that says in which format P4Info is to be written: "
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
