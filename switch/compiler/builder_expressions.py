"""Builds the types and expressions of the syntax tree; what all of the builder uses.

Every token of a rule is among the children, so a node's span runs from its first child to its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lark

from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import NOWHERE, Span

Children = list[Any]

_BASES = {"x": 16, "o": 8, "b": 2, "d": 10}


def parse_integer(text: str) -> tuple[int, int | None, bool]:
    """An integer literal's value, width (None if it has none) and whether it is signed."""
    digits, width, signed = text, None, False
    for mark in "ws":
        before, found, after = text.partition(mark)
        if found and before.isdigit():
            width, digits, signed = int(before), after, mark == "s"
            break
    digits = digits.replace("_", "").lower()
    base = _BASES.get(digits[1:2], 10) if digits[:1] == "0" else 10
    value = int(digits[2:] or "0", base) if digits[1:2] in _BASES else int(digits or "0")
    if signed and width:
        value &= (1 << width) - 1
        value -= (value >> (width - 1)) << width
    return value, width, signed


def span_of(child: Any) -> Span:
    """The span of a node, a token or a list of them."""
    if isinstance(child, lark.Token):
        return child.raw.span  # type: ignore[attr-defined, no-any-return]
    if isinstance(child, syntax.Node):
        return child.span
    if isinstance(child, Items):
        return child.span
    return NOWHERE


class Items(list[Any]):
    """A list with a span."""

    span: Span = NOWHERE


def span_of_all(children: Sequence[Any]) -> Span:
    return span_of(children[0]).to(span_of(children[-1])) if children else NOWHERE


def is_token(child: Any, *kinds: str) -> bool:
    return isinstance(child, lark.Token) and child.type in kinds


def take(children: Children, *kinds: type) -> list[Any]:
    return [child for child in children if isinstance(child, kinds) and not is_token(child)]


def has_token(children: Children, kind: str) -> bool:
    return any(is_token(child, kind) for child in children)


def without_tokens(children: Children) -> Children:
    return [child for child in children if not isinstance(child, lark.Token)]


class NameTokens(Items):
    """A declared name."""

    text: str


def names_in(children: Children) -> list[tuple[str, Span]]:
    return [(item.text, item.span) for item in children if isinstance(item, NameTokens)]


def type_parameters_in(children: Children) -> list[str]:
    for child in children:
        if isinstance(child, TypeParameters):
            return list(child)
    return []


class TypeParameters(Items):
    pass


class TypeArguments(Items):
    pass


class Parameters(Items):
    pass


class Keys(Items):
    pass


class Actions(Items):
    pass


class Entries(Items):
    constant: bool


