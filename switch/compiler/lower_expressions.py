"""Lowering of expressions: to places, to BMv2's expressions, and to code for side effects."""

from __future__ import annotations

from collections.abc import Callable

from switch.compiler import arithmetic, ir, syntax
from switch.compiler.check_operations import type_of
from switch.compiler.constants import EvaluationError
from switch.compiler.diagnostics import NOWHERE, Abandon, Span
from switch.compiler.shared import Shared
from switch.compiler.storage import (
    ElementPlace,
    FieldPlace,
    HeaderPlace,
    NextPlace,
    OffsetPlace,
    Place,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    header_fields,
    is_flag,
)
from switch.compiler.types import (
    EnumType,
    ErrorType,
    StackType,
    StructType,
    TupleType,
    Type,
    base_type,
    is_header,
    is_union,
    resolved,
    scalar_width,
)
from switch.compiler.values import (
    Composite,
    Environment,
    Value,
)

PLACES = (
    FieldPlace, HeaderPlace, StackPlace, UnionPlace, StructPlace, ElementPlace, NextPlace,
    OffsetPlace, SlicePlace,
)  # fmt: skip


def member_types(kind: Type) -> dict[str, Type]:
    """The members of a struct, header, union or tuple."""
    bare = resolved(kind)
    if isinstance(bare, StructType):
        return dict(bare.fields)
    if isinstance(bare, TupleType):
        return {str(index): item for index, item in enumerate(bare.elements)}
    return {}


