"""The one module that touches Mininet: nodes whose shells belong to a run, links made in a batch.

Mininet keeps nodes, interfaces and links, and gives each node a shell in its namespace, so that
its own command line and scripts work on the network. What it would do to the machine itself
(raised sysctls, interfaces looked for among the machine's own) is bypassed.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from switch.errors import MachineError
from topo.processes import DIE_WITH_PARENT
from topo.runs import Run


@contextmanager
def _distutils_for_mininet() -> Iterator[None]:
    """Lend Mininet 2.3 the one name it takes from distutils, which Python 3.12 has no more.

    Mininet compares Open vSwitch's versions with it, and nothing here uses Open vSwitch. What is
    lent is taken away again, so that nobody else takes it for distutils.
    """
    if sys.version_info < (3, 12) or "distutils" in sys.modules:
        yield
        return
    package, version = ModuleType("distutils"), ModuleType("distutils.version")
    version.StrictVersion = str
    sys.modules.update({"distutils": package, "distutils.version": version})
    try:
        yield
    finally:
        del sys.modules["distutils"], sys.modules["distutils.version"]


try:
    with _distutils_for_mininet():
        from mininet.link import Intf, Link
        from mininet.net import Mininet
        from mininet.node import Node, Switch
except ImportError as error:
    raise MachineError(
        f"Mininet cannot be imported by {sys.executable} ({error}): install Debian's or Ubuntu's "
        "package with `apt-get install mininet`, and use a virtual environment of /usr/bin/python3 "
        "with --system-site-packages"
    ) from error

FILES_PER_NODE = 4
OTHER_FILES = 512
"""Open files of the runner: a terminal's two ends and pipes for each node, and everything else."""


class RunNode(Node):
    """A Mininet node with a namespace of its own, whose processes end with the run."""

    isSetup = True

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        run: Run = self.params["run"]
        params["env"] = {**params.get("env", os.environ), **run.environment()}
        popen = super()._popen([*DIE_WITH_PARENT, *cmd], **params)
        run.add(popen.pid, f"command of {self.name}" if self.shell else f"shell of {self.name}")
        return popen


class SwitchNode(RunNode, Switch):
    """A P4 switch's Mininet node: it shares the run's namespace, and opens a shell at first use."""

    def startShell(self, mnopts: str | None = None) -> None:
        """Only note the namespace; see :meth:`open_shell`."""
        self.pid = self.params["namespace_pid"]

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
    """An interface that is configured already: Mininet only keeps account of it."""

    def config(self, **_parameters: Any) -> dict[str, Any]:
        """Nothing is left to configure."""
        return {}


class MadeLink(Link):
    """A link whose veth pair has been created already."""

    @classmethod
    def makeIntfPair(cls, *_arguments: Any, **_parameters: Any) -> None:
        """Nothing is left to make."""


class MininetNetwork:
    """A Mininet network under a run: typed access to the little of it that the world needs."""

    def __init__(self, run: Run, nodes: int) -> None:
        """Prepare for so many nodes with shells; only this process's own limits are raised."""
        Mininet.inited = True  # its initialisation raises limits and sysctls of the machine
        _allow_files(nodes * FILES_PER_NODE + OTHER_FILES)
        self._run = run
        self.net: Any = Mininet(build=False, controller=None, link=MadeLink, intf=MadeInterface)
        self._holder: Any = None

    def add_run_namespace(self) -> int:
        """Make the namespace of the switches; returns the id of a process that holds it."""
        self._holder = RunNode("switches", run=self._run)
        return int(self._holder.pid)

    def add_host(self, name: str) -> int:
        """Make a host in a namespace of its own; returns the id of a process that holds it."""
        return int(self.net.addHost(name, cls=RunNode, run=self._run).pid)

    def add_switch(self, name: str, device_id: int) -> None:
        """Add a switch's node, in the run's namespace."""
        self.net.addSwitch(
            name,
            cls=SwitchNode,
            run=self._run,
            inNamespace=True,
            namespace_pid=int(self._holder.pid),
            dpid=f"{device_id:x}",
        )

    def add_link(self, a: str, b: str, ports: tuple[int, int], names: tuple[str, str]) -> None:
        """Note a link that has been made, by its ends' nodes, ports and interface names."""
        self.net.addLink(
            a, b, port1=ports[0], port2=ports[1], intfName1=names[0], intfName2=names[1]
        )

    def set_address(self, host: str, ip: str, mac: str) -> None:
        """Note a host's addresses."""
        interface = self.net[host].intf()
        interface.ip, interface.prefixLen, interface.mac = ip, 24, mac

    def stop(self) -> None:
        """End all shells. The namespaces go with the last process in them, the links with them."""
        nodes = [*self.net.hosts, *self.net.switches]
        if self._holder is not None:
            nodes.append(self._holder)
        for node in nodes:
            if node.shell and node.shell.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(node.shell.pid, signal.SIGKILL)
        for node in nodes:
            node.terminate()
        self._holder = None
        self.net.hosts, self.net.switches = [], []


def _allow_files(number: int) -> None:
    """Let this process open so many files, and no more, as mnexec goes through all of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < number:
        wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
