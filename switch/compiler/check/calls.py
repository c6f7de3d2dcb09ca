"""What a call calls.

Specification, sections "Method invocations and function calls" and "Constructor invocations".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.check.arguments import ArgumentChecker, Signature, is_optional
from weft.switch.compiler.check.core_externs import check_core_call
from weft.switch.compiler.check.expressions import ExpressionUser
from weft.switch.compiler.check.scope import Overloads, Scope, TypeEntry, closest
from weft.switch.compiler.check.type_rules import has_unsized
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import (
    BOOL,
    INTEGER,
    UNKNOWN,
    VOID,
    ApplyResultType,
    Bindings,
    BlockTypeType,
    ExternType,
    PackageTypeType,
    StackType,
    StructType,
    TableType,
    Type,
    VarbitType,
    has_variables,
    is_header_stack,
    is_union,
    resolved,
    size_in_bits,
    substitute,
    type_arguments,
)

_SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")


@dataclass(eq=False)
class CallChecker(ExpressionUser):
    """A call checker checks calls. `specialize` makes the function for given types out of a generic
    one."""

    arguments: ArgumentChecker
    specialize: Callable[[syntax.Function, Bindings], syntax.Function]
    checked_action: syntax.ActionDeclaration | None = field(default=None, init=False)
    """The action whose body is being checked."""

    def check(self, node: syntax.CallExpression, scope: Scope, expected: Type | None) -> None:
        """Find what a call calls, check its arguments, and note its target and type."""
        callee = node.callee
        match callee:
            case syntax.TypeExpression():
                self._constructor(node, callee, scope)
            case syntax.Name():
                self._function(node, callee, scope, expected)
            case syntax.MemberAccess(base=syntax.TypeExpression() as base):
                kind = self.expressions.types.resolve(base.reference, scope)
                if callee.name in _SIZES:
                    self._size(node, kind, callee.name)
                else:
                    self._direct_application(node, callee, kind, scope)
            case syntax.MemberAccess():
                self._method(node, callee, scope, expected)
            case _:
                raise self.reporter.fail(node.span, "this cannot be called")

    def _function(
        self, node: syntax.CallExpression, callee: syntax.Name, scope: Scope, expected: Type | None
    ) -> None:
        symbol = self.context.symbol(callee, scope)
        match symbol:
            case Overloads():
                chosen = self._choose(node, callee.name, symbol.functions)
                kind = "function" if isinstance(chosen, syntax.Function) else "extern_function"
                node.target = self.arguments.bind(
                    node, Target(kind, callee.name, chosen), scope, expected
                )
                if isinstance(chosen, syntax.Function) and chosen.prototype.type_parameters:
                    self._specialized(node.target, chosen)
                if callee.name == "static_assert":
                    self._static_assert(node)
                check_core_call(self.reporter, node, node.target, None, self.context.place)
            case syntax.ActionDeclaration():
                self.reporter.fail_if(
                    self.context.place not in ("control", "action"),
                    node.span,
                    "an action can only be called in a control or an action",
                )
                self.reporter.fail_if(
                    symbol is self.checked_action, node.span, f"action '{callee.name}' calls itself"
                )
                node.target = self.arguments.bind(
                    node, Target("action", callee.name, symbol), scope, None
                )
            case _:
                raise self.reporter.fail(callee.span, f"'{callee.name}' cannot be called")
        node.type = node.target.returns

    def _specialized(self, target: Target, declaration: syntax.Function) -> None:
        """Let a call of a generic function call the function that is made for its types."""
        if any(has_variables(kind) for kind in target.bindings.values()):
            return  # inside a generic function, which is checked once more for each use
        function = self.specialize(declaration, target.bindings)
        defaults = {id(item.default): item for item in target.parameters if item.default}
        target.declaration, target.parameters = function, function.prototype.parameters
        target.arguments = [
            parameter.default if id(argument) in defaults else argument
            for parameter, argument in zip(target.parameters, target.arguments, strict=True)
        ]

    def _static_assert(self, node: syntax.CallExpression) -> None:
        check, *message = node.target.arguments
        self.reporter.fail_if(
            check.constant is None, node.span, "static_assert needs a value known at compile time"
        )
        text = message[0].constant if message and message[0] is not None else "it does not hold"
        self.reporter.fail_if(not check.constant, node.span, f"static assertion: {text}")
        node.constant = True

    def _choose(
        self, node: syntax.CallExpression, name: str, candidates: Sequence[syntax.SyntaxNode]
    ) -> syntax.SyntaxNode:
        """Return the overload that takes these arguments, judged by their number and names."""
        names = [argument.name for argument in node.arguments]

        def fits(candidate: syntax.SyntaxNode) -> bool:
            parameters = self.arguments.signatures[id(candidate)].parameters
            required = sum(item.default is None and not is_optional(item) for item in parameters)
            known = {None, *(item.name for item in parameters)}
            return required <= len(names) <= len(parameters) and known.issuperset(names)

        fitting = list(filter(fits, candidates))
        if not fitting:
            wanted = " or ".join(
                map(
                    str,
                    sorted(
                        {len(self.arguments.signatures[id(item)].parameters) for item in candidates}
                    ),
                )
            )
            raise self.reporter.fail(
                node.span, f"'{name}' takes {wanted} argument(s), but {len(names)} are given"
            )
        places = " and ".join(f"{item.span.file}:{item.span.line}" for item in fitting)
        self.reporter.fail_if(
            len(fitting) > 1,
            node.span,
            f"which '{name}' is meant? Those at {places} take these arguments",
        )
        return fitting[0]

    def _method(
        self,
        node: syntax.CallExpression,
        callee: syntax.MemberAccess,
        scope: Scope,
        expected: Type | None,
    ) -> None:
        base = callee.base = self.expressions.check(callee.base, scope)
        kind = resolved(type_of(base))
        name = callee.name
        match kind:
            case TableType() if name == "apply":
                self._check_place(node, "table", "control")
                node.target = Target("table", kind.declaration.name, kind.declaration, base)
                node.type = node.target.returns = ApplyResultType(kind.declaration)
                self.reporter.fail_if(
                    node.arguments, node.span, "a table's apply() takes no arguments"
                )
            case BlockTypeType() if name == "apply":
                self._check_place(node, kind.kind, kind.kind)
                variables = self.arguments.signatures[id(kind.declaration)].variables
                bindings: Bindings = dict(zip(variables, kind.arguments, strict=False))
                target = Target(kind.kind, kind.name, kind.declaration, base, bindings=bindings)
                node.target = self.arguments.bind(node, target, scope, None)
                node.type = VOID
            case ExternType():
                self._extern_method(node, callee, kind, scope, expected)
            case _ if name in _SIZES and not isinstance(kind, BlockTypeType):
                self._size(node, kind, name)
            case StructType(kind="header" | "header_union"):
                self._header_method(node, callee, kind)
            case StackType() if is_header_stack(kind):
                self._stack_method(node, callee, scope)
            case _:
                raise self.reporter.fail(callee.name_span, f"{kind} has no method '{name}'")

    def _check_place(self, node: syntax.CallExpression, what: str, place: str) -> None:
        wanted = "a control's apply block" if place == "control" else "a parser's state"
        self.reporter.fail_if(
            self.context.place != place, node.span, f"a {what} can only be applied in {wanted}"
        )

    def _extern_method(
        self, node: syntax.CallExpression, callee: syntax.MemberAccess, kind: ExternType,
        scope: Scope, expected: Type | None,
    ) -> None:  # fmt: skip
        methods: list[syntax.SyntaxNode] = [
            method
            for method in kind.declaration.methods
            if method.name == callee.name and not method.is_constructor
        ]
        if not methods:
            known = {item.name for item in kind.declaration.methods if not item.is_constructor}
            hint = closest(callee.name, known) or f"; it has {', '.join(sorted(known)) or 'none'}"
            raise self.reporter.fail(
                callee.name_span, f"{kind} has no method '{callee.name}'{hint}"
            )
        chosen = self._choose(node, callee.name, methods)
        bindings: Bindings = dict(
            zip(
                self.arguments.signatures[id(kind.declaration)].variables,
                kind.arguments,
                strict=False,
            )
        )
        target = Target("extern_method", callee.name, chosen, callee.base, bindings=bindings)
        node.target = self.arguments.bind(node, target, scope, expected)
        node.type = node.target.returns
        check_core_call(self.reporter, node, node.target, kind, self.context.place)

    def _size(self, node: syntax.CallExpression, kind: Type, name: str) -> None:
        self.reporter.fail_if(node.arguments, node.span, f"{name}() takes no arguments")
        size = None if has_unsized(kind) else size_in_bits(kind)
        if size is None:
            raise self.reporter.fail(node.span, f"{kind} has no size")
        if name.startswith("min") and isinstance(kind, StructType):
            size -= sum(item.width for item in kind.fields.values() if isinstance(item, VarbitType))
        node.target = Target("builtin", name)
        node.type = INTEGER
        node.constant = size if name.endswith("Bits") else (size + 7) // 8

    def _header_method(
        self, node: syntax.CallExpression, callee: syntax.MemberAccess, kind: Type
    ) -> None:
        name = callee.name
        allowed = ("isValid",) if is_union(kind) else ("isValid", "setValid", "setInvalid")
        self.reporter.fail_if(
            name not in allowed,
            callee.name_span,
            f"{kind} has no method '{name}'; it has {', '.join(allowed)}",
        )
        self.reporter.fail_if(node.arguments, node.span, f"{name}() takes no arguments")
        if name != "isValid":
            self.expressions.members.check_writable(callee.base)
        node.target = Target("builtin", name, base=callee.base)
        node.type = node.target.returns = BOOL if name == "isValid" else VOID

    def _stack_method(
        self, node: syntax.CallExpression, callee: syntax.MemberAccess, scope: Scope
    ) -> None:
        name = callee.name
        self.reporter.fail_if(
            name not in ("push_front", "pop_front"),
            callee.name_span,
            f"a header stack has push_front and pop_front, not '{name}'",
        )
        if len(node.arguments) != 1 or node.arguments[0].value is None:
            raise self.reporter.fail(node.span, f"{name} takes one argument, a number")
        self.expressions.members.check_writable(callee.base)
        count = self.expressions.static_number(
            node.arguments[0].value, scope, f"{name} takes a number known at compile time"
        )
        self.reporter.fail_if(
            isinstance(count.constant, int) and count.constant < 1,
            count.span,
            f"{name} takes a number of at least 1, not {count.constant}",
        )
        node.target = Target("builtin", name, base=callee.base, arguments=[count])
        node.type = VOID

    def _direct_application(
        self,
        node: syntax.CallExpression,
        callee: syntax.MemberAccess,
        kind: Type,
        scope: Scope,
    ) -> None:
        if kind == UNKNOWN:
            raise Abandon
        block = kind.declaration if isinstance(kind, BlockTypeType) else None
        if (
            not isinstance(block, (syntax.ParserDeclaration, syntax.ControlDeclaration))
            or callee.name != "apply"
        ):
            raise self.reporter.fail(node.span, f"{kind} cannot be applied")
        assert isinstance(kind, BlockTypeType)
        self.reporter.fail_if(
            block.constructor_parameters,
            node.span,
            f"{kind} has constructor parameters; instantiate it first",
        )
        self._check_place(node, kind.kind, kind.kind)
        node.target = self.arguments.bind(
            node, Target(kind.kind, kind.name, block, None), scope, None
        )
        node.type = VOID

    def _constructor(
        self, node: syntax.CallExpression, callee: syntax.TypeExpression, scope: Scope
    ) -> None:
        reference = callee.reference
        kind = self.expressions.types.resolve(reference, scope, wild=True, inferred=True)
        if kind == UNKNOWN:
            raise Abandon
        entry = scope.find(getattr(reference, "name", ""))
        variables = entry.parameters if isinstance(entry, TypeEntry) else []
        written = type_arguments(kind) if getattr(reference, "arguments", None) else None
        explicit = dict(zip(variables, written or (), strict=False))
        match kind:
            case ExternType():
                constructors = [
                    method for method in kind.declaration.methods if method.is_constructor
                ]
                self.reporter.fail_if(
                    not constructors, node.span, f"extern {kind.name} has no constructor"
                )
                declaration = self._choose(node, kind.name, constructors)
            case (
                BlockTypeType(declaration=syntax.ParserDeclaration() | syntax.ControlDeclaration())
                | PackageTypeType()
            ):
                declaration = kind.declaration
            case _:
                raise self.reporter.fail(node.span, f"{kind} cannot be instantiated")
        target = Target("constructor", kind.name, declaration, bindings=explicit)
        node.target = self.arguments.bind(node, target, scope, None, constructor=True)
        node.type = substitute(kind, node.target.bindings)
        problem = self.arguments.specialized_problem(node.type)
        self.reporter.fail_if(problem, node.span, problem)
        unbound = [item.name for item in variables if item not in node.target.bindings]
        self.reporter.fail_if(
            isinstance(kind, ExternType) and unbound,
            node.span,
            f"{kind.name} needs type arguments for <{', '.join(unbound)}>",
        )

    def _check_action_data(self, target: Target) -> None:
        """Report an error for what an entry or default action gives to a parameter without a
        direction, unless it is known at compile time."""
        for parameter, value in zip(target.parameters, target.arguments, strict=True):
            if value is not None and not parameter.direction:
                self.reporter.error_if(
                    value.constant is None and not is_static(value),
                    value.span,
                    f"'{parameter.name}' of '{target.name}' has no direction: its value must be "
                    "known at compile time",
                )

    def check_action_reference(
        self, reference: syntax.ActionReference, scope: Scope, complete: bool
    ) -> syntax.ActionDeclaration | None:
        """Resolve an action in a table's actions, entries or default action.

        In the list of actions only the parameters with a direction take arguments; in entries and
        default actions (`complete`) all of them do.
        """
        call = reference.call
        name = call.callee
        assert isinstance(name, syntax.Name)
        symbol = (self.context.globals if name.absolute else scope).find(name.name)
        if symbol is None and name.name in self.context.broken:
            return None
        if not isinstance(symbol, syntax.ActionDeclaration):
            near = closest(name.name, {
                item for item in scope.names()
                if isinstance(scope.find(item), syntax.ActionDeclaration)
            })  # fmt: skip
            self.reporter.error(name.span, f"'{name.name}' is not an action{near}")
            return None
        name.declaration = symbol
        signature = self.arguments.signatures[id(symbol)]
        count = sum(complete or bool(item.direction) for item in signature.parameters)
        self.arguments.signatures[id(reference)] = Signature(
            signature.parameters[:count], signature.types[:count], VOID, []
        )
        try:
            with self.context.inside("action"):
                call.target = self.arguments.bind(
                    call, Target("action", symbol.name, reference), scope, None
                )
        except Abandon:
            return symbol
        if complete:
            self._check_action_data(call.target)
        call.target.declaration = symbol
        call.type = VOID
        return symbol
