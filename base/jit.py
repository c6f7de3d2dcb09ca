"""The one layer above numba: how compiled code is made and kept, and how it reaches memory.

- `Jit` has the options of some modules' compiled functions, and the folder of their machine code.
- `record` makes a class of names and types into a view of memory by its address: in compiled code,
  in Python, and for numpy.
- Below them are the few primitives on addresses, which numba itself does not have.

Kernels are plain Python as well: with ``NUMBA_DISABLE_JIT=1`` the same source runs uncompiled. Then
the numbers in records are numpy's int64, whose arithmetic wraps as that of compiled code does.
"""

import ctypes
import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt

from weft.base.deferred import (
    PLAIN,
    at_waking,
    deferred,
    external,
    intrinsic,
    ir,
    numba,
    types,
)
from weft.base.entry_points import digest_of
from weft.base.machine_code import (
    BOOLEAN,
    INTEGER,
    Addresses,
    Compiled,
    Kind,
    Kinds,
    Library,
    Unsuitable,
    has_own_name,
    loaded_from,
)
from weft.base.machine_code import READ_ONLY as READ_ONLY

_extending = deferred(lambda: import_module("numba.core.extending"))
_carray = deferred(lambda: import_module("numba").carray)

Word = Any
"""A uint64 inside compiled code; mixed with a signed number it would become a float."""
Words = npt.NDArray[np.int64]
Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Function = TypeVar("Function", bound=Callable[..., Any])

_BELOW = (
    "deferred", "machine_code", "numba_code", "numba_functions", "pages", "processors",
    "system_calls",
)  # fmt: skip
_ROOT = Path(__file__).resolve().parent.parent


