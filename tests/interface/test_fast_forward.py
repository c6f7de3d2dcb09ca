"""Flows whose packets are left out while they are steady, beside the same with all packets."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.base.errors import InputError
from weft.interface.flows.fast_forward import is_steady
from weft.interface.flows.lines import converse

NETWORK = weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, rate_bps=10**10, delay_ns=1000)
MIB = 1 << 20
REGISTERS = Path(__file__).parents[1] / "stf" / "firewall.p4"


def both(
    flows: list[weft.Flow], **options: Any
) -> tuple[dict[Any, weft.FlowResult], weft.Simulation]:
    """Return what becomes of flows, packet by packet, and a simulation that left some out."""
    simulation = weft.Simulation(NETWORK, flows, fast_forward=8, **options)
    simulation.run()
    return weft.simulate(NETWORK, flows, **options), simulation


def ring(size_bytes: int, **options: Any) -> list[weft.Flow]:
    """Return a flow of each host to the next."""
    return [weft.Flow(n, f"h{n}", f"h{(n + 1) % 4}", size_bytes, **options) for n in range(4)]


@pytest.mark.parametrize(
    ("paths", "congestion"),
    [("destination", "window"), ("ecmp-4", "window"), ("ethereal", "dctcp")],
)
def test_flows_end_when_they_end_with_all_their_packets(paths: str, congestion: str) -> None:
    exact, simulation = both(ring(128 * MIB), paths=paths, congestion=congestion)
    skipped = simulation.skipped
    assert skipped.skipped_ns > 0.3 * simulation.now_ns
    assert skipped.sampled_windows > 0
    assert skipped.mean_error <= skipped.largest_error < 0.05
    for number, result in exact.items():
        assert simulation.results[number].end_ns == pytest.approx(result.end_ns, rel=0.02)


def test_flows_that_share_a_link_go_on_with_all_of_it_when_one_has_ended() -> None:
    flows = [weft.Flow(n, f"h{n}", "h3", (64 + 64 * n) * MIB) for n in range(2)]
    exact, simulation = both(flows, congestion="window")
    assert simulation.skipped.skipped_ns > 0.2 * simulation.now_ns
    for number, result in exact.items():
        assert simulation.results[number].end_ns == pytest.approx(result.end_ns, rel=0.03)


def test_nothing_differs_where_nothing_is_left_out() -> None:
    exact, simulation = both([*ring(6 * MIB), weft.Flow("last", "h2", "h0", 9 * MIB + 1, [1, 2])])
    assert simulation.skipped.skipped_ns == 0
    assert simulation.results == exact


def test_what_begins_begins_at_its_time() -> None:
    late = weft.Flow("late", "h2", "h0", 20_000, start_ns=90_000_123)
    after = weft.Flow("after", "h1", "h3", 1, [0, "late"])
    exact, simulation = both([*ring(192 * MIB), late, after], congestion="window")
    found = simulation.results
    assert simulation.skipped.skipped_ns > 0
    assert found["late"].start_ns == exact["late"].start_ns == 90_000_123
    assert found["after"].start_ns == max(found[0].end_ns, found["late"].end_ns)


def test_time_is_advanced_to_where_it_is_to_be() -> None:
    simulation = weft.Simulation(NETWORK, ring(192 * MIB), fast_forward=8, congestion="window")
    for until_ns in (1, 77_777_777, 77_777_778, 100_000_000):
        assert simulation.advance(until_ns) == {}
        assert simulation.now_ns == until_ns
    assert simulation.skipped.skipped_ns > 0


def test_lines_say_what_was_left_out() -> None:
    simulation = weft.Simulation(NETWORK, fast_forward=8, congestion="window")
    flow = {"id": 1, "source": "h0", "destination": "h3", "size_bytes": 192 * MIB}
    said: list[bytes] = []
    converse(simulation, io.BytesIO(json.dumps({"flow": flow, "run": True}).encode()), said.append)
    answer = json.loads(said[0])
    assert 0 < answer["skipped_ns"] < answer["now_ns"] == answer["ended"][0]["end_ns"]
    assert 0 <= answer["largest_error"] < 0.05


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"paths": "spray"}, "fast_forward with paths 'spray': packets of a flow take paths of"),
        ({"paths": "plb"}, "fast_forward with paths 'plb'"),
        ({"loss": "1%"}, "where links lose packets at random"),
        ({"fast_forward": 1}, "fast_forward 1 is out of range: a whole number from 2 to 10000"),
    ],
)
def test_what_cannot_be_steady_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        weft.Simulation(NETWORK, **{"fast_forward": 8, **options})


def test_programs_that_keep_something_of_packets_are_refused() -> None:
    network = weft.Network("guarded")
    switch = network.switch("s0", REGISTERS)
    for number in range(2):
        network.link(network.host(f"h{number}"), switch)
    with pytest.raises(InputError, match=r"packets change .* in the program of s0"):
        weft.Simulation(network, fast_forward=8)


def steady(acknowledged: list[int], flight: list[int], window: list[int], again: int = 0) -> bool:
    """Return whether three samples of a connection are of one that is steady."""
    rows = zip(acknowledged, flight, window, (0, 0, again), strict=True)
    return is_steady([np.array([row]) for row in rows])


def test_steady_is_what_has_the_same_rate_as_many_packets_under_way_and_no_less_room() -> None:
    assert steady([0, 1000, 2000], [60, 64, 62], [64 * 256] * 3)
    assert steady([0, 1000, 2000], [10, 9, 10], [64 * 256, 80 * 256, 96 * 256])
    assert not steady([0, 1000, 2100], [60, 60, 60], [64 * 256] * 3)
    assert not steady([0, 100, 200], [60, 60, 60], [64 * 256] * 3)
    assert not steady([0, 1000, 2000], [60, 80, 100], [128 * 256] * 3)
    assert not steady([0, 1000, 2000], [60, 60, 60], [64 * 256, 80 * 256, 96 * 256])
    assert not steady([0, 1000, 2000], [60, 60, 60], [64 * 256] * 3, again=1)
