"""Machine code that numba has made, kept on disk so that later processes run it without numba.

numba keeps code, too, but needs itself to load it. Here a function's object code is kept beside a
small piece of machine code of C's calling convention that calls it: every argument is one word or
more, an array is its address and its shape. LLVM alone loads both, in a few milliseconds.

What cannot be loaded, is of another processor, or is called with other kinds of arguments than
before, goes through numba as always, and is kept then.
"""

import ctypes
import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from weft.base.deferred import PLAIN, Deferred, enlisted
from weft.base.errors import MachineError
from weft.base.files import write_whole

llvm: Any = import_module("llvmlite.binding")  # its stubs do not say all that it has

_NOT_CALLED = frozenset(
    {
        "NRT_adapt_ndarray_from_python", "numba_adapt_ndarray", "numba_extract_record_data",
        "numba_gil_ensure", "numba_gil_release", "numba_release_buffer", "numba_unpickle",
        "numba_do_raise", "numba_runtime_build_excinfo_struct", "numba_fatal_error",
        "NRT_Free", "NRT_MemInfo_call_dtor",
    }
)  # fmt: skip
"""Names that only numba has, in code for Python's objects and errors, and in code that frees what
numba's arrays own. Kept functions are called past the former, and get no such arrays."""


_OF_NO_CONCERN = ("NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR")
"""Settings of numba that change no code."""


@dataclass(frozen=True)
class KeptCode:
    """What is kept of a function."""

    symbol: str
    """The name of the function that is to be called."""
    result: str
    """What it returns: ``none``, ``int64`` or ``bool``."""
    objects: tuple[bytes, ...]
    """Object files."""
    undefined: frozenset[str]
    """The names that the object files do not have, and the process must."""

    def missing(self) -> set[str]:
        """Return the names that it wants and that a process without numba does not have."""
        process = ctypes.CDLL(None)
        return {name for name in self.undefined - _NOT_CALLED if not hasattr(process, name)}

    def loaded(self) -> int:
        """Load the code; return its address.

        Raises LookupError if it wants something that is not in this process.
        """
        if missing := self.missing():
            raise LookupError(f"{self.symbol} needs {', '.join(sorted(missing))}")
        abort = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
        for name in self.undefined & _NOT_CALLED:
            if llvm.address_of_symbol(name) is None:
                llvm.add_symbol(name, abort)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
        for each in self.objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(each))
        engine.finalize_object()
        address = int(engine.get_function_address(self.symbol))
        if not address:
            raise LookupError(f"there is no {self.symbol}")
        _engines.append(engine)
        return address


_engines: list[Any] = []
"""They own the code, which stays until the process ends."""


def target_machine() -> Any:
    """Return what LLVM makes code for: this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(opt=2, jit=True)


@cache
def processor() -> str:
    """Return a digest of what code is made for: the processor, and numba's settings."""
    features = llvm.get_host_cpu_features().flatten()
    settings = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in _OF_NO_CONCERN
    )
    made_for = (llvm.get_process_triple(), llvm.get_host_cpu_name(), features, settings)
    return hashlib.sha256(repr(made_for).encode()).hexdigest()[:12]


def place_of(folder: Path, name: str, kinds: Sequence[str]) -> Path:
    """Return where a function's code for some kinds of arguments is kept."""
    key = hashlib.sha256(repr((name, tuple(kinds), processor())).encode()).hexdigest()[:24]
    return folder / "loaded" / f"{name.rsplit('.', 1)[-1]}-{key}.pickle"


def keep(place: Path, kept: KeptCode) -> None:
    """Keep a function's code, behind a digest of it."""
    text = pickle.dumps(kept)
    write_whole(place, hashlib.sha256(text).digest() + text, folders=True, keep=True)


def found_at(place: Path) -> KeptCode | None:
    """Return what is kept at a place; None if there is nothing, or it is not whole."""
    with suppress(Exception):
        text = place.read_bytes()
        if hashlib.sha256(text[32:]).digest() == text[:32]:
            kept: KeptCode = pickle.loads(text[32:])
            return kept
    return None


def address_of(place: Path) -> tuple[int, str] | None:
    """Load what is kept at a place: the address and the result; None if there is nothing that can
    be loaded."""
    kept = found_at(place)
    with suppress(LookupError):
        return None if kept is None else (kept.loaded(), kept.result)
    return None


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


class Compiled(Deferred):
    """A function that Python calls: its machine code, if that is kept, and else numba's function.

    Args:
        function: its source.
        make: makes numba's function.
        folder: returns where machine code of its sources is.
    """

    def __init__(
        self, function: Callable[..., Any], make: Callable[[], Any], folder: Callable[[], Path]
    ) -> None:
        super().__init__(make)
        self.name = name_of(function)
        self._folder = folder
        self._loaded: dict[tuple[str | None, ...], _Loaded | None] = {}
        self._in_use: list[_Loaded] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        if not (named or self._is_made):
            for each in self._in_use:
                words = each.words(arguments)
                if words is not None:
                    return each.run(words)
            loaded = self._loaded_for(arguments)
            if loaded is not None:
                return loaded.bound(arguments)()
        return self.made(*arguments, **named)

    def prepare(self, *arguments: Any) -> None:
        """Load or compile the function for arguments like these, without a call."""
        if self._is_made or self._loaded_for(arguments) is None:
            prepare(self.made, *arguments)

    def bound(self, *arguments: Any) -> Callable[[], Any]:
        """Return a call with these very arguments, of which words are made only once."""
        loaded = None if self._is_made else self._loaded_for(arguments)
        if loaded is None:
            return partial(self.made, *arguments)
        return loaded.bound(arguments)

    def _loaded_for(self, arguments: Sequence[Any]) -> "_Loaded | None":
        kinds = tuple(map(kind_of, arguments))
        if kinds not in self._loaded:
            loaded = self._loaded[kinds] = self._load(kinds)
            self._in_use += [] if loaded is None else [loaded]
        return self._loaded[kinds]

    def _load(self, kinds: Sequence[str | None]) -> "_Loaded | None":
        known = [kind for kind in kinds if kind is not None]
        if len(known) != len(kinds) or not has_own_name(self.name):
            return None
        found = None
        with suppress(MachineError):  # there can be no folder: numba's function says so
            found = address_of(place_of(self._folder(), self.name, known))
        return None if found is None else _Loaded(self.name, *found, known)


def compiled(
    function: Callable[..., Any], make: Callable[[], Any], folder: Callable[[], Path]
) -> Any:
    """Return a `Compiled` function, or numba's if numba is at work already."""
    return enlisted(Compiled(function, make, folder))


def prepare(function: Any, *arguments: Any) -> None:
    """Load or compile a function for arguments like these, without a call."""
    if isinstance(function, Compiled):
        function.prepare(*arguments)
    elif hasattr(function, "compile"):
        kind_of_numbas: Any = import_module("numba").typeof
        function.compile(tuple(kind_of_numbas(each) for each in arguments))
    elif not PLAIN:
        function(*arguments)  # one that says why nothing can be compiled


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
