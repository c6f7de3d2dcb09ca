"""Calls of fused operators: slices come to the right place, however far apart ranks are and
whatever the network does; and what does not fit together is told to all."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_network import Faults, MemoryNetwork

from weft.agents.collectives.mailbox import Mailbox, NotPassed, Passed, PeerLost
from weft.agents.collectives.symmetric import SymmetricMemory
from weft.agents.datagrams import Datagrams
from weft.agents.fused.exchange import Arrived, CallEnded, Event, Exchange, Failed
from weft.agents.participant import AgentGroup
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.types import TransportOptions

FIRST = 0x0A000001
TAG = -7


class Host:
    """A rank: its mailbox, its memory, and the exchange over both."""

    def __init__(self, rank: int, addresses: Sequence[int], options: TransportOptions) -> None:
        endpoint = Endpoint(addresses[rank], 1024, 10**9, seed=rank, options=options)
        self.mailbox = Mailbox(endpoint, rank, addresses)
        self.memory = SymmetricMemory(endpoint, rank, addresses, np.zeros(64, np.uint8), 2)
        self.agents = AgentGroup(endpoint, [self.mailbox, self.memory])
        self.exchange = Exchange(self.memory, self._send, self._receive)
        self.now: Callable[[], int] = lambda: 0
        self.done: dict[int, Callable[[str], None]] = {}

    def _send(self, peer: int, data: np.ndarray) -> None:
        self.done[len(self.done)] = lambda error: None
        self.mailbox.send_to(len(self.done) - 1, peer, TAG, data, self.now())

    def _receive(self, peer: int, data: np.ndarray, heard: Callable[[str], None]) -> None:
        self.done[len(self.done)] = heard
        self.mailbox.receive_from(len(self.done) - 1, peer, TAG, data, self.now())

    def events(self) -> list[Event]:
        """What has happened since."""
        while (mail := self.mailbox.next_event()) is not None:
            if isinstance(mail, PeerLost):
                continue  # what waits for it has events of its own
            assert isinstance(mail, Passed | NotPassed)
            self.done[mail.key](mail.error if isinstance(mail, NotPassed) else "")
        self.exchange.look_after()
        found = []
        while (event := self.exchange.next_event()) is not None:
            found.append(event)
        return found


class Clock:
    """Has nothing to do with the network, and makes something happen every 50 us."""

    address = 1
    groups = ()

    def __init__(self) -> None:
        self.next_ns = 0
        self.nothing = Datagrams.allocate(1, 64)

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take nothing."""

    def transmit(self, now_ns: int, budget_bytes: int) -> Datagrams:
        """Send nothing."""
        self.next_ns = now_ns + 50_000
        return self.nothing

    def deadline(self) -> int:
        return self.next_ns


class Hosts:
    """Ranks joined in memory."""

    def __init__(
        self, size: int, faults: Faults | None = None, options: TransportOptions | None = None
    ) -> None:
        addresses = [FIRST + rank for rank in range(size)]
        self.ranks = [Host(rank, addresses, options or TransportOptions()) for rank in range(size)]
        for rank, host in enumerate(self.ranks):
            host.mailbox.members.connect(
                {
                    other: self.ranks[other].mailbox.members.introduction()[rank]
                    for other in range(size)
                    if other != rank
                }
            )
        self.network = MemoryNetwork(
            [*(host.agents for host in self.ranks), Clock()], faults=faults
        )
        for host in self.ranks:
            host.now = lambda: self.network.now_ns


def data_of(call: int, source: int, target: int, index: int, size: int) -> np.ndarray:
    return np.random.default_rng([call, source, target, index]).integers(0, 256, size, np.uint8)


