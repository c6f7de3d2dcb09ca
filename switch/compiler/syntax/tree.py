"""What is asked of a syntax tree: the nodes inside a node, names, paths and what is alike."""

from collections.abc import Iterator
from typing import Any

from weft.switch.compiler.syntax.expressions import (
    BooleanLiteral,
    Expression,
    Index,
    IntegerLiteral,
    MemberAccess,
    Name,
    Slice,
    SyntaxNode,
)
from weft.switch.compiler.syntax.variables import Declaration
from weft.switch.compiler.types import Type


def name_of(node: Expression) -> str:
    """Return the name that an expression consists of; empty if it is anything else."""
    return node.name if isinstance(node, Name) else ""


def path_of(node: Expression) -> Iterator[Expression]:
    """Yield an expression, then that of which it is a member, element or slice, and so on down to
    the variable, or whatever else it is a part of."""
    yield node
    if isinstance(node, (MemberAccess, Index, Slice)):
        yield from path_of(node.base)


def root_of(node: Expression) -> Expression:
    """Return the variable, or whatever else, of which an expression is a member, element or slice,
    at any depth; it may be the expression itself."""
    *_, root = path_of(node)
    return root


def children(node: Any) -> Iterator[SyntaxNode]:
    """Yield the nodes directly inside a node."""
    for value in vars(node).values():
        match value:
            case SyntaxNode():
                yield value
            case list() | dict():
                for item in value if isinstance(value, list) else value.values():
                    parts = item if isinstance(item, tuple) else (item,)
                    yield from (part for part in parts if isinstance(part, SyntaxNode))


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield a node and all nodes inside it, but not the declarations that names refer to."""
    waiting = [node]
    while waiting:
        item = waiting.pop()
        yield item
        if not isinstance(item, Name):
            waiting += children(item)


def same(one: Any, other: Any) -> bool:
    """Return whether two checked expressions are written alike, and mean the same declarations."""
    match one:
        case Name():
            return isinstance(other, Name) and one.declaration is other.declaration
        case IntegerLiteral() | BooleanLiteral():
            return type(one) is type(other) and one.value == other.value
        case SyntaxNode():
            names = vars(one).keys() - _NOT_WRITTEN
            return type(one) is type(other) and all(
                same(getattr(one, name), getattr(other, name)) for name in names
            )
        case list() | tuple():
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(same(left, right) for left, right in pairs)
    return bool(one == other)


_NOT_WRITTEN = frozenset(["span", "name_span", "type", "constant", "target"])
"""What nodes have besides that which is written."""


def type_of(node: Expression | Declaration) -> Type:
    """Return the type that the checker found."""
    assert node.type is not None
    return node.type
