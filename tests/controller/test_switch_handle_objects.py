"""Clone sessions, replicas, value sets, members, groups and direct meters, as a script handles
them: what is written is read again, and packets see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.handles_support import KIND, SOURCE, frame, marks
from tests.support.system_support import WORLDS, wait_until

import weft
from weft.base.errors import InputError
from weft.controller.handles.access import Count
from weft.controller.handles.cells import Rates
from weft.controller.handles.replication import CloneSession, Replica
from weft.controller.remote import SwitchError
from weft.switch.engine.control.entities import Exact, Ternary


@pytest.fixture(scope="module", params=WORLDS)
def net(request: pytest.FixtureRequest) -> Iterator[weft.Net]:
    with weft.up(weft.single(3), world=request.param, program=SOURCE) as net:
        yield net


def test_replicas_have_the_rids_that_a_script_gives_them(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    leaf.groups.insert(9, [(2, 5), (2, 6), 3])
    assert leaf.groups.replicas()[9] == (Replica(2, 5), Replica(2, 6), Replica(3, 1))
    assert leaf.groups.read()[9] == (2, 2, 3)
    leaf.table("steps").insert({"dst": 0x21}, "copy", group=9)
    assert [rid for rid, *_ in marks(net, 0x21, host=1, count=2)] == [5, 6]
    assert [rid for rid, *_ in marks(net, 0x21, host=2)] == [1]
    leaf.groups.modify(9, [Replica(3, 77)])
    assert [rid for rid, *_ in marks(net, 0x21, host=2)] == [77]
    leaf.groups.delete(9)
    assert marks(net, 0x21, host=2, count=0) == []


def test_a_clone_session_copies_and_cuts(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    leaf.table("steps").insert({"dst": 0x22}, "mirror", session=5)
    assert marks(net, 0x22, host=2, count=0) == []
    leaf.clones.insert(5, [(3, 9)], packet_length=20)
    assert leaf.clones.read() == {5: CloneSession((Replica(3, 9),), 20)}
    assert [(rid, length) for rid, _, _, length in marks(net, 0x22, host=2)] == [(9, 20)]
    assert len(marks(net, 0x22, host=1)) == 1
    leaf.clones.modify(5, [(3, 10)])
    assert [(rid, length) for rid, _, _, length in marks(net, 0x22, host=2)] == [(10, 64)]
    leaf.clones.delete(5)
    assert leaf.clones.read() == {}
    assert marks(net, 0x22, host=2, count=0) == []


def test_the_parser_goes_by_the_members_of_value_sets(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    kinds, pairs = leaf.value_set("kinds"), leaf.value_set("pairs")
    leaf.table("steps").insert({"dst": 0x23}, "send", port=2)
    assert [parsed for _, _, parsed, _ in marks(net, 0x23, host=1)] == [0]
    kinds.insert(KIND)
    assert kinds.read() == [{next(iter(kinds.keys)): Exact(KIND)}]
    assert [parsed for _, _, parsed, _ in marks(net, 0x23, host=1)] == [1]
    kinds.delete(KIND)
    assert (kinds.read(), kinds.size) == ([], 4)
    assert pairs.keys == {"dst": "ternary", "kind": "exact"}
    pairs.set([{"dst": "0x20 &&& 0xf0", "kind": KIND}, {"kind": 1}])
    assert pairs.read() == [
        {"dst": Ternary(0x20, 0xF0), "kind": Exact(KIND)}, {"kind": Exact(1)},
    ]  # fmt: skip
    assert [parsed for _, _, parsed, _ in marks(net, 0x23, host=1)] == [2]
    pairs.set([])
    assert [parsed for _, _, parsed, _ in marks(net, 0x23, host=1)] == [0]


def test_members_and_groups_are_objects_of_their_own(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    choice = leaf.profile("choice")
    choice.members.insert(1, "send", port=2)
    choice.members.insert(2, "send", port=3)
    choice.groups.insert(1, {1: 1, 2: 3})
    assert choice.groups.read() == {1: {1: 1, 2: 3}}
    leaf.table("choosing").insert({"dst": 0x24}, group=1)
    reached = {1: 0, 2: 0}
    for each in net.hosts:
        each.sniff(timeout=0)
    for source in range(16):
        net.hosts[0].send(frame(0x24, source=source))

    def all_have_come() -> bool:
        for host in reached:
            heard = map(bytes, net.hosts[host].sniff(timeout=0.1))
            reached[host] += sum(one[:6] == (0x24).to_bytes(6, "big") for one in heard)
        return sum(reached.values()) >= 16

    wait_until(all_have_come, "all frames have come")
    assert sum(reached.values()) == 16
    assert min(reached.values()) > 0
    choice.members.modify(1, "send", port=3)
    found = choice.members.read()[1]
    assert (found.action, found.params, found.owner) == ("I.send", {"port": 3}, "the script")
    choice.groups.modify(1, [2])
    assert choice.groups.read() == {1: {2: 1}}
    with pytest.raises(SwitchError, match="FAILED_PRECONDITION"):
        choice.members.delete(2)
    leaf.table("choosing").delete({"dst": 0x24})
    choice.groups.delete(1)
    choice.members.delete(1)
    choice.members.delete(2)
    assert (choice.groups.read(), choice.members.read()) == ({}, {})


def test_an_entrys_own_member_is_no_other_ones(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    plain, bound = leaf.profile("plain"), leaf.table("bound")
    plain.members.insert(1 << 30, "drop")
    bound.insert({"dst": 0x25}, "send", port=2)
    ids = sorted(plain.members.read())
    assert ids == [1 << 30, (1 << 30) + 1]
    with pytest.raises(InputError, match="modify or delete that entry"):
        plain.members.delete(ids[1])
    bound.delete({"dst": 0x25})
    plain.members.delete(1 << 30)
    assert plain.members.read() == {}


def test_direct_meters_and_counters_are_those_of_entries(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    policed = leaf.table("policed")
    leaf.table("steps").insert({"dst": 0x26}, "send", port=2)
    policed.insert({"src": 7}, "metered")
    (entry,) = policed
    assert (entry.meter, entry.count) == (None, Count(0, 0))
    assert [colour for _, colour, *_ in marks(net, 0x26, host=1)] == [0]
    rates = Rates(1, 1, 1, 1)
    policed.set_meter({"src": 7}, rates)
    assert [entry.meter for entry in policed] == [rates]
    net.hosts[0].send(frame(0x26), count=20)
    assert len(net.hosts[1].sniff(timeout=60, count=20)) == 20
    assert [colour for _, colour, *_ in marks(net, 0x26, host=1)] == [2]
    policed.set_meter({"src": 7}, None)
    assert [entry.meter for entry in policed] == [None]
    policed.set_count({"src": 7}, Count(5, 0))
    assert [entry.count for entry in policed] == [Count(5, 0)]
    assert marks(net, 0x26, host=1)
    assert [entry.count for entry in policed] == [Count(6, 60)]
    policed.delete({"src": 7})


def wrong(leaf: Any) -> dict[str, Callable[[], object]]:
    choice, plain = leaf.profile("choice"), leaf.profile("plain")
    kinds, pairs = leaf.value_set("kinds"), leaf.value_set("pairs")
    steps = leaf.table("steps")
    return {
        "no action profile 'choise' (did you mean choice?)": lambda: leaf.profile("choise"),
        "no value set 'kind'": lambda: leaf.value_set("kind"),
        "clone session 0: the numbers are 1 to 32767": lambda: leaf.clones.insert(0, [1]),
        "packet_length -1: a number of bytes": lambda: leaf.clones.insert(1, [1], -1),
        "port 512 is not in 0 to 511": lambda: leaf.clones.insert(1, [512]),
        "rid 65536 is not in 0 to 65535": lambda: leaf.groups.insert(1, [(1, 65536)]),
        "a copy is a port, or a pair (port, rid)": lambda: leaf.groups.insert(1, [(1, 2, 3)]),
        "ports [(1, 2), (1, 2)] has one twice": lambda: leaf.groups.insert(1, [(1, 2), (1, 2)]),
        "member 0: the ids are 1 to": lambda: choice.members.insert(0, "send", port=1),
        "no action 'copy'; it has NoAction, I.send, I.drop": lambda: choice.members.insert(
            1, "copy"
        ),
        "without selector": lambda: plain.groups.insert(1, [1]),
        "weight 0: a weight is 1 or more": lambda: choice.groups.insert(1, {1: 0}),
        "has one twice: weigh it": lambda: choice.groups.insert(1, [1, 1]),
        "65536 does not fit 16 bits": lambda: kinds.insert(65536),
        "it is not there": lambda: kinds.delete(3),
        "give values by their fields, dst and kind": lambda: pairs.insert(3),
        "has no field 'dts' (did you mean dst?)": lambda: pairs.insert({"dts": 3}),
        "needs a value of kind, too": lambda: pairs.insert({"dst": 3}),
        "has no direct meter": lambda: steps.set_meter({"dst": 1}, None),
        "has no direct counter": lambda: steps.set_count({"dst": 1}, Count(0, 0)),
    }


def test_every_mistake_names_the_switch_and_what_is_possible() -> None:
    with weft.up(weft.single(3), world="simulated", program=SOURCE) as net:
        for words, mistake in wrong(net.switch("leaf0")).items():
            with pytest.raises(InputError) as raised:
                mistake()
            assert words in str(raised.value), words
            assert "leaf0" in str(raised.value)
            assert "\n" not in str(raised.value)
