"""Name resolution and type checking of a whole program.

Declarations are taken in the order in which they stand; each may refer only to what stands before
it (specification, section "Name resolution"). After an error in one the others are checked
nevertheless.
"""

import copy
from collections.abc import Callable
from contextlib import suppress

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.annotations import ParseAnnotation
from weft.switch.compiler.check.arguments import ArgumentChecker, is_optional
from weft.switch.compiler.check.calls import CallChecker
from weft.switch.compiler.check.expressions import ExpressionChecker
from weft.switch.compiler.check.parsers import ParserChecker
from weft.switch.compiler.check.scope import CheckContext, Overloads, Scope, TypeEntry, with_types
from weft.switch.compiler.check.statements import StatementChecker
from weft.switch.compiler.check.tables import TableChecker
from weft.switch.compiler.check.type_rules import (
    alias_problem,
    method_return_problem,
    parameter_problem,
    return_problem,
)
from weft.switch.compiler.diagnostics import NOWHERE, Abandon, Reporter
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    UNKNOWN,
    VOID,
    Bindings,
    BitType,
    BlockTypeType,
    CallableType,
    EnumType,
    ExternType,
    IntType,
    NewType,
    PackageTypeType,
    SerializableEnumType,
    StructType,
    Type,
    TypeVariable,
    is_varbit,
)


