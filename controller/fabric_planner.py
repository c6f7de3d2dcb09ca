"""The plan for p4/fabric.p4: what each of its planners wants the switches to hold, put together."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from weft.controller.aggregation import AggregationJob, aggregation_entries, plan_aggregation
from weft.controller.congestion import plan_marking
from weft.controller.entities import Entity
from weft.controller.faults import losses, plan_faults
from weft.controller.feature import brought_features
from weft.controller.multicast import plan_trees, tree_entities
from weft.controller.pinned_paths import Pin, plan_pins
from weft.controller.plan import Plan, merge
from weft.controller.routes import Paths, plan_routes, plan_salts
from weft.topo.clos import Topology
from weft.topo.faults import LinkLoss

RoutePlanner = Callable[[Topology, Collection[str], int], Mapping[str, Sequence[Entity]]]
"""From a topology, names of links not to be used, and a seed to the route entries of switches."""


def fabric_plan(
    topology: Topology,
    *,
    seed: int = 1,
    loss: float = 0.0,
    faults: Iterable[LinkLoss] = (),
    groups: Iterable[Sequence[str]] | None = None,
    without: Collection[str] = (),
    aggregation: Iterable[AggregationJob] = (),
    paths: Paths | RoutePlanner = "ecmp",
    pins: Iterable[Pin] = (),
    ecn_threshold_packets: int = 0,
) -> Plan:
    """The plan for p4/fabric.p4 on a topology.

    Args:
        seed: the ECMP salts, and orders of spraying, are drawn from it.
        loss: probability of loss on every direction of every link.
        faults: links with a loss of their own instead.
        groups: multicast groups as names of hosts; by default as many groups as there are hosts,
            each of all hosts, so that every chain of an Allgather can have one of its own.
        without: names of links that carry no traffic.
        aggregation: jobs that the switches add for.
        paths: how unicast flows choose among shortest paths, or what plans their routes.
        pins: paths of single flows, which come before ``paths``; one that needs a link of
            ``without`` is left out.
        ecn_threshold_packets: how many packets wait in a queue where packets are marked; 0: none
            is.

    Raises InputError for what does not fit the topology.
    """
    if groups is None:
        everybody = [host.name for host in topology.hosts]
        groups = [everybody] * len(everybody)
    trees = plan_trees(topology, groups, without)
    adding = plan_aggregation(topology, aggregation, without)
    entities = merge(
        plan_salts(topology, seed),
        paths(topology, without, seed)
        if callable(paths)
        else plan_routes(topology, without, paths, seed),
        plan_pins(topology, pins, without),
        plan_marking(topology, ecn_threshold_packets),
        tree_entities(trees),
        aggregation_entries(topology, adding),
        plan_faults(topology, losses(topology, loss, faults)),
        *(feature.plan(topology, seed, without) for feature in brought_features()),
    )
    return Plan(entities, trees, adding)
