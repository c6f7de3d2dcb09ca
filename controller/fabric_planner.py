"""The plan for p4/fabric.p4: it puts together what each feature wants the switches to hold."""

from collections.abc import Collection, Mapping
from typing import Any

from weft.base.entry_points import blamed
from weft.base.errors import InputError, did_you_mean, refuse
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.features.registry import FEATURES
from weft.controller.plan import Plan, merge
from weft.controller.program_names import ProgramNames
from weft.topo.network import Topology


def fabric_plan(
    names: ProgramNames,
    topology: Topology,
    *,
    seed: int = 1,
    without: Collection[str] = (),
    wants: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan for p4/fabric.p4 on a topology; `Planning` says what planners are told.

    Raises InputError for what does not fit the topology or the program, and if something is wanted
    of a feature that does not exist.
    """
    planning = Planning(names, topology, seed, without, wants or {}, options or {})
    for name in planning.wants:
        if name not in FEATURES:
            raise InputError(
                f"P4 feature {name!r} is unknown{did_you_mean(name, FEATURES)}: something can be "
                f"wanted of {', '.join(FEATURES)}"
            )
    planned = {each.name: _planned(each, planning) for each in FEATURES.values()}
    return Plan(
        merge(*(each.entities for each in planned.values())),
        {name: each.provides for name, each in planned.items() if each.provides is not None},
    )


def wants_of(demand: Demand, topology: Topology) -> dict[str, Any]:
    """Return what a run wants of each feature, by the feature's name, where that is anything."""
    found = {}
    for each in FEATURES.values():
        with blamed(each, "wanted"):
            found[each.name] = each.wanted(demand, topology)
    return {name: wanted for name, wanted in found.items() if wanted is not None}


def _planned(feature: Feature, planning: Planning) -> Planned:
    """Return what a feature's planner makes; errors name the feature."""
    switches = {switch.name for switch in planning.topology.switches}
    try:
        with blamed(feature, "plan"):
            planned = feature.plan(planning)
            unknown = ", ".join(map(str, planned.entities.keys() - switches))
            refuse(unknown, f"there is no switch {unknown}", ValueError)
    except InputError as error:
        if feature.name in FEATURES.own:
            raise
        raise InputError(f"P4 feature {feature.name!r}: {error}") from error
    return planned
