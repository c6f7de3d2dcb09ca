"""BMv2 JSON expressions as Python source that is right both compiled and plain.

BMv2 computes with unbounded integers; compiled code computes in int64, or in integers of several
words. The translation therefore carries the bounds of every value (`values`):
what fits int64 is used as it is; what may exceed it is only used where 64-bit wrap-around gives the
same result (sums that a mask cuts again, as p4c emits them), through the unsigned functions of
``weft.switch.engine.native.compiled``, or as a wide integer of as many words as its bounds ask for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.codegen.operations import OPERATIONS, bitwise, compare, convert
from weft.switch.engine.codegen.references import (
    HeaderReference,
    comparison,
    field_place,
    header_reference,
    last_field,
    last_place,
    readable,
    union_test,
    unwrap,
    valid_place,
    valid_test,
)
from weft.switch.engine.codegen.values import (
    MOST64,
    Value,
    constant,
    exact_words,
    load,
    load_varbit,
    store,
    word_sources,
)
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Family, Field, Header, named
from weft.switch.engine.program.program import KeyField, Program, ProgramAction, number

__all__ = ["Translator", "Value", "constant", "store"]

Json = Any


@dataclass(eq=False)
class Translator:
    """Translate the expressions of one program; ``action`` says what *local* values are."""

    program: Program
    name_of: Callable[[Field], str]
    action: ProgramAction | None = None

    def valid_name(self, header: Header) -> str:
        """Return the constant that names a packet header's validity in the PHV."""
        refuse(
            header.valid_slot < 0, f"{header.name!r} is metadata: it has no validity", ProgramError
        )
        return self.name_of(Field("$valid$", 1, False, header.valid_slot))

    def load(self, reference: Json) -> Value:
        """Return a field's value."""
        if isinstance(reference[0], dict):  # p4c writes the validity of stack[index] so
            picked = readable(header_reference(self, {"type": "expression", "value": reference[0]}))
            if reference[1] == "$valid$":
                return Value(f"phv[{valid_place(self, picked)}]")
            field = picked.first.field(reference[1])
            return self.load_field(field, field_place(self, picked, field))
        header = self.program.header(reference[0])
        if reference[1] == "$valid$" and header.metadata:
            return constant(1)
        return self.load_field(self.program.resolve(reference))

    def load_field(self, field: Field, place: str | None = None) -> Value:
        """Return the value of a field, at its own place in the PHV or at a computed one."""
        last = None
        if place is None or place == self.name_of(field):
            place = self.name_of(field)
            last = self.name_of(field.parts[field.data_words - 1])
        if field.varbit:
            return load_varbit(place, f"{place} + {field.data_words}", field)
        return load("phv", place, field.width, field.signed, last)

    def key_words(self, key: KeyField) -> list[str]:
        """Return the words of a field of a table's key, without sign, under its mask."""
        value = self.load(key.target)
        if key.mask is not None:
            value = bitwise("&", value, constant(key.mask & ((1 << key.width) - 1)))
        return word_sources(value, key.width)

    def value(self, node: Json) -> Value:
        """Translate a type-value object; raises ``ProgramError`` for what is not supported."""
        kind, content = node["type"], node.get("value")
        match kind:
            case "expression":
                return self.expression(content) if "op" in content else self.value(content)
            case "field":
                return self.load(content)
            case "hexstr":
                return constant(number(content))
            case "bool":
                return Value("True" if content else "False", boolean=True)
            case "runtime_data" | "local":
                if self.action is None or not 0 <= content < len(self.action.widths):
                    raise ProgramError(
                        f"parameter {content} of an action that has no such parameter"
                    )
                place = f"record + {self.action.place(content)}"
                return load("image", place, self.action.widths[content], False)
            case "header":
                return Value(f"phv[{self.valid_name(self.program.header(content))}]")
            case "stack_field" | "union_stack_field":
                return self.load_field(*last_place(self.program, node))
            case "register":
                return self.register(content)
        raise ProgramError(f"there are no values of type {kind!r} ({content!r})")

    def condition(self, node: Json) -> str:
        """Translate a boolean expression."""
        return self.truth(self.value(node))

    def truth(self, value: Value) -> str:
        """Return the condition that a value is not 0, or true."""
        if value.boolean:
            return value.source
        if value.narrow or value.unsigned64:
            return f"{value.source} != 0"
        return compare("!=", value, constant(0)).source

    def integer(self, node: Json) -> Value:
        """Translate an expression to a number (a boolean becomes 0 or 1)."""
        value = self.value(node)
        return Value(f"(1 if {value.source} else 0)") if value.boolean else value

    def word(self, node: Json) -> Value:
        """Translate to a number of 64 bits without sign, as BMv2 converts to one."""
        value = self.integer(node)
        if value.unsigned64:
            return value
        if value.narrow:
            return Value(f"unsigned64({value.source})", 0, MOST64)
        return convert("usat_cast", value, constant(64))

    def narrow(self, node: Json, what: str) -> str:
        """Translate to a number that fits int64: one that does not becomes 2**62 (or -2**62)."""
        value = self.integer(node)
        if value.narrow:
            return value.source
        return f"wide_clip({value.at(exact_words(value, signed=True)[0])})"

    def register(self, reference: Json) -> Value:
        """Return a cell of a register array; an index out of bounds reads the nearest."""
        cells = named(self.program.registers, reference[0], "register")
        index = self.narrow(reference[1], f"the index of register {cells.name!r}")
        place = cells.place(f"min(max({index}, 0), {cells.size - 1})")
        return load("registers", place, cells.width, cells.signed)

    def element(self, node: Json) -> tuple[HeaderReference, Field]:
        """Return the header and the field of it (of the first one, if there is an index) that an
        *access_field* expression names."""
        content = unwrap(node)["value"]
        reference = header_reference(self, content["left"])
        return reference, reference.first.fields[content["right"]]

    def field_reference(self, node: Json) -> tuple[HeaderReference, Field] | None:
        """Return the header and the field of it (of the first one, if there is an index) that a
        node names; None if it names none."""
        node = unwrap(node)
        content = node.get("value")
        match node["type"]:
            case "expression" if content["op"] == "access_field":
                return self.element(node)
            case "stack_field" | "union_stack_field":
                return last_field(self.program, node)
            case "field" if isinstance(content[0], str) and content[1] != "$valid$":
                header = self.program.header(content[0])
                return HeaderReference(Family((header,))), self.program.resolve(content)
        return None

    def stack_end(self, node: Json) -> tuple[int, int]:
        """Return where a stack's number of extracted elements is, and how many it can have."""
        node = unwrap(node)
        if node["type"] == "header_union_stack":
            unions = self.program.groups.union_stack(node["value"])
            return unions.next_slot, len(unions.unions)
        stack = self.program.stack(node["value"])
        return stack.next_slot, len(stack.headers)

    def expression(self, node: Json) -> Value:
        """Translate an operation."""
        operator = node["op"]
        match operator:
            case "access_field":
                reference, field = self.element({"type": "expression", "value": node})
                return self.load_field(field, field_place(self, readable(reference), field))
            case "valid_union":
                return Value(union_test(self, node["right"]), boolean=True)
            case "valid":
                return Value(valid_test(self, node["right"]), boolean=True)
            case "d2b" | "not" | "b2d" | "~":
                return self.unary(operator, node["right"])
            case "last_stack_index" | "size_stack":
                inner = node["right"] if node.get("right") else node["left"]
                next_slot, count = self.stack_end(inner)
                if operator == "size_stack":
                    return Value(f"phv[{next_slot}]", 0, count)
                return Value(f"((phv[{next_slot}] - 1) & 0xFFFFFFFF)", 0, 0xFFFFFFFF)
            case "?":
                chosen, other = self.value(node["left"]), self.value(node["right"])
                test = self.condition(node["cond"])
                refuse(
                    chosen.boolean != other.boolean,
                    "the two sides of '?' are a number and a boolean",
                    ProgramError,
                )
                low, high = min(chosen.low, other.low), max(chosen.high, other.high)

                def either(words: int) -> str:
                    return f"({chosen.at(words)} if {test} else {other.at(words)})"

                if chosen.boolean:
                    return Value(
                        f"({chosen.source} if {test} else {other.source})", low, high, True
                    )
                return Value(either(1), low, high, wide=either)
            case "and" | "or":
                left, right = self.condition(node["left"]), self.condition(node["right"])
                return Value(f"({left} {operator} {right})", boolean=True)
        if node["left"] is None:
            if operator in ("+", "-"):
                value = self.integer(node["right"])
                if operator == "+":
                    return value
                return Value(
                    f"(-{value.source})",
                    -value.high,
                    -value.low,
                    wide=lambda words: f"wide_negate({value.at(words)})",
                )
            raise ProgramError(f"operator {operator!r} with one operand is not supported")
        return self.binary(operator, node["left"], node["right"])

    def unary(self, operator: str, operand: Json) -> Value:
        """Translate an operation on one operand."""
        match operator:
            case "not":
                return Value(f"(not ({self.condition(operand)}))", boolean=True)
            case "d2b":
                return Value(f"({self.truth(self.value(operand))})", boolean=True)
            case "b2d":
                return Value(f"(1 if {self.condition(operand)} else 0)")
        value = self.integer(operand)
        return Value(
            f"(~{value.source})",
            ~value.high,
            ~value.low,
            wide=lambda words: f"wide_not({value.at(words)})",
        )

    def binary(self, operator: str, left_node: Json, right_node: Json) -> Value:
        """Translate an operation on two operands."""
        if operator in ("==", "!="):
            test = comparison(self, operator, left_node, right_node)
            if test is not None:
                return Value(test, boolean=True)
            left, right = self.value(left_node), self.value(right_node)
            if left.boolean and right.boolean:
                return Value(f"({left.source} {operator} {right.source})", boolean=True)
        left, right = self.integer(left_node), self.integer(right_node)
        if operator in OPERATIONS:
            return OPERATIONS[operator](operator, left, right)
        raise ProgramError(f"operator {operator!r} is none of BMv2's")
