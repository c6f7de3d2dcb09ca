"""Objects by their names: Weft's own, and those that other packages bring by entry points.

Names are asked for by help and by messages, and importing all modules of a kind takes long. So what
must be known of Weft's own objects beforehand is found by importing the modules once, and kept in
the cache folder under a digest of their contents.
"""

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, TypeVar

import msgspec

from weft.base import documents
from weft.base.cache import cache_dir
from weft.base.entry_points import objects_of
from weft.base.errors import InputError, MachineError
from weft.base.files import write_whole

MOST_BYTES = 1 << 24
"""The most bytes of what is kept."""

Colour = Annotated[str, msgspec.Meta(pattern="^#[0-9a-fA-F]{6}$")]
"""A colour as a page's style sheet has it."""


One = TypeVar("One")


@dataclass(frozen=True)
class NoOptions:
    """The options of an object that has none of its own."""


class Registry(Mapping[str, One]):
    """All objects of a kind by their names, each object's own ``name``: Weft's own, and behind them
    those that other packages bring, in the order of their names.

    Args:
        group: the entry points by which other packages bring theirs.
        own: Weft's own objects; or where they are: ``package:NAME`` if modules of a package assign
            one, or a tuple of several, to a name; ``package:module.NAME`` if there is such a module
            in each folder of the package.
        facts: the attributes that are to be known without importing the modules, and their types,
            as a `msgspec.Struct`; sets are lists in it, and dataclasses ``module:name``, or empty
            if they have no fields. An object of another package that lacks one, or whose one is of
            another type, is left out.
        needs: the attributes that an object of another package must have beside these.
        kind: the class that objects of other packages are instances of, ``module:name``; empty if
            any will do.
        check: raises an error if an object of another package cannot be used.
        taken: names that no object of another package may have, beside those of Weft's own.
    """

    def __init__(
        self,
        group: str,
        own: str | Sequence[One] = (),
        *,
        facts: type[msgspec.Struct] | None = None,
        needs: Sequence[str] = (),
        kind: str = "",
        check: Callable[[One], object] | None = None,
        taken: Collection[str] = (),
    ) -> None:
        self._group, self._facts, self._kind, self._check = group, facts, kind, check
        self._needs = (*needs, *(facts.__struct_fields__ if facts else ()))
        self._taken = taken
        self._where = own if isinstance(own, str) else ""
        self._package, _, module_and_name = self._where.partition(":")
        self._module, _, self._register = module_and_name.rpartition(".")
        self._loaded: dict[str, One] = {} if isinstance(own, str) else _by_name(own)
        self._own_one = msgspec.defstruct("OwnOne", [("module", str), ("facts", facts)])

    def __getitem__(self, name: str) -> One:
        own = self.own
        if name not in own:
            return self.others[name]
        if name not in self._loaded:
            self._load(own[name].module)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.others

    def __iter__(self) -> Iterator[str]:
        yield from (*self.own, *self.others)

    def __len__(self) -> int:
        return len(self.own) + len(self.others)

    def fact(self, name: str, fact: str) -> Any:
        """Return an attribute of an object, one of the facts."""
        one = self.own[name].facts if name in self.own else self._facts_of(self.others[name])
        return getattr(one, fact)

    def options(self) -> Iterator[tuple[str, Any]]:
        """Yield the name of each object that has options of its own, and the dataclass of these,
        without importing the object's module."""
        for name in self:
            if self._facts and name in self.own:
                module, _, options = self.fact(name, "options").partition(":")
                if options:
                    yield name, getattr(import_module(module), options)
                continue
            one: Any = self[name]
            if fields(one.options):
                yield name, one.options

    @cached_property
    def own(self) -> Mapping[str, Any]:
        """What is known of Weft's own objects, by name."""
        if self._facts is None:
            for module in self._modules() if self._package else ():
                self._load(module)
            return dict.fromkeys(self._loaded)
        try:
            kept = cache_dir() / f"{self._package}-{self._digest()}.json"
        except MachineError:  # whoever needs the folder says so; names need it not
            return dict(self._found())
        with contextlib.suppress(InputError):
            form: Any = GenericAlias(dict, (str, self._own_one))
            read: dict[str, Any] = documents.load(form, kept, MOST_BYTES, str(kept))
            return read
        found = dict(self._found())
        with contextlib.suppress(OSError):
            write_whole(kept, msgspec.json.encode(found).decode(), keep=True)
        return found

    @cached_property
    def others(self) -> dict[str, One]:
        """The objects of other packages, by name."""
        taken = {*self._taken, *self.own}
        found = objects_of(self._group, self._needs, taken, self._check_one)
        return dict(sorted(found.items()))

    def _check_one(self, one: Any) -> None:
        """Raise an error if an object of another package cannot be used."""
        module, _, name = self._kind.partition(":")
        if module and not isinstance(one, getattr(import_module(module), name)):
            raise TypeError(f"it is of type {type(one).__name__}: derive that from {module}.{name}")
        if self._facts:
            self._facts_of(one)
        if self._check:
            self._check(one)

    def _facts_of(self, one: object) -> Any:
        """Return what is to be known of an object. Raises TypeError if it is of another type."""
        assert self._facts is not None
        values = {fact: _plain(getattr(one, fact)) for fact in self._facts.__struct_fields__}
        try:
            return documents.read(self._facts, values)
        except documents.Damage as damage:
            raise TypeError(f"its {damage}") from None

    def _load(self, module: str) -> Sequence[Any]:
        """Import a module, and return its objects."""
        found = getattr(import_module(f"{self._package}.{module}"), self._register, ())
        ones = found if isinstance(found, tuple) else (found,)
        self._loaded |= _by_name(ones)
        return ones

    def _found(self) -> Iterator[tuple[str, Any]]:
        for module in self._modules():
            for each in self._load(module):
                yield each.name, self._own_one(module, self._facts_of(each))

    def _modules(self) -> Mapping[str, Path]:
        """Return the modules of Weft's own objects, by their names in the package."""
        root, *below = self._package.split(".")  # packages on the way may import much
        folder = Path(import_module(root).__path__[0], *below)
        files = sorted(folder.glob(f"*/{self._module}.py" if self._module else "*.py"))
        named = {".".join(each.relative_to(folder).with_suffix("").parts): each for each in files}
        named.pop("__init__", None)
        return named

    def _digest(self) -> str:
        """Return a digest of the modules, of those in the folder above, where their classes are
        from, and of which facts are asked for."""
        assert self._facts is not None
        files = [*self._modules().values()]
        above = sorted(files[0].parent.parent.glob("*.py"))
        digest = hashlib.sha256(repr((self._where, self._facts.__annotations__)).encode())
        for file in (*files, *above):
            content = file.read_bytes()
            digest.update(f"{file.name} {len(content)} ".encode() + content)
        return digest.hexdigest()[:16]


def _by_name(ones: Sequence[Any]) -> dict[str, Any]:
    return {each.name: each for each in ones}


def _plain(value: object) -> object:
    """Return a value as JSON has it; of a dataclass with fields where it is found."""
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}" if fields(value) else ""
    return sorted(value) if isinstance(value, (set, frozenset)) else value
