"""The fetch ring: ranges, answers in part, and what a hostile neighbour may say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.datagram_rows import Datagram
from tests.support.memory_network import Faults

from weft.agents.collectives.control import MAX_RANGES, Control, Kind, Range
from weft.agents.collectives.requests import Request
from weft.agents.collectives.subgroups import without
from weft.agents.datagrams import ipv4
from weft.base.errors import ProtocolError

GATHER = Request(0, "allgather", "multicast", 5000)


def chunks(ranges: list[Range]) -> set[tuple[int, int]]:
    return {(worker, chunk) for worker, first, end in ranges for chunk in range(first, end)}


@st.composite
def disjoint_ranges(draw: st.DrawFn) -> list[Range]:
    found = []
    for worker in range(draw(st.integers(1, 3))):
        edges = sorted(draw(st.sets(st.integers(0, 40), max_size=12)))
        found += [(worker, a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    return found


@given(disjoint_ranges(), disjoint_ranges())
def test_ranges_without_others_are_the_difference_of_their_chunks(
    ranges: list[Range], others: list[Range]
) -> None:
    left = without(ranges, others)
    assert chunks(left) == chunks(ranges) - chunks(others)
    assert left == sorted(left)
    assert sum(end - first for _, first, end in left) == len(chunks(left))


def lost_on_the_way_to(losses: dict[str, set[int]]) -> Faults:
    """Multicast chunks by number of arrival at a receiver's address."""
    seen: dict[int, int] = {}

    def lose(datagram: Datagram, receiver: int) -> bool:
        if datagram.destination < ipv4("224.0.0.0"):
            return False
        seen[receiver] = seen.get(receiver, -1) + 1
        return any(ipv4(address) == receiver and seen[receiver] in numbers
                   for address, numbers in losses.items())  # fmt: skip

    return Faults(loss=1.0, only=lose)


def test_what_the_successor_holds_is_fetched_though_it_is_not_whole_itself() -> None:
    group = Group(4, faults=lost_on_the_way_to({"10.0.0.1": {3, 17}, "10.0.0.2": {5, 30}}),
                  keep_trace=True)  # fmt: skip
    done = group.complete(GATHER)
    assert [event.report.chunks_fetched for event in done] == [2, 2, 0, 0]
    assert all(event.report.chunks_duplicate == 0 for event in done)


def test_a_chunk_that_several_neighbours_miss_comes_around_the_ring() -> None:
    lost = {"10.0.0.2": {7}, "10.0.0.3": {7}, "10.0.0.4": {7}, "10.0.0.5": {7}}
    done = Group(6, faults=lost_on_the_way_to(lost)).complete(
        Request(0, "broadcast", "multicast", 5000)
    )
    assert [event.report.chunks_fetched for event in done] == [0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("chunk_bytes", [100, 256, 1024])
def test_recovery_works_for_any_workers_and_chunks(workers: int, chunk_bytes: int) -> None:
    group = Group(5, groups=4, faults=Faults(loss=0.1, seed=workers))
    own = {"workers": workers, "chunk_bytes": chunk_bytes}
    request = Request(0, "allgather", "multicast", (20_000, 0, 1, 4097, 300), own=own)
    done = group.complete(request)
    assert sum(event.report.chunks_fetched for event in done) > 0


def test_a_recovery_of_very_many_gaps_says_them_in_part() -> None:
    lost = set(range(0, 4 * MAX_RANGES, 2))
    faults = lost_on_the_way_to({"10.0.0.1": lost, "10.0.0.2": {n + 1 for n in lost}})
    request = Request(0, "broadcast", "multicast", 256 * 3 * MAX_RANGES, root=2)
    done = Group(3, faults=faults).complete(request)
    assert done[0].report.chunks_fetched == done[1].report.chunks_fetched > MAX_RANGES


@given(st.lists(st.tuples(*[st.integers(0, (1 << 32) - 1)] * 3), max_size=50))
def test_ranges_survive_the_wire(ranges: list[Range]) -> None:
    message = Control(Kind.HOLD_PART, 3, rank=1, address=1 << 40, rkey=7, ranges=tuple(ranges))
    assert Control.decode(message.encode()) == message


def test_half_a_range_is_refused() -> None:
    data = Control(Kind.HOLD_PART, 3, ranges=((0, 1, 2),)).encode()
    with pytest.raises(ProtocolError, match="11 bytes of ranges"):
        Control.decode(data[:-1])


@given(st.lists(st.tuples(*[st.integers(0, (1 << 32) - 1)] * 3), max_size=8))
def test_any_ranges_of_a_neighbour_are_taken(ranges: list[Range]) -> None:
    """They can only keep this rank from reading; what is not there is waited for."""
    group = Group(2, faults=lost_on_the_way_to({"10.0.0.1": {0, 5}}))
    group.start(GATHER)
    message = Control(Kind.HOLD_PART, 0, rank=1, address=1 << 40, rkey=0, ranges=tuple(ranges))
    group.agents[1].communicator.queue_pairs[0].post_send(message.encode())
    group.finish(5_000_000_000)
    group.verify()
