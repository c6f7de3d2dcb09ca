"""All ways that are foretold of a packet are what comes when it is sent often, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from tests.support.compiler_support import program

import weft
from weft.interface.ways.walk import Arrival, Output, Walk

Frames = tuple[tuple[str, bytes], ...]
"""What hosts get of one packet, in order."""

RANDOM, MULTICAST, CLONE, RECIRCULATE, SELECTOR = range(5)

PARTS = {
    "metadata": "@field_list(1) bit<8> x; bit<8> r;",
    "locals": """
        action send(bit<9> port, bit<8> tag) { sm.egress_spec = port; hdr.h.b = tag; }
        action drop() { mark_to_drop(sm); }
        action_selector(HashAlgorithm.crc16, 32w64, 32w14) one_of;
        table chosen {
            key = { sm.ingress_port : exact; hdr.h.c : selector; }
            actions = { send; drop; NoAction; }
            implementation = one_of;
        }
    """,
    "ingress": """
        random(meta.r, 0, 2);
        if (sm.ingress_port > 1) {
            sm.egress_spec = 1;
        } else if (hdr.h.a == 0) {
            sm.egress_spec = 9w1 + (bit<9>)meta.r;
        } else if (hdr.h.a == 1) {
            sm.mcast_grp = 5;
        } else if (hdr.h.a == 2) {
            meta.x = meta.r;
            sm.egress_spec = 2;
            if (meta.r > 0) { clone_preserving_field_list(CloneType.I2E, 11, 1); }
        } else if (hdr.h.a == 3) {
            if (sm.instance_type == 4) { hdr.h.b = hdr.h.b + meta.x; }
            sm.egress_spec = 3;
        } else {
            chosen.apply();
        }
    """,
    "egress": """
        if (sm.ingress_port == 1 && hdr.h.a == 1) {
            hdr.h.b = (bit<8>)sm.egress_rid;
            if (sm.egress_rid == 7 && meta.r == 0) { mark_to_drop(sm); }
        } else if (sm.instance_type == 1) {
            hdr.h.b = meta.x;
        } else if (sm.ingress_port == 1 && hdr.h.a == 3 && sm.instance_type == 0) {
            meta.x = 10 + meta.r;
            recirculate_preserving_field_list(1);
        }
    """,
}


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[weft.Net]:
    source = tmp_path_factory.mktemp("program") / "choices.p4"
    source.write_text(program(**PARTS))
    lab = weft.Network("lab")
    for name in ("s1", "s2"):
        lab.switch(name, source)
    for name, switch, port in (("h0", "s1", 1), ("h1", "s2", 1), ("h2", "s1", 3)):
        lab.link(lab.host(name), switch, ports={switch: port})
    lab.link("s1", "s2", ports={"s1": 2, "s2": 2})
    with weft.up(lab, world="simulated") as net:
        first = net.switch("s1")
        first.groups.insert(5, [(2, 7), (3, 8), (3, 7)])
        first.clones.insert(11, [(3, 1), (2, 2)])
        ways = first.profile("one_of")
        for member, port in enumerate((2, 3, 2), 1):
            ways.members.insert(member, "send", port=port, tag=member)
        ways.members.insert(4, "drop")
        ways.groups.insert(1, {1: 1, 2: 1, 3: 2, 4: 1})
        first.table("chosen").insert({"ingress_port": 1}, group=1)
        yield net


def foretold(walk: Walk) -> set[Frames]:
    """All that hosts may get of a packet, by its walk."""
    known: dict[tuple[str, int, bytes], set[Frames]] = {}

    def of_output(output: Output) -> set[Frames]:
        following = walk.arrival(output)
        got: set[Frames] = {((output.to, output.frame),)} if output.end == "host" else {()}
        if following is not None:
            got = of_arrival(following)
        return got | {()} if output.loss else got

    def of_arrival(arrival: Arrival) -> set[Frames]:
        if arrival.key not in known:
            known[arrival.key] = {
                tuple(sorted(each for part in parts for each in part))
                for passed in arrival.passed
                for parts in product(*map(of_output, passed.outputs))
            }
        return known[arrival.key]

    return of_output(walk.start)


def came(net: weft.Net, frame: bytes) -> Frames:
    """What hosts get of a packet that is sent."""
    net.host("h0").send(frame)
    net.advance(0.001)
    return tuple(
        sorted((host.name, bytes(each)) for host in net.hosts for each in host.sniff(timeout=0))
    )


@pytest.mark.parametrize(
    ("kind", "loss", "outcomes"),
    [(RANDOM, 0, 3), (MULTICAST, 0, 2), (CLONE, 0, 3), (RECIRCULATE, 0, 3), (RANDOM, 0.3, 4),
     (MULTICAST, 0.3, 3), (CLONE, 0.3, 10)],
)  # fmt: skip
def test_what_is_foretold_is_what_comes(
    net: weft.Net, kind: int, loss: float, outcomes: int
) -> None:
    net.link("s1", "s2").set(loss=loss)
    frame = bytes([kind, 0, 0, 0]) + bytes(60)
    told = foretold(net.trace(frame, at="h0", every=True).walk)
    assert {came(net, frame) for _ in range(150)} == told
    assert len(told) == outcomes


def test_all_ways_of_a_selector_are_its_members_and_the_one_is_that_of_the_hash(
    net: weft.Net,
) -> None:
    net.link("s1", "s2").set(loss=0)
    for number in range(20):
        frame = bytes([SELECTOR, 0, 0, number]) + bytes(60)
        one, every = (net.trace(frame, at="h0", every=each).walk for each in (False, True))
        seen = came(net, frame)
        assert foretold(one) == {seen}
        assert seen in foretold(every)
        assert len(foretold(every)) == 4
