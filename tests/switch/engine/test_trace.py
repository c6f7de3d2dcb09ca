"""Traces: what a switch tells of its packets, against what it did with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.compiler_support import compiled
from tests.support.engine_support import packet

from weft.base.errors import InputError
from weft.switch.compiler import compile_cached
from weft.switch.engine.codegen.generate import generate
from weft.switch.engine.control.entities import ActionCall, Exact, Lpm, TableEntry
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.reader import read_program
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.decoder import Decoder, Event
from weft.switch.engine.trace.text import json_lines, log_line, packets_text
from weft.switch.engine.trace.tracer import Tracer
from weft.switch.stf import Report, run_test
from weft.switch.stf.reader import parse_test

FOLDER = Path(__file__).resolve().parents[2] / "stf"
FORWARD = ActionCall("TheIngress.ipv4_forward", (0x080000000222, 2))


def program(name: str) -> str:
    return compile_cached(FOLDER / f"{name}.p4").json.read_text("utf-8")


def switch(name: str, queue: Queue = Queue()) -> tuple[Dataplane, SwitchControl]:  # noqa: B008
    dataplane = Dataplane(1, 8, plain=True)
    for port in range(8):
        dataplane.set_port(0, port, queue)
    control = dataplane.control(0, "s1")
    control.load_program(program(name), load="save")
    control.commit_program()
    return dataplane, control


def traced(dataplane: Dataplane, control: SwitchControl, packets: int = 100) -> Tracer:
    tracer = Tracer(control, packets)
    dataplane.start_trace(tracer)
    return tracer


def only(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["event"] == kind]


def stf(name: str, extra: str = "", *, trace: bool = False) -> Report:
    text = (FOLDER / f"{name}.stf").read_text() + extra
    return run_test(parse_test(text, "t.stf"), program(name), trace=trace)


def test_a_packets_way_reads_from_the_port_where_it_came_in_to_the_one_where_it_left() -> None:
    report = stf("basic", trace=True)
    assert report.failures == []
    assert report.paths[0].text.splitlines() == [
        "packet 1: received at port 1, 36 bytes",
        "  parser state start",
        "    extracted ethernet (bytes 0 to 13): dst_addr=0x80000000100, "
        "src_addr=0x80000000111, ether_type=0x800",
        "  parser state parse_ipv4 (selected by 0x800)",
        "    extracted ipv4 (bytes 14 to 33): version=0x4, ihl=0x5, diffserv=0x0, "
        "total_length=0x16, identification=0x1, flags=0x0, fragment_offset=0x0, ttl=0x40, "
        "protocol=0x11, checksum=0x0, src_addr=0xa000101, dst_addr=0xa000202",
        "  parser ends: accept, 34 bytes of headers",
        "  condition hdr.ipv4.isValid(): true",
        "  table TheIngress.ipv4_lpm (hdr.ipv4.dst_addr=0xa000202): hit "
        "hdr.ipv4.dst_addr=0xa000200/24 -> "
        "TheIngress.ipv4_forward(dst_addr=0x80000000222, port=0x2)",
        "    action TheIngress.ipv4_forward(dst_addr=0x80000000222, port=0x2)",
        "    standard_metadata.egress_spec = 0x2",
        "    ethernet.src_addr = 0x80000000100",
        "    ethernet.dst_addr = 0x80000000222",
        "    ipv4.ttl = 0x3f",
        "  ingress ends: to port 2",
        "  egress of port 2: waited 0 us behind 0 packets, 0 behind it (+0 us)",
        "  deparsed: 34 bytes of headers, 2 of payload",
        "  sent at port 2, 36 bytes (+0 us)",
    ]
    assert report.paths[2].text.splitlines()[-4:] == [
        "  table TheIngress.ipv4_lpm (hdr.ipv4.dst_addr=0xa000901): miss",
        "    action TheIngress.drop()",
        "    standard_metadata.egress_spec = 0x1ff",
        "  dropped (ingress): egress_spec is the drop port 511",
    ]


def test_clones_and_packets_that_go_again_are_followed_and_all_does_what_it_did_untraced() -> None:
    report = stf("clones", trace=True)
    assert report.failures == []
    first, _, resubmitted, multicast, no_group = (path.text for path in report.paths[:5])
    assert "  cloned: session 3 to port 3\n" in first
    assert "  copy 1: egress of port 3, ingress clone: waited 0 us" in first
    assert "  copy 1: sent at port 3, 28 bytes" in first
    assert resubmitted.count("  resubmitted: to the parser again, 28 bytes\n") == 3
    endless = report.paths[10].text
    assert endless.count("  recirculated: to the parser again, 28 bytes\n") == 256
    assert endless.splitlines()[-1] == "  dropped (egress): recirculated 256 times"
    assert "multicast: group 7 to port 1 (egress_rid 10), port 2 (egress_rid 10)" in multicast
    assert "  copy 4: sent at port 3, 28 bytes" in multicast
    assert no_group.splitlines()[-1] == "  dropped (ingress): no multicast group 8"
    (short,) = (path.text for path in report.paths if ", 16 bytes\n" in path.text.split("  ", 1)[0])
    assert "  parser error PacketTooShort at byte 14\n" in short


def test_a_failed_expectation_shows_the_path_of_its_packet() -> None:
    sent = "\npacket 2 080000000200 080000000222 0800 4500001400010000 4011 0000 0a000202 0a000101"
    report = stf("basic", f"{sent}\nexpect 1 ff{sent}\nexpect 2 **\n")
    differs, *_, missing = report.failures
    assert "    sent at port 1, 34 bytes (+0 us)" in differs.lines()
    assert (missing.kind, "sent at port 1" in missing.path) == ("missing", True)
    assert "received at port 2" in report.to_dict()["failures"][0]["path"]


def test_an_entry_is_told_as_it_was_when_it_was_hit() -> None:
    dataplane, control = switch("basic")
    entry = TableEntry("TheIngress.ipv4_lpm", (Lpm(0x0A010000, 16),), FORWARD)
    control.insert_entry(entry)
    control.publish()
    tracer = traced(dataplane, control)
    dataplane.receive(0, 1, [packet("10.1.2.3")], 1000)
    control.delete_entry(entry.table, entry.keys)
    control.publish()
    dataplane.receive(0, 1, [packet("10.1.2.3")], 2000)
    hit, miss = only(Decoder().feed(tracer.take()), "table")
    assert hit["entry"]["key"] == {"hdr.ipv4.dst_addr": "0xa010000/16"}
    assert (miss["hit"], miss["packet"]) == (False, 2)
    dataplane.end_trace(0)
    dataplane.receive(0, 1, [packet("10.1.2.3")], 3000)
    assert len(tracer.take().records) == 0


def test_queues_drops_and_the_bounds_of_a_trace_are_counted() -> None:
    dataplane, control = switch("basic", Queue(rate_bps=1000, limit_packets=1))
    control.insert_entry(TableEntry("TheIngress.ipv4_lpm", (Lpm(0, 0),), FORWARD))
    control.publish()
    tracer = traced(dataplane, control, 3)
    dataplane.receive(0, 1, [packet("10.1.2.3")] * 5, 1000)
    taken = tracer.take()
    assert (taken.packets, taken.passed, taken.lost) == (3, 2, 0)
    decoder = Decoder()
    events = decoder.feed(taken)
    (drop,) = only(events, "dropped")
    assert (drop["packet"], drop["where"], drop["queue_packets"]) == (3, "queue", 1)
    dataplane.transmit(10**10)
    later = decoder.feed(tracer.take())
    assert [event["packet"] for event in only(later, "egress")] == [2]
    assert only(later, "egress")[0]["waited_us"] > 0
    with pytest.raises(InputError, match="is traced already"):
        dataplane.start_trace(Tracer(control))
    with pytest.raises(InputError, match="one or more"):
        Tracer(control, 0)


VALUES = """    I.n = 0x0
    register I.seen[2] is 0x0
    I.n = 0x0
    I.n = 0x1
    register I.seen[2] = 0x1
    userMetadata.wide = 0x10000000000000000000000000000005
    register I.wides[1] = 0x10000000000000000000000000000005
    register I.wides[2]: there is no such cell; it has 2, from 0 on
    userMetadata.minus = 0xfd
    s[1].v = 0x2
    h.b = 0x7"""


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_values_of_registers_metadata_and_fields_are_told(
    tmp_path: Path, is_compiled: bool
) -> None:
    program = compiled(
        tmp_path,
        types="header h_t { bit<8> a; bit<8> b; } header s_t { bit<8> v; }",
        headers="h_t h; s_t[2] s;",
        metadata="bit<8> x; bit<160> wide; int<8> minus;",
        parser="state start { packet.extract(hdr.h); packet.extract(hdr.s.next);"
        " packet.extract(hdr.s.next); meta.x = hdr.h.a; transition accept; }",
        locals="register<bit<16>>(4) seen; register<bit<160>>(2) wides;",
        ingress="""bit<16> n = 0; seen.read(n, (bit<32>)hdr.h.a); n = n + 1;
            seen.write((bit<32>)hdr.h.a, n);
            meta.wide = 5 + (160w1 << 124); wides.write(1, meta.wide); wides.write(2, meta.wide);
            meta.minus = -3; hdr.s[hdr.h.a[1:1]].v = hdr.h.a; hdr.h.b = 7;""",
    )
    test = parse_test("packet 1 0200 0809\nexpect 0 0207 0802 $", "t.stf")
    report = run_test(test, program.bmv2_json, trace=True, compiled=is_compiled)
    assert report.failures == []
    text = report.paths[0].text
    assert "    userMetadata.x = 0x2\n  parser ends" in text
    assert VALUES in text


def test_the_ordinary_form_of_a_program_knows_nothing_of_traces() -> None:
    assert "note" not in generate(read_program(program("clones")))


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 7), st.binary(min_size=0, max_size=90)), max_size=8))
def test_a_traced_switch_forwards_as_one_that_is_not_and_tells_what_left(
    frames: list[tuple[int, bytes]],
) -> None:
    outcomes = []
    for is_traced in (False, True):
        dataplane, control = switch("clones")
        control.insert_entry(TableEntry("MyIngress.t", (Exact(1),), ActionCall("MyIngress.again")))
        control.publish()
        tracer = traced(dataplane, control) if is_traced else None
        for port, frame in frames:
            dataplane.receive(0, port, [frame], 1000)
        outcomes.append([(one.port, one.frame) for one in dataplane.transmit(2000)])
    assert outcomes[0] == outcomes[1]
    assert tracer is not None
    events = Decoder().feed(tracer.take())
    told = sorted((event["port"], event["bytes"]) for event in only(events, "sent"))
    assert told == sorted((port, len(frame)) for port, frame in outcomes[1])
    assert len(only(events, "received")) >= len(frames)
    assert packets_text(events).count("\n") == len(events)
    assert "tbl_" not in packets_text(events)
    assert [json.loads(line) for line in json_lines(events).splitlines()] == events
    assert all(log_line(event).startswith("[") for event in events)
