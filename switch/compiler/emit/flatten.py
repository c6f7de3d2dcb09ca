"""An action's code as BMv2 has it: a list of primitives with jumps."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.switch.compiler import arithmetic, ir
from weft.switch.compiler.diagnostics import Reporter, Span
from weft.switch.compiler.simplify import simplify


@dataclass(eq=False)
class _Flattener:
    reporter: Reporter
    name: str
    primitives: list[ir.Do] = field(default_factory=list, init=False)
    open_jumps: list[tuple[int, int]] = field(
        default_factory=list, init=False
    )  # (place of the jump, label)
    end_jumps: list[int] = field(default_factory=list, init=False)

    def emit(self, operation: str, span: Span, *operands: ir.Expression) -> int:
        self.primitives.append(ir.Do(operation, operands, span))
        return len(self.primitives) - 1

    def aim(self, place: int, destination: int) -> None:
        jump = self.primitives[place]
        operands = (*jump.operands[:-1], ir.Number(destination))
        self.primitives[place] = ir.Do(jump.operation, operands, jump.span)

    def sequence(self, code: list[ir.Code]) -> None:
        for item in code:
            match item:
                case ir.Do():
                    self.primitives.append(item)
                case ir.Branch():
                    self.branch(item)
                case ir.Labelled():
                    self.labelled(item)
                case ir.Repeat():
                    start = len(self.primitives)
                    self.sequence(item.body)
                    self.emit("_jump", item.span, ir.Number(start))
                    return
                case ir.Leave():
                    place = self.emit("_jump", Span("", 0, 0, 0, 0), ir.Number(0))
                    self.open_jumps.append((place, item.label))
                    return
                case ir.Stop():
                    self.emit("exit", item.span)
                    self.end_jumps.append(self.emit("_jump", item.span, ir.Number(0)))
                    return
                case _:
                    span = getattr(item, "span", Span("", 0, 0, 0, 0))
                    raise self.reporter.fail(
                        span, f"a table cannot be applied in action '{self.name}'"
                    )

    def branch(self, item: ir.Branch) -> None:
        condition = arithmetic.number(item.condition)
        test = self.emit("_jump_if_zero", item.span, condition, ir.Number(0))
        self.sequence(item.then)
        if not item.otherwise:
            self.aim(test, len(self.primitives))
            return
        over = self.emit("_jump", item.span, ir.Number(0))
        self.aim(test, len(self.primitives))
        self.sequence(item.otherwise)
        self.aim(over, len(self.primitives))

    def labelled(self, item: ir.Labelled) -> None:
        self.sequence(item.body)
        end = len(self.primitives)
        remaining = []
        for place, label in self.open_jumps:
            if label != item.label:
                remaining.append((place, label))
            elif place == end - 1:  # a jump to what comes next anyway
                self.drop_last()
                end -= 1
            else:
                self.aim(place, end)
        self.open_jumps = remaining

    def drop_last(self) -> None:
        """Remove the last primitive; jumps that lead behind it then lead to where it was."""
        self.primitives.pop()
        end = len(self.primitives)
        for place, primitive in enumerate(self.primitives):
            if primitive.operation in ("_jump", "_jump_if_zero"):
                target = primitive.operands[-1]
                if isinstance(target, ir.Number) and target.value > end:
                    self.aim(place, end)


def flatten(body: list[ir.Code], reporter: Reporter, name: str) -> list[ir.Do]:
    """The primitives of an action, with ``_jump`` and ``_jump_if_zero`` for what branches."""
    flattener = _Flattener(reporter, name)
    flattener.sequence(simplify(body))
    primitives = flattener.primitives
    if flattener.end_jumps and flattener.end_jumps[-1] == len(primitives) - 1:
        flattener.end_jumps.pop()
        flattener.drop_last()
    for place in flattener.end_jumps:
        flattener.aim(place, len(primitives))
    return primitives
