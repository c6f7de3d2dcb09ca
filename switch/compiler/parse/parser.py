"""From tokens to the syntax tree: lark's LALR parser with the grammar in grammar.lark."""

import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import lark
from lark.lexer import Lexer, Token

from weft.base.cache import cache_dir
from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import NOWHERE, Reporter, Span
from weft.switch.compiler.parse.annotation_rules import OF_ONE_STRING, check_annotations
from weft.switch.compiler.parse.builder import TREE_BUILDER
from weft.switch.compiler.parse.preprocess import Preprocessed, SourceLine
from weft.switch.compiler.parse.tokens import (
    PUNCTUATION,
    UNEXPECTED,
    sort_tokens,
    split_declarations,
    tokenize,
)
from weft.switch.compiler.raw_token import RawToken

_GRAMMAR = Path(__file__).with_name("grammar.lark")
_STARTS = ["declaration", "expression_list"]


class SourceToken(Token):
    """A token of lark's knows the token of ours that it stands for."""

    raw: RawToken


class _TokenFeed(Lexer):
    """The lexer that lark calls; it hands on the tokens that it is given."""

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, data: list[RawToken]) -> Iterator[Token]:  # type: ignore[override]
        for raw in data:
            token = SourceToken(raw.kind, raw.text)
            token.raw = raw
            yield token


@lru_cache(maxsize=1)
def _parser() -> lark.Lark:
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    made_of = f"{lark.__version__} {sys.version_info[:2]} {grammar}"
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return lark.Lark(
        grammar,
        parser="lalr",
        lexer=_TokenFeed,
        start=_STARTS,
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=TREE_BUILDER,
        cache=str(cache_dir() / f"grammar-{digest}.lark"),
    )


_SPELLING = {kind: text for text, kind in PUNCTUATION.items()} | {
    "TYPE_LESS": "<",
    "TYPE_GREATER": ">",
    "EXTERN_OBJECT": "extern",
}
_DESCRIPTION = {
    "IDENTIFIER": "a name",
    "TYPE_NAME": "a type",
    "INTEGER": "a number",
    "STRING_LITERAL": "a string",
    "ANNOTATION": "an annotation",
    "UNDERSCORE": "'_'",
}
_TYPE_STARTS = {"TYPE_NAME", "BOOL", "BIT", "INT", "VARBIT", "STRING", "ERROR", "TUPLE", "LIST"}
_EXPRESSION_STARTS = {
    "IDENTIFIER",
    "INTEGER",
    "STRING_LITERAL",
    "TRUE",
    "FALSE",
    "LEFT_PARENTHESIS",
}
_OPERATORS = {
    "PLUS", "MINUS", "TIMES", "DIVIDE", "MODULO", "BIT_AND", "BIT_OR", "BIT_XOR", "AND", "OR",
    "EQUAL",
    "NOT_EQUAL", "LESS", "GREATER", "LESS_EQUAL", "GREATER_EQUAL", "SHIFT_LEFT", "SHIFT_RIGHT",
    "CONCATENATE", "SATURATING_PLUS", "SATURATING_MINUS", "QUESTION",
}  # fmt: skip


def _expectation(expected: set[str]) -> str:
    """Return what the parser would have taken, in the reader's words."""
    expected = set(expected) - {"$END"}
    words: list[str] = []
    if expected >= _EXPRESSION_STARTS:
        words.append("an expression")
        expected -= _EXPRESSION_STARTS | _TYPE_STARTS | {
            "NOT", "TILDE", "MINUS", "PLUS", "LEFT_BRACE", "DOT", "THIS", "DOTS", "INVALID",
        }  # fmt: skip
    if expected >= _TYPE_STARTS - {"LIST"}:
        words.append("a type")
        expected -= _TYPE_STARTS | {"DOT"}
    if len(expected & _OPERATORS) > 3:
        words.append("an operator")
        expected -= _OPERATORS | {"DOT", "LEFT_BRACKET"}
    expected = {kind for kind in expected if not kind.endswith("_ASSIGN")}
    words += sorted(
        {_DESCRIPTION.get(kind) or f"'{_SPELLING.get(kind, kind.lower())}'" for kind in expected}
    )
    if len(words) > 8:
        words = [*words[:8], "..."]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _describe(raw: RawToken) -> str:
    if raw.kind == "ANNOTATION":
        return f"annotation '@{raw.text}'"
    return f"type '{raw.text}'" if raw.kind == "TYPE_NAME" else f"'{raw.text}'"


def _syntax_error(raw: RawToken, before: RawToken, expected: set[str]) -> str:
    message = f"syntax error at {_describe(raw)}: expected {_expectation(expected)}"
    if raw.kind == "IDENTIFIER" and "TYPE_NAME" in expected and "IDENTIFIER" not in expected:
        message += f" ('{raw.text}' is not the name of a type)"
    if raw.kind == "LEFT_PARENTHESIS" and before.kind in ("TYPE_NAME", "TYPE_GREATER"):
        message += "; an instance is declared in a control or parser, before its code"
    return message


