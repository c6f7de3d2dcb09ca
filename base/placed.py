"""Documents whose values are known by the lines of their files, so that messages can name these.

document = opened(Path("topology.json"))
topology = document.typed(Topology)
raise document.wrong("hosts.h1.ip", "'10.0.0' is no address")   # topology.json:4: hosts.h1.ip: ...
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from weft.base import documents
from weft.base.errors import InputError, WeftError, did_you_mean
from weft.base.files import read_text, told_as_input

T = TypeVar("T")

MOST_BYTES = 16 << 20
"""The largest file that is read."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class PlacedDocument:
    """A document, and the line of each of its values by its place, like ``links[3]`` or
    ``hosts.h1.ip``."""

    path: Path
    """Its file, as messages name it."""
    content: Any
    """Dicts, lists and plain values."""
    lines: Mapping[str, int]

    def wrong(self, place: str, message: str, at: str = "") -> InputError:
        """Return an error that says where, and what is wrong there; its line is that of ``at``, if
        that says more than the place."""
        return InputError(f"{self.at(place, at)}: {message}")

    def at(self, place: str, within: str = "") -> str:
        """Return the file and the line of a place, or of one within it, and the place."""
        line = self.line(within or place)
        return ": ".join(filter(None, (f"{self.path}:{line}" if line else f"{self.path}", place)))

    def line(self, place: str) -> int:
        """Return the line of the innermost value that a place, or a message that begins with one,
        is in; 0 if it names none."""
        known = [each for each in self.lines if _begins(place, each)]
        return self.lines[max(known, key=len)] if known else 0

    def typed(self, kind: type[T]) -> T:
        """Return what the document describes. Raises InputError with its place and line."""
        for place, field, message in _other_fields(kind, self.content, ""):
            raise self.wrong(place, message, at=field)
        try:
            return documents.read(kind, self.content)
        except documents.Damage as damage:
            raise self._said(str(damage)) from None

    @contextmanager
    def blaming(self, place: str) -> Iterator[None]:
        """Name a place in errors of what is done for it within the block."""
        try:
            yield
        except WeftError as error:
            raise self.wrong(place, str(error)) from None

    def _said(self, message: str) -> InputError:
        line = self.line(message)
        return InputError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}")


def opened(path: Path, endings: Sequence[str] = (".json",)) -> PlacedDocument:
    """Return the JSON document in a file. Raises InputError for what is none, and where a key is
    there twice."""
    return placed(text_of(path, endings), path)


def text_of(path: Path, endings: Sequence[str]) -> str:
    """Return the text of a file. Raises InputError."""
    with told_as_input(f"{path} cannot be read"):
        return read_text(path, MOST_BYTES, endings=endings)


def placed(text: str, path: Path) -> PlacedDocument:
    """Return the document that a text of JSON describes. Raises InputError."""
    content = documents.parsed(text, f"{path} cannot be read: it is not valid JSON")
    return PlacedDocument(path, content, lines_of(text, path))


def lines_of(text: str, path: Path) -> dict[str, int]:
    """Return the line of each value of a valid JSON text, by its place. Raises InputError where an
    object has a key twice."""
    found: dict[str, int] = {}
    open_: list[tuple[str, int | str]] = []
    """Of every object or list that is open its place, and the key or the index of the value that
    comes next."""
    line = 1
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
            continue
        if token in "}]":
            open_.pop()
            continue
        if token == ":":
            continue
        if token == ",":
            place, key = open_[-1]
            open_[-1] = place, key + 1 if isinstance(key, int) else ""
            continue
        place = ""
        if open_:
            place, key = open_[-1]
            if key == "":  # an object's next key
                name = documents.parsed(token, "")
                here = inside(place, name)
                if here in found:
                    raise InputError(
                        f"{path}:{line}: {here} is there twice: see line {found[here]}"
                    )
                found[here] = line
                open_[-1] = place, name or " "
                continue
            place = f"{place}[{key}]" if isinstance(key, int) else inside(place, key)
        found.setdefault(place, line)
        if token in "{[":
            open_.append((place, "" if token == "{" else 0))
    return found


def inside(place: str, key: str) -> str:
    """Return the place of a value in the object at another place."""
    return f"{place}.{key}" if place else key


def _begins(text: str, place: str) -> bool:
    """Return whether a text begins with a place, and not with a longer word."""
    return text.startswith(place) and not re.match(r"[\w-]", text[len(place) :])


def _other_fields(kind: Any, value: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Yield the place of each object that has other fields than its type, that of the field, and
    what is wrong."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not isinstance(value, Mapping):
            return
        fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
        hints = get_type_hints(kind)
        for key, inner in value.items():
            if key in fields:
                yield from _other_fields(hints[fields[key].name], inner, inside(place, key))
                continue
            near = did_you_mean(key, fields)
            valid = ", ".join(fields)
            yield (
                place,
                inside(place, key),
                f"{key!r} means nothing here{near}; there may be {valid}",
            )
        for name, field in fields.items():
            if field.required and name not in value:
                yield place, place, f"{name} is missing"
        return
    arguments = get_args(kind)
    if get_origin(kind) is dict and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _other_fields(arguments[1], inner, inside(place, key))
    elif get_origin(kind) is list and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _other_fields(arguments[0], inner, f"{place}[{index}]")
    else:
        for argument in arguments:
            yield from _other_fields(argument, value, place)
