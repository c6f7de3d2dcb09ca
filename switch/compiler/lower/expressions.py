"""Lowering of expressions: to places, to BMv2's expressions, and to code for side effects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.constants import EvaluationError
from weft.switch.compiler.lower.places import PlaceLowering
from weft.switch.compiler.lower.shared import CodeWriter
from weft.switch.compiler.lower.storage import (
    PLACES,
    ChosenPlace,
    Composite,
    ElementPlace,
    Environment,
    FieldPlace,
    HeaderPlace,
    LoweredValue,
    MovingSlicePlace,
    NextPlace,
    OffsetPlace,
    Place,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    element_field,
    header_field,
    header_members,
    inner_name,
    parts,
)
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BitType,
    EnumType,
    ErrorType,
    IntegerType,
    StackType,
    StructType,
    TupleType,
    Type,
    base_type,
    is_flag,
    is_header,
    is_union,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
)

MAXIMUM_SIZE = 1 << 31
MAXIMUM_DEPTH = 24
"""The most operations inside one another in one expression of the output."""

_SLICEABLE = (FieldPlace, OffsetPlace, SlicePlace, ChosenPlace, MovingSlicePlace)

Numbers = list[tuple[ir.LoweredExpression, int]]
"""Numbers with their widths in bits."""


class ExpressionLowering:
    """The lowering of expressions; code that must run before one has its value goes to the writer.

    `call_value` gives the value of a call, `table_result` that of ``t.apply().hit`` or ``.miss``.
    """

    def __init__(
        self, writer: CodeWriter,
        call_value: Callable[[syntax.CallExpression, Environment], LoweredValue],
        table_result: Callable[[syntax.CallExpression, str, Environment], LoweredValue],
    ) -> None:  # fmt: skip
        self.writer = writer
        self.shared = writer.shared
        self.places = PlaceLowering(writer)
        self.table_result = table_result
        self.evaluated: dict[int, LoweredValue] = {}  # expressions that must not be evaluated again
        self._methods: dict[type[syntax.Expression], Callable[..., LoweredValue]] = {
            syntax.Name: self._name,
            syntax.MemberAccess: self._member,
            syntax.Index: self._index,
            syntax.Slice: self._slice,
            syntax.ListExpression: self._list,
            syntax.RecordExpression: self._record,
            syntax.InvalidHeader: lambda node, env: Composite(type_of(node), {}, valid=False),
            syntax.Dots: lambda node, env: self.default(type_of(node), node),
            syntax.Unary: self._unary,
            syntax.CastExpression: self._cast,
            syntax.Conditional: self._conditional,
            syntax.Binary: self._binary,
            syntax.CallExpression: call_value,
        }

    def constant(self, value: object, kind: Type) -> LoweredValue:
        """Return a value known at compile time as a lowered one."""
        bare = base_type(kind)
        if isinstance(value, tuple):
            members = zip(member_types(kind, len(value)).items(), value, strict=True)
            return Composite(
                kind,
                {name: self.constant(item, item_type) for (name, item_type), item in members},
            )
        match bare:
            case EnumType():
                return ir.Number(bare.members.index(str(value)))
            case ErrorType():
                return ir.Number(self.shared.program.errors.index(str(value)))
        if isinstance(value, bool):
            return ir.Truth(value)
        return ir.Number(value) if isinstance(value, int) else ir.Text(str(value))

    def value(self, node: syntax.Expression, env: Environment) -> LoweredValue:
        """Return the value of an expression: a BMv2 expression, a place, a composite or an
        instance."""
        if node.constant is not None and node.type is not None:
            return self.constant(node.constant, node.type)
        if (known := self.evaluated.get(id(node))) is not None:
            return known
        method = self._methods.get(type(node))
        if method is None:
            raise self.writer.fail(node, "not supported: this expression here")
        try:
            result = method(node, env)
        except EvaluationError as problem:
            raise self.writer.fail(node, str(problem)) from None
        is_operation = isinstance(node, (syntax.Binary, syntax.Unary, syntax.Conditional))
        too_deep = is_operation and not self.shared.effects.depth(node) % MAXIMUM_DEPTH
        if too_deep and isinstance(result, ir.LoweredExpression):
            return self.places.kept(result, node)  # who reads the output can read this
        return result

    def kept(self, node: syntax.Expression, env: Environment) -> LoweredValue:
        """Return the value of an expression, in a place of its own unless it cannot change."""
        return self.places.kept(self.value(node, env), node)

    def scalar(self, node: syntax.Expression, env: Environment) -> ir.LoweredExpression:
        """Return the value of an expression of a type that one field holds."""
        return self.places.expression_of(self.value(node, env), node)

    def number(self, node: syntax.Expression, env: Environment) -> ir.LoweredExpression:
        """Return the value of an expression as a number (a truth value as 0 or 1)."""
        return arithmetic.number(self.scalar(node, env))

    def truth(self, node: syntax.Expression, env: Environment) -> ir.LoweredExpression:
        """Return the value of an expression as a truth value."""
        return arithmetic.truth(self.scalar(node, env))

    def known(self, node: syntax.Expression, env: Environment, what: str = "this") -> int:
        """Return the value of an expression that must be a number known at compile time."""
        message = f"{what} must be known at compile time"
        value = self.number(node, env)
        return self.shared.reporter.needed(value, ir.Number, node.span, message).value

    def known_size(self, node: syntax.Expression, env: Environment, least: int = 1) -> int:
        """Return the size of something that has one of `least` or more."""
        size = self.known(node, env, "the size")
        self.writer.fail_if(
            not least <= size < MAXIMUM_SIZE,
            node,
            f"the size must be {least} to {MAXIMUM_SIZE - 1}, not {size}",
        )
        return size

    def enum_member(self, node: syntax.Expression, env: Environment) -> str:
        """Return the name of an enum's member that is known at compile time."""
        kind = resolved(type_of(node))
        value = self.value(node, env)
        if isinstance(kind, EnumType) and isinstance(value, ir.Number):
            return kind.members[value.value]
        raise self.writer.fail(node, "this must be known at compile time")

    def place(self, node: syntax.Expression, env: Environment) -> Place:
        """Return the place that an l-value names."""
        value = self.value(node, env)
        if not isinstance(value, PLACES):
            raise self.writer.fail(node, "this cannot be assigned to")
        return value

    # Names and members

    def _name(self, node: syntax.Name, env: Environment) -> LoweredValue:
        declaration = node.declaration
        assert declaration is not None
        if (value := env.find(declaration)) is not None:
            return value
        if isinstance(declaration, syntax.Constant):
            return self.value(declaration.value, self.shared.globals)
        raise self.writer.fail(node, f"not supported: '{node.name}' here")

    def _member(self, node: syntax.MemberAccess, env: Environment) -> LoweredValue:
        if isinstance(node.base, syntax.CallExpression) and node.base.target.kind == "table":
            return self.table_result(node.base, node.name, env)
        return self._member_of(self.value(node.base, env), node)

    def _member_of(self, base: LoweredValue, node: syntax.MemberAccess) -> LoweredValue:
        name, kind = node.name, type_of(node)
        match base:
            case StructPlace() | Composite() | UnionPlace():
                self.writer.fail_if(
                    isinstance(base, Composite) and not base.valid,
                    node,
                    "a field of an invalid header is read",
                )
                return base.members[name]
            case HeaderPlace():
                return header_field(base.name, name, kind)
            case ChosenPlace():
                choices = [self._member_of(choice, node) for choice in base.choices]
                return ChosenPlace(choices, base.index, kind)  # type: ignore[arg-type]
            case NextPlace() | ElementPlace():
                return self._member_of_element(base, node, kind)
        if isinstance(base, StackPlace):
            element = resolved(base.type.element)
            assert isinstance(element, StructType)
            match name:
                case "next" | "last":
                    return NextPlace(base, element, name == "last")
                case "lastIndex":
                    reference = ir.Reference("header_stack", base.name)
                    return arithmetic.wrapped(
                        ir.OperatorCall("last_stack_index", None, reference), kind
                    )
        raise self.writer.fail(node, f"not supported: '.{name}' here")

    def _member_of_element(
        self, base: NextPlace | ElementPlace, node: syntax.MemberAccess, kind: Type
    ) -> LoweredValue:
        bare = resolved(kind)
        match base:
            case NextPlace() if is_union(base.type):
                assert isinstance(bare, StructType)
                return NextPlace(base.stack, bare, base.last, node.name)
            case NextPlace() if not base.last:
                return self._member_of(self.places.element(base), node)
        return element_field(base, node.name, kind)

    def _index(self, node: syntax.Index, env: Environment) -> LoweredValue:
        base = self.value(node.base, env)
        index = self.number(node.index, env)
        if isinstance(index, ir.Number):
            elements = parts(base)
            self.writer.fail_if(
                not 0 <= index.value < len(elements),
                node.index,
                f"index {index.value} is not within 0 to {len(elements) - 1}",
            )
            return elements[index.value]
        if isinstance(base, StructPlace):
            return ChosenPlace(
                list(base.members.values()), self.places.frozen_index(index), type_of(node)
            )
        stack = self.shared.reporter.needed(
            base, StackPlace, node.span, "not supported: an element of this"
        )
        return self.places.element_at(stack, index)

    def _slice(self, node: syntax.Slice, env: Environment) -> LoweredValue:
        high, low = node.high.constant, node.low.constant
        base = self.value(node.base, env)
        if node.low_and_width:
            begin, width = self.number(node.low, env), scalar_width(type_of(node)) or 0
            total = scalar_width(type_of(node.base)) or 0
            if not isinstance(begin, ir.Number) or begin.value + width > total:
                return self._moving_slice(node, base, begin, width)
            low, high = begin.value, begin.value + width - 1
        assert isinstance(high, int) and isinstance(low, int)
        if isinstance(base, _SLICEABLE):
            return SlicePlace(base, high, low, type_of(node))
        return arithmetic.slice_of(
            self.places.expression_of(base, node), high, low, type_of(node.base)
        )

    def _moving_slice(
        self, node: syntax.Slice, base: LoweredValue, begin: ir.LoweredExpression, width: int
    ) -> LoweredValue:
        total = ir.Number(scalar_width(type_of(node.base)) or 0)
        index = arithmetic.choose(ir.OperatorCall("<", begin, total), begin, total)
        if isinstance(base, _SLICEABLE):
            return MovingSlicePlace(base, index, width, type_of(node))
        return arithmetic.moving_slice(
            self.places.expression_of(base, node), index, width, type_of(node.base)
        )

    # Composites

    def _list(self, node: syntax.ListExpression, env: Environment) -> LoweredValue:
        kind = type_of(node)
        names = member_types(kind, len(node.items))
        return Composite(kind, dict(zip(names, self.in_order(node.items, env), strict=True)))

    def _record(self, node: syntax.RecordExpression, env: Environment) -> LoweredValue:
        values = self.in_order([item for _, item in node.fields], env)
        return Composite(
            type_of(node), dict(zip([name for name, _ in node.fields], values, strict=True))
        )

    def default(self, kind: Type, node: syntax.SyntaxNode) -> LoweredValue:
        """Return the value of ``...`` (section "Default values")."""
        bare = resolved(kind)
        if is_header(bare) or is_union(bare):
            return Composite(kind, {}, valid=False)
        if isinstance(bare, (StructType, TupleType, StackType)):
            return Composite(
                kind, {name: self.default(item, node) for name, item in member_types(kind).items()}
            )
        self.writer.fail_if(
            scalar_width(bare) is None, node, f"not supported: a default value of type {kind}"
        )
        if is_varbit(bare):
            return self.shared.storage.empty_varbit(kind)
        return ir.Truth(False) if is_flag(bare) else ir.Number(0)

    def in_order(self, nodes: list[syntax.Expression], env: Environment) -> list[LoweredValue]:
        """Return the values of expressions, evaluated from left to right."""
        last = max(
            [index for index, node in enumerate(nodes) if self.shared.effects.of(node)], default=-1
        )
        return [
            self.kept(node, env) if index < last else self.value(node, env)
            for index, node in enumerate(nodes)
        ]

    # Operations

    def _unary(self, node: syntax.Unary, env: Environment) -> LoweredValue:
        if node.operator == "!":
            return arithmetic.negate(self.truth(node.operand, env))
        return arithmetic.unary(node.operator, self.number(node.operand, env), type_of(node))

    def _cast(self, node: syntax.CastExpression, env: Environment) -> LoweredValue:
        target = type_of(node)
        if scalar_width(target) is not None:
            return arithmetic.cast(self.scalar(node.operand, env), type_of(node.operand), target)
        value = self.value(node.operand, env)
        if isinstance(value, Composite):
            value.type = target
        return value

    def _conditional(self, node: syntax.Conditional, env: Environment) -> LoweredValue:
        condition = self.truth(node.condition, env)
        if isinstance(condition, ir.Truth):
            return self.value(node.then if condition.value else node.otherwise, env)
        kind = type_of(node)
        sides = [
            self.writer.apart(partial(self.value, side, env))
            for side in (node.then, node.otherwise)
        ]
        if self.places.is_number(kind) and not any(code for _, code in sides):
            left, right = (self.places.expression_of(value, node) for value, _ in sides)
            return arithmetic.choose(condition, left, right)
        temporary = self.writer.temporary(kind)
        for value, code in sides:
            code += self._assigning(temporary, value, node)
        then, otherwise = (code for _, code in sides)
        self.writer.code.append(ir.Branch(condition, then, otherwise, node.span))
        return temporary

    def _assigning(
        self, place: Place, value: LoweredValue, node: syntax.SyntaxNode
    ) -> list[ir.Code]:
        """Return the code that stores a value."""
        return self.writer.captured(lambda: self.places.assign(place, value, node))

    def _binary(self, node: syntax.Binary, env: Environment) -> LoweredValue:
        if node.operator in ("&&", "||"):
            return self._short_circuit(node, env)
        left = self.value(node.left, env)
        position = len(self.writer.code)
        right = self.value(node.right, env)
        if len(self.writer.code) > position:  # which could change the left operand: save it
            left, code = self.writer.apart(partial(self.places.kept, left, node.left))
            self.writer.code[position:position] = code
        if node.operator in ("==", "!="):
            same = self.places.equal(left, right, node)
            return same if node.operator == "==" else arithmetic.negate(same)
        return arithmetic.binary(
            node.operator,
            arithmetic.number(self.places.expression_of(left, node.left)),
            arithmetic.number(self.places.expression_of(right, node.right)),
            type_of(node.left),
            type_of(node.right),
        )

    def _short_circuit(self, node: syntax.Binary, env: Environment) -> LoweredValue:
        is_and = node.operator == "&&"
        left = self.truth(node.left, env)
        right, code = self.writer.apart(lambda: self.truth(node.right, env))
        if not code:
            return (arithmetic.both if is_and else arithmetic.either)(left, right)
        temporary = self.writer.temporary(type_of(node))
        self.places.assign(temporary, left, node)
        code += self._assigning(temporary, right, node)
        known = self.places.read(temporary, node)
        self.writer.code.append(
            ir.Branch(known if is_and else arithmetic.negate(known), code, [], node.span)
        )
        return temporary

    # Values as lists of numbers, which hashes, checksums, digests and selects take

    def numbers(self, node: syntax.Expression, env: Environment) -> Numbers:
        """Return the numbers that the value of an expression consists of, in order."""
        return self._numbers(self.value(node, env), type_of(node), node)

    def _numbers(self, value: LoweredValue, kind: Type, node: syntax.SyntaxNode) -> Numbers:
        value = self.places.settled(value, node)
        if isinstance(value, StackPlace):
            value = Composite(kind, {str(at): item for at, item in enumerate(value.elements)})
        if isinstance(value, (StructPlace, Composite, UnionPlace, HeaderPlace, ElementPlace)):
            members: Mapping[str, LoweredValue] = (
                header_members(value)
                if isinstance(value, (HeaderPlace, ElementPlace))
                else value.members
            )
            return [
                number
                for member, member_type in zip(
                    members.values(), member_types(kind).values(), strict=True
                )
                for number in self._numbers(member, member_type, node)
            ]
        width = scalar_width(kind)
        if isinstance(resolved(kind), IntegerType) or width is None:
            raise self.writer.fail(node, f"a value of type {kind} has no width here")
        number = arithmetic.number(self.places.expression_of(value, node))
        if self.shared.storage.stored_width(number) not in (None, width):
            # A field that was cast to a greater width: BMv2 would take it as it is.
            number = ir.OperatorCall("&", number, ir.Number(arithmetic.mask_of(width)))
        return [(number, width)]

    def stored(self, items: Numbers, node: syntax.SyntaxNode) -> Numbers:
        """Return numbers with each that is neither a field nor a constant put into a field."""
        plain = (ir.HeaderField, ir.Number)
        return [
            (item, width)
            if isinstance(item, plain)
            else (self.stored_number(item, width, node), width)
            for item, width in items
        ]

    def stored_number(
        self, value: ir.LoweredExpression, width: int, node: syntax.SyntaxNode
    ) -> ir.HeaderField:
        """Return a field that holds a number."""
        place = self.writer.temporary_field(BitType(width))
        self.places.assign(place, value, node)
        return place.field

    # Variables

    def variable(self, node: syntax.Variable, env: Environment) -> Place:
        """Bind a variable to its place: one for each instance of the block that it is in."""
        variables = self.shared.variables
        key = (id(node), id(env.owner()))
        place = variables.get(key)
        if place is None:
            place = self.writer.temporary(type_of(node), inner_name(env.path, node.name))
            variables[key] = place
        env.bind(node, place)
        return place

    def declare(self, node: syntax.Variable, env: Environment) -> None:
        """Bind a variable, and let it begin with its value."""
        place = self.variable(node, env)
        if node.initializer is None:
            self.places.invalidate(place)
        else:
            self.places.assign(place, self.value(node.initializer, env), node)

    def declare_all(self, nodes: Sequence[syntax.SyntaxNode], env: Environment) -> None:
        """Declare those variables that are among the declarations of a parser or control."""
        for node in nodes:
            if isinstance(node, syntax.Variable):
                self.declare(node, env)


@dataclass(eq=False)
class LoweringPart:
    """A part of the lowering writes its code to where the expressions' code goes."""

    expressions: ExpressionLowering

    def __post_init__(self) -> None:
        self.places = self.expressions.places
        self.writer = self.expressions.writer
        self.shared = self.expressions.shared
