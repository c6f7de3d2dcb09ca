"""numba, only where something is to be compiled.

Importing numba and making its functions takes most of a second, in every process. Machine code that
an earlier process made runs without it (`weft.base.machine_code`), so what modules name of numba's
is `deferred`: it is made when the first of it is asked for, all of it together, and takes its place
in all modules that have imported it.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from weft.base.limits import check_address_space

PLAIN = False
"""Whether kernels run as plain Python."""
with suppress(ValueError):  # numba takes what is no number for 0, too
    PLAIN = bool(int(os.environ.get("NUMBA_DISABLE_JIT", "0")))

COMPILING_BYTES = 1536 << 20
"""The address space of a process that compiles. LLVM aborts the process where it gets no more."""
_lock = threading.RLock()
_waiting: list["Deferred"] = []
_at_waking: list[Callable[[], object]] = []
_awake = _waking = False


class Deferred:
    """A stand-in for something of numba's until that is made; it is made by being called, or asked
    for an attribute."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None
        self._is_made = False

    @property
    def made(self) -> Any:
        """Return what this stands for."""
        wake()
        with _lock:
            if not self._is_made:  # it is wanted before its turn, while others are made
                self._made = self._make()
                self._is_made = True
        return self._made

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call what this stands for."""
        return self.made(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of what this stands for."""
        if name.startswith("__"):  # Python itself looks for some of these
            raise AttributeError(name)
        return getattr(self.made, name)


def is_awake() -> bool:
    """Return whether numba is at work in this process."""
    return _awake


def deferred(make: Callable[[], Any]) -> Any:
    """Return what ``make`` returns, or what stands for it until it is needed."""
    return enlisted(Deferred(make))


def enlisted(one: Deferred) -> Any:
    """Let something be made when everything is; return it, or what it stands for if that has
    happened."""
    with _lock:
        if _awake:
            return one.made
        _waiting.append(one)
        return one


def at_waking(do: Callable[[], object]) -> None:
    """Do something once everything of numba's is made: now, if it is."""
    with _lock:
        if _awake:
            do()
        else:
            _at_waking.append(do)


def wake() -> None:
    """Import numba, make all that is deferred, and let it take its place in all modules.

    Raises MachineError if this process may not have the address space that compiling takes.
    """
    global _awake, _waking
    with _lock:
        if _awake or _waking:
            return
        _waking = True
        try:
            _import_numba()
            for one in _waiting:
                one.made  # noqa: B018 - it makes itself
            while _replaced():  # other threads may import modules meanwhile
                continue
            while _at_waking:  # what is done is not done again, should another fail
                _at_waking[0]()
                del _at_waking[0]
            _awake = True
            _waiting.clear()
        finally:
            _waking = False


def _replaced() -> bool:
    """Put what was made in the place of what stands for it, in all modules. Return whether there
    was any."""
    found = False
    for module in list(sys.modules.values()):
        names: dict[str, Any] = getattr(module, "__dict__", {})
        for name, value in list(names.items()):
            if issubclass(type(value), Deferred):  # isinstance would run code of strange objects
                names[name] = value.made
                found = True
    return found


def _import_numba() -> None:
    """Import numba, and its functions on arrays without the whole of scipy.linalg.

    To know whether a BLAS is there, numba would import it in every process: a tenth of a second or
    two, where nobody multiplies matrices. That scipy is there says as much: compiled code that does
    multiply matrices looks again, and imports it then.
    """
    if not PLAIN:
        check_address_space(COMPILING_BYTES, "compiling machine code, which is kept for later,")
    import_module("numba")
    if PLAIN or "numba.np.arraymath" in sys.modules or find_spec("scipy") is None:
        return
    linear_algebra: Any = import_module("numba.np.linalg")
    look = getattr(linear_algebra, "ensure_blas", None)
    if look is None:  # it is not numba's public name
        return
    linear_algebra.ensure_blas = lambda: None
    try:
        vars(import_module("numba.np.arraymath"))["ensure_blas"] = look
    finally:
        linear_algebra.ensure_blas = look


numba: Any = deferred(lambda: import_module("numba"))
types: Any = deferred(lambda: import_module("numba.core.types"))
ir: Any = deferred(lambda: import_module("llvmlite.ir"))


def intrinsic(function: Callable[..., Any], **options: Any) -> Any:
    """Make a function that compiled code calls of one that writes LLVM's instructions, as
    `numba.extending.intrinsic` does."""

    def make() -> Any:
        decorate: Any = import_module("numba.extending").intrinsic
        return (decorate(**options) if options else decorate)(function)

    return deferred(make)


def external(name: str, result: str, *arguments: str) -> Any:
    """Return a function of libc that compiled code calls. Types are named as numba names them."""

    def make() -> Any:
        kinds: Any = import_module("numba.core.types")
        signature = getattr(kinds, result)(*(getattr(kinds, each) for each in arguments))
        return kinds.ExternalFunction(name, signature)

    return deferred(make)


if PLAIN:
    wake()
