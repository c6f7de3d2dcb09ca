"""Congestion marks and path entropy: what is echoed, what DCTCP, REPS and PLB make of it, and what
a queue pair does when its path is dead."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of, rows_of
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.rocev2_packet import Packet
from tests.support.transport_pair import A, B, Pair, pattern

from weft.agents.datagrams import ipv4
from weft.agents.transport import CompletionKind, Endpoint, TransportMisuse, TransportOptions
from weft.agents.transport import layout as at
from weft.agents.transport.congestion.controls import dctcp
from weft.agents.transport.kernels import entropy as entropy
from weft.agents.wire.headers import Opcode
from weft.base.deferred import numba

MTU = 256
DCTCP = TransportOptions(congestion="dctcp", retries=100)
REPS = TransportOptions(entropy="reps", recovery="selective", retries=100, entropies=64)
PLB = TransportOptions(entropy="plb", retries=100)
ALL = [DCTCP, replace(DCTCP, recovery="selective"), REPS, replace(REPS, congestion="dctcp"), PLB]


def send_packets(pair: Pair, packets: int) -> list[Datagram]:
    """The data packets of an RDMA WRITE, as they leave at once."""
    here = pair.a.register(pattern(MTU * packets))
    there = pair.b.register(np.zeros(MTU * packets, np.uint8))
    pair.left.post_write(here, 0, MTU * packets, there.address, there.rkey)
    rows: list[Datagram] = []
    while len(batch := pair.a.transmit(0)):
        rows += rows_of(batch)
    return rows


@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.sampled_from(ALL),
    st.randoms(use_true_random=False),
)
def test_acknowledgements_tell_exactly_how_many_packets_were_marked(
    marks: list[bool], options: TransportOptions, choose: random.Random
) -> None:
    pair = Pair(options=options)
    rows = send_packets(pair, len(marks))
    assert len(rows) == len(marks)
    assert {row.tos & 3 for row in rows} == {2}
    rows = [row._replace(tos=3) if mark else row for row, mark in zip(rows, marks, strict=True)]
    answers: list[Datagram] = []
    while rows:
        size = choose.randint(1, 9)
        pair.b.receive(batch_of(rows[:size]), 0)
        del rows[:size]
        while choose.random() < 0.7 and len(batch := pair.b.transmit(0)):
            answers += rows_of(batch)
    while len(batch := pair.b.transmit(0)):
        answers += rows_of(batch)
    acknowledged = pair.left.initial_psn
    marked = 0
    for row in answers:
        packet = Packet.decode(row.data, B, A, row.source_port)
        assert packet.opcode is Opcode.RC_ACKNOWLEDGE and row.tos & 3 == 0
        packets = (packet.psn + 1 - acknowledged) % (1 << 24)
        acknowledged = packet.psn + 1
        marked += packets * packet.congested
    assert acknowledged == pair.left.initial_psn + len(marks)
    assert marked == sum(marks)
    assert pair.b.statistics.marks_received == sum(marks)
    pair.a.receive(batch_of(answers), 1)
    words = pair.a.row_of(0)
    assert words.acked <= len(marks) and words.marked <= sum(marks)


def test_acknowledgements_of_dctcp_come_every_four_packets_at_least() -> None:
    pair = Pair(options=DCTCP)
    rows = send_packets(pair, 40)
    for row in rows:
        pair.b.receive(batch_of([row]), 0)
        pair.b.transmit(0)
    assert pair.b.statistics.acknowledgements_sent >= 10


@pytest.mark.parametrize("options", [REPS, replace(REPS, recovery="go-back-n")])
def test_every_packet_is_acknowledged_from_its_own_source_port(options: TransportOptions) -> None:
    pair = Pair(options=options)
    rows = send_packets(pair, 50)
    pair.b.receive(batch_of(rows), 0)
    answers = rows_of(pair.b.transmit(0))
    assert [row.source_port for row in answers] == [row.source_port for row in rows]
    ports = {row.source_port for row in rows}
    assert len(ports) > 20 and max(ports) - min(ports) < 64 and min(ports) >= 0xC000


def test_without_options_nothing_is_marked_and_nothing_echoed() -> None:
    pair = Pair()
    rows = send_packets(pair, 20)
    assert {row.tos & 3 for row in rows} == {0}
    pair.b.receive(batch_of(row._replace(tos=3) for row in rows), 0)
    for row in rows_of(pair.b.transmit(0)):
        assert not Packet.decode(row.data, B, A, row.source_port).congested


def test_the_window_follows_dctcps_estimate() -> None:
    """Rounds of packets of which a known part is marked, against RFC 8257 in floating point."""
    pair = Pair(options=replace(DCTCP, window_bytes=64 * MTU, acknowledge_every=1))
    alpha, window = 1.0, 64.0
    here = pair.a.register(pattern(MTU))
    there = pair.b.register(np.zeros(MTU, np.uint8))
    for number in range(120):
        part = (1.0, 0.0, 0.0)[number % 3]
        pair.left.post_write(here, 0, MTU, there.address, there.rkey)
        rows = rows_of(pair.a.transmit(number))
        pair.b.receive(batch_of(row._replace(tos=3 if part else 2) for row in rows), number)
        pair.a.receive(pair.b.transmit(number), number)
        window = min(64.0, window + 1 / window)
        alpha += (part - alpha) / 16
        if part:
            window = max(1.0, window * (1 - alpha / 2))
        row = pair.a.row_of(0)
        assert abs(row.control[dctcp.ALPHA] / dctcp.ONE - alpha) < 0.002
        assert abs(row.window / 256 - window) < 0.3


@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
def test_marks_keep_the_queue_short_and_the_link_busy(recovery: str) -> None:
    size, senders = 2_000_000, 4
    ends, round_trips = {}, {}
    for congestion in ("window", "dctcp"):
        options = TransportOptions(
            congestion=congestion,
            recovery=recovery,  # type: ignore[arg-type]
        )
        hosts = [
            Endpoint(ipv4(f"10.0.0.{host}"), 1024, 10**9, host, options)
            for host in range(1, senders + 2)
        ]
        for sender in hosts[1:]:
            one, other = sender.create_rc(), hosts[0].create_rc()
            one.connect(other.local)
            other.connect(one.local)
            region = hosts[0].register(np.zeros(size, np.uint8))
            one.post_write(sender.register(pattern(size)), 0, size, region.address, region.rkey, 1)
        network = MemoryNetwork(hosts, rate_bps=10**9, mark_bytes=30_000)
        ends[congestion] = network.settle()
        round_trips[congestion] = max(sender.row_of(0).smoothed_rtt for sender in hosts[1:])
        assert len(hosts[0].poll()) == senders
    assert round_trips["window"] > 5_000_000 and round_trips["dctcp"] < 700_000
    assert ends["dctcp"] < 1.01 * ends["window"]


class PlainReps:
    """REPS as arXiv 2407.21625 describes it, with a queue of what is fresh and a list of what is
    known; random choices are told."""

    def __init__(self, explore: int, freeze_ns: int) -> None:
        self.explore, self.first, self.freeze_ns = explore, explore, freeze_ns
        self.ring: list[int | None] = [None] * 8
        self.head = 0
        self.fresh: deque[int] = deque()
        self.frozen_until: int | None = None
        self.turn = 0

    def acknowledged(self, port: int) -> None:
        self.ring[self.head] = port
        self.head = (self.head + 1) % 8
        self.fresh.append(port)
        if len(self.fresh) > 8:
            self.fresh.popleft()

    def timed_out(self, now: int) -> None:
        if self.frozen_until is None and not self.explore:
            self.frozen_until = now + self.freeze_ns

    def following(self, now: int) -> int | None:
        """The port of the next packet; None for a random one."""
        if self.frozen_until is not None and now >= self.frozen_until:
            self.frozen_until, self.explore = None, self.first
        if self.frozen_until is None and self.explore:
            self.explore -= 1
            return None
        if self.fresh:
            return self.fresh.popleft()
        known = [port for port in self.ring if port is not None]
        if self.frozen_until is not None and known:
            port = known[self.turn % len(known)]
            self.turn = self.turn % len(known) + 1
            return port
        return None


class Entropies:
    """What kernels call to choose source ports, for a queue pair, as Python can call it."""

    def __init__(self) -> None:
        state, pair = at.EndpointState, at.PairState
        self.next_port: Callable[..., int] = numba.njit(
            lambda words, row, now: entropy.next_port(state(words), pair(row), now)
        )
        self.draw: Callable[..., int] = numba.njit(
            lambda words, row: entropy.draw_port(state(words), pair(row))
        )
        self.keep: Callable[..., None] = numba.njit(
            lambda words, row, port: entropy.keep_entropy(state(words), pair(row), port)
        )
        self.leave: Callable[..., None] = numba.njit(
            lambda words, row, now: entropy.leave_path(state(words), pair(row), 0, now)
        )


@cache
def entropies() -> Entropies:
    """They are compiled only where a test calls them."""
    return Entropies()


@given(st.lists(st.tuples(st.sampled_from("ssskkt"), st.integers(0, 63)), max_size=200))
def test_ports_are_chosen_as_the_paper_says(steps: list[tuple[str, int]]) -> None:
    options = replace(REPS, window_bytes=8 * MTU, freeze_ns=40, explore_packets=5)
    pair = Pair(options=options)
    words, row = pair.a.state_address, pair.a.row_of(0).location
    plain = PlainReps(5, 40)
    first = min(entropies().draw(words, row) for _ in range(2000))
    now = 1
    for step, number in steps:
        now += number % 7
        drawn = pair.a.statistics.entropies_drawn
        if step == "s":
            expected = plain.following(now)
            port = entropies().next_port(words, row, now)
            if expected is None:
                assert pair.a.statistics.entropies_drawn == drawn + 1
            else:
                assert port == expected
        elif step == "k":
            known = 0xC000 | (first + number & 0x3FFF)
            entropies().keep(words, row, known)
            plain.acknowledged(known)
        else:
            entropies().leave(words, row, now)
            plain.timed_out(now)


def split_network(
    options: TransportOptions, bad: Callable[[int], bool], what: str, packets: int
) -> tuple[Pair, list[int]]:
    """A transfer over paths chosen by source port, some of which mark or lose all data; the source
    ports of the data in the order in which it was sent."""
    ports: list[int] = []

    def on_bad_path(datagram: Datagram, receiver: int) -> bool:
        if receiver != B:
            return False
        ports.append(datagram.source_port)
        return bad(datagram.source_port)

    class Marking(Faults):
        def copies(self, datagram: Datagram, receiver: int) -> list[tuple[int, Datagram]]:
            if not on_bad_path(datagram, receiver):
                return [(0, datagram)]
            return [] if what == "lose" else [(0, datagram._replace(tos=datagram.tos | 3))]

    pair = Pair(rate_bps=10**9, options=options, faults=Marking())
    data, place = pattern(MTU * packets), np.zeros(MTU * packets, np.uint8)
    here, there = pair.a.register(data), pair.b.register(place)
    pair.left.post_write(here, 0, len(data), there.address, there.rkey, 1, "write")
    pair.settle()
    assert (data == place).all()
    return pair, ports


def test_reps_leaves_paths_that_mark() -> None:
    pair, ports = split_network(
        replace(REPS, window_bytes=64 * MTU), lambda p: p % 4 == 1, "mark", 2000
    )
    late = ports[200:]
    assert len(ports) == 2000
    assert sum(port % 4 == 1 for port in late) < 0.05 * len(late)
    assert pair.a.statistics.entropies_drawn < 300


def test_reps_overcomes_a_dead_path_of_four() -> None:
    pair, ports = split_network(
        replace(REPS, window_bytes=64 * MTU), lambda p: p % 4 == 1, "lose", 2000
    )
    assert sum(port % 4 == 1 for port in ports[300:]) < 0.15 * len(ports)
    assert [done.context for done in pair.at_a] == ["write"]


def test_plb_changes_its_path_when_marks_persist_and_only_then() -> None:
    options = replace(PLB, window_bytes=16 * MTU)
    own = Pair(options=options).a.row_of(0).source_port
    pair, ports = split_network(options, lambda port: port == own, "mark", 1000)
    assert pair.a.statistics.path_changes == 1
    changed = ports.index(next(port for port in ports if port != own))
    assert 30 <= changed <= 100 and own not in ports[changed + 16 :]
    quiet, _ = split_network(options, lambda _: False, "mark", 1000)
    assert quiet.a.statistics.path_changes == 0


def test_plb_changes_its_path_at_a_timeout() -> None:
    own = Pair(options=PLB).a.row_of(0).source_port
    pair, ports = split_network(PLB, lambda port: port == own, "lose", 100)
    assert pair.a.statistics.path_changes >= 1 and pair.a.statistics.timeouts == 1
    assert ports[-1] != own


@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
def test_after_a_timeout_the_next_source_port_is_used(recovery: str) -> None:
    options = TransportOptions(recovery=recovery, retries=100)  # type: ignore[arg-type]
    dead = {50_000, 50_001}
    faults = Faults(loss=1.0, only=lambda row, receiver: receiver == B and row.source_port in dead)
    pair = Pair(rate_bps=10**9, options=options, faults=faults)
    pair.left.set_source_ports([50_000, 50_001, 50_002])
    pair.left.post_send(b"through", "sent")
    pair.settle()
    repathed = [done for done in pair.at_a if done.kind is CompletionKind.REPATHED]
    assert [done.source_port for done in repathed] == [50_001, 50_002]
    assert [done.data for done in pair.at_b] == [b"through"]
    assert pair.a.statistics.path_changes == 2
    assert pair.a.source_ports == [50_002]


@pytest.mark.parametrize("ports", [[50_000, 50_001, 50_002], None])
@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
def test_acknowledgements_leave_a_dead_path(recovery: str, ports: list[int] | None) -> None:
    options = TransportOptions(recovery=recovery, retries=100)  # type: ignore[arg-type]
    pair = Pair(rate_bps=10**9, options=options)
    dead = {pair.b.row_of(0).source_port, 50_000, 50_001}
    pair.network.faults = Faults(
        loss=1.0, only=lambda row, receiver: receiver == A and row.source_port in dead
    )
    if ports:
        pair.right.set_source_ports(ports)
    pair.right.move_acknowledgements()
    for text in ("first", "second"):
        pair.left.post_send(text.encode(), text)
        pair.settle()
    assert [done.context for done in pair.at_a] == ["first", "second"]
    assert [done.data for done in pair.at_b] == [b"first", b"second"]
    assert pair.b.statistics.path_changes == (2 if ports else 1)
    assert pair.a.statistics.timeouts == pair.b.statistics.path_changes


def test_one_source_port_is_kept_whatever_happens() -> None:
    pair = Pair(rate_bps=10**9, faults=Faults(lose={0, 1}))
    pair.left.set_source_ports([50_000])
    pair.left.post_send(b"through")
    pair.settle()
    assert pair.a.statistics.timeouts == 2 and pair.a.statistics.path_changes == 0
    assert pair.a.source_ports == [50_000]


def test_ports_and_options_that_make_no_sense_are_refused() -> None:
    pair, sprayed = Pair(), Pair(options=REPS)
    with pytest.raises(TransportMisuse, match="65536"):
        pair.left.set_source_ports([65_536])
    with pytest.raises(TransportMisuse, match="at least one"):
        pair.left.set_source_ports([])
    with pytest.raises(TransportMisuse, match="reps"):
        sprayed.left.set_source_ports([50_000])
    for options, text in (
        (TransportOptions(congestion="cubic"), "window or dctcp"),
        (TransportOptions(recovery="none"), "go-back-n or selective"),  # type: ignore[arg-type]
        (TransportOptions(entropy="spray"), "fixed or reps or plb"),  # type: ignore[arg-type]
        (TransportOptions(reorder_packets=0), "at least 1"),
        (TransportOptions(entropies=20_000), "16384"),
        (TransportOptions(freeze_ns=-1), "not negative"),
        (TransportOptions(explore_packets=-1), "explore_packets -1"),
        (TransportOptions(alternates=0), "at least 1"),
        (TransportOptions(alternates=2, entropy="plb"), "alternates 2 with entropy plb"),
    ):
        with pytest.raises(TransportMisuse, match=text):
            Endpoint(A, options=options)
    for options in (
        TransportOptions(reorder_packets=1, entropies=1, alternates=1),
        TransportOptions(entropies=1 << 14, freeze_ns=0, explore_packets=0),
        TransportOptions(first_timeout_ns=1, minimum_timeout_ns=1, control_timeout_ns=1),
    ):
        Endpoint(A, options=options)


@pytest.mark.parametrize("options", ALL)
def test_the_same_calls_give_the_same_packets(options: TransportOptions) -> None:
    traces = []
    for _ in range(2):
        faults = Faults(loss=0.05, lateness=0.1, seed=3)
        pair = Pair(rate_bps=10**9, options=options, faults=faults, keep_trace=True)
        here, there = pair.a.register(pattern(90_000)), pair.b.register(np.zeros(90_000, np.uint8))
        pair.left.post_write(here, 0, 90_000, there.address, there.rkey, 1)
        pair.settle()
        traces.append(pair.network.trace)
    assert traces[0] == traces[1]


def test_acknowledgements_that_find_no_room_in_line_are_sent_after_the_others() -> None:
    packets = at.ECHO_ROOM + 200
    pair = Pair(options=replace(REPS, window_bytes=2 * packets * MTU))
    place = np.zeros(packets * MTU, np.uint8)
    data = pattern(len(place))
    here, there = pair.a.register(data), pair.b.register(place)
    pair.left.post_write(here, 0, len(data), there.address, there.rkey, context="write")
    sent = 0
    while len(batch := pair.a.transmit(0)):
        sent += len(batch)
        pair.b.receive(batch, 0)
    assert sent == packets
    pair.settle()
    assert (data == place).all() and [done.context for done in pair.at_a] == ["write"]
    assert pair.a.statistics.timeouts == pair.a.statistics.retransmitted_packets == 0


@pytest.mark.parametrize("lost", range(6))
def test_an_end_that_repeats_single_packets_understands_one_that_goes_back(lost: int) -> None:
    """Nothing of a write of several packets that says its address once is kept ahead of a gap."""
    a = Endpoint(A, MTU, 10**9, seed=1)
    b = Endpoint(B, MTU, 10**9, seed=1, options=TransportOptions(recovery="selective"))
    left, right = a.create_rc(), b.create_rc()
    left.connect(right.local)
    right.connect(left.local)
    network = MemoryNetwork(
        [a, b], faults=Faults(lose={lost}, only=lambda _, receiver: receiver == B)
    )
    data, place = pattern(4 * MTU + 7), np.zeros(4 * MTU + 7, np.uint8)
    here, there = a.register(data), b.register(place)
    left.post_send(b"first")
    left.post_write(here, 0, len(data), there.address, there.rkey, immediate=5)
    network.settle()
    found = [(done.kind, done.data) for done in b.poll()]
    assert found[0] == (CompletionKind.RECEIVED, b"first")
    assert [kind for kind, _ in found[1:]] == [CompletionKind.WRITE_WITH_IMMEDIATE]
    assert (place == data).all() and not any(done.error for done in a.poll())
