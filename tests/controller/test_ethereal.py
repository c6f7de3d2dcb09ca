"""Ethereal's assignment against the paper's words, for flows of any size."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.controller.clos_paths import ClosPaths
from weft.controller.ethereal import _shuffled, ethereal, lanes
from weft.controller.flows import WITHIN_LEAF, Flows, Pieces
from weft.topo.clos import Topology, fat_tree, leaf_spine, single

NETWORKS = [
    leaf_spine(4, 4, 4),
    leaf_spine(3, 6, 4),
    leaf_spine(2, 5, 7),
    leaf_spine(4, 1, 2),
    fat_tree(4),
    fat_tree(6, 2),
    single(5),
]


@st.composite
def steps(draw: st.DrawFn) -> tuple[Topology, Flows, int]:
    """A network, flows of few or many sizes, and a unit."""
    topology = draw(st.sampled_from(NETWORKS))
    host = st.integers(0, len(topology.hosts) - 1)
    unit_bytes = draw(st.sampled_from([1, 2, 7, 256, 4096]))
    sizes = draw(st.lists(st.integers(0, 40 * unit_bytes), min_size=1, max_size=4))
    few = st.tuples(st.integers(0, min(2, len(topology.hosts) - 1)), host, st.sampled_from(sizes))
    rows = draw(st.lists(few | st.tuples(host, host, st.integers(0, 1 << 40)), max_size=60))
    return topology, Flows.of(rows), unit_bytes


def by_group(paths: ClosPaths, flows: Flows, pieces: Pieces) -> dict[tuple[int, int], Any]:
    """Of every (source, destination leaf) the bytes by path."""
    found: dict[tuple[int, int], Any] = defaultdict(Counter)
    for flow, path, size in zip(pieces.flow, pieces.path, pieces.size_bytes, strict=True):
        source, leaf = int(flows.source[flow]), int(paths.leaf_of(flows.destination)[flow])
        found[source, leaf][int(path)] += int(size)
    return found


def parts_of(flows: Flows, pieces: Pieces) -> list[list[tuple[int, int, int]]]:
    """By flow: (path, offset, bytes) of its pieces, in the order in which they are sent."""
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(len(flows))]
    columns = (pieces.flow, pieces.path, pieces.offset_bytes, pieces.size_bytes)
    for flow, path, offset, size_bytes in zip(*(c.tolist() for c in columns), strict=True):
        found[flow].append((path, offset, size_bytes))
    return found


@given(steps())
def test_every_byte_of_a_step_is_assigned_once(step: tuple[Topology, Flows, int]) -> None:
    topology, flows, unit_bytes = step
    found = parts_of(flows, ethereal(topology, flows, unit_bytes=unit_bytes))
    for size_bytes, parts in zip(flows.size_bytes.tolist(), found, strict=True):
        at = 0
        for _, offset, part_bytes in sorted(parts, key=lambda part: part[1]):
            assert offset == at and (part_bytes > 0 or len(parts) == 1)
            assert offset % unit_bytes == 0
            at += part_bytes
        assert at == size_bytes and parts


@given(steps())
def test_loads_of_the_paths_to_a_leaf_differ_by_a_unit_at_most(
    step: tuple[Topology, Flows, int],
) -> None:
    topology, flows, unit_bytes = step
    paths = ClosPaths.of(topology)
    pieces = ethereal(topology, flows, unit_bytes=unit_bytes)
    for (source, leaf), loads in by_group(paths, flows, pieces).items():
        own = source // paths.hosts_per_leaf
        if own == leaf:
            assert set(loads) == {WITHIN_LEAF}
            continue
        possible = paths.usable_paths(own, leaf).tolist()
        assert set(loads) <= set(possible)
        values = [loads[path] for path in possible]
        assert max(values) - min(values) <= unit_bytes


@given(st.integers(1, 40), st.integers(1, 24), st.integers(0, 3), st.sampled_from([1, 5, 4096]))
def test_flows_are_cut_into_as_few_pieces_as_the_paper_says(
    number: int, spines: int, more: int, unit_bytes: int
) -> None:
    hosts = max(number, 2)
    paths = ClosPaths.leaf_spine(2, spines, hosts)
    size_bytes = unit_bytes * (spines + more)
    flows = Flows.of((0, hosts + to, size_bytes) for to in range(number))
    pieces = ethereal(paths, flows, unit_bytes=unit_bytes)
    rest = number % spines
    cut = rest * spines // math.gcd(rest, spines) if rest else 0
    assert len(pieces) == number - rest + cut
    whole = np.bincount(pieces.flow, minlength=number) == 1
    assert whole[: number - rest].all()


@given(steps(), st.data())
def test_smaller_flows_than_a_size_stay_whole_and_differ_by_the_largest_of_them(
    step: tuple[Topology, Flows, int], data: st.DataObject
) -> None:
    topology, flows, unit_bytes = step
    below = data.draw(st.sampled_from([0, 1, 1 << 41, *flows.size_bytes.tolist()]))
    below += data.draw(st.integers(0, 1))
    paths = ClosPaths.of(topology)
    pieces = ethereal(topology, flows, unit_bytes=unit_bytes, whole_below_bytes=below)
    for size_bytes, parts in zip(flows.size_bytes.tolist(), parts_of(flows, pieces), strict=True):
        assert sum(part_bytes for _, _, part_bytes in parts) == size_bytes
        assert size_bytes >= below or parts == [(parts[0][0], 0, size_bytes)]
    leaf = paths.leaf_of(flows.destination)
    for (source, there), loads in by_group(paths, flows, pieces).items():
        own = source // paths.hosts_per_leaf
        if own == there:
            continue
        sizes = flows.size_bytes[(flows.source == source) & (leaf == there)]
        whole_bytes = int(sizes[sizes < below].max(initial=0))
        values = [loads[path] for path in paths.usable_paths(own, there).tolist()]
        assert max(values) - min(values) <= max(unit_bytes, whole_bytes)


@given(steps(), st.integers(0, 1 << 40))
def test_flows_of_a_size_and_larger_ones_are_cut_as_ever(
    step: tuple[Topology, Flows, int], seed: int
) -> None:
    topology, flows, unit_bytes = step
    below = int(flows.size_bytes.min(initial=0))
    pieces = ethereal(topology, flows, seed, unit_bytes=unit_bytes)
    same = ethereal(topology, flows, seed, unit_bytes=unit_bytes, whole_below_bytes=below)
    for name in ("flow", "path", "offset_bytes", "size_bytes"):
        assert (getattr(pieces, name) == getattr(same, name)).all()


def test_whole_flows_of_a_leaf_whose_hosts_send_one_each_share_no_uplink() -> None:
    """A step of halving-doubling, ranks in order: everybody sends to a host three leaves on."""
    topology = leaf_spine(8, 8, 8)
    flows = Flows.of((host, (host + 24) % 64, 1 << 14) for host in range(64))
    pieces = ethereal(topology, flows, whole_below_bytes=1 << 15)
    leaf = flows.source[pieces.flow] // 8
    assert len(pieces) == 64 == len({*zip(leaf.tolist(), pieces.path.tolist(), strict=True)})


@given(steps(), st.integers(0, 1 << 40))
def test_a_source_decides_by_itself(step: tuple[Topology, Flows, int], seed: int) -> None:
    topology, flows, unit_bytes = step
    together = ethereal(topology, flows, seed, unit_bytes=unit_bytes)
    for source in np.unique(flows.source).tolist():
        own = np.flatnonzero(flows.source == source)
        alone = Flows(flows.source[own], flows.destination[own], flows.size_bytes[own])
        pieces = ethereal(topology, alone, seed, unit_bytes=unit_bytes)
        rows = np.flatnonzero(flows.source[together.flow] == source)
        assert (own[pieces.flow] == together.flow[rows]).all()
        for name in ("path", "offset_bytes", "size_bytes"):
            assert (getattr(pieces, name) == getattr(together, name)[rows]).all()


@given(steps(), st.data())
def test_failed_links_have_no_piece_and_the_others_share_alike(
    step: tuple[Topology, Flows, int], data: st.DataObject
) -> None:
    topology, flows, unit_bytes = step
    fabric = [link.name for link in topology.links if not link.a.node.startswith("h")]
    failed = data.draw(st.lists(st.sampled_from(fabric), max_size=2)) if fabric else []
    paths = ClosPaths.of(topology, failed)
    try:
        pieces = ethereal(topology, flows, without=failed, unit_bytes=unit_bytes)
    except InputError as error:
        assert "no path up and down is left between leaf" in str(error)
        return
    for (source, leaf), loads in by_group(paths, flows, pieces).items():
        if source // paths.hosts_per_leaf == leaf:
            continue
        possible = usable_by_name(
            topology, f"leaf{source // paths.hosts_per_leaf}", f"leaf{leaf}", failed
        )
        assert set(loads) <= possible
        values = [loads[path] for path in possible]
        assert max(values) - min(values) <= unit_bytes


def usable_by_name(topology: Topology, leaf: str, other: str, failed: list[str]) -> set[int]:
    """The numbers of paths between two leaves all whose links are up, by walking the topology."""
    down = {topology.link(name).name for name in failed}

    def ways(node: str, level: int) -> list[str]:
        return [
            there
            for there in topology.neighbours(node)
            if topology.nodes[there].level == level
            and topology.direction(node, there).link.name not in down
        ]

    pods = topology.switch(leaf).pod, topology.switch(other).pod
    found = set()
    for up in ways(leaf, 2):
        position = topology.neighbours(leaf).index(up) - len(topology.hosts_of(leaf))
        if pods[0] == pods[1]:
            found |= {position} if other in ways(up, 1) else set()
            continue
        for core in ways(up, 3):
            for far in ways(core, 2):
                if topology.switch(far).pod == pods[1] and other in ways(far, 1):
                    found.add(topology.switch(core).index)
    return found


def test_groups_of_a_source_leave_in_an_order_of_its_own() -> None:
    topology = leaf_spine(8, 4, 4)
    hosts = range(32)
    flows = Flows.of((one, other, 4096) for one in hosts for other in hosts if one != other)
    pieces = ethereal(topology, flows)
    orders = set()
    for source in hosts:
        own = flows.source[pieces.flow] == source
        leaves = (flows.destination[pieces.flow[own]] // 4).tolist()
        orders.add(tuple(dict.fromkeys(leaves)))
        assert len(set(leaves)) == len(leaves) - sum(one == two for one, two in pairwise(leaves)), (
            "a group's flows leave together"
        )
    assert len(orders) > 16


def test_lanes_are_the_paths_between_two_hosts_in_all_steps() -> None:
    topology = leaf_spine(2, 4, 2)
    first, second = Flows.of([(0, 2, 4000), (0, 1, 10)]), Flows.of([(0, 2, 4), (2, 0, 1)])
    steps = [(flows, ethereal(topology, flows)) for flows in (first, second)]
    found = lanes(steps)
    assert found[0, 2] == (0, 1, 2, 3)
    assert found[0, 1] == (WITHIN_LEAF,)
    assert len(found[2, 0]) == 1
    assert lanes([]) == {}


def test_what_makes_no_sense_is_refused() -> None:
    topology = leaf_spine(2, 1, 2)
    with pytest.raises(InputError, match="a flow of host 4: the hosts are 0 to 3"):
        ethereal(topology, Flows.of([(0, 4, 1)]))
    with pytest.raises(InputError, match="no path up and down is left between leaf0 and leaf1"):
        ethereal(topology, Flows.of([(0, 2, 1)]), without=["leaf1-spine0"])
    with pytest.raises(InputError, match="nothing reaches a host"):
        ethereal(topology, Flows.of([(0, 2, 1)]), without=["h0-leaf0"])
    with pytest.raises(InputError, match="unit 0"):
        ethereal(topology, Flows.of([(0, 2, 1)]), unit_bytes=0)
    with pytest.raises(InputError, match="size_bytes -1 is negative"):
        Flows.of([(0, 2, -1)])
    with pytest.raises(InputError, match="one row a flow is valid"):
        Flows(np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64))


def test_turns_are_drawn_by_splitmix64() -> None:
    """The first numbers of the published generator from state 0."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    nobody = np.zeros(4, np.int64)
    assert _shuffled(0, nobody, np.arange(1, 5)).tolist() == known
    assert _shuffled(1, nobody, np.arange(4)).tolist() == known
    assert _shuffled(-1, nobody, np.arange(2, 6)).tolist() == known
    assert _shuffled(0, nobody + 1, nobody) == pytest.approx(_shuffled(1 << 32, nobody, nobody))


@pytest.mark.parametrize(("k", "tiers"), [(2, 2), (4, 2), (6, 2), (2, 3), (4, 3), (6, 3)])
def test_the_paths_of_a_fat_tree_are_those_of_its_topology(k: int, tiers: int) -> None:
    one, other = ClosPaths.fat_tree(k, tiers), ClosPaths.of(fat_tree(k, tiers))
    names = ("leaves", "hosts_per_leaf", "uplinks", "pods", "cores")
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]


@pytest.mark.parametrize(("k", "tiers"), [(0, 2), (3, 2), (5, 3), (4, 1), (4, 4)])
def test_a_fat_tree_that_there_is_not_is_refused(k: int, tiers: int) -> None:
    with pytest.raises(InputError, match=f"fat tree of {k}-port switches in {tiers} tiers"):
        ClosPaths.fat_tree(k, tiers)
