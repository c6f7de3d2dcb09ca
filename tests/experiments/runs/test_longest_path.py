"""Timeouts that follow from rate, delay, queues and world; nothing is sent again in vain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.agents.collectives.timing import operation_timeout_ns
from weft.agents.datagrams import ipv4
from weft.agents.transport import CompletionKind, Endpoint, TransportMisuse, TransportOptions
from weft.base.errors import InputError
from weft.experiments.report.scenarios import command_line
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import operation_of, transport_of
from weft.experiments.runs.shared import network_key
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.longest_path import (
    WINDOW_BYTES,
    LongestPath,
    control_timeout_ns,
    emulated_burst_ns,
    held_ns,
    retransmit_timeout_ns,
)
from weft.experiments.scenario.options import from_options, said
from weft.experiments.scenario.scenario import Scenario
from weft.switch.compiler import compile_cached
from weft.topo.clos import Topology, fat_tree, leaf_spine, single
from weft.topo.fabric_program import fabric_program
from weft.topo.faults import Fault

MS = 1_000_000
A, B = ipv4("10.0.0.1"), ipv4("10.0.0.2")


def simulated(scenario: Scenario) -> Run:
    algorithm = scenario.algorithms[0]
    return simulate(scenario, compile_cached(fabric_program()), algorithm, 0, lambda _: None)


def statistic(run: Run, name: str) -> int:
    return sum(rank.statistics[name] for rank in run.ranks)


@pytest.mark.parametrize(
    ("network", "switches"), [(single(4), 1), (leaf_spine(2, 2, 2), 3), (fat_tree(4), 5)]
)
def test_a_path_is_as_long_as_the_network_is_high(network: Topology, switches: int) -> None:
    path = LongestPath.of(network, 4096)
    assert path.switches == switches
    there_ns = (switches + 1) * (4096 + 78 + 62) * 80  # 100 Mbit/s
    assert path.idle_round_trip_ns == there_ns
    assert path.full_round_trip_ns == there_ns + switches * path.queue_bytes * 80
    assert path.bottleneck_round_trip_ns == there_ns + path.queue_bytes * 80


def test_the_window_is_the_transports() -> None:
    assert TransportOptions().window_bytes == WINDOW_BYTES


@given(
    rate_bps=st.integers(10**6, 10**11),
    delay_ns=st.integers(0, 10**7),
    queue_bytes=st.integers(18_432, 1 << 24),
    emulated=st.booleans(),
)
def test_timeouts_follow_rate_delay_and_queue(
    rate_bps: int, delay_ns: int, queue_bytes: int, emulated: bool
) -> None:
    path = LongestPath(3, rate_bps, 4 * delay_ns, queue_bytes, 4174)
    data = retransmit_timeout_ns(path, marks=True, emulated=emulated)
    bottleneck = retransmit_timeout_ns(path, marks=False, emulated=emulated)
    control = control_timeout_ns(path, emulated=emulated)
    idle_ns = 8 * delay_ns + 4 * (4174 + 62) * 8e9 / rate_bps
    margin_ns = 10 * MS + held_ns(path) if emulated else 0
    most_ns = max(1e9, idle_ns + 8e9 * WINDOW_BYTES / rate_bps)
    for timeout_ns, queues in ((data, 3), (bottleneck, 1)):
        full_ns = idle_ns + queues * 8e9 * queue_bytes / rate_bps
        assert timeout_ns == pytest.approx(margin_ns + min(full_ns, most_ns), abs=20)
    assert idle_ns - 20 <= control
    assert control < bottleneck


@pytest.mark.parametrize(
    ("rate_bps", "timeout_ns"), [(10**8, 127_184_640), (10**7, 10**9), (10**6, 2_232_704_000)]
)
def test_on_slow_links_full_queues_do_not_set_the_timeout(rate_bps: int, timeout_ns: int) -> None:
    """RFC 6298's second does, or a window on the link."""
    scenario = Scenario("alltoall", world="simulated", rate_bps=rate_bps)
    assert scenario.retransmit_timeout_ns == timeout_ns


@pytest.mark.parametrize(
    ("options", "retries"),
    [
        ({}, 7),
        ({"loss": 0.01}, 7),
        ({"loss": 0.03}, 11),
        ({"loss": 0.1}, 29),
        ({"loss": 0.9}, 60),
        ({"faults": ("leaf0-spine1:loss=0.1",)}, 10),
        ({"faults": ("leaf0-spine1:loss=1",)}, 7),
    ],
    ids=str,
)
def test_how_often_a_sender_repeats_goes_by_losses(options: dict[str, Any], retries: int) -> None:
    """A dead link is not a lossy one: peers behind it are gone as soon as ever."""
    faults = tuple(Fault.parse(each) for each in options.get("faults", ()))
    scenario = Scenario(world="simulated", **{**options, "faults": faults})
    made = transport_of(scenario)
    assert (made.retries, made.give_up_ns) == (retries, 2_000_000_000)


