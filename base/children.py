"""How child processes are started from any folder, and how their ends are described."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from weft.base.cache import PACKAGE
from weft.base.errors import RunError
from weft.base.outputs import Unfinished, communicate, kill

DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
"""The prefix of a command that is to die with its parent: PR_SET_PDEATHSIG, which execution
keeps."""

TOOL_LIMIT_S = 60.0
"""How long a command may take that somebody waits for, unless said otherwise: one that is stopped
would never end."""

_START = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that does what ``python -m module arguments`` does, but for one thing.

    ``python -m`` looks for every module in the current folder first, so that a ``random.py`` of
    the user's would take the library's place; only Python 3.11 and later can be told not to.
    """
    return [sys.executable, "-c", _START, module, *arguments]


def python_path(known: str | None) -> str:
    """Return PYTHONPATH for such a process: where Weft is, then ``known``, but not the current
    folder."""
    return os.pathsep.join(filter(None, [str(PACKAGE.parent), *(known or "").split(os.pathsep)]))


def how_it_ended(status: int) -> str:
    """Return in words how a process ended, from a status as subprocess has it: negative for a
    signal."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:  # real-time signals have numbers alone
        return f"was killed by signal {-status}"
    return f"was killed by signal {-status} ({name})"


def check_not_killed(what: str, pid: int, status: int) -> None:
    """Raise RunError, with all that is known of it, if a signal ended a process.

    A process that somebody killed, or that crashed, is neither wrong input nor something that the
    machine lacks, whatever the process had been asked for.
    """
    if status < 0:
        raise RunError(f"{what} (pid {pid}) {how_it_ended(status)}; try again")


def run_tool(
    command: Sequence[str],
    *,
    input: str | None = None,
    environment: dict[str, str] | None = None,
    timeout_s: float | None = None,
    what: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its status and what it printed.

    It reads ``input``, or nothing. Raises RunError, with what it is (by default the command's name)
    and its process id, if a signal ended it, and if it takes longer than ``timeout_s``
    (`TOOL_LIMIT_S`) or prints more than is kept (`base.outputs`); then it is killed.
    """
    name = what or command[0]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    )
    try:
        said, complained = communicate(process, input, timeout_s or TOOL_LIMIT_S)
    except Unfinished as limit:
        kill(process)
        raise RunError(f"{name} (pid {process.pid}) {limit}, and was killed; try again") from None
    except BaseException:
        kill(process)
        raise
    check_not_killed(name, process.pid, process.returncode)
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Return why a command failed: the last line of its stderr, or else its status."""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"it {how_it_ended(done.returncode)} and said nothing"
