"""Several operations at the same time on one communicator, and long series of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collective_group import EVERY, Group, name_of
from tests.support.collectives_faults_support import (
    DEAD_PEER_LIMIT_NS,
    LOSS_LIMIT_NS,
    dies,
    requests,
)
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults

from weft.agents.collectives.agent import Done, Failed
from weft.agents.collectives.names import MAX_AT_ONCE
from weft.agents.collectives.requests import Request
from weft.agents.collectives.series import BoundRequest, Series
from weft.agents.datagrams import ipv4
from weft.agents.ranks import OperationConfig
from weft.base.errors import InputError, RunError

ALL = pytest.mark.parametrize("request_", EVERY, ids=name_of)
RING = Request(0, "allgather", "ring", 600)
MULTICAST = Request(0, "allgather", "multicast", 600)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_all_collectives_run_at_once(size: int) -> None:
    group = Group(size)
    for _ in range(2):
        group.complete(*(replace(request, counts=900) for request in EVERY))


@ALL
def test_many_operations_of_a_kind_run_at_once(request_: Request) -> None:
    group = Group(4)
    group.complete(*[replace(request_, counts=count) for count in range(0, 1200, 75)])


@settings(derandomize=True)
@given(data=st.data())
def test_ranks_that_start_at_any_time_do_not_mix_anything_up(data: st.DataObject) -> None:
    """Every rank starts the same operations in the same order, each when it likes."""
    size = data.draw(st.integers(2, 5), "ranks")
    faults = Faults(
        loss=data.draw(st.sampled_from([0.0, 0.02, 0.1]), "loss"),
        lateness=data.draw(st.sampled_from([0.0, 0.1]), "lateness"),
        late_ns=data.draw(st.sampled_from([50_000, 5_000_000]), "how late"),
        seed=data.draw(st.integers(0, 1000), "seed"),
    )
    group = Group(size, faults=faults, groups=3, rate_bps=100_000_000)
    count = data.draw(st.integers(2, 7), "operations")
    numbers = [group.prepare(data.draw(requests(size))) for _ in range(count)]
    gap = st.sampled_from([0, 0, 0, 100_000, 3_000_000, 30_000_000])
    starts = []
    for rank in range(size):
        at_ns = 0
        for number in numbers:
            at_ns += data.draw(gap)
            starts.append((at_ns, number, rank))
    for at_ns, number, rank in sorted(starts):
        if at_ns > group.network.now_ns:
            wait_until(group, at_ns)
        group.start_on(rank, number)
    for event in group.finish(20_000_000_000, operations=count):
        assert isinstance(event, Done), event.error
    for number in numbers:
        group.verify(number)


def wait_until(group: Group, at_ns: int) -> None:
    network = group.network
    while network.now_ns < at_ns:
        upcoming = network._next_time()
        if upcoming is None or upcoming > at_ns:
            for index in range(len(network.hosts)):
                network._serve(index)
            upcoming = network._next_time()
            if upcoming is None or upcoming > at_ns:
                network.now_ns = at_ns
                return
        network.step()


@ALL
def test_ranks_that_start_late_lose_nothing(request_: Request) -> None:
    group = Group(4)
    group.start(request_, ranks=[0, 1, 3])
    group.network.run(lambda: group.network.delivered >= 3, 10**9)
    group.start_on(2, 0)
    group.finish(LOSS_LIMIT_NS)
    group.verify()


def test_operations_one_after_another_do_not_mix() -> None:
    group = Group(3, faults=Faults(lateness=0.05, late_ns=3_000_000, seed=1))
    for turn in range(4):
        for request in EVERY:
            group.complete(replace(request, counts=[1500, 0, 777, 4096][turn]))


@pytest.mark.parametrize("at_once", [1, 7, MAX_AT_ONCE])
@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_numbers_wrap_around_eight_bits_in_a_long_series(at_once: int, loss: float) -> None:
    operations = 300
    group = Group(3, faults=Faults(loss=loss, seed=9))
    for number in range(operations):
        group.prepare(replace(EVERY[number % len(EVERY)], counts=(number * 37) % 500))
    series = [
        Series(
            group.agents[rank],
            [
                BoundRequest(
                    group.workloads[number].request,
                    group.buffers[number][rank],
                    group.outputs[number][rank],
                )
                for number in range(operations)
            ],
            at_once,
        )
        for rank in range(3)
    ]
    for each in series:
        each.start(0)

    def ended() -> bool:
        for each in series:
            each.take(group.network.now_ns)
        return all(each.ended for each in series)

    group.network.run(ended, 200_000_000_000)
    assert [each.error for each in series] == ["", "", ""]
    for number in range(operations):
        group.verify(number)


def test_high_operation_numbers_work_up_to_the_32_bits_of_the_wire() -> None:
    group = Group(2)
    group.number = (1 << 32) - 3
    for _ in range(3):
        group.complete(MULTICAST)
    with pytest.raises(InputError, match="number 4294967296"):
        group.complete(MULTICAST)


def test_one_operation_too_many_is_refused() -> None:
    group = Group(2)
    for _ in range(MAX_AT_ONCE):
        group.start(RING)
    number = group.prepare(RING)
    with pytest.raises(RunError, match=r"64 are running.*at most 64 at once"):
        group.start_on(0, number)
    assert all(isinstance(each, Done) for each in group.finish(10**10, operations=MAX_AT_ONCE))
    group.start_on(0, number)
    group.start_on(1, number)
    group.finish(10**9)
    group.verify(number)


def test_numbers_too_far_apart_are_refused() -> None:
    group = Group(2)
    group.start(RING, ranks=[0])
    group.number = 256
    number = group.prepare(RING)
    with pytest.raises(RunError, match="256 numbers apart"):
        group.start_on(0, number)
    with pytest.raises(InputError, match="operation 0: 1 is the next number"):
        group.start_on(0, 0)


def test_events_come_in_the_order_in_which_operations_end() -> None:
    group = Group(2)
    group.start(replace(MULTICAST, counts=100_000))
    group.start(replace(RING, counts=100))
    done = group.finish(10**9, operations=2)
    assert [event.number for event in done] == [1, 0, 1, 0]
    assert all(a.finished_ns <= b.finished_ns for a, b in (done[:2], done[2:]))


def test_multicast_operations_at_once_take_turns_and_drop_nothing() -> None:
    group = Group(5, rate_bps=100_000_000, path_mtu=1024, queue_bytes=64 * 1024)
    done = group.complete(*[replace(MULTICAST, counts=100_000)] * 6)
    assert group.network.dropped == 0
    assert sum(event.report.chunks_fetched for event in done) == 0


@pytest.mark.parametrize(
    "requests",
    [
        [replace(MULTICAST, counts=(100, 200_000, 0, 3000, 50_000))] * 4,
        [
            replace(MULTICAST, counts=counts)
            for counts in ((10, 10, 400_000, 0, 10), 1000, (400_000, 0, 0, 0, 10), 1000, 10)
        ],
        [
            replace(MULTICAST, collective="broadcast", counts=100_000, root=root)
            for root in (0, 0, 3, 0)
        ],
        [replace(MULTICAST, counts=50_000, own={"chains": 2}), replace(MULTICAST, counts=50_000)]
        * 2,
    ],
)
def test_operations_that_follow_each_other_are_not_missed_before_their_time(
    requests: list[Request],
) -> None:
    group = Group(5, rate_bps=10_000_000, path_mtu=1024, queue_bytes=64 * 1024)
    done = group.complete(*requests)
    assert group.network.dropped == 0
    assert sum(event.report.chunks_fetched for event in done) == 0


def test_the_time_limit_allows_for_what_runs_beside() -> None:
    group = Group(4, rate_bps=1_000_000, path_mtu=4096)
    group.complete(*[replace(RING, counts=100_000)] * 24, timeout_ns=300_000_000_000)
    assert group.duration_ns > RING.limit_ns(4, 1_000_000)


def test_a_host_that_knows_no_rate_takes_its_link_for_one_of_1_gbit_s() -> None:
    limits = []
    for rate_bps in (0, 10**9):
        group = Group(4, rate_bps=rate_bps)
        group.start(replace(RING, counts=1_000_000))
        limits.append([agent._running[0].limit_ns for agent in group.agents])
    assert limits[0] == limits[1]


@ALL
def test_an_abort_does_not_wait_behind_the_data_of_many_operations(request_: Request) -> None:
    group = Group(4, rate_bps=20_000_000, path_mtu=4096)
    for _ in range(32):
        group.start(replace(request_, counts=100_000))
    group.network.run(lambda: group.network.now_ns > 200_000_000, 10**9)
    group.agents[2].abort("the user asked for it", group.network.now_ns)
    events = group.finish(10**10, operations=32)
    assert max(event.finished_ns for event in events) < 700_000_000
    assert isinstance(events[-1], Failed)


@pytest.mark.parametrize("request_", [RING, MULTICAST], ids=name_of)
def test_a_death_ends_all_operations_that_run(request_: Request) -> None:
    group = Group(4, rate_bps=10_000_000, path_mtu=4096)
    dies(group, 1, 300_000_000)
    for _ in range(8):
        group.start(replace(request_, counts=400_000))
    events = group.finish(60_000_000_000, operations=8)
    for rank in range(4):
        mine = events[8 * rank : 8 * rank + 8]
        assert [event.number for event in mine] == list(range(8))
        assert all(isinstance(event, Failed) for event in mine)
        for event in mine:
            assert isinstance(event, Failed)
            if rank != 1:
                assert "rank 1 (10.0.0.2)" in event.error
                assert event.finished_ns <= 300_000_000 + DEAD_PEER_LIMIT_NS


def test_starting_operations_all_the_time_does_not_put_off_finding_a_death() -> None:
    """Rank 2 waits for its parent, which dies after it acknowledged all; what it starts then has
    nothing to do with that one. Nothing but a probe finds out."""
    request = Request(0, "broadcast", "binary-tree", 600)
    group = Group(3, requests=[request, replace(request, root=1)])
    group.start(request, ranks=[2])
    dies(group, 0, 1_000_000)
    for turn in range(12):
        wait_until(group, 2_000_000 + turn * 400_000_000)
        if not group.agents[2].failure:
            group.start(replace(request, root=1), ranks=[2])
    event = group.agents[2].next_event()
    assert isinstance(event, Failed) and "rank 0 (10.0.0.1)" in event.error
    assert event.finished_ns <= 1_000_000 + DEAD_PEER_LIMIT_NS


def test_a_failure_between_two_operations_ends_a_series() -> None:
    group = Group(2)
    first, second = (group.prepare(RING) for _ in range(2))
    jobs = [
        BoundRequest(group.workloads[n].request, group.buffers[n][0], None) for n in (first, second)
    ]
    series = Series(group.agents[0], jobs)
    series.start(0)
    group.start_on(1, first)
    group.network.run(lambda: not group.agents[0].running and not group.agents[1].running, 10**9)
    group.start_on(1, second)
    group.agents[1].abort("the user asked for it", group.network.now_ns)
    group.network.settle()
    series.take(group.network.now_ns)
    if not series.ended:
        group.network.settle()
        series.take(group.network.now_ns)
    assert series.ended
    assert "the user asked for it" in series.error


@pytest.mark.parametrize("at_once", [0, MAX_AT_ONCE + 1])
def test_a_series_of_too_many_or_no_operations_at_once_is_refused(at_once: int) -> None:
    with pytest.raises(InputError, match=f"at_once {at_once}: choose 1 to 64"):
        Series(Group(1).agents[0], [], at_once)


def test_memory_of_ended_operations_is_not_kept_by_the_agent_without_end() -> None:
    """A Reduce-Scatter makes arrays of its own for each operation: they go with it."""
    group = Group(2)
    request = Request(0, "reduce-scatter", "ring", 10_000)
    for _ in range(5):
        group.complete(request)
    kept = group.agents[0]._idle_regions
    assert not [region for region in kept if region.buffer.base is None]
    for _ in range(50):
        group.complete(replace(RING, counts=10))
    assert len(kept) <= 32


def test_the_same_buffer_is_registered_once() -> None:
    group = Group(2)
    buffers = [np.zeros(1200, np.uint8) for _ in range(2)]
    for request in OperationConfig(RING, operations=5).requests():
        for rank in range(2):
            group.agents[rank].start(request, buffers[rank], group.network.now_ns)
        group.finish(10**9)
    assert len(group.agents[0].endpoint._regions) == 1


def test_one_link_lost_for_a_while_delays_all_operations_and_fails_none() -> None:
    group = Group(4, rate_bps=100_000_000)
    pair = {ipv4("10.0.0.1"), ipv4("10.0.0.2")}

    def down(datagram: Datagram, receiver: int) -> bool:
        return {datagram.source, receiver} == pair and group.network.now_ns < 1_500_000_000

    group.network.faults = Faults(loss=1.0, only=down)
    group.complete(*EVERY)
