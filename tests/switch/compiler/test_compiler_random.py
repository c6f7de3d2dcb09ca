"""Random statements: what the compiled program does to a packet, against P4's rules in Python."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.compiler_behaviour_support import send
from tests.support.compiler_support import compiled

FIELDS = {"a": 8, "b": 8, "c": 16, "s": -8, "t": -16, "n": 4, "m": 4}
"""The header's fields with their widths in bits; those of signed numbers are negative."""

BYTES = sum(abs(width) for width in FIELDS.values()) // 8
VARIABLES = {f"hdr.h.{name}": width for name, width in FIELDS.items()} | {"x": 8, "y": -16}
COUNTERS = ["i", "j", "k"]
FUNCTIONS = """
bit<8> bump(inout bit<8> v, in bit<8> by) {
    v = v + by;
    if (v > 200) { return 7; }
    return v;
}
"""


def type_name(width: int) -> str:
    return f"{'int' if width < 0 else 'bit'}<{abs(width)}>"


_MEMBERS = " ".join(f"{type_name(width)} {name};" for name, width in FIELDS.items())
TYPES = f"header h_t {{ {_MEMBERS} }}"

Node = tuple[Any, ...]
"""An expression or statement: what it is, its width (0: a truth value), and its parts."""

State = dict[str, int]


class Broken(Exception):
    """The loop was left."""


class Continued(Exception):
    """The round was left."""


def wrap(value: int, width: int) -> int:
    value &= (1 << abs(width)) - 1
    return value - (1 << -width) if width < 0 and value >> (-width - 1) else value


def clamp(value: int, width: int) -> int:
    low = 0 if width > 0 else -(1 << (-width - 1))
    return max(low, min(low + (1 << abs(width)) - 1, value))


ARITHMETIC = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"]
COMPARISONS = ["==", "!=", "<", ">", "<=", ">="]


def operate(operator: str, left: int, right: int, width: int) -> int:
    compared = {
        "==": left == right, "!=": left != right, "<": left < right, ">": left > right,
        "<=": left <= right, ">=": left >= right,
    }  # fmt: skip
    if operator in compared:
        return int(compared[operator])
    if operator in ("|+|", "|-|"):
        return clamp(left + right if operator == "|+|" else left - right, width)
    if operator == "<<":
        return wrap(left << right, width)
    if operator == ">>":
        return left >> right
    return wrap({"+": left + right, "-": left - right, "*": left * right, "&": left & right,
                 "|": left | right, "^": left ^ right}[operator], width)  # fmt: skip


# Expressions


@dataclass(frozen=True)
class Names:
    """What can be read, and whether calls with side effects are wanted."""

    widths: dict[str, int]
    calls: bool = True


