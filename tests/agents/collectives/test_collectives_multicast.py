"""Multicast Broadcast and Allgather: chains, workers, chunks, cutoffs, and what is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.collective_group import Group, name_of
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults
from tests.support.own_options import own_of

from weft.agents.collectives.algorithms.multicast_options import CUTOFFS
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.base.errors import InputError

MEBIBYTE = 1 << 20
GATHER = Request(0, "allgather", "multicast", 3000)
CAST = Request(0, "broadcast", "multicast", 3000)
BOTH = pytest.mark.parametrize("request_", [GATHER, CAST], ids=name_of)
UNEQUAL = (0, 9000, 1, 3000, 256)


def to_groups(datagram: Datagram, receiver: int) -> bool:
    """Only multicast data."""
    return datagram.destination >= ipv4("224.0.0.0")


def counted(group: Group, request: Request) -> list[tuple[int, int, int]]:
    """(chunks by multicast, fetched, duplicate) of each rank."""
    done = group.complete(request)
    return [
        (each.report.chunks_multicast, each.report.chunks_fetched, each.report.chunks_duplicate)
        for each in done
    ]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
def test_any_number_of_chains_works(size: int) -> None:
    for chains in range(1, size + 1):
        group = Group(size)
        expected = [(12 * (size - 1), 0, 0)] * size
        assert counted(group, replace(GATHER, own={"chains": chains})) == expected


@BOTH
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_any_number_of_workers_shares_the_chunks(
    request_: Request, workers: int, groups: int
) -> None:
    if groups < workers:
        group = Group(4, groups=groups)
        with pytest.raises(InputError, match=f"{workers} workers.*has {groups} multicast"):
            group.start(replace(request_, own={"workers": workers}))
        return
    for counts in (0, 1, 256, 257, 3000):
        group = Group(4, groups=groups, keep_trace=True)
        chunks = -(-counts // 256)
        got = counted(group, replace(request_, counts=counts, own={"workers": workers}))
        whole = (3 * chunks if request_ is GATHER else chunks, 0, 0)
        root = whole if request_ is GATHER else (0, 0, 0)
        assert got == [root, whole, whole, whole]
        used = {d.destination for _, _, d in group.network.trace if to_groups(d, 0)}
        assert len(used) <= groups
        if counts == 3000 and (request_ is GATHER or groups == workers):
            assert len(used) == min(groups, 4 * workers)


@BOTH
@pytest.mark.parametrize("chunk_bytes", [1, 100, 256, 512, 1024, 65536])
@pytest.mark.parametrize("workers", [1, 2])
def test_chunks_below_and_above_the_path_mtu_work(
    request_: Request, chunk_bytes: int, workers: int
) -> None:
    for loss in (0.0, 0.05):
        for cutoff in CUTOFFS:
            counts = 300 if chunk_bytes == 1 else 3000
            faults = Faults(loss=loss, seed=chunk_bytes)
            group = Group(3, groups=2, faults=faults)
            request = replace(
                request_,
                counts=counts,
                own={"chunk_bytes": chunk_bytes, "workers": workers, "cutoff": cutoff},
            )
            got = counted(group, request)
            packets = -(-counts // min(256, chunk_bytes))
            everything = packets * (2 if request_ is GATHER else 1)
            for rank, (multicast, fetched, duplicate) in enumerate(got):
                if request_ is GATHER or rank:
                    assert multicast + fetched == everything
                if cutoff == "fetch-only":
                    assert multicast == 0
                elif not loss:
                    assert fetched == duplicate == 0


@BOTH
@pytest.mark.parametrize("batch", [1, 4, 128])
def test_batches_of_any_size_work(request_: Request, batch: int) -> None:
    group = Group(4, groups=2)
    request = replace(request_, counts=20_000, own={"batch": batch, "workers": 2})
    assert all(not fetched for _, fetched, _ in counted(group, request))


@BOTH
@pytest.mark.parametrize("cutoff", CUTOFFS)
@pytest.mark.parametrize("loss", [0.0, 0.05, 0.3])
def test_every_cutoff_mode_works_with_and_without_loss(
    request_: Request, cutoff: str, loss: float
) -> None:
    group = Group(4, faults=Faults(loss=loss, seed=3, only=to_groups))
    group.complete(replace(request_, counts=10_000, own={"cutoff": cutoff}))
    assert group.duration_ns < 1_000_000_000


@BOTH
def test_fetch_only_multicasts_nothing(request_: Request) -> None:
    for chains in (0, 1, 3):
        group = Group(5, keep_trace=True)
        got = counted(
            group,
            replace(
                request_, counts=2000, own=own_of("multicast", cutoff="fetch-only", chains=chains)
            ),
        )
        assert got[1:] == [(0, 8 * (4 if request_ is GATHER else 1), 0)] * 4
        assert not any(to_groups(datagram, 0) for _, _, datagram in group.network.trace)


def test_what_was_lost_is_fetched_and_nothing_else() -> None:
    lost = {0, 5}

    def at_rank_1(datagram: Datagram, receiver: int) -> bool:
        return to_groups(datagram, receiver) and receiver == ipv4("10.0.0.2")

    for more in ({}, {"workers": 2}, {"chains": 1}):
        group = Group(3, groups=2, faults=Faults(lose=lost, only=at_rank_1))
        request = replace(GATHER, counts=2000, own=more)
        assert counted(group, request) == [(16, 0, 0), (14, 2, 0), (16, 0, 0)]
        phases = [event.report.phases_ns for event in group.events]
        assert set(phases[1]) == {"barrier", "data", "recovery", "handshake"}
        assert "recovery" not in phases[0]


def test_a_chunk_of_several_packets_is_fetched_as_a_whole() -> None:
    """One of its four packets was lost: the other three are read once more."""

    def at_rank_1(datagram: Datagram, receiver: int) -> bool:
        return to_groups(datagram, receiver) and receiver == ipv4("10.0.0.2")

    group = Group(2, faults=Faults(lose={5}, only=at_rank_1))
    got = counted(group, replace(GATHER, counts=4096, own={"chunk_bytes": 1024}))
    assert got[0] == (16, 0, 0)
    assert got[1][:2] == (15, 1)


@BOTH
def test_a_packet_that_comes_twice_is_counted_as_a_duplicate(request_: Request) -> None:
    group = Group(3, faults=Faults(duplicate={0, 1, 2, 3}, only=to_groups))
    got = counted(group, request_)
    assert sum(duplicate for _, _, duplicate in got) == 4
    assert sum(fetched for _, fetched, _ in got) == 0


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("chains", [0, 1, 2])
@pytest.mark.parametrize("counts", [30_000, (0, 90_000, 1, 30_000, 4096)])
def test_paced_roots_overrun_no_queue(
    workers: int, chains: int, counts: int | tuple[int, ...]
) -> None:
    """Room for a few packets of every root and worker: what meets by chance."""
    room = 2 * 5 * workers * (1024 + 70)
    group = Group(5, groups=3, rate_bps=100_000_000, path_mtu=1024, queue_bytes=room)
    done = group.complete(
        replace(GATHER, counts=counts, own=own_of("multicast", workers=workers, chains=chains))
    )
    assert group.network.dropped == 0
    assert sum(event.report.chunks_fetched for event in done) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_operations_one_after_another_keep_their_pace(workers: int) -> None:
    """A worker whose part is one byte leaves no debt to the next operation."""
    group = Group(4, rate_bps=10_000_000, path_mtu=4096, groups=2)
    durations = []
    for _ in range(3):
        done = group.complete(replace(GATHER, counts=4097, own={"workers": workers}))
        assert sum(event.report.chunks_fetched for event in done) == 0
        durations.append(group.duration_ns)
    assert max(durations) < 1.5 * durations[0]


@pytest.mark.parametrize(("loss", "slack"), [(0.001, 1.15), (0.01, 1.40)])
def test_multicast_with_loss_stays_near_the_bound(loss: float, slack: float) -> None:
    rate = 100_000_000
    faults = Faults(loss=loss, seed=5)
    group = Group(
        8, rate_bps=rate, path_mtu=4096, delay_ns=1_000_000, queue_bytes=256 * 1024, faults=faults
    )
    done = group.complete(replace(GATHER, counts=MEBIBYTE))
    ratio = group.duration_ns / (7 * MEBIBYTE * 8 * 10**9 // rate)
    print(f"{ratio:.4f} of the bound, phases of rank 0 {done[0].report.phases_ns}")
    assert sum(event.report.chunks_fetched for event in done) > 0
    assert ratio < slack


@pytest.mark.parametrize("counts", [UNEQUAL, (0, 0, 0, 0, 700), (0,) * 5])
@pytest.mark.parametrize("cutoff", CUTOFFS)
def test_unequal_shards_go_through_every_way(counts: tuple[int, ...], cutoff: str) -> None:
    for loss in (0.0, 0.1):
        for chains in (0, 1, 2):
            group = Group(5, groups=2, faults=Faults(loss=loss, seed=1))
            request = replace(
                GATHER,
                counts=counts,
                own=own_of("multicast", cutoff=cutoff, chains=chains, workers=2),
            )
            group.complete(request)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"chains": 3}, "3 chains of 2 ranks: choose 1 to 2"),
        ({"chains": -2}, "-2 chains of 2 ranks: choose 1 to 2"),
        ({"chunk_bytes": 300}, "300 bytes are no whole number of packets of 256"),
        ({"workers": 2}, "2 workers: the communicator has 1 multicast groups"),
    ],
)
def test_what_does_not_fit_the_communicator_is_refused(more: dict[str, int], why: str) -> None:
    group = Group(2)
    number = group.prepare(replace(GATHER, own=more))
    with pytest.raises(InputError, match=why):
        group.start_on(0, number)
    assert not group.agents[0].running
    group.complete(GATHER)


def test_more_chunks_than_24_bits_can_number_are_refused() -> None:
    group = Group(2)
    number = group.prepare(replace(GATHER, counts=(1 << 23) + 1, own={"chunk_bytes": 1}))
    with pytest.raises(InputError, match="24 bits"):
        group.start_on(0, number)
