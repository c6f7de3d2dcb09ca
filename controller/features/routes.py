"""Unicast routes: this module plans the routes of every switch of a topology.

Every switch forwards towards a host's switch (its leaf, in a Clos) by all of its shortest paths
over the links that are up; where there are several, an ECMP group hashes flows over them. A switch
has a /32 for each of its own hosts. In a Clos of three tiers one default route covers what goes up
by all uplinks.

With routes by destination, the switch takes one of these ways for each host instead, as D-Mod-K
does (Zahavi, "Fat-tree routing and node ordering providing contention free traffic for MPI global
collectives", 2012): of u uplinks, the leaf takes uplink d mod u for host d of the network, and a
switch above it takes uplink (d div u) mod its own number. All ways to a host then come down from
one top switch, and the links that lead down to a leaf or pod have equal shares of its hosts: where
there is no oversubscription, none carries more than one host receives, whoever sends.

Where packets are sprayed, a route that has several shortest paths names a member that says over
which set of ports (`SwitchSpraying`). Pinned paths (`weft.controller.features.pinned_paths`) come
before all routes; flows that are not pinned go by ECMP.

A member of the action selector is a port (its id is the port's number). Group 1 and set 1 hold all
uplinks of a Clos; another set of ports has id 2 + the index of the first switch with hosts that is
reached by it.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from weft.base.errors import InputError
from weft.controller.entities import (
    Action,
    DefaultAction,
    Entity,
    PlannedGroup,
    PlannedMember,
    entry,
)
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.plan import merge
from weft.controller.program_names import ProgramNames
from weft.controller.selector_hash import salt_of
from weft.switch.engine.control.entities import Exact, GroupTarget, Lpm, MemberTarget
from weft.topo.network import Direction, Switch, Topology
from weft.topo.reach import Reach

UPLINK_GROUP = 1
DROP_MEMBER = 1 << 16
"""Id of the member that drops, above all port numbers."""

Ports = tuple[int, ...]
Target = MemberTarget | GroupTarget

Paths = Literal["ecmp", "destination", "spray-random", "spray-round-robin", "pinned"]
"""How flows choose among shortest paths: by their hash; by their destination; each packet anew, at
random or in turn; or as pinned, and by their hash if they are not."""

PATHS: tuple[Paths, ...] = get_args(Paths)

RoutePlanner = Callable[[Planning], Mapping[str, Sequence[Entity]]]
"""Gives the route entries of every switch, by its name."""


class Routes(Feature):
    """Routes of unicast packets. Callers say how flows choose among shortest paths (`Paths`), or
    give a function that plans the routes (`RoutePlanner`); the default is ECMP."""

    name = "routes"

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        return demand.plan_routes

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        names, topology, seed = planning.names, planning.topology, planning.seed
        paths: Paths | RoutePlanner = planning.wants.get(self.name, "ecmp")
        routes = paths(planning) if callable(paths) else plan_routes(planning, paths)
        return Planned(merge(plan_salts(names, topology, seed), routes))


def plan_routes(planning: Planning, paths: Paths = "ecmp") -> dict[str, list[Entity]]:
    """Return the route entries, by name, of every switch that runs the fabric's program.

    A host that cannot be reached over the links that are up has no route. The seed draws the orders
    in which packets are sprayed. Raises InputError for a link that does not exist, and for more
    routes or sets of ports than a switch holds.
    """
    names, topology, reach = planning.names, planning.topology, planning.reach
    next_hops = _next_hops(reach)
    switches = [switch for switch in topology.switches if not switch.program]
    if paths == "destination":
        divisors = _divisors(topology)
        return {
            switch.name: _entries_by_destination(
                names,
                topology,
                switch,
                reach.live[switch.name],
                next_hops[switch.name],
                divisors.get(switch.level, 1),
            )
            for switch in switches
        }
    in_turn = paths == "spray-round-robin"
    routes: dict[tuple[Lpm | None, Target], Entity] = {}
    sprayed = in_turn or paths == "spray-random"
    return {
        switch.name: _entries(
            names,
            topology,
            switch,
            reach.live[switch.name],
            next_hops[switch.name],
            SwitchSpraying(names, in_turn, planning.seed, switch.device_id) if sprayed else None,
            routes,
        )
        for switch in switches
    }


def plan_salts(names: ProgramNames, topology: Topology, seed: int) -> dict[str, list[Entity]]:
    """Return the salt of every switch's ECMP hash, drawn from ``seed`` and the switch's device id.

    Aggregation switches choose after a leaf has, so they make another salt of it for each flow. So
    do the switches without hosts of a network that is no Clos.
    """
    return {
        switch.name: [
            DefaultAction(
                names.name("switch_config"),
                Action.of(
                    names.name("set_salt_by_flow")
                    if switch.tier == "agg" or (switch.tier == "own" and switch.level > 1)
                    else names.name("set_salt"),
                    salt=salt_of(seed, switch.device_id),
                ),
            )
        ]
        for switch in topology.switches
        if not switch.program
    }


def _next_hops(reach: Reach) -> dict[str, dict[str, Ports]]:
    """Return, by switch and destination's switch, the ports on shortest paths."""
    hops: dict[str, dict[str, Ports]] = {switch.name: {} for switch in reach.topology.switches}
    for end in reach.topology.edge:
        for name, ports in reach.ports(end.name).items():
            hops[name][end.name] = ports
    return hops


