"""The interpreter's steps: what they tell, that they wait, and the choices that they leave."""

from __future__ import annotations

from pathlib import Path

from tests.support.compiler_support import compiled
from tests.support.engine_support import configure, packet
from tests.support.interpreter_twin import Twin

from weft.switch.compiler import compile_cached
from weft.switch.engine.control.contents import contents_of
from weft.switch.engine.program.reader import read_program
from weft.switch.engine.switches import Dataplane, Queue
from weft.switch.engine.trace.decoder import Decoder
from weft.switch.engine.trace.text import event_text
from weft.switch.engine.trace.tracer import Tracer
from weft.switch.interpreter.hashes import computed
from weft.switch.interpreter.interpreter import Interpreter, Sent, follow
from weft.switch.interpreter.memory import Memory
from weft.switch.interpreter.steps import PAUSES, Choice

ROOT = Path(__file__).resolve().parents[3]


def interpreter(text: str) -> Interpreter:
    program = read_program(text)
    return Interpreter(program, contents_of(program), Memory.of(program))


def routed() -> tuple[Dataplane, Twin]:
    dataplane = Dataplane(1, 8, packets=64, plain=True)
    for port in range(1, 5):
        dataplane.set_port(0, port, Queue())
    return dataplane, Twin(dataplane, configure(dataplane))


def test_steps_are_told_in_the_words_of_traces_and_with_their_place_in_the_source() -> None:
    text = compile_cached(ROOT / "tests" / "stf" / "basic.p4").json.read_text("utf-8")
    frame = bytes.fromhex("080000000100 080000000111 0800 4500001600010000 4011 0000"
                          "0a000101 0a000202 0000")  # fmt: skip
    dataplane = Dataplane(1, 8, plain=True)
    for port in range(8):
        dataplane.set_port(0, port, Queue())
    control = dataplane.control(0, "s1")
    control.load_program(text, load="save")
    control.commit_program()
    twin = Twin(dataplane, control)
    tracer = Tracer(control, 10)
    dataplane.start_trace(tracer)
    dataplane.receive(0, 1, [frame], 0)
    traced = [event_text(event) for event in Decoder().feed(tracer.take())]
    steps = [step for step in twin.steps(1, frame) if step.event not in PAUSES | {"primitive"}]
    assert [event_text(step.as_event()) for step in steps] == traced
    lines = {step.as_event()["source"] for step in steps if step.event == "assigned"}
    assert lines and all(line.rpartition(":")[2].isdigit() for line in lines)


def test_a_packet_may_be_changed_between_two_steps() -> None:
    _, twin = routed()
    frame = packet("1.2.3.4")
    assert twin.sent(1, frame) == []
    steps = twin.switch.run(1, frame)
    for step in steps:
        if step.event == "condition":
            step.packet.write(("ipv4", "dst"), 0x0A010001)
        if isinstance(step, Sent):
            assert (step.port, step.frame[30:34]) == (2, b"\x0a\x01\0\1")
            break
    else:
        raise AssertionError("it was to be routed")


def test_members_of_a_selector_and_random_numbers_are_choices_of_the_caller() -> None:
    _, twin = routed()
    choices: list[Choice] = []

    def last(choice: Choice) -> int:
        choices.append(choice)
        return len(choice.alternatives) - 1

    left = [step for step in follow(twin.switch.run(1, packet("10.2.0.1")), last)
            if isinstance(step, Sent)]  # fmt: skip
    assert [step.port for step in left] == [4]
    assert choices[0].told["of"] == ["member 2", "member 3", "member 3", "member 4"]
    assert choices[0].usual in range(4)


def test_random_is_a_choice_between_its_bounds(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        types="header h_t { bit<8> a; bit<8> b; }",
        headers="h_t h;",
        parser="state start { packet.extract(hdr.h); transition accept; }",
        ingress="random(hdr.h.b, 8w3, 8w6); sm.egress_spec = 2;",
        deparser="packet.emit(hdr.h);",
    )
    switch = interpreter(program.bmv2_json)
    left = []
    for answer in range(4):
        steps = follow(switch.run(1, b"\1\2tail"), lambda choice: answer)  # noqa: B023
        left += [step.frame for step in steps if isinstance(step, Sent)]
    assert left == [bytes([1, number]) + b"tail" for number in (3, 4, 5, 6)]


def test_hashes_have_their_published_check_values() -> None:
    checks = {"crc16": 0xBB3D, "crc32": 0xCBF43926, "crcCCITT": 0x29B1, "crc_32c": 0xE3069283,
              "crc_16_usb": 0xB4C8, "xmodem": 0x31C3, "crc_8_maxim": 0xA1,
              "crc_64_we": 0x62EC59E3F1A4F00A, "xxh64": 0x8CB841DB40E6AE83}  # fmt: skip
    assert {name: computed(name, b"123456789") for name in checks} == checks
    assert computed("csum16", bytes.fromhex("0001f203f4f5f6f7")) == 0x220D
