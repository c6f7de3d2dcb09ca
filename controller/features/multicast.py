"""Multicast: this module plans a tree for each group of hosts, and the entries of every switch in
it.

A tree is undirected: each of its switches sends what comes in by one port of the tree out by all
others, so any member can be the source. Its root is one of the lowest switches below which all
members are, and groups are spread over these in turn; a group whose members share a leaf never
leaves it. A packet passes each link of the tree exactly once.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.base.errors import refuse
from weft.controller.entities import Action, Entity, PlannedMulticast, entry
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.features.routes import live_directions
from weft.controller.plan import Plan
from weft.controller.program_names import ProgramNames
from weft.switch.engine.control import Exact
from weft.topo.clos import Direction, Switch, Topology

GROUP_BASE_ADDRESS = 239 << 24
LAST_GROUP = 32767
"""The last number of a multicast group; on BMv2 the numbers above are taken, for clone sessions."""


def max_groups(names: ProgramNames) -> int:
    """Return how many groups there can be, from 239.0.0.0 on; the last numbers are kept for
    aggregation."""
    return LAST_GROUP - (names.size("aggregation_job") if "aggregation_job" in names else 0)


@dataclass(frozen=True)
class MulticastTree:
    """Describe one multicast group and the way that its packets take."""

    index: int
    """The group's number, from 0."""
    members: tuple[str, ...]
    """Names of the hosts in the group."""
    root: str
    ports: Mapping[str, tuple[int, ...]]
    """Per switch of the tree: its ports on it, sorted."""

    @property
    def address(self) -> int:
        """Return the group's IPv4 address: 239.0.(index div 256).(index mod 256)."""
        return GROUP_BASE_ADDRESS + self.index


class MulticastFeature(Feature):
    """The feature multicast. It is told groups as names of hosts; by default as many groups as
    there are hosts, each of all hosts, so that every chain of an Allgather can have one of its own.

    It provides the trees of the groups.
    """

    name = "multicast"

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        return [hosts for hosts in demand.jobs for _ in range(demand.groups)]

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        groups = planning.wants.get(self.name)
        if groups is None:
            everybody = [host.name for host in planning.topology.hosts]
            groups = [everybody] * len(everybody)
        trees = plan_trees(planning.names, planning.topology, groups, planning.without)
        return Planned(tree_entities(planning.names, trees), trees)


def trees_of(plan: Plan) -> tuple[MulticastTree, ...]:
    """Return the multicast groups that a plan provides."""
    return tuple(plan.provided.get(MulticastFeature.name, ()))


def plan_trees(
    names: ProgramNames,
    topology: Topology,
    groups: Iterable[Sequence[str]],
    without: Collection[str] = (),
) -> tuple[MulticastTree, ...]:
    """Plan a tree for each group of hosts, given by name.

    ``without`` names links that are not to be used. Raises InputError for an empty group, an
    unknown host, too many groups, or a group that no switch reaches downwards over the remaining
    links.
    """
    most = max_groups(names)
    live = live_directions(topology, without)
    below = hosts_below(topology, live)
    roots: dict[tuple[str, ...], list[Switch]] = {}
    ports: dict[tuple[str, tuple[str, ...]], Mapping[str, tuple[int, ...]]] = {}
    trees = []
    for index, hosts in enumerate(groups):
        refuse(index >= most, f"more than {most} multicast groups")
        members = tuple(dict.fromkeys(hosts))
        if members not in roots:
            roots[members] = lowest_roots(topology, below, members)
        able = roots[members]
        refuse(
            not able,
            f"multicast group {index}: no switch has all of its {len(members)} members below "
            "it by the links that are up",
        )
        root = able[index % len(able)].name
        if (root, members) not in ports:
            ports[root, members] = _descend(live, below, root, members)
        trees.append(MulticastTree(index, members, root, ports[root, members]))
    return tuple(trees)


def tree_entities(names: ProgramNames, trees: Iterable[MulticastTree]) -> dict[str, list[Entity]]:
    """Return the entries of every switch that some tree passes, by its name."""
    found: dict[str, list[Entity]] = {}
    for tree in trees:
        group = tree.index + 1
        match = {names.name("dst_addr"): Exact(tree.address)}
        replicate = entry(
            names.name("multicast_route"), match, Action.of(names.name("replicate"), group=group)
        )
        for switch, ports in tree.ports.items():
            found.setdefault(switch, []).extend((PlannedMulticast(group, ports), replicate))
    return found


def hosts_below(
    topology: Topology, live: Mapping[str, tuple[Direction, ...]]
) -> dict[str, dict[str, Direction]]:
    """Return, by switch, the direction that leads to each host below it. Lower switches
    come first."""
    below: dict[str, dict[str, Direction]] = {}
    for switch in sorted(topology.switches, key=lambda one: one.level):
        found: dict[str, Direction] = {}
        for direction in live[switch.name]:
            node = topology.nodes[direction.destination.node]
            if node.level == 0:
                found.setdefault(node.name, direction)
            elif node.level < switch.level:
                for host in below[node.name]:
                    found.setdefault(host, direction)
        below[switch.name] = found
    return below


def lowest_roots(
    topology: Topology, below: Mapping[str, Mapping[str, Direction]], members: Sequence[str]
) -> list[Switch]:
    """Return the lowest switches that have all members below them. Raises InputError for an unknown
    member."""
    refuse(
        not members,
        "a multicast group without members",
    )
    for member in members:
        topology.host(member)
    able = [
        switch
        for switch in topology.switches
        if all(member in below[switch.name] for member in members)
    ]
    lowest = min((switch.level for switch in able), default=0)
    return [switch for switch in able if switch.level == lowest]


def _descend(
    live: Mapping[str, tuple[Direction, ...]],
    below: Mapping[str, Mapping[str, Direction]],
    root: str,
    members: Sequence[str],
) -> dict[str, tuple[int, ...]]:
    """Return the ports of every switch on the way from the root down to the members."""
    ports: dict[str, set[int]] = {}
    for member in members:
        here = root
        while here in live:
            direction = below[here][member]
            for port in (direction.source, direction.destination):
                ports.setdefault(port.node, set()).add(port.number)
            here = direction.destination.node
    return {node: tuple(sorted(found)) for node, found in ports.items() if node in live}
