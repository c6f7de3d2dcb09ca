"""What names stand for at a place in a program, by the compiler's own scopes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from weft.switch.compiler import syntax
from weft.switch.compiler.check.scope import Scope, TypeEntry
from weft.switch.compiler.diagnostics import Abandon, CompileError, Span
from weft.switch.compiler.parse.preprocess import Preprocessed, SourceLine
from weft.switch.compiler.parse.tokens import sort_tokens, tokenize
from weft.switch.compiler.raw_token import RawToken
from weft.switch.language_server.analysis import Analysis

Block = syntax.ParserDeclaration | syntax.ControlDeclaration


def contains(span: Span, line: int, column: int) -> bool:
    """Return whether a place is in a span, or directly behind it."""
    return (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column)


def around(analysis: Analysis, line: int, column: int) -> Iterator[syntax.SyntaxNode]:
    """Yield the declarations, states and blocks of statements that a place is in, from the
    outermost to the innermost."""
    if analysis.program is None:
        return
    nodes: Sequence[Any] = analysis.program.declarations
    while nodes:
        inside = [node for node in nodes if _has(analysis, node, line, column)]
        if not inside:
            return
        yield inside[0]
        nodes = list(syntax.children(inside[0]))


def _has(analysis: Analysis, node: syntax.SyntaxNode, line: int, column: int) -> bool:
    return contains(node.span, line, column) and analysis.is_of(node.span.file)


def enclosing_block(analysis: Analysis, line: int, column: int) -> Block | None:
    """Return the parser or control that a place is in."""
    found = (node for node in around(analysis, line, column) if isinstance(node, Block))
    return next(found, None)


def scope_at(analysis: Analysis, line: int, column: int) -> Scope:
    """Return the names that can be used at a place: those declared before it, in the blocks that it
    is in and outside of all."""
    assert analysis.checker is not None
    scope = analysis.checker.context.globals
    for node in around(analysis, line, column):
        scope = Scope(scope)
        for declaration in _declared_in(node):
            span = declaration.name_span
            if (span.line, span.column) < (line, column):
                scope.symbols[declaration.name] = declaration
    return scope


def _declared_in(node: syntax.SyntaxNode) -> Iterator[syntax.Declaration]:
    """Yield what a declaration, state or statement declares for what is inside it."""
    prototype = getattr(node, "prototype", None)
    for part in (node, *([] if prototype is None else [prototype])):
        for item in syntax.children(part):
            if isinstance(item, syntax.Declaration) and not isinstance(item, _NOT_IN_SCOPE):
                yield item


_NOT_IN_SCOPE = (syntax.StructField, syntax.ParserState, syntax.Method)
"""What is found by its owner alone."""


def checked(analysis: Analysis, text: str, line: int, column: int) -> syntax.Expression | None:
    """Return an expression, parsed and checked in the scope of a place; None if it is none."""
    checker = analysis.checker
    assert checker is not None
    scope = scope_at(analysis, line, column)
    block = enclosing_block(analysis, line, column)
    place = "parser" if isinstance(block, syntax.ParserDeclaration) else "control"
    try:
        source = Preprocessed([SourceLine(text, str(analysis.path), line)])
        tokens = [_typed(token, scope) for token in tokenize(source, checker.reporter)]
        span = Span(str(analysis.path), line, column, line, column)
        annotation = syntax.Annotation(span, "", "(", sort_tokens(tokens))
        parsed = checker.expressions.parse_annotation(annotation)
        with checker.context.inside(place):
            return checker.expressions.check(parsed[0], scope) if len(parsed) == 1 else None
    except (Abandon, CompileError):
        return None


def _typed(token: RawToken, scope: Scope) -> RawToken:
    is_type = token.kind == "IDENTIFIER" and isinstance(scope.find(token.text), TypeEntry)
    return replace(token, kind="TYPE_NAME") if is_type else token
