"""Calls of the kernel that Python has no words for, or has them only since 3.12."""

import ctypes
import os

from weft.base.errors import MachineError, refuse

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_SIGKILL = 9  # not signal's: machines that know no signals call libc, too

libc = ctypes.CDLL(None, use_errno=True)


def check_call(result: int, what: str = "") -> None:
    """Raise OSError, which says why ``what`` failed, unless a call of libc returned 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}{os.strerror(number)}")


def enter_network_namespace(path: str) -> None:
    """Move this thread into a network namespace (os.setns comes with Python 3.12 only).

    Raises:
        MachineError: there is no such namespace, or no right to enter it.
    """
    try:
        with open(path, "rb") as namespace:
            failed = libc.setns(namespace.fileno(), CLONE_NEWNET)
    except OSError as error:
        raise MachineError(
            f"network namespace {path}: {error.strerror}; is its host running?"
        ) from error
    reason = os.strerror(ctypes.get_errno())
    refuse(failed, f"network namespace {path}: {reason}; entering one needs root", MachineError)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread that made it ends."""
    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the call


def wake_in_time() -> None:
    """Let timers of this thread end when they are to, and not up to 50 us later."""
    libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)  # ns
