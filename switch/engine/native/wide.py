"""Integers of more than 64 bits in compiled code: LLVM's own, of a fixed number of words.

A wide integer of n words is a number of 64 * n bits in two's complement. Where words are loaded or
stored, the first is the most significant. Arguments called ``words`` are compile-time constants
(the names W2, W3, ... of a generated program) and say how many words a result has. The plain form
of a program uses ``weft.switch.engine.native.plain_wide``, which offers the same names on Python's
integers.
"""

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import register_model

from weft.base.deferred import wake
from weft.base.errors import refuse
from weft.switch.engine.native.compiled import inner, types

wake()  # whatever imports this is to be compiled

WORD = ir.IntType(64)

intrinsic: Callable[[Any], Any] = numba_intrinsic(prefer_literal=True)


class WideInteger(types.Type):  # type: ignore[misc]
    """The type of a wide integer of so many words."""

    def __init__(self, words: int) -> None:
        self.words = words
        super().__init__(name=f"WideInteger({words})")


@register_model(WideInteger)
class WideModel(PrimitiveModel):
    """Lay a wide integer out as one LLVM integer."""

    def __init__(self, manager: Any, wide: Any) -> None:
        super().__init__(manager, wide, ir.IntType(64 * wide.words))  # type: ignore[no-untyped-call]


def _count(words: Any) -> int:
    if not isinstance(words, types.IntegerLiteral):
        raise TypeError("a number of words is a constant")
    return int(words.literal_value)


def _join(builder: Any, parts: list[Any]) -> Any:
    """Return one integer that is made of words, the most significant one first."""
    kind = ir.IntType(64 * len(parts))
    joined = ir.Constant(kind, 0)
    for position, part in enumerate(reversed(parts)):
        wide = builder.zext(part, kind) if len(parts) > 1 else part
        joined = builder.or_(joined, builder.shl(wide, ir.Constant(kind, 64 * position)))
    return joined


def _resize(builder: Any, value: Any, words: int, signed: bool) -> Any:
    kind = ir.IntType(64 * words)
    if kind.width < value.type.width:
        return builder.trunc(value, kind)
    if kind.width > value.type.width:
        return builder.sext(value, kind) if signed else builder.zext(value, kind)
    return value


def _pointer(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [place])


def _loader(signed: bool) -> Any:
    def load(typingctx: Any, array: Any, place: Any, stored: Any, words: Any) -> Any:
        count, size = _count(stored), _count(words)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start = _pointer(context, builder, signature.args[0], args[0], args[1])
            first = max(count - size, 0)
            parts = [
                builder.load(builder.gep(start, [ir.Constant(WORD, i)]))
                for i in range(first, count)
            ]
            return _resize(builder, _join(builder, parts), size, signed)

        return WideInteger(size)(array, types.int64, stored, words), codegen

    load.__name__ = "wide_load_signed" if signed else "wide_load"
    return intrinsic(load)


wide_load = _loader(False)
wide_load_signed = _loader(True)


@intrinsic
def wide_store(typingctx: Any, array: Any, place: Any, value: Any, words: Any) -> Any:
    """Store the low words of a value at array[place] and behind."""
    count = _count(words)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = _pointer(context, builder, signature.args[0], args[0], args[1])
        value = args[2]
        for i in range(count):
            amount = ir.Constant(value.type, 64 * (count - 1 - i))
            part = builder.trunc(builder.lshr(value, amount), WORD)
            builder.store(part, builder.gep(start, [ir.Constant(WORD, i)]))
        return context.get_dummy_value()

    return types.void(array, types.int64, value, words), codegen


