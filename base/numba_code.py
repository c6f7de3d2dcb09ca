"""How numba's functions become one library (`weft.base.machine_code`).

numba would optimise every function with all that it calls, and make machine code of each. Here it
only says what each does (LLVM's intermediate representation); LLVM then optimises all of them
together, once, and makes machine code of what remains.

numba has no public names for what is replaced here: where its code comes from, and goes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from weft.base.deferred import wake
from weft.base.files import some_folder
from weft.base.machine_code import (
    BOOLEAN,
    Kind,
    Kinds,
    Library,
    Unsuitable,
    target_machine,
)
from weft.base.numba_functions import functions_kept
from weft.base.processors import llvm as load_llvm

wake()
numba: Any = import_module("numba")
types: Any = import_module("numba.core.types")
arrays: Any = import_module("numba.np.arrayobj")
codegen: Any = import_module("numba.core.codegen")
normalize: Any = import_module("numba.core.cgutils").normalize_ir_text
runtime: Any = import_module("numba.core.runtime").rtsys
target: Any = import_module("numba.core.registry").cpu_target
compiler_lock: Any = import_module("numba.core.compiler_lock").global_compiler_lock
ir: Any = import_module("llvmlite.ir")
llvm: Any = load_llvm()
WORD = ir.IntType(64)


class _Part(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What numba says of a function, of which no machine code is made by itself."""

    _whole: Any = None

    def add_linking_library(self, library: Any) -> None:
        """Note what the function calls."""
        library._ensure_finalized()
        self._linking_libraries.append(library)

    def add_ir_module(self, ir_module: Any) -> None:
        """Take the function in, as it is."""
        self._final_module.link_in(llvm.parse_assembly(normalize(str(ir_module))))

    def finalize(self) -> None:
        """End it: nothing is left to be done."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address."""
        self._ensure_finalized()
        return 0

    def _get_module_for_linking(self) -> Any:
        """Return it with all that it calls, for what numba makes machine code of."""
        if self._whole is None:
            self._whole = _together([self])
            for each in self._whole.functions:
                if not each.is_declaration and each.linkage == llvm.Linkage.external:
                    each.linkage = "linkonce_odr"
        return self._whole


class _Parts(codegen.JITCPUCodegen):  # type: ignore[misc]
    """Where numba takes parts from."""

    _library_class = _Part

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: what needs Python's objects is not called."""


@contextmanager
def _parts() -> Iterator[Any]:
    """Let numba make parts, while nothing else is compiled."""
    context = target.target_context
    with compiler_lock:
        runtime.initialize(context)
        before = context._internal_codegen
        context._internal_codegen = made = _Parts("weft")
        try:
            yield made
        finally:
            context._internal_codegen = before


def _together(libraries: Sequence[Any]) -> Any:
    """Return one module of all parts and what they call."""
    module = llvm.parse_assembly("")
    module.triple = llvm.get_process_triple()
    module.data_layout = str(target_machine().target_data)
    waiting, seen = list(libraries), dict[Any, None]()
    while waiting:
        library = waiting.pop()
        if library not in seen:
            seen[library] = None
            if isinstance(library, _Part):
                module.link_in(library._final_module, preserve=True)
                waiting += library._linking_libraries
    for library in seen:  # of these LLVM takes what is asked for by then, and no more
        if not isinstance(library, _Part):
            module.link_in(library._get_module_for_linking(), preserve=True)
    return module


@dataclass(frozen=True)
class Wanted:
    """A function that is to be called from outside, for some types of arguments."""

    name: str
    function: Any
    """numba's function."""
    kinds: Kinds
    """The kinds of its arguments."""
    fails: bool = True
    """Whether its caller learns that it has failed, by one more argument."""


