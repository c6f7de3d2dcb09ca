"""A switch as a script handles it: tables, counters, registers, meters and groups, by P4Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.base.errors import InputError
from weft.controller import Controller, Plan, fabric_plan
from weft.controller.features.program import featured_program
from weft.controller.handles.access import SCRIPT, Count
from weft.controller.handles.cells import Rates
from weft.controller.handles.switch import SwitchHandle
from weft.controller.remote import SwitchError
from weft.switch.compiler import compile_cached
from weft.switch.engine.control.entities import Exact, Lpm, Range, Ternary
from weft.switch.messages import p4runtime_pb2
from weft.topo.clos import leaf_spine, single
from weft.topo.worlds.simulated.world import SimulatedWorld

PLAN = "the controller's plan"
ROUTE = {"hdr.ipv4.dst_addr": "10.0.9.0/24"}
MACS: dict[str, Any] = {"src_mac": "06:00:00:00:00:01", "dst_mac": 0x0600_0000_0002}

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<16> port; bit<32> address; bit<48> mac; }
struct headers { h_t h; }
struct metadata { bit<2> colour; }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    register<bit<24>>(8) seen;
    counter(4, CounterType.packets_and_bytes) arrived;
    meter(2, MeterType.bytes) police;
    direct_counter(CounterType.packets_and_bytes) hits;
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table filter {
        key = {
            hdr.h.kind : exact; hdr.h.port : range; hdr.h.address : ternary; hdr.h.mac : optional;
        }
        actions = { send; @defaultonly drop; }
        default_action = drop();
        counters = hits;
        size = 16;
    }
    action_profile(8) profile;
    table bound {
        key = { hdr.h.kind : exact; }
        actions = { send; drop; }
        implementation = profile;
    }
    apply {
        arrived.count(0);
        police.execute_meter(0, m.colour);
        seen.write(0, 1);
        if (!filter.apply().hit) { bound.apply(); }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture
def fabric() -> Iterator[Controller]:
    world = SimulatedWorld(leaf_spine(2, 2, 2))
    with Controller(world.topology, world.switch_addresses, featured_program()) as controller:
        controller.apply(fabric_plan(controller.names, world.topology))
        yield controller


@pytest.fixture
def own(tmp_path: Path) -> Iterator[SwitchHandle]:
    source = tmp_path / "own.p4"
    source.write_text(PROGRAM)
    world = SimulatedWorld(single(2))
    with Controller(world.topology, world.switch_addresses, compile_cached(source)) as controller:
        yield SwitchHandle(controller, "leaf0")


def test_entries_say_who_has_written_them(fabric: Controller) -> None:
    table = SwitchHandle(fabric, "leaf0").table("ipv4_route")
    assert {entry.owner for entry in table} == {PLAN}
    table.insert(ROUTE, "forward", port=3, **MACS)
    (mine,) = [entry for entry in table.entries() if entry.owner == SCRIPT]
    assert mine.match == {"hdr.ipv4.dst_addr": Lpm(0x0A000900, 24)}
    assert mine.action.endswith(".forward")
    assert mine.params == {"port": 3, "src_mac": 0x0600_0000_0001, "dst_mac": 0x0600_0000_0002}
    assert len(table) == 4
    table.modify(ROUTE, "forward", port=4, **MACS)
    assert [entry.params["port"] for entry in table if entry.owner == SCRIPT] == [4]
    table.delete(ROUTE)
    assert {entry.owner for entry in table} == {PLAN}


def test_an_action_of_a_table_with_a_profile_leaves_no_member_behind(own: SwitchHandle) -> None:
    bound = own.table("bound")
    bound.insert({"kind": 1}, "send", port=1)
    bound.modify({"kind": 1}, "send", port=2)
    with pytest.raises(SwitchError, match="ALREADY_EXISTS"):
        bound.insert({"kind": 1}, "send", port=1)
    assert [entry.params for entry in bound] == [{"port": 2}]
    bound.delete({"kind": 1})
    assert own.session.read([p4runtime_pb2.Entity(action_profile_member={})]) == []


def test_later_plans_leave_a_scripts_entries_alone(fabric: Controller) -> None:
    leaf = SwitchHandle(fabric, "leaf0")
    leaf.table("ipv4_route").insert(ROUTE, "forward", port=3, **MACS)
    leaf.groups.insert(77, [1, 2])
    around = fabric_plan(fabric.names, fabric.topology, without=["leaf0-spine0"])
    fabric.apply(around)
    assert [str(entry.match) for entry in leaf.table("ipv4_route") if entry.owner == SCRIPT]
    assert leaf.groups.read()[77] == (1, 2)


def test_what_a_plan_has_written_no_script_may_change(fabric: Controller) -> None:
    leaf = SwitchHandle(fabric, "leaf0")
    table = leaf.table("ipv4_route")
    before = [str(entry) for entry in table]
    known = {"dst_addr": "10.0.1.0/24"}
    changes: list[Callable[[], object]] = [
        lambda: table.insert(known, "forward", port=3, **MACS),
        lambda: table.modify(known, "forward", port=3, **MACS),
        lambda: table.delete(known),
        lambda: leaf.table("switch_config").set_default("set_salt", salt=5),
    ]
    for change in changes:
        with pytest.raises(InputError, match=r"the script wants to .* the controller's plan has"):
            change()
    assert [str(entry) for entry in table] == before


def test_a_plan_that_wants_what_a_script_has_names_both_and_writes_nothing(
    fabric: Controller,
) -> None:
    wanted = fabric.plan
    fabric.apply(Plan())
    table = SwitchHandle(fabric, "leaf0").table("ipv4_route")
    table.insert({"dst_addr": "10.0.1.0/24"}, "drop")
    with pytest.raises(InputError, match=r"the controller's plan wants to .* the script has"):
        fabric.apply(wanted)
    assert [entry.owner for entry in table] == [SCRIPT]
    assert fabric.plan == Plan()
    table.delete({"dst_addr": "10.0.1.0/24"})
    fabric.apply(wanted)
    assert {entry.owner for entry in table} == {PLAN}


def test_all_kinds_of_match_are_written_and_read(own: SwitchHandle) -> None:
    table = own.table("filter")
    assert list(table.keys.values()) == ["exact", "range", "ternary", "optional"]
    assert table.size == 16
    match = {"kind": 1, "port": "80..90", "address": "10.0.0.0/8", "mac": "02:00:00:00:00:01"}
    table.insert(match, "send", priority=5, port=1)
    table.insert({"kind": 2}, "send", priority=1, port=2)
    by_priority = {entry.priority: entry for entry in table}
    assert list(by_priority[5].match.values()) == [
        Exact(1), Range(80, 90), Ternary(0x0A000000, 0xFF000000), Exact(0x020000000001),
    ]  # fmt: skip
    assert by_priority[1].match == {"hdr.h.kind": Exact(2)}
    assert by_priority[1].count == Count(0, 0)
    table.delete(match, priority=5)
    assert [entry.priority for entry in table] == [1]


def test_default_actions_are_set_and_put_back(own: SwitchHandle) -> None:
    table = own.table("filter")
    assert "drop" in table.default
    table.set_default("send", port=1)
    assert table.default.endswith("send(port=1)")
    table.reset_default()
    assert "drop" in table.default


def test_cells_are_read_and_written(own: SwitchHandle) -> None:
    arrived, seen, police = own.counter("arrived"), own.register("seen"), own.meter("police")
    arrived[3] = Count(7, 700)
    assert (len(arrived), arrived[3]) == (4, Count(7, 700))
    assert arrived.read() == [Count(0, 0)] * 3 + [Count(7, 700)]
    seen[7] = "0xabcdef"
    assert (seen[7], seen.read()) == (0xABCDEF, [0] * 7 + [0xABCDEF])
    rates = Rates(1000, 100, 2000, 200)
    police[1] = rates
    assert police.read() == [None, rates]
    police[1] = None
    assert police[1] is None


def wrong(own: Any) -> dict[str, Any]:
    table, bound = own.table("filter"), own.table("bound")
    return {
        "no table 'filtre' (did you mean filter?)": lambda: own.table("filtre"),
        "no counter 'hits'": lambda: own.counter("hits"),
        "no key field 'kin'": lambda: table.insert({"kin": 1}, "send", priority=1, port=1),
        "needs a value of hdr.h.kind": lambda: table.insert({}, "send", priority=1, port=1),
        "name one, priority=1 or more": lambda: table.insert({"kind": 1}, "send", port=1),
        "takes none; leave it out": lambda: bound.insert({"kind": 1}, "send", priority=1, port=1),
        "no action 'drop'": lambda: table.insert({"kind": 1}, "drop", priority=1),
        "needs port, too: write 'send', port=...": lambda: bound.insert({"kind": 1}, "send"),
        "no parameter 'porto'": lambda: bound.insert({"kind": 1}, "send", porto=1),
        "512 does not fit 9 bits": lambda: bound.insert({"kind": 1}, "send", port=512),
        "nothing is where the entry is to lead": lambda: bound.insert({"kind": 1}),
        "action and member is where": lambda: bound.insert({"kind": 1}, "send", member=1, port=1),
        "has no action profile": lambda: table.insert({"kind": 1}, priority=1, member=1),
        "parameters go with an action": lambda: bound.insert({"kind": 1}, member=1, port=1),
        "is there twice": lambda: bound.insert({"kind": 1, "hdr.h.kind": 2}, "send", port=1),
        "the numbers are 1 to 65535": lambda: own.groups.insert(0, [1]),
        "no table 3; it has": lambda: own.table(3),
        "no register 3; it has": lambda: own.register(3),
        "'x' does not say what key fields match": lambda: table.insert("x", "send"),
        "3 does not say what key fields match": lambda: table.delete(3),
        "priority 'x' is no whole": lambda: table.insert({"kind": 1}, "send", priority="x", port=1),
        "group 11: ports ['x']: 'x' is no whole": lambda: own.groups.insert(11, ports=["x"]),
        "group 11: ports 3 is no sequence": lambda: own.groups.insert(11, 3),
        "has one twice": lambda: own.groups.insert(1, [1, 1]),
        "does not fit 24 bits": lambda: own.register("seen").__setitem__(0, 1 << 24),
    }


def test_every_mistake_names_the_switch_and_what_is_possible(own: SwitchHandle) -> None:
    for words, mistake in wrong(own).items():
        with pytest.raises(InputError) as raised:
            mistake()
        assert words in str(raised.value), words
        assert "\n" not in str(raised.value)


def test_cells_that_do_not_exist_are_index_errors(own: SwitchHandle) -> None:
    with pytest.raises(IndexError, match="the indices are 0 to 3"):
        own.counter("arrived")[4]
    with pytest.raises(IndexError):
        own.register("seen")[-1]


def test_a_refusal_of_the_switch_names_the_switch_and_the_entry(own: SwitchHandle) -> None:
    with pytest.raises(SwitchError, match=r"(?s)leaf0.*member 9: NOT_FOUND"):
        own.table("bound").insert({"kind": 1}, member=9)
