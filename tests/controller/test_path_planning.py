"""Pins, spraying and marking as plans: entries computed, and changes of plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import fabric
from tests.support.fabric import fabric_plan, program_names

from weft.base.errors import InputError
from weft.controller import Plan
from weft.controller.entities import Action, DefaultAction, Entity, PlannedEntry, PlannedMember
from weft.controller.features.congestion import plan_marking
from weft.controller.features.feature import Planning
from weft.controller.features.pinned_paths import PathMap, Pin, plan_pins
from weft.controller.features.routes import PATHS, Paths, plan_routes
from weft.controller.plan import diff
from weft.switch.engine.control.entities import Exact
from weft.topo.clos import Topology, fat_tree, leaf_spine, single


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    if draw(st.booleans()):
        return fat_tree(draw(st.sampled_from([4, 6])))
    small = st.integers(1, 5)
    return leaf_spine(draw(small), draw(small), draw(small))


def way(topology: Topology, pin: Pin) -> list[str]:
    """The nodes of a pin's path, by what the numbers of paths mean."""
    source, destination = f"h{pin.source}", f"h{pin.destination}"
    one, other = topology.leaf_of(source), topology.leaf_of(destination)
    if one == other:
        return [source, one.name, destination]
    if one.pod is None:
        return [source, one.name, f"spine{pin.path}", other.name, destination]
    half = len(topology.hosts_of(one.name))
    assert other.pod is not None
    if one.pod == other.pod:
        return [source, one.name, f"agg{one.pod * half + pin.path}", other.name, destination]
    position = pin.path // half
    up, down = (f"agg{pod * half + position}" for pod in (one.pod, other.pod))
    return [source, one.name, up, f"core{pin.path}", down, other.name, destination]


@st.composite
def pinned(draw: st.DrawFn) -> tuple[Topology, list[Pin], set[str]]:
    topology = draw(networks())
    hosts = st.integers(0, len(topology.hosts) - 1)
    paths = PathMap(topology)
    found: dict[tuple[int, int, int], Pin] = {}
    for _ in range(draw(st.integers(0, 30))):
        source, destination, port = draw(hosts), draw(hosts), draw(st.integers(0, 65535))
        count = paths.count(topology.leaf_of(source), topology.leaf_of(destination))
        path = draw(st.integers(0, count - 1)) if count else -1
        found.setdefault((source, destination, port), Pin(source, destination, port, path))
    links = [link.name for link in topology.links if "h" not in link.name]
    down = draw(st.sets(st.sampled_from(links), max_size=4))
    return topology, list(found.values()), down


@given(pinned())
def test_the_entries_are_those_of_the_paths_and_no_path_has_a_dead_link(
    given_: tuple[Topology, list[Pin], set[str]],
) -> None:
    topology, pins, down = given_
    planned = plan_pins(program_names(), topology, pins, down)
    expected: set[tuple[str, int, int, int, Action]] = set()
    for pin in pins:
        nodes = way(topology, pin)
        hops = list(pairwise(nodes[1:-1]))
        if any(topology.direction(*hop).link.name in down for hop in hops):
            continue
        for here, there in hops:
            if topology.node(there).level > topology.node(here).level:
                action = Action.of(
                    fabric.name("pin"),
                    port=topology.direction(here, there).source.number,
                    src_mac=topology.node(here).mac,
                    dst_mac=topology.node(there).mac,
                )
                source, destination = (
                    topology.host(host).address for host in (nodes[0], nodes[-1])
                )
                expected.add((here, source, destination, pin.source_port, action))
    found = set()
    for switch, entities in planned.items():
        for entity in entities:
            assert isinstance(entity, PlannedEntry) and entity.table == fabric.name("pinned_path")
            assert isinstance(entity.target, Action)
            names = map(fabric.name, ("src_addr", "dst_addr", "src_port"))
            keys = [dict(entity.match)[name] for name in names]
            source, destination, port = (key.value for key in keys if isinstance(key, Exact))
            found.add((switch, source, destination, port, entity.target))
    assert found == expected
    assert sum(map(len, planned.values())) == len(expected)


