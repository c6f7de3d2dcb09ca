"""Loops in place of runs of statements that are alike: a program that says the same of 256 fields.

P4 has no loops, so what is done to each of many fields is as many statements. Written out they
would take minutes to compile. Where a block of lines is repeated, and the numbers and PHV places in
it are the same or grow by the same step from each block to the next, one loop does the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

MOST_LINES = 24
"""The most lines of a block that is repeated."""
LEAST_REPEATS = 8
"""Blocks that are repeated less often stay as they are."""

LOOP_VARIABLE = "turn"

_NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-fA-F]+|[0-9]+|[A-Z][A-Z0-9_]*)(?![\w.])")
_CONTINUES = ("else:", "elif ")


@dataclass(frozen=True)
class _Line:
    """A line's text with each number left out, and the numbers. Equal shapes may be rolled."""

    shape: tuple[str, ...]
    words: tuple[str, ...]
    numbers: tuple[int, ...]
    depth: int
    starts: bool
    """Whether a statement starts here (an ``else`` belongs to the one before)."""


def roll(text: str, constants: Mapping[str, int]) -> str:
    """Return a function's source with loops in place of runs; ``constants``: the numbers behind
    names.

    What the function does is unchanged, as the order of its statements is.
    """
    lines = text.split("\n")
    if len(lines) < LEAST_REPEATS:
        return text
    parsed = [_parse(line, constants) for line in lines]
    result: list[str] = []
    position = 0
    while position < len(lines):
        length, count = _longest_run(parsed, position)
        if count:
            result.extend(_loop(parsed, position, length, count))
            position += length * count
        else:
            result.append(lines[position])
            position += 1
    return "\n".join(result)


def _parse(text: str, constants: Mapping[str, int]) -> _Line:
    code = text.split("  #")[0]
    shape: list[str] = []
    words: list[str] = []
    numbers: list[int] = []
    end = 0
    for match in _NUMBER.finditer(code):
        word = match.group()
        named = word in constants
        if named or word[0].isdigit():
            shape += [text[end : match.start()], "name" if named else "number"]
            words.append(word)
            numbers.append(constants[word] if named else int(word, 0))
            end = match.end()
    shape.append(text[end:])
    stripped = text.lstrip(" ")
    starts = bool(stripped) and not stripped.startswith((*_CONTINUES, "@", "def ", '"""'))
    return _Line(
        tuple(shape), tuple(words), tuple(numbers), len(text) - len(stripped), starts and end > 0
    )


def _longest_run(lines: list[_Line], start: int) -> tuple[int, int]:
    """Return (lines of a block, how often) of the run that starts here and covers most, or (0,
    0)."""
    best = (0, 0)
    first = lines[start]
    if not first.starts:
        return best
    for length in range(1, MOST_LINES + 1):
        last = start + length * LEAST_REPEATS
        if last > len(lines) or lines[start + length - 1].depth < first.depth:
            break
        if lines[start + length].shape == first.shape:
            count = _repeats(lines, start, length)
            if count >= LEAST_REPEATS and count * length > best[0] * best[1]:
                best = (length, count)
    return best


def _repeats(lines: list[_Line], start: int, length: int) -> int:
    """Return how often the block of so many lines comes, one after the other, in equal steps."""
    block = lines[start : start + length]
    if any(
        line.depth < block[0].depth or (len(line.shape) == 1 and not line.shape[0].strip())
        for line in block
    ):
        return 0
    steps: list[tuple[int, ...]] = []
    count = 1
    while start + (count + 1) * length <= len(lines):
        following = lines[start + count * length : start + (count + 1) * length]
        if any(a.shape != b.shape for a, b in zip(block, following, strict=True)):
            break
        change = [
            tuple(y - x for x, y in zip(a.numbers, b.numbers, strict=True))
            for a, b in zip(block, following, strict=True)
        ]
        if not steps:
            steps = change
        if change != [tuple(count * step for step in line) for line in steps]:
            break
        count += 1
    end = start + count * length
    if end < len(lines):
        after = lines[end]
        goes_on = after.shape[0].lstrip(" ").startswith(_CONTINUES)
        if after.depth > block[0].depth or (after.depth == block[0].depth and goes_on):
            count -= 1  # the last statement of the last block goes on
    return count


def _loop(lines: list[_Line], start: int, length: int, count: int) -> list[str]:
    """Return the loop that does what ``count`` blocks do."""
    result = [" " * lines[start].depth + f"for {LOOP_VARIABLE} in range({count}):"]
    for one, two in zip(
        lines[start : start + length], lines[start + length : start + 2 * length], strict=True
    ):
        parts = list(one.shape)
        for position, word in enumerate(one.words):
            step = two.numbers[position] - one.numbers[position]
            match step:
                case 0:
                    source = word
                case 1:
                    source = f"({word} + {LOOP_VARIABLE})"
                case _:
                    source = f"({word} + {step} * {LOOP_VARIABLE})"
            if parts[2 * position].endswith("[") and parts[2 * position + 2].startswith("]"):
                source = source.strip("()")
            parts[2 * position + 1] = source
        result.append("    " + "".join(parts))
    return result
