"""Networks of htsim's files as scenarios ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.cli.paths import analysis_of
from weft.experiments.scenario.htsim_topology import parse
from weft.experiments.scenario.scenario import Scenario

PODS = """\
# three tiers: 2 hosts a leaf, 3 leaves a pod
Nodes 24
Tiers 3
Podsize 6

Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 1

Tier 1
Downlink_speed_Gbps 100
Radix_Down 3
Radix_Up 5
Downlink_Latency_ns 1000
Bundle 1

Tier 2
Downlink_speed_Gbps 400
Radix_Down 4
Downlink_Latency_ns 1000
"""
LEAF_SPINE = """\
Nodes 32
Tiers 2
Podsize 32
Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
"""


def asked(path: Path, **options: Any) -> Scenario:
    return Scenario(topology=str(path), collective="alltoall", world="simulated", **options)


def test_three_tiers_are_pods_with_a_rate_for_each_tier(tmp_path: Path) -> None:
    (tmp_path / "p.topo").write_text(PODS)
    scenario = asked(tmp_path / "p.topo")
    sizes = ("pods", "leaves", "spines", "uplinks", "hosts_per_leaf")
    assert [getattr(scenario, name) for name in sizes] == [4, 3, 2, 5, 2]
    network = scenario.network()
    assert len(network.hosts) == 24
    rates = {
        network.nodes[link.b.node].tier: link.rate_bps  # type: ignore[union-attr]
        for link in network.links
    }
    assert rates == {"leaf": 200 * 10**9, "agg": 100 * 10**9, "core": 400 * 10**9}
    assert {link.delay_ns for link in network.links} == {1000}
    assert asked(tmp_path / "p.topo", paths="ethereal").paths == "ethereal"


def test_two_tiers_are_a_leaf_spine(tmp_path: Path) -> None:
    (tmp_path / "l.topo").write_text(LEAF_SPINE)
    network = asked(tmp_path / "l.topo").network()
    assert network.name == "leaf-spine"
    assert (len(network.hosts), len(network.switches)) == (32, 6)
    figures = analysis_of("permutation", {"topology": str(tmp_path / "l.topo")}).to_dict()
    assert (figures["ranks"], figures["topology"]) == (32, "leaf-spine")


def changed(old: str, new: str, text: str = PODS) -> str:
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the network has no tiers"),
        (changed("Tiers 3", "Tiers 4"), "Tiers 4: networks of 2 and 3 tiers"),
        (changed("Tier 2", "Tier 3"), r"describes tiers \[0, 1, 3\]: 0 to 2 are needed"),
        (changed("Tier 2", "Tier 1"), "x.topo:21: 'Tier 1': tier 1 is there already"),
        (changed("Radix_Up 5", "Radix_Up five"), "x.topo:17: .*'five' is no number"),
        (changed("Radix_Up 5", "Radix_Up"), "a line has a name and a number"),
        (changed("Radix_Up 5", "Radix 5"), "'Radix' is none of Tier, radix_down"),
        (changed("Radix_Up 5", "Radix_Down 3"), "it is there already"),
        (changed("Radix_Up 5\n", ""), "x.topo:14: tier 1 has no radix_up"),
        (changed("Bundle 1", "Bundle 2"), "tier 1 has bundle 2: two switches have one link"),
        (changed("Switch_Latency_ns 0", "Switch_Latency_ns 5"), "add it to Downlink_Latency_ns"),
        (changed("Radix_Up 5", "Queue_Up 5"), "queues have one bound in all tiers.*--queue"),
        (changed("Latency_ns 1000", "Latency_ns 500"), r"delays of \[500, 1000\] ns: all links"),
        (changed("Gbps 400", "Gbps 1600"), "links of 1600 Gbit/s: at most 800"),
        (changed("Podsize 6", "Podsize 8"), "its leaves times the hosts of a leaf: 8 is not 6"),
        (changed("Nodes 24", "Nodes 25"), "what is left of Nodes besides whole pods: 1 is not 0"),
        (changed("Radix_Down 4", "Radix_Down 5"), "links down of a core switch: 4 is not 5"),
        (changed("Podsize 32", "Podsize 16", LEAF_SPINE), "Podsize of two tiers is Nodes"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(text, "x.topo")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"leaves": 3}, "--leaves 3 means nothing for topology"),
        ({"core_oversubscription": 2.0}, "--core-oversubscription 2.0 means nothing"),
        ({"rate_bps": 10**9}, "rate 1000000000 means nothing"),
    ],
)
def test_a_file_says_itself_how_large_it_is(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    (tmp_path / "p.topo").write_text(PODS)
    with pytest.raises(InputError, match=words):
        asked(tmp_path / "p.topo", **options)
    with pytest.raises(InputError, match="No such file"):
        asked(tmp_path / "none.topo")


@given(st.data())
def test_any_text_is_a_network_or_an_input_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(PODS)))
    length = data.draw(st.integers(0, 20))
    word = data.draw(st.sampled_from(["", "0", "9", "Tier 0\n", "\n", "\0", "-", "9" * 9]))
    try:
        assert "topology" in parse(PODS[:at] + word + PODS[at + length :], "x.topo")
    except InputError as error:
        assert str(error).startswith("x.topo")
