"""p4-utils' graph of a network (``load_topo``), of one that is up or of a ``topology.json`` that
p4-utils has written."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from weft.base import documents
from weft.base.errors import InputError, did_you_mean
from weft.base.units import shown
from weft.interface.p4utils.switches import GRPC_PORT, THRIFT_PORT
from weft.topo.worlds.emulated.testbeds import RunningPort, RunningTestbed, find_testbed

MOST_BYTES = 64 << 20

Attributes = dict[str, Any]


def load_topo(json_path: str | Path | None = None, *, run: str | None = None) -> "NetworkGraph":
    """Return the graph of a network.

    Args:
        json_path: a file that p4-utils has written. If there is none of that name, as Weft writes
            none, it is the network that is up.
        run: which one, if several are up.

    Raises:
        InputError: the file is no such graph, or no network is up.
    """
    if json_path is not None and Path(json_path).is_file():
        return _of_file(Path(json_path))
    return graph_of(find_testbed(run))


def graph_of(testbed: RunningTestbed) -> "NetworkGraph":
    """Return the graph of a network that is up."""
    nodes: dict[str, Attributes] = {}
    for name in testbed.nodes:
        if name not in testbed.switches:
            nodes[name] = {"isHost": True, "isSwitch": False}
    for place, (name, switch) in enumerate(testbed.switches.items()):
        nodes[name] = {
            "isHost": False, "isSwitch": True, "isP4Switch": True, "isP4RuntimeSwitch": True,
            "device_id": switch.device_id, "thrift_port": THRIFT_PORT + place,
            "thrift_ip": "127.0.0.1", "grpc_port": (testbed.grpc_port or GRPC_PORT) + place,
            "grpc_ip": "127.0.0.1", "cpu_port": True, "cpu_port_num": testbed.cpu_port,
            "sw_program": switch.program,
        }  # fmt: skip
    links = []
    for link in testbed.links:
        bw = link.rate_bps / 1e6
        figures: Attributes = {"weight": 1, "delay": f"{link.delay_ns / 1e6:g}ms"}
        figures["bw"] = int(bw) if bw == int(bw) else bw
        links.append((_end(link.one), _end(link.other), figures))
        for end in (link.one, link.other):
            if end.ip:
                nodes[end.node].setdefault("ip", end.ip)
                nodes[end.node].setdefault("mac", end.mac)
    return NetworkGraph(nodes, links)


def _end(port: RunningPort) -> Attributes:
    told = {
        "node": port.node, "intfName": port.interface, "port": port.number, "addr": port.mac
    }  # fmt: skip
    return {**told, "ip": port.ip} if port.ip else told


def _of_file(path: Path) -> "NetworkGraph":
    what = f"topology {str(path)!r}"
    match documents.opened(path, MOST_BYTES, what):
        case {"nodes": list(nodes), "links": list(links)}:
            pass
        case {"nodes": list(nodes), "edges": list(links)}:  # as networkx writes from 3.6 on
            pass
        case _:
            raise InputError(f"{what}: it is no graph of p4-utils, which has nodes and links")
    by_name: dict[str, Attributes] = {}
    for node in nodes:
        if not (isinstance(node, dict) and isinstance(node.get("id"), str)):
            raise InputError(f"{what}: a node is an object with an id, not {shown(node)}")
        by_name[node["id"]] = {key: value for key, value in node.items() if key != "id"}
    edges = []
    for link in links:
        names = [link.get("node1"), link.get("node2")] if isinstance(link, dict) else [None]
        if any(not isinstance(name, str) or name not in by_name for name in names):
            raise InputError(
                f"{what}: a link is an object with node1 and node2, which are nodes, not "
                f"{shown(link)}"
            )
        edges.append((_ending(link, "1"), _ending(link, "2"), _ending(link, "")))
    return NetworkGraph(by_name, edges)


def _ending(link: Attributes, number: str) -> Attributes:
    """Return the attributes of a link whose names end in a number, or in neither 1 nor 2."""
    if number:
        return {key[:-1]: value for key, value in link.items() if key.endswith(number)}
    return {key: value for key, value in link.items() if key[-1:] not in ("1", "2")}


class NetworkGraph:
    """A network's nodes, links and interfaces, by the names of p4-utils' methods.

    Methods raise InputError for a node that is not there, or is of another kind.
    """

    def __init__(
        self,
        nodes: Mapping[str, Attributes],
        links: Sequence[tuple[Attributes, Attributes, Attributes]],
    ) -> None:
        self.nodes = dict(nodes)
        """The nodes' attributes by name."""
        self.edge_to_intf: dict[str, dict[str, Attributes]] = {name: {} for name in nodes}
        """The attributes of interfaces, by their node and the node that they face."""
        self.node_to_intf: dict[str, dict[str, Attributes]] = {name: {} for name in nodes}
        """The same by the node and the interface's name."""
        for one, other, figures in links:
            for end, far in ((one, other), (other, one)):
                facing = {f"{key}_neigh": value for key, value in far.items()}
                interface = {**figures, **end, **facing}
                self.edge_to_intf[end["node"]].setdefault(far["node"], interface)
                self.node_to_intf[end["node"]][str(end.get("intfName", ""))] = interface

    def __contains__(self, name: object) -> bool:
        return name in self.nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def neighbors(self, name: str) -> Iterator[str]:
        """Yield the nodes that a node is linked to."""
        return iter(self.get_neighbors(name))

    # -- what there is

    def _chosen(self, fields: Sequence[str], is_wanted: Callable[[str], bool]) -> dict[str, Any]:
        wanted = {name: about for name, about in self.nodes.items() if is_wanted(name)}
        return {name: _picked(about, fields) for name, about in wanted.items()}

    def get_nodes(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return all nodes with their attributes, or those named."""
        return self._chosen(fields, lambda name: True)

    def get_hosts(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return the hosts."""
        return self._chosen(fields, self.isHost)

    def get_switches(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return the switches."""
        return self._chosen(fields, self.isSwitch)

    def get_p4switches(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return the P4 switches."""
        return self._chosen(fields, self.isP4Switch)

    def get_p4rtswitches(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return the switches that serve P4Runtime."""
        return self._chosen(fields, self.isP4RuntimeSwitch)

    def get_routers(self, fields: Sequence[str] = ()) -> dict[str, Any]:
        """Return the routers."""
        return self._chosen(fields, self.isRouter)

    def get_intfs(self, fields: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Return the interfaces by their node and the node that they face."""
        return _all_picked(self.edge_to_intf, fields)

    def get_node_intfs(self, fields: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Return the interfaces by their node and their name."""
        return _all_picked(self.node_to_intf, fields)

    def _is(self, name: str, kind: str) -> bool:
        return bool(self._about(name).get(kind, False))

    def isNode(self, name: str) -> bool:
        """Return whether there is a node of this name."""
        return name in self.nodes

    def isHost(self, name: str) -> bool:
        """Return whether a node is a host."""
        return self._is(name, "isHost")

    def isSwitch(self, name: str) -> bool:
        """Return whether a node is a switch."""
        return self._is(name, "isSwitch")

    def isP4Switch(self, name: str) -> bool:
        """Return whether a node is a P4 switch."""
        return self._is(name, "isP4Switch")

    def isP4RuntimeSwitch(self, name: str) -> bool:
        """Return whether a node is a switch that serves P4Runtime."""
        return self._is(name, "isP4RuntimeSwitch")

    def isRouter(self, name: str) -> bool:
        """Return whether a node is a router."""
        return self._is(name, "isRouter")

    is_host, is_switch, is_p4switch = isHost, isSwitch, isP4Switch

    # -- neighbours and interfaces

    def get_neighbors(self, name: str) -> list[str]:
        """Return the nodes that a node is linked to."""
        self._about(name)
        return list(self.edge_to_intf[name])

    def are_neighbors(self, node1: str, node2: str) -> bool:
        """Return whether two nodes are linked."""
        return node2 in self.get_neighbors(node1)

    def get_hosts_connected_to(self, name: str) -> list[str]:
        """Return the hosts that a node is linked to."""
        return [each for each in self.get_neighbors(name) if self.isHost(each)]

    def get_switches_connected_to(self, name: str) -> list[str]:
        """Return the switches that a node is linked to."""
        return [each for each in self.get_neighbors(name) if self.isSwitch(each)]

    def get_p4switches_connected_to(self, name: str) -> list[str]:
        """Return the P4 switches that a node is linked to."""
        return [each for each in self.get_neighbors(name) if self.isP4Switch(each)]

    def get_routers_connected_to(self, name: str) -> list[str]:
        """Return the routers that a node is linked to."""
        return [each for each in self.get_neighbors(name) if self.isRouter(each)]

    def get_interfaces(self, name: str) -> list[str]:
        """Return the names of a node's interfaces."""
        self._about(name)
        return list(self.node_to_intf[name])

    def get_interfaces_to_node(self, node: str) -> dict[str, str]:
        """Return the nodes that a node's interfaces face."""
        return {name: self.interface_to_node(node, name) for name in self.get_interfaces(node)}

    def interface_to_node(self, node: str, intf: str) -> str:
        """Return the node that an interface faces."""
        return str(self._named(node, intf)["node_neigh"])

    def interface_to_port(self, node: str, intf: str) -> int:
        """Return the port that an interface is."""
        return int(self._named(node, intf)["port"])

    def port_to_node(self, node: str, port: int) -> str:
        """Return the node behind a port."""
        self._about(node)
        ports = {about.get("port"): about for about in self.node_to_intf[node].values()}
        if port not in ports:
            raise InputError(f"node {node} has no port {port}; it has {_listed(ports)}")
        return str(ports[port]["node_neigh"])

    def node_to_node_port_num(self, node1: str, node2: str) -> int:
        """Return the port by which a node is linked to another one."""
        return int(self._facing(node1, node2)["port"])

    def node_to_node_mac(self, node1: str, node2: str) -> str:
        """Return the MAC address of the interface of a node that faces another one."""
        return str(self._facing(node1, node2)["addr"])

    def node_to_node_interface_ip(self, node1: str, node2: str) -> str | None:
        """Return the address and prefix length of that interface; None if it has none."""
        return self._facing(node1, node2).get("ip")

    def node_to_node_interface_bw(self, node1: str, node2: str) -> float:
        """Return the rate of the link there, in Mbit/s; -1 if there is no limit."""
        return float(self._facing(node1, node2).get("bw") or -1)

    def node_interface_ip(self, node: str, intf: str) -> str | None:
        """Return the address of an interface; None if it has none."""
        ip = self._named(node, intf).get("ip")
        return None if ip is None else str(ip).partition("/")[0]

    def node_interface_bw(self, node: str, intf: str) -> float:
        """Return the rate of the link at an interface, in Mbit/s; -1 if there is no limit."""
        return float(self._named(node, intf).get("bw") or -1)

    def subnet(self, node1: str, node2: str) -> str | None:
        """Return the subnet of the interface of a node that faces another one."""
        ip = self.node_to_node_interface_ip(node1, node2)
        return None if ip is None else ip_interface(ip).network.with_prefixlen

    def get_direct_host_networks_from_switch(self, name: str) -> set[str | None]:
        """Return the subnets of the hosts that a switch is linked to."""
        return {self.subnet(host, name) for host in self.get_hosts_connected_to(name)}

    # -- hosts and switches

    def get_host_ip(self, name: str) -> str | None:
        """Return a host's address; None if it has none."""
        ip = self._of_kind(name, "isHost", "host").get("ip")
        return None if ip is None else str(ip).partition("/")[0]

    def get_host_mac(self, name: str) -> str:
        """Return the MAC address of a host's first interface."""
        return str(self._named(name, self.get_host_first_interface(name))["addr"])

    def get_host_name(self, ip: str) -> str:
        """Return the host that has an address."""
        addresses = {self.get_host_ip(name): name for name in self.get_hosts()}
        if ip not in addresses:
            raise InputError(f"no host has the address {ip}: they have {_listed(addresses)}")
        return addresses[ip]

    def get_host_first_interface(self, name: str) -> str:
        """Return the name of a host's first interface."""
        self._of_kind(name, "isHost", "host")
        interfaces = self.get_interfaces(name)
        if not interfaces:
            raise InputError(f"host {name} has no interface")
        return interfaces[0]

    def get_host_gateway_name(self, name: str) -> str:
        """Return the node that a host's first interface faces."""
        return self.interface_to_node(name, self.get_host_first_interface(name))

    def get_thrift_port(self, name: str) -> int:
        """Return the number by which `SimpleSwitchThriftAPI` finds a switch."""
        return int(self._of_kind(name, "isP4Switch", "P4 switch")["thrift_port"])

    def get_thrift_ip(self, name: str) -> str:
        """Return the address that goes with it."""
        return str(self._of_kind(name, "isP4Switch", "P4 switch").get("thrift_ip", "127.0.0.1"))

    def get_grpc_port(self, name: str) -> int:
        """Return the number by which `SimpleSwitchP4RuntimeAPI` finds a switch."""
        return int(self._of_kind(name, "isP4RuntimeSwitch", "P4Runtime switch")["grpc_port"])

    def get_grpc_ip(self, name: str) -> str:
        """Return the address that goes with it."""
        about = self._of_kind(name, "isP4RuntimeSwitch", "P4Runtime switch")
        return str(about.get("grpc_ip", "127.0.0.1"))

    def get_p4switch_id(self, name: str) -> int:
        """Return a switch's device id."""
        return int(self._of_kind(name, "isP4Switch", "P4 switch")["device_id"])

    def get_cpu_port_index(self, name: str, quiet: bool = False) -> int | None:
        """Return the number of a switch's port to the controller; None if it has none."""
        about = self._of_kind(name, "isP4Switch", "P4 switch")
        if about.get("cpu_port"):
            return int(about["cpu_port_num"])
        if not quiet:
            print(f"Switch {name} has no cpu port.")
        return None

    def get_cpu_port_intf(self, name: str, quiet: bool = False) -> str | None:
        """Return the interface of that port; None, as in Weft the port to the controller is none:
        packets come by P4Runtime."""
        intf = self._of_kind(name, "isP4Switch", "P4 switch").get("cpu_intf")
        return None if intf is None else str(intf)

    # -- paths

    def get_shortest_paths_between_nodes(self, node1: str, node2: str) -> list[tuple[str, ...]]:
        """Return all paths with the fewest links between two nodes, hosts being no way through."""
        self._about(node1)
        self._about(node2)
        if node1 == node2:
            return [(node1,)]
        before: dict[str, list[str]] = {node1: []}
        steps, waiting = {node1: 0}, deque([node1])
        while waiting:
            here = waiting.popleft()
            if here != node1 and self.isHost(here):
                continue
            for there in self.edge_to_intf[here]:
                if there not in steps:
                    steps[there] = steps[here] + 1
                    before[there] = []
                    waiting.append(there)
                if steps[there] == steps[here] + 1:
                    before[there].append(here)
        if node2 not in before:
            raise InputError(f"there is no path from {node1} to {node2}")

        def paths(end: str) -> Iterator[tuple[str, ...]]:
            if end == node1:
                yield (node1,)
            for each in before[end]:
                yield from ((*path, end) for path in paths(each))

        return list(paths(node2))

    # -- helpers

    def _about(self, name: str) -> Attributes:
        if name not in self.nodes:
            near = did_you_mean(name, self.nodes)
            raise InputError(f"there is no node {name!r}{near}; nodes are {_listed(self.nodes)}")
        return self.nodes[name]

    def _of_kind(self, name: str, kind: str, what: str) -> Attributes:
        about = self._about(name)
        if not about.get(kind):
            known = [each for each in self.nodes if self.nodes[each].get(kind)]
            raise InputError(f"{name} is not a {what}; such are {_listed(known)}")
        return about

    def _facing(self, node1: str, node2: str) -> Attributes:
        self._about(node2)
        neighbours = self.get_neighbors(node1)
        if node2 not in neighbours:
            raise InputError(
                f"{node1} has no link to {node2}; it has links to {_listed(neighbours)}"
            )
        return self.edge_to_intf[node1][node2]

    def _named(self, node: str, intf: str) -> Attributes:
        interfaces = self.get_interfaces(node)
        if intf not in interfaces:
            raise InputError(f"{node} has no interface {intf}; it has {_listed(interfaces)}")
        return self.node_to_intf[node][intf]


Topology = NetworkGraph


def _picked(about: Attributes, fields: Sequence[str]) -> Any:
    """Return attributes: all, those named as a tuple, or the only one that is named."""
    if not fields:
        return about
    picked = tuple(about.get(field) for field in fields)
    return picked[0] if len(picked) == 1 else picked


def _all_picked(
    interfaces: Mapping[str, Mapping[str, Attributes]], fields: Sequence[str]
) -> dict[str, dict[str, Any]]:
    return {
        node: {name: _picked(about, fields) for name, about in others.items()}
        for node, others in interfaces.items()
    }


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "none"