def _parse(tokens: list[RawToken], start: str, reporter: Reporter) -> Any:
    try:
        return _parser().parse(tokens, start=start)
    except lark.exceptions.UnexpectedToken as problem:
        token = problem.token
        expected = _accepted(problem)
        if isinstance(token, SourceToken):
            before = tokens[max(0, tokens.index(token.raw) - 1)]
            message = _syntax_error(token.raw, before, expected)
            if "SEMICOLON" in expected and before.span.end_line < token.raw.span.line:
                message += f"; is a ';' missing at the end of line {before.span.end_line}?"
            reporter.error(token.raw.span, message)
        else:
            last = tokens[-1].span if tokens else NOWHERE
            end = Span(
                last.file, last.end_line, last.end_column, last.end_line, last.end_column + 1
            )
            reporter.error(
                end, f"syntax error: the text ends where {_expectation(expected)} was expected"
            )
        return None


def _accepted(problem: lark.exceptions.UnexpectedToken) -> set[str]:
    """Return the terminals that can really follow. The parser's state lists some that cannot,
    too."""
    try:
        return set(problem.accepts) or set(problem.expected)
    except Exception:  # without the parser's state lark cannot try out the terminals
        return set(problem.expected)


def parse_program(program: Preprocessed, reporter: Reporter) -> syntax.SourceProgram:
    """Parse a preprocessed program. Syntax errors go to the reporter, one for each declaration."""
    tokens = sort_tokens(tokenize(program, reporter))
    for token in tokens:
        if token.kind == UNEXPECTED:
            reporter.error(token.span, f"unexpected character {token.text!r}")
    tokens = [token for token in tokens if token.kind != UNEXPECTED]
    declarations: list[syntax.SyntaxNode] = []
    broken: set[str] = set()
    strings: dict[str, str] = {}
    for chunk in split_declarations(tokens):
        for token in chunk:
            if token.kind == "ANNOTATION":
                _join_strings(token, strings)
        check_annotations(chunk, reporter)
        _note_string(chunk, strings)
        if (node := _parse(chunk, "declaration", reporter)) is not None:
            declarations.append(node)
        else:
            broken |= _declared_names(chunk)
    return syntax.SourceProgram(declarations, broken)


def parse_expression(text: str, reporter: Reporter) -> syntax.Expression | None:
    """Return an expression that stands alone, unchecked; what is wrong with it goes to the
    reporter."""
    source = Preprocessed([SourceLine(text, "expression", 1)], {"expression": [text]})
    tokens = sort_tokens(tokenize(source, reporter))
    for token in tokens:
        if token.kind == UNEXPECTED:
            reporter.error(token.span, f"unexpected character {token.text!r}")
            return None
    result = _parse(tokens, "expression_list", reporter)
    found = [] if result is None else list(result)
    if len(found) > 1:
        reporter.error(found[1].span, "one expression is expected")
    return found[0] if len(found) == 1 else None


def _joined(tokens: list[RawToken], strings: dict[str, str]) -> str | None:
    """Return the string that literals and constants with ``++`` between them are; None if the
    tokens are anything else."""
    parts = [item for item in tokens if item.kind not in ("LEFT_PARENTHESIS", "RIGHT_PARENTHESIS")]
    texts = [
        item.text[1:-1] if item.kind == "STRING_LITERAL" else strings.get(item.text)
        for item in parts[::2]
    ]
    between = {item.kind for item in parts[1::2]}
    if not len(parts) % 2 or not between <= {"CONCATENATE"} or None in texts:
        return None
    return "".join(filter(None, texts))


def _join_strings(token: RawToken, strings: dict[str, str]) -> None:
    """Let an annotation of one string have it in one token, where it is put together by ``++``, or
    a constant of the program."""
    if token.text in OF_ONE_STRING and (text := _joined(token.body, strings)) is not None:
        span = token.body[0].span.to(token.body[-1].span)
        token.body = [RawToken("STRING_LITERAL", f'"{text}"', span)]


def _note_string(declaration: list[RawToken], strings: dict[str, str]) -> None:
    """Remember the value of a declaration that is a constant of type string."""
    tokens = [token for token in declaration if token.kind != "ANNOTATION"]
    if [token.kind for token in tokens[:4]] == ["CONST", "STRING", "IDENTIFIER", "ASSIGN"]:
        text = _joined(tokens[4:-1], strings)
        if text is not None:
            strings[tokens[2].text] = text


def _declared_names(tokens: list[RawToken]) -> set[str]:
    """Return the names before a declaration's body, which it would have declared had it been
    right."""
    opening = ("LEFT_BRACE", "LEFT_PARENTHESIS")
    head = takewhile(lambda token: token.kind not in opening, tokens)
    names = {token.text for token in head if token.kind in ("IDENTIFIER", "TYPE_NAME")}
    if tokens and tokens[-1].kind == "SEMICOLON" and len(tokens) > 1:
        names.add(tokens[-2].text)
    return names


def parse_annotation_expressions(
    annotation: syntax.Annotation, reporter: Reporter
) -> list[syntax.Expression]:
    """Return the expressions in an annotation's brackets; none if there is anything else in
    them."""
    if not annotation.body:
        return []
    result = _parse(annotation.body, "expression_list", reporter)
    return [] if result is None else list(result)
