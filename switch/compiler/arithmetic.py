"""P4's operators on lowered expressions: masks for what wraps around, and folding of constants.

BMv2 computes with integers of any size and truncates only where a value is stored, so the result of
an operation is brought into its type's range at once (docs/JSON_format.md of behavioral-model).
"""

from collections.abc import Iterable
from functools import reduce

from weft.switch.compiler import constants
from weft.switch.compiler.ir import Choice, LoweredExpression, Number, OperatorCall, Truth, is_truth
from weft.switch.compiler.types import BitType, BoolType, IntType, Type, base_type

_WRAPPING = ("+", "-", "*", "<<")


def mask_of(width: int) -> int:
    """Return the number whose `width` lowest bits are 1, and no others."""
    return (1 << width) - 1


def truth(node: LoweredExpression) -> LoweredExpression:
    """Return a number as a truth value."""
    if is_truth(node):
        return node
    match node:
        case Number():
            return Truth(node.value != 0)
        case OperatorCall() if node.operator == "b2d":
            return node.right
    return OperatorCall("d2b", None, node)


def number(node: LoweredExpression) -> LoweredExpression:
    """Return a truth value as a number."""
    if not is_truth(node):
        return node
    match node:
        case Truth():
            return Number(int(node.value))
        case OperatorCall() if node.operator == "d2b":
            return node.right
    return OperatorCall("b2d", None, node)


def negate(node: LoweredExpression) -> LoweredExpression:
    """Return the logical not of a truth value."""
    match node:
        case Truth():
            return Truth(not node.value)
        case OperatorCall() if node.operator == "not":
            return node.right
    return OperatorCall("not", None, node)


def _logical(
    operator: str, neutral: bool, left: LoweredExpression, right: LoweredExpression
) -> LoweredExpression:
    """Return an operation on two truth values: the other one if one is known and `neutral`."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Truth):
            return other if one.value == neutral else one
    return OperatorCall(operator, left, right)


def both(left: LoweredExpression, right: LoweredExpression) -> LoweredExpression:
    """Return the logical and of two truth values."""
    return _logical("and", True, left, right)


def either(left: LoweredExpression, right: LoweredExpression) -> LoweredExpression:
    """Return the logical or of two truth values."""
    return _logical("or", False, left, right)


def all_of(nodes: Iterable[LoweredExpression]) -> LoweredExpression:
    """Return the logical and of any number of truth values."""
    holds: LoweredExpression = Truth(True)
    return reduce(both, nodes, holds)


def any_of(nodes: Iterable[LoweredExpression]) -> LoweredExpression:
    """Return the logical or of any number of truth values."""
    fails: LoweredExpression = Truth(False)
    return reduce(either, nodes, fails)


def wrapped(node: LoweredExpression, kind: Type) -> LoweredExpression:
    """Bring a number into the range of a fixed-width type."""
    kind = base_type(kind)
    if isinstance(node, Number):
        return Number(constants.wrap(node.value, kind))
    match kind:
        case BitType():
            return OperatorCall("&", node, Number(mask_of(kind.width)))
        case IntType():
            return OperatorCall("two_comp_mod", node, Number(kind.width))
    return node


def unary(operator: str, operand: LoweredExpression, kind: Type) -> LoweredExpression:
    """Return ``-``, ``~`` or ``+`` of a number."""
    if isinstance(operand, Number):
        return Number(constants.unary(operator, operand.value, kind))
    match operator:
        case "-":
            return wrapped(OperatorCall("-", Number(0), operand), kind)
        case "~":
            return wrapped(OperatorCall("~", None, operand), kind)
    return operand


def binary(
    operator: str, left: LoweredExpression, right: LoweredExpression, kind: Type, right_kind: Type
) -> LoweredExpression:
    """Return ``left operator right`` for numbers; `kind` is the left operand's type."""
    if isinstance(left, Number) and isinstance(right, Number):
        value = constants.binary(operator, left.value, right.value, kind, right_kind)
        return Truth(value) if isinstance(value, bool) else Number(value)
    bare = base_type(kind)
    width = getattr(bare, "width", 0)
    match operator:
        case "/" | "%":
            raise constants.EvaluationError(
                f"'{operator}' needs values that are known at compile time"
            )
        case "++":
            return concatenate(left, right, kind, right_kind)
        case "|+|" | "|-|":
            cast = "usat_cast" if isinstance(bare, BitType) else "sat_cast"
            return OperatorCall(cast, OperatorCall(operator[1], left, right), Number(width))
    if operator in ("<<", ">>") and isinstance(right, Number) and right.value >= max(width, 1):
        # BMv2 limits how far it shifts.
        if operator == "<<" or isinstance(bare, BitType):
            return Number(0)
        right = Number(width - 1)
    result = OperatorCall(operator, left, right)
    return wrapped(result, kind) if operator in _WRAPPING else result