def _entries(
    names: ProgramNames,
    topology: Topology,
    switch: Switch,
    live: Sequence[Direction],
    next_hops: dict[str, Ports],
    spraying: "SwitchSpraying | None",
    known: dict[tuple[Lpm | None, Target], Entity],
) -> list[Entity]:
    """Return what a switch holds. Routes that other switches have, too, are the same objects
    (``known``), which messages and tables are made of once."""
    uplinks = tuple(
        direction.source.number
        for direction in live
        if topology.nodes[direction.destination.node].level > switch.level
    )
    by_default = topology.clos and bool(uplinks) and any(one.level > 2 for one in topology.switches)
    ways = {d.source.number: _member(names, topology, switch, d) for d in live}
    members: dict[int, PlannedMember] = {}
    groups: dict[Ports, PlannedGroup] = {}
    sprayed: dict[Ports, PlannedMember] = {}
    places: list[Entity] = []
    routes: list[Entity] = []

    def towards(ports: Ports, group_id: int) -> Target:
        number = UPLINK_GROUP if ports == uplinks else group_id
        if spraying is not None and len(ports) > 1:
            if ports not in sprayed:
                sprayed[ports], found = spraying.entities(
                    number, [ways[one].action for one in ports]
                )
                places.extend(found)
            return MemberTarget(sprayed[ports].member_id)
        for port in ports:
            members.setdefault(port, ways[port])
        if len(ports) == 1:
            return MemberTarget(ports[0])
        if ports not in groups:
            members_of = tuple((port, 1) for port in ports)
            groups[ports] = PlannedGroup(names.name("ecmp"), number, members_of)
        return GroupTarget(groups[ports].group_id)

    def route(address: int, length: int, target: Target) -> None:
        prefix = Lpm(address, length) if length else None
        if (prefix, target) not in known:
            match = {names.name("dst_addr"): prefix} if prefix else {}
            known[prefix, target] = entry(names.name("ipv4_route"), match, target)
        routes.append(known[prefix, target])

    if by_default:
        route(0, 0, towards(uplinks, UPLINK_GROUP))
    for end in topology.edge:
        subnets = topology.subnets[end.name]
        if end.name == switch.name:
            if by_default:  # an unknown address of the own subnet must not go up and come back
                members[DROP_MEMBER] = PlannedMember(
                    names.name("ecmp"), DROP_MEMBER, Action(names.name("forwarding.drop"))
                )
                for subnet in subnets:
                    route(subnet.address, subnet.bits, MemberTarget(DROP_MEMBER))
            for address, port in _own_addresses(topology, live):
                route(address, 32, towards((port,), 0))
            continue
        ports = next_hops.get(end.name, ())
        if ports and not (by_default and ports == uplinks):
            for subnet in subnets:
                group = UPLINK_GROUP + 1 + end.index
                route(subnet.address, subnet.bits, towards(ports, group))
    if len(places) > names.size("spray_port"):
        raise InputError(
            f"{switch.name}: {len(places)} places to spray over, and a switch holds "
            f"{names.size('spray_port')}: choose paths ecmp, or a smaller network"
        )
    _check_routes(names, switch, routes)
    return [*members.values(), *groups.values(), *sprayed.values(), *places, *routes]


