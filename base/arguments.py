"""Arguments as people give them from Python: a list will do where a tuple is meant, and what is of
no such type is refused by its name."""

import os
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from operator import index
from typing import Any

from weft.base.errors import InputError
from weft.base.units import shown


def whole(name: str, value: object, example: str) -> int:
    """Return a whole number, also one of numpy's. Raises `InputError` for anything else."""
    found = _whole(value)
    if found is None:
        raise InputError(f"{name} {shown(value)} is no whole number: give one, like {example}")
    return found


def number(name: str, value: object, example: str) -> float:
    """Return a number, also one of numpy's. Raises `InputError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} {shown(value)} is not a number: give one, like {example}")
    return value if isinstance(value, int) else float(value)


def seconds(name: str, value: object, most_s: float) -> float:
    """Return a number of seconds from 0 on. Raises `InputError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name} {shown(value)} is no number of seconds, like 0.5")
    if not 0 <= value <= most_s:
        raise InputError(f"{name} {value:g} s: 0 to {most_s:g} are possible")
    return float(value)


def truth(name: str, value: object) -> bool:
    """Return True or False. Raises `InputError` for anything else."""
    if not isinstance(value, bool):
        raise InputError(f"{name} {shown(value)} is neither True nor False: give one of them")
    return value


def wholes(name: str, value: object, example: str) -> tuple[int, ...]:
    """Return whole numbers as a tuple. Raises `InputError` for what is no sequence of these."""
    numbers = []
    for each in items(name, value, "whole numbers", example):
        number = _whole(each)
        if number is None:
            raise InputError(
                f"{name} {shown(value)}: {shown(each)} is no whole number: give a list or a tuple "
                f"of these, like {example}"
            )
        numbers.append(number)
    return tuple(numbers)


def texts(name: str, value: object, example: str) -> tuple[str, ...]:
    """Return texts as a tuple. Raises `InputError` for what is no sequence of these."""
    found = items(name, value, "texts", example)
    for each in found:
        if not isinstance(each, str):
            raise InputError(
                f"{name} {shown(value)}: {shown(each)} is no text: give a list or a tuple of "
                f"these, like {example}"
            )
    return found


def text(name: str, value: object, example: str) -> str:
    """Return a text. Raises `InputError` for anything else."""
    if not isinstance(value, str):
        raise InputError(f"{name} {shown(value)} is no text: give one, like {example}")
    return value


def path(name: str, value: object, example: str) -> str:
    """Return a path as a text. Raises `InputError` for what is neither a text nor a path."""
    found = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str):
        raise InputError(f"{name} {shown(value)} is no path: give one, like {example}")
    return found


def items(name: str, value: object, what: str, example: str) -> tuple[Any, ...]:
    """Return the items of a list, a tuple or another sequence, in their order. Raises `InputError`
    for what is none; a text is none, and what has no order is none."""
    unordered = isinstance(value, (str, bytes, Mapping, Set))
    try:
        found = None if unordered or not isinstance(value, Iterable) else tuple(value)
    except TypeError:  # numpy's arrays without dimensions say that they are iterable
        found = None
    if found is None:
        raise InputError(
            f"{name} {shown(value)} is no sequence: give a list or a tuple of {what}, like "
            f"{example}"
        )
    return found


def _whole(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None
