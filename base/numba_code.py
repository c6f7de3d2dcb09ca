"""What is kept of the code that numba makes, for processes without numba
(`weft.base.machine_code`).

numba has no public names for the object code in its cache and for how its functions are called.
Where these have changed nothing is kept, and every process needs numba.
"""

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.base.machine_code import (
    KeptCode,
    found_at,
    has_own_name,
    keep,
    kind_of_record,
    llvm,
    place_of,
    rank_of,
    target_machine,
)

types: Any = import_module("numba.core.types")
arrays: Any = import_module("numba.np.arrayobj")
as_dtype: Any = import_module("numba.np.numpy_support").as_dtype
ir: Any = import_module("llvmlite.ir")
WORD = ir.IntType(64)


def watched(dispatcher: Any, name: str, folder: Callable[[], Path]) -> Any:
    """Let all that one of numba's functions compiles, or loads from numba's cache, be kept.

    Args:
        name: the function's full name.
        folder: returns where machine code of its sources is.
    """
    if hasattr(dispatcher, "_cache") and has_own_name(name):  # plain Python has no cache
        dispatcher._cache = _Watched(dispatcher._cache, name, folder)
    return dispatcher


class _Watched:
    """numba's cache of a function, and what is kept of all that goes through it."""

    def __init__(self, cache: Any, name: str, folder: Callable[[], Path]) -> None:
        self._cache = cache
        self._name = name
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load what numba has kept."""
        found = self._cache.load_overload(signature, context)
        if found is not None:
            self._keep(signature, found)
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Let numba keep what it has compiled."""
        self._cache.save_overload(signature, compiled)
        self._keep(signature, compiled)

    def _keep(self, key: Any, compiled: Any) -> None:
        with suppress(Exception):
            kinds = [_kind_of_type(each) for each in compiled.signature.args]
            place = place_of(self._folder(), self._name, kinds)
            if found_at(place) is not None:
                return
            symbol = f"weft_{place.stem.replace('-', '_')}"
            context = compiled.target_context
            objects = (
                _entry(context, compiled.fndesc, symbol, kinds),
                _object_of(self._cache, key, context.codegen()),
            )
            result = _kind_of_type(compiled.signature.return_type)
            kept = KeptCode(symbol, result, objects, undefined_in(objects))
            # Another process may have put another form of it into numba's cache meanwhile, under
            # another name; and there is code that only numba can run.
            if not kept.missing():
                keep(place, kept)


def keep_callback(place: Path, callback: Any) -> None:
    """Keep the code of a function that numba has made for C (`numba.cfunc`)."""
    with suppress(Exception):
        codegen = callback._targetdescr.target_context.codegen()
        objects = (_object_of(callback._cache, callback._sig, codegen),)
        kept = KeptCode(callback._wrapper_name, "int64", objects, undefined_in(objects))
        if not kept.missing():
            keep(place, kept)


def _object_of(cache: Any, key: Any, codegen: Any) -> bytes:
    """Return an object file in numba's cache. Raises ValueError if it is none."""
    _, form, data = cache._cache_file.load(cache._index_key(key, codegen))[0]
    if form != "object":
        raise ValueError(f"numba has kept {form}")
    code: bytes = data[0]
    return code


def _kind_of_type(kind: Any) -> str:
    """Return the kind of arguments of one of numba's types (`machine_code.kind_of`). Raises
    ValueError if it has none."""
    # Code for one value of an argument (a literal) has a type of its own, which is of its class.
    if kind == types.none:
        return "none"
    if kind == types.boolean:
        return "bool"
    if kind == types.int64:
        return "int64"
    if type(kind) is types.Record:
        return kind_of_record(as_dtype(kind))
    is_array = type(kind) is types.Array and kind.layout == "C" and kind.aligned
    if is_array and type(kind.dtype) in (types.Integer, types.Float):
        return f"{kind.dtype.name}[{kind.ndim}]{'' if kind.mutable else ' readonly'}"
    raise ValueError(f"{kind} is kept by numba alone")


def _entry(context: Any, described: Any, symbol: str, kinds: Sequence[str]) -> bytes:
    """Return the object file of a function that calls numba's, and that C could call.

    An argument is a word; that of an array is followed by its shape. The last word is the address
    of one that is set to 1 if numba's function fails.
    """
    module = ir.Module(symbol)
    module.triple = llvm.get_process_triple()
    module.data_layout = str(target_machine().target_data)
    convention = context.call_conv
    callee = ir.Function(
        module,
        convention.get_function_type(described.restype, described.argtypes),
        described.llvm_func_name,
    )
    dimensions = list(map(rank_of, kinds))
    count = len(kinds) + sum(dimensions) + 1
    entry = ir.Function(module, ir.FunctionType(WORD, [WORD] * count), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    words = list(entry.args)
    values = []
    for kind, type_, rank in zip(kinds, described.argtypes, dimensions, strict=True):
        first = words.pop(0)
        if rank:
            array = arrays.make_array(type_)(context, builder)
            size = ir.Constant(WORD, context.get_abi_sizeof(context.get_data_type(type_.dtype)))
            shape = [words.pop(0) for _ in range(rank)]
            strides = [size]
            for extent in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], extent))
            data = builder.inttoptr(first, array.data.type)
            arrays.populate_array(array, data, shape, strides, size, None)
            values.append(array._getvalue())
        elif kind.startswith("record"):
            values.append(builder.inttoptr(first, context.get_value_type(type_)))
        elif kind == "bool":
            values.append(builder.trunc(first, ir.IntType(1)))
        else:
            values.append(first)
    status, result = convention.call_function(
        builder, callee, described.restype, described.argtypes, values
    )
    with builder.if_then(status.is_error, likely=False):
        builder.store(ir.Constant(WORD, 1), builder.inttoptr(words[0], WORD.as_pointer()))
        builder.ret(ir.Constant(WORD, 0))
    match _kind_of_type(described.restype):
        case "none":
            builder.ret(ir.Constant(WORD, 0))
        case "bool":
            builder.ret(builder.zext(result, WORD))
        case _:
            builder.ret(result)
    code: bytes = target_machine().emit_object(llvm.parse_assembly(str(module)))
    return code


def undefined_in(objects: Sequence[bytes]) -> frozenset[str]:
    """Return the names that object files (ELF, 64 bits, of this machine) use and do not have."""
    defined: set[str] = set()
    used: set[str] = set()
    for each in objects:
        (sections_at,) = struct.unpack_from("=Q", each, 0x28)
        size, count = struct.unpack_from("=HH", each, 0x3A)
        sections = [
            struct.unpack_from("=IIQQQQIIQQ", each, sections_at + index * size)
            for index in range(count)
        ]
        for section in sections:
            if section[1] != 2:  # SHT_SYMTAB
                continue
            strings = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, _, _, where = struct.unpack_from("=IBBH", each, at)
                text = each[strings + name : each.index(b"\0", strings + name)].decode()
                (defined if where else used).add(text)
    return frozenset(used - defined - {""})
