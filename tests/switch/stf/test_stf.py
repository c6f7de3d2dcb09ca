"""Packet tests in the STF format: the reader, the comparison, and Weft's own programs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.compiler_support import compiled

from weft.base.errors import InputError
from weft.switch.compiler import compile_cached
from weft.switch.stf import Report, read_test, run_test
from weft.switch.stf.reader import RULES, parse_test
from weft.switch.stf.report import Output, compare_port
from weft.switch.stf.statements import Expect, SendPacket, TextPlace

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "stf"
PROGRAM = FOLDER / "every_command.p4"
NOWHERE = TextPlace("t.stf", 1, 1, "")


@lru_cache(maxsize=4)
def program(path: Path = PROGRAM) -> str:
    return compile_cached(path).json.read_text("utf-8")


def run(text: str, *, strict: bool = False) -> Report:
    return run_test(parse_test(text, "t.stf"), program(), strict=strict)


def messages(text: str, *, strict: bool = False) -> list[str]:
    """What failures say, without the paths of their packets (test_trace.py has those)."""
    failures = run(text, strict=strict).failures
    return ["\n".join(replace(failure, path="").lines()) for failure in failures]


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        run(text)
    return str(caught.value)


def weft(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", "stf", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)


def test_every_statement_does_what_it_says() -> None:
    text = (FOLDER / "every_command.stf").read_text()
    report = run(text)
    assert [failure.lines() for failure in report.failures] == []
    assert report.warnings == []
    assert (report.packets, report.expectations) == (text.count("\npacket"), 48)


@pytest.mark.parametrize("name", ["accepted", "basic", "clones", "firewall", "language"])
def test_a_program_does_what_its_packet_test_says(name: str) -> None:
    source = FOLDER / f"{name}.p4"
    report = run_test(read_test(source.with_suffix(".stf")), program(source), strict=True)
    assert [failure.lines() for failure in report.failures] == []
    assert report.warnings == []


def test_the_fabric_does_what_its_packet_tests_say() -> None:
    text = program(ROOT / "p4" / "fabric.p4")
    for test in sorted((FOLDER / "fabric").glob("*.stf")):
        report = run_test(read_test(test), text, strict=True)
        assert [failure.lines() for failure in report.failures] == []
        assert report.warnings == []


def test_the_fabrics_aggregation_does_what_its_packet_test_says() -> None:
    files = compile_cached(ROOT / "p4" / "fabric.p4", defines={"AGGREGATION_VALUES": "16"})
    test = read_test(FOLDER / "aggregation" / "root.stf")
    report = run_test(test, files.json.read_text("utf-8"), strict=True)
    assert [failure.lines() for failure in report.failures] == []
    assert (report.packets, report.warnings) == (10, [])


def test_a_packet_that_differs_is_shown_beside_what_was_expected() -> None:
    text = (
        "add exact kind:1 a:2 send(port:1)\n"
        "packet 0 0102 0304 05060708 00112233445566778899aabbccddeeff00\n"
        "expect 1 0102 03*4 05060708 00112233445566770899aabbccddeeff\n"
    )
    assert messages(text) == [
        "t.stf:3: packet 1 at port 1 differs at byte 16 (sent by line 2)\n"
        "     3 | expect 1 0102 03*4 05060708 00112233445566770899aabbccddeeff\n"
        "  0000  expected  01 02 03 *4 05 06 07 08 00 11 22 33 44 55 66 77\n"
        "        got       01 02 03 04 05 06 07 08 00 11 22 33 44 55 66 77\n"
        "  0010  expected  08 99 aa bb cc dd ee ff\n"
        "        got       88 99 aa bb cc dd ee ff 00\n"
        "                  ^                       ^^"
    ]


def test_length_counts_only_where_it_is_asked_for() -> None:
    entry = "add exact kind:1 send(port:1)\npacket 0 0100000000000000aabb\n"
    assert messages(entry + "expect 1 0100") == []
    assert messages(entry + "expect 1") == []
    assert messages(entry + "expect 1 0100000000000000AABB$") == []
    (longer,) = messages(entry + "expect 1 0100000000000000aa $")
    assert "is too long: 10 bytes, expected are exactly 9" in longer
    (shorter,) = messages(entry + "expect 1 0100000000000000aabb**")
    assert "is too short: 10 bytes, expected are at least 11" in shorter


def test_an_entry_that_matches_anything_is_removed_by_its_priority() -> None:
    report = run(
        "add by_range 5 send(port:3)\npacket 0 0400001400000000\nexpect 3 04000014\n"
        "del by_range 5\npacket 0 0400001400000000\nexpect 0 04000014\n"
    )
    assert [failure.lines() for failure in report.failures] == []
    assert report.warnings == []


def test_of_a_long_path_the_ends_are_shown() -> None:
    path = "\n".join(f"step {number}" for number in range(5000))
    outputs = [Output(1, b"\0", SendPacket(NOWHERE, 0, b"\0"), path)]
    (failure,) = compare_port(1, [Expect(NOWHERE, 1, "01", exact=False)], outputs)
    shown = failure.lines()
    assert len(shown) < 220
    assert "  step 0" in shown
    assert "  ... 4800 more lines, which --trace shows ..." in shown
    assert shown[-1] == "  step 4999"


def test_what_is_missing_and_what_is_unexpected_is_found_in_order() -> None:
    text = (
        "add exact kind:1 send(port:1)\n"
        "expect 1 010000aa\nexpect 1 010000bb\nexpect 1 010000cc\n"
        "packet 0 010000aa00000000\npacket 0 010000cc00000000\npacket 0 010000dd00000000\n"
        "packet 1 0000000000000000\nexpect 4\n"
    )
    found = run(text).failures
    assert [(failure.kind, failure.place.line, failure.port) for failure in found] == [
        ("missing", 3, 1),
        ("unexpected", 7, 1),
        ("missing", 9, 4),
    ]
    assert found[1].to_dict()["got"] == "010000dd00000000"


def test_ports_that_no_statement_names_count_only_when_asked_for() -> None:
    text = "add exact kind:1 send(port:8)\npacket 0 0100000000000000\n"
    report = run(text)
    assert report.passed
    assert "a packet left at port 8, which no statement names" in report.warnings[0]
    (failure,) = run(text, strict=True).failures
    assert (failure.kind, failure.port, failure.place.line) == ("unexpected", 8, 2)
    assert run(text + "packet 8 ff").failures[0].port == 8


def test_counters_and_registers_that_differ_say_by_how_much() -> None:
    text = "check_counter arrivals(2) packets >= 3\ncheck_register memory(0) != 0\n"
    assert [failure.message for failure in run(text).failures] == [
        "counter TheIngress.arrivals(2) in packets is 0, expected >= 3",
        "register TheIngress.memory(0) is 0, expected != 0",
    ]


def test_what_bmv2_refuses_is_a_warning_and_the_test_goes_on() -> None:
    report = run("add exact kind:1 drop()\nadd exact kind:1 send(port:1)\nmc_mgrp_create 1\n")
    assert report.passed
    (warning,) = report.warnings
    assert "t.stf:2:1: warning" in warning
    assert "already; the test goes on without it" in warning


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("frob 1", "t.stf:1:1: error: 'frob' is no statement: expected add, setdefault"),
        ("add exact kind:1 send(port:1", "t.stf:1:29: error: add is not whole; expected "),
        ("packet 0 0x12", "t.stf:1:10: error: packet: unexpected '0x12'; expected "),
        ("packet 0 123", "3 hex digits are no whole number of bytes"),
        ("packet 512 00", "port 512: ports are 0 to 511"),
        ("expect 1 $ 12", "expect: unexpected '12'; expected the end of the statement"),
        ("wait\n  oops", "t.stf:2:3: error: wait: unexpected 'oops'"),
        ("check_counter arrivals(0) packets = 1", "expected ==, !=, <, <=, > or >="),
        ("add exakt kind:1 drop()", "no table 'exakt' (did you mean 'TheIngress.by_exact'?);"),
        ("add by_ kind:1 drop()", "has no table 'by_'"),
        ("add y_exact kin:1 drop()", "has no key field 'kin'; it has: hdr.head.kind (exact, 8 b"),
        ("add exact kind:1 fly()", "has no action 'fly'"),
        ("add exact kind:1 send(ports:1)", "no parameter 'ports'; it has: port (9 bits)"),
        ("add exact kind:1 send()", "is not given 'port'; its parameters are port (9 bits)"),
        ("add exact kind:1 send(1, 2)", "has 1 parameters: port (9 bits)"),
        ("add exact kind:1 send(port:0x200)", "has 9 bits: 0x200 does not fit"),
        ("add exact kind:256 drop()", "has 8 bits: 0x100 does not fit, the greatest is 0xff"),
        ("add exact kind:0x1* drop()", "takes no '*'"),
        ("add exact kind:1/4 drop()", "is exact: '/' is for lpm and ternary"),
        ("add by_prefix c:10.0.0.1/8 drop()", "has bits beyond its prefix of 8 of 32 bits"),
        ("add by_prefix c:10.0.0.0/33 drop()", "has 32 bits: a prefix of 33 is too long"),
        ("add by_range b:9..8 drop()", "the range 9..8 is empty"),
        ("remove one", "no entry is called 'one'; named are: none"),
        ("check_counter hits(0) packets == 1", "has 0 entries: there is none 0"),
        ("check_counter arrivals(4) packets == 1", "has cells 0 to 3, not 4"),
        ("register_read memory 4", "has cells 0 to 3, not 4"),
        ("register_write memory 0 0x100000000", "has cells of 32 bits"),
        ("register_read memry 4", "no register 'memry' (did you mean 'TheIngress.memory'?)"),
        ("mc_node_associate 1 0", "there is no multicast node 0; nodes are: none"),
        ("mirroring_get 3", "there is no mirroring session 3"),
        ("meter_set_rates pace 0 1:1", "takes two pairs of RATE:BURST"),
        ("add by_selector a:1 member(m)", "has no member 'm'; named are: none"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place_and_what_would_do(text: str, said: str) -> None:
    assert said in refusal(text)


def test_everything_that_is_wrong_with_the_text_is_said_at_once() -> None:
    assert refusal("packet 0 0\nwait\nexpect x\n").count("error:") == 2
    many = refusal("packet 0 0\n" * 30)
    assert many.count("error:") == 10 and "... and 20 more errors in " in many


def test_the_command_ends_with_0_1_and_2_and_gives_json(tmp_path: Path) -> None:
    (tmp_path / "bad.stf").write_text("packet 0 0x1\n")
    (tmp_path / "fails.stf").write_text("packet 0 0100000000000000\nexpect 3 01 $\n")
    shutil.copy(PROGRAM, tmp_path / "every_command.p4")
    shutil.copy(PROGRAM.with_suffix(".stf"), tmp_path)
    alone = weft(tmp_path / "every_command.p4")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "33 packets sent, 48 expectations" in alone.stdout
    failed = weft("--json", PROGRAM, tmp_path / "fails.stf", tmp_path / "every_command.stf")
    document = json.loads(failed.stdout)
    assert failed.returncode == 1
    assert [test["passed"] for test in document["tests"]] == [False, True]
    assert document["tests"][0]["failures"][0]["line"] == 2
    wrong = weft(PROGRAM, tmp_path / "bad.stf", tmp_path / "fails.stf")
    assert wrong.returncode == 2
    assert "bad.stf:1:10: error" in wrong.stderr
    assert weft(PROGRAM, tmp_path / "none.stf").returncode == 2
    (tmp_path / "alone.json").write_text("{}")
    assert "there is no '" in weft(tmp_path / "alone.json").stderr
    told = weft(tmp_path / "alone.json", tmp_path / "fails.stf")
    assert (told.returncode, told.stdout) == (2, "")
    assert "alone.json: the program is not BMv2 JSON" in told.stderr


frames = st.lists(st.binary(min_size=1, max_size=3), max_size=6)


@given(frames, st.data())
def test_frames_are_as_expected_exactly_if_all_digits_that_are_given_are(
    sent: Sequence[bytes], data: st.DataObject
) -> None:
    packet = SendPacket(NOWHERE, 0, b"")
    outputs = [Output(1, frame, packet) for frame in sent]
    expected = []
    for frame in sent:
        digits = list(frame.hex())
        for place in data.draw(st.sets(st.integers(0, len(digits) - 1))):
            digits[place] = "*"
        expected.append(Expect(NOWHERE, 1, "".join(digits), data.draw(st.booleans())))
    assert compare_port(1, expected, outputs) == []
    longer = [Output(1, frame + b"\0", packet) for frame in sent]
    found = compare_port(1, expected, longer)
    assert bool(found) == any(expect.exact for expect in expected)
    if sent:
        assert compare_port(1, expected[1:], outputs)
        assert compare_port(1, expected, outputs[:-1])


words = st.one_of(
    st.sampled_from([*RULES, "t", "a.b", "x:1", "act(", "p:0x1*", ")", "=", "0x", "$", "*", "12"]),
    st.text(max_size=4),
)


@given(st.lists(st.lists(words, max_size=6).map(" ".join), max_size=4).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_test(text, "t.stf")
    except InputError as error:
        assert "t.stf:" in str(error)


@pytest.mark.parametrize("statement", ["assert(hdr.h.a == 8);", "assume(hdr.h.a == 8);"])
def test_an_assertion_that_does_not_hold_is_a_failure_with_its_place(
    statement: str, tmp_path: Path
) -> None:
    made = compiled(tmp_path, ingress=f"sm.egress_spec = 1; {statement}")
    text = "packet 0 08000000\nexpect 1 08\npacket 0 09000000\nexpect 1 09\n"
    report = run_test(parse_test(text, "t.stf"), made.bmv2_json, trace=True)
    (failure,) = report.failures
    assert (failure.kind, failure.place.line) == ("assertion", 3)
    assert "an assertion of the program failed on this packet" in failure.message
    said = f"assertion failed: {statement.rstrip(';')} (program.p4:14)"
    first, second = (path.text for path in report.paths)
    assert said in failure.path and said in second and "assertion failed" not in first
