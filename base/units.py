"""Sizes, rates, probabilities and seeds as people write them: ``1MiB``, ``100Mbit``, ``1%``."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import groupby

from weft.base.errors import InputError, refuse

SIZE_UNITS = {
    "": 1, "B": 1,
    "K": 1024, "KB": 1000, "KIB": 1024,
    "M": 1024**2, "MB": 1000**2, "MIB": 1024**2,
    "G": 1024**3, "GB": 1000**3, "GIB": 1024**3,
}  # fmt: skip
"""Bytes per unit. K, M and G alone are binary, as in ``dd`` and NCCL's tests."""

RATE_UNITS = {
    "": 1, "BIT": 1, "BPS": 1,
    "K": 10**3, "KBIT": 10**3, "KBPS": 10**3,
    "M": 10**6, "MBIT": 10**6, "MBPS": 10**6,
    "G": 10**9, "GBIT": 10**9, "GBPS": 10**9,
}  # fmt: skip
"""Bits per second per unit. Units are decimal, as in ``tc``, whose ``bps``, however, is bytes."""

MAX_DIGITS = 20
"""The most digits of a number before its point, and after it: more than any size or rate needs."""

DURATION_UNITS = {"NS": 1, "US": 10**3, "MS": 10**6, "S": 10**9, "": 1}
"""Nanoseconds per unit."""

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)(?:/s)?\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
MAX_SEED = (1 << 63) - 1
MAX_SEEDS = 10_000
"""The most seeds of one scenario."""
_SEEDS = re.compile(r"\s*([0-9]{1,19})\s*(?:\.\.\s*([0-9]{1,19})\s*)?")


