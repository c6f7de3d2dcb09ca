"""Objects by their names: those that modules of Weft register, and those that other packages bring.

Names are asked for by help and by messages, and importing all modules of a kind takes long. So what
must be known of Weft's own objects beforehand is found by importing the modules once, and kept in
the cache folder under a digest of their contents.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.base.cache import cache_dir
from weft.base.entry_points import brought
from weft.base.errors import MachineError
from weft.base.files import write_whole


class Registry:
    """All objects of a kind.

    A module of the package registers a tuple of its objects by assigning it to a name. Each has a
    ``name`` of its own.

    Args:
        package: the full name of the package whose modules have Weft's own objects.
        register: to which name in a module its objects are assigned.
        group: the entry points by which other packages bring theirs.
        facts: attributes that are to be known without importing the modules, which JSON can hold;
            an object of another package that lacks one is left out.
    """

    def __init__(self, package: str, register: str, group: str, facts: tuple[str, ...]) -> None:
        self._package = package
        self._register = register
        self._group = group
        self._facts = facts

    def names(self) -> tuple[str, ...]:
        """Return all names, those of other packages last."""
        return (*self._own, *self._brought)

    def is_own(self, name: str) -> bool:
        """Return whether an object is Weft's own."""
        return name in self._own

    def fact(self, name: str, fact: str) -> Any:
        """Return an attribute of an object, one of the facts; sets and tuples as lists."""
        return self._own[name][fact] if name in self._own else _plain(self._brought[name], fact)

    def get(self, name: str) -> Any:
        """Return the object of a name, which is one of `names`."""
        if name not in self._own:
            return self._brought[name]
        module = import_module(f"{self._package}.{self._own[name]['module']}")
        return next(each for each in getattr(module, self._register) if each.name == name)

    @cached_property
    def _brought(self) -> dict[str, Any]:
        return brought(self._group, *self._facts, taken=tuple(self._own))

    @cached_property
    def _own(self) -> dict[str, dict[str, Any]]:
        """By name, the facts of Weft's own objects, and their modules."""
        try:
            kept = cache_dir() / f"{self._package}-{self._digest()}.json"
        except MachineError:  # whoever needs the folder says so; names need it not
            return dict(self._imported())
        with contextlib.suppress(OSError, ValueError):
            read: dict[str, dict[str, Any]] = json.loads(kept.read_text())
            return read
        found = dict(self._imported())
        with contextlib.suppress(OSError):
            write_whole(kept, json.dumps(found), keep=True)
        return found

    def _imported(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for file in self._files():
            module = import_module(f"{self._package}.{file.stem}")
            for each in getattr(module, self._register, ()):
                facts = {fact: _plain(each, fact) for fact in self._facts}
                yield each.name, {"module": file.stem, **facts}

    def _files(self) -> list[Path]:
        folder = Path(import_module(self._package).__path__[0])
        return sorted(each for each in folder.glob("*.py") if each.stem != "__init__")

    def _digest(self) -> str:
        """Return a digest of the modules, of those in the folder above, where their classes are
        from, and of which facts are asked for."""
        files = self._files()
        above = sorted(files[0].parent.parent.glob("*.py"))
        digest = hashlib.sha256(repr((self._register, self._facts)).encode())
        for file in (*files, *above):
            content = file.read_bytes()
            digest.update(f"{file.name} {len(content)} ".encode() + content)
        return digest.hexdigest()[:16]


def _plain(one: object, fact: str) -> Any:
    """Return an attribute as JSON has it."""
    value = getattr(one, fact)
    return sorted(value) if isinstance(value, (set, frozenset)) else value
