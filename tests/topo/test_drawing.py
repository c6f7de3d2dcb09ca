"""The drawing of a topology: well-formed, complete, inside its frame, loads as colours."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from weft.base.errors import InputError
from weft.topo.clos import Topology, fat_tree, leaf_spine, single
from weft.topo.drawing import draw_svg

SVG = "{http://www.w3.org/2000/svg}"
NETWORKS = [leaf_spine(), single(8), single(1), fat_tree(4), fat_tree(4, tiers=2)]
LARGE = [leaf_spine(16, 8, 8), fat_tree(8)]


def _lines(svg: str) -> list[ElementTree.Element]:
    return [
        line
        for line in ElementTree.fromstring(svg).iter(f"{SVG}line")
        if line[0].text != "no figure"
    ]


@pytest.mark.parametrize("network", [*NETWORKS, *LARGE], ids=Topology.describe)
def test_every_node_is_labelled_and_nothing_lies_outside_the_frame(network: Topology) -> None:
    root = ElementTree.fromstring(draw_svg(network, {}))
    width, height = (float(figure) for figure in root.attrib["viewBox"].split()[2:])
    labels = [text.text for text in root.iter(f"{SVG}text")]
    assert set(network.nodes) <= set(labels)
    for line in root.iter(f"{SVG}line"):
        assert 0 <= float(line.attrib["x1"]) <= width
        assert 0 <= float(line.attrib["y2"]) <= height


@pytest.mark.parametrize("network", [*NETWORKS, *LARGE], ids=Topology.describe)
def test_no_two_nodes_overlap(network: Topology) -> None:
    boxes = [
        tuple(float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        for box in ElementTree.fromstring(draw_svg(network)).iter(f"{SVG}rect")
        if box.find(f"{SVG}title") is not None
    ]
    assert len(boxes) == len(network.nodes)
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:number]:
            assert (
                x + width <= other_x
                or other_x + other_width <= x
                or y + height <= other_y
                or other_y + other_height <= y
            )


def test_without_loads_every_link_is_one_line() -> None:
    assert len(_lines(draw_svg(leaf_spine()))) == 16


def test_with_loads_every_direction_is_a_lane_that_tells_its_figure() -> None:
    network = leaf_spine()
    loads = {("leaf0", "spine1"): 2e6, ("spine1", "leaf0"): 1e6}
    lines = {line[0].text: line for line in _lines(draw_svg(network, loads))}
    assert len(lines) == 32
    heavy, light = lines["leaf0>spine1: 2 MB"], lines["spine1>leaf0: 1 MB"]
    assert heavy.attrib["stroke"] != light.attrib["stroke"]
    assert float(heavy.attrib["stroke-width"]) > float(light.attrib["stroke-width"])
    assert "h0>leaf0: no figure" in lines


def test_loads_of_zero_draw() -> None:
    network = single(2)
    svg = draw_svg(network, {direction.ends: 0.0 for direction in network.directions})
    assert "h0&gt;leaf0: 0 B" in svg


def test_the_same_network_draws_the_same() -> None:
    assert draw_svg(leaf_spine()) == draw_svg(leaf_spine())


def test_a_load_of_a_link_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no link from h0 to spine0"):
        draw_svg(leaf_spine(), {("h0", "spine0"): 1.0})


def test_titles_are_escaped() -> None:
    svg = draw_svg(single(2), title="a < b & c")
    assert re.search("a &lt; b &amp; c", svg)
    ElementTree.fromstring(svg)
