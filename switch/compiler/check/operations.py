"""Types and known values of operations: arithmetic, comparison, casts, conditionals.

Specification, sections on the operations of each type, and "Casts".
"""

from typing import Protocol

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.check.coercion import Coercer
from weft.switch.compiler.check.scope import CheckContext, Scope, TypeResolver
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BOOL,
    INTEGER,
    STRING,
    ActionEnumType,
    BitType,
    BoolType,
    IntegerType,
    IntType,
    ListType,
    MatchKindType,
    NewType,
    SerializableEnumType,
    StackType,
    StringType,
    StructType,
    TupleType,
    Type,
    base_type,
    resolved,
    scalar_width,
)

_COMPARISONS = ("<", ">", "<=", ">=")
_CAST_TO_THEMSELVES = (
    BitType, BoolType, IntType, IntegerType, NewType, SerializableEnumType, StructType,
)  # fmt: skip
"""The types of which a value may be cast to its own."""
_BITWISE = ("&", "|", "^")


class Check(Protocol):
    """The type of a function that checks an expression and returns the node to use in its place."""

    def __call__(
        self, node: syntax.Expression, scope: Scope, expected: Type | None = None
    ) -> syntax.Expression:
        """Check an expression, cast it to `expected` if that is given, and return the node to
        use."""


def numeric(reporter: Reporter, node: syntax.Expression, what: str) -> Type:
    """Return the type of a node that must be a number. An error calls the node `what`."""
    kind = base_type(type_of(node))
    reporter.fail_if(
        not isinstance(kind, (BitType, IntType, IntegerType)),
        node.span,
        f"{what} must be a number, not {type_of(node)}",
    )
    return kind


