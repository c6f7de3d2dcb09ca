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

SAME = {
    "cksum16": "csum16", "bmv2_hash": "xxh64", "crc16_custom": "crc16", "crc_16": "crc16",
    "crc32_custom": "crc32", "crc_32": "crc32", "crc_ccitt_false": "crcCCITT",
}  # fmt: skip
"""Other names of the same functions."""

CRCS = {
    "crc8_custom": (8, 0x07, 0, 0, False),
    "crc64_custom": (64, 0x1B, 0, 0, True),
    "crc_8": (8, 0x07, 0, 0, False),
    "crc_8_darc": (8, 0x39, 0, 0, True),
    "crc_8_i_code": (8, 0x1D, 0xFD, 0, False),
    "crc_8_itu": (8, 0x07, 0, 0x55, False),
    "crc_8_maxim": (8, 0x31, 0, 0, True),
    "crc_8_rohc": (8, 0x07, 0xFF, 0, True),
    "crc_8_wcdma": (8, 0x9B, 0, 0, True),
    "crc_16_buypass": (16, 0x8005, 0, 0, False),
    "crc_16_dds_110": (16, 0x8005, 0x800D, 0, False),
    "crc_16_dect": (16, 0x0589, 0, 0x0001, False),
    "crc_16_dnp": (16, 0x3D65, 0, 0xFFFF, True),
    "crc_16_en_13757": (16, 0x3D65, 0, 0xFFFF, False),
    "crc_16_genibus": (16, 0x1021, 0xFFFF, 0xFFFF, False),
    "crc_16_maxim": (16, 0x8005, 0, 0xFFFF, True),
    "crc_16_mcrf4xx": (16, 0x1021, 0xFFFF, 0, True),
    "crc_16_riello": (16, 0x1021, 0xB2AA, 0, True),
    "crc_16_t10_dif": (16, 0x8BB7, 0, 0, False),
    "crc_16_teledisk": (16, 0xA097, 0, 0, False),
    "crc_16_usb": (16, 0x8005, 0xFFFF, 0xFFFF, True),
    "x_25": (16, 0x1021, 0xFFFF, 0xFFFF, True),
    "xmodem": (16, 0x1021, 0, 0, False),
    "modbus": (16, 0x8005, 0xFFFF, 0, True),
    "kermit": (16, 0x1021, 0, 0, True),
    "crc_aug_ccitt": (16, 0x1021, 0x1D0F, 0, False),
    "crc_32_bzip2": (32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, False),
    "crc_32c": (32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crc_32d": (32, 0xA833982B, 0xFFFFFFFF, 0xFFFFFFFF, True),
    "crc_32_mpeg": (32, 0x04C11DB7, 0xFFFFFFFF, 0, False),
    "posix": (32, 0x04C11DB7, 0, 0xFFFFFFFF, False),
    "crc_32q": (32, 0x814141AB, 0, 0, False),
    "jamcrc": (32, 0x04C11DB7, 0xFFFFFFFF, 0, True),
    "xfer": (32, 0x000000AF, 0, 0, False),
    "crc_64": (64, 0x1B, 0, 0, True),
    "crc_64_we": (64, 0x42F0E1EBA9EA3693, (1 << 64) - 1, (1 << 64) - 1, False),
    "crc_64_jones": (64, 0xAD93D23594C935A9, (1 << 64) - 1, 0, True),
}
"""BMv2's other CRCs: width, polynomial, initial value, what the result is XORed with, and whether
bytes and result are taken least significant bit first."""


def custom_crc(name: str) -> tuple[int, int, int, int, bool] | None:
    """Return the parameters of a name such as ``poly_0x18005_init_0xffff_not_rev_xout_0x1``."""
    parts = name.split("_")
    values = {"init": 0, "xout": 0}
    polynomial, reflected = "", True
    while parts:
        part = parts.pop(0)
        match part:
            case "not" if parts[:1] == ["rev"]:
                parts.pop(0)
                reflected = False
            case "poly" | "init" | "xout" if parts:
                text = parts.pop(0)
                if part == "poly":
                    polynomial = text
                else:
                    values[part] = number(text)
            case _:
                return None
    width = (len(polynomial) - 3) * 4
    if not polynomial.startswith("0x1") or width not in (8, 16, 32, 64):
        return None
    most = (1 << width) - 1
    return width, number(polynomial) & most, values["init"] & most, values["xout"] & most, reflected


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
    return f"crc_bits({data}, {width}, {words}, {reflected})", width


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
        content = json.dumps([algorithm, inputs])
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
