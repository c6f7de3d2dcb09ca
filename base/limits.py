"""What the limits of a process (``ulimit``) allow, asked before something is begun that they would
break in its middle; and what to say where a machine gives no more."""

import errno
import sys

from weft.base.errors import MachineError
from weft.base.units import format_size

ENOUGH_ADDRESSES_BYTES = 1 << 30
"""With less address space libraries fail in ways of their own: a simulated run has 560 MiB."""
NO_LIMIT = sys.maxsize
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_NO_THREAD = "can't start new thread"
"""What Python says then, in a RuntimeError."""


def allow_files(wanted: int, least: int, what: str) -> None:
    """Let this process, and those that it starts, open so many files, as far as the hard limit
    allows: `what` takes `least` of them.

    Raises MachineError if not even these are allowed.
    """
    soft, hard = _limits("RLIMIT_NOFILE")
    if hard < least:
        raise MachineError(
            f"{what} takes up to {least} open files in a process, and {hard} are allowed: raise "
            f"the limit (ulimit -Hn {least}, as root), or choose a smaller network"
        )
    if soft < wanted:
        import resource

        _, hard_or_none = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard_or_none))


def check_address_space(needed_bytes: int, what: str) -> None:
    """Raise MachineError if a process may not have so much address space, which `what` takes."""
    soft, _ = _limits("RLIMIT_AS")
    if soft < needed_bytes:
        raise MachineError(
            f"{what} takes up to {format_size(needed_bytes)} of address space in a process, most "
            f"of it for code and threads, and {format_size(soft)} are allowed: raise the limit "
            f"(ulimit -v {needed_bytes >> 10}, or unlimited)"
        )


def shortage(error: BaseException) -> MachineError | None:
    """Return what to tell of an error that says that the machine, or a limit, gives no more of
    something; None for any other error."""
    said = str(error).splitlines()
    why = f" ({said[0][:200]})" if said else ""
    if isinstance(error, MemoryError):
        return MachineError(
            f"there is no more memory{why}{_limited('RLIMIT_AS')}: choose a smaller network "
            "or less data, or raise the limit"
        )
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return MachineError(
            f"no more threads can be started{_limited('RLIMIT_AS')}: raise the limit of "
            "memory (ulimit -v) or of processes (ulimit -u, or pids.max of the control group)"
        )
    if isinstance(error, OSError) and error.errno in _NO_FILES:
        soft, hard = _limits("RLIMIT_NOFILE")
        return MachineError(
            f"no more files can be opened: a process may have {soft} (ulimit -n), at most {hard}: "
            "raise that limit, or choose a smaller network"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return MachineError(f"there is no more memory{why}{_limited('RLIMIT_AS')}")
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        place = error.filename or "a file of the run or of the cache"
        return MachineError(f"{place} cannot be written: {error.strerror}; make room")
    soft, _ = _limits("RLIMIT_AS")
    if soft < ENOUGH_ADDRESSES_BYTES:
        return MachineError(
            f"{type(error).__name__}{why}: a process may have {format_size(soft)} of address space "
            "(ulimit -v), and that is too little for its code"
        )
    return None


def _limited(kind: str) -> str:
    soft, _ = _limits(kind)
    if soft == NO_LIMIT:
        return ""
    return f", and a process may have {format_size(soft)} of it (ulimit -v)"


def _limits(kind: str) -> tuple[int, int]:
    """Return the soft and the hard limit of a kind that `resource` names; `NO_LIMIT` for none, as
    on systems that have no such limits."""
    try:
        import resource
    except ImportError:
        return NO_LIMIT, NO_LIMIT
    soft, hard = (
        NO_LIMIT if each == resource.RLIM_INFINITY else each
        for each in resource.getrlimit(getattr(resource, kind))
    )
    return soft, hard