def shown(value: object) -> str:
    """Return a value as an error message shows it; a long one is cut down to its start and end."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 80 else f"{text[:40]}...{text[-10:]}"


def listed(words: Iterable[str], last: str) -> str:
    """Return words with commas, and another word before the last: ``a, b or c``."""
    *others, final = words
    return f"{', '.join(others)} {last} {final}" if others else final


def parse_number(text: object) -> float | None:
    """Return the number that `text` is, in ASCII digits; None if it is none, or infinite or NaN."""
    try:
        words = str(text)
    except ValueError:
        return None
    value = float(words) if _NUMBER.fullmatch(words) else float("inf")
    return value if abs(value) != float("inf") else None


def _parse(text: str | int, units: dict[str, int], name: str, example: str) -> int:
    try:
        match = _QUANTITY.fullmatch(str(text))
    except ValueError:
        match = None
    unit = units.get(match.group(2).upper()) if match else None
    if match is None or unit is None:
        raise InputError(
            f"{name} {shown(text)} is not understood: write a number and a unit, {example}"
        )
    if any(len(digits) > MAX_DIGITS for digits in match.group(1).split(".")):
        raise InputError(
            f"{name} {shown(text)} is too long: at most {MAX_DIGITS} digits, {example}"
        )
    value = Fraction(match.group(1)) * unit
    if value.denominator != 1:
        raise InputError(f"{name} {shown(text)} is not a whole number of its base unit: {example}")
    return int(value)


def parse_size(text: str | int, name: str = "size") -> int:
    """Return the bytes of ``1MiB``, ``64K`` or ``1000``. Raises `InputError`."""
    return _parse(text, SIZE_UNITS, name, "like 4096, 64KiB or 1MiB")


def parse_rate(text: str | int, name: str = "rate") -> int:
    """Return the bits per second of ``100Mbit``, ``1Gbit`` or ``2500000``. Raises `InputError`."""
    return _parse(text, RATE_UNITS, name, "like 20Mbit, 100Mbit or 1Gbit")


def parse_probability(text: str | float, name: str = "loss") -> float:
    """Return the probability of ``0.01`` or ``1%``. Raises `InputError` outside [0, 1]."""
    number: object = text
    whole = 1
    if isinstance(text, str) and text.rstrip().endswith("%"):
        number, whole = text.rstrip()[:-1], 100
    value = parse_number(number)
    if value is None or not 0.0 <= value / whole <= 1.0:
        raise InputError(f"{name} {shown(text)} is not a probability: write 0 to 1, or 0% to 100%")
    return value / whole


def parse_duration(text: str | int, name: str = "delay") -> int:
    """Return the nanoseconds of ``10us``, ``1.5ms`` or ``0``. Raises `InputError`."""
    return _parse(text, DURATION_UNITS, name, "like 500ns, 10us or 1ms")


def scaled(value: float, step: int, units: Sequence[str]) -> tuple[float, str]:
    """Return a value in the smallest of some units in which it is less than ``step``, and the unit.

    Each unit is ``step`` times the one before it.
    """
    value = float(value)
    for unit in units[:-1]:
        if abs(value) < step:
            return value, unit
        value /= step
    return value, units[-1]


def format_size(size_bytes: int) -> str:
    """Write a size like ``1 MiB``, ``7.01 MiB`` or ``512 B``."""
    value, unit = scaled(size_bytes, 1024, ("B", "KiB", "MiB", "GiB"))
    return f"{value:.4g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def format_rate(rate_bps: float) -> str:
    """Write a rate like ``100 Mbit/s``."""
    value, unit = scaled(rate_bps, 1000, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))
    return f"{value:.4g} {unit}"


def format_duration(duration_ns: float) -> str:
    """Write a duration like ``598 ms``, ``1.26 s`` or ``31.5 us``."""
    value, unit = scaled(duration_ns, 1000, ("ns", "us", "ms", "s"))
    return f"{value:.4g} {unit}"


def parse_seeds(value: object, name: str = "seeds") -> tuple[int, ...]:
    """Return the seeds of ``1..20``, ``1,2,5``, ``1..5,9`` or ``[1, 2, 5]``, in that order.

    Raises `InputError` for what is neither, for a range that runs backwards, for too many, for one
    that is too large, and for one that is there twice.
    """
    how = "write a range like 1..20, or a list like 1,2,5 (in a file also [1, 2, 5])"
    what = f"{name} {shown(value)}"
    if isinstance(value, str):
        items: list[object] = list(value.split(","))
        if len(items) == 1 and ".." not in value and _SEEDS.fullmatch(value):
            raise InputError(
                f"{name} {shown(value)} is one number: for the seeds 1 to {value.strip()} write "
                f"1..{value.strip()}, for that seed alone use seed"
            )
    elif isinstance(value, (list, tuple)):
        items = list(value)
    else:
        raise InputError(f"{name} {shown(value)} is no list of seeds: {how}")
    seeds: list[int] = []
    for item in items:
        is_whole = isinstance(item, int) and not isinstance(item, bool)
        found = _SEEDS.fullmatch(item if isinstance(item, str) else str(item) if is_whole else "")
        if found is None:
            raise InputError(f"{name} {shown(value)}: {shown(item)} is no seed and no range: {how}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise InputError(
                f"{what}: the range {shown(item)} runs backwards: write {last}..{first}"
            )
        refuse(last > MAX_SEED, f"{what}: a seed is at most {MAX_SEED}")
        refuse(
            last - first >= MAX_SEEDS - len(seeds),
            f"{what} are more than {MAX_SEEDS}: name fewer",
        )
        seeds += range(first, last + 1)
    if not seeds:
        raise InputError(f"{name} {shown(value)} is an empty list: {how}")
    twice, times = Counter(seeds).most_common(1)[0]
    if times > 1:
        raise InputError(f"{name} {shown(value)}: {twice} is there twice: name each seed once")
    return tuple(seeds)


def format_seeds(seeds: Sequence[int]) -> str:
    """Write seeds like ``1..20`` or ``1..5,9``, as `parse_seeds` reads them."""
    runs = runs_of(seeds)
    if len(runs) == 1:
        return f"{seeds[0]}..{seeds[-1]}"
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def runs_of(numbers: Sequence[int]) -> list[list[int]]:
    """Return numbers in runs of which each is one above that before it."""
    found = groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    return [[number for _, number in run] for _, run in found]
