"""Lowering of expressions: to places, to BMv2's expressions, and to code for side effects."""

from __future__ import annotations

from collections.abc import Callable

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.check.operations import type_of
from weft.switch.compiler.constants import EvaluationError
from weft.switch.compiler.diagnostics import NOWHERE, Abandon, Span
from weft.switch.compiler.shared import Shared
from weft.switch.compiler.storage import (
    ChosenPlace,
    ElementPlace,
    FieldPlace,
    HeaderPlace,
    MovingSlicePlace,
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
from weft.switch.compiler.types import (
    EnumType,
    ErrorType,
    ListType,
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
from weft.switch.compiler.values import (
    Composite,
    Environment,
    Value,
)

MAXIMUM_DEPTH = 24
"""Of operations inside one another in one expression of the output."""

PLACES = (
    FieldPlace, HeaderPlace, StackPlace, UnionPlace, StructPlace, ElementPlace, NextPlace,
    OffsetPlace, SlicePlace, MovingSlicePlace, ChosenPlace,
)  # fmt: skip


def member_types(kind: Type) -> dict[str, Type]:
    """The members of a struct, header, union or tuple."""
    bare = resolved(kind)
    if isinstance(bare, StructType):
        return dict(bare.fields)
    if isinstance(bare, TupleType):
        return {str(index): item for index, item in enumerate(bare.elements)}
    if isinstance(bare, StackType):
        return {str(index): bare.element for index in range(bare.size)}
    return {}


def parts(value: Value) -> list[Value]:
    """The members of a struct or tuple, the elements of a stack or array."""
    if isinstance(value, StackPlace):
        return list(value.elements)
    if isinstance(value, (StructPlace, Composite)):
        return list(value.members.values())
    return []


class ExpressionLowering:
    """Lowers expressions; code that must run before an expression has its value goes to `code`."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.reporter = shared.reporter
        self.storage = shared.storage
        self.code: list[ir.Code] = []
        self.span: Span = NOWHERE
        self.evaluated: dict[int, Value] = {}  # expressions that must not be evaluated again

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
        return self.allocated(name, kind)

    def allocated(self, name: str, kind: Type) -> Place:
        """A new place; an error where the type cannot be stored."""
        try:
            return self.storage.allocate(name, kind)
        except KeyError as problem:
            message = f"not supported: a value of type {problem.args[0]} in {kind}"
            raise self.reporter.fail(self.span, message) from None

    def fail(self, node: syntax.Node, message: str) -> Abandon:
        return self.reporter.fail(node.span, message)

    # Values

    def constant(self, value: object, kind: Type, node: syntax.Node) -> Value:
        """A value known at compile time as a lowered one."""
        bare = base_type(kind)
        if isinstance(value, tuple):
            members = member_types(kind)
            if isinstance(resolved(kind), ListType):
                element = resolved(kind).element  # type: ignore[attr-defined]
                members = {str(index): element for index in range(len(value))}
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
            return self.constant(node.constant, node.type, node)
        known = self.evaluated.get(id(node))
        if known is not None:
            return known
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise self.fail(node, "not supported: this expression here")
        try:
            result: Value = method(node, env)
        except EvaluationError as problem:
            raise self.fail(node, str(problem)) from None
        if isinstance(node, (syntax.Binary, syntax.Unary, syntax.Conditional)):
            return self._shallow(result, node)
        return result

    def _shallow(self, value: Value, node: syntax.Expression) -> Value:
        """What is nested too deeply for who reads the output goes through a variable."""
        if self.shared.effects.depth(node) % MAXIMUM_DEPTH or not isinstance(value, ir.Expression):
            return value
        return self.kept(value, node)

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
        elif isinstance(place, MovingSlicePlace):
            kind = getattr(place.base, "type", place.type)
            whole = self.read(place.base, node)
            return arithmetic.moving_slice(whole, place.index, place.width, kind)
        elif isinstance(place, ChosenPlace):
            expression = self.read(place.choices[-1], node)
            for number, choice in reversed(list(enumerate(place.choices[:-1]))):
                chosen = ir.Operation("==", place.index, ir.Number(number))
                expression = arithmetic.choose(chosen, self.read(choice, node), expression)
        else:
            raise self.fail(node, "not supported: a header or struct as an operand here")
        return arithmetic.truth(expression) if is_flag(place.type) else expression

    def offset_field(self, place: OffsetPlace, node: syntax.Node) -> ir.Expression:
        if place.index is None and place.member:
            return ir.LastUnionField(place.stack.name, place.member, place.name)
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
        if isinstance(base, ChosenPlace):
            choices = [self.member(choice, node, env) for choice in base.choices]
            return ChosenPlace(choices, base.index, kind)  # type: ignore[arg-type]
        if isinstance(base, (NextPlace, ElementPlace)):
            if isinstance(base, NextPlace) and is_union(base.type):
                header = resolved(kind)
                assert isinstance(header, StructType)
                return NextPlace(base.stack, header, base.last, name)
            if isinstance(base, NextPlace) and not base.last:
                raise self.fail(
                    node, "not supported: fields of 'next'; extract it, then use 'last'"
                )
            if isinstance(resolved(kind), StructType):
                raise self.fail(node, "not supported: a struct or union in a stack's element here")
            if isinstance(base, NextPlace):
                return OffsetPlace(base.stack, None, name, kind, base.member)
            return OffsetPlace(base.stack, base.index, name, kind)
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
        index = self.number(node.index, env)
        if isinstance(index, ir.Number):
            elements = parts(base)
            if not 0 <= index.value < len(elements):
                message = f"index {index.value} is not within 0 to {len(elements) - 1}"
                raise self.fail(node.index, message)
            return elements[index.value]
        if isinstance(base, StructPlace):
            places = list(base.members.values())
            return ChosenPlace(places, self.frozen_index(index), type_of(node))
        if not isinstance(base, StackPlace):
            raise self.fail(node, "not supported: an element of this")
        element = resolved(base.type.element)
        if not is_header(element):
            raise self.fail(
                node, "not supported: an index into header unions that is not a constant"
            )
        assert isinstance(element, StructType)
        return ElementPlace(base, index, element)

    def _slice(self, node: syntax.Slice, env: Environment) -> Value:
        high, low = node.high.constant, node.low.constant
        base = self.value(node.base, env)
        if node.low_and_width:
            begin, width = self.number(node.low, env), scalar_width(type_of(node)) or 0
            total = scalar_width(type_of(node.base)) or 0
            if not isinstance(begin, ir.Number) or begin.value + width > total:
                return self._moving_slice(node, base, begin, width)
            low, high = begin.value, begin.value + width - 1
        assert isinstance(high, int) and isinstance(low, int)
        if isinstance(base, (FieldPlace, OffsetPlace, SlicePlace, ChosenPlace, MovingSlicePlace)):
            return SlicePlace(base, high, low, type_of(node))
        expression = self.expression_of(base, node)
        return arithmetic.slice_of(expression, high, low, type_of(node.base))

    def _moving_slice(
        self, node: syntax.Slice, base: Value, begin: ir.Expression, width: int
    ) -> Value:
        total = ir.Number(scalar_width(type_of(node.base)) or 0)
        index = arithmetic.choose(ir.Operation("<", begin, total), begin, total)
        if isinstance(base, (FieldPlace, OffsetPlace, SlicePlace, ChosenPlace, MovingSlicePlace)):
            return MovingSlicePlace(base, index, width, type_of(node))
        expression = self.expression_of(base, node)
        return arithmetic.moving_slice(expression, index, width, type_of(node.base))

    # Composites

    def _listexpression(self, node: syntax.ListExpression, env: Environment) -> Value:
        names = [str(index) for index in range(len(node.items))]
        if not isinstance(resolved(type_of(node)), ListType):
            names = list(member_types(type_of(node)))
        values = self.in_order(node.items, env)
        return Composite(type_of(node), dict(zip(names, values, strict=True)))

    def _recordexpression(self, node: syntax.RecordExpression, env: Environment) -> Value:
        values = self.in_order([item for _, item in node.fields], env)
        names = [name for name, _ in node.fields]
        return Composite(type_of(node), dict(zip(names, values, strict=True)))

    def _invalidheader(self, node: syntax.InvalidHeader, env: Environment) -> Value:
        return Composite(type_of(node), {}, valid=False)

    def _dots(self, node: syntax.Dots, env: Environment) -> Value:
        return self.default(type_of(node), node)

    def default(self, kind: Type, node: syntax.Node) -> Value:
        """The value of ``...`` (section "Default values")."""
        bare = resolved(kind)
        if is_header(bare) or is_union(bare):
            return Composite(kind, {}, valid=False)
        if isinstance(bare, (StructType, TupleType, StackType)):
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
        if len(self.code) > position:
            saved: list[Value] = []
            self.code[position:position] = self.captured(
                lambda: saved.append(self.kept(left, node.left))
            )
            left = saved[0]
        return left, right

    def in_order(self, nodes: list[syntax.Expression], env: Environment) -> list[Value]:
        """The values of expressions, evaluated from left to right."""
        acting = [index for index, node in enumerate(nodes) if self.shared.effects.of(node)]
        last = max(acting, default=-1)
        values = []
        for index, node in enumerate(nodes):
            value = self.value(node, env)
            values.append(self.kept(value, node) if index < last else value)
        return values

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
        headers = (HeaderPlace, ElementPlace)
        if isinstance(left, headers) and isinstance(right, headers):
            return self._equal_headers(left, right, node)
        if isinstance(left, headers) and isinstance(right, Composite):
            return self._equal_header(left, right, node)
        if isinstance(right, headers) and isinstance(left, Composite):
            return self._equal_header(right, left, node)
        if isinstance(left, UnionPlace) and isinstance(right, UnionPlace):
            return ir.Operation(
                "==",
                ir.Reference("header_union", left.name),
                ir.Reference("header_union", right.name),
            )
        if isinstance(left, Composite) and isinstance(right, UnionPlace):
            left, right = right, left
        if isinstance(left, UnionPlace) and isinstance(right, Composite) and not right.valid:
            return arithmetic.negate(
                ir.Operation("valid_union", None, ir.Reference("header_union", left.name))
            )
        composite = (StructPlace, StackPlace, Composite)
        if isinstance(left, Composite) and isinstance(right, Composite) and not left.valid:
            return ir.Truth(not right.valid)
        if isinstance(left, Composite) and isinstance(right, Composite) and not right.valid:
            return ir.Truth(False)
        if isinstance(left, composite) and isinstance(right, composite):
            pairs = list(zip(parts(left), parts(right), strict=True))
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

    def is_valid(self, header: HeaderPlace | ElementPlace, node: syntax.Node) -> ir.Expression:
        """Whether a header is valid, as a truth value."""
        if isinstance(header, HeaderPlace):
            return arithmetic.truth(ir.Field(header.name, "$valid$"))
        return ir.Operation("valid", None, self.header_reference(header, node))

    def header_members(self, header: HeaderPlace | ElementPlace) -> dict[str, Place]:
        """The places of a header's fields."""
        if isinstance(header, HeaderPlace):
            return {
                name: self._header_field(header.name, name, item)
                for name, item in header.type.fields.items()
            }
        return {
            name: OffsetPlace(header.stack, header.index, name, item)
            for name, item in header_fields(header.type)
        }

    def _equal_headers(
        self, left: HeaderPlace | ElementPlace, right: HeaderPlace | ElementPlace,
        node: syntax.Binary,
    ) -> ir.Expression:  # fmt: skip
        """Both are invalid, or both are valid and have the same values."""
        one, other = self.is_valid(left, node), self.is_valid(right, node)
        same = arithmetic.both(one, other)
        members = self.header_members(right)
        for name, place in self.header_members(left).items():
            same = arithmetic.both(same, self.equal(place, members[name], node))
        neither = arithmetic.both(arithmetic.negate(one), arithmetic.negate(other))
        return arithmetic.either(neither, same)

    def _equal_header(
        self, header: HeaderPlace | ElementPlace, value: Composite, node: syntax.Binary
    ) -> ir.Expression:
        valid = self.is_valid(header, node)
        if not value.valid:
            return arithmetic.negate(valid)
        for name, place in self.header_members(header).items():
            valid = arithmetic.both(valid, self.equal(place, value.members[name], node))
        return valid

    # Provided by the classes that build on this one

    def _call(self, node: syntax.Call, env: Environment) -> Value:
        raise NotImplementedError

    def table_result(self, call: syntax.Call, name: str, env: Environment) -> Value:
        raise NotImplementedError

    def assign(self, place: Place, value: Value, node: syntax.Node) -> None:
        raise NotImplementedError

    def kept(self, value: Value, node: syntax.Expression) -> Value:
        raise NotImplementedError

    def frozen_index(self, index: ir.Expression) -> ir.Expression:
        raise NotImplementedError
