"""The Python interface: ``weft.up``, in both worlds."""

from __future__ import annotations

import inspect
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet
from tests.support.emulated_support import wait_until
from tests.support.hearing import hear
from tests.support.reflector import REFLECTOR
from tests.support.system_support import WORLDS, left_as_it_was

import weft
from weft.base.errors import InputError, MachineError, RunError
from weft.switch.engine.control.entities import Exact
from weft.topo.worlds.emulated import mininet_nodes

LEARNER = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
@controller_header("packet_out") header out_t { bit<9> egress; bit<7> unused; }
@controller_header("packet_in") header in_t { bit<9> ingress; bit<7> unused; }
struct headers { out_t sent_out; in_t sent_in; ethernet_t ethernet; }
struct learned { bit<48> address; bit<9> port; }
struct metadata { learned seen; }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { transition select(s.ingress_port) { 510: controller; default: ethernet; } }
    state controller { p.extract(hdr.sent_out); transition ethernet; }
    state ethernet { p.extract(hdr.ethernet); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    apply {
        if (hdr.sent_out.isValid()) {
            s.egress_spec = hdr.sent_out.egress;
            hdr.sent_out.setInvalid();
        } else {
            m.seen = { hdr.ethernet.src, s.ingress_port };
            digest(1, m.seen);
            hdr.sent_in.setValid();
            hdr.sent_in.ingress = s.ingress_port;
            s.egress_spec = 510;
        }
    }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.sent_in); p.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module", params=WORLDS)
def net(request: pytest.FixtureRequest) -> Iterator[weft.Net]:
    with weft.up(weft.leaf_spine(2, 2, 2), world=request.param) as net:
        yield net


def datagram(net: weft.Net, source: str, target: str, port: int, **fields: Any) -> Packet:
    one, other = net.host(source), net.host(target)
    return (
        Ether(src=one.mac, dst=one.gateway_mac)
        / IP(src=one.ip, dst=other.ip, **fields)
        / UDP(sport=port, dport=port)
        / b"weft"
    )


def heard(net: weft.Net, host: str, port: int, count: int = 0) -> list[Packet]:
    """The packets to a port that come to a host, where so many are to come."""
    return hear(net, net.host(host), lambda one: UDP in one and one[UDP].dport == port, count)


def tagged(frame: Packet) -> bool:
    """Whether a frame is of the type that the tests below send, and no kernel by itself."""
    return bool(frame.type == 0x88B5)


def test_frames_go_through_the_switches(net: weft.Net) -> None:
    before = net.now
    net.host("h0").send(datagram(net, "h0", "h3", 7001, ttl=9), count=3)
    packets = heard(net, "h3", 7001, 3)
    assert len(packets) == 3
    assert {packet[IP].ttl for packet in packets} == {6}  # a leaf, a spine, a leaf
    assert {packet.dst for packet in packets} == {net.host("h3").mac}
    assert all(before <= packet.time <= net.now for packet in packets)
    assert heard(net, "h3", 7001) == []
    assert heard(net, "h2", 7001) == []


def test_sniffing_ends_with_as_many_frames_as_are_wanted(net: weft.Net) -> None:
    net.host("h0").send(datagram(net, "h0", "h1", 7002), count=5)
    before = net.now
    assert len(net.host("h1").sniff(timeout=60, count=1)) >= 1
    assert net.now - before < 30
    net.host("h1").sniff(timeout=0.2)


def test_a_script_writes_entries_that_packets_see(net: weft.Net) -> None:
    leaf, h1 = net.switch("leaf0"), net.host("h1")
    packet = datagram(net, "h0", "h1", 7003)
    packet[IP].dst = "10.0.9.1"
    entered = leaf.counter("port_ingress")[1].packets
    net.host("h0").send(packet)
    assert heard(net, "h1", 7003) == []
    wait_until(lambda: leaf.counter("port_ingress")[1].packets > entered, "the packet is dropped")
    route = {"hdr.ipv4.dst_addr": "10.0.9.0/24"}
    leaf.table("ipv4_route").insert(
        route, "forward", port=2, src_mac=h1.gateway_mac, dst_mac=h1.mac
    )
    before = leaf.counter("port_egress")[2]
    net.host("h0").send(packet)
    assert len(heard(net, "h1", 7003, 1)) == 1
    assert leaf.counter("port_egress")[2].packets == before.packets + 1
    leaf.table("ipv4_route").delete(route)


