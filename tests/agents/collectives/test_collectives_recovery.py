"""Collectives over connections that keep what comes out of order, choose paths by entropy and heed
congestion marks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.collective_group import EVERY, Group, name_of
from tests.support.memory_network import Faults

from weft.agents.collectives.requests import Request
from weft.agents.transport import TransportOptions

SPRAYED = TransportOptions(recovery="selective", reorder_packets=16)
OPTIONS = {
    "selective": SPRAYED,
    "selective-dctcp": replace(SPRAYED, congestion="dctcp"),
    "reps-dctcp": replace(SPRAYED, congestion="dctcp", entropy="reps"),
    "plb-dctcp": TransportOptions(congestion="dctcp", entropy="plb"),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("request_", EVERY, ids=name_of)
def test_every_algorithm_is_done_right_on_a_network_that_reorders_and_loses(
    request_: Request, options: TransportOptions
) -> None:
    faults = Faults(lateness=0.3, late_ns=20_000, loss=0.01, duplication=0.01, seed=5)
    Group(5, options=options, faults=faults).complete(replace(request_, counts=9000))


@pytest.mark.parametrize("algorithm", ["ring", "linear"])
def test_reordering_alone_costs_no_retransmission(algorithm: str) -> None:
    faults = Faults(lateness=0.3, late_ns=10_000, seed=5)
    group = Group(4, options=SPRAYED, faults=faults)
    group.complete(Request(0, "allgather", algorithm, 40_000))
    counted = [agent.endpoint.statistics for agent in group.agents]
    assert sum(one.reordered_packets for one in counted) > 50
    assert sum(one.retransmitted_packets for one in counted) == 0
    assert sum(one.timeouts for one in counted) == 0
