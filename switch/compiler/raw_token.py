"""A token of P4 source, as the lexer finds it and as the body of an annotation keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.switch.compiler.diagnostics import Span


@dataclass
class RawToken:
    """A token has its terminal in the grammar, its text and the place where it stands.

    An annotation is one token (kind ANNOTATION): `text` is its name, `bracket` is "(" or "[" or
    empty, and `body` holds the tokens between the brackets.
    """

    kind: str
    text: str
    span: Span
    bracket: str = ""
    body: list[RawToken] = field(default_factory=list)
