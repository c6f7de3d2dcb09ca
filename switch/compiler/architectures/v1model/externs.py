"""The externs of v1model.p4 as primitives of BMv2's simple_switch.

What the primitives do is said in behavioral-model's docs/simple_switch.md.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.annotations import control_name
from weft.switch.compiler.lower.expressions import ExpressionLowering, Numbers
from weft.switch.compiler.lower.externs import ExternCall, ExternLowering, ExternObject
from weft.switch.compiler.lower.registers import (
    cell_width,
    fits_cell,
    packed,
    unpacked,
)
from weft.switch.compiler.lower.storage import ExternInstance, FieldPlace, Place
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BitType,
    StructType,
    Type,
    resolved,
    scalar_width,
)

_Object = TypeVar("_Object", bound=ir.Object)
_CHECKSUMS = tuple(
    f"{what}_checksum{data}" for what in ("verify", "update") for data in ("", "_with_payload")
)


def algorithm(call: ExternCall, name: str) -> str:
    """Return the hash algorithm that an argument is, by its name in BMv2."""
    found = call.enum_member(name)
    call.expressions.writer.fail_if(
        found == "random",
        call.target.argument(name),
        "not supported: HashAlgorithm.random, which no switch has; there is random()",
    )
    return found


def calculation(
    program: ir.LoweredProgram, name: str, items: Numbers, payload: bool, node: syntax.SyntaxNode
) -> str:
    """Add a calculation by an algorithm over numbers and, if need be, the payload; return what the
    JSON calls it."""
    known = program.calculations
    result = f"calc_{len(known) - 1}" if known else "calc"
    known.append(ir.Calculation(result, name, items, payload, node.span))
    return result


def _added(objects: list[_Object], item: _Object) -> _Object:
    """Add an object to those of its kind in the program, and return it."""
    objects.append(item)
    return item


def _resource(made: ExternObject) -> tuple[int, str, bool]:
    """Return size, unit, and whether it is direct, of a counter or meter."""
    unit, is_direct = made.enum_member("type"), made.kind.name.startswith("direct_")
    return 0 if is_direct else made.size(0), unit, is_direct


class V1ModelExterns(ExternLowering):
    """The lowering of v1model's externs. `field_list` gives the fields of the user's metadata that
    are annotated ``@field_list`` with a number."""

    in_parsers = ExternLowering.in_parsers | {"log_msg", "assert", "assume", "register"}
    table_objects = frozenset({"implementation", "counters", "meters"})

    def __init__(
        self, expressions: ExpressionLowering, field_list: Callable[[int], list[ir.HeaderField]]
    ) -> None:
        super().__init__(expressions)
        self.field_list = field_list
        self.meter_copies: dict[str, Place] = {}
        """The places of the results of direct meters that are not read into a whole field."""
        do = self.writer.do
        self.functions |= {
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
            "log_msg": self._log_msg,
            **dict.fromkeys(
                ("assert", "assume"),
                lambda call: do(call.target.name, arithmetic.number(call.truth("check"))),
            ),
            **dict.fromkeys(_CHECKSUMS, self._checksum),
        }
        self.methods |= {
            ("counter", "count"): lambda call, base: do(
                "count", ir.Reference("counter_array", base.name), call.number("index")
            ),
            # BMv2 counts in every action of the table.
            ("direct_counter", "count"): lambda call, base: None,
            ("meter", "execute_meter"): self._execute_meter,
            ("direct_meter", "read"): self._read_meter,
            ("register", "read"): self._read_register,
            ("register", "write"): self._write_register,
        }  # fmt: skip
        self.objects |= {
            "counter": self._counter,
            "direct_counter": self._counter,
            "meter": self._meter,
            "direct_meter": self._meter,
            "register": self._register,
            "action_profile": lambda made: self._profile(made, None),
            "action_selector": lambda made: self._profile(made, algorithm(made, "algorithm")),
        }

    def has_timeouts(self, properties: Mapping[str, syntax.Property]) -> bool:
        """Return whether a table with these properties lets entries age."""
        found = properties.get("support_timeout")
        return found is not None and bool(found.value.constant)

    # Objects

    def _counter(self, made: ExternObject) -> ir.Object:
        counter = ir.LoweredCounter(*made.common, *_resource(made))
        return _added(self.program.counters, counter)

    def _meter(self, made: ExternObject) -> ir.Object:
        return _added(self.program.meters, ir.LoweredMeter(*made.common, *_resource(made)))

    def _profile(self, made: ExternObject, algorithm: str | None) -> ir.Object:
        profile = ir.ActionProfile(*made.common, made.size(), algorithm)
        return _added(self.program.profiles, profile)

    def _register(self, made: ExternObject) -> ir.Object:
        content = made.kind.arguments[0]
        register = ir.LoweredRegister(*made.common, made.size(), content)
        made.fail_if(
            not fits_cell(content),
            f"not supported: a register of {content}; it holds numbers, bool, enums, and structs, "
            "tuples and arrays of those",
        )
        return _added(self.program.registers, register)

    # Functions

    def _random(self, call: ExternCall) -> None:
        limits = call.number("lo"), call.number("hi")
        self.into_result(
            call, lambda field: self.writer.do("modify_field_rng_uniform", field, *limits)
        )

    def _hash(self, call: ExternCall) -> None:
        data = call.target.argument("data")
        items = self.expressions.stored(self.expressions.numbers(data, call.env), data)
        name_of_hash = algorithm(call, "algo")
        base, modulus = call.number("base"), call.number("max")

        def emit(field: ir.HeaderField) -> None:
            name = calculation(self.program, name_of_hash, items, False, call.node)
            hashed = ir.Reference("calculation", name)
            self.writer.do("modify_field_with_hash_based_offset", field, base, hashed, modulus)

        self.into_result(call, emit)

    def _digest(self, call: ExternCall) -> None:
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
        return _added(
            digests, ir.LoweredDigest(name, [], node.span, len(digests) + 1, kind, fields)
        )

    def _log_msg(self, call: ExternCall) -> None:
        message = self.expressions.value(call.target.argument("msg"), call.env)
        items: Numbers = (
            self.expressions.numbers(call.target.argument("data"), call.env)
            if len(call.target.parameters) > 1
            else []
        )
        assert isinstance(message, ir.LoweredExpression)
        self.writer.do("log_msg", message, ir.Vector(tuple(item for item, _ in items)))

    def _checksum(self, call: ExternCall) -> None:
        raise call.fail(
            f"'{call.target.name}' can only be called in the control for checksums of V1Switch"
        )

    # Packets that are sent again, with fields that are preserved

    def _given_list(self, call: ExternCall) -> ir.LoweredExpression:
        index = self.expressions.known(
            call.target.argument("index"), call.env, "the index of a field list"
        )
        return ir.Number(self._field_list(index))

    def _listed_data(self, call: ExternCall) -> ir.LoweredExpression:
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
        fields = [] if index is None else self.field_list(index)
        self.shared.reporter.warn_if(
            index is not None and not fields,
            self.writer.span,
            f"no field of the user's metadata is annotated @field_list({index})",
        )
        lists.append((key, fields))
        return len(lists)

    def _send_again(self, call: ExternCall, operation: str, fields: ir.LoweredExpression) -> None:
        where = "ingress" if operation == "resubmit" else "egress"
        call.fail_if(self.shared.pipeline != where, f"'{operation}' can only be called in {where}")
        self.writer.do(operation, fields)

    def _clone(self, call: ExternCall, fields: ir.LoweredExpression) -> None:
        kind = call.enum_member("type")
        wanted = "ingress" if kind == "I2E" else "egress"
        call.fail_if(
            self.shared.pipeline != wanted,
            f"'{call.target.name}' with CloneType.{kind} can only be called in {wanted}",
        )
        self.writer.do(f"clone_{wanted}_pkt_to_egress", call.number("session"), fields)

    # Methods

    def _execute_meter(self, call: ExternCall, base: ExternInstance) -> None:
        meter, index = ir.Reference("meter_array", base.name), call.number("index")
        self.into_result(call, lambda field: self.writer.do("execute_meter", meter, index, field))

    def _read_meter(self, call: ExternCall, base: ExternInstance) -> None:
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
            kind = type_of(argument)
            call.fail_if(
                scalar_width(kind) is None,
                f"the result of read() must be one value with a width, not {kind}",
            )
            temporary = self.writer.temporary_field(kind)
            known = self.meter_copies[base.name] = temporary
            meter.result = temporary.field
        self.places.assign(place, known, call.node)

    def _read_register(self, call: ExternCall, base: ExternInstance) -> None:
        register, index = ir.Reference("register_array", base.name), call.number("index")

        def read(field: ir.HeaderField) -> None:
            self.writer.do("register_read", field, register, index)

        argument = call.target.argument("result")
        if scalar_width(type_of(argument)) is not None:
            self.into_result(call, read)
            return
        place = self.expressions.place(argument, call.env)
        cell = self.writer.temporary_field(BitType(cell_width(type_of(argument))), "cell")
        read(cell.field)
        self.places.assign(place, unpacked(cell.field, type_of(argument)), call.node)

    def _write_register(self, call: ExternCall, base: ExternInstance) -> None:
        register, index = ir.Reference("register_array", base.name), call.number("index")
        value = call.target.argument("value")
        items = self.expressions.numbers(value, call.env)
        number = items[0][0] if len(items) == 1 else packed(items)
        self.writer.do("register_write", register, index, number)
