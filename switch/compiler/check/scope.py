"""Scopes, and what names of types stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import Abandon, Reporter, Span
from weft.switch.compiler.types import Bindings, Type, TypeVariable, substitute


@dataclass
class TypeEntry:
    """A name that stands for a type; `parameters` are its type parameters."""

    type: Type
    declaration: syntax.Node | None = None
    parameters: list[TypeVariable] = field(default_factory=list)

    def instantiate(self, arguments: list[Type]) -> Type:
        bindings: Bindings = dict(zip(self.parameters, arguments, strict=True))
        return substitute(self.type, bindings)


@dataclass
class Overloads:
    """Functions (or extern functions) of one name."""

    functions: list[syntax.Function | syntax.ExternFunction]


Symbol = TypeEntry | Overloads | syntax.Declaration


class Scope:
    """Names declared in one block; names not found here are looked for in the parent."""

    def __init__(self, parent: Scope | None = None, *, hides_parameters: bool = False) -> None:
        self.parent = parent
        self.hides_parameters = hides_parameters
        """Whether a variable in it may have the name of a parameter outside, as p4c has it: among
        what a parser or control declares, and in the head of a loop."""
        self.symbols: dict[str, Symbol] = {}

    def find(self, name: str) -> Symbol | None:
        scope: Scope | None = self
        while scope is not None:
            symbol = scope.symbols.get(name)
            if symbol is not None:
                return symbol
            scope = scope.parent
        return None

    def root(self) -> Scope:
        return self if self.parent is None else self.parent.root()

    def names(self) -> set[str]:
        return {*self.symbols, *(self.parent.names() if self.parent is not None else ())}


class Context:
    """What all parts of the checker share."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.globals = Scope()
        self.errors: list[str] = []
        self.match_kinds: list[str] = []
        self.enums: list[syntax.Enum] = []
        self.broken: set[str] = set()  # names of declarations with errors, reported already
        self._next_scope = 0

    def symbol(self, name: syntax.Name, scope: Scope) -> Symbol:
        """What a name stands for; reports an error if it stands for nothing."""
        symbol = (scope.root() if name.absolute else scope).find(name.name)
        if symbol is not None:
            return symbol
        if name.name in self.broken:
            raise Abandon(name.name)
        near = closest(name.name, scope.names())
        raise self.reporter.fail(name.span, f"'{name.name}' is not declared{near}")

    def no_repeats(
        self, names: Iterable[tuple[str, Span]], message: str, known: Iterable[str] = ()
    ) -> None:
        """Report names that are given twice, or known already; the message has ``{}`` for them."""
        seen = set(known)
        for name, span in names:
            if name in seen:
                self.reporter.error(span, message.format(name))
            seen.add(name)

    def type_variables(self, names: list[str]) -> list[TypeVariable]:
        self._next_scope += 1
        return [TypeVariable(name, self._next_scope) for name in names]

    def declare(self, scope: Scope, node: syntax.Declaration, symbol: Symbol | None = None) -> None:
        """Add a name to a scope; two declarations of it in one scope are an error."""
        known = scope.symbols.get(node.name)
        if known is not None and not isinstance(known, Overloads):
            place = ""
            origin = known.declaration if isinstance(known, TypeEntry) else known
            if isinstance(origin, syntax.Node):
                place = f" (first at {origin.span.file}:{origin.span.line})"
            self.reporter.error(node.name_span, f"'{node.name}' is declared twice{place}")
        scope.symbols[node.name] = symbol if symbol is not None else node


def closest(name: str, candidates: set[str]) -> str:
    """`` (did you mean ...?)`` if one of the candidates resembles the name."""
    import difflib

    near = difflib.get_close_matches(name, sorted(candidates), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
