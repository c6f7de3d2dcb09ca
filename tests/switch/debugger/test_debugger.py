"""The debugger: where it stops, what it shows, and what comes of what is changed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from weft.base.errors import InputError
from weft.switch.commands.debug import debug_at_terminal, load
from weft.switch.commands.stf import load_program, run_tests
from weft.switch.debugger.debugger import Debugger
from weft.switch.debugger.packets import DebuggedTest

ROOT = Path(__file__).resolve().parents[3]
STF = ROOT / "tests" / "stf"
FRAME = "08000000010008000000011108004500001600010000401100000a0001010a000202aabb"


def opened(name: str = "basic", *, test: bool = True) -> tuple[DebuggedTest, Debugger]:
    return load(STF / f"{name}.p4", STF / f"{name}.stf" if test else None, [], [], {})


def single(*packets: str) -> tuple[DebuggedTest, Debugger]:
    return load(STF / "basic.p4", None, packets, [], {})


def said(commands: str, both: tuple[DebuggedTest, Debugger], capsys: pytest.CaptureFixture[str],
         status: int = 0) -> list[str]:  # fmt: skip
    assert debug_at_terminal(*both, io.StringIO(commands)) == status
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["basic", "clones", "firewall", "language", "every_command"])
def test_a_test_comes_to_the_same_step_by_step_as_on_the_switch(name: str) -> None:
    program, test = STF / f"{name}.p4", STF / f"{name}.stf"
    (outcome,) = run_tests(
        program, load_program(program, [], {}), [test], compiled=False, strict=False
    )
    source, debugger = opened(name)
    stops = 0
    while debugger.resume("in").reason != "end":
        stops += 1
    assert stops > 10
    assert source.report is not None and outcome.report is not None
    assert source.report.to_dict() == outcome.report.to_dict()
    assert source.report.passed


def test_it_stops_at_lines_states_tables_and_actions() -> None:
    _, debugger = single(f"1:{FRAME}")
    for place in ("36", "basic.p4:74", "start", "ipv4_lpm", "action drop", "egress", "deparser"):
        debugger.breakpoints.add_text(place)
    stops = []
    while (stop := debugger.resume("continue")).reason == "breakpoint":
        stops.append((stop.breakpoints, debugger.stack[-1].name, debugger.stack[1].name))
    assert stops == [
        ((3,), "start", "parser"),
        ((1,), "start", "parser"),
        ((2,), "node_0", "ingress"),
        ((4,), "TheIngress.ipv4_lpm", "ingress"),
        ((5,), "TheIngress.drop", "ingress"),
    ]


def test_steps_go_into_actions_over_them_and_out_of_them() -> None:
    _, debugger = single(f"1:{FRAME}", f"1:{FRAME}")
    debugger.breakpoints.add_text("ipv4_lpm")
    debugger.resume("continue")
    debugger.resume("in")
    assert [frame.name for frame in debugger.stack[1:]] == [
        "ingress", "TheIngress.ipv4_lpm", "TheIngress.drop",
    ]  # fmt: skip
    debugger.resume("in")
    assert str(debugger.line) == "basic.p4:56"
    packet = debugger.packet
    debugger.resume("out")  # the packet is dropped, so the next place is in another one
    assert debugger.packet is not packet
    debugger.resume("continue")
    debugger.resume("over")
    assert debugger.ended is False or not debugger.stack


def test_a_field_that_is_changed_leads_to_another_entry(capsys: pytest.CaptureFixture[str]) -> None:
    commands = """break ipv4_lpm
continue
set hdr.ipv4.dst_addr = 0x0a000101
print hdr.ipv4.dst_addr == 0x0a000101 && hdr.ipv4.isValid()
step
print port
set port = 5
delete
finish
continue
"""
    lines = said(commands, opened(), capsys, status=1)
    assert "true" in lines and "0x001 (1)" in lines
    assert "  sent at port 5, 36 bytes" in lines
    assert any("basic.stf: " in line and "failures" in line for line in lines)


def test_what_a_packet_holds_is_told_by_the_names_of_the_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = """break 146
break 101
continue
headers
metadata
locals
where
list
p meta.loops
p hdr.tag
p hdr
p hdr.tag.kind
p (bit<4>) hdr.tag.b[7:0] + 1
"""
    lines = said(commands, opened("clones"), capsys)
    assert sum(line.startswith("hdr.tag = {kind = ") for line in lines) == 2  # headers, p hdr
    assert any(line.startswith("meta.loops = ") for line in lines)
    assert any("packet at ingress" in line and line[0] == "#" for line in lines)
    assert any(line.startswith(">") for line in lines)


def test_conditions_decide_whether_a_breakpoint_stops() -> None:
    _, debugger = opened()
    debugger.breakpoints.add_text("ipv4_lpm if hdr.ipv4.dst_addr == 0x0a000901")
    assert debugger.resume("continue").reason == "breakpoint"
    assert debugger.view.read(debugger.view.find("hdr.ipv4.dst_addr")) == 0x0A000901
    assert debugger.breakpoints.all[1].hits == 1


def test_an_endless_program_can_be_paused() -> None:
    _, debugger = single(f"1:{FRAME}")
    debugger.paused = lambda: True
    assert debugger.resume("continue").reason == "pause"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("break nowhere", "no line, state, table, action or block 'nowhere'"),
        ("break 99999", "has no code at line 99999"),
        ("break x.p4:3", "nothing of 'x.p4' runs; files of the program are: basic.p4"),
        ("break start if (", "is no expression of P4"),
        ("delete 7", "there is no breakpoint 7; there are: none"),
        ("delete x", "a breakpoint has a number, not 'x'"),
        ("print 1", "no packet is stopped"),
        ("fly", "there is no command 'fly'"),
        ("send 1 xyz", "is no packet: PORT HEX"),
        ("send 9999 00", "is no packet: PORT HEX"),
        ("set x", "set NAME = EXPRESSION"),
        ("trace maybe", "trace on, or trace off"),
        ("registers r", "the program's registers: none"),
        ("step\nstep\nprint nothing", "there is no 'nothing' here"),
        ("step\nprint hdr.ipv4", ""),
        ("step\nprint 1 / 0", "a division by 0"),
        ("step\nprint f(1)", "a debugger's expression has names"),
        ("step\nset hdr.ipv4.ttl = 256", "256 does not fit: ttl has 8 bits, 0 to 255"),
        ("step\nset hdr.ipv4 = 3", "is a header: set it to true"),
        ("step\nset 3 = 3", "cannot be set"),
    ],
)
def test_what_is_wrong_is_said_and_the_debugger_goes_on(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(f"{command}\ncontinue\n", opened(), capsys)
    assert message in "\n".join(lines)
    assert any("passed" in line for line in lines)


def test_single_packets_are_sent_between_those_of_a_test(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = said(
        f"send 7 {FRAME}\ncontinue\nsend 6 {FRAME}\ncontinue\ncontinue\n", opened(), capsys
    )
    assert lines[0] == "  received at port 7, 36 bytes"
    assert "  received at port 6, 36 bytes" in lines
    assert lines[-2].startswith("weft: there is no packet left")


def test_registers_keep_what_packets_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = opened("every_command")
    lines = said("continue\nregisters " + next(iter(both[0].memory.registers)) + "\n", both, capsys)
    assert any("[0] = " in line for line in lines)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="is no packet"):
        single("1")
    with pytest.raises(InputError, match="cannot read"):
        load(STF / "absent.json", None, [], [], {})