class ExpressionBuilder(lark.Transformer):  # type: ignore[type-arg]
    """Callbacks for lark; children come in the order of the rule, tokens included."""

    def _annotations(self, children: Children) -> list[syntax.Annotation]:
        found = []
        for child in children:
            if is_token(child, "ANNOTATION"):
                raw = child.raw
                found.append(syntax.Annotation(raw.span, raw.text, raw.bracket, raw.body))
        return found

    def name(self, c: Children) -> NameTokens:
        result = NameTokens(c)
        result.text, result.span = str(c[0]), span_of_all(c)
        return result

    def dotted_name(self, c: Children) -> syntax.Name:
        return syntax.Name(span_of_all(c), str(c[-1]), len(c) > 1)

    # Types

    def base_type(self, c: Children) -> syntax.TypeReference:
        return syntax.BaseTypeReference(span_of_all(c), str(c[0]))

    def sized_type(self, c: Children) -> syntax.TypeReference:
        return syntax.BaseTypeReference(span_of_all(c), str(c[0]), c[1][0])

    def width(self, c: Children) -> Items:
        result = Items([c[1]])
        result.span = span_of_all(c)
        return result

    def named_type(self, c: Children) -> syntax.TypeReference:
        arguments = list(c[-1]) if isinstance(c[-1], TypeArguments) else []
        name = c[1] if is_token(c[0], "DOT") else c[0]
        return syntax.NamedTypeReference(span_of_all(c), str(name), arguments)

    def type_arguments(self, c: Children) -> Items:
        result = TypeArguments(without_tokens(c))
        result.span = span_of_all(c)
        return result

    def type_parameters(self, c: Children) -> Items:
        result = TypeParameters(name for name, _ in names_in(c))
        result.span = span_of_all(c)
        return result

    def stack_type(self, c: Children) -> syntax.TypeReference:
        return syntax.StackTypeReference(span_of_all(c), c[0], c[2])

    def tuple_type(self, c: Children) -> syntax.TypeReference:
        return syntax.TupleTypeReference(span_of_all(c), without_tokens(c))

    def list_type(self, c: Children) -> syntax.TypeReference:
        return syntax.TupleTypeReference(span_of_all(c), without_tokens(c), is_list=True)

    # Expressions

    def integer(self, c: Children) -> syntax.Expression:
        value, width, signed = parse_integer(str(c[0]))
        return syntax.IntegerLiteral(span_of_all(c), value, width, signed, str(c[0]))

    def string(self, c: Children) -> syntax.Expression:
        return syntax.StringLiteral(span_of_all(c), str(c[0])[1:-1])

    def boolean(self, c: Children) -> syntax.Expression:
        return syntax.BooleanLiteral(span_of_all(c), str(c[0]) == "true")

    def name_expression(self, c: Children) -> syntax.Expression:
        if isinstance(c[0], syntax.Name):
            return c[0]
        return syntax.Name(span_of_all(c), str(c[0]))

    def dots(self, c: Children) -> syntax.Expression:
        return syntax.Dots(span_of_all(c))

    def invalid_header(self, c: Children) -> syntax.Expression:
        return syntax.InvalidHeader(span_of_all(c))

    def parenthesized(self, c: Children) -> syntax.Expression:
        inner: syntax.Expression = c[1]
        return inner

    def type_member(self, c: Children) -> syntax.Expression:
        base = syntax.TypeExpression(c[0].span, c[0])
        return syntax.Member(span_of_all(c), base, c[2].text, c[2].span)

    def error_member(self, c: Children) -> syntax.Expression:
        reference = syntax.BaseTypeReference(span_of(c[0]), "error")
        return syntax.Member(
            span_of_all(c), syntax.TypeExpression(reference.span, reference), c[2].text, c[2].span
        )

    def constructor_call(self, c: Children) -> syntax.Expression:
        callee = syntax.TypeExpression(c[0].span, c[0])
        return syntax.Call(span_of_all(c), callee, [], take(c, syntax.Argument))

    def member(self, c: Children) -> syntax.Expression:
        return syntax.Member(span_of_all(c), c[0], c[2].text, c[2].span)

    def index(self, c: Children) -> syntax.Expression:
        return syntax.Index(span_of_all(c), c[0], c[2])

    def slice(self, c: Children) -> syntax.Expression:
        if is_token(c[3], "PLUS_COLON"):
            return syntax.Slice(span_of_all(c), c[0], c[4], c[2], low_and_width=True)
        return syntax.Slice(span_of_all(c), c[0], c[2], c[4])

    def call(self, c: Children) -> syntax.Call:
        types = list(c[1]) if isinstance(c[1], TypeArguments) else []
        return syntax.Call(span_of_all(c), c[0], types, take(c, syntax.Argument))

    def list_expression(self, c: Children) -> syntax.Expression:
        return syntax.ListExpression(span_of_all(c), without_tokens(c))

    def field_value(self, c: Children) -> Items:
        result = Items([c[0].text, c[2]])
        result.span = span_of_all(c)
        return result

    def record_expression(self, c: Children) -> syntax.Expression:
        fields = [(item[0], item[1]) for item in without_tokens(c)]
        return syntax.RecordExpression(span_of_all(c), fields, has_token(c, "DOTS"))

    def unary(self, c: Children) -> syntax.Expression:
        return syntax.Unary(span_of_all(c), str(c[0]), c[1])

    def binary(self, c: Children) -> syntax.Expression:
        return syntax.Binary(span_of_all(c), str(c[1]), c[0], c[2])

    def conditional(self, c: Children) -> syntax.Expression:
        return syntax.Conditional(span_of_all(c), c[0], c[2], c[4])

    def cast(self, c: Children) -> syntax.Expression:
        return syntax.Cast(span_of_all(c), c[1], c[3])

    def argument(self, c: Children) -> syntax.Argument:
        name = c[0].text if isinstance(c[0], NameTokens) else None
        value = None if is_token(c[-1], "UNDERSCORE") else c[-1]
        return syntax.Argument(span_of_all(c), name, value)

    def expression_list(self, c: Children) -> Items:
        result = Items(without_tokens(c))
        result.span = span_of_all(c)
        return result

    def any_keyset(self, c: Children) -> syntax.Expression:
        return syntax.AnyKeyset(span_of_all(c))

    def mask_keyset(self, c: Children) -> syntax.Expression:
        return syntax.MaskKeyset(span_of_all(c), c[0], c[2])

    def range_keyset(self, c: Children) -> syntax.Expression:
        return syntax.RangeKeyset(span_of_all(c), c[0], c[2])

    def tuple_keyset(self, c: Children) -> syntax.Expression:
        return syntax.TupleKeyset(span_of_all(c), without_tokens(c))