class Checker:
    """A checker checks a program; `context` then knows its errors, match kinds and global names."""

    def __init__(self, reporter: Reporter, parse_annotation: ParseAnnotation) -> None:
        self.reporter = reporter
        self.context = CheckContext(reporter)
        self.expressions = ExpressionChecker(
            self.context,
            lambda node, scope, expected: self.calls.check(node, scope, expected),
            parse_annotation,
        )
        self.arguments = ArgumentChecker(self.expressions)
        self.calls = CallChecker(self.expressions, self.arguments, self._specialize)
        self.statements = StatementChecker(self.expressions)
        self.tables = TableChecker(self.expressions, self.calls)
        self.parsers = ParserChecker(self.expressions, self.statements)
        self.generic: dict[int, syntax.Function] = {}  # as they were before they were checked
        self._methods: dict[type[syntax.SyntaxNode], Callable[..., object]] = {
            syntax.Struct: self._struct,
            syntax.Enum: self._enum,
            syntax.SerializableEnum: self._serializable_enum,
            syntax.Typedef: self._typedef,
            syntax.ErrorDeclaration: lambda node, scope: self._add_names(
                self.context.errors, node, "error"
            ),
            syntax.MatchKindDeclaration: lambda node, scope: self._add_names(
                self.context.match_kinds, node, "match kind"
            ),
            syntax.ExternFunction: self._extern_function,
            syntax.ExternObject: self._extern_object,
            syntax.BlockType: self._block_type,
            syntax.PackageType: self._block_type,
            syntax.ActionDeclaration: self._action,
            syntax.Function: self._function,
            syntax.Constant: self.statements.check,
            syntax.Variable: self.statements.check,
            syntax.Instantiation: self._instantiation,
            syntax.ValueSetDeclaration: self.parsers.value_set,
            syntax.TableDeclaration: self.tables.check,
            syntax.ControlDeclaration: self._block,
            syntax.ParserDeclaration: self._block,
        }
        self.specialized: dict[tuple[int, tuple[Type, ...]], syntax.Function] = {}

    def check(self, program: syntax.SourceProgram) -> None:
        """Check all declarations of a program; errors go to the reporter."""
        self.context.broken |= program.broken
        # Errors are in a name space of their own, to which all these declarations add.
        for node in sorted(
            program.declarations, key=lambda node: not isinstance(node, syntax.ErrorDeclaration)
        ):
            self.declaration(node, self.context.globals)
        main = self.context.globals.symbols.get("main")
        self.reporter.error_if(
            isinstance(main, syntax.Instantiation) and not isinstance(main.type, PackageTypeType),
            main.name_span if isinstance(main, syntax.Instantiation) else NOWHERE,
            "'main' must be an instance of a package",
        )

    def declaration(self, node: syntax.SyntaxNode, scope: Scope) -> None:
        """Check a declaration in a scope; after an error in it the next can be checked too."""
        self.expressions.annotations(node, scope)
        self.context.attempt(self._methods, node, scope)

    # Types

    def _struct(self, node: syntax.Struct, scope: Scope) -> Type:
        variables, inner = self.context.type_variables(node, node.type_parameters, scope)
        fields: dict[str, Type] = {}
        for item in node.fields:
            self.expressions.annotations(item, scope)
            item.type = UNKNOWN
            with suppress(Abandon):
                item.type = self.expressions.types.resolve(item.reference, inner)
            self.reporter.error_if(
                item.name in fields,
                item.name_span,
                f"{node.kind} {node.name} has two fields '{item.name}'",
            )
            self.expressions.types.check_field(item.type, node.kind, item.span, item.name)
            before = [name for name, kind in fields.items() if is_varbit(kind)]
            if node.kind == "header" and before and is_varbit(item.type):
                self.reporter.error(
                    item.name_span,
                    f"{node.kind} {node.name} has two varbit fields, '{before[0]}' and this",
                )
            fields[item.name] = item.type
        kind = StructType(node.name, node.kind, tuple(variables), fields, node)
        self.expressions.types.check_count(kind, node.name_span)
        self.context.declare(scope, node, TypeEntry(kind, node, variables))
        return kind

    def _enum(self, node: syntax.Enum, scope: Scope) -> None:
        self.context.no_repeats(node.members, f"enum {node.name} has two members '{{}}'")
        kind = EnumType(node.name, tuple(name for name, _ in node.members), node)
        self.context.declare(scope, node, TypeEntry(kind, node))
        self.context.enums.append(node)

    def _serializable_enum(self, node: syntax.SerializableEnum, scope: Scope) -> None:
        underlying = self.expressions.types.resolve(node.reference, scope)
        self.reporter.fail_if(
            not isinstance(underlying, (BitType, IntType)),
            node.reference.span,
            f"an enum's values must have type bit<N> or int<N>, not {underlying}",
        )
        self.context.no_repeats(
            [(name, span) for name, span, _ in node.members],
            f"enum {node.name} has two members '{{}}'",
        )
        members: dict[str, int] = {}
        kind = SerializableEnumType(node.name, underlying, members, node)
        inner = Scope(scope)
        for name, span, value in node.members:
            written = self.expressions.check(value, inner)
            number = written.constant
            self.reporter.fail_if(
                isinstance(number, int) and constants.wrap(number, underlying) != number,
                value.span,
                f"{number} does not fit in {underlying}",
            )
            checked = self.expressions.coercer.coerce(written, underlying)
            earlier = syntax.Constant(span, [], name, span, node.reference, checked)
            earlier.type, inner.symbols[name] = underlying, earlier
            if not isinstance(checked.constant, int):
                self.reporter.error(value.span, "an enum's values must be known at compile time")
            else:
                members[name] = checked.constant
        self.context.declare(scope, node, TypeEntry(kind, node))

    def _typedef(self, node: syntax.Typedef, scope: Scope) -> None:
        if isinstance(node.reference, syntax.Declaration):
            self._methods[type(node.reference)](node.reference, scope)
            declared = scope.symbols[node.reference.name]
            assert isinstance(declared, TypeEntry)
            kind = declared.type
        else:
            kind = self.expressions.types.resolve(node.reference, scope)
        problem = alias_problem(kind, node.is_new_type)
        self.reporter.fail_if(problem, node.reference.span, problem)
        if node.is_new_type:
            kind = NewType(node.name, kind, node)
        self.context.declare(scope, node, TypeEntry(kind, node))

    def _add_names(
        self, known: list[str], node: syntax.ErrorDeclaration | syntax.MatchKindDeclaration,
        what: str,
    ) -> None:  # fmt: skip
        self.context.no_repeats(node.members, f"{what} '{{}}' is declared twice", known)
        known[:] = dict.fromkeys([*known, *(name for name, _ in node.members)])

    # Parameters and signatures

    def parameters(self, parameters: list[syntax.Parameter], scope: Scope, of: str) -> list[Type]:
        """Resolve the types of parameters; `of` tells what has them (see `parameter_problem`)."""
        self.context.no_repeats(
            [(item.name, item.name_span) for item in parameters], "there are two parameters '{}'",
            scope.type_variables(),
        )  # fmt: skip
        for item in parameters:
            self.expressions.annotations(item, scope)
            item.type = self.expressions.types.resolve(item.reference, scope, wild=of == "package")
            problem = parameter_problem(item, item.type, of) or self.arguments.specialized_problem(
                item.type
            )
            self.reporter.error_if(problem, item.span, problem)
            if item.default is not None:
                item.default = self._default_value(item, item.default, scope)
            self.reporter.error_if(
                is_optional(item) and of in ("action", "function", "block"),
                item.span,
                "@optional parameters are for what has no body: packages, externs, and types of "
                "parsers and controls",
            )
        return [type_of(item) for item in parameters]

    def _default_value(
        self, parameter: syntax.Parameter, value: syntax.Expression, scope: Scope
    ) -> syntax.Expression:
        self.reporter.error_if(
            parameter.direction in ("out", "inout"),
            value.span,
            f"an '{parameter.direction}' parameter cannot have a default value",
        )
        self.reporter.error_if(
            is_optional(parameter), value.span, "an @optional parameter has no default value"
        )
        wanted = parameter.type
        if isinstance(wanted, BlockTypeType):
            value = self.expressions.check(value, scope)
            self.arguments.check_block(value, wanted, type_of(value), {})
        else:
            value = self.expressions.assigned(value, scope, type_of(parameter))
        self.reporter.fail_if(
            value.constant is None and not is_static(value),
            value.span,
            f"the default value of '{parameter.name}' must be known at compile time",
        )
        return value

    def _prototype(
        self, node: syntax.SyntaxNode, prototype: syntax.Prototype, scope: Scope,
        variables: list[TypeVariable], of: str,
    ) -> Type:  # fmt: skip
        """Make something with a prototype known to calls; return the type that it returns."""
        returns = (
            VOID
            if prototype.returns is None
            else self.expressions.types.resolve(prototype.returns, scope)
        )
        if prototype.returns is not None:
            self.reporter.error_if(
                return_problem(returns), prototype.returns.span, f"nothing returns a {returns}"
            )
        self.arguments.declare(
            node, prototype.parameters, self.parameters(prototype.parameters, scope, of), returns,
            variables,
        )  # fmt: skip
        return returns

    def _overload(self, node: syntax.Function | syntax.ExternFunction, scope: Scope) -> None:
        known = scope.symbols.get(node.name)
        if isinstance(known, Overloads):
            names = [item.name for item in node.prototype.parameters]
            for other in known.functions:
                same = names == [item.name for item in other.prototype.parameters]
                self.reporter.fail_if(
                    same and other.span.file == node.span.file,
                    node.name_span,
                    f"function '{node.name}' is declared in line {other.name_span.line} with "
                    "parameters of the same names: no call could tell them apart",
                )
            known.functions.append(node)
        else:
            self.context.declare(scope, node, Overloads([node]))

    def _extern_function(self, node: syntax.ExternFunction, scope: Scope) -> None:
        variables, inner = self.context.type_variables(node, node.prototype.type_parameters, scope)
        self._prototype(node, node.prototype, inner, variables, "extern")
        self._overload(node, scope)

    def _extern_object(self, node: syntax.ExternObject, scope: Scope) -> None:
        variables, inner = self.context.type_variables(node, node.type_parameters, scope)
        self.context.declare(
            scope, node, TypeEntry(ExternType(node.name, tuple(variables), node), node, variables)
        )
        self.arguments.declare(node, [], [], VOID, variables)
        seen: list[tuple[str, list[str]]] = []
        for method in node.methods:
            self.expressions.annotations(method, scope)
            which = method.name, [item.name for item in method.prototype.parameters]
            self.reporter.error_if(
                which in seen,
                method.name_span,
                f"'{method.name}' is declared twice in extern '{node.name}' with parameters of the "
                "same names: no call could tell them apart",
            )
            self.reporter.error_if(
                method.name in {name for name, _ in seen}
                and any(item.is_abstract for item in node.methods if item.name == method.name),
                method.name_span,
                f"'{method.name}' of extern '{node.name}' is abstract, and cannot be overloaded",
            )
            seen.append(which)
            own, place = self.context.type_variables(
                method, method.prototype.type_parameters, inner
            )
            of = "extern constructor" if method.is_constructor else "extern"
            returns = self._prototype(method, method.prototype, place, own, of)
            self.reporter.error_if(
                not return_problem(returns) and method_return_problem(returns),
                method.span,
                f"a method of an extern does not give a value of type {returns}",
            )
            self.reporter.error_if(
                method.name == node.name and not method.is_constructor,
                method.name_span,
                f"'{method.name}' has the name of its extern, so it is a constructor, which gives "
                "nothing, not even void",
            )
            if method.is_constructor:
                self.reporter.error_if(
                    method.name != node.name,
                    method.name_span,
                    f"a constructor must be called '{node.name}'",
                )
                self.arguments.signatures[id(method)].variables = list(variables)

    def _block_type(self, node: syntax.BlockType | syntax.PackageType, scope: Scope) -> None:
        variables, inner = self.context.type_variables(node, node.type_parameters, scope)
        of = "package" if isinstance(node, syntax.PackageType) else "block type"
        self.arguments.declare(
            node, node.parameters, self.parameters(node.parameters, inner, of), VOID, variables
        )
        kind = (
            PackageTypeType(node.name, tuple(variables), node)
            if isinstance(node, syntax.PackageType)
            else BlockTypeType(node.name, node.kind, tuple(variables), node)
        )
        self.context.declare(scope, node, TypeEntry(kind, node, variables))

    # Actions and functions

    def _action(self, node: syntax.ActionDeclaration, scope: Scope) -> None:
        inner = Scope(scope)
        types = self.parameters(node.parameters, scope, "action")
        directionless = False
        for item in node.parameters:
            self.reporter.error_if(
                directionless and item.direction,
                item.span,
                "parameters with a direction must come before those of the control plane",
            )
            item.is_action_data = not item.direction
            directionless = directionless or item.is_action_data
            self.context.declare(inner, item)
        self.arguments.declare(node, node.parameters, types, VOID, [])
        node.type = CallableType("action", node.name)
        self.context.declare(scope, node)
        self.calls.checked_action = node
        self._body(node.body, inner, "action", VOID)
        self.calls.checked_action = None

    def _function(self, node: syntax.Function, scope: Scope) -> None:
        if node.prototype.type_parameters:
            self.generic[id(node)] = copy.deepcopy(node)
        variables, inner = self.context.type_variables(node, node.prototype.type_parameters, scope)
        self._function_body(node, inner, variables)
        self._overload(node, scope)

    def _specialize(self, node: syntax.Function, bindings: Bindings) -> syntax.Function:
        """Return a generic function with its type parameters replaced by types."""
        variables = self.arguments.signatures[id(node)].variables
        types = tuple(bindings[item] for item in variables)
        key = (id(node), types)
        known = self.specialized.get(key)
        if known is None:
            known = self.specialized[key] = copy.deepcopy(self.generic[id(node)])
            self._function_body(known, with_types(self.context.globals, variables, types), [])
        return known

    def _function_body(
        self, node: syntax.Function, scope: Scope, variables: list[TypeVariable]
    ) -> None:
        returns = self._prototype(node, node.prototype, scope, variables, "function")
        body_scope = Scope(scope)
        for item in node.prototype.parameters:
            self.context.declare(body_scope, item)
        node.type = CallableType("function", node.name)
        self._body(node.body, body_scope, "function", returns)
        self.reporter.error_if(
            returns != VOID and not _always_returns(node.body),
            node.name_span,
            f"function '{node.name}' does not return a value on every path",
        )

    def _body(self, body: syntax.Block, scope: Scope, place: str, returns: Type) -> None:
        before, self.statements.returns = self.statements.returns, returns
        with self.context.inside(place):
            self.statements.check_all(body.statements, Scope(scope))
        self.statements.returns = before

    # Instances

    def _instantiation(self, node: syntax.Instantiation, scope: Scope) -> None:
        callee = syntax.TypeExpression(node.reference.span, node.reference)
        call = syntax.CallExpression(
            node.reference.span.to(node.name_span), callee, [], node.arguments
        )
        node.call, node.type = call, self.expressions.check(call, scope).type
        methods = node.type.declaration.methods if isinstance(node.type, ExternType) else []
        abstract = [item.name for item in methods if item.is_abstract]
        if node.initializer is not None:
            raise self.reporter.fail(
                node.name_span,
                f"not supported: abstract methods of an instance ('{node.name}')"
                if abstract
                else f"{node.type} leaves no methods to an instance: '{node.name}' takes no braces",
            )
        self.reporter.fail_if(
            abstract,
            node.name_span,
            f"'{node.name}' lacks what {node.type} leaves to it: abstract {', '.join(abstract)}",
        )
        problem = self._misplaced(node.type)
        self.reporter.fail_if(problem, node.span, f"{node.type} cannot be instantiated {problem}")
        self.context.declare(scope, node)

    def _misplaced(self, kind: Type | None) -> str:
        """Return where it is that nothing of a type can be instantiated; empty if it can."""
        place = self.context.place.removesuffix(" head")
        match kind:
            case BlockTypeType() if not place:
                return "outside of a parser, control or package"
            case BlockTypeType() if kind.kind != place:
                return f"in a {place}"
            case PackageTypeType() if place:
                return f"in a {place}, but only outside of all blocks"
        return ""

    # Parsers and controls

    def _block(
        self, node: syntax.ParserDeclaration | syntax.ControlDeclaration, scope: Scope
    ) -> None:
        self.reporter.fail_if(
            node.type_parameters,
            node.name_span,
            f"a {node.kind} with a body cannot have type parameters",
        )
        types = self.parameters(node.parameters, scope, "block")
        constructor = self.parameters(
            node.constructor_parameters, scope, f"{node.kind} constructor"
        )
        self.arguments.declare(node, node.parameters, types, VOID, [])
        # The constructor's signature is kept under the list of its parameters.
        self.arguments.declare(
            node.constructor_parameters,  # type: ignore[arg-type]
            node.constructor_parameters, constructor, VOID, [],
        )  # fmt: skip
        outer = Scope(scope)
        for parameter in [*node.parameters, *node.constructor_parameters]:
            self.context.declare(outer, parameter)
        inner = Scope(outer, hides_parameters=True)
        node.type = kind = BlockTypeType(node.name, node.kind, (), node)
        with self.context.inside(f"{node.kind} head"):
            for item in node.locals:
                self.declaration(item, inner)
        if isinstance(node, syntax.ParserDeclaration):
            self.parsers.check(node, inner)
        else:
            self._body(node.body, inner, "control", VOID)
        self.context.declare(scope, node, TypeEntry(kind, node))


def _always_returns(node: syntax.SyntaxNode | None) -> bool:
    """Return whether control cannot run past this statement."""
    match node:
        case syntax.Return():
            return True
        case syntax.Block():
            return any(_always_returns(item) for item in node.statements)
        case syntax.If():
            return _always_returns(node.then) and _always_returns(node.otherwise)
        case syntax.SwitchStatement() if node.cases:
            has_default = isinstance(node.cases[-1].label, syntax.AnyKeyset)
            return has_default and all(
                item.body is None or _always_returns(item.body) for item in node.cases
            )
    return False
