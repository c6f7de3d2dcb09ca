"""P4 expressions over what a stopped packet holds: numbers of any size, and truth."""

import operator
from collections.abc import Callable

from weft.base.errors import InputError
from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.parse.parser import parse_expression
from weft.switch.debugger.values import View, shown

Value = int | bool

MOST_SHIFT = 4096

_BINARY: dict[str, Callable[[int, int], Value]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def parsed(text: str) -> syntax.Expression:
    """Return an expression. Raises InputError for a text that is none."""
    reporter = Reporter({})
    found = parse_expression(text, reporter)
    if found is None or reporter.errors:
        why = reporter.errors[0].message if reporter.errors else "there is nothing"
        raise InputError(f"{text!r} is no expression of P4: {why}")
    return found


def evaluated(text: str, view: View) -> Value:
    """Return the value of an expression. Raises InputError."""
    return _value(parsed(text), view)


def described(text: str, view: View) -> str:
    """Return what an expression or a header holds, as text. Raises InputError."""
    node = parsed(text)
    path = _path(node)
    if path is not None:
        header = view.header(path)
        if header is not None:
            return header_text(header, view)
        at = view.find(path)
        return view.text(at)
    return shown(_value(node, view))


def header_text(header: str, view: View) -> str:
    """Return a header in one line."""
    if not view.packet.is_valid(header):
        return "invalid"
    parts = (f"{name} = {view.text((header, name))}" for name in view.fields(header))
    return "{" + ", ".join(parts) + "}"


def assign(target: str, text: str, view: View) -> None:
    """Store the value of an expression in what a name means; ``true`` or ``false`` make a header
    valid or invalid. Raises InputError."""
    value = evaluated(text, view)
    path = _path(parsed(target))
    if path is None:
        raise InputError(f"{target!r} cannot be set: name a field, a variable or a header")
    header = view.header(path)
    if header is None:
        view.write(view.find(path), int(value))
    elif isinstance(value, bool):
        view.set_valid(header, value)
    else:
        raise InputError(f"{target} is a header: set it to true (valid) or false, or its fields")


def _path(node: syntax.Expression) -> str | None:
    """Return a name with dots and numbers in brackets as text."""
    match node:
        case syntax.Name():
            return node.name
        case syntax.MemberAccess():
            base = _path(node.base)
            return None if base is None else f"{base}.{node.name}"
        case syntax.Index(index=syntax.IntegerLiteral() as index):
            base = _path(node.base)
            return None if base is None else f"{base}[{index.value}]"
    return None


def _value(node: syntax.Expression, view: View) -> Value:
    match node:
        case syntax.IntegerLiteral() | syntax.BooleanLiteral():
            return node.value
        case syntax.Unary():
            return _unary(node.operator, _value(node.operand, view))
        case syntax.Binary():
            return _binary(node, view)
        case syntax.Conditional():
            return _value(node.then if _value(node.condition, view) else node.otherwise, view)
        case syntax.CastExpression():
            return _cast(node, view)
        case syntax.Slice():
            high, low = int(_value(node.high, view)), int(_value(node.low, view))
            if node.low_and_width:
                high, low = high + low - 1, high
            if not 0 <= low <= high <= MOST_SHIFT:
                raise InputError(f"there are no bits {high} to {low}")
            return int(_value(node.base, view)) >> low & ((1 << (high - low + 1)) - 1)
        case syntax.CallExpression(callee=syntax.MemberAccess(name="isValid") as callee):
            header = view.header(_path(callee.base) or "")
            if header is None:
                raise InputError("isValid() is asked of what is no header")
            return view.packet.is_valid(header)
    path = _path(node)
    if path is None:
        raise InputError(
            "a debugger's expression has names, numbers, operators, slices, casts to bit<N> and "
            "isValid(), and nothing else"
        )
    if view.header(path) is not None:
        raise InputError(f"{path} is a header, and no number")
    return view.read(view.find(path))


def _cast(node: syntax.CastExpression, view: View) -> Value:
    value, to = _value(node.operand, view), node.reference
    if not isinstance(to, syntax.BaseTypeReference):
        return value
    if to.kind == "bool":
        return bool(value)
    width = None if to.width is None else int(_value(to.width, view))
    return int(value) if width is None else int(value) & ((1 << min(width, MOST_SHIFT)) - 1)


def _unary(sign: str, value: Value) -> Value:
    match sign:
        case "!":
            return not value
        case "-":
            return -value
        case "~":
            return ~value
    return value


def _binary(node: syntax.Binary, view: View) -> Value:
    left = _value(node.left, view)
    match node.operator:
        case "&&":
            return bool(left) and bool(_value(node.right, view))
        case "||":
            return bool(left) or bool(_value(node.right, view))
    right = _value(node.right, view)
    match node.operator:
        case "<<" | ">>":
            if not 0 <= right <= MOST_SHIFT:
                raise InputError(f"a shift by {right} is none of 0 to {MOST_SHIFT}")
            return left << right if node.operator == "<<" else left >> right
        case "/" | "%":
            if right == 0:
                raise InputError("a division by 0")
            return left // right if node.operator == "/" else left % right
    if node.operator not in _BINARY:
        raise InputError(f"a debugger's expression has no operator {node.operator}")
    return _BINARY[node.operator](left, right)
