"""Handles do the same on both kinds of switch; what BMv2 lacks is refused with a word of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulated_support import needs_machine
from tests.support.handles_support import SOURCE, frame, marks

import weft
from weft.base.errors import InputError, RunError
from weft.controller.handles.access import Count
from weft.controller.handles.cells import Rates
from weft.controller.handles.replication import CloneSession, Replica
from weft.topo.worlds.emulated.switch_processes import BMV2

NOTICES = Path(__file__).resolve().parents[1] / "programs" / "notices.p4"
KINDS = [
    "weft",
    pytest.param(
        "bmv2",
        marks=pytest.mark.skipif(shutil.which(BMV2) is None, reason=f"{BMV2} is not on PATH"),
    ),
]

pytestmark = [needs_machine, pytest.mark.system]


@pytest.fixture(scope="module", params=KINDS)
def net(request: pytest.FixtureRequest) -> Iterator[weft.Net]:
    with weft.up(weft.single(3), world="emulated", switch=request.param, program=SOURCE) as net:
        yield net


@pytest.fixture(scope="module", params=KINDS)
def telling(request: pytest.FixtureRequest) -> Iterator[weft.Net]:
    with weft.up(
        weft.single(3), world="emulated", switch=request.param, program=NOTICES, cpu_port=200
    ) as net:
        yield net


def heard(net: weft.Net, host: int, count: int = 1) -> list[bytes]:
    """Destination and source MAC of what comes to a host."""
    return [bytes(one)[:12] for one in net.hosts[host].sniff(timeout=5, count=count)]


def macs(target: int, source: int) -> bytes:
    return target.to_bytes(6, "big") + source.to_bytes(6, "big")


def test_groups_and_clone_sessions_copy(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    leaf.groups.insert(9, [(2, 5), (2, 6), 3])
    assert leaf.groups.replicas() == {9: (Replica(2, 5), Replica(2, 6), Replica(3, 1))}
    leaf.table("steps").insert({"dst": 0x21}, "copy", group=9)
    assert [rid for rid, *_ in marks(net, 0x21, host=1, count=2)] == [5, 6]
    leaf.groups.modify(9, [(3, 77)])
    assert [rid for rid, *_ in marks(net, 0x21, host=2)] == [77]
    leaf.groups.delete(9)
    assert marks(net, 0x21, host=2, count=0) == []
    leaf.table("steps").insert({"dst": 0x22}, "mirror", session=5)
    leaf.clones.insert(5, [(3, 9)])
    assert leaf.clones.read() == {5: CloneSession((Replica(3, 9),), 0)}
    assert [(rid, length) for rid, _, _, length in marks(net, 0x22, host=2)] == [(9, 64)]
    leaf.clones.modify(5, [(3, 10)])
    assert [rid for rid, *_ in marks(net, 0x22, host=2)] == [10]
    leaf.clones.delete(5)
    assert leaf.clones.read() == {}


def test_members_groups_and_direct_meters_do_what_entries_say(net: weft.Net) -> None:
    leaf = net.switch("leaf0")
    choice = leaf.profile("choice")
    choice.members.insert(1, "send", port=2)
    choice.members.insert(2, "send", port=3)
    choice.groups.insert(1, {1: 1, 2: 3})
    assert choice.groups.read() == {1: {1: 1, 2: 3}}
    leaf.table("choosing").insert({"dst": 0x24}, group=1)
    choice.groups.modify(1, [2])
    assert len(marks(net, 0x24, host=2)) == 1
    choice.members.modify(2, "send", port=2)
    assert choice.members.read()[2].params == {"port": 2}
    assert len(marks(net, 0x24, host=1)) == 1
    leaf.table("choosing").delete({"dst": 0x24})
    choice.groups.delete(1)
    for member in (1, 2):
        choice.members.delete(member)
    assert (choice.groups.read(), choice.members.read()) == ({}, {})
    policed, rates = leaf.table("policed"), Rates(1, 1, 1, 1)
    leaf.table("steps").insert({"dst": 0x26}, "send", port=2)
    policed.insert({"src": 7}, "metered")
    policed.set_meter({"src": 7}, rates)
    assert [entry.meter for entry in policed] == [rates]
    net.hosts[0].send(frame(0x26), count=20)
    assert len(net.hosts[1].sniff(timeout=5, count=20)) == 20
    assert [colour for _, colour, *_ in marks(net, 0x26, host=1)] == [2]
    policed.set_meter({"src": 7}, None)
    assert [(entry.meter, entry.count.packets) for entry in policed if entry.count] == [(None, 21)]
    policed.delete({"src": 7})


def test_cells_are_written_and_read(telling: weft.Net) -> None:
    leaf, hosts = telling.switch("leaf0"), telling.hosts
    leaf.table("steps").insert({"dst": 0x21}, "send", port=2)
    passed, police = leaf.counter("passed"), leaf.meter("police")
    passed[2] = Count(0, 0)
    hosts[0].send(frame(0x21, source=8))
    assert heard(telling, 1) == [macs(0x21, 8)]
    assert (passed[2], passed.read()[1]) == (Count(1, 60), Count(0, 0))
    passed[2] = Count(100, 5)
    assert passed[2] == Count(100, 5)
    police[1] = Rates(1, 1, 1, 1)
    assert police.read() == [None, Rates(1, 1, 1, 1), None, None]
    hosts[0].send(frame(0x21, source=8), count=4)
    assert heard(telling, 1, 4)[1:] == [macs(0x21, 8 + 2)] * 3
    police[1] = None
    assert police[1] is None


def test_digests_packets_and_idle_entries_come(telling: weft.Net) -> None:
    leaf, hosts = telling.switch("leaf0"), telling.hosts
    steps = leaf.table("steps")
    steps.insert({"dst": 0x22}, "punt")
    steps.insert({"dst": 0x23}, "learn")
    hosts[0].send(frame(0x22, source=8))
    (packet,) = leaf.packets_in(timeout=10, count=1)
    assert packet.metadata == {"port": 1, "reason": 5}
    assert packet.frame[:12] == macs(0x22, 8)
    hosts[1].send(frame(0x23, source=12))
    (digest,) = leaf.digests(timeout=10, count=1)
    assert (digest.name, digest.values) == ("learned_t", {"src": 12, "port": 2})
    leaf.packet_out(frame(0x99), port=3, pad=0)
    assert heard(telling, 2) == [macs(0x99, 7)]
    steps.insert({"dst": 0x31}, "send", port=2, idle_timeout=0.2)
    (idle,) = leaf.idle_entries(timeout=10, count=1)
    assert list(idle.match) == ["hdr.ethernet.dst"]


def lacking(net: weft.Net, telling: weft.Net) -> dict[str, Callable[[], object]]:
    leaf, kinds = net.switch("leaf0"), net.switch("leaf0").value_set("kinds")
    seen = telling.switch("leaf0").register("seen")
    return {
        "leaf0, register I.seen: no registers over P4Runtime": lambda: seen[1],
        "leaf0, register I.seen: no registers over": seen.read,
        "register I.seen: no registers over P4Runtime": lambda: seen.__setitem__(1, 1),
        "leaf0, value set P.kinds: no value sets over P4Runtime": kinds.read,
        "value set P.kinds: no value sets over P4Runtime": lambda: kinds.insert(3),
        "P.kinds: no value sets over P4Runtime": lambda: kinds.set([3]),
        "leaf0, clone session 5, packet_length 20: no clone session that cuts packets": (
            lambda: leaf.clones.insert(5, [3], packet_length=20)
        ),
        "leaf0, group 32768: no multicast group above 32767": (
            lambda: leaf.groups.insert(32768, [1])
        ),
    }


@pytest.mark.skipif(shutil.which(BMV2) is None, reason=f"{BMV2} is not on PATH")
def test_what_bmv2_lacks_is_refused() -> None:
    up: dict[str, Any] = {"world": "emulated", "switch": "bmv2"}
    with (
        weft.up(weft.single(1), program=SOURCE, **up) as net,
        weft.up(weft.single(1), program=NOTICES, cpu_port=200, **up) as telling,
    ):
        for words, lack in lacking(net, telling).items():
            with pytest.raises(InputError) as raised:
                lack()
            assert words in str(raised.value)
            assert "with --switch bmv2: BMv2 " in str(raised.value)
            assert "Use --switch weft." in str(raised.value)
        assert (net.switch("leaf0").groups.read(), net.switch("leaf0").clones.read()) == ({}, {})
        with pytest.raises(RunError, match="bmv2 cannot be traced"), net.trace("leaf0"):
            pass
    with pytest.raises(InputError, match="no way past queueing disciplines with --switch bmv2"):
        weft.up(weft.single(1), bypass_qdisc=True, **up)
