"""Priorities of table entries (specification, section "Entry priorities")."""

from __future__ import annotations

from collections.abc import Callable

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import find
from weft.switch.compiler.diagnostics import Reporter


def priorities(node: syntax.Table, reporter: Reporter) -> list[int]:
    """The priority of each entry as written: larger wins, unless the table says otherwise."""
    largest = largest_priority_wins(node)
    delta = _property(node, "priority_delta", 1)
    if node.entries_are_constant or all(entry.priority is None for entry in node.entries):
        count = len(node.entries)
        order = range(count - 1, -1, -1) if largest else range(count)
        return [1 + position * delta for position in order]
    if node.entries[0].priority is None:
        reporter.error(
            node.entries[0].span, "if any entry has a priority, the first one must have one"
        )
    result: list[int] = []
    current = 1
    for index, entry in enumerate(node.entries):
        if entry.priority is not None and isinstance(entry.priority.constant, int):
            current = entry.priority.constant
        elif index:
            current += -delta if largest else delta
        reporter.error_if(
            current < 0, entry.span, f"the entry's priority would be {current}, below 0"
        )
        result.append(current)
    return result


def annotated_ranks(
    node: syntax.Table, number: Callable[[syntax.Annotation], int | None]
) -> list[int]:
    """The ranks of constant entries where some are annotated ``@priority(n)``; else nothing.

    As p4c has it: the smaller number wins, and an entry without one has its place, from 1 on.
    """
    if not node.entries_are_constant:
        return []
    given: dict[int, int] = {}
    for place, entry in enumerate(node.entries):
        annotation = find(entry.annotations, "priority")
        value = None if annotation is None else number(annotation)
        if value is not None:
            given[place] = value
    return [given.get(place, place + 1) for place in range(len(node.entries))] if given else []


def largest_priority_wins(node: syntax.Table) -> bool:
    """Whether a larger priority wins, as it does unless the table says otherwise."""
    return _property(node, "largest_priority_wins", 1) != 0


def _property(node: syntax.Table, name: str, default: int) -> int:
    item = node.properties.get(name)
    if item is None or not isinstance(item.value.constant, int):
        return default
    return int(item.value.constant)
