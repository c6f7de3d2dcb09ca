"""Random programs for PSA, and frames for them, drawn from a seed.

A program is that of the sentences (`tests.support.psa_sentences`) with other statements in its two
controls, which draw what becomes of packets, and so every path is taken.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from tests.support.interpreter_twin import Twin
from tests.support.psa_sentences import IN_PORT, PROGRAM, switch

from weft.switch.compiler import compile_program

FIELDS = {"in_path": 8, "out_path": 8, "in_port": 16, "in_kept": 16, "value": 16, "class": 8}
FRAMES = 24
MOST_DEPTH = 3


class RandomSwitch:
    """A program's source and frames; a tame one does nothing that psa_switch does otherwise."""

    def __init__(self, seed: int, *, tame: bool = False) -> None:
        self.random, self.tame = Random(seed), tame
        text = PROGRAM.read_text()
        ingress = f"send_to_port(ostd, (PortId_t) 1); {self._control('ingress')}"
        egress = self._control("egress")
        text = re.sub(r"if \(op == 1\) \{ .*?\n    \}\n\}", f"{ingress}\n    }}\n}}", text, count=1,
                      flags=re.DOTALL)  # fmt: skip
        text = re.sub(r"if \(op == 18 && .*?\n    \}\n\}", f"{egress}\n    }}\n}}", text, count=1,
                      flags=re.DOTALL)  # fmt: skip
        self.source = text
        self.frames = [self._frame() for _ in range(FRAMES)]

    def _frame(self) -> bytes:
        size = self.random.choice((17, 19, 21, 25, 40) if self.tame else (2, 17, 19, 21, 25, 40))
        first = self.random.choice((0, 3, 30, 31, 32, 33, *(() if self.tame else (128, 200))))
        rest = bytes(self.random.choice((0, 1, 2, 7, 255)) for _ in range(size - 1))
        return bytes([first]) + rest

    def _control(self, side: str) -> str:
        return "\n".join(self._statement(side, 0) for _ in range(self.random.randrange(4, 9)))

    def _number(self, width: int) -> str:
        return f"{width}w{self.random.choice((0, 1, 2, 3, 7, 100, 255))}"

    def _value(self, width: int, depth: int = 0) -> str:
        if depth == MOST_DEPTH or self.random.random() < 0.3:
            return self._number(width)
        if self.random.random() < 0.5:
            name = self.random.choice(sorted(FIELDS))
            return f"(bit<{width}>) hdr.first.{name}"
        left, right = (self._value(width, depth + 1) for _ in range(2))
        return f"({left} {self.random.choice(('+', '-', '&', '|', '^'))} {right})"

    def _test(self) -> str:
        name = self.random.choice(sorted(FIELDS))
        sign = self.random.choice(("==", "!=", "<", ">="))
        return f"hdr.first.{name} {sign} {self._number(FIELDS[name])}"

    def _statement(self, side: str, depth: int) -> str:
        draw = self.random
        if depth < MOST_DEPTH and draw.random() < 0.3:
            some, others = (self._statement(side, depth + 1) for _ in range(2))
            return f"if ({self._test()}) {{ {some} }} else {{ {others} }}"
        name = draw.choice(sorted(FIELDS))
        common = [
            f"hdr.first.{name} = {self._value(FIELDS[name])};",
            f"m.kept = {self._value(16)};",
            "hdr.added.setValid(); hdr.added.value = 16w9;",
            "hdr.added.setInvalid();",
            f"ostd.clone = {draw.choice(('true', 'true', 'false'))}; "
            f"ostd.clone_session_id = (CloneSessionId_t) {draw.choice((3, 6, 9))};",
        ]
        if side == "egress":
            first = "if (istd.packet_path != PSA_PacketPath_t.CLONE_E2E)"
            return draw.choice([
                *common[:-1], *[f"{first} {{ {common[-1]} }}"] * 2,
                f"if ({self._test()}) {{ egress_drop(ostd); }}", "ostd.drop = false;",
            ])  # fmt: skip
        port = draw.choice(("1", "2", "3", "4", "77", "0xfffffffa", "0xfffffffa"))
        group = draw.choice((0, 7, 7, 8))
        again = "if (fresh) { ostd.resubmit = true; }"
        served = f"ostd.class_of_service = (ClassOfService_t) {self._number(8)};"
        around = "" if port != "0xfffffffa" else "if (fresh) "
        return draw.choice([
            *common, common[-1], *([] if self.tame else [again, served]),
            f"{around}{{ send_to_port(ostd, (PortId_t) 32w{port}); }}",
            f"{around}{{ send_to_port(ostd, (PortId_t) 32w{port}); }}",
            f"multicast(ostd, (MulticastGroup_t) {group});",
            f"if ({self._test()}) {{ ingress_drop(ostd); }}",
            "ostd.drop = false; ostd.egress_port = (PortId_t) 2;",
            f"cells.write({self._number(16)} & 3, {self._value(16)});",
            f"hdr.first.value = cells.read({self._number(16)} & 3);",
            f"seen.count({self._number(16)});",
            f"hdr.first.value = same.get_hash(16w3, {self._value(16)}, 16w10);",
        ])  # fmt: skip


def checked(seed: int, folder: Path, *, compiled: bool = False) -> str:
    """Return where the plain form of a random program, and the interpreter or the compiled form
    of it, send something else; nothing where they do not."""
    wanted = RandomSwitch(seed)
    text = compiled_text(wanted, folder)
    dataplane, control = switch(text)
    twin = None if compiled else Twin(dataplane, control)
    other, kept = switch(text, plain=False) if compiled else (dataplane, control)
    for number, frame in enumerate(wanted.frames):
        dataplane.receive(0, IN_PORT, [frame], 0)
        sent = sorted((one.port, one.frame) for one in dataplane.transmit(0))
        if twin is None:
            other.receive(0, IN_PORT, [frame], 0)
            theirs = sorted((one.port, one.frame) for one in other.transmit(0))
        else:
            theirs = sorted(twin.sent(IN_PORT, frame))
        if sent != theirs:
            return f"seed {seed}, frame {number}, {frame.hex()}: {sent} and {theirs}"
    lost = dataplane.context.free_packet_count != 64
    return f"seed {seed}: {kept} has lost a packet" if lost else ""


def compiled_text(wanted: RandomSwitch, folder: Path) -> str:
    """Return the JSON of a program."""
    (source := folder / "random.p4").write_text(wanted.source)
    return compile_program(source).bmv2_json