class Jit:
    """A `Jit` says how the functions of some modules are compiled, and keeps their machine code.

    The folder of the code is named by a digest of all ``sources`` that it is made of, of this
    layer, and of what other packages bring: by what they say, wherever they are.

    Args:
        folder: the name of a folder, in the cache folder (`weft.base.cache`) and in a wheel.
        sources: the files that the compiled functions and all their callees are in.
        brought: the group of entry points by which other packages bring callees, if any do.
        options: of `numba.njit`, for all functions.
    """

    def __init__(
        self, folder: str, sources: Iterable[Path], *, brought: str = "", **options: Any
    ) -> None:
        here = Path(__file__).resolve()
        layer = (here, *(here.with_name(f"{name}.py") for name in _BELOW))
        self.sources = tuple(sorted({*layer, *sources}))
        digest = hashlib.sha256()
        for path in self.sources:
            digest.update(str(path.relative_to(_ROOT)).encode())
            digest.update(path.read_bytes())
        self._digest = digest
        self.brought = brought
        self._name = folder
        self._options = {"nogil": True, **options}
        self._entries: dict[str, dict[str, tuple[Compiled, Callable[..., Any]]]] = {}
        self._loaded: dict[str, Addresses] = {}

    @cached_property
    def digest(self) -> str:
        """Return the digest. What other packages bring is loaded for it, once it is wanted: it may
        import modules with compiled functions itself."""
        self._digest.update(digest_of(self.brought).encode() if self.brought else b"")
        return self._digest.hexdigest()[:16]

    def place_of(self, name: str, kinds: Kinds = ()) -> str:
        """Return where a library is kept, to which what it is made for is added: that of a function
        for some kinds of arguments, or one with a name of its own."""
        key = hashlib.sha256(repr((name, kinds)).encode()).hexdigest()[:24]
        return f"{self._name}/{self.digest}/{name.rsplit('.', 1)[-1]}-{key}"

    def compiled(self, function: Function) -> Function:
        """Compile a function without the GIL, when it is first called from Python with arguments of
        some kinds, or load what an earlier process compiled."""
        if PLAIN:
            return function
        made = Compiled(
            function,
            self._found,
            lambda: self.part(function),
            lambda: numba.njit(**self._options)(function),
        )
        return cast("Function", made)

    def entry(self, function: Function) -> Function:
        """Do as `compiled` does, for a function that is compiled together with the other entries of
        its module: for the kinds of arguments that its annotations say."""
        made = self.compiled(function)
        if isinstance(made, Compiled):
            self._entries.setdefault(function.__module__, {})[made.name] = made, function
        return made

    def part(self, function: Function, **options: Any) -> Any:
        """Do as `internal` does, at once, for who is deferred and makes functions of others."""
        from weft.base.numba_functions import let_keep

        inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        made = import_module("numba").njit(**self._options, **inner, **options)(function)
        return made if PLAIN else let_keep(made)

    def internal(self, function: Function, **options: Any) -> Function:
        """Compile a function that only compiled code calls, as part of what calls it."""
        made: Function = deferred(lambda: self.part(function, **options))
        return made

    def inline(self, function: Function) -> Function:
        """Do as `internal` does, for a small function that is put into each of its callers."""
        return self.internal(function, forceinline=True)

    def _found(self, function: Compiled, kinds: Kinds) -> tuple[int, str] | None:
        """Load or compile a function for arguments of some kinds: by itself, if it is no entry or
        they are not those of its annotations."""
        key = function.name, kinds
        module = function.module
        if function.name in self._entries.get(module, ()):
            if module not in self._loaded:
                place = self.place_of(module)
                self._loaded[module] = loaded_from(place, lambda: self._together(module))
            if key in self._loaded[module]:
                return self._loaded[module][key]

        def alone() -> Library:
            from weft.base.numba_code import Wanted, compiled_together

            wanted = Wanted(function.name, function.called, kinds)
            return compiled_together(lambda: [wanted])

        own = has_own_name(function.name)
        with suppress(Unsuitable):
            return loaded_from(self.place_of(*key) if own else None, alone).get(key)
        return None

    def for_c(self, name: str, function: Callable[..., int]) -> Library:
        """Compile a function of ints that C calls, and that does not fail. What was said of single
        functions of its module before is not worked out again."""
        from weft.base.numba_code import Wanted, compiled_together

        kinds = (INTEGER,) * function.__code__.co_argcount
        wanted = Wanted(name, self.part(function), kinds, fails=False)
        folder = f"{self._name}/{self.digest}/functions"
        return compiled_together(lambda: [wanted], kept=folder, whose=function.__module__)

    def _together(self, module: str) -> Library:
        """Compile the entries of a module."""
        from weft.base.numba_code import Wanted, compiled_together

        def wanted() -> list[Wanted]:
            return [
                Wanted(made.name, made.called, _annotated_kinds(function))
                for made, function in self._entries[module].values()
            ]

        return compiled_together(wanted)


def _annotated_kinds(function: Callable[..., Any]) -> Kinds:
    """Return of what kinds a function's arguments are, by their annotations."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(_kind_of_annotation(hint) for name, hint in hints.items() if name != "return")


def _kind_of_annotation(hint: Any) -> Kind:
    """Return the kind of arguments that are annotated so: an int, a bool, a record, or an array,
    which has one dimension if it does not say how many."""
    if hint in (int, bool):
        return INTEGER if hint is int else BOOLEAN
    if get_origin(hint) is Annotated:
        array, what = get_args(hint)
        return _kind_of_annotation(array)._replace(readonly=what == READ_ONLY)
    if get_origin(hint) is np.ndarray:
        shape, dtype = get_args(hint)
        rank = sum(extent is int for extent in get_args(shape)) or 1
        return Kind(np.dtype(get_args(dtype)[0]), rank)
    return Kind(hint.dtype)


def _teach_calls() -> None:
    """Let compiled code call what Python calls, too."""
    dispatcher: Any = import_module("numba.core.types").Dispatcher
    _extending.typeof_impl.register(Compiled)(lambda one, context: dispatcher(one.called))


if not PLAIN:
    at_waking(_teach_calls)


def _internal(function: Function) -> Function:
    """Do as `Jit.internal` does, for the functions below, which are part of every room's code."""
    options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    made: Function = deferred(lambda: import_module("numba").njit(**options)(function))
    return made


R = TypeVar("R", bound="Record")