@intrinsic
def wide_read(typingctx: Any, data: Any, at: Any, skip: Any, width: Any, words: Any) -> Any:
    """Return the unsigned field of ``width`` bits that begins ``skip`` bits (0 to 7) behind
    data[at]."""
    size, first, bits = _count(words), _count(skip), _count(width)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = _pointer(context, builder, signature.args[0], args[0], args[1])
        count = (first + bits + 63) // 64
        places = [builder.gep(start, [ir.Constant(WORD, 8 * i)]) for i in range(count)]
        parts = [
            builder.bswap(builder.load(builder.bitcast(place, WORD.as_pointer()), align=1))
            for place in places
        ]
        value = _join(builder, parts)
        value = builder.shl(value, ir.Constant(value.type, first))
        value = builder.lshr(value, ir.Constant(value.type, 64 * count - bits))
        return _resize(builder, value, size, False)

    return WideInteger(size)(data, types.int64, skip, width, words), codegen


@intrinsic
def wide_constant(typingctx: Any, parts: Any, words: Any) -> Any:
    """Return the unsigned number with these words."""
    size, count = _count(words), len(parts)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = [builder.extract_value(args[0], i) for i in range(count)]
        return _resize(builder, _join(builder, values), size, False)

    return WideInteger(size)(types.UniTuple(types.int64, count), words), codegen


def _operation(name: str, emit: Callable[..., Any], kinds: Callable[..., Any]) -> Any:
    """Return the function ``name``: ``kinds`` makes its signature of the types that it is called
    with, ``emit(builder, signature, ...values)`` its code."""

    def typed(typingctx: Any, *given: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, signature, *args)

        return kinds(*given), codegen

    typed.__name__ = name
    _, *parameters = inspect.signature(emit).parameters.values()
    vars(typed)["__signature__"] = inspect.Signature(parameters)
    return intrinsic(typed)


def _alike(*given: Any) -> Any:
    """Return the signature of a function that takes numbers of one size and returns one of it."""
    refuse(
        any(kind != given[0] for kind in given), f"numbers of different sizes: {given}", TypeError
    )
    return given[0](*given)


def _conversion(name: str, signed: bool, word: bool) -> Any:
    """Make a function that gives a number another size; with ``word`` it takes a word."""

    def kinds(value: Any, words: Any) -> Any:
        return WideInteger(_count(words))(types.int64 if word else value, words)

    def emit(builder: Any, signature: Any, value: Any, words: Any) -> Any:
        return _resize(builder, value, signature.return_type.words, signed)

    return _operation(name, emit, kinds)


wide_int = _conversion("wide_int", signed=True, word=True)
wide_word = _conversion("wide_word", signed=False, word=True)
wide_cast = _conversion("wide_cast", signed=True, word=False)  # the low words of a value

wide_narrow = _operation(  # the least significant word
    "wide_narrow", lambda builder, _, value: builder.trunc(value, WORD), types.int64
)


def _instruction(name: str) -> Any:
    """Make the function that is LLVM's instruction of that name, on two numbers."""

    def emit(builder: Any, signature: Any, left: Any, right: Any) -> Any:
        return getattr(builder, name)(left, right)

    return _operation(f"wide_{name.rstrip('_')}", emit, _alike)


wide_add = _instruction("add")
wide_sub = _instruction("sub")
wide_mul = _instruction("mul")
wide_and = _instruction("and_")
wide_or = _instruction("or_")
wide_xor = _instruction("xor")
wide_not = _operation("wide_not", lambda builder, _, value: builder.not_(value), _alike)
wide_negate = _operation("wide_negate", lambda builder, _, value: builder.neg(value), _alike)


def _comparison(name: str, operator: str, signed: bool) -> Any:
    def emit(builder: Any, signature: Any, left: Any, right: Any) -> Any:
        return (builder.icmp_signed if signed else builder.icmp_unsigned)(operator, left, right)

    return _operation(name, emit, lambda *given: types.boolean(*_alike(*given).args))


wide_equal = _comparison("wide_equal", "==", False)
wide_less = _comparison("wide_less", "<", True)
wide_less_unsigned = _comparison("wide_less_unsigned", "<", False)


