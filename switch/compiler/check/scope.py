"""Scopes, and what names of types stand for."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.check.type_rules import BLOCKS, field_problem, nesting_problem
from weft.switch.compiler.constants import MAXIMUM_BITS
from weft.switch.compiler.diagnostics import Abandon, Reporter, Span
from weft.switch.compiler.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    BitType,
    BoolType,
    EnumType,
    ErrorType,
    IntType,
    ListType,
    StackType,
    StructType,
    TupleType,
    Type,
    TypeVariable,
    UnknownType,
    VarbitType,
    base_type,
    is_header_stack,
    member_types,
    resolved,
    substitute,
)

MOST_FIELDS = 1 << 16
"""The most fields that a type may have, with those of its fields' types counted."""


@dataclass
class TypeEntry:
    """An entry is what a name that stands for a type has in a scope; `parameters` are its type
    parameters."""

    type: Type
    declaration: syntax.SyntaxNode | None = None
    parameters: list[TypeVariable] = field(default_factory=list)


@dataclass
class Overloads:
    """The functions (or extern functions) that share one name."""

    functions: list[syntax.Function | syntax.ExternFunction]


Symbol = TypeEntry | Overloads | syntax.Declaration


@dataclass(eq=False)
class Scope:
    """A scope has the names declared in one block; others are looked for in its parent."""

    parent: "Scope | None" = None
    hides_parameters: bool = field(default=False, kw_only=True)
    """Whether a variable in this scope may have the name of a parameter outside of it. As with p4c
    that is so among what a parser or control declares, and in the head of a loop."""
    symbols: dict[str, Symbol] = field(default_factory=dict, init=False)

    def type_variables(self) -> list[str]:
        """Return the names of the type parameters that are declared here."""
        return [
            name
            for name, entry in self.symbols.items()
            if isinstance(entry, TypeEntry) and isinstance(entry.type, TypeVariable)
        ]

    def find(self, name: str) -> Symbol | None:
        """Return what a name stands for here; None if it stands for nothing."""
        symbol = self.symbols.get(name)
        return self.parent.find(name) if symbol is None and self.parent is not None else symbol

    def names(self) -> set[str]:
        """Return all names that stand for something here."""
        return {*self.symbols, *(self.parent.names() if self.parent is not None else ())}


def with_types(scope: Scope, variables: Sequence[TypeVariable], types: Sequence[Type]) -> Scope:
    """Return a scope inside another in which type variables stand for types."""
    inner = Scope(scope)
    for variable, kind in zip(variables, types, strict=True):
        inner.symbols[variable.name] = TypeEntry(kind)
    return inner


Methods = Mapping[type[syntax.SyntaxNode], Callable[..., object]]
"""What checks the nodes of each class, in a scope."""