def compiled_together(
    wanted: Callable[[], Sequence[Wanted]], *, kept: str = "", whose: str = ""
) -> Library:
    """Compile functions, and all that they call, as one library. What numba says of the functions
    of the module ``whose``, and of what they call, is ``kept`` in such a folder of the cache.

    Raises Unsuitable for what only numba can call, and what numba raises.
    """
    functions: dict[tuple[str, Kinds], tuple[str, str]] = {}
    with ExitStack() as stack:
        stack.enter_context(some_folder())  # numba asks which, where it guesses
        parts = stack.enter_context(_parts())
        libraries, entries = [], []
        if kept:
            stack.enter_context(functions_kept(kept, whose, parts))
        for number, each in enumerate(wanted()):
            signature = tuple(map(_type_of, each.kinds))
            each.function.compile(signature)
            made = each.function.overloads[signature]
            symbol = f"weft_{number}"
            entries.append(_entry(made.target_context, made.fndesc, symbol, each.kinds, each.fails))
            libraries.append(made.library)
            functions[each.name, each.kinds] = symbol, _result_of(made.signature.return_type)
        module = _together(libraries)
        for entry in entries:
            module.link_in(entry)
        symbols = {symbol for symbol, _ in functions.values()}
        _hide(module, symbols)
        manager, builder = parts._module_pass_manager()
        manager.run(module, builder)
        for global_ in module.global_variables:  # such as an address in this process
            if global_.name.startswith(("numba.dynamic.globals", ".numba.unresolved$")):
                raise Unsuitable(f"machine code with {global_.name} is of this process alone")
        return Library(parts._tm.emit_object(module), functions)


def _hide(module: Any, symbols: set[str]) -> None:
    """Let nothing of a module be seen but some functions."""
    for each in module.global_variables:
        if not each.is_declaration and each.linkage != llvm.Linkage.appending:
            each.linkage = "internal"
    for each in module.functions:
        if not each.is_declaration and each.name not in symbols:
            each.linkage = "internal"


def _type_of(kind: Kind) -> Any:
    """Return numba's type of arguments of a kind."""
    item = numba.from_dtype(kind.dtype)
    return types.Array(item, kind.rank, "C", readonly=kind.readonly) if kind.rank else item


def _result_of(kind: Any) -> str:
    """Return what a function returns. Raises Unsuitable for what has no word."""
    kind = types.unliteral(kind)  # what returns a constant has a type of its own
    if kind not in (types.none, types.int64, types.boolean):
        raise Unsuitable(f"{kind} is taken by numba alone")
    return str(kind)


def _entry(context: Any, described: Any, symbol: str, kinds: Kinds, fails: bool) -> Any:
    """Return the module of a function that calls numba's, and that C could call.

    An argument is a word; that of an array is followed by its shape. The last word, if it `fails`,
    is the address of one that is set to 1 if numba's function fails.
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
    count = sum(1 + kind.rank for kind in kinds) + fails
    entry = ir.Function(module, ir.FunctionType(WORD, [WORD] * count), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    words = list(entry.args)
    values = []
    for kind, type_ in zip(kinds, described.argtypes, strict=True):
        first = words.pop(0)
        if kind.rank:
            array = arrays.make_array(type_)(context, builder)
            size = ir.Constant(WORD, context.get_abi_sizeof(context.get_data_type(type_.dtype)))
            shape = [words.pop(0) for _ in range(kind.rank)]
            strides = [size]
            for extent in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], extent))
            data = builder.inttoptr(first, array.data.type)
            arrays.populate_array(array, data, shape, strides, size, None)
            values.append(array._getvalue())
        elif kind.dtype.names:
            values.append(builder.inttoptr(first, context.get_value_type(type_)))
        elif kind == BOOLEAN:
            values.append(builder.trunc(first, ir.IntType(1)))
        else:
            values.append(first)
    status, result = convention.call_function(
        builder, callee, described.restype, described.argtypes, values
    )
    with builder.if_then(status.is_error, likely=False):
        if fails:
            address = builder.inttoptr(words[0], WORD.as_pointer())
            builder.store(ir.Constant(WORD, 1), address)
        builder.ret(ir.Constant(WORD, 0))
    match _result_of(described.restype):
        case "none":
            builder.ret(ir.Constant(WORD, 0))
        case "bool":
            builder.ret(builder.zext(result, WORD))
        case _:
            builder.ret(result)
    return llvm.parse_assembly(normalize(str(module)))
