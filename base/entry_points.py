"""What other packages bring: objects by entry points (importlib.metadata)."""

import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from weft.base.errors import Ended, RunError, WeftError, refuse

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

held: Callable[[], AbstractContextManager[None]] = nullcontext
"""What packages are loaded in: a block in which signals wait, where `weft.base.signals` sees to
them. It sets this; whoever is handed packets and the time knows no signals."""


@cache
def _all_in(_places: tuple[str, ...]) -> Any:
    """Return all entry points of the packages in the places where Python looks for modules: it is
    asked for a dozen groups, and reads files of every package for the answer."""
    from importlib import metadata  # with it come zip files and e-mail, which not everybody needs

    return metadata.entry_points()


def objects_of(
    group: str, needs: Collection[str], taken: Collection[str], check: Callable[[Any], object]
) -> dict[str, Any]:
    """Return the objects of a group of entry points by their own names. A
    `weft.base.registry.Registry` asks for them.

    One that cannot be loaded, that is no object with a ``name`` and all of the attributes `needs`,
    whose name is `taken` (or another package's already), or for which `check` raises an error is
    left out, and standard error says why: a broken package must not keep Weft from running.
    """
    found: dict[str, Any] = {}
    for point in _all_in(tuple(sys.path)).select(group=group):
        try:
            with held():  # so that a KeyboardInterrupt is the package's own
                one = point.load()
                name = _checked(one, ("name", *needs), {*taken, *found})
                check(one)
        except Ended:
            raise
        except BaseException as error:
            what = f"{point.name!r} of {point.dist.name if point.dist else 'an unknown package'}"
            print(
                f"weft: {what} ({group}, {point.value}) is left out, as it cannot be used: "
                f"{type(error).__name__}: {error}",
                file=sys.stderr,
            )
        else:
            found[name] = one
    return found


def digest_of(group: str) -> str:
    """Return a digest of what a group of entry points brings, for compiled code that it is a part
    of: the names of those that can be loaded, and all modules of their packages; empty if there
    are none."""
    import hashlib

    digest = hashlib.sha256()
    points = _all_in(tuple(sys.path)).select(group=group)
    for point in points:
        try:
            with held():
                point.load()
        except Ended:
            raise
        except BaseException:  # `objects_of` says so
            continue
        digest.update(f"{point.name} {point.value}".encode())
        package: Any = sys.modules[point.module.partition(".")[0]]
        folders = map(Path, getattr(package, "__path__", ()))
        files = [file for folder in folders for file in folder.rglob("*.py")]
        for file in sorted(files) or [Path(package.__file__)]:
            digest.update(file.read_bytes())
    return digest.hexdigest() if points else ""


@contextmanager
def blamed(one: Any, doing: str) -> Iterator[None]:
    """Name an object of another package as the cause of an error within, if it is one.

    Raises RunError for any error, and any try to end the process, but for errors of Weft's own
    family and what a signal raises, which are passed on.
    """
    try:
        yield
    except (WeftError, Ended, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        kind = type(one)
        if kind.__module__.partition(".")[0] == "weft":
            raise
        raise RunError(
            f"{one.name!r} of another package ({kind.__module__}.{kind.__name__}): {doing} failed: "
            f"{type(error).__name__}: {error}; mend that package, or do without it"
        ) from error


def _checked(one: Any, needs: Collection[str], taken: Collection[str]) -> str:
    """Return the name of an object. Raises TypeError or ValueError if it cannot be used."""
    if isinstance(one, type):
        raise TypeError(f"it is the class {one.__name__}: name an instance of it")
    lacking = [name for name in needs if not hasattr(one, name)]
    if lacking:
        raise TypeError(f"it is of type {type(one).__name__}, without {', '.join(lacking)}")
    if not (isinstance(one.name, str) and _NAME.fullmatch(one.name)):
        raise ValueError(
            f"its name is {one.name!r}: let it be letters, digits, - and _, a letter first"
        )
    refuse(one.name in taken, f"there is a {one.name!r} already: give it another name", ValueError)
    return str(one.name)
