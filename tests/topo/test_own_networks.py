"""Networks of one's own: what descriptions mean, what is refused, and how packets go."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import fabric
from tests.support.controller_planners_support import Tables, tables_of
from tests.support.fabric import program_names
from tests.support.graph_networks import ring_of_switches
from tests.support.system_support import WORLDS

import weft
from weft.base.errors import InputError
from weft.controller.features.aggregation import AggregationJob, plan_aggregation
from weft.controller.features.feature import Planning
from weft.controller.features.multicast import plan_trees, tree_entities
from weft.controller.features.routes import PATHS, Paths, plan_routes
from weft.experiments.scenario.longest_path import LongestPath
from weft.experiments.theory.bounds import completion_bound_ns
from weft.topo.addresses import format_ipv4
from weft.topo.drawing import draw_svg
from weft.topo.interfaces import host_side
from weft.topo.network import Topology
from weft.topo.network_document import PROMPT_WORDS, NetworkDocument
from weft.topo.own import (
    topology_from,
    with_ordinary_hosts,
    with_programs,
)
from weft.topo.reach import Reach
from weft.topo.wiring import topology_of

SOURCE = Path(__file__).resolve().parents[1] / "programs" / "handles.p4"


@st.composite
def graphs(draw: st.DrawFn) -> Topology:
    """Connected graphs of switches, hosts at some of them, some with several interfaces."""
    network = weft.Network("drawn")
    switches = [network.switch(f"s{n}") for n in range(draw(st.integers(1, 7)))]
    links = set()
    for number in range(1, len(switches)):
        links.add((draw(st.integers(0, number - 1)), number))
    numbers = st.integers(0, len(switches) - 1)
    links |= {
        (min(pair), max(pair))
        for pair in draw(st.lists(st.tuples(numbers, numbers), max_size=8))
        if pair[0] != pair[1]
    }
    for one, other in draw(st.permutations(sorted(links))):
        network.link(switches[one], switches[other])
    for rank in range(draw(st.integers(1, 6))):
        host = network.host(f"h{rank}")
        for at in draw(st.lists(numbers, min_size=1, max_size=3, unique=True)):
            network.link(host, switches[at])
    return network.topology()


def distances(topology: Topology, start: str) -> dict[str, int]:
    """How many links every switch is away from one, by a search of its own."""
    switches = {switch.name for switch in topology.switches}
    found = {start: 0}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for there in topology.neighbours(here):
            if there in switches and there not in found:
                found[there] = found[here] + 1
                waiting.append(there)
    return found


# -- what is made of a description ----------------------------------------------------------------


def test_hosts_have_addresses_of_their_switch_and_ports_count_by_links() -> None:
    network = weft.Network("lab", rate="100Mbit", delay="1ms", queue="64KiB")
    for name in ("a", "b"):
        network.host(name)
    for name in ("w", "y"):
        network.switch(name)
    network.link("w", "a")
    network.link("w", "y", rate=5_000_000, delay=7, queue=70_000, ports={"y": 9})
    network.link("b", "y", ip="192.168.7.2/28", mac="02:00:00:00:00:99", gateway="192.168.7.9")
    network.link("a", "y")
    topology = network.topology()
    a, b = topology.hosts
    assert [(each.ip, each.switch, each.number) for each in a.interfaces] == [
        ("10.0.0.1", "w", 1), ("10.0.1.1", "y", 2),
    ]  # fmt: skip
    assert (b.ip, b.mac, b.leaf) == ("192.168.7.2", 0x02_00_00_00_00_99, "y")
    assert (a.gateway, b.gateway) == (0x0A0000FE, 0xC0A80709)
    assert [link.name for link in topology.links] == ["a-w", "w-y", "b-y", "a-y"]
    between = topology.link("y-w")
    assert (between.rate_bps, between.delay_ns, between.queue_bytes) == (5_000_000, 7, 70_000)
    assert topology.direction("w", "y").destination.number == 9
    assert [each.source.number for each in topology.outward("y")] == [1, 2, 9]
    assert topology.link("a-w").delay_ns == 1_000_000
    assert topology.describe() == "lab: 2 hosts, 2 switches, 4 links"
    assert topology_from(topology.document) == topology


def test_subnets_that_lie_at_several_switches_are_told_apart_by_addresses() -> None:
    network = weft.Network()
    for number in range(4):
        network.host(f"h{number}")
    for name in ("w", "y"):
        network.switch(name)
    network.link("h0", "w", ip="10.1.0.1/16")
    network.link("h1", "y", ip="10.1.0.2/16")
    network.link("h2", "w", ip="10.2.0.1/16")
    network.link("h3", "w", ip="10.2.9.1/24")
    network.link("w", "y")
    subnets = network.topology().subnets
    assert [(each.address, each.bits) for each in subnets["w"]] == [
        (0x0A010001, 32), (0x0A020001, 32), (0x0A020901, 32),
    ]  # fmt: skip
    assert [(each.address, each.bits) for each in subnets["y"]] == [(0x0A010002, 32)]


def test_a_file_a_builder_and_a_graph_of_networkx_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "ring.toml").write_text("""
        hosts = ["h0", "h1", "h2"]
        switches = ["s0", "s1", "s2"]
        defaults = { rate = "10Mbit" }
        links = [
            { ends = ["h0", "s0"] }, { ends = ["h1", "s1"] }, { ends = ["h2", "s2"] },
            { ends = ["s0", "s1"], delay = "2ms" }, { ends = ["s1", "s2"] },
            { ends = ["s2", "s0"] },
        ]
    """)
    graph = networkx.Graph()
    graph.add_nodes_from(["h0", "h1", "h2"])
    graph.add_nodes_from([0, 1, 2], kind="switch")
    graph.add_edges_from([("h0", 0), ("h1", 1), ("h2", 2)])
    graph.add_edge(0, 1, delay="2ms", weight=7)
    graph.add_edges_from([(1, 2), (2, 0)])
    by_file = weft.read_network(tmp_path / "ring.toml")
    by_graph = weft.from_networkx(graph, "ring", rate="10Mbit")
    assert by_file.hosts == by_graph.hosts
    assert by_file.switches == by_graph.switches
    assert {link.name for link in by_file.links} == {
        "h0-s0",
        "h1-s1",
        "h2-s2",
        "s0-s1",
        "s1-s2",
        "s2-s0",
    }
    assert {frozenset(link.name.split("-")) for link in by_file.links} == {
        frozenset(link.name.split("-")) for link in by_graph.links
    }
    assert by_graph.link("s0-s1").delay_ns == 2_000_000
    assert by_file.name == "ring"


def test_programs_of_a_file_lie_beside_it_and_their_hosts_use_arp(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text("""
        hosts = ["a", "b"]
        switches = ["w", "y"]
        programs = { y = "own.p4" }
        links = [{ ends = ["a", "w"] }, { ends = ["b", "y"] }, { ends = ["w", "y"] }]
    """)
    topology = weft.read_network(tmp_path / "lab.toml")
    assert topology.switch("y").program == str(tmp_path / "own.p4")
    assert topology.unmanaged == {"y"}
    assert (topology.host("b").gateway, topology.host("b").interfaces[0].on_link) == (None, True)
    lines = host_side(topology.host("b"), topology)
    assert "address add 10.0.1.1/24 dev b-eth0" in lines
    assert not any("neighbour" in line or "default" in line for line in lines)
    assert with_programs(topology, {"w": "p.p4"}).host("a").interfaces[0].on_link


def test_hosts_of_a_single_switch_with_its_own_program_are_one_subnet_with_arp() -> None:
    topology = with_programs(weft.single(3), {"leaf0": "own.p4"})
    for host in topology.hosts:
        lines = host_side(host, topology)
        assert f"address add {host.ip}/24 dev {host.name}-eth0" in lines
        assert not any("neighbour" in line or "route" in line for line in lines)
    routed = host_side(weft.single(3).host("h0"), weft.single(3))
    assert any("neighbour" in line for line in routed)


def test_hosts_of_switches_that_wait_for_a_program_are_ordinary_too() -> None:
    for network in (weft.single(2), ring_of_switches().topology()):
        ordinary = with_ordinary_hosts(network)
        assert not any("neighbour" in line for line in host_side(ordinary.host("h0"), ordinary))
        assert any("neighbour" in line for line in host_side(network.host("h0"), network))
        assert not ordinary.unmanaged and ordinary.document == network.document


def test_hosts_of_a_leaf_with_its_own_program_use_arp_below_it_and_the_leaf_beyond() -> None:
    topology = with_programs(weft.leaf_spine(2, 1, 2), {"leaf0": "own.p4"})
    assert host_side(topology.host("h0"), topology)[1:] == [
        "address add 10.0.0.1/24 dev h0-eth0",
        "link set dev h0-eth0 up",
        "neighbour add 10.0.0.254 lladdr 06:00:00:00:00:01 dev h0-eth0 nud permanent",
        "route add default via 10.0.0.254 dev h0-eth0 src 10.0.0.1",
    ]
    assert not topology.host("h2").interfaces[0].on_link  # its leaf runs the fabric's program


def test_what_a_host_with_several_interfaces_sends_goes_by_the_one_of_its_address() -> None:
    network = ring_of_switches()
    network.link("h0", "s2")
    lines = host_side(network.topology().host("h0"), network.topology())
    assert "route add default via 10.0.0.254 dev h0-eth0 src 10.0.0.1" in lines
    assert "route add default via 10.0.2.254 dev h0-eth1 src 10.0.2.2 table 102" in lines
    assert "rule add from 10.0.2.2 lookup 102" in lines


# -- what is refused ------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "hosts": ["a", "b"],
    "switches": ["w", "y"],
    "links": [{"ends": ["a", "w"]}, {"ends": ["b", "y"]}, {"ends": ["w", "y"]}],
}


def links(*more: dict[str, Any]) -> dict[str, Any]:
    return {**GOOD, "links": [*GOOD["links"], *more]}


def of_host(**fields: Any) -> dict[str, Any]:
    first = {"ends": ["a", "w"], **fields}
    return {**GOOD, "links": [first, *GOOD["links"][1:]]}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def test_no_node_is_called_like_a_word_of_the_prompt_however_it_is_named() -> None:
    pytest.importorskip("mininet")
    from weft.cli.prompt import Prompt

    assert set(PROMPT_WORDS) == Prompt.words()
    for word in PROMPT_WORDS:
        as_host, as_switch = weft.Network("lab"), weft.Network("lab")
        as_host.host(word)
        as_host.switch("s")
        as_host.link(word, "s")
        as_switch.host("a")
        as_switch.switch(word)
        as_switch.link("a", word)
        for network in (as_host, as_switch):
            with pytest.raises(InputError, match=f"{word!r} is taken: the prompt of weft up"):
                network.topology()
        graph = networkx.Graph([(word, "s"), ("b", "s")])
        with pytest.raises(InputError, match=f"{word!r} is taken"):
            weft.from_networkx(graph)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({**GOOD, "hosts": []}, "hosts are missing"),
    ({**GOOD, "switches": []}, "switches are missing"),
    ({**GOOD, "hosts": ["a", "b", "a"]}, "'a' is there 2 times"),
    ({**GOOD, "hosts": ["a", "b", "w"]}, "'w' is there 2 times"),
    ({**GOOD, "hosts": ["a", "b", "a-"]}, "hosts: 'a-' is no name"),
    ({**GOOD, "hosts": ["a", "b", "-b"]}, "hosts: '-b' is no name"),
    ({**GOOD, "hosts": ["a", "b", "a-w"], "switches": ["w", "y", "w-y"],
      "links": [*GOOD["links"], {"ends": ["a-w", "y"]}, {"ends": ["a", "w-y"]}]},
     "links[4] (a-w-y): links[3] (a-w-y) is called a-w-y, too: give one of the nodes"),
    ({**GOOD, "switches": ["w", "y", "switches"]}, "switches: 'switches' is taken"),
    ({**GOOD, "hosts": ["a", "sh"]}, "hosts: 'sh' is taken: the prompt of weft up"),
    ({**GOOD, "switches": ["w", "EOF"]}, "switches: 'EOF' is taken: the prompt of weft up"),
    ({**GOOD, "name": ""}, "name '' is no name"),
    ({**GOOD, "programs": {"z": "p.p4"}}, "programs: there is no switch 'z'"),
    ({**GOOD, "programs": {"w": ""}}, "programs.w is empty"),
    ({**GOOD, "hosts": ["a", "b", "c"]}, "host 'c' has no link"),
    ({**GOOD, "defaults": {"rate": "fast"}}, "defaults.rate 'fast'"),
    ({**GOOD, "defaults": {"rates": "1Mbit"}}, "defaults"),
    ({**GOOD, "link": []}, "link"),
    (links({"ends": ["w", "z"]}), "links[3].ends: there is no node 'z'"),
    (links({"ends": ["w", "w"]}), "links[3].ends: 'w' is linked to itself"),
    (links({"ends": ["w", "y"], "loss": "110%"}), ".loss '110%' is not a probability"),
    ({**GOOD, "defaults": {"loss": -0.1}}, "defaults.loss -0.1 is not a probability"),
    (links({"ends": ["a", "b"], "ip": "10.9.0.1/30"}),
     "links[3] (a-b).ip '10.9.0.1/30': both ends are hosts, so say whose it is"),
    (links({"ends": ["a", "b"], "ip": {"a": "10.9.0.1/30"}}),
     "links[3] (a-b).ip says nothing of b: give both hosts an address"),
    (links({"ends": ["a", "b"], "ip": {"y": "10.9.0.1/30"}}),
     "links[3] (a-b).ip: 'y' is no host of this link"),
    (links({"ends": ["a", "b"], "ip": {"a": "10.9.0.1/30", "b": "10.9.0.1/30"}}),
     "ip 10.9.0.1: links[3] (a-b) of a has that address already"),
    (links({"ends": ["a", "y"], "rate": "10Mbitt"}), "links[3] (a-y).rate '10Mbitt'"),
    (links({"ends": ["a", "y"], "rate": 0}), "links[3] (a-y): link rate 0"),
    (links({"ends": ["a", "y"], "delay": "soon"}), "links[3] (a-y).delay 'soon'"),
    (links({"ends": ["a", "y"], "ports": {"a": 3}}), "ports: 'a' is no switch of this link"),
    (links({"ends": ["a", "y"], "ports": {"y": 600}}), "ports.y 600: a port is 1 to 509"),
    (of_host(ip="10.0.0.1"), "links[0] (a-w).ip '10.0.0.1' has no prefix length"),
    (of_host(ip="10.0.0.300/24"), "is no IPv4 address and prefix length"),
    (of_host(ip="224.0.0.5/24"), "is no address of a host"),
    (of_host(ip="127.0.0.1/8"), "is no address of a host"),
    (of_host(ip="10.0.0.0/24"), "is the address of a whole subnet"),
    (of_host(ip="10.0.0.1/32"), "a prefix length is 8 to 31"),
    (of_host(ip=[]), "links[0] (a-w).ip is empty: leave it out, or write 'none'"),
    (of_host(ip=["none", "10.0.0.1/24"]), "'none' is no IPv4 address and prefix length"),
    (of_host(ip=["10.0.0.1/24", "10.0.1.1/24"]), "has 2 addresses of IPv4"),
    (of_host(ip="2001:db8::1"), "has no prefix length: write it like 2001:db8::7/64"),
    (of_host(ip="2001:db8::g/64"), "is no IPv6 address and prefix length"),
    (of_host(ip="2001:db8::1/128"), "a prefix length of IPv6 is 8 to 127"),
    (of_host(ip="2001:db8::1/200"), "is no IPv6 address and prefix length"),
    (of_host(ip="2001:db8::/64"), "is the address of all routers of the subnet 2001:db8::/64"),
    (of_host(ip="fe80::1/64"), "is a link-local address, which every interface"),
    (of_host(ip="ff02::1/64"), "is no address of a host"),
    (of_host(ip="::1/64"), "is no address of a host"),
    (of_host(ip="::ffff:10.0.0.1/96"), "is no address of a host"),
    (of_host(ip="2001:db8::1/64", gateway="2001:db8:1::1"),
     "is neither in the subnet 2001:db8::/64 nor a link-local address"),
    (of_host(ip="2001:db8::1/64", gateway="10.0.0.254"), "has no IPv4 address, by which"),
    (of_host(ip="10.0.0.1/24", gateway="2001:db8::1"), "has no IPv6 address, by which"),
    (of_host(ip="2001:db8::1/64", gateway="2001:db8::1"), "links[0] (a-w) has that address"),
    (of_host(ip="2001:db8::1/64", gateway="ff02::1"), "is no address of a gateway"),
    ({**GOOD, "links": [{"ends": ["a", "w"], "ip": "fd00::1/64"},
                        {"ends": ["b", "w"], "ip": "fd00::1/64"}, GOOD["links"][2]]},
     "links[1] (b-w).ip fd00::1: links[0] (a-w) has that address already"),
    (of_host(ip="10.254.3.1/24"), "is for packets that switches send"),
    (of_host(mac="02:00:00:00:00"), "is no MAC address"),
    (of_host(mac="01:00:00:00:00:01"), "a host's is no group address"),
    (of_host(mac="06:00:00:00:00:01"), "a host's is no group address"),
    (of_host(gateway="nowhere"), "gateway 'nowhere' is no IPv4 address"),
    (of_host(gateway="10.0.0.1"), "links[0] (a-w) has that address"),
    ({**GOOD, "links": [*GOOD["links"][:2], {"ends": ["w", "y"], "ip": "10.0.0.9/24"}]},
     "ip '10.0.0.9/24': it is for the link of a host"),
    ({**GOOD, "links": [{"ends": ["a", "w"], "ip": "10.9.0.1/24"},
                        {"ends": ["b", "y"], "ip": "10.9.0.1/24"}]},
     "links[1] (b-y).ip 10.9.0.1: links[0] (a-w) has that address already"),
    ({**GOOD, "links": [{"ends": ["a", "w"], "ports": {"w": 1}},
                        {"ends": ["b", "y"]}, {"ends": ["w", "y"], "ports": {"w": 1}}]},
     "links[2] (w-y).ports.w 1: links[0] (a-w) has that port already"),
    ({**GOOD, "programs": {"w": "p.p4"},
      "links": [{"ends": ["a", "w"], "gateway": "10.9.9.9"}, *GOOD["links"][1:]]},
     "is not in the subnet 10.0.0.0/24"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_mistakes_of_a_file_are_told_with_file_and_place(
    document: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "lab.toml").write_text(
        "\n".join(f"{key} = {toml(value)}" for key, value in document.items())
    )
    with pytest.raises(InputError) as raised:
        weft.read_network(tmp_path / "lab.toml")
    assert str(raised.value).startswith(f"network file '{tmp_path}/lab.toml'")
    assert words in str(raised.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("hosts = [")
    for name, words in (("bad.toml", "not valid TOML"), ("none.toml", "No such file")):
        with pytest.raises(InputError, match=words):
            weft.read_network(tmp_path / name)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (7, "graph 7: give a networkx.Graph"),
        (networkx.DiGraph([("a", "b")]), "not a directed one"),
        (networkx.MultiDiGraph([("a", "b")]), "not a directed one"),
        (networkx.path_graph(2), "switches are missing"),
    ],
)
def test_graphs_that_are_no_networks_are_refused(graph: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        weft.from_networkx(graph)


def test_arguments_of_other_types_are_refused_by_name() -> None:
    network = weft.Network("lab")
    wrong: dict[str, Callable[[], object]] = {
        "network 3 is no text": lambda: weft.Network(3),  # type: ignore[arg-type]
        "network 'w': rate is [1], not": lambda: weft.Network("w", rate=[1]),  # type: ignore[arg-type]
        "host 3 is no text": lambda: network.host(3),  # type: ignore[arg-type]
        "switch 3 is no text": lambda: network.switch(3),  # type: ignore[arg-type]
        "switch 's': program 3 is no path": lambda: network.switch("s", 3),  # type: ignore[arg-type]
        "network file 3 is no path": lambda: weft.read_network(3),  # type: ignore[arg-type]
    }
    links: dict[str, dict[str, Any]] = {
        "ip is 5, not text, an object or a list": {"ip": 5},
        "mac is 5, not text or an object": {"mac": 5},
        "gateway is 5, not text, an object or a list": {"gateway": 5},
        "ports is [1], not": {"ports": [1]},
        "ports.s is 'w', not a whole number": {"ports": {"s": "w"}},
    }  # fmt: skip
    for words, options in links.items():
        wrong[f"network 'lab': link 'h'-'s': {words}"] = partial(network.link, "h", "s", **options)
    for words, mistake in wrong.items():
        with pytest.raises(InputError) as raised:
            mistake()
        assert words in str(raised.value)


def test_a_delay_is_a_second_at_most() -> None:
    network = weft.Network("lab", delay="1s")
    network.host("h")
    network.switch("s")
    network.link("h", "s")
    assert network.topology().links[0].delay_ns == 10**9
    network.switch("t")
    network.link("s", "t", delay="3600s")
    with pytest.raises(InputError, match=r"links\[1\] \(s-t\): link delay .*: a delay is 0 to 1 s"):
        network.topology()


def test_kinds_of_nodes_are_checked() -> None:
    graph = networkx.Graph()
    graph.add_node("r", kind="router")
    with pytest.raises(InputError, match="kind 'router' is neither host nor switch"):
        weft.from_networkx(graph)


NAMES = st.sampled_from(["a", "b", "w", "y", "", "a-b", "é", "a>b"])
TEXTS = st.one_of(
    NAMES,
    st.sampled_from(
        ["1Mbit", "10.0.0.1/24", "0", "-1", "02:00:00:00:00:01", "none", "fd00::1/64", "fd00::1",
         "fe80::1", "10.0.0.254"]
    ),
)  # fmt: skip
OF_HOSTS = st.one_of(TEXTS, st.lists(TEXTS, max_size=2), st.dictionaries(NAMES, TEXTS, max_size=2))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": TEXTS,
            "hosts": st.lists(NAMES, max_size=3),
            "switches": st.lists(NAMES, max_size=3),
            "programs": st.dictionaries(NAMES, TEXTS, max_size=1),
            "links": st.lists(
                st.fixed_dictionaries(
                    {"ends": st.tuples(NAMES, NAMES)},
                    optional={
                        "rate": st.one_of(TEXTS, st.integers(-1, 10**12)),
                        "delay": st.one_of(TEXTS, st.integers(-1, 10**12)),
                        "queue": st.one_of(TEXTS, st.integers(-1, 10**12)),
                        "loss": st.one_of(TEXTS, st.floats()),
                        "ip": OF_HOSTS,
                        "mac": st.one_of(TEXTS, st.dictionaries(NAMES, TEXTS, max_size=2)),
                        "gateway": OF_HOSTS,
                        "ports": st.dictionaries(NAMES, st.integers(-1, 600), max_size=2),
                    },
                ),
                max_size=5,
            ),
        },
    )
)
def test_any_description_is_a_network_or_refused(document: dict[str, Any]) -> None:
    try:
        topology = topology_of(msgspec.convert(document, NetworkDocument), "network")
    except InputError:
        return
    assert topology_from(topology.document) == topology
    assert all(host.interfaces for host in topology.hosts)
    draw_svg(topology)


# -- how packets go -------------------------------------------------------------------------------


def ways(topology: Topology, tables: dict[str, Tables], source: str, address: int) -> set[int]:
    """Follow all choices from a host's first interface to an address; the lengths of all ways in
    switches. A way ends at the interface that has the address, with its MAC address."""
    lengths: set[int] = set()
    waiting = [(topology.host(source).leaf, 1)]
    while waiting:
        here, length = waiting.pop()
        assert length < 20, f"a loop on the way from {source} to {address:#x}"
        for action in tables[here].actions_for(address) or []:
            assert action.name == fabric.name("forward")
            params = dict(action.params)
            (out,) = [d for d in topology.outward(here) if d.source.number == params["port"]]
            interface = topology.interface_at(out.destination)
            assert params["src_mac"] == topology.switch(here).mac
            if interface is None:
                assert params["dst_mac"] == topology.switch(out.destination.node).mac
                waiting.append((out.destination.node, length + 1))
            else:
                assert (interface.address, interface.mac) == (address, params["dst_mac"])
                lengths.add(length)
    return lengths


@given(graphs(), st.sampled_from(PATHS))
def test_every_interface_is_reached_by_shortest_paths(topology: Topology, paths: Paths) -> None:
    tables = tables_of(plan_routes(Planning(program_names(), topology), paths))
    for source in topology.hosts:
        away = distances(topology, source.leaf)
        for host, interface in topology.stations:
            if host is not source:
                found = ways(topology, tables, source.name, interface.address)
                assert found == {away[interface.switch] + 1}


@given(graphs(), st.data())
def test_trees_reach_every_member_once_from_any_other(
    topology: Topology, data: st.DataObject
) -> None:
    names = [host.name for host in topology.hosts]
    members = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    (tree,) = plan_trees(program_names(), Reach(topology), [members])
    entities = tree_entities(program_names(), [tree])
    tables = {s.name: Tables(entities.get(s.name, [])) for s in topology.switches}
    farthest = {
        switch.name: max(
            distances(topology, switch.name)[topology.host(one).leaf] for one in members
        )
        for switch in topology.switches
    }
    assert farthest[tree.root] == min(farthest.values())
    for source in members:
        received: Counter[str] = Counter()
        crossed: Counter[str] = Counter()
        waiting = [topology.outward(source)[0]]
        while waiting:
            direction = waiting.pop()
            crossed[direction.name] += 1
            here = direction.destination
            if here.node not in tables:
                received[here.node] += 1
                assert here.number == 1
                continue
            for out in topology.outward(here.node):
                ports = tables[here.node].multicast_ports(tree.address)
                if out.source.number in ports and out.source.number != here.number:
                    waiting.append(out)
        assert received == Counter(set(members) - {source})
        assert max(crossed.values()) == 1


@given(graphs(), st.data())
def test_sums_go_up_a_tree_to_its_root(topology: Topology, data: st.DataObject) -> None:
    names = [host.name for host in topology.hosts]
    hosts = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    job = AggregationJob("239.255.0.0", hosts, 1, 4, 0)
    (tree,) = plan_aggregation(program_names(), Reach(topology), [job])
    for rank, host in enumerate(hosts):
        here = topology.host(host).leaf
        assert tree.nodes[here].owners[rank] == topology.direction(here, host).source.number
        for _ in range(10):
            node = tree.nodes[here]
            if node.parent is None:
                assert here == tree.root
                break
            (up,) = [d for d in topology.outward(here) if d.source.number == node.parent]
            above = tree.nodes[up.destination.node]
            assert up.destination.number in above.children
            assert above.owners[rank] == up.destination.number
            here = up.destination.node
    assert all(node.children for node in tree.nodes.values())


def test_no_path_goes_through_a_switch_with_a_program_of_its_own() -> None:
    topology = with_programs(ring_of_switches(4).topology(), {"s1": "own.p4"})
    routes = plan_routes(Planning(program_names(), topology))
    assert "s1" not in routes
    tables = tables_of(routes)
    assert ways(topology, tables, "h0", topology.host("h2").address) == {3}
    # Its own hosts are behind it, and every other switch knows where.
    (action,) = tables["s0"].actions_for(topology.host("h1").address)
    assert dict(action.params)["port"] == topology.direction("s0", "s1").source.number
    (tree,) = plan_trees(program_names(), Reach(topology), [["h0", "h2", "h3"]])
    assert set(tree.ports) == {"s0", "s2", "s3"}
    with pytest.raises(InputError, match="no switch reaches all of its 2 members"):
        plan_trees(program_names(), Reach(topology), [["h0", "h1"]])


# -- theory ---------------------------------------------------------------------------------------


def test_the_longest_path_and_the_bound_are_those_of_the_graph() -> None:
    network = ring_of_switches(6, rate="100Mbit").topology()
    assert LongestPath.of(network, 4096).switches == 4
    options: dict[str, Any] = {
        "world": "simulated", "topology": "ring", "graph": network.document, "size_bytes": 1 << 16,
        "algorithms": ("ring",),
    }  # fmt: skip
    assert completion_bound_ns(weft.Scenario(**options), "ring") == 5 * 65536 * 8 * 10


def test_a_bottleneck_that_all_must_pass_sets_the_bound() -> None:
    network = weft.Network("dumbbell", rate="100Mbit")
    for name in ("a", "b", "c", "d"):
        network.host(name)
    for name in ("w", "y"):
        network.switch(name)
    for host, switch in (("a", "w"), ("b", "w"), ("c", "y"), ("d", "y")):
        network.link(host, switch)
    network.link("w", "y", rate="10Mbit")
    options: dict[str, Any] = {
        "world": "simulated", "topology": "dumbbell", "graph": network.topology().document,
        "size_bytes": 1 << 16, "algorithms": ("ring",),
    }  # fmt: skip
    # In a ring of four, one rank of each side sends three shards over the link.
    scenario = weft.Scenario(**options)
    assert completion_bound_ns(scenario, "ring") == 3 * 65536 * 8 * 100
    assert (weft.run(scenario).runs[0].completion_ns or 0) > 3 * 65536 * 8 * 100


def test_a_slow_host_sets_the_bound_by_what_its_own_link_carries() -> None:
    network = weft.Network("slow", rate="100Mbit")
    network.switch("w")
    for name in ("a", "b", "c"):
        network.host(name)
        network.link(name, "w", rate="1Mbit" if name == "c" else None)
    options: dict[str, Any] = {
        "world": "simulated", "topology": "slow", "graph": network.topology().document,
        "size_bytes": 10_000, "algorithms": ("multicast",),
    }  # fmt: skip
    scenario = weft.Scenario(**options)
    assert scenario.rate_bps == 1_000_000
    assert completion_bound_ns(scenario, "multicast") == 20_000 * 8 * 1000
    fast = weft.Scenario(**options, hosts=("b", "a"))
    assert (fast.rate_bps, fast.ranks) == (100_000_000, 2)
    assert completion_bound_ns(fast, "multicast") == 10_000 * 8 * 10


# -- on a network that is up ---------------------------------------------------------------------


def mistakes(net: weft.Net) -> dict[str, Callable[[], object]]:
    return {
        "no host 'h9' in this topology": lambda: net.allgather(hosts=["h0", "h9"]),
        "hosts: 'h1' is named 2 times": lambda: net.allgather(hosts="h1,h1"),
        "hosts '' is no list": lambda: net.allgather(hosts=[]),
        "the names say the order": lambda: net.allgather(hosts="h0,h1", placement="strided"),
        "servers 9: 4 hosts leave": lambda: net.allreduce(algorithm="optcast", servers=9),
        "assigns the paths of a Clos": lambda: net.allgather(algorithm="ring", paths="ethereal"),
        "jobs 3: 4 hosts for ranks": lambda: net.allgather(jobs=3),
    }


def test_what_makes_no_sense_on_a_graph_is_refused() -> None:
    with weft.up(ring_of_switches(4), world="simulated") as net:
        for words, mistake in mistakes(net).items():
            with pytest.raises(InputError) as raised:
                mistake()
            assert words.replace("''", "[]") in str(raised.value)


def test_options_of_weft_s_own_shapes_mean_nothing_for_a_graph() -> None:
    graph = ring_of_switches(3).topology().document
    for options, words in (
        ({"leaves": 4}, "--leaves 4 means nothing for topology 'ring'"),
        ({"oversubscription": 2.0}, "--oversubscription 2.0 means nothing"),
        ({"rate_bps": 7_000_000}, "rate 7000000 means nothing for topology 'ring'"),
        ({"delay_ns": 5}, "delay 5 means nothing"),
        ({"queue_bytes": 99_999}, "queue 99999 means nothing"),
    ):
        with pytest.raises(InputError) as raised:
            weft.Scenario(world="simulated", topology="ring", graph=graph, **options)
        assert words in str(raised.value)


def test_parts_that_do_not_reach_each_other_are_refused_by_name() -> None:
    network = weft.Network("parts")
    for number in range(3):
        network.link(network.host(f"h{number}"), network.switch(f"s{number}"))
    network.link("s0", "s1")
    with weft.up(network, world="simulated") as net:
        with pytest.raises(InputError, match="no path leads from h0 to h2"):
            net.allgather(size="4KiB")
        assert net.allgather(size="4KiB", hosts=["h1", "h0"], algorithm="multicast").verified


def test_for_names_that_are_right_nobody_looks_for_near_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look(*_: object, **__: object) -> list[str]:
        raise AssertionError("names were compared, though all are right")

    monkeypatch.setattr("difflib.get_close_matches", look)
    network = weft.Network()
    for switch in ("left", "right"):
        network.switch(switch)
    network.link("left", "right")
    for host in range(20):
        network.link(network.host(f"host{host}"), "left" if host % 2 else "right")
    assert len(network.topology().hosts) == 20


@pytest.mark.parametrize("world", WORLDS)
def test_subnets_of_two_port_0_and_hyphens_are_as_other_networks(world: Any) -> None:
    lab = weft.Network("lab")
    lab.switch("s-1", SOURCE)
    lab.switch("s-2")
    lab.link(lab.host("h-a"), "s-1", ip="10.7.0.0/31", gateway="10.7.0.1", ports={"s-1": 0})
    lab.link(lab.host("h-b"), "s-1", ip="10.7.0.3/31", gateway="10.7.0.2")
    lab.link(lab.host("h-c"), "s-2", ip="10.7.0.4/31")
    lab.link(lab.host("h-d"), "s-2", ip="10.7.0.7/31")
    topology = lab.topology()
    assert [format_ipv4(each.gateway or 0) for each in topology.hosts] == [
        "10.7.0.1", "10.7.0.2", "10.7.0.5", "10.7.0.6",
    ]  # fmt: skip
    assert topology.link("s-1-h-a") == topology.link("h-a-s-1") == topology.links[0]
    with weft.up(lab, world=world) as net:
        switch, a, b = net.switch("s-1"), net.host("h-a"), net.host("h-b")
        switch.table("steps").insert({"dst": 0x31}, "send", port=0)
        switch.table("steps").insert({"dst": 0x32}, "send", port=1)
        for source, target, dst in ((a, b, 0x32), (b, a, 0x31)):
            target.sniff(timeout=0)
            frame = dst.to_bytes(6, "big") + bytes(6) + bytes.fromhex("88b5") + bytes(46)
            source.send(frame)
            heard = [bytes(one)[:6] for one in target.sniff(timeout=60, count=1)]
            assert heard == [frame[:6]]
        if world == "emulated":
            net.host("h-c").run("ping -c 1 -W 5", net.host("h-d").ip, check=True)
        else:
            assert net.allgather(size="4KiB", algorithm="ring", hosts=["h-c", "h-d"]).verified
