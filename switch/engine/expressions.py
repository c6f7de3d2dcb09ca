"""BMv2 JSON expressions as Python source that is right both compiled and plain.

BMv2 computes with unbounded integers; compiled code computes in int64. The translation therefore
carries the bounds of every value: what fits int64 is used as it is; what may exceed it is only
used where 64-bit wrap-around gives the same result (sums that a mask cuts again, as p4c emits
them) or through the unsigned functions of ``switch.engine.native``. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from switch.engine.control import ProgramError
from switch.engine.program import Action, Field, Header, Program, number

Json = Any

MOST = (1 << 63) - 1
LEAST = -(1 << 63)
MOST64 = (1 << 64) - 1
UNBOUNDED = 1 << 256


@dataclass(frozen=True)
class Value:
    """Source of an expression and the bounds of what it computes; ``boolean``: True or False."""

    source: str
    low: int = 0
    high: int = 1
    boolean: bool = False

    @property
    def narrow(self) -> bool:
        """Whether the value itself fits int64, so that any operation is exact."""
        return self.low >= LEAST and self.high <= MOST

    @property
    def unsigned64(self) -> bool:
        """Whether it is a number of at most 64 bits without sign."""
        return self.low >= 0 and self.high <= MOST64

    @property
    def constant(self) -> int | None:
        """The number it is, if it is one."""
        return self.low if self.low == self.high and not self.boolean else None


def constant(value: int) -> Value:
    """A literal; from 2**63 on, the word with the same bits, as compiled code computes."""
    if value > MOST64 or value < LEAST:
        raise ProgramError(f"the constant {value:#x} has more than 64 bits: not supported yet")
    if value > MOST:
        return Value(f"unsigned64({value - (1 << 64)})", value, value)
    return Value(str(value) if value < 4096 else hex(value), value, value)


def field_bounds(field: Field) -> tuple[int, int]:
    """The least and the greatest value of a field."""
    if field.signed:
        return -(1 << (field.width - 1)), (1 << (field.width - 1)) - 1
    return 0, (1 << field.width) - 1


def store(value: Value, width: int, signed: bool) -> str:
    """Source of ``value`` cut to a field of ``width`` bits, as a word to store."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    if value.boolean:
        return f"(1 if {value.source} else 0)"
    if width == 0:
        return "0"
    if low <= value.low and value.high <= high:
        return f"word64({value.source})" if width == 64 else value.source
    if width == 64:
        return f"word64({value.source})"
    if signed:
        sign = 1 << (width - 1)
        mask = (1 << width) - 1
        return f"((({value.source} & {mask:#x}) ^ {sign:#x}) - {sign:#x})"
    return f"({value.source} & {(1 << width) - 1:#x})"


