"""Static analysis of path schemes: the load of every link, without packets.

ECMP is exact, by the switches' hash and the source ports that ranks use, unless flows are too many
to be told apart: then each is drawn. Spraying is ideal: every path has as many bytes. REPS and PLB
go by marks and have to be run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.analysis.link_loads import (
    FloatArray,
    LinkLoads,
    destination_loads,
    direction_name,
    ecmp_loads,
    loads_of,
    pieces_loads,
    spray_loads,
)
from weft.analysis.uniform_loads import (
    uniform_destination,
    uniform_ecmp,
    uniform_ethereal,
    uniform_pieces,
    uniform_spray,
)
from weft.base.errors import InputError
from weft.controller.clos_paths import ClosPaths
from weft.controller.ethereal import ethereal
from weft.controller.flows import WITHIN_LEAF, Flows, IntArray
from weft.controller.selector_hash import Salts, source_ports
from weft.experiments.scenario.path_schemes import scheme_of
from weft.experiments.theory.lanes import drawn_ports
from weft.experiments.theory.static_workloads import Step

SPRAYING = ("spray", "spray-round-robin")


@dataclass(frozen=True, eq=False)
class Situation:
    """A network, where its ranks are, and what all schemes have in common."""

    paths: ClosPaths
    hosts: IntArray
    """The host of every rank."""
    rates_bps: FloatArray
    """By direction of links."""
    seed: int = 1
    unit_bytes: int = 1
    """What Ethereal's pieces are whole numbers of."""


@dataclass(frozen=True, eq=False)
class SchemeLoads:
    """What a scheme makes of a workload."""

    scheme: str
    loads: LinkLoads
    """Of all steps together."""
    pieces: int
    """That flows are cut into, all together; what is sprayed is not cut."""
    bound_ns: int
    """The least time of all steps, one after the other: each takes as long as the fullest link."""


def check_schemes(text: str) -> tuple[str, ...]:
    """Names of schemes with commas between them. Raises InputError for one that cannot be analysed
    without a run."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if scheme_of(name).entropy != "fixed":
            raise InputError(
                f"paths {name!r} goes by marks of queues, which only a run has: weft run --paths "
                f"{name}; analysed are ecmp, ecmp-N, destination, spray, ethereal, ethereal-ports"
            )
        if names.count(name) > 1:
            raise InputError(f"paths {name!r} is named more than once: name it once")
    return names


def analyse(situation: Situation, steps: Sequence[Step], scheme: str) -> SchemeLoads:
    """The loads of all steps under one scheme."""
    total = LinkLoads.zeros(situation.paths)
    pieces, bound_s = 0, 0.0
    for number, step in enumerate(steps):
        if step.flows is None:
            loads, cut = _uniform(situation, step.size_bytes, scheme, number)
        else:
            loads, cut = _told_apart(situation, step.flows, scheme)
        total = total + loads * step.times
        pieces += cut * step.times
        longest = (loads.by_direction() * 8 / situation.rates_bps).max(initial=0)
        bound_s += float(longest) * step.times
    return SchemeLoads(scheme, total, pieces, round(bound_s * 1e9))


def _told_apart(situation: Situation, ranks: Flows, name: str) -> tuple[LinkLoads, int]:
    paths, scheme = situation.paths, scheme_of(name)
    flows = ranks.placed(situation.hosts)
    if name in SPRAYING:
        return spray_loads(paths, flows), len(flows)
    if name == "destination":
        return destination_loads(paths, flows), len(flows)
    if scheme.assigned:
        pieces = ethereal(paths, flows, situation.seed, unit_bytes=situation.unit_bytes)
        if scheme.assigned == "pins":
            return pieces_loads(paths, flows, pieces), len(pieces)
        ends = flows.source[pieces.flow], flows.destination[pieces.flow]
        path = _mapped(situation, *ends, pieces.path)
        return loads_of(paths, *ends, pieces.size_bytes, path), len(pieces)
    pairs = np.stack([flows.source, flows.destination], axis=1)
    ports = drawn_ports(situation.seed, paths, pairs, scheme.lanes)
    salts = Salts.of(paths, situation.seed)
    return ecmp_loads(paths, salts, flows, ports), len(flows) * scheme.lanes


def _mapped(
    situation: Situation, source: IntArray, destination: IntArray, path: IntArray
) -> IntArray:
    """The paths that source ports lead to where these are wanted: others, where none does."""
    paths = situation.paths
    number = source * paths.hosts + destination
    pairs, pair = np.unique(number, return_inverse=True)
    ends = pairs // paths.hosts, pairs % paths.hosts
    ports = source_ports(paths, Salts.of(paths, situation.seed), *ends)
    found: IntArray = path.copy()
    for turn in range(1, ports.shape[1]):
        lost = (found != WITHIN_LEAF) & (ports[pair, found] < 0)
        if not lost.any():
            break
        found[lost] = (path[lost] + turn) % ports.shape[1]
    return found


def _uniform(
    situation: Situation, size_bytes: int, name: str, number: int
) -> tuple[LinkLoads, int]:
    paths, scheme = situation.paths, scheme_of(name)
    if len(situation.hosts) != paths.hosts:
        raise InputError(
            f"{len(situation.hosts)} ranks on {paths.hosts} hosts: so many flows are counted only "
            "where every host has a rank"
        )
    flows = paths.hosts * (paths.hosts - 1)
    if name in SPRAYING:
        return uniform_spray(paths, size_bytes), flows
    if name == "destination":
        return uniform_destination(paths, size_bytes), flows
    if scheme.assigned == "ports":
        raise InputError(
            f"paths {name!r}: {flows:,} flows are too many to find a port for each; choose ethereal"
        )
    if scheme.assigned:
        unit_bytes = situation.unit_bytes
        pieces = uniform_pieces(paths, size_bytes, unit_bytes)
        return uniform_ethereal(paths, size_bytes, unit_bytes), pieces
    drawn = uniform_ecmp(paths, size_bytes, scheme.lanes, situation.seed + number)
    return drawn, flows * scheme.lanes


def figures(situation: Situation, result: SchemeLoads) -> dict[str, Any]:
    """A scheme's figures, as JSON has them."""
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
    """Of every direction whether its link is up, bool."""
    hosts = np.ones(paths.hosts, bool)
    return LinkLoads(hosts, hosts, paths.leaf_up, paths.leaf_up, paths.core_up, paths.core_up)