def _shift(name: str, instruction: str) -> Any:
    def emit(builder: Any, signature: Any, value: Any, amount: Any) -> Any:
        kind = value.type
        inside = builder.icmp_unsigned("<", amount, ir.Constant(WORD, kind.width))
        amount = builder.select(inside, amount, ir.Constant(WORD, 0))
        shifted = getattr(builder, instruction)(value, builder.zext(amount, kind))
        beyond = ir.Constant(kind, 0)
        if instruction == "ashr":
            beyond = builder.ashr(value, ir.Constant(kind, kind.width - 1))
        return builder.select(inside, shifted, beyond)

    return _operation(name, emit, lambda value, amount: value(value, types.int64))


# An amount that is negative, or more than the number of bits, shifts all of them out.
wide_shift_left = _shift("wide_shift_left", "shl")
wide_shift_right = _shift("wide_shift_right", "ashr")
wide_shift_right_unsigned = _shift("wide_shift_right_unsigned", "lshr")


def _cut(name: str, instruction: str) -> Any:
    def emit(builder: Any, signature: Any, value: Any, width: Any) -> Any:
        amount = ir.Constant(value.type, max(value.type.width - _count(signature.args[1]), 0))
        return getattr(builder, instruction)(builder.shl(value, amount), amount)

    return _operation(name, emit, lambda value, width: value(value, width))


wide_cut = _cut("wide_cut", "lshr")
wide_sign = _cut("wide_sign", "ashr")


def _clamped(builder: Any, signature: Any, value: Any, low: Any, high: Any) -> Any:
    """Return the number from low to high that is nearest (signed)."""
    value = builder.select(builder.icmp_signed("<", value, low), low, value)
    return builder.select(builder.icmp_signed(">", value, high), high, value)


def _clipped(builder: Any, signature: Any, value: Any) -> Any:
    """Return the number from -2**62 to 2**62 that is nearest (signed), as a word."""
    low, high = ir.Constant(value.type, -(1 << 62)), ir.Constant(value.type, 1 << 62)
    return builder.trunc(_clamped(builder, signature, value, low, high), WORD)


wide_clamp = _operation("wide_clamp", _clamped, _alike)
wide_clip = _operation("wide_clip", _clipped, types.int64)
_bits = _operation(
    "_bits", lambda builder, _, value: ir.Constant(WORD, value.type.width), types.int64
)


@inner
def wide_multiply(left: Any, right: Any) -> Any:
    """Return the product, for numbers of so many words that LLVM would write endless code for
    it."""
    product = wide_xor(left, left)
    one = wide_sub(product, wide_not(product))
    for i in range(_bits(left)):
        if wide_equal(wide_and(wide_shift_right_unsigned(right, i), one), one):
            product = wide_add(product, wide_shift_left(left, i))
    return product


@inner
def wide_divide(left: Any, right: Any) -> Any:
    """Return ``left // right`` of numbers without sign; 0 if right is 0."""
    quotient = wide_xor(left, left)
    rest = quotient
    if wide_equal(right, quotient):
        return quotient
    one = wide_sub(quotient, wide_not(quotient))
    count = _bits(left)
    for i in range(count):
        bit = wide_and(wide_shift_right_unsigned(left, count - 1 - i), one)
        carry = wide_less(rest, wide_xor(left, left))
        rest = wide_or(wide_shift_left(rest, 1), bit)
        quotient = wide_shift_left(quotient, 1)
        if carry or not wide_less_unsigned(rest, right):
            rest = wide_sub(rest, right)
            quotient = wide_or(quotient, one)
    return quotient


@inner
def wide_modulo(left: Any, right: Any) -> Any:
    """Return ``left % right`` of numbers without sign; 0 if right is 0."""
    if wide_equal(right, wide_xor(right, right)):
        return right
    return wide_sub(left, wide_multiply(wide_divide(left, right), right))
