"""Types of expressions, implicit casts, and values known at compile time.

Specification, chapter "Expressions". Each method sets `type` and, where it can, `constant`; a child
that needs an implicit cast is replaced by a `Cast`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.check.coerce import Coercer
from weft.switch.compiler.check.operations import OperationChecker, type_of
from weft.switch.compiler.check.resolve import TypeResolver
from weft.switch.compiler.check.scope import Context, Overloads, Scope, TypeEntry, closest
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.types import (
    BOOL,
    ERROR,
    INTEGER,
    STRING,
    ActionEnumType,
    ApplyResultType,
    BitType,
    CallableType,
    EnumType,
    ErrorType,
    IntegerType,
    IntType,
    InvalidHeaderType,
    ListType,
    RecordType,
    SerializableEnumType,
    StackType,
    StructType,
    TableType,
    TupleType,
    Type,
    TypeVariable,
    UnknownType,
    base_type,
    is_header_stack,
    is_union,
    resolved,
    scalar_width,
)

if TYPE_CHECKING:
    from weft.switch.compiler.check.calls import CallChecker

_COMPARISONS = ("<", ">", "<=", ">=")
_BITWISE = ("&", "|", "^")
_ARITHMETIC = ("+", "-", "*", "|+|", "|-|", "/", "%")


class ExpressionChecker(OperationChecker):
    def __init__(self, context: Context) -> None:
        self.context = context
        self.reporter = context.reporter
        self.types = TypeResolver(context, self.constant_integer)
        self.coercer = Coercer(context)
        self.calls: CallChecker  # set by the calls' checker: the two need each other
        self.this: Type | None = None
        self.in_parser = False

    # Entry points

    def check(
        self, node: syntax.Expression, scope: Scope, expected: Type | None = None
    ) -> syntax.Expression:
        """Check an expression and cast it to `expected` if given; the node to use instead of it."""
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise self.reporter.fail(node.span, "this cannot be used as an expression here")
        method(node, scope, expected)
        if isinstance(node.type, UnknownType):
            raise Abandon  # reported where it was declared
        if expected is None or isinstance(expected, UnknownType):
            return node
        return self.coercer.coerce(node, expected)

    def constant_integer(self, node: syntax.Expression, scope: Scope) -> int:
        """The value of an expression that must be an integer known at compile time."""
        checked = self.check(node, scope)
        if isinstance(checked.constant, bool) or not isinstance(checked.constant, int):
            message = "expected a number that is known at compile time"
            raise self.reporter.fail(node.span, message)
        return checked.constant

    # Literals and names

    def _integerliteral(
        self, node: syntax.IntegerLiteral, scope: Scope, expected: Type | None
    ) -> None:
        node.constant = node.value
        if node.width is None:
            node.type = INTEGER
            return
        if node.signed and node.width == 0:
            raise self.reporter.fail(node.span, "a signed number needs a width of at least 1")
        node.type = IntType(node.width) if node.signed else BitType(node.width)
        if not node.signed:
            wrapped = constants.wrap(node.value, node.type)
            if wrapped != node.value:
                self.reporter.warning(
                    node.span, f"{node.text} does not fit: it becomes {wrapped}", "mismatch"
                )
            node.constant = wrapped

    def _booleanliteral(
        self, node: syntax.BooleanLiteral, scope: Scope, expected: Type | None
    ) -> None:
        node.type, node.constant = BOOL, node.value

    def _stringliteral(
        self, node: syntax.StringLiteral, scope: Scope, expected: Type | None
    ) -> None:
        node.type, node.constant = STRING, node.value

    def _invalidheader(
        self, node: syntax.InvalidHeader, scope: Scope, expected: Type | None
    ) -> None:
        node.type = InvalidHeaderType()

    def _dots(self, node: syntax.Dots, scope: Scope, expected: Type | None) -> None:
        if expected is None:
            raise self.reporter.fail(
                node.span, "'...' stands for a default value of unknown type here"
            )
        node.type = expected
        width = scalar_width(expected)
        if width is not None and not isinstance(base_type(expected), (EnumType, ErrorType)):
            node.constant = False if base_type(expected) == BOOL else 0

    def _name(self, node: syntax.Name, scope: Scope, expected: Type | None) -> None:
        symbol = (scope.root() if node.absolute else scope).find(node.name)
        if symbol is None:
            near = closest(node.name, scope.names())
            message = f"'{node.name}' is not declared{near}"
            raise self.context.undeclared(node.name, node.span, message)
        if isinstance(symbol, TypeEntry):
            raise self.reporter.fail(node.span, f"'{node.name}' is a type; expected a value")
        if isinstance(symbol, Overloads):
            node.declaration = symbol.functions[0]
            node.type = CallableType("function", node.name)
            return
        node.declaration = symbol
        if isinstance(symbol, syntax.Action):
            node.type = CallableType("action", node.name)
            return
        kind = getattr(symbol, "type", None)
        if kind is None:
            raise self.reporter.fail(node.span, f"'{node.name}' cannot be used here")
        node.type = kind
        if isinstance(symbol, syntax.Constant):
            node.constant = symbol.value.constant

    def _typeexpression(
        self, node: syntax.TypeExpression, scope: Scope, expected: Type | None
    ) -> None:
        raise self.reporter.fail(node.span, "expected a value, not a type")

    # Members, elements, slices

    def _member(self, node: syntax.Member, scope: Scope, expected: Type | None) -> None:
        if isinstance(node.base, syntax.TypeExpression):
            self._type_member(node, node.base, scope)
            return
        node.base = self.check(node.base, scope)
        kind = resolved(type_of(node.base))
        if isinstance(kind, StructType):
            if node.name not in kind.fields:
                near = closest(node.name, set(kind.fields)) or (
                    f"; it has {', '.join(list(kind.fields)[:8]) or 'none'}"
                )
                raise self.reporter.fail(node.name_span, f"{kind} has no field '{node.name}'{near}")
            node.type = kind.fields[node.name]
            if isinstance(node.base.constant, tuple):
                node.constant = node.base.constant[list(kind.fields).index(node.name)]
        elif isinstance(kind, StackType):
            self._stack_member(node, kind)
        elif isinstance(kind, ApplyResultType):
            found = {"hit": BOOL, "miss": BOOL, "action_run": ActionEnumType(kind.declaration)}
            if node.name not in found:
                message = f"apply() gives hit, miss and action_run, not '{node.name}'"
                raise self.reporter.fail(node.name_span, message)
            node.type = found[node.name]
        elif isinstance(kind, TypeVariable):
            raise self.reporter.fail(node.span, f"not supported: members of a value of type {kind}")
        else:
            raise self.reporter.fail(node.name_span, f"{kind} has no member '{node.name}'")

    def _stack_member(self, node: syntax.Member, kind: StackType) -> None:
        if node.name != "size" and not is_header_stack(kind):
            raise self.reporter.fail(node.name_span, f"an array has no '{node.name}'")
        if node.name in ("next", "last", "lastIndex") and not self.in_parser:
            message = f"'{node.name}' of a header stack can only be used in a parser"
            raise self.reporter.fail(node.name_span, message)
        if node.name in ("next", "last"):
            node.type = kind.element
        elif node.name == "lastIndex":
            node.type = BitType(32)
        elif node.name == "size":
            node.type, node.constant = BitType(32), kind.size
        else:
            message = f"a header stack has next, last, lastIndex and size, not '{node.name}'"
            raise self.reporter.fail(node.name_span, message)

    def _type_member(self, node: syntax.Member, base: syntax.TypeExpression, scope: Scope) -> None:
        kind = self.types.resolve(base.reference, scope)
        if isinstance(kind, ErrorType):
            if node.name not in self.context.errors:
                near = closest(node.name, set(self.context.errors))
                raise self.reporter.fail(node.name_span, f"no error is called '{node.name}'{near}")
            node.type, node.constant = ERROR, node.name
        elif isinstance(kind, (EnumType, SerializableEnumType)):
            if node.name not in kind.members:
                near = closest(node.name, set(kind.members))
                message = f"enum {kind.name} has no member '{node.name}'{near}"
                raise self.reporter.fail(node.name_span, message)
            node.type = kind
            member = node.name
            node.constant = member if isinstance(kind, EnumType) else kind.members[member]
        else:
            raise self.reporter.fail(node.span, f"type {kind} has no member '{node.name}'")

    def _index(self, node: syntax.Index, scope: Scope, expected: Type | None) -> None:
        node.base = self.check(node.base, scope)
        node.index = self.check(node.index, scope)
        kind = resolved(type_of(node.base))
        self._numeric(node.index, "an index")
        if isinstance(kind, TupleType):
            position = node.index.constant
            if not isinstance(position, int) or not 0 <= position < len(kind.elements):
                message = f"a tuple's index must be known, 0 to {len(kind.elements) - 1}"
                raise self.reporter.fail(node.index.span, message)
            node.type = kind.elements[position]
            if isinstance(node.base.constant, tuple):
                node.constant = node.base.constant[position]
            return
        if not isinstance(kind, StackType):
            raise self.reporter.fail(node.span, f"{kind} has no elements")
        position = node.index.constant
        if isinstance(position, int) and not 0 <= position < kind.size:
            message = f"index {position} is not within the stack's 0 to {kind.size - 1}"
            raise self.reporter.fail(node.index.span, message)
        node.type = kind.element

    def _slice(self, node: syntax.Slice, scope: Scope, expected: Type | None) -> None:
        node.base = self.check(node.base, scope)
        kind = base_type(type_of(node.base))
        if node.low_and_width and self._moving_slice(node, kind, scope):
            return
        low = self.constant_integer(node.low, scope)
        high = self.constant_integer(node.high, scope)
        if node.low_and_width:
            high = low + high - 1
        if not isinstance(kind, (BitType, IntType, IntegerType)):
            raise self.reporter.fail(node.span, f"a slice of {kind} is not possible")
        width = kind.width if isinstance(kind, (BitType, IntType)) else constants.MAXIMUM_BITS
        if not 0 <= low <= high < width:
            message = f"slice [{high}:{low}] is not within the {width} bits of {kind}"
            raise self.reporter.fail(node.span, message)
        node.high = syntax.IntegerLiteral(node.high.span, high)
        node.low = syntax.IntegerLiteral(node.low.span, low)
        node.high.constant, node.low.constant = high, low
        node.low_and_width = False
        node.type = BitType(high - low + 1)
        if isinstance(node.base.constant, int):
            node.constant = constants.wrap(node.base.constant >> low, node.type)

    def _moving_slice(self, node: syntax.Slice, kind: Type, scope: Scope) -> bool:
        """``base[low +: width]`` where `low` is not known at compile time."""
        node.low = self.check(node.low, scope)
        if node.low.constant is not None:
            return False
        width = self.constant_integer(node.high, scope)
        total = kind.width if isinstance(kind, (BitType, IntType)) else 0
        if not 0 < width <= total:
            message = f"a slice of {width} bits is not possible: {type_of(node.base)}"
            raise self.reporter.fail(node.span, message)
        if not isinstance(base_type(type_of(node.low)), BitType):
            message = f"where a slice begins must have type bit<N>, not {type_of(node.low)}"
            raise self.reporter.fail(node.low.span, message)
        node.type = BitType(width)
        return True

    # Composite values

    def _listexpression(
        self, node: syntax.ListExpression, scope: Scope, expected: Type | None
    ) -> None:
        wanted: list[Type | None] = [None] * len(node.items)
        bare = resolved(expected) if expected is not None else None
        if isinstance(bare, StructType) and not is_union(bare):
            wanted = list(bare.fields.values())
        elif isinstance(bare, TupleType):
            wanted = list(bare.elements)
        elif isinstance(bare, StackType):
            wanted = [bare.element] * bare.size
        elif isinstance(bare, ListType):
            wanted = [bare.element] * len(node.items)
        if len(wanted) != len(node.items):
            if node.items and isinstance(node.items[-1], syntax.Dots):
                filler = node.items.pop()
                while len(node.items) < len(wanted):
                    node.items.append(syntax.Dots(filler.span))
            else:
                message = f"{len(node.items)} value(s) for the {len(wanted)} field(s) of {expected}"
                raise self.reporter.fail(node.span, message)
        node.items = [
            self.check(item, scope, kind) for item, kind in zip(node.items, wanted, strict=True)
        ]
        if isinstance(bare, (StructType, StackType, ListType)):
            node.type = expected
        else:
            node.type = TupleType(tuple(type_of(item) for item in node.items))
        self._note_constant(node, node.items)

    def _note_constant(self, node: syntax.Expression, items: list[syntax.Expression]) -> None:
        values = [item.constant for item in items]
        if items and all(value is not None for value in values):
            node.constant = tuple(values)

    def _recordexpression(
        self, node: syntax.RecordExpression, scope: Scope, expected: Type | None
    ) -> None:
        bare = resolved(expected) if expected is not None else None
        seen: set[str] = set()
        for name, value in node.fields:
            if name in seen:
                raise self.reporter.fail(value.span, f"field '{name}' is given twice")
            seen.add(name)
        if not isinstance(bare, StructType) or is_union(bare):
            node.fields = [(name, self.check(value, scope)) for name, value in node.fields]
            node.type = RecordType(tuple((name, type_of(value)) for name, value in node.fields))
            return
        given = dict(node.fields)
        for name, value in node.fields:
            if name not in bare.fields:
                near = closest(name, set(bare.fields))
                raise self.reporter.fail(value.span, f"{bare} has no field '{name}'{near}")
        missing = [name for name in bare.fields if name not in given]
        if missing and not node.defaults:
            message = f"no value for field(s) {', '.join(missing)} of {bare}"
            raise self.reporter.fail(node.span, message)
        node.fields = [
            (name, self.check(given.get(name) or syntax.Dots(node.span), scope, kind))
            for name, kind in bare.fields.items()
        ]
        node.type = expected
        self._note_constant(node, [value for _, value in node.fields])

    def _call(self, node: syntax.Call, scope: Scope, expected: Type | None) -> None:
        self.calls.check(node, scope, expected)

    # Whether something can be assigned to

    def check_writable(self, node: syntax.Expression) -> None:
        """Report an error unless `node` is an l-value (specification, section "L-values")."""
        base = node
        while isinstance(base, (syntax.Member, syntax.Index, syntax.Slice)):
            of_stack = isinstance(base.base.type, StackType)
            if of_stack and isinstance(base, syntax.Member) and base.name != "next":
                raise self.reporter.fail(node.span, f"'{base.name}' cannot be assigned to")
            base = base.base
        declaration = base.declaration if isinstance(base, syntax.Name) else None
        if isinstance(declaration, syntax.Variable):
            return
        if isinstance(declaration, syntax.Parameter):
            if declaration.direction in ("out", "inout"):
                return
            kind = f"an '{declaration.direction}'" if declaration.direction else "a directionless"
            message = f"'{declaration.name}' is {kind} parameter and cannot be changed"
            raise self.reporter.fail(node.span, message)
        if isinstance(declaration, syntax.Constant):
            raise self.reporter.fail(node.span, f"'{declaration.name}' is a constant")
        if isinstance(declaration, (TableType, syntax.Table)):
            raise self.reporter.fail(node.span, "a table cannot be assigned to")
        raise self.reporter.fail(node.span, "this cannot be assigned to")
