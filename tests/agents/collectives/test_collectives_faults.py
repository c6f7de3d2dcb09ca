"""Collectives on a network that loses, repeats, delays and spoils packets, and with ranks that
die."""

from __future__ import annotations

from dataclasses import replace

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
from weft.agents.collectives.names import ROOTED
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.base.errors import RunError

MULTICAST = Request(0, "allgather", "multicast", 600)
VARIANTS = [
    *EVERY,
    replace(MULTICAST, own={"chains": 1}),
    replace(MULTICAST, own={"workers": 2, "chunk_bytes": 512}),
    replace(MULTICAST, own={"chains": 2, "cutoff": "fetch-only"}),
]
ALL = pytest.mark.parametrize("request_", EVERY, ids=name_of)
ALL_VARIANTS = pytest.mark.parametrize("request_", VARIANTS)


@ALL_VARIANTS
@pytest.mark.parametrize("fault", ["lose", "duplicate", "late"])
def test_anything_may_happen_to_any_single_packet(request_: Request, fault: str) -> None:
    faults = Faults()
    Group(4, faults=faults, groups=2).complete(request_)
    packets = faults._number
    assert packets >= 12
    for number in range(packets):
        one = Faults(late_ns=5_000_000, **{fault: {number}})  # type: ignore[arg-type]
        Group(4, faults=one, groups=2).complete(request_, timeout_ns=LOSS_LIMIT_NS)
        assert one._number > number


@settings(derandomize=True)
@given(data=st.data())
def test_random_faults_are_survived(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6), "ranks")
    faults = Faults(
        loss=data.draw(st.sampled_from([0.0, 0.01, 0.05, 0.15]), "loss"),
        duplication=data.draw(st.sampled_from([0.0, 0.05]), "duplication"),
        corruption=data.draw(st.sampled_from([0.0, 0.02]), "corruption"),
        lateness=data.draw(st.sampled_from([0.0, 0.1]), "lateness"),
        late_ns=data.draw(st.sampled_from([50_000, 500_000, 20_000_000]), "how late"),
        seed=data.draw(st.integers(0, 1000), "seed"),
    )
    group = Group(size, faults=faults, groups=3)
    for _ in range(data.draw(st.integers(1, 3), "operations")):
        group.complete(data.draw(requests(size)), timeout_ns=20_000_000_000)


@ALL
def test_an_outage_of_a_second_is_survived(request_: Request) -> None:
    group = Group(4, rate_bps=10_000_000)
    host = ipv4("10.0.0.3")

    def down(datagram: Datagram, receiver: int) -> bool:
        involved = host in (datagram.source, receiver)
        return involved and 5_000_000 < group.network.now_ns < 1_005_000_000

    group.network.faults = Faults(loss=1.0, only=down)
    group.complete(replace(request_, counts=20_000))


def check_death(group: Group, dead: int, at_ns: int, timeout_ns: int = 0) -> list[Done | Failed]:
    """Every rank ends; in time, with the dead one's name, or well."""
    events = group.finish(timeout_ns or 10 * DEAD_PEER_LIMIT_NS)
    number = group.number - 1
    for rank, event in enumerate(events):
        if isinstance(event, Done):
            workload = group.workloads[number]
            buffers = group.buffers[number][rank], group.outputs[number][rank]
            assert not workload.check(rank, *buffers)
        elif rank == dead:
            assert "rank" in event.error
        else:
            assert f"rank {dead} (10.0.0.{dead + 1})" in event.error
            assert event.finished_ns <= at_ns + DEAD_PEER_LIMIT_NS
    return events


@ALL
@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_a_rank_that_is_dead_from_the_start_is_named_by_all(request_: Request, size: int) -> None:
    """But not by those of a Broadcast or many-to-one that need nothing of it."""
    for dead in {0, 1, size - 1}:
        group = Group(size, requests=[request_])
        dies(group, dead, 0)
        group.start(request_)
        events = check_death(group, dead, 0)
        assert isinstance(events[dead], Failed)
        if request_.collective not in ROOTED or request_.algorithm == "multicast":
            assert all(isinstance(event, Failed) for event in events)


