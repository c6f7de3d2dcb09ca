"""A plan: all entities of every switch.

The plan for p4/fabric.p4 puts together what each of its planners wants the switches to hold;
updates lead from one plan to another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from weft.base.errors import InputError, refuse
from weft.controller import fabric
from weft.controller.aggregation import (
    AggregationJob,
    AggregationTree,
    aggregation_entries,
    plan_aggregation,
)
from weft.controller.entities import (
    Action,
    DefaultAction,
    Entity,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    TableEntry,
)
from weft.controller.faults import losses, plan_faults
from weft.controller.feature import brought_features
from weft.controller.multicast import Tree, plan_trees, tree_entities
from weft.controller.pinned_paths import Pin, plan_pins
from weft.controller.routes import Paths, plan_routes, plan_salts
from weft.topo.clos import Topology
from weft.topo.faults import LinkLoss


@dataclass(frozen=True)
class Plan:
    """What every switch is to hold, by its name. Switches left out hold nothing."""

    entities: Mapping[str, tuple[Entity, ...]] = field(default_factory=dict)
    groups: tuple[Tree, ...] = ()
    """The multicast groups that the plan provides."""
    aggregation: tuple[AggregationTree, ...] = ()
    """The trees of the jobs that switches add for."""


@dataclass(frozen=True)
class Update:
    """One change of one entity; a deleted one is named by its key alone."""

    kind: Literal["insert", "modify", "delete"]
    entity: Entity

    def __str__(self) -> str:
        return f"{self.kind} {self.entity}"


def merge(*parts: Mapping[str, Sequence[Entity]]) -> dict[str, tuple[Entity, ...]]:
    """Put the planners' results together; InputError if two of them claim the same entity."""
    found: dict[str, dict[tuple[object, ...], Entity]] = {}
    for part in parts:
        for switch, entities in part.items():
            known = found.setdefault(switch, {})
            for entity in entities:
                if entity.key in known:
                    raise InputError(f"{switch}: planned twice: {entity}; {known[entity.key]}")
                known[entity.key] = entity
    return {switch: tuple(known.values()) for switch, known in found.items()}


def diff(old: Plan, new: Plan) -> dict[str, list[list[Update]]]:
    """Return the updates per switch that turn ``old`` into ``new``: batches, to be sent one by one.

    A batch refers only to what earlier ones made, as a switch may reorder updates within a batch
    (P4Runtime specification, section "Batching and Ordering of Updates"), and nothing is deleted
    while something refers to it. New entries come before old ones go, so a destination that has a
    route in both plans has one all the time.
    """
    changes = {
        switch: _batches(old.entities.get(switch, ()), new.entities.get(switch, ()))
        for switch in dict.fromkeys((*old.entities, *new.entities))
    }
    return {switch: batches for switch, batches in changes.items() if batches}


def _batches(old: Sequence[Entity], new: Sequence[Entity]) -> list[list[Update]]:
    before = {entity.key: entity for entity in old}
    after = {entity.key: entity for entity in new}
    stages: list[list[Update]] = [[] for _ in range(1 + max(_DELETED.values()))]
    for key, entity in after.items():
        if before.get(key) != entity:
            present = key in before or isinstance(entity, DefaultAction)
            update = Update("modify" if present else "insert", entity)
            stages[_WRITTEN[_sort(entity)]].append(update)
    for key, entity in before.items():
        if key not in after:
            update = Update("delete", entity)
            if isinstance(entity, DefaultAction):
                update = Update("modify", DefaultAction(entity.table, None))
            stages[_DELETED[_sort(entity)]].append(update)
    return [stage for stage in stages if stage]


_PLACE = "place"
"""Of a set, which the members that spray refer to: an entry that comes first and goes last."""
_WRITTEN = {
    _PLACE: 0, ProfileMember: 1, MulticastGroup: 1, ProfileGroup: 2,
    TableEntry: 3, DefaultAction: 3,
}  # fmt: skip
_DELETED = {
    TableEntry: 3, DefaultAction: 3,
    ProfileGroup: 4, MulticastGroup: 4, ProfileMember: 5, _PLACE: 6,
}  # fmt: skip
"""The number of the batch in which a sort of entity is written or deleted."""


def _sort(entity: Entity) -> str | type[Entity]:
    return _PLACE if isinstance(entity, TableEntry) and entity.referred else type(entity)


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
    """Return the plan for p4/fabric.p4 on a topology.

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


def plan_marking(topology: Topology, threshold_packets: int) -> dict[str, list[Entity]]:
    """Return the marking threshold of every switch, by its name.

    ``threshold_packets``: a packet of a transport that understands marks is marked where so many
    or more wait in an egress queue as it comes there; 0: none is. Raises InputError for a number
    that v1model's queue depths do not have.
    """
    refuse(
        not 0 <= threshold_packets <= fabric.MAX_ECN_THRESHOLD,
        f"ECN threshold of {threshold_packets} packets: it is 1 to {fabric.MAX_ECN_THRESHOLD}, "
        "or 0 for no marks",
    )
    if not threshold_packets:
        return {}
    action = Action.of(fabric.name("mark_from"), packets=threshold_packets)
    return {
        switch.name: [DefaultAction(fabric.name("ecn"), action)] for switch in topology.switches
    }
