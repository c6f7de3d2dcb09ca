"""Which entry of a table a packet hits, and which action that leads to."""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.switch.engine.control.contents import Contents
from weft.switch.engine.control.entities import (
    ActionCall,
    GroupTarget,
    Key,
    Lpm,
    MemberTarget,
    OneShot,
    Range,
    TableEntry,
    Ternary,
)
from weft.switch.engine.control.tables import Identity
from weft.switch.engine.program.program import Table


def matches(key: Key, value: int, width: int, mask: int | None = None) -> bool:
    """Return whether a field of a key, of a width, has a value; ``mask`` hides bits of it."""
    under = (1 << width) - 1 if mask is None else mask
    match key:
        case Range(low, high):
            return low <= value <= high
        case Lpm(wanted, length):
            under &= ((1 << length) - 1) << (width - length)
        case Ternary(wanted, bits):
            under &= bits
        case _:
            wanted = key.value
    return value & under == wanted & under


def look_up(
    table: Table, contents: Contents, values: Sequence[int]
) -> tuple[Identity, TableEntry] | None:
    """Return the entry with the greatest priority, or the longest prefix, that has a key."""
    found, best = None, -1
    ordered, widths = table.needs_priority, [field.width for field in table.keys]
    for identity, entry in contents.tables[table.name].entries.items():
        rank = entry.priority if ordered else prefix(entry)
        if rank > best and all(map(matches, entry.keys, values, widths)):
            found, best = (identity, entry), rank
    return found


def prefix(entry: TableEntry) -> int:
    """Return the length of an entry's prefix, 0 if it has none."""
    return next((key.prefix_length for key in entry.keys if isinstance(key, Lpm)), 0)


@dataclass(frozen=True)
class Members:
    """The members of a group that can be chosen, each as often as its weight says."""

    calls: tuple[ActionCall, ...]
    names: tuple[str, ...]


def led_to(table: Table, contents: Contents, target: object) -> ActionCall | Members | None:
    """Return the action that an entry leads to, or the members of its group."""
    if target is None or isinstance(target, ActionCall):
        return target
    if isinstance(target, OneShot):
        weighted = [(call, weight, call.action) for call, weight in target.actions]
        return _members(weighted, target.watch_ports, contents.ports_down)
    assert table.profile is not None
    profile = contents.profiles[table.profile.name]
    if isinstance(target, MemberTarget):
        return profile.members[target.member_id].call
    assert isinstance(target, GroupTarget)
    group = profile.groups[target.group_id]
    watched = group.watch_ports or (None,) * len(group.members)
    ordered = sorted(zip(group.members, watched, strict=True), key=lambda pair: pair[0])
    chosen = [
        (profile.members[identifier].call, weight, f"member {identifier}")
        for (identifier, weight), _ in ordered
    ]
    return _members(chosen, [port for _, port in ordered], contents.ports_down)


def _members(
    weighted: Sequence[tuple[ActionCall, int, str]],
    watch_ports: Sequence[int | None],
    down: set[int],
) -> Members:
    """Return those whose watched port is not down."""
    watched = watch_ports or (None,) * len(weighted)
    live = [
        (call, name)
        for (call, weight, name), port in zip(weighted, watched, strict=True)
        if port not in down
        for _ in range(weight)
    ]
    return Members(tuple(call for call, _ in live), tuple(name for _, name in live))