class ExpressionLowering:
    """Lowers expressions; code that must run before an expression has its value goes to `code`."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.reporter = shared.reporter
        self.storage = shared.storage
        self.code: list[ir.Code] = []
        self.span: Span = NOWHERE

    # Emission

    def do(self, operation: str, *operands: ir.Expression) -> None:
        self.code.append(ir.Do(operation, operands, self.span))

    def captured(self, action: Callable[[], None]) -> list[ir.Code]:
        """The code that `action` emits."""
        before, self.code = self.code, []
        try:
            action()
            return self.code
        finally:
            self.code = before

    def temporary(self, kind: Type, name: str = "tmp") -> Place:
        return self.storage.allocate(name, kind)

    def fail(self, node: syntax.Node, message: str) -> Abandon:
        return self.reporter.fail(node.span, message)

    # Values

    def constant(self, value: object, kind: Type, node: syntax.Node) -> Value:
        """A value known at compile time as a lowered one."""
        bare = base_type(kind)
        if isinstance(value, tuple):
            members = member_types(kind)
            return Composite(
                kind,
                {
                    name: self.constant(item, item_type, node)
                    for (name, item_type), item in zip(members.items(), value, strict=True)
                },
            )
        if isinstance(bare, EnumType):
            return ir.Number(bare.members.index(str(value)))
        if isinstance(bare, ErrorType):
            return ir.Number(self.shared.program.errors.index(str(value)))
        if isinstance(value, bool):
            return ir.Truth(value)
        if isinstance(value, int):
            return ir.Number(value)
        return ir.Text(str(value))

    def value(self, node: syntax.Expression, env: Environment) -> Value:
        """The value of an expression: a BMv2 expression, a place, a composite or an instance."""
        if node.constant is not None and node.type is not None:
            is_stack = isinstance(resolved(node.type), StackType)
            if not is_stack:
                return self.constant(node.constant, node.type, node)
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise self.fail(node, "not supported: this expression here")
        try:
            result: Value = method(node, env)
        except EvaluationError as problem:
            raise self.fail(node, str(problem)) from None
        return result

    def scalar(self, node: syntax.Expression, env: Environment) -> ir.Expression:
        """The value of an expression of a type that one field holds."""
        return self.expression_of(self.value(node, env), node)

    def expression_of(self, value: Value, node: syntax.Node) -> ir.Expression:
        if isinstance(value, ir.Expression):
            return value
        if isinstance(value, PLACES):
            return self.read(value, node)
        raise self.fail(node, "not supported: this value here")

    def number(self, node: syntax.Expression, env: Environment) -> ir.Expression:
        """The value of an expression as a number (a truth value as 0 or 1)."""
        return arithmetic.number(self.scalar(node, env))

    def truth(self, node: syntax.Expression, env: Environment) -> ir.Expression:
        return arithmetic.truth(self.scalar(node, env))

    def read(self, place: Place, node: syntax.Node) -> ir.Expression:
        """The value in a place that holds a number or truth value."""
        if isinstance(place, FieldPlace):
            expression: ir.Expression = ir.Field(place.header, place.name)
        elif isinstance(place, OffsetPlace):
            expression = self.offset_field(place, node)
        elif isinstance(place, SlicePlace):
            kind = getattr(place.base, "type", place.type)
            return arithmetic.slice_of(self.read(place.base, node), place.high, place.low, kind)
        else:
            raise self.fail(node, "not supported: a header or struct as an operand here")
        return arithmetic.truth(expression) if is_flag(place.type) else expression

    def offset_field(self, place: OffsetPlace, node: syntax.Node) -> ir.Expression:
        if place.index is None:
            return ir.LastField(place.stack.name, place.name)
        element = resolved(place.stack.type.element)
        assert isinstance(element, StructType)
        names = [name for name, _ in header_fields(element)]
        return ir.ElementField(self.element(place.stack, place.index), names.index(place.name))

    def element(self, stack: StackPlace, index: ir.Expression) -> ir.Expression:
        return ir.Operation(
            "dereference_header_stack", ir.Reference("header_stack", stack.name), index
        )

    def header_reference(self, value: Value, node: syntax.Node) -> ir.Expression:
        """A header as an operand of a primitive."""
        if isinstance(value, HeaderPlace):
            return ir.Reference("header", value.name)
        if isinstance(value, ElementPlace):
            return self.element(value.stack, value.index)
        raise self.fail(node, "not supported: this header here")

    def place(self, node: syntax.Expression, env: Environment) -> Place:
        """The place that an l-value names."""
        value = self.value(node, env)
        if not isinstance(value, PLACES):
            raise self.fail(node, "this cannot be assigned to")
        return value

    # Names and members

    def _name(self, node: syntax.Name, env: Environment) -> Value:
        declaration = node.declaration
        assert declaration is not None
        value = env.find(declaration)
        if value is not None:
            return value
        if isinstance(declaration, syntax.Constant):
            return self.value(declaration.value, self.shared.globals)
        raise self.fail(node, f"not supported: '{node.name}' here")

    def _member(self, node: syntax.Member, env: Environment) -> Value:
        if isinstance(node.base, syntax.Call) and node.base.target.kind == "table":
            return self.table_result(node.base, node.name, env)
        base = self.value(node.base, env)
        return self.member(base, node, env)

    def member(self, base: Value, node: syntax.Member, env: Environment) -> Value:
        name = node.name
        kind = type_of(node)
        if isinstance(base, (StructPlace, Composite, UnionPlace)):
            if isinstance(base, Composite) and not base.valid:
                raise self.fail(node, "a field of an invalid header is read")
            return base.members[name]
        if isinstance(base, HeaderPlace):
            return self._header_field(base.name, name, kind)
        if isinstance(base, (NextPlace, ElementPlace)):
            if isinstance(base, NextPlace) and not base.last:
                raise self.fail(
                    node, "not supported: fields of 'next'; extract it, then use 'last'"
                )
            if isinstance(resolved(kind), StructType):
                raise self.fail(node, "not supported: a struct or union in a stack's element here")
            index = base.index if isinstance(base, ElementPlace) else None
            return OffsetPlace(base.stack, index, name, kind)
        if isinstance(base, StackPlace):
            element = resolved(base.type.element)
            assert isinstance(element, StructType)
            if name in ("next", "last"):
                return NextPlace(base, element, name == "last")
            reference = ir.Reference("header_stack", base.name)
            if name == "lastIndex":
                last = ir.Operation("last_stack_index", None, reference)
                return arithmetic.wrapped(last, kind)
        raise self.fail(node, f"not supported: '.{name}' here")

    def _header_field(self, header: str, name: str, kind: Type) -> Place:
        bare = resolved(kind)
        if isinstance(bare, StructType):
            members = {
                key: self._header_field(header, f"{name}.{key}", item)
                for key, item in bare.fields.items()
            }
            return StructPlace(kind, members)
        return FieldPlace(header, name, kind)

    def _index(self, node: syntax.Index, env: Environment) -> Value:
        base = self.value(node.base, env)
        if isinstance(base, (Composite, StructPlace)):
            return base.members[str(node.index.constant)]
        if not isinstance(base, StackPlace):
            raise self.fail(node, "not supported: an element of this")
        index = self.number(node.index, env)
        if isinstance(index, ir.Number):
            return base.elements[index.value]
        element = resolved(base.type.element)
        if not is_header(element):
            raise self.fail(
                node, "not supported: an index into header unions that is not a constant"
            )
        assert isinstance(element, StructType)
        return ElementPlace(base, index, element)

    def _slice(self, node: syntax.Slice, env: Environment) -> Value:
        high, low = node.high.constant, node.low.constant
        assert isinstance(high, int) and isinstance(low, int)
        base = self.value(node.base, env)
        if isinstance(base, (FieldPlace, OffsetPlace, SlicePlace)):
            return SlicePlace(base, high, low, type_of(node))
        expression = self.expression_of(base, node)
        return arithmetic.slice_of(expression, high, low, type_of(node.base))

    # Composites

    def _listexpression(self, node: syntax.ListExpression, env: Environment) -> Value:
        kind = type_of(node)
        if isinstance(resolved(kind), StackType):
            raise self.fail(node, "not supported: a list as the value of a header stack")
        members = member_types(kind)
        return Composite(
            kind,
            {name: self.value(item, env) for name, item in zip(members, node.items, strict=True)},
        )

    def _recordexpression(self, node: syntax.RecordExpression, env: Environment) -> Value:
        return Composite(type_of(node), {name: self.value(item, env) for name, item in node.fields})

    def _invalidheader(self, node: syntax.InvalidHeader, env: Environment) -> Value:
        return Composite(type_of(node), {}, valid=False)

    def _dots(self, node: syntax.Dots, env: Environment) -> Value:
        return self.default(type_of(node), node)

    def default(self, kind: Type, node: syntax.Node) -> Value:
        """The value of ``...`` (section "Default values")."""
        bare = resolved(kind)
        if is_header(bare) or is_union(bare):
            return Composite(kind, {}, valid=False)
        if isinstance(bare, (StructType, TupleType)):
            return Composite(
                kind, {name: self.default(item, node) for name, item in member_types(kind).items()}
            )
        if scalar_width(bare) is None:
            raise self.fail(node, f"not supported: a default value of type {kind}")
        return ir.Truth(False) if is_flag(bare) else ir.Number(0)

    # Operations

    def _unary(self, node: syntax.Unary, env: Environment) -> Value:
        if node.operator == "!":
            return arithmetic.negate(self.truth(node.operand, env))
        return arithmetic.unary(node.operator, self.number(node.operand, env), type_of(node))

    def _cast(self, node: syntax.Cast, env: Environment) -> Value:
        target = type_of(node)
        if scalar_width(target) is None:
            value = self.value(node.operand, env)
            if isinstance(value, Composite):
                value.type = target
            return value
        return arithmetic.cast(self.scalar(node.operand, env), type_of(node.operand), target)

    def _conditional(self, node: syntax.Conditional, env: Environment) -> Value:
        condition = self.truth(node.condition, env)
        if isinstance(condition, ir.Truth):
            return self.value(node.then if condition.value else node.otherwise, env)
        kind = type_of(node)
        results: list[Value] = []

        def evaluate(side: syntax.Expression) -> Callable[[], None]:
            return lambda: results.append(self.value(side, env))

        codes = [self.captured(evaluate(side)) for side in (node.then, node.otherwise)]
        if scalar_width(kind) is not None and not codes[0] and not codes[1]:
            left, right = (self.expression_of(item, node) for item in results)
            return arithmetic.choose(condition, left, right)
        temporary = self.temporary(kind)
        for code, result in zip(codes, results, strict=True):
            code += self.captured(lambda value=result: self.assign(temporary, value, node))  # type: ignore[misc]
        self.code.append(ir.Branch(condition, codes[0], codes[1], node.span))
        return temporary

    def _binary(self, node: syntax.Binary, env: Environment) -> Value:
        if node.operator in ("&&", "||"):
            return self._short_circuit(node, env)
        if node.operator in ("==", "!="):
            left, right = self._two(node, env)
            same = self.equal(left, right, node)
            return same if node.operator == "==" else arithmetic.negate(same)
        left, right = self._two(node, env)
        return arithmetic.binary(
            node.operator,
            arithmetic.number(self.expression_of(left, node.left)),
            arithmetic.number(self.expression_of(right, node.right)),
            type_of(node.left),
            type_of(node.right),
        )

    def _two(self, node: syntax.Binary, env: Environment) -> tuple[Value, Value]:
        """Both operands; the left one is saved if code for the right one could change it."""
        left = self.value(node.left, env)
        position = len(self.code)
        right = self.value(node.right, env)
        if len(self.code) > position and scalar_width(type_of(node.left)) is not None:
            expression = self.expression_of(left, node.left)
            if not isinstance(expression, (ir.Number, ir.Truth)):
                temporary = self.temporary(type_of(node.left))
                self.code[position:position] = self.captured(
                    lambda: self.assign(temporary, expression, node)
                )
                left = temporary
        return left, right

    def _short_circuit(self, node: syntax.Binary, env: Environment) -> Value:
        left = self.truth(node.left, env)
        results: list[ir.Expression] = []
        code = self.captured(lambda: results.append(self.truth(node.right, env)))
        if not code:
            join = arithmetic.both if node.operator == "&&" else arithmetic.either
            return join(left, results[0])
        temporary = self.temporary(type_of(node))
        self.assign(temporary, left, node)
        code += self.captured(lambda: self.assign(temporary, results[0], node))
        known = self.read(temporary, node)
        condition = known if node.operator == "&&" else arithmetic.negate(known)
        self.code.append(ir.Branch(condition, code, [], node.span))
        return temporary

    def equal(self, left: Value, right: Value, node: syntax.Binary) -> ir.Expression:
        """``left == right`` for values of any type that can be compared."""
        if isinstance(left, (HeaderPlace, ElementPlace)) and isinstance(
            right, (HeaderPlace, ElementPlace)
        ):
            return ir.Operation(
                "==", self.header_reference(left, node), self.header_reference(right, node)
            )
        if isinstance(left, HeaderPlace) and isinstance(right, Composite):
            return self._equal_header(left, right, node)
        if isinstance(right, HeaderPlace) and isinstance(left, Composite):
            return self._equal_header(right, left, node)
        if isinstance(left, UnionPlace) and isinstance(right, UnionPlace):
            return ir.Operation(
                "==",
                ir.Reference("header_union", left.name),
                ir.Reference("header_union", right.name),
            )
        if isinstance(left, StackPlace) and isinstance(right, StackPlace):
            pairs = list(zip(left.elements, right.elements, strict=True))
        elif isinstance(left, (StructPlace, Composite)) and isinstance(
            right, (StructPlace, Composite)
        ):
            pairs = [(left.members[name], right.members[name]) for name in left.members]  # type: ignore[misc]
        else:
            one, other = self.expression_of(left, node.left), self.expression_of(right, node.right)
            if ir.is_truth(one) != ir.is_truth(other):
                one, other = arithmetic.truth(one), arithmetic.truth(other)
            if isinstance(one, (ir.Number, ir.Truth)) and isinstance(other, (ir.Number, ir.Truth)):
                return ir.Truth(one == other)
            return ir.Operation("==", one, other)
        result: ir.Expression = ir.Truth(True)
        for one_value, other_value in pairs:
            result = arithmetic.both(result, self.equal(one_value, other_value, node))
        return result

    def _equal_header(
        self, header: HeaderPlace, value: Composite, node: syntax.Binary
    ) -> ir.Expression:
        valid = arithmetic.truth(ir.Field(header.name, "$valid$"))
        if not value.valid:
            return arithmetic.negate(valid)
        for name, item in header.type.fields.items():
            one = self._header_field(header.name, name, item)
            valid = arithmetic.both(valid, self.equal(one, value.members[name], node))
        return valid

    # Provided by the classes that build on this one

    def _call(self, node: syntax.Call, env: Environment) -> Value:
        raise NotImplementedError

    def table_result(self, call: syntax.Call, name: str, env: Environment) -> Value:
        raise NotImplementedError

    def assign(self, place: Place, value: Value, node: syntax.Node) -> None:
        raise NotImplementedError
