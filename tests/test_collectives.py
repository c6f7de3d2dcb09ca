"""Whole Allgathers between state machines on a network in memory, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.collectives.agent import Failed
from agents.collectives.operation import Allgather
from agents.datagrams import Datagram, ipv4
from switch.errors import InputError, RunError
from tests.collective_group import Group
from tests.memory_network import Faults

MEBIBYTE = 1 << 20
RING = Allgather(0, "ring", 1000)
MULTICAST = Allgather(0, "multicast", 1000)
BOTH = pytest.mark.parametrize("request_", [RING, MULTICAST], ids=["ring", "multicast"])

LOSS_LIMIT_NS = 1_000_000_000
"""Bound on a small Allgather that lost some packets: a few retransmission timeouts."""

DEAD_PEER_LIMIT_NS = 3_000_000_000
"""Bound on finding out that a rank or a link is dead (TransportOptions: 2.3 s), and telling all."""


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("shard", [0, 1, 3, 255, 256, 257, 1000, 5003])
def test_every_rank_gets_every_byte(request_: Allgather, size: int, shard: int) -> None:
    done = Group(size).gather(replace(request_, shard_bytes=shard))
    assert {event.report.received_bytes for event in done} == {(size - 1) * shard}


@pytest.mark.parametrize("size", [2, 4, 5])
def test_any_number_of_chains_works(size: int) -> None:
    for chains in range(1, size + 1):
        group = Group(size)
        done = group.gather(replace(MULTICAST, shard_bytes=3000, chains=chains))
        assert sum(event.report.chunks_fetched for event in done) == 0


@pytest.mark.parametrize("cutoff", ["adaptive", "paper", "fetch-only"])
def test_every_cutoff_mode_works_with_and_without_loss(cutoff: str) -> None:
    for loss in (0.0, 0.05):
        group = Group(4, faults=Faults(loss=loss, seed=3))
        group.gather(replace(MULTICAST, shard_bytes=10_000, cutoff=cutoff))


def test_fetch_only_multicasts_nothing() -> None:
    group = Group(5, keep_trace=True)
    done = group.gather(replace(MULTICAST, shard_bytes=2000, cutoff="fetch-only"))
    for event in done:
        assert event.report.chunks_fetched == 4 * 8
        assert event.report.chunks_multicast == 0
    assert all(datagram.destination < ipv4("224.0.0.0") for _, _, datagram in group.network.trace)


@BOTH
def test_a_rank_alone_sends_nothing(request_: Allgather) -> None:
    group = Group(1, keep_trace=True)
    for chains in (0, 1):
        group.gather(replace(request_, shard_bytes=5000, chains=chains))
    assert group.network.trace == []


def test_roots_spread_over_several_groups() -> None:
    group = Group(4, groups=2, keep_trace=True)
    group.gather(MULTICAST)
    used = {
        datagram.destination
        for _, _, datagram in group.network.trace
        if datagram.destination >= ipv4("224.0.0.0")
    }
    assert used == {ipv4("239.0.0.1"), ipv4("239.0.0.2")}


@BOTH
def test_operations_one_after_another_do_not_mix(request_: Allgather) -> None:
    group = Group(3, faults=Faults(lateness=0.05, late_ns=3_000_000, seed=1))
    other = {"ring": MULTICAST, "multicast": RING}[request_.algorithm]
    for number in range(12):
        kind = request_ if number % 3 else other
        group.gather(replace(kind, shard_bytes=[1500, 0, 777, 4096][number % 4]))


def test_operation_numbers_wrap_around_eight_bits() -> None:
    group = Group(2)
    group.number = 254
    for _ in range(4):
        group.gather(replace(MULTICAST, shard_bytes=600))
        group.gather(replace(RING, shard_bytes=600))


@BOTH
def test_ranks_that_start_late_lose_nothing(request_: Allgather) -> None:
    group = Group(4)
    group.start(request_, ranks=[0, 1, 3])
    group.network.run(lambda: group.network.delivered >= 6, 10**9)
    group.agents[2].start(group.request, group.buffers[2], group.network.now_ns)
    group.finish(LOSS_LIMIT_NS)
    group.verify()


@BOTH
def test_any_single_packet_may_be_lost(request_: Allgather) -> None:
    request = replace(request_, shard_bytes=600)
    faults = Faults()
    group = Group(4, faults=faults)
    group.gather(request)
    packets = faults._number
    assert packets > 30
    for number in range(packets):
        faults = Faults(lose={number})
        group = Group(4, faults=faults)
        group.gather(request, LOSS_LIMIT_NS)
        assert faults._number >= packets - 8


def test_any_single_packet_of_a_single_chain_may_be_lost() -> None:
    request = replace(MULTICAST, shard_bytes=600, chains=1)
    faults = Faults()
    Group(4, faults=faults).gather(request)
    for number in range(faults._number):
        Group(4, faults=Faults(lose={number})).gather(request, LOSS_LIMIT_NS)


@BOTH
def test_any_single_packet_may_come_twice_or_late(request_: Allgather) -> None:
    request = replace(request_, shard_bytes=600)
    faults = Faults()
    Group(4, faults=faults).gather(request)
    for number in range(faults._number):
        Group(4, faults=Faults(duplicate={number})).gather(request, LOSS_LIMIT_NS)
        late = Faults(late={number}, late_ns=5_000_000)
        Group(4, faults=late).gather(request, LOSS_LIMIT_NS)


@settings(max_examples=30, deadline=None, derandomize=True, print_blob=True)
@given(data=st.data())
def test_random_faults_are_survived(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6), "ranks")
    request = Allgather(
        0,
        data.draw(st.sampled_from(["ring", "multicast"]), "algorithm"),
        data.draw(st.integers(0, 6000), "shard bytes"),
        chains=data.draw(st.integers(0, size), "chains"),
        cutoff=data.draw(st.sampled_from(["adaptive", "paper", "fetch-only"]), "cutoff"),
    )
    faults = Faults(
        loss=data.draw(st.sampled_from([0.0, 0.01, 0.05, 0.15]), "loss"),
        duplication=data.draw(st.sampled_from([0.0, 0.05]), "duplication"),
        corruption=data.draw(st.sampled_from([0.0, 0.02]), "corruption"),
        lateness=data.draw(st.sampled_from([0.0, 0.1]), "lateness"),
        late_ns=data.draw(st.sampled_from([50_000, 500_000, 20_000_000]), "how late"),
        seed=data.draw(st.integers(0, 1000), "seed"),
    )
    group = Group(size, faults=faults)
    group.gather(request, 10_000_000_000)
    group.gather(request, 10_000_000_000)


def test_lost_chunks_are_counted_as_fetched() -> None:
    lost = {0, 5}

    def is_multicast(datagram: Datagram, receiver: int) -> bool:
        return datagram.destination >= ipv4("224.0.0.0") and receiver == ipv4("10.0.0.2")

    group = Group(3, faults=Faults(lose=lost, only=is_multicast))
    done = group.gather(replace(MULTICAST, shard_bytes=2000))
    assert [event.report.chunks_fetched for event in done] == [0, 2, 0]
    assert [event.report.chunks_multicast for event in done] == [16, 14, 16]
    assert all(event.report.chunks_duplicate == 0 for event in done)
    assert set(done[1].report.phases_ns) == {"barrier", "data", "recovery", "handshake"}
    assert "recovery" not in done[0].report.phases_ns


def cut(address: str) -> Faults:
    """A host whose link loses everything, both ways."""
    host = ipv4(address)
    return Faults(loss=1.0, only=lambda datagram, receiver: host in (datagram.source, receiver))


@BOTH
@pytest.mark.parametrize("size", [2, 4, 7])
def test_a_dead_link_fails_every_rank_within_the_bound(request_: Allgather, size: int) -> None:
    group = Group(size, faults=cut("10.0.0.2"))
    group.start(request_)
    for rank, event in enumerate(group.finish(DEAD_PEER_LIMIT_NS)):
        assert isinstance(event, Failed)
        if rank != 1:
            assert "rank 1 (10.0.0.2)" in event.error
        else:
            assert "rank" in event.error


@BOTH
def test_a_link_that_dies_in_the_data_phase_fails_every_rank(request_: Allgather) -> None:
    host = ipv4("10.0.0.3")
    group = Group(4, rate_bps=100_000_000)
    dead_from_ns = 20_000_000

    def dead(datagram: Datagram, receiver: int) -> bool:
        involved = host in (datagram.source, receiver)
        return involved and group.network.now_ns > dead_from_ns

    group.network.faults = Faults(loss=1.0, only=dead)
    group.start(replace(request_, shard_bytes=500_000))
    for rank, event in enumerate(group.finish(DEAD_PEER_LIMIT_NS + 1_000_000_000)):
        assert isinstance(event, Failed)
        if rank != 2:
            assert "rank 2 (10.0.0.3)" in event.error


@BOTH
def test_a_rank_that_never_starts_is_named_at_the_time_limit(request_: Allgather) -> None:
    group = Group(4)
    group.start(replace(request_, timeout_ns=2_000_000_000), ranks=[0, 1, 3])
    events = group.finish(2_100_000_000, ranks=[0, 1, 3])
    assert all(isinstance(event, Failed) for event in events)
    assert any(isinstance(event, Failed) and "rank 2 (10.0.0.3)" in event.error for event in events)


def test_after_a_failure_nothing_more_is_started() -> None:
    group = Group(2, faults=cut("10.0.0.1"))
    group.start(RING)
    group.finish(DEAD_PEER_LIMIT_NS)
    with pytest.raises(RunError, match=r"an earlier one failed: .*rank 1"):
        group.agents[0].start(replace(RING, number=1), np.zeros(2000, np.uint8), 0)


def test_an_abort_reaches_all_ranks() -> None:
    group = Group(5, rate_bps=10_000_000)
    group.start(replace(MULTICAST, shard_bytes=100_000))
    group.network.run(lambda: group.network.now_ns > 5_000_000, 10**9)
    group.agents[3].abort("the user asked for it", group.network.now_ns)
    for rank, event in enumerate(group.finish(100_000_000)):
        assert isinstance(event, Failed)
        assert "the user asked for it" in event.error
        assert rank == 3 or "rank 3 gave up" in event.error


def test_a_wrong_buffer_or_number_of_chains_is_refused() -> None:
    agent = Group(2).agents[0]
    with pytest.raises(InputError, match="2000 are needed"):
        agent.start(RING, np.zeros(1999, np.uint8), 0)
    with pytest.raises(InputError, match="3 chains of 2 ranks"):
        agent.start(replace(MULTICAST, chains=3), np.zeros(2000, np.uint8), 0)


def bound_ns(size: int, shards: int, rate_bps: int, shard: int) -> int:
    return shards * shard * 8 * 10**9 // rate_bps


@pytest.mark.parametrize(
    ("request_", "shards", "slack"),
    [
        (replace(MULTICAST, shard_bytes=MEBIBYTE), 7, 1.05),
        (replace(MULTICAST, shard_bytes=MEBIBYTE, chains=4), 8, 1.05),
        (replace(MULTICAST, shard_bytes=MEBIBYTE, chains=1), 8, 1.05),
        (replace(RING, shard_bytes=MEBIBYTE), 7, 1.10),
    ],
    ids=["M=P", "M=4", "M=1", "ring"],
)
def test_completion_is_near_the_bound(request_: Allgather, shards: int, slack: float) -> None:
    rate = 100_000_000
    group = Group(8, rate_bps=rate, path_mtu=4096, delay_ns=1_000_000, queue_bytes=256 * 1024)
    done = group.gather(request_)
    ratio = group.duration_ns / bound_ns(8, shards, rate, MEBIBYTE)
    print(f"{ratio:.4f} of the bound, phases of rank 0 {done[0].report.phases_ns}")
    assert group.network.dropped == 0
    assert ratio < slack


@pytest.mark.parametrize(("loss", "slack"), [(0.001, 1.15), (0.01, 1.40)])
def test_multicast_with_loss_stays_near_the_bound(loss: float, slack: float) -> None:
    rate = 100_000_000
    faults = Faults(loss=loss, seed=5)
    group = Group(
        8, rate_bps=rate, path_mtu=4096, delay_ns=1_000_000, queue_bytes=256 * 1024, faults=faults
    )
    done = group.gather(replace(MULTICAST, shard_bytes=MEBIBYTE))
    ratio = group.duration_ns / bound_ns(8, 7, rate, MEBIBYTE)
    print(f"{ratio:.4f} of the bound, phases of rank 0 {done[0].report.phases_ns}")
    assert sum(event.report.chunks_fetched for event in done) > 0
    assert ratio < slack


@BOTH
def test_the_same_seed_gives_the_same_packets(request_: Allgather) -> None:
    traces = []
    for _ in range(2):
        group = Group(4, faults=Faults(loss=0.05, seed=2), keep_trace=True)
        group.gather(replace(request_, shard_bytes=5000))
        traces.append(group.network.trace)
    assert traces[0] == traces[1]