class CheckContext:
    """A context holds what all parts of the checker share."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.globals = Scope()
        self.errors: list[str] = []
        self.match_kinds: list[str] = []
        self.enums: list[syntax.Enum] = []
        self.broken: set[str] = set()  # names of declarations with errors, reported already
        self.place = ""
        """Whose code is checked: parser, control (its apply block), action, function, or what a
        parser or control declares, parser head and control head; empty outside of all."""
        self._next_scope = 0

    def symbol(self, name: syntax.Name, scope: Scope) -> Symbol:
        """Return what a name stands for; report an error if it stands for nothing."""
        if (symbol := (self.globals if name.absolute else scope).find(name.name)) is not None:
            return symbol
        if name.name in self.broken:
            raise Abandon(name.name)
        raise self.reporter.fail(
            name.span, f"'{name.name}' is not declared{closest(name.name, scope.names())}"
        )

    def attempt(self, methods: Methods, node: syntax.SyntaxNode, scope: Scope) -> None:
        """Check a node by the method for its class. After an error in a declaration its name is
        known as broken."""
        try:
            methods[type(node)](node, scope)
        except Abandon:
            if isinstance(node, syntax.Declaration) and node.name not in scope.symbols:
                self.broken.add(node.name)

    @contextmanager
    def inside(self, place: str) -> Iterator[None]:
        """Check the code of a parser, control, action or function in the block."""
        before, self.place = self.place, place
        try:
            yield
        finally:
            self.place = before

    def no_repeats(
        self, names: Iterable[tuple[str, Span]], message: str, known: Iterable[str] = ()
    ) -> None:
        """Report names that are given twice, or known already; the message has ``{}`` for them."""
        seen = set(known)
        for name, span in names:
            self.reporter.error_if(name in seen, span, message.format(name))
            seen.add(name)

    def type_variables(
        self, node: syntax.Declaration, names: list[str], scope: Scope
    ) -> tuple[list[TypeVariable], Scope]:
        """Return new type variables for the type parameters of a declaration, and a scope inside
        another in which they have their names."""
        self.no_repeats(
            [(name, node.name_span) for name in names],
            f"'{node.name}' has two type parameters '{{}}'",
        )
        self._next_scope += 1
        variables = [TypeVariable(name, self._next_scope) for name in names]
        return variables, with_types(scope, variables, variables)

    def declare(self, scope: Scope, node: syntax.Declaration, symbol: Symbol | None = None) -> None:
        """Add a name to a scope; two declarations of it in one scope are an error."""
        if (known := scope.symbols.get(node.name)) is not None:
            origin = (
                known.functions[0]
                if isinstance(known, Overloads)
                else known.declaration
                if isinstance(known, TypeEntry)
                else known
            )
            place = f" (first at {origin.span.file}:{origin.span.line})" if origin else ""
            self.reporter.error(node.name_span, f"'{node.name}' is declared twice{place}")
        scope.symbols[node.name] = symbol if symbol is not None else node


def closest(name: str, candidates: set[str]) -> str:
    """Return a question whether the most similar candidate was meant; an empty text if none is
    similar."""
    import difflib

    near = difflib.get_close_matches(name, sorted(candidates), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


_SIMPLE = {
    "bool": BOOL, "error": ERROR, "string": STRING, "match_kind": MATCH_KIND, "void": VOID,
    "_": DONT_CARE, "int": INTEGER, "bit": BitType(1),
}  # fmt: skip


_IN_ARRAYS = (
    BitType, IntType, BoolType, EnumType, ErrorType, StructType, TypeVariable, UnknownType,
)  # fmt: skip


def _can_be_in_array(kind: Type) -> bool:
    """Return whether there are arrays of a type (specification, section "Type nesting rules")."""
    bare = base_type(kind)
    if isinstance(bare, StackType):
        return not is_header_stack(bare)
    return isinstance(bare, _IN_ARRAYS)


def _count_fields(kind: Type) -> int:
    """Return the number of fields of a type, at least 1. Counting ends where there are too many."""
    bare = resolved(kind)
    if isinstance(bare, StackType):
        return bare.size * _count_fields(bare.element)
    count = 0
    for item in member_types(bare).values():
        count += _count_fields(item)
        if count > MOST_FIELDS:
            break
    return max(count, 1)


@dataclass(eq=False)
class TypeResolver:
    """A type resolver resolves references to types; `constant` evaluates widths and sizes."""

    context: CheckContext
    constant: Callable[[syntax.Expression, Scope], int]

    def resolve(
        self, reference: syntax.TypeReference, scope: Scope, *, wild: bool = False,
        inferred: bool = False,
    ) -> Type:  # fmt: skip
        """Return the type that `reference` names; report an error and raise `Abandon` if there is
        none.

        Its type arguments may be ``_`` if it is `wild`, and left out if they are `inferred`.
        """
        kind = self._resolve(reference, scope, wild, inferred)
        if not isinstance(reference, syntax.BaseTypeReference):
            self.check_count(kind, reference.span)
            problem = nesting_problem(kind)
            self.context.reporter.fail_if(problem, reference.span, problem)
        return kind

    def argument(self, reference: syntax.TypeReference, scope: Scope, wild: bool) -> Type:
        """Return the type that a type argument names; it may be ``_`` if it is `wild`."""
        if isinstance(reference, syntax.BaseTypeReference) and reference.kind == "_":
            self.context.reporter.fail_if(
                not wild,
                reference.span,
                "'_' stands for a type only in what is instantiated or called, and in the "
                "parameters of a package",
            )
            return DONT_CARE
        kind = self.resolve(reference, scope)
        self.context.reporter.fail_if(
            isinstance(resolved(kind), BLOCKS),
            reference.span,
            f"{kind} cannot be a type argument, or an element of a tuple or list",
        )
        return kind

    def check_count(self, kind: Type, span: Span) -> None:
        """Raise `Abandon` if a type has more fields than can be compiled."""
        self.context.reporter.fail_if(
            _count_fields(kind) > MOST_FIELDS,
            span,
            f"{kind} has more than {MOST_FIELDS} fields, those of its fields counted",
        )

    def _resolve(
        self, reference: syntax.TypeReference, scope: Scope, wild: bool, inferred: bool
    ) -> Type:
        match reference:
            case syntax.BaseTypeReference():
                return self._base(reference, scope)
            case syntax.StackTypeReference():
                return self._stack(reference, scope)
            case syntax.TupleTypeReference():
                elements = [self.argument(item, scope, False) for item in reference.elements]
                return ListType(elements[0]) if reference.is_list else TupleType(tuple(elements))
        assert isinstance(reference, syntax.NamedTypeReference)
        return self._named(reference, scope, wild, inferred)

    def _base(self, reference: syntax.BaseTypeReference, scope: Scope) -> Type:
        if reference.width is None:
            self.context.reporter.fail_if(
                reference.kind == "varbit", reference.span, "varbit needs a width: varbit<N>"
            )
            return _SIMPLE[reference.kind]
        width = self.constant(reference.width, scope)
        least = 1 if reference.kind == "int" else 0
        self.context.reporter.fail_if(
            not least <= width <= MAXIMUM_BITS,
            reference.width.span,
            f"width {width} of {reference.kind}<> is not within {least} to {MAXIMUM_BITS}",
        )
        return {"bit": BitType, "int": IntType, "varbit": VarbitType}[reference.kind](width)

    def _stack(self, reference: syntax.StackTypeReference, scope: Scope) -> Type:
        element = self.resolve(reference.element, scope)
        size = self.constant(reference.size, scope)
        self.context.reporter.fail_if(
            not _can_be_in_array(element), reference.span, f"there are no arrays of {element}"
        )
        stack = StackType(element, size)
        what = "a header stack" if is_header_stack(stack) else "an array"
        self.context.reporter.fail_if(
            not 1 <= size <= 4096,
            reference.size.span,
            f"{what}'s size must be 1 to 4096, not {size}",
        )
        return stack

    def _named(
        self, reference: syntax.NamedTypeReference, scope: Scope, wild: bool, inferred: bool
    ) -> Type:
        entry = scope.find(reference.name)
        if not isinstance(entry, TypeEntry):
            if reference.name in self.context.broken:
                return UNKNOWN
            known = {name for name in scope.names() if isinstance(scope.find(name), TypeEntry)}
            raise self.context.reporter.fail(
                reference.span,
                f"'{reference.name}' is not a type{closest(reference.name, known)}",
            )
        arguments = [self.argument(item, scope, wild) for item in reference.arguments]
        if not arguments:
            names = ", ".join(item.name for item in entry.parameters)
            self.context.reporter.fail_if(
                names and not inferred,
                reference.span,
                f"'{reference.name}' needs type arguments for <{names}>",
            )
            return entry.type
        self.context.reporter.fail_if(
            len(arguments) != len(entry.parameters),
            reference.span,
            f"'{reference.name}' takes {len(entry.parameters)} type argument(s), "
            f"not {len(arguments)}",
        )
        return substitute(entry.type, dict(zip(entry.parameters, arguments, strict=True)))

    def check_field(self, kind: Type, owner: str, span: Span, name: str) -> None:
        """Report an error if a header, union or struct may not have such a field ("Type nesting
        rules")."""
        self.context.reporter.error_if(
            field_problem(kind, owner),
            span,
            f"a {owner.replace('_', ' ')} cannot have a field of type {kind}: '{name}'",
        )