class Record(ctypes.Structure):
    """A record is a view of words in memory by their names; a class derived from it, made by
    `record`, has the names.

    In compiled code ``Row(table, index)`` is row ``index`` (by default 0) of the rows at an
    address; in Python ``Row.at(table, index)`` is the same, with Python's numbers. Nothing keeps
    the memory alive: whoever has an address sees to that, in Python for example by `memory`.
    """

    dtype: ClassVar[np.dtype[np.void]]
    """The row as a numpy type: ``np.zeros(rows, Row.dtype)`` is a table."""
    kernel_form: ClassVar[Any]
    """What a call of the class makes in plain Python: the form of what it makes in compiled
    code."""
    memory: object
    """What must live as long as this view of it; only Python uses it."""

    def __new__(cls, address: int, index: int = 0) -> Any:
        """Return a row of the rows at an address, in the form that kernels have of it."""
        return cls.kernel_form.at(int(address), int(index))

    def __init__(self, address: int, index: int = 0) -> None:
        """Do nothing, as `__new__` has done everything; the fields of a new view are what is in
        memory."""

    @classmethod
    def at(cls: type[R], address: int, index: int = 0) -> R:
        """Return, for Python, a row of the rows at an address."""
        return cls.from_address(address + index * ctypes.sizeof(cls))

    @classmethod
    def zeroed(cls: type[R], **values: int) -> R:
        """Return a record with memory of its own: zeros, but for the values given by name."""
        return cls.from_buffer(bytearray(ctypes.sizeof(cls))).fill(**values)

    def fill(self: R, **values: int) -> R:
        """Set some fields by name, in Python; return the record. Raises AttributeError for a name
        that is no field, which ctypes would take without a word."""
        for name, value in values.items():
            getattr(type(self), name)
            setattr(self, name, value)
        return self

    @classmethod
    def copies(cls: type[R], table: npt.NDArray[np.void]) -> list[R]:
        """Return the rows of a table, for Python, in memory of their own."""
        rows, size = table.tobytes(), ctypes.sizeof(cls)
        return [cls.from_buffer_copy(rows, start) for start in range(0, len(rows), size)]

    @classmethod
    def within(cls: type[R], memory: Words) -> R:
        """Return the record at the beginning of an array, and keep the array's memory."""
        return cls.from_buffer(memory)  # type: ignore[arg-type]

    @property
    def location(self) -> int:
        """Return the address of the record, for compiled code."""
        return ctypes.addressof(self)


def record(cls: type[R]) -> type[R]:
    """Make a class into a view of memory, by its annotated attributes in their order.

    An ``int`` is an int64. ``Annotated[Words, n]`` are n of them, an array. A record, or a
    dataclass of ints, is a part of this one, with names of its own.
    """
    _lay_out(cls, cls)
    if PLAIN:
        cls.kernel_form = _plain_form(cls)
    else:
        cls.kernel_form = cls
        at_waking(lambda: _teach_numba(cls))
    return cls


def _lay_out(cls: Any, described: Any) -> None:
    """Give a structure the fields that a class describes, and its dtype."""
    hints = get_type_hints(described, include_extras=True)
    fields: list[tuple[str, Any]] = []
    formats: list[tuple[str, Any]] = []
    for name in described.__annotations__:
        hint, stored = hints[name], name
        kind: Any = ctypes.c_int64
        dtype: Any = np.int64
        if get_origin(hint) is Annotated:
            count = get_args(hint)[1]
            stored, kind, dtype = f"_{name}", ctypes.c_int64 * count, (np.int64, (count,))
            setattr(cls, name, _words_property(stored))
        elif hint is not int:
            kind = _part(hint)
            dtype = kind.dtype
        fields.append((stored, kind))
        formats.append((name, dtype))
    cls._fields_ = fields
    cls.dtype = np.dtype(formats, align=True)


def _part(hint: Any) -> Any:
    """Return the structure of a part: a record, or what is made of a dataclass of ints."""
    if issubclass(hint, Record):
        return hint
    part: Any = type(hint.__name__, (ctypes.Structure,), {})
    _lay_out(part, hint)
    return part


def _words_property(stored: str) -> property:
    return property(lambda self: np.frombuffer(getattr(self, stored), np.int64))


