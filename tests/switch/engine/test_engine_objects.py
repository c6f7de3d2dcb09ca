"""Meters, digests, ageing, value sets, the CPU port and the drop port, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.engine_programs import router
from tests.support.engine_support import CPU_PORT, SOURCE, colours, frame, packet

from weft.base.errors import InputError
from weft.switch.compiler import compile_program
from weft.switch.engine.control.entities import (
    ActionCall,
    CounterCell,
    DigestEvent,
    Exact,
    GroupTarget,
    IdleTimeout,
    Key,
    Lpm,
    MemberTarget,
    MeterConfig,
    PacketIn,
    ProfileGroup,
    ProfileMember,
    Range,
    TableEntry,
    Ternary,
)
from weft.switch.engine.control.errors import (
    AlreadyExists,
    InvalidKey,
    InvalidValue,
    NotFound,
    NotPermitted,
    StillInUse,
    TableFull,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.dataplane import layout
from weft.switch.engine.dataplane.outbox import RING_WORDS
from weft.switch.engine.switches import Dataplane, Queue

SECOND = 1_000_000_000


@lru_cache
def program() -> str:
    return compile_program(SOURCE).bmv2_json


def make(drop_port: int = 511, *, plain: bool = True) -> tuple[Dataplane, SwitchControl]:
    dataplane = Dataplane(1, 8, packets=64, plain=plain, drop_port=drop_port)
    for port in range(1, 5):
        dataplane.set_port(0, port, Queue())
    dataplane.set_cpu_port(0, CPU_PORT)
    control = dataplane.control(0)
    control.load_program(program(), load="save")
    control.commit_program()
    return dataplane, control


def forward(control: SwitchControl, destination: int, port: int, timeout_ns: int = 0) -> None:
    call = ActionCall("I.to", (port,))
    entry = TableEntry("I.forward", (Exact(destination),), call, idle_timeout_ns=timeout_ns)
    control.insert_entry(entry)
    control.publish()


def send(dataplane: Dataplane, data: bytes, now_ns: int = 0, port: int = 1) -> list[bytes]:
    """What leaves after a frame has come in."""
    dataplane.receive(0, port, [data], now_ns)
    return [departure.frame for departure in dataplane.transmit(now_ns)]


class Bucket:
    """A token bucket, by its definition: full at first, filled at its rate, never above burst."""

    def __init__(self, rate: int, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.time_us = Fraction(burst), 0

    def fill(self, now_us: int) -> None:
        self.tokens = min(
            self.tokens + Fraction(self.rate * (now_us - self.time_us), 1_000_000),
            # What is beyond whole tokens goes on to count in a full bucket.
            Fraction(self.burst) + Fraction(self.rate * now_us, 1_000_000) % 1,
        )
        self.time_us = now_us


def two_rate_three_colour(config: MeterConfig, packets: list[tuple[int, int]]) -> list[int]:
    """RFC 2698, colour-blind: the colours of packets (time in us, size)."""
    peak = Bucket(config.pir_per_s, config.peak_burst)
    committed = Bucket(config.cir_per_s, config.burst)
    found = []
    for now_us, size in packets:
        peak.fill(now_us)
        committed.fill(now_us)
        if peak.tokens < size:
            found.append(2)
            continue
        peak.tokens -= size
        if committed.tokens < size:
            found.append(1)
            continue
        committed.tokens -= size
        found.append(0)
    return found


@given(
    rates=st.tuples(
        st.integers(0, 5000) | st.integers(0, (1 << 63) - 1),
        st.integers(0, 5000) | st.integers(0, (1 << 63) - 1),
    ),
    bursts=st.tuples(st.integers(0, 200), st.integers(0, 200)),
    steps=st.lists(
        st.tuples(st.integers(0, 50_000) | st.integers(0, 10**13), st.integers(14, 80)),
        min_size=1,
        max_size=30,
    ),
)
def test_meters_colour_packets_as_rfc_2698_defines(
    rates: tuple[int, int], bursts: tuple[int, int], steps: list[tuple[int, int]]
) -> None:
    dataplane, control = metered()
    config = MeterConfig(min(rates), bursts[0], max(rates), bursts[1])
    start_us = dataplane.now_ns // 1000
    dataplane.switches[0].epoch_ns = start_us * 1000
    control.values.write_meter("I.packets_meter", 1, config)
    control.values.write_meter("I.bytes_meter", 1, config)
    control.values.write_direct_meter("I.forward", (Exact(1),), 0, config)
    assert control.values.read_meters("I.bytes_meter") == [None, config] + [None] * 6
    times, now_us = [], 0
    for step, _ in steps:
        now_us += step
        times.append(now_us)
    sizes = [size for _, size in steps]
    found = []
    for time_us, size in zip(times, sizes, strict=True):
        (left,) = send(dataplane, frame(1, 1, size=size), (start_us + time_us) * 1000)
        found.append(colours(left)[:3])
    control.take_events()
    by_packets = two_rate_three_colour(config, [(time, 1) for time in times])
    by_bytes = two_rate_three_colour(config, list(zip(times, sizes, strict=True)))
    assert found == list(zip(by_packets, by_bytes, by_bytes, strict=True))


@lru_cache
def metered() -> tuple[Dataplane, SwitchControl]:
    dataplane, control = make()
    forward(control, 1, 2)
    return dataplane, control


def test_meters_without_rates_are_green_and_wrong_rates_are_refused() -> None:
    dataplane, control = make()
    forward(control, 1, 2)
    none = MeterConfig(0, 0, 0, 0)
    assert colours(send(dataplane, frame(1, 1))[0]) == (0, 0, 0, 0)
    control.values.write_direct_meter("I.forward", (Exact(1),), 0, none)
    control.values.write_meter("I.packets_meter", 1, none)
    assert colours(send(dataplane, frame(1, 1))[0]) == (2, 0, 2, 0)
    assert control.values.read_direct_meter("I.forward", (Exact(1),)) == none
    control.values.write_meter("I.packets_meter", 1, None)
    control.values.write_direct_meter("I.forward", None, 0, none)
    assert colours(send(dataplane, frame(1, 1))[0]) == (0, 0, 2, 0)
    control.delete_entry("I.forward", (Exact(1),))
    forward(control, 1, 2)
    assert colours(send(dataplane, frame(1, 1))[0]) == (0, 0, 0, 0), "a new entry has no rates"
    assert control.values.read_direct_meter("I.forward", None) == none
    refused: list[Callable[[], object]] = [
        lambda: control.values.write_meter("I.packets_meter", 1, MeterConfig(2, 1, 1, 1)),
        lambda: control.values.write_meter("I.packets_meter", 8, none),
        lambda: control.values.write_meter("I.packets_meter", 1, MeterConfig(-1, 1, 1, 1)),
    ]
    for call in refused:
        with pytest.raises(InvalidValue):
            call()
    with pytest.raises(NotFound, match=r"packets_meter, I\.bytes_meter"):
        control.values.read_meter("I.nothing", 0)
    with pytest.raises(NotFound):
        control.values.write_direct_meter("I.forward", (Exact(9),), 0, none)


def test_direct_counters_are_written_and_those_of_default_entries_too() -> None:
    dataplane, control = make()
    forward(control, 1, 2)
    control.values.write_direct_counter("I.forward", (Exact(1),), 0, CounterCell(5, 50))
    control.values.write_direct_counter("I.forward", None, 0, CounterCell(7, 70))
    send(dataplane, frame(1, 1))
    send(dataplane, frame(2, 1))
    assert control.values.read_direct_counter("I.forward", (Exact(1),)) == CounterCell(6, 64)
    assert control.values.read_direct_counter("I.forward", None) == CounterCell(8, 84)


def test_an_entry_in_the_place_of_a_deleted_one_has_a_direct_counter_of_its_own() -> None:
    dataplane, control = make()
    for number in (1, 2, 3):
        forward(control, number, 2)
    control.delete_entry("I.forward", (Exact(2),))
    forward(control, 4, 2)
    for number, times in ((1, 1), (3, 2), (4, 3)):
        for _ in range(times):
            send(dataplane, frame(number, 1))
    assert [
        control.values.read_direct_counter("I.forward", (Exact(number),)).packets
        for number in (1, 3, 4)
    ] == [1, 2, 3]
    assert control.values.read_direct_counter("I.forward", None).packets == 0


def test_digests_and_packets_for_the_controller_come_as_events_in_order() -> None:
    dataplane, control = make()
    told: list[int] = []
    control.set_listener(lambda: told.append(1))
    forward(control, 1, CPU_PORT)
    control.values.write_meter("I.packets_meter", 5, MeterConfig(0, 0, 0, 0))
    assert send(dataplane, frame(1, 5), 3, port=4) == []
    assert send(dataplane, frame(1, 6), 4, port=3) == []
    assert told == [1], "called again only after take_events"
    assert control.take_events() == [
        DigestEvent("learn_t", (0x205, 4), 3),
        PacketIn(b"\0\4" + frame(1, 0x205), 3),
        DigestEvent("learn_t", (6, 3), 4),
        PacketIn(b"\0\3" + frame(1, 6), 4),
    ]
    assert control.take_events() == []
    send(dataplane, frame(1, 5), 5)
    assert told == [1, 1]
    assert len(dataplane.take_events(0)) == 2
    control.packet_out(b"\0\3" + frame(9, 8))
    (departure,) = dataplane.transmit(6)
    assert (departure.port, departure.frame) == (3, frame(9, 8))
    assert control.take_events() == [DigestEvent("learn_t", (8, CPU_PORT), 5)]
    with pytest.raises(InvalidValue, match="10000 bytes"):
        control.packet_out(bytes(10_000))


def test_a_flood_of_events_is_bounded_counted_and_slows_no_packet() -> None:
    dataplane, control = make()
    forward(control, 1, CPU_PORT)
    large = frame(1, 1, size=9000)
    for _ in range(130):
        send(dataplane, large)
    assert control.events_lost > 0
    assert dataplane.statistics(0, CPU_PORT).tx_packets == 130
    events = control.take_events()
    packets = [event for event in events if isinstance(event, PacketIn)]
    assert len(packets) == RING_WORDS * 8 // (9002 + 32 + 6 + 48)
    assert all(event.frame == b"\0\1" + large for event in packets)
    assert len(events) + control.events_lost == 260
    for number in range(20):  # the ring goes round
        send(dataplane, frame(1, number, size=9000))
    found = [event.frame for event in control.take_events() if isinstance(event, PacketIn)]
    assert found == [b"\0\1" + frame(1, number, size=9000) for number in range(20)]
    assert dataplane.context.free_buffer_count == 64 == dataplane.context.free_packet_count


def test_an_entry_that_is_not_hit_is_reported_once_until_its_next_hit() -> None:
    dataplane, control = make()
    told: list[int] = []
    control.set_listener(lambda: told.append(1))
    forward(control, 1, 2, SECOND)
    forward(control, 2, 2, 3 * SECOND)
    forward(control, 3, 2)
    send(dataplane, frame(1, 1), SECOND // 2)
    assert control.values.idle_ns("I.forward", (Exact(1),)) == 0
    assert control.values.idle_ns("I.forward", (Exact(3),)) == SECOND // 2
    control.take_events()
    told.clear()
    dataplane.transmit(SECOND * 3 // 2 - 1)
    assert (told, control.take_events()) == ([], [])
    dataplane.transmit(SECOND * 3 // 2)
    first, second = control.entries("I.forward")[:2]
    assert told == [1]
    assert control.take_events() == [IdleTimeout(first, SECOND * 3 // 2)]
    dataplane.transmit(3 * SECOND)
    assert control.take_events() == [IdleTimeout(second, 3 * SECOND)]
    send(dataplane, frame(1, 1), 4 * SECOND)
    control.modify_entry(TableEntry("I.forward", (Exact(2),), second.target))
    dataplane.transmit(9 * SECOND)
    assert [event for event in control.take_events() if isinstance(event, IdleTimeout)] == [
        IdleTimeout(first, 9 * SECOND)
    ]
    control.delete_entry("I.forward", (Exact(1),))
    dataplane.transmit(20 * SECOND)
    assert control.take_events() == []
    wrong = TableEntry("I.forward", (Exact(8),), second.target, idle_timeout_ns=-1)
    with pytest.raises(InvalidValue, match="idle timeout"):
        control.insert_entry(wrong)


@pytest.mark.parametrize(
    ("members", "inside", "outside"),
    [
        ([(Exact(0x800),), (Exact(0x806),)], [0x800, 0x806], [0, 0x801]),
        ([(Lpm(0x800, 8),), (Ternary(1, 0x8001),)], [0x8FF, 1, 0x7FFF], [0x8001, 0x900]),
        ([(Range(5, 9),), (Exact(20),), (Lpm(0x100, 8),)], [5, 9, 20, 0x1FF], [4, 10, 0x200]),
        ([], [], [0]),
    ],
)
def test_the_parser_looks_into_value_sets(
    members: list[tuple[Key, ...]], inside: list[int], outside: list[int]
) -> None:
    dataplane, control = make()
    forward(control, 1, 2)
    control.set_value_set("P.special", members)
    assert control.value_set("P.special") == members
    assert colours(send(dataplane, frame(1, 1, (inside or [1])[0]))[0])[3] == 0, "not published"
    control.publish()
    for kind in inside + outside:
        assert colours(send(dataplane, frame(1, 1, kind))[0])[3] == (kind in inside)


def test_wrong_members_of_value_sets_are_refused() -> None:
    _, control = make()
    good = [(Exact(1),)]
    control.set_value_set("P.special", good)
    wrong: list[tuple[list[tuple[Key, ...]], type[Exception]]] = [
        ([(Exact(1 << 16),)], InvalidKey),
        ([(Exact(1), Exact(2))], InvalidKey),
        ([(Range(1, 2),), (Ternary(2, 2),)], InvalidKey),
        ([(Exact(1),), (Exact(1),)], AlreadyExists),
        ([(Exact(value),) for value in range(5)], TableFull),
    ]
    for members, error in wrong:
        with pytest.raises(error):
            control.set_value_set("P.special", members)
    with pytest.raises(NotFound, match=r"P\.special"):
        control.set_value_set("special", good)
    assert control.value_set("P.special") == good


def test_the_drop_port_can_be_another() -> None:
    dataplane, control = make(drop_port=3)
    assert dataplane.drop_port == 3
    forward(control, 1, 3)
    forward(control, 2, 4)
    assert send(dataplane, frame(1, 1)) == []
    assert send(dataplane, frame(9, 1)) == [], "mark_to_drop drops"
    assert dataplane.switches[0].drops[layout.DROPS_INGRESS] == 2
    assert send(dataplane, frame(2, 1)) == [frame(2, 1)]
    with pytest.raises(InputError, match="CPU port 3"):
        dataplane.set_cpu_port(0, 3)


def test_a_switch_without_a_cpu_port_takes_no_packets_from_controllers() -> None:
    dataplane = Dataplane(1, 4, packets=8, plain=True)
    control = dataplane.control(0)
    control.load_program(program(), load="save")
    control.commit_program()
    assert control.cpu_port is None
    with pytest.raises(InvalidValue, match="no CPU port"):
        control.packet_out(frame(1, 1))


def test_the_compiled_form_does_the_same_as_the_plain_one() -> None:
    seen = []
    for plain in (False, True):
        dataplane, control = make(plain=plain)
        rng = random.Random(5)
        control.set_value_set("P.special", [(Exact(1),), (Range(3, 4),)])
        for number in range(4):
            forward(control, number, rng.choice([2, 3, CPU_PORT]), number * SECOND // 30)
        for number in range(8):
            rates = sorted((rng.randrange(300_000), rng.randrange(300_000)))
            config = MeterConfig(rates[0], rng.randrange(400), rates[1], rng.randrange(400))
            control.values.write_meter("I.packets_meter", number, config)
            control.values.write_meter("I.bytes_meter", number, config)
            if number < 4:
                control.values.write_direct_meter("I.forward", (Exact(number),), 0, config)
        found: list[list[Any]] = []
        now_ns = 0
        for _ in range(300):
            now_ns += rng.randrange(20_000_000)
            kind, size = rng.randrange(6), rng.randrange(14, 90)
            data = frame(rng.randrange(5), rng.randrange(8), kind, size)
            found.append(send(dataplane, data, now_ns, rng.choice([1, 2, CPU_PORT])))
            found.append(control.take_events())
        seen.append(found)
    assert seen[0] == seen[1]
    assert any(isinstance(event, IdleTimeout) for events in seen[0][1::2] for event in events)


def test_the_default_of_an_indirect_table_is_a_member_or_a_group() -> None:
    dataplane = Dataplane(1, 8, packets=16, plain=True)
    for port in range(1, 5):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0)
    text = router().replace('"__MISS__": "reject"', '"__MISS__": null')
    control.load_program(text, load="save")
    control.commit_program()
    for port in (2, 3):
        call = ActionCall("forward", (port, 5))
        control.insert_member(ProfileMember("ecmp", port, call))
    control.insert_group(ProfileGroup("ecmp", 1, ((3, 1),)))

    def port_of_default() -> list[int]:
        control.publish()
        dataplane.receive(0, 1, [packet("10.9.9.9")], 0)
        return [departure.port for departure in dataplane.transmit(0)]

    assert port_of_default() == []
    control.set_default("route", MemberTarget(2))
    assert port_of_default() == [2]
    assert control.default("route") == ActionCall("forward", (2, 5))
    with pytest.raises(StillInUse):
        control.delete_member("ecmp", 2)
    control.set_default("route", GroupTarget(1))
    assert port_of_default() == [3]
    control.modify_group(ProfileGroup("ecmp", 1, ()))
    assert port_of_default() == [], "an empty group does nothing"
    control.reset_default("route")
    control.delete_group("ecmp", 1)
    with pytest.raises(NotFound):
        control.set_default("route", MemberTarget(9))
    with pytest.raises(NotPermitted):
        control.set_default("route", ActionCall("forward", (2, 5)))
