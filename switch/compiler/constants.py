"""Evaluation of P4 expressions on values known at compile time."""

from weft.base.errors import refuse
from weft.switch.compiler.types import BitType, BoolType, IntegerType, IntType, Type, base_type


class EvaluationError(Exception):
    """An operation has no value, such as a division by zero; the text says why."""


MAXIMUM_BITS = 1 << 16


def wrap(value: int, kind: Type) -> int:
    """Return a value as a type holds it: modulo 2^width, in two's complement if signed."""
    kind = base_type(kind)
    match kind:
        case BitType():
            return value & ((1 << kind.width) - 1)
        case IntType() if kind.width:
            value &= (1 << kind.width) - 1
            return value - ((value >> (kind.width - 1)) << kind.width)
    return value


def saturate(value: int, kind: Type) -> int:
    """Return the nearest value that a type holds."""
    kind = base_type(kind)
    match kind:
        case BitType():
            return min(max(value, 0), (1 << kind.width) - 1)
        case IntType():
            return min(max(value, -(1 << (kind.width - 1))), (1 << (kind.width - 1)) - 1)
    return value


def unary(operator: str, value: int, kind: Type) -> int:
    """Return ``-``, ``~`` or ``+`` of a number; `kind` is its type."""
    match operator:
        case "-":
            return wrap(-value, kind)
        case "~":
            return wrap(~value, kind)
    return value


def binary(operator: str, left: int, right: int, kind: Type, right_kind: Type) -> int | bool:
    """Return ``left operator right``; `kind` is the left operand's type."""
    match operator:
        case "==" | "!=" | "<" | ">" | "<=" | ">=":
            return {
                "==": left == right, "!=": left != right, "<": left < right,
                ">": left > right, "<=": left <= right, ">=": left >= right,
            }[operator]  # fmt: skip
        case "<<" | ">>":
            refuse(right < 0, "cannot shift by a negative number", EvaluationError)
            bits = getattr(base_type(kind), "width", None)
            if operator == ">>":
                return left >> min(right, MAXIMUM_BITS)
            if bits is None and right > MAXIMUM_BITS:
                raise EvaluationError(f"cannot shift by {right}: the result is too large")
            return wrap(left << right, kind) if bits is None or right < bits else 0
        case "/" | "%":
            refuse(right == 0, "division by zero", EvaluationError)
            refuse(
                left < 0 or right < 0,
                f"'{operator}' of negative numbers is not defined",
                EvaluationError,
            )
            return left // right if operator == "/" else left % right
        case "++":
            width = int(getattr(base_type(right_kind), "width", 0))
            total = int(getattr(base_type(kind), "width", 0)) + width
            return wrap(
                (left << width) | (right & ((1 << width) - 1)),
                IntType(total) if isinstance(base_type(kind), IntType) else BitType(total),
            )
        case "|+|" | "|-|":
            return saturate(left + right if operator == "|+|" else left - right, kind)
        case "*" if left.bit_length() + right.bit_length() > MAXIMUM_BITS:
            raise EvaluationError("the result is too large")
    results = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
        "&": lambda: left & right, "|": lambda: left | right, "^": lambda: left ^ right,
    }  # fmt: skip
    return wrap(results[operator](), kind)


def cast(value: int | bool, source: Type, target: Type) -> int | bool:
    """Return the value of ``(target) value``."""
    target = base_type(target)
    if isinstance(target, BoolType):
        return bool(value)
    if isinstance(base_type(source), BoolType):
        value = int(value)
    match target:
        case BitType() | IntType():
            return wrap(int(value), target)
        case IntegerType():
            return int(value)
    return value
