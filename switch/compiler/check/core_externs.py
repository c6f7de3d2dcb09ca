"""What the core library's functions and methods take, and where they may be called
(specification, sections "Data extraction", "verify" and "Data insertion into packets")."""

from weft.switch.compiler import syntax
from weft.switch.compiler.check.type_rules import fixed_width_problem, is_emitted
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.syntax import Target
from weft.switch.compiler.types import (
    ExternType,
    StructType,
    Type,
    TypeVariable,
    UnknownType,
    is_header,
    is_varbit,
    resolved,
)


def check_core_call(
    reporter: Reporter, node: syntax.CallExpression, target: Target, owner: Type | None, place: str
) -> None:
    """Report an error if a call of a core library's function, or of a method of an `owner`, is
    not allowed where it stands, or for what it is given."""
    name = target.name
    if owner is None:
        reporter.error_if(
            name == "verify" and place != "parser",
            node.span,
            "'verify' can only be called in a parser",
        )
        return
    match owner:
        case ExternType(name="packet_in"):
            reporter.fail_if(
                place in ("control", "control head", "action"),
                node.span,
                f"{name}() of a packet_in can only be called in a parser",
            )
            if name == "extract":
                _extract(reporter, node, target)
            elif name == "lookahead":
                problem = fixed_width_problem(target.returns)
                reporter.fail_if(
                    problem,
                    node.span,
                    f"{problem} has no size in a packet, so it cannot be looked ahead at",
                )
        case ExternType(name="packet_out") if name == "emit":
            kind = target.parameter_types[0]
            reporter.fail_if(
                not is_emitted(kind),
                node.span,
                "emit() takes a header, a header stack, a header union or a struct of those, "
                f"not {kind}",
            )


def _extract(reporter: Reporter, node: syntax.CallExpression, target: Target) -> None:
    kind = target.parameter_types[0]
    bare = resolved(kind)
    if isinstance(bare, (TypeVariable, UnknownType)):
        return
    reporter.fail_if(not is_header(bare), node.span, f"extract() takes a header, not {kind}")
    assert isinstance(bare, StructType)
    has_varbit = any(map(is_varbit, bare.fields.values()))
    reporter.fail_if(
        has_varbit and len(target.parameters) == 1,
        node.span,
        f"{kind} has a varbit field, whose width in bits extract() takes as its second argument",
    )
    reporter.fail_if(
        not has_varbit and len(target.parameters) == 2,
        node.span,
        f"{kind} has no varbit field, so that extract() takes no width",
    )