class Program:
    """A rank that makes calls of random traffic, each a while after the one before."""

    def __init__(self, host: Host, traffic: list[list[list[list[int]]]], seed: int) -> None:
        self.host, self.traffic = host, traffic
        self.rank = host.exchange.rank
        self.random = random.Random(seed)
        self.call = 0
        self.next_ns = 0
        self.left: list[tuple[int, int]] | None = None
        self.arrived: set[tuple[int, int]] = set()

    def step(self, now_ns: int) -> bool:
        """Go on; return whether all calls are done."""
        for event in self.host.events():
            if isinstance(event, Arrived):
                place = event.source, event.index
                assert place not in self.arrived
                self.arrived.add(place)
                self.check(event.source, event.index)
            elif isinstance(event, CallEnded):
                sizes = self.traffic[self.call]
                assert self.arrived == {
                    (source, index)
                    for source in range(len(sizes))
                    if source != self.rank
                    for index in range(len(sizes[source][self.rank]))
                }
                for source, index in self.arrived:
                    self.check(source, index)
                self.call, self.left = self.call + 1, None
                self.next_ns = now_ns + self.random.choice([0, 0, 500_000, 20_000_000])
            else:
                raise AssertionError(event)
        if self.call == len(self.traffic):
            return True
        if now_ns < self.next_ns:
            return False
        sizes = self.traffic[self.call]
        exchange = self.host.exchange
        if self.left is None:
            self.arrived = set()
            others = [[] if peer == self.rank else row for peer, row in enumerate(sizes[self.rank])]
            exchange.begin(
                f"call {self.call}", others,
                [[] if source == self.rank else row[self.rank] for source, row in enumerate(sizes)],
                now_ns,
            )  # fmt: skip
            self.left = [
                (peer, index) for peer, row in enumerate(others) for index in range(len(row))
            ]
            self.random.shuffle(self.left)
            self.finished = False
        elif self.left:
            peer, index = self.left.pop()
            size = sizes[self.rank][peer][index]
            exchange.give(peer, index, data_of(self.call, self.rank, peer, index, size))
            self.next_ns = now_ns + self.random.choice([0, 100_000])
        elif not self.finished:
            self.finished = True
            exchange.finish()
        return False

    def check(self, source: int, index: int) -> None:
        size = self.traffic[self.call][source][self.rank][index]
        found = self.host.exchange.received(source, index)
        assert np.array_equal(found, data_of(self.call, source, self.rank, index, size))


