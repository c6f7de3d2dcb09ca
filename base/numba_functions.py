"""What numba says of single functions, kept on disk so that it is not asked twice.

Most of the time that a program takes to compile goes to numba, which works out types and what each
function does (LLVM's intermediate representation); LLVM then optimises all functions together in a
fraction of it (`weft.base.numba_code`). Where one function of a program is changed, numba is asked
about that one alone.

A function is known by its code, by the values of its globals, and by the names of the functions
among them; what it calls must have the types that it had. numba's dispatchers ask here as they
would ask numba's own cache.

numba has no public names for what is used and replaced here.
"""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from weft.base.cache import cache_dir, mark_used
from weft.base.deferred import Deferred
from weft.base.machine_code import found_at, keep
from weft.base.processors import llvm, processor

bytecode: Any = import_module("numba.core.bytecode")
environment: Any = import_module("numba.core.environment").Environment
result_of: Any = import_module("numba.core.compiler").compile_result
numba: Any = import_module("numba")


@dataclass(frozen=True)
class _Call:
    """A function that is called: which, for what types of arguments, and what it is then."""

    module: str
    name: str
    arguments: tuple[Any, ...]
    result: Any
    symbol: str


_made = WeakKeyDictionary[Any, _Call]()
"""By the library of a function that is known by its name: how it is called."""
_known: set[Any] = set()
"""The functions that are known by their names."""


@dataclass
class _Program:
    """A program that is being compiled."""

    folder: Path
    """Where what is known of its functions is kept, and of the functions that they call."""
    module: str
    """Its module, whose functions are known by what they say. Those of others are known by their
    names: another folder is used where they are other ones."""
    parts: Any
    """Where numba takes libraries from."""


_program: _Program | None = None


@contextmanager
def functions_kept(folder: str, module: str, parts: Any) -> Iterator[None]:
    """Let numba use what is kept in a folder of the cache, and keep there what it makes, while it
    compiles the functions of a module into such ``parts``."""
    global _program
    from_function = bytecode.FunctionIdentity.from_function.__func__

    def named(cls: Any, function: Any) -> Any:
        made = from_function(cls, function)
        if function in _known:  # other processes refer to it, too: it is numbered by its name
            name = f"{function.__module__}.{function.__qualname__}"
            made.unique_id = int(hashlib.sha256(name.encode()).hexdigest()[:15], 16)
            made.unique_name = f"{made.func_qualname}${made.unique_id}"
        return made

    _program = _Program(cache_dir() / folder / processor(), module, parts)
    bytecode.FunctionIdentity.from_function = classmethod(named)
    try:
        yield
    finally:
        _program = None
        bytecode.FunctionIdentity.from_function = classmethod(from_function)


def let_keep(dispatcher: Any) -> Any:
    """Let one of numba's dispatchers look here, and keep here what it compiles; return it. The
    functions that functions make have no names that tell them apart: theirs do not."""
    function = dispatcher.py_func
    if "<" not in function.__qualname__:
        _known.add(function)
        dispatcher._cache = _Kept(function)
    return dispatcher


class _Kept:
    """What is kept of a function, as numba's dispatchers ask for it."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return what was compiled for a signature; None if there is nothing of use."""
        if _program is None:
            return None
        place = self._place(_program, signature)
        if (kept := found_at(place)) is None:
            return None
        with suppress(Exception):  # what it calls is another by now: it is made again
            described, signature, code, calls = kept
            library = _program.parts.create_library(described.qualname)
            library._final_module = llvm().parse_bitcode(code)
            library._linking_libraries = [self._library(call) for call in calls]
            library._finalized = True
            self._note(library, described, signature)
            mark_used(place)
            return _result(context, library, described, signature)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for a signature."""
        if _program is None:
            return
        described, library = result.fndesc, result.library
        calls = _close(library)
        self._note(library, described, result.signature)
        described.typemap = described.calltypes = None
        with suppress(Exception):  # what cannot be kept is made again
            code = library._final_module.as_bitcode()
            kept = described, result.signature, code, calls
            keep(self._place(_program, signature), kept)

    def _place(self, program: _Program, signature: Any) -> Path:
        own = self._function.__module__ == program.module
        says = _said(self._function) if own else self._function.__module__
        key = hashlib.sha256(repr((self._function.__qualname__, says, signature)).encode())
        return program.folder / key.hexdigest()[:24]

    def _note(self, library: Any, described: Any, signature: Any) -> None:
        _made[library] = _Call(
            self._function.__module__,
            self._function.__qualname__,
            tuple(signature.args),
            signature.return_type,
            described.mangled_name,
        )

    def _library(self, call: _Call) -> Any:
        """Return the library of what is called. Raises LookupError if it is not what it was."""
        if call.module == self._function.__module__:
            found = self._function.__globals__[call.name]
        else:
            found = getattr(sys.modules[call.module], call.name)
        dispatcher = numba.typeof(found).dispatcher
        dispatcher.compile(call.arguments)
        library = dispatcher.overloads[call.arguments].library
        if _made.get(library) != call:
            raise LookupError(call.name)
        return library


def _said(function: Any) -> str:
    """Return what a function does, and what its globals stand for."""
    names = set[str]()

    def said(code: CodeType) -> Any:
        names.update(code.co_names)
        constants = [said(one) if isinstance(one, CodeType) else one for one in code.co_consts]
        if constants and isinstance(constants[0], str):  # what the function says of itself
            constants[0] = None
        return code.co_code, constants, code.co_names, code.co_varnames

    does = said(function.__code__)
    values = function.__globals__
    return repr((does, [(name, _value(values.get(name))) for name in sorted(names)]))


def _value(value: Any) -> Any:
    """Return what a global stands for: of functions and classes, their full names."""
    while isinstance(value, Deferred):
        value = value.made
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if value is None or isinstance(value, int | float | tuple):
        return value
    return getattr(value, "__module__", ""), getattr(value, "__qualname__", "")


def _close(library: Any) -> list[_Call]:
    """Take into the code of a function all that it calls, but for functions that are known by their
    names; return how those are called."""
    inner, outside = dict[Any, None](), dict[Any, None]()
    waiting = list(library._linking_libraries)
    while waiting:
        called = waiting.pop()
        if called in _made:
            outside[called] = None
        elif called not in inner:
            inner[called] = None
            if type(called) is type(library):
                waiting += called._linking_libraries
    module = library._final_module
    own = {each.name for each in module.functions if not each.is_declaration}
    for called in inner:
        is_part = type(called) is type(library)
        code = called._final_module if is_part else called._get_module_for_linking()
        module.link_in(code, preserve=True)
    for each in module.functions if inner else ():
        if not each.is_declaration and each.name not in own:
            each.linkage = "internal"
    library._linking_libraries = list(outside)
    return [_made[each] for each in outside]


def _result(context: Any, library: Any, described: Any, signature: Any) -> Any:
    """Return what numba would have made of a function."""
    env = environment.from_fndesc(described)
    return result_of(
        typing_context=context.typing_context,
        target_context=context,
        entry_point=context.get_executable(library, described, env),
        typing_error=None,
        type_annotation="",
        library=library,
        call_helper=None,
        signature=signature,
        objectmode=False,
        lifted=(),
        fndesc=described,
        environment=env,
        metadata={},
        reload_init=[],
    )
