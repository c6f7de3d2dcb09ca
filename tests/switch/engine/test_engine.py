"""The engine in virtual time: forwarding, queues, multicast, control."""

from __future__ import annotations

import struct
import zlib

import pytest
from tests.support.engine_programs import router
from tests.support.engine_support import MBIT100, checksum, configure, free, make, packet
from tests.support.interpreter_twin import Twin

from weft.switch.engine.control.entities import (
    ActionCall,
    CounterCell,
    Exact,
    Lpm,
    MemberTarget,
    MulticastGroup,
    ProfileMember,
    Replica,
    TableEntry,
)
from weft.switch.engine.control.errors import (
    AlreadyExists,
    InvalidAction,
    InvalidKey,
    InvalidValue,
    NoProgram,
    NotFound,
    StillInUse,
    TableFull,
)
from weft.switch.engine.dataplane.layout import DROPS_NO_PROGRAM
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.switches import Queue

SOURCE = 0x020000000001


def test_a_routed_frame_leaves_rewritten_with_a_right_checksum() -> None:
    dataplane = make()
    configure(dataplane)
    frame = packet("10.1.2.3")
    dataplane.receive(0, 1, [frame], 5)
    (departure,) = dataplane.transmit(5)
    assert (departure.port, departure.departure_ns) == (2, 5)
    assert departure.frame[:6] == bytes.fromhex("020000000002")
    assert departure.frame[22] == 8
    assert checksum(departure.frame[14:34]) == 0
    assert departure.frame[34:] == frame[34:]


def test_frames_without_a_program_are_dropped_and_counted() -> None:
    dataplane = make()
    dataplane.receive(0, 1, [packet("10.1.2.3")], 0)
    assert dataplane.transmit(0) == []
    assert dataplane.switches[0].drops[DROPS_NO_PROGRAM] == 1
    assert free(dataplane) == (256, 256)


def test_frames_with_a_wrong_checksum_or_without_a_route_are_dropped() -> None:
    dataplane = make()
    configure(dataplane)
    wrong = bytearray(packet("10.1.2.3"))
    wrong[24] ^= 1
    dataplane.receive(0, 1, [bytes(wrong), packet("10.9.9.9"), b"", b"\0" * 13], 0)
    assert dataplane.transmit(0) == []
    assert free(dataplane) == (256, 256)


def test_a_selector_spreads_flows_by_the_crc32_of_its_fields_and_by_weight() -> None:
    dataplane = make()
    configure(dataplane)
    slots = [2, 3, 3, 4]
    for source_port in range(40):
        dataplane.receive(0, 1, [packet("10.2.0.1", source_port=source_port)], 0)
        (departure,) = dataplane.transmit(0)
        fields = struct.pack(">IIH", 0x0A000001, 0x0A020001, source_port)
        assert departure.port == slots[zlib.crc32(fields) % 4]


def test_multicast_copies_share_one_buffer_and_give_it_back() -> None:
    dataplane = make(Queue(rate_bps=MBIT100))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("239.0.0.1")], 0)
    assert free(dataplane) == (255, 252)
    departures = dataplane.transmit(8_000)
    assert [departure.port for departure in departures] == [1, 2, 3, 4]
    assert len({departure.frame for departure in departures}) == 1
    assert free(dataplane) == (256, 256)


def test_a_queue_sends_at_its_exact_rate_however_late_it_is_called() -> None:
    dataplane = make(Queue(rate_bps=MBIT100, delay_ns=777))
    configure(dataplane)
    sizes = [100, 1500, 64, 999]
    dataplane.receive(0, 1, [packet("10.1.0.1", size=size) for size in sizes], 1000)
    expected, at = [], 1000
    for size in sizes:
        at += size * 80
        expected.append(at + 777)
    assert dataplane.deadline() == 1000 + 8000
    departures = dataplane.transmit(10_000_000)
    assert [departure.departure_ns for departure in departures] == expected
    assert dataplane.deadline() is None


def test_a_rate_that_does_not_divide_leaves_no_error_behind() -> None:
    dataplane = make(Queue(rate_bps=7_000_000))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("10.1.0.1", size=100)] * 70, 0)
    departures = dataplane.transmit(10**9)
    assert departures[-1].departure_ns == 70 * 800 * 10**9 // 7_000_000


