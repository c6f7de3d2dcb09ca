"""Compiled and plain form of the same program agree, with each other and with BMv2's arithmetic."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.engine_programs import Document, assign, expression, extract, field, hexstr
from tests.support.engine_support import configure, packet

from weft.switch.engine.switches import Dataplane, Queue

Json = Any

INPUTS: list[Any] = [
    *(("a", 1), ("b", 7), ("c", 8), ("d", 13), ("e", 19), ("f", 32), ("g", 48), ("h", 64)),
    *(("i", 65), ("j", 100), ("k", 128), ("l", 299)),
]
SIGNED: list[Any] = [("s", 16, True), ("t", 64, True), ("u", 77, True), ("v", 187, True)]
RESULTS = [
    *((1, False), (8, False), (16, True), (31, False), (32, False), (63, False), (64, False)),
    *((65, False), (100, True), (128, False), (256, True), (300, False)),
]
WIDTHS = [1, 8, 9, 16, 32, 48, 64, 65, 100, 128, 190, 256, 300]
COUNT = 60


def draw(rng: random.Random, depth: int) -> Json:
    """A random number expression, masked where p4c masks."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.3:
            small = [0, 1, 3, 255, 0x7FFF_FFFF, 1 << 40, (1 << 64) - 1]
            return hexstr(rng.choice([*small, 1 << 64, -(1 << 63) - 1, (1 << 128) - 1, -5]))
        return field("in", rng.choice(INPUTS + SIGNED)[0])
    kinds = ["+", "-", "*", "&", "|", "^", "~", "negate", "<<", ">>", "?", "cast", "b2d", "usat"]
    kind = rng.choice([*kinds, "/", "%"])
    left, right = draw(rng, depth - 1), draw(rng, depth - 1)
    mask = hexstr((1 << rng.choice(WIDTHS)) - 1)
    if kind == "negate":
        return expression("-", None, left)
    if kind in ("/", "%"):
        divisor = expression("|", expression("&", right, mask), hexstr(1))
        return expression(kind, expression("&", left, mask), divisor)
    if kind == "~":
        return expression("&", expression("~", None, left), mask)
    if kind == "<<":
        amount = rng.choice([hexstr(rng.randrange(70)), field("in", "b"), field("in", "c")])
        return expression("&", expression("<<", left, amount), mask)
    if kind == ">>":
        amount = rng.choice([hexstr(rng.randrange(270)), field("in", "b"), field("in", "c")])
        return expression(">>", left, amount)
    if kind == "?":
        return expression("?", left, right, cond=condition(rng, depth - 1))
    if kind == "b2d":
        return expression("b2d", None, condition(rng, depth - 1))
    if kind == "cast":
        return expression("two_comp_mod", left, hexstr(rng.choice([2, 8, 33, 63, 64, 65, 190])))
    if kind == "usat":
        name = rng.choice(["usat_cast", "sat_cast"])
        return expression(name, left, hexstr(rng.choice([2, 12, 63, 64, 65, 150])))
    return expression("&", expression(kind, left, right), mask)


def condition(rng: random.Random, depth: int) -> Json:
    """A random boolean expression."""
    sides = [draw(rng, depth) for _ in range(2)]
    test = expression(rng.choice(["==", "!=", "<", ">", "<=", ">="]), *sides)
    if rng.random() < 0.3:
        test = expression("not", None, test)
    if depth > 1 and rng.random() < 0.3:
        test = expression(rng.choice(["and", "or"]), test, condition(rng, depth - 1))
    return test


def evaluate(node: Json, values: dict[str, int]) -> int:
    """What BMv2 computes, with unbounded integers."""
    content = node["value"]
    if node["type"] == "field":
        return values[content[1]]
    if node["type"] == "hexstr":
        return int(content, 16)
    operator = content["op"]
    if operator == "?":
        side = "left" if evaluate(content["cond"], values) else "right"
        return evaluate(content[side], values)
    right = evaluate(content["right"], values)
    if operator == "~":
        return ~right
    if operator == "not":
        return int(not right)
    if operator == "b2d":
        return int(right)
    if content["left"] is None:
        return -right
    left = evaluate(content["left"], values)
    if operator == "two_comp_mod":
        value = left & ((1 << right) - 1)
        return value - (1 << right) if value >> (right - 1) else value
    if operator == "usat_cast":
        return min(max(left, 0), (1 << right) - 1)
    if operator == "sat_cast":
        return min(max(left, -(1 << (right - 1))), (1 << (right - 1)) - 1)
    functions: dict[str, Any] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "&": lambda: left & right,
        "|": lambda: left | right,
        "^": lambda: left ^ right,
        "/": lambda: left // right,
        "%": lambda: left % right,
        "<<": lambda: left << right,
        ">>": lambda: left >> right,
        "==": lambda: left == right,
        "!=": lambda: left != right,
        "<": lambda: left < right,
        ">": lambda: left > right,
        "<=": lambda: left <= right,
        ">=": lambda: left >= right,
        "and": lambda: bool(left and right),
        "or": lambda: bool(left or right),
    }
    return int(functions[operator]())


