"""Documents of results: a JSON object in a file, which says by its schema what it is of."""

import json
import re
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from weft.base import documents
from weft.base.errors import InputError
from weft.base.files import read_bounded
from weft.base.units import shown

_FIGURES = re.compile(r"\[\n[-+.0-9eE,\s]+\]")

DOCUMENT = "results.json"
"""The name of the document in its folder."""

MOST_BYTES = 1 << 30
"""The largest ``results.json`` that is read."""

D = TypeVar("D", bound="Document")


class Document:
    """What a results folder has as ``results.json``; a part of what a `msgspec.Struct` is."""

    __slots__ = ()

    SCHEMA: ClassVar[str]
    WRITTEN_BY: ClassVar[str]
    """The command that writes such documents."""

    def to_dict(self) -> dict[str, Any]:
        """Return the document as plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def text(self) -> str:
        """Return the document as text."""
        text = msgspec.json.format(json.dumps(self.to_dict()), indent=1)
        # Lists of figures are one line each; within a string there is no line's end.
        return _FIGURES.sub(lambda found: " ".join(found[0].split()), text) + "\n"

    def check(self, what: str) -> None:
        """Raise InputError for what types do not say. ``what`` is the file, in messages."""

    @classmethod
    def read(cls: type[D], path: Path) -> D:
        """Return the results in a folder, or in a document. Raises InputError."""
        what = _what(path)
        document = documents.opened(
            _file(path), MOST_BYTES, what, hint=f"name a folder that {cls.WRITTEN_BY!r} wrote"
        )
        said = document if isinstance(document, dict) else {}
        name, version = said.get("schema", cls.SCHEMA), said.get("schema_version", 1)
        if (name, version) != (cls.SCHEMA, 1):
            raise InputError(
                f"{what}: this is {shown(name)} version {shown(version)}, "
                f"not {cls.SCHEMA!r} version 1"
            )
        found = documents.typed(cls, document, what)
        found.check(what)
        return found


class _Schema(msgspec.Struct):
    """What a document says that it is."""

    schema: str = ""


def schema_of(path: Path) -> str:
    """Return of which schema a folder, or a document, has results; empty for what cannot be
    read."""
    try:
        return msgspec.json.decode(
            read_bounded(_file(path), MOST_BYTES, endings=(".json",)), type=_Schema
        ).schema
    except (OSError, ValueError):
        return ""


def _file(path: Path) -> Path:
    return path / DOCUMENT if path.is_dir() else path


def _what(path: Path) -> str:
    return f"results {str(_file(path))!r}"
