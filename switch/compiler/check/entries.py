"""Checks of a table's entries, and of what its keys can match (specification, sections "Keys",
"Entries" and "Entry priorities")."""

from weft.switch.compiler import syntax
from weft.switch.compiler.constants import MAXIMUM_BITS, wrap
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    IntegerType,
    Type,
    base_type,
    is_varbit,
)

_LARGEST_PRIORITY = (1 << 31) - 1


def key_problem(kind: Type, match_kind: str) -> str:
    """Return why a key of a type cannot be matched in a way; empty if it can."""
    if is_varbit(kind) and match_kind in ("ternary", "lpm", "range"):
        return f"a key of type {kind} cannot be matched by {match_kind}"
    return ""


def check_entry(
    reporter: Reporter, keys: list[syntax.KeyElement], types: list[Type], keyset: syntax.Expression
) -> None:
    """Report an error if a value of an entry does not fit in its key's type, or cannot be matched
    by its match kind."""
    items = keyset.items if isinstance(keyset, syntax.TupleKeyset) else [keyset]
    for key, kind, item in zip(keys, types, items, strict=False):
        for part in _parts(item):
            _check_fit(reporter, part, kind)
        problem = _match_problem(key.match_kind, item, kind)
        reporter.error_if(problem, item.span, problem)


def _parts(item: syntax.Expression) -> list[syntax.Expression]:
    match item:
        case syntax.MaskKeyset():
            return [item.value, item.mask]
        case syntax.RangeKeyset():
            return [item.low, item.high]
    return [item]


def _check_fit(reporter: Reporter, node: syntax.Expression, kind: Type) -> None:
    """Report an error for a number without a width that the implicit cast would change."""
    if isinstance(node, syntax.CastExpression) and node.reference is None:
        number = node.operand.constant
        plain = isinstance(type_of(node.operand), IntegerType) and isinstance(number, int)
        reporter.error_if(
            plain and isinstance(number, int) and wrap(number, kind) != number,
            node.span,
            f"{number} does not fit in the key's type, {kind}",
        )


def _match_problem(match_kind: str, item: syntax.Expression, kind: Type) -> str:
    """Return why what is written for a key cannot be matched; empty if it can, or if the match kind
    is not one of those that are known here."""
    problem = f"this cannot be matched by a key of kind {match_kind}"
    width = getattr(base_type(kind), "width", MAXIMUM_BITS)
    full = (1 << width) - 1
    match item:
        case syntax.MaskKeyset() if match_kind in ("exact", "range", "optional"):
            mask = item.mask.constant
            whole = isinstance(mask, int) and mask & full == full and match_kind == "exact"
            return "" if whole else problem
        case syntax.MaskKeyset(mask=syntax.Expression(constant=int() as mask)) if (
            match_kind == "lpm"
        ):
            ones = mask & full
            prefix = full ^ ((1 << (width - ones.bit_count())) - 1)
            return "" if ones == prefix else problem
        case syntax.RangeKeyset() if match_kind in ("exact", "ternary", "lpm", "optional"):
            return problem
        case syntax.AnyKeyset() if match_kind == "exact":
            return problem
    return ""


def check_repeated(reporter: Reporter, node: syntax.TableDeclaration) -> None:
    """Report an error for each entry that has the key of an earlier one, in a table that matches
    exactly."""
    if any(key.match_kind != "exact" for key in node.keys):
        return
    seen: set[tuple[object, ...]] = set()
    for entry in node.entries:
        keyset = entry.keyset
        items = keyset.items if isinstance(keyset, syntax.TupleKeyset) else [keyset]
        values = tuple(item.constant for item in items)
        if None not in values:
            shown = ", ".join(map(str, values))
            reporter.error_if(
                values in seen,
                keyset.span,
                f"there is an entry for {shown} already, and all keys are exact",
            )
            seen.add(values)


def check_priorities(reporter: Reporter, node: syntax.TableDeclaration) -> None:
    """Report errors for priorities that are missing or out of range."""
    given = [entry.priority for entry in node.entries]
    if node.entries_are_constant or all(item is None for item in given):
        return
    reporter.error_if(
        given[0] is None,
        node.entries[0].span,
        "if any entry has a priority, the first one must have one",
    )
    kinds = {key.match_kind for key in node.keys}
    reporter.error_if(
        kinds <= {"exact", "lpm"},
        node.entries[0].span,
        f"not supported: priorities in table '{node.name}', whose keys leave nothing to decide: "
        "all are exact or lpm",
    )
    least = 1 if _constant(node, "largest_priority_wins", 1) else 0
    step = _constant(node, "priority_delta", 1) * (-1 if least else 1)
    current: int | None = None
    for entry, priority in zip(node.entries, given, strict=True):
        if priority is None:
            current = None if current is None else current + step
        else:
            current = priority.constant if isinstance(priority.constant, int) else None
        reporter.error_if(
            current is not None and not least <= current <= _LARGEST_PRIORITY,
            entry.span,
            f"the entry's priority would be {current}, which is not within {least} to "
            f"{_LARGEST_PRIORITY}",
        )


def _constant(node: syntax.TableDeclaration, name: str, default: int) -> int:
    item = node.properties.get(name)
    value = None if item is None else item.value.constant
    return int(value) if isinstance(value, int) else default
