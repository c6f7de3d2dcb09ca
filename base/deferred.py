"""numba, only where something is to be compiled.

Importing numba and making its functions takes most of a second, in every process. Machine code that
an earlier process made runs without it (`weft.base.machine_code`), so what modules name of numba's
is `deferred`: it is made when it is first asked for. In compiled code it is what it stands for.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from weft.base.limits import check_address_space

PLAIN = False
"""Whether kernels run as plain Python."""
with suppress(ValueError):  # numba takes what is no number for 0, too
    PLAIN = bool(int(os.environ.get("NUMBA_DISABLE_JIT", "0")))

COMPILING_BYTES = 1536 << 20
"""The address space of a process that compiles. LLVM aborts the process where it gets no more."""
_lock = threading.RLock()
_at_waking: list[Callable[[], object]] = []
_awake = False
_unseen = False
"""Whether there is something that was made since numba looked for new functions."""


class Deferred:
    """A stand-in for something of numba's, which is made when it is called, or asked for an
    attribute, or compiled code names it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Callable[[], Any] | None = make
        self._made: Any = None

    @property
    def made(self) -> Any:
        """Return what this stands for."""
        global _unseen
        wake()
        with _lock:
            if self._make is not None:
                _unseen = True
                self._made, self._make = self._make(), None
        return self._made

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call what this stands for."""
        return self.made(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of what this stands for."""
        if name.startswith("__"):  # Python itself looks for some of these
            raise AttributeError(name)
        return getattr(self.made, name)


def deferred(make: Callable[[], Any]) -> Any:
    """Return what stands for what ``make`` returns; that itself, where kernels are plain Python."""
    return make() if PLAIN else Deferred(make)


def at_waking(do: Callable[[], object]) -> None:
    """Do something once numba is imported: now, if it is."""
    with _lock:
        if _awake:
            do()
        else:
            _at_waking.append(do)


def wake() -> None:
    """Import numba, and teach it what compiled code needs.

    Raises MachineError if this process may not have the address space that compiling takes.
    """
    global _awake
    with _lock:
        if _awake:
            return
        if not PLAIN:
            check_address_space(COMPILING_BYTES, "compiling machine code, which is kept for later,")
        import_module("numba")
        _awake = True  # what follows asks for more of it
        try:
            while _at_waking:  # what is done is not done again, should another fail
                _at_waking[0]()
                del _at_waking[0]
        except BaseException:
            _awake = False
            raise


def _teach_numba() -> None:
    """Let numba take what a stand-in stands for in its place."""
    typeof: Any = import_module("numba.core.extending").typeof_impl
    target: Any = import_module("numba.core.registry").cpu_target

    def type_of(one: Deferred, _: Any) -> Any:
        global _unseen
        made = one.made
        if _unseen:
            for context in (target.typing_context, target.target_context):
                context.refresh()
            _unseen = False
        return target.typing_context.resolve_value_type(made)

    typeof.register(Deferred)(type_of)


if not PLAIN:
    _at_waking.append(_teach_numba)

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