@pytest.mark.parametrize("topology", [leaf_spine(3, 5, 1), fat_tree(6), fat_tree(4, 2)])
def test_paths_between_two_leaves_have_a_top_switch_each_and_lead_from_one_to_the_other(
    topology: Topology,
) -> None:
    paths = PathMap(topology)
    leaves = topology.switches_of("leaf")
    for one in leaves[:2]:
        for other in leaves:
            ways = [paths.directions(one, other, path) for path in range(paths.count(one, other))]
            tops = [[d.destination.node for d in way if d.upward][-1] for way in ways]
            assert len(set(tops)) == len(tops) == len(ways)
            for way in ways:
                assert way[0].source.node == one.name and way[-1].destination.node == other.name


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        (Pin(0, 99, 5, 0), "no rank 99"),
        (Pin(0, 4, 70000, 0), "pin of h0 > h4 from port 70000: a UDP port is 0 to 65535"),
        (Pin(0, 4, 5, 2), "path 2 from leaf0 to leaf2: the paths are 0 to 1"),
        (Pin(0, 4, 5, -1), "path -1 from leaf0 to leaf2: the paths are 0 to 1"),
        (Pin(0, 1, 5, 0), "path 0 from leaf0 to leaf0: the paths are -1 alone"),
    ],
)
def test_a_pin_that_makes_no_sense_is_named(pin: Pin, words: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_pins(program_names(), leaf_spine(3, 2, 2), [pin])
    assert words in str(caught.value)


def test_a_flow_has_one_path_and_may_be_named_twice() -> None:
    topology = leaf_spine(2, 2, 1)
    once, twice = (
        plan_pins(program_names(), topology, [Pin(0, 1, 5, 1)] * count) for count in (1, 2)
    )
    assert once == twice
    with pytest.raises(InputError, match="it has two paths, 1 and 0"):
        plan_pins(program_names(), topology, [Pin(0, 1, 5, 1), Pin(0, 1, 5, 0)])
    with pytest.raises(InputError, match="leaf0-spine7"):
        plan_pins(program_names(), topology, [], ["leaf0-spine7"])


def test_more_pins_than_a_switch_holds_are_refused() -> None:
    topology = leaf_spine(3, 2, 1)
    pins = [Pin(0, destination, port, 0) for destination in (1, 2) for port in range(1 << 15)]
    assert len(plan_pins(program_names(), topology, pins)["leaf0"]) == 1 << 16
    with pytest.raises(InputError, match="leaf0: 65537 pinned paths, and a switch holds 65536"):
        plan_pins(program_names(), topology, [*pins, Pin(0, 1, 1 << 15, 0)])


@pytest.mark.parametrize("topology", [leaf_spine(3, 6, 2), fat_tree(6), leaf_spine(2, 60, 1)])
def test_a_set_in_turn_has_whole_rounds_whose_orders_a_seed_repeats(topology: Topology) -> None:
    def orders(seed: int) -> dict[str, list[int]]:
        found = {}
        planning = Planning(program_names(), topology, seed)
        for switch, entities in plan_routes(planning, "spray-round-robin").items():
            ports = []
            for entity in entities:
                if isinstance(entity, PlannedEntry) and entity.table == fabric.name("spray_port"):
                    assert isinstance(entity.target, Action)
                    ports.append(dict(entity.target.params)["port"])
            if ports:
                found[switch] = ports
        return found

    one = orders(1)
    assert one == orders(1) != orders(2)
    for switch, ports in one.items():
        uplinks = {d.source.number for d in topology.outward(switch) if d.tier == "fabric_up"}
        size = len(uplinks)
        rounds = [ports[at : at + size] for at in range(0, len(ports), size)]
        assert all(set(one) == uplinks and len(one) == size for one in rounds)
        assert len(rounds) == min(8, 256 // size)


@pytest.mark.parametrize("threshold", [-1, 1 << 19])
def test_a_threshold_that_no_queue_depth_has_is_refused(threshold: int) -> None:
    with pytest.raises(InputError, match="1 to 524287, or 0 for no marks"):
        plan_marking(program_names(), single(2), threshold)


def test_every_switch_marks_from_the_threshold_on() -> None:
    topology = fat_tree(4)
    plan = fabric_plan(topology, ecn_threshold_packets=65)
    marking = DefaultAction(fabric.name("ecn"), Action.of(fabric.name("mark_from"), packets=65))
    assert all(marking in plan.entities[switch.name] for switch in topology.switches)
    assert not any(
        fabric.name("ecn") in str(entity)
        for entities in fabric_plan(topology).entities.values()
        for entity in entities
    )


def check_whole(entities: dict[object, Entity]) -> None:
    """Every member that sprays names places that are there."""
    for entity in list(entities.values()):
        if isinstance(entity, PlannedMember) and entity.action.name == fabric.name("spray"):
            params = dict(entity.action.params)
            for index in range(params["last"] + 1):
                place = Exact(params["set"] << 16 | index)
                key = "entry", fabric.name("spray_port"), ((fabric.name("place"), place),), 0
                assert key in entities


def apply_in_steps(plans: Sequence[Plan], topology: Topology) -> None:
    """Go from plan to plan, batch by batch; all is whole after each batch."""
    held: dict[str, dict[object, Entity]] = {switch.name: {} for switch in topology.switches}
    before = Plan()
    for plan in plans:
        for switch, batches in diff(before, plan).items():
            entities = held[switch]
            for batch in batches:
                for update in batch:
                    key = update.entity.key
                    if update.kind == "delete":
                        del entities[key]
                    elif isinstance(update.entity, DefaultAction) and update.entity.action is None:
                        entities.pop(key)
                    else:
                        entities[key] = update.entity
                check_whole(entities)
        for switch, entities in held.items():
            assert Counter(entities.values()) == Counter(plan.entities.get(switch, ()))
        before = plan


@given(networks(), st.data())
def test_no_change_of_plan_leaves_a_sprayed_route_without_its_places(
    topology: Topology, data: st.DataObject
) -> None:
    links = [link.name for link in topology.links if "h" not in link.name]
    plans = []
    for paths in data.draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4)):
        mode: Paths = paths
        without = data.draw(st.sets(st.sampled_from(links), max_size=3))
        seed = data.draw(st.integers(1, 2))
        plans.append(fabric_plan(topology, seed=seed, groups=[], without=without, paths=mode))
    apply_in_steps(plans, topology)
