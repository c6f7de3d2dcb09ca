"""Actions that use direct counters and meters (sections "Direct Counter" and "Direct Meter")."""

from weft.switch.compiler import ir
from weft.switch.compiler.lower.lower import PackageLowering

USES = "uses"
"""The operation that stands in an action's code for a call of a method of a direct counter or
meter. It is taken out again: BMv2's JSON has no word for it."""


def note_direct_objects(package: PackageLowering, owned: set[str]) -> None:
    """Give each table with a direct counter the actions in which that counts. Report an error where
    an action uses one, of those that are `owned` by tables, of another table than its own."""
    used = {id(action): set(_taken_out(action.body)) for action in package.result.actions}
    for pipeline in package.result.pipelines:
        for table in [node.table for node in pipeline.nodes if isinstance(node, ir.TableNode)]:
            own = {item.name for item in (table.counter, table.meter) if item is not None}
            actions = [choice.action for choice in table.actions]
            for action in actions:
                for other in sorted((used.get(id(action), set()) & owned) - own):
                    package.reporter.error(
                        action.span,
                        f"action '{action.name}' uses '{other}', which belongs to another table "
                        f"than '{table.name}'",
                    )
            if table.counter is not None:
                name = table.counter.name
                table.counting = [item for item in actions if name in used.get(id(item), ())]


def _taken_out(code: list[ir.Code]) -> list[str]:
    """Take what stands for uses out of code, and return the names of what is used."""
    names: list[str] = []
    kept: list[ir.Code] = []
    for item in code:
        match item:
            case ir.Do(operation="uses", operands=(ir.Reference(name=name),)):
                names.append(name)
                continue
            case ir.Branch(then=then, otherwise=otherwise):
                names += [*_taken_out(then), *_taken_out(otherwise)]
            case ir.Labelled(body=body) | ir.Repeat(body=body):
                names += _taken_out(body)
        kept.append(item)
    code[:] = kept
    return names
