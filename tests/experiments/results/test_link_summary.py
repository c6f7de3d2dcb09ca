"""Few rows of links say of their sums, their fullest and their queues what all rows say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.experiments.results.link_summary import has_few_rows, summarised
from weft.experiments.results.queue_counts import PriorityQueueCounts
from weft.experiments.results.results import OTHERS, LinkResult, tier_bytes
from weft.experiments.results.telemetry import load_spread, queue_figures
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import LINK_TIERS


def row(number: int, tier: str) -> LinkResult:
    """Return a row whose figures depend on its number."""
    return LinkResult(
        f"a{number}", f"b{number}", tier, tx_packets=number, tx_bytes=100 * number % 700,
        lost=number % 2, queue_dropped=None if number == 3 else number, max_queue_bytes=64 * number,
        marked=number, queue_depths=[(0, number), (64 * number, 1)], load_bytes=[number, 1],
        queues=[PriorityQueueCounts(1, number, 2 * number, 0, number)],
    )  # fmt: skip


def test_sums_queues_and_the_fullest_direction_are_those_of_all_rows() -> None:
    links = [row(number, tier) for tier in LINK_TIERS for number in range(1, 9)]
    few = summarised(links)
    assert len(few) == 2 * len(LINK_TIERS)
    assert tier_bytes(few) == tier_bytes(links)
    assert queue_figures(few) == queue_figures(links)
    for name in ("tx_packets", "lost", "dropped", "marked"):
        assert sum(getattr(each, name) for each in few) == sum(
            getattr(each, name) for each in links
        )
    for tier in LINK_TIERS:
        of_tier, all_of_tier = (
            [each for each in some if each.tier == tier] for some in (few, links)
        )
        assert load_spread(of_tier) == load_spread(all_of_tier)
        assert [each.from_node for each in of_tier] == ["a6", OTHERS]
        assert of_tier[1].directions == 7
        assert of_tier[1].load_bytes == [30, 7]
        assert of_tier[1].queues == [PriorityQueueCounts(1, 30, 60, 0, 8)]


def test_a_kind_of_one_or_two_directions_stays_as_it_is() -> None:
    links = [row(number, "fabric_up") for number in (1, 2)]
    assert summarised(links) == links


@pytest.mark.parametrize(("asked", "few"), [("auto", False), ("all", False), ("summary", True)])
def test_a_small_network_has_all_rows_unless_a_summary_is_asked_for(asked: str, few: bool) -> None:
    scenario = Scenario("allgather", link_results=asked)
    assert has_few_rows(scenario) is few


def test_many_rows_are_summed_up_unless_all_are_asked_for() -> None:
    scenario = Scenario("allgather", leaves=4, spines=2, hosts_per_leaf=2, repeat=2000)
    assert has_few_rows(scenario)
    assert not has_few_rows(replace(scenario, link_results="all"))
