"""Headers, unions and fields that an expression names: fixed ones, and ones picked by an index.

P4_16 section 8.18 leaves an index that is out of bounds undefined; BMv2 ends. Here such an index
reads the nearest element and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weft.base.errors import refuse
from weft.switch.engine.codegen.values import Value
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Family, Field, Header
from weft.switch.engine.program.program import Program

Json = Any

DEREFERENCE = ("dereference_header_stack", "dereference_stack")


@dataclass(frozen=True)
class HeaderReference:
    """Name the only header of ``family``, or that which ``index`` (source, not checked) says."""

    family: Family
    index: str | None = None

    @property
    def first(self) -> Header:
        """Return the header, or the first of those it can be: all have the same type."""
        return self.family.headers[0]

    @property
    def size(self) -> int:
        """Return how many headers it can be."""
        return len(self.family.headers)

    def at(self, number: str) -> "HeaderReference":
        """Return the same with an index that is known to be in bounds."""
        return HeaderReference(self.family, number)

    @property
    def clamped(self) -> str:
        """Return the source of the index, or of the nearest one that is in bounds."""
        return f"min(max({self.index}, 0), {self.size - 1})"


class Translating(Protocol):
    """Translate the places of names, and the numbers that pick one, as `expressions` does."""

    program: Program

    def valid_name(self, header: Header) -> str:
        """Return the constant that names a packet header's validity in the PHV."""

    def name_of(self, field: Field, /) -> str:
        """Return the constant that names a field's place in the PHV."""

    def integer(self, node: Json) -> Value:
        """Translate an expression to a number."""

    def narrow(self, node: Json, what: str) -> str:
        """Translate to a number that fits int64."""

    def field_reference(self, node: Json) -> tuple[HeaderReference, Field] | None:
        """Return the header and the field of the first one that a node names; None if it names
        none."""


@dataclass(frozen=True)
class UnionReference:
    """Name a header union by a reference to each of its members."""

    members: tuple[HeaderReference, ...]


def unwrap(node: Json) -> Json:
    """Return a node without the expressions around it that are none."""
    while node["type"] == "expression" and "op" not in node["value"]:
        node = node["value"]
    return node


def is_header(node: Json) -> bool:
    """Return whether a node is a header, not a number."""
    node = unwrap(node)
    operators = (*DEREFERENCE, "access_union_header")
    return node["type"] == "header" or (
        node["type"] == "expression" and node["value"]["op"] in operators
    )


def is_union(node: Json) -> bool:
    """Return whether a node is a header union."""
    node = unwrap(node)
    return node["type"] == "header_union" or bool(
        node["type"] == "expression" and node["value"]["op"] == "dereference_union_stack"
    )


def _picked(translator: Translating, family: Family, node: Json, what: str) -> HeaderReference:
    index = translator.integer(node)
    if index.constant is not None:
        if not 0 <= index.constant < len(family.headers):
            raise ProgramError(
                f"element {index.constant} of {what}, which has {len(family.headers)}"
            )
        return HeaderReference(Family((family.headers[index.constant],)))
    return HeaderReference(family, translator.narrow(node, f"the index of {what}"))


def header_reference(translator: Translating, node: Json) -> HeaderReference:
    """Return the header that a node names. Raises ``ProgramError``."""
    program = translator.program
    node = unwrap(node)
    if node["type"] == "header":
        return HeaderReference(Family((program.header(node["value"]),)))
    if node["type"] == "expression":
        content = node["value"]
        if content["op"] in DEREFERENCE:
            stack = program.stack(unwrap(content["left"])["value"])
            return _picked(
                translator, Family(stack.headers), content["right"], f"header stack {stack.name!r}"
            )
        if content["op"] == "access_union_header":
            union = union_reference(translator, content["left"])
            position: int = content["right"]
            return union.members[position]
    raise ProgramError(f"a {node['type']!r} where a header is wanted")


def union_reference(translator: Translating, node: Json) -> UnionReference:
    """Return the header union that a node names. Raises ``ProgramError``."""
    groups = translator.program.groups
    node = unwrap(node)
    if node["type"] == "header_union":
        union = groups.union(node["value"])
        return UnionReference(tuple(HeaderReference(Family((member,))) for member in union.members))
    if node["type"] == "expression" and node["value"]["op"] == "dereference_union_stack":
        content = node["value"]
        stack = groups.union_stack(unwrap(content["left"])["value"])
        what = f"header union stack {stack.name!r}"
        return UnionReference(
            tuple(
                _picked(translator, stack.family(position), content["right"], what)
                for position in range(len(stack.member_names))
            )
        )
    raise ProgramError(f"a {node['type']!r} where a header union is wanted")


