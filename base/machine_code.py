"""Machine code that numba has made, kept on disk so that later processes run it without numba.

Functions that are compiled together are one `Library`: an object file, and a table of what can be
called in it by C's calling convention. Every argument is one word or more; an array is its address
and its shape. LLVM alone loads it, in a few milliseconds.

It comes from the cache, or with Weft in a wheel, for levels of processors. What is of another
processor, not whole, or not there is compiled (`weft.base.numba_code`) and kept.
What is called with kinds of arguments that have no words goes through numba.
"""

import ctypes
import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.base.cache import PACKAGE, cache_dir, keep_bounded, mark_used
from weft.base.files import write_whole
from weft.base.processors import levels_met, llvm, processor

_NOT_CALLED = (
    "numba_do_raise", "numba_runtime_build_excinfo_struct", "numba_fatal_error", "numba_gil_ensure",
    "numba_gil_release", "numba_unpickle", "NRT_Free", "NRT_MemInfo_call_dtor",
)  # fmt: skip
"""Names that only numba has, in code for Python's errors, and in code that frees what numba's
arrays own. Libraries are called past the former, and get no such arrays."""

SHIPPED = PACKAGE / "kernels"
"""The folder of the libraries that a wheel has."""

READ_ONLY = "readonly"
"""Annotates an array that may not be written to."""


class Kind(NamedTuple):
    """Of what kind an argument is: a number, a record, or an array of numbers."""

    dtype: np.dtype[Any]
    rank: int = 0
    """How many dimensions it has; 0 if it is no array."""
    readonly: bool = False


INTEGER = Kind(np.dtype(np.int64))
BOOLEAN = Kind(np.dtype(np.bool_))
Kinds = tuple[Kind, ...]


class Unsuitable(Exception):
    """Code that only numba can call, or load."""


Addresses = dict[tuple[str, Kinds], tuple[int, str]]
"""By a function's full name and the kinds of its arguments: where it is, and what it returns."""


@dataclass(frozen=True)
class Library:
    """Functions that were compiled together."""

    code: bytes
    """An object file."""
    functions: dict[tuple[str, Kinds], tuple[str, str]]
    """By a function's full name and the kinds of its arguments: its symbol, and what it returns
    (``none``, ``int64`` or ``bool``)."""

    def loaded(self) -> Addresses:
        """Load the code; return the addresses of its functions, and what they return.

        Raises Unsuitable if it wants something that is not in this process.
        """
        builder = llvm().JITLibraryBuilder().add_object_img(self.code).add_current_process()
        abort = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
        for name in _NOT_CALLED:
            builder.import_symbol(name, abort)
        for symbol, _ in self.functions.values():
            builder.export_symbol(symbol)
        engine = llvm().create_lljit_compiler(target_machine(), suppress_errors=True)
        try:
            tracker = builder.link(engine, "weft")
        except RuntimeError as error:
            raise Unsuitable(f"machine code cannot be loaded: {error}") from error
        _loaded.append(tracker)
        return {key: (tracker[symbol], kind) for key, (symbol, kind) in self.functions.items()}


_loaded: list[Any] = []
"""They own the code, which stays until the process ends."""


def target_machine() -> Any:
    """Return what LLVM makes code for: this machine."""
    llvm().initialize_native_target()
    llvm().initialize_native_asmprinter()
    target = llvm().Target.from_triple(llvm().get_process_triple())
    return target.create_target_machine(opt=2, jit=True)


def keep(file: Path, made: Any) -> None:
    """Keep what was made, such as a library, behind a digest of it."""
    text = pickle.dumps(made)
    write_whole(file, hashlib.sha256(text).digest() + text, folders=True, keep=True)


def found_at(file: Path) -> Any:
    """Return what is kept in a file; None if there is nothing, or it is not whole."""
    with suppress(Exception):
        text = file.read_bytes()
        if hashlib.sha256(text[32:]).digest() == text[:32]:
            return pickle.loads(text[32:])
    return None


def file_of(place: str, made_for: str) -> str:
    """Return the name of the file of a library for some processors."""
    return f"{place}-{made_for}.library"


def kept_at(place: str) -> Addresses | None:
    """Load the library of a place: from the cache, or else from what came with Weft; None if it is
    yet to be made."""
    kept = cache_dir() / file_of(place, processor())
    shipped = [SHIPPED / file_of(place, level.name) for level in levels_met()]
    mark_used(kept)
    for file in (kept, *shipped):
        found: Library | None = found_at(file)
        if found is not None:
            with suppress(Unsuitable):
                return found.loaded()
        elif file in shipped and file.exists():
            _say(f"{file} is damaged and is not used: install Weft anew")
    return None


def loaded_from(place: str | None, make: Callable[[], Library]) -> Addresses:
    """Load the library of a place. If it is yet to be made, or does not load here, make it, and
    keep it if it has a place.

    Raises Unsuitable if what is made does not load either.
    """
    if place is None:
        return _made(make).loaded()
    if (loaded := kept_at(place)) is not None:
        return loaded
    others = {
        file.stem.removeprefix(f"{Path(place).name}-") for file in SHIPPED.glob(file_of(place, "*"))
    }
    if others.isdisjoint(level.name for level in levels_met()) and others:
        _say(
            f"the machine code that came with Weft (for {', '.join(sorted(others))}) is for other "
            "processors, or other settings of numba: what is needed of it is compiled, and kept"
        )
    library = _made(make)
    loaded = library.loaded()
    kept = cache_dir() / file_of(place, processor())
    keep(kept, library)
    keep_bounded(kept)
    return loaded