def test_a_link_that_fails_is_led_around_and_comes_back(net: weft.Net) -> None:
    link = net.link("spine1", "leaf0")
    assert link.name == "leaf0-spine1"
    link.fail()
    assert not link.up
    assert set(net.down) == {"leaf0-spine1"}
    before = link.counts["leaf0>spine1"].tx_packets

    def send_and_hear() -> None:
        for port in range(7100, 7116):
            net.host("h0").send(datagram(net, "h0", "h3", port))
        ports = range(7100, 7116)
        came = hear(net, net.host("h3"), lambda one: UDP in one and one[UDP].dport in ports, 16)
        assert {packet[UDP].dport for packet in came} == set(ports)

    send_and_hear()
    assert link.counts["leaf0>spine1"].tx_packets == before
    link.restore()
    assert not net.down
    send_and_hear()
    assert link.counts["leaf0>spine1"].tx_packets > before


def test_a_link_of_a_host_that_fails_loses_everything(net: weft.Net) -> None:
    net.link("h1", "leaf0").fail()
    net.host("h0").send(datagram(net, "h0", "h1", 7004))
    assert heard(net, "h1", 7004) == []
    net.link("h1", "leaf0").restore()
    net.host("h0").send(datagram(net, "h0", "h1", 7005))
    assert len(heard(net, "h1", 7005, 1)) == 1


def test_faults_of_a_collective_are_carried_out_and_gone_after_it(net: weft.Net) -> None:
    broken = net.allgather(size="4KiB", algorithm="ring", fault="h0:kill,at=0us", predict=False)
    assert not broken.verified
    assert broken.error
    assert net.allgather(size="4KiB", algorithm="ring", predict=False).verified


@pytest.mark.parametrize("algorithm", ["multicast", "ring"])
def test_collectives_run_on_a_network_that_is_up(net: weft.Net, algorithm: str) -> None:
    run = net.allgather(size="64KiB", algorithm=algorithm)
    assert run.verified, run.error
    assert run.completion_ns is not None
    assert sum(link.tx_bytes for link in run.links) > 4 * 65536
    assert len(run.ranks) == 4


def test_a_collective_goes_around_a_link_that_has_failed(net: weft.Net) -> None:
    net.link("leaf0", "spine1").fail()
    run = net.allgather(size="64KiB", algorithm="multicast")
    net.link("leaf0", "spine1").restore()
    assert run.verified, run.error
    tx = {f"{link.from_node}>{link.to_node}": link.tx_packets for link in run.links}
    assert tx["leaf0>spine1"] == tx["spine1>leaf0"] == 0
    assert tx["leaf0>spine0"] > 0


def test_after_a_collective_frames_are_heard_anew(net: weft.Net) -> None:
    net.host("h0").sniff(timeout=0)
    assert net.allreduce(size="16KiB", algorithm="switch").verified
    net.host("h0").send(datagram(net, "h0", "h1", 7006))
    came = hear(net, net.host("h1"), lambda one: UDP in one)
    assert [packet[UDP].dport for packet in came] == [7006]


def mistakes(net: weft.Net) -> dict[str, Callable[[], object]]:
    h0 = net.host("h0")
    known: dict[str, Callable[[], object]] = {
        "node 'h9': there is none": lambda: net["h9"],
        "no switch 'leaf9'": lambda: net.switch("leaf9"),
        "no link from h0 to h1": lambda: net.link("h0", "h1"),
        "begins with Ether()": lambda: h0.send(IP()),
        "a frame of 3 bytes: from 14 to": lambda: h0.send(b"abc"),
        "a frame of 100000 bytes": lambda: h0.send(bytes(100_000)),
        "sniff: 'x' is no number of seconds": lambda: h0.sniff(timeout="x"),  # type: ignore[arg-type]
        "sniff: -1 s": lambda: h0.sniff(timeout=-1),
        "sniff: count 'x'": lambda: h0.sniff(count="x"),  # type: ignore[arg-type]
        "no host 1.5 in": lambda: net.host(1.5),  # type: ignore[arg-type]
        "trace: packets 'x'": lambda: net.trace("leaf0", "x").__enter__(),  # type: ignore[call-overload]
        "unknown key 'sise'. Did you mean 'size'?": lambda: net.allgather(sise=1),
        "leaves 4 needs another network": lambda: net.allgather(leaves=4),
        "repeat 3 is for experiments": lambda: net.allgather(repeat=3),
        "one at a time": lambda: net.allgather(algorithm=["ring", "multicast"]),
        "algorithm 'rong'": lambda: net.allgather(algorithm="rong"),
        "allreduce by optcast: its 4 servers need hosts of their own, and the network has": (
            lambda: net.allreduce(algorithm="optcast")
        ),
        "rate 0 is out of range: from 100 kbit/s to the link's own, 100 Mbit/s": (
            lambda: net.link("leaf0", "spine0").set_rate(0)
        ),
        "rate 2 is out of range": lambda: net.link("leaf0", "spine0").set_rate(2),
        "rate '1Gbit' is out": lambda: net.link("leaf0", "spine0").set_rate("1Gbit"),
        "is at the rate of its interface": lambda: net.link("h0", "leaf0").set_rate("10Mbit"),
    }
    if net.world == "emulated":
        known["advance 1 s: in the emulated world"] = lambda: net.advance(1)
    else:
        known["no kernel that could run 'ping'"] = lambda: h0.run("ping")
        known["no Mininet"] = lambda: net.mininet
    return known


