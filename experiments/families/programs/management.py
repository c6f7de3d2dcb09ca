"""A management network: a link from each host to a bridge in the run's own namespace.

The rendezvous of a program (torch's TCPStore) goes by it, and so does not load the network under
test. It leads nowhere else: the bridge has no address and no way out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv4Network

from weft.base.errors import InputError, refuse
from weft.topo.network import Topology
from weft.topo.worlds.emulated.namespaces import in_namespace, read_counters, run_batch
from weft.topo.worlds.emulated.world import EmulatedWorld

CANDIDATES = ("198.18.0.0/16", "198.19.0.0/16", "172.30.0.0/16", "192.168.0.0/16")
"""Networks to take addresses from, the first that no host of the fabric is in (198.18.0.0/15 is for
tests of networks, RFC 2544)."""
INTERFACE = "mgmt0"
"""The name of a host's interface in it."""
BRIDGE = "mgmt"


class Management:
    """A management network that is up."""

    def __init__(self, world: EmulatedWorld, network: IPv4Network) -> None:
        self._world = world
        self._network = network

    def address(self, rank: int) -> str:
        """Return the IPv4 address of a host, by its rank in the topology."""
        return str(self._network[rank + 1])

    def carried_bytes(self) -> int:
        """Return the bytes of Ethernet frames that hosts have sent into it."""
        hosts = self._world.topology.hosts
        return sum(
            read_counters(self._world.host_pid(host.rank))[INTERFACE]["tx_bytes"] for host in hosts
        )


@contextmanager
def management_network(world: EmulatedWorld) -> Iterator[Management]:
    """Yield a management network of a world that is up; its links are gone after the block.

    Raises:
        InputError: all networks that it could use are in use.
        MachineError: the kernel makes no bridge.
    """
    hosts = world.topology.hosts
    found = Management(world, free_network(world.topology))
    run = world.namespace_pid
    lines = [f"link add {BRIDGE} type bridge", f"link set dev {BRIDGE} up"]
    for host in hosts:
        pid = world.host_pid(host.rank)
        lines += [
            f"link add {BRIDGE}{host.rank} type veth peer name {INTERFACE} netns {pid}",
            f"link set dev {BRIDGE}{host.rank} master {BRIDGE} up",
        ]
    try:
        in_namespace(run, partial(run_batch, "ip", lines))
        for host in hosts:
            own = [
                f"addr add {found.address(host.rank)}/16 dev {INTERFACE}",
                f"link set dev {INTERFACE} up",
                "link set dev lo up",
            ]
            in_namespace(world.host_pid(host.rank), partial(run_batch, "ip", own))
        yield found
    finally:
        _take_down(run, len(hosts))


def _take_down(run: int, hosts: int) -> None:
    """Remove what there is of it; a namespace that is gone has taken its part along."""

    def remove() -> None:
        from weft.base.errors import WeftError

        for name in (*(f"{BRIDGE}{rank}" for rank in range(hosts)), BRIDGE):
            try:
                run_batch("ip", [f"link del dev {name}"])
            except WeftError:
                continue

    try:
        in_namespace(run, remove)
    except OSError:
        return


def free_network(topology: Topology) -> IPv4Network:
    """Return the first candidate in which no interface of a host is. Raises InputError if there is
    none."""
    taken = [
        IPv4Network(f"{each.ip}/{each.prefix_bits}", strict=False)
        for host in topology.hosts
        for each in host.interfaces
    ]
    for candidate in map(IPv4Network, CANDIDATES):
        if not any(candidate.overlaps(each) for each in taken):
            refuse(
                len(topology.hosts) > candidate.num_addresses - 2,
                f"{len(topology.hosts)} hosts have no place in the management network {candidate}",
            )
            return candidate
    raise InputError(
        "hosts of the fabric are in each of the networks that the management network could use: "
        f"{', '.join(CANDIDATES)}; leave one of them free"
    )
