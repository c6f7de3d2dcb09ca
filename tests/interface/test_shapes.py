"""Networks of Weft's shapes as scenarios ask for them."""

from __future__ import annotations

import weft
from weft.interface.collectives import scenario_on


def test_a_network_of_pods_is_asked_for_by_its_sizes() -> None:
    made = weft.pods(3, 1, 2, 3, 2, 10**9, fabric_rate_bps=2 * 10**9, core_rate_bps=5 * 10**8)
    scenario = scenario_on(made, "alltoall")
    assert (scenario.pods, scenario.leaves, scenario.spines, scenario.uplinks) == (3, 1, 2, 3)
    assert (scenario.oversubscription, scenario.core_oversubscription) == (0.5, 4 / 3)
    assert scenario.network() == made
