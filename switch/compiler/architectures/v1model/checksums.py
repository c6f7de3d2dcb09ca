"""Lowering of the controls of V1Switch that verify and update checksums."""

from collections.abc import Callable

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.architectures.v1model.externs import algorithm, calculation
from weft.switch.compiler.lower.expressions import Numbers
from weft.switch.compiler.lower.externs import ExternCall
from weft.switch.compiler.lower.lists import ListLowering, NotAList
from weft.switch.compiler.lower.storage import (
    BlockInstance,
    Environment,
    FieldPlace,
    LoweredValue,
    Place,
    StructPlace,
)
from weft.switch.compiler.lower.tails import TailLowering
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import BitType, scalar_width

WIDEST = 63
"""The most bits of a checksum that is computed in code: BMv2's modulus has 64."""
_BESIDES = ("log_msg", "assert", "assume", "hash", "random")
"""Functions that code beside checksums may call."""
_CONTROLS = {"verify": "VerifyChecksum", "update": "ComputeChecksum"}
_CHECKSUMS = {
    "verify_checksum": ("verify", False),
    "verify_checksum_with_payload": ("verify", True),
    "update_checksum": ("update", False),
    "update_checksum_with_payload": ("update", True),
}


class ChecksumLowering:
    """The lowering of controls that hold calls of the externs for checksums."""

    def __init__(self, lists: ListLowering, tails: TailLowering) -> None:
        self.lists, self.tails = lists, tails
        self.body, self.writer = lists.body, lists.writer
        self.program, self.reporter = lists.program, lists.reporter

    def lower(
        self, instance: BlockInstance, arguments: list[LoweredValue], kind: str, standard: Place
    ) -> list[ir.Code]:
        """Lower the calls of verify_checksum or update_checksum; `kind` is verify or update. Return
        code for them if they are no list; it notes errors in the standard metadata."""
        env = self.lists.environment(instance, arguments)
        return self.tails.lower(
            instance, env, lambda: self._list(instance, env, kind), self._functions(kind, standard)
        )

    def code(
        self, instance: BlockInstance, arguments: list[LoweredValue], kind: str, standard: Place
    ) -> list[ir.Code]:
        """Lower the calls to code."""
        env = self.lists.environment(instance, arguments)
        return self.tails.code(instance, env, self._functions(kind, standard))

    def _list(self, instance: BlockInstance, env: Environment, kind: str) -> None:
        self.lists.variables(instance, env)
        for call, scope in self.lists.calls(instance, env, _CONTROLS[kind]):
            target: Target = call.target
            if (found := _CHECKSUMS.get(target.name)) is None or found[0] != kind:
                raise NotAList(call.span, f"not supported: '{target.name}' in {_CONTROLS[kind]}")
            self._checksum_call(call, target, scope, kind, found[1])

    def _functions(self, kind: str, standard: Place) -> dict[str, Callable[[ExternCall], None]]:
        """Return what lowers the extern functions that code may call."""

        def other(call: ExternCall) -> None:
            raise call.fail(
                f"not supported: '{call.target.name}' in {_CONTROLS[kind]}, "
                f"which takes {kind}_checksum"
            )

        def lowered(payload: bool) -> Callable[[ExternCall], None]:
            if kind == "verify":
                return lambda call: self._verify(call, payload, standard)
            return lambda call: self._update(call, payload)

        known = self.body.externs.functions
        return {
            **dict.fromkeys(known, other),
            **{name: known[name] for name in _BESIDES},
            **{
                name: lowered(payload)
                for name, (purpose, payload) in _CHECKSUMS.items()
                if purpose == kind
            },
        }

    # Code

    def _sum(self, call: ExternCall, payload: bool, width: int) -> FieldPlace:
        """Compute a checksum into a new field of a width, and return that."""
        data = call.target.argument("data")
        expressions = self.body.expressions
        items = expressions.stored(expressions.numbers(data, call.env), data)
        name = calculation(self.program, algorithm(call, "algo"), items, payload, call.node)
        result = self.writer.temporary_field(BitType(width), "checksum")
        self.writer.do(
            "modify_field_with_hash_based_offset", result.field, ir.Number(0),
            ir.Reference("calculation", name), ir.Number(1 << width),
        )  # fmt: skip
        return result

    def _update(self, call: ExternCall, payload: bool) -> None:
        checksum = call.target.argument("checksum")
        width = scalar_width(type_of(checksum)) or 0
        call.fail_if(
            not 0 < width < WIDEST, f"not supported: a checksum of {type_of(checksum)} here"
        )
        condition = call.truth("condition")
        place = self.body.expressions.place(checksum, call.env)
        code = self.writer.captured(
            lambda: self.body.expressions.places.assign(
                place, self._sum(call, payload, width), call.node
            )
        )
        self._where(condition, code, call)

    def _verify(self, call: ExternCall, payload: bool, standard: Place) -> None:
        checksum = call.target.argument("checksum")
        condition = call.truth("condition")
        expressions = self.body.expressions
        value = expressions.value(checksum, call.env)
        in_packet = (item.name for item in self.program.headers if not item.metadata)
        if isinstance(value, FieldPlace) and value.header in in_packet:  # else it is not verified
            valid = arithmetic.truth(ir.HeaderField(value.header, "$valid$"))
            condition = arithmetic.both(valid, condition)
        assert isinstance(standard, StructPlace)
        error = standard.members["checksum_error"]

        def verify() -> None:
            # All bits of the result count, however many the checksum has.
            found = self._sum(call, payload, WIDEST)
            differs = ir.OperatorCall(
                "!=", found.field, expressions.places.expression_of(value, checksum)
            )
            note = self.writer.captured(
                lambda: expressions.places.assign(error, ir.Number(1), call.node)
            )
            self.writer.code.append(ir.Branch(differs, note, [], call.node.span))

        self._where(condition, self.writer.captured(verify), call)

    def _where(
        self, condition: ir.LoweredExpression, code: list[ir.Code], call: ExternCall
    ) -> None:
        if condition != ir.Truth(False):
            always = condition == ir.Truth(True)
            self.writer.code += code if always else [ir.Branch(condition, code, [], call.node.span)]

    # Lists

    def _checksum_call(
        self,
        call: syntax.CallExpression,
        target: Target,
        env: Environment,
        kind: str,
        payload: bool,
    ) -> None:
        self.program.calls_extern_functions = True
        position = len(self.writer.code)
        condition = self.body.expressions.truth(target.argument("condition"), env)
        data = target.argument("data")
        items = [
            part
            for item, width in self.body.expressions.numbers(data, env)
            for part in self._filled_up(item, width)
        ]
        checksum = target.argument("checksum")
        place = self.body.expressions.value(checksum, env)
        if not isinstance(place, FieldPlace):
            raise NotAList(checksum.span, "the checksum must be a field of a header or of metadata")
        if kind == "update":
            self.lists.check_variables(place, call)
        simple = all(isinstance(item, (ir.HeaderField, ir.Number)) for item, _ in items)
        if not simple or len(self.writer.code) > position:
            raise NotAList(data.span, "not supported: a computation in a checksum (BMv2)")
        kind_of_sum = algorithm(ExternCall(call, target, env, self.body.expressions), "algo")
        name = calculation(self.program, kind_of_sum, items, payload, call)
        number = len(self.program.checksums)
        checksum_name = "cksum" if not number else f"cksum_{number - 1}"
        self.program.checksums.append(
            ir.Checksum(
                checksum_name, place.field, name, arithmetic.truth(condition), kind == "verify",
                kind == "update", call.span,
            )
        )  # fmt: skip

    def _filled_up(self, item: ir.LoweredExpression, width: int) -> Numbers:
        """Return a field that is cast to a greater width as zeros and the field."""
        match item:
            case ir.OperatorCall("&", ir.HeaderField() as field, ir.Number(mask)):
                own = self.body.expressions.shared.storage.stored_width(field)
                if own is not None and own < width and mask == arithmetic.mask_of(width):
                    return [(ir.Number(0), width - own), (field, own)]
        return [(item, width)]
