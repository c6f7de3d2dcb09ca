"""Fields of frozen dataclasses that are converted, and checked, when they are set."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from weft.base.errors import InputError, demand

REQUIRED = object()
"""In place of the default of a field that must be given."""


class Converted:
    """A field whose value is what `convert(its name, the value that was given)` returns."""

    def __init__(self, convert: Callable[[str, Any], object], default: object) -> None:
        self._convert = convert
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> object:
        if instance is not None:
            return instance.__dict__[self._name]
        if self._default is REQUIRED:
            raise AttributeError(self._name)
        return self._default

    def __set__(self, instance: object, value: object) -> None:
        instance.__dict__[self._name] = self._convert(self._name, value)


def whole(default: object = REQUIRED, least: int = 0, most: int | None = None) -> Any:
    """Return a field that holds a Python integer, whatever type of integer it is given; InputError
    for what is none, or out of range."""

    def convert(name: str, given: object) -> int:
        value = whole_number(name, given)
        demand(value >= least, InputError, f"{name} {value}: at least {least}")
        demand(most is None or value <= most, InputError, f"{name} {value}: at most {most}")
        return value

    return Converted(convert, default)


def counts() -> Any:
    """Return a field that holds one number of elements, or a tuple of them."""

    def convert(name: str, given: object) -> int | tuple[int, ...]:
        listed = given if isinstance(given, Iterable) else (given,)
        each = tuple(whole_number(name, count) for count in listed)
        demand(
            min(each, default=0) >= 0,
            InputError,
            f"{name} {given}: a number of elements is not negative",
        )
        return each if listed is given else each[0]

    return Converted(convert, REQUIRED)


def whole_number(name: str, value: object) -> int:
    """Return any integer as a Python one; InputError, by name, for what is none."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"{name} {value!r} is no whole number") from error
