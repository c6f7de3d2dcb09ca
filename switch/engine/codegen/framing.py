"""Source of the parser and the deparser of a program."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.codegen.expressions import Translator, Value
from weft.switch.engine.codegen.primitives import ENVIRONMENT, Primitives
from weft.switch.engine.codegen.references import HeaderReference, last_place
from weft.switch.engine.codegen.source import Writer, read_field, remark, topological
from weft.switch.engine.codegen.values import ahead, word_sources
from weft.switch.engine.codegen.varbits import field_pieces, length_name, write_pieces
from weft.switch.engine.dataplane.image_layout import FIRST_TABLE
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Family, Field, Header, ValueSetUse, named
from weft.switch.engine.program.program import Program, number
from weft.switch.engine.program.words import literal, words_of

Json = Any

STEP_LIMIT = 4096
"""How many states a parser with a cycle may go through at most."""


SURROUNDINGS = {
    "image": "image = int64_view(state.image, state.image_words)",
    "counters": "counters = int64_view(state.counters, state.counter_words)",
    "scratch": "scratch = uint8_view(state.scratch, SCRATCH_WORDS * 8)",
    "keys": "keys = int64_view(state.scratch, KEY_WORDS)",
    "frame": "frame = data",
}
"""What a parser uses of its switch's state, where it does."""


