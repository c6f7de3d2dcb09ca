"""Source of the calculations of a program: hashes, checksums, the hash of each selector.

As in BMv2, inputs are joined bit by bit, those of headers that are not valid are left out, the
last byte is filled with zeros, and the payload comes last wherever it stands.
"""

import json
from collections.abc import Callable
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.codegen.expressions import Translator
from weft.switch.engine.codegen.source import Writer, identifier, remark
from weft.switch.engine.codegen.varbits import (
    Piece,
    bit_lines,
    field_pieces,
    whole_bytes,
    width_of,
    write_pieces,
)
from weft.switch.engine.dataplane.layout import CRC_BYTES, CRC_START
from weft.switch.engine.program.algorithms import CRCS, CUSTOM, SAME, custom_crc
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Header
from weft.switch.engine.program.program import Program, number
from weft.switch.engine.program.words import literal

Json = Any

MAX_CONSTANT_BITS = 4096
"""The most bits of a constant that is part of a checksum."""

BYTES_START = 2048
"""Where bytes to hash begin in a switch's scratch memory; key words come before."""

FUNCTIONS = {
    "crc16": 16, "crc32": 32, "crcCCITT": 16, "csum16": 16, "identity": 64, "xor16": 16,
    "xor32": 32, "xxh64": 64, "hash_ex": 32,
}  # fmt: skip
"""The functions of the run-time library, each with the bits of its result."""


def function_call(name: str, algorithm: str, data: str) -> tuple[str, int]:
    """Return the call that computes an algorithm over ``data`` (array, start, length), and how many
    bits its result has."""
    algorithm = SAME.get(algorithm, algorithm)
    if algorithm in FUNCTIONS:
        return f"{algorithm}({data})", FUNCTIONS[algorithm]
    if algorithm == "toeplitz":
        return "0", 64  # of the key 0, which only Thrift could change
    parameters = CRCS.get(algorithm) or custom_crc(algorithm)
    if parameters is None:
        known = ", ".join(sorted([*FUNCTIONS, *SAME, *CRCS, "toeplitz", "poly_0x1..."]))
        raise ProgramError(
            f"hash algorithm {algorithm!r} of {name!r} is none that the switch has: {known}"
        )
    width, polynomial, initial, final, reflected = parameters
    words = ", ".join(literal(value) for value in (polynomial, initial, final))
    return f"crc_bits({data}, {width}, {words}, {reflected}, {reflected})", width


class Calculations:
    """The source of a function for each calculation and each selector's hash."""

    def __init__(
        self, program: Program, translator: Translator, unique: Callable[[str], str]
    ) -> None:
        self.program = program
        self.translator = translator
        self.unique = unique
        self.names: dict[str, str] = {}
        self.bits: dict[str, int] = {}  # of each calculation's result
        self.truncates = '"truncate"' in json.dumps(program.document["actions"])
        self.same: dict[str, str] = {}  # calculations that do the same share one function

    def write(self, name: str, algorithm: str, inputs: list[Json]) -> str:
        """Return the function ``hash_NAME(phv, scratch, words, frame)``."""
        data = f"scratch, {BYTES_START}, at - {BYTES_START}"
        call, self.bits[name] = function_call(name, algorithm, data)
        custom = self.program.custom_crcs.get(name)
        content = json.dumps([algorithm, inputs, custom])
        if content in self.same:
            self.names[name] = self.same[content]
            return ""
        function = self.unique(f"hash_{identifier(name)}")
        self.names[name] = self.same[content] = function
        writer = Writer()
        about = f"The {algorithm} of the fields of {remark(name)}."
        with writer.function(f"{function}(phv, scratch, words, frame)", about):
            writer.line(f"at = {BYTES_START}")
            groups = self.groups(inputs)
            refuse(
                sum(width_of(piece) for _, pieces in groups for piece in pieces) > 8 * 4096,
                f"calculation {name!r} has more than 4096 bytes of fields",
                ProgramError,
            )
            self.write_groups(writer, groups)
            if any(item["type"] == "payload" for item in inputs):
                writer.line("count = words.payload_length")
                if self.truncates:
                    with writer.indented("if phv[R_TRUNCATE] != 0:"):
                        writer.line("count = min(count, phv[R_TRUNCATE] - 1)")
                with writer.indented("for i in range(count):"):
                    writer.line("scratch[at + i] = frame[words.payload + i]")
                writer.line("at += count")
            if custom is not None:
                place = CRC_START + CRC_BYTES * custom
                with writer.indented(f"if load64(scratch, {place}) != 0:"):
                    writer.line(f"return crc_set({data}, {CUSTOM[algorithm]}, {place})")
            writer.line(f"return {call}")
        return writer.text

    def groups(self, inputs: list[Json]) -> list[tuple[Header | None, list[Piece]]]:
        """Return runs of inputs that are there together: of one packet header, or always."""
        groups: list[tuple[Header | None, list[Piece]]] = []
        for item in inputs:
            owner: Header | None = None
            pieces: list[Piece] = []
            match item["type"]:
                case "field":
                    header = self.program.header(item["value"][0])
                    owner = None if header.metadata else header
                    pieces = field_pieces(
                        [self.program.resolve(item["value"])], self.translator.name_of
                    )
                case "hexstr":
                    width, value = int(item["bitwidth"]), number(item["value"])
                    if not 0 < width <= MAX_CONSTANT_BITS:
                        raise ProgramError(
                            f"calculation input of {width} bits: 1 to {MAX_CONSTANT_BITS} "
                            "are supported"
                        )
                    while width > 0:
                        part = min(width, 56)
                        width -= part
                        pieces.append((hex((value >> width) & ((1 << part) - 1)), part, False))
                case "header":
                    owner = self.program.header(item["value"])
                    pieces = field_pieces(owner.fields, self.translator.name_of)
                case _ if item["type"] != "payload":
                    raise ProgramError(f"a calculation has an input of type {item['type']!r}")
            if groups and groups[-1][0] is owner:
                groups[-1][1].extend(pieces)
            else:
                groups.append((owner, pieces))
        return groups

    def write_groups(self, writer: Writer, groups: list[tuple[Header | None, list[Piece]]]) -> None:
        """Write groups where their headers are valid: word by word if all are whole bytes, else bit
        by bit."""
        whole = all(whole_bytes(pieces) for _, pieces in groups)
        if not whole:
            total = sum(width_of(piece) for _, pieces in groups for piece in pieces)
            with writer.indented(f"for i in range(at, at + {(total + 7) // 8 + 8}):"):
                writer.line("scratch[i] = 0")
            writer.line("bit = at * 8")
        for owner, pieces in groups:
            lines = (write_pieces if whole else bit_lines)(
                "scratch", pieces, self.translator.name_of
            )
            if owner is None:
                writer.extend(lines)
            else:
                with writer.indented(f"if phv[{self.translator.valid_name(owner)}] != 0:"):
                    writer.extend(lines)
        if not whole:
            writer.line("at = (bit + 7) >> 3")