@ALL_VARIANTS
def test_a_rank_may_die_at_any_moment(request_: Request) -> None:
    size, rate_bps = 5, 100_000_000
    request = replace(request_, counts=1500)
    whole = Group(size, rate_bps=rate_bps, groups=2)
    whole.complete(request)
    steps = 24
    for step in range(steps + 1):
        at_ns = whole.duration_ns * step // steps
        group = Group(size, rate_bps=rate_bps, groups=2)
        dead = step % size
        dies(group, dead, at_ns)
        group.start(request)
        check_death(group, dead, at_ns)


@ALL
def test_a_rank_that_dies_in_a_long_data_phase_is_found_as_soon(request_: Request) -> None:
    group = Group(4, rate_bps=10_000_000, path_mtu=4096)
    dies(group, 2, 100_000_000)
    shards = 1 if request_.collective == "broadcast" else 3
    group.start(replace(request_, counts=6_000_000 // shards))
    events = check_death(group, 2, 100_000_000)
    assert all(isinstance(event, Failed) for event in events)


@ALL
@pytest.mark.parametrize("absent", [0, 2])
def test_a_rank_that_never_starts_is_named_at_the_time_limit(
    request_: Request, absent: int
) -> None:
    group = Group(4, requests=[request_])
    ranks = [rank for rank in range(4) if rank != absent]
    group.start(replace(request_, timeout_ns=2_000_000_000), ranks=ranks)
    events = group.finish(2_100_000_000, ranks=ranks)
    errors = [event.error for event in events if isinstance(event, Failed)]
    assert any(f"rank {absent} (10.0.0.{absent + 1})" in error for error in errors)


@ALL
def test_after_a_failure_nothing_more_is_started(request_: Request) -> None:
    group = Group(2)
    dies(group, 0, 0)
    group.start(request_)
    group.finish(DEAD_PEER_LIMIT_NS)
    number = group.prepare(request_)
    with pytest.raises(RunError, match=r"an earlier one failed: .*rank 1"):
        group.start_on(0, number)


@ALL
def test_an_abort_reaches_all_ranks(request_: Request) -> None:
    group = Group(5, rate_bps=10_000_000, requests=[request_])
    group.start(replace(request_, counts=100_000))
    group.network.run(lambda: group.network.now_ns > 5_000_000, 10**9)
    group.agents[3].abort("the user asked for it", group.network.now_ns)
    for rank, event in enumerate(group.finish(1_000_000_000)):
        assert isinstance(event, Failed)
        assert "the user asked for it" in event.error
        assert rank == 3 or "rank 3 gave up" in event.error
        assert event.finished_ns < 1_000_000_000


def test_an_abort_reaches_a_rank_that_has_not_started_yet() -> None:
    group = Group(3)
    group.start(MULTICAST, ranks=[0, 1])
    group.network.run(lambda: group.network.now_ns > 1_000_000, 10**9)
    group.agents[0].abort("the user asked for it", group.network.now_ns)
    group.finish(100_000_000, ranks=[0, 1])
    group.start_on(2, 0)
    (event,) = group.finish(1, ranks=[2])
    assert isinstance(event, Failed) and "rank 0 gave up" in event.error


def test_a_rank_that_is_written_to_only_much_later_is_found_dead_as_soon() -> None:
    """The root of a binomial tree serves its largest subtree first, and the leaf last."""
    group = Group(8, rate_bps=10_000_000, path_mtu=4096)
    dies(group, 1, 100_000_000)
    group.start(Request(0, "broadcast", "k-nomial", 2_000_000))
    events = check_death(group, 1, 100_000_000)
    assert isinstance(events[0], Failed)
