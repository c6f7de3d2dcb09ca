"""Source of the parser, the deparser and the calculations (hashes, checksums) of a program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from switch.engine.control import ProgramError
from switch.engine.expressions import Translator, store
from switch.engine.primitives import Primitives
from switch.engine.program import Field, Header, Program, Stack, number
from switch.engine.source import Writer, identifier, pack, read_field, remark

Json = Any

MAX_CONSTANT_BITS = 4096
"""Of a constant that is part of a checksum."""

ALGORITHMS = ("crc16", "crc32", "crcCCITT", "csum16", "identity", "xor16")
BYTES_START = 512
"""Where bytes to hash begin in a switch's scratch memory; key words come before."""

STEP_LIMIT = 4096
"""How many states a parser with a cycle may go through."""


def order_states(states: dict[str, Json], start: str | None) -> tuple[list[str], bool]:
    """States that can be reached, in topological order if there is no cycle; and if there is."""
    order: list[str] = []
    mark: dict[str, int] = {}
    cyclic = False
    stack: list[tuple[str, int]] = [(start, 0)] if start else []
    while stack:
        name, position = stack.pop()
        if position == 0:
            if name not in states:
                raise ProgramError(f"the parser goes to a state {name!r} that does not exist")
            if mark.get(name) == 2:
                continue
            mark[name] = 1
        transitions = states[name]["transitions"]
        if position < len(transitions):
            stack.append((name, position + 1))
            following = transitions[position].get("next_state")
            if following is not None:
                if mark.get(following) == 1:
                    cyclic = True
                elif mark.get(following) is None:
                    stack.append((following, 0))
        else:
            mark[name] = 2
            order.append(name)
    return order[::-1], cyclic


