"""Header unions, stacks and everything that a parser can do: packet by packet as BMv2 does it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.support.bmv2_support import assert_same, bmv2, compile_with_p4c, require_bmv2, weft

from weft.switch.compiler import compile_program
from weft.switch.engine.control.entities import Exact
from weft.switch.engine.control.state import SwitchControl

PROGRAMS = Path(__file__).resolve().parents[2] / "bmv2_programs"

MOVED_UNIONS = {1, 2, 15, 16}
"""Operations that move a stack of unions: BMv2 keeps what leaves at its end, against P4_16."""
OPERATIONS = [number for number in range(23) if number not in MOVED_UNIONS]


def parsing_frames() -> list[bytes]:
    """For each operation of unions_and_stacks.p4 frames that take each way through its parser."""
    rng = random.Random(5)
    frames: list[bytes] = []
    for operation in OPERATIONS:
        for way in (0, 1, 2, 2, 2, 3, 4, 7, 7, 7):
            if way == 1:
                body = bytes([rng.choice([5, 6])]) + rng.randbytes(rng.randrange(6))
            elif way == 2:
                kinds, values = [1, 2, 0x11, 0x81], [1, 2, 3]
                pairs = [(rng.choice(kinds), rng.choice(values)) for _ in range(rng.randrange(6))]
                body = b"".join(map(bytes, pairs))
            elif way == 7:
                items = [rng.choice([b"\1\x11", b"\2\x22\x22"]) for _ in range(rng.randrange(5))]
                body = b"".join(items) + bytes([rng.choice([0, 9])]) * 3
            else:
                body = rng.randbytes(6 if way else 0)
            argument = rng.choice([0, 8, 16, 24, 1, 2, 3, 9, 400])
            filler = (
                rng.randbytes(rng.randrange(3, 8)) if way in (4, 7) or rng.random() < 0.5 else b""
            )
            head = struct.pack(">BBHII", operation, way, argument, 0, 0)
            frames.append(head + body + filler + b"tail%03d" % len(frames))
    return frames


def test_unions_stacks_and_parsers_do_what_they_do_on_bmv2(tmp_path: Path) -> None:
    require_bmv2()
    source = tmp_path / "program.p4"
    source.write_text((PROGRAMS / "unions_and_stacks.p4").read_text())
    program = compile_with_p4c(source)
    frames = parsing_frames()
    ours = weft(program, frames)
    theirs = bmv2(tmp_path, program, frames, sum(map(len, ours.values())))
    assert_same(ours, theirs)


def loop_frames() -> list[bytes]:
    """Frames for each action of loops_and_switches.p4 and each number of rounds."""
    return [
        struct.pack(">BBHI", operation, rounds, rounds * 7, operation)
        + b"%d-%d" % (operation, rounds)
        for operation in range(7)
        for rounds in (0, 1, 2, 3, 4, 5, 8, 12)
    ]


@pytest.mark.parametrize("compiler", ["p4c", "weft"])
def test_jumps_loops_and_switches_do_what_they_do_on_bmv2(tmp_path: Path, compiler: str) -> None:
    require_bmv2()
    source = tmp_path / "program.p4"
    source.write_text((PROGRAMS / "loops_and_switches.p4").read_text())
    by_p4c = compiler == "p4c"
    program = compile_with_p4c(source) if by_p4c else compile_program(source).bmv2_json
    frames = loop_frames()
    ours = weft(program, frames)
    theirs = bmv2(tmp_path, program, frames, len(frames))
    assert len(ours[2]) == len(frames)
    assert_same(ours, theirs)


def test_a_value_set_takes_packets_its_own_way(tmp_path: Path) -> None:
    source = tmp_path / "program.p4"
    text = (PROGRAMS / "loops_and_switches.p4").read_text()
    text = text.replace("vs: accept;", "vs: chosen;")
    text = text.replace(
        "state start {", "state chosen { h.t.setInvalid(); transition accept; }\n  state start {"
    )
    source.write_text(text)
    program = compile_program(source).bmv2_json
    frames = [struct.pack(">BBHI", operation, 0, 0, 0) + b"end" for operation in (7, 8)]

    def configure(control: SwitchControl) -> None:
        control.set_value_set("P.vs", [(Exact(7),)])

    assert [len(frame) for frame in weft(program, frames)[2]] == [11, 11]
    assert [len(frame) for frame in weft(program, frames, configure)[2]] == [3, 11]