def concatenate(
    left: LoweredExpression, right: LoweredExpression, kind: Type, right_kind: Type
) -> LoweredExpression:
    """Return ``left ++ right``."""
    low_width = getattr(base_type(right_kind), "width", 0)
    if isinstance(base_type(right_kind), IntType):
        right = OperatorCall("&", right, Number(mask_of(low_width)))
    return OperatorCall("|", OperatorCall("<<", left, Number(low_width)), right)


def slice_of(node: LoweredExpression, high: int, low: int, kind: Type) -> LoweredExpression:
    """Return ``node[high:low]``."""
    if isinstance(node, Number):
        return Number((node.value >> low) & mask_of(high - low + 1))
    shifted = OperatorCall(">>", node, Number(low)) if low else node
    if (
        low
        and isinstance(base_type(kind), BitType)
        and high == getattr(base_type(kind), "width", 0) - 1
    ):
        return shifted
    return OperatorCall("&", shifted, Number(mask_of(high - low + 1)))


def insert_slice(
    node: LoweredExpression, value: LoweredExpression, high: int, low: int, kind: Type
) -> LoweredExpression:
    """Return `node` with the bits `high` to `low` replaced by `value`."""
    bare = base_type(kind)
    kept = mask_of(getattr(bare, "width", 0)) ^ (mask_of(high - low + 1) << low)
    if isinstance(value, Number):
        moved: LoweredExpression = Number(value.value << low)
    else:
        moved = OperatorCall("<<", value, Number(low)) if low else value
    result = OperatorCall("|", OperatorCall("&", node, Number(kept)), moved)
    return wrapped(result, kind) if isinstance(bare, IntType) else result


def moving_slice(
    node: LoweredExpression, begin: LoweredExpression, width: int, kind: Type
) -> LoweredExpression:
    """Return ``node[begin +: width]``; bits beyond those of `node` are 0."""
    bare = base_type(kind)
    if isinstance(bare, IntType):
        node = OperatorCall("&", node, Number(mask_of(bare.width)))
    return OperatorCall("&", OperatorCall(">>", node, begin), Number(mask_of(width)))


def insert_moving_slice(
    node: LoweredExpression,
    value: LoweredExpression,
    begin: LoweredExpression,
    width: int,
    kind: Type,
) -> LoweredExpression:
    """Return `node` with `width` bits from bit `begin` on replaced, as far as it has them."""
    bare = base_type(kind)
    full = Number(mask_of(getattr(bare, "width", 0)))
    replaced = OperatorCall("&", OperatorCall("<<", Number(mask_of(width)), begin), full)
    kept = OperatorCall("&", node, OperatorCall("^", full, replaced))
    result = OperatorCall("|", kept, OperatorCall("&", OperatorCall("<<", value, begin), full))
    return wrapped(result, kind) if isinstance(bare, IntType) else result


def cast(node: LoweredExpression, source: Type, target: Type) -> LoweredExpression:
    """Return ``(target) node``."""
    left, right = base_type(source), base_type(target)
    if isinstance(right, BoolType):
        return truth(node)
    if isinstance(left, BoolType):
        return number(node)
    if isinstance(node, Number) and isinstance(right, (BitType, IntType)):
        return Number(constants.wrap(node.value, right))
    if isinstance(left, (BitType, IntType)) and isinstance(right, (BitType, IntType)):
        same_sign = type(left) is type(right)
        if not same_sign or right.width < left.width:
            return wrapped(node, right)
    return node


def choose(
    condition: LoweredExpression, then: LoweredExpression, otherwise: LoweredExpression
) -> LoweredExpression:
    """Return ``condition ? then : otherwise``."""
    if isinstance(condition, Truth):
        return then if condition.value else otherwise
    return Choice(condition, then, otherwise)