@lru_cache(maxsize=1)
def arithmetic() -> tuple[str, list[Json]]:
    """A program that computes COUNT random expressions of a header's fields into another header."""
    rng = random.Random(20260730)
    expressions = [draw(rng, 3) for _ in range(COUNT)]
    return arithmetic_document(expressions), expressions


def arithmetic_document(expressions: list[Json]) -> str:
    document = Document()
    document.header("in", INPUTS + SIGNED)
    results = [(f"r{i}", *RESULTS[i % len(RESULTS)]) for i in range(len(expressions))]
    spare = -sum(part[1] for part in results) % 8
    document.header("out", [*results, ("spare", spare)] if spare else results)
    document.state("start", [extract("in")])
    chunk = 8
    valid = {"op": "add_header", "parameters": [{"type": "header", "value": "out"}]}
    for start in range(0, len(expressions), chunk):
        code = document.action(
            f"compute{start}",
            [],
            [
                *([] if start else [valid]),  # it sets all fields to 0
                *(
                    assign(field("out", f"r{i}"), expressions[i])
                    for i in range(start, min(start + chunk, len(expressions)))
                ),
            ],
        )
        following = f"t{start + chunk}" if start + chunk < len(expressions) else "finish"
        document.table("ingress", f"t{start}", [], [code], following, default=(code, []))
    show = document.action(
        "show",
        [],
        [
            {"op": "remove_header", "parameters": [{"type": "header", "value": "in"}]},
            assign(field("standard_metadata", "egress_spec"), hexstr(1)),
        ],
    )
    document.table("ingress", "finish", [], [show], None, default=(show, []))
    document.start["ingress"] = "t0"
    return document.text


@lru_cache(maxsize=2)
def arithmetic_switch(plain: bool) -> Dataplane:
    dataplane = Dataplane(1, 4, packets=8, plain=plain)
    dataplane.set_port(0, 1, Queue())
    control = dataplane.control(0)
    control.load_program(arithmetic()[0], load="save")
    control.commit_program()
    return dataplane


def run(dataplane: Dataplane, frame: bytes) -> list[tuple[int, bytes]]:
    dataplane.receive(0, 1, [frame], 0)
    return [(departure.port, departure.frame) for departure in dataplane.transmit(0)]


edges = st.sampled_from(
    [0, 1, 127, 128, 255, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 127, (1 << 300) - 1]
)


@given(st.lists(edges | st.integers(0, (1 << 300) - 1), min_size=16, max_size=16))
def test_arithmetic_is_bmv2s_compiled_and_plain(numbers: list[int]) -> None:
    fields = [*INPUTS, *SIGNED]
    bits, values = 0, {}
    for value, part in zip(numbers, fields, strict=True):
        width = part[1]
        value &= (1 << width) - 1
        bits = bits << width | value
        signed = len(part) == 3 and value >> (width - 1)
        values[part[0]] = value - (1 << width) if signed else value
    frame = bits.to_bytes(sum(part[1] for part in fields) // 8, "big") + b"tail"
    expected = 0
    for i, node in enumerate(arithmetic()[1]):
        width = RESULTS[i % len(RESULTS)][0]
        expected = expected << width | evaluate(node, values) & ((1 << width) - 1)
    total = sum(RESULTS[i % len(RESULTS)][0] for i in range(COUNT))
    expected <<= -total % 8
    wanted = [(1, expected.to_bytes((total + 7) // 8, "big") + b"tail")]
    assert run(arithmetic_switch(True), frame) == wanted
    assert run(arithmetic_switch(False), frame) == wanted


@lru_cache(maxsize=2)
def router_switch(plain: bool) -> Dataplane:
    dataplane = Dataplane(1, 8, packets=64, plain=plain)
    for port in range(1, 5):
        dataplane.set_port(0, port, Queue())
    configure(dataplane)
    return dataplane


@st.composite
def hostile_frames(draw_: Any) -> bytes:
    """Random bytes, and good frames that were cut, lengthened or changed somewhere."""
    if draw_(st.booleans()):
        return bytes(draw_(st.binary(max_size=200)))
    destination = draw_(st.sampled_from(["10.1.0.1", "10.2.0.1", "239.0.0.1", "1.2.3.4"]))
    frame = bytearray(packet(destination, size=draw_(st.integers(60, 300))))
    for _ in range(draw_(st.integers(0, 3))):
        frame[draw_(st.integers(0, len(frame) - 1))] = draw_(st.integers(0, 255))
    return bytes(frame[: draw_(st.integers(0, len(frame)))]) + bytes(draw_(st.integers(0, 8)))


@given(hostile_frames())
def test_hostile_frames_do_the_same_compiled_and_plain(frame: bytes) -> None:
    assert run(router_switch(False), frame) == run(router_switch(True), frame)
    for plain in (False, True):
        assert (
            router_switch(plain).context.free_buffer_count
            == 64
            == router_switch(plain).context.free_packet_count
        )


@pytest.mark.parametrize("size", [0, 9216, 9217, 70000])
def test_frames_of_any_size_are_forwarded_or_dropped(size: int) -> None:
    for plain in (False, True):
        frame = packet("10.1.0.1", size=max(size, 60)) if size < 65536 else bytes(size)
        dataplane = router_switch(plain)
        assert len(run(dataplane, frame[:size])) == (1 if 60 <= size <= 9216 else 0)
