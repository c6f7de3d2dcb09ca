"""Relays: RDMA WRITEs that compiled code posts as blocks arrive, beside what Python posts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory_network import Faults
from tests.support.transport_pair import Pair, pattern

from weft.agents.datagrams import Datagrams
from weft.agents.transport import (
    CompletionKind,
    Endpoint,
    MemoryRegion,
    RcQueuePair,
    TransportOptions,
)
from weft.agents.transport import layout as at
from weft.agents.transport.relay import Lanes, Relay, RelayLimits, RelayTable
from weft.agents.transport.types import TransportMisuse

IntArray = npt.NDArray[np.int64]

PEER = 7
LIMITS = RelayLimits(open_writes=64, own_bytes=1 << 20, bytes=1 << 20)
BLOCK_BYTES = 700


def rows(*each: tuple[int, ...], columns: int) -> IntArray:
    return np.array(each, np.int64).reshape(-1, columns)


def going(count: int, begin: int) -> RelayTable:
    """What sends `count` blocks away, and gets them back; with `begin` 0, what sends them back."""
    writes = rows(
        *((PEER, i, 0, i * BLOCK_BYTES, BLOCK_BYTES, i * BLOCK_BYTES) for i in range(count)),
        columns=6,
    )
    lets_go = 0 if begin else 1
    blocks = rows(*((i, PEER, BLOCK_BYTES, i, lets_go) for i in range(count)), columns=5)
    return RelayTable(writes, begin, blocks)


@dataclass
class Bounced:
    """Blocks that go from `a` to `b` and back, by a relay on each side."""

    pair: Pair
    relays: tuple[Relay, Relay]
    regions: tuple[MemoryRegion, MemoryRegion]
    data: npt.NDArray[np.uint8]
    lefts: tuple[RcQueuePair, ...]
    """The queue pairs of `a`."""


def bounced(
    pair: Pair,
    count: int,
    limits: RelayLimits = LIMITS,
    lanes: int = 1,
    *,
    opened: bool = True,
    operation: int = 3,
    tells_peers: bool = False,
) -> Bounced:
    data = pattern(count * BLOCK_BYTES)
    regions = pair.a.register(data.copy()), pair.b.register(np.zeros_like(data))
    others: list[tuple[RcQueuePair, RcQueuePair]] = []
    for _ in range(lanes - 1):
        left, right = pair.a.create_rc(), pair.b.create_rc()
        left.connect(right.local)
        right.connect(left.local)
        others.append((left, right))
    lefts, rights = zip((pair.left, pair.right), *others, strict=True)
    if lanes > 1:
        for ends in (lefts, rights):
            for end in ends:
                end.share_turns(ends[0], lanes)
    made = []
    for endpoint, ends, own, there, begin in (
        (pair.a, lefts, regions[0], regions[1], count),
        (pair.b, rights, regions[1], regions[0], 0),
    ):
        relay = Relay(
            endpoint, operation, going(count, begin), [own], {PEER: Lanes(ends)},
            {PEER: ends[0]}, limits, tells_peers=tells_peers,
        )  # fmt: skip
        relay.permit(PEER, there.address, there.rkey)
        if opened:
            relay.open()
        made.append(relay)
    return Bounced(pair, (made[0], made[1]), regions, data, lefts)


@given(
    count=st.integers(1, 60),
    open_writes=st.sampled_from([1, 2, 5, 64]),
    own_bytes=st.sampled_from([1, 3000, 1 << 20]),
    lanes=st.sampled_from([1, 3]),
    loss=st.floats(0, 0.1),
    recovery=st.sampled_from(["go-back-n", "selective"]),
    sends=st.integers(0, 40),
    seed=st.integers(0, 2**32),
)
def test_every_block_goes_and_comes_once_whatever_is_lost_and_whatever_else_is_posted(
    count: int, open_writes: int, own_bytes: int, lanes: int, loss: float,
    recovery: Literal["go-back-n", "selective"],
    sends: int, seed: int,
) -> None:  # fmt: skip
    options = TransportOptions(retries=100, recovery=recovery)
    faults = Faults(loss=loss, lateness=loss, duplication=loss, seed=seed)
    pair = Pair(faults=faults, options=options)
    limits = RelayLimits(open_writes, own_bytes, 1 << 20)
    run = bounced(pair, count, limits, lanes)
    for number in range(sends):
        pair.left.post_send(bytes([number]), context=number)
    pair.settle()
    assert all(relay.finished for relay in run.relays)
    assert np.array_equal(run.regions[1].buffer, run.data)
    assert np.array_equal(run.regions[0].buffer, run.data)
    for endpoint, relay in zip((pair.a, pair.b), run.relays, strict=True):
        assert relay.state.received_bytes == count * BLOCK_BYTES
        assert relay.state.writing_bytes == endpoint.state.writing_bytes == 0
        assert not relay.missing_by_peer() and relay.busy_peer() is None
        assert 1 <= relay.queue_pairs_used <= lanes
    # What Python has posted is all that Python is told of.
    assert [each.context for each in pair.at_a] == list(range(sends))
    kinds = [(each.kind, each.data) for each in pair.at_b]
    assert kinds == [(CompletionKind.RECEIVED, bytes([number])) for number in range(sends)]


def test_no_more_is_posted_than_the_limits_allow() -> None:
    pair = Pair()
    run = bounced(pair, 40, RelayLimits(open_writes=5, own_bytes=1 << 20, bytes=1 << 20))
    assert run.relays[0].state.open_writes == 5
    assert pair.a.state.writing_bytes == 5 * BLOCK_BYTES
    pair = Pair()
    run = bounced(pair, 40, RelayLimits(open_writes=64, own_bytes=2000, bytes=1 << 20))
    assert run.relays[0].state.open_writes == 3  # the third is posted with 1,400 bytes under way


def test_nothing_leaves_before_the_relay_is_open() -> None:
    pair = Pair()
    run = bounced(pair, 4, opened=False)
    pair.settle()
    assert pair.a.statistics.transmitted_packets == 0
    for relay in run.relays:
        relay.open()
    pair.settle()
    assert all(relay.finished for relay in run.relays)


def test_lanes_get_the_same_number_of_bytes() -> None:
    pair = Pair()
    run = bounced(pair, 30, lanes=3)
    pair.settle()
    assert all(relay.finished for relay in run.relays)
    assert run.relays[0].queue_pairs_used == 3
    packets = 30 // 3 * -(-BLOCK_BYTES // pair.a.path_mtu)
    posted = [pair.a.row_of(lane.row).posted_end - lane.initial_psn for lane in run.lefts]
    assert posted == [packets] * 3


@pytest.mark.parametrize(
    ("block", "length"), [(0, BLOCK_BYTES - 1), (4, BLOCK_BYTES), (0xFFFFFF, BLOCK_BYTES)]
)
def test_what_the_table_does_not_know_is_left_to_python(block: int, length: int) -> None:
    pair = Pair()
    run = bounced(pair, 4, opened=False)
    there = run.regions[1]
    pair.left.post_write(run.regions[0], 0, length, there.address, there.rkey, 3 << 24 | block)
    pair.settle()
    (told,) = pair.at_b
    assert told.kind is CompletionKind.WRITE_WITH_IMMEDIATE
    assert (told.immediate, told.length) == (3 << 24 | block, length)
    assert run.relays[1].missing_by_peer() == {PEER: 4}


def test_a_block_that_comes_again_or_from_somebody_else_is_left_to_python() -> None:
    pair = Pair()
    run = bounced(pair, 4, opened=False)
    newcomer, own = pair.a.create_rc(), pair.b.create_rc()
    newcomer.connect(own.local)
    own.connect(newcomer.local)
    there = run.regions[1]
    for queue_pair in (newcomer, pair.left, pair.left):
        queue_pair.post_write(run.regions[0], 0, BLOCK_BYTES, there.address, there.rkey, 3 << 24)
        pair.settle()
    assert [each.qp for each in pair.at_b] == [own, pair.right]
    assert run.relays[1].has(0) and not run.relays[1].has(1) and not run.relays[1].has(99)


def test_a_closed_relay_posts_nothing_and_its_writes_are_nobodys() -> None:
    pair = Pair()
    run = bounced(pair, 40)
    pair.left.post_send(b"after", context="after")
    for relay in run.relays:
        relay.close()
    pair.settle()
    assert pair.a.state.writing_bytes == 0 and pair.a.state.first_relay == 0
    assert [each.context for each in pair.at_a] == ["after"]
    assert {each.kind for each in pair.at_b} == {
        CompletionKind.WRITE_WITH_IMMEDIATE, CompletionKind.RECEIVED
    }  # fmt: skip
    again = bounced(pair, 4)
    pair.settle()
    assert all(relay.finished for relay in again.relays)


def test_a_peer_that_is_silent_is_the_one_that_is_waited_for() -> None:
    options = TransportOptions(retries=2, give_up_ns=20_000_000)
    pair = Pair(faults=Faults(loss=1.0), options=options)
    run = bounced(pair, 4)
    assert run.relays[0].busy_peer() == PEER
    pair.settle()
    assert [each.kind for each in pair.at_a] == [CompletionKind.ERROR]
    assert run.relays[0].busy_peer() == PEER


def test_who_waits_for_room_is_told_of_acknowledgements() -> None:
    pair = Pair()
    run = bounced(pair, 4)
    pair.a.state.room_awaited = 1
    pair.settle()
    assert pair.a.state.room_awaited == 0
    assert all(relay.finished for relay in run.relays)


def watch(endpoint: Endpoint, kinds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note the kinds of events that an endpoint takes."""
    take = endpoint.take_events

    def taking(batch: Datagrams) -> None:
        table = np.ctypeslib.as_array(
            (at.Event * endpoint.state.events).from_address(endpoint.state.event_table)
        )
        kinds.extend(table["kind"].tolist())
        take(batch)

    monkeypatch.setattr(endpoint, "take_events", taking)


