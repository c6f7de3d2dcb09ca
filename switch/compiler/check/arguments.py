"""Which argument of a call goes to which parameter, and the types that are inferred.

Specification, section "Calling convention".
"""

from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.check.expressions import ExpressionUser
from weft.switch.compiler.check.scope import Scope, closest
from weft.switch.compiler.check.type_rules import inferred_problem, method_return_problem
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import (
    DONT_CARE,
    Bindings,
    BlockTypeType,
    DontCareType,
    ExternType,
    IntegerType,
    PackageTypeType,
    TupleType,
    Type,
    TypeVariable,
    has_variables,
    substitute,
    unify,
)

_WITH_STATIC_PARAMETERS = (
    "function", "extern_function", "extern_method", "control", "parser", "constructor",
)  # fmt: skip


@dataclass
class Signature:
    """A signature holds the parameters and types of something that can be called."""

    parameters: list[syntax.Parameter]
    types: list[Type]
    returns: Type
    variables: list[TypeVariable]


@dataclass(eq=False)
class ArgumentChecker(ExpressionUser):
    """An argument checker checks the arguments of what can be called, once that is declared."""

    signatures: dict[int, Signature] = field(default_factory=dict, init=False)

    def declare(
        self, node: syntax.SyntaxNode, parameters: list[syntax.Parameter], types: list[Type],
        returns: Type, variables: list[TypeVariable],
    ) -> None:  # fmt: skip
        """Make a function, method, action, parser, control or package known to calls."""
        self.signatures[id(node)] = Signature(parameters, types, returns, variables)

    def bind(
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
        left_open = self._explicit_types(node, signature, target, scope)
        given = self._match(node, target)
        given_optional = any(map(is_optional, signature.parameters))
        checked: dict[str, syntax.Expression] = {}
        for parameter, formal in zip(signature.parameters, signature.types, strict=True):
            argument = given.get(parameter.name)
            if argument is not None and argument.value is not None:
                checked[parameter.name] = self._check_argument(
                    argument.value, formal, target.bindings, scope
                )
        for variable in left_open:
            target.bindings.setdefault(variable, DONT_CARE)
        if expected is not None:
            unify(signature.returns, expected, dict(target.bindings))
        for parameter, formal in zip(signature.parameters, signature.types, strict=True):
            kind = substitute(formal, target.bindings)
            target.parameter_types.append(kind)
            if has_variables(formal):
                self._check_inferred(node, parameter, kind, target)
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
            (isinstance(target.returns, TypeVariable) and target.returns in signature.variables)
            or isinstance(target.returns, DontCareType),
            node.span,
            f"cannot infer the type that '{target.name}' gives: write {target.name}<T>(...)",
        )
        self.reporter.fail_if(
            isinstance(target.returns, IntegerType) and target.kind == "extern_function",
            node.span,
            f"'{target.name}' cannot give a value of type int, which is known at compile time",
        )
        unbound = [item.name for item in signature.variables if item not in target.bindings]
        self.reporter.fail_if(
            unbound and target.kind != "constructor" and not given_optional,
            node.span,
            f"cannot infer <{', '.join(unbound)}> of '{target.name}': write {target.name}<T>(...)",
        )
        return target

    def specialized_problem(self, kind: Type) -> str:
        """Return what the type arguments make wrong in an extern, or in a type of parsers or
        controls; empty if nothing is."""
        if not isinstance(kind, (ExternType, BlockTypeType)) or not kind.arguments:
            return ""
        declaration = kind.declaration
        variables = self.signatures[id(declaration)].variables
        bindings: Bindings = dict(zip(variables, kind.arguments, strict=False))
        own = declaration.methods if isinstance(declaration, syntax.ExternObject) else [declaration]
        for item in own:
            signature = self.signatures[id(item)]
            for parameter, formal in zip(signature.parameters, signature.types, strict=True):
                problem = has_variables(formal) and inferred_problem(
                    parameter, substitute(formal, bindings)
                )
                if problem:
                    return f"{kind} cannot be: '{item.name}' has {problem}"
            given = substitute(signature.returns, bindings)
            if has_variables(signature.returns) and method_return_problem(given):
                return f"{kind} cannot be: '{item.name}' would give a {given}"
        return ""

    def _check_inferred(
        self, node: syntax.CallExpression, parameter: syntax.Parameter, kind: Type, target: Target
    ) -> None:
        """Raise an error if no argument can have the type that a parameter gets."""
        problem = inferred_problem(parameter, kind, target.kind == "constructor")
        self.reporter.fail_if(problem, node.span, f"'{target.name}' cannot have {problem}")

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
        self, node: syntax.CallExpression, signature: Signature, target: Target, scope: Scope
    ) -> list[TypeVariable]:
        """Bind the type arguments that are given; return what ``_`` leaves to be inferred."""
        left_open: list[TypeVariable] = []
        if node.type_arguments:
            own = [item for item in signature.variables if item not in target.bindings]
            self.reporter.fail_if(
                len(own) != len(node.type_arguments),
                node.span,
                f"'{target.name}' takes {len(own)} type argument(s), "
                f"not {len(node.type_arguments)}",
            )
            for variable, reference in zip(own, node.type_arguments, strict=True):
                kind = self.expressions.types.argument(reference, scope, wild=True)
                if kind == DONT_CARE:
                    left_open.append(variable)
                else:
                    target.bindings[variable] = kind
        return left_open

    def _match(self, node: syntax.CallExpression, target: Target) -> dict[str, syntax.Argument]:
        """Return the arguments by the names of the parameters that they go to."""
        parameters = target.parameters
        given: dict[str, syntax.Argument] = {}
        self.reporter.fail_if(
            len({argument.name is None for argument in node.arguments}) > 1,
            node.span,
            "either all arguments have names of parameters, or none",
        )
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
                not known and not is_optional(parameter),
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
            if parameter.direction == "out" or is_optional(parameter):
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
        if isinstance(known, BlockTypeType):
            self.check_block(checked, known, actual, bindings)
        elif isinstance(known, PackageTypeType) and not isinstance(actual, PackageTypeType):
            raise self.reporter.fail(value.span, f"this has type {actual}, but {known} is expected")
        elif has_variables(formal) and not unify(formal, actual, bindings):
            message = f"this has type {actual}, but {substitute(formal, bindings)} is expected"
            self.reporter.fail_if(not isinstance(actual, IntegerType), value.span, message)
        return checked

    def check_block(
        self, node: syntax.Expression, formal: BlockTypeType, actual: Type, bindings: Bindings
    ) -> None:
        """Check that a parser or control has the parameters that a package wants, and infer its
        types."""
        if not isinstance(actual, BlockTypeType):
            raise self.reporter.fail(node.span, f"this has type {actual}, but {formal} is expected")
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


def _lacks_width(kind: Type) -> bool:
    """Return whether a type is that of a number without a width, or of a list with one."""
    if isinstance(kind, TupleType):
        return any(_lacks_width(item) for item in kind.elements)
    return isinstance(kind, IntegerType)


def is_optional(parameter: syntax.Parameter) -> bool:
    """Return whether an argument may be left out though there is no default."""
    return any(item.name == "optional" for item in parameter.annotations)
