"""Lowering of deparsers: first all that they compute, then the headers that they emit.

psa_switch runs each primitive of a deparser by itself, so that none can be jumped over: an
assignment that only some packets reach becomes one of a chosen value, and a checksum that they
change gets its state back for the others.
"""

from collections.abc import Iterator
from dataclasses import replace

from weft.switch.compiler import arithmetic, ir
from weft.switch.compiler.emit.primitives import flatten
from weft.switch.compiler.lower.lower import PackageLowering
from weft.switch.compiler.lower.storage import BlockInstance, LoweredValue
from weft.switch.compiler.simplify import bodies, simplify
from weft.switch.compiler.types import BOOL, BitType

EMIT = "emit"
"""What stands in a deparser's code where a header is emitted."""
_COMPUTING = ("_Hash_", "_InternetChecksum_")
_STATE = "_InternetChecksum_{}_state"
_CHANGES = tuple(f"_InternetChecksum_{name}" for name in ("clear", "add", "subtract", "set_state"))


class DeparserLowering:
    """The lowering of the deparsers of PSA."""

    def __init__(self, package: PackageLowering) -> None:
        self.controls = package.controls
        self.reporter, self.program = package.reporter, package.result

    def lower(self, instance: BlockInstance, arguments: list[LoweredValue], name: str) -> None:
        """Lower a deparser, which the JSON calls by a name."""
        result = ir.LoweredDeparser(name)
        self.program.deparsers.append(result)
        code: list[ir.Code] = []
        for item in simplify(self.controls.instances.top_level(instance, arguments)):
            if _is_emit(item):
                result.order += [item.operands[0].name]  # type: ignore[union-attr]
                continue
            for inner in _all(item):
                self._check(inner, result.order)
            code += self._chosen(item, ir.Truth(True))
        result.code = flatten(code, self.reporter, name)

    def _check(self, item: ir.Code, emitted: list[str]) -> None:
        """Report an error for what cannot stand here, behind the emission of some headers."""
        span = getattr(item, "span", self.controls.writer.span)
        self.reporter.error_if(
            _is_emit(item), span, "not supported: emit() where not all packets come (BMv2)"
        )
        self.reporter.error_if(
            isinstance(item, ir.Apply), span, "a table cannot be applied in a deparser"
        )
        written = item.operands[:1] if isinstance(item, ir.Do) else ()
        names = {
            each.header if isinstance(each, ir.HeaderField) else each.name
            for each in written
            if isinstance(each, (ir.HeaderField, ir.Reference))
        }
        self.reporter.error_if(
            names & {*emitted},
            span,
            "not supported: a change of a header that has been emitted before (BMv2)",
        )

    def _chosen(self, item: ir.Code, condition: ir.LoweredExpression) -> list[ir.Code]:
        """Return code that runs for all packets and does what it should for those that a condition
        holds for; where that cannot be, the code as it is."""
        match item:
            case ir.Branch() if all(map(_can_be_chosen, _all(item))):
                place = self.controls.writer.temporary_field(BOOL, "condition")
                holds = arithmetic.both(condition, item.condition)
                truth = arithmetic.truth(place.field)
                return [
                    ir.Do("assign", (place.field, arithmetic.number(holds)), item.span),
                    *self._side(item.then, truth),
                    *self._side(
                        item.otherwise, arithmetic.both(condition, arithmetic.negate(truth))
                    ),
                ]
            case ir.Do("assign", (target, value)) if condition != ir.Truth(True):
                return [replace(item, operands=(target, ir.Choice(condition, value, target)))]
        return [item]

    def _side(self, side: list[ir.Code], condition: ir.LoweredExpression) -> list[ir.Code]:
        """Return the code of one side of a branch. Checksums that it changes get their state back
        if the condition does not hold."""
        before: list[ir.Code] = []
        after: list[ir.Code] = []
        for item in side:
            if not isinstance(item, ir.Do) or item.operation not in _CHANGES:
                continue
            checksum = item.operands[0]
            if any(isinstance(one, ir.Do) and one.operands[0] == checksum for one in before):
                continue
            old, new, kept = (
                self.controls.writer.temporary_field(BitType(16), "sum").field for _ in range(3)
            )
            before.append(ir.Do(_STATE.format("get"), (checksum, old), item.span))
            after += [
                ir.Do(_STATE.format("get"), (checksum, new), item.span),
                ir.Do("assign", (kept, ir.Choice(condition, new, old)), item.span),
                ir.Do(_STATE.format("set"), (checksum, kept), item.span),
            ]
        return [*before, *(each for item in side for each in self._chosen(item, condition)), *after]


def _is_emit(item: ir.Code) -> bool:
    return isinstance(item, ir.Do) and item.operation == EMIT


def _can_be_chosen(item: ir.Code) -> bool:
    """Return whether code is a condition, an assignment of a number, or what only computes one."""
    if isinstance(item, ir.Do):
        return item.operation == "assign" or item.operation.startswith(_COMPUTING)
    return isinstance(item, ir.Branch)


def _all(item: ir.Code) -> Iterator[ir.Code]:
    """Yield a piece of code, and all that is inside of it."""
    yield item
    for body in bodies(item):
        for inner in body:
            yield from _all(inner)