def test_each_of_two_relays_that_end_together_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    runs = [bounced(pair, 1, operation=number) for number in (3, 4)]
    ends: list[int] = []
    for endpoint in (pair.a, pair.b):
        watch(endpoint, ends, monkeypatch)
    pair.settle()
    assert all(relay.finished for run in runs for relay in run.relays)
    assert ends.count(at.EVENT_RELAY_DONE) == 4


def test_a_relay_tells_of_each_peer_whose_blocks_are_all_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    run = bounced(pair, 3, tells_peers=True)
    told: list[int] = []
    for endpoint in (pair.a, pair.b):
        watch(endpoint, told, monkeypatch)
    assert not any(relay.has_all_of(PEER) for relay in run.relays)
    pair.settle()
    assert all(relay.finished and relay.has_all_of(PEER) for relay in run.relays)
    assert told.count(at.EVENT_RELAY_DONE) == 4


def test_rows_outside_their_memory_are_misuse() -> None:
    pair = Pair()
    region = pair.a.register(np.zeros(10, np.uint8))
    table = RelayTable(rows((PEER, 0, 0, 4, 7, 0), columns=6), 1, rows(columns=5))
    lanes, homes = {PEER: Lanes([pair.left])}, {PEER: pair.left}
    with pytest.raises(TransportMisuse, match="outside its memory region"):
        Relay(pair.a, 4, table, [region], lanes, homes, LIMITS)
