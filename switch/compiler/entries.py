"""Priorities of table entries (specification, section "Entry priorities")."""

from __future__ import annotations

from switch.compiler import syntax
from switch.compiler.diagnostics import Reporter


def priorities(node: syntax.Table, reporter: Reporter) -> list[int]:
    """The priority of each entry as written: larger wins, unless the table says otherwise."""
    largest = largest_priority_wins(node)
    delta = _property(node, "priority_delta", 1)
    if node.entries_are_constant or all(entry.priority is None for entry in node.entries):
        count = len(node.entries)
        order = range(count - 1, -1, -1) if largest else range(count)
        return [1 + position * delta for position in order]
    if node.entries[0].priority is None:
        message = "if any entry has a priority, the first one must have one"
        reporter.error(node.entries[0].span, message)
    result: list[int] = []
    current = 1
    for index, entry in enumerate(node.entries):
        if entry.priority is not None and isinstance(entry.priority.constant, int):
            current = entry.priority.constant
        elif index:
            current += -delta if largest else delta
        if current < 0:
            reporter.error(entry.span, f"the entry's priority would be {current}, below 0")
        result.append(current)
    return result


def largest_priority_wins(node: syntax.Table) -> bool:
    """Whether a larger priority wins, as it does unless the table says otherwise."""
    return _property(node, "largest_priority_wins", 1) != 0


def _property(node: syntax.Table, name: str, default: int) -> int:
    item = node.properties.get(name)
    if item is None or not isinstance(item.value.constant, int):
        return default
    return int(item.value.constant)
