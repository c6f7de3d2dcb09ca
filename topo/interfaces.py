"""What ip and tc are told so that a topology's links come up: names and batch lines; nothing is run
here.

The ends of all links of switches lie in the run's namespace, called ``leaf0-eth1`` (switch, port);
a host's first interface is ``h0-eth0`` in its own namespace.
"""

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from weft.base.errors import InputError, refuse
from weft.topo.addresses import Interface, format_ipv4, format_ipv6, format_mac
from weft.topo.network import (
    Direction,
    Host,
    Link,
    Port,
    Topology,
)

LINK_MTU = 9000
"""The IP MTU of every veth, so that the largest RoCE packet and ordinary jumbo frames fit."""
MAX_LINK_MTU = 65535
"""The largest MTU that the kernel gives a veth."""
ETHERNET_BYTES = 14
ROCE_OVERHEAD_BYTES = 20 + 8 + 12 + 16 + 4 + 4
"""IPv4, UDP, BTH, RETH, immediate and ICRC: what a RoCE packet adds to its payload at most."""
PATH_MTUS = (256, 512, 1024, 2048, 4096)
"""The path MTUs of InfiniBand, in bytes of payload a packet."""

LinkKind = Literal["veth", "patch"]
"""How two switches are joined: by a pair of veths, or inside the process of the built-in switch."""
LINK_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)

INTERFACE_NAME_LENGTH = 15
"""What the kernel leaves for an interface's name (IFNAMSIZ without the closing zero)."""

HOST_QUEUE_BYTES = 64 * 1024 * 1024
"""Bound of the tbf on a host's interface: above all its sockets' send buffers together, so that a
sender waits for its socket and no packet is lost before it is on the wire."""

BURST_NS = 200_000
"""How late the kernel's timer may be without tbf falling behind the link's rate."""
FIRST_TABLE = 100
"""Above the numbers of the routing tables of a host's further interfaces."""
NETEM_PACKETS = 100_000
"""Bound of the netem on a host's interface, which takes packets: above what its sockets' send
buffers hold, as for tbf."""
HOST_BURST_BYTES = 32 * 1024
HOST_BURST_NS = 8_000_000
"""What may leave a host at once: at least so many bytes, and what its link carries in so long. A
host's transport paces by itself, in bursts, and catches up when it was late; tbf is for what other
programs send. With a smaller bucket, tbf would take the bursts apart again, by an interrupt of its
timer a frame, and frames that leave in such an interrupt overtake each other now and then on their
way through the kernel."""

SYSCTLS = (
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.igmp_max_memberships", "65535"),
    ("net.ipv4.igmp_qrv", "1"),
    ("net.ipv4.ip_forward", "0"),
)
"""Set in each namespace of a run before it has links: no IPv6 chatter, sources not second-guessed,
as many multicast groups as there are chains, their joins announced once."""
IPV6_SYSCTLS = (
    ("disable_ipv6", "0"),
    ("accept_dad", "0"),
    ("dad_transmits", "0"),
    ("accept_ra", "0"),
    ("router_solicitations", "0"),
    ("keep_addr_on_down", "1"),
)
"""Set at interfaces that have an IPv6 address: of what the kernel sends by itself, what a network
whose addresses are given has no use for is left out: duplicate address detection and router
solicitations. Reports of multicast groups (MLD) and neighbour discovery stay."""


def check_path_mtu(path_mtu: int) -> None:
    """Raise InputError unless InfiniBand has this path MTU, in bytes."""
    if path_mtu not in PATH_MTUS:
        raise InputError(
            f"MTU {path_mtu}: the MTU is the RoCE payload a packet, "
            f"one of {', '.join(map(str, PATH_MTUS))} bytes"
        )


def check_link_mtu(link_mtu: int, path_mtu: int) -> None:
    """Raise InputError unless a veth takes this IP MTU and RoCE packets of that size fit in it."""
    least = path_mtu + ROCE_OVERHEAD_BYTES
    if not least <= link_mtu <= MAX_LINK_MTU:
        raise InputError(
            f"link MTU {link_mtu}: RoCE packets of {path_mtu} bytes need at least {least}, "
            f"and a veth takes at most {MAX_LINK_MTU}"
        )


def is_patched(link: Link, topology: Topology, links: LinkKind) -> bool:
    """Return whether a link has no interfaces: with patch links, those between switches
    have none."""
    return links == "patch" and not isinstance(topology.node(link.a.node), Host)