def test_mistakes_are_named_in_one_line(net: weft.Net) -> None:
    for words, mistake in mistakes(net).items():
        with pytest.raises(InputError) as raised:
            mistake()
        assert words.replace("is at", "sends at") in str(raised.value), words


@pytest.mark.parametrize("world", WORLDS)
def test_switches_run_programs_of_ones_own(world: Any, tmp_path: Path) -> None:
    source = tmp_path / "reflector.p4"
    source.write_text(REFLECTOR)
    with weft.up(weft.single(2), world=world, program=source) as net:
        h0 = net.host("h0")
        frame = Ether(src=h0.mac, dst="02:02:02:02:02:02", type=0x88B5) / b"reflect me"
        h0.send(frame)
        back = hear(net, h0, tagged)
        assert [bytes(one)[:24] for one in back] == [bytes(frame)]
        assert net.switch("leaf0").counter("reflected")[1].packets == 1
        assert net.switch("leaf0").counters["I.reflected"][1].packets == 1
        assert not net.switch("leaf0").registers and not net.switch("leaf0").meters
        net.switch("leaf0").table("away").insert({"kind": 0x88B5}, "send", port=2)
        h0.send(frame)
        assert len(hear(net, net.host("h1"), tagged)) == 1
        with pytest.raises(InputError, match="h0 is linked to leaf0, which runs a program of its"):
            net.allgather()
        assert set(net.counts()) == {each.ends for each in net.topology.directions}


@pytest.mark.parametrize("world", WORLDS)
def test_frames_keep_their_vlan_tags(world: Any, tmp_path: Path) -> None:
    source = tmp_path / "reflector.p4"
    source.write_text(REFLECTOR)
    with weft.up(weft.single(2), world=world, program=source) as net:
        h0 = net.host("h0")
        tag: Any = Dot1Q(vlan=7, prio=3, type=0x88B5)
        frame = Ether(src=h0.mac, dst=h0.mac) / (tag / b"tagged frame")
        h0.send(frame)
        (back,) = hear(net, h0, lambda one: Dot1Q in one)
        assert bytes(back) == bytes(frame)


@pytest.mark.parametrize("world", WORLDS)
def test_switches_tell_the_controller_and_send_for_it(world: Any, tmp_path: Path) -> None:
    source = tmp_path / "learner.p4"
    source.write_text(LEARNER)
    with weft.up(weft.single(2), world=world, program=source) as net:
        leaf, h0, h1 = net.switch("leaf0"), *net.hosts
        frame = Ether(src=h1.mac, dst=h0.mac, type=0x88B5) / b"to be learned"
        h1.send(frame)
        digests = [one.values for one in leaf.digests(timeout=60, count=1)]
        assert {"address": int(h1.mac.replace(":", ""), 16), "port": 2} in digests
        packets = leaf.packets_in(timeout=60, count=1) + leaf.packets_in(timeout=0.2)
        mine = [one for one in packets if one.packet.type == 0x88B5]
        assert [one.metadata["ingress"] for one in mine] == [2]
        assert mine[0].frame.startswith(bytes(frame))
        h0.sniff(timeout=0)
        leaf.packet_out(frame, egress=1, unused=0)
        assert len(hear(net, h0, tagged)) == 1
        with pytest.raises(InputError, match="packet_out needs unused, too"):
            leaf.packet_out(frame, egress=1)
        with pytest.raises(InputError, match="512 does not fit 9 bits"):
            leaf.packet_out(frame, egress=512, unused=0)


