"""The paths of a Clos in numbers: how many there are between two leaves, and which can be used.

A path between leaves is a number. In two tiers it is the index of the spine, which is also that of
the source leaf's uplink. In three tiers it is, within a pod, the position of the aggregation
switch, which again is that of the uplink; between pods it is the index of the core switch, which is
position * k/2 + the aggregation switch's uplink. Both directions of a link fail together.

Unlike a `Topology`, this module has no object for a link, so it can also describe the paths of a
network of thousands of switches.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weft.base.errors import InputError, refuse
from weft.controller.flows import BoolArray, IntArray
from weft.topo.addresses import host_address
from weft.topo.clos import Topology

_NODE = re.compile(r"([a-z]+)([0-9]{1,9})")


@dataclass(frozen=True, eq=False)
class ClosPaths:
    """The paths of a leaf-spine, of a fat tree of two or three tiers, or of one switch, whose
    leaves are all alike.

    Raises InputError for counts that make no such network.
    """

    leaves: int
    hosts_per_leaf: int
    uplinks: int
    """How many uplinks a leaf has: one for each spine, or for each aggregation switch of its pod; 0
    if
    the leaf is the only switch."""
    pods: int = 1
    cores: int = 0
    """How many uplinks an aggregation switch has; 0 if there are two tiers at most."""
    leaf_links: BoolArray | None = None
    """Which uplinks of leaves are up, bool [leaves, uplinks]; None means all."""
    core_links: BoolArray | None = None
    """Which uplinks of aggregation switches are up, bool [pods, uplinks, cores]; None means all."""

    def __post_init__(self) -> None:
        refuse(
            min(self.leaves, self.hosts_per_leaf, self.pods) < 1,
            f"{self.leaves} leaves, {self.hosts_per_leaf} hosts on each, {self.pods} pods: at "
            "least 1 of each is needed",
        )
        refuse(
            self.uplinks < (self.leaves > 1) or self.leaves % self.pods,
            f"{self.leaves} leaves with {self.uplinks} uplinks in {self.pods} pods are no Clos",
        )
        refuse(
            self.cores < (self.pods > 1),
            f"{self.pods} pods need core switches",
        )

    @staticmethod
    def leaf_spine(leaves: int, spines: int, hosts_per_leaf: int) -> "ClosPaths":
        """Return the paths of a network in which every leaf is linked to every spine."""
        return ClosPaths(leaves, hosts_per_leaf, spines)

    @staticmethod
    def fat_tree(k: int, tiers: int = 3) -> "ClosPaths":
        """Return the paths of the k-ary fat tree of `weft.topo.clos.fat_tree`."""
        refuse(
            k < 2 or k % 2 or tiers not in (2, 3),
            f"fat tree of {k}-port switches in {tiers} tiers: k has to be even and at least 2, "
            "and the tiers 2 or 3",
        )
        half = k // 2
        return ClosPaths(k, half, half) if tiers == 2 else ClosPaths(k * half, half, half, k, half)

    @staticmethod
    def of(topology: Topology, without: Collection[str] = ()) -> "ClosPaths":
        """Return the paths of a topology of `weft.topo.clos` over the links not in ``without``.

        Raises InputError for a link that does not exist, one of a host, and for a network whose
        leaves are not alike.
        """
        leaves = topology.switches_of("leaf")
        cores = topology.switches_of("core")
        pods = len({leaf.pod for leaf in leaves})
        middle = topology.switches_of("agg") or topology.switches_of("spine")
        uplinks = len(middle) // (pods if cores else 1)
        hosts_per_leaf, more = divmod(len(topology.hosts), len(leaves))
        paths = ClosPaths(
            len(leaves), hosts_per_leaf, uplinks, pods, len(cores) // uplinks if cores else 0
        )
        if more or 2 * len(topology.links) != paths.directions:
            raise InputError(f"{topology.describe()}: no Clos whose leaves are alike")
        return paths.without(topology.link(name).name for name in without)

    def without(self, links: Iterable[str]) -> "ClosPaths":
        """Return the same network with these links between switches down; names are like
        ``leaf0-spine1``.

        Raises InputError for a link that does not exist, and for one of a host.
        """
        leaf_links, core_links = self.leaf_up.copy(), self.core_up.copy()
        for name in links:
            place = self.place_of(name)
            (leaf_links if len(place) == 2 else core_links)[place] = False
        return replace(self, leaf_links=leaf_links, core_links=core_links)

    def place_of(self, name: str) -> tuple[int, ...]:
        """Return (leaf, uplink) or (pod, position, uplink) of a link; its ends come in either
        order.

        Raises InputError for a link that does not exist, and for one of a host.
        """
        ends = {
            end.group(1): int(end.group(2)) for end in map(_NODE.fullmatch, name.split("-")) if end
        }
        place = self._placed(ends) if name.count("-") == 1 else None
        if place is None:
            there = "there are none"
            if self.uplinks:
                above = f"agg{self.uplinks - 1}" if self.cores else f"spine{self.uplinks - 1}"
                there = f"such are leaf0-{above}"
                if self.cores:
                    there += f" and {above}-core{self.uplinks * self.cores - 1}"
            raise InputError(f"no link {name!r} between switches here: {there}")
        return place

    def _placed(self, ends: dict[str, int]) -> tuple[int, ...] | None:
        """Return the place of the link between switches of these tiers and indices, if there is
        one."""
        if ends.keys() == {"h", "leaf"}:
            raise InputError(
                f"link h{ends['h']}-leaf{ends['leaf']}: without its only link "
                "nothing reaches a host"
            )
        if ends.keys() == {"leaf", "agg" if self.cores else "spine"}:
            leaf = ends.pop("leaf")
            (above,) = ends.values()
            pod, position = divmod(above, max(1, self.uplinks))
            if leaf < self.leaves and pod == leaf // self.leaves_per_pod and self.uplinks:
                return leaf, position
        if ends.keys() == {"agg", "core"} and self.cores:
            pod, position = divmod(ends["agg"], self.uplinks)
            above, core = divmod(ends["core"], self.cores)
            if pod < self.pods and above == position:
                return pod, position, core
        return None

    @property
    def hosts(self) -> int:
        """Return how many hosts there are; host h is on leaf h div `hosts_per_leaf`."""
        return self.leaves * self.hosts_per_leaf

    @property
    def leaves_per_pod(self) -> int:
        """Return how many leaves a pod has; two tiers are one pod."""
        return self.leaves // self.pods

    @property
    def directions(self) -> int:
        """Return how many directions all links have together."""
        fabric = self.leaves * self.uplinks + self.pods * self.uplinks * self.cores
        return 2 * (self.hosts + fabric)

    @cached_property
    def leaf_up(self) -> BoolArray:
        """Return which uplinks of leaves are up, bool [leaves, uplinks]."""
        if self.leaf_links is None:
            return np.ones((self.leaves, self.uplinks), bool)
        return self.leaf_links

    @cached_property
    def core_up(self) -> BoolArray:
        """Return which uplinks of aggregation switches are up, bool [pods, uplinks, cores]."""
        if self.core_links is None:
            return np.ones((self.pods, self.uplinks, self.cores), bool)
        return self.core_links

    @cached_property
    def all_up(self) -> bool:
        """Return whether no link is down."""
        return bool(self.leaf_up.all() and self.core_up.all())

    def leaf_of(self, host: IntArray) -> IntArray:
        """Return the leaves of hosts."""
        return host // self.hosts_per_leaf

    def pod_of(self, leaf: IntArray) -> IntArray:
        """Return the pods of leaves."""
        return leaf // self.leaves_per_pod

    def address_of(self, host: IntArray) -> IntArray:
        """Return the IPv4 addresses of hosts, as `weft.topo.network.host_address` gives them."""
        return host_address(0, 0) + (self.leaf_of(host) << 8) + host % self.hosts_per_leaf

    def between_pods(self, source_leaf: int, destination_leaf: int) -> bool:
        """Return whether a path between the two leaves goes over a core switch."""
        return source_leaf // self.leaves_per_pod != destination_leaf // self.leaves_per_pod

    def usable(self, source_leaf: int, destination_leaf: int) -> BoolArray:
        """Return which paths between two leaves have all links up, bool [paths]; bool [0] within a
        leaf."""
        if source_leaf == destination_leaf:
            return np.zeros(0, bool)
        both: BoolArray = self.leaf_up[source_leaf] & self.leaf_up[destination_leaf]
        if not self.between_pods(source_leaf, destination_leaf):
            return both
        pods = source_leaf // self.leaves_per_pod, destination_leaf // self.leaves_per_pod
        through: BoolArray = both[:, None] & self.core_up[pods[0]] & self.core_up[pods[1]]
        return through.ravel()

    def usable_paths(self, source_leaf: int, destination_leaf: int) -> IntArray:
        """Return the numbers of the paths that can be used; raise InputError if there is none."""
        paths: IntArray = np.flatnonzero(self.usable(source_leaf, destination_leaf))
        refuse(
            len(paths) == 0 and source_leaf != destination_leaf,
            f"no path up and down is left between leaf{source_leaf} and "
            f"leaf{destination_leaf}: let some link be up",
        )
        return paths

    def check_hosts(self, *columns: IntArray) -> None:
        """Raise InputError for a host that is not there."""
        for column in columns:
            if len(column) and column.max() >= self.hosts:
                raise InputError(
                    f"a flow of host {column.max()}: the hosts are 0 to {self.hosts - 1}"
                )
