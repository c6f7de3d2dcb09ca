"""BMv2's expressions, computed with numbers of any size."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import number
from weft.switch.interpreter.description import VALID, FieldType, Place
from weft.switch.interpreter.memory import Memory
from weft.switch.interpreter.packet import Packet

Json = Any

MOST_SHIFT = 65535
"""A shift by more leaves no bit that a field could hold."""


def unwrapped(node: Json) -> Json:
    """Return a node without the expressions around it that are none."""
    while node["type"] == "expression" and "op" not in node["value"]:
        node = node["value"]
    return node


def in_twos_complement(value: int, width: int) -> int:
    """Return the number with sign that the low bits of a number are."""
    return FieldType("", width, signed=True).cut(value)


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda a, b: a << b if b <= MOST_SHIFT else 0,
    ">>": lambda a, b: a >> min(b, MOST_SHIFT),
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "two_comp_mod": in_twos_complement,
    "usat_cast": lambda a, b: min(max(a, 0), (1 << b) - 1),
    "sat_cast": lambda a, b: min(max(a, -1 << (b - 1)), (1 << (b - 1)) - 1),
}


@dataclass
class Evaluator:
    """Computes the expressions that a packet meets; ``arguments`` are those of its action.

    An index out of bounds reads the nearest element and writes nothing: P4_16 leaves that open
    (section 8.18).
    """

    packet: Packet
    memory: Memory
    arguments: Sequence[int] = ()

    # -- what an expression names

    def index(self, node: Json, count: int, *, exact: bool) -> int | None:
        """Return an index, or the nearest one; with ``exact`` None where it is out of bounds."""
        value = self.number(node)
        return None if exact and not 0 <= value < count else min(max(value, 0), count - 1)

    def element(self, node: Json, *, exact: bool) -> list[str] | None:
        """Return the headers that an element of a stack, or a union, consists of."""
        node = unwrapped(node)
        if node["type"] == "header_union":
            return self.packet.program.unions[node["value"]]
        elements = self.packet.program.stacks[unwrapped(node["value"]["left"])["value"]]
        index = self.index(node["value"]["right"], len(elements), exact=exact)
        return None if index is None else elements[index]

    def header(self, node: Json, *, exact: bool = False) -> str | None:
        """Return the header that a node names."""
        node = unwrapped(node)
        if node["type"] == "header":
            return str(node["value"])
        content, place = node["value"], 0
        if content["op"] == "access_union_header":
            node, place = content["left"], content["right"]
        element = self.element(node, exact=exact)
        return None if element is None else element[place]

    def place(self, node: Json, *, exact: bool = False) -> Place | None:
        """Return the field that a node names; None for other nodes, and, with ``exact``, where an
        index is out of bounds."""
        node = unwrapped(node)
        content = node["value"]
        program = self.packet.program
        match node["type"]:
            case "field" if isinstance(content[0], dict):
                picked = self.header({"type": "expression", "value": content[0]}, exact=exact)
                return None if picked is None else (picked, content[1])
            case "field":
                return content[0], content[1]
            case "stack_field" | "union_stack_field":
                elements = program.stacks[content[0]]
                last = elements[max(self.packet.following.get(content[0], 0) - 1, 0)]
                names = program.member_names.get(content[0])
                return last[names.index(content[1]) if names else 0], content[-1]
            case "expression" if content["op"] == "access_field":
                header = self.header(content["left"], exact=exact)
                if header is not None:
                    return header, list(program.headers[header])[content["right"]]
        return None

    # -- what it is worth

    def number(self, node: Json) -> int:
        """Return the value of a node; a boolean is 0 or 1."""
        kind, content = node["type"], node.get("value")
        match kind:
            case "expression":
                return self.operation(content) if "op" in content else self.number(content)
            case "hexstr":
                return number(content)
            case "bool":
                return int(content)
            case "runtime_data" | "local":
                return self.arguments[int(content)]
            case "header":
                return int(self.packet.is_valid(content))
            case "register":
                cells = self.memory.registers[content[0]]
                index = self.index(content[1], len(cells), exact=False)
                assert index is not None
                return cells[index]
        place = self.place(node)
        if place is None:
            raise ProgramError(f"there are no values of type {kind!r}")
        return self.packet.read(place)

    def operation(self, node: Json) -> int:
        """Return the value of an operation."""
        op, left, right = node["op"], node.get("left"), node.get("right")
        match op:
            case "?":
                return self.number(left if self.number(node["cond"]) else right)
            case "and":
                return int(self.number(left) and self.number(right) and 1)
            case "or":
                return int(bool(self.number(left) or self.number(right)))
            case "not":
                return int(not self.number(right))
            case "d2b":
                return int(self.number(right) != 0)
            case "b2d":
                return self.number(right)
            case "~":
                return ~self.number(right)
            case "valid":
                return int(self.is_valid(self.header(right)))
            case "valid_union":
                return int(any(map(self.is_valid, self.element(right, exact=False) or ())))
            case "size_stack":
                return self.packet.following.get(unwrapped(right or left)["value"], 0)
            case "last_stack_index":
                name = unwrapped(right or left)["value"]
                return self.packet.following.get(name, 0) - 1 & 0xFFFFFFFF
            case "access_field":
                place = self.place({"type": "expression", "value": node})
                assert place is not None
                return self.packet.read(place)
            case "==":
                return int(self.equal(left, right))
            case "!=":
                return int(not self.equal(left, right))
        if left is None and op in "+-":
            return self.number(right) if op == "+" else -self.number(right)
        if op not in OPERATORS:
            raise ProgramError(f"BMv2 has no operator {op!r}")
        return int(OPERATORS[op](self.number(left), self.number(right)))

    def is_valid(self, header: str | None) -> bool:
        """Return whether a header that was named is valid."""
        return header is not None and self.packet.is_valid(header)

    def equal(self, left: Json, right: Json) -> bool:
        """Return whether numbers, headers, unions or fields of variable length are equal."""
        if is_union(left):
            pairs = zip(
                self.element(left, exact=False) or (),
                self.element(right, exact=False) or (),
                strict=True,
            )
            return any(self.same(one, other) for one, other in pairs)
        if is_header(left) and is_header(right):
            return self.same(self.header(left), self.header(right))
        sides = [self.place(left), self.place(right)]
        kinds = [side and side[1] != VALID and self.packet.program.field(side) for side in sides]
        if all(kind and kind.varbit for kind in kinds):
            one, other = (self.packet.bits(*side) for side in sides if side)
            return one == other
        return self.number(left) == self.number(right)

    def same(self, one: str | None, other: str | None) -> bool:
        """Return whether two headers are both valid, and all their fields equal."""
        assert one is not None and other is not None
        packet = self.packet
        both = packet.is_valid(one) and packet.is_valid(other)
        return both and packet.content(one) == packet.content(other)


def is_header(node: Json) -> bool:
    """Return whether a node is a header, not a number."""
    node = unwrapped(node)
    kinds = ("dereference_header_stack", "dereference_stack", "access_union_header")
    inner = node["type"] == "expression" and node["value"]["op"]
    return node["type"] == "header" or inner in kinds


def is_union(node: Json) -> bool:
    """Return whether a node is a header union."""
    node = unwrapped(node)
    inner = node["type"] == "expression" and node["value"]["op"]
    return bool(node["type"] == "header_union" or inner == "dereference_union_stack")
