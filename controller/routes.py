"""Unicast routes: from a topology to the entries of every switch.

Every switch forwards towards a host's leaf by all of its shortest paths over the links that are up;
where there are several, an ECMP group hashes flows over them. A leaf has a /32 for each of its own
hosts. In a tree of three tiers what goes up by all uplinks is one default route.

A member of the action selector is a port (its id is the port's number). Group 1 is all uplinks;
another set of ports has id 2 + index of the first leaf that is reached by it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Sequence

from controller import fabric
from controller.entities import (
    Action,
    DefaultAction,
    Entity,
    Group,
    GroupRef,
    Lpm,
    Member,
    MemberRef,
    entry,
)
from topo.clos import Direction, Switch, Topology

UPLINK_GROUP = 1
DROP_MEMBER = 1 << 16
"""Id of the member that drops, above all port numbers."""

SUBNET_BITS = 24
"""Prefix length of a leaf's subnet."""

Ports = tuple[int, ...]


def plan_routes(topology: Topology, without: Collection[str] = ()) -> dict[str, list[Entity]]:
    """Route entries of every switch, by its name.

    ``without``: names of links not to be used (failed ones). A host or leaf that cannot be reached
    then has no route. Raises InputError for a link that does not exist.
    """
    live = live_directions(topology, without)
    next_hops = _next_hops(topology, live)
    return {
        switch.name: _entries(topology, switch, live[switch.name], next_hops[switch.name])
        for switch in topology.switches
    }


def plan_salts(topology: Topology, seed: int) -> dict[str, list[Entity]]:
    """The salt of every switch's ECMP hash, drawn from ``seed`` and its device id."""
    return {
        switch.name: [
            DefaultAction(
                fabric.CONFIG_TABLE,
                Action.of(
                    fabric.SET_SALT,
                    salt=random.Random(f"salt {seed} {switch.device_id}").getrandbits(32),
                ),
            )
        ]
        for switch in topology.switches
    }


def live_directions(
    topology: Topology, without: Collection[str]
) -> dict[str, tuple[Direction, ...]]:
    """What leaves every switch by links that are up, in the order of the ports."""
    down = {topology.link(name).name for name in without}
    return {
        switch.name: tuple(
            direction
            for direction in topology.outward(switch.name)
            if direction.link.name not in down
        )
        for switch in topology.switches
    }


def _next_hops(
    topology: Topology, live: dict[str, tuple[Direction, ...]]
) -> dict[str, dict[str, Ports]]:
    """Per switch and destination leaf: the ports on shortest paths; breadth first per leaf."""
    hops: dict[str, dict[str, Ports]] = {switch.name: {} for switch in topology.switches}
    for leaf in topology.switches_of("leaf"):
        distance = {leaf.name: 0}
        waiting = deque([leaf.name])
        while waiting:
            here = waiting.popleft()
            for direction in live[here]:
                there = direction.destination.node
                if there in live and there not in distance:
                    distance[there] = distance[here] + 1
                    waiting.append(there)
        for name in distance:
            if name != leaf.name:
                hops[name][leaf.name] = tuple(
                    direction.source.number
                    for direction in live[name]
                    if distance.get(direction.destination.node) == distance[name] - 1
                )
    return hops


def _entries(
    topology: Topology,
    switch: Switch,
    live: Sequence[Direction],
    next_hops: dict[str, Ports],
) -> list[Entity]:
    uplinks = tuple(
        direction.source.number
        for direction in live
        if topology.nodes[direction.destination.node].level > switch.level
    )
    by_default = bool(uplinks) and any(one.level > 2 for one in topology.switches)
    members: dict[int, Member] = {}
    groups: dict[Ports, Group] = {}
    routes: list[Entity] = []

    def towards(ports: Ports, group_id: int) -> MemberRef | GroupRef:
        for direction in live:
            port = direction.source.number
            if port in ports and port not in members:
                members[port] = _member(topology, switch, direction)
        if len(ports) == 1:
            return MemberRef(ports[0])
        if ports not in groups:
            number = UPLINK_GROUP if ports == uplinks else group_id
            weighted = tuple((port, 1) for port in ports)
            groups[ports] = Group(fabric.ECMP, number, weighted)
        return GroupRef(groups[ports].group_id)

    def route(address: int, length: int, target: MemberRef | GroupRef) -> None:
        prefix = {fabric.DESTINATION: Lpm(address, length)} if length else {}
        routes.append(entry(fabric.ROUTE_TABLE, prefix, target))

    if by_default:
        route(0, 0, towards(uplinks, UPLINK_GROUP))
    for leaf in topology.switches_of("leaf"):
        hosts = topology.hosts_of(leaf.name)
        if not hosts:
            continue
        subnet = hosts[0].address >> (32 - SUBNET_BITS) << (32 - SUBNET_BITS)
        if leaf.name == switch.name:
            if by_default:  # an unknown address of the own subnet must not go up and come back
                members[DROP_MEMBER] = Member(fabric.ECMP, DROP_MEMBER, Action(fabric.DROP))
                route(subnet, SUBNET_BITS, MemberRef(DROP_MEMBER))
            for direction in live:
                host = topology.nodes[direction.destination.node]
                if host in hosts:
                    port = direction.source.number
                    route(topology.host(host.name).address, 32, towards((port,), 0))
            continue
        ports = next_hops.get(leaf.name, ())
        if ports and not (by_default and ports == uplinks):
            route(subnet, SUBNET_BITS, towards(ports, UPLINK_GROUP + 1 + leaf.index))
    return [*members.values(), *groups.values(), *routes]


def _member(topology: Topology, switch: Switch, direction: Direction) -> Member:
    port = direction.source.number
    peer = topology.node(direction.destination.node)
    action = Action.of(fabric.FORWARD, port=port, src_mac=switch.mac, dst_mac=peer.mac)
    return Member(fabric.ECMP, port, action)
