"""The externs of core.p4 as primitives of BMv2; an architecture's own are in its folder.

What the primitives do is said in behavioral-model's docs/simple_switch.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import find, string_of
from weft.switch.compiler.diagnostics import Abandon, Span
from weft.switch.compiler.lower.expressions import ExpressionLowering, LoweringPart
from weft.switch.compiler.lower.storage import (
    ChosenPlace,
    Composite,
    ElementPlace,
    Environment,
    ExternInstance,
    FieldPlace,
    HeaderPlace,
    LoweredValue,
    NextPlace,
)
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import (
    EnumType,
    ErrorType,
    ExternType,
    StackType,
    StructType,
    TupleType,
    Type,
    is_header,
    is_union,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
    size_in_bits,
)

NOTHING = ir.Number(0)


@dataclass
class ExternCall:
    """A call of an extern, with all that is needed to evaluate its arguments."""

    node: syntax.CallExpression
    target: Target
    env: Environment
    expressions: ExpressionLowering

    def number(self, name: str) -> ir.LoweredExpression:
        return self.expressions.number(self.target.argument(name), self.env)

    def truth(self, name: str) -> ir.LoweredExpression:
        return self.expressions.truth(self.target.argument(name), self.env)

    def enum_member(self, name: str) -> str:
        return self.expressions.enum_member(self.target.argument(name), self.env)

    def fail(self, message: str) -> Abandon:
        return self.expressions.writer.fail(self.node, message)

    def fail_if(self, wrong: object, message: str) -> None:
        self.expressions.writer.fail_if(wrong, self.node, message)


@dataclass
class ExternObject(ExternCall):
    """A call of an extern's constructor: of what `kind`, and its name, annotations and place, which
    all objects have."""

    kind: ExternType
    common: tuple[str, list[Any], Span]

    def size(self, least: int = 1) -> int:
        """Return the argument `size`."""
        return self.expressions.known_size(self.target.argument("size"), self.env, least)


class ExternLowering(LoweringPart):
    """The lowering of calls of extern functions and methods, and of instances of externs: core.p4's
    here, an architecture's in a subclass, which adds its own to the tables."""

    in_parsers = frozenset({"verify", "packet_in"})
    """The functions, and the externs with methods, that parsers may call."""
    table_objects = frozenset[str]()
    """The properties of tables that name an instance of an extern."""

    def __init__(self, expressions: ExpressionLowering) -> None:
        super().__init__(expressions)
        self.program = self.shared.program
        self.functions: dict[str, Callable[[ExternCall], None]] = {
            "verify": self._verify,
        }
        self.methods: dict[
            tuple[str, str], Callable[[ExternCall, ExternInstance], LoweredValue | None]
        ] = {
            ("packet_in", "extract"): self._extract,
            ("packet_in", "advance"): self._advance,
            ("packet_in", "lookahead"): self._lookahead,
        }
        self.objects: dict[str, Callable[[ExternObject], ir.Object]] = {}

    def check_table(self, node: syntax.TableDeclaration, table: ir.LoweredTable) -> None:
        """Report what an architecture does not allow a table with its properties to have."""

    def has_timeouts(self, properties: Mapping[str, syntax.Property]) -> bool:
        """Return whether a table with these properties lets entries age."""
        return False

    def call(self, node: syntax.CallExpression, target: Target, env: Environment) -> LoweredValue:
        """Lower a call; its arguments are evaluated one after another."""
        call = ExternCall(node, target, env, self.expressions)
        return self._function(call) if target.kind == "extern_function" else self._method(call)

    def into_result(self, call: ExternCall, emit: Callable[[ir.HeaderField], None]) -> None:
        """Let a primitive write to the argument `result`, through a new field if the argument is
        none."""
        argument = call.target.argument("result")
        place = self.expressions.place(argument, call.env)
        if isinstance(place, FieldPlace):
            emit(place.field)
        else:
            kind = type_of(argument)
            call.fail_if(
                scalar_width(kind) is None,
                f"the result of {call.target.name}() must be one value with a width, not {kind}",
            )
            temporary = self.writer.temporary_field(kind)
            emit(temporary.field)
            self.places.assign(place, temporary, call.node)

    # Functions

    def _function(self, call: ExternCall) -> LoweredValue:
        name = call.target.name
        if name == "static_assert":  # the checker has seen to it
            return NOTHING
        lower = self.functions.get(name)
        if lower is None:
            raise call.fail(f"not supported: extern function '{name}'")
        in_parser = self.writer.context == "parser"
        call.fail_if(
            in_parser and name not in self.in_parsers, f"not supported: '{name}' in a parser"
        )
        deprecated = find(getattr(call.target.declaration, "annotations", []), "deprecated")
        if deprecated is not None:
            self.shared.reporter.warning(
                call.node.span, f"'{name}' is deprecated: {string_of(deprecated)}", "deprecated"
            )
        if not in_parser:
            self.program.calls_extern_functions = True
        lower(call)
        return NOTHING

    def _verify(self, call: ExternCall) -> None:
        call.fail_if(self.writer.context != "parser", "'verify' can only be called in a parser")
        self.writer.do("verify", call.truth("check"), call.number("toSignal"))

    # Methods

    def _method(self, call: ExternCall) -> LoweredValue:
        assert call.target.base is not None
        base = self.shared.reporter.needed(
            self.expressions.value(call.target.base, call.env),
            ExternInstance,
            call.node.span,
            "not supported: a method of this",
        )
        name = f"{base.kind}.{call.target.name}()"
        lower = self.methods.get((base.kind, call.target.name))
        if lower is None:
            raise call.fail(f"not supported: {name}")
        call.fail_if(
            self.writer.context == "parser" and base.kind not in self.in_parsers,
            f"not supported: {name} in a parser",
        )
        value = lower(call, base)
        return value if value is not None else NOTHING

    # Packets

    def _extract(self, call: ExternCall, base: ExternInstance) -> None:
        call.fail_if(self.writer.context != "parser", "'extract' can only be called in a parser")
        argument, *rest = call.target.arguments
        if argument is None:  # extract<T>(_)
            kind = call.target.parameter_types[0]
            place: LoweredValue = self.writer.temporary(kind)
        else:
            kind = type_of(argument)
            place = self.expressions.value(argument, call.env)
        bare = resolved(kind)
        if not is_header(bare):
            raise call.fail(f"only headers can be extracted, not {kind}")
        self.shared.storage.in_packets.add(bare)
        target = place
        if isinstance(place, (ElementPlace, ChosenPlace)):  # of which no extraction knows
            target = self.writer.temporary(kind)
            place = self.places.frozen(place)
        operand = self._extracted(target, call)
        variable = any(map(is_varbit, bare.fields.values()))
        if not rest:
            call.fail_if(variable, f"{kind} has a varbit field: extract needs its length in bits")
            self.writer.do("extract", operand)
        else:
            call.fail_if(not variable, f"{kind} has no varbit field, so extract takes one argument")
            (length,) = rest
            assert length is not None
            self.writer.do("extract_VL", operand, self.expressions.number(length, call.env))
        if isinstance(place, (ElementPlace, ChosenPlace)):
            self.places.assign(place, target, call.node)

    def _extracted(self, place: LoweredValue, call: ExternCall) -> ir.LoweredExpression:
        """Return the header to extract to, as an operand."""
        match place:
            case HeaderPlace():
                return ir.Reference("regular", place.name)
            case NextPlace() if not place.last:
                if place.member:
                    return ir.NextUnion(place.stack.name, place.member)
                return ir.Reference("stack", place.stack.name)
        raise call.fail("not supported: extract to anything but a header or stack.next")

    def _advance(self, call: ExternCall, base: ExternInstance) -> None:
        amount = call.number("sizeInBits")
        self.shared.reporter.warn_if(
            isinstance(amount, ir.Number) and amount.value % 8,
            call.node.span,
            "BMv2 advances by whole bytes only: this ends parsing with error.ParserInvalidArgument",
            "mismatch",
        )
        self.writer.do("advance", amount)

    def _lookahead(self, call: ExternCall, base: ExternInstance) -> LoweredValue:
        call.fail_if(self.writer.context != "parser", "'lookahead' can only be called in a parser")
        return self._ahead(call.target.returns, 0, call)

    def _ahead(self, kind: Type, offset: int, call: ExternCall) -> LoweredValue:
        bare = resolved(kind)
        call.fail_if(
            isinstance(bare, (EnumType, ErrorType)),
            f"{kind} has no size in a packet, so it cannot be looked ahead at",
        )
        if (width := scalar_width(kind)) is not None and not is_varbit(bare):
            return self.places.copied(ir.Lookahead(offset, width), kind, call.node)
        composite = isinstance(bare, (StructType, TupleType, StackType))
        if not composite or is_union(bare) or size_in_bits(bare) is None:
            raise call.fail(f"not supported: lookahead of {kind}")
        members: dict[str, LoweredValue] = {}
        for name, item in member_types(bare).items():
            members[name] = self._ahead(item, offset, call)
            offset += size_in_bits(item) or 0
        return Composite(kind, members)
