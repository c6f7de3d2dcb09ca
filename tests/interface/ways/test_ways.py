"""A packet's way through a network: what is foretold comes, and all ways are all that may come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.compiler_support import compiled
from tests.support.graph_networks import ring_of_switches

import weft
from weft.base.errors import InputError
from weft.interface.collectives import network_of
from weft.interface.ways.packets import frame_of, way_asked
from weft.interface.ways.page import render
from weft.interface.ways.told import document, text
from weft.interface.ways.walk import MOST_HOPS, Walk, Walker
from weft.switch.engine.control.contents import contents_of
from weft.switch.engine.control.entities import MulticastGroup, Replica
from weft.switch.engine.program.reader import read_program
from weft.switch.interpreter.explore import Explorer
from weft.switch.interpreter.interpreter import Interpreter
from weft.switch.interpreter.memory import Memory

PROGRAM = """
    bit<9> onward = sm.ingress_port == 2 ? 9w3 : 9w2;
    sm.egress_spec = 1;
    if (hdr.h.a == 1) {
        sm.egress_spec = onward;
    } else if (hdr.h.a == 2) {
        sm.egress_spec = onward;
        hdr.h.b = hdr.h.b - 1;
    } else if (hdr.h.a == 3) {
        random(meta.y, 0, 0xFFFFFFFF);
        if (meta.y < 1000) { mark_to_drop(sm); }
    } else if (hdr.h.a == 4) {
        sm.mcast_grp = 1;
    } else if (hdr.h.a == 5 && sm.ingress_port == 1) {
        sm.egress_spec = 2;
    } else if (hdr.h.a == 6) {
        sm.egress_spec = onward;
        hdr.h.b = hdr.h.b + 1;
        hdr.h.c = 7;
    }
