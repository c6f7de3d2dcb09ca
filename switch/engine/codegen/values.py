"""Values of any width as Python source: what generated programs compute with.

A value knows its bounds. What fits 64 bits is computed in words; ``Value.at(n)`` gives the source
of a wider one as an integer of n words (``engine.native.wide``). Every such source is right
modulo 2**(64 * n), so a sum that is cut again needs no more words than what is kept of it;
operations that need the number itself ask ``exact_words`` how many words hold it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from weft.base.errors import refuse
from weft.switch.engine.codegen.source import read_field
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Field
from weft.switch.engine.program.words import signed, words_of

MOST = (1 << 63) - 1
LEAST = -(1 << 63)
MOST64 = (1 << 64) - 1
MOST_WORDS = 512
"""The most words of an intermediate result that is needed exactly."""


@dataclass(frozen=True)
class Value:
    """The source of an expression, the bounds of its value, and whether it is a condition.

    ``source`` is right modulo 2**64; ``wide(n)`` is the source of an integer of n > 1 words. It is
    only needed where the bounds exceed 64 bits.
    """

    source: str
    low: int = 0
    high: int = 1
    boolean: bool = False
    wide: Callable[[int], str] | None = None

    @property
    def narrow(self) -> bool:
        """Return whether the value itself fits int64, so that any operation is exact."""
        return self.low >= LEAST and self.high <= MOST

    @property
    def unsigned64(self) -> bool:
        """Return whether it is a number of at most 64 bits without sign."""
        return self.low >= 0 and self.high <= MOST64

    @property
    def constant(self) -> int | None:
        """Return the number it is, if it is one."""
        return self.low if self.low == self.high and not self.boolean else None

    def at(self, words: int) -> str:
        """Return the source of the value as an integer of so many words, right modulo 2**(64 *
        words)."""
        source = f"(1 if {self.source} else 0)" if self.boolean else self.source
        if words == 1:
            return source
        if self.boolean or self.narrow:
            return f"wide_int({source}, W{words})"
        if self.unsigned64:
            return f"wide_word({source}, W{words})"
        if self.wide is None:
            raise ProgramError(f"{self.source} of more than 64 bits cannot be computed")
        return self.wide(words)


def fits(words: int, low: int, high: int) -> bool:
    """Return whether numbers between these bounds are the same as signed integers of so many
    words."""
    return -(1 << (64 * words - 1)) <= low and high < 1 << (64 * words - 1)


def exact_words(*values: Value, signed: bool = False) -> tuple[int, bool]:
    """Return how many words hold each of some values itself, and whether they are taken as
    unsigned.

    ``signed``: they must fit as signed integers.
    """
    low, high = min(value.low for value in values), max(value.high for value in values)
    words = max(words_of(max(low.bit_length(), high.bit_length())), 1)
    unsigned = False
    if not fits(words, low, high):
        unsigned = low >= 0 and not signed
        words += not unsigned
    refuse(
        words > MOST_WORDS,
        f"an operation needs a number of up to {64 * words} bits itself: "
        f"at most {64 * MOST_WORDS} are supported; cut its operands first",
        ProgramError,
    )
    return words, unsigned


def computed(low: int, high: int, words: int, at: Callable[[int], str]) -> Value:
    """Return a value whose source ``at(n)`` is right for ``n >= words`` only."""

    def wide(count: int) -> str:
        return at(count) if count >= words else f"wide_cast({at(words)}, W{count})"

    return Value(f"wide_narrow({at(max(words, 2))})", low, high, wide=wide)


def constant(value: int) -> Value:
    """Return a literal; from 2**63 on, the word with the same bits, as compiled code computes."""
    if 0 <= value <= MOST64 and value > MOST:
        return Value(f"unsigned64({value - (1 << 64)})", value, value)
    if LEAST <= value <= MOST:
        return Value(str(value) if value < 4096 else hex(value), value, value)

    def wide(words: int) -> str:
        count = min(words_of(abs(value).bit_length()), words)
        parts = [signed(abs(value) >> 64 * i) for i in range(count)]
        literal = ", ".join(map(str, reversed(parts))) + ("," if count == 1 else "")
        source = f"wide_constant(({literal}), W{words})"
        return f"wide_negate({source})" if value < 0 else source

    return Value(str(signed(value)), value, value, wide=wide)


def width_bounds(width: int, signed: bool) -> tuple[int, int]:
    """Return the least and the greatest number of so many bits."""
    if signed and width:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def load(array: str, place: str, width: int, signed: bool, last: str | None = None) -> Value:
    """Return the value of ``width`` bits at array[place]; ``last`` is the place of its last
    word."""
    low, high = width_bounds(width, signed)
    count = words_of(width)
    if last is None:
        last = place if count == 1 else f"{place} + {count - 1}"
    source = f"{array}[{last}]"
    if (width == 64 and not signed) or count > 1:
        source = f"unsigned64({source})"
    if count == 1:
        return Value(source, low, high)
    function = "wide_load_signed" if signed else "wide_load"

    def wide(words: int) -> str:
        return f"{function}({array}, {place}, W{count}, W{words})"

    return Value(source, low, high, wide=wide)


def ahead(bit: int, width: int, at: str) -> Value:
    """Return the unsigned value of ``width`` bits at ``bit`` of what begins at ``data[at]``."""
    low, high = width_bounds(width, False)
    if width <= 64:
        source = f"({read_field(Field('ahead', width, False, 0), bit, at)})"
        return Value(f"unsigned64{source}" if width == 64 else source, low, high)
    byte, skip = divmod(bit, 8)
    last = read_field(Field("ahead", 64, False, 0), bit + width - 64, at)

    def wide(words: int) -> str:
        return f"wide_read(data, {at} + {byte}, BITS_{skip}, BITS_{width}, W{words})"

    return Value(f"unsigned64({last})", low, high, wide=wide)


def load_varbit(place: str, length: str, field: Field) -> Value:
    """Return the bits of a varbit field as a number without sign, as BMv2 takes them."""
    count = field.data_words
    bits = 64 * count

    def at(words: int) -> str:
        loaded = f"wide_load(phv, {place}, W{count}, W{max(words, count)})"
        return f"wide_shift_right_unsigned({loaded}, {bits} - phv[{length}])"

    return computed(*width_bounds(field.width, field.signed), max(count, 2), at)


def store(value: Value, width: int, signed: bool) -> str:
    """Return the source of ``value`` cut to a field of ``width`` bits (at most 64), as a word to
    store."""
    low, high = width_bounds(width, signed)
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


def store_line(array: str, place: str, value: Value, width: int, signed: bool) -> str:
    """Return the statement that stores ``value``, cut to ``width`` bits, at array[place]."""
    count = words_of(width)
    if count == 1:
        return f"{array}[{place}] = {store(value, width, signed)}"
    low, high = width_bounds(width, signed)
    source = value.at(count)
    if width % 64 and not (low <= value.low and value.high <= high):
        source = f"wide_{'sign' if signed else 'cut'}({source}, BITS_{width})"
    return f"wide_store({array}, {place}, {source}, W{count})"


def word_sources(value: Value, width: int) -> list[str]:
    """Return the words of the low ``width`` bits of a value, the first one without sign
    extension."""
    count = words_of(width)
    if count == 1:
        return [store(value, width, False)]
    sources = []
    for i in range(count):
        part = value.at(count)
        if i < count - 1:
            part = f"wide_shift_right_unsigned({part}, {64 * (count - 1 - i)})"
        sources.append(f"word64(wide_narrow({part}))")
    if width % 64 and not (value.low >= 0 and value.high < 1 << width):
        sources[0] = f"({sources[0]} & {(1 << width % 64) - 1:#x})"
    return sources
