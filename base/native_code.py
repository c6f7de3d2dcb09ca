"""Native machine code in place of what a wheel brings for a level of processors.

It is made in the background, by a process that gives way to all others, once a command has used
what the wheel brings; the next one finds it in the cache. A network that comes up ends that
process, as what runs on the network is to have the processors; the libraries made by then are kept.

``WEFT_NATIVE=0`` turns it off; by default it is off in CI and in tests, where ``WEFT_NATIVE=1``
turns it on.
"""

import fcntl
import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from weft.base import machine_code
from weft.base.cache import cache_dir
from weft.base.children import python_command, python_path
from weft.base.files import write_whole
from weft.base.processors import levels_met, processor

COMPILER = "weft.experiments.runs.prepare", "native"
"""What compiles: a module, and its argument."""
MOST_CPU_S = 900
"""The processor time that compiling may take."""
_LOCK = "native.lock"


def state() -> str:
    """Return what is to be said of the code of Weft's own that this process would run: empty,
    where none came with Weft for this processor."""
    note = _note()
    if note is None:
        return ""
    brought = f"what came with Weft, for {levels_met()[0].name}"
    if note.is_file():
        why = note.read_text("utf-8")
        return f"{brought}: native code could not be made: {why}" if why else "native"
    if not _is_wanted():
        return f"{brought}; native code is not made here (WEFT_NATIVE=1 has it made)"
    return f"{brought}; native code is made in the background after a run"


def begin() -> None:
    """Start the process that makes native code, if it is wanted and was not made before; say so."""
    note = _note()
    if note is None or note.is_file() or not _is_wanted() or _holder() is not None:
        return
    subprocess.Popen(
        python_command(*COMPILER),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))},
        start_new_session=True,
    )
    print(
        "weft: note: machine code for this very processor is being made in the background, at the "
        "lowest priority (WEFT_NATIVE=0: never)",
        file=sys.stderr,
    )


def give_way() -> None:
    """End the process that makes native code, if one does."""
    if _note() is not None and (holder := _holder()) is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(holder, signal.SIGTERM)


def make(compile_all: Callable[[], None]) -> None:
    """Make native code, at the lowest priority, unless another process does. What cannot be
    compiled is not tried again."""
    note = _note()
    with open(cache_dir() / _LOCK, "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        os.nice(19)
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
        machine_code.SHIPPED = Path(os.devnull)
        why = ""
        try:
            compile_all()
        except Exception as error:  # compilers raise of all kinds
            why = f"{type(error).__name__}: {error}"
        if note is not None:
            write_whole(note, why, folders=True, keep=True)


def _note() -> Path | None:
    """Return the file that there is once native code was made of all that came with Weft, which
    says what went wrong; None where nothing came for this processor."""
    if not machine_code.SHIPPED.is_dir() or not levels_met():
        return None
    brought = sorted(
        path.name
        for path in machine_code.SHIPPED.glob(machine_code.file_of("*/*/*", levels_met()[0].name))
    )
    key = hashlib.sha256(repr((processor(), brought)).encode()).hexdigest()[:24]
    return cache_dir() / "native" / key if brought else None


def _is_wanted() -> bool:
    asked = os.environ.get("WEFT_NATIVE")
    if asked is None:
        return not {"CI", "PYTEST_CURRENT_TEST"} & os.environ.keys()
    return asked != "0"


def _holder() -> int | None:
    """Return the id of the process that makes native code, if one does."""
    with suppress(OSError, ValueError), open(cache_dir() / _LOCK, encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read())
    return None