def _entries_by_destination(
    names: ProgramNames,
    topology: Topology,
    switch: Switch,
    live: Sequence[Direction],
    next_hops: dict[str, Ports],
    divisor: int,
) -> list[Entity]:
    """Return a route for each host, or one for a subnet where one port reaches all of it."""
    uplinks = _uplinks(topology, switch) if topology.clos else ()
    members = {
        direction.source.number: _member(names, topology, switch, direction) for direction in live
    }
    used: set[int] = set()
    routes: list[Entity] = []

    def route(address: int, length: int, port: int) -> None:
        used.add(port)
        prefix = {names.name("dst_addr"): Lpm(address, length)}
        routes.append(entry(names.name("ipv4_route"), prefix, MemberTarget(port)))

    for end in topology.edge:
        ports = next_hops.get(end.name, ())
        if end.name == switch.name:
            for address, port in _own_addresses(topology, live):
                route(address, 32, port)
            continue
        for subnet in topology.subnets[end.name] if ports else ():
            chosen = [_choose(number // divisor, ports, uplinks) for number, _ in subnet.members]
            if len(set(chosen)) == 1:
                route(subnet.address, subnet.bits, chosen[0])
                continue
            for (_, address), port in zip(subnet.members, chosen, strict=True):
                route(address, 32, port)
    _check_routes(names, switch, routes, " by destination")
    return [*(members[port] for port in sorted(used)), *routes]


def _check_routes(
    names: ProgramNames, switch: Switch, routes: Sequence[Entity], kind: str = ""
) -> None:
    if len(routes) > names.size("ipv4_route"):
        raise InputError(
            f"{switch.name}: {len(routes)} routes{kind}, and a switch holds "
            f"{names.size('ipv4_route')}: choose paths ecmp, or a smaller network"
        )


def _divisors(topology: Topology) -> dict[int, int]:
    """Return, by level of switches of a Clos, how many ways lead up to that level from a leaf."""
    if not topology.clos:
        return {}
    divisors = {1: 1}
    for switch in sorted(topology.switches, key=lambda one: one.level):
        uplinks = len(_uplinks(topology, switch))
        divisors.setdefault(switch.level + 1, divisors[switch.level] * max(1, uplinks))
    return divisors


def _uplinks(topology: Topology, switch: Switch) -> Ports:
    """Return all of a switch's ports that lead up, also those whose links are down."""
    return tuple(
        direction.source.number
        for direction in topology.outward(switch.name)
        if topology.nodes[direction.destination.node].level > switch.level
    )


def _choose(number: int, ports: Ports, uplinks: Ports) -> int:
    """Return the one of ``ports`` that leads to the destination of that number.

    Destinations take the uplinks in turn; those whose uplink is not among ``ports`` take ``ports``
    in turn, so that the others stay where they are.
    """
    if not uplinks:
        return ports[number % len(ports)]
    turn, place = divmod(number, len(uplinks))
    if uplinks[place] in ports:
        return uplinks[place]
    missing = [port for port in uplinks if port not in ports]
    return ports[(turn * len(missing) + missing.index(uplinks[place])) % len(ports)]


def _own_addresses(topology: Topology, live: Sequence[Direction]) -> Iterator[tuple[int, int]]:
    """Return the addresses of the interfaces that links lead to, and the ports."""
    for direction in live:
        interface = topology.interface_at(direction.destination)
        if interface is not None:
            yield interface.address, direction.source.number


def _member(
    names: ProgramNames, topology: Topology, switch: Switch, direction: Direction
) -> PlannedMember:
    port = direction.source.number
    interface = topology.interface_at(direction.destination)
    peer = interface or topology.switch(direction.destination.node)
    action = Action.of(names.name("forward"), port=port, src_mac=switch.mac, dst_mac=peer.mac)
    return PlannedMember(names.name("ecmp"), port, action)


ROUNDS = 8
"""How many orders of the ports follow each other in a set with few ports."""
MAX_SET_PLACES = 256
"""The most places of a set that is taken in turn, unless one round alone has more."""
FIRST_MEMBER = 1 << 17
"""Members that spray have this id plus the number of their set: it is above the ids of ports and of
the member that drops."""


@dataclass(frozen=True)
class SwitchSpraying:
    """The plan of how one switch sprays: every RoCEv2 packet takes another port, at random or in
    turn.

    A set is the ports that a route may take, in places. In turn, its places are several rounds of
    all the ports, each round in an order of its own, so that switches do not go through their
    uplinks in step. At random, each port has one place. The orders differ between switches and are
    drawn from the seed.
    """

    names: ProgramNames
    in_turn: bool
    seed: int
    device_id: int

    def entities(
        self, number: int, forward: Sequence[Action]
    ) -> tuple[PlannedMember, list[Entity]]:
        """Return the member that sprays over set ``number``, and the entries of the set's places.

        ``forward`` has the action of each port. Raises InputError for a set that a switch has no
        room for.
        """
        # A set has two cells: one for packets with data and one for acknowledgements.
        sets = self.names.size("spray_turn") // 2
        if not 0 < number < sets:
            raise InputError(
                f"spraying over {number} sets of ports: a switch tells {sets - 1} "
                "apart: choose paths ecmp, or a smaller network"
            )
        places = self._order(number, forward)
        action = Action.of(
            self.names.name("spray"), set=number, last=len(places) - 1, in_turn=int(self.in_turn)
        )
        entries: list[Entity] = [
            entry(
                self.names.name("spray_port"),
                {self.names.name("place"): Exact(number << 16 | index)},
                one,
                referred=True,
            )
            for index, one in enumerate(places)
        ]
        return PlannedMember(self.names.name("ecmp"), FIRST_MEMBER + number, action), entries

    def _order(self, number: int, forward: Sequence[Action]) -> list[Action]:
        if not self.in_turn:
            return list(forward)
        draw = random.Random(f"spray {self.seed} {self.device_id} {number}")
        rounds = max(1, min(ROUNDS, MAX_SET_PLACES // len(forward)))
        return [one for _ in range(rounds) for one in draw.sample(forward, len(forward))]
