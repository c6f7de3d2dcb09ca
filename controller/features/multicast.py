"""Multicast: this module plans a tree for each group of hosts, and the entries of every switch in
it.

A tree is undirected: each of its switches sends what comes in by one port of the tree out by all
others, so any member can be the source. It consists of shortest paths from its root, which is one
of the switches from which the farthest member is least far away (`Reach.centres`), and groups are
spread over these in turn. In a Clos these are the lowest switches below which all members are, and
a group whose members share a leaf never leaves it. A packet passes each link of the tree exactly
once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.base.errors import InputError, refuse
from weft.controller.entities import Action, Entity, PlannedMulticast, entry
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.plan import Plan
from weft.controller.program_names import ProgramNames
from weft.switch.engine.control.entities import Exact
from weft.topo.network import Direction, Switch, Topology
from weft.topo.reach import Reach
from weft.topo.switch_kinds import BMV2_MAX_GROUP

GROUP_BASE_ADDRESS = 239 << 24
LAST_GROUP = BMV2_MAX_GROUP
"""The last number of a multicast group, on either kind of switch."""


def max_groups(names: ProgramNames) -> int:
    """Return how many groups there can be, from 239.0.0.0 on; the last numbers are kept for
    aggregation."""
    return LAST_GROUP - (names.size("aggregation_job") if "aggregation_job" in names else 0)


@dataclass(frozen=True)
class MulticastTree:
    """One multicast group and the way that its packets take."""

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
        of_jobs = [hosts for hosts in demand.jobs for _ in range(demand.groups)]
        return [*of_jobs, *demand.group_members]

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        groups = planning.wants.get(self.name)
        if groups is None:
            everybody = [host.name for host in planning.topology.hosts]
            groups = [everybody] * len(everybody)
        trees = plan_trees(planning.names, planning.reach, groups)
        return Planned(tree_entities(planning.names, trees), trees)


def trees_of(plan: Plan) -> tuple[MulticastTree, ...]:
    """Return the multicast groups that a plan provides."""
    return tuple(plan.provided.get(MulticastFeature.name, ()))


def plan_trees(
    names: ProgramNames, reach: Reach, groups: Iterable[Sequence[str] | None]
) -> tuple[MulticastTree, ...]:
    """Plan a tree for each group of hosts, given by name, over the links of ``reach``. A None in
    place of a group leaves its number free.

    Raises InputError for an empty group, an unknown host, too many groups, or a group that no
    switch reaches over the links that are up.
    """
    most = max_groups(names)
    roots: dict[tuple[str, ...], list[Switch]] = {}
    ports: dict[tuple[str, tuple[str, ...]], Mapping[str, tuple[int, ...]]] = {}
    trees = []
    for index, hosts in enumerate(groups):
        refuse(index >= most, f"more than {most} multicast groups")
        if hosts is None:
            continue
        members = tuple(dict.fromkeys(hosts))
        if members not in roots:
            roots[members] = roots_of(reach, members)
        able = roots[members]
        if not able:
            raise InputError(
                f"multicast group {index}: no switch reaches all of its {len(members)} members by "
                "the links that are up"
            )
        root = able[index % len(able)].name
        if (root, members) not in ports:
            ports[root, members] = _tree_ports(reach, root, members)
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


def roots_of(reach: Reach, members: Sequence[str]) -> list[Switch]:
    """Return the switches that can be the root of a tree to hosts, given by name; none if no switch
    reaches them all. Raises InputError for an unknown host."""
    if not members:
        raise InputError("a multicast group without members")
    links = [host_link(reach.topology, member) for member in members]
    for link in links:
        if link not in reach.live.get(link.source.node, ()):  # there may be another host
            return []
    return reach.centres([link.source.node for link in links])


def host_link(topology: Topology, host: str) -> Direction:
    """Return the direction into a host's first interface. Raises InputError for an unknown host."""
    uplink = topology.outward(topology.host(host).name)[0]
    return topology.direction(*uplink.ends[::-1])


def _tree_ports(reach: Reach, root: str, members: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the ports on a tree of every switch of it."""
    leaving = [host_link(reach.topology, member) for member in members]
    between = reach.tree(root, [each.source.node for each in leaving]).values()
    ports: dict[str, set[int]] = {}
    for each in leaving:
        ports.setdefault(each.source.node, set()).add(each.source.number)
    for each in between:
        for port in (each.source, each.destination):
            ports.setdefault(port.node, set()).add(port.number)
    return {node: tuple(sorted(found)) for node, found in ports.items()}
