"""The externs of core.p4 and v1model.p4 as primitives of BMv2's simple_switch.

What the primitives do is said in behavioral-model's docs/simple_switch.md.
"""

from __future__ import annotations

from functools import cached_property

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.annotations import find, local_name, string_of
from weft.switch.compiler.check.calls import Target
from weft.switch.compiler.check.operations import type_of
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.storage import (
    FieldPlace,
    HeaderPlace,
    NextPlace,
    Place,
    StructPlace,
    UnionPlace,
)
from weft.switch.compiler.types import (
    BitType,
    EnumType,
    IntegerType,
    StructType,
    Type,
    VarbitType,
    base_type,
    is_header,
    resolved,
    scalar_width,
    size_in_bits,
)
from weft.switch.compiler.values import Composite, Environment, ExternInstance, Value

NOTHING = ir.Number(0)


class ExternLowering(ExpressionLowering):
    """Lowers calls of extern functions and methods."""

    context = "control"  # or action, parser, deparser: where the code is

    @cached_property
    def meter_copies(self) -> dict[str, Place]:
        """Where direct meters that are read into no whole field put their result."""
        return {}

    def note_deprecated(
        self, declaration: syntax.Node | None, name: str, node: syntax.Node
    ) -> None:
        """Warn of the use of something that is annotated ``@deprecated``."""
        annotation = find(getattr(declaration, "annotations", []), "deprecated")
        if annotation is not None:
            message = f"'{name}' is deprecated: {string_of(annotation)}"
            self.shared.reporter.warning(node.span, message, "deprecated")

    def argument(self, target: Target, name: str) -> syntax.Expression:
        """The argument for a parameter, which must have been given."""
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            if parameter.name == name and argument is not None:
                return argument
        raise KeyError(name)

    def enum_member(self, node: syntax.Expression, env: Environment) -> str:
        """The name of an enum's member that is known at compile time."""
        kind = resolved(type_of(node))
        value = self.value(node, env)
        if isinstance(kind, EnumType) and isinstance(value, ir.Number):
            return kind.members[value.value]
        raise self.fail(node, "this must be known at compile time")

    def known_number(self, node: syntax.Expression, env: Environment, what: str) -> int:
        value = self.value(node, env)
        if not isinstance(value, ir.Number):
            raise self.fail(node, f"{what} must be known at compile time")
        return value.value

    def result(
        self, node: syntax.Expression, env: Environment
    ) -> tuple[ir.Field, Place | None, Place | None]:
        """A field for a primitive to write to, and where to copy it if that is elsewhere."""
        place = self.place(node, env)
        if isinstance(place, FieldPlace):
            return ir.Field(place.header, place.name), None, None
        temporary = self.temporary(type_of(node))
        assert isinstance(temporary, FieldPlace)
        return ir.Field(temporary.header, temporary.name), place, temporary

    def finish_result(
        self, place: Place | None, temporary: Place | None, node: syntax.Node
    ) -> None:
        if place is not None and temporary is not None:
            self.assign(place, temporary, node)

    # Lists of fields, of hashes, checksums and digests

    def flat(self, value: Value, kind: Type, node: syntax.Node) -> list[tuple[ir.Expression, int]]:
        """A value's numbers with their widths, in order."""
        if isinstance(value, (StructPlace, Composite, UnionPlace)):
            bare = resolved(kind)
            types = (
                list(bare.fields.values())
                if isinstance(bare, StructType)
                else [*getattr(bare, "elements", ())]
            )
            items: list[tuple[ir.Expression, int]] = []
            for member, member_type in zip(value.members.values(), types, strict=True):
                items += self.flat(member, member_type, node)
            return items
        if isinstance(value, HeaderPlace):
            items = []
            for name, item in value.type.fields.items():
                items += self.flat(self._header_field(value.name, name, item), item, node)
            return items
        width = scalar_width(kind)
        if isinstance(resolved(kind), IntegerType) or width is None:
            raise self.fail(node, f"a value of type {kind} has no width here")
        number = arithmetic.number(self.expression_of(value, node))
        if self.shared.storage.stored_width(number) not in (None, width):
            # A field that was cast to a greater width: BMv2 would take it as it is.
            number = ir.Operation("&", number, ir.Number(arithmetic.mask_of(width)))
        return [(number, width)]

    def stored(
        self, items: list[tuple[ir.Expression, int]], node: syntax.Node
    ) -> list[tuple[ir.Expression, int]]:
        """The same with each item that is neither a field nor a constant put into a field."""
        result: list[tuple[ir.Expression, int]] = []
        for expression, width in items:
            if not isinstance(expression, (ir.Field, ir.Number)):
                place = self.temporary(BitType(width))
                assert isinstance(place, FieldPlace)
                self.assign(place, expression, node)
                expression = ir.Field(place.header, place.name)
            result.append((expression, width))
        return result

    def calculation(
        self,
        algorithm: str,
        items: list[tuple[ir.Expression, int]],
        payload: bool,
        node: syntax.Node,
    ) -> str:
        program = self.shared.program
        number = len(program.calculations)
        name = "calc" if not number else f"calc_{number - 1}"
        program.calculations.append(ir.Calculation(name, algorithm, items, payload, node.span))
        return name

    # Functions

    def extern_function(self, node: syntax.Call, target: Target, env: Environment) -> Value:
        method = getattr(self, "_function_" + target.name, None)
        if method is None:
            raise self.fail(node, f"not supported: extern function '{target.name}'")
        if self.context == "parser" and target.name not in (
            "verify",
            "log_msg",
            "assert",
            "assume",
        ):
            raise self.fail(node, f"not supported: '{target.name}' in a parser")
        self.note_deprecated(target.declaration, target.name, node)
        if self.context != "parser" and target.name != "static_assert":
            self.shared.program.calls_extern_functions = True
        method(node, target, env)
        return NOTHING

    def _function_verify(self, node: syntax.Call, target: Target, env: Environment) -> None:
        if self.context != "parser":
            raise self.fail(node, "'verify' can only be called in a parser")
        condition = self.truth(self.argument(target, "check"), env)
        self.do("verify", condition, self.number(self.argument(target, "toSignal"), env))

    def _function_mark_to_drop(self, node: syntax.Call, target: Target, env: Environment) -> None:
        self.do("mark_to_drop", ir.Reference("header", "standard_metadata"))

    def _function_random(self, node: syntax.Call, target: Target, env: Environment) -> None:
        low = self.number(self.argument(target, "lo"), env)
        high = self.number(self.argument(target, "hi"), env)
        field, place, temporary = self.result(self.argument(target, "result"), env)
        self.do("modify_field_rng_uniform", field, low, high)
        self.finish_result(place, temporary, node)

    def _function_hash(self, node: syntax.Call, target: Target, env: Environment) -> None:
        data = self.argument(target, "data")
        items = self.stored(self.flat(self.value(data, env), type_of(data), data), data)
        algorithm = self.enum_member(self.argument(target, "algo"), env)
        base = self.number(self.argument(target, "base"), env)
        modulus = self.number(self.argument(target, "max"), env)
        field, place, temporary = self.result(self.argument(target, "result"), env)
        name = self.calculation(algorithm, items, False, node)
        calculation = ir.Reference("calculation", name)
        self.do("modify_field_with_hash_based_offset", field, base, calculation, modulus)
        self.finish_result(place, temporary, node)

    def _function_digest(self, node: syntax.Call, target: Target, env: Environment) -> None:
        data = self.argument(target, "data")
        kind = type_of(data)
        items = self.flat(self.value(data, env), kind, data)
        digest = self._digest(kind, [width for _, width in items], data)
        for field, (expression, width) in zip(digest.fields, items, strict=True):
            # Always a copy: BMv2 reads the fields only at the end of the pipeline.
            self.assign(FieldPlace(field.header, field.name, BitType(width)), expression, node)
        receiver = self.number(self.argument(target, "receiver"), env)
        self.do("generate_digest", receiver, ir.Number(digest.id))

    def _digest(self, kind: Type, widths: list[int], node: syntax.Node) -> ir.Digest:
        """The digest of a type: there is one for all calls, as a packet carries the last one."""
        digests = self.shared.program.digests
        bare = resolved(kind)
        number = len(digests)
        name = f"digest_{number}"
        if isinstance(bare, StructType):
            name = local_name(bare.declaration)
            for known in digests:
                if known.type == kind:
                    return known
        else:
            message = f"the digest of {kind} is called '{name}': a struct would give it a name"
            self.shared.reporter.warning(node.span, message, "mismatch")
        fields: list[ir.Field] = []
        for width in widths:
            place = self.temporary(BitType(width), "digest")
            assert isinstance(place, FieldPlace)
            fields.append(ir.Field(place.header, place.name))
        digest = ir.Digest(name, [], node.span, number + 1, kind, fields)
        digests.append(digest)
        return digest

    def _field_list(self, node: syntax.Call, target: Target, env: Environment) -> ir.Expression:
        argument = self.argument(target, "index")
        index = self.known_number(argument, env, "the index of a field list")
        return ir.Number(self.field_list(index))

    def _listed_data(self, target: Target, env: Environment) -> ir.Expression:
        """BMv2's number of a list of the fields that are given as data."""
        data = self.argument(target, "data")
        fields: list[ir.Field] = []
        for expression, _ in self.flat(self.value(data, env), type_of(data), data):
            if not isinstance(expression, ir.Field):
                raise self.fail(data, "not supported: anything but fields to be preserved")
            fields.append(expression)
        lists = self.shared.program.field_lists
        for number, (_, known) in enumerate(lists):
            if known == fields:
                return ir.Number(number + 1)
        lists.append((-2 - len(lists), fields))
        return ir.Number(len(lists))

    def field_list(self, index: int | None) -> int:
        """BMv2's number of the field list; of an empty one if `index` is None."""
        lists = self.shared.program.field_lists
        key = -1 if index is None else index
        for number, (known, _) in enumerate(lists):
            if known == key:
                return number + 1
        fields = [] if index is None else self.shared.field_list(index)
        if index is not None and not fields:
            message = f"no field of the user's metadata is annotated @field_list({index})"
            self.shared.reporter.warning(self.span, message)
        lists.append((key, fields))
        return len(lists)

    def _function_resubmit_preserving_field_list(
        self, node: syntax.Call, target: Target, env: Environment
    ) -> None:
        self._send_again(node, "resubmit", self._field_list(node, target, env))

    def _function_recirculate_preserving_field_list(
        self, node: syntax.Call, target: Target, env: Environment
    ) -> None:
        self._send_again(node, "recirculate", self._field_list(node, target, env))

    def _send_again(self, node: syntax.Call, operation: str, fields: ir.Expression) -> None:
        where = "ingress" if operation == "resubmit" else "egress"
        if self.shared.pipeline != where:
            raise self.fail(node, f"'{operation}' can only be called in {where}")
        self.do(operation, fields)

    def _clone(
        self, node: syntax.Call, target: Target, env: Environment, fields: ir.Expression
    ) -> None:
        kind = self.enum_member(self.argument(target, "type"), env)
        wanted = "ingress" if kind == "I2E" else "egress"
        if self.shared.pipeline != wanted:
            message = f"'{target.name}' with CloneType.{kind} can only be called in {wanted}"
            raise self.fail(node, message)
        session = self.number(self.argument(target, "session"), env)
        operation = "clone_ingress_pkt_to_egress" if kind == "I2E" else "clone_egress_pkt_to_egress"
        self.do(operation, session, fields)

    def _function_clone(self, node: syntax.Call, target: Target, env: Environment) -> None:
        self._clone(node, target, env, ir.Number(self.field_list(None)))

    def _function_clone_preserving_field_list(
        self, node: syntax.Call, target: Target, env: Environment
    ) -> None:
        self._clone(node, target, env, self._field_list(node, target, env))

    def _function_clone3(self, node: syntax.Call, target: Target, env: Environment) -> None:
        self._clone(node, target, env, self._listed_data(target, env))

    def _function_resubmit(self, node: syntax.Call, target: Target, env: Environment) -> None:
        self._send_again(node, "resubmit", self._listed_data(target, env))

    def _function_recirculate(self, node: syntax.Call, target: Target, env: Environment) -> None:
        self._send_again(node, "recirculate", self._listed_data(target, env))

    def _function_truncate(self, node: syntax.Call, target: Target, env: Environment) -> None:
        self.do("truncate", self.number(self.argument(target, "length"), env))

    def _function_assert(self, node: syntax.Call, target: Target, env: Environment) -> None:
        condition = arithmetic.number(self.truth(self.argument(target, "check"), env))
        self.do(target.name, condition)

    _function_assume = _function_assert

    def _function_static_assert(self, node: syntax.Call, target: Target, env: Environment) -> None:
        pass  # the checker has seen to it

    def _function_log_msg(self, node: syntax.Call, target: Target, env: Environment) -> None:
        message = self.value(self.argument(target, "msg"), env)
        items: list[tuple[ir.Expression, int]] = []
        if len(target.parameters) > 1:
            data = self.argument(target, "data")
            items = self.flat(self.value(data, env), type_of(data), data)
        vector = ir.Vector(tuple(expression for expression, _ in items))
        assert isinstance(message, ir.Expression)
        self.do("log_msg", message, vector)

    def _checksum(self, node: syntax.Call, target: Target, env: Environment) -> None:
        raise self.fail(
            node, f"'{target.name}' can only be called in the control for checksums of V1Switch"
        )

    _function_verify_checksum = _function_update_checksum = _checksum
    _function_verify_checksum_with_payload = _function_update_checksum_with_payload = _checksum

    # Methods

    def extern_method(self, node: syntax.Call, target: Target, env: Environment) -> Value:
        assert target.base is not None
        base = self.value(target.base, env)
        if not isinstance(base, ExternInstance):
            raise self.fail(node, "not supported: a method of this")
        method = getattr(self, f"_{base.kind}_{target.name}", None)
        if method is None:
            raise self.fail(node, f"not supported: {base.kind}.{target.name}()")
        if self.context == "parser" and base.kind not in ("packet_in", "register"):
            raise self.fail(node, f"not supported: {base.kind}.{target.name}() in a parser")
        value = method(node, target, env, base)
        return value if value is not None else NOTHING

    def _index_argument(self, target: Target, env: Environment) -> ir.Expression:
        return self.number(self.argument(target, "index"), env)

    def _counter_count(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        reference = ir.Reference("counter_array", base.name)
        self.do("count", reference, self._index_argument(target, env))

    def _direct_counter_count(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        pass  # BMv2 counts in every action of the table

    def _meter_execute_meter(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        index = self._index_argument(target, env)
        field, place, temporary = self.result(self.argument(target, "result"), env)
        self.do("execute_meter", ir.Reference("meter_array", base.name), index, field)
        self.finish_result(place, temporary, node)

    def _direct_meter_read(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        argument = self.argument(target, "result")
        place = self.place(argument, env)
        assert isinstance(base.object, ir.Meter)
        known = self.meter_copies.get(base.name)
        if known is None and isinstance(place, FieldPlace):
            field = ir.Field(place.header, place.name)
            if base.object.result in (None, field):
                base.object.result = field
                return
            message = "all reads of a direct meter must have the same result field (BMv2)"
            raise self.fail(node, message)
        if base.object.result is None:
            known = self.meter_copies[base.name] = self.temporary(type_of(argument))
            assert isinstance(known, FieldPlace)
            base.object.result = ir.Field(known.header, known.name)
        if known is None:
            message = "all reads of a direct meter must have the same result field (BMv2)"
            raise self.fail(node, message)
        self.assign(place, known, node)

    def _register_read(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        index = self._index_argument(target, env)
        field, place, temporary = self.result(self.argument(target, "result"), env)
        self.do("register_read", field, ir.Reference("register_array", base.name), index)
        self.finish_result(place, temporary, node)

    def _register_write(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        index = self._index_argument(target, env)
        value = self.number(self.argument(target, "value"), env)
        self.do("register_write", ir.Reference("register_array", base.name), index, value)

    # Packets

    def _packet_in_extract(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        if self.context != "parser":
            raise self.fail(node, "'extract' can only be called in a parser")
        argument = target.arguments[0]
        operand: ir.Expression | None = None
        scratch: Place | None = None
        if argument is None:  # extract<T>(_)
            kind = target.parameter_types[0]
            scratch = self.temporary(kind)
            place: Value = scratch
        else:
            kind = type_of(argument)
            place = self.value(argument, env)
        if isinstance(place, HeaderPlace):
            operand = ir.Reference("regular", place.name)
            union = next(
                (item for item in self.shared.program.unions if place.name in item.members), None
            )
            stack = union and next(
                (
                    item
                    for item in self.shared.program.stacks
                    if item.of_unions and union.name in item.elements
                ),
                None,
            )
            if stack:
                raise self.fail(
                    node, "not supported: extract to a given element of a stack of unions"
                )
        elif isinstance(place, NextPlace) and not place.last:
            operand = ir.Reference("stack", place.stack.name)
            if place.member:
                operand = ir.NextUnion(place.stack.name, place.member)
        if operand is None:
            raise self.fail(node, "not supported: extract to anything but a header or stack.next")
        bare = resolved(kind)
        variable = isinstance(bare, StructType) and any(
            isinstance(base_type(item), VarbitType) for item in bare.fields.values()
        )
        if not is_header(bare):
            raise self.fail(node, f"only headers can be extracted, not {kind}")
        if len(target.arguments) == 1:
            if variable:
                raise self.fail(
                    node, f"{kind} has a varbit field: extract needs its length in bits"
                )
            self.do("extract", operand)
            return
        if not variable:
            raise self.fail(node, f"{kind} has no varbit field, so extract takes one argument")
        length = target.arguments[1]
        assert length is not None
        self.do("extract_VL", operand, self.number(length, env))

    def _packet_in_advance(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> None:
        amount = self.number(self.argument(target, "sizeInBits"), env)
        if isinstance(amount, ir.Number) and amount.value % 8:
            message = (
                "BMv2 advances by whole bytes only: this ends parsing with "
                "error.ParserInvalidArgument"
            )
            self.shared.reporter.warning(node.span, message, "mismatch")
        self.do("advance", amount)

    def _packet_in_lookahead(
        self, node: syntax.Call, target: Target, env: Environment, base: ExternInstance
    ) -> Value:
        if self.context != "parser":
            raise self.fail(node, "'lookahead' can only be called in a parser")
        return self._ahead(target.returns, 0, node)

    def _ahead(self, kind: Type, offset: int, node: syntax.Call) -> Value:
        bare = resolved(kind)
        width = scalar_width(kind)
        if width is not None and not isinstance(bare, VarbitType):
            value = ir.Lookahead(offset, width)
            place = self.temporary(kind)
            self.assign(place, value, node)
            return place
        if isinstance(bare, StructType) and size_in_bits(bare) is not None:
            members: dict[str, Value] = {}
            for name, item in bare.fields.items():
                members[name] = self._ahead(item, offset, node)
                offset += size_in_bits(item) or 0
            return Composite(kind, members)
        raise self.fail(node, f"not supported: lookahead of {kind}")