class ParserSource:
    """Writes the function ``parse(phv, data, start, length)``, which returns the bytes parsed."""

    def __init__(self, program: Program, translator: Translator, primitives: Primitives) -> None:
        self.program = program
        self.translator = translator
        self.primitives = primitives
        self.writer = Writer()

    def write(self) -> str:
        """The source of the function."""
        parser = self.program.document["parsers"][0]
        states = {state["name"]: state for state in parser["parse_states"]}
        order, cyclic = order_states(states, parser["init_state"])
        self.numbers = {name: position for position, name in enumerate(order)}
        writer = self.writer
        writer.line("@jit")
        with writer.indented("def parse(phv, data, start, length, state, registers):"):
            writer.line(f'"""Parser {remark(parser["name"])}."""')
            valid = self.program.valid_slots
            if len(valid):
                with writer.indented(f"for slot in range({valid.start}, {valid.stop}):"):
                    writer.line("phv[slot] = 0")
            writer.line(f"phv[PARSER_ERROR] = {self.program.error('NoError')}")
            writer.line("at = start")
            writer.line("end = start + length")
            writer.line(f"state_number = {0 if order else -1}")
            if cyclic:
                with writer.indented(f"for _ in range({STEP_LIMIT}):"):
                    with writer.indented("if state_number < 0:"):
                        writer.line("return at - start")
                    self.write_states(order, states, "elif")
                self.fail(self.program.error("ParserTimeout"))
            else:
                self.write_states(order, states, "if")
                writer.line("return at - start")
        return writer.text

    def write_states(self, order: list[str], states: dict[str, Json], word: str) -> None:
        """A block for each state."""
        for position, name in enumerate(order):
            test = "if" if position == 0 else word
            with self.writer.indented(f"{test} state_number == {position}:  # {remark(name)}"):
                for operation in states[name]["parser_ops"]:
                    self.operation(operation)
                self.transition(states[name])

    def fail(self, code: int | str) -> None:
        """Stop with a parser error."""
        self.writer.line(f"phv[PARSER_ERROR] = {code}")
        self.writer.line("return at - start")

    def need(self, size: str) -> None:
        """Check that so many bytes are left."""
        with self.writer.indented(f"if {size} > end - at:"):
            self.fail(self.program.error("PacketTooShort"))

    def operation(self, node: Json) -> None:
        """One parser operation."""
        kind, parameters = node["op"], node["parameters"]
        writer = self.writer
        if kind == "extract":
            target = parameters[0]
            if target["type"] == "regular":
                self.extract(self.program.header(target["value"]))
            elif target["type"] == "stack":
                self.extract_next(self.program.stacks[target["value"]])
            else:
                raise ProgramError(f"extract to a {target['type']!r} is not supported yet")
        elif kind == "set":
            field = self.program.resolve(parameters[0]["value"])
            place = self.translator.name_of(field)
            if parameters[1]["type"] == "lookahead":
                source = self.lookahead(parameters[1]["value"])
                writer.line(f"phv[{place}] = {source}")
            else:
                value = self.translator.value(parameters[1])
                writer.line(f"phv[{place}] = {store(value, field.width, field.signed)}")
        elif kind == "verify":
            with writer.indented(f"if not ({self.translator.condition(parameters[0])}):"):
                self.fail(self.translator.narrow(parameters[1], "a parser error"))
        elif kind in ("advance", "shift"):
            if kind == "shift":
                amount = str(int(parameters[0]) * 8)
            else:
                amount = self.translator.narrow(parameters[0], "the amount of advance")
            writer.line(f"bits = {amount}")
            with writer.indented("if bits & 7 != 0 or bits < 0:"):
                self.fail(self.program.error("ParserInvalidArgument"))
            self.need("bits >> 3")
            writer.line("at += bits >> 3")
        elif kind == "primitive":
            for inner in parameters:
                self.primitives.write(writer, inner)
        else:
            raise ProgramError(f"parser operation {kind!r} is not supported yet")

    def extract(self, header: Header) -> None:
        """Extract to a fixed header."""
        size = header.bits // 8
        writer = self.writer
        if size:
            self.need(str(size))
        bit = 0
        for field in header.fields:
            source = read_field(field, bit, "at")
            writer.line(f"phv[{self.translator.name_of(field)}] = {source}")
            bit += field.width
        writer.line(f"phv[{self.translator.valid_name(header)}] = 1")
        if header.wide:
            self.primitives.use_wide_headers(writer)
        if size:
            writer.line(f"at += {size}")

    def extract_next(self, stack: Stack) -> None:
        """Extract to the next element of a stack."""
        writer = self.writer
        element = stack.headers[0]
        count = len(stack.headers)
        with writer.indented(f"if phv[{stack.next_slot}] >= {count}:"):
            self.fail(self.program.error("StackOutOfBounds"))
        self.need(str(element.bits // 8))
        writer.line(f"number = phv[{stack.next_slot}]")
        bit = 0
        for field in element.fields:
            source = read_field(field, bit, "at")
            writer.line(f"phv[{field.slot} + number * {len(element.fields)}] = {source}")
            bit += field.width
        writer.line(f"phv[{element.valid_slot} + number] = 1")
        if element.wide:
            self.primitives.use_wide_headers(writer)
        writer.line(f"phv[{stack.next_slot}] = number + 1")
        writer.line(f"at += {element.bits // 8}")

    def lookahead(self, place: Json) -> str:
        """Source of a value ahead in the packet, after a check that it is there."""
        offset, width = place
        if width > 64:
            raise ProgramError(f"a lookahead of {width} bits: more than 64 are not supported yet")
        self.need(str((offset + width + 7) // 8))
        return read_field(Field("lookahead", width, False, 0), offset, "at")

    def transition(self, state: Json) -> None:
        """The next state."""
        writer = self.writer
        widths = []
        key = state.get("transition_key") or []
        for position, part in enumerate(key):
            if part["type"] == "lookahead":
                widths.append(part["value"][1])
                writer.line(f"key_{position} = {self.lookahead(part['value'])}")
            else:
                value = self.translator.value(part)
                widths.append(max(value.high.bit_length(), 1))
                if part["type"] == "field":
                    widths[-1] = self.program.resolve(part["value"]).width
                writer.line(f"key_{position} = {value.source}")
        word = "if"
        default: str | None = None
        for transition in state["transitions"]:
            kind = transition.get("type", "default" if transition["value"] == "default" else "")
            following = self.number(transition["next_state"])
            if kind == "default" or transition["value"] == "default":
                default = following
                continue
            if kind not in ("hexstr", ""):
                raise ProgramError(f"parser transition of type {kind!r} is not supported yet")
            test = case_test(widths, transition["value"], transition.get("mask"))
            with writer.indented(f"{word} {test}:"):
                writer.line(f"state_number = {following}")
            word = "elif"
        if word == "if":
            writer.line(f"state_number = {default or -1}")
        else:
            with writer.indented("else:"):
                writer.line(f"state_number = {default or -1}")

    def number(self, name: str | None) -> str:
        """A state's number; -1 ends the parser."""
        return "-1" if name is None else str(self.numbers[name])


def case_test(widths: list[int], value_text: str, mask_text: str | None) -> str:
    """The condition that all parts of a transition key match a value (under a mask)."""
    value = number(value_text)
    mask = None if mask_text is None else number(mask_text)
    tests = []
    shift = sum((width + 7) // 8 * 8 for width in widths)
    for position, width in enumerate(widths):
        size = (width + 7) // 8 * 8
        shift -= size
        part = (value >> shift) & ((1 << size) - 1)
        part_mask = (1 << width) - 1 if mask is None else (mask >> shift) & ((1 << width) - 1)
        key = f"key_{position}"
        if width == 64:
            key = f"word64({key})"
        if mask is not None and part_mask != (1 << width) - 1:
            if part_mask == 0:
                continue
            key = f"{key} & {signed(part_mask)}"
            part &= part_mask
        tests.append(f"{key} == {signed(part)}")
    return " and ".join(f"({test})" for test in tests) if tests else "True"


def signed(value: int) -> str:
    """A 64-bit number as a literal that fits int64."""
    return hex(value) if value < 1 << 63 else str(value - (1 << 64))


def write_deparser(program: Program, translator: Translator) -> str:
    """The function ``deparse(phv, header)``, which returns the bytes written."""
    writer = Writer()
    writer.line("@jit")
    with writer.indented("def deparse(phv, header):"):
        deparser = program.document["deparsers"][0]
        if deparser.get("primitives"):
            raise ProgramError("statements in the deparser are not supported yet")
        writer.line(f'"""Deparser {remark(deparser["name"])}."""')
        writer.line("at = 0")
        for name in deparser["order"]:
            header = program.header(name)
            with writer.indented(f"if phv[{translator.valid_name(header)}] != 0:"):
                pieces = [
                    (f"phv[{translator.name_of(field)}]", field.width, field.signed)
                    for field in header.fields
                ]
                for position, word in enumerate(pack(pieces)):
                    place = f"at + {position * 8}" if position else "at"
                    writer.line(f"store64(header, {place}, {word})")
                writer.line(f"at += {header.bits // 8}")
        writer.line("return at")
    return writer.text


class Calculations:
    """Writes a function for each calculation and each selector's hash."""

    def __init__(
        self, program: Program, translator: Translator, unique: Callable[[str], str]
    ) -> None:
        self.program = program
        self.translator = translator
        self.unique = unique
        self.names: dict[str, str] = {}
        self.same: dict[str, str] = {}  # calculations that do the same share one function

    def write(self, name: str, algorithm: str, inputs: list[Json]) -> str:
        """The function ``hash_NAME(phv, scratch, words, frame)``."""
        if algorithm not in ALGORITHMS:
            raise ProgramError(
                f"hash algorithm {algorithm!r} of {name!r} is not supported yet; "
                f"supported: {', '.join(ALGORITHMS)}"
            )
        content = json.dumps([algorithm, inputs])
        if content in self.same:
            self.names[name] = self.same[content]
            return ""
        function = self.unique(f"hash_{identifier(name)}")
        self.names[name] = self.same[content] = function
        writer = Writer()
        writer.line("@jit")
        with writer.indented(f"def {function}(phv, scratch, words, frame):"):
            writer.line(f'"""The {algorithm} of the fields of {remark(name)}."""')
            writer.line(f"at = {BYTES_START}")
            groups = self.groups(inputs)
            if sum(width for _, pieces in groups for _, width, _ in pieces) > 8 * 4096:
                raise ProgramError(f"calculation {name!r} has more than 4096 bytes of fields")
            if all(sum(piece[1] for piece in pieces) % 8 == 0 for _, pieces in groups):
                self.write_bytes(writer, groups)
            else:
                self.write_bits(writer, groups)
            if any(item["type"] == "payload" for item in inputs):
                writer.line("count = words[P_PAYLOAD_LENGTH]")
                with writer.indented("for i in range(count):"):
                    writer.line("scratch[at + i] = frame[words[P_PAYLOAD] + i]")
                writer.line("at += count")
            writer.line(f"return {algorithm}(scratch, {BYTES_START}, at - {BYTES_START})")
        return writer.text

    def groups(self, inputs: list[Json]) -> list[tuple[Header | None, list[tuple[str, int, bool]]]]:
        """Runs of inputs that are there together: of one packet header, or always."""
        groups: list[tuple[Header | None, list[tuple[str, int, bool]]]] = []
        for item in inputs:
            owner: Header | None = None
            pieces: list[tuple[str, int, bool]] = []
            if item["type"] == "field":
                header = self.program.header(item["value"][0])
                owner = None if header.metadata else header
                field = self.program.resolve(item["value"])
                pieces = [(f"phv[{self.translator.name_of(field)}]", field.width, field.signed)]
            elif item["type"] == "hexstr":
                width, value = int(item["bitwidth"]), number(item["value"])
                if not 0 < width <= MAX_CONSTANT_BITS:
                    raise ProgramError(
                        f"calculation input of {width} bits: 1 to {MAX_CONSTANT_BITS} are supported"
                    )
                while width > 0:
                    part = min(width, 56)
                    width -= part
                    pieces.append((hex((value >> width) & ((1 << part) - 1)), part, False))
            elif item["type"] == "header":
                owner = self.program.header(item["value"])
                pieces = [
                    (f"phv[{self.translator.name_of(field)}]", field.width, field.signed)
                    for field in owner.fields
                ]
            elif item["type"] != "payload":
                raise ProgramError(f"calculation input of type {item['type']!r}: not supported yet")
            if groups and groups[-1][0] is owner:
                groups[-1][1].extend(pieces)
            else:
                groups.append((owner, pieces))
        return groups

    def write_bytes(
        self, writer: Writer, groups: list[tuple[Header | None, list[tuple[str, int, bool]]]]
    ) -> None:
        """Groups of whole bytes: word by word."""
        for owner, pieces in groups:
            lines = [
                f"store64(scratch, at + {position * 8}, {word})"
                for position, word in enumerate(pack(pieces))
            ]
            lines.append(f"at += {sum(piece[1] for piece in pieces) // 8}")
            if owner is None:
                writer.extend(lines)
            else:
                with writer.indented(f"if phv[{self.translator.valid_name(owner)}] != 0:"):
                    writer.extend(lines)

    def write_bits(
        self, writer: Writer, groups: list[tuple[Header | None, list[tuple[str, int, bool]]]]
    ) -> None:
        """Groups that end inside a byte: bit by bit."""
        total = sum(piece[1] for _, pieces in groups for piece in pieces)
        with writer.indented(f"for i in range(at, at + {(total + 7) // 8 + 8}):"):
            writer.line("scratch[i] = 0")
        writer.line("bit = at * 8")
        for owner, pieces in groups:
            lines = []
            for source, width, _ in pieces:
                lines.append(f"put_bits(scratch, bit, {source}, {width})")
                lines.append(f"bit += {width}")
            if owner is None:
                writer.extend(lines)
            else:
                with writer.indented(f"if phv[{self.translator.valid_name(owner)}] != 0:"):
                    writer.extend(lines)
        writer.line("at = (bit + 7) >> 3")
