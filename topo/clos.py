"""The Clos shapes: leaf-spine, a single switch, pods of leaves under core switches, and fat trees
of two or three tiers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.base.arguments import whole
from weft.base.errors import refuse
from weft.topo.addresses import Interface, format_ipv4, format_mac, host_address
from weft.topo.figures import check_link_figures
from weft.topo.network import (
    DEFAULT_DELAY_NS,
    DEFAULT_QUEUE_BYTES,
    DEFAULT_RATE_BPS,
    HOST_PORT,
    LEVELS,
    LINK_TIERS,
    MAX_HOSTS_PER_LEAF,
    MAX_PORTS,
    MAX_SWITCHES,
    Direction,
    Host,
    Link,
    LinkTier,
    Node,
    Port,
    Switch,
    Tier,
    Topology,
)

__all__ = [
    "DEFAULT_DELAY_NS",
    "DEFAULT_QUEUE_BYTES",
    "DEFAULT_RATE_BPS",
    "LINK_TIERS",
    "Direction",
    "Host",
    "Link",
    "LinkTier",
    "Node",
    "Port",
    "Switch",
    "Tier",
    "Topology",
    "fat_tree",
    "format_ipv4",
    "format_mac",
    "leaf_spine",
    "pods",
    "single",
]


@dataclass
class _Builder:
    """A Clos in the making: nodes and links, with ports, ranks, device ids and addresses as they
    come."""

    rate_bps: int
    fabric_rate_bps: int | None
    delay_ns: int
    queue_bytes: int
    core_rate_bps: int | None = None
    hosts: list[Host] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    leaves: int = 0

    def __post_init__(self) -> None:
        for rate_bps in (self.rate_bps, self.fabric_rate_bps, self.core_rate_bps):
            if rate_bps is not None:
                check_link_figures(rate_bps, self.delay_ns, self.queue_bytes)

    def add_switch(self, tier: Tier, index: int, pod: int | None = None) -> Switch:
        device_id = len(self.switches) + 1
        switch = Switch(f"{tier}{index}", tier, index, device_id, LEVELS[tier], pod)
        self.switches.append(switch)
        self.used[switch.name] = 0
        return switch

    def add_leaf(self, hosts: int, *, uplinks: int = 0, pod: int | None = None) -> Switch:
        """Add a leaf with its hosts on ports 1 to ``hosts``, and return it."""
        _check_size("hosts a leaf", hosts, MAX_HOSTS_PER_LEAF, "its /24 holds no more addresses")
        _check_size("ports a leaf", hosts + uplinks, MAX_PORTS, "v1model has no more port numbers")
        leaf = self.add_switch("leaf", self.leaves, pod)
        gateway = host_address(leaf.index, MAX_HOSTS_PER_LEAF)
        for position in range(hosts):
            rank = len(self.hosts)
            address = host_address(leaf.index, position)
            mac = 0x0200 << 32 | address
            interface = Interface(HOST_PORT, address, mac, leaf.name, gateway)
            host = Host(f"h{rank}", rank, (interface,))
            self.hosts.append(host)
            self._link(Port(host.name, HOST_PORT), self._next_port(leaf), self.rate_bps)
        self.leaves += 1
        return leaf

    def join(self, below: Sequence[Switch], above: Sequence[Switch]) -> None:
        """Link every switch of ``below`` with every one of ``above``."""
        rates_bps = [self.fabric_rate_bps, self.rate_bps]
        if above[0].tier == "core":
            rates_bps.insert(0, self.core_rate_bps)
        rate_bps = next(each for each in rates_bps if each is not None)
        for lower in below:
            for upper in above:
                self._link(self._next_port(lower), self._next_port(upper), rate_bps)

    def topology(self, name: str) -> Topology:
        return Topology(name, tuple(self.hosts), tuple(self.switches), tuple(self.links), clos=True)

    def _next_port(self, switch: Switch) -> Port:
        self.used[switch.name] += 1
        return Port(switch.name, self.used[switch.name])

    def _link(self, a: Port, b: Port, rate_bps: int) -> None:
        self.links.append(Link(a, b, rate_bps, self.delay_ns, self.queue_bytes))


def leaf_spine(
    leaves: int = 4,
    spines: int = 2,
    hosts_per_leaf: int = 2,
    rate_bps: int = DEFAULT_RATE_BPS,
    *,
    fabric_rate_bps: int | None = None,
    delay_ns: int = DEFAULT_DELAY_NS,
    queue_bytes: int = DEFAULT_QUEUE_BYTES,
) -> Topology:
    """Return a network whose leaves are each linked to every spine and have ``hosts_per_leaf``
    hosts below them.

    ``rate_bps`` is the rate of all links, or of the host links alone where ``fabric_rate_bps`` is
    given. Raises InputError for counts below 1, more hosts than a leaf's subnet has addresses, more
    links than a switch has ports, and impossible rates, delays or queue bounds.
    """
    build = _Builder(rate_bps, fabric_rate_bps, delay_ns, queue_bytes)
    return _two_tiers("leaf-spine", build, leaves, spines, hosts_per_leaf)


def single(
    hosts: int,
    rate_bps: int = DEFAULT_RATE_BPS,
    *,
    delay_ns: int = DEFAULT_DELAY_NS,
    queue_bytes: int = DEFAULT_QUEUE_BYTES,
) -> Topology:
    """Return a network with all hosts on one switch, ``leaf0``. Raises InputError as
    :func:`leaf_spine` does."""
    _at_least_one("hosts", hosts)
    build = _Builder(rate_bps, None, delay_ns, queue_bytes)
    build.add_leaf(hosts)
    return build.topology("single")


def fat_tree(
    k: int,
    tiers: int = 3,
    rate_bps: int = DEFAULT_RATE_BPS,
    *,
    fabric_rate_bps: int | None = None,
    core_rate_bps: int | None = None,
    delay_ns: int = DEFAULT_DELAY_NS,
    queue_bytes: int = DEFAULT_QUEUE_BYTES,
) -> Topology:
    """Return a fat tree of switches with ``k`` ports, without oversubscription.

    With two tiers it has k leaves, k/2 spines, and k/2 hosts a leaf (k*k/2 hosts). With three tiers
    it is the k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008, section 3): k pods of
    k/2 leaves and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts; aggregation switch j of
    every pod is linked to cores j*k/2 to (j+1)*k/2 - 1.
    """
    whole("k", k, "4")
    whole("tiers", tiers, "3")
    refuse(
        k < 2 or k % 2,
        f"fat tree of {k}-port switches: k has to be even and at least 2",
    )
    half = k // 2
    if tiers == 2:
        build = _Builder(rate_bps, fabric_rate_bps, delay_ns, queue_bytes)
        return _two_tiers("fat-tree", build, k, half, half)
    refuse(
        tiers != 3,
        f"fat tree of {tiers} tiers: a fat tree here has 2 or 3 tiers",
    )
    build = _Builder(rate_bps, fabric_rate_bps, delay_ns, queue_bytes, core_rate_bps)
    return _three_tiers("fat-tree", build, k, half, half, half, half)


def pods(
    pods: int = 2,
    leaves: int = 2,
    spines: int = 2,
    uplinks: int = 2,
    hosts_per_leaf: int = 2,
    rate_bps: int = DEFAULT_RATE_BPS,
    *,
    fabric_rate_bps: int | None = None,
    core_rate_bps: int | None = None,
    delay_ns: int = DEFAULT_DELAY_NS,
    queue_bytes: int = DEFAULT_QUEUE_BYTES,
) -> Topology:
    """Return a Clos of three tiers with pods of any size.

    A pod is a leaf-spine: ``leaves`` leaves with ``hosts_per_leaf`` hosts each, and ``spines``
    aggregation switches, which are linked to every leaf of the pod. Above all pods there are
    ``spines * uplinks`` core switches: aggregation switch j of every pod is linked to cores
    j*uplinks to (j+1)*uplinks - 1. A fat tree of switches with k ports has k pods, and k/2 of
    everything else.

    ``rate_bps`` is the rate of the host links, ``fabric_rate_bps`` of those of leaves to
    aggregation switches, and ``core_rate_bps`` of those above; by default it is that of the links
    below. Raises InputError as :func:`leaf_spine` does.
    """
    sizes = {
        "pods": pods, "leaves a pod": leaves, "aggregation switches a pod": spines,
        "uplinks of an aggregation switch": uplinks, "hosts a leaf": hosts_per_leaf,
    }  # fmt: skip
    for what, number in sizes.items():
        _at_least_one(what, number)
    build = _Builder(rate_bps, fabric_rate_bps, delay_ns, queue_bytes, core_rate_bps)
    return _three_tiers("pods", build, pods, leaves, spines, uplinks, hosts_per_leaf)


def _three_tiers(
    name: str, build: _Builder, pods: int, leaves: int, spines: int, uplinks: int, hosts: int
) -> Topology:
    _check_size("hosts a leaf", hosts, MAX_HOSTS_PER_LEAF, "a leaf's /24 holds no more addresses")
    ports = max(hosts + spines, leaves + uplinks, pods)
    _check_size("ports a switch", ports, MAX_PORTS, "v1model has no more port numbers")
    switches = pods * (leaves + spines) + spines * uplinks
    _check_size("switches", switches, MAX_SWITCHES, "a MAC address holds 16 bits")
    below = [build.add_leaf(hosts, pod=index // leaves) for index in range(pods * leaves)]
    aggs = [build.add_switch("agg", index, pod=index // spines) for index in range(pods * spines)]
    cores = [build.add_switch("core", index) for index in range(spines * uplinks)]
    for pod in range(pods):
        members = slice(pod * spines, (pod + 1) * spines)
        build.join(below[pod * leaves : (pod + 1) * leaves], aggs[members])
    for position in range(spines):
        build.join(aggs[position::spines], cores[position * uplinks : (position + 1) * uplinks])
    return build.topology(name)


def _two_tiers(
    name: str, build: _Builder, leaves: int, spines: int, hosts_per_leaf: int
) -> Topology:
    for what, number in (("leaves", leaves), ("spines", spines), ("hosts a leaf", hosts_per_leaf)):
        _at_least_one(what, number)
    _check_size("leaves", leaves, MAX_PORTS, "a spine has one port for each")
    below = [build.add_leaf(hosts_per_leaf, uplinks=spines) for _ in range(leaves)]
    build.join(below, [build.add_switch("spine", index) for index in range(spines)])
    return build.topology(name)


def _at_least_one(what: str, number: int) -> None:
    whole(what, number, "2")
    refuse(
        number < 1,
        f"{number} {what}: at least 1 is needed",
    )


def _check_size(what: str, number: int, limit: int, why: str) -> None:
    refuse(
        number > limit,
        f"{number} {what}: at most {limit}, as {why}",
    )
