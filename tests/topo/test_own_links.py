"""Links of networks of one's own: several between two nodes, some between hosts; and addresses."""

from __future__ import annotations

import re
from ipaddress import ip_interface
from itertools import product
from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hearing import hear
from tests.support.system_support import WORLDS, wait_until

import weft
from weft.base.errors import InputError
from weft.cli.completion import candidates, examples
from weft.controller.features.faults import losses
from weft.experiments.results.network import PORTS
from weft.experiments.theory.chance import chances
from weft.topo.drawing import draw_svg
from weft.topo.fabric_program import check_carried
from weft.topo.faults import Fault, LinkLoss
from weft.topo.interfaces import (
    host_side,
    host_side_again,
    ipv6_rules,
    ipv6_sysctls,
    switch_side_links,
)
from weft.topo.network import Direction, Topology
from weft.topo.own import topology_from, with_programs
from weft.topo.switch_kinds import check_topology
from weft.topo.worlds.emulated.node_addresses import address_for, addresses_in

CROSSBAR = Path(__file__).resolve().parents[1] / "programs" / "crossbar.p4"


def parallel(links: int = 2, program: Path | None = None) -> weft.Network:
    """Two switches with several links, and a host at each."""
    network = weft.Network("parallel")
    for name in ("s1", "s2"):
        network.switch(name, program)
    network.link(network.host("a"), "s1")
    network.link(network.host("b"), "s2")
    for _ in range(links):
        network.link("s1", "s2")
    return network


@st.composite
def tangles(draw: st.DrawFn) -> Topology:
    """Networks any two nodes of which may have several links."""
    network = weft.Network("tangle")
    hosts = [network.host(name) for name in ("h", "h-s", "g")[: draw(st.integers(1, 3))]]
    switches = [network.switch(name, CROSSBAR) for name in ("s", "s-s")[: draw(st.integers(1, 2))]]
    for host in hosts:
        network.link(host, draw(st.sampled_from(switches)))
    nodes = st.sampled_from([*hosts, *switches])
    for one, other in draw(st.lists(st.tuples(nodes, nodes), max_size=6)):
        if one != other:
            network.link(one, other)
    try:
        return network.topology()
    except InputError as error:  # hyphens may let names of links clash
        assert "is called" in str(error)
        return parallel(program=CROSSBAR).topology()


# -- names ----------------------------------------------------------------------------------------


@given(tangles())
def test_every_link_has_a_name_of_its_own_by_which_it_is_found(topology: Topology) -> None:
    names = [link.name for link in topology.links]
    assert len(set(names)) == len(names)
    assert len({each.name for each in topology.directions}) == 2 * len(names)
    assert topology_from(topology.document) == topology
    for link in topology.links:
        plain = [each for each in topology.links if set(each.nodes) == set(link.nodes)]
        assert link.parallel == (len(plain) > 1)
        assert topology.link(link.name) is topology.link("-".join(link.ends[::-1])) is link
        for one, other in ((link.a, link.b), (link.b, link.a)):
            assert topology.link(f"{one}-{other}") is link
            for ends in product((str(one), one.node), (str(other), other.node)):
                try:
                    found = topology.direction(*ends)
                except InputError as error:
                    assert link.parallel and ends != (str(one), str(other))
                    assert re.match(rf"\d links from {ends[0]} to {ends[1]}: .*", str(error))
                    assert link.name in str(error)
                else:
                    assert (found.link, found.source) == (link, one)
        for each in topology.select(link.name):
            assert topology.select(each.name) == (each,)
            assert isinstance(each, Direction) and topology.direction(*each.ends) is each


@given(tangles())
def test_every_name_of_a_link_may_stand_in_a_fault(topology: Topology) -> None:
    for link in topology.links:
        name, way = link.name, topology.direction(*link.ends).name
        if not topology.between_hosts(link):
            assert str(Fault.parse(f"{name}:loss=0.5")) == f"{name}:loss=0.5"
        for line in (f"{way}:loss=0.1", f"{name}:fail,at=2ms", f"{way}:lose=3,to=0"):
            Fault.parse(line).check(topology)
    with pytest.raises(InputError, match="no link 's-nowhere'"):
        Fault.parse("s-nowhere:fail,at=1ms").check(topology)


