"""P4Runtime within one process: the same answers as over gRPC, and the same refusals."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from tests.support.compiler_support import compiled
from tests.support.fabric import fabric_plan

from weft.controller import Controller
from weft.controller.client import WriteError
from weft.controller.entities import PlannedEntry
from weft.controller.plan import Update
from weft.controller.remote import SwitchError
from weft.switch.compiler import compile_cached
from weft.switch.engine.control.entities import CounterCell
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.local import LocalClient
from weft.switch.p4runtime.p4info import ProgramInfo
from weft.switch.p4runtime.p4info_objects import Translations
from weft.topo.clos import leaf_spine
from weft.topo.fabric_program import fabric_program
from weft.topo.worlds.simulated.world import SimulatedWorld


def test_a_plan_is_applied_and_counters_are_read_without_a_thread() -> None:
    world = SimulatedWorld(leaf_spine())
    before = set(threading.enumerate())  # of which those of other tests may end
    with Controller(
        world.topology, world.switch_addresses, compile_cached(fabric_program())
    ) as controller:
        controller.apply(fabric_plan(world.topology, loss=0.1))
        controller.apply(fabric_plan(world.topology, without=["leaf0-spine1"]))
        assert set(threading.enumerate()) <= before
        assert {link.tx_packets for link in controller.read_counters().values()} == {0}


def test_a_table_may_have_hidden_actions(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="@hidden action b() { } action a() { } table t { key = { hdr.h.a: exact; }"
        " actions = { a; b; } default_action = b; entries = { 1: a(); 2: b(); } }",
        ingress="t.apply();",
    )
    info = ProgramInfo(program.p4info, json.loads(program.bmv2_json), Translations())
    (table,) = info.tables.values()
    assert [info.actions[number].name for number in table.scopes] == ["I.a"]


def test_a_refused_update_is_named() -> None:
    world = SimulatedWorld(leaf_spine())
    with Controller(
        world.topology, world.switch_addresses, compile_cached(fabric_program())
    ) as controller:
        plan = fabric_plan(world.topology)
        controller.apply(plan)
        group = next(item for item in plan.entities["leaf0"] if "multicast" in str(item).lower())
        with pytest.raises(WriteError, match="ALREADY_EXISTS") as error:
            controller.session("leaf0").write([Update("insert", group)])
    assert "leaf0 (device 1, in this process)" in str(error.value)
    assert len(error.value.failures) == 1


def test_a_switch_has_one_controller_at_a_time() -> None:
    world = SimulatedWorld(leaf_spine(1, 1, 1))
    program = compile_cached(fabric_program())
    with (
        Controller(world.topology, world.switch_addresses, program),
        pytest.raises(SwitchError, match="become the primary"),
    ):
        Controller(world.topology, world.switch_addresses, program)
    Controller(world.topology, world.switch_addresses, program).close()


def test_entries_that_are_inserted_without_messages_are_what_messages_would_have_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worlds = [SimulatedWorld(leaf_spine()) for _ in range(2)]
    held = []
    for world in worlds:
        with Controller(
            world.topology, world.switch_addresses, compile_cached(fabric_program())
        ) as controller:
            if world is worlds[1]:
                monkeypatch.setattr(LocalClient, "takes_entries", False)
            plan = fabric_plan(world.topology, loss=0.1)
            controller.apply(plan)
            held.append(
                {
                    name: {each: state.entries for each, state in control.contents().tables.items()}
                    for name, control in world.controls.items()
                }
            )
    assert held[0] == held[1]


def test_a_refused_entry_is_named_and_the_others_are_there() -> None:
    world = SimulatedWorld(leaf_spine())
    with Controller(
        world.topology, world.switch_addresses, compile_cached(fabric_program())
    ) as controller:
        plan = fabric_plan(world.topology)
        controller.apply(plan)
        session, control = controller.session("leaf0"), world.controls["leaf0"]
        entries = [one for one in plan.entities["leaf0"] if isinstance(one, PlannedEntry)][-2:]
        before = control.entries(entries[0].table)
        session.write([Update("delete", entries[1])])
        with pytest.raises(WriteError, match="1 of 2 updates failed") as error:
            session.write([Update("insert", one) for one in entries])
        assert [each.update for each in error.value.failures] == [Update("insert", entries[0])]
        assert "ALREADY_EXISTS" in str(error.value)
        assert sorted(map(str, control.entries(entries[0].table))) == sorted(map(str, before))


def test_counters_read_without_messages_are_those_that_read_tells() -> None:
    world = SimulatedWorld(leaf_spine())
    with Controller(
        world.topology, world.switch_addresses, compile_cached(fabric_program())
    ) as controller:
        session, values = controller.session("leaf0"), world.controls["leaf0"].values
        counter = controller.names.name("port_egress")
        values.write_counter(counter, 2, CounterCell(3, 400))
        number = session.program.messages.counter_id(counter)
        query = p4runtime_pb2.Entity(counter_entry={"counter_id": number})
        told = [one.counter_entry.data for one in session.read([query])]
        cells = [(counter, index) for index in range(len(told))]
        assert session.read_counters(cells) == [(one.packet_count, one.byte_count) for one in told]
        assert session.read_counters(cells[2:3]) == [(3, 400)]
        with pytest.raises(SwitchError, match="the last one is"):
            session.read_counters([(counter, len(told))])