@pytest.mark.parametrize("world", WORLDS)
def test_a_program_has_the_cpu_port_that_it_wants(world: Any, tmp_path: Path) -> None:
    (tmp_path / "learner.p4").write_text(LEARNER.replace("510", "255"))
    (tmp_path / "lab.toml").write_text(
        'hosts = ["a", "b"]\nswitches = ["s"]\nprograms = { s = "learner.p4" }\n'
        'cpu-port = 255\nlinks = [{ ends = ["a", "s"] }, { ends = ["b", "s"] }]\n'
    )
    own = weft.Network("own", cpu_port=254)
    own.switch("s", tmp_path / "learner.p4")
    for name in ("a", "b"):
        own.link(own.host(name), "s")
    for network, chosen in ((tmp_path / "lab.toml", None), (own, 255)):
        with weft.up(network, world=world, cpu_port=chosen) as net:
            switch, a = net.switch("s"), net.host("a")
            frame = Ether(src=7, dst=8, type=0x88B5) / b"punted"
            a.send(frame)
            (packet,) = switch.packets_in(timeout=60, count=1)
            assert (packet.metadata["ingress"], packet.packet.type) == (1, 0x88B5)
            # The first digest has come, too, though nobody asked for digests before.
            assert [one.values["port"] for one in switch.digests(timeout=60, count=1)] == [1]
            switch.packet_out(frame, egress=1, unused=0)
            assert a.sniff(timeout=60, count=1)[0].type == 0x88B5


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (0, "CPU port 0: the numbers are 1 to 510; 511 means drop"),
        (511, "CPU port 511"),
        ("x", "CPU port 'x' is no whole number"),
        (2, "link h1-leaf0 has port 2 of leaf0"),
    ],
)
def test_a_cpu_port_that_cannot_be_is_refused(port: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        weft.up(weft.single(2), world="simulated", cpu_port=port)


@pytest.mark.parametrize("world", WORLDS)
def test_links_of_any_program_are_counted(world: Any, tmp_path: Path) -> None:
    (tmp_path / "reflector.p4").write_text(REFLECTOR)
    own = weft.Network("own")
    own.switch("s", tmp_path / "reflector.p4")
    own.switch("fabric")
    own.link("s", "fabric")
    for name, switch in (("a", "s"), ("b", "s"), ("c", "fabric")):
        own.link(own.host(name), switch)
    with weft.up(own, world=world) as net:
        links = {name: net.link(name, "s") for name in ("a", "b")}
        frame = bytes.fromhex("020000000001 020000000002 88b5") + bytes(86)
        before = {name: link.counts for name, link in links.items()}
        net.host("a").send(frame, count=5)
        assert len(net.host("a").sniff(timeout=60, count=5)) == 5
        counts, others = links["a"].counts, links["b"].counts
        for way in ("a>s", "s>a"):
            grown = counts[way] - before["a"][way]
            assert (grown.tx_packets, grown.tx_bytes, grown.lost_packets) == (5, 500, 0)
        assert others["s>b"] == before["b"]["s>b"]
        assert links["a"].counted_by == dict.fromkeys(("a>s", "s>a"), "the switch's port")
        assert net.link("c", "fabric").counted_by["c>fabric"] == "the fabric's program"
        ways = net.link("s", "fabric").counted_by
        assert (ways["s>fabric"], ways["fabric>s"]) == (
            "the switch's port", "the fabric's program",
        )  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
def test_links_are_counted_where_no_switch_runs_the_fabrics_program(
    world: Any, tmp_path: Path
) -> None:
    (tmp_path / "reflector.p4").write_text(REFLECTOR)
    with weft.up(weft.single(2), world=world, program=tmp_path / "reflector.p4") as net:
        link, h0 = net.link("h0", "leaf0"), net.host("h0")
        before = link.counts
        h0.send(bytes.fromhex("020000000001 020000000002 88b5") + bytes(86), count=3)
        assert len(h0.sniff(timeout=60, count=3)) == 3
        grown = {way: count - before[way] for way, count in link.counts.items()}
        assert {(each.tx_packets, each.tx_bytes) for each in grown.values()} == {(3, 300)}
        assert set(net.counts()) == {each.ends for each in net.topology.directions}


@pytest.mark.parametrize("world", WORLDS)
def test_entries_age_and_the_switch_tells_which(world: Any, tmp_path: Path) -> None:
    source = tmp_path / "ageing.p4"
    ageing = "actions = { send; NoAction; } support_timeout = true;"
    source.write_text(REFLECTOR.replace("actions = { send; NoAction; }", ageing))
    with weft.up(weft.single(2), world=world, program=source) as net:
        leaf, h0 = net.switch("leaf0"), net.host("h0")
        table = leaf.table("away")
        begun = net.now
        table.insert({"kind": 0x88B5}, "send", port=2, idle_timeout=0.5)
        table.insert({"kind": 0x88B6}, "send", port=2)
        told = leaf.idle_entries()
        assert told == [] or net.now - begun >= 0.5
        (idle,) = told or leaf.idle_entries(timeout=60, count=1)
        assert (idle.table, idle.idle_timeout_s) == ("I.away", 0.5)
        assert idle.match == {"hdr.ethernet.kind": Exact(0x88B5)}
        aged, ageless = sorted(table, key=lambda one: str(one.match))
        assert (aged.idle_timeout_s, ageless.idle_timeout_s) == (0.5, 0)
        assert aged.idle_s is not None and aged.idle_s >= 0.5

        def is_young() -> bool:
            h0.send(Ether(src=h0.mac, dst=h0.mac, type=0x88B5) / b"a hit makes it young")
            assert hear(net, net.host("h1"), tagged, quiet_s=0.1)
            (hit,) = (one for one in table if one.idle_timeout_s)
            return hit.idle_s is not None and hit.idle_s < 0.5

        wait_until(is_young, "an entry that was hit is younger than one that has aged")
        table.modify({"kind": 0x88B5}, "send", port=2)
        assert {one.idle_timeout_s for one in table} == {0}
        for mistake, words in ((-1, "idle_timeout -1: a number"), ("x", "idle_timeout 'x'")):
            with pytest.raises(InputError, match=words):
                table.insert({"kind": 1}, "send", port=2, idle_timeout=mistake)  # type: ignore[arg-type]
    with weft.up(weft.single(2), world="simulated") as net:
        route = net.switch("leaf0").table("ipv4_route")
        with pytest.raises(InputError, match="entries of this table do not age"):
            route.insert({"dst_addr": "10.9.0.0/24"}, "drop", idle_timeout=1)
        assert {one.idle_s for one in route} == {None}


def test_one_switch_alone_may_run_a_program_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "reflector.p4"
    source.write_text(REFLECTOR)
    network = weft.leaf_spine(2, 2, 1)
    with weft.up(network, world="simulated", program={"spine1": source}) as net:
        assert net.switch("spine1").tables.keys() == {"I.away"}
        assert len(net.switch("leaf0").table("ipv4_route")) > 0
        net.link("leaf0", "spine0").fail()
        assert len(net.switch("spine1").table("away")) == 0


def test_several_networks_are_up_at_once_in_virtual_time() -> None:
    with (
        weft.up(weft.single(2), world="simulated") as one,
        weft.up(weft.single(2), world="simulated") as other,
    ):
        one.host("h0").send(datagram(one, "h0", "h1", 7001))
        other.advance(1)
        assert len(heard(one, "h1", 7001, 1)) == 1
        assert heard(other, "h1", 7001) == []
        assert (round(one.now, 3), round(other.now, 3)) == (0.2, 1.2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"network": "leaf-spine"}, "network 'leaf-spine': give one that weft.leaf_spine"),
        ({"world": "virtual"}, "world 'virtual'"),
        ({"switch": "ovs"}, "switch 'ovs'"),
        ({"mtu": 1000}, "mtu 1000"),
        ({"links": "rope"}, "links 'rope'"),
        ({"program": "no/such.p4"}, "no/such.p4"),
        ({"program": 3}, "program of leaf0 3 is no path"),
        ({"program": {3: "x.p4"}}, "no switch 3 in this topology"),
        ({"program": {"leaf7": "x.p4"}}, "no switch 'leaf7'"),
        (
            {"network": weft.leaf_spine(64, 2, 100), "world": "emulated"},
            "6400 hosts cannot be emulated on one machine",
        ),
        ({"links": "patch"}, "links 'patch' is for the emulated world"),
        ({"switch": "bmv2"}, "switch 'bmv2' does not run in the simulated world"),
    ],
)
def test_what_no_network_can_be_is_refused_before_anything_is_made(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as raised:
        weft.up(**{"network": weft.single(2), "world": "simulated", **options})
    assert words in str(raised.value)


def test_a_network_that_is_not_up_says_so() -> None:
    net = weft.up(weft.single(2), world="simulated")
    for use in (lambda: net.switch("leaf0"), lambda: net.host("h0").sniff(), net.allgather):
        with pytest.raises(InputError, match="is not up"):
            use()


def test_threads_that_use_a_network_at_once_are_told_and_may_take_turns() -> None:
    with weft.up(weft.single(2), world="simulated") as net:
        told: list[BaseException] = []

        def use() -> None:
            link = net.link("h0", "leaf0")
            for act in (
                lambda: net.advance(0.1), net.allgather, lambda: net["h0"].sniff(0.1),
                lambda: net["h0"].send(bytes(60)), link.fail, link.restore,
            ):  # fmt: skip
                try:
                    act()
                except InputError as error:
                    told.append(error)

        def in_a_thread() -> None:
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()

        with net.alone("a collective"):
            in_a_thread()
            net.advance(0.1)  # the thread that is at it may
        assert len(told) == 6 and not net.down
        assert all("another thread uses this network just now" in str(each) for each in told)
        in_a_thread()
        assert len(told) == 6


# In the emulated world alone.


@pytest.mark.system(alone=False)
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
class TestEmulated:
    def test_hosts_run_commands(self) -> None:
        with left_as_it_was(), weft.up(weft.single(2)) as net:
            h0, h1 = net.hosts
            done = h0.run("ping -c 1 -W 5", h1.ip, check=True)
            assert (done.host, done.status) == ("h0", 0)
            assert "1 received" in done.output
            assert h0.run("cat", input="abc").output == "abc"
            assert h0.run("sh -c", "echo no >&2; exit 3").errors == "no\n"
            with pytest.raises(RunError, match=r"h0: .* ended with status 3: no"):
                h0.run("sh -c", "echo no >&2; exit 3", check=True)
            with pytest.raises(RunError, match=r"'sleep 60' took longer than 0\.1 s"):
                h0.run("sleep 60", timeout=0.1)
            with pytest.raises(InputError, match="timeout 'x' is no number of seconds"):
                h0.run("true", timeout="x")  # type: ignore[arg-type]
            with pytest.raises(InputError, match="timeout -1 s: 0 to 86400 are possible"):
                h0.run("true", timeout=-1)
            with pytest.raises(InputError, match="input 3 is no text"):
                h0.run("cat", input=3)  # type: ignore[arg-type]
            with pytest.raises(InputError, match="there is no such program"):
                h0.run("no-such-program")
            with pytest.raises(InputError, match="has no words"):
                h0.run("")
            server = h1.start("sleep 60")
            assert server.running
            assert server.stop().status != 0
            assert not server.running
            h1.start("sleep 60")  # which ends with the network
            assert net.mininet["h0"].cmd("echo from mininet").strip() == "from mininet"

    def test_commands_end_within_their_limits_and_so_do_those_that_they_start(self) -> None:
        with left_as_it_was(), weft.up(weft.single(2)) as net:
            h0, h1 = net.hosts
            with pytest.raises(RunError, match="h0: 'yes' printed more than 64 MiB, and was kill"):
                h0.run("yes", timeout=60)
            with pytest.raises(RunError, match="printed more than 1 KiB"):
                h0.run("yes", most_output="1KiB")
            with pytest.raises(InputError, match="most_output 'x'"):
                h0.run("true", most_output="x")
            before = time.monotonic()
            with pytest.raises(RunError, match=r"took longer than 0\.3 s"):
                h0.run("sh -c", "sleep 600 & sleep 600", timeout=0.3)
            stubborn = h1.start("sh -c", "trap '' TERM; echo on; yes >&2 & sleep 600")
            assert stubborn.process.stdout is not None
            assert stubborn.process.stdout.readline() == "on\n"
            assert stubborn.stop().status == -9
            assert time.monotonic() - before < 60.0
            assert "sleep" not in h0.run("ps ax").output
            with pytest.raises(RunError, match="h1: 'yes' printed more than 64 MiB, and was inter"):
                net.mininet["h1"].cmd("yes")
            assert net.mininet["h1"].cmd("echo still here").strip() == "still here"

    def test_a_shell_whose_prompt_was_dropped_at_a_ctrl_c_is_asked_for_another(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mininet_nodes, "MOST_OUTPUT_BYTES", 65536)
        with left_as_it_was(), weft.up(weft.single(2)) as net:
            shell = net.mininet["h1"]

            def interrupt() -> None:
                shell.write(chr(3))
                while not shell.read().endswith(mininet_nodes.PROMPT):
                    continue  # nobody else sees it

            monkeypatch.setattr(shell, "sendInt", interrupt)
            with pytest.raises(RunError, match="h1: 'yes' printed more than 64 KiB, and was inter"):
                shell.cmd("yes")
            assert shell.cmd("echo still here").strip() == "still here"

    def test_ctrl_c_in_a_shell_ends_its_command_also_where_the_run_ignores_it(
        self, tmp_path: Path
    ) -> None:
        """As those that a script has started in the background do."""
        (script := tmp_path / "script.py").write_text(
            "import weft\n"
            "with weft.up(weft.single(2)) as net:\n"
            "    shell = net.mininet['h1']\n"
            "    shell.sendCmd('tail -f', __file__)\n"
            "    assert shell.monitor().startswith('import weft')\n"  # it is under way
            "    shell.sendInt()\n"
            "    shell.waitOutput()\n"
            "    print(shell.cmd('echo still here').strip())\n"
        )
        command = ["env", "--ignore-signal=INT", sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout == "still here\n", done.stderr

    def test_a_collective_does_not_begin_while_a_thread_sniffs(self) -> None:
        with left_as_it_was(), weft.up(weft.single(2)) as net:
            backend: Any = net.backend
            with backend.frames.used():  # as a thread has them that sniffs
                with pytest.raises(InputError, match="another thread sends or sniffs frames"):
                    net.allgather(size="4KiB", predict=False)
                net["h1"].sniff(0.1)  # others may, too
            assert net.allgather(size="4KiB", predict=False).verified

    def test_a_host_whose_shell_has_died_says_so_and_the_network_ends_as_usual(self) -> None:
        with left_as_it_was(), weft.up(weft.single(2)) as net:
            os.kill(net.mininet["h0"].shell.pid, signal.SIGKILL)
            words = r"the shell that holds the namespace of h0 \(pid \d+\) was killed by signal 9"
            net.mininet["h0"].shell.wait()
            with pytest.raises(RunError, match=words):
                net["h0"].run("true")
            with pytest.raises(RunError, match=words):
                net["h0"].start("true")
            assert net["h1"].run("true").status == 0

    def test_nothing_that_mininets_clean_up_looks_for_is_a_part_of_a_network(self) -> None:
        from mininet import clean

        source = inspect.getsource(clean)
        patterns = re.findall(r"killprocs\( '(.*?)' \)", source)
        assert "mininet:" in patterns
        with weft.up(weft.single(2)) as net:
            net.mininet["leaf0"].cmd("true")  # so that it has a shell, too
            net["h0"].start("sleep 60")
            deadline = time.monotonic() + 60.0
            names = {"mnexec"}  # which starts commands, and is gone then
            while "mnexec" in names and time.monotonic() < deadline:
                lines = net["h0"].run("ps", "axww", "-o", "comm=,args=").output.splitlines()
                names = {line.split()[0] for line in lines}
            assert "mnexec" not in names and {"bash", "sleep"} <= names
            assert [line for line in lines if "weft:h0" in line]
            assert not [line for line in lines if any(each in line for each in patterns)]
            assert not [name for _, name in socket.if_nameindex() if re.search(r"-eth\d", name)]

    def test_nothing_stays_after_an_exception_in_the_block(self) -> None:
        with (
            left_as_it_was(),
            pytest.raises(ZeroDivisionError),
            weft.up(weft.single(2)) as net,
        ):
            net.host("h0").start("sleep 60")
            net.host("h0").send(datagram(net, "h0", "h1", 7001))
            net.allgather(size="1KiB", algorithm="ring", predict=False)
            raise ZeroDivisionError

    @pytest.mark.parametrize("moment_s", [0.3, 1.2, 1.6, 2.0, 2.6])
    def test_ctrl_c_at_any_moment_leaves_nothing(self, moment_s: float, tmp_path: Path) -> None:
        (script := tmp_path / "script.py").write_text(
            "import weft\n"
            "with weft.up(weft.leaf_spine(2, 2, 2)) as net:\n"
            "    net.host('h0').start('sleep 60')\n"
            "    while True:\n"
            "        net.allgather(size='64KiB', algorithm='ring')\n"
        )
        with left_as_it_was():
            running = subprocess.Popen(
                [sys.executable, script],
                stderr=subprocess.PIPE,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            try:
                with pytest.raises(subprocess.TimeoutExpired):
                    running.wait(moment_s)
                running.send_signal(signal.SIGINT)
                _, said = running.communicate(timeout=120)
            finally:
                running.kill()
            assert running.returncode == -signal.SIGINT, said.decode()

    def test_mininet_says_what_it_does_not_do_on_a_network_that_is_up(self) -> None:
        from weft.topo.worlds.emulated.mininet_network import REFUSED_OF_NETWORK

        with left_as_it_was(), weft.up(weft.single(2)) as net:
            mininet = net.mininet
            known = [node.name for node in mininet.values()]
            links = list(mininet.links)
            for name, words in (
                ("addHost", "describe it in weft.Network or a network file"),
                ("addLink", "describe it in weft.Network or a network file"),
                ("addNAT", "not the machine's own network"),
                ("addController", "P4Runtime, not OpenFlow"),
                ("delLinkBetween", "use configLinkStatus"),
                ("stop", "leave the block"),
            ):
                with pytest.raises(InputError, match=f"net.mininet.{name}: .*{words}"):
                    getattr(mininet, name)("h0", "h1")
            with pytest.raises(InputError, match=r"net\.mininet\.__delitem__: "):
                del mininet["h0"]
            for name in REFUSED_OF_NETWORK:
                with pytest.raises(InputError, match=f"net.mininet.{name}: "):
                    getattr(mininet, name)()
            assert [node.name for node in mininet.values()] == known
            assert mininet.links == links
            mininet.start()  # which it has been already: it changes no address
            assert net.host("h0").run("ping -c 1 -W 5", net.host("h1").ip).status == 0

    def test_mininet_lets_links_fail_and_routes_lead_around_them(self) -> None:
        with left_as_it_was(), weft.up(weft.leaf_spine(2, 2, 1)) as net:
            mininet = net.mininet
            for spine in ("spine0", "spine1"):
                mininet.configLinkStatus("leaf0", spine, "down")
                assert net.down == {f"leaf0-{spine}"}
                assert net.host("h0").run("ping -c 1 -W 5", net.host("h1").ip).status == 0
                mininet.configLinkStatus(mininet[spine], mininet["leaf0"], "up")
                assert not net.down
            with pytest.raises(InputError, match="no node 'h7'"):
                mininet.configLinkStatus("leaf0", "h7", "down")
            with pytest.raises(InputError, match="the status is 'up' or 'down'"):
                mininet.configLinkStatus("leaf0", "spine0", "off")

    @pytest.mark.parametrize("signals", [0, 2])
    def test_a_node_whose_end_would_wait_for_ever_does_not_hold_the_network(
        self, signals: int, tmp_path: Path
    ) -> None:
        """Mininet's own nodes of some kinds run commands at their end, when their shell is gone."""
        (script := tmp_path / "script.py").write_text(
            "import os, signal, weft\n"
            "with weft.up(weft.single(2)) as net:\n"
            "    from mininet.node import Node\n"
            "    class Stubborn(Node):\n"
            "        def terminate(self):\n"
            "            self.cmd('true')\n"
            "            super().terminate()\n"
            "    node = Stubborn('extra')\n"
            "    net.mininet.hosts.append(node)\n"
            "    node.cmd('sleep 600 &')\n"
            "    print(node.shell.pid, flush=True)\n"
            f"    for _ in range({signals}):\n"
            "        os.kill(os.getpid(), signal.SIGTERM)\n"
        )
        with left_as_it_was():
            running = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE)
            try:
                said, _ = running.communicate(timeout=120)
            finally:
                running.kill()
            assert running.returncode == (128 + signal.SIGTERM if signals else 0)
            assert not Path(f"/proc/{said.decode().strip()}").exists()

    def test_more_frames_than_fit_an_interfaces_queue_are_all_sent(self) -> None:
        with left_as_it_was(), weft.up(weft.single(2, rate_bps=50_000_000)) as net:
            frame = datagram(net, "h0", "h1", 7001) / bytes(1400)
            net.host("h0").send(frame, count=1000)
            assert len(heard(net, "h1", 7001, 1000)) == 1000

    def test_two_networks_side_by_side_do_not_meet(self) -> None:
        with (
            left_as_it_was(),
            weft.up(weft.single(2)) as one,
            weft.up(weft.single(2)) as other,
        ):
            one.host("h0").send(datagram(one, "h0", "h1", 7001))
            assert len(heard(one, "h1", 7001, 1)) == 1
            assert heard(other, "h1", 7001) == []

    def test_a_slowed_link_is_slow(self) -> None:
        with left_as_it_was(), weft.up(weft.leaf_spine(2, 1, 1), links="patch") as net:

            def took_ns() -> int:
                run = net.allgather(size="256KiB", algorithm="ring", predict=False)
                assert run.verified and run.completion_ns is not None
                return run.completion_ns

            usual_ns = [took_ns()]
            net.link("leaf0", "spine0").set_rate("10Mbit")
            slow_ns = took_ns()
            assert slow_ns >= (256 << 10) * 8 / 10e6 * 1e9  # what the link takes, however busy
            net.link("leaf0", "spine0").set_rate("100Mbit")
            while slow_ns <= 4 * min(usual_ns) and len(usual_ns) < 20:  # a processor was busy
                usual_ns.append(took_ns())
            assert slow_ns > 4 * min(usual_ns)


@pytest.mark.skipif(os.geteuid() == 0, reason="this needs a user who is not root")
def test_the_emulated_world_needs_root() -> None:
    with pytest.raises(MachineError, match="root"):
        weft.up(weft.single(2))
