"""The planners: what the entries that they make do to packets, on any topology."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import fabric
from tests.support.controller_planners_support import Tables, tables_of
from tests.support.fabric import fabric_plan, program_names

from weft.base.errors import InputError
from weft.controller.entities import (
    Action,
    DefaultAction,
    Entity,
    PlannedEntry,
    PlannedGroup,
    PlannedMember,
)
from weft.controller.fabric_planner import fabric_plan as controller_plan
from weft.controller.features.faults import CERTAIN, losses, plan_faults
from weft.controller.features.feature import Planning
from weft.controller.features.multicast import plan_trees, tree_entities
from weft.controller.features.multicast import trees_of as multicast_trees
from weft.controller.features.routes import PATHS, UPLINK_GROUP, Paths, plan_routes, plan_salts
from weft.controller.plan import Plan, Update, diff, merge
from weft.switch.engine.control.entities import GroupTarget, Lpm, MemberTarget
from weft.topo.clos import Topology, fat_tree, leaf_spine, pods, single
from weft.topo.faults import LinkLoss
from weft.topo.reach import Reach

TOPOLOGIES = [
    single(1),
    single(5),
    leaf_spine(1, 1, 1),
    leaf_spine(4, 2, 2),
    leaf_spine(3, 5, 4),
    fat_tree(4, 2),
    fat_tree(2),
    fat_tree(4),
    fat_tree(6),
    pods(3, 2, 2, 3, 1),
]
IDS = [topology.describe() for topology in TOPOLOGIES]

topologies = pytest.mark.parametrize("topology", TOPOLOGIES, ids=IDS)


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    shape = draw(st.sampled_from(["single", "leaf-spine", "fat-tree"]))
    if shape == "single":
        return single(draw(st.integers(1, 8)))
    if shape == "fat-tree":
        return fat_tree(draw(st.sampled_from([2, 4])), draw(st.sampled_from([2, 3])))
    small = st.integers(1, 5)
    return leaf_spine(draw(small), draw(small), draw(small))


# -- a switch that does what its entries say -----------------------------------------------------


def walk(topology: Topology, tables: dict[str, Tables], source: str, address: int) -> set[int]:
    """Follow all ECMP choices from a host to an address; the lengths, in switches, of all ways.

    A way ends at the host that owns the address, with its MAC; one that drops has length 0.
    """
    macs = {node.mac: name for name, node in topology.nodes.items()}
    lengths: set[int] = set()
    waiting = [(topology.outward(source)[0].destination.node, 1)]
    while waiting:
        here, hops = waiting.pop()
        assert hops < 20, f"a loop on the way from {source} to {address:#x}"
        actions = tables[here].actions_for(address)
        if not actions:
            lengths.add(0)
        for action in actions:
            if action.name == fabric.name("forwarding.drop"):
                lengths.add(0)
                continue
            assert action.name == fabric.name("forward")
            params = dict(action.params)
            (out,) = [d for d in topology.outward(here) if d.source.number == params["port"]]
            there = out.destination.node
            assert params["src_mac"] == topology.node(here).mac
            assert macs[params["dst_mac"]] == there
            if there in tables:
                waiting.append((there, hops + 1))
            else:
                assert topology.host(there).address == address
                lengths.add(hops)
    return lengths


# -- routes --------------------------------------------------------------------------------------


@topologies
@pytest.mark.parametrize("paths", PATHS)
def test_every_host_reaches_every_other_by_shortest_paths_whatever_the_hash_says(
    topology: Topology, paths: Paths
) -> None:
    tables = tables_of(plan_routes(Planning(program_names(), topology), paths))
    for source in topology.hosts:
        for destination in topology.hosts:
            if source is destination:
                continue
            one, other = topology.leaf_of(source.name), topology.leaf_of(destination.name)
            if one == other:
                expected = 1
            elif one.pod is None or one.pod == other.pod:
                expected = 3
            else:
                expected = 5
            assert walk(topology, tables, source.name, destination.address) == {expected}


def test_a_flow_between_leaves_may_take_any_spine() -> None:
    topology = leaf_spine(4, 3, 2)
    tables = tables_of(plan_routes(Planning(program_names(), topology)))
    actions = tables["leaf0"].actions_for(topology.host("h7").address)
    assert sorted(dict(action.params)["port"] for action in actions) == [3, 4, 5]


def test_two_tiers_have_a_route_per_leaf_subnet_and_host() -> None:
    plan = plan_routes(Planning(program_names(), leaf_spine(4, 2, 2)))
    leaf = [e for e in plan["leaf0"] if isinstance(e, PlannedEntry)]
    lengths = Counter(
        prefix.prefix_length for e in leaf for _, prefix in e.match if isinstance(prefix, Lpm)
    )
    assert lengths == {32: 2, 24: 3}
    assert all(isinstance(e, PlannedEntry | PlannedMember) for e in plan["spine0"])
    assert [e.group_id for e in plan["leaf0"] if isinstance(e, PlannedGroup)] == [UPLINK_GROUP]


def test_three_tiers_go_up_by_one_default_route() -> None:
    plan = plan_routes(Planning(program_names(), fat_tree(6)))
    for name, expected in (("leaf0", 3 + 1 + 1), ("agg0", 3 + 1), ("core0", 18)):
        assert sum(isinstance(e, PlannedEntry) for e in plan[name]) == expected


@topologies
@pytest.mark.parametrize("paths", PATHS)
def test_an_address_that_no_host_has_is_dropped_and_does_not_circle(
    topology: Topology, paths: Paths
) -> None:
    tables = tables_of(plan_routes(Planning(program_names(), topology), paths))
    unknown = {host.address | 0xC8 for host in topology.hosts} | {10 << 24 | 200 << 8 | 1, 1}
    for source in topology.hosts[:: max(1, len(topology.hosts) // 4)]:
        for address in unknown:
            assert walk(topology, tables, source.name, address) == {0}


@given(networks(), st.sampled_from(PATHS), st.data())
def test_routes_avoid_failed_links_and_reach_whoever_can_be_reached(
    topology: Topology, paths: Paths, data: st.DataObject
) -> None:
    names = [link.name for link in topology.links]
    without = data.draw(st.sets(st.sampled_from(names), max_size=4))
    tables = tables_of(plan_routes(Planning(program_names(), topology, without=without), paths))
    reachable: dict[str, set[str]] = {}
    for host in topology.hosts:
        seen, waiting = {host.name}, [host.name]
        while waiting:
            for d in topology.outward(waiting.pop()):
                there = d.destination.node
                if d.link.name not in without and there not in seen:
                    seen.add(there)
                    waiting.append(there)
        reachable[host.name] = seen
    for source in topology.hosts:
        for destination in topology.hosts:
            if source is destination or source.name not in reachable[destination.name]:
                continue
            lengths = walk(topology, tables, source.name, destination.address)
            assert 0 not in lengths


def test_an_unknown_failed_link_is_named() -> None:
    with pytest.raises(InputError, match="leaf0-spine9"):
        plan_routes(Planning(program_names(), leaf_spine(2, 2, 1), without=["leaf0-spine9"]))


def carried(topology: Topology, tables: dict[str, Tables]) -> dict[str, set[str]]:
    """By direction of a link: the hosts to which packets cross it, whoever sends them."""
    found: dict[str, set[str]] = {direction.name: set() for direction in topology.directions}
    for source in topology.hosts:
        for host in topology.hosts:
            here = source.leaf
            while host is not source and here in tables:
                (action,) = tables[here].actions_for(host.address)
                port = dict(action.params)["port"]
                (out,) = [d for d in topology.outward(here) if d.source.number == port]
                found[out.name].add(host.name)
                here = out.destination.node
    return found


def hosts_below(topology: Topology, switch: str) -> set[str]:
    found = {host.name for host in topology.hosts_of(switch)}
    for direction in topology.outward(switch):
        if direction.tier == "fabric_down":
            found |= hosts_below(topology, direction.destination.node)
    return found


@given(networks())
def test_by_destination_the_links_down_to_a_leaf_or_pod_have_equal_shares_of_its_hosts(
    topology: Topology,
) -> None:
    found = carried(
        topology, tables_of(plan_routes(Planning(program_names(), topology), "destination"))
    )
    into: dict[object, list[set[str]]] = {}
    for direction in topology.directions_of("fabric_down"):
        switch = topology.switch(direction.destination.node)
        assert found[direction.name] <= hosts_below(topology, switch.name)
        top = topology.switch(direction.source.node).tier in ("spine", "core")
        if top and switch.tier == "agg":
            into.setdefault(switch.pod, []).append(found[direction.name])
        else:
            into.setdefault(switch.name, []).append(found[direction.name])
    for shares in into.values():
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        assert len(set.union(*shares)) == sum(sizes), "ways to one host come down by two links"


@pytest.mark.parametrize("topology", [leaf_spine(4, 4, 4), fat_tree(6, 2), fat_tree(6)])
def test_by_destination_a_link_down_carries_one_host_where_nothing_is_oversubscribed(
    topology: Topology,
) -> None:
    found = carried(
        topology, tables_of(plan_routes(Planning(program_names(), topology), "destination"))
    )
    assert {len(found[d.name]) for d in topology.directions_of("fabric_down")} == {1}


@pytest.mark.parametrize("topology", [leaf_spine(4, 4, 4), fat_tree(4, 2), fat_tree(4)])
def test_by_destination_no_shift_of_all_hosts_puts_two_flows_on_a_link(topology: Topology) -> None:
    tables = tables_of(plan_routes(Planning(program_names(), topology), "destination"))
    hosts = topology.hosts
    for shift in range(1, len(hosts)):
        flows: Counter[str] = Counter()
        for source in hosts:
            destination = hosts[(source.rank + shift) % len(hosts)]
            here = source.leaf
            while here in tables:
                (action,) = tables[here].actions_for(destination.address)
                port = dict(action.params)["port"]
                (out,) = [d for d in topology.outward(here) if d.source.number == port]
                flows[out.name] += 1
                here = out.destination.node
        assert max(flows.values()) == 1


@given(networks(), st.data())
def test_by_destination_a_failed_link_moves_only_who_used_it_and_spreads_them(
    topology: Topology, data: st.DataObject
) -> None:
    names = [link.name for link in topology.links]
    without = data.draw(st.sets(st.sampled_from(names), max_size=4))
    before, after = (
        tables_of(plan_routes(Planning(program_names(), topology, without=failed), "destination"))
        for failed in ((), without)
    )
    possible = tables_of(plan_routes(Planning(program_names(), topology, without=without), "ecmp"))
    for switch in topology.switches:
        for leaf in topology.switches_of("leaf"):
            taken: Counter[int] = Counter()
            for host in topology.hosts_of(leaf.name):
                actions = after[switch.name].actions_for(host.address)
                choices = possible[switch.name].actions_for(host.address)
                if not actions:
                    continue  # no way, though a default route may try one
                (action,) = actions
                (old,) = before[switch.name].actions_for(host.address)
                assert action in choices
                assert action == old or old not in choices
                taken.update({dict(choice.params)["port"]: 0 for choice in choices})
                taken[dict(action.params)["port"]] += 1
            if taken and switch.tier == "leaf":
                assert max(taken.values()) - min(taken.values()) <= 2


def test_by_destination_who_loses_an_uplink_takes_the_others_in_turn() -> None:
    topology = leaf_spine(2, 6, 12)
    without = ("leaf0-spine1", "leaf0-spine4")
    before, after = (
        tables_of(plan_routes(Planning(program_names(), topology, without=failed), "destination"))
        for failed in ((), without)
    )
    lost = {topology.direction("leaf0", spine).source.number for spine in ("spine1", "spine4")}
    taken: Counter[int] = Counter()
    for host in topology.hosts_of("leaf1"):
        ((old,), (new,)) = (one["leaf0"].actions_for(host.address) for one in (before, after))
        if dict(old.params)["port"] in lost:
            taken[dict(new.params)["port"]] += 1
        else:
            assert new == old
    assert sorted(taken.values()) == [1, 1, 1, 1]


def test_by_destination_a_network_of_too_many_hosts_is_refused() -> None:
    with pytest.raises(InputError, match="a switch holds 4096: choose paths ecmp"):
        plan_routes(Planning(program_names(), leaf_spine(17, 2, 253)), "destination")


def test_salts_differ_between_switches_and_seeds_and_repeat_for_a_seed() -> None:
    topology = fat_tree(4)

    def salts(seed: int) -> list[int]:
        found = []
        for entities in plan_salts(program_names(), topology, seed).values():
            (default,) = entities
            assert isinstance(default, DefaultAction) and default.action is not None
            found.append(dict(default.action.params)["salt"])
        return found

    assert salts(1) == salts(1)
    assert len({*salts(1), *salts(2)}) == 2 * len(topology.switches)
    assert all(0 <= salt < 1 << 32 for salt in salts(3))


# -- multicast -----------------------------------------------------------------------------------


def deliver(
    topology: Topology, tables: dict[str, Tables], source: str, address: int
) -> tuple[Counter[str], Counter[str]]:
    """Send one packet to a group: copies per host, packets per direction."""
    received: Counter[str] = Counter()
    crossed: Counter[str] = Counter()
    waiting = [topology.outward(source)[0]]
    while waiting:
        direction = waiting.pop()
        crossed[direction.name] += 1
        assert sum(crossed.values()) < 10_000, "multicast circles"
        here = direction.destination.node
        if here not in tables:
            received[here] += 1
            continue
        for out in topology.outward(here):
            ports = tables[here].multicast_ports(address)
            if out.source.number in ports and out.source.number != direction.destination.number:
                waiting.append(out)
    return received, crossed


@given(networks(), st.data())
def test_a_tree_reaches_each_member_once_from_any_member_and_no_link_twice(
    topology: Topology, data: st.DataObject
) -> None:
    names = [host.name for host in topology.hosts]
    members = st.lists(st.sampled_from(names), min_size=1, unique=True)
    groups = data.draw(st.lists(members, min_size=1, max_size=4))
    trees = plan_trees(program_names(), Reach(topology), groups)
    entities = tree_entities(program_names(), trees)
    tables = {s.name: Tables(entities.get(s.name, [])) for s in topology.switches}
    for tree, group in zip(trees, groups, strict=True):
        for source in group:
            received, crossed = deliver(topology, tables, source, tree.address)
            assert received == Counter(set(group) - {source})
            assert max(crossed.values()) == 1
            assert len({name for d in crossed for name in [frozenset(d.split(">"))]}) == len(
                crossed
            )


def test_groups_are_spread_over_the_spines() -> None:
    topology = leaf_spine(4, 3, 2)
    everybody = [host.name for host in topology.hosts]
    trees = plan_trees(program_names(), Reach(topology), [everybody] * 6)
    assert [tree.root for tree in trees] == ["spine0", "spine1", "spine2"] * 2
    assert [tree.address - (239 << 24) for tree in trees] == list(range(6))


def test_groups_of_a_fat_tree_are_spread_over_the_cores() -> None:
    topology = fat_tree(4)
    everybody = [host.name for host in topology.hosts]
    trees = plan_trees(program_names(), Reach(topology), [everybody] * 4)
    assert {tree.root for tree in trees} == {"core0", "core1", "core2", "core3"}


def test_a_group_below_one_leaf_or_pod_stays_there() -> None:
    topology = fat_tree(4)
    groups = [["h0", "h1"], ["h0", "h2"]]
    leaf_local, pod_local = plan_trees(program_names(), Reach(topology), groups)
    assert set(leaf_local.ports) == {"leaf0"}
    assert set(pod_local.ports) == {"leaf0", "leaf1", pod_local.root}
    assert pod_local.root in ("agg0", "agg1")


def test_a_tree_avoids_a_failed_link() -> None:
    topology = leaf_spine(3, 2, 1)
    everybody = [host.name for host in topology.hosts]
    trees = plan_trees(program_names(), Reach(topology, ["leaf1-spine0"]), [everybody] * 3)
    assert {tree.root for tree in trees} == {"spine1"}
    # No spine has all leaves below it: the tree goes over the leaf that both spines still have.
    (tree,) = plan_trees(
        program_names(), Reach(topology, ["leaf1-spine0", "leaf2-spine1"]), [everybody]
    )
    assert tree.root == "leaf0"
    assert set(tree.ports) == {"leaf0", "leaf1", "leaf2", "spine0", "spine1"}
    apart = Reach(topology, ["leaf1-spine0", "leaf1-spine1"])
    with pytest.raises(InputError, match=r"no switch reaches all of its 3 members by the links"):
        plan_trees(program_names(), apart, [everybody])


def test_a_group_without_members_or_with_unknown_ones_is_refused() -> None:
    with pytest.raises(InputError, match="without members"):
        plan_trees(program_names(), Reach(single(2)), [[]])
    with pytest.raises(InputError, match="h7"):
        plan_trees(program_names(), Reach(single(2)), [["h0", "h7"]])


# -- faults --------------------------------------------------------------------------------------


@topologies
def test_every_direction_loses_at_one_place_only(topology: Topology) -> None:
    plan = plan_faults(program_names(), topology, losses(topology, 0.01))
    places = [(switch, entity.key) for switch, entities in plan.items() for entity in entities]
    assert len(set(places)) == len(places) == len(topology.directions)


def test_loss_becomes_a_threshold_at_the_far_end() -> None:
    topology = leaf_spine(2, 2, 2)
    plan = plan_faults(
        program_names(),
        topology,
        {("leaf0", "spine1"): 0.25, ("h0", "leaf0"): 0.01, ("leaf0", "h0"): 0.5},
    )
    assert [str(entity) for entity in plan["spine1"]] == [
        "entry of FabricIngress.fault.ingress_fault: standard_metadata.ingress_port = 0x1 -> "
        "FabricIngress.fault.lose(threshold=0x40000000)"
    ]
    assert [str(entity) for entity in plan["leaf0"]] == [
        "entry of FabricIngress.fault.ingress_fault: standard_metadata.ingress_port = 0x1 -> "
        f"FabricIngress.fault.lose(threshold={round(0.01 * CERTAIN):#x})",
        "entry of FabricEgress.fault.egress_fault: standard_metadata.egress_port = 0x1 -> "
        "FabricEgress.fault.lose(threshold=0x80000000)",
    ]


def test_certain_loss_has_an_action_of_its_own_and_no_loss_no_entry() -> None:
    topology = leaf_spine(2, 1, 1)
    plan = plan_faults(
        program_names(),
        topology,
        {("leaf0", "spine0"): 1.0, ("leaf0", "h0"): 1.0, ("spine0", "leaf0"): 0.0},
    )
    targets = {
        switch: [e.target for e in entities if isinstance(e, PlannedEntry)]
        for switch, entities in plan.items()
    }
    assert targets == {
        "spine0": [Action(fabric.name("FabricIngress.fault.lose_all"))],
        "leaf0": [Action(fabric.name("FabricEgress.fault.lose_all"))],
    }


def test_a_fault_replaces_the_general_loss_on_its_link() -> None:
    topology = leaf_spine(2, 1, 1)
    found = losses(topology, 0.01, [LinkLoss("leaf0-spine0", 0.5), LinkLoss("leaf1>spine0", 0.0)])
    assert found["leaf0", "spine0"] == found["spine0", "leaf0"] == 0.5
    assert ("leaf1", "spine0") not in found
    assert found["spine0", "leaf1"] == 0.01


def test_an_impossible_probability_is_refused() -> None:
    with pytest.raises(InputError, match=r"1\.5 on leaf0>spine0"):
        plan_faults(program_names(), leaf_spine(2, 1, 1), {("leaf0", "spine0"): 1.5})


# -- plans and their differences -----------------------------------------------------------------


def apply(plan: Plan, changes: dict[str, list[list[Update]]]) -> dict[str, dict[object, Entity]]:
    """Do what updates say to what a plan holds, as strictly as a switch would."""
    held: dict[str, dict[object, Entity]] = {
        switch: {entity.key: entity for entity in entities}
        for switch, entities in plan.entities.items()
    }
    for switch, batches in changes.items():
        state = held.setdefault(switch, {})
        for batch in batches:
            before = dict(state)
            for update in batch:
                entity = update.entity
                if isinstance(entity, DefaultAction):
                    assert update.kind == "modify"
                    state[entity.key] = entity
                    if entity.action is None:
                        del state[entity.key]
                elif update.kind == "insert":
                    assert entity.key not in before
                    check_references(entity, before)
                    state[entity.key] = entity
                elif update.kind == "modify":
                    assert entity.key in before
                    check_references(entity, before)
                    state[entity.key] = entity
                else:
                    assert entity.key in before
                    assert not any(refers(other, entity) for other in before.values())
                    del state[entity.key]
    return {switch: state for switch, state in held.items() if state}


def refers(entity: Entity, other: Entity) -> bool:
    if isinstance(entity, PlannedGroup):
        return isinstance(other, PlannedMember) and other.member_id in dict(entity.members)
    if isinstance(entity, PlannedEntry):
        if isinstance(entity.target, MemberTarget):
            return isinstance(other, PlannedMember) and other.member_id == entity.target.member_id
        if isinstance(entity.target, GroupTarget):
            return isinstance(other, PlannedGroup) and other.group_id == entity.target.group_id
    return False


def check_references(entity: Entity, present: dict[object, Entity]) -> None:
    """What an entity refers to is there before its batch: a batch may be done in any order."""
    if isinstance(entity, PlannedGroup):
        for member_id, _ in entity.members:
            assert ("member", entity.profile, member_id) in present
    elif isinstance(entity, PlannedEntry) and isinstance(entity.target, MemberTarget):
        assert ("member", fabric.name("ecmp"), entity.target.member_id) in present
    elif isinstance(entity, PlannedEntry) and isinstance(entity.target, GroupTarget):
        assert ("group", fabric.name("ecmp"), entity.target.group_id) in present


def test_what_is_wanted_of_a_feature_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match=r"'fault' is unknown \(did you mean faults\?\)"):
        controller_plan(program_names(), single(2), wants={"fault": {}})


def as_state(plan: Plan) -> dict[str, dict[object, Entity]]:
    return {
        switch: {entity.key: entity for entity in entities}
        for switch, entities in plan.entities.items()
        if entities
    }


@st.composite
def plans(draw: st.DrawFn, topology: Topology) -> Plan:
    links = [link.name for link in topology.links if "h" not in link.name]
    without = draw(st.sets(st.sampled_from(links), max_size=1)) if len(links) > 1 else set()
    everybody = [host.name for host in topology.hosts]
    try:
        return fabric_plan(
            topology,
            seed=draw(st.integers(0, 3)),
            loss=draw(st.sampled_from([0.0, 0.01, 1.0])),
            groups=[everybody] * draw(st.integers(0, 3)),
            without=without,
            paths=draw(st.sampled_from(PATHS)),
        )
    except InputError:
        return Plan()


@given(networks(), st.data())
def test_a_difference_applied_to_the_old_plan_gives_the_new_one_in_legal_steps(
    topology: Topology, data: st.DataObject
) -> None:
    old = data.draw(st.just(Plan()) | plans(topology))
    new = data.draw(st.just(Plan()) | plans(topology))
    assert apply(old, diff(old, new)) == as_state(new)


def test_no_change_is_no_update() -> None:
    topology = fat_tree(4)
    assert diff(fabric_plan(topology), fabric_plan(topology)) == {}


def test_a_failed_uplink_changes_little() -> None:
    topology = leaf_spine(4, 3, 2)
    changes = diff(
        fabric_plan(topology, groups=[]),
        fabric_plan(topology, groups=[], without=["leaf0-spine1"]),
    )
    leaf0 = [str(update) for batch in changes["leaf0"] for update in batch]
    assert leaf0 == [
        "modify group 1 of FabricIngress.forwarding.ecmp -> members 3, 5",
        "delete member 4 of FabricIngress.forwarding.ecmp -> FabricIngress.forwarding.forward"
        "(port=0x4, src_mac=0x60000000001, dst_mac=0x60000000006)",
    ]
    assert len([u for batch in changes["leaf1"] for u in batch]) == 2


def test_by_default_a_plan_has_a_group_of_all_hosts_for_each_host() -> None:
    topology = leaf_spine(4, 2, 2)
    plan = fabric_plan(topology)
    assert len(multicast_trees(plan)) == 8
    assert all(len(tree.members) == 8 for tree in multicast_trees(plan))


def test_two_planners_cannot_claim_the_same_entry() -> None:
    salts = plan_salts(program_names(), single(1), 1)
    with pytest.raises(InputError, match="planned twice"):
        merge(salts, salts)
