"""The controller with real switches behind P4Runtime: the built-in one and BMv2, alike."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.support.controller_networks import (
    bmv2_switches,
    built_in_switches,
    multicast,
    send,
    unicast,
)
from tests.support.fabric import fabric_plan
from tests.support.p4runtime_support import FABRIC, Files, compile_with_p4c

from weft.base.errors import InputError
from weft.controller import Controller, LinkCounters, Plan
from weft.controller.client import LoadableProgram, Session, WriteError
from weft.controller.entities import Action, Entity, entry
from weft.controller.features.multicast import trees_of as multicast_trees
from weft.controller.features.pinned_paths import Pin
from weft.controller.plan import Update
from weft.controller.remote import SwitchError
from weft.switch.engine.control.entities import Exact, GroupTarget, Lpm
from weft.switch.engine.switches import Dataplane
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.arbitration import Client
from weft.switch.p4runtime.streams import Streams
from weft.topo.clos import Topology, fat_tree, leaf_spine, single
from weft.topo.faults import LinkLoss

pytest_plugins = ["tests.support.p4runtime_fixtures"]

SMALL = leaf_spine(2, 2, 2)
PINS = [Pin(port % 2, 2 + port % 3 % 2, port, port % 2) for port in range(49152, 49172)]


@pytest.fixture(params=["weft", "bmv2"])
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Where the switches of the small network serve P4Runtime."""
    if request.param == "weft":
        with built_in_switches(SMALL, tmp_path) as (_, found):
            yield found
    else:
        with bmv2_switches(SMALL, tmp_path) as found:
            yield found


@pytest.fixture
def network(tmp_path: Path, fabric: Files) -> Iterator[tuple[Dataplane, Controller]]:
    """The small network's built-in switches and their controller."""
    with (
        built_in_switches(SMALL, tmp_path) as (dataplane, addresses),
        Controller(SMALL, addresses, fabric) as controller,
    ):
        yield dataplane, controller


EVERYTHING = ("table_entry", "action_profile_member", "action_profile_group")


def held(controller: Controller, switch: str) -> list[bytes]:
    """All entities of a switch, in an order of its own."""
    queries = []
    for kind in EVERYTHING:
        query = p4runtime_pb2.Entity()
        getattr(query, kind).SetInParent()
        queries.append(query)
    query = p4runtime_pb2.Entity()
    query.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    queries.append(query)
    return as_bytes(controller.session(switch).read(queries))


def planned(files: Files, plan: Plan, switch: str) -> list[bytes]:
    program = LoadableProgram.read(files)
    messages = []
    for entity in plan.entities.get(switch, ()):
        message = p4runtime_pb2.Entity()
        program.messages.fill(message, entity)
        messages.append(message)
    return as_bytes([one for one in messages if not one.table_entry.is_default_action])


def as_bytes(entities: list[Any]) -> list[bytes]:
    """Entities in an order of their own, their key fields in the order of their ids."""
    for entity in entities:
        if entity.HasField("table_entry"):
            entity.table_entry.match.sort(key=lambda field: field.field_id)
    return sorted(entity.SerializeToString(deterministic=True) for entity in entities)


def test_switches_hold_what_the_plan_says_and_follow_its_changes(
    addresses: Mapping[str, str], fabric: Files
) -> None:
    with Controller(SMALL, addresses, fabric) as controller:
        for plan in (
            fabric_plan(SMALL, seed=1),
            fabric_plan(SMALL, seed=2, loss=0.01, groups=[["h0", "h3"]]),
            fabric_plan(SMALL, seed=2, loss=1.0, without=["leaf0-spine1"]),
            fabric_plan(SMALL, seed=2, paths="destination"),
            fabric_plan(SMALL, seed=2, paths="spray-random", ecn_threshold_packets=30),
            fabric_plan(SMALL, seed=2, paths="pinned", pins=PINS),
            fabric_plan(SMALL, seed=2, paths="pinned", pins=PINS, without=["leaf1-spine1"]),
            fabric_plan(SMALL, seed=3, paths="spray-round-robin", pins=PINS[:5]),
            fabric_plan(SMALL, seed=4, paths="spray-round-robin"),
            fabric_plan(SMALL, seed=2),
            Plan(),
        ):
            controller.apply(plan)
            for switch in SMALL.switches:
                assert held(controller, switch.name) == planned(fabric, plan, switch.name)


