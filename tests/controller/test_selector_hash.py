"""Predicted ECMP paths against those that packets take through the switches' own code."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.controller_networks import built_in_switches, unicast
from tests.support.fabric import fabric_plan
from tests.support.p4runtime_support import FABRIC, compiled

from weft.base.errors import InputError
from weft.controller import Controller
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF
from weft.controller.selector_hash import (
    Salts,
    ecmp_paths,
    selector_hash,
    source_ports,
    uplink_masks,
)
from weft.switch.engine.switches import Dataplane
from weft.topo.clos import Topology, fat_tree, leaf_spine

CASES: dict[str, tuple[Topology, tuple[str, ...]]] = {
    "leaf-spine": (leaf_spine(3, 5, 2), ()),
    "leaf-spine without links": (leaf_spine(3, 5, 2), ("leaf0-spine1", "leaf2-spine4")),
    "fat tree": (fat_tree(4), ()),
    "fat tree without links": (fat_tree(4), ("leaf0-agg1", "agg2-core0", "agg5-core3")),
    "wide fat tree without links": (fat_tree(6), ("agg1-core4", "leaf8-agg6")),
}


class Network:
    """A network of switches whose entities are installed, that says where packets go."""

    def __init__(self, topology: Topology, without: Collection[str], dataplane: Dataplane) -> None:
        self.topology = topology
        self.paths = ClosPaths.of(topology, without)
        self.salts = Salts.of(self.paths, seed=1)
        self.dataplane = dataplane
        self.numbers = {switch.name: number for number, switch in enumerate(topology.switches)}
        self.far_end = {
            (d.source.node, d.source.number): d.destination for d in topology.directions
        }
        self.now_ns = 1000

    def way(self, source: int, destination: int, source_port: int) -> list[str]:
        """The switches that a packet between two hosts goes through."""
        ends = f"h{source}", f"h{destination}"
        frame = unicast(self.topology, *ends, source_port)
        port, nodes = self.far_end[ends[0], 1], []
        while port.node != ends[1]:
            nodes.append(port.node)
            self.dataplane.receive(self.numbers[port.node], port.number, [frame], self.now_ns)
            self.now_ns = self.dataplane.deadline() or self.now_ns
            (departure,) = self.dataplane.transmit(self.now_ns)
            assert departure.switch == self.numbers[port.node]
            port, frame = self.far_end[port.node, departure.port], departure.frame
        return nodes

    def path(self, source: int, destination: int, source_port: int) -> int:
        """The number of the path that a packet takes."""
        nodes = self.way(source, destination, source_port)
        top = self.topology.switch(nodes[len(nodes) // 2])
        return top.index % self.paths.uplinks if top.tier == "agg" else top.index


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Network]]:
    with ExitStack() as stack:
        found = {}
        for number, (name, (topology, without)) in enumerate(CASES.items()):
            folder: Path = tmp_path_factory.mktemp(f"n{number}")
            dataplane, addresses = stack.enter_context(built_in_switches(topology, folder))
            with Controller(topology, addresses, compiled(FABRIC)) as controller:
                controller.apply(fabric_plan(topology, seed=1, groups=(), without=without))
            found[name] = Network(topology, without, dataplane)
        yield found


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_packets_take_the_path_that_the_hash_predicts(
    networks: dict[str, Network], name: str, data: st.DataObject
) -> None:
    network = networks[name]
    host = st.integers(0, network.paths.hosts - 1)
    source, destination = data.draw(host), data.draw(host)
    source_port = data.draw(st.integers(0, 0xFFFF))
    (path,) = ecmp_paths(
        network.paths, network.salts,
        np.array([source]), np.array([destination]), np.array([source_port]),
    )  # fmt: skip
    if source // network.paths.hosts_per_leaf == destination // network.paths.hosts_per_leaf:
        assert path == WITHIN_LEAF
    else:
        assert path == network.path(source, destination, source_port)


@pytest.mark.parametrize("name", CASES)
def test_mapped_source_ports_lead_along_their_paths(
    networks: dict[str, Network], name: str
) -> None:
    network = networks[name]
    last = network.paths.hosts - 1
    for source, destination in ((0, last), (last, 0), (1, last - 2)):
        ports = source_ports(network.paths, network.salts, source, destination)
        used = [path for path, port in enumerate(ports.tolist()) if port >= 0]
        leaves = (host // network.paths.hosts_per_leaf for host in (source, destination))
        assert used == network.paths.usable_paths(*leaves).tolist()
        for path in used:
            assert network.path(source, destination, int(ports[path])) == path


@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=3, max_size=3), st.integers(0, 0xFFFF))
def test_the_hash_is_crc_32_of_the_flow_and_the_salt(words: list[int], source_port: int) -> None:
    source, destination, salt = words
    message = (
        source.to_bytes(4, "big") + destination.to_bytes(4, "big") + b"\x11"
        + source_port.to_bytes(2, "big") + (4791).to_bytes(2, "big") + salt.to_bytes(4, "big")
    )  # fmt: skip
    columns = (np.array([value]) for value in (source, destination, source_port, salt))
    assert selector_hash(*columns).tolist() == [zlib.crc32(message)]


def test_ports_of_many_pairs_are_those_of_each() -> None:
    paths = ClosPaths.of(leaf_spine(4, 6, 3), ["leaf0-spine2"])
    salts = Salts.of(paths, 3)
    sources, destinations = (np.ravel(one) for one in np.meshgrid(np.arange(12), np.arange(12)))
    found = source_ports(paths, salts, sources, destinations)
    assert found.shape == (144, 6)
    for source, destination, ports in zip(sources, destinations, found, strict=True):
        alone = source_ports(paths, salts, int(source), int(destination))
        assert (alone == ports).all()
        usable = paths.usable(int(source) // 3, int(destination) // 3)
        assert ((ports >= 0) == usable).all() if len(usable) else (ports < 0).all()
        assert ((ports < 0) | (ports >= 49152)).all() and (ports < 65536).all()


def test_pairs_have_to_be_pairs() -> None:
    paths = ClosPaths.leaf_spine(2, 2, 2)
    with pytest.raises(InputError, match="2 sources and 1 destinations: name pairs"):
        source_ports(paths, Salts.of(paths, 1), [0, 1], [2])


def test_the_first_leaves_without_a_path_between_them_are_named() -> None:
    paths = ClosPaths.of(leaf_spine(4, 2, 1), ["leaf2-spine0", "leaf2-spine1"])
    leaf, far_leaf = np.array([0, 1, 3, 2]), np.array([1, 2, 2, 3])
    with pytest.raises(InputError, match="no path up and down is left between leaf1 and leaf2:"):
        uplink_masks(paths, leaf, far_leaf)
