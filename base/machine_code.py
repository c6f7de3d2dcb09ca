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
from typing import Any

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

Kinds = tuple[str, ...]
"""Of what kinds the arguments of a function are (`kind_of`)."""


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
        return make().loaded()
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
    library = make()
    loaded = library.loaded()
    kept = cache_dir() / file_of(place, processor())
    keep(kept, library)
    keep_bounded(kept)
    return loaded


@cache
def _say(message: str) -> None:
    """Print a message, once."""
    print(f"weft: {message}", file=sys.stderr)


# -- calls from Python


def kind_of(value: object) -> str | None:
    """Return of what kind an argument is; None if only numba takes such arguments."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, np.int64) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63):
        return "int64"
    if isinstance(value, np.void) and value.dtype.names:
        return kind_of_record(value.dtype)
    if isinstance(value, np.ndarray):
        kind, flags = value.dtype, value.flags
        if kind.kind in "iuf" and kind.isnative and flags.c_contiguous and flags.aligned:
            return f"{kind.name}[{value.ndim}]{'' if flags.writeable else ' readonly'}"
    return None


def rank_of(kind: str) -> int:
    """Return how many dimensions arguments of a kind have; 0 if they are no arrays."""
    return 0 if kind.startswith("record") or "[" not in kind else int(kind.split("[")[1][0])


@cache
def kind_of_record(record: np.dtype[Any]) -> str:
    """Return of what kind a record of such fields is."""
    return f"record of {record.itemsize}: {_fields(record)}"


def _fields(record: np.dtype[Any]) -> str:
    found = []
    for name in record.names or ():
        assert record.fields is not None
        kind, place = record.fields[name][:2]
        base, shape = kind.subdtype or (kind, ())
        within = f"({_fields(base)})" if base.names else base.str
        found.append(f"{name} {place} {within}{[*shape] if shape else ''}")
    return " ".join(found)


def _taker(kind: str) -> Callable[[Any], Sequence[int] | None]:
    """Return what makes words of an argument of a kind, and None of any other."""
    if kind == "int64":

        def take_integer(value: Any) -> Sequence[int] | None:
            if value.__class__ is int and -(1 << 63) <= value < 1 << 63:
                return (value,)
            return (int(value),) if kind_of(value) == kind else None

        return take_integer
    if kind == "bool" or kind.startswith("record"):
        number = kind == "bool"

        def take_other(value: Any) -> Sequence[int] | None:
            if kind_of(value) != kind:
                return None
            return (int(value),) if number else (np.frombuffer(value, np.uint8).ctypes.data,)

        return take_other
    dtype, rank = np.dtype(kind.split("[")[0]), rank_of(kind)
    writeable = not kind.endswith("readonly")

    def take_array(value: Any) -> Sequence[int] | None:
        if isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == rank:
            flags = value.flags
            if flags.c_contiguous and flags.aligned and flags.writeable == writeable:
                return (value.ctypes.data, *value.shape)
        return None

    return take_array


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
        find: Callable[["Compiled", Kinds, Sequence[Any]], tuple[int, str] | None],
        called: Callable[[], Any],
        others: Callable[[], Any],
    ) -> None:
        self.name = name_of(function)
        self.module = function.__module__
        self._find = find
        self._called, self._others = called, others
        self._found: dict[tuple[str | None, ...], _Loaded | None] = {}
        self._in_use: list[_Loaded] = []

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
        if not named:
            for each in self._in_use:
                words = each.words(arguments)
                if words is not None:
                    return each.run(words)
            found = self._found_for(arguments)
            if found is not None:
                return found.bound(arguments)()
        return self.others(*arguments, **named)

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
            found = None if len(known) < len(kinds) else self._find(self, known, arguments)
            loaded = None if found is None else _Loaded(self.name, *found, known)
            self._found[kinds] = loaded
            self._in_use += [] if loaded is None else [loaded]
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

    def __init__(self, name: str, address: int, result: str, kinds: Sequence[str]) -> None:
        self._name = name
        self._result = result
        self._takers = tuple(map(_taker, kinds))
        words = len(kinds) + sum(map(rank_of, kinds)) + 1
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * words)(address)

    def words(self, arguments: Sequence[Any]) -> list[int] | None:
        """Return the words of arguments; None if they are of other kinds."""
        if len(arguments) != len(self._takers):
            return None
        words: list[int] = []
        for take, each in zip(self._takers, arguments, strict=True):
            taken = take(each)
            if taken is None:
                return None
            words += taken
        return words

    def run(self, words: Sequence[int]) -> Any:
        """Call the code."""
        failed = ctypes.c_int64()
        result = self._function(*words, ctypes.addressof(failed))
        return self._taken(result, failed)

    def bound(self, arguments: Sequence[Any]) -> Callable[[], Any]:
        """Return a call with these arguments, which are of the kinds."""
        words = self.words(arguments)
        assert words is not None
        failed = ctypes.c_int64()
        given = [ctypes.c_int64(word) for word in (*words, ctypes.addressof(failed))]
        function, taken = self._function, self._taken

        def call(keep: object = arguments) -> Any:
            return taken(function(*given), failed)

        return call

    def _taken(self, result: int, failed: ctypes.c_int64) -> Any:
        if failed.value:
            failed.value = 0
            raise ArithmeticError(
                f"{self._name}: compiled code raised an error, such as a division by zero"
            )
        if self._result == "bool":
            return result != 0
        return None if self._result == "none" else result
