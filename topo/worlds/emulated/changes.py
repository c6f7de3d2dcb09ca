"""Links of the emulated world that go on with other figures: the switches see to all of them but
the rate at which a host sends, which is its interface's tbf's, and links without a switch."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from weft.topo.interfaces import host_shaper
from weft.topo.network import Direction, Link, Topology
from weft.topo.worlds.emulated.namespaces import in_namespace, run_batch
from weft.topo.worlds.emulated.netem import check_netem

CERTAIN = 1 << 32
"""What the switch process takes for a probability of 1."""


def change_link(
    tell: Callable[[str], None],
    topology: Topology,
    before: Link,
    after: Link,
    link_mtu: int,
    namespaces: Mapping[str, int],
) -> None:
    """Let a link go on with other figures in both directions.

    Args:
        tell: asks the switch process for something.
        namespaces: a process in the namespace of each host.

    Raises:
        MachineError: the hosts would need netem; nothing has changed.
    """
    check_netem([after], topology)
    switches = {switch.name for switch in topology.switches}
    directions = [topology.direction(*ends) for ends in (after.ends, after.ends[::-1])]
    if not topology.between_hosts(after):
        tell(" ".join(["figures", *(_request(each, after, switches) for each in directions)]))
    if topology.between_hosts(after) or before.rate_bps != after.rate_bps:
        for each in (one for one in directions if one.source.node not in switches):
            line = host_shaper(replace(each, link=after), topology, link_mtu)
            in_namespace(namespaces[each.source.node], partial(run_batch, "tc", [line]))


def rates_request(topology: Topology, rates_bps: Mapping[tuple[str, str], int]) -> str:
    """Return what the switch process is asked for, to let directions, given by their ends, go on at
    other rates."""
    rates = (
        f"{source} {topology.direction(source, target).source.number} {rate_bps}"
        for (source, target), rate_bps in rates_bps.items()
    )
    return " ".join(["rates", *rates])


def _request(direction: Direction, link: Link, switches: set[str]) -> str:
    """Return what the switch process is asked for a direction of a link; what a host sends is
    delayed, and lost, where it comes in."""
    leaves = direction.source.node in switches
    port = direction.source if leaves else direction.destination
    rate_bps, way = (link.rate_bps, "out") if leaves else (0, "in")
    loss = round(link.loss * CERTAIN)
    return f"{port.node} {port.number} {way} {rate_bps} {link.delay_ns} {link.jitter_ns} {loss}"
