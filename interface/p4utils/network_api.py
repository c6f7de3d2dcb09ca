"""p4-utils' ``NetworkAPI``: a network that is put together by its methods, and comes up as ``weft
up`` does with a ``p4app.json`` that says the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, did_you_mean
from weft.base.files import remove, told_as_input, write_whole

_LEFT_OUT = (
    "setLogLevel", "enableCli", "enableLog", "enableLogAll", "disableLog", "disableLogAll",
    "enablePcapDump", "enablePcapDumpAll", "disablePcapDump", "disablePcapDumpAll",
    "enableDebugger", "enableDebuggerAll", "disableDebugger", "disableDebuggerAll",
    "setThriftPort", "setGrpcPort", "setTopologyFile", "setCompiler", "setSwitchClient", "setNet",
    "printPortMapping", "enableCpuPort", "enableCpuPortAll", "disableCpuPort", "disableCpuPortAll",
    "enableScheduler", "enableSchedulerAll", "disableScheduler", "disableSchedulerAll",
    "addTaskFile", "addTask", "execScript",
)  # fmt: skip
"""Methods that do nothing here: what they set is `weft up`'s, or is not there."""


class NetworkAPI:
    """A network of hosts and P4 switches.

    Methods have p4-utils' names; those of logs, captures and scheduled tasks do nothing.
    `startNetwork` brings it up, which needs root, with the prompt of ``weft up``, and returns when
    that ends.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, dict[str, Any]] = {}
        self._switches: dict[str, dict[str, Any]] = {}
        self._links: list[tuple[str, str, dict[str, Any]]] = []
        self._default: dict[str, Any] = {}
        self._more: dict[str, Any] = {"assignment_strategy": "manual"}

    def __getattr__(self, name: str) -> Any:
        if name in _LEFT_OUT:
            return lambda *given, **named: None
        near = did_you_mean(name, [each for each in dir(self) if not each.startswith("_")])
        raise AttributeError(f"NetworkAPI of Weft has no {name!r}{near}")

    # -- nodes

    def addHost(self, name: str, **opts: Any) -> str:
        """Add a host, and return its name."""
        self._hosts[name] = opts
        return name

    def addP4Switch(self, name: str, **opts: Any) -> str:
        """Add a P4 switch, and return its name."""
        self._switches[name] = opts
        return name

    addP4RuntimeSwitch = addP4Switch

    def setDefaultRoute(self, name: str, default_route: str) -> None:
        """Set the address by which a host sends to others."""
        self._of(self._hosts, "host", name)["defaultRoute"] = default_route

    def setP4Source(self, name: str, p4_src: str) -> None:
        """Set the program of a switch."""
        self._of(self._switches, "switch", name)["p4_src"] = p4_src

    def setP4SourceAll(self, p4_src: str) -> None:
        """Set the program of all switches that have been added."""
        for about in self._switches.values():
            about["p4_src"] = p4_src

    def setP4CliInput(self, name: str, cli_input: str) -> None:
        """Set the file of commands of a switch."""
        self._of(self._switches, "switch", name)["cli_input"] = cli_input

    def setPriorityQueueNum(self, name: str, queue_num: int) -> None:
        """Set how many queues each port of a switch has."""
        self._of(self._switches, "switch", name)["priority_queues_num"] = queue_num

    # -- links

    def addLink(
        self,
        node1: str,
        node2: str,
        port1: int | None = None,
        port2: int | None = None,
        **opts: Any,
    ) -> None:
        """Link two nodes."""
        for name in (node1, node2):
            if name not in self._hosts and name not in self._switches:
                known = [*self._hosts, *self._switches]
                near = did_you_mean(name, known)
                raise InputError(f"addLink: there is no node {name!r}{near}: add it before")
        ports = {"port1": port1, "port2": port2}
        given = {name: port for name, port in ports.items() if port is not None}
        if "delay" in opts:
            opts["delay"] = _milliseconds(opts["delay"])
        self._links.append((node1, node2, {**opts, **given}))

    def _link(self, node1: str, node2: str) -> tuple[dict[str, Any], bool]:
        """Return what is said of a link, and whether it was added the other way round."""
        for one, other, about in self._links:
            if {one, other} == {node1, node2}:
                return about, one == node2
        links = ", ".join(f"{one}-{other}" for one, other, _ in self._links) or "none"
        raise InputError(f"{node1} and {node2} have no link; links are {links}")

    def setBw(self, node1: str, node2: str, bw: float) -> None:
        """Set the rate of a link, in Mbit/s."""
        self._link(node1, node2)[0]["bw"] = bw

    def setDelay(self, node1: str, node2: str, delay: float | str) -> None:
        """Set the delay of a link, in ms."""
        self._link(node1, node2)[0]["delay"] = _milliseconds(delay)

    def setLoss(self, node1: str, node2: str, loss: float) -> None:
        """Set the loss of a link, in percent."""
        self._link(node1, node2)[0]["loss"] = loss

    def setMaxQueueSize(self, node1: str, node2: str, max_queue_size: int) -> None:
        """Bound the queues of a link, in packets."""
        self._link(node1, node2)[0]["max_queue_size"] = max_queue_size

    def setBwAll(self, bw: float) -> None:
        """Set the rate of all links that have none of their own."""
        self._default["bw"] = bw

    def setDelayAll(self, delay: float | str) -> None:
        """Set the delay of all links that have none of their own."""
        self._default["delay"] = _milliseconds(delay)

    def setLossAll(self, loss: float) -> None:
        """Set the loss of all links that have none of their own."""
        self._default["loss"] = loss

    def setMaxQueueSizeAll(self, max_queue_size: int) -> None:
        """Bound the queues of all links that have no bound of their own."""
        self._default["max_queue_size"] = max_queue_size

    def _set_end(self, node1: str, node2: str, name: str, value: Any) -> None:
        about, turned = self._link(node1, node2)
        about[f"{name}{2 if turned else 1}"] = value

    def setIntfPort(self, node1: str, node2: str, port: int) -> None:
        """Set the port of the first node that leads to the second one."""
        self._set_end(node1, node2, "port", port)

    def setIntfName(self, node1: str, node2: str, intfName: str) -> None:
        """Set the name of the interface of the first node that faces the second one."""
        self._set_end(node1, node2, "intfName", intfName)

    def setIntfMac(self, node1: str, node2: str, mac: str) -> None:
        """Set the MAC address of that interface."""
        self._set_end(node1, node2, "addr", mac)

    def setIntfIp(self, node1: str, node2: str, ip: str) -> None:
        """Set the address and prefix length of that interface."""
        self._set_end(node1, node2, "params", {"ip": ip})

    # -- the whole

    def l2(self) -> None:
        """Give all hosts addresses of one subnet."""
        self._more["assignment_strategy"] = "l2"

    def l3(self) -> None:
        """Give each host a subnet of its own."""
        self._more["assignment_strategy"] = "l3"

    def mixed(self) -> None:
        """Give the hosts of each switch a subnet."""
        self._more["assignment_strategy"] = "mixed"

    def disableArpTables(self) -> None:
        """Let hosts find each other by ARP."""
        self._default["auto_arp_tables"] = False

    def enableArpTables(self) -> None:
        """Let hosts know each other's MAC addresses."""
        self._default["auto_arp_tables"] = True

    def disableGwArp(self) -> None:
        """Let hosts find their gateway by ARP."""
        self._default["auto_gw_arp"] = False

    def enableGwArp(self) -> None:
        """Let hosts know their gateway's MAC address."""
        self._default["auto_gw_arp"] = True

    def hosts(self) -> list[str]:
        """Return the names of the hosts."""
        return list(self._hosts)

    def switches(self) -> list[str]:
        """Return the names of the switches."""
        return list(self._switches)

    p4switches = switches

    def document(self) -> dict[str, Any]:
        """Return the network as a ``p4app.json`` has it."""
        topology = {
            **self._more,
            "hosts": self._hosts,
            "switches": self._switches,
            "links": [list(link) for link in self._links],
            "default": self._default,
        }
        return {"topology": topology}

    def startNetwork(self) -> None:
        """Bring the network up, with the prompt of ``weft up``, and wait until that ends. Raises
        SystemExit with its status, if it is not 0."""
        file = Path(f"network-{os.getpid()}.json")
        with told_as_input(f"the network cannot be written to {str(file)!r}"):
            write_whole(file, json.dumps(self.document()))
        try:
            command = [sys.executable, "-m", "weft", "up", str(file)]
            status = subprocess.run(command, check=False).returncode
        finally:
            remove(file)
        if status:
            raise SystemExit(status)

    @staticmethod
    def _of(nodes: dict[str, dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
        if name not in nodes:
            raise InputError(
                f"there is no {kind} {name!r}{did_you_mean(name, nodes)}; there are "
                f"{', '.join(nodes) or 'none'}"
            )
        return nodes[name]


def _milliseconds(delay: float | str) -> str:
    return delay if isinstance(delay, str) else f"{delay}ms"