@given(tangles())
def test_links_side_by_side_are_drawn_apart(topology: Topology) -> None:
    loads = {each.ends: float(number) for number, each in enumerate(topology.directions)}
    for lanes, svg in ((1, draw_svg(topology)), (2, draw_svg(topology, loads))):
        drawn = re.findall(r'<line x1="\S+" y1="\S+" x2="\S+" y2="\S+"|<path d="[^"]*"', svg)
        drawn = drawn[: lanes * len(topology.links)]  # without those of the legend
        assert len(drawn) == len(set(drawn)) == lanes * len(topology.links)
        for link in topology.links:
            assert f"<title>{link.name}: " in svg or f"<title>{'&gt;'.join(link.ends)}: " in svg


def test_a_name_that_several_links_have_is_refused_and_they_are_listed() -> None:
    topology = parallel().topology()
    assert [link.name for link in topology.links] == ["a-s1", "b-s2", "s1:2-s2:2", "s1:3-s2:3"]
    words = "s1:2-s2:2, s1:3-s2:3; name one by its ports, like s"
    for asked in (
        lambda: topology.link("s1-s2"),
        lambda: topology.direction("s1", "s2"),
        lambda: topology.select("s2>s1"),
        lambda: Fault.parse("s1-s2:loss=0.1").check(topology),
        lambda: Fault.parse("s1>s2:fail,at=1ms").check(topology),
    ):
        with pytest.raises(InputError, match=r"^2 links .*: s") as raised:
            asked()
        assert words in str(raised.value)


def test_the_prompt_offers_ports_where_nodes_are_not_enough() -> None:
    topology = parallel().topology()
    assert candidates(topology, ["link"]) == ["a", "b", "s1", "s2", "s1:2", "s2:2", "s1:3", "s2:3"]
    assert candidates(topology, ["link", "s1"]) == ["a", "s2:2", "s2:3"]
    assert candidates(topology, ["link", "s1:3"]) == ["s2:3"]
    assert candidates(topology, ["link", "s1:3", "s2:3"])[:2] == ["up", "down"]
    assert candidates(topology, ["link", "s9"]) == []
    assert "link s1:2 s2:2 down" in examples(topology)


def test_a_multigraph_of_networkx_has_links_side_by_side() -> None:
    graph = networkx.MultiGraph([("a", "s"), ("s", "t"), ("s", "t"), ("t", "b")])
    names = [link.name for link in weft.from_networkx(graph).links]
    assert names == ["a-s", "s:2-t:1", "s:3-t:2", "b-t"]


# -- what the fabric's program carries ------------------------------------------------------------


def test_collectives_go_over_links_side_by_side_and_around_one_that_failed() -> None:
    with weft.up(parallel(), world="simulated") as net:
        for algorithm in ("ring", "multicast"):
            run = net.allgather(size="64KiB", algorithm=algorithm)
            assert run.verified
            carried = {(each.from_node, each.to_node): each.tx_bytes for each in run.links}
            assert ("s1:2", "s2:2") in carried and ("s2:3", "s1:3") in carried
        net.link("s1:2", "s2:2").fail()
        assert net.down == {"s1:2-s2:2"}
        run = net.allgather(size="64KiB", algorithm="multicast")
        carried = {(each.from_node, each.to_node): each.tx_bytes for each in run.links}
        assert run.verified and carried["s1:2", "s2:2"] == 0 < carried["s1:3", "s2:3"]
        run = net.allgather(size="64KiB", fault=["s1:3>s2:3:loss=0.2"], algorithm="multicast")
        assert run.verified
        lost = {f"{each.from_node}>{each.to_node}": each.lost for each in run.links if each.lost}
        assert list(lost) == ["s1:3>s2:3"]


def test_collectives_recover_what_links_lose_and_results_count_it() -> None:
    network = parallel(0)
    network.link("s1", "s2", loss="5%")
    options: dict[str, Any] = {"size": "256KiB", "algorithm": "multicast"}
    lost = []
    for seed in (1, 1, 2):
        with weft.up(network, world="simulated", seed=seed) as net:
            run = net.allgather(**options)
            assert run.verified
            lost.append({f"{each.from_node}>{each.to_node}": each.lost for each in run.links})
            assert net.scenario.lossy and "losses" in chances(net.scenario)
    assert sum(lost[0].values()) > 0
    assert {name for one in lost for name in one if one[name]} <= {"s1>s2", "s2>s1"}
    assert lost[0] == lost[1] != lost[2]


