"""Debugging a switch that forwards: its packets stop, are changed, go on; and it has them again
however the debugger ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from tests.support.bmv2_support import loaded
from tests.support.debug_editor import Editor
from tests.support.emulated_support import wait_until

from weft.base.errors import InputError, RunError
from weft.switch.commands.attach import attach
from weft.switch.commands.stf import load_program
from weft.switch.compiler import compile_program
from weft.switch.debugger import attached
from weft.switch.debugger.attached import AttachedSwitch
from weft.switch.debugger.debugger import WAITING
from weft.switch.engine.control.entities import (
    ActionCall,
    DigestEvent,
    Exact,
    IdleTimeout,
    Lpm,
    MeterConfig,
    PacketIn,
    TableEntry,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.interpreter.steps import Step
from weft.switch.realtime.config import config_of
from weft.switch.realtime.process import SwitchProcess
from weft.switch.realtime.statistics import StatisticsSocket

STF = Path(__file__).resolve().parents[2] / "stf"
CPU = 63
HEAD = "08000000010008000000011108004500001600010000"
DEADLINE_S = 60


def frame(number: int, ttl: int = 64) -> bytes:
    return bytes.fromhex(f"{HEAD}{ttl:02x}1100000a0001010a000202{number:04x}")


class Network:
    """Two switches of one process, joined by a patch link: what their controllers send to the first
    one leaves at the second one, to its controller."""

    def __init__(self, folder: Path) -> None:
        def switch(name: str, number: int, far: str) -> dict[str, Any]:
            ports = [{"port": 1, "patch": [far, 1]}]
            return {"name": name, "device_id": number, "address": "unix:/x", "ports": ports,
                    "cpu_port": CPU}  # fmt: skip

        switches = [switch("a", 1, "b"), switch("b", 2, "a"), switch("c", 3, "d")]
        switches.append(switch("d", 4, "c"))
        self.process = SwitchProcess(config_of({"switches": switches}, "the test"))
        self.process.start()
        text = load_program(STF / "basic.p4", [], {})
        for control, port in zip(self.process.controls, (1, CPU), strict=False):
            control.load_program(text, load="save")
            control.commit_program()
            call = ActionCall("TheIngress.ipv4_forward", (0x080000000000 + port, port))
            control.insert_entry(TableEntry("TheIngress.ipv4_lpm", (Lpm(0x0A000200, 24),), call))
            control.publish()
        self.path = folder / "s.sock"
        self.socket = StatisticsSocket(self.process, str(self.path))

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.process.packet_out(0, frame(number))

    def received(self, count: int) -> list[bytes]:
        """So many frames that have left."""
        found: list[bytes] = []

        def enough() -> bool:
            events = self.process.controls[1].take_events()
            found.extend(one.frame for one in events if isinstance(one, PacketIn))
            return len(found) >= count

        wait_until(enough, f"{count} frames leave")
        return found

    def form(self) -> str:
        return str(self.process.dataplane.form(0)["form"])

    def is_whole(self) -> None:
        """Wait until nothing is debugged, and check that the switches forward."""
        wait_until(lambda: not self.process.dataplane.states[0].debugged, "it has its packets")
        assert not self.process.dataplane.ports.watcher.any()
        assert self.form() == "compiled"
        self.send(7)
        assert [one[-2:] for one in self.received(1)] == [b"\0\7"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    found = Network(tmp_path_factory.mktemp("attached"))
    yield found
    found.socket.close()
    found.process.stop()


class Terminal:
    """One end of a debugger at a terminal."""

    def __init__(self, network: Network, kind: str = "commands", switch: str = "a") -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(str(network.path))
        self.socket.sendall(f"debug {switch} {kind} {STF}\n".encode())
        self.lines = self.socket.makefile("r")
        self.answer = json.loads(self.lines.readline())

    def say(self, *commands: str) -> None:
        self.socket.sendall("".join(f"{one}\n" for one in commands).encode())

    def until(self, wanted: str) -> list[str]:
        """The lines up to one that has a text in it."""
        found: list[str] = []
        while True:
            line = self.lines.readline()
            assert line, f"{wanted!r} is not in {found}"
            found.append(line.rstrip("\n"))
            if wanted in line:
                return found

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def test_a_packet_of_a_switch_that_forwards_stops_is_changed_and_goes_on(network: Network) -> None:
    terminal = Terminal(network)
    assert terminal.answer == {}
    assert network.form() == "plain"
    terminal.say("break ipv4_lpm", "continue", "print hdr.ipv4.ttl", "set hdr.ipv4.ttl = 9",
                 "next", "delete", "continue")  # fmt: skip
    network.send(1)
    said = terminal.until("sent at port 1")
    assert "0x40 (64)" in said and "0x09 (9)" in said
    assert f"packet at ingress, port {CPU} > ingress > TheIngress.ipv4_lpm" in said
    assert "basic.p4:66: table ipv4_lpm {" in said
    (left,) = network.received(1)
    assert left[22] == 7 and left[-2:] == b"\0\1"  # two switches have taken one away each
    assert network.process.dataplane.form(0)["plain_packets"] == 1
    terminal.say("", "quit")
    assert terminal.until("again")[-1] == "a has its packets again"
    assert terminal.lines.readline() == ""
    terminal.close()
    network.is_whole()


@pytest.mark.parametrize("ending", ["closed", "shut"])
def test_however_the_debugger_ends_packets_that_wait_go_on_in_order(
    network: Network, ending: str
) -> None:
    before = network.process.dataplane.statistics(0, CPU)
    terminal = Terminal(network)
    terminal.say("break egress", "continue")
    network.send(1, 2, 3)
    terminal.until("breakpoint 1: block egress, hit")
    if ending == "closed":
        terminal.close()
    else:
        terminal.socket.shutdown(socket.SHUT_WR)
        assert terminal.until("again")
    assert [one[-1] for one in network.received(3)] == [1, 2, 3]
    after = network.process.dataplane.statistics(0, CPU)
    assert after.rx_packets - before.rx_packets == 3
    assert after.rx_bytes - before.rx_bytes == 3 * len(frame(1))
    terminal.close()
    network.is_whole()


def test_an_empty_line_stops_to_wait_and_another_packet_can_be_sent(network: Network) -> None:
    terminal = Terminal(network, "terminal")
    terminal.say("continue", "", "headers", f"send {CPU} {frame(5).hex()}", "send 4 aa", "step",
                 "continue")  # fmt: skip
    said = terminal.until("sent at port 1")
    assert "(p4) no packet is here" in said
    assert any("no packet is stopped" in line for line in said)
    assert any("the switch has no port 4" in line for line in said)
    assert any("> parser > start" in line for line in said)
    assert [one[-1] for one in network.received(1)] == [5]
    terminal.say("", "detach")
    terminal.until("again")
    terminal.close()
    network.is_whole()


def test_what_cannot_be_debugged_is_refused(network: Network) -> None:
    first = Terminal(network)
    for switch, kind, wanted in (
        ("a", "commands", "switch 'a' is debugged already"),
        ("b", "page", "a debugger is one of terminal, commands, dap, not 'page'"),
        ("c", "dap", "switch 'c' has no program yet"),
        ("x%20y", "dap", "there is no switch 'x y'; there are: a, b, c, d"),
        ("a dap", "dap", "debug SWITCH KIND FOLDER"),
    ):
        refused = Terminal(network, kind, switch)
        assert wanted in refused.answer["error"]
        refused.close()
    with pytest.raises(InputError, match="no switch process answers at"):
        attach(network.path.with_name("none"), "a", dap=False)
    first.close()
    network.is_whole()


def test_packets_without_room_are_counted_as_if_a_queue_were_full(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attached, "MOST_WAITING", 2)
    before = network.process.dataplane.statistics(0, CPU)
    terminal = Terminal(network)
    terminal.say("break start", "continue")
    network.send(1)
    terminal.until("> start")
    network.send(2, 3, 4, 5)
    waits = network.process.dataplane
    wait_until(
        lambda: waits.statistics(0, CPU).queue_drops - before.queue_drops == 2, "two are dropped"
    )
    terminal.say("quit")
    assert terminal.until("again")[-1] == "a has its packets again; 2 packets found no room"
    assert [one[-1] for one in network.received(3)] == [1, 2, 3]
    terminal.close()
    network.is_whole()


def test_an_editor_attaches(network: Network) -> None:
    terminal = Terminal(network, "dap")
    stream = terminal.socket.makefile("rwb", buffering=0)
    editor = Editor(stream, terminal.socket.makefile("rb"))  # type: ignore[arg-type]
    editor.ask("initialize", adapterID="weft")
    editor.ask("attach")
    editor.event("initialized")
    points = editor.ask("setBreakpoints", source={"path": str(STF / "basic.p4")},
                        breakpoints=[{"line": 66}])["breakpoints"]  # fmt: skip
    assert points[0]["verified"]
    editor.ask("configurationDone")
    network.send(3)
    assert editor.event("stopped")["reason"] == "breakpoint"
    assert editor.ask("evaluate", expression="hdr.ipv4.ttl = 4")["result"] == "0x04 (4)"
    editor.ask("setBreakpoints", source={"path": str(STF / "basic.p4")}, breakpoints=[])
    editor.ask("continue", threadId=1)
    (left,) = network.received(1)
    assert left[22] == 2
    assert editor.ask("threads")["threads"]  # answered while there is no packet
    editor.ask("pause", threadId=1)
    network.send(4)
    assert editor.event("stopped")["reason"] == "pause"
    editor.ask("disconnect")
    assert network.received(1)[0][-1] == 4
    stream.close()
    terminal.close()
    network.is_whole()


def test_a_debugger_that_is_killed_leaves_a_switch_that_forwards(network: Network) -> None:
    command = [sys.executable, "-m", "weft", "debug", "--attach", "a", "--socket"]
    process = subprocess.Popen(
        [*command, str(network.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=STF,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write("break ipv4_lpm\ncontinue\n")
        process.stdin.flush()
        assert "breakpoint 1" in process.stdout.readline()
        network.send(1)
        assert "received" in process.stdout.readline()
        assert "breakpoint 1" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        assert network.received(1)[0][-1] == 1
        network.is_whole()
    finally:
        process.kill()
        process.communicate()


PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct sample_t { bit<8> a; bit<72> wide; }
struct meta_t { sample_t sample; bit<2> colour; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(4, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.packets) rate;
    register<int<8>>(4) last;
    direct_counter(CounterType.packets) hits;
    action to(bit<9> port) { s.egress_spec = port; hits.count(); }
    action lose() { mark_to_drop(s); hits.count(); }
    table t {
        key = { h.h.a: exact; } actions = { to; lose; } default_action = lose();
        counters = hits; support_timeout = true;
    }
    apply {
        seen.count(1);
        rate.execute_meter(2, m.colour);
        h.h.b = (bit<8>) m.colour;
        last.write(3, (int<8>) h.h.a);
        m.sample.a = h.h.a;
        m.sample.wide = (bit<72>) h.h.a << 64;
        digest(1, m.sample);
        t.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def remembered(control: SwitchControl) -> list[Any]:
    values = control.values
    keys = (Exact(0x81),)
    return [
        values.read_counters("I.seen"),
        values.read_meter_counts("I.rate", 2),
        [values.read_register("I.last", index) for index in range(4)],
        values.read_direct_counter("I.t", keys),
        values.read_direct_counter("I.t", None),
        [one for one in control.take_events() if isinstance(one, DigestEvent)],
        values.idle_ns("I.t", keys),
        values.state.lookups(),
    ]


def test_packets_leave_the_same_behind_in_the_switch_whoever_runs_the_program(
    tmp_path: Path,
) -> None:
    source = tmp_path / "p.p4"
    source.write_text(PROGRAM)
    text = compile_program(source).bmv2_json
    both = []
    for debugged in (False, True):
        dataplane, control = loaded(text, 5, plain=True)
        control.insert_entry(
            TableEntry("I.t", (Exact(0x81),), ActionCall("I.to", (2,)), idle_timeout_ns=10**9)
        )
        control.values.write_meter("I.rate", 2, MeterConfig(1, 2, 2, 3))
        control.publish()
        switch = AttachedSwitch(dataplane, control)
        if debugged:
            switch.attach()
        frames = []
        for number, first in enumerate((0x81, 0x81, 0x81, 0x81, 5)):
            now_ns = 1000 * number
            dataplane.receive(0, 1, [bytes([first, 0, number])], now_ns)
            steps = switch.steps()
            if debugged:
                passed(steps)
            frames += [one.frame for one in dataplane.transmit(now_ns)]
        both.append((frames, remembered(control), dataplane.statistics(0, 2),
                     dataplane.switches[0].drops.tolist()))  # fmt: skip
        late = 2 * 10**9
        dataplane.transmit(late)
        assert any(isinstance(one, IdleTimeout) for one in control.take_events())
    assert both[0] == both[1]
    assert [one[1] for one in both[0][0]] == [0, 0, 1, 2]


def passed(steps: Iterator[Step]) -> list[str]:
    """The events of the packets that have come."""
    events = (step.event for step in steps)
    return list(takewhile(lambda event: event != WAITING, events))


def test_entries_that_come_meanwhile_are_met_and_another_program_ends_it() -> None:
    text = load_program(STF / "basic.p4", [], {})
    dataplane, control = loaded(text, 5, plain=True)
    switch = AttachedSwitch(dataplane, control)
    switch.attach()
    steps = switch.steps()
    call = ActionCall("TheIngress.ipv4_forward", (1, 2))
    control.insert_entry(TableEntry("TheIngress.ipv4_lpm", (Lpm(0x0A000200, 24),), call))
    for published, last in ((False, "dropped"), (True, "sent")):
        if published:
            control.publish()
        dataplane.receive(0, 1, [frame(1)], 0)
        assert passed(steps)[-1] == last
    control.load_program(text.replace("ipv4_lpm", "other"), load="save")
    control.commit_program()
    with pytest.raises(RunError, match="has got another program"):
        next(steps)
    switch.detach()
    assert not dataplane.ports.watcher.any()