def test_events_come_at_the_deadlines_and_not_before() -> None:
    dataplane = make(Queue(rate_bps=MBIT100, delay_ns=100))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("10.1.0.1", size=125)] * 3, 0)
    times = []
    while (deadline := dataplane.deadline()) is not None:
        assert dataplane.transmit(deadline - 1) == []
        times += [departure.departure_ns for departure in dataplane.transmit(deadline)]
    assert times == [10_100, 20_100, 30_100]


def test_a_full_queue_drops_the_tail_and_counts_it() -> None:
    dataplane = make(Queue(rate_bps=MBIT100, limit_packets=3))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("10.1.0.1", source_port=i) for i in range(10)], 0)
    departures = dataplane.transmit(10**9)
    ports = [int.from_bytes(departure.frame[34:36], "big") for departure in departures]
    assert ports == [0, 1, 2, 3]
    statistics = dataplane.statistics(0, 2)
    assert statistics.queue_drops == 6
    assert statistics.queue_drop_bytes == 600
    assert statistics.queue_peak_packets == 3
    assert free(dataplane) == (256, 256)


def test_a_queue_is_bounded_in_bytes_too() -> None:
    dataplane = make(Queue(rate_bps=MBIT100, limit_bytes=250))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("10.1.0.1")] * 5, 0)
    assert len(dataplane.transmit(10**9)) == 3


def test_an_exhausted_pool_drops_and_recovers() -> None:
    dataplane = make(Queue(rate_bps=MBIT100))
    configure(dataplane)
    dataplane.receive(0, 1, [packet("239.0.0.1")] * 100, 0)
    assert dataplane.context.no_buffer > 0
    dataplane.transmit(10**9)
    assert free(dataplane) == (256, 256)


def test_random_loss_follows_the_seed() -> None:
    def losses(seed: int) -> list[bool]:
        dataplane = make(seed=seed)
        control = configure(dataplane)
        control.insert_entry(TableEntry("loss", (Exact(2),), ActionCall("lose", (1 << 31,))))
        control.publish()
        lost = []
        for _ in range(200):
            dataplane.receive(0, 1, [packet("10.1.0.1")], 0)
            lost.append(not dataplane.transmit(0))
        return lost

    first = losses(3)
    assert first == losses(3) != losses(4)
    assert 60 < sum(first) < 140


def test_tables_count_hits_and_misses_alike_in_every_form() -> None:
    counted = []
    for plain in (False, True):
        dataplane = make(plain=plain)
        twin = Twin(dataplane, configure(dataplane))
        for address in ("10.1.0.1", "10.9.0.1", "10.2.0.1", "239.0.0.1"):
            dataplane.receive(0, 1, [packet(address)] * 2, 0)
            for _ in range(2):
                twin.steps(1, packet(address))
        counted += [dataplane.states[0].lookups(), twin.lookups()]
    assert counted[0] == counted[1] == counted[2] == counted[3]
    assert counted[0]["route"] == (4, 2)
    assert counted[0]["multicast"] == (2, 6)


def test_counters_count_packets_and_bytes_by_port_and_entry() -> None:
    dataplane = make()
    control = configure(dataplane)
    dataplane.receive(0, 3, [packet("10.1.0.1", size=200)] * 2, 0)
    dataplane.receive(0, 4, [packet("10.9.0.1", size=300)], 0)
    assert control.values.read_counter("port_ingress", 3) == CounterCell(2, 400)
    assert control.values.read_counters("port_ingress")[4] == CounterCell(1, 300)
    keys = (Lpm(0x0A010000, 16),)
    assert control.values.read_direct_counter("route", keys) == CounterCell(2, 400)
    assert control.values.read_direct_counter("route", None) == CounterCell(1, 300)
    control.values.write_direct_counter("route", keys, 0, CounterCell(1, 2))
    assert control.values.read_direct_counter("route", keys) == CounterCell(1, 2)
    dataplane.receive(0, 7, [packet("10.1.0.1")], 0)
    control.values.write_counter("port_ingress", 3, CounterCell(0, 0))
    assert control.values.read_counter("port_ingress", 3) == CounterCell(0, 0)
    with pytest.raises(InvalidValue):
        control.values.read_counter("port_ingress", 8)