"""


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Explorer:
    folder = tmp_path_factory.mktemp("program")
    program = read_program(compiled(folder, ingress=PROGRAM).bmv2_json)
    contents = contents_of(program)
    contents.replication.groups[1] = MulticastGroup(1, (Replica(1), Replica(2), Replica(2, 1)))
    return Explorer(Interpreter(program, contents, Memory.of(program)))


def walk(explorer: Explorer, kind: int, *down: str, every: bool = True, loss: float = 0.0) -> Walk:
    """The walk of a frame of a kind, from the first host of a ring of switches."""
    topology = network_of(ring_of_switches(4, loss=loss), None)
    walker = Walker(topology, lambda _: explorer, down, None if every else lambda _: 0)
    return walker.walk(topology.host("h0"), bytes([kind, 200, 0, 0]) + b"payload")


def told(found: Walk) -> dict[str, object]:
    summary = document(found)["summary"]
    assert isinstance(summary, dict)
    return summary


def test_a_loop_is_found_and_named(explorer: Explorer) -> None:
    found = walk(explorer, 1)
    assert found.loops == [("s1", "s2", "s3", "s0")]
    assert len(found.arrivals) == 5  # s0 is left by the same way from the host and from the ring
    assert "a loop: s1 -> s2 -> s3 -> s0 -> s1" in text(found)
    assert "nobody gets it" in text(found)


def test_a_loop_in_which_the_packet_changes_is_named_when_it_comes_back(
    explorer: Explorer,
) -> None:
    found = walk(explorer, 2)
    assert [set(loop) for loop in found.loops] == [{"s0", "s1", "s2", "s3"}]
    assert len(found.arrivals) < MOST_HOPS


def test_every_outcome_of_random_numbers_is_a_way(explorer: Explorer) -> None:
    found = walk(explorer, 3)
    (arrival,) = found.arrivals.values()
    assert sorted(len(passed.outputs) for passed in arrival.passed) == [0, 1]
    assert told(found)["sometimes"] == ["h0"]
    assert told(found)["sampled"] == ["s0"]
    assert told(walk(explorer, 3, every=False))["always"] == []  # it draws 0, which is below 1000


def test_copies_that_are_alike_are_looked_at_once(explorer: Explorer) -> None:
    found = walk(explorer, 4)
    first = next(iter(found.arrivals.values()))
    outputs = [(one.end, one.to) for one in first.passed[0].outputs]
    assert outputs == [("host", "h0"), ("switch", "s1"), ("switch", "s1")]
    assert [one.switch for one in found.arrivals.values()].count("s1") <= 2
    assert told(found)["always"] == ["h0", "h1"]


def test_what_a_link_may_lose_comes_in_some_ways_alone(explorer: Explorer) -> None:
    assert told(walk(explorer, 5))["always"] == ["h1"]
    lossy = told(walk(explorer, 5, loss=0.01))
    assert (lossy["always"], lossy["sometimes"]) == ([], ["h1"])
    assert lossy["ways"] == 4  # it is lost by one of three links, or comes


def test_what_a_dead_link_takes_is_lost(explorer: Explorer) -> None:
    found = walk(explorer, 5, "s0-s1")
    assert told(found)["sometimes"] == told(found)["always"] == []
    assert "s0-s1 is down: 11 bytes for s1 are lost" in text(found)


def test_the_page_and_the_document_have_what_the_text_has(explorer: Explorer) -> None:
    found = walk(explorer, 4)
    page = render(found)
    assert page.count('id="arrival-') == len(found.arrivals)
    assert "multicast: group 1 to port 1" in page
    assert 'src="' not in page and 'href="http' not in page  # it is whole by itself
    whole = json.loads(json.dumps(document(found)))
    steps = whole["arrivals"][0]["ways"][0]["steps"]
    assert [step for step in steps if step["event"] == "sent"]
    assert any("source" in step and step["event"] == "primitive" for step in steps)


@pytest.fixture(scope="module")
def net() -> Iterator[weft.Net]:
    with weft.up(weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2), world="simulated") as made:
        yield made


def ping(net: weft.Net) -> bytes:
    return frame_of(net.topology, net.topology.host("h0"), net.topology.host("h3"), ["ping"])


def test_what_is_foretold_comes(net: weft.Net) -> None:
    frame = ping(net)
    way = net.trace(frame, at="h0")
    (end,) = [one for one in way.walk.outputs if one.end == "host"]
    assert (end.to, way.hosts) == ("h3", ["h3"])
    assert len(way.walk.arrivals) == 3
    net.host("h0").send(frame)
    came = [bytes(packet) for packet in net.host("h3").sniff(timeout=1)]
    assert came == [end.frame]


def test_all_ways_are_those_of_every_member_and_lead_around_a_dead_link(
    net: weft.Net, tmp_path: Path
) -> None:
    def spines() -> set[str]:
        way = net.trace(ping(net), at="h0", every=True)
        assert way.document["summary"]["always"] == ["h3"]
        return {one.switch for one in way.walk.arrivals.values() if "spine" in one.switch}

    assert spines() == {"spine0", "spine1"}
    net.set_link("leaf0", "spine1", up=False)
    assert spines() == {"spine0"}
    net.set_link("leaf0", "spine1", up=True)
    way = net.trace(ping(net), at="h0", every=True)
    assert "h3 gets it in every way" in way.write(tmp_path / "way.html").read_text()
    assert json.loads(way.write(tmp_path / "way.json").read_text()) == way.document


def test_a_packet_is_what_its_words_say_or_is_refused(net: weft.Net) -> None:
    h0, h3 = net.topology.host("h0"), net.topology.host("h3")
    frame = frame_of(net.topology, h0, h3, ["udp", "53", "1000"])
    assert frame[34:38] == bytes.fromhex("03e80035")
    assert frame_of(net.topology, h0, h3, [frame.hex()]) == frame
    for words in (["pong"], ["udp", "65536"], ["udp", "1", "2", "3"], ["abc"], ["ping", "3"]):
        with pytest.raises(InputError, match="it is ping, udp"):
            frame_of(net.topology, h0, h3, words)
    with pytest.raises(InputError, match="is no packet"):
        net.trace("leaf0", at="h0")  # type: ignore[call-overload]
    with pytest.raises(InputError, match="h9"):
        net.trace(frame, at="h9")


def test_a_command_is_read() -> None:
    asked = way_asked(["h3", "udp", "5", "--all", "--html", "way.html"])
    assert asked is not None
    assert (asked.target, asked.packet, asked.every, asked.page) == (
        "h3", ["udp", "5"], True, "way.html",
    )  # fmt: skip
    for words in ([], ["--all"], ["h3", "--html"], ["h3", "--html", "--all"], ["h3", "--alll"]):
        assert way_asked(words) is None
