"""Queues of several priorities at a port, against a model of them that is written apart."""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.queue_support import PORT, RATE_BPS, Arrival, frame, program, switch

import weft
from weft.base.errors import InputError, WeftError
from weft.switch.engine.dataplane import layout
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.decoder import Decoder, Event
from weft.switch.engine.trace.tracer import Tracer
from weft.switch.stf import run_test
from weft.switch.stf.reader import parse_test


@dataclass
class Model:
    """What the link behind a port does, event by event: whenever it is free, it takes the packet
    that came first among those of the greatest priority that are there."""

    queues: int
    most_packets: int
    waiting: list[tuple[int, Arrival, int]] = field(default_factory=list)
    left: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Number, time of departure, packets in its queue when it came, and when it left."""
    dropped: int = 0
    denied: int = 0
    free_at_ns: float = 0.0

    def serve(self, until_ns: int) -> None:
        while self.waiting:
            start = max(self.free_at_ns, min(one.at_ns for _, one, _ in self.waiting))
            if start > until_ns:
                return
            there = [each for each in self.waiting if each[1].at_ns <= start]
            chosen = max(there, key=lambda each: (each[1].priority, -each[0]))
            self.waiting.remove(chosen)
            number, arrival, before = chosen
            behind = sum(one.priority == arrival.priority for _, one, _ in self.waiting)
            self.free_at_ns = start + arrival.size * 8e9 / RATE_BPS
            self.left.append((number, int(self.free_at_ns), before, behind))

    def run(self, arrivals: list[Arrival]) -> None:
        for number, arrival in enumerate(arrivals):
            self.serve(arrival.at_ns)
            depth = sum(one.priority == arrival.priority for _, one, _ in self.waiting)
            busy = bool(self.waiting) or self.free_at_ns > arrival.at_ns
            if arrival.priority >= self.queues:
                self.denied += 1
            elif busy and depth >= self.most_packets:
                self.dropped += 1
            else:
                self.waiting.append((number, arrival, depth))
                self.serve(arrival.at_ns)
        self.serve(1 << 60)


@example(8, 9, [Arrival(0, priority, 100) for priority in (0, 3, 0, 7, 3, 7)])
@given(
    queues=st.integers(1, 8),
    most_packets=st.integers(1, 4),
    arrivals=st.lists(
        st.builds(Arrival, st.integers(0, 20_000), st.integers(0, 7), st.integers(64, 1500)),
        max_size=25,
    ),
)
def test_a_link_takes_the_greatest_priority_first_and_each_queue_has_its_own_bound(
    queues: int, most_packets: int, arrivals: list[Arrival]
) -> None:
    arrivals = sorted(arrivals, key=lambda one: one.at_ns)
    model = Model(queues, most_packets)
    model.run(arrivals)
    dataplane = switch(queues, Queue(RATE_BPS, limit_packets=most_packets))
    left = []
    for number, arrival in enumerate(arrivals):
        left += dataplane.transmit(arrival.at_ns)
        dataplane.receive(0, 1, [frame(arrival.priority, number, arrival.size)], arrival.at_ns)
    left += dataplane.transmit(1 << 60)
    seen = [
        (struct.unpack(">H", one.frame[2:4])[0], one.departure_ns,
         *struct.unpack(">HH", one.frame[4:8]))
        for one in left
    ]  # fmt: skip
    assert [(number, *rest) for number, _, *rest in seen] == [
        (number, *rest) for number, _, *rest in model.left
    ]
    assert [time for _, time, *_ in seen] == pytest.approx(
        [time for _, time, *_ in model.left], abs=1
    )
    counted = dataplane.statistics(0, PORT)
    assert (counted.queue_drops, counted.tx_packets) == (model.dropped, len(model.left))
    assert dataplane.switches[0].drops[layout.DROPS_PRIORITY] == model.denied


def test_frames_that_a_late_driver_brings_together_leave_in_the_order_that_they_would_have() -> (
    None
):
    """A frame of a greater priority that came later does not overtake one whose time was before."""
    dataplane = switch(8)
    for number, (at_ns, priority) in enumerate([(0, 0), (100, 0), (500, 6), (5000, 7)]):
        dataplane.receive(0, 1, [frame(priority, number, 125)], at_ns)  # 1000 ns on the link
    found = [(one.frame[3], one.departure_ns) for one in dataplane.transmit(1 << 40)]
    assert found == [(0, 1000), (2, 2000), (1, 3000), (3, 6000)]


def test_a_packet_of_a_priority_that_no_queue_has_is_told_and_counted() -> None:
    dataplane = switch(2)
    told: list[tuple[int, int, int]] = []
    dataplane.on_denied = lambda *what: told.append(what)
    tracer = Tracer(dataplane.keep)  # type: ignore[attr-defined]
    dataplane.start_trace(tracer)
    for number, priority in enumerate((1, 4, 3, 4, 7, 0)):
        dataplane.receive(0, 1, [frame(priority, number)], number)
    assert told == [(0, 4, 2), (0, 7, 2)], "the first one, and every greater one"
    assert dataplane.switches[0].drops[layout.DROPS_PRIORITY] == 4
    assert len(dataplane.transmit(1 << 40)) == 2
    events = Decoder().feed(tracer.take())
    dropped = [event for event in events if event["event"] == "dropped"]
    assert [(one["packet"], one["where"], one["priority"]) for one in dropped] == [
        (2, "queue", 4), (3, "queue", 3), (4, "queue", 4), (5, "queue", 7),
    ]  # fmt: skip
    assert dropped[-1]["why"] == (
        "priority 7: a port has queues of priorities 0 to 1 (--priority-queues 8)"
    )
    assert [each.get("priority") for each in _egress(events)] == [1, None]


def test_copies_of_a_multicast_group_keep_the_priority() -> None:
    for queues, left in ((4, 2), (3, 0)):
        dataplane = switch(queues)
        tracer = Tracer(dataplane.keep)  # type: ignore[attr-defined]
        dataplane.start_trace(tracer)
        dataplane.receive(0, 1, [frame(3, 1, group=1)], 0)
        assert len(dataplane.transmit(1 << 40)) == left
        events = Decoder().feed(tracer.take())
        assert len(_egress(events)) == left
        dropped = [event["why"] for event in events if event["event"] == "dropped"]
        assert dropped == [
            "priority 3: a port has queues of priorities 0 to 2 (--priority-queues 4)"
        ] * (2 - left)


def _egress(events: list[Event]) -> list[Event]:
    return [event for event in events if event["event"] == "egress"]


@pytest.mark.parametrize("queues", [-1, 0, 33])
def test_a_port_has_as_many_queues_as_bmv2_can_have(queues: int) -> None:
    with pytest.raises(InputError, match=f"{queues} priority queues: a port has 1 to 32"):
        Dataplane(1, 4, plain=True, priority_queues=queues)


def test_a_packet_test_warns_of_a_priority_without_a_queue_and_says_what_makes_one() -> None:
    text = f"packet 1 07 00 0001 0000 0000\nexpect {PORT} 07\npacket 1 00 00 0002 0000 0000\n"
    test = parse_test(text, "t.stf")
    report = run_test(test, program())
    (warning,) = report.warnings
    assert warning.startswith(
        "t.stf:1:1: warning: a packet was dropped that has priority 7: a port has one queue, of "
        "priority 0 (--priority-queues 8)"
    )
    assert not report.passed
    whole = run_test(parse_test(f"{text}expect {PORT} 00\n", "t.stf"), program(), priority_queues=8)
    assert whole.passed and not whole.warnings


BRIDGE = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
struct meta_t { }
parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { b.extract(h.ethernet); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = s.ingress_port ^ 3; s.priority = 5; }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_a_network_in_virtual_time_has_priority_queues_and_warns_where_one_is_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "bridge.p4").write_text(BRIDGE)
    sent = bytes(12) + b"\x88\xb5" + bytes(50)
    network = weft.single(2)
    up = partial(weft.up, network, world="simulated", program=tmp_path / "bridge.p4")
    with up(priority_queues=6) as net, warnings.catch_warnings():
        warnings.simplefilter("error")
        net.host("h0").send(sent)
        assert len(net.host("h1").sniff(timeout=1)) == 1
    with up() as net, pytest.warns(UserWarning, match="leaf0 drops packets of priority 5: a port"):
        net.host("h0").send(sent)
        assert net.host("h1").sniff(timeout=1) == []
    with pytest.raises(InputError, match="40 priority queues: a port has 1 to 32"):
        up(priority_queues=40)


def test_a_script_sets_pauses_and_reads_a_queue_and_the_results_count_each(tmp_path: Path) -> None:
    (tmp_path / "bridge.p4").write_text(BRIDGE)
    sent = bytes(12) + b"\x88\xb5" + bytes(50)
    up = partial(weft.up, weft.single(2), world="simulated", program=tmp_path / "bridge.p4")
    with up(priority_queues=6) as net:
        queue = net.switch("leaf0").queue(2, 5)
        queue.set(packets=3, weight=2)
        queue.pause()
        net.host("h0").send(sent, count=5)
        assert net.host("h1").sniff(timeout=1) == []
        read = queue.read()
        assert (read["packets"], read["drops"], read["weight"]) == (3, 2, 2)
        queue.resume()
        assert len(net.host("h1").sniff(timeout=1)) == 3
        (direction,) = (one for one in net.report().links if one.to_node == "h1")
        assert [one.tx_packets for one in direction.queues] == [0, 0, 0, 0, 0, 3]
        assert (direction.queues[5].dropped, direction.queues[5].max_bytes) == (2, 3 * len(sent))
        with pytest.raises(WeftError, match="there is no queue: priority 6: a port has queues"):
            net.switch("leaf0").queue(2, 6).pause()
        with pytest.raises(InputError, match="a pause of -1 s"):
            queue.pause(-1)
    with up() as net:
        assert net.report().links[0].queues == []


@pytest.mark.parametrize(
    ("call", "arguments", "why"),
    [
        ("set_queue", {"port": 2, "priority": "x"}, "priority: 'x' is no whole number from 0 on"),
        ("set_queue", {"port": 2, "priority": -1}, "priority: -1 is no whole number from 0 on"),
        ("set_queue", {"port": 9}, "there is no port 9; ports are 1, 2"),
        ("set_queue", {"weight": -3}, "weight: -3 is no whole number from 0 to 65536"),
        ("set_queue", {"rate": 3}, "set_queue: .* unexpected keyword argument 'rate'"),
        ("pause_queue", {"port": 2, "priority": None}, "priority is missing: a pause is of one"),
        ("pause_queue", {"port": 2, "priority": 0, "time_us": 0.5}, "time_us: 0.5 is no whole"),
        ("queues", {"port": [2]}, r"there is no port \[2\]; ports are 1, 2"),
    ],
)
def test_a_call_about_queues_that_makes_no_sense_is_refused_with_what_is_wrong(
    call: str, arguments: dict[str, object], why: str
) -> None:
    with weft.up(weft.single(2), world="simulated") as net, pytest.raises(WeftError, match=why):
        net.switch("leaf0").session.own_call(call, **arguments)
