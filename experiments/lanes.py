"""Which paths a scenario's flows take where that is decided before they start.

ECMP over N pieces has N lanes between two ranks, whose source ports hash to paths by luck.
Ethereal's assignment is computed from the flows of each step, and carried by entries that pin a
lane to its path, or by source ports that hash to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from agents.collectives.communicator import Lane, path_entropy
from controller.ethereal import ethereal
from controller.flows import WITHIN_LEAF, Flows
from controller.pinned_paths import Pin
from controller.selector_hash import source_ports
from experiments.flow_steps import has_steps, steps_of
from experiments.path_schemes import PathScheme, scheme_of
from experiments.scenario import Scenario
from topo.network import Topology

Pair = tuple[int, int]
"""Source and destination, by their numbers among the hosts."""
LANE_PORTS = 1 << 14
"""Source ports that lanes are numbered in, from 0xC000 on."""
LANE_STRIDE = 397
"""Between the ports of two lanes of a pair."""


@dataclass(frozen=True)
class Assignment:
    """What is decided of the paths of a run's flows."""

    paths: Mapping[Pair, tuple[int, ...]] = field(default_factory=dict)
    """Of each pair of hosts that has flows, the paths of its pieces."""
    lanes: Mapping[Pair, tuple[Lane, ...]] = field(default_factory=dict)
    """Both pairs of two hosts have the same number of them."""
    pins: tuple[Pin, ...] = ()
    pieces: int = 1
    """Most that one flow is cut into."""


@lru_cache(maxsize=64)
def assignment_of(scenario: Scenario, algorithm: str) -> Assignment:
    """The lanes between a scenario's hosts; none where the paths of its algorithm's flows are left
    to the switches or to the transport."""
    scheme = scheme_of(scenario.paths)
    if scheme.lanes == 1 and not scheme.assigned:
        return Assignment()
    network = scenario.network()
    steps = placed_steps(scenario, algorithm)
    if scheme.assigned:
        paths = _assigned_paths(network, steps, scenario.seed)
    else:
        paths = {pair: (WITHIN_LEAF,) * scheme.lanes for pair in _pairs(steps)}
    lanes, pins = _lanes(scenario, scheme, network, paths)
    pieces = max((len(chosen) for chosen in paths.values()), default=1)
    return Assignment(paths, lanes, pins, pieces)


def placed_steps(scenario: Scenario, algorithm: str) -> list[Flows]:
    """The flows of a scenario's collective, step by step, between hosts; those of all jobs
    together. Empty for algorithms that are no unicast flows between ranks."""
    if not has_steps(scenario.collective, algorithm):
        return []
    steps = steps_of(scenario.collective, algorithm, scenario.ranks, scenario.size_bytes)
    jobs = [np.array(hosts, np.int64) for hosts in scenario.placement.jobs]
    return [Flows.together([step.placed(hosts) for hosts in jobs]) for step in steps]


def _pairs(steps: list[Flows]) -> list[Pair]:
    found: dict[Pair, None] = {}
    for step in steps:
        found.update(
            dict.fromkeys(zip(step.source.tolist(), step.destination.tolist(), strict=True))
        )
    return list(found)


def _assigned_paths(
    network: Topology, steps: list[Flows], seed: int
) -> dict[Pair, tuple[int, ...]]:
    """Ethereal's, step by step; a pair that sends in several steps has the paths of all."""
    found: dict[Pair, dict[int, None]] = {}
    for step in steps:
        pieces = ethereal(network, step, seed)
        sources, destinations = step.source[pieces.flow], step.destination[pieces.flow]
        rows = zip(sources.tolist(), destinations.tolist(), pieces.path.tolist(), strict=True)
        for source, destination, path in rows:
            found.setdefault((source, destination), {})[path] = None
    return {pair: tuple(paths) for pair, paths in found.items()}


def _lanes(
    scenario: Scenario,
    scheme: PathScheme,
    network: Topology,
    paths: Mapping[Pair, tuple[int, ...]],
) -> tuple[dict[Pair, tuple[Lane, ...]], tuple[Pin, ...]]:
    lanes: dict[Pair, list[Lane]] = {}
    pins: list[Pin] = []
    for pair, chosen in paths.items():
        if scheme.assigned == "ports" and chosen[0] != WITHIN_LEAF:
            ports = source_ports(network, scenario.seed, *pair).tolist()
            lanes[pair] = [(ports[path], *_others(ports, path)) for path in chosen]
        else:
            lanes[pair] = [(_port(pair, lane),) for lane in range(len(chosen))]
        if scheme.assigned == "pins":
            pins += [
                Pin(*pair, lane[0], path)
                for lane, path in zip(lanes[pair], chosen, strict=True)
                if path != WITHIN_LEAF
            ]
            lanes[pair] = [
                (*lane, *_port_range(pair, len(chosen), len(chosen))) for lane in lanes[pair]
            ]
    padded: dict[Pair, tuple[Lane, ...]] = {}
    for source, destination in list(lanes):
        for pair, back in (
            ((source, destination), (destination, source)),
            ((destination, source), (source, destination)),
        ):
            own = lanes.get(pair, [])
            more = max(0, len(lanes.get(back, [])) - len(own))
            padded[pair] = (*own, *[()] * more)
    return padded, tuple(pins)


def _others(ports: list[int], path: int) -> list[int]:
    """The ports of the other paths, from the next one on."""
    return [*ports[path + 1 :], *ports[:path]]


def _port_range(pair: Pair, first: int, count: int) -> list[int]:
    """Ports that no lane of the pair has: what goes by them is hashed."""
    return [_port(pair, first + lane) for lane in range(count)]


def _port(pair: Pair, lane: int) -> int:
    """The source port of a lane; those of a pair differ."""
    first = path_entropy(*pair) % LANE_PORTS
    return 0xC000 + (first + lane * LANE_STRIDE) % LANE_PORTS
