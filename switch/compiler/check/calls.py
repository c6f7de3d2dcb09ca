"""What a call calls, which argument goes to which parameter, and the types that are inferred.

Specification, sections "Method invocations and function calls", "Constructor invocations", and
"Calling convention".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.check.expressions import ExpressionUser
from weft.switch.compiler.check.scope import Overloads, Scope, TypeEntry, closest
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
    IntegerType,
    PackageTypeType,
    StackType,
    StructType,
    TableType,
    TupleType,
    Type,
    TypeVariable,
    VarbitType,
    has_variables,
    is_header_stack,
    is_union,
    resolved,
    size_in_bits,
    substitute,
    type_arguments,
    unify,
)

_SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
_WITH_STATIC_PARAMETERS = (
    "function", "extern_function", "extern_method", "control", "parser", "constructor",
)  # fmt: skip


@dataclass
class _Signature:
    """A signature holds the parameters and types of something that can be called."""

    parameters: list[syntax.Parameter]
    types: list[Type]
    returns: Type
    variables: list[TypeVariable]


@dataclass(eq=False)
class CallChecker(ExpressionUser):
    """A call checker checks calls. `specialize` makes the function for given types out of a generic
    one."""

    specialize: Callable[[syntax.Function, Bindings], syntax.Function]
    signatures: dict[int, _Signature] = field(default_factory=dict, init=False)
    checked_action: syntax.ActionDeclaration | None = field(default=None, init=False)
    """The action whose body is being checked."""

    def declare(
        self, node: syntax.SyntaxNode, parameters: list[syntax.Parameter], types: list[Type],
        returns: Type, variables: list[TypeVariable],
    ) -> None:  # fmt: skip
        """Make a function, method, action, parser, control or package known to calls."""
        self.signatures[id(node)] = _Signature(parameters, types, returns, variables)

    # Which thing is called

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
                node.target = self._bind(node, Target(kind, callee.name, chosen), scope, expected)
                if isinstance(chosen, syntax.Function) and chosen.prototype.type_parameters:
                    self._specialized(node.target, chosen)
                if callee.name == "static_assert":
                    self._static_assert(node)
            case syntax.ActionDeclaration():
                self.reporter.fail_if(
                    symbol is self.checked_action, node.span, f"action '{callee.name}' calls itself"
                )
                node.target = self._bind(node, Target("action", callee.name, symbol), scope, None)
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
            parameters = self.signatures[id(candidate)].parameters
            required = sum(item.default is None and not _optional(item) for item in parameters)
            known = {None, *(item.name for item in parameters)}
            return required <= len(names) <= len(parameters) and known.issuperset(names)

        fitting = list(filter(fits, candidates))
        if not fitting:
            wanted = " or ".join(
                map(str, sorted({len(self.signatures[id(item)].parameters) for item in candidates}))
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
                node.target = Target("table", kind.declaration.name, kind.declaration, base)
                node.type = node.target.returns = ApplyResultType(kind.declaration)
                self.reporter.fail_if(
                    node.arguments, node.span, "a table's apply() takes no arguments"
                )
            case BlockTypeType() if name == "apply":
                node.target = self._bind(
                    node, Target(kind.kind, kind.name, kind.declaration, base), scope, None
                )
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
            zip(self.signatures[id(kind.declaration)].variables, kind.arguments, strict=False)
        )
        target = Target("extern_method", callee.name, chosen, callee.base, bindings=bindings)
        node.target = self._bind(node, target, scope, expected)
        node.type = node.target.returns

    def _size(self, node: syntax.CallExpression, kind: Type, name: str) -> None:
        size = size_in_bits(kind)
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
        node.target = self._bind(node, Target(kind.kind, kind.name, block, None), scope, None)
        node.type = VOID

    def _constructor(
        self, node: syntax.CallExpression, callee: syntax.TypeExpression, scope: Scope
    ) -> None:
        reference = callee.reference
        kind = self.expressions.types.resolve(reference, scope)
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
        node.target = self._bind(node, target, scope, None, constructor=True)
        node.type = substitute(kind, node.target.bindings)
        unbound = [item.name for item in variables if item not in node.target.bindings]
        self.reporter.fail_if(
            isinstance(kind, ExternType) and unbound,
            node.span,
            f"{kind.name} needs type arguments for <{', '.join(unbound)}>",
        )

    # Arguments

    def _bind(
        self, node: syntax.CallExpression, target: Target, scope: Scope, expected: Type | None,
        constructor: bool = False,
    ) -> Target:  # fmt: skip
        """Match arguments to parameters, infer type variables, cast, check directions, and return
        the target."""
        declaration = target.declaration
        signature = self.signatures[id(declaration)]
        if constructor and isinstance(
            declaration, (syntax.ParserDeclaration, syntax.ControlDeclaration)
        ):
            signature = self.signatures[id(declaration.constructor_parameters)]
        target.parameters = signature.parameters
        self._explicit_types(node, signature, target, scope)
        given = self._match(node, target)
        checked: dict[str, syntax.Expression] = {}
        for parameter, formal in zip(signature.parameters, signature.types, strict=True):
            argument = given.get(parameter.name)
            if argument is not None and argument.value is not None:
                checked[parameter.name] = self._check_argument(
                    argument.value, formal, target.bindings, scope
                )
        if expected is not None:
            unify(signature.returns, expected, dict(target.bindings))
        for parameter, formal in zip(signature.parameters, signature.types, strict=True):
            kind = substitute(formal, target.bindings)
            target.parameter_types.append(kind)
            value = checked.get(parameter.name)
            if value is None:
                target.arguments.append(self._default(parameter, given, target, node))
                continue
            self._check_static(value, parameter, target)
            match kind:
                case TupleType() if _lacks_width(kind) and parameter.direction:
                    raise self.reporter.fail(
                        value.span, "a value of type int has no width here: write one, such as 32w1"
                    )
                case IntegerType() if parameter.direction:
                    raise self.reporter.fail(
                        value.span,
                        f"a number with a width is needed for '{parameter.name}', such as 32w1",
                    )
            if not isinstance(kind, (BlockTypeType, PackageTypeType)):
                what = f"argument '{parameter.name}' of '{target.name}'"
                value = self.expressions.coercer.coerce(value, kind, what)
            if parameter.direction in ("out", "inout"):
                self.expressions.members.check_writable(value)
            target.arguments.append(value)
        target.returns = substitute(signature.returns, target.bindings)
        self.reporter.fail_if(
            isinstance(target.returns, TypeVariable) and target.returns in signature.variables,
            node.span,
            f"cannot infer the type that '{target.name}' gives: write {target.name}<T>(...)",
        )
        return target

    def _check_static(
        self, value: syntax.Expression, parameter: syntax.Parameter, target: Target
    ) -> None:
        """Raise an error if a parameter without direction is given a value that is not known at
        compile time."""
        if not parameter.direction and target.kind in _WITH_STATIC_PARAMETERS:
            self.reporter.fail_if(
                value.constant is None and not is_static(value),
                value.span,
                f"'{parameter.name}' of '{target.name}' has no direction: its value must be known "
                "at compile time",
            )

    def _explicit_types(
        self, node: syntax.CallExpression, signature: _Signature, target: Target, scope: Scope
    ) -> None:
        if node.type_arguments:
            own = [item for item in signature.variables if item not in target.bindings]
            self.reporter.fail_if(
                len(own) != len(node.type_arguments),
                node.span,
                f"'{target.name}' takes {len(own)} type argument(s), "
                f"not {len(node.type_arguments)}",
            )
            for variable, reference in zip(own, node.type_arguments, strict=True):
                target.bindings[variable] = self.expressions.types.resolve(reference, scope)

    def _match(self, node: syntax.CallExpression, target: Target) -> dict[str, syntax.Argument]:
        """Return the arguments by the names of the parameters that they go to."""
        parameters = target.parameters
        given: dict[str, syntax.Argument] = {}
        for position, argument in enumerate(node.arguments):
            self.reporter.fail_if(
                argument.name is None and position >= len(parameters),
                argument.span,
                f"'{target.name}' takes {len(parameters)} argument(s), not {len(node.arguments)}",
            )
            name = argument.name or parameters[position].name
            if argument.name and not any(item.name == name for item in parameters):
                raise self.reporter.fail(
                    argument.span,
                    f"'{target.name}' has no parameter '{name}'"
                    f"{closest(name, {item.name for item in parameters})}",
                )
            self.reporter.fail_if(
                name in given, argument.span, f"parameter '{name}' is given twice"
            )
            given[name] = argument
        for parameter in parameters:
            known = parameter.name in given or parameter.default is not None
            self.reporter.fail_if(
                not known and not _optional(parameter),
                node.span,
                f"no argument for '{parameter.name}' of '{target.name}', which takes "
                f"{len(parameters)}, not {len(node.arguments)}",
            )
        return given

    def _default(
        self, parameter: syntax.Parameter, given: dict[str, syntax.Argument], target: Target,
        node: syntax.CallExpression,
    ) -> syntax.Expression | None:  # fmt: skip
        if parameter.name in given:  # "_"
            if parameter.direction == "out" or _optional(parameter):
                return None
            raise self.reporter.fail(
                given[parameter.name].span,
                f"'_' can only be given for an 'out' parameter, not for '{parameter.name}'",
            )
        return parameter.default  # None of an optional one: `_match` has refused others

    def _check_argument(
        self, value: syntax.Expression, formal: Type, bindings: Bindings, scope: Scope
    ) -> syntax.Expression:
        known = substitute(formal, bindings)
        composite = isinstance(value, (syntax.ListExpression, syntax.RecordExpression, syntax.Dots))
        if composite and not has_variables(known):
            return self.expressions.check(value, scope, known)
        checked = self.expressions.check(value, scope)
        actual = type_of(checked)
        if isinstance(known, BlockTypeType) and isinstance(actual, BlockTypeType):
            self._check_block(checked, known, actual, bindings)
        elif has_variables(formal) and not unify(formal, actual, bindings):
            message = f"this has type {actual}, but {substitute(formal, bindings)} is expected"
            self.reporter.fail_if(not isinstance(actual, IntegerType), value.span, message)
        return checked

    def _check_block(
        self, node: syntax.Expression, formal: BlockTypeType, actual: BlockTypeType,
        bindings: Bindings,
    ) -> None:  # fmt: skip
        """Check that a parser or control has the parameters that a package wants, and infer its
        types."""
        wanted = self.signatures[id(formal.declaration)]
        found = self.signatures[id(actual.declaration)]
        rename: Bindings = dict(zip(wanted.variables, formal.arguments, strict=False))
        self.reporter.fail_if(
            formal.kind != actual.kind or len(wanted.types) != len(found.types),
            node.span,
            f"{actual} does not fit {formal}, which has {len(wanted.types)} parameter(s)",
        )
        for left, left_type, right, right_type in zip(
            wanted.parameters, wanted.types, found.parameters, found.types, strict=True
        ):
            kind = substitute(left_type, rename)
            if left.direction != right.direction or not unify(kind, right_type, bindings):
                expected = f"{left.direction} {substitute(kind, bindings)}".strip()
                actual_text = f"{right.direction} {right_type}".strip()
                raise self.reporter.fail(
                    node.span,
                    f"{actual} does not fit {formal}: parameter '{right.name}' is '{actual_text}', "
                    f"but '{expected}' is expected",
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
        signature = self.signatures[id(symbol)]
        count = sum(complete or bool(item.direction) for item in signature.parameters)
        self.signatures[id(reference)] = _Signature(
            signature.parameters[:count], signature.types[:count], VOID, []
        )
        try:
            call.target = self._bind(call, Target("action", symbol.name, reference), scope, None)
        except Abandon:
            return symbol
        call.target.declaration = symbol
        call.type = VOID
        return symbol


def _lacks_width(kind: Type) -> bool:
    """Return whether a type is that of a number without a width, or of a list with one."""
    if isinstance(kind, TupleType):
        return any(_lacks_width(item) for item in kind.elements)
    return isinstance(kind, IntegerType)


def _optional(parameter: syntax.Parameter) -> bool:
    return any(item.name == "optional" for item in parameter.annotations)
