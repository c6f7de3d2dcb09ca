"""Numbers of any width as words of 64 bits, the most significant one first."""

from collections.abc import Iterable, Iterator

WORD = (1 << 64) - 1


def words_of(width: int) -> int:
    """Return how many words hold so many bits; one for none."""
    return max((width + 63) // 64, 1)


def signed(value: int) -> int:
    """Return the low 64 bits of a number as a stored word, int64."""
    value &= WORD
    return value - (1 << 64) if value >> 63 else value


def literal(value: int) -> str:
    """Return a number of at most 64 bits without sign as a literal that fits int64."""
    return hex(value) if value < 1 << 63 else str(signed(value))


def split_words(value: int, width: int) -> list[int]:
    """Return the words of a number, each without sign."""
    return [value >> shift & WORD for shift in range(64 * (words_of(width) - 1), -1, -64)]


def join_words(words: Iterable[int], widths: Iterable[int]) -> Iterator[int]:
    """Return numbers of these widths, without sign, from their words one behind the other."""
    rest = iter(words)
    for width in widths:
        value = 0
        for _, word in zip(range(words_of(width)), rest, strict=False):
            value = value << 64 | word & WORD
        yield value & ((1 << width) - 1)
