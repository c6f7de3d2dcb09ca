"""The operators of BMv2's expressions on values: their source, and the bounds of the results."""

from collections.abc import Callable

from weft.base.errors import refuse
from weft.switch.engine.codegen.values import (
    MOST,
    Value,
    computed,
    constant,
    exact_words,
    store,
    width_bounds,
)
from weft.switch.engine.program.errors import ProgramError

MOST_SHIFT = 65535
"""A value shifted to the left by more is 0: no field keeps any of its bits."""
MOST_INLINE_WORDS = 32
"""The most words of a product that is computed in place."""
MOST_WIDTH = 16384
"""The most bits of a cast."""


def compare(operator: str, left: Value, right: Value) -> Value:
    """Return the two numbers compared, whatever their widths and signs."""
    a, b = left.source, right.source
    word = left.unsigned64 and right.unsigned64
    if (left.narrow and right.narrow) or (word and operator in ("==", "!=")):
        return Value(f"({a} {operator} {b})", boolean=True)
    less = "less64"
    if not word:
        words, unsigned = exact_words(left, right)
        a, b = left.at(max(words, 2)), right.at(max(words, 2))
        less = "wide_less_unsigned" if unsigned else "wide_less"
    function = "wide_equal" if operator in ("==", "!=") else less
    first, second = (b, a) if operator in (">", "<=") else (a, b)
    test = f"{function}({first}, {second})"
    return Value(test if operator in ("==", "<", ">") else f"(not {test})", boolean=True)


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Return a sum, difference or product."""

    def wide(words: int) -> str:
        name = {"+": "add", "-": "sub", "*": "mul"}[operator]
        if operator == "*" and words > MOST_INLINE_WORDS:
            name = "multiply"
        return f"wide_{name}({left.at(words)}, {right.at(words)})"

    match operator:
        case "+":
            low, high = left.low + right.low, left.high + right.high
        case "-":
            low, high = left.low - right.high, left.high - right.low
        case _:
            ends = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
            low, high = min(ends), max(ends)
    return Value(f"({left.source} {operator} {right.source})", low, high, wide=wide)


def divide(operator: str, left: Value, right: Value) -> Value:
    """Return a quotient or remainder of numbers without sign, as P4 has them; 0 where the divisor
    is 0."""
    refuse(
        left.low < 0 or right.low < 0,
        f"operator {operator!r} on numbers that may be negative: P4 has none",
        ProgramError,
    )
    high = left.high if operator == "/" else min(left.high, max(right.high - 1, 0))
    if left.unsigned64 and right.unsigned64:
        function = "divide64" if operator == "/" else "modulo64"
        return Value(f"{function}({left.source}, {right.source})", 0, high)
    words, _ = exact_words(left, right)
    function = "wide_divide" if operator == "/" else "wide_modulo"
    words = max(words, 2)
    return computed(0, high, words, lambda n: f"{function}({left.at(n)}, {right.at(n)})")


def bitwise(operator: str, left: Value, right: Value) -> Value:
    """Return the and, the or or the exclusive or of two values."""
    name = {"&": "and", "|": "or", "^": "xor"}[operator]

    def wide(words: int) -> str:
        return f"wide_{name}({left.at(words)}, {right.at(words)})"

    source = f"({left.source} {operator} {right.source})"
    bits = max(side.bit_length() for side in (left.low, left.high, right.low, right.high))
    if operator == "&" and (left.low >= 0 or right.low >= 0):
        high = min(side.high for side in (left, right) if side.low >= 0)
        return Value(source, 0, high, wide=wide)
    if operator == "&":
        # Two numbers of one sign may have no bit in common but the sign.
        return Value(source, -(1 << bits), max(left.high, right.high), wide=wide)
    low = -(1 << bits) if left.low < 0 or right.low < 0 else 0
    return Value(source, low, (1 << bits) - 1, wide=wide)


def amount_source(amount: Value) -> str:
    """Return the source of the amount of a shift: negative, or out of any range, where it does not
    fit."""
    if amount.narrow or amount.unsigned64:
        return amount.source
    return f"wide_clip({amount.at(exact_words(amount, signed=True)[0])})"


def shift_left(left: Value, right: Value) -> Value:
    """Return a shift to the left; by a constant amount in place, else by a function that checks
    it."""
    amount = right.constant
    refuse(right.high < 0, "a shift by a negative amount", ProgramError)
    most = min(right.high, MOST_SHIFT)
    low, high = min(left.low << most, left.low), max(left.high << most, left.high)
    by = amount_source(right)

    def wide(words: int) -> str:
        return f"wide_shift_left({left.at(words)}, {by})"

    if amount is not None and amount < 64:
        return Value(f"({left.source} << {amount})", low, high, wide=wide)
    return Value(f"shift_left({left.source}, {by})", low, high, wide=wide)


def shift_right(left: Value, right: Value) -> Value:
    """Return a shift to the right, which keeps the sign."""
    amount = right.constant
    refuse(right.high < 0, "a shift by a negative amount", ProgramError)
    least, most = (min(max(bound, 0), MOST_SHIFT) for bound in (right.low, right.high))
    low = min(left.low >> least, left.low >> most)
    high = max(left.high >> least, left.high >> most)
    by = amount_source(right)
    if left.narrow:
        if amount is not None and amount < 64:
            return Value(f"({left.source} >> {amount})", left.low >> amount, high)
        return Value(f"shift_right({left.source}, {by})", low, high)
    if left.unsigned64:
        return Value(f"shift_right64({left.source}, {by})", 0, high)
    words, unsigned = exact_words(left)
    function = f"wide_shift_right{'_unsigned' if unsigned else ''}"
    words = max(words, 2)
    return computed(low, high, words, lambda n: f"{function}({left.at(n)}, {by})")


def convert(operator: str, left: Value, right: Value) -> Value:
    """Translate sign extension and the two saturating casts, to a constant width."""
    width = right.constant
    if width is None or not 1 <= width <= MOST_WIDTH:
        raise ProgramError(f"operator {operator!r} needs a constant width from 1 to {MOST_WIDTH}")
    signed = operator != "usat_cast"
    low, high = width_bounds(width, signed)
    if low <= left.low and left.high <= high:
        return left
    if operator == "two_comp_mod":
        if width <= 64:
            return Value(store(left, width, True), low, high)
        count = (width + 63) // 64
        return computed(low, high, count, lambda n: f"wide_sign({left.at(n)}, BITS_{width})")
    if left.narrow and high <= MOST:
        return Value(f"min(max({left.source}, {low}), {high})", low, high)
    limits = constant(low), constant(high)
    words = max(exact_words(left, *limits, signed=True)[0], 2)
    return computed(
        low,
        high,
        words,
        lambda n: f"wide_clamp({left.at(n)}, {limits[0].at(n)}, {limits[1].at(n)})",
    )


OPERATIONS: dict[str, Callable[[str, Value, Value], Value]] = {
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), compare),
    **dict.fromkeys("+-*", arithmetic),
    **dict.fromkeys("/%", divide),
    **dict.fromkeys("&|^", bitwise),
    "<<": lambda _, left, right: shift_left(left, right),
    ">>": lambda _, left, right: shift_right(left, right),
    **dict.fromkeys(("two_comp_mod", "usat_cast", "sat_cast"), convert),
}
"""BMv2's operators of two numbers."""
