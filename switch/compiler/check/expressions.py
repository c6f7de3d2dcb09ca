"""Types of expressions, implicit casts, and values known at compile time.

Specification, chapter "Expressions". Checking sets `type` and, where it can, `constant`; a child
that needs an implicit cast is replaced by a `CastExpression`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.annotations import ParseAnnotation, key_values
from weft.switch.compiler.check.coercion import Coercer
from weft.switch.compiler.check.members import MemberChecker
from weft.switch.compiler.check.operations import OperationChecker
from weft.switch.compiler.check.scope import (
    CheckContext,
    Overloads,
    Scope,
    TypeEntry,
    TypeResolver,
    closest,
)
from weft.switch.compiler.check.type_rules import type_without_default
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BOOL,
    INTEGER,
    MATCH_KIND,
    STRING,
    BitType,
    CallableType,
    EnumType,
    ErrorType,
    IntegerType,
    IntType,
    InvalidHeaderType,
    ListType,
    NewType,
    RecordType,
    StackType,
    StructType,
    TupleType,
    Type,
    UnknownType,
    VarbitType,
    base_type,
    is_union,
    resolved,
    scalar_width,
    written_types,
)

_CheckCall = Callable[[syntax.CallExpression, Scope, Type | None], None]


class ExpressionChecker:
    """An expression checker checks expressions; `check_call` checks the calls in them."""

    def __init__(
        self, context: CheckContext, check_call: _CheckCall, parse_annotation: ParseAnnotation
    ) -> None:
        self.context = context
        self.reporter = context.reporter
        self.parse_annotation = parse_annotation
        self.types = TypeResolver(context, self.constant_integer)
        self.coercer = Coercer(context.reporter)
        self.members = MemberChecker(context, self.types, self.check, self.constant_integer)
        operations = OperationChecker(context, self.types, self.coercer, self.check)
        self._methods: dict[type[syntax.Expression], Callable[..., None]] = {
            syntax.IntegerLiteral: self._integer,
            syntax.BooleanLiteral: lambda node, scope, expected: _set(node, BOOL, node.value),
            syntax.StringLiteral: lambda node, scope, expected: _set(node, STRING, node.value),
            syntax.InvalidHeader: lambda node, scope, expected: _set(node, InvalidHeaderType()),
            syntax.Dots: self._dots,
            syntax.Name: self._name,
            syntax.TypeExpression: self._type,
            syntax.MemberAccess: lambda node, scope, expected: self.members.member(node, scope),
            syntax.Index: lambda node, scope, expected: self.members.index(node, scope),
            syntax.Slice: lambda node, scope, expected: self.members.slice(node, scope),
            syntax.ListExpression: self._list,
            syntax.RecordExpression: self._record,
            syntax.CallExpression: check_call,
            syntax.Unary: lambda node, scope, expected: operations.unary(node, scope),
            syntax.Binary: lambda node, scope, expected: operations.binary(node, scope),
            syntax.Conditional: operations.conditional,
            syntax.CastExpression: lambda node, scope, expected: operations.cast(node, scope),
        }

    def check(
        self, node: syntax.Expression, scope: Scope, expected: Type | None = None
    ) -> syntax.Expression:
        """Check an expression, and cast it to `expected` if that is given. Return the node to use
        in its place."""
        method = self._methods.get(type(node))
        if method is None:
            raise self.reporter.fail(node.span, "this cannot be used as an expression here")
        method(node, scope, expected)
        if isinstance(node.type, UnknownType):
            raise Abandon  # reported where it was declared
        if expected is None or isinstance(expected, UnknownType):
            return node
        return self.coercer.coerce(node, expected)

    def assigned(self, node: syntax.Expression, scope: Scope, kind: Type) -> syntax.Expression:
        """Check what becomes the whole value of something of a type; return the node to use in its
        place. A number without a width becomes of a type that ``type`` makes of numbers, as with
        p4c; elsewhere it needs a cast."""
        if not isinstance(kind, NewType) or isinstance(node, syntax.Dots):
            return self.check(node, scope, kind)
        node = self.check(node, scope)
        if isinstance(node.type, IntegerType) and isinstance(kind.underlying, (BitType, IntType)):
            return self.coercer.implicit(node, kind)
        return self.coercer.coerce(node, kind)

    def constant_integer(self, node: syntax.Expression, scope: Scope) -> int:
        """Return the value of an expression that must be an integer known at compile time."""
        value = self.check(node, scope).constant
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.reporter.fail(node.span, "expected a number that is known at compile time")
        return value

    def static_number(
        self, node: syntax.Expression, scope: Scope, message: str
    ) -> syntax.Expression:
        """Check an expression that must be a number known at compile time, if need be only once the
        parameters of constructors are (specification, section "Compile-time known values")."""
        node = self.check(node, scope)
        is_number = isinstance(base_type(type_of(node)), (BitType, IntType, IntegerType))
        known = node.constant is not None or is_static(node)
        self.reporter.fail_if(not (is_number and known), node.span, message)
        return node

    def annotations(self, node: object, scope: Scope) -> None:
        """Check that the values in a node's structured annotations are known (specification,
        section "Bodies of Structured Annotations")."""
        for annotation in getattr(node, "annotations", ()):
            if annotation.bracket != "[":
                continue
            pairs = key_values(annotation, self.parse_annotation)
            for value in (
                [value for _, value, _ in pairs] if pairs else self.parse_annotation(annotation)
            ):
                with suppress(Abandon):
                    found = self.check(value, scope)
                    self.reporter.fail_if(
                        found.constant is None or found.type not in (STRING, INTEGER, BOOL),
                        value.span,
                        f"what stands in @{annotation.name}[] must be known at compile time, and "
                        "be a string, an int or a bool",
                    )

    # Literals and names

    def _integer(self, node: syntax.IntegerLiteral, scope: Scope, expected: Type | None) -> None:
        match node.width:
            case None:
                _set(node, INTEGER, node.value)
            case _ if not node.signed:
                kind = BitType(node.width)
                _set(node, kind, constants.wrap(node.value, kind))
                if node.constant != node.value:
                    self.reporter.warning(
                        node.span,
                        f"{node.text} does not fit: it becomes {node.constant}",
                        "mismatch",
                    )
            case 0:
                raise self.reporter.fail(node.span, "a signed number needs a width of at least 1")
            case _:
                _set(node, IntType(node.width), node.value)

    def _dots(self, node: syntax.Dots, scope: Scope, expected: Type | None) -> None:
        if expected is None:
            raise self.reporter.fail(
                node.span, "'...' stands for a default value of unknown type here"
            )
        node.type, bare = expected, base_type(expected)
        without_default = type_without_default(expected)
        self.reporter.fail_if(
            without_default is not None,
            node.span,
            f"'...' stands for no value here: type {without_default} has no default value",
        )
        without = (EnumType, ErrorType, VarbitType)
        if scalar_width(expected) is not None and not isinstance(bare, without):
            node.constant = False if bare == BOOL else 0

    def _name(self, node: syntax.Name, scope: Scope, expected: Type | None) -> None:
        if node.name in self.context.match_kinds and scope.find(node.name) is None:
            _set(node, MATCH_KIND, node.name)
            return
        symbol = self.context.symbol(node, scope)
        match symbol:
            case TypeEntry():
                raise self.reporter.fail(node.span, f"'{node.name}' is a type; expected a value")
            case Overloads():
                node.declaration = symbol.functions[0]
                node.type = CallableType("function", node.name)
                return
        node.declaration = symbol
        is_action = isinstance(symbol, syntax.ActionDeclaration)
        node.type = CallableType("action", node.name) if is_action else symbol.type
        self.reporter.fail_if(node.type is None, node.span, f"'{node.name}' cannot be used here")
        if isinstance(symbol, syntax.Constant):
            node.constant = symbol.value.constant

    def _type(self, node: syntax.TypeExpression, scope: Scope, expected: Type | None) -> None:
        raise self.reporter.fail(node.span, "expected a value, not a type")

    # Composite values

    def _list(self, node: syntax.ListExpression, scope: Scope, expected: Type | None) -> None:
        for item in node.items[:-1]:
            self.reporter.fail_if(
                isinstance(item, syntax.Dots), item.span, "'...' can only be the last in a list"
            )
        bare = resolved(expected) if expected is not None else None
        if isinstance(bare, ListType) and not node.is_list:
            bare = None  # a tuple, which is none
        types = None if bare is None else written_types(bare, len(node.items))
        wanted: list[Type | None] = [None] * len(node.items) if types is None else [*types]
        if len(wanted) != len(node.items):
            filled = bool(node.items) and isinstance(node.items[-1], syntax.Dots)
            self.reporter.fail_if(
                not filled or len(node.items) - 1 > len(wanted),
                node.span,
                f"{len(node.items)} value(s) for the {len(wanted)} field(s) of {expected}",
            )
            filler = node.items.pop()
            node.items += [syntax.Dots(filler.span) for _ in range(len(wanted) - len(node.items))]
        node.items = [
            self.check(item, scope, kind) for item, kind in zip(node.items, wanted, strict=True)
        ]
        node.type = expected
        if not isinstance(bare, (StructType, StackType, ListType)) or is_union(bare):
            node.type = TupleType(tuple(type_of(item) for item in node.items))
        _note_constant(node, node.items)

    def _record(self, node: syntax.RecordExpression, scope: Scope, expected: Type | None) -> None:
        bare = resolved(expected) if expected is not None else None
        given: dict[str, syntax.Expression] = {}
        for name, value in node.fields:
            self.reporter.fail_if(name in given, value.span, f"field '{name}' is given twice")
            given[name] = value
        if not isinstance(bare, StructType) or is_union(bare):
            node.fields = [(name, self.check(value, scope)) for name, value in node.fields]
            node.type = RecordType(tuple((name, type_of(value)) for name, value in node.fields))
        else:
            for name, value in node.fields:
                if name not in bare.fields:
                    raise self.reporter.fail(
                        value.span, f"{bare} has no field '{name}'{closest(name, set(bare.fields))}"
                    )
            missing = [name for name in bare.fields if name not in given]
            self.reporter.fail_if(
                missing and not node.defaults,
                node.span,
                f"no value for field(s) {', '.join(missing)} of {bare}",
            )
            node.fields = [
                (name, self.check(given.get(name) or syntax.Dots(node.span), scope, kind))
                for name, kind in bare.fields.items()
            ]
            node.type = expected
            _note_constant(node, [value for _, value in node.fields])


def _set(node: syntax.Expression, kind: Type, constant: syntax.KnownValue | None = None) -> None:
    node.type, node.constant = kind, constant


def _note_constant(node: syntax.Expression, items: list[syntax.Expression]) -> None:
    """Note the value of a list or record if all of its items are known at compile time."""
    values = [item.constant for item in items]
    if items and None not in values:
        node.constant = tuple(values)


@dataclass(eq=False)
class ExpressionUser:
    """A part of the checker that is derived from this checks expressions, too."""

    expressions: ExpressionChecker

    def __post_init__(self) -> None:
        self.context = self.expressions.context
        self.reporter = self.context.reporter
