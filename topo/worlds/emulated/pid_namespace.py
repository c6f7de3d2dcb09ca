"""A PID namespace for each run: when its first process ends, the kernel kills all the others.

A run's commands may lose everything by which the run knows them: their environment, their session,
the process that started them (``env -i setsid -f sleep 1000``). They cannot leave a PID namespace.
Its first process, here called its init, dies with the runner (PR_SET_PDEATHSIG) and when the pipe
that the runner holds is closed; then the kernel kills everything in the namespace, even after a
SIGKILL of the runner. The process ids that Popen tells are still those of the machine.
"""

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from weft.base.children import DIE_WITH_PARENT, check_not_killed, how_it_ended
from weft.base.effort import start_time
from weft.base.errors import MachineError, RunError
from weft.base.garbage import uncollected
from weft.base.libc import CLONE_NEWPID, check_call, libc
from weft.base.outputs import killed

_OWN = "/proc/thread-self/ns/pid"

_NO_NAME_SERVER = "mount --bind /dev/null /etc/resolv.conf 2>/dev/null"
"""A run's commands know of no name server. No host could reach the machine's: each program that
looks a name or an address up, as Python's http.server does, would wait many seconds for it."""
_NAMES = '[ -z "$1" ] || mount --bind "$1" /etc/hosts 2>/dev/null'
_INIT = (
    "unshare", "--mount-proc", "bash", "-c", f"{_NO_NAME_SERVER}; {_NAMES}; echo ready; read -r",
    "init",
)  # fmt: skip
"""The init's program, which takes the path of a file of names, or nothing. Those who enter its
mount namespace have a /proc of the PID namespace, that file as /etc/hosts, and no name server; it
reaps, as bash does, processes that have lost their parent; and it ends with its standard input."""

READY_DEADLINE_S = 60.0
END_DEADLINE_S = 60.0
STATUS_DEADLINE_S = 5.0

Child = TypeVar("Child", bound="subprocess.Popen[Any]")


class PidNamespace:
    """A PID namespace that is up: `make` makes it and `end` ends it."""

    def __init__(self, init: subprocess.Popen[bytes], ns: int) -> None:
        self._init = init
        self._ns = ns
        """An open file of the namespace."""
        self._children: list[subprocess.Popen[Any]] = []
        """The processes that were started here; the init cannot end before they have been waited
        for."""

    @classmethod
    def make(cls, environment: Mapping[str, str], names: Path | None = None) -> "PidNamespace":
        """Make a new namespace, whose init has this environment, and in whose mount namespace a
        file of names is /etc/hosts.

        Call it from a thread that lives as long as the run. Raises MachineError, with the reason,
        if the kernel makes none, and RunError if the init was killed.
        """
        try:
            with children_in(None):
                init = subprocess.Popen(
                    [*DIE_WITH_PARENT, *_INIT, str(names or "")],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            raise MachineError(f"the kernel makes no PID namespace here: {error}") from error
        assert init.stdout is not None and init.stderr is not None
        is_heard, _, _ = select.select([init.stdout], [], [], READY_DEADLINE_S)
        if not is_heard:
            killed(init)
            raise RunError(
                f"the init of the run's PID namespace (pid {init.pid}) was not ready after "
                f"{READY_DEADLINE_S:g} s, and was killed; try again"
            )
        if init.stdout.readline() != b"ready\n":
            _, said = init.communicate()
            check_not_killed("the init of the run's PID namespace", init.pid, init.returncode)
            why = said.decode(errors="replace").strip() or how_it_ended(init.returncode)
            raise MachineError(f"a PID namespace cannot be set up here: {why}")
        init.stdout.close()
        init.stderr.close()
        return cls(init, os.open(f"/proc/{init.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC))

    @property
    def pid(self) -> int:
        """Return the process id of the init, whose mount namespace has a /proc of this PID
        namespace."""
        return self._init.pid

    def start(self, begin: Callable[[], Child]) -> Child:
        """Have ``begin`` start a process in the namespace. Raises RunError if the namespace has
        ended."""
        self.check()
        self._children = [child for child in self._children if child.poll() is None]
        try:
            with children_in(self._ns):
                child = begin()
        except OSError:
            self.check()  # in the meantime: a fork without init is out of memory, says the kernel
            raise
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise RunError if the init has ended, and so everything in the namespace."""
        if start_time(self.pid) is not None:
            return
        self._reap(time.monotonic() + STATUS_DEADLINE_S)
        status = self._init.poll()
        how = "has ended" if status is None else how_it_ended(status)
        raise RunError(
            f"the init of the run's PID namespace (pid {self.pid}) {how}, and all processes of the "
            "network with it"
        )

    def end(self) -> None:
        """Kill everything that is left in the namespace; return when it is gone, or after a
        minute."""
        self._init.kill()
        self._reap(time.monotonic() + END_DEADLINE_S)
        if self._init.stdin is not None:
            with contextlib.suppress(OSError):
                self._init.stdin.close()
        os.close(self._ns)

    def _reap(self, end: float) -> None:
        """Wait for all processes that the kernel kills, the init last, but no longer than until
        this time (CLOCK_MONOTONIC)."""
        for child in [*self._children, self._init]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, end - time.monotonic()))


@contextlib.contextmanager
def children_in(ns: int | None) -> Iterator[None]:
    """Let children of the calling thread go to a PID namespace within the block; with None, to a
    new one, as whose init the first of them starts. The block starts no threads: the kernel
    refuses."""
    own = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with uncollected():  # finalizers may want threads, and gRPC aborts where it gets none
            # First, as a user namespace may let one out of the PID namespace and not back in.
            check_call(libc.setns(own, CLONE_NEWPID), "setns of a PID namespace: ")
            if ns is None:
                check_call(libc.unshare(CLONE_NEWPID), "unshare of a PID namespace: ")
            else:
                check_call(libc.setns(ns, CLONE_NEWPID), "setns of a PID namespace: ")
            try:
                yield
            finally:
                check_call(libc.setns(own, CLONE_NEWPID), "setns of a PID namespace: ")
    finally:
        os.close(own)