class Translator:
    """Translates the expressions of one program; ``action`` says what *local* values are."""

    def __init__(self, program: Program, name_of: Callable[[Field], str]) -> None:
        self.program = program
        self.name_of = name_of
        self.action: Action | None = None

    def valid_name(self, header: Header) -> str:
        """The constant that names a packet header's validity in the PHV."""
        if header.valid_slot < 0:
            raise ProgramError(f"{header.name!r} is metadata: it has no validity")
        return self.name_of(Field("$valid$", 1, False, header.valid_slot))

    def load(self, reference: Json) -> Value:
        """A field's value."""
        header = self.program.header(reference[0])
        if reference[1] == "$valid$" and header.metadata:
            return constant(1)
        return self.load_field(self.program.resolve(reference))

    def load_field(self, field: Field, place: str | None = None) -> Value:
        """The value of a field, at its own place in the PHV or at a computed one."""
        source = f"phv[{place or self.name_of(field)}]"
        if field.width == 64 and not field.signed:
            source = f"unsigned64({source})"
        return Value(source, *field_bounds(field))

    def value(self, node: Json) -> Value:
        """Translate a type-value object; raises ``ProgramError`` for what is not supported."""
        kind, content = node["type"], node.get("value")
        if kind == "expression":
            return self.expression(content) if "op" in content else self.value(content)
        if kind == "field":
            return self.load(content)
        if kind == "hexstr":
            return constant(number(content))
        if kind == "bool":
            return Value("True" if content else "False", boolean=True)
        if kind in ("runtime_data", "local"):
            if self.action is None or not 0 <= content < len(self.action.widths):
                raise ProgramError(f"parameter {content} of an action that has no such parameter")
            width = self.action.widths[content]
            source = f"image[record + {content + 1}]"
            if width == 64:
                source = f"unsigned64({source})"
            return Value(source, 0, (1 << width) - 1)
        if kind == "header":
            header = self.program.header(content)
            return Value(f"phv[{self.valid_name(header)}]")
        if kind == "stack_field":
            return self.last_field(content)
        raise ProgramError(f"a value of type {kind!r} ({content!r}) is not supported yet")

    def condition(self, node: Json) -> str:
        """Translate a boolean expression."""
        value = self.value(node)
        return value.source if value.boolean else f"{value.source} != 0"

    def integer(self, node: Json) -> Value:
        """Translate an expression to a number (a boolean becomes 0 or 1)."""
        value = self.value(node)
        return Value(f"(1 if {value.source} else 0)") if value.boolean else value

    def narrow(self, node: Json, what: str) -> str:
        """Translate to a number that fits int64."""
        value = self.integer(node)
        if not value.narrow:
            raise ProgramError(f"{what} may exceed 63 bits: not supported yet")
        return value.source

    def stack_place(self, stack_name: str, position: str, offset: int) -> str:
        """The PHV index of a field of a stack's element at a computed, checked position."""
        stack = self.program.stacks.get(stack_name)
        if stack is None:
            raise ProgramError(f"the program has no header stack {stack_name!r}")
        first = stack.headers[0].fields[offset].slot
        size = len(stack.headers[0].fields)
        last = len(stack.headers) - 1
        return f"{first} + {size} * min(max({position}, 0), {last})"

    def last_field(self, reference: Json) -> Value:
        """A field of the last extracted element of a stack."""
        stack = self.program.stacks.get(reference[0])
        if stack is None:
            raise ProgramError(f"the program has no header stack {reference[0]!r}")
        names = [field.name for field in stack.headers[0].fields]
        offset = names.index(reference[1])
        place = self.stack_place(reference[0], f"phv[{stack.next_slot}] - 1", offset)
        return self.load_field(stack.headers[0].fields[offset], place)

    def element(self, node: Json) -> tuple[Any, Field, str]:
        """The field, with its computed place, that an *access_field* expression names."""
        while node["type"] == "expression" and "op" not in node["value"]:
            node = node["value"]
        content = node["value"]
        left = content["left"]
        while left["type"] == "expression" and "op" not in left["value"]:
            left = left["value"]
        if left["type"] == "header":
            header = self.program.header(left["value"])
            field = header.fields[content["right"]]
            return None, field, self.name_of(field)
        if left["type"] != "expression" or left["value"]["op"] != "dereference_header_stack":
            raise ProgramError("access to a field of something else than a header: not supported")
        inner = left["value"]
        stack = self.program.stacks[inner["left"]["value"]]
        field = stack.headers[0].fields[content["right"]]
        position = self.narrow(inner["right"], "the index of a header stack")
        return stack, field, self.stack_place(stack.name, position, content["right"])

    def expression(self, node: Json) -> Value:
        """Translate an operation."""
        operator = node["op"]
        if operator == "access_field":
            _, field, place = self.element({"type": "expression", "value": node})
            return self.load_field(field, place)
        if operator in ("valid", "d2b", "not", "b2d", "~"):
            return self.unary(operator, node["right"])
        if operator in ("last_stack_index", "size_stack"):
            inner = node["right"] if node.get("right") else node["left"]
            stack = self.program.stacks[inner["value"]]
            count = len(stack.headers)
            if operator == "size_stack":
                return Value(f"phv[{stack.next_slot}]", 0, count)
            return Value(f"((phv[{stack.next_slot}] - 1) & 0xFFFFFFFF)", 0, 0xFFFFFFFF)
        if operator == "?":
            chosen, other = self.value(node["left"]), self.value(node["right"])
            test = self.condition(node["cond"])
            if chosen.boolean != other.boolean:
                raise ProgramError("the two sides of '?' are a number and a boolean")
            low, high = min(chosen.low, other.low), max(chosen.high, other.high)
            source = f"({chosen.source} if {test} else {other.source})"
            return Value(source, low, high, chosen.boolean)
        if operator in ("and", "or"):
            left, right = self.condition(node["left"]), self.condition(node["right"])
            return Value(f"({left} {operator} {right})", boolean=True)
        if node["left"] is None:
            if operator in ("+", "-"):
                value = self.integer(node["right"])
                if operator == "+":
                    return value
                return Value(f"(-{value.source})", -value.high, -value.low)
            raise ProgramError(f"operator {operator!r} with one operand is not supported")
        return self.binary(operator, node["left"], node["right"])

    def unary(self, operator: str, operand: Json) -> Value:
        """An operation on one operand."""
        if operator == "not":
            return Value(f"(not ({self.condition(operand)}))", boolean=True)
        if operator in ("valid", "d2b"):
            return Value(f"({self.integer(operand).source} != 0)", boolean=True)
        if operator == "b2d":
            return Value(f"(1 if {self.condition(operand)} else 0)")
        value = self.integer(operand)
        return Value(f"(~{value.source})", ~value.high, ~value.low)

    def binary(self, operator: str, left_node: Json, right_node: Json) -> Value:
        """An operation on two operands."""
        if operator in ("==", "!="):
            left, right = self.value(left_node), self.value(right_node)
            if left.boolean and right.boolean:
                return Value(f"({left.source} {operator} {right.source})", boolean=True)
        left, right = self.integer(left_node), self.integer(right_node)
        a, b = left.source, right.source
        narrow = left.narrow and right.narrow
        word = left.unsigned64 and right.unsigned64
        if operator in ("==", "!="):
            if not narrow and not word:
                raise too_wide(operator)
            return Value(f"({a} {operator} {b})", boolean=True)
        if operator in ("<", ">", "<=", ">="):
            if narrow:
                return Value(f"({a} {operator} {b})", boolean=True)
            if not word:
                raise too_wide(operator)
            first, second = (a, b) if operator in ("<", ">=") else (b, a)
            test = f"less64({first}, {second})"
            return Value(test if operator in ("<", ">") else f"(not {test})", boolean=True)
        if operator == "+":
            return Value(f"({a} + {b})", left.low + right.low, left.high + right.high)
        if operator == "-":
            return Value(f"({a} - {b})", left.low - right.high, left.high - right.low)
        if operator == "*":
            ends = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
            return Value(f"({a} * {b})", min(ends), max(ends))
        if operator in ("/", "%"):
            if left.low < 0 or right.low < 0 or not word:
                raise too_wide(operator)
            function = "divide64" if operator == "/" else "modulo64"
            high = left.high if operator == "/" else min(left.high, max(right.high - 1, 0))
            return Value(f"{function}({a}, {b})", 0, high)
        if operator == "&":
            if left.low >= 0 or right.low >= 0:
                highs = [side.high for side in (left, right) if side.low >= 0]
                return Value(f"({a} & {b})", 0, min(highs))
            return Value(f"({a} & {b})", min(left.low, right.low), max(left.high, right.high))
        if operator in ("|", "^"):
            bits = max(side.bit_length() for side in (left.low, left.high, right.low, right.high))
            low = -(1 << bits) if left.low < 0 or right.low < 0 else 0
            return Value(f"({a} {operator} {b})", low, (1 << bits) - 1)
        if operator in ("<<", ">>"):
            return self.shift(operator, left, right)
        if operator in ("two_comp_mod", "usat_cast", "sat_cast"):
            return convert(operator, left, right)
        raise ProgramError(f"operator {operator!r} is not supported yet")

    def shift(self, operator: str, left: Value, right: Value) -> Value:
        """A shift; by a constant amount in place, else by a function that checks the amount."""
        amount = right.constant
        if not right.narrow or right.low < 0:
            raise too_wide(operator)
        if operator == "<<":
            most = min(right.high if amount is None else amount, 256)
            low = min(left.low << most, left.low)
            high = max(left.high << most, left.high)
            if amount is not None and amount < 64:
                return Value(f"({left.source} << {amount})", low, high)
            return Value(f"shift_left({left.source}, {right.source})", low, high)
        least = amount if amount is not None else 0
        if left.narrow:
            low, high = min(left.low, left.low >> least), max(left.high >> least, 0)
            if amount is not None and amount < 64:
                return Value(f"({left.source} >> {amount})", left.low >> amount, high)
            return Value(f"shift_right({left.source}, {right.source})", low, high)
        if not left.unsigned64:
            raise too_wide(operator)
        return Value(f"shift_right64({left.source}, {right.source})", 0, left.high >> least)


def too_wide(operator: str) -> ProgramError:
    """The error for an operation whose exact result 64 bits cannot give."""
    return ProgramError(f"operator {operator!r} on values of more than 64 bits: not supported yet")


def convert(operator: str, left: Value, right: Value) -> Value:
    """Sign extension and the two saturating casts, to a constant width."""
    width = right.constant
    if width is None or not 1 <= width <= 64:
        raise ProgramError(f"operator {operator!r} needs a constant width from 1 to 64")
    if operator == "two_comp_mod":
        source = store(left, width, True)
        return Value(source, -(1 << (width - 1)), (1 << (width - 1)) - 1)
    signed = operator == "sat_cast"
    low = -(1 << (width - 1)) if signed else 0
    high = (1 << (width - 1 if signed else width)) - 1
    if low <= left.low and left.high <= high:
        return left
    if not left.narrow or high > MOST:
        raise too_wide(operator)
    return Value(f"min(max({left.source}, {low}), {high})", low, high)
