"""The one reader of documents: it opens a file, parses it, has msgspec make a typed object of it,
and says what is wrong, and where.

`load` does all of this for a file, and `decoded` for other text. `opened`, `parsed` and `typed` are
their steps, for documents of which more is to be said than their type.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from weft.base.errors import InputError
from weft.base.files import read_text, told_as_input
from weft.base.units import listed, shown

T = TypeVar("T")

LARGEST = 1 << 64
"""No figure of a document is larger; larger ones cannot all be drawn or divided."""

_WORDS = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "null": "null", "array": "a list", "object": "an object",
}  # fmt: skip
"""What msgspec's names of types mean."""
_NAMES: Mapping[type, str] = {type(None): "null", list: "array", tuple: "array", dict: "object"}
"""What msgspec calls types, where that is not what Python calls them."""

_PLACE = r"(?: - at `\$(?P<place>.*)`)?"
_WRONG = re.compile(rf"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`{_PLACE}")
_MISSING = re.compile(rf"Object missing required field `(?P<field>.*?)`{_PLACE}")
_UNKNOWN = re.compile(rf"Object contains unknown field `(?P<field>.*?)`{_PLACE}")
_CHOICE = re.compile(rf"Invalid enum value (?P<value>'.*'){_PLACE}", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")


class Damage(InputError):
    """A document is not as declared; the message says what is not, and where."""


_ENDINGS = {"JSON": (".json",), "TOML": (".toml",)}
"""What names of documents end in."""
_SYNTAXES: Mapping[str, Callable[[str | bytes], Any]] = {
    "JSON": json.loads,  # which also takes numbers that are none: `check_plain` says where they are
    "TOML": msgspec.toml.decode,
}


def load(kind: type[T], path: Path, most_bytes: int, what: str) -> T:
    """Return what the JSON document in a file describes.

    Raises `InputError`, in which ``what`` stands for the file: ``figures 'paths.json'``.
    """
    return typed(kind, opened(path, most_bytes, what), f"{what} cannot be read")


def decoded(
    kind: type[T],
    text: str | bytes,
    problem: str,
    error: Callable[[str], Exception] = InputError,
) -> T:
    """Return what a text of JSON describes. Raises ``error``, which begins with ``problem``."""
    return typed(kind, parsed(text, problem, error=error), problem, error)


def opened(path: Path, most_bytes: int, what: str, syntax: str = "JSON", hint: str = "") -> Any:
    """Return the document in a file as dicts, lists and plain values. Raises `InputError`.

    Args:
        what: the file in messages.
        hint: what to do where it cannot be opened.
    """
    problem = f"{what} cannot be read"
    with told_as_input(problem, hint):
        text = read_text(path, most_bytes, endings=_ENDINGS[syntax])
    return parsed(text, f"{problem}: it is not valid {syntax}", syntax)


def parsed(
    text: str | bytes,
    problem: str,
    syntax: str = "JSON",
    error: Callable[[str], Exception] = InputError,
) -> Any:
    """Return the document in a text as dicts, lists and plain values. Raises ``error``, which
    begins with ``problem``."""
    try:
        return _SYNTAXES[syntax](text)
    except RecursionError:
        raise error(f"{problem}: it is nested too deeply") from None
    except ValueError as wrong:
        raise error(f"{problem}: {wrong}") from None


def typed(
    kind: type[T],
    document: object,
    problem: str,
    error: Callable[[str], Exception] = InputError,
) -> T:
    """Return the same as `read`. Raises ``error``, which begins with ``problem``, for damage."""
    try:
        return read(kind, document)
    except Damage as damage:
        raise error(f"{problem}: {damage}") from None


def read(kind: type[T], document: object, place: str = "") -> T:
    """Return what `document`, which is made of dicts, lists and plain values, describes.

    Raises `Damage` for what msgspec does not take for the `kind`, for a number that is not finite
    or too large to be true, and for text that is not Unicode.
    """
    check_plain(document, place)
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Damage(
            _missing(kind, document, place)
            or _no_choice(kind, str(error), place)
            or _said(str(error), document, place)
        ) from None


def check_plain(value: object, place: str) -> None:
    """Raise `Damage` for a number or a text anywhere in `value` that nothing can be done with."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_plain(key, place)
            check_plain(inner, _inside(place, str(key)))
    elif isinstance(value, (list, tuple)):
        if set(map(type, value)) == {int} and max(map(abs, value)) <= LARGEST:
            return  # counts, of which there may be very many
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


def _missing(kind: Any, document: object, place: str) -> str:
    """Say which field of the whole is missing, whatever else is wrong; empty if none is."""
    if isinstance(document, Mapping) and isinstance(kind, type(msgspec.Struct)):
        for field in msgspec.structs.fields(kind):
            if field.required and field.encode_name not in document:
                return f"{_inside(place, field.encode_name)} is missing"
    return ""


def _no_choice(kind: Any, message: str, place: str) -> str:
    """Say that a value is none of those that there are, if msgspec's message does so of a field of
    the whole; else return nothing."""
    if (found := _CHOICE.fullmatch(message)) and found["place"]:
        field = _STEP.findall(found["place"])[0][0]
        choices = ", ".join(map(str, _choices(get_type_hints(kind)[field])))
        return f"{_inside(place, field)}: {found['value']} is unknown; choose from {choices}"
    return ""


def _choices(hint: Any) -> tuple[object, ...]:
    """Return the values of the literals in a type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(value for inner in get_args(hint) for value in _choices(inner))


def _said(message: str, document: object, place: str) -> str:
    """Return msgspec's message as a sentence that shows the value."""
    for pattern, problem in ((_MISSING, "is missing"), (_UNKNOWN, "means nothing")):
        if found := pattern.fullmatch(message):
            inside = (found["place"] or "").removeprefix(".")
            return f"{_inside(_inside(place, inside), found['field'])} {problem}".removeprefix(".")
    if found := _WRONG.fullmatch(message):
        steps = [name or index for name, index in _STEP.findall(found["place"] or "")]
        kinds = found["expected"].removesuffix(" | null").split(" | ")
        if "float" in kinds and "int" in kinds:
            kinds.remove("int")
        known = [_WORDS[kind] for kind in kinds if kind in _WORDS]
        words = listed(known, "or") if len(known) == len(kinds) else ""
        for where, value in _values_at(document, steps, place):
            if words and _NAMES.get(type(value), type(value).__name__) == found["got"]:
                return f"{where or 'it'} is {shown(value)}, not {words}"
    return f"{place or 'it'} is not as declared: {message}"


def _values_at(value: Any, steps: list[str], place: str) -> Iterator[tuple[str, object]]:
    """Return the values at a place of a document, each with its place: msgspec does not tell which
    value of a dict is wrong, and writes ``[...]`` for each."""
    if not steps:
        yield place, value
        return
    step, *rest = steps
    if step == "...":
        for key, inner in value.items():
            yield from _values_at(inner, rest, _inside(place, str(key)))
    elif isinstance(value, Mapping):
        yield from _values_at(value[step], rest, _inside(place, step))
    else:
        yield from _values_at(value[int(step)], rest, f"{place}[{step}]")
