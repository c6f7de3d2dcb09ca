"""A network as Mininet keeps account of it: nodes with shells, and links that are made in a batch.

What Mininet would do to the machine itself (raise sysctls) is bypassed.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from weft.base.errors import InputError, refuse
from weft.base.limits import allow_files
from weft.topo.addresses import format_mac
from weft.topo.interfaces import LinkKind, interface_name, is_patched
from weft.topo.network import Port, Topology
from weft.topo.worlds.emulated.mininet_classes import Mininet, Node, lg
from weft.topo.worlds.emulated.mininet_nodes import MadeInterface, MadeLink, RunNode, SwitchNode
from weft.topo.worlds.emulated.pings import PingingNode, side_by_side
from weft.topo.worlds.emulated.runs import RunRecord

END_DEADLINE_S = 10.0
"""How long all shells together may take to end once they have been killed."""
FILES_PER_NODE = 4
OTHER_FILES = 512
"""The runner may open `FILES_PER_NODE` files for each node (a terminal's two ends and pipes) and
`OTHER_FILES` for everything else."""


_FIXED = (
    "the network stays what it was brought up as: describe it in weft.Network or a network file "
    "(docs/python.md), and bring that up"
)
_STAYS = "it would end before the block of weft.up does; leave the block"
REFUSED_OF_NETWORK = {
    **dict.fromkeys(("addHost", "addSwitch", "addLink"), _FIXED),
    **dict.fromkeys(("delHost", "delSwitch", "delNode", "__delitem__"), _FIXED),
    **dict.fromkeys(
        ("delLink", "delLinkBetween"), f"to let a link fail, use configLinkStatus; {_FIXED}"
    ),
    "buildFromTopo": _FIXED,
    "addNAT": "hosts reach one another alone, and not the machine's own network, in whose files "
    "and iptables Mininet's NAT would write; what a host needs from outside, put there as a file",
    **dict.fromkeys(
        ("addController", "delController"),
        "the switches speak P4Runtime, not OpenFlow: use net.switch(NAME), or any client at its "
        "address",
    ),
    **dict.fromkeys(("stop", "run", "interact"), _STAYS),
    **dict.fromkeys(
        ("startTerms", "stopXterms"), "it opens windows, and kills by name: use weft up, or cmd"
    ),
}
"""What a network under a run does not do of Mininet's, and what to do instead."""


class RunMininet(Mininet):
    """Mininet's object of a network that a run has brought up.

    What asks something of the network or its nodes works as it does in any Mininet network. What
    would make or remove a part of it is refused (`REFUSED_OF_NETWORK`): a node or link that Mininet
    alone knew would be none for the switches, the controller and the clean-up.
    """

    run_record: RunRecord
    set_link: Callable[[str, str, bool], None]
    """Let the link between two nodes come back (True) or fail (False)."""

    def build(self) -> None:
        """Do nothing, since all is there."""

    def start(self) -> None:
        """Do nothing, since all switches run."""

    def configLinkStatus(self, src: Any, dst: Any, status: str) -> None:
        """Let the link between two nodes fail (``down``) or come back (``up``)."""
        refuse(
            status not in ("up", "down"),
            f"configLinkStatus({src}, {dst}, {status!r}): the status is 'up' or 'down'",
        )
        self.set_link(str(src), str(dst), status == "up")

    def ping(self, hosts: Any = None, timeout: Any = None) -> Any:
        """Ping between some hosts, or all, as Mininet does, but side by side."""
        with self._pinging(hosts, timeout) as nodes:
            return super().ping(nodes, timeout)

    def pingFull(self, hosts: Any = None, timeout: Any = None) -> Any:
        """Return times, too, as Mininet does, of pings that go side by side."""
        with self._pinging(hosts, timeout) as nodes:
            found = super().pingFull(nodes, timeout)
        return [(source.node, target.node, told) for source, target, told in found]

    @contextmanager
    def _pinging(self, hosts: Any, timeout: Any) -> Iterator[list[PingingNode]]:
        if not hosts:
            lg.output("*** Ping: testing ping reachability\n")  # as it says where none are named
        with side_by_side(hosts or self.hosts, timeout) as nodes:
            yield nodes

    def iperf(self, *arguments: Any, **options: Any) -> Any:
        """Measure a throughput, as Mininet does, where that kills no other network's iperf."""
        refuse(
            self.run_record.pid_namespace is None,
            "net.mininet.iperf: it kills by name, and this kernel makes no PID namespaces; use "
            "net.host(NAME).run('iperf', ...)",
        )
        return super().iperf(*arguments, **options)


def _refusing(name: str, why: str) -> Callable[..., None]:
    """Return a method that raises InputError, with the reason."""

    def refused(*_arguments: Any, **_options: Any) -> None:
        raise InputError(f"net.mininet.{name}: {why}")

    refused.__name__ = name
    return refused


for _name, _why in REFUSED_OF_NETWORK.items():
    setattr(RunMininet, _name, _refusing(_name, _why))


class MininetNetwork:
    """A Mininet network under a run, and give typed access to the little of it that the world
    needs."""

    def __init__(
        self, run: RunRecord, nodes: int, set_link: Callable[[str, str, bool], None]
    ) -> None:
        """Prepare for so many nodes with shells; nothing but this process's own limits is raised.

        ``set_link`` lets the link between two nodes come back (True) or fail (False).
        """
        Mininet.inited = True  # its initialisation raises limits and sysctls of the machine
        allow_files(nodes * FILES_PER_NODE + OTHER_FILES, 0, "the network")
        self._run = run
        self.net: Any = RunMininet(build=False, controller=None, link=MadeLink, intf=MadeInterface)
        self.net.run_record, self.net.set_link = run, set_link
        self._holder: Any = None

    def add_run_namespace(self) -> int:
        """Make the namespace of the switches; return the id of a process that holds it."""
        self._holder = RunNode("switches", run=self._run)
        self._holder.await_shell()
        return int(self._holder.pid)

    def add_nodes(self, topology: Topology) -> dict[str, int]:
        """Make every host in a namespace of its own, and a node of every switch in the run's.
        Return the id of a process that holds each host's namespace."""
        for host in topology.hosts:
            Mininet.addHost(self.net, host.name, cls=RunNode, run=self._run)
        for switch in topology.switches:
            Mininet.addSwitch(
                self.net,
                switch.name,
                cls=SwitchNode,
                run=self._run,
                inNamespace=True,
                namespace_pid=int(self._holder.pid),
                dpid=f"{switch.device_id:x}",
            )
        for node in self.net.hosts:
            node.await_shell()
        return {node.name: int(node.pid) for node in self.net.hosts}

    def check_namespaces(self) -> None:
        """Raise RunError, which names the shell, if a shell that holds a namespace has ended."""
        for node in [*filter(None, [self._holder]), *self.net.hosts]:
            node.check_namespace()

    def add_links(self, topology: Topology, links: LinkKind) -> None:
        """Note the links that have been made, by their ends' ports and interfaces."""
        for link in topology.links:
            if not is_patched(link, topology, links):
                Mininet.addLink(
                    self.net,
                    link.a.node,
                    link.b.node,
                    port1=link.a.number,
                    port2=link.b.number,
                    intfName1=interface_name(link.a, topology),
                    intfName2=interface_name(link.b, topology),
                )

    def set_addresses(self, topology: Topology) -> None:
        """Note the addresses of hosts' interfaces."""
        for host, each in topology.stations:
            name = interface_name(Port(host.name, each.number), topology)
            interface = self.net[host.name].intf(name)
            interface.note(each.with_subnets)
            interface.mac = format_mac(each.mac)

    def stop(self) -> None:
        """End all shells. The namespaces end with the last process in them, and so do the links.

        This takes a bounded time, whatever a script has put among the nodes. Mininet's `terminate`
        is not called: those of some nodes run commands in the shell that has ended.
        """
        listed = (self.net.hosts, self.net.switches, self.net.controllers, [self._holder])
        nodes = [node for nodes in listed for node in nodes if node is not None and node.shell]
        for node in nodes:
            if node.shell.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(node.shell.pid, signal.SIGKILL)
                node.shell.kill()  # if it leads no group
        end = time.monotonic() + END_DEADLINE_S
        for node in nodes:
            with suppress(subprocess.TimeoutExpired):
                node.shell.wait(max(0.0, end - time.monotonic()))
            node.waitExited = False  # it has been waited for
            with suppress(OSError):
                Node.cleanup(node)
        self._holder = None
        self.net.hosts, self.net.switches, self.net.controllers = [], [], []
