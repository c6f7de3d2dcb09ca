"""Packets' ways in the words of BMv2's log, which tools look for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.support.bmv2_support import require_bmv2, run_bmv2
from tests.support.sentences import COMMANDS, IN_PORT, PORTS, PROGRAM, sentences, switch

from weft.switch.commands.stf import load_program
from weft.switch.engine.control.entities import ActionCall, Lpm, TableEntry
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.bmv2_log import Bmv2Log
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
    log = Bmv2Log(control.pipelines[0].program)
    lines = [line for event in Decoder().feed(tracer.take()) for line in log.lines(event)]
    own = [line for line in lines if line.startswith(lines[0].split(".")[0] + ".")]
    told = [line.partition(" [cxt 0] ")[2] for line in own]
    wanted = [
        "Processing packet received on port 1",
        "Parser 'parser': start",
        "Parser 'parser' entering state 'start'",
        "Extracting header 'ethernet'",
        "Parser state 'start': key is 0800",
        "Parser 'parser' entering state 'parse_ipv4'",
        "Extracting header 'ipv4'",
        "Parser state 'parse_ipv4' has no switch, going to default next state",
        "Parser 'parser': end",
        "Pipeline 'ingress': start",
        "Looking up key:\n* hdr.ipv4.dst_addr   : 0a000202\n",
        "Table 'TheIngress.ipv4_lpm': hit with handle 0",
        "Dumping entry 0\nMatch key:\n* hdr.ipv4.dst_addr   : LPM       0a000200/24\n"
        "Action entry: TheIngress.ipv4_forward - 80000000222,2,\n",
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
    assert {"Egress port is 511", "Dropping packet at the end of ingress"} < others


ALIKE = re.compile(
    "Processing packet|Parser |Extracting |Exception while|Pipeline |Looking up|Table |Dumping |"
    "Action entry|Cloning packet at|Resubmitting|Multicast requested|Egress port|Dropping packet|"
    "Deparser |Recirculating|Transmitting"
)
"""What BMv2's lines of packets begin with that ours have, too."""
Line = tuple[int, int, str]
"""The number of a packet, of its copy, and what becomes of it."""


def by_packet(lines: Iterable[Line]) -> list[Counter[str]]:
    """The lines that must be alike of each packet, in the order in which packets came."""
    found: dict[int, Counter[str]] = {}
    failed, came = set(), set()
    for packet, copy, text in lines:
        counted = found.setdefault(packet, Counter())
        came |= {(packet, copy)} if text.startswith("Processing") else set()
        failed |= {packet} if text.startswith("Exception") else set()
        if text.startswith(("Parser", "Extracting")) and (packet, copy) not in came:
            continue  # BMv2 parses clones once more
        if ALIKE.match(text):
            counted[re.sub("Priority: .*", "Priority", text)] += 1  # ours is P4Runtime's
    for packet in failed:  # BMv2 tells of what it could not extract
        for text in [text for text in found[packet] if text.startswith("Extracting")]:
            del found[packet][text]
    return [found[packet] for packet in sorted(found)]


def of_bmv2(log: str) -> list[Line]:
    """The lines of packets in BMv2's log."""
    lines: list[list[object]] = []
    told = False
    for line in log.splitlines():
        head = re.match(r"\[[\d:.]+\] \[bmv2\] \[\w\] \[thread \d+\] (.*)", line)
        own = head and re.fullmatch(r"\[(\d+)\.(\d+)\] \[cxt 0\] (.*)", head[1])
        if own:
            lines.append([int(own[1]), int(own[2]), own[3]])
        elif head is None and told:
            lines[-1][2] = f"{lines[-1][2]}\n{line}"
        if head:  # what these two have goes on in further lines
            told = own is not None and own[3].startswith(("Looking up", "Dumping"))
    return [(packet, copy, text) for packet, copy, text in lines]  # type: ignore[misc]


def test_bmv2_says_the_same_of_the_same_packets(tmp_path: Path) -> None:
    require_bmv2()
    text = load_program(PROGRAM, [], {})
    cases = sentences().case
    dataplane, control = switch(text)
    tracer = Tracer(control, 1000)
    dataplane.start_trace(tracer)
    frames = [bytes.fromhex(case.packet) for case in cases]
    for frame in frames:
        dataplane.receive(0, IN_PORT, [frame], 0)
        dataplane.transmit(0)
    log = Bmv2Log(control.pipelines[0].program)
    ours: list[Line] = []
    for event in Decoder().feed(tracer.take()):
        told = [line.partition(" [cxt 0] ")[2] for line in log.lines(event)]
        ours += [(event["packet"], event["copy"], line) for line in told]
    count = sum(len(case.leaves) for case in cases)
    arrivals = {IN_PORT: list(enumerate(frames))}
    run_bmv2(
        tmp_path, text, arrivals, count, COMMANDS, ports=range(PORTS),
        options="--log-console --log-flush -L debug",
    )  # fmt: skip
    theirs = of_bmv2((tmp_path / "bmv2.log").read_text())
    for case, mine, other in zip(cases, by_packet(ours), by_packet(theirs), strict=True):
        assert mine == other, case.text