def test_losses_of_a_network_file_count_as_those_of_a_fault() -> None:
    network = weft.Network("lossy")
    network.link(network.host("a"), network.switch("s"), loss="10%")
    network.link(network.host("b"), "s")
    scenario = Scenario(world="simulated", topology="lossy", graph=network.topology().document)
    assert transport_of(scenario).retries == 10


@pytest.mark.parametrize("loss", [0.03, 0.1])
@pytest.mark.parametrize(
    ("collective", "algorithm"), [("alltoall", "direct"), ("allreduce", "switch")]
)
def test_slow_links_that_lose_packets_take_their_time(
    collective: str, algorithm: str, loss: float
) -> None:
    """The time limit goes by rate and losses, and nobody who is there is given up."""
    scenario = Scenario(
        collective, algorithms=(algorithm,), world="simulated", leaves=2, spines=2,
        hosts_per_leaf=4, size_bytes=65_536, rate_bps=10**6, loss=loss,
    )  # fmt: skip
    ran = simulated(scenario)
    assert ran.verified, ran.error


def test_the_time_limit_goes_by_losses() -> None:
    sure = Scenario(world="simulated", rate_bps=10**6)
    lossy = replace(sure, loss=0.03)
    limits = [operation_of(each, "ring", 1).request.limit_ns(8, 10**6) for each in (sure, lossy)]
    assert limits[0] == operation_timeout_ns(8, 8 * sure.size_bytes, 10**6)
    assert limits[1] > 2 * limits[0]
    asked = operation_of(replace(lossy, timeout_s=20.0), "ring", 1).request
    assert asked.limit_ns(8, 10**6) == 20 * 10**9


def test_at_100_gbit_the_first_timeout_is_a_matter_of_microseconds() -> None:
    fast: dict[str, Any] = {"world": "simulated", "rate_bps": 10**11, "delay_ns": 1000}
    plain = Scenario(**fast)
    assert plain.retransmit_timeout_ns == 8_000 + 1_356 + 41_944
    assert plain.control_timeout_ns == 8_000 + 8 * 334
    marks = Scenario("alltoall", **fast)
    assert marks.retransmit_timeout_ns == 8_000 + 1_356 + 3 * 41_944
    assert marks.control_timeout_ns is None
    for scenario in (plain, marks):
        options = transport_of(scenario)
        assert scenario.retransmit_timeout_ns is not None
        endpoint = Endpoint(A, rate_bps=10**11, options=options)
        assert options.first_timeout_ns == scenario.retransmit_timeout_ns
        assert options.acknowledge_interval_ns == 20_972
        left, far = endpoint.create_rc(), Endpoint(B)
        left.connect(far.create_rc().local)
        left.post_send(bytes(8192))
        while endpoint.transmit(0).count:
            pass
        deadline = endpoint.deadline()
        assert deadline is not None
        assert deadline <= scenario.retransmit_timeout_ns + 1_000


def test_the_emulated_world_has_a_floor_and_its_prediction_the_same_times() -> None:
    emulated = Scenario(rate_bps=10**10)
    assert emulated.retransmit_timeout_ns is not None and emulated.control_timeout_ns is not None
    assert emulated.retransmit_timeout_ns > 10 * MS
    assert emulated.control_timeout_ns > 5 * MS
    predicted = replace(emulated, world="simulated")
    assert predicted.retransmit_timeout_ns == emulated.retransmit_timeout_ns
    assert Scenario(rate_bps=10**10, world="simulated").retransmit_timeout_ns != (
        emulated.retransmit_timeout_ns
    )


@pytest.mark.parametrize(
    ("rate_bps", "burst_ns"),
    [(5_000_000, 26_214_400), (100_000_000, 2_000_000), (10**9, 524_288), (10**10, 52_428)],
)
def test_the_emulated_world_counts_what_bursts_hold_back(rate_bps: int, burst_ns: int) -> None:
    path = LongestPath(3, rate_bps, 4000, 1 << 20, 4174)
    assert emulated_burst_ns(rate_bps) == burst_ns
    for name, late_ns in ((retransmit_timeout_ns, 10 * MS), (control_timeout_ns, 5 * MS)):
        more: dict[str, Any] = {"marks": True} if name is retransmit_timeout_ns else {}
        added_ns = name(path, emulated=True, **more) - name(path, emulated=False, **more)
        assert added_ns == late_ns + 2 * burst_ns


