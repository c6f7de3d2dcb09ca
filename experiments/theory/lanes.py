"""The paths that a scenario's flows take, where these are decided before the flows start.

ECMP over N pieces has N lanes between two ranks, whose source ports hash to paths by luck.
Ethereal's assignment is computed from the flows of each step; entries that pin a lane to its path
carry it, or source ports that hash to the path.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from weft.agents.collectives.communicator import Lane
from weft.base.entry_points import blamed
from weft.controller.clos_paths import ClosPaths
from weft.controller.ethereal import lanes
from weft.controller.features.pinned_paths import Pin
from weft.controller.flows import WITHIN_LEAF, Flows, IntArray
from weft.controller.selector_hash import Salts, source_ports
from weft.experiments.paths.scheme import PathScheme, drawn_ports
from weft.experiments.scenario.kinds import scheme_in
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import Topology

Pair = tuple[int, int]
"""Source and destination, by their numbers among the hosts."""
ALTERNATES = 8
"""How many more source ports a pinned lane, and each queue pair without lanes, tries one after the
other if no acknowledgements come back."""


@dataclass(frozen=True)
class PathAssignment:
    """What is decided of the paths of a run's flows."""

    paths: Mapping[Pair, tuple[int, ...]] = field(default_factory=dict)
    """Of each pair of hosts that has flows, the path of each lane; `WITHIN_LEAF` where there is
    nothing to choose, or where the lane's hash chooses."""
    lanes: Mapping[Pair, tuple[Lane, ...]] = field(default_factory=dict)
    """Both pairs of two hosts have the same number of them."""
    pins: tuple[Pin, ...] = ()
    pieces: int = 1
    """The most lanes that a pair has."""


@lru_cache(maxsize=64)
def assignment_of(
    scenario: Scenario,
    algorithm: str,
    known: frozenset[str] = frozenset(),
    failed: frozenset[str] = frozenset(),
) -> PathAssignment:
    """Return the lanes between a scenario's hosts; there are none if the paths of its algorithm's
    flows are left to the switches or to the transport.

    Args:
        known: links that were down when flows were cut into pieces.
        failed: links that have failed since; lanes stay, and are pinned to the paths that are left.
    """
    scheme = scheme_in(scenario)
    if scheme.lanes == 1 and not scheme.assigned:
        return PathAssignment()
    network = scenario.network()
    steps = placed_steps(scenario, algorithm)
    paths = (
        _assigned_paths(scheme, network, steps, scenario.seed, known)
        if scheme.assigned
        else {pair: (WITHIN_LEAF,) * scheme.lanes for pair in _pairs(steps)}
    )
    ports = _ports(scenario.seed, scheme, network, known, paths)
    pinned = paths
    if failed and scheme.assigned:
        left = ClosPaths.of(network, known | failed)
        pinned = {pair: _moved(pair, chosen, left) for pair, chosen in paths.items()}
    pins = _pins(ports, pinned) if scheme.assigned == "pins" else ()
    return PathAssignment(paths, _both_ways(ports), pins, _most(paths))


def _most(paths: Mapping[Pair, tuple[int, ...]]) -> int:
    """Return how many lanes the pair has that has most."""
    return max((len(chosen) for chosen in paths.values()), default=1)


def placed_steps(scenario: Scenario, algorithm: str) -> list[Flows]:
    """Return the flows of a scenario's collective, step by step, between hosts; those of all jobs
    are together. The list is empty for algorithms that do not consist of unicast flows between
    ranks."""
    steps = scenario.family.steps(scenario, algorithm)
    jobs = [np.array(hosts, np.int64) for hosts in scenario.placement.jobs]
    return [Flows.together([step.placed(hosts) for hosts in jobs]) for step in steps]


def _pairs(steps: list[Flows]) -> list[Pair]:
    """Return all pairs that send in any step, each once."""
    flows = Flows.together(steps)
    ends = np.unique(np.stack([flows.source, flows.destination], axis=1), axis=0)
    return [(source, destination) for source, destination in ends.tolist()]


