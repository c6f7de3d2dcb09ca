"""Commands on a node of a testbed that is up, started by another process than the run's.

Such a command is in the network, mount and PID namespaces of the node: so it ends with the run,
whatever it does, and it has the names of hosts. It has the caller's terminal; it and the caller are
one job of the shell they were called from.
"""

import os
import signal
from collections.abc import Sequence

from weft.base.children import DIE_WITH_PARENT
from weft.base.errors import MachineError
from weft.topo.worlds.emulated.pid_namespace import children_in
from weft.topo.worlds.emulated.runs import RUN_VARIABLE, Process

PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
"""Signals to the caller that are meant for the command."""
SI_KERNEL = 0x80
"""Who has sent a signal (sigaction(2)): the kernel, as of a key of the terminal, which it sends to
the whole job."""


def shell_command(name: str) -> list[str]:
    """Return the command of a shell for people, whose prompt says which node it is on."""
    prompt = f"PS1='{name}:\\w\\$ '; unset PROMPT_COMMAND"
    return ["env", f"PROMPT_COMMAND={prompt}", "bash", "-i"]


def run_inside(node: Process, run_id: str, command: Sequence[str]) -> int:
    """Run a command in the namespaces of a process, and return its status: 127 if there is no such
    command, 128 and the signal's number if one has ended it. Signals go to the command.

    Call it in a process of one thread. Raises MachineError if the namespaces cannot be entered.
    """
    program = [
        *DIE_WITH_PARENT, "mnexec", "-a", str(node.pid),
        "env", f"{RUN_VARIABLE}={run_id}", *command,
    ]  # fmt: skip
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [*PASSED_ON, signal.SIGCHLD])
    try:
        space = os.open(f"/proc/{node.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with children_in(space):
                child = os.posix_spawnp(
                    program[0], program, os.environ, setsigmask=before, setsigdef=PASSED_ON
                )
        finally:
            os.close(space)
        status = os.waitstatus_to_exitcode(_end_of(child))
        return status if status >= 0 else 128 - status
    except OSError as error:
        raise MachineError(
            f"the namespaces of {node.what} cannot be entered: {error.strerror}; it needs root: "
            "use sudo"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_of(child: int) -> int:
    """Return how a child has ended (wait(2)), and give it what signals come until then."""
    while True:
        came = signal.sigwaitinfo([*PASSED_ON, signal.SIGCHLD])
        if came.si_signo != signal.SIGCHLD and came.si_code != SI_KERNEL:
            os.kill(child, came.si_signo)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
