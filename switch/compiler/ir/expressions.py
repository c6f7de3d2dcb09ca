"""Expressions over flat fields of header instances, with BMv2's operators."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LoweredExpression:
    """An expression tells how a value is computed; its operands are expressions, too."""


@dataclass(frozen=True)
class Number(LoweredExpression):
    """A number of any size is an expression."""

    value: int


@dataclass(frozen=True)
class Truth(LoweredExpression):
    """A truth value is an expression."""

    value: bool


@dataclass(frozen=True)
class HeaderField(LoweredExpression):
    """A field of a header instance is read by its name, which may be ``$valid$``."""

    header: str
    name: str


@dataclass(frozen=True)
class LastField(LoweredExpression):
    """A field is read of the last valid header of a stack."""

    stack: str
    name: str


@dataclass(frozen=True)
class LastUnionField(LoweredExpression):
    """A field is read of a member of the last valid union of a stack."""

    stack: str
    member: str
    name: str


@dataclass(frozen=True)
class NextUnion(LoweredExpression):
    """A parser extracts to a member of the next union of a stack."""

    stack: str
    member: str


@dataclass(frozen=True)
class ElementField(LoweredExpression):
    """A field is read, by its offset, of a header that is only known when the packet is there."""

    header: LoweredExpression
    offset: int


@dataclass(frozen=True)
class ActionParameter(LoweredExpression):
    """A parameter of an action is read by its place among those that the control plane gives."""

    index: int


@dataclass(frozen=True)
class Lookahead(LoweredExpression):
    """A parser looks at bits of the packet that are not parsed yet."""

    offset: int
    width: int


@dataclass(frozen=True)
class Reference(LoweredExpression):
    """A reference names an object: `kind` is header, header_stack, header_union, counter_array and
    so on."""

    kind: str
    name: str


@dataclass(frozen=True)
class OperatorCall(LoweredExpression):
    """An operator of BMv2 is applied to one operand, the right one, or to two."""

    operator: str
    left: LoweredExpression | None
    right: LoweredExpression


@dataclass(frozen=True)
class Choice(LoweredExpression):
    """One of two values is chosen by a condition."""

    condition: LoweredExpression
    then: LoweredExpression
    otherwise: LoweredExpression


@dataclass(frozen=True)
class Text(LoweredExpression):
    """A text is an operand of primitives that log."""

    value: str


@dataclass(frozen=True)
class Vector(LoweredExpression):
    """Several operands are given to a primitive as one."""

    items: tuple[LoweredExpression, ...]


@dataclass(frozen=True)
class FieldList(LoweredExpression):
    """Fields are given to a method of an extern instance as one operand."""

    items: tuple[LoweredExpression, ...]


TRUTH_OPERATORS = frozenset(
    ["==", "!=", "<", ">", "<=", ">=", "and", "or", "not", "d2b", "valid", "valid_union"]
)


def is_truth(node: LoweredExpression) -> bool:
    """Return whether an expression gives a truth value rather than a number."""
    match node:
        case OperatorCall():
            return node.operator in TRUTH_OPERATORS
        case Choice():
            return is_truth(node.then)
    return isinstance(node, Truth)


_OPERANDS: dict[type[LoweredExpression], Callable[[Any], Sequence[LoweredExpression | None]]] = {
    OperatorCall: lambda node: (node.left, node.right),
    Choice: lambda node: (node.condition, node.then, node.otherwise),
    ElementField: lambda node: (node.header,),
}


def operands(node: LoweredExpression) -> list[LoweredExpression]:
    """Return the expressions that an expression is computed from."""
    given = _OPERANDS.get(type(node))
    return [] if given is None else [item for item in given(node) if item is not None]
