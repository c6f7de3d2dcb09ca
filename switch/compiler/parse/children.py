"""What the rules of the grammar are made of: the children that lark hands to `builder`.

Children come in the order of the rule. Every token is among them, so what a rule becomes spans the
text from its first child to its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import lark

from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import NOWHERE, Span

Children = list[Any]


class Items(list[Any]):
    """A list that a rule becomes, with its span."""

    def __init__(self, items: Iterable[Any], children: Children) -> None:
        super().__init__(items)
        self.span = span_of_all(children)


class NameTokens(Items):
    """A declared name."""

    @property
    def text(self) -> str:
        return str(self[0])


class TypeParameters(Items):
    """The names in angle brackets behind a declared name."""


class TypeArguments(Items):
    """The types in angle brackets behind the name of a type or of what is called."""


class Parameters(Items):
    """The parameters in round brackets."""


class Keys(Items):
    """A table's ``key``."""


class Actions(Items):
    """A table's ``actions``."""


class Entries(Items):
    """A table's ``entries``."""

    constant = False


def span_of(child: Any) -> Span:
    """The span of a node, a token or a list of them."""
    if isinstance(child, lark.Token):
        return child.raw.span  # type: ignore[attr-defined, no-any-return]
    return child.span if isinstance(child, (syntax.Node, Items)) else NOWHERE


def span_of_all(children: Sequence[Any]) -> Span:
    return span_of(children[0]).to(span_of(children[-1])) if children else NOWHERE


def is_token(child: Any, *kinds: str) -> bool:
    return isinstance(child, lark.Token) and child.type in kinds


def has_token(children: Children, kind: str) -> bool:
    return any(is_token(child, kind) for child in children)


def without_tokens(children: Children) -> Children:
    return [child for child in children if not isinstance(child, lark.Token)]


def take(children: Children, *kinds: type) -> list[Any]:
    """The children of these kinds."""
    return [child for child in children if isinstance(child, kinds)]


def first(children: Children, *kinds: type) -> Any:
    """The first child of these kinds; None if there is none."""
    return next((child for child in children if isinstance(child, kinds)), None)


def plain_items(children: Children) -> list[Items]:
    """The children that are lists of no particular kind."""
    return [child for child in children if type(child) is Items]


def names_in(children: Children) -> list[tuple[str, Span]]:
    return [(item.text, item.span) for item in take(children, NameTokens)]


def annotations_in(children: Children) -> list[syntax.Annotation]:
    return [
        syntax.Annotation(child.raw.span, child.raw.text, child.raw.bracket, child.raw.body)
        for child in children
        if is_token(child, "ANNOTATION")
    ]


def type_parameters_in(children: Children) -> list[str]:
    return list(first(children, TypeParameters) or ())


def declared(children: Children) -> tuple[Span, list[syntax.Annotation], str, Span]:
    """What every declaration begins with: its span, its annotations, its name and where that is."""
    ((name, span),) = names_in(children)
    return span_of_all(children), annotations_in(children), name, span