TRANSPORTS = {
    "go-back-n": TransportOptions(),
    "selective": TransportOptions(recovery="selective"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@settings(max_examples=12)
@given(
    size=st.integers(1, 4),
    calls=st.integers(1, 5),
    loss=st.sampled_from([0.0, 0.01, 0.1]),
    lateness=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 10_000),
)
def test_calls_follow_each_other_with_ranks_far_apart(
    transport: str, size: int, calls: int, loss: float, lateness: float, seed: int
) -> None:
    """Every rank reads all it got when the call has ended, while quicker ones are in the next.
    Buffers and flags grow as calls need more."""
    draw = random.Random(seed)
    traffic = [
        [
            [
                []
                if source == target
                else [
                    draw.choice([0, 4, 900, 7000, 20_000])
                    for _ in range(draw.choice([0, 1, 3, 40]))
                ]
                for target in range(size)
            ]
            for source in range(size)
        ]
        for _ in range(calls)
    ]
    faults = Faults(loss=loss, lateness=lateness, late_ns=1_000_000, duplication=0.02, seed=seed)
    hosts = Hosts(size, faults, TRANSPORTS[transport])
    programs = [Program(host, traffic, seed + rank) for rank, host in enumerate(hosts.ranks)]

    def done() -> bool:
        return all([program.step(hosts.network.now_ns) for program in programs])

    run(hosts, done)


def run(hosts: Hosts, done: Callable[[], bool]) -> None:
    """Run until something holds."""
    hosts.network.run(until=done, timeout_ns=120 * 10**9)


def failures(hosts: Hosts, among: Sequence[int]) -> list[str]:
    """Run until these ranks have failed, and return why."""
    found: dict[int, str] = {}

    def done() -> bool:
        for rank, host in enumerate(hosts.ranks):
            for event in host.events():
                if isinstance(event, Failed):
                    found[rank] = event.error
        return set(among) <= found.keys()

    run(hosts, done)
    return [found[rank] for rank in among]


def begin(host: Host, text: str, slices: Sequence[int], expected: Sequence[int]) -> None:
    size, rank = host.memory.members.size, host.exchange.rank
    host.exchange.begin(
        text,
        [[] if peer == rank else slices for peer in range(size)],
        [[] if peer == rank else expected for peer in range(size)],
        host.now(),
    )


def test_what_is_not_called_the_same_is_told_to_all_ranks() -> None:
    hosts = Hosts(3)
    for rank, host in enumerate(hosts.ranks):
        begin(host, "one thing" if rank else "another thing", [8], [8])
    for error in failures(hosts, [0, 1, 2]):
        assert "do not call the same" in error
        assert "another thing" in error and "one thing" in error


def test_sizes_that_do_not_fit_together_are_told_to_all_ranks() -> None:
    hosts = Hosts(3)
    for rank, host in enumerate(hosts.ranks):
        begin(host, "it", [8, 8], [8, 8] if rank != 1 else [8, 4, 4])
    for error in failures(hosts, [0, 1, 2]):
        assert "do not fit together" in error and "rank 1 expects 3 slices of 16 bytes" in error


def test_ranks_that_have_begun_all_hear_of_sizes_that_do_not_fit_between_two_others() -> None:
    hosts = Hosts(4)
    for rank, host in enumerate(hosts.ranks):
        expected: list[list[int]] = [[] if peer == rank else [8] for peer in range(4)]
        if rank == 1:
            expected[0] = [12]
        sends = [[] if peer == rank else [8] for peer in range(4)]
        host.exchange.begin("it", sends, expected, host.now())
    for error in failures(hosts, [0, 1, 2, 3]):
        assert "the sizes do not fit together" in error
        assert "rank 0" in error and "rank 1" in error


@settings(max_examples=20)
@given(
    size=st.integers(2, 4),
    after_ns=st.integers(0, 3_000_000),
    gives=st.lists(st.booleans(), min_size=4, max_size=4),
    loss=st.sampled_from([0.0, 0.1]),
    calls=st.integers(0, 1),
    seed=st.integers(0, 10_000),
)
def test_a_rank_that_gives_up_in_the_middle_is_heard_by_all(
    size: int, after_ns: int, gives: list[bool], loss: float, calls: int, seed: int
) -> None:
    """Whether they were ready for it or not, have got its data, or are in the call before."""
    draw = random.Random(seed)
    hosts = Hosts(size, Faults(loss=loss, lateness=0.1, late_ns=1_000_000, seed=seed))
    traffic = [
        [[[] if source == to else [100, 5000] for to in range(size)] for source in range(size)]
    ] * calls
    programs = [Program(host, traffic, seed + rank) for rank, host in enumerate(hosts.ranks)]
    run(hosts, lambda: all([program.step(hosts.network.now_ns) for program in programs]))
    bad = draw.randrange(size)
    end_ns = hosts.network.now_ns + after_ns
    for rank in draw.sample(range(size), size):
        host = hosts.ranks[rank]
        begin(host, "it", [8], [8])
        for peer in range(size):
            if peer != rank and gives[rank] and rank != bad:
                host.exchange.give(peer, 0, np.zeros(8, np.uint8))
    run(hosts, lambda: hosts.network.now_ns >= end_ns)
    hosts.ranks[bad].exchange.disagree("out of memory")
    others = [rank for rank in range(size) if rank != bad]
    for error in failures(hosts, others):
        assert f"rank {bad} gave up: out of memory" in error


@settings(max_examples=20)
@given(loss=st.sampled_from([0.0, 0.1, 0.2]), seed=st.integers(0, 10_000))
def test_a_rank_that_is_in_the_call_before_ends_it_when_others_give_up(
    loss: float, seed: int
) -> None:
    """Rank 0 lags behind, as packets to it get lost."""
    faults = Faults(loss=loss, seed=seed, only=lambda _, receiver: receiver == FIRST)
    hosts = Hosts(3, faults)
    for host in hosts.ranks:
        begin(host, "it", [5000], [5000])
        for peer in range(3):
            if peer != host.exchange.rank:
                host.exchange.give(peer, 0, np.zeros(5000, np.uint8))
        host.exchange.finish()
    told: dict[int, list[Event]] = {0: [], 1: [], 2: []}

    def done() -> bool:
        for rank, host in enumerate(hosts.ranks):
            for event in host.events():
                told[rank].append(event)
                if isinstance(event, CallEnded):
                    if rank:
                        host.exchange.disagree(f"rank {rank} has no more memory")
                    else:
                        begin(host, "it", [5000], [5000])
        return all(any(isinstance(event, Failed) for event in each) for each in told.values())

    run(hosts, done)
    for events in told.values():
        assert [type(event) for event in events[:4]] == [Arrived, Arrived, CallEnded, Failed]
        assert isinstance(events[3], Failed) and "no more memory" in events[3].error


def test_a_rank_that_refuses_a_call_is_heard_by_those_that_have_begun_it() -> None:
    hosts = Hosts(3)
    hosts.ranks[2].exchange.refuse("x has 3 dimensions")
    for host in hosts.ranks[:2]:
        begin(host, "it", [8], [8])
    for error in failures(hosts, [0, 1]):
        assert "rank 2 takes no part in it: x has 3 dimensions" in error
    begin(hosts.ranks[2], "it", [8], [8])
    (error,) = failures(hosts, [2])
    assert "in which rank 2 has taken no part" in error


def test_what_all_ranks_refuse_does_no_harm() -> None:
    hosts = Hosts(3)
    for host in hosts.ranks:
        host.exchange.refuse("it makes no sense")
    traffic = [[[[] if source == to else [100] for to in range(3)] for source in range(3)]]
    programs = [Program(host, traffic, rank) for rank, host in enumerate(hosts.ranks)]
    run(hosts, lambda: all([program.step(hosts.network.now_ns) for program in programs]))


def test_a_rank_that_is_gone_is_named() -> None:
    faults = Faults(loss=1.0, only=lambda _, receiver: receiver == FIRST + 2)
    hosts = Hosts(3, faults, TransportOptions(give_up_ns=100_000_000))
    for host in hosts.ranks:
        begin(host, "it", [8], [8])
    for error in failures(hosts, [0, 1]):
        assert "lost rank 2" in error
