"""Link loads against walks over the topology's own links, and against each other."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.controller_planners_support import tables_of
from tests.support.fabric import program_names

from weft.base.errors import InputError
from weft.controller.clos_paths import ClosPaths
from weft.controller.ethereal import ethereal
from weft.controller.features.feature import Planning
from weft.controller.features.routes import plan_routes
from weft.controller.flows import WITHIN_LEAF, Flows
from weft.controller.selector_hash import Salts, ecmp_paths
from weft.experiments.loads.link_loads import (
    LinkLoads,
    destination_loads,
    destination_paths,
    direction_name,
    ecmp_loads,
    loads_of,
    pieces_loads,
    spray_loads,
)
from weft.experiments.loads.uniform_loads import (
    uniform_destination,
    uniform_ecmp,
    uniform_ethereal,
    uniform_pieces,
    uniform_spray,
)
from weft.topo.clos import Topology, fat_tree, leaf_spine, pods, single

NETWORKS = [
    leaf_spine(4, 4, 4),
    leaf_spine(3, 5, 2),
    leaf_spine(2, 1, 3),
    fat_tree(4),
    fat_tree(6),
    fat_tree(4, 2),
    pods(3, 2, 3, 1, 2),
    single(4),
]


def ethereal_loads(paths: ClosPaths, flows: Flows, unit_bytes: int = 1) -> LinkLoads:
    """Return the loads of a step by Ethereal."""
    return pieces_loads(paths, flows, ethereal(paths, flows, 1, unit_bytes=unit_bytes))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Topology, list[str], Flows]:
    """A network, links that are down but leave a path between any two leaves, and flows."""
    topology = draw(st.sampled_from(NETWORKS))
    fabric = [link.name for link in topology.links if not link.a.node.startswith("h")]
    failed = draw(st.lists(st.sampled_from(fabric), max_size=3, unique=True)) if fabric else []
    paths = ClosPaths.of(topology, failed)
    leaves = range(paths.leaves)
    while not all(paths.usable(a, b).any() for a in leaves for b in leaves if a != b):
        failed.pop()
        paths = ClosPaths.of(topology, failed)
    host = st.integers(0, len(topology.hosts) - 1)
    rows = draw(st.lists(st.tuples(host, host, st.integers(0, 1 << 40)), max_size=50))
    return topology, failed, Flows.of(rows)


def links_of(topology: Topology, source: int, destination: int, path: int) -> list[str]:
    """The names of the directions that a path between two hosts has."""
    ends = topology.hosts[source], topology.hosts[destination]
    if source == destination:
        return []
    leaves = [topology.switch(host.leaf) for host in ends]
    nodes = [ends[0].name, leaves[0].name]
    if leaves[0] != leaves[1]:
        if leaves[0].pod is None:
            nodes.append(f"spine{path}")
        elif leaves[0].pod == leaves[1].pod:
            hosts = len(topology.hosts_of(leaves[0].name))
            nodes.append(topology.neighbours(leaves[0].name)[hosts:][path])
        else:
            core = topology.switch(f"core{path}").name
            aggs = {topology.switch(name).pod: name for name in topology.neighbours(core)}
            nodes += [aggs[leaves[0].pod], core, aggs[leaves[1].pod]]
        nodes.append(leaves[1].name)
    nodes.append(ends[1].name)
    return [topology.direction(one, two).name for one, two in pairwise(nodes)]


def named(topology: Topology, loads: LinkLoads) -> dict[str, float]:
    """What directions that carry anything carry."""
    names = [direction.name for direction in topology.directions]
    return {name: load for name, load in zip(names, loads.by_direction(), strict=True) if load}


@pytest.mark.parametrize("topology", NETWORKS, ids=lambda one: one.describe())
def test_directions_have_the_names_and_the_order_of_the_topologys(topology: Topology) -> None:
    paths = ClosPaths.of(topology)
    assert paths.directions == len(topology.directions)
    for number, direction in enumerate(topology.directions):
        assert direction_name(paths, number) == direction.name
    for host in topology.hosts:
        assert paths.address_of(np.array(host.rank)) == host.address


@given(situations(), st.integers(0, 1 << 30))
def test_loads_are_those_of_walks_along_the_paths(
    situation: tuple[Topology, list[str], Flows], seed: int
) -> None:
    topology, failed, flows = situation
    paths = ClosPaths.of(topology, failed)
    draw = np.random.default_rng(seed)
    expected: Counter[str] = Counter()
    chosen = []
    rows = zip(
        flows.source.tolist(), flows.destination.tolist(), flows.size_bytes.tolist(), strict=True
    )
    for source, destination, size_bytes in rows:
        leaves = source // paths.hosts_per_leaf, destination // paths.hosts_per_leaf
        possible = paths.usable_paths(*leaves).tolist()
        chosen.append(int(draw.choice(possible)) if possible else WITHIN_LEAF)
        for name in links_of(topology, source, destination, chosen[-1]):
            expected[name] += size_bytes
    path = np.array(chosen, np.int64)
    loads = loads_of(paths, flows.source, flows.destination, flows.size_bytes, path)
    assert named(topology, loads) == {name: load for name, load in expected.items() if load}


@given(situations())
def test_ideal_spraying_gives_every_usable_path_as_much(
    situation: tuple[Topology, list[str], Flows],
) -> None:
    topology, failed, flows = situation
    paths = ClosPaths.of(topology, failed)
    expected: Counter[str] = Counter()
    rows = zip(
        flows.source.tolist(), flows.destination.tolist(), flows.size_bytes.tolist(), strict=True
    )
    for source, destination, size_bytes in rows:
        leaves = source // paths.hosts_per_leaf, destination // paths.hosts_per_leaf
        possible = paths.usable_paths(*leaves).tolist() or [WITHIN_LEAF]
        for path in possible:
            for name in links_of(topology, source, destination, path):
                expected[name] += Fraction(size_bytes, len(possible))  # type: ignore[assignment]
    found = named(topology, spray_loads(paths, flows))
    assert found.keys() == {name for name, load in expected.items() if load}
    for name, load in found.items():
        assert load == pytest.approx(float(expected[name]), rel=1e-12)


@given(situations())
def test_ethereals_loads_are_ideal_sprayings_where_sizes_divide(
    situation: tuple[Topology, list[str], Flows],
) -> None:
    topology, failed, flows = situation
    paths = ClosPaths.of(topology, failed)
    divisor = int(np.lcm.reduce(np.arange(1, 10)))
    sizes = flows.size_bytes % 1000 * divisor
    whole = Flows(flows.source, flows.destination, sizes)
    by_pieces = ethereal_loads(paths, whole).by_direction()
    assert by_pieces.dtype == np.int64
    sprayed = spray_loads(paths, whole).by_direction()
    assert (by_pieces == np.rint(sprayed)).all()
    assert np.abs(by_pieces - sprayed).max() < 1e-3
    if not failed:
        assert by_pieces.max(initial=0) == sprayed.max(initial=0)


@given(situations(), st.sampled_from([1, 64, 4096]))
def test_ethereals_loads_are_over_ideal_sprayings_by_a_unit_for_each_group_at_most(
    situation: tuple[Topology, list[str], Flows], unit_bytes: int
) -> None:
    topology, failed, flows = situation
    paths = ClosPaths.of(topology, failed)
    groups = len(
        {
            (s, d // paths.hosts_per_leaf)
            for s, d in zip(flows.source.tolist(), flows.destination.tolist(), strict=True)
        }
    )
    of_a_path = max(1, paths.cores)  # a leaf's uplink is that of so many paths
    over = (
        ethereal_loads(paths, flows, unit_bytes=unit_bytes).fabric
        - spray_loads(paths, flows).fabric
    )
    assert np.abs(over).max(initial=0) <= groups * unit_bytes * of_a_path + 1e-3


@given(situations())
def test_destinations_paths_are_those_of_the_planned_routes(
    situation: tuple[Topology, list[str], Flows],
) -> None:
    topology, failed, flows = situation
    paths = ClosPaths.of(topology, failed)
    tables = tables_of(
        plan_routes(Planning(program_names(), topology, without=failed), "destination")
    )
    found = destination_paths(paths, flows.source, flows.destination).tolist()
    for source, destination, path in zip(
        flows.source.tolist(), flows.destination.tolist(), found, strict=True
    ):
        if path == WITHIN_LEAF:
            assert topology.hosts[source].leaf == topology.hosts[destination].leaf
            continue
        names = links_of(topology, source, destination, path)
        for name in names[1:]:
            node, _, following = name.partition(">")
            (action,) = tables[node].actions_for(topology.hosts[destination].address)
            assert dict(action.params)["port"] == topology.direction(node, following).source.number
    loads = destination_loads(paths, flows)
    assert loads.host_up.sum() == flows.size_bytes[flows.source != flows.destination].sum()


@given(situations(), st.integers(1, 4))
def test_lanes_share_a_flow_and_each_goes_by_its_own_hash(
    situation: tuple[Topology, list[str], Flows], lanes: int
) -> None:
    topology, failed, flows = situation
    paths = ClosPaths.of(topology, failed)
    salts = Salts.of(paths, 1)
    ports = np.arange(len(flows) * lanes, dtype=np.int64).reshape(len(flows), lanes) * 31 + 49152
    found = ecmp_loads(paths, salts, flows, ports)
    assert found.host_up.sum() == flows.size_bytes[flows.source != flows.destination].sum()
    if lanes == 1:
        path = ecmp_paths(paths, salts, flows.source, flows.destination, ports[:, 0])
        alone = loads_of(paths, flows.source, flows.destination, flows.size_bytes, path)
        assert (alone.by_direction() == found.by_direction()).all()


# -- every host to every other --------------------------------------------------------------------


def everybody(paths: ClosPaths, size_bytes: int) -> Flows:
    source, destination = (np.ravel(one) for one in np.meshgrid(*[np.arange(paths.hosts)] * 2))
    other = source != destination
    return Flows(source[other], destination[other], np.full(other.sum(), size_bytes))


@given(
    situations(),
    st.integers(0, 10_000),
    st.sampled_from([1, 7, 512]),
    st.sampled_from([0, 5_000, 10_001]),
)
def test_loads_by_pairs_of_leaves_are_those_of_the_flows(
    situation: tuple[Topology, list[str], Flows], size_bytes: int, unit_bytes: int, below: int
) -> None:
    topology, failed, _ = situation
    paths = ClosPaths.of(topology, failed)
    flows = everybody(paths, size_bytes)
    by_pairs = uniform_ethereal(paths, size_bytes, unit_bytes, below)
    pieces = ethereal(paths, flows, unit_bytes=unit_bytes, whole_below_bytes=below)
    assert uniform_pieces(paths, size_bytes, unit_bytes, below) == len(pieces)
    by_flows = pieces_loads(paths, flows, pieces)
    assert (by_pairs.by_direction() == by_flows.by_direction()).all()
    by_pairs = uniform_destination(paths, size_bytes)
    assert (by_pairs.by_direction() == destination_loads(paths, flows).by_direction()).all()
    by_pairs = uniform_spray(paths, size_bytes)
    np.testing.assert_allclose(
        by_pairs.by_direction(), spray_loads(paths, flows).by_direction(), rtol=1e-12
    )


@given(situations(), st.integers(1, 4), st.integers(0, 1 << 30))
def test_drawn_loads_carry_every_flow_over_links_that_are_up(
    situation: tuple[Topology, list[str], Flows], lanes: int, seed: int
) -> None:
    topology, failed, _ = situation
    paths = ClosPaths.of(topology, failed)
    loads = uniform_ecmp(paths, 840, lanes, seed)
    sprayed = uniform_spray(paths, 840)
    assert loads.leaf_up.sum(axis=1) == pytest.approx(sprayed.leaf_up.sum(axis=1))
    assert loads.leaf_down.sum(axis=1) == pytest.approx(sprayed.leaf_down.sum(axis=1))
    assert not loads.leaf_up[~paths.leaf_up].any() and not loads.leaf_down[~paths.leaf_up].any()
    assert loads.core_up.sum(axis=(1, 2)) == pytest.approx(sprayed.core_up.sum(axis=(1, 2)))
    assert not loads.core_up[~paths.core_up].any() and not loads.core_down[~paths.core_up].any()
    assert (loads.core_up.sum(axis=0) == loads.core_down.sum(axis=0)).all()  # a core passes all on
    again = uniform_ecmp(paths, 840, lanes, seed)
    assert (loads.by_direction() == again.by_direction()).all()


def test_drawn_loads_spread_as_flows_that_are_hashed() -> None:
    """Over many draws the mean is ideal spraying's, the variance that of independent flows."""
    paths = ClosPaths.leaf_spine(4, 4, 4)
    flows_up, share = 16 * 3, 1 / 4
    drawn = np.array([uniform_ecmp(paths, 1, 1, seed).leaf_up for seed in range(2000)])
    assert drawn.mean(axis=0) == pytest.approx(flows_up * share, rel=0.03)
    assert drawn.var(axis=0) == pytest.approx(flows_up * share * (1 - share), rel=0.2)