def test_counters_start_at_zero(addresses: Mapping[str, str], fabric: Files) -> None:
    with Controller(SMALL, addresses, fabric) as controller:
        counters = controller.read_counters()
    assert counters == {direction.ends: LinkCounters(0, 0, 0, 0) for direction in SMALL.directions}


def test_a_refused_update_is_named_with_its_switch_and_entity(
    addresses: Mapping[str, str], fabric: Files
) -> None:
    route = entry(
        "FabricIngress.forwarding.ipv4_route",
        {"hdr.ipv4.dst_addr": Lpm(10 << 24, 8)},
        GroupTarget(5),
    )
    fault = entry(
        "FabricIngress.fault.ingress_fault",
        {"standard_metadata.ingress_port": Exact(1)},
        Action("FabricIngress.fault.lose_all"),
    )
    with (
        Controller(SMALL, addresses, fabric) as controller,
        pytest.raises(WriteError) as caught,
    ):
        controller.apply(Plan({"leaf0": (fault, route)}))
    (failure,) = caught.value.failures
    assert failure.update == Update("insert", route)
    assert failure.code in ("NOT_FOUND", "INVALID_ARGUMENT")  # BMv2 departs from the specification
    text = str(caught.value)
    assert text.startswith(f"leaf0 (device 1, {addresses['leaf0']}): 1 of 2 updates failed:")
    assert "insert entry of FabricIngress.forwarding.ipv4_route: hdr.ipv4.dst_addr = " in text
    assert f"-> group 5: {failure.code}: " in text


def test_a_second_controller_is_told_who_owns_the_switch(
    addresses: Mapping[str, str], fabric: Files
) -> None:
    with Controller(SMALL, addresses, fabric):
        with pytest.raises(SwitchError, match="another controller, with election id 1, owns"):
            Session("leaf0", 1, addresses["leaf0"], election_id=(0, 0)).connect()
        with pytest.raises(SwitchError, match=r"leaf0 \(device 1, .*ended the stream"):
            Session("leaf0", 1, addresses["leaf0"]).connect()
    with Controller(SMALL, addresses, fabric) as after:
        after.apply(fabric_plan(SMALL))


def test_a_small_election_id_is_enough_to_own_a_switch_and_weft_takes_the_least_that_serves(
    addresses: Mapping[str, str], fabric: Files, request: pytest.FixtureRequest
) -> None:
    where = ("leaf0", 1, addresses["leaf0"])
    with Controller(SMALL, addresses, fabric) as controller:
        with closing(Session(*where, election_id=(0, 10))) as other:
            other.connect()
            with pytest.raises(SwitchError, match="with election id 10, owns the switch; end"):
                Session(*where, election_id=None).connect()
            with closing(Session(*where, election_id=None)) as over:
                over.connect(over=True)
                assert over.client.election_id == (0, 11)
        controller.session("leaf0").take_over()
        # Nobody has 11 now; on BMv2 the greatest id of those who are there owns the switch.
        least = (0, 1) if "bmv2" in request.node.name else (0, 11)
        assert controller.session("leaf0").client.election_id == least
        controller.session("leaf0").take_over()  # it owns the switch already
        assert controller.session("leaf0").client.election_id == least
        controller.apply(fabric_plan(SMALL))
    with closing(Session(*where, election_id=(0, 11))) as after:
        after.connect()


def test_who_comes_after_a_session_may_have_its_election_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Streams.close

    def close_late(streams: Streams, client: Client) -> None:
        time.sleep(0.1)
        close(streams, client)

    monkeypatch.setattr(Streams, "close", close_late)
    with built_in_switches(single(1), tmp_path) as (_, addresses):
        for _ in range(3):
            session = Session("leaf0", 1, addresses["leaf0"])
            session.connect()
            session.close()


def test_another_device_id_is_noticed(network: tuple[Dataplane, Controller]) -> None:
    address = network[1].session("leaf0").where.split(", ")[1].rstrip(")")
    with pytest.raises(SwitchError, match=r"leaf0 \(device 77, .*NOT_FOUND: no device 77 here"):
        Session("leaf0", 77, address).connect()


