"""Lowering of the controls of V1Switch that verify and update checksums."""

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.architectures.v1model.externs import algorithm, calculation
from weft.switch.compiler.lower.expressions import Numbers
from weft.switch.compiler.lower.externs import ExternCall
from weft.switch.compiler.lower.lists import ListLowering
from weft.switch.compiler.lower.storage import (
    BlockInstance,
    Environment,
    FieldPlace,
    LoweredValue,
)
from weft.switch.compiler.syntax import Target

_CHECKSUMS = {
    "verify_checksum": ("verify", False),
    "verify_checksum_with_payload": ("verify", True),
    "update_checksum": ("update", False),
    "update_checksum_with_payload": ("update", True),
}


class ChecksumLowering:
    """The lowering of controls that hold calls of the externs for checksums."""

    def __init__(self, lists: ListLowering) -> None:
        self.lists = lists
        self.body, self.writer = lists.body, lists.writer
        self.program, self.reporter = lists.program, lists.reporter

    def lower(self, instance: BlockInstance, arguments: list[LoweredValue], kind: str) -> None:
        """Lower the calls of verify_checksum or update_checksum; `kind` is verify or update."""
        env = self.lists.environment(instance, arguments)
        what = "VerifyChecksum" if kind == "verify" else "ComputeChecksum"
        for call, scope in self.lists.calls(instance, env, what):
            target: Target = call.target
            if (found := _CHECKSUMS.get(target.name)) is not None and found[0] == kind:
                self._checksum_call(call, target, scope, kind, found[1])
            else:
                self.reporter.error(
                    call.span,
                    f"not supported: '{target.name}' in {what}, which takes {kind}_checksum",
                )

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
        place = self.reporter.needed(
            self.body.expressions.value(checksum, env),
            FieldPlace,
            checksum.span,
            "the checksum must be a field of a header or of metadata",
        )
        if kind == "update":
            self.lists.check_variables(place, call)
        simple = all(isinstance(item, (ir.HeaderField, ir.Number)) for item, _ in items)
        self.writer.fail_if(
            not simple or len(self.writer.code) > position,
            data,
            "not supported: anything but fields, constants and casts of fields to a greater width "
            "in a checksum (BMv2); compute it before, into a field of metadata",
        )
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
