"""The externs of core.p4 and v1model.p4 as primitives of BMv2's simple_switch.

What the primitives do is said in behavioral-model's docs/simple_switch.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.annotations import control_name, find, string_of
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.lower.expressions import ExpressionLowering, LoweringPart, Numbers
from weft.switch.compiler.lower.storage import (
    Composite,
    Environment,
    ExternInstance,
    FieldPlace,
    HeaderPlace,
    LoweredValue,
    NextPlace,
    Place,
)
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import (
    BitType,
    EnumType,
    ErrorType,
    StructType,
    TupleType,
    Type,
    is_header,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
    size_in_bits,
)

NOTHING = ir.Number(0)
_IN_PARSERS = ("verify", "log_msg", "assert", "assume")
_CHECKSUMS = tuple(
    f"{what}_checksum{data}" for what in ("verify", "update") for data in ("", "_with_payload")
)


@dataclass
class _ExternCall:
    """A call of an extern has all that is needed to evaluate its arguments."""

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


class ExternLowering(LoweringPart):
    """The lowering of calls of extern functions and methods."""

    def __init__(self, expressions: ExpressionLowering) -> None:
        super().__init__(expressions)
        self.program = self.shared.program
        self.meter_copies: dict[str, Place] = {}
        """The places of the results of direct meters that are not read into a whole field."""
        do = self.writer.do
        self._functions: dict[str, Callable[[_ExternCall], None]] = {
            "verify": self._verify,
            "mark_to_drop": lambda call: do(
                "mark_to_drop", ir.Reference("header", "standard_metadata")
            ),
            "random": self._random,
            "hash": self._hash,
            "digest": self._digest,
            "resubmit_preserving_field_list": lambda call: self._send_again(
                call, "resubmit", self._given_list(call)
            ),
            "recirculate_preserving_field_list": lambda call: self._send_again(
                call, "recirculate", self._given_list(call)
            ),
            "clone": lambda call: self._clone(call, ir.Number(self._field_list(None))),
            "clone_preserving_field_list": lambda call: self._clone(call, self._given_list(call)),
            "clone3": lambda call: self._clone(call, self._listed_data(call)),
            "resubmit": lambda call: self._send_again(call, "resubmit", self._listed_data(call)),
            "recirculate": lambda call: self._send_again(
                call, "recirculate", self._listed_data(call)
            ),
            "truncate": lambda call: do("truncate", call.number("length")),
            "assert": self._assert,
            "assume": self._assert,
            "static_assert": lambda call: None,  # the checker has seen to it
            "log_msg": self._log_msg,
            **dict.fromkeys(_CHECKSUMS, self._checksum),
        }
        self._methods: dict[
            tuple[str, str], Callable[[_ExternCall, ExternInstance], LoweredValue | None]
        ] = {
            ("counter", "count"): lambda call, base: do(
                "count", ir.Reference("counter_array", base.name), call.number("index")
            ),
            # BMv2 counts in every action of the table.
            ("direct_counter", "count"): lambda call, base: None,
            ("meter", "execute_meter"): self._execute_meter,
            ("direct_meter", "read"): self._read_meter,
            ("register", "read"): self._read_register,
            ("register", "write"): lambda call, base: do(
                "register_write", ir.Reference("register_array", base.name),
                call.number("index"), call.number("value"),
            ),
            ("packet_in", "extract"): self._extract,
            ("packet_in", "advance"): self._advance,
            ("packet_in", "lookahead"): self._lookahead,
        }  # fmt: skip

    def call(self, node: syntax.CallExpression, target: Target, env: Environment) -> LoweredValue:
        """Lower a call; its arguments are evaluated one after another."""
        call = _ExternCall(node, target, env, self.expressions)
        return self._function(call) if target.kind == "extern_function" else self._method(call)

    def _into_result(self, call: _ExternCall, emit: Callable[[ir.HeaderField], None]) -> None:
        """Let a primitive write to the argument `result`, through a new field if the argument is
        none."""
        argument = call.target.argument("result")
        place = self.expressions.place(argument, call.env)
        if isinstance(place, FieldPlace):
            emit(place.field)
        else:
            temporary = self.writer.temporary_field(type_of(argument))
            emit(temporary.field)
            self.places.assign(place, temporary, call.node)

    # Functions

    def _function(self, call: _ExternCall) -> LoweredValue:
        name = call.target.name
        lower = self._functions.get(name)
        if lower is None:
            raise call.fail(f"not supported: extern function '{name}'")
        in_parser = self.writer.context == "parser"
        call.fail_if(in_parser and name not in _IN_PARSERS, f"not supported: '{name}' in a parser")
        deprecated = find(getattr(call.target.declaration, "annotations", []), "deprecated")
        if deprecated is not None:
            self.shared.reporter.warning(
                call.node.span, f"'{name}' is deprecated: {string_of(deprecated)}", "deprecated"
            )
        if not in_parser and name != "static_assert":
            self.program.calls_extern_functions = True
        lower(call)
        return NOTHING

    def _verify(self, call: _ExternCall) -> None:
        call.fail_if(self.writer.context != "parser", "'verify' can only be called in a parser")
        self.writer.do("verify", call.truth("check"), call.number("toSignal"))

    def _assert(self, call: _ExternCall) -> None:
        self.writer.do(call.target.name, arithmetic.number(call.truth("check")))

    def _random(self, call: _ExternCall) -> None:
        limits = call.number("lo"), call.number("hi")
        self._into_result(
            call, lambda field: self.writer.do("modify_field_rng_uniform", field, *limits)
        )

    def _hash(self, call: _ExternCall) -> None:
        data = call.target.argument("data")
        items = self.expressions.stored(self.expressions.numbers(data, call.env), data)
        algorithm = self.expressions.algorithm(call.target.argument("algo"), call.env)
        base, modulus = call.number("base"), call.number("max")

        def emit(field: ir.HeaderField) -> None:
            name = self.calculation(algorithm, items, False, call.node)
            calculation = ir.Reference("calculation", name)
            self.writer.do("modify_field_with_hash_based_offset", field, base, calculation, modulus)

        self._into_result(call, emit)

    def calculation(
        self, algorithm: str, items: Numbers, payload: bool, node: syntax.SyntaxNode
    ) -> str:
        """Add a calculation over numbers and, if need be, the payload; return its name."""
        known = self.program.calculations
        name = f"calc_{len(known) - 1}" if known else "calc"
        known.append(ir.Calculation(name, algorithm, items, payload, node.span))
        return name

    def _digest(self, call: _ExternCall) -> None:
        data = call.target.argument("data")
        items = self.expressions.numbers(data, call.env)
        digest = self._digest_of(type_of(data), [width for _, width in items], data)
        for field, (expression, width) in zip(digest.fields, items, strict=True):
            # Always a copy: BMv2 reads the fields only at the end of the pipeline.
            self.places.assign(
                FieldPlace(field.header, field.name, BitType(width)), expression, call.node
            )
        self.writer.do("generate_digest", call.number("receiver"), ir.Number(digest.id))

    def _digest_of(
        self, kind: Type, widths: list[int], node: syntax.SyntaxNode
    ) -> ir.LoweredDigest:
        """Return the digest of a type. There is one for all calls, as a packet carries the last
        one."""
        digests = self.program.digests
        bare = resolved(kind)
        if isinstance(bare, StructType):
            name = control_name(bare)
            for known in digests:
                if known.type == kind:
                    return known
        else:
            name = f"digest_{len(digests)}"
            self.shared.reporter.warning(
                node.span,
                f"the digest of {kind} is called '{name}': a struct would give it a name",
                "mismatch",
            )
        fields = [self.writer.temporary_field(BitType(width), "digest").field for width in widths]
        digest = ir.LoweredDigest(name, [], node.span, len(digests) + 1, kind, fields)
        digests.append(digest)
        return digest

    def _log_msg(self, call: _ExternCall) -> None:
        message = self.expressions.value(call.target.argument("msg"), call.env)
        items: Numbers = (
            self.expressions.numbers(call.target.argument("data"), call.env)
            if len(call.target.parameters) > 1
            else []
        )
        assert isinstance(message, ir.LoweredExpression)
        self.writer.do("log_msg", message, ir.Vector(tuple(item for item, _ in items)))

    def _checksum(self, call: _ExternCall) -> None:
        raise call.fail(
            f"'{call.target.name}' can only be called in the control for checksums of V1Switch"
        )

    # Packets that are sent again, with fields that are preserved

    def _given_list(self, call: _ExternCall) -> ir.LoweredExpression:
        index = self.expressions.known(
            call.target.argument("index"), call.env, "the index of a field list"
        )
        return ir.Number(self._field_list(index))

    def _listed_data(self, call: _ExternCall) -> ir.LoweredExpression:
        """Return BMv2's number of the list of the fields that are given as data."""
        data = call.target.argument("data")
        items = self.expressions.numbers(data, call.env)
        fields = [item for item, _ in items if isinstance(item, ir.HeaderField)]
        self.writer.fail_if(
            len(fields) < len(items), data, "not supported: anything but fields to be preserved"
        )
        lists = self.program.field_lists
        known = [listed for _, listed in lists]
        if fields in known:
            return ir.Number(known.index(fields) + 1)
        lists.append((-2 - len(lists), fields))
        return ir.Number(len(lists))

    def _field_list(self, index: int | None) -> int:
        """Return BMv2's number of a field list; of an empty one if `index` is None."""
        lists = self.program.field_lists
        key = -1 if index is None else index
        known = [number for number, _ in lists]
        if key in known:
            return known.index(key) + 1
        fields = [] if index is None else self.shared.field_list(index)
        self.shared.reporter.warn_if(
            index is not None and not fields,
            self.writer.span,
            f"no field of the user's metadata is annotated @field_list({index})",
        )
        lists.append((key, fields))
        return len(lists)

    def _send_again(self, call: _ExternCall, operation: str, fields: ir.LoweredExpression) -> None:
        where = "ingress" if operation == "resubmit" else "egress"
        call.fail_if(self.shared.pipeline != where, f"'{operation}' can only be called in {where}")
        self.writer.do(operation, fields)

    def _clone(self, call: _ExternCall, fields: ir.LoweredExpression) -> None:
        kind = call.enum_member("type")
        wanted = "ingress" if kind == "I2E" else "egress"
        call.fail_if(
            self.shared.pipeline != wanted,
            f"'{call.target.name}' with CloneType.{kind} can only be called in {wanted}",
        )
        self.writer.do(f"clone_{wanted}_pkt_to_egress", call.number("session"), fields)

    # Methods

    def _method(self, call: _ExternCall) -> LoweredValue:
        assert call.target.base is not None
        base = self.shared.reporter.needed(
            self.expressions.value(call.target.base, call.env),
            ExternInstance,
            call.node.span,
            "not supported: a method of this",
        )
        name = f"{base.kind}.{call.target.name}()"
        lower = self._methods.get((base.kind, call.target.name))
        if lower is None:
            raise call.fail(f"not supported: {name}")
        call.fail_if(
            self.writer.context == "parser" and base.kind not in ("packet_in", "register"),
            f"not supported: {name} in a parser",
        )
        value = lower(call, base)
        return value if value is not None else NOTHING

    def _execute_meter(self, call: _ExternCall, base: ExternInstance) -> None:
        meter, index = ir.Reference("meter_array", base.name), call.number("index")
        self._into_result(call, lambda field: self.writer.do("execute_meter", meter, index, field))

    def _read_meter(self, call: _ExternCall, base: ExternInstance) -> None:
        argument = call.target.argument("result")
        place = self.expressions.place(argument, call.env)
        meter, known = base.object, self.meter_copies.get(base.name)
        assert isinstance(meter, ir.LoweredMeter)
        match known:
            case None if isinstance(place, FieldPlace) and meter.result in (None, place.field):
                meter.result = place.field
                return
            case None if isinstance(place, FieldPlace) or meter.result is not None:
                raise call.fail(
                    "all reads of a direct meter must have the same result field (BMv2)"
                )
        if known is None:
            temporary = self.writer.temporary_field(type_of(argument))
            known = self.meter_copies[base.name] = temporary
            meter.result = temporary.field
        self.places.assign(place, known, call.node)

    def _read_register(self, call: _ExternCall, base: ExternInstance) -> None:
        register, index = ir.Reference("register_array", base.name), call.number("index")
        self._into_result(
            call, lambda field: self.writer.do("register_read", field, register, index)
        )

    # Packets

    def _extract(self, call: _ExternCall, base: ExternInstance) -> None:
        call.fail_if(self.writer.context != "parser", "'extract' can only be called in a parser")
        argument, *rest = call.target.arguments
        if argument is None:  # extract<T>(_)
            kind = call.target.parameter_types[0]
            place: LoweredValue = self.writer.temporary(kind)
        else:
            kind = type_of(argument)
            place = self.expressions.value(argument, call.env)
        operand = self._extracted(place, call)
        bare = resolved(kind)
        if not is_header(bare):
            raise call.fail(f"only headers can be extracted, not {kind}")
        variable = any(map(is_varbit, bare.fields.values()))
        if not rest:
            call.fail_if(variable, f"{kind} has a varbit field: extract needs its length in bits")
            self.writer.do("extract", operand)
        else:
            call.fail_if(not variable, f"{kind} has no varbit field, so extract takes one argument")
            (length,) = rest
            assert length is not None
            self.writer.do("extract_VL", operand, self.expressions.number(length, call.env))

    def _extracted(self, place: LoweredValue, call: _ExternCall) -> ir.LoweredExpression:
        """Return the header to extract to, as an operand."""
        match place:
            case HeaderPlace():
                return ir.Reference("regular", place.name)
            case NextPlace() if not place.last:
                if place.member:
                    return ir.NextUnion(place.stack.name, place.member)
                return ir.Reference("stack", place.stack.name)
        raise call.fail("not supported: extract to anything but a header or stack.next")

    def _advance(self, call: _ExternCall, base: ExternInstance) -> None:
        amount = call.number("sizeInBits")
        self.shared.reporter.warn_if(
            isinstance(amount, ir.Number) and amount.value % 8,
            call.node.span,
            "BMv2 advances by whole bytes only: this ends parsing with error.ParserInvalidArgument",
            "mismatch",
        )
        self.writer.do("advance", amount)

    def _lookahead(self, call: _ExternCall, base: ExternInstance) -> LoweredValue:
        call.fail_if(self.writer.context != "parser", "'lookahead' can only be called in a parser")
        return self._ahead(call.target.returns, 0, call)

    def _ahead(self, kind: Type, offset: int, call: _ExternCall) -> LoweredValue:
        bare = resolved(kind)
        call.fail_if(
            isinstance(bare, (EnumType, ErrorType)),
            f"{kind} has no size in a packet, so it cannot be looked ahead at",
        )
        if (width := scalar_width(kind)) is not None and not is_varbit(bare):
            return self.places.copied(ir.Lookahead(offset, width), kind, call.node)
        if not isinstance(bare, (StructType, TupleType)) or size_in_bits(bare) is None:
            raise call.fail(f"not supported: lookahead of {kind}")
        members: dict[str, LoweredValue] = {}
        for name, item in member_types(bare).items():
            members[name] = self._ahead(item, offset, call)
            offset += size_in_bits(item) or 0
        return Composite(kind, members)
