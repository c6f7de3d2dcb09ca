"""Objects by their names: those that modules of Weft register, and those that other packages bring.

Names are asked for by help and by messages, and importing all modules of a kind takes long. So what
must be known of Weft's own objects beforehand is found by importing the modules once, and kept in
the cache folder under a digest of their contents.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

import msgspec

from weft.base import documents
from weft.base.cache import cache_dir
from weft.base.entry_points import brought
from weft.base.errors import InputError, MachineError
from weft.base.files import write_whole

MOST_BYTES = 1 << 24
"""The most bytes of what is kept."""

Colour = Annotated[str, msgspec.Meta(pattern="^#[0-9a-fA-F]{6}$")]
"""A colour as a page's style sheet has it."""


@dataclass(frozen=True)
class NoOptions:
    """The options of an object that has none of its own."""


class Registry:
    """A registry has all objects of a kind.

    A module of the package registers a tuple of its objects by assigning it to a name. Each has a
    ``name`` of its own.

    Args:
        package: the full name of the package whose modules have Weft's own objects.
        register: to which name in a module its objects are assigned.
        group: the entry points by which other packages bring theirs.
        facts: the attributes that are to be known without importing the modules, and their types,
            as a `msgspec.Struct`; sets are lists in it, and dataclasses ``module:name``, or empty
            if they have no fields. An object of another package that lacks one, or whose one is of
            another type, is left out.
        kind: the class that objects of other packages are instances of, ``module:name``; empty if
            any will do.
    """

    def __init__(
        self, package: str, register: str, group: str, facts: type[msgspec.Struct], kind: str = ""
    ) -> None:
        self._package = package
        self._register = register
        self._group = group
        self._facts = facts
        self._kind = kind
        self._own_one = msgspec.defstruct("OwnOne", [("module", str), ("facts", facts)])
        self._kept: Any = GenericAlias(dict, (str, self._own_one))

    def names(self) -> tuple[str, ...]:
        """Return all names, those of other packages last."""
        return (*self._own, *self._brought)

    def is_own(self, name: str) -> bool:
        """Return whether an object is Weft's own."""
        return name in self._own

    def fact(self, name: str, fact: str) -> Any:
        """Return an attribute of an object, one of the facts."""
        if name in self._own:
            return getattr(self._own[name].facts, fact)
        return getattr(self._facts_of(self._brought[name]), fact)

    def get(self, name: str) -> Any:
        """Return the object of a name, which is one of `names`."""
        if name not in self._own:
            return self._brought[name]
        module = import_module(f"{self._package}.{self._own[name].module}")
        return next(each for each in getattr(module, self._register) if each.name == name)

    def options_of(self, name: str) -> Any:
        """Return the dataclass of the options that an object has of its own, without importing the
        object's module."""
        if name not in self._own:
            return self._brought[name].options
        module, _, options = self.fact(name, "options").partition(":")
        return getattr(import_module(module), options)

    @cached_property
    def objects(self) -> tuple[Any, ...]:
        """Return all objects, in the order of `names`."""
        return tuple(map(self.get, self.names()))

    @cached_property
    def _brought(self) -> dict[str, Any]:
        needs = self._facts.__struct_fields__
        return brought(self._group, *needs, taken=tuple(self._own), check=self._check)

    def _check(self, one: object) -> None:
        """Raise an error if an object of another package cannot be used."""
        if self._kind:
            check_kind(one, self._kind)
        self._facts_of(one)

    def _facts_of(self, one: object) -> Any:
        """Return what is to be known of an object. Raises TypeError if it is of another type."""
        values = {fact: _plain(getattr(one, fact)) for fact in self._facts.__struct_fields__}
        try:
            return documents.read(self._facts, values)
        except documents.Damage as damage:
            raise TypeError(f"its {damage}") from None

    @cached_property
    def _own(self) -> dict[str, Any]:
        """Return, by name, the modules of Weft's own objects, and what is to be known of them."""
        try:
            kept = cache_dir() / f"{self._package}-{self._digest()}.json"
        except MachineError:  # whoever needs the folder says so; names need it not
            return dict(self._imported())
        with contextlib.suppress(InputError):
            read: dict[str, Any] = documents.load(self._kept, kept, MOST_BYTES, str(kept))
            return read
        found = dict(self._imported())
        with contextlib.suppress(OSError):
            write_whole(kept, msgspec.json.encode(found).decode(), keep=True)
        return found

    def _imported(self) -> Iterator[tuple[str, Any]]:
        for file in self._files():
            module = import_module(f"{self._package}.{file.stem}")
            for each in getattr(module, self._register, ()):
                yield each.name, self._own_one(file.stem, self._facts_of(each))

    def _files(self) -> list[Path]:
        folder = Path(import_module(self._package).__path__[0])
        return sorted(each for each in folder.glob("*.py") if each.stem != "__init__")

    def _digest(self) -> str:
        """Return a digest of the modules, of those in the folder above, where their classes are
        from, and of which facts are asked for."""
        files = self._files()
        above = sorted(files[0].parent.parent.glob("*.py"))
        digest = hashlib.sha256(repr((self._register, self._facts.__annotations__)).encode())
        for file in (*files, *above):
            content = file.read_bytes()
            digest.update(f"{file.name} {len(content)} ".encode() + content)
        return digest.hexdigest()[:16]


def check_kind(one: object, kind: str) -> None:
    """Raise TypeError unless an object is an instance of a class, ``module:name``."""
    module, _, name = kind.partition(":")
    if not isinstance(one, getattr(import_module(module), name)):
        raise TypeError(f"it is of type {type(one).__name__}: derive that from {module}.{name}")


def _plain(value: object) -> object:
    """Return a value as JSON has it; of a dataclass with fields where it is found."""
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}" if fields(value) else ""
    return sorted(value) if isinstance(value, (set, frozenset)) else value


def in_folders(package: str, module: str, register: str) -> list[Any]:
    """Return the objects that modules of one name register, one in each folder of a package, in the
    order of the folders' names."""
    folders = sorted(Path(import_module(package).__path__[0]).iterdir())
    found = [each.name for each in folders if (each / f"{module}.py").is_file()]
    return [getattr(import_module(f"{package}.{name}.{module}"), register) for name in found]
