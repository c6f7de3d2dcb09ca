"""Nodes, interfaces and links as Mininet keeps account of them, whose shells belong to a run.

Mininet gives each node a shell in its namespace, so that its own command line and scripts work on
the network. What it would do to the machine itself (look for interfaces among the machine's own) is
bypassed.
"""

import os
import select
import signal
import subprocess
import termios
import time
from collections.abc import Sequence
from typing import Any

from weft.base.children import DIE_WITH_PARENT, how_it_ended
from weft.base.errors import RunError
from weft.base.outputs import MOST_OUTPUT_BYTES
from weft.base.units import format_size
from weft.topo.worlds.emulated.mininet_classes import Intf, Link, Node, Switch, lg
from weft.topo.worlds.emulated.node_addresses import Address, addresses_in
from weft.topo.worlds.emulated.runs import RunRecord

SHELL_CHECK_MS = 500
"""The time between two looks at whether a shell that prints nothing still runs."""
STATUS_DEADLINE_S = 5.0
"""How long a shell that no longer holds its namespace may take to end."""
PROMPT = chr(127)
"""What a shell prints when it waits for a command."""


class RunNode(Node):
    """A Mininet node with a namespace of its own, whose processes end with the run.

    Its shell is started when the node is made, and waited for by `await_shell`: those of many nodes
    start side by side.
    """

    isSetup = True
    starting = False

    waiting: bool
    """Whether a command of the shell goes on, as Mininet has it."""

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the shell, as Mininet does, but do not wait for it."""
        self.starting = True
        super().startShell(mnopts)

    def await_shell(self) -> None:
        """Wait until the shell, and the node's namespace with it, is there; set it up as Mininet
        does."""
        self.starting = False
        while not self.read().endswith(PROMPT):
            continue
        self.cmd("unset HISTFILE; set +m")

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command in the node's shell and return what it printed; nothing while the shell
        starts."""
        return "" if self.starting else super().cmd(*args, **kwargs)

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        run: RunRecord = self.params["run"]
        params["env"] = {**params.get("env", os.environ), **run.environment()}
        what = f"command of {self.name}" if self.shell else f"shell of {self.name}"
        # `mn -c`, on the same machine, kills whatever has "mininet:" in its command line.
        cmd = [f"weft:{self.name}" if word == f"mininet:{self.name}" else word for word in cmd]
        if f"PS1={PROMPT}" in cmd:
            cmd = self._as_a_shell(cmd, params["env"])
        cmd = [*DIE_WITH_PARENT, *self.entry(), *cmd]

        def start() -> Any:
            if self.shell:
                self.check_namespace()
            return super(RunNode, self)._popen(cmd, **params)

        return run.start(start, what)

    def _as_a_shell(self, command: list[str], environment: dict[str, str]) -> list[str]:
        """Return the command of a shell, which finds its prompt in its environment and a terminal
        without echo: other programs that saw to that would take a millisecond each."""
        attributes = termios.tcgetattr(self.slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        environment["PS1"] = PROMPT
        return [word for word in command if word not in ("env", f"PS1={PROMPT}")]

    def entry(self) -> list[str]:
        """Return the commands that start the shell; what the shell runs, and commands beside it,
        need none.

        Ctrl-C ends what it runs even where it does not end the run, as when a script has started
        that in the background. And it, which has namespaces of its own, sees the /proc of the run's
        PID namespace.
        """
        if self.shell:
            return []
        space = self.params["run"].pid_namespace
        inside = [] if space is None else ["mnexec", "-a", str(space.pid)]
        ignored = signal.SIG_IGN in map(signal.getsignal, (signal.SIGINT, signal.SIGQUIT))
        return [*(["env", "--default-signal=INT,QUIT"] if ignored else []), *inside]

    def read(self, size: int = 1024) -> str:
        """Return what the shell has printed, once it has printed something; raise RunError if it
        has ended. A shell that starts is not read yet."""
        if self.starting:
            return PROMPT
        self.waitReadable()
        return str(super().read(size))

    def waitReadable(self, timeoutms: int | None = None) -> bool:
        """Wait until the shell has printed something, and return whether it has; raise RunError if
        it has ended. Mininet's own also ends when the shell could be written to, which is
        always."""
        said = select.poll()
        said.register(self.stdout, select.POLLIN)
        while not self.readbuf and not said.poll(timeoutms or SHELL_CHECK_MS):
            self.check_shell()
            if timeoutms:
                return False
        return True

    def waitOutput(self, verbose: bool = False, findPid: bool = True) -> str:
        """Return what the shell's command prints until it ends. Raises RunError, and ends it, once
        that is more than is kept."""
        said: list[str] = []
        left = MOST_OUTPUT_BYTES
        while self.waiting:
            said.append(self.monitor(findPid=findPid))
            left -= len(said[-1])
            if verbose:
                lg.info(said[-1])
            if left < 0:
                self._interrupt()
                raise RunError(
                    f"{self.name}: {self.lastCmd!r} printed more than "
                    f"{format_size(MOST_OUTPUT_BYTES)}, and was interrupted; let it write to a file"
                )
        return "".join(said)

    def _interrupt(self) -> None:
        """End the shell's command by Ctrl-C, or with its shell if it goes on.

        At a Ctrl-C a terminal drops what nobody has read yet (termios(3), NOFLSH), which may be the
        next prompt. So a shell that says no more is asked for another one.
        """
        self.sendInt()
        end = time.monotonic() + STATUS_DEADLINE_S
        asked = False
        while self.waiting and time.monotonic() < end:
            if not self.monitor(timeoutms=SHELL_CHECK_MS) and self.waiting and not asked:
                self.write("\n")
                asked = True
        while asked and self.waitReadable(SHELL_CHECK_MS):
            self.read()  # both prompts, if none was dropped
        if self.waiting:
            os.killpg(self.shell.pid, signal.SIGKILL)
            self.waiting = False  # whoever asks for more is told that the shell has ended

    def check_shell(self) -> None:
        """Raise RunError if the shell, which holds the node's namespace, has ended."""
        status = self.shell.poll()
        if status is not None:
            self.waiting = False
            raise RunError(
                f"{self.name}: its shell (pid {self.shell.pid}) {how_it_ended(status)}, and its "
                "network namespace with it: end this network, and bring it up again"
            )

    def check_namespace(self) -> None:
        """Raise RunError if the namespace that the shell has been holding is gone."""
        if os.path.exists(f"/proc/{self.pid}/ns/net"):
            return
        try:  # what it held goes some time before its status is known
            how = how_it_ended(self.shell.wait(STATUS_DEADLINE_S))
        except subprocess.TimeoutExpired:
            how = "has ended"
        raise RunError(f"the shell that holds the namespace of {self.name} (pid {self.pid}) {how}")


class SwitchNode(RunNode, Switch):
    """A P4 switch's Mininet node, which shares the run's namespace and opens a shell at its first
    use."""

    def startShell(self, mnopts: str | None = None) -> None:
        """Note the namespace only; see :meth:`open_shell`."""
        self.pid = self.params["namespace_pid"]

    def check_namespace(self) -> None:
        """Raise RunError if the namespace that all switches share is gone."""
        if not os.path.exists(f"/proc/{self.pid}/ns/net"):
            raise RunError(
                f"{self.name}: the shell that holds the namespace of all switches (pid {self.pid}) "
                "has ended: end this network, and bring it up again"
            )

    def entry(self) -> list[str]:
        """Return nothing: a switch's shell enters the run's namespaces, and so sees all that they
        show."""
        return []

    def open_shell(self) -> None:
        """Start the node's shell in the run's namespace, if it has none yet."""
        if not self.shell:
            Node.startShell(self, f"-cda{self.params['namespace_pid']}")

    def cmd(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command in the switch's shell and return what it printed."""
        self.open_shell()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: Any, **kwargs: Any) -> Any:
        """Start a command in the switch's shell."""
        self.open_shell()
        return super().sendCmd(*args, **kwargs)


class MadeInterface(Intf):
    """An interface that is configured already, so that Mininet only keeps account of it."""

    addresses: Sequence[Address] = ()
    """Those that are known, with their subnets."""

    def config(self, **_parameters: Any) -> dict[str, Any]:
        """Do nothing, since nothing is left to configure."""
        return {}

    def note(self, addresses: Sequence[Address]) -> None:
        """Note the addresses that the interface has."""
        self.addresses = addresses
        four = next((each for each in addresses if each.version == 4), None)
        self.ip = None if four is None else str(four.ip)
        self.prefixLen = None if four is None else four.network.prefixlen

    def updateIP(self) -> str | None:
        """Note the addresses that the interface has now, and return the one of IPv4."""
        said, _, _ = self.node.pexec(["ip", "-o", "address", "show", "dev", self.name])
        self.note(addresses_in(said))
        return self.ip

    def IP(self) -> str | None:
        """Return the address of IPv4, or, if there is none, that of IPv6."""
        return self.ip or next((str(each.ip) for each in self.addresses), None)


class MadeLink(Link):
    """A link whose veth pair has been created already."""

    @classmethod
    def makeIntfPair(cls, *_arguments: Any, **_parameters: Any) -> None:
        """Do nothing, since nothing is left to make."""