def interface_name(port: Port, topology: Topology) -> str:
    """Return the name of the interface at a port. Raises InputError if it is longer than the kernel
    allows."""
    node = topology.node(port.node)
    host = isinstance(node, Host)
    name = f"{port.node}-eth{port.number - host}"
    if isinstance(node, Host):
        name = node.interfaces[port.number - 1].name or name
    refuse(
        len(name) > INTERFACE_NAME_LENGTH,
        f"interface name {name!r} is {len(name)} characters long and the kernel takes "
        f"{INTERFACE_NAME_LENGTH}: choose shorter names, a smaller network, or the simulated world",
    )
    return name


def burst_bytes(rate_bps: int, link_mtu: int) -> int:
    """Return the size of tbf's bucket: the largest frame, or, if that is more, what a late timer
    has to make up for.

    tbf drops what is larger than its bucket, and rounds the bucket to its own unit of time; so a
    sixteenth is added.
    """
    frame = link_mtu + ETHERNET_BYTES
    return max(frame + frame // 16, rate_bps * BURST_NS // 8_000_000_000)


def switch_side_links(
    topology: Topology, host_pids: dict[str, int], link_mtu: int, links: LinkKind = "veth"
) -> list[str]:
    """Return lines for ``ip -batch`` in the run's namespace that create every veth and set its ends
    there up.

    A veth to a host is created with its other end in the host's namespace, and one between two
    switches with both ends here; at no moment is an end anywhere else. Switch ends keep the MAC
    address that the kernel gives them: frames go to the switch's own address, so the kernel takes
    them for somebody else's and drops its copy at once, and only the switch process sees them.
    """
    lines = ["link set dev lo up"]
    queues = f"mtu {link_mtu} numtxqueues 1 numrxqueues 1"
    for link in (each for each in topology.links if not is_patched(each, topology, links)):
        a, b = (
            _veth_end(end, interface_name(end, topology), topology, host_pids)
            for end in (link.a, link.b)
        )
        lines.append(f"link add name {b} {queues} type veth peer name {a} {queues}")
        lines += [
            f"link set dev {interface_name(end, topology)} up"
            for end in (link.a, link.b)
            if topology.interface_at(end) is None
        ]
    return lines


def _veth_end(end: Port, name: str, topology: Topology, host_pids: dict[str, int]) -> str:
    """Return how ``ip link add`` is told of one end: a host's is in its namespace at once."""
    interface = topology.interface_at(end)
    if interface is None:
        return name
    return f"{name} address {format_mac(interface.mac)} netns {host_pids[end.node]}"


def ipv6_sysctls(host: Host, topology: Topology) -> list[tuple[str, str]]:
    """Return the parameters of a host's namespace that turn IPv6 on where it has an address."""
    names = [
        interface_name(Port(host.name, each.number), topology)
        for each in host.interfaces
        if each.ipv6 is not None
    ]
    return [
        (f"net/ipv6/conf/{name}/{parameter}", value)
        for name in (["lo", *names] if names else [])
        for parameter, value in IPV6_SYSCTLS
    ]


def host_side(host: Host, topology: Topology) -> list[str]:
    """Return lines for ``ip -batch`` in a host's namespace that set its addresses, its neighbours
    and its routes.

    The default route, of IPv4 and of IPv6, is that of the first interface that has a gateway. What
    is sent from the address of another one goes by that one's gateway (`ipv6_rules`).
    """
    lines = ["link set dev lo up"]
    routed: set[str] = set()
    for each in host.interfaces:
        name = interface_name(Port(host.name, each.number), topology)
        lines += _interface_side(each, name, topology)
        for kind, gateway, address in _gateways(each):
            route = f"default via {gateway} dev {name} src {address}"
            if kind in routed:
                table = FIRST_TABLE + each.number
                lines.append(f"route add {route} table {table}")
                if kind == "IPv4":
                    lines.append(f"rule add from {address} lookup {table}")
            else:
                lines.append(f"route add {route}")
            routed.add(kind)
    return lines


def ipv6_rules(host: Host) -> list[str]:
    """Return lines for ``ip -6 -batch``, for ``ip`` takes those of one kind alone: what is sent
    from the IPv6 address of an interface goes by its gateway, if the default route is another."""
    gateways = [each for each in host.interfaces if each.ipv6 is not None and each.ipv6.gateway]
    return [f"rule add from {each.ip6} lookup {FIRST_TABLE + each.number}" for each in gateways[1:]]


def host_side_again(host: Host, number: int, topology: Topology) -> list[str]:
    """Return lines for ``ip -batch`` that bring back what a host's interface has lost by having
    been down: its routes."""
    name = interface_name(Port(host.name, number), topology)
    return [
        line.replace(" add ", " replace ", 1)
        for line in host_side(host, topology)
        if f" dev {name} " in f"{line} " and line.startswith(("address", "neighbour", "route"))
    ]


def _gateways(each: Interface) -> Iterator[tuple[str, str, str]]:
    """Yield, of IPv4 and of IPv6, by which address an interface sends to others, and its own."""
    if each.gateway is not None:
        yield "IPv4", format_ipv4(each.gateway), each.ip
    if each.ipv6 is not None and each.ipv6.gateway is not None:
        yield "IPv6", format_ipv6(each.ipv6.gateway), each.ip6


def _interface_side(each: Interface, name: str, topology: Topology) -> list[str]:
    """Return the lines that set one interface up.

    Its subnet is on the link if others are found by ARP. Else every packet follows the route to the
    gateway, whose MAC address, the switch's, is given, even to hosts of the same switch and to
    multicast groups. Nothing is left to ARP. In a Clos the gateway's MAC address is always given,
    since no program has to answer for it.
    """
    address = f"address add {each.ip}/{each.prefix_bits} dev {name}"
    up = f"link set dev {name} up"
    if each.gateway is None or (each.on_link and not topology.clos):
        lines = [address] if each.address else []
        if each.ipv6 is not None:
            lines.append(f"address add {each.ip6}/{each.ipv6.prefix_bits} dev {name} nodad")
        return [*lines, up]
    gateway = format_ipv4(each.gateway)
    switch_mac = format_mac(topology.switch(each.switch).mac)
    neighbour = f"neighbour add {gateway} lladdr {switch_mac} dev {name} nud permanent"
    if each.on_link:
        return [address, up, neighbour]
    return [
        f"{address} noprefixroute",
        up,
        neighbour,
        f"route add {gateway}/32 dev {name} scope link src {each.ip}",
    ]


def host_burst_bytes(rate_bps: int, link_mtu: int) -> int:
    """Return the size of the bucket of a host's tbf."""
    at_once = rate_bps * HOST_BURST_NS // 8_000_000_000
    return max(burst_bytes(rate_bps, link_mtu), HOST_BURST_BYTES, at_once)


def shaper(
    direction: Direction,
    topology: Topology,
    link_mtu: int,
    limit_bytes: int,
    bucket: Callable[[int, int], int] = burst_bytes,
) -> str:
    """Return the line for ``tc -batch`` that shapes a direction at the interface that it leaves.

    The rate counts Ethernet frames without FCS, as the kernel's queues do by themselves.
    """
    interface = interface_name(direction.source, topology)
    rate_bps = direction.link.rate_bps
    return (
        f"qdisc replace dev {interface} root handle 1: tbf rate {rate_bps}bit "
        f"burst {bucket(rate_bps, link_mtu)}b limit {limit_bytes}b"
    )


def host_shaper(direction: Direction, topology: Topology, link_mtu: int) -> str:
    """Return the ``tc -batch`` line that shapes what a host sends, now or from now on: tbf for the
    rate alone, or netem, where no switch keeps the link's delay, jitter and loss."""
    link = direction.link
    if not needs_netem(link, topology):
        return shaper(direction, topology, link_mtu, HOST_QUEUE_BYTES, host_burst_bytes)
    # With a rate, netem lets no packet overtake another, whatever their delays.
    return (
        f"qdisc replace dev {interface_name(direction.source, topology)} root handle 2: netem "
        f"limit {NETEM_PACKETS} delay {link.delay_ns / 1000}us {link.jitter_ns / 1000}us "
        f"loss {100 * link.loss:.7g}% rate {link.rate_bps}bit"
    )


def needs_netem(link: Link, topology: Topology) -> bool:
    """Return whether a link has what its hosts have to keep themselves, by the kernel's netem."""
    return topology.between_hosts(link) and bool(link.delay_ns or link.jitter_ns or link.loss)


def switch_shapers(topology: Topology, link_mtu: int) -> list[str]:
    """Return the ``tc -batch`` lines by which tbf limits rate and queue behind a switch without
    queues of its own."""
    return [
        shaper(direction, topology, link_mtu, direction.link.queue_bytes)
        for switch in topology.switches
        for direction in topology.outward(switch.name)
    ]


def switch_interfaces(topology: Topology, links: LinkKind = "veth") -> Iterator[tuple[Port, str]]:
    """Return every switch port that has an interface, with the interface's name, by switch and
    port."""
    for switch in topology.switches:
        for direction in topology.outward(switch.name):
            if not is_patched(direction.link, topology, links):
                yield direction.source, interface_name(direction.source, topology)
