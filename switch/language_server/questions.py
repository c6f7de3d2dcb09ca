"""Where something in a program is declared, what it is, and what could be written at a place.

Lines and columns count from 1, as the compiler's do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.switch.compiler import syntax
from weft.switch.compiler.check.scope import Overloads, Scope, Symbol, TypeEntry
from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.parse.tokens import KEYWORDS
from weft.switch.compiler.types import (
    ApplyResultType,
    BlockTypeType,
    EnumType,
    ErrorType,
    ExternType,
    SerializableEnumType,
    StackType,
    StructType,
    Type,
    is_header_stack,
    resolved,
)
from weft.switch.language_server.analysis import Analysis, analyse
from weft.switch.language_server.scopes import checked, enclosing_block, scope_at

_WORD_BEFORE = re.compile(r"[A-Za-z_]\w*$|$")
_WORD_AFTER = re.compile(r"\w*")
_OWNER = re.compile(
    r"(?:\.\s*)?[A-Za-z_]\w*(?:\s*(?:\.\s*[A-Za-z_]\w*|\[[^\[\]]*\]|\([^()]*\)))*\s*\.\s*$"
)
"""The expression before a dot, with that."""
_IN_TRANSITION = re.compile(
    r"\btransition\s+\w*$|\bselect\s*\([^;{]*\{(?:[^}]*[{;])?[^};]*:\s*\w*$"
)
_IN_ACTIONS = re.compile(r"\bactions\s*=\s*\{[^}]*$|\bdefault_action\s*=\s*\w*$")
_FIELDS = {
    "struct": (),
    "header": ("isValid", "setValid", "setInvalid", "minSizeInBits", "minSizeInBytes"),
    "header_union": ("isValid",),
}
_KINDS: tuple[tuple[type, str], ...] = (
    (syntax.ActionDeclaration, "action"),
    (syntax.TableDeclaration, "table"),
    (syntax.ControlDeclaration, "control"),
    (syntax.ParserDeclaration, "parser"),
    (syntax.ParserState, "state"),
    (syntax.Constant, "constant"),
    (syntax.Parameter, "parameter"),
    (syntax.Instantiation, "instance"),
    (syntax.StructField, "field"),
    (syntax.Method, "method"),
    (syntax.Function, "function"),
    (syntax.ExternFunction, "function"),
    (syntax.Variable, "variable"),
)
"""What declarations are called. What is none of these is a type."""


@dataclass(frozen=True)
class Suggestion:
    """A word that could be written, the `kind` of what it stands for, and its type or what else
    tells it from others."""

    word: str
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class _Asked:
    """The word at a place, and the expression that it is a member of, if it is one."""

    word: str
    owner: str | None


def _asked(text: str, column: int) -> _Asked:
    before = text[: column - 1]
    begin = _WORD_BEFORE.search(before)
    end = _WORD_AFTER.match(text, column - 1)
    assert begin is not None and end is not None
    owner = _OWNER.search(before[: begin.start()])
    return _Asked(begin[0] + end[0], None if owner is None else _without_dot(owner[0]))


def _without_dot(text: str) -> str:
    return text.rstrip().removesuffix(".").strip()


def definition(analysis: Analysis, line: int, column: int) -> Span | None:
    """Return where that at a place is declared; None if it is nothing that is."""
    found = _declaration(analysis, line, column)
    return None if found is None else _name_span(found)


def _name_span(node: syntax.SyntaxNode) -> Span:
    span = getattr(node, "name_span", node.span)
    assert isinstance(span, Span)
    return span


def _declaration(analysis: Analysis, line: int, column: int) -> syntax.SyntaxNode | None:
    if analysis.checker is None:
        return None
    asked = _asked(analysis.lines[line - 1], column)
    if not asked.word:
        return None
    if asked.owner is not None:
        members = _members(analysis, asked.owner, line, column)
        return next((node for name, node, _ in members if name == asked.word), None)
    before = analysis.lines[line - 1][: column - 1]
    states = _states(analysis, line, column)
    if _IN_TRANSITION.search(_text_before(analysis, line, column)) or "state" in before.split():
        found = next((state for state in states if state.name == asked.word), None)
        if found is not None:
            return found
    return _declared(scope_at(analysis, line, column).find(asked.word))


def _declared(symbol: Symbol | None) -> syntax.SyntaxNode | None:
    match symbol:
        case TypeEntry():
            return symbol.declaration
        case Overloads():
            return symbol.functions[0]
    return symbol


def _states(analysis: Analysis, line: int, column: int) -> Sequence[syntax.ParserState]:
    block = enclosing_block(analysis, line, column)
    return block.states if isinstance(block, syntax.ParserDeclaration) else ()


def _text_before(analysis: Analysis, line: int, column: int) -> str:
    lines = analysis.lines
    return "\n".join([*lines[max(0, line - 40) : line - 1], lines[line - 1][: column - 1]])


# Members

_Member = tuple[str, syntax.SyntaxNode | None, str]
"""A member's name, its declaration if it has one, and its type or what else it is."""