def test_both_are_options_of_scenarios_and_told_by_reports() -> None:
    scenario = from_options({"retransmit-timeout": "40ms", "control_timeout": "7500us"})
    assert scenario.retransmit_timeout_ns == 40 * MS
    options = transport_of(scenario)
    assert options.first_timeout_ns == options.minimum_timeout_ns == 40 * MS
    assert options.control_timeout_ns == 7_500_000
    line = command_line(scenario)
    assert "--retransmit-timeout 40ms --control-timeout 7500us" in line
    assert "timeout" not in command_line(Scenario())
    assert said("retransmit-timeout", 40 * MS) == "40 ms"
    assert network_key(scenario) == network_key(Scenario())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retransmit-timeout": "1ms"}, ["retransmit-timeout 1 ms", "1.356 ms", "sent twice"]),
        ({"control-timeout": 0}, ["control-timeout 0", "from 1"]),
        ({"retransmit-timeout": "2000s"}, ["retransmit-timeout"]),
        ({"retransmit-timeout": "soon"}, ["retransmit-timeout 'soon'", "10us"]),
        (
            {"control-timeout": "9ms", "congestion": "dctcp"},
            ["control-timeout 9 ms", "means nothing", "retransmit-timeout"],
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        from_options(options)
    for word in words:
        assert word in str(caught.value)


def test_an_endpoint_refuses_timeouts_of_no_time() -> None:
    for name in ("first_timeout_ns", "minimum_timeout_ns", "control_timeout_ns"):
        with pytest.raises(TransportMisuse, match=f"{name} 0"):
            Endpoint(A, options=replace(TransportOptions(), **{name: 0}))  # type: ignore[arg-type]


def test_an_incast_that_fits_a_queue_is_not_repeated() -> None:
    """79 senders of a packet each to everybody: longer under way than an own window takes.

    Tokens of barriers, which are cheap to repeat, are not what this is about."""
    scenario = Scenario(
        "allgather", world="simulated", topology="single", hosts_per_leaf=80, rate_bps=10**9,
        size_bytes=4096, algorithms=("linear",), control_timeout_ns=100 * MS,
    )  # fmt: skip
    run = simulated(scenario)
    assert run.verified
    assert statistic(run, "timeouts") == 0
    assert sum(rank.retransmitted_packets for rank in run.ranks) == 0


@pytest.mark.parametrize(("rate_bps", "delay_ns"), [(10**8, 0), (10**11, 1000), (10**9, 5 * MS)])
@pytest.mark.parametrize("collective", ["allgather", "alltoall", "many-to-one"])
def test_nothing_is_sent_again_where_nothing_is_lost(
    collective: str, rate_bps: int, delay_ns: int
) -> None:
    run = simulated(
        Scenario(
            collective, world="simulated", leaves=4, spines=2, hosts_per_leaf=4,
            rate_bps=rate_bps, delay_ns=delay_ns, size_bytes=1 << 18,
        )
    )  # fmt: skip
    assert run.verified
    assert sum(link.queue_dropped or 0 for link in run.links) == 0
    assert statistic(run, "timeouts") == 0
    assert sum(rank.retransmitted_packets for rank in run.ranks) == 0


def test_a_lost_packet_at_100_gbit_costs_microseconds() -> None:
    """The last packet of a transfer, which nothing that follows betrays."""
    options: dict[str, Any] = {
        "world": "simulated", "rate_bps": 10**11, "delay_ns": 1000, "size_bytes": 4096,
        "algorithms": ("linear",),
    }  # fmt: skip
    clean = simulated(Scenario(**options))
    lossy = simulated(Scenario(**options, loss=0.02))
    assert clean.completion_ns is not None and lossy.completion_ns is not None
    assert statistic(lossy, "timeouts") > 0
    assert lossy.completion_ns < clean.completion_ns + 1 * MS


def test_what_is_small_is_repeated_after_its_own_timeout() -> None:
    found = {}
    for control_ns in (3 * MS, 30 * MS):
        options = TransportOptions(control_timeout_ns=control_ns, minimum_timeout_ns=200 * MS,
                                   first_timeout_ns=200 * MS)  # fmt: skip
        endpoint = Endpoint(A, rate_bps=10**9, options=options)
        pair, far = endpoint.create_rc(), Endpoint(B)
        pair.connect(far.create_rc().local)
        pair.post_send(b"token")
        assert endpoint.transmit(0).count == 1
        deadline = endpoint.deadline()
        assert deadline is not None
        found[control_ns] = deadline
        assert not [one for one in endpoint.poll() if one.kind is CompletionKind.ERROR]
    assert 2 * 3 * MS <= found[3 * MS] < 2 * 3 * MS + 100_000
    assert 2 * 30 * MS <= found[30 * MS] < 2 * 30 * MS + 100_000
