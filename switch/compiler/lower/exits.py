"""Code behind a pipeline's own, which runs after ``exit``, too."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft.switch.compiler import ir
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.simplify import bodies
from weft.switch.compiler.types import BitType


def followed_by(shared: Shared, code: list[ir.Code], tail: Sequence[ir.Code]) -> list[ir.Code]:
    """Return a pipeline's code with more behind it."""
    return [*contained(shared, code), *tail] if tail else code


def contained(shared: Shared, code: list[ir.Code]) -> list[ir.Code]:
    """Return code whose ``exit`` leads to its end."""
    inside = _Contained(shared, next(shared.labels))
    body = ir.Labelled(inside.label, inside.sequence(code))
    reset = [] if inside.exited is None else [ir.Do("assign", (inside.exited, ir.Number(0)))]
    return [*reset, body]


@dataclass(eq=False)
class _Contained:
    """Code in which ``exit`` leads to what is behind the label. An action notes in the field
    `exited` that it exits; where it was applied, that is looked at."""

    shared: Shared
    label: int
    exited: ir.HeaderField | None = None
    known: dict[int, tuple[list[ir.Code], list[ir.Code]]] = field(default_factory=dict, init=False)
    actions: set[int] = field(default_factory=set, init=False)

    def sequence(self, code: list[ir.Code]) -> list[ir.Code]:
        """Return the same code so; lists that are shared stay shared."""
        if id(code) not in self.known:
            self.known[id(code)] = code, [one for item in code for one in self._item(item)]
        return self.known[id(code)][1]

    def _item(self, item: ir.Code) -> list[ir.Code]:
        match item:
            case ir.Stop():
                return [ir.Leave(self.label)]
            case ir.Branch():
                then, otherwise = self.sequence(item.then), self.sequence(item.otherwise)
                return [replace(item, then=then, otherwise=otherwise)]
            case ir.Labelled() | ir.Repeat():
                return [replace(item, body=self.sequence(item.body))]
            case ir.Apply():
                return self._applied(item)
        return [item]

    def _applied(self, item: ir.Apply) -> list[ir.Code]:
        stops = [self._action(choice.action) for choice in item.table.actions]
        result = replace(
            item,
            hit=None if item.hit is None else self.sequence(item.hit),
            miss=None if item.miss is None else self.sequence(item.miss),
            cases=item.cases and {name: self.sequence(body) for name, body in item.cases.items()},
            otherwise=self.sequence(item.otherwise),
        )
        if not any(stops) or self.exited is None:
            return [result]
        stopped = ir.OperatorCall("==", self.exited, ir.Number(1))
        check = ir.Branch(stopped, [ir.Leave(self.label)], [], item.span)
        if item.hit is None and item.miss is None and item.cases is None:
            return [result, check]
        changed: dict[int, list[ir.Code]] = {}

        def checked(body: list[ir.Code]) -> list[ir.Code]:
            return changed.setdefault(id(body), [check, *body])

        if item.cases is None:
            result.hit, result.miss = checked(result.hit or []), checked(result.miss or [])
        else:
            cases = (result.cases or {}).items()
            result.cases = {name: checked(body) for name, body in cases}
            result.otherwise = checked(result.otherwise)
        return [result]

    def _action(self, action: ir.LoweredAction) -> bool:
        """Let an action note its exits; return whether it has any."""
        if id(action) in self.actions:
            return True
        if not _stops(action.body):
            return False
        self.shared.reporter.fail_if(
            action.is_global,
            action.span,
            f"not supported: exit in action '{action.name}' outside of all controls, before a "
            "deparser or a control of checksums with more than calls (BMv2)",
        )
        self.actions.add(id(action))
        if self.exited is None:
            self.exited = self.shared.storage.scalar("exited", BitType(1)).field
        label = next(self.shared.labels)
        action.body = [ir.Labelled(label, self._noted(action.body, self.exited, label))]
        return True

    def _noted(self, code: list[ir.Code], exited: ir.HeaderField, label: int) -> list[ir.Code]:
        result: list[ir.Code] = []
        for item in code:
            match item:
                case ir.Stop():
                    result += [
                        ir.Do("assign", (exited, ir.Number(1)), item.span),
                        ir.Leave(label),
                    ]
                case ir.Branch():
                    then, otherwise = (
                        self._noted(body, exited, label) for body in (item.then, item.otherwise)
                    )
                    result.append(replace(item, then=then, otherwise=otherwise))
                case ir.Labelled() | ir.Repeat():
                    result.append(replace(item, body=self._noted(item.body, exited, label)))
                case _:
                    result.append(item)
        return result


def _stops(code: list[ir.Code]) -> bool:
    return any(
        isinstance(item, ir.Stop) or any(_stops(body) for body in bodies(item)) for item in code
    )