def test_links_lose_by_the_built_in_switch_alone() -> None:
    with pytest.raises(InputError, match="no loss of links with --switch bmv2: BMv2 loses nothing"):
        check_topology("bmv2", lab().topology())
    check_topology("weft", lab().topology())


def carried(**link: Any) -> Topology:
    network = weft.Network("lab")
    network.switch("s")
    network.link(network.host("a"), "s", **link)
    network.link(network.host("b"), "s")
    return network.topology()


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"ip": "2001:db8::1/64"}, "which forwards IPv4, and a has 2001:db8::1 there"),
        ({"ip": "none"}, "which forwards IPv4, and a has no address there"),
        (
            {"ip": ["10.0.0.7/24", "2001:db8::1/64"]},
            "which forwards IPv4 alone, and a has 2001:db8::1 there: leave",
        ),
        ({"ports": {"s": 0}}, "which has no port 0: choose another port"),
    ],
)
def test_what_the_fabric_does_not_carry_is_for_programs_of_ones_own(
    link: dict[str, Any], words: str
) -> None:
    topology = carried(**link)
    name = topology.links[0].name
    for asked in (
        lambda: check_carried(topology),
        lambda: weft.up(topology, world="simulated"),
    ):
        with pytest.raises(InputError) as raised:
            asked()
        said = str(raised.value)
        assert said.startswith(f"lab: link {name}: s runs the fabric's program, which ")
        assert words in said
    check_carried(with_programs(topology, {"s": str(CROSSBAR)}))


def test_a_subnet_without_room_for_a_gateway_is_for_programs_of_ones_own() -> None:
    network = weft.Network("lab")
    network.switch("s")
    network.link(network.host("a"), "s", ip="10.9.0.0/31")
    network.link(network.host("b"), "s", ip="10.9.0.1/31")
    with pytest.raises(
        InputError, match=r"the subnet of 10\.9\.0\.0/31 has no free address for one"
    ):
        weft.up(network, world="simulated")
    with weft.up(network, world="simulated", program=CROSSBAR) as net:
        assert net.host("a").ip == "10.9.0.0"


def test_ranks_do_not_send_to_other_hosts_without_a_switch() -> None:
    network = weft.Network("lab")
    network.switch("s")
    for name in ("a", "b", "c"):
        network.host(name)
    network.link("a", "b")
    for name in ("a", "b", "c"):
        network.link(name, "s")
    network.link("c", "b")
    with weft.up(network, world="simulated") as net:
        with pytest.raises(InputError, match=r"that of . is linked to another host"):
            net.allgather(size="4KiB")
        with pytest.raises(InputError, match=r"both ends of a-b are hosts: put a switch between"):
            losses(net.topology, 0.1, [LinkLoss("a-b", 0.1)])
        assert ("a", "b") not in losses(net.topology, 0.1)


# -- what hosts are told --------------------------------------------------------------------------


def lab() -> weft.Network:
    """Hosts with addresses of every kind, at two switches with three links."""
    network = weft.Network("lab")
    for name in ("s1", "s2"):
        network.switch(name, CROSSBAR)
    for name in ("a", "b", "c", "d", "e", "f", "g"):
        network.host(name)
    network.link("a", "s1", ip="2001:db8::1/64", gateway="fe80::1")
    network.link("b", "s2", ip="2001:db8::2/64")
    network.link("c", "s1", ip=["10.1.0.1/24", "fd00::1/64"], gateway=["10.1.0.9", "fd00::9"])
    network.link("d", "s2", ip=["10.1.0.2/24", "fd00::2/64"])
    network.link("e", "s1", ip="none", loss=0.1)
    network.link("f", "s2", ip="none")
    for loss in (0, 0, "50%"):
        network.link("s1", "s2", loss=loss)
    network.link("c", "g", ip={"c": ["10.2.0.1/30", "fd01::1/64"], "g": "10.2.0.2/30"},
                 gateway={"c": "fd01::2"}, mac={"g": "02:00:00:00:00:99"})  # fmt: skip
    return network


