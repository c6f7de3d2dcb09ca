"""Reading a JSON document into dataclasses, with the place of whatever is not as declared."""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from weft.base.units import shown

T = TypeVar("T")

LARGEST = 1 << 64
"""No figure of a document is larger; larger ones cannot all be drawn or divided."""

_WORDS: Mapping[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false",
    type(None): "null", list: "a list", tuple: "a list", dict: "an object",
}  # fmt: skip


class Damage(Exception):
    """Says what in a document is not as declared, and where."""


def read(kind: type[T], document: object, place: str = "") -> T:
    """Return the `kind`, which is a dataclass, that `document` describes.

    A field with ``metadata["key"]`` has that name in the document; names in the class's ``DERIVED``
    are passed over. Raises `Damage` for a missing or unknown key, for a value that is not what the
    field's annotation says, for a number that is not finite or too large to be true, and for text
    that is not Unicode.
    """
    check_plain(document, place)
    return cast(T, _read(kind, document, place))


def read_as(kind: Any, value: object, place: str) -> Any:
    """Do as `read`, for any type that a field may have."""
    check_plain(value, place)
    return _read(kind, value, place)


def check_plain(value: object, place: str) -> None:
    """Raise `Damage` for a number or a text anywhere in `value` that nothing can be done with."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_plain(key, place)
            check_plain(inner, _inside(place, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            check_plain(inner, f"{place}[{index}]")
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Damage(f"{place or 'a key'} is {shown(value)}, which is not Unicode") from None
    elif isinstance(value, (int, float)) and not abs(value) <= LARGEST:  # NaN compares to nothing
        raise Damage(f"{place} is {shown(value)}, which no figure can be")


def _inside(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _read(kind: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        first, *others = (choice for choice in arguments if choice is not type(None))
        assert not others
        return _read(first, value, place)
    if is_dataclass(kind):
        return _object(kind, value, place)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return value
    if not _is(origin or kind, value):
        raise Damage(f"{place} is {shown(value)}, not {_WORDS[origin or kind]}")
    if origin in (list, tuple):
        return origin(_read(arguments[0], inner, f"{place}[{i}]") for i, inner in enumerate(value))
    if origin is dict:
        return {
            key: _read(arguments[1], inner, _inside(place, key)) for key, inner in value.items()
        }
    return value


def _is(kind: type, value: object) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is tuple:
        return isinstance(value, (list, tuple))
    if kind is float:
        return isinstance(value, float) and math.isfinite(value)
    return isinstance(value, kind)


def _object(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise Damage(f"{place or 'it'} is {shown(value)}, not an object")
    hints = get_type_hints(kind)
    known: dict[str, Any] = {}
    left = dict(value)
    for name in getattr(kind, "DERIVED", ()):
        left.pop(name, None)
    for item in fields(kind):
        key = item.metadata.get("key", item.name)
        if key in left:
            known[item.name] = _read(hints[item.name], left.pop(key), _inside(place, key))
        elif item.default is MISSING and item.default_factory is MISSING:
            raise Damage(f"{_inside(place, key)} is missing")
    if left:
        raise Damage(f"{_inside(place, str(min(left)))} means nothing")
    return kind(**known)