def test_links_that_are_not_there_are_refused_by_name() -> None:
    for paths, name in (
        (ClosPaths.leaf_spine(2, 3, 2), "leaf0-spine3"),
        (ClosPaths.leaf_spine(2, 3, 2), "leaf2-spine0"),
        (ClosPaths.leaf_spine(2, 3, 2), "leaf0-agg0"),
        (ClosPaths.leaf_spine(2, 3, 2), "leaf0"),
        (ClosPaths.fat_tree(4), "leaf0-agg2"),
        (ClosPaths.fat_tree(4), "agg0-core2"),
        (ClosPaths.fat_tree(4), "leaf0-agg0-core0"),
    ):
        with pytest.raises(InputError, match=f"no link '{name}' between switches"):
            paths.without([name])
    with pytest.raises(InputError, match="no link 'leaf0-spine0'"):
        ClosPaths.of(single(3)).without(["leaf0-spine0"])
    with pytest.raises(InputError, match="nothing reaches a host"):
        ClosPaths.leaf_spine(2, 3, 2).without(["leaf0-h0"])
    assert ClosPaths.fat_tree(4).without(["core3-agg1", "agg0-leaf1"]).all_up is False
    with pytest.raises(InputError, match="one row a flow, one column a lane"):
        paths = ClosPaths.leaf_spine(2, 3, 2)
        ecmp_loads(paths, Salts.of(paths, 1), Flows.of([(0, 1, 1)]), np.zeros((2, 1), np.int64))


def test_ethereals_pieces_have_paths_that_exist() -> None:
    paths = ClosPaths.fat_tree(4)
    pieces = ethereal(paths, everybody(paths, 4096))
    assert pieces.path.min() == WITHIN_LEAF and pieces.path.max() == 3
