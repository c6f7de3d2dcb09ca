"""Short names for what BMv2's JSON is made of, and a sentence of its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = Any

TYPES: dict[str, list[list[Json]]] = {
    "first_t": [["op", 8], ["a", 8], ["b", 16], ["c", 32], ["s", 8, True], ["n", 4], ["w", 12]],
    "item_t": [["last", 8], ["v", 16]],
    "other_t": [["w", 24]],
    "varied_t": [["size", 8], ["data", "*"]],
    "scalars_t": [["t", 32], ["u", 16], ["s", 16, True], ["one", 1]],
}
HEADERS = {
    "first": "first_t", "copy": "first_t",
    "stack[0]": "item_t", "stack[1]": "item_t", "stack[2]": "item_t",
    "rest[0]": "item_t", "rest[1]": "item_t", "rest[2]": "item_t",
    "u.x": "item_t", "u.y": "other_t", "t.x": "item_t", "t.y": "other_t",
    "us[0].x": "item_t", "us[0].y": "other_t", "us[1].x": "item_t", "us[1].y": "other_t",
    "vs[0].x": "item_t", "vs[0].y": "other_t", "vs[1].x": "item_t", "vs[1].y": "other_t",
    "varied": "varied_t", "varied2": "varied_t",
}  # fmt: skip
STACKS = {"stack": 3, "rest": 3}
UNIONS = ("u", "t", "us[0]", "us[1]", "vs[0]", "vs[1]")
UNION_STACKS = ("us", "vs")


def value(kind: str, content: Json) -> Json:
    """A "type value object"."""
    return {"type": kind, "value": content}


def of(header: str, name: str) -> Json:
    """A field."""
    return value("field", [header, name])


def first(name: str) -> Json:
    """A field of the header that all packets have."""
    return of("first", name)


def num(number: int) -> Json:
    """A number."""
    return value("hexstr", hex(number))


def ex(op: str, left: Json, right: Json, cond: Json = None) -> Json:
    """An expression."""
    more = {} if cond is None else {"cond": cond}
    return value("expression", {"op": op, "left": left, "right": right, **more})


def one(op: str, right: Json) -> Json:
    """An expression of one operand."""
    return ex(op, None, right)


def do(op: str, *parameters: Json) -> Json:
    """A primitive or an operation of a parser; as a parameter an expression stands in another."""
    return {
        "op": op,
        "parameters": [
            value("expression", one) if one["type"] == "expression" else one for one in parameters
        ],
    }


def put(target: Json, source: Json) -> Json:
    """An assignment."""
    return do("assign", target, source)


def c(source: Json) -> Json:
    """An assignment to what the sentences mostly show."""
    return put(first("c"), source)


def flag(source: Json) -> Json:
    """A boolean value as a number."""
    return one("b2d", source)


def element(name: str, index: Json, place: int) -> Json:
    """A field of an element of a stack that a number picks."""
    stack = ex("dereference_header_stack", value("header_stack", name), index)
    return ex("access_field", stack, place)


def extract(header: str) -> Json:
    """A parser operation."""
    return do("extract", value("regular", header))


def extract_next(name: str) -> Json:
    """A parser operation."""
    return do("extract", value("stack", name))


def extract_union(name: str, member: str) -> Json:
    """A parser operation."""
    return do("extract", value("union_stack", [name, member]))


def verify(condition: Json, error: Json) -> Json:
    """A parser operation, whose expressions do not stand in others."""
    return {"op": "verify", "parameters": [condition, error]}


def primitive(*inner: Json) -> Json:
    """A parser operation."""
    return {"op": "primitive", "parameters": list(inner)}


@dataclass(frozen=True)
class Sentence:
    """A sentence, by its section, and the packet that shows it.

    ``comes`` and ``leaves`` are frames in hexadecimal without their first byte, the number of the
    sentence; nothing for a packet that is dropped.
    """

    section: str
    text: str
    comes: str
    leaves: str
    does: Sequence[Json] = ()
    """The primitives of its action."""
    parser: Sequence[Json] = ()
    """States of the parser behind the one that all packets go through, the first one first; a next
    state is a number among them."""
    nodes: Sequence[tuple[str, Json]] = ()
    """Nodes of the pipeline behind its action, the first one first, each with its kind."""
    actions: Sequence[Sequence[Json]] = ()
    """Actions of these nodes, which they name by their number."""
    data: Sequence[int] = ()
    """Parameters of its action, each of 16 bits."""
    bmv2: bool = True
    """Whether BMv2 does it."""


def frame(a: int = 0, b: int = 0, c: int = 0, s: int = 0, n: int = 0, w: int = 0) -> str:
    """A packet's header behind its first byte."""
    return f"{a:02x}{b:04x}{c:08x}{s & 0xFF:02x}{n:01x}{w:03x}"


def shows(section: str, text: str, source: Json, wanted: int, **comes: int) -> Sentence:
    """A sentence that the value of an expression shows."""
    leaves = frame(**{**comes, "c": wanted & 0xFFFFFFFF})
    return Sentence(section, text, frame(**comes), leaves, [c(source)])


def parses(
    section: str,
    text: str,
    comes: str,
    leaves: str,
    *states: Json,
    does: Sequence[Json] = (),
    bmv2: bool = True,
    **first_comes: int,
) -> Sentence:
    """A sentence of the parser; ``comes`` is behind the header that all packets have."""
    return Sentence(section, text, frame(**first_comes) + comes, leaves, does, states, bmv2=bmv2)


def state(
    *does: Json, key: Sequence[Json] = (), choices: Sequence[Json] = (), then: int | None = None
) -> Json:
    """A state of the parser; a choice has type, value, mask and the next state's number."""
    return {"does": does, "key": key, "choices": choices, "then": then}


def bits(*conditions: Json) -> Json:
    """Boolean values as the bits of a number, the first one the lowest."""
    total = num(0)
    for place, condition in enumerate(conditions):
        total = ex("+", total, ex("<<", flag(condition), num(place)))
    return total


def entry(action: int, priority: int, *keys: Json) -> Json:
    """A constant entry."""
    called = {"action_id": action, "action_data": []}
    return {"match_key": list(keys), "action_entry": called, "priority": priority}


TYPE_VALUE = "The type value object"
TYPES_OF_HEADERS = "header_types"
OPERATIONS = "parser operations"
PARSERS = "parsers"
ACTIONS = "actions"
PIPELINES = "pipelines"
A, B, C, S, N, W = (first(name) for name in "abcsnw")
STACK, REST = value("header_stack", "stack"), value("header_stack", "rest")
ITEMS = "0a00010b0002000003"
"""Three elements of a stack."""
STACKED = state(extract_next("stack"), extract_next("stack"), extract_next("stack"))
OTHER = one("valid", value("header", "copy"))


def union(name: str, index: Json, member: int, place: int) -> Json:
    """A field of a header of a union of a stack that a number picks."""
    of_stack = ex("dereference_union_stack", value("header_union_stack", name), index)
    header = ex("access_union_header", of_stack, member)
    return ex("access_field", header, place)