def test_a_switch_that_is_not_there_is_an_error_within_the_deadline(
    tmp_path: Path, fabric: Files
) -> None:
    addresses = {switch.name: f"unix:{tmp_path}/{switch.name}" for switch in SMALL.switches}
    with pytest.raises(
        SwitchError, match=r"leaf0 \(device 1, unix:.*could not connect within 0\.3 s(.|\n)*3 other"
    ):
        Controller(SMALL, addresses, fabric, deadline_s=0.3)


def test_a_switch_that_ends_is_an_error(tmp_path: Path, fabric: Files) -> None:
    with built_in_switches(SMALL, tmp_path) as (_, addresses):
        controller = Controller(SMALL, addresses, fabric)
        controller.apply(fabric_plan(SMALL))
    with pytest.raises(SwitchError, match=r"leaf0 .*could not read 24 queries: UNAVAILABLE"):
        controller.read_counters()
    controller.close()


def test_a_program_without_what_the_plan_needs_is_bad_input(
    tmp_path: Path, every_entity: Files
) -> None:
    topology = single(1)
    with (
        built_in_switches(topology, tmp_path) as (_, addresses),
        Controller(topology, addresses, every_entity) as controller,
        pytest.raises(InputError, match=r"no action profile 'FabricIngress\.forwarding\."),
    ):
        controller.apply(fabric_plan(topology))


def test_missing_program_files_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="compile it again"):
        LoadableProgram.read(Files(tmp_path / "none.json", tmp_path / "none.txtpb"))


def test_a_failure_on_one_switch_is_not_lost_among_the_others(
    tmp_path: Path, fabric: Files
) -> None:
    unknown: Entity = entry("no such table", {}, Action("NoAction"))
    with (
        built_in_switches(SMALL, tmp_path) as (_, addresses),
        Controller(SMALL, addresses, fabric) as controller,
        pytest.raises(InputError, match="no table 'no such table'"),
    ):
        controller.apply(Plan({"spine0": (unknown,)}))


# -- what packets then do ------------------------------------------------------------------------


def test_packets_reach_every_host_and_are_counted_on_every_link(
    network: tuple[Dataplane, Controller],
) -> None:
    dataplane, controller = network
    controller.apply(fabric_plan(SMALL, seed=1))
    before = controller.read_counters()
    flows = range(50000, 50016)
    for source in SMALL.hosts:
        for destination in SMALL.hosts:
            if source is not destination:
                frames = [unicast(SMALL, source.name, destination.name, port) for port in flows]
                received = send(SMALL, dataplane, source.name, frames)
                assert list(received) == [destination.name]
                assert len(received[destination.name]) == len(flows)
                assert received[destination.name][0][:6] == destination.mac.to_bytes(6, "big")
    size = len(unicast(SMALL, "h0", "h1", 50000))
    after = controller.read_counters()
    moved = {ends: after[ends] - before[ends] for ends in after}
    for ends, link in moved.items():
        assert link.tx_bytes == link.tx_packets * size
        assert link.lost_packets == link.lost_bytes == 0
        if "h" in ends[0] + ends[1]:
            assert link.tx_packets == 3 * len(flows)
        else:
            assert link.tx_packets > 0  # the hash spreads flows over both spines
    up = moved["leaf0", "spine0"].tx_packets + moved["leaf0", "spine1"].tx_packets
    assert up == 4 * len(flows)


def test_packets_by_destination_share_all_links_evenly_whatever_flow_they_are_of(
    network: tuple[Dataplane, Controller],
) -> None:
    dataplane, controller = network
    controller.apply(fabric_plan(SMALL, seed=1))
    controller.apply(fabric_plan(SMALL, seed=1, paths="destination"))
    before = controller.read_counters()
    for source in SMALL.hosts:
        for destination in SMALL.hosts:
            if source is not destination:
                flows = range(50000 + source.rank, 50016, 5)
                frames = [unicast(SMALL, source.name, destination.name, port) for port in flows]
                received = send(SMALL, dataplane, source.name, frames[:3])
                assert {name: len(found) for name, found in received.items()} == {
                    destination.name: 3
                }
    after = controller.read_counters()
    fabric_links = {
        (after[ends] - before[ends]).tx_packets for ends in after if "h" not in ends[0] + ends[1]
    }
    assert fabric_links == {2 * 3}  # from two hosts to one other


