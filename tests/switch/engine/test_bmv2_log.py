"""Packets' ways in the words of BMv2's log, which tools look for."""

from __future__ import annotations

from pathlib import Path

from weft.switch.commands.stf import load_program
from weft.switch.engine.control.entities import ActionCall, Lpm, TableEntry
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.bmv2_log import bmv2_lines
from weft.switch.engine.trace.decoder import Decoder
from weft.switch.engine.trace.tracer import Tracer

BASIC = Path(__file__).resolve().parents[2] / "stf" / "basic.p4"
FRAME = bytes.fromhex("08000000010008000000011108004500001600010000401100000a0001010a0002020000")


def test_a_packet_that_is_routed_and_one_that_is_dropped() -> None:
    dataplane = Dataplane(1, 8, plain=True)
    for port in range(8):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0, "s1")
    control.load_program(load_program(BASIC, [], {}), load="save")
    control.commit_program()
    route = ActionCall("TheIngress.ipv4_forward", (0x80000000222, 2))
    control.insert_entry(TableEntry("TheIngress.ipv4_lpm", (Lpm(0x0A000200, 24),), route))
    control.publish()
    tracer = Tracer(control, 10)
    dataplane.start_trace(tracer)
    dataplane.receive(0, 1, [FRAME, FRAME[:32] + b"\x0a" + FRAME[33:]], 0)
    dataplane.transmit(1 << 40)
    lines = [line for event in Decoder().feed(tracer.take()) for line in bmv2_lines(event)]
    own = [line for line in lines if line.startswith(lines[0].split(".")[0] + ".")]
    told = [line.partition(" [cxt 0] ")[2] for line in own]
    wanted = [
        "Processing packet received on port 1",
        "Parser 'parser': start",
        "Parser 'parser' entering state 'start'",
        "Extracting header 'ethernet'",
        "Parser 'parser' entering state 'parse_ipv4'",
        "Extracting header 'ipv4'",
        "Parser 'parser': end",
        "Pipeline 'ingress': start",
        "Looking up key:\n* hdr.ipv4.dst_addr   : a000202",
        "Table 'TheIngress.ipv4_lpm': hit with handle 0",
        "Action entry is TheIngress.ipv4_forward - 80000000222,2,",
        "Pipeline 'ingress': end",
        "Egress port is 2",
        "Pipeline 'egress': start",
        "Pipeline 'egress': end",
        "Deparser 'deparser': start",
        "Deparser 'deparser': end",
        "Transmitting packet of size 36 out of port 2",
    ]
    assert [line for line in told if line in wanted] == wanted
    others = {line.partition(" [cxt 0] ")[2] for line in lines if line not in own}
    assert "Table 'TheIngress.ipv4_lpm': miss" in others
    assert any(line.startswith("Dropping packet at the end of ingress") for line in others)