def valid_place(translator: Translating, reference: HeaderReference) -> str:
    """Return the PHV index of a header's validity."""
    if reference.index is None:
        return translator.valid_name(reference.first)
    return reference.family.valid_place(reference.index)


def field_place(translator: Translating, reference: HeaderReference, field: Field) -> str:
    """Return the PHV index of the field that ``field`` is in the first header."""
    if reference.index is None:
        return translator.name_of(field)
    return reference.family.field_place(field, reference.index)


def readable(reference: HeaderReference) -> HeaderReference:
    """Return a reference to read: its index in bounds."""
    return reference if reference.index is None else reference.at(reference.clamped)


def valid_test(translator: Translating, node: Json) -> str:
    """Return the condition that a header is valid."""
    reference = readable(header_reference(translator, node))
    if reference.first.metadata:
        return "True"
    return f"(phv[{valid_place(translator, reference)}] != 0)"


def union_test(translator: Translating, node: Json) -> str:
    """Return the condition that a header of a union is valid."""
    union = union_reference(translator, node)
    places = [valid_place(translator, readable(member)) for member in union.members]
    return f"({' or '.join(f'phv[{place}] != 0' for place in places)})"


def same_headers(translator: Translating, one: HeaderReference, other: HeaderReference) -> str:
    """Return the condition that both headers are valid and all their fields equal, as BMv2
    compares."""
    one, other = readable(one), readable(other)
    refuse(
        [part.width for part in one.first.parts] != [part.width for part in other.first.parts],
        f"headers {one.first.name!r} and {other.first.name!r} of different types are compared",
        ProgramError,
    )
    tests = [
        f"phv[{valid_place(translator, item)}] != 0"
        for item in (one, other)
        if not item.first.metadata
    ]
    tests += _same_parts(translator, (one, one.first.parts), (other, other.first.parts))
    return f"({' and '.join(tests) or 'True'})"


def _same_parts(
    translator: Translating,
    left: tuple[HeaderReference, Sequence[Field]],
    right: tuple[HeaderReference, Sequence[Field]],
) -> list[str]:
    """Return the conditions that words of one header and of another one are equal."""
    (one, mine), (other, theirs) = left, right
    return [
        f"phv[{field_place(translator, one, a)}] == phv[{field_place(translator, other, b)}]"
        for a, b in zip(mine, theirs, strict=True)
    ]


def _same_varbits(translator: Translating, left: Json, right: Json) -> str | None:
    """Return the condition that two varbit fields have the same length and the same bits; None for
    other operands."""
    sides = []
    for node in (left, right):
        found = translator.field_reference(node)
        if found is None or not found[1].varbit:
            return None
        sides.append((readable(found[0]), found[1].parts))
    return f"({' and '.join(_same_parts(translator, *sides))})"


def comparison(translator: Translating, operator: str, left: Json, right: Json) -> str | None:
    """Return the source that compares two headers, unions or varbit fields; None for other
    operands."""
    test: str | None
    if is_header(left) and is_header(right):
        test = same_headers(
            translator, header_reference(translator, left), header_reference(translator, right)
        )
    elif is_union(left) and is_union(right):
        pairs = zip(
            union_reference(translator, left).members,
            union_reference(translator, right).members,
            strict=True,
        )
        test = f"({' or '.join(same_headers(translator, one, other) for one, other in pairs)})"
    else:
        test = _same_varbits(translator, left, right)
    return test if operator == "==" or test is None else f"(not {test})"


def last_place(program: Program, node: Json) -> tuple[Field, str]:
    """Return the field (of the first element) and the PHV index that ``stack.last`` names."""
    reference, field = last_field(program, node)
    return field, reference.family.field_place(field, reference.index or "0")


def last_field(program: Program, node: Json) -> tuple[HeaderReference, Field]:
    """Return the header that ``stack.last`` is, its index in bounds, and the field of the first
    one."""
    if node["type"] == "stack_field":
        stack = program.stack(node["value"][0])
        family, next_slot = Family(stack.headers), stack.next_slot
    else:
        unions = program.groups.union_stack(node["value"][0])
        family = unions.family(unions.member(node["value"][1]))
        next_slot = unions.next_slot
    field = family.headers[0].field(node["value"][-1])
    return readable(HeaderReference(family, f"phv[{next_slot}] - 1")), field
