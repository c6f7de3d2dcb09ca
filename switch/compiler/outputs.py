"""The compiler's outputs as files: BMv2 JSON, and P4Info as text, binary or JSON."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import json_format

from weft.base import files
from weft.base.errors import InputError
from weft.switch.compiler.driver import CompiledProgram

P4INFO_ENDINGS = (".txtpb", ".txt", ".bin", ".pb", ".json")


def p4info_bytes(program: CompiledProgram, name: str) -> bytes:
    """A program's P4Info in the format that the ending of the file's name says.

    ``.txtpb`` and ``.txt`` are protobuf's text form, ``.bin`` and ``.pb`` its wire form, ``.json``
    its JSON form. Raises `InputError` for any other ending.
    """
    ending = Path(name).suffix
    match ending:
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
        files.write_whole(path, content, folders=True)
    except OSError as error:
        raise InputError(
            f"cannot write {str(path)!r}: {error.strerror}; name a file that you may write to"
        ) from None