def test_hosts_get_addresses_and_routes_of_both_kinds_and_ipv6_is_on_where_there_is_one() -> None:
    topology = lab().topology()
    a, c, e, g = (topology.host(name) for name in ("a", "c", "e", "g"))
    assert host_side(a, topology)[1:] == [
        "address add 2001:db8::1/64 dev a-eth0 nodad",
        "link set dev a-eth0 up",
        "route add default via fe80::1 dev a-eth0 src 2001:db8::1",
    ]
    assert host_side(e, topology)[1:] == ["link set dev e-eth0 up"]
    assert "route add default via 10.1.0.9 dev c-eth0 src 10.1.0.1" in host_side(c, topology)
    route = "route add default via fd01::2 dev c-eth1 src fd01::1 table 102"
    assert host_side(c, topology)[-1] == route
    assert ipv6_rules(c) == ["rule add from fd01::1 lookup 102"] and not ipv6_rules(a)
    assert host_side_again(c, 2, topology) == [
        "address replace 10.2.0.1/30 dev c-eth1",
        "address replace fd01::1/64 dev c-eth1 nodad",
        "route replace default via fd01::2 dev c-eth1 src fd01::1 table 102",
    ]
    assert not ipv6_sysctls(e, topology) and not ipv6_sysctls(g, topology)
    assert {name for name, _ in ipv6_sysctls(a, topology)} >= {
        "net/ipv6/conf/lo/disable_ipv6", "net/ipv6/conf/a-eth0/router_solicitations",
    }  # fmt: skip
    assert len({each.mac for _, each in topology.stations}) == len(topology.stations)
    pids = {host.name: 100 + host.rank for host in topology.hosts}
    (cable,) = [line for line in switch_side_links(topology, pids, 1500) if "g-eth0" in line]
    assert cable == (
        "link add name g-eth0 address 02:00:00:00:00:99 netns 106 mtu 1500 numtxqueues 1 "
        "numrxqueues 1 type veth peer name c-eth1 address 02:00:0a:02:00:01 netns 102 mtu 1500 "
        "numtxqueues 1 numrxqueues 1"
    )


def test_links_between_hosts_have_subnets_of_their_own() -> None:
    network = weft.Network("lab")
    network.link(network.host("a"), network.switch("s"))
    for name in ("b", "c"):
        network.link("a", network.host(name))
    found = {
        host.name: [(each.ip, each.switch) for each in host.interfaces]
        for host in network.topology().hosts
    }
    assert found == {
        "a": [("10.0.0.1", "s"), ("10.253.0.1", ""), ("10.253.1.1", "")],
        "b": [("10.253.0.2", "")],
        "c": [("10.253.1.2", "")],
    }


def test_an_address_is_of_a_kind_that_both_have() -> None:
    shown = (
        "2: a-eth0    inet6 fe80::1/64 scope link \\ valid_lft forever\n"
        "2: a-eth0    inet6 2001:db8::1/64 scope global nodad \\ valid_lft forever\n"
        "2: a-eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global dynamic a-eth0\\ valid\n"
    )
    both = addresses_in(shown)
    assert [str(each) for each in both] == ["2001:db8::1/64", "10.0.0.1/24"]
    assert addresses_in("1: lo    inet 127.0.0.1/8 scope host lo\\ valid") == []
    assert address_for([ip_interface("fd00::1/64")], both) == "2001:db8::1"
    assert address_for(both, both) == "10.0.0.1"
    assert address_for(both, both, wants_ipv6=True) == "2001:db8::1"
    assert address_for([], [ip_interface("10.0.0.1/24")]) == "10.0.0.1"
    assert address_for(both, []) is None
    several = [ip_interface("10.1.0.1/24"), ip_interface("10.0.0.9/24")]
    assert address_for(both, several) == "10.0.0.9"
    assert address_for([ip_interface("10.7.0.1/24")], several) == "10.1.0.1"