def _members(analysis: Analysis, owner: str, line: int, column: int) -> list[_Member]:
    """Return the members of an expression, or of a type."""
    checker = analysis.checker
    assert checker is not None
    if owner == "error":
        return [(name, None, "error") for name in checker.context.errors]
    symbol = scope_at(analysis, line, column).find(owner)
    if isinstance(symbol, syntax.TableDeclaration):
        return [("apply", symbol, "table")]
    if isinstance(symbol, TypeEntry):
        return list(_of_type(symbol.type))
    found = checked(analysis, owner, line, column)
    return [] if found is None or found.type is None else list(_of_value(found.type))


def _of_type(kind: Type) -> Iterator[_Member]:
    """Yield what can be written behind the name of a type."""
    bare = resolved(kind)
    match bare:
        case EnumType() | SerializableEnumType():
            for name, *_ in bare.declaration.members:
                yield name, bare.declaration, bare.name
        case ErrorType():
            return
        case BlockTypeType():
            yield "apply", bare.declaration, bare.kind


def _of_value(kind: Type) -> Iterator[_Member]:
    """Yield what can be written behind a value."""
    bare = resolved(kind)
    match bare:
        case StructType():
            declared = {field.name: field for field in getattr(bare.declaration, "fields", ())}
            for name, item in bare.fields.items():
                yield name, declared.get(name), str(item)
            yield from ((name, None, "method") for name in _FIELDS[bare.kind])
        case StackType() if is_header_stack(bare):
            yield from ((name, None, str(bare.element)) for name in ("next", "last"))
            yield from ((name, None, "bit<32>") for name in ("lastIndex", "size"))
            yield from ((name, None, "method") for name in ("push_front", "pop_front"))
        case StackType():
            yield "size", None, "bit<32>"
        case ExternType():
            for method in bare.declaration.methods:
                if not method.is_constructor:
                    yield method.name, method, "method"
        case BlockTypeType():
            yield "apply", bare.declaration, bare.kind
        case ApplyResultType():
            yield from ((name, None, "bool") for name in ("hit", "miss"))
            yield "action_run", None, "the action that was run"


# Hover


def hover(analysis: Analysis, line: int, column: int) -> str | None:
    """Return what that at a place is, as Markdown; None if it is nothing that is known."""
    if analysis.checker is None:
        return None
    asked = _asked(analysis.lines[line - 1], column)
    if not asked.word:
        return None
    declaration = _declaration(analysis, line, column)
    kind = _type_of(analysis, asked, declaration, line, column)
    if declaration is None:
        return None if kind is None else f"```p4\n{kind} {asked.word}\n```"
    head = _head(analysis, declaration)
    parts = [f"```p4\n{head}\n```"]
    if kind is not None and kind not in head:
        parts.append(f"`{kind}`")
    value = getattr(getattr(declaration, "value", None), "constant", None)
    if isinstance(declaration, syntax.Constant) and value is not None:
        parts.append(f"= {value}")
    file = declaration.span.file
    if not analysis.is_of(file):
        parts.append(f"{Path(file).name}:{declaration.span.line}")
    return "\n\n".join(parts)