class ParserSource:
    """The source of a function ``parse(phv, data, start, length)`` of a parser, which returns the
    bytes parsed."""

    def __init__(
        self,
        program: Program,
        translator: Translator,
        primitives: Primitives,
        parser: Json,
        function: str = "parse",
    ) -> None:
        self.parser, self.function = parser, function
        self.program = program
        self.translator = translator
        self.primitives = primitives
        self.writer = Writer(1)
        self.needs_words = False  # whether the packet's words are the last argument

    def write(self) -> str:
        """Return the source of the function."""
        parser = self.parser
        states = {state["name"]: state for state in parser["parse_states"]}

        def following(name: str) -> list[str]:
            refuse(
                name not in states,
                f"the parser goes to a state {name!r} that does not exist",
                ProgramError,
            )
            found = (item.get("next_state") for item in states[name]["transitions"])
            return [state for state in found if state is not None]

        order, cyclic = topological(parser["init_state"], following)
        self.numbers = {name: position for position, name in enumerate(order)}
        writer = self.writer
        valid = self.program.valid_slots
        if len(valid):
            with writer.indented(f"for slot in range({valid.start}, {valid.stop}):"):
                writer.line("phv[slot] = 0")
        for header in self.program.headers.values():
            if header.varbit is not None:
                writer.line(f"phv[{length_name(header.varbit, self.translator.name_of)}] = 0")
        writer.line(
            f"phv[PARSER_ERROR] = {self.program.error('NoError')}",
            "at = start",
            "end = start + length",
            f"state_number = {0 if order else -1}",
        )
        if cyclic:
            with writer.indented(f"for _ in range({STEP_LIMIT}):"):
                with writer.indented("if state_number < 0:"):
                    writer.line("return at - start")
                self.write_states(order, states, "elif")
            self.fail(self.program.error("ParserTimeout"))
        else:
            self.write_states(order, states, "if")
            writer.line("return at - start")
        head = Writer()
        found = set(re.findall(r"\w+", writer.text))
        self.needs_words = "words" in found
        more = ", words" if self.needs_words else ""
        arguments = f"phv, data, start, length, state, registers{more}"
        with head.function(f"{self.function}({arguments})", f"Parser {remark(parser['name'])}."):
            head.extend(text for name, text in SURROUNDINGS.items() if name in found)
        return head.text + writer.text

    def write_states(self, order: list[str], states: dict[str, Json], word: str) -> None:
        """Write a block for each state."""
        for position, name in enumerate(order):
            test = "if" if position == 0 else word
            with self.writer.indented(f"{test} state_number == {position}:  # {remark(name)}"):
                self.begin_state(name)
                for operation in states[name]["parser_ops"]:
                    self.operation(operation)
                self.transition(states[name])

    def begin_state(self, name: str) -> None:
        """Write what a state does first: nothing, but for a traced program."""

    def fail(self, code: int | str) -> None:
        """Stop with a parser error."""
        self.writer.line(f"phv[PARSER_ERROR] = {code}", "return at - start")

    def need(self, size: str) -> None:
        """Check that so many bytes are left."""
        with self.writer.indented(f"if {size} > end - at:"):
            self.fail(self.program.error("PacketTooShort"))

    def need_bits(self, bits: str, size: str) -> None:
        """Go on only if ``bits`` are whole bytes, and ``size``, which is made of them, is left."""
        self.writer.line(f"bits = {bits}")
        with self.writer.indented("if bits & 7 != 0 or bits < 0:"):
            self.fail(self.program.error("ParserInvalidArgument"))
        self.need(size)

    def operation(self, node: Json) -> None:
        """Write one parser operation."""
        kind, parameters = node["op"], node["parameters"]
        writer = self.writer
        match kind:
            case "extract" | "extract_VL":
                self.extract_to(parameters[0], parameters[1] if kind == "extract_VL" else None)
            case "set":
                refuse(
                    parameters[0]["type"] != "field",
                    f"the parser sets a {parameters[0]['type']!r}, not a field",
                    ProgramError,
                )
                if self.program.resolve(parameters[0]["value"]).varbit:
                    self.primitives.headers.do_assign_VL(writer, parameters)
                    return
                source = parameters[1]
                is_ahead = source["type"] == "lookahead"
                value = (
                    self.lookahead(source["value"]) if is_ahead else self.translator.value(source)
                )
                self.primitives.assign(writer, parameters[0], value)
            case "verify":
                code: Json = parameters[1]
                with writer.indented(f"if not ({self.translator.condition(parameters[0])}):"):
                    known = isinstance(code, int)
                    self.fail(code if known else self.translator.narrow(code, "a parser error"))
            case "advance" | "shift":
                bits = (
                    str(int(parameters[0]) * 8)
                    if kind == "shift"
                    else self.translator.narrow(parameters[0], "the amount of advance")
                )
                self.need_bits(bits, "bits >> 3")
                writer.line("at += bits >> 3")
            case "primitive":
                for inner in parameters:
                    self.primitives.write(writer, inner)
            case _:
                raise ProgramError(f"a parser has no operation {kind!r}")

    def extract_to(self, target: Json, length: Json) -> None:
        """Extract to a header, or to the next element of a stack of headers or unions.

        ``length``: the expression for the bits of its varbit field, if it has one.
        """
        kind, value = target["type"], target["value"]
        match kind:
            case "regular":
                self.extract(self.program.header(value), length)
            case "stack":
                stack = self.program.stack(value)
                self.extract_next(Family(stack.headers), stack.next_slot, length)
            case "union_stack":
                unions = self.program.groups.union_stack(value[0])
                self.extract_next(unions.family(unions.member(value[1])), unions.next_slot, length)
            case _:
                raise ProgramError(f"a parser cannot extract to a {kind!r}")

    def need_header(self, header: Header, length: Json) -> None:
        """Check that a header is there; of a varbit field leave the length in ``bits``."""
        size = header.bits // 8
        if header.varbit is None:
            if size:
                self.need(str(size))
            return
        if length is None:
            raise ProgramError(f"header {header.name!r} has a varbit field: extract_VL is needed")
        self.need_bits(
            self.translator.narrow(length, "the length of a varbit field"), f"{size} + (bits >> 3)"
        )
        with self.writer.indented(f"if bits > {header.varbit.width}:"):
            self.fail(self.program.error("HeaderTooShort"))

    def read_fields(self, header: Header, name_of: Callable[[Field], str]) -> None:
        """Read all fields of a header at ``at``, which a varbit field moves on."""
        writer = self.writer
        bit = 0
        for field in header.fields:
            if field.varbit:
                byte, skip = divmod(bit, 8)
                place = f"{name_of(field)}, {field.data_words}, data, at + {byte}, {skip}"
                writer.line(f"read_varbit(phv, {place}, bits)", "at += bits >> 3")
            else:
                for part in field.parts:
                    writer.line(f"phv[{name_of(part)}] = {read_field(part, bit, 'at')}")
                    bit += part.width

    def extract(self, header: Header, length: Json) -> None:
        """Extract to a header."""
        size = header.bits // 8
        writer = self.writer
        self.need_header(header, length)
        self.read_fields(header, self.translator.name_of)
        self.primitives.headers.make_valid(writer, HeaderReference(Family((header,))))
        self.primitives.headers.use_if_wide(writer, header)
        if size:
            writer.line(f"at += {size}")

    def extract_next(self, family: Family, next_slot: int, length: Json) -> None:
        """Extract to the next element of a stack: one of the headers of a family."""
        writer = self.writer
        element = family.headers[0]
        with writer.indented(f"if phv[{next_slot}] >= {len(family.headers)}:"):
            self.fail(self.program.error("StackOutOfBounds"))
        self.need_header(element, length)
        writer.line(f"number = phv[{next_slot}]")
        self.read_fields(element, lambda part: family.field_place(part, "number"))
        self.primitives.headers.make_valid(writer, HeaderReference(family, "number"))
        self.primitives.headers.use_if_wide(writer, element)
        writer.line(f"phv[{next_slot}] = number + 1", f"at += {element.bits // 8}")

    def lookahead(self, place: Json) -> Value:
        """Return a value ahead in the packet, after a check that it is there."""
        offset, width = place
        self.need(str((offset + width + 7) // 8))
        return ahead(offset, width, "at")

    def transition(self, state: Json) -> None:
        """Write the choice of the next state."""
        writer = self.writer
        widths = self.key(state.get("transition_key") or [])
        words = [part for width in widths for part in split_width(width)]
        word = "if"
        default: str | None = None
        if any(transition.get("type") == "parse_vset" for transition in state["transitions"]):
            for position, width in enumerate(words):
                stored = "word64(key_{})" if width == 64 else "key_{}"
                writer.line(f"keys[{position}] = {stored.format(position)}")
        for transition in state["transitions"]:
            kind = transition.get("type", "hexstr")
            following = self.number(transition["next_state"])
            if kind == "default" or transition["value"] == "default":
                default = following
                continue
            match kind:
                case "parse_vset":
                    test = self.in_value_set(transition, widths)
                case "hexstr":
                    test = case_test(words, transition["value"], transition.get("mask"))
                case _:
                    raise ProgramError(f"a parser has no transition of type {kind!r}")
            with writer.indented(f"{word} {test}:"):
                writer.line(f"state_number = {following}")
            word = "elif"
        if word == "if":
            writer.line(f"state_number = {default or -1}")
        else:
            with writer.indented("else:"):
                writer.line(f"state_number = {default or -1}")

    def key(self, parts: list[Json]) -> list[int]:
        """Leave the parts of a transition key in ``key_0`` and so on; their widths in bits.

        A part of more than 64 bits takes several of these names: see ``split_width``.
        """
        writer = self.writer
        widths: list[int] = []
        count = 0
        for part in parts:
            kind = part["type"]
            match kind:
                case "lookahead":
                    value, width = self.lookahead(part["value"]), part["value"][1]
                case "field":
                    value = self.translator.load(part["value"])
                    width = self.program.resolve(part["value"]).width
                case "stack_field" | "union_stack_field":
                    field, place = last_place(self.program, part)
                    value, width = self.translator.load_field(field, place), field.width
                case _:
                    raise ProgramError(f"a transition key has no part of type {kind!r}")
            for source in word_sources(value, width):
                writer.line(f"key_{count} = {source}")
                count += 1
            widths.append(width)
        return widths

    def in_value_set(self, transition: Json, widths: list[int]) -> str:
        """Return the condition that the transition key is in a value set."""
        value_set = named(self.program.groups.value_sets, transition["value"], "value set")
        mask = transition.get("mask")
        masks = [(1 << width) - 1 for width in widths]
        if mask is not None:
            sizes = [(width + 7) // 8 * 8 for width in widths]  # masks have whole bytes
            for position in range(len(widths)):
                masks[position] &= number(mask) >> sum(sizes[position + 1 :])
        uses = self.program.groups.uses
        use = ValueSetUse(value_set.name, tuple(widths), tuple(masks))
        if use not in uses:
            uses.append(use)
        place = FIRST_TABLE + len(self.program.tables) + uses.index(use)
        return f"lookup_words(image, image[{place}], keys) >= 0"

    def number(self, name: str | None) -> str:
        """Return a state's number; -1 ends the parser."""
        return "-1" if name is None else str(self.numbers[name])


def split_width(width: int) -> list[int]:
    """Return the widths of the words of a key's part, the most significant one first."""
    count = words_of(width)
    return [width - 64 * (count - 1), *[64] * (count - 1)]


def case_test(widths: list[int], value_text: str, mask_text: str | None) -> str:
    """Return the condition that all parts of a transition key match a value (under a mask)."""
    value = number(value_text)
    mask = None if mask_text is None else number(mask_text)
    tests = []
    shift = sum((width + 7) // 8 * 8 for width in widths)
    for position, width in enumerate(widths):
        size = (width + 7) // 8 * 8
        shift -= size
        part = (value >> shift) & ((1 << size) - 1)
        full = (1 << width) - 1
        part_mask = full if mask is None else (mask >> shift) & ((1 << size) - 1)
        if part & part_mask & ~full or (mask is None and part & ~full):
            return "False"
        part_mask &= full
        key = f"key_{position}"
        if width == 64:
            key = f"word64({key})"
        if mask is not None and part_mask != full:
            if part_mask == 0:
                continue
            key = f"{key} & {literal(part_mask)}"
            part &= part_mask
        tests.append(f"{key} == {literal(part)}")
    return " and ".join(f"({test})" for test in tests) if tests else "True"


def write_deparser(
    program: Program, translator: Translator, primitives: Primitives, deparser: Json, function: str
) -> str:
    """Return the function ``deparse(phv, header, ...)`` of a deparser, which returns the bytes
    written."""
    writer = Writer(1)
    primitives.write_body(writer, tuple(deparser.get("primitives") or ()))
    writer.line("at = 0")
    for name in deparser["order"]:
        header = program.header(name)
        with writer.indented(f"if phv[{translator.valid_name(header)}] != 0:"):
            pieces = field_pieces(header.fields, translator.name_of)
            writer.extend(write_pieces("header", pieces, translator.name_of))
    writer.line("return at")
    found = set(re.findall(r"\w+", writer.text)) - {"phv", "record"}
    arguments = ", ".join(["phv", "header", *(name for name in ENVIRONMENT if name in found)])
    head = Writer()
    head.line(
        "@jit", f"def {function}({arguments}):", f'    """Deparser {remark(deparser["name"])}."""'
    )
    return head.text + writer.text


def call_of(function: str, sources: Iterable[str]) -> str:
    """Return the call of a function with the arguments that are called as its parameters are."""
    return next(
        found[0] for source in sources if (found := re.search(rf"\b{function}\(.*\)", source))
    )
