"""The network as data: names, ports and addresses, look-ups, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.topo.clos import (
    LINK_TIERS,
    Topology,
    fat_tree,
    format_ipv4,
    format_mac,
    leaf_spine,
    pods,
    single,
)

SHAPES = st.one_of(
    st.builds(leaf_spine, st.integers(1, 6), st.integers(1, 5), st.integers(1, 5)),
    st.builds(single, st.integers(1, 20)),
    st.builds(fat_tree, st.sampled_from([2, 4, 6]), st.sampled_from([2, 3])),
    st.builds(pods, *[st.integers(1, 3)] * 5),
)


def test_hosts_of_a_leaf_spine_are_ranked_leaf_by_leaf_and_addressed_by_leaf() -> None:
    network = leaf_spine(4, 2, 2)
    assert [host.name for host in network.hosts] == [f"h{rank}" for rank in range(8)]
    host = network.host(5)
    assert (host.leaf, host.ip, format_mac(host.mac)) == ("leaf2", "10.0.2.2", "02:00:0a:00:02:02")
    assert host.gateway is not None and format_ipv4(host.gateway) == "10.0.2.254"
    assert format_mac(network.leaf_of(5).mac) == "06:00:00:00:00:03"


def test_a_leaf_beyond_255_continues_in_the_second_byte_of_the_address() -> None:
    assert leaf_spine(258, 1, 1).host(257).ip == "10.1.1.1"


def test_ports_count_from_one_with_hosts_below_uplinks() -> None:
    network = leaf_spine(4, 2, 2)
    assert network.neighbours("leaf1") == ("h2", "h3", "spine0", "spine1")
    assert network.neighbours("spine1") == ("leaf0", "leaf1", "leaf2", "leaf3")
    assert [each.source.number for each in network.outward("leaf1")] == [1, 2, 3, 4]
    assert network.direction("spine1", "leaf2").source.number == 3


def test_a_three_tier_fat_tree_has_the_counts_and_wiring_of_the_paper() -> None:
    network = fat_tree(4)
    tiers = Counter(switch.tier for switch in network.switches)
    assert (len(network.hosts), tiers["leaf"], tiers["agg"], tiers["core"]) == (16, 8, 8, 4)
    assert network.neighbours("leaf2") == ("h4", "h5", "agg2", "agg3")
    assert network.neighbours("agg3") == ("leaf2", "leaf3", "core2", "core3")
    assert network.neighbours("core2") == ("agg1", "agg3", "agg5", "agg7")
    assert {switch.pod for switch in network.switches_of("agg")} == {0, 1, 2, 3}


def test_a_fat_tree_is_pods_of_one_size() -> None:
    tree, same = fat_tree(6), pods(6, 3, 3, 3, 3)
    assert replace(same, name="fat-tree") == tree


def test_pods_have_leaves_spines_and_uplinks_of_any_number() -> None:
    network = pods(3, leaves=2, spines=2, uplinks=3, hosts_per_leaf=1)
    assert network.neighbours("leaf3") == ("h3", "agg2", "agg3")
    assert network.neighbours("agg3") == ("leaf2", "leaf3", "core3", "core4", "core5")
    assert network.neighbours("core4") == ("agg1", "agg3", "agg5")


def test_each_tier_of_pods_has_a_rate() -> None:
    network = pods(rate_bps=10**9, fabric_rate_bps=2 * 10**9, core_rate_bps=3 * 10**9)
    rates = {link.a.node[:3] + link.b.node[:3]: link.rate_bps for link in network.links}
    assert rates == {f"h{n}lea": 10**9 for n in range(8)} | {
        "leaagg": 2 * 10**9, "aggcor": 3 * 10**9,
    }  # fmt: skip
    below = pods(rate_bps=10**9, fabric_rate_bps=2 * 10**9)
    assert {link.rate_bps for link in below.links if "core" in link.name} == {2 * 10**9}


def test_a_two_tier_fat_tree_is_a_leaf_spine_without_oversubscription() -> None:
    network = fat_tree(8, tiers=2)
    assert (len(network.switches_of("leaf")), len(network.switches_of("spine"))) == (8, 4)
    assert len(network.hosts) == 32


@given(SHAPES)
def test_every_shape_is_wired_consistently(network: Topology) -> None:
    assert len({link.name for link in network.links}) == len(network.links)
    assert len({host.address for host in network.hosts}) == len(network.hosts)
    assert [switch.device_id for switch in network.switches] == list(
        range(1, len(network.switches) + 1)
    )
    for name in network.nodes:
        numbers = [direction.source.number for direction in network.outward(name)]
        assert numbers == list(range(1, len(numbers) + 1))
    for direction in network.directions:
        back = network.direction(*direction.ends[::-1])
        assert (back.source, back.destination) == (direction.destination, direction.source)
        assert network.select(direction.name) == (direction,)
        assert direction.upward == (
            network.node(direction.ends[0]).level < network.node(direction.ends[1]).level
        )
    assert sum(len(network.directions_of(tier)) for tier in LINK_TIERS) == 2 * len(network.links)
    for host in network.hosts:
        assert network.neighbours(host.name) == (host.leaf,)
        assert host in network.hosts_of(host.leaf)
        assert network.host(host.name) is network.host(host.rank) is host


def test_links_are_found_by_name_in_either_order_and_directions_by_arrow() -> None:
    network = leaf_spine(2, 2, 1)
    link = network.link("leaf0-spine1")
    assert network.link("spine1-leaf0") is link is network.direction("spine1", "leaf0").link
    assert [each.name for each in network.select("leaf0-spine1")] == [
        "leaf0>spine1",
        "spine1>leaf0",
    ]
    assert [each.tier for each in network.select("leaf0>h0")] == ["host_down"]


def test_fabric_links_may_have_a_rate_of_their_own() -> None:
    network = leaf_spine(2, 2, 1, rate_bps=10, fabric_rate_bps=40)
    assert {link.rate_bps for link in network.links if link.a.node.startswith("h")} == {10}
    assert network.link("leaf1-spine0").rate_bps == 40


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: leaf_spine(0), "0 leaves: at least 1"),
        (lambda: leaf_spine(spines=0), "0 spines"),
        (lambda: leaf_spine(hosts_per_leaf=-1), "-1 hosts a leaf"),
        (lambda: leaf_spine(hosts_per_leaf=254), "254 hosts a leaf: at most 253"),
        (lambda: leaf_spine(510), "510 leaves: at most 509"),
        (lambda: leaf_spine(1, 400, 200), "600 ports a leaf: at most 509"),
        (lambda: leaf_spine(rate_bps=0), "rate 0 bit/s"),
        (lambda: leaf_spine(fabric_rate_bps=-5), "rate -5 bit/s"),
        (lambda: leaf_spine(delay_ns=-1), "delay -1 ns"),
        (lambda: leaf_spine(delay_ns=10**10), "delay 10000000000 ns: a delay is 0 to 1 s"),
        (lambda: leaf_spine("a", 1, 1), "leaves 'a' is no whole number"),  # type: ignore[arg-type]
        (lambda: leaf_spine(1.5, 1, 1), "leaves 1.5 is no whole number"),  # type: ignore[arg-type]
        (lambda: leaf_spine(rate_bps="x"), "link rate in bit/s 'x'"),  # type: ignore[arg-type]
        (lambda: single(hosts=[1]), r"hosts \[1\] is no whole number"),  # type: ignore[arg-type]
        (lambda: single(hosts=True), "hosts True is no whole number"),
        (lambda: fat_tree("4"), "k '4' is no whole number"),  # type: ignore[arg-type]
        (lambda: leaf_spine(queue_bytes=0), "queue bound 0 bytes"),
        (lambda: single(0), "0 hosts"),
        (lambda: single(254), "at most 253"),
        (lambda: pods(0), "0 pods"),
        (lambda: pods(2, uplinks=0), "0 uplinks of an aggregation switch"),
        (lambda: pods(2, 500, 2, 20), "520 ports a switch: at most"),
        (lambda: fat_tree(3), "3-port switches: k has to be even"),
        (lambda: fat_tree(0), "0-port switches"),
        (lambda: fat_tree(4, tiers=4), "4 tiers: a fat tree here has 2 or 3"),
        (lambda: fat_tree(510), "at most"),
    ],
)
def test_impossible_networks_are_refused_with_the_value_and_the_limit(
    ask: Callable[[], Topology], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ask()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda network: network.link("leaf0-spine9"), "no link 'leaf0-spine9'.*leaf0-spine1"),
        (lambda network: network.select("leaf0>spin1"), "leaf0>spine1"),
        (lambda network: network.host("leaf0"), "no host 'leaf0'.*h0, h1"),
        (lambda network: network.host(9), "no rank 9: the ranks are 0 to 3"),
        (lambda network: network.host(1.5), "no host 1.5 in this topology"),
        (lambda network: network.host([]), r"no host \[\]"),
        (lambda network: network.direction(3, 4), "no node 4"),
        (lambda network: network.switch("h0"), "no switch 'h0'"),
        (lambda network: network.node("lef0"), "did you mean leaf0"),
        (lambda network: network.direction("h0", "h1"), "h0 is linked to leaf0"),
    ],
)
def test_unknown_names_are_refused_with_near_ones(
    ask: Callable[[Topology], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ask(leaf_spine(2, 2, 2))


def test_a_thousand_hosts_are_laid_out() -> None:
    network = fat_tree(16)
    assert len(network.hosts) == 1024
    assert len(network.outward("core0")) == 16
