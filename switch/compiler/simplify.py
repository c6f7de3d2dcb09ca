"""Simplification of lowered code, to less of it, in longer runs of primitives."""

from dataclasses import dataclass, field

from weft.switch.compiler import ir


def simplify(code: list[ir.Code]) -> list[ir.Code]:
    """Return the same code without what is never reached, and without labels that nothing leaves.

    Each list is simplified once, so lists that are shared stay shared.
    """
    return _Simplifier().sequence(code)


@dataclass(eq=False)
class _Simplifier:
    known: dict[int, tuple[list[ir.Code], list[ir.Code]]] = field(default_factory=dict, init=False)

    def sequence(self, code: list[ir.Code]) -> list[ir.Code]:
        if (known := self.known.get(id(code))) is not None:
            return known[1]
        result: list[ir.Code] = []
        self.known[id(code)] = (code, result)
        for item in code:
            result += self.item(item)
            if result and isinstance(result[-1], (ir.Leave, ir.Stop, ir.Repeat)):
                break
        return result

    def item(self, item: ir.Code) -> list[ir.Code]:
        match item:
            case ir.Labelled():
                body = list(self.sequence(item.body))
                if body and body[-1] == ir.Leave(item.label):
                    body.pop()
                return [ir.Labelled(item.label, body)] if leaves(body, item.label) else body
            case ir.Repeat():
                body = self.sequence(item.body)
                ends = body and isinstance(body[0], (ir.Leave, ir.Stop))
                return list(body) if ends else [ir.Repeat(body, item.span)]
            case ir.Branch():
                then, otherwise = self.sequence(item.then), self.sequence(item.otherwise)
                if not then and not otherwise:
                    return []
                return [ir.Branch(item.condition, then, otherwise, item.span)]
            case ir.Apply():
                hit, miss = (body and self.sequence(body) for body in (item.hit, item.miss))
                cases = item.cases and {
                    name: self.sequence(body) for name, body in item.cases.items()
                }
                otherwise = self.sequence(item.otherwise)
                return [ir.Apply(item.table, hit, miss, cases, otherwise, item.span)]
        return [item]


def leaves(code: list[ir.Code], label: int) -> bool:
    """Return whether the code leaves the label somewhere."""
    return any(
        (isinstance(item, ir.Leave) and item.label == label)
        or any(leaves(body, label) for body in bodies(item))
        for item in code
    )


def bodies(item: ir.Code) -> list[list[ir.Code]]:
    """Return the code inside a piece of code."""
    match item:
        case ir.Labelled() | ir.Repeat():
            return [item.body]
        case ir.Branch():
            return [item.then, item.otherwise]
        case ir.Apply():
            return [*(item.cases or {}).values(), item.hit or [], item.miss or [], item.otherwise]
    return []