def test_multicast_reaches_each_member_once(network: tuple[Dataplane, Controller]) -> None:
    dataplane, controller = network
    plan = fabric_plan(SMALL, groups=[["h0", "h1", "h2", "h3"]] * 2 + [["h0", "h2"]])
    controller.apply(plan)
    for tree in multicast_trees(plan):
        for source in tree.members:
            received = send(SMALL, dataplane, source, [multicast(SMALL, source, tree.address)])
            others = {name: 1 for name in tree.members if name != source}
            assert {host: len(frames) for host, frames in received.items()} == others
    assert all(link.tx_packets <= 10 for link in controller.read_counters().values())


@pytest.mark.parametrize("direction", ["h0>leaf0", "leaf0>spine0", "spine0>leaf1", "leaf1>h2"])
def test_what_a_direction_loses_is_counted_there_and_nowhere_else(
    network: tuple[Dataplane, Controller], direction: str
) -> None:
    dataplane, controller = network
    group = [["h0", "h2"]]
    controller.apply(fabric_plan(SMALL, groups=group, faults=[LinkLoss(direction, 1.0)]))
    tree = multicast_trees(controller.plan)[0]
    assert tree.root == "spine0"
    frames = [multicast(SMALL, "h0", tree.address)] * 5
    assert send(SMALL, dataplane, "h0", frames) == {}
    counters = controller.read_counters()
    lost = {ends: link for ends, link in counters.items() if link.lost_packets}
    assert list(lost) == [tuple(direction.split(">"))]
    (link,) = lost.values()
    assert (link.lost_packets, link.lost_bytes) == (5, 5 * len(frames[0]))
    assert link.tx_packets == 5
    controller.apply(fabric_plan(SMALL, groups=group))
    assert len(send(SMALL, dataplane, "h0", frames)["h2"]) == 5


def test_some_loss_loses_some(network: tuple[Dataplane, Controller]) -> None:
    dataplane, controller = network
    controller.apply(fabric_plan(SMALL, groups=[], faults=[LinkLoss("h0>leaf0", 0.5)]))
    received = send(SMALL, dataplane, "h0", [unicast(SMALL, "h0", "h1", 50000)] * 200)
    lost = controller.read_counters()["h0", "leaf0"].lost_packets
    assert len(received["h1"]) == 200 - lost
    assert 60 < lost < 140


def test_a_fat_tree_of_three_tiers_carries_packets_between_pods(
    tmp_path: Path, fabric: Files
) -> None:
    topology: Topology = fat_tree(4)
    with (
        built_in_switches(topology, tmp_path) as (dataplane, addresses),
        Controller(topology, addresses, fabric) as controller,
    ):
        plan = fabric_plan(topology, groups=[[host.name for host in topology.hosts]])
        controller.apply(plan)
        for destination in ("h1", "h2", "h15"):
            frames = [unicast(topology, "h0", destination, port) for port in range(50000, 50004)]
            assert len(send(topology, dataplane, "h0", frames)[destination]) == 4
        received = send(
            topology, dataplane, "h5", [multicast(topology, "h5", multicast_trees(plan)[0].address)]
        )
        assert sorted(received) == sorted(h.name for h in topology.hosts if h.name != "h5")


def test_a_plan_is_the_same_messages_whichever_compiler_made_the_program(
    tmp_path: Path, fabric: Files
) -> None:
    other = compile_with_p4c(FABRIC, tmp_path)
    plan = fabric_plan(SMALL, loss=0.01)
    for switch in SMALL.switches:
        assert planned(fabric, plan, switch.name) == planned(other, plan, switch.name)


def test_closing_a_session_ends_what_it_waits_for(tmp_path: Path) -> None:
    session = Session("leaf0", 1, f"unix:{tmp_path}/leaf0.sock", deadline_s=600)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(session.connect)
        session.close()
        session.close()
        assert waiting.exception(timeout=300) is not None