# -- on a network that is up ----------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_a_lab_has_links_side_by_side_links_between_hosts_and_addresses_of_any_kind(
    world: Any,
) -> None:
    with weft.up(lab(), world=world) as net:
        for name in ("s1", "s2"):
            way = net.switch(name).table("way")
            for port in (1, 2, 3):
                way.insert({"ingress_port": port}, "send", port=3 + port)
                way.insert({"ingress_port": 3 + port}, "send", port=port)
        assert net.link("s1:4", "s2:4").counted_by["s1:4>s2:4"] == "the switch's port"
        assert net.link("g", "c").counted_by["c>g"] == "the host's interface"
        c, d, g = (net.host(name) for name in ("c", "d", "g"))
        (d if world == "emulated" else c).sniff(timeout=0)
        for source, number in ((c.interfaces[1], 3), (c.interfaces[0], 5)):
            source.send(bytes(60), count=number)
        for target, number in ((g, 3), (d, 5)):
            assert len(hear(net, target, lambda each: bytes(each) == bytes(60), number)) == number
        assert net.link("c", "g").counts["c>g"].tx_packets >= 3
        assert net.link("s1:5", "s2").counts["s1:5>s2:5"].tx_packets >= 5
        lost_by_links(net)
        net.link("s1", "s2:5").fail()
        net.link("c", "g").fail()
        assert net.down == {"s1:5-s2:5", "c-g"}
        if world == "emulated":
            pinged(net)
            return
        for source, target in ((c.interfaces[0], d), (c.interfaces[1], g)):
            target.sniff(timeout=0.1)
            source.send(bytes(60))
            assert not target.sniff(timeout=0.5)


def lost_by_links(net: weft.Net) -> None:
    """Send frames over a link that loses one of ten and one that loses every other."""
    e, f = net.host("e"), net.host("f")
    f.sniff(timeout=0)
    e.send(bytes(60), count=400)
    first, second = net.link("e", "s1"), net.link("s1:6", "s2:6")
    ways = ((first, "e>s1"), (second, "s1:6>s2:6"))
    heard: list[bytes] = []

    def all_are_known() -> bool:
        heard.extend(each for each in map(bytes, f.sniff(timeout=0.1)) if each == bytes(60))
        return len(heard) + sum(link.counts[way].lost_packets for link, way in ways) >= 400

    wait_until(all_are_known, "every frame was lost or has come")
    out, over = (link.counts[way] for link, way in ways)
    assert (first.counted_by["e>s1"], out.tx_packets, out.tx_bytes) == (PORTS, 400, 24_000)
    assert 10 <= out.lost_packets <= 80 and out.lost_bytes == 60 * out.lost_packets
    assert over.tx_packets == 400 - out.lost_packets
    assert 110 <= over.lost_packets <= 270
    assert len(heard) == over.tx_packets - over.lost_packets
    assert second.counts["s2:6>s1:6"].lost_packets == 0
    assert net.link("f", "s2").counts["s2>f"].lost_packets == 0


def pinged(net: weft.Net) -> None:
    """Ping over links, some of which are down, between hosts of all kinds of addresses."""
    a, b, c, d, e, f, g = net.hosts
    a.run("ping -6 -c 1 -w 30", b.ip6, check=True)
    assert c.run("ping -c 1 -W 1", d.ip).status and c.run("ping -c 1 -W 1", g.ip).status
    net.link("s1", "s2:5").restore()
    net.link("c", "g").restore()
    c.run("ip neighbour flush all", check=True)  # what is asked in vain ends at the third request
    c.run("ping -c 1 -w 30", d.ip, check=True)
    c.run("ping -6 -c 1 -w 30", d.ip6, check=True)
    c.run("ping -c 1 -w 30", g.ip, check=True)
    routes = c.run("ip -6 route show table 102", check=True).output
    assert "default via fd01::2 dev c-eth1" in routes
    for host, address in ((e, "10.5.0.1/24"), (f, "10.5.0.2/24")):
        host.run("ip address add", address, "dev", host.interfaces[0].name, check=True)
        assert "inet6" not in host.run("ip address", check=True).output
    e.run("ping -c 1 -w 30 10.5.0.2", check=True)
    pairs = [(a, b), (c, d), (c, g)]
    nodes = [[host.mininet for host in pair] for pair in pairs]
    assert [net.mininet.ping(pair, timeout="5") for pair in nodes] == [0, 0, 0]
    assert [both[2][:2] for both in net.mininet.pingFull(nodes[0], timeout="5")] == [(1, 1)] * 2
