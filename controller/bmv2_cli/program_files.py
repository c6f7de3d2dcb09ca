"""The files of a compiled program that somebody names."""

from pathlib import Path

from google.protobuf import text_format

from weft.base.errors import InputError
from weft.base.files import read_bounded, read_text, told_as_input
from weft.controller.client import LoadableProgram
from weft.switch.messages import p4info_pb2

MOST_BYTES = 64 << 20
"""The largest file that is read: no switch takes more."""


def read_program(json: Path, p4info: Path) -> LoadableProgram:
    """Return the program in BMv2's JSON and a P4Info in text form. Raises InputError."""
    with told_as_input(f"program {str(json)!r} cannot be read"):
        device_config = read_bounded(json, MOST_BYTES, endings=(".json",))
    what = f"P4Info {str(p4info)!r} cannot be read"
    message = p4info_pb2.P4Info()
    with told_as_input(what):
        text = read_text(p4info, MOST_BYTES, endings=(".txtpb", ".txt"))
    try:
        text_format.Merge(text, message, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise InputError(f"{what}: it is no P4Info in text form: {error}") from None
    return LoadableProgram(message, device_config)