def _made(make: Callable[[], Library]) -> Library:
    """Make a library; who waits for it at a terminal is told, once."""
    if sys.stderr is not None and sys.stderr.isatty():
        _say("compiling machine code, which is kept for later")
    return make()


@cache
def _say(message: str) -> None:
    """Print a message, once."""
    print(f"weft: {message}", file=sys.stderr)


# -- calls from Python


def kind_of(value: object) -> Kind | None:
    """Return of what kind an argument is; None if only numba takes such arguments."""
    if isinstance(value, bool | np.bool_):
        return BOOLEAN
    if isinstance(value, np.int64) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63):
        return INTEGER
    if isinstance(value, np.void) and value.dtype.names:
        return Kind(value.dtype)
    if isinstance(value, np.ndarray):
        kind, flags = value.dtype, value.flags
        if kind.kind in "iuf" and kind.isnative and flags.c_contiguous and flags.aligned:
            return Kind(kind, value.ndim, not flags.writeable)
    return None


def _words(arguments: Sequence[Any]) -> list[int]:
    """Return the words of arguments, each of some kind."""
    words: list[int] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            words += value.ctypes.data, *value.shape
        elif isinstance(value, np.void):
            words.append(np.frombuffer(value, np.uint8).ctypes.data)
        else:
            words.append(int(value))
    return words


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's full name."""
    return f"{function.__module__}.{function.__qualname__}"


def has_own_name(name: str) -> bool:
    """Return whether no other function has this full name, as those made by a function have."""
    return "<" not in name


class Compiled:
    """A function that Python calls: its machine code, for arguments of kinds that have words, and
    else numba's function.

    Args:
        function: its source.
        find: returns the address of its machine code for such arguments, and what it returns; None
            where only numba can run it.
        called: returns what stands for it in compiled code that calls it.
        others: makes numba's function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        find: Callable[["Compiled", Kinds], tuple[int, str] | None],
        called: Callable[[], Any],
        others: Callable[[], Any],
    ) -> None:
        self.name = name_of(function)
        self.module = function.__module__
        self._find = find
        self._called, self._others = called, others
        self._found: dict[tuple[Kind | None, ...], _Loaded | None] = {}

    @cached_property
    def called(self) -> Any:
        """Return what stands for it in compiled code."""
        return self._called()

    @cached_property
    def others(self) -> Any:
        """Return numba's function, for arguments that have no words."""
        return self._others()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        found = None if named else self._found_for(arguments)
        return self.others(*arguments, **named) if found is None else found.bound(arguments)()

    def prepare(self, *arguments: Any) -> None:
        """Load or compile the function for arguments like these, without a call."""
        if self._found_for(arguments) is None:
            kind_of_numbas: Any = import_module("numba").typeof
            self.others.compile(tuple(kind_of_numbas(each) for each in arguments))

    def bound(self, *arguments: Any) -> Callable[[], Any]:
        """Return a call with these very arguments, of which words are made only once."""
        found = self._found_for(arguments)
        return partial(self.others, *arguments) if found is None else found.bound(arguments)

    def _found_for(self, arguments: Sequence[Any]) -> "_Loaded | None":
        kinds = tuple(map(kind_of, arguments))
        if kinds not in self._found:
            known = tuple(kind for kind in kinds if kind is not None)
            found = None if len(known) < len(kinds) else self._find(self, known)
            self._found[kinds] = None if found is None else _Loaded(self.name, *found, known)
        return self._found[kinds]


def prepare(function: Any, *arguments: Any) -> None:
    """Load or compile a function for arguments like these, without a call."""
    if isinstance(function, Compiled):
        function.prepare(*arguments)


def bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Return a call of a compiled function with these very arguments, which costs less than one
    that looks at its arguments each time. Arrays must stay where they are."""
    if isinstance(function, Compiled):
        return function.bound(*arguments)
    return partial(function, *arguments)


class _Loaded:
    """Machine code that is called with arguments of the kinds that it was made for."""

    def __init__(self, name: str, address: int, result: str, kinds: Kinds) -> None:
        self._name = name
        self._result = result
        words = sum(1 + kind.rank for kind in kinds) + 1
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * words)(address)

    def bound(self, arguments: Sequence[Any]) -> Callable[[], Any]:
        """Return a call with these arguments, which are of the kinds."""
        failed = ctypes.c_int64()
        words = *_words(arguments), ctypes.addressof(failed)
        given = list(map(ctypes.c_int64, words))

        def call(keep: object = arguments) -> Any:
            result = self._function(*given)
            if failed.value:
                failed.value = 0
                raise ArithmeticError(
                    f"{self._name}: compiled code raised an error, such as a division by zero"
                )
            if self._result == "bool":
                return result != 0
            return None if self._result == "none" else result

        return call
