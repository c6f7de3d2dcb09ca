"""What queues of a port promise, whichever packets come: nothing is lost or counted twice, classes
keep their order, strict ones come first, weights share, a pause holds; and what joins in from
outside, a pause by fill level and a trimming queue."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.queue_support import PORT, RATE_BPS, Arrival, frame, switch

from weft.switch.engine.codegen.loading import CALLBACK
from weft.switch.engine.control.port_queues import change_queues, queue_figures
from weft.switch.engine.dataplane.hooks import ARRIVED, FULL, QUEUED, TAKEN
from weft.switch.engine.dataplane.layout import HEAD_PLACES, NEVER_NS
from weft.switch.engine.dataplane.pool import release
from weft.switch.engine.dataplane.queues import enqueue
from weft.switch.engine.dataplane.scheduling import QUANTUM_BYTES
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.priority_queues import QueueChange

QUEUES = 4
PRIORITY = HEAD_PLACES["priority"]
END_NS = 1 << 50


@dataclass(frozen=True)
class Sent:
    number: int
    priority: int
    start_ns: int
    size: int


def sending_ns(size: int) -> int:
    return size * 8_000_000_000 // RATE_BPS


def change(dataplane: Dataplane, priorities: Iterable[int], **figures: int) -> None:
    queues = dataplane.queues_of(0, PORT)
    change_queues(dataplane.port(0, PORT), [queues[p] for p in priorities], QueueChange(**figures))


def sent_of(departures: Iterable[Any]) -> list[Sent]:
    return [
        Sent(
            int.from_bytes(one.frame[2:4], "big"),
            one.frame[0],
            one.departure_ns - sending_ns(len(one.frame)),
            len(one.frame),
        )
        for one in departures
    ]


def run(
    dataplane: Dataplane,
    arrivals: Sequence[Arrival],
    actions: Iterable[tuple[int, Callable[[], None]]] = (),
) -> list[Sent]:
    """Let packets come, and actions happen, in the order of time; an action before a packet."""
    left = []
    steps: list[tuple[int, int, Any]] = [(at_ns, -1, action) for at_ns, action in actions]
    steps += [(one.at_ns, number, one) for number, one in enumerate(arrivals)]
    for at_ns, number, what in sorted(steps, key=lambda step: step[:2]):
        left += dataplane.transmit(at_ns)
        if number < 0:
            what()
        else:
            dataplane.receive(0, 1, [frame(what.priority, number, what.size)], at_ns)
    return sent_of([*left, *dataplane.transmit(END_NS)])


SOME_ARRIVALS = st.lists(
    st.builds(Arrival, st.integers(0, 20_000), st.integers(0, QUEUES - 1), st.integers(64, 1500)),
    max_size=30,
).map(lambda some: sorted(some, key=lambda one: one.at_ns))
SOME_PAUSES = st.lists(
    st.tuples(st.integers(0, 30_000), st.integers(0, QUEUES - 1), st.integers(0, 20_000)),
    max_size=4,
)


@given(
    arrivals=SOME_ARRIVALS,
    weights=st.lists(st.integers(0, 4), min_size=QUEUES, max_size=QUEUES),
    most_packets=st.integers(1, 8),
    rates=st.lists(st.sampled_from([0, 0, 200_000]), min_size=QUEUES, max_size=QUEUES),
    pauses=SOME_PAUSES,
)
def test_packets_leave_once_in_order_strict_ones_first_and_no_link_idles_for_nothing(
    arrivals: list[Arrival],
    weights: list[int],
    most_packets: int,
    rates: list[int],
    pauses: list[tuple[int, int, int]],
) -> None:
    dataplane = switch(QUEUES, Queue(RATE_BPS, limit_packets=most_packets))
    for priority in range(QUEUES):
        change(dataplane, [priority], weight=weights[priority], rate_pps=rates[priority])
    actions = [
        (at_ns, lambda p=priority, t=at_ns + long_ns: dataplane.hold(0, PORT, p, t))
        for at_ns, priority, long_ns in pauses
    ]
    left = run(dataplane, arrivals, actions)
    figures = queue_figures(dataplane.queues_of(0, PORT))
    came = Counter(one.priority for one in arrivals)
    went = Counter(one.priority for one in left)
    for priority, figure in enumerate(figures):
        assert figure["packets"] == figure["bytes"] == 0
        assert figure["taken_packets"] == went[priority]
        assert figure["taken_packets"] + figure["drops"] == came[priority]
        assert figure["peak_packets"] <= most_packets
        numbers = [each.number for each in left if each.priority == priority]
        assert numbers == sorted(numbers)
        if rates[priority]:  # as on BMv2 a packet's time is set as it comes
            first_ns = min((a.at_ns for a in arrivals if a.priority == priority), default=0)
            starts = [each.start_ns for each in left if each.priority == priority]
            assert all(start >= first_ns + n * 5_000 for n, start in enumerate(starts))
    assert sum(figure["taken_bytes"] for figure in figures) == sum(one.size for one in left)
    for at_ns, priority, long_ns in pauses:
        until_ns = min(
            [at_ns + long_ns, *(at for at, p, _ in pauses if p == priority and at > at_ns)]
        )
        if [each[:2] for each in pauses].count((at_ns, priority)) == 1:
            assert not [
                one
                for one in left
                if one.priority == priority and at_ns < one.start_ns < until_ns - 1
            ]
    if any(rates) or pauses:
        return
    end_ns = 0
    for number, one in enumerate(left):
        there = [each for each in left[number:] if arrivals[each.number].at_ns <= one.start_ns]
        strict = [each.priority for each in there if weights[each.priority] == 0]
        assert one.priority == max(strict, default=one.priority)
        came_ns = min(arrivals[each.number].at_ns for each in left[number:])
        assert one.start_ns == pytest.approx(max(end_ns, came_ns), abs=1)
        end_ns = one.start_ns + sending_ns(one.size)


@given(
    weights=st.lists(st.integers(1, 8), min_size=2, max_size=QUEUES),
    sizes=st.lists(st.integers(64, 1514), min_size=QUEUES, max_size=QUEUES),
    taken=st.integers(20, 120),
)
def test_queues_with_weights_share_the_link_by_them_to_within_a_turn_and_a_packet(
    weights: list[int], sizes: list[int], taken: int
) -> None:
    """The bound of deficit round robin for queues that are never empty (Shreedhar and Varghese,
    lemma 2 and theorem 3)."""
    dataplane = switch(QUEUES, Queue(RATE_BPS))
    for priority, weight in enumerate(weights):
        change(dataplane, [priority], weight=weight)
    each = range(len(weights))
    arrivals = [Arrival(0, priority, sizes[priority]) for _ in range(taken) for priority in each]
    left = run(dataplane, arrivals)
    got = Counter[int]()
    packets = Counter[int]()
    for one in left:
        got[one.priority] += one.size
        packets[one.priority] += 1
        if packets[one.priority] == taken:
            break  # one queue is empty
        for a, b in combinations(each, 2):
            apart = abs(got[a] / weights[a] - got[b] / weights[b])
            assert apart <= QUANTUM_BYTES + sizes[a] / weights[a] + sizes[b] / weights[b]


def test_a_pause_holds_one_class_until_it_ends_and_no_other() -> None:
    dataplane = switch(2, Queue(RATE_BPS))
    dataplane.hold(0, PORT, 1, NEVER_NS)
    arrivals = [Arrival(0, 1, 125), Arrival(0, 0, 125), Arrival(500, 1, 125)]
    ended = [(7_000, lambda: dataplane.hold(0, PORT, 1, 7_000))]
    left = run(dataplane, arrivals, ended)
    assert [(one.number, one.start_ns) for one in left] == [(1, 0), (0, 7_000), (2, 8_000)]
    assert dataplane.deadline() is None


@dataclass
class Hook:
    """A function by its address, as machine code would be."""

    dataplane: Dataplane
    act: Callable[[int, int, int, int], int]

    def __post_init__(self) -> None:
        self.errors: list[BaseException] = []

        def call(address: int, what: int, port: int, packet: int, now_ns: int) -> int:
            try:
                return self.act(what, port, packet, now_ns)
            except BaseException as error:  # C cannot have it
                self.errors.append(error)
                return 0

        self.keep = CALLBACK(call)
        self.address = ctypes.cast(self.keep, ctypes.c_void_p).value or 0

    def priority_of(self, packet: int) -> int:
        return int(self.dataplane.memory.phv[packet, PRIORITY])


def test_packets_that_find_no_place_are_trimmed_into_a_queue_of_their_own() -> None:
    """What trimming needs comes in as one object: the queues are as they are."""
    trimmed, header = 3, 64
    dataplane = switch(QUEUES, Queue(RATE_BPS, limit_packets=2))
    ports = dataplane.port_count

    def trim(what: int, port: int, packet: int, now_ns: int) -> int:
        assert what == FULL
        if hook.priority_of(packet) == trimmed:
            return 0
        dataplane.memory.packets[packet].keep = header
        dataplane.memory.phv[packet, PRIORITY] = trimmed
        enqueue(dataplane.context, port // ports, port % ports, packet, header, now_ns)
        return 1

    hook = Hook(dataplane, trim)
    dataplane.port(0, PORT).overflow = hook.address
    change(dataplane, [trimmed], packets=4)
    left = run(dataplane, [Arrival(0, 0, 1000)] * 9)
    assert not hook.errors
    assert [(one.number, one.size) for one in left] == [
        (0, 1000), *((number, header) for number in (3, 4, 5, 6)), (1, 1000), (2, 1000),
    ]  # fmt: skip
    figures = queue_figures(dataplane.queues_of(0, PORT))
    assert [one["drops"] for one in figures] == [0, 0, 0, 2]


def test_a_class_is_paused_and_goes_on_as_what_waits_behind_it_rises_and_falls() -> None:
    """What priority flow control needs comes in as one object: it counts what is told, pauses the
    class at the port before, and a pause that arrives ends there."""
    dataplane = switch(2, Queue(RATE_BPS))
    waiting, pauses = Counter[int](), list[tuple[str, int]]()

    def watch(what: int, port: int, packet: int, now_ns: int) -> int:
        priority = hook.priority_of(packet)
        size = int(dataplane.memory.packets[packet].queue_bytes)
        if what == QUEUED:
            waiting[priority] += size
            if waiting[priority] > 3000:
                dataplane.hold(0, 1, priority, NEVER_NS)
                pauses.append(("off", now_ns))
        elif what == TAKEN:
            waiting[priority] -= size
            if waiting[priority] == 1000:
                dataplane.hold(0, 1, priority, now_ns)
                pauses.append(("on", now_ns))
        elif what == ARRIVED:  # a frame of its own, which no program is to see
            release(dataplane.context, packet)
            return 1
        return 0

    hook = Hook(dataplane, watch)
    dataplane.port(0, PORT).watcher = hook.address
    left = run(dataplane, [Arrival(0, 1, 1000)] * 5)
    dataplane.receive(0, PORT, [frame(0, 9)], END_NS)
    assert not hook.errors
    assert len(left) == 5
    assert pauses == [("off", 0), ("on", 24_000)]
    assert dataplane.transmit(END_NS) == []
    assert sum(waiting.values()) == 0
    assert dataplane.statistics(0, PORT).rx_packets == 1
