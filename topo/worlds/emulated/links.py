"""Interfaces of the emulated world: veth pairs, what is set at them, and links that fail."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from weft.topo.interfaces import (
    SYSCTLS,
    LinkKind,
    host_shaper,
    host_side,
    host_side_again,
    interface_name,
    ipv6_rules,
    ipv6_sysctls,
    switch_interfaces,
    switch_shapers,
    switch_side_links,
)
from weft.topo.network import Host, Port, Topology
from weft.topo.worlds.emulated.namespaces import (
    in_namespace,
    run_batch,
    turn_offloads_off,
    write_sysctls,
)


def make_links(
    topology: Topology,
    links: LinkKind,
    link_mtu: int,
    namespaces: dict[str, int],
    switches_pid: int,
    *,
    shaped: bool,
) -> None:
    """Make the veth pairs of a network, and set the switches' ends up.

    Args:
        namespaces: a process in the namespace of each host, and in that of the switches, by name.
        switches_pid: the latter.
        shaped: whether tbf shapes what switches send.
    """
    for pid in namespaces.values():
        in_namespace(pid, lambda: write_sysctls(SYSCTLS))
    lines = switch_side_links(topology, namespaces, link_mtu, links)
    shapers = switch_shapers(topology, link_mtu) if shaped else []
    interfaces = dict(switch_interfaces(topology, links)).values()

    def make() -> None:
        run_batch("ip", lines)
        turn_offloads_off(interfaces)
        run_batch("tc", shapers)

    in_namespace(switches_pid, make)


def configure_hosts(topology: Topology, link_mtu: int, namespaces: Mapping[str, int]) -> None:
    """Set up all interfaces of hosts, with their addresses and routes, side by side."""

    def configure(host: Host) -> None:
        work = partial(_configure_host, host, topology, link_mtu)
        in_namespace(namespaces[host.name], work)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as side_by_side:
        list(side_by_side.map(configure, topology.hosts))


def _configure_host(host: Host, topology: Topology, link_mtu: int) -> None:
    """Configure a host's interfaces, in the calling thread's namespace."""
    turn_offloads_off(
        [interface_name(uplink.source, topology) for uplink in topology.outward(host.name)]
    )
    write_sysctls(ipv6_sysctls(host, topology))
    run_batch("ip", host_side(host, topology))
    run_batch("ip", ipv6_rules(host), "-6")
    uplinks = topology.outward(host.name)
    run_batch("tc", [host_shaper(each, topology, link_mtu) for each in uplinks])


def set_end(end: Port, topology: Topology, pid: int, *, up: bool) -> None:
    """Let an end of a link fail or come back, in the namespace of a process. A host's routes are
    brought back with it."""
    lines = [f"link set dev {interface_name(end, topology)} {'up' if up else 'down'}"]
    node = topology.nodes[end.node]
    if isinstance(node, Host) and up:
        lines += host_side_again(node, end.number, topology)
    in_namespace(pid, lambda: run_batch("ip", lines))
