"""The kernel's netem, by which hosts keep the delay, the jitter and the loss of links that have no
switch: whether this kernel has it, and what it has lost."""

from collections.abc import Iterable, Mapping
from functools import cache

from weft.base.errors import MachineError, RunError
from weft.base.libc import CLONE_NEWNET, check_call, libc
from weft.topo.interfaces import interface_name, needs_netem
from weft.topo.network import Direction, Link, Topology
from weft.topo.worlds.emulated.namespaces import (
    in_namespace,
    in_thread,
    queue_drops,
    read_counters,
    run_batch,
)

PROBE = "qdisc add dev lo root netem delay 1ms"


@cache
def netem_lacking() -> str:
    """Return why this kernel has no netem, or nothing if it does: it is tried, in a namespace that
    ends at once."""

    def attempt() -> None:
        check_call(libc.unshare(CLONE_NEWNET), "a namespace to try it in: ")
        run_batch("tc", [PROBE])

    try:
        in_thread(attempt)
    except (OSError, MachineError, RunError) as error:
        return str(error)
    return ""


def check_netem(links: Iterable[Link], topology: Topology) -> None:
    """Raise MachineError, which names the link, if one needs netem and this kernel has none."""
    for link in links:
        if needs_netem(link, topology) and (lacking := netem_lacking()):
            raise MachineError(
                f"link {link.name}: both its ends are hosts, which keep delay, jitter and loss by "
                f"the kernel's netem, and this kernel has none ({lacking}): put a switch between, "
                "leave them out, or use the simulated world; the rate can be changed"
            )


def lost_between_hosts(
    directions: Iterable[Direction], topology: Topology, namespaces: Mapping[str, int]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Return what directions between two hosts have lost, by their ends: packets, and 0 bytes,
    which netem does not count.

    Args:
        namespaces: a process in the namespace of each host.
    """
    found = {}
    for each in directions:
        if topology.between_hosts(each.link):
            drops = in_namespace(namespaces[each.source.node], lambda: queue_drops("netem"))
            found[each.ends] = drops.get(interface_name(each.source, topology), 0), 0
    return found


def sent_by(pid: int, interface: str) -> tuple[int, int]:
    """Return the packets and bytes that an interface in the namespace of a process has sent; the
    packets with those that netem has lost there."""
    counted = read_counters(pid)[interface]
    lost = in_namespace(pid, lambda: queue_drops("netem")).get(interface, 0)
    return counted["tx_packets"] + lost, counted["tx_bytes"]
