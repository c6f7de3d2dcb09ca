"""Networks of one's own that are up: what goes over them, in both worlds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from tests.support.graph_networks import ring_of_switches
from tests.support.hearing import hear
from tests.support.system_support import left_as_it_was

import weft
from weft.base.errors import InputError

WORLDS = [
    "simulated",
    pytest.param(
        "emulated",
        marks=[
            pytest.mark.system,
            pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
        ],
    ),
]
BRIDGE = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.ethernet); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply { } }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    apply { s.egress_spec = s.ingress_port == 1 ? 9w2 : 9w1; }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout metadata m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize("world", WORLDS)
def test_collectives_run_between_any_hosts_of_a_graph(world: Any) -> None:
    network = ring_of_switches(5)
    network.link("h0", "s2")
    with left_as_it_was(), weft.up(network, world=world) as net:
        for collective, algorithm in (
            ("allgather", "multicast"), ("allgather", "ring"), ("allreduce", "switch"),
            ("allreduce", "optcast"), ("broadcast", "multicast"), ("alltoall", "direct"),
        ):  # fmt: skip
            run = net.run(collective, size="16KiB", algorithm=algorithm, predict=False)
            assert run.verified, (algorithm, run.error)
        some = net.allgather(size="16KiB", algorithm="multicast", hosts=["h4", "h1", "h3"])
        assert [rank.host for rank in some.ranks] == ["h4", "h1", "h3"]
        carried = {f"{one.from_node}>{one.to_node}": one.tx_packets for one in some.links}
        assert carried["s1>h1"] > 0
        assert carried["s2>h2"] == carried["s2>h0"] == 0
        net.link("s0", "s1").fail()
        around = net.allgather(size="16KiB", algorithm="multicast", predict=False)
        assert around.verified, around.error
        sprayed = net.alltoall(size="16KiB", algorithm="direct", paths="spray", predict=False)
        assert sprayed.verified, sprayed.error


@pytest.mark.parametrize("world", WORLDS)
def test_every_interface_of_a_host_sends_and_hears(world: Any) -> None:
    network = ring_of_switches(3)
    network.link("h0", "s1", ip="192.168.9.7/24")
    with weft.up(network, world=world) as net:
        first, second = net["h0"].interfaces
        assert (second.name, second.ip, second.switch) == ("h0-eth1", "192.168.9.7", "s1")
        h2 = net.host("h2")
        packet = Ether(src=h2.mac, dst=h2.gateway_mac) / IP(src=h2.ip, dst=second.ip)
        h2.send(packet / UDP(sport=9, dport=9) / b"to the second")
        assert [one[UDP].dport for one in hear(net, second, lambda one: UDP in one)] == [9]
        assert [one for one in first.sniff(timeout=0) if UDP in one] == []
        packet = Ether(src=second.mac, dst=second.gateway_mac) / IP(src=second.ip, dst=h2.ip)
        second.send(packet / UDP(sport=8, dport=8) / b"from the second")
        (heard,) = hear(net, h2, lambda one: UDP in one)
        assert heard[IP].ttl == 62


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_hosts_of_a_graph_are_reached_and_links_have_their_delay() -> None:
    network = ring_of_switches(4, delay="2ms")
    network.link("h0", "s2")
    with weft.up(network) as net:
        for host in net.hosts:
            for interface in net["h0"].interfaces:
                host.run("ping -c 1 -W 5", interface.ip, check=True)
        told = net["h1"].run("ping -c 1 -W 5", net["h3"].ip, check=True).output
        assert float(told.partition("time=")[2].split()[0]) >= 16  # four links there and back
        net["h0"].run("ping -c 1 -W 5 -I", net["h0"].interfaces[1].ip, net["h1"].ip, check=True)


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_hosts_of_a_switch_with_a_program_of_its_own_find_each_other(tmp_path: Path) -> None:
    (tmp_path / "bridge.p4").write_text(BRIDGE)
    network = weft.Network("mixed")
    for name in ("a", "b", "c", "d"):
        network.host(name)
    network.switch("bridge", tmp_path / "bridge.p4")
    network.switch("fabric")
    network.link("a", "bridge", ip="172.16.0.1/24")
    network.link("b", "bridge", ip="172.16.0.2/24")
    network.link("c", "fabric")
    network.link("d", "fabric")
    with left_as_it_was(), weft.up(network) as net:
        net["a"].run("ping -c 1 -W 5", "172.16.0.2", check=True)
        net["c"].run("ping -c 1 -W 5", net["d"].ip, check=True)
        assert net.allgather(size="4KiB", hosts=["c", "d"], algorithm="ring").verified
        with pytest.raises(InputError, match="a is linked to bridge, which runs a program of its"):
            net.allgather(size="4KiB", algorithm="ring")


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_what_the_machine_cannot_carry_is_refused_before_anything_is_touched() -> None:
    for names, words in (
        (("a_host_of_long_name", "s"), "'a_host_of_long_name-eth0' is 24 characters long"),
        (("h", "a_switch_of_long_name"), "'a_switch_of_long_name-eth1' is 26 characters long"),
    ):
        network = weft.Network()
        network.link(network.host(names[0]), network.switch(names[1]))
        with left_as_it_was(), pytest.raises(InputError) as raised:
            weft.up(network)
        assert words in str(raised.value)
