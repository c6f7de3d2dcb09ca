"""Static analysis of path schemes: the load of every link, without packets.

For ECMP it is exact, by the switches' hash and the source ports that ranks use, unless flows are
too many to be told apart: then the path of each is drawn. Spraying is ideal: every path has as many
bytes. REPS and PLB depend on marks and have to be run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.base.entry_points import blamed
from weft.base.errors import InputError, refuse
from weft.controller.clos_paths import ClosPaths
from weft.experiments.loads.link_loads import LinkLoads, direction_name
from weft.experiments.paths.names import analysed_schemes
from weft.experiments.paths.registry import scheme_of
from weft.experiments.paths.scheme import Situation
from weft.experiments.theory.static_workloads import Step

__all__ = ["SchemeLoads", "Situation", "analyse", "check_schemes", "figures"]


@dataclass(frozen=True, eq=False)
class SchemeLoads:
    """The loads that a scheme makes of a workload."""

    scheme: str
    loads: LinkLoads
    """The loads of all steps together."""
    pieces: int
    """How many pieces all flows together are cut into; sprayed flows are not cut."""
    bound_ns: int
    """The least time of all steps, one after the other: each takes as long as the fullest link."""


def check_schemes(text: str) -> tuple[str, ...]:
    """Return the names of schemes, which commas separate in the text. Raises InputError for one
    that cannot be analysed without a run."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if scheme_of(name).entropy != "fixed":
            raise InputError(
                f"paths {name!r} goes by marks of queues, which only a run has: weft run --paths "
                f"{name}; analysed are {', '.join(analysed_schemes())}"
            )
        refuse(names.count(name) > 1, f"paths {name!r} is named more than once: name it once")
    return names


def analyse(situation: Situation, steps: Sequence[Step], scheme: str) -> SchemeLoads:
    """Return the loads of all steps under one scheme, added up."""
    total, kind = LinkLoads.zeros(situation.paths), scheme_of(scheme)
    pieces, bound_s = 0, 0.0
    for number, step in enumerate(steps):
        if step.flows is None:
            _check_full(situation)
        with blamed(kind, "loads"):
            if step.flows is None:
                loads, cut = kind.uniform_loads(situation, step.size_bytes, number)
            else:
                loads, cut = kind.loads(situation, step.flows.placed(situation.hosts))
            total = total + loads * step.times
        pieces += cut * step.times
        longest = (loads.by_direction() * 8 / situation.rates_bps).max(initial=0)
        bound_s += float(longest) * step.times
    return SchemeLoads(scheme, total, pieces, round(bound_s * 1e9))


def _check_full(situation: Situation) -> None:
    refuse(
        len(situation.hosts) != situation.paths.hosts,
        f"{len(situation.hosts)} ranks on {situation.paths.hosts} hosts: so many flows are "
        "counted only where every host has a rank",
    )


def figures(situation: Situation, result: SchemeLoads) -> dict[str, Any]:
    """Return a scheme's figures in a form that JSON can hold."""
    paths = situation.paths
    loads = result.loads.by_direction()
    fabric = np.arange(2 * paths.hosts, paths.directions)
    up = fabric[_links_up(paths).by_direction()[fabric]]
    load = loads[up]
    most = float(load.max(initial=0))
    mean = float(load.mean()) if len(load) else 0.0
    fullest = direction_name(paths, int(up[load.argmax()])) if most else None
    return {
        "paths": result.scheme,
        "pieces": result.pieces,
        "fabric_max_bytes": round(most),
        "fabric_mean_bytes": mean,
        "max_over_mean": most / mean if mean else None,
        "fullest": fullest,
        "host_max_bytes": round(float(result.loads.hosts.max(initial=0))),
        "bound_ns": result.bound_ns,
    }


def _links_up(paths: ClosPaths) -> LinkLoads:
    """Return for every direction whether its link is up, bool."""
    hosts = np.ones(paths.hosts, bool)
    return LinkLoads(hosts, hosts, paths.leaf_up, paths.leaf_up, paths.core_up, paths.core_up)
