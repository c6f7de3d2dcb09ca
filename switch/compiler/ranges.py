"""Ranges of numbers as values with masks."""


def prefixes(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """Return the fewest (value, mask) pairs that cover `low` to `high`, both included, in `width`
    bits.

    There are none if `low` is larger than `high`.
    """
    full = (1 << width) - 1
    result: list[tuple[int, int]] = []
    while low <= high:
        size = (low & -low) or (1 << width)
        while size > high - low + 1:
            size >>= 1
        result.append((low, full & ~(size - 1)))
        low += size
    return result