class OperationChecker:
    """An operation checker checks operations; `check` checks their operands."""

    def __init__(
        self, context: CheckContext, types: TypeResolver, coercer: Coercer, check: Check
    ) -> None:
        self.reporter = context.reporter
        self.types = types
        self.coercer = coercer
        self.check = check

    def unary(self, node: syntax.Unary, scope: Scope) -> None:
        """Check ``!``, ``~``, ``-`` or ``+`` of an operand, and note its type and known value."""
        node.operand = self.check(node.operand, scope)
        if node.operator == "!":
            node.operand = self.coercer.coerce(node.operand, BOOL, "the operand of '!'")
            node.type = BOOL
            if isinstance(node.operand.constant, bool):
                node.constant = not node.operand.constant
        else:
            self._no_new_type(node.operand, node.operator)
            node.operand = self.coercer.to_underlying(node.operand)
            kind = numeric(self.reporter, node.operand, f"the operand of '{node.operator}'")
            self.reporter.fail_if(
                node.operator == "~" and isinstance(kind, IntegerType),
                node.span,
                "'~' needs a number with a width, such as 8w1",
            )
            node.type = kind
            if isinstance(node.operand.constant, int):
                node.constant = constants.unary(node.operator, node.operand.constant, kind)

    def _no_new_type(self, node: syntax.Expression, operator: str) -> None:
        if isinstance(node.type, NewType):
            raise self.reporter.fail(
                node.span,
                f"'{operator}' is not defined for {node.type}; cast it to {resolved(node.type)}",
            )

    def binary(self, node: syntax.Binary, scope: Scope) -> None:
        """Check an operation on two operands, and note its type and known value."""
        operator = node.operator
        node.left = self.check(node.left, scope)
        node.right = self.check(node.right, scope)
        match operator:
            case "&&" | "||":
                node.left = self.coercer.coerce(
                    node.left, BOOL, f"the left operand of '{operator}'"
                )
                node.right = self.coercer.coerce(
                    node.right, BOOL, f"the right operand of '{operator}'"
                )
                node.type = BOOL
                left, right = node.left.constant, node.right.constant
                if isinstance(left, bool) and isinstance(right, bool):
                    node.constant = (left and right) if operator == "&&" else (left or right)
            case "==" | "!=":
                self._equality(node)
            case "<<" | ">>":
                self._shift(node)
            case "++":
                self._concatenation(node)
            case _:
                self._arithmetic(node)

    def _equality(self, node: syntax.Binary) -> None:
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(other.type, IntegerType):
                self._no_new_type(side, node.operator)
        self.coercer.unify_operands(node)
        kind = resolved(type_of(node.left))
        comparable = (
            scalar_width(kind) is not None
            or isinstance(
                kind, (IntegerType, StringType, MatchKindType, StructType, TupleType, StackType)
            )
        ) and not isinstance(kind, ActionEnumType)
        self.reporter.fail_if(
            not comparable or type_of(node.left) != type_of(node.right),
            node.span,
            f"cannot compare {type_of(node.left)} with {type_of(node.right)}",
        )
        node.type = BOOL
        if node.left.constant is not None and node.right.constant is not None:
            same = node.left.constant == node.right.constant
            node.constant = same if node.operator == "==" else not same

    def _shift(self, node: syntax.Binary) -> None:
        for side in (node.left, node.right):
            self._no_new_type(side, node.operator)
        node.left = self.coercer.to_underlying(node.left)
        node.right = self.coercer.to_underlying(node.right)
        kind = numeric(self.reporter, node.left, f"the left operand of '{node.operator}'")
        amount = numeric(self.reporter, node.right, "the number of bits to shift by")
        self.reporter.fail_if(
            isinstance(amount, IntType),
            node.right.span,
            "the number of bits to shift by cannot be signed",
        )
        self.reporter.fail_if(
            isinstance(kind, IntegerType)
            and node.right.constant is None
            and not is_static(node.right, action_data=True),
            node.left.span,
            "the left operand needs a width when the right one is not known at compile time",
        )
        node.type = kind
        self._fold(node)

    def _concatenation(self, node: syntax.Binary) -> None:
        if type_of(node.left) == STRING and type_of(node.right) == STRING:
            node.type = STRING
            node.constant = f"{node.left.constant}{node.right.constant}"
        else:
            node.left = self.coercer.to_underlying(node.left)
            node.right = self.coercer.to_underlying(node.right)
            left, right = type_of(node.left), type_of(node.right)
            for side, kind in ((node.left, left), (node.right, right)):
                self.reporter.fail_if(
                    not isinstance(kind, (BitType, IntType)),
                    side.span,
                    f"an operand of '++' must be a number with a width, not {kind}",
                )
            assert isinstance(left, (BitType, IntType)) and isinstance(right, (BitType, IntType))
            total = left.width + right.width
            node.type = BitType(total) if isinstance(left, BitType) else IntType(total)
            self._fold(node)

    def _arithmetic(self, node: syntax.Binary) -> None:
        self.coercer.unify_operands(node, f"the operands of '{node.operator}'")
        for side in (node.left, node.right):
            self._no_new_type(side, node.operator)
        left, right = type_of(node.left), type_of(node.right)
        kind = numeric(self.reporter, node.left, f"the left operand of '{node.operator}'")
        if node.operator in ("/", "%"):
            self._check_divisor(node)
        numeric(self.reporter, node.right, f"the right operand of '{node.operator}'")
        self.reporter.fail_if(
            left != right,
            node.span,
            f"the operands of '{node.operator}' have different types, {left} and {right}; "
            "cast one of them",
        )
        self.reporter.fail_if(
            isinstance(kind, IntegerType) and node.operator in ("|+|", "|-|"),
            node.span,
            f"'{node.operator}' needs numbers with a width, such as 8w1",
        )
        self.reporter.warn_if(
            isinstance(kind, IntegerType) and node.operator in _BITWISE,
            node.span,
            f"'{node.operator}' is defined for numbers with a width, such as 8w1",
            "mismatch",
        )
        self.reporter.fail_if(
            node.operator in ("/", "%") and isinstance(kind, IntType),
            node.span,
            f"'{node.operator}' is not defined for {kind}",
        )
        node.type = BOOL if node.operator in _COMPARISONS else kind
        self._fold(node)
        if node.operator in ("/", "%") and isinstance(kind, BitType) and node.constant is None:
            self._reduce_division(node)

    def _check_divisor(self, node: syntax.Binary) -> None:
        divisor = node.right
        if isinstance(divisor, syntax.CastExpression) and divisor.reference is None:
            divisor = divisor.operand  # the number as it is written
        value = divisor.constant
        self.reporter.fail_if(
            value is None and not is_static(divisor),
            divisor.span,
            f"the right operand of '{node.operator}' must be known at compile time",
        )
        self.reporter.fail_if(
            isinstance(value, int) and value < 0,
            divisor.span,
            f"the right operand of '{node.operator}' cannot be negative",
        )

    def _reduce_division(self, node: syntax.Binary) -> None:
        """Turn a division by a power of two into a shift, or its rest into a mask. There are no
        others."""
        divisor = node.right.constant
        if not isinstance(divisor, int) or divisor.bit_count() != 1:
            return  # unless all is known once instances are made, lowering tells it
        is_rest = node.operator == "%"
        value = divisor - 1 if is_rest else divisor.bit_length() - 1
        right = syntax.known_integer(node.right.span, value)
        right.type = node.right.type
        node.operator, node.right = "&" if is_rest else ">>", right

    def _fold(self, node: syntax.Binary) -> None:
        left, right = node.left.constant, node.right.constant
        self.reporter.fail_if(
            node.operator in ("<<", ">>") and isinstance(right, int) and right < 0,
            node.right.span,
            "cannot shift by a negative number",
        )
        self.reporter.fail_if(
            node.operator in ("/", "%") and right == 0, node.right.span, "division by zero"
        )
        if isinstance(left, int) and isinstance(right, int):
            try:
                node.constant = constants.binary(
                    node.operator, left, right, type_of(node.left), type_of(node.right)
                )
            except constants.EvaluationError as problem:
                raise self.reporter.fail(node.span, str(problem)) from None

    def conditional(self, node: syntax.Conditional, scope: Scope, expected: Type | None) -> None:
        """Check ``condition ? then : otherwise``, and note its type and known value."""
        node.condition = self.check(node.condition, scope, BOOL)
        node.then = self._side(node.then, scope, expected)
        node.otherwise = self._side(node.otherwise, scope, expected)
        pair = syntax.Binary(node.span, "?:", node.then, node.otherwise)
        self.coercer.unify_operands(pair)
        node.then, node.otherwise = pair.left, pair.right
        self.reporter.fail_if(
            type_of(node.then) != type_of(node.otherwise),
            node.span,
            f"the two values have different types, {node.then.type} and {node.otherwise.type}",
        )
        self.reporter.fail_if(
            isinstance(type_of(node.then), IntegerType) and node.condition.constant is None,
            node.then.span,
            "a number's width is needed here, such as 8w1",
        )
        node.type = node.then.type
        if node.condition.constant is not None:
            node.constant = (node.then if node.condition.constant else node.otherwise).constant

    def _side(
        self, node: syntax.Expression, scope: Scope, expected: Type | None
    ) -> syntax.Expression:
        """Check a side of ``?:``. Only what is written out takes its type from where it is used."""
        written = (
            syntax.ListExpression, syntax.RecordExpression, syntax.InvalidHeader, syntax.Dots,
        )  # fmt: skip
        return self.check(node, scope, expected if isinstance(node, written) else None)

    def cast(self, node: syntax.CastExpression, scope: Scope) -> None:
        """Check a cast that is written in the program, and note its type and known value."""
        if node.reference is None:
            return  # an implicit one: it was checked where it was made
        target = self.types.resolve(node.reference, scope)
        self.reporter.fail_if(
            isinstance(target, TupleType), node.reference.span, f"nothing is cast to {target}"
        )
        composite = isinstance(
            node.operand, (syntax.ListExpression, syntax.RecordExpression, syntax.InvalidHeader)
        )
        if isinstance(node.operand, syntax.ListExpression):
            node.operand.is_list = isinstance(resolved(target), ListType)
        node.operand = self.check(node.operand, scope, target if composite else None)
        source = type_of(node.operand)
        self.reporter.fail_if(
            not composite and not _castable(source, target),
            node.span,
            f"cannot cast {source} to {target}",
        )
        value = node.operand.constant
        if (
            isinstance(source, IntegerType)
            and target != INTEGER
            and value is None
            and not composite
        ):
            node.operand = self.coercer.implicit(node.operand, target)
        node.type = target
        if isinstance(value, int) and scalar_width(target) is not None:
            if isinstance(base_type(target), BoolType) and value not in (0, 1):
                raise self.reporter.fail(
                    node.span, f"only 0 and 1 can be cast to bool, not {value}"
                )
            node.constant = constants.cast(value, source, target)
        elif source == target or base_type(target) == INTEGER:
            node.constant = value


def _castable(source: Type, target: Type) -> bool:
    """Return whether a cast is allowed (specification, section "Explicit casts")."""
    if source == target:
        return isinstance(target, _CAST_TO_THEMSELVES)
    if isinstance(target, NewType) and isinstance(source, IntegerType):
        return _castable(source, resolved(target))
    if isinstance(source, NewType) or isinstance(target, NewType):
        return getattr(target, "underlying", None) == source or (
            isinstance(source, NewType) and source.underlying == target
        )
    left, right = base_type(source), base_type(target)
    if SerializableEnumType in (type(source), type(target)) and not (
        left == right or isinstance(source, IntegerType)
    ):
        return False
    match left, right:
        case BoolType(), _:
            return right in (BitType(1), BOOL)
        case _, BoolType():
            return left == BitType(1) or isinstance(left, IntegerType)
        case IntegerType(), _:
            return isinstance(right, (BitType, IntType, IntegerType))
        case _, IntegerType():
            return isinstance(left, (BitType, IntType))
        case BitType(), _:
            return isinstance(right, BitType) or right == IntType(left.width)
        case IntType(), _:
            return isinstance(right, IntType) or right == BitType(left.width)
    return False