def test_nothing_reaches_packets_before_publish() -> None:
    dataplane = make()
    control = configure(dataplane)
    control.insert_entry(TableEntry("route", (Lpm(0x0A010203, 32),), MemberTarget(3)))
    dataplane.receive(0, 1, [packet("10.1.2.3")], 0)
    assert dataplane.transmit(0)[0].port == 2
    control.publish()
    dataplane.receive(0, 1, [packet("10.1.2.3"), packet("10.1.2.4")], 0)
    assert [departure.port for departure in dataplane.transmit(0)] == [3, 2]
    control.modify_member(ProfileMember("ecmp", 3, ActionCall("forward", (4, 1))))
    control.publish()
    dataplane.receive(0, 1, [packet("10.1.2.3")], 0)
    assert dataplane.transmit(0)[0].port == 4


def test_switches_of_one_process_do_not_disturb_each_other() -> None:
    dataplane = make(switches=3)
    configure(dataplane, 2)
    dataplane.receive(0, 1, [packet("10.1.2.3")], 0)
    dataplane.receive(2, 1, [packet("10.1.2.3")], 0)
    (departure,) = dataplane.transmit(0)
    assert (departure.switch, departure.port) == (2, 2)


def test_a_new_program_starts_empty_and_reconcile_keeps_what_fits() -> None:
    dataplane = make()
    control = configure(dataplane)
    control.load_program(router(), load="verify")
    assert len(control.pipelines) == 1
    control.load_program(router(), load="save")
    control.commit_program(reconcile=True)
    assert len(control.entries("route")) == 2
    dataplane.receive(0, 1, [packet("239.0.0.1")], 0)
    assert len(dataplane.transmit(0)) == 4
    control.load_program(router(), load="save")
    control.commit_program()
    assert control.entries("route") == [] == control.multicast_groups()
    with pytest.raises(NoProgram):
        control.commit_program()


def test_refusals_name_what_is_wrong() -> None:
    dataplane = make()
    with pytest.raises(NoProgram):
        dataplane.control(0).entries("route")
    control = configure(dataplane)
    route = Lpm(0x0A010000, 16)
    with pytest.raises(AlreadyExists):
        control.insert_entry(TableEntry("route", (route,), MemberTarget(2)))
    with pytest.raises(NotFound, match="it has: count"):
        control.insert_entry(TableEntry("nothing", (route,), MemberTarget(2)))
    with pytest.raises(NotFound):
        control.delete_entry("route", (Lpm(0, 8),))
    with pytest.raises(NotFound):
        control.insert_entry(TableEntry("route", (Lpm(0, 0),), MemberTarget(9)))
    for key in (Exact(1), Lpm(1, 0), Lpm(1 << 32, 32), Lpm(0, 33)):
        with pytest.raises(InvalidKey):
            control.insert_entry(TableEntry("route", (key,), MemberTarget(2)))
    with pytest.raises(InvalidKey):
        control.insert_entry(TableEntry("route", (route, route), MemberTarget(2)))
    with pytest.raises(InvalidKey):
        control.insert_entry(TableEntry("route", (Lpm(0, 0),), MemberTarget(2), priority=5))
    with pytest.raises(InvalidAction):
        control.insert_entry(TableEntry("route", (Lpm(0, 0),), ActionCall("drop")))
    with pytest.raises(InvalidAction, match="has 9 bits"):
        control.insert_member(ProfileMember("ecmp", 9, ActionCall("forward", (512, 0))))
    with pytest.raises(StillInUse):
        control.delete_member("ecmp", 2)
    with pytest.raises(StillInUse):
        control.delete_group("ecmp", 1)
    with pytest.raises(InvalidValue):
        control.insert_replication(MulticastGroup(8, (Replica(512),)))
    with pytest.raises(TableFull):
        for i in range(100):
            control.insert_entry(TableEntry("route", (Lpm(i << 8, 24),), MemberTarget(2)))
    with pytest.raises(ProgramError):
        control.load_program("{}", load="verify")
    with pytest.raises(ProgramError):
        control.load_program("no json", load="verify")
