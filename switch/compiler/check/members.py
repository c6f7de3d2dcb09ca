"""Types and known values of members, elements and slices; and what can be assigned to."""

from collections.abc import Callable

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.check.operations import Check, numeric
from weft.switch.compiler.check.scope import CheckContext, Scope, TypeResolver, closest
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BOOL,
    ERROR,
    ActionEnumType,
    ApplyResultType,
    BitType,
    EnumType,
    ErrorType,
    IntegerType,
    IntType,
    NewType,
    SerializableEnumType,
    StackType,
    StructType,
    TupleType,
    Type,
    TypeVariable,
    base_type,
    is_header_stack,
    resolved,
)


class MemberChecker:
    """A member checker checks parts of values."""

    def __init__(
        self, context: CheckContext, types: TypeResolver, check: Check,
        constant_integer: Callable[[syntax.Expression, Scope], int],
    ) -> None:  # fmt: skip
        self.context = context
        self.reporter = context.reporter
        self.types = types
        self.check = check
        self.constant_integer = constant_integer

    def member(self, node: syntax.MemberAccess, scope: Scope) -> None:
        """Check ``base.name``, and note its type and known value."""
        if isinstance(node.base, syntax.TypeExpression):
            self._type_member(node, node.base, scope)
            return
        node.base = self.check(node.base, scope)
        kind = resolved(type_of(node.base))
        match kind:
            case StructType():
                if node.name not in kind.fields:
                    near = closest(node.name, set(kind.fields)) or (
                        f"; it has {', '.join(list(kind.fields)[:8]) or 'none'}"
                    )
                    raise self.reporter.fail(
                        node.name_span, f"{kind} has no field '{node.name}'{near}"
                    )
                node.type = kind.fields[node.name]
                if isinstance(node.base.constant, tuple):
                    node.constant = node.base.constant[list(kind.fields).index(node.name)]
            case StackType():
                self._stack_member(node, kind)
            case ApplyResultType():
                found = {"hit": BOOL, "miss": BOOL, "action_run": ActionEnumType(kind.declaration)}
                self.reporter.fail_if(
                    node.name not in found,
                    node.name_span,
                    f"apply() gives hit, miss and action_run, not '{node.name}'",
                )
                node.type = found[node.name]
            case TypeVariable():
                raise self.reporter.fail(
                    node.span, f"not supported: members of a value of type {kind}"
                )
            case _:
                raise self.reporter.fail(node.name_span, f"{kind} has no member '{node.name}'")

    def _stack_member(self, node: syntax.MemberAccess, kind: StackType) -> None:
        self.reporter.fail_if(
            node.name != "size" and not is_header_stack(kind),
            node.name_span,
            f"an array has no '{node.name}'",
        )
        self.reporter.fail_if(
            node.name in ("next", "last", "lastIndex") and self.context.place != "parser",
            node.name_span,
            f"'{node.name}' of a header stack can only be used in a parser",
        )
        members = {
            "next": kind.element, "last": kind.element, "lastIndex": BitType(32),
            "size": BitType(32),
        }  # fmt: skip
        self.reporter.fail_if(
            node.name not in members,
            node.name_span,
            f"a header stack has next, last, lastIndex and size, not '{node.name}'",
        )
        node.type = members[node.name]
        if node.name == "size":
            node.constant = kind.size

    def _type_member(
        self, node: syntax.MemberAccess, base: syntax.TypeExpression, scope: Scope
    ) -> None:
        kind = self.types.resolve(base.reference, scope)
        match kind:
            case ErrorType():
                if node.name not in self.context.errors:
                    raise self.reporter.fail(
                        node.name_span,
                        f"no error is called '{node.name}'"
                        f"{closest(node.name, set(self.context.errors))}",
                    )
                node.type, node.constant = ERROR, node.name
            case EnumType() | SerializableEnumType():
                if node.name not in kind.members:
                    raise self.reporter.fail(
                        node.name_span,
                        f"enum {kind.name} has no member '{node.name}'"
                        f"{closest(node.name, set(kind.members))}",
                    )
                node.type = kind
                node.constant = node.name if isinstance(kind, EnumType) else kind.members[node.name]
            case _:
                raise self.reporter.fail(node.span, f"type {kind} has no member '{node.name}'")

    def index(self, node: syntax.Index, scope: Scope) -> None:
        """Check ``base[index]``, and note its type and known value."""
        node.base = self.check(node.base, scope)
        node.index = self.check(node.index, scope)
        kind = resolved(type_of(node.base))
        numeric(self.reporter, node.index, "an index")
        if isinstance(node.index.type, NewType):
            raise self.reporter.fail(
                node.index.span, f"an index must be a number: cast this {node.index.type} to one"
            )
        position = node.index.constant
        if isinstance(kind, TupleType):
            if not isinstance(position, int) or not 0 <= position < len(kind.elements):
                raise self.reporter.fail(
                    node.index.span,
                    f"a tuple's index must be known, 0 to {len(kind.elements) - 1}",
                )
            node.type = kind.elements[position]
            if isinstance(node.base.constant, tuple):
                node.constant = node.base.constant[position]
            return
        if not isinstance(kind, StackType):
            raise self.reporter.fail(node.span, f"{kind} has no elements")
        self.reporter.fail_if(
            isinstance(position, int) and not 0 <= position < kind.size,
            node.index.span,
            f"index {position} is not within the stack's 0 to {kind.size - 1}",
        )
        node.type = kind.element

    def slice(self, node: syntax.Slice, scope: Scope) -> None:
        """Check ``base[high:low]`` or ``base[low +: width]``, and note its type and known value."""
        node.base = self.check(node.base, scope)
        kind = base_type(type_of(node.base))
        if isinstance(type_of(node.base), NewType):
            raise self.reporter.fail(
                node.span,
                f"a slice of {type_of(node.base)} is not possible; cast it to {kind} first",
            )
        if node.low_and_width and self._moving_slice(node, kind, scope):
            return
        low = self.constant_integer(node.low, scope)
        high = self.constant_integer(node.high, scope)
        if node.low_and_width:
            high = low + high - 1
        self.reporter.fail_if(
            not isinstance(kind, (BitType, IntType, IntegerType)),
            node.span,
            f"a slice of {kind} is not possible",
        )
        width = kind.width if isinstance(kind, (BitType, IntType)) else constants.MAXIMUM_BITS
        self.reporter.fail_if(
            not 0 <= low <= high < width,
            node.span,
            f"slice [{high}:{low}] is not within the {width} bits of {kind}",
        )
        node.high = syntax.known_integer(node.high.span, high)
        node.low = syntax.known_integer(node.low.span, low)
        node.low_and_width = False
        node.type = BitType(high - low + 1)
        if isinstance(node.base.constant, int):
            node.constant = constants.wrap(node.base.constant >> low, node.type)

    def _moving_slice(self, node: syntax.Slice, kind: Type, scope: Scope) -> bool:
        """Check ``base[low +: width]``; return False, with nothing checked, if `low` is known at
        compile time."""
        node.low = self.check(node.low, scope)
        if node.low.constant is not None:
            return False
        width = self.constant_integer(node.high, scope)
        total = kind.width if isinstance(kind, (BitType, IntType)) else 0
        self.reporter.fail_if(
            not 0 < width <= total,
            node.span,
            f"a slice of {width} bits is not possible: {type_of(node.base)}",
        )
        self.reporter.fail_if(
            not isinstance(base_type(type_of(node.low)), BitType),
            node.low.span,
            f"where a slice begins must have type bit<N>, not {type_of(node.low)}",
        )
        node.type = BitType(width)
        return True

    def check_writable(self, node: syntax.Expression) -> None:
        """Report an error unless `node` is an l-value (specification, section "L-values")."""
        base = node
        if isinstance(base, syntax.Slice):
            base = base.base
        self.reporter.fail_if(
            isinstance(base, syntax.Index) and isinstance(base.base.type, TupleType),
            node.span,
            "an element of a tuple cannot be assigned to, only the whole tuple",
        )
        base = node
        while isinstance(base, (syntax.MemberAccess, syntax.Index, syntax.Slice)):
            of_stack = isinstance(base.base.type, StackType)
            if of_stack and isinstance(base, syntax.MemberAccess) and base.name != "next":
                raise self.reporter.fail(node.span, f"'{base.name}' cannot be assigned to")
            base = base.base
        declaration = base.declaration if isinstance(base, syntax.Name) else None
        match declaration:
            case syntax.Variable():
                return
            case syntax.Parameter():
                if declaration.direction in ("out", "inout"):
                    return
                kind = (
                    f"an '{declaration.direction}'" if declaration.direction else "a directionless"
                )
                raise self.reporter.fail(
                    node.span, f"'{declaration.name}' is {kind} parameter and cannot be changed"
                )
            case syntax.Constant():
                raise self.reporter.fail(node.span, f"'{declaration.name}' is a constant")
        what = "a table" if isinstance(declaration, syntax.TableDeclaration) else "this"
        raise self.reporter.fail(node.span, f"{what} cannot be assigned to")
