"""From BMv2 JSON to Python source, and from that to a function that can be called by address:
compiled, or plain."""

import contextlib
import ctypes
import hashlib
import importlib.util
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.base.cache import cache_dir, mark_used
from weft.base.deferred import wake
from weft.base.errors import MachineError
from weft.base.files import write_whole
from weft.base.machine_code import Addresses, Library, kept_at, loaded_from
from weft.switch.engine.codegen.generate import generate
from weft.switch.engine.dataplane.layout import DROP_PORT, RUN_INGRESS
from weft.switch.engine.native.compiled import JIT
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import Program
from weft.switch.engine.program.reader import read_program

CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)

_COMPILED = "weft_program"
"""The name of the module of whichever program is compiled."""
MOST_FAILURES = 16
"""How many failures of a plain program are kept until they are raised."""


@dataclass
class Pipeline:
    """A program that packets can run through.

    ``address`` is that of a C function int64(context, operation, switch, packet, other). Of a
    plain pipeline it is a callback into Python, which takes the GIL; errors are kept in
    ``failures``. A plain one may become a compiled one later, while no packet is under way.
    """

    program: Program
    source_path: Path
    address: int
    compiled: bool
    keep: Any
    failures: list[BaseException] = field(default_factory=list)
    on_failure: Callable[[BaseException], None] = lambda error: None
    """Called with the first of them."""
    not_compiled: str = ""
    """Why it cannot be compiled, and runs in the plain form for good."""
    plain_packets: Counter[int] = field(default_factory=Counter)
    """By switch, how often packets have gone through the plain form's ingress."""

    def run_machine_code(self, address: int) -> None:
        """Be the machine code at an address from now on, in place of the plain form."""
        self.address, self.compiled, self.keep = address, True, None


def write_source(text: str, drop_port: int = DROP_PORT) -> tuple[Program, Path]:
    """Translate BMv2 JSON, or find what came of it when it was translated before.

    The source's path in the cache folder is named by its content. What was found in the program,
    and what is noted of it while its source is made, is kept beside it, named by the JSON.
    """
    kept = _place(f"{drop_port} {text}", "pickle")
    with contextlib.suppress(Exception):  # it is not there, or not whole: it is made again
        program, name = pickle.loads(kept.read_bytes())
        path = kept.with_name(name)
        if path.is_file():
            mark_used(kept, path)
            return program, path
    program = read_program(text)
    path = store(generate(program, drop_port))
    write_whole(kept, pickle.dumps((program, path.name)), folders=True, keep=True)
    return program, path


def _place(content: str, suffix: str) -> Path:
    """Return the place in the cache folder of what is made of a content by this source code."""
    key = hashlib.sha256(f"{JIT.digest}{content}".encode()).hexdigest()[:24]
    return cache_dir() / "programs" / f"program_{key}.{suffix}"


def store(source: str) -> Path:
    """Return the path of a program's source in the cache folder."""
    path = _place(source, "py")
    if not path.is_file():
        write_whole(path, source, folders=True, keep=True)
    return path


def load(program: Program, path: Path, *, plain: bool) -> Pipeline:
    """Return a program's source as what packets can run through. Raises ``ProgramError``."""
    try:
        if plain:
            return _build_plain(program, path)
        return Pipeline(program, path, compile_source(path), True, None)
    except MachineError:
        raise
    except Exception as error:  # numba and LLVM raise of all kinds
        raise ProgramError(f"the program cannot be compiled ({path}): {error}") from error


def load_at_once(program: Program, path: Path) -> Pipeline:
    """Return a program's source as machine code if that has been made before, and else in the plain
    form. Raises ``ProgramError``."""
    address = kept_code(path)
    if address is None:
        return load(program, path, plain=True)
    return Pipeline(program, path, address, True, None)


def kept_code(path: Path) -> int | None:
    """Return where the machine code of a program's source is; None if it is yet to be made."""
    loaded = kept_at(JIT.place_of(path.stem))
    return None if loaded is None else _only_address(loaded)


def compile_source(path: Path) -> int:
    """Return where the machine code of a program's source is, which is made and kept if it has not
    been before."""
    name = path.stem

    def compile_pipeline() -> Library:
        wake()
        # Functions are known by their module's name, too, and those of other programs may be equal.
        return JIT.for_c(name, _import(path, _COMPILED).pipeline)

    return _only_address(loaded_from(JIT.place_of(name), compile_pipeline))


def _only_address(loaded: Addresses) -> int:
    ((address, _),) = loaded.values()
    return address


def _import(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_PLAIN_MODULES = {
    "native.compiled": "native.plain",
    "native.wide": "native.plain_wide",
    "dataplane.hashes": "dataplane.plain_hashes",
    "dataplane.runtime": "dataplane.plain_runtime",
}
"""What a plain program imports in place of compiled code."""


def _execute_plain(source: str, path: Path, name: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    for compiled, plain in _PLAIN_MODULES.items():
        source = source.replace(f"switch.engine.{compiled} import", f"switch.engine.{plain} import")
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def _build_plain(program: Program, path: Path) -> Pipeline:
    for library in ("hashes", "runtime"):
        name = f"weft.switch.engine.dataplane.plain_{library}"
        if name not in sys.modules:
            source = Path(__file__).parent.with_name("dataplane") / f"{library}.py"
            _execute_plain(source.read_text("utf-8"), source, name)
    module = _execute_plain(path.read_text("utf-8"), path, f"plain_{path.stem}")
    run: Callable[..., int] = module.__dict__["pipeline"]
    pipeline = Pipeline(program, path, 0, False, None)

    def call(address: int, operation: int, switch: int, packet: int, other: int) -> int:
        if operation == RUN_INGRESS:
            pipeline.plain_packets[switch] += 1
        try:
            return run(address, operation, switch, packet, other)
        except BaseException as error:
            if not pipeline.failures:
                pipeline.on_failure(error)
            if len(pipeline.failures) < MOST_FAILURES:
                pipeline.failures.append(error)
            return -1

    pipeline.keep = CALLBACK(call)
    pipeline.address = ctypes.cast(pipeline.keep, ctypes.c_void_p).value or 0
    return pipeline