def _assigned_paths(
    scheme: PathScheme,
    network: Topology,
    steps: list[Flows],
    seed: int,
    without: Collection[str],
) -> dict[Pair, tuple[int, ...]]:
    """Return the paths that a scheme assigns, step by step, one for each lane; a pair that sends in
    several steps has the paths of all."""
    with blamed(scheme, "pieces"):
        found = lanes((step, scheme.pieces(network, step, seed, without)) for step in steps)
    # Queue pairs take turns: a flow in pieces would be served before one that is whole. So those
    # within the leaf, which have no paths to choose from, have as many lanes as its others.
    most: dict[int, int] = {}
    for (source, _), paths in found.items():
        most[source] = max(most.get(source, 1), len(paths))
    turned: dict[Pair, tuple[int, ...]] = {}
    for (source, destination), paths in found.items():
        first = source % len(paths)  # each host begins with another path, since all begin at once
        within = paths[0] == WITHIN_LEAF
        around = (*paths[first:], *paths[:first])
        turned[source, destination] = paths * most[source] if within else around
    return turned


def _moved(pair: Pair, chosen: tuple[int, ...], network: ClosPaths) -> tuple[int, ...]:
    """Give lanes whose paths have failed those that are left, each host from another one on."""
    if chosen[0] == WITHIN_LEAF:
        return chosen
    leaf, far_leaf = (host // network.hosts_per_leaf for host in pair)
    left = network.usable_paths(leaf, far_leaf).tolist()
    begin = pair[0] + far_leaf
    return tuple(
        path if path in left else left[(begin + lane) % len(left)]
        for lane, path in enumerate(chosen)
    )


def _ports(
    seed: int,
    scheme: PathScheme,
    network: Topology,
    known: Collection[str],
    paths: Mapping[Pair, tuple[int, ...]],
) -> dict[Pair, list[Lane]]:
    """Return the source port of each lane, and those that it goes on with where nothing comes
    back."""
    found: dict[Pair, list[Lane]] = {}
    mapped: dict[Pair, IntArray] = {}
    if scheme.assigned:
        away = [pair for pair, chosen in paths.items() if chosen[0] != WITHIN_LEAF]
        ends = np.array(away, np.int64).reshape(-1, 2)
        clos = ClosPaths.of(network, known)
        ports = source_ports(clos, Salts.of(clos, seed), ends[:, 0], ends[:, 1])
        mapped = dict(zip(away, ports, strict=True))
    addresses = np.array([host.address for host in network.hosts], np.int64)
    pairs = np.array([*paths], np.int64).reshape(-1, 2)
    drawn = drawn_ports(seed, addresses[pairs], _most(paths))
    for (pair, chosen), ports_of_pair in zip(paths.items(), drawn.tolist(), strict=True):
        own = ports_of_pair[: len(chosen)]
        if pair not in mapped:
            found[pair] = [(port,) for port in own]
            continue
        by_path = mapped[pair].tolist()
        others = [_after(by_path, path, pair) for path in chosen]
        if scheme.assigned == "ports":
            own = [by_path[path] for path in chosen]
        else:  # what is pinned for no lane goes by its hash
            others = [[port for port in more if port not in own][:ALTERNATES] for more in others]
        found[pair] = [(port, *more) for port, more in zip(own, others, strict=True)]
    return found


def _after(by_path: list[int], path: int, pair: Pair) -> list[int]:
    """Return the ports of the other paths, of each pair from another one on: pairs that lose a path
    do not all go on with the same."""
    others = [port for port in (*by_path[path + 1 :], *by_path[:path]) if port >= 0]
    first = sum(pair) % max(1, len(others))
    return [*others[first:], *others[:first]]


def _pins(
    ports: Mapping[Pair, list[Lane]], paths: Mapping[Pair, tuple[int, ...]]
) -> tuple[Pin, ...]:
    return tuple(
        Pin(*pair, lane[0], path)
        for pair, chosen in paths.items()
        for lane, path in zip(ports[pair], chosen, strict=True)
        if path != WITHIN_LEAF
    )


def _both_ways(ports: Mapping[Pair, list[Lane]]) -> dict[Pair, tuple[Lane, ...]]:
    """Return the lanes with as many in each direction; added lanes carry only what answers data."""
    found: dict[Pair, tuple[Lane, ...]] = {}
    for one, other in list(ports):
        most = max(len(ports.get(pair, ())) for pair in ((one, other), (other, one)))
        for pair in ((one, other), (other, one)):
            own = ports.get(pair, [])
            found[pair] = (*own, *[()] * (most - len(own)))
    return found
