"""One-sided communication: data is there before its flag, whatever the network does."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_network import Faults, MemoryNetwork

from weft.agents.collectives.symmetric import MAGIC, Broken, Comparison, Reached, SymmetricMemory
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import TransportOptions
from weft.base.errors import InputError

FIRST = 0x0A000001
SLOTS, SLOT_BYTES = 12, 3000
"""Each put of a test has a place of its own in the buffer."""


class Memories:
    """Ranks with symmetric memory that know each other, joined in memory."""

    def __init__(
        self,
        size: int,
        *,
        faults: Faults | None = None,
        options: TransportOptions | None = None,
        lanes: int = 1,
        flags: int = 8,
    ) -> None:
        addresses = [FIRST + rank for rank in range(size)]
        self.ranks = []
        for rank, address in enumerate(addresses):
            chosen = {
                peer: [(50_000 + lane,) for lane in range(lanes)]
                for peer in range(size)
                if peer != rank
            }
            self.ranks.append(
                SymmetricMemory(
                    Endpoint(address, 256, 10**9, seed=rank, options=options),
                    rank,
                    addresses,
                    np.zeros(size * SLOTS * SLOT_BYTES, np.uint8),
                    flags,
                    chosen if lanes > 1 else None,
                )
            )
        for rank, memory in enumerate(self.ranks):
            others = [other for other in range(size) if other != rank]
            memory.connect(
                {other: self.ranks[other].introduction()[rank] for other in others},
                {other: self.ranks[other].region for other in others},
            )
        self.network = MemoryNetwork(self.ranks, faults=faults)
        self.events: list[dict[int, Reached]] = [{} for _ in self.ranks]

    def settle(self, wanted: int) -> None:
        """Run until so many waits are over."""
        self.network.run(until=lambda: self.count() >= wanted, timeout_ns=60 * 10**9)

    def count(self) -> int:
        for events, memory in zip(self.events, self.ranks, strict=True):
            while (event := memory.next_event()) is not None:
                assert isinstance(event, Reached), event
                assert event.key not in events
                events[event.key] = event
        return sum(map(len, self.events))


def data_of(number: int) -> np.ndarray:
    size = (1, 100, 256, 700, SLOT_BYTES)[number % 5]
    return np.random.default_rng(number).integers(1, 256, size, np.uint8)


OPTIONS = TransportOptions()
TRANSPORTS = {
    "go-back-n": OPTIONS,
    "selective": replace(OPTIONS, recovery="selective"),
    "packets on many paths": replace(OPTIONS, recovery="selective", entropy="reps"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@settings(max_examples=25)
@given(
    puts=st.lists(st.booleans(), min_size=1, max_size=SLOTS),
    lanes=st.integers(1, 3),
    loss=st.sampled_from([0.0, 0.05, 0.2]),
    lateness=st.sampled_from([0.0, 0.3]),
    late_ns=st.sampled_from([50_000, 2_000_000]),
    adds=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_when_a_flag_shows_a_signal_all_that_was_put_before_is_there(
    transport: str, puts: list[bool], lanes: int, loss: float, lateness: float, late_ns: int,
    adds: bool, seed: int,
) -> None:  # fmt: skip
    """Two sources write to one rank; after each put, or after several, they signal how many there
    have been. The rank looks at its memory at the moment when the flag changes."""
    options = TRANSPORTS[transport]
    if options.entropy != "fixed":
        lanes = 1
    faults = Faults(loss=loss, lateness=lateness, late_ns=late_ns, duplication=0.05, seed=seed)
    memories = Memories(3, faults=faults, options=options, lanes=lanes)
    target = memories.ranks[0]
    data = {(source, n): data_of(seed + 31 * source + n) for source in (1, 2) for n in range(SLOTS)}
    checked = 0

    def place(source: int, number: int) -> int:
        return (source * SLOTS + number) * SLOT_BYTES

    def check() -> None:
        nonlocal checked
        for source in (1, 2):
            for number in range(int(target.flags[source])):
                there = target.buffer[place(source, number) :][: len(data[source, number])]
                assert np.array_equal(there, data[source, number]), (source, number)
                checked += 1

    for source in (1, 2):
        memory = memories.ranks[source]
        told = 0
        for number, signals in enumerate(puts):
            memory.put(0, data[source, number], place(source, number))
            if signals or number == len(puts) - 1:
                value = number + 1 - told if adds else number + 1
                memory.signal(0, source, value, add=adds)
                told = number + 1
        target.wait(source, source, "ge", len(puts), memories.network.now_ns)

    def done() -> bool:
        check()
        return memories.count() >= 2

    memories.network.run(until=done, timeout_ns=120 * 10**9)
    check()
    assert checked >= 2 * len(puts)


@pytest.mark.parametrize("transport", TRANSPORTS)
@settings(max_examples=15)
@given(lanes=st.integers(1, 3), loss=st.sampled_from([0.0, 0.1]), seed=st.integers(0, 1000))
def test_what_is_put_after_a_fence_is_placed_after_what_was_put_before(
    transport: str, lanes: int, loss: float, seed: int
) -> None:
    """Each put writes the same place with the next number: it never goes back."""
    options = TRANSPORTS[transport]
    if options.entropy != "fixed":
        lanes = 1
    faults = Faults(loss=loss, lateness=0.2, late_ns=1_000_000, seed=seed)
    memories = Memories(2, faults=faults, options=options, lanes=lanes)
    source, target = memories.ranks
    kept = [np.full(600, number, np.uint8) for number in range(1, 9)]
    for each in kept:
        source.put(1, each, 0)
        source.fence(1)
    source.quiet(7)
    highest = [0] * 600

    def done() -> bool:
        for place in (0, 300, 599):
            now = int(target.buffer[place])
            assert now >= highest[place]
            highest[place] = now
        return memories.count() >= 1

    memories.network.run(until=done, timeout_ns=60 * 10**9)
    assert np.array_equal(target.buffer[:600], kept[-1])
    assert memories.events[0][7] == Reached(7, 0)
    assert len(source.endpoint._regions) == 1  # the buffer alone


def test_flags_are_compared_as_asked() -> None:
    memories = Memories(2)
    source, target = memories.ranks
    asked: dict[Comparison, int] = {"eq": 5, "ne": 0, "gt": 4, "ge": 5, "lt": 1, "le": 0}
    for key, (comparison, value) in enumerate(asked.items()):
        target.wait(key, 3, comparison, value, 0)
    memories.settle(2)
    assert set(memories.events[1]) == {4, 5}  # a flag of 0 is less than 1 at once
    source.signal(1, 3, 5)
    memories.settle(6)
    assert {event.value for event in memories.events[1].values()} == {0, 5}
    target.reset(3)
    source.signal(1, 3, (1 << 64) - 1)
    source.signal(1, 3, 3, add=True)
    target.wait(9, 3, "eq", 2, memories.network.now_ns)
    memories.settle(7)


def test_a_peer_that_is_gone_breaks_what_waits_for_it() -> None:
    faults = Faults(loss=1.0, only=lambda _, receiver: receiver == FIRST + 1)
    memories = Memories(3, faults=faults, options=TransportOptions(give_up_ns=100_000_000))
    memories.ranks[0].wait(1, 0, "ge", 1, 0)
    found: list[Broken] = []

    def done() -> bool:
        while (event := memories.ranks[0].next_event()) is not None:
            assert isinstance(event, Broken)
            found.append(event)
        return bool(found)

    memories.network.run(until=done, timeout_ns=10**10)
    assert found[0].peer == 1 and "lost rank 1 (10.0.0.2)" in found[0].error


SIGNAL = struct.Struct("!IBxxxIQ")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x", "a signal of 1 bytes"),
        (SIGNAL.pack(1, 1, 0, 0), "begins with 0x00000001"),
        (SIGNAL.pack(MAGIC, 7, 0, 0), "unknown kind 7"),
        (SIGNAL.pack(MAGIC, 1, 8, 0), "flag 8, which is not there"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_named(data: bytes, why: str) -> None:
    memories = Memories(2)
    memories.ranks[0].wait(1, 0, "ge", 1, 0)
    memories.ranks[1].members.queue_pairs[0].post_send(data)
    found: list[Reached | Broken] = []

    def done() -> bool:
        while (event := memories.ranks[0].next_event()) is not None:
            found.append(event)
        return bool(found)

    memories.network.run(until=done, timeout_ns=10**10)
    (event,) = found
    assert isinstance(event, Broken) and "rank 1" in event.error and why in event.error


@pytest.mark.parametrize(
    ("peer", "size", "offset", "flag", "why"),
    [
        (1, 10, 2 * SLOTS * SLOT_BYTES - 9, 0, "its buffer has"),
        (1, 10, -1, 0, "its buffer has"),
        (0, 10, 0, 0, "choose another rank than this one"),
        (2, 10, 0, 0, "peer 2"),
        (1, 10, 0, 8, "flag 8: there are 8"),
    ],
)
def test_what_is_outside_is_refused(peer: int, size: int, offset: int, flag: int, why: str) -> None:
    memories = Memories(2)
    with pytest.raises(InputError, match=why):
        memories.ranks[0].put_signal(peer, np.zeros(size, np.uint8), offset, flag, 1)