@st.composite
def expressions(draw: st.DrawFn, width: int, names: Names, depth: int) -> Node:
    def inner(kind: int) -> Node:
        return draw(expressions(kind, names, depth - 1))

    kinds = ["literal", "name", "name"]
    if depth and not width:
        kinds = ["compare", "compare", "not", "both", "bool"]
    elif not width:
        kinds = ["bool"]
    elif depth:
        kinds += ["unary", "binary", "binary", "binary", "shift", "conditional", "cast"]
        kinds += ["slice"] if width > 0 else []
        kinds += ["concatenate"] if width in (8, 16) else []
        kinds += ["call"] if width == 8 and names.calls else []
    kind = draw(st.sampled_from(kinds))
    if kind == "literal" or (kind == "name" and width not in names.widths.values()):
        return ("literal", width, wrap(draw(st.integers(0, 3) | st.integers(0, 1 << 16)), width))
    if kind == "name":
        found = [name for name, item in names.widths.items() if item == width]
        return ("name", width, draw(st.sampled_from(found)))
    if kind == "bool":
        return ("bool", 0, draw(st.booleans()))
    if kind == "compare":
        operands = draw(st.sampled_from([8, -8, 16, 4]))
        return ("binary", 0, draw(st.sampled_from(COMPARISONS)), inner(operands), inner(operands))
    if kind == "not":
        return ("not", 0, inner(0))
    if kind == "both":
        return ("both", 0, draw(st.sampled_from(["&&", "||"])), inner(0), inner(0))
    if kind == "unary":
        return ("unary", width, draw(st.sampled_from("-~")), inner(width))
    if kind == "binary":
        return ("binary", width, draw(st.sampled_from(ARITHMETIC)), inner(width), inner(width))
    if kind == "shift":
        return ("binary", width, draw(st.sampled_from(["<<", ">>"])), inner(width), inner(4))
    if kind == "conditional":
        return ("conditional", width, inner(0), inner(width), inner(width))
    if kind == "cast":
        # Of the sign or of the width, but not of both.
        other = draw(st.sampled_from([-width, 16 if width > 0 else -16, 8 if width > 0 else -8]))
        return ("cast", width, inner(other))
    if kind == "slice":
        return ("slice", width, draw(st.integers(0, 16 - width)), inner(16))
    if kind == "concatenate":
        return ("concatenate", width, inner(width // 2), inner(width // 2))
    name = draw(
        st.sampled_from([key for key in ("hdr.h.a", "hdr.h.b", "x") if key in names.widths])
    )
    return ("call", 8, name, inner(8))


def text(node: Node) -> str:
    kind, width, *rest = node
    if kind == "literal":
        value = rest[0] & ((1 << abs(width)) - 1)
        return f"{abs(width)}{'s' if width < 0 else 'w'}{value}"
    if kind == "name":
        return str(rest[0])
    if kind == "bool":
        return "true" if rest[0] else "false"
    if kind == "not":
        return f"!({text(rest[0])})"
    if kind in ("binary", "both"):
        return f"({text(rest[1])} {rest[0]} {text(rest[2])})"
    if kind == "unary":
        return f"{rest[0]}({text(rest[1])})"
    if kind == "conditional":
        return "({} ? {} : {})".format(*(text(item) for item in rest))
    if kind == "cast":
        return f"({type_name(width)})({text(rest[0])})"
    if kind == "slice":
        return f"({text(rest[1])})[{rest[0] + width - 1}:{rest[0]}]"
    if kind == "concatenate":
        return f"({text(rest[0])} ++ {text(rest[1])})"
    return f"bump({rest[0]}, {text(rest[1])})"


def value(node: Node, state: State) -> int:
    """What an expression gives; operands are evaluated from left to right."""
    kind, width, *rest = node
    if kind in ("literal", "bool"):
        return int(rest[0])
    if kind == "name":
        return state[rest[0]]
    if kind == "not":
        return 1 - value(rest[0], state)
    if kind == "both":
        left = value(rest[1], state)
        return left if left == (rest[0] == "||") else value(rest[2], state)
    if kind == "binary":
        left = value(rest[1], state)
        return operate(rest[0], left, value(rest[2], state), width)
    if kind == "unary":
        inner = value(rest[1], state)
        return wrap(-inner if rest[0] == "-" else ~inner, width)
    if kind == "conditional":
        return value(rest[1] if value(rest[0], state) else rest[2], state)
    if kind == "cast":
        return wrap(value(rest[0], state), width)
    if kind == "slice":
        return int((value(rest[1], state) >> rest[0]) & ((1 << width) - 1))
    if kind == "concatenate":
        high = value(rest[0], state)
        return int(high << (width // 2)) | value(rest[1], state)
    before = state[rest[0]]
    result = (before + value(rest[1], state)) & 0xFF
    state[rest[0]] = result
    return 7 if result > 200 else result


# Statements


@st.composite
def statements(draw: st.DrawFn, names: Names, depth: int, loops: int) -> Node:
    kinds = ["assign", "assign", "assign", "slice", "compound"]
    kinds += ["if", "if", "switch", "for"] if depth else []
    kinds += ["break", "continue"] if loops else []
    kind = draw(st.sampled_from(kinds))

    def body(more: int = 0, counter: str = "") -> list[Node]:
        known = Names(names.widths | ({counter: 8} if counter else {}), names.calls)
        return draw(st.lists(statements(known, depth - 1, loops + more), min_size=1, max_size=3))

    if kind in ("assign", "compound"):
        name = draw(st.sampled_from([item for item in names.widths if item not in COUNTERS]))
        width = names.widths[name]
        operator = draw(st.sampled_from(ARITHMETIC)) if kind == "compound" else ""
        return ("assign", width, name, operator, draw(expressions(width, names, 3)))
    if kind == "slice":
        low, width = draw(st.integers(0, 4)), draw(st.sampled_from([4, 8]))
        return ("slice", width, low, draw(expressions(width, names, 2)))
    if kind == "if":
        otherwise = body() if draw(st.booleans()) else []
        return ("if", 0, draw(expressions(0, names, 2)), body(), otherwise)
    if kind == "switch":
        labels = draw(st.lists(st.integers(0, 15), min_size=1, max_size=3, unique=True))
        cases = [(label, body() if draw(st.booleans()) else None) for label in labels]
        return ("switch", 0, draw(expressions(4, names, 1)), cases, body())
    if kind == "for":
        counter = COUNTERS[sum(item in names.widths for item in COUNTERS)]
        low, high = draw(st.integers(0, 3)), draw(st.integers(0, 4))
        return ("for", 0, counter, low, high, draw(st.booleans()), body(1, counter))
    return (kind, 0)


def code(node: Node) -> str:
    kind, _width, *rest = node
    if kind == "assign":
        return f"{rest[0]} {rest[1]}= {text(rest[2])};"
    if kind == "slice":
        return f"hdr.h.c[{rest[0] + node[1] - 1}:{rest[0]}] = {text(rest[1])};"
    if kind == "if":
        otherwise = f" else {{ {block(rest[2])} }}" if rest[2] else ""
        return f"if ({text(rest[0])}) {{ {block(rest[1])} }}{otherwise}"
    if kind == "switch":
        cases = [
            f"{label}:" + ("" if body is None else f" {{ {block(body)} }}")
            for label, body in rest[1]
        ]
        return f"switch ({text(rest[0])}) {{ {' '.join(cases)} default: {{ {block(rest[2])} }} }}"
    if kind == "for":
        counter, low, high, is_range, body = rest
        head = f"bit<8> {counter} = {low}; {counter} < {high}; {counter} = {counter} + 1"
        if is_range:
            head = f"bit<8> {counter} in {low} .. {high}"
        return f"for ({head}) {{ {block(body)} }}"
    return f"{kind};"


def block(nodes: list[Node]) -> str:
    return " ".join(code(node) for node in nodes)


def run(nodes: list[Node], state: State) -> None:
    for node in nodes:
        execute(node, state)


def execute(node: Node, state: State) -> None:
    kind, width, *rest = node
    if kind == "assign":
        name, operator, expression = rest
        before = state[name]
        found = value(expression, state)
        state[name] = operate(operator, before, found, width) if operator else found
    elif kind == "slice":
        found = value(rest[1], state)
        mask = ((1 << width) - 1) << rest[0]
        state["hdr.h.c"] = (state["hdr.h.c"] & ~mask) | (found << rest[0])
    elif kind == "if":
        run(rest[1] if value(rest[0], state) else rest[2], state)
    elif kind == "switch":
        subject = value(rest[0], state)
        place = next((at for at, case in enumerate(rest[1]) if case[0] == subject), len(rest[1]))
        bodies = [body for _, body in rest[1][place:] if body is not None]
        run([*bodies, rest[2]][0], state)
    elif kind == "for":
        counter, low, high, is_range, body = rest
        for number in range(low, high + 1 if is_range else high):
            state[counter] = number
            try:
                run(body, state)
            except Continued:
                continue
            except Broken:
                break
    else:
        raise Broken if kind == "break" else Continued


def frame_of(state: State) -> bytes:
    number = 0
    for name, width in FIELDS.items():
        number = (number << abs(width)) | (state[f"hdr.h.{name}"] & ((1 << abs(width)) - 1))
    return number.to_bytes(BYTES, "big")


def state_of(frame: bytes) -> State:
    number, state = int.from_bytes(frame, "big"), {"x": 3, "y": -4}
    for name, width in reversed(FIELDS.items()):
        state[f"hdr.h.{name}"] = wrap(number, width)
        number >>= abs(width)
    return state


PROGRAMS = st.lists(statements(Names(VARIABLES), 3, 0), min_size=1, max_size=6)
FRAMES = st.lists(st.binary(min_size=BYTES, max_size=BYTES), min_size=3, max_size=6)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(PROGRAMS, FRAMES, st.booleans())
def test_random_statements_do_what_p4_says(
    nodes: list[Node], frames: list[bytes], in_action: bool
) -> None:
    body = f"bit<8> x = 3; int<16> y = -4; {block(nodes)}"
    action = f"action all() {{ {body} }}"
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(
            Path(folder),
            types=TYPES,
            declarations=FUNCTIONS,
            locals=action if in_action else "",
            ingress=f"sm.egress_spec = 1; {'all();' if in_action else body}",
        )
    expected = []
    for frame in frames:
        state = state_of(frame)
        run(nodes, state)
        expected.append(frame_of(state))
    assert send(program.bmv2_json, frames) == expected