def _type_of(
    analysis: Analysis, asked: _Asked, declaration: syntax.SyntaxNode | None, line: int, column: int
) -> str | None:
    if asked.owner is not None:
        members = _members(analysis, asked.owner, line, column)
        return next((kind for name, _, kind in members if name == asked.word), None)
    if isinstance(declaration, (syntax.Variable, syntax.Constant, syntax.Parameter)):
        return None if declaration.type is None else str(declaration.type)
    return None


def _head(analysis: Analysis, node: syntax.SyntaxNode) -> str:
    """Return how a declaration begins: all of it up to a body, in one line."""
    if isinstance(node, syntax.Struct):
        fields = [f"{field.type} {field.name};" for field in node.fields]
        return " ".join([node.kind, node.name, "{", *fields, "}"])
    assert analysis.checker is not None
    reporter, span = analysis.checker.reporter, node.span
    lines = [
        reporter.line(span._replace(line=number)) for number in range(span.line, span.end_line + 1)
    ]
    lines[-1] = lines[-1][: span.end_column - 1]
    text = " ".join("\n".join([lines[0][span.column - 1 :], *lines[1:]]).split())
    if isinstance(node, (syntax.Enum, syntax.SerializableEnum)):
        return text
    return text.split(" {")[0].rstrip(" ;")


# Completion


def completions(
    path: Path, text: str, line: int, column: int, include_dirs: Sequence[Path] = ()
) -> list[Suggestion]:
    """Return what could be written at a place in a text that need not be a program: the statement
    at the place is left out of what is parsed."""
    lines = text.split("\n")
    asked = _asked(lines[line - 1], column)
    analysis = analyse(path, _without_statement(lines, line, column), include_dirs, whole=False)
    if analysis.checker is None:
        return []
    if asked.owner is not None:
        members = _members(analysis, asked.owner, line, column)
        found = [Suggestion(name, _kind_of(node, kind), kind) for name, node, kind in members]
        return list({item.word: item for item in found}.values())
    before = "\n".join([*lines[max(0, line - 40) : line - 1], lines[line - 1][: column - 1]])
    if _IN_TRANSITION.search(before):
        states = [state.name for state in _states(analysis, line, column)]
        return [Suggestion(name, "state") for name in (*states, "accept", "reject", "select")]
    scope = scope_at(analysis, line, column)
    named = _named(scope)
    if _IN_ACTIONS.search(before):
        return [item for item in named if item.kind == "action"]
    return [*named, *(Suggestion(word, "keyword") for word in sorted(KEYWORDS))]


def _without_statement(lines: list[str], line: int, column: int) -> str:
    """Return a text in which the statement around a place is blank, up to the end of its line."""
    text = "\n".join(lines)
    place = sum(len(item) + 1 for item in lines[: line - 1]) + column - 1
    begin = max(text.rfind(mark, 0, place) for mark in ";{}") + 1
    end = place + len(lines[line - 1]) - (column - 1)
    rest = text[place:end]
    if (closing := re.search(r"[;}]", rest)) is not None:
        end = place + closing.start() + (closing[0] == ";")
    blank = re.sub(r"[^\n]", " ", text[begin:end])
    return text[:begin] + blank + text[end:]


def _named(scope: Scope) -> list[Suggestion]:
    result = []
    for name in sorted(scope.names()):
        symbol = scope.find(name)
        declaration = _declared(symbol)
        kind = getattr(declaration, "type", None)
        shown = symbol.type if isinstance(symbol, TypeEntry) else kind
        detail = "" if shown is None else str(shown)
        result.append(Suggestion(name, _kind_of(declaration, "type"), detail))
    return result


def _kind_of(node: syntax.SyntaxNode | None, otherwise: str) -> str:
    """Return what is declared by a node, in a word."""
    if node is None:
        return "method" if otherwise == "method" else "field"
    return next((word for kind, word in _KINDS if isinstance(node, kind)), "type")
