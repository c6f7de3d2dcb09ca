"""Fields, keys, parameters and registers of more than 64 bits, and varbits, do as on BMv2."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bmv2_support import Sent, assert_same, bmv2, compile_with_p4c, require_bmv2, weft
from tests.support.engine_programs import Document, assign, data, extract, field, hexstr

from weft.switch.compiler.driver import compile_program
from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    Key,
    Lpm,
    Range,
    TableEntry,
    Ternary,
)
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane, Queue

PROGRAM = Path(__file__).resolve().parents[2] / "bmv2_programs" / "wide_values.p4"

NET = 0x20010DB8 << 96
EDGES = [0, 1, NET | 1, NET | 0xFFFF, (1 << 128) - 1, 1 << 127, (1 << 64) - 1, 1 << 64]
LOW = 0xFF00FF00FF00FF00FF00FF00FF

ENTRIES: list[tuple[str, tuple[Key, ...], int, int]] = [
    ("exact_table", (Exact(NET | 1), Exact(5)), 0x1111 << 100, 0),
    ("exact_table", (Exact((1 << 128) - 1), Exact(5)), 2, 0),
    ("prefix_table", (Lpm(0, 0),), 3, 0),
    ("prefix_table", (Lpm(NET, 32),), 4, 0),
    ("prefix_table", (Lpm(NET, 100),), 5, 0),
    ("prefix_table", (Lpm(NET | 1, 128),), 6, 0),
    ("ternary_table", (Ternary(1 << 190, 3 << 190), Exact(NET | 1)), 7, 3),
    ("ternary_table", (Ternary(0xF0 << 64, 0xFF << 64), Exact(NET | 1)), 8, 9),
    ("range_table", (Range(5, (1 << 127) - 1), Range(0, 9)), 9, 2),
    ("range_table", (Range((1 << 64) - 1, NET | 1), Range(3, 200)), 10, 5),
    ("range_table", (Range(NET | 1, (1 << 128) - 1), Range(0, 255)), 11, 1),
    ("optional_table", (Ternary(NET, (1 << 128) - 1), Exact(0)), 12, 1),
    ("optional_table", (Ternary(0, 0), Exact((NET | 0xFFFF) & LOW)), 13, 2),
]
"""Table, keys, parameter of give(), priority: the greatest wins."""


def fill(control: SwitchControl) -> None:
    for table, keys, value, priority in ENTRIES:
        call = ActionCall("IngressC.give", (value,))
        control.insert_entry(TableEntry(f"IngressC.{table}", keys, call, priority))


def on_the_command_line(key: Key) -> str:
    if isinstance(key, Exact):
        return hex(key.value)
    if isinstance(key, Lpm):
        return f"{key.value:#x}/{key.prefix_length}"
    if isinstance(key, Ternary):
        return f"{key.value:#x}&&&{key.mask:#x}"
    return f"{key.low:#x}->{key.high:#x}"


def commands() -> str:
    lines = []
    for table, keys, value, priority in ENTRIES:
        given = " ".join(map(on_the_command_line, keys))
        number = f" {100 - priority}" if priority else ""
        lines.append(f"table_add IngressC.{table} IngressC.give {given} => {value:#x}{number}")
    return "\n".join(lines)


def frame(operation: int, amount: int, a: int, b: int, s: int, w: int, rest: bytes = b"") -> bytes:
    bits = operation
    for value, width in ((amount, 8), (a, 128), (b, 128), (s, 100), (0, 4), (w, 200)):
        bits = bits << width | value & ((1 << width) - 1)
    return bits.to_bytes(72, "big") + rest


def frames() -> list[bytes]:
    rng = random.Random(8)

    def number(width: int) -> int:
        return rng.choice([rng.getrandbits(width), rng.getrandbits(width), *EDGES])

    found = []
    for operation in [*range(20), *range(0x20, 0x26), 0x30, 0x31, 0x32, 0x33, 0x40, 0x41]:
        for _ in range(9):
            amount = rng.choice([0, 1, 2, 3, 5, 64, 70, 127, 128, 200, 255])
            if operation in (0x30, 0x31):
                amount = rng.randrange(4)
            rest = rng.choice([b"\x11" * 14, rng.randbytes(30), b"tail"])
            b, w = number(128), rng.choice([1 << 190, 0xF0 << 64, rng.getrandbits(200), 0])
            if operation == 0x22:
                b = NET | 1
            found.append(frame(operation, amount, number(128), b, number(100), w, rest))
    for operation in range(0x50, 0x57):
        for size in (0, 1, 3, 8, 9, 24, 40):
            head = bytes([0x4A] + [rng.randrange(256) for _ in range(size)] + [size, size])
            found.append(frame(operation, size * 4, 1, 2, 3, 4, head[: size + 3] + b"payload"))
        for amount in (1, 255, 164, 160):
            found.append(frame(operation, amount, 1, 2, 3, 4, rng.randbytes(60)))
        found.append(frame(operation, 160, 1, 2, 3, 4, rng.randbytes(42)))
    good = bytes([0x4A, 0xBC, 0xD5])
    check = ~(0x4ABC + 0xD500 + (0x4ABC + 0xD500 >> 16)) & 0xFFFF
    found.append(frame(0x55, 8, 1, 2, 3, 4, good + check.to_bytes(2, "big")))
    return [item + b"%03d" % position for position, item in enumerate(found)]


def ours(program: str, *, plain: bool) -> Sent:
    return weft(program, frames(), fill, plain=plain)


def test_values_of_any_width_and_varbits_do_as_on_bmv2(tmp_path: Path) -> None:
    require_bmv2()
    source = tmp_path / "program.p4"
    source.write_text(PROGRAM.read_text())
    program = compile_with_p4c(source)
    mine = ours(program, plain=True)
    theirs = bmv2(tmp_path, program, frames(), sum(map(len, mine.values())), commands())
    assert_same(mine, theirs)


@pytest.mark.slow
def test_the_compiled_form_does_the_same_as_the_plain_one() -> None:
    program = compile_program(PROGRAM).bmv2_json
    assert ours(program, plain=False) == ours(program, plain=True)


def register_switch() -> SwitchControl:
    document = Document()
    document.state("start", [])
    document.more["register_arrays"] = [
        {"name": "unsigned", "id": 0, "size": 3, "bitwidth": 130},
        {"name": "signed", "id": 1, "size": 3, "bitwidth": 100, "signed": True},
    ]
    control = Dataplane(1, 2, packets=4, plain=True).control(0)
    control.load_program(document.text, load="save")
    control.commit_program()
    return control


@given(st.integers(0, (1 << 130) - 1), st.integers(0, 2))
def test_registers_of_any_width_give_back_what_was_written(value: int, index: int) -> None:
    control = register_switch()
    for register, width in (("unsigned", 130), ("signed", 100)):
        cut = value & ((1 << width) - 1)
        control.values.write_register(register, index, cut)
        cells = [control.values.read_register(register, i) for i in range(3)]
        assert cells == [cut if i == index else 0 for i in range(3)]


def matching(kinds: tuple[str, ...], widths: tuple[int, ...]) -> str:
    document = Document()
    document.header("in", [(f"k{i}", width) for i, width in enumerate(widths)])
    document.header("out", [("found", 200)])
    document.state("start", [extract("in")])
    show = document.action(
        "show",
        [("value", 200)],
        [
            {"op": "add_header", "parameters": [{"type": "header", "value": "out"}]},
            assign(field("out", "found"), data(0)),
            assign(field("standard_metadata", "egress_spec"), hexstr(1)),
        ],
    )
    keys = [(kind, "in", f"k{i}") for i, kind in enumerate(kinds)]
    document.table("ingress", "t", keys, [show], None, default=(show, [(1 << 199) + 5]))
    document.start["ingress"] = "t"
    return document.text


@st.composite
def tables(draw: Any) -> tuple[tuple[str, ...], tuple[int, ...], list[TableEntry], list[list[int]]]:
    """Kinds and widths of a key, entries, and keys to look up."""
    others = st.sampled_from(["exact", "ternary", "range", "optional"])
    kinds = (*draw(st.lists(others, max_size=3)), "lpm")
    widths = [draw(st.sampled_from([8, 64, 72, 128, 136, 200, 328])) for _ in kinds]
    near = [[draw(st.integers(0, (1 << width) - 1)) for _ in range(2)] for width in widths]

    def key(kind: str, width: int, values: list[int]) -> Key:
        value = draw(st.sampled_from(values))
        most = (1 << width) - 1
        if kind == "exact":
            return Exact(value)
        if kind == "lpm":
            length = draw(st.integers(0, width))
            return Lpm(value & ~((1 << (width - length)) - 1), length)
        if kind == "range":
            other = draw(st.sampled_from([*values, 0, most, value ^ 1, value ^ (1 << width - 1)]))
            return Range(min(value, other), max(value, other))
        mask = most * draw(st.integers(0, 1))
        if kind == "ternary":
            mask = draw(st.sampled_from([mask, 0xFF << (width - 8), draw(st.integers(0, most))]))
        return Ternary(value & mask, mask)

    with_priority = kinds != ("exact",) * (len(kinds) - 1) + ("lpm",)
    entries: dict[Any, TableEntry] = {}
    for number in range(draw(st.integers(0, 5))):
        keys = tuple(map(key, kinds, widths, near))
        priority = number + 1 if with_priority else 0
        call = ActionCall("show", (number << 150,))
        entries[keys, priority] = TableEntry("t", keys, call, priority)
    lookups = [
        [
            draw(st.sampled_from([*near[i], near[i][0] ^ (1 << draw(st.integers(0, width - 1)))]))
            for i, width in enumerate(widths)
        ]
        for _ in range(4)
    ]
    return kinds, tuple(widths), list(entries.values()), lookups


def hit(key: Key, value: int, width: int) -> bool:
    if isinstance(key, Exact):
        return value == key.value
    if isinstance(key, Lpm):
        return value >> (width - key.prefix_length) == key.value >> (width - key.prefix_length)
    if isinstance(key, Ternary):
        return value & key.mask == key.value
    return key.low <= value <= key.high


@given(tables())
def test_keys_of_every_kind_and_width_match_as_they_say(case: Any) -> None:
    kinds, widths, entries, lookups = case
    dataplane = Dataplane(1, 4, packets=8, plain=True)
    dataplane.set_port(0, 1, Queue())
    control = dataplane.control(0)
    control.load_program(matching(kinds, widths), load="save")
    control.commit_program()
    for entry in entries:
        control.insert_entry(entry)
    control.publish()
    for values in lookups:
        found = [entry for entry in entries if all(map(hit, entry.keys, values, widths))]
        best = max(
            found,
            key=lambda entry: entry.priority or entry.keys[-1].prefix_length,
            default=None,
        )
        wanted = (1 << 199) + 5 if best is None else best.target.params[0]
        bits = 0
        for value, width in zip(values, widths, strict=True):
            bits = bits << width | value
        dataplane.receive(0, 1, [bits.to_bytes(sum(widths) // 8, "big")], 0)
        (departure,) = dataplane.transmit(0)
        assert int.from_bytes(departure.frame[-25:], "big") == wanted