def _plain_form(cls: Any) -> Any:
    """Return a structure's form for kernels that run as Python: its numbers are numpy's, and wrap
    when they are stored."""

    def number(field: Any) -> property:
        return property(
            lambda self: np.int64(field.__get__(self)),
            lambda self, value: field.__set__(self, int(value)),
        )

    def part(form: Any, offset: int) -> property:
        return property(lambda self: form.from_address(ctypes.addressof(self) + offset))

    views = {}
    for name, kind in cls._fields_:
        field = getattr(cls, name)
        if kind is ctypes.c_int64:
            views[name] = number(field)
        elif issubclass(kind, ctypes.Structure):
            views[name] = part(_plain_form(kind), field.offset)
    return type(cls.__name__, (cls,), views)


def _teach_numba(cls: type[Record]) -> None:
    """Let compiled code make views of a record, as numba's own record type."""
    view = numba.from_dtype(cls.dtype)
    size = cls.dtype.itemsize

    def typer(context: Any) -> Any:
        def view_at(address: Any, index: Any = None) -> Any:
            return view

        return view_at

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = [
            context.cast(builder, value, kind, types.int64)
            for value, kind in zip(arguments, signature.args, strict=True)
        ]
        address = words[0]
        if len(words) > 1:
            rows = builder.mul(words[1], ir.Constant(ir.IntType(64), size))
            address = builder.add(address, rows)
        return builder.inttoptr(address, context.get_value_type(view))

    _extending.type_callable(cls)(typer)
    _extending.lower_builtin(cls, types.Integer)(lower)
    _extending.lower_builtin(cls, types.Integer, types.Integer)(lower)


def words_in(described: type[Record]) -> int:
    """Return how many words a record takes."""
    return ctypes.sizeof(described) // 8


def word_of(described: type[Record], name: str) -> int:
    """Return which word of a record a field is, or begins at."""
    return int(getattr(described, name).offset) // 8


def words_of(part: object) -> Words:
    """Return all words of a record, or of a part of one, in Python, without a copy."""
    return np.frombuffer(part, np.int64)  # type: ignore[call-overload, no-any-return]


memcpy = external("memcpy", "intp", "intp", "intp", "intp")
"""memcpy(to, from, size) of libc, on addresses as integers."""
memcmp = external("memcmp", "int32", "intp", "intp", "intp")
"""memcmp(first, second, size) of libc, on addresses as integers."""


def _loader(width: int, result: str) -> Any:
    def load(context: Any, address: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            return builder.load(pointer, align=1)

        return getattr(types, result)(types.int64), code

    return intrinsic(load)


def _storer(width: int, argument: str) -> Any:
    def store(context: Any, address: Any, value: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            builder.store(arguments[1], pointer, align=1)
            return ir.Constant(ir.IntType(64), 0)

        return types.int64(types.int64, getattr(types, argument)), code

    return intrinsic(store)


# At any address, aligned or not, in the machine's own order of bytes.
load8 = _loader(8, "uint8")
load16 = _loader(16, "uint16")
load32 = _loader(32, "uint32")
load64 = _loader(64, "uint64")
load64_signed = _loader(64, "int64")
store8 = _storer(8, "uint8")
store16 = _storer(16, "uint16")
store32 = _storer(32, "uint32")
store64 = _storer(64, "uint64")


def _fence(ordering: str) -> Any:
    def fence(context: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.fence(ordering)
            return ir.Constant(ir.IntType(64), 0)

        return types.int64(), code

    return intrinsic(fence)


release_fence = _fence("release")
"""release_fence(): whoever sees what is stored after it sees all that was stored before it."""
full_fence = _fence("seq_cst")
"""full_fence(): nothing after it is read before what was stored before it can be seen."""


def _view(context: Any, address: Any) -> Any:
    def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), code


_pointer = intrinsic(_view)


@_internal
def words_at(address: int, count: int) -> Words:
    """Return the int64[count] array at an address."""
    return _carray(_pointer(address), count, np.int64)  # type: ignore[no-any-return]


@_internal
def items_at(address: int, count: int, dtype: Any) -> Any:
    """Return the array of so many items of a numpy type at an address."""
    return _carray(_pointer(address), count, dtype)
