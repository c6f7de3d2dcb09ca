"""What links have carried, counted by others than the fabric's program, and what they have lost."""

from collections.abc import Iterable

from weft.controller import LinkCounters
from weft.topo.network import Direction, Topology
from weft.topo.worlds.world import World

Counts = dict[tuple[str, str], LinkCounters]
"""By (from, to)."""


def counted_elsewhere(topology: Topology, world: World, asked: Iterable[Direction]) -> Counts:
    """Return what switches' ports have counted of directions, and hosts' interfaces of those
    between two hosts."""
    asked = list(asked)
    if not asked:
        return {}
    ports = {
        (switch["name"], port["port"]): port
        for switch in world.switch_statistics()["switches"]
        for port in switch["ports"]
    }
    counted: Counts = {}
    for each in asked:
        source, destination = each.source, each.destination
        if topology.between_hosts(each.link):
            sent = world.sent(topology.station_of[source.node, source.number])
            counted[each.ends] = LinkCounters(*sent)
            continue
        found, way = ports.get((source.node, source.number)), "tx"
        if found is None:
            found, way = ports[destination.node, destination.number], "rx"
        counted[each.ends] = LinkCounters(found[f"{way}_packets"], found[f"{way}_bytes"])
    return counted


def add_losses(counted: Counts, topology: Topology, world: World) -> None:
    """Add what links have lost at random by themselves."""
    losing = {each.ends: each for each in topology.directions if world.loses(each.link)}
    lost = world.fault_losses() if losing else {}
    for ends, (packets, size_bytes) in lost.items():
        if ends in losing:  # what comes from a host to a switch is counted where it arrives
            each = losing[ends]
            unseen = each.tier == "host_up" and not topology.between_hosts(each.link)
            counted[ends] += LinkCounters(
                unseen * packets, unseen * size_bytes, packets, size_bytes
            )
