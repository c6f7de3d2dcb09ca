"""Sizes, rates and probabilities as people write them: ``1MiB``, ``100Mbit``, ``1%``."""

from __future__ import annotations

import re

from switch.errors import InputError

SIZE_UNITS = {
    "": 1, "B": 1,
    "K": 1024, "KB": 1000, "KIB": 1024,
    "M": 1024**2, "MB": 1000**2, "MIB": 1024**2,
    "G": 1024**3, "GB": 1000**3, "GIB": 1024**3,
}  # fmt: skip
"""Bytes per unit. Bare K, M and G are binary, as in ``dd`` and NCCL's tests."""

RATE_UNITS = {
    "": 1, "BIT": 1, "BPS": 1,
    "K": 10**3, "KBIT": 10**3, "KBPS": 10**3,
    "M": 10**6, "MBIT": 10**6, "MBPS": 10**6,
    "G": 10**9, "GBIT": 10**9, "GBPS": 10**9,
}  # fmt: skip
"""Bits per second per unit, decimal, as in ``tc`` (whose ``bps`` is bytes; here it is bits)."""

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)(?:/s)?\s*")


def _parse(text: str | int, units: dict[str, int], name: str, example: str) -> int:
    match = _QUANTITY.fullmatch(str(text))
    unit = units.get(match.group(2).upper()) if match else None
    if match is None or unit is None:
        raise InputError(f"{name} {text!r} is not understood: write a number and a unit, {example}")
    value = float(match.group(1)) * unit
    if value != int(value):
        raise InputError(f"{name} {text!r} is not a whole number of its base unit: {example}")
    return int(value)


def parse_size(text: str | int, name: str = "size") -> int:
    """Bytes of ``1MiB``, ``64K``, ``1000``. Raises `InputError`."""
    return _parse(text, SIZE_UNITS, name, "like 4096, 64KiB or 1MiB")


def parse_rate(text: str | int, name: str = "rate") -> int:
    """Bits per second of ``100Mbit``, ``1Gbit``, ``2500000``. Raises `InputError`."""
    return _parse(text, RATE_UNITS, name, "like 20Mbit, 100Mbit or 1Gbit")


def parse_probability(text: str | float, name: str = "loss") -> float:
    """A probability of ``0.01`` or ``1%``. Raises `InputError` outside [0, 1]."""
    words = str(text).strip()
    try:
        value = float(words[:-1]) / 100 if words.endswith("%") else float(words)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{name} {text!r} is not a probability: write 0 to 1, or 0% to 100%")
    return value


def format_size(size_bytes: int) -> str:
    """``1 MiB``, ``7.01 MiB``, ``512 B``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.4g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
        value /= 1024
    raise AssertionError


def format_rate(rate_bps: float) -> str:
    """``100 Mbit/s``."""
    value = float(rate_bps)
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"):
        if abs(value) < 1000 or unit == "Gbit/s":
            return f"{value:.4g} {unit}"
        value /= 1000
    raise AssertionError


def format_duration(duration_ns: float) -> str:
    """``598 ms``, ``1.26 s``, ``31.5 us``."""
    value = float(duration_ns)
    for unit, limit in (("ns", 1000), ("us", 1000), ("ms", 1000), ("s", float("inf"))):
        if abs(value) < limit:
            return f"{value:.4g} {unit}"
        value /= 1000
    raise AssertionError
