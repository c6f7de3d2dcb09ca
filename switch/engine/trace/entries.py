"""Entries, copies and drops as traces tell them."""

from collections.abc import Iterable
from typing import Any

from weft.switch.engine.control.entities import (
    ActionCall,
    GroupTarget,
    Key,
    MemberTarget,
    TableEntry,
)
from weft.switch.engine.program.program import Program, Table
from weft.switch.priority_queues import MOST_PRIORITY_QUEUES

Event = dict[str, Any]


def no_queue(priority: int, queues: int) -> str:
    """Return why a packet of a priority is dropped, and which option makes a queue for it."""
    what = "one queue, of priority 0" if queues == 1 else f"queues of priorities 0 to {queues - 1}"
    can = priority < MOST_PRIORITY_QUEUES
    hint = f"--priority-queues {priority + 1}" if can else f"at most {MOST_PRIORITY_QUEUES} can be"
    return f"priority {priority}: a port has {what} ({hint})"


def ports_of(replicas: Iterable[Any]) -> list[dict[str, int]]:
    """Return where copies go."""
    return [{"port": copy.port, "egress_rid": copy.instance} for copy in replicas]


def describe_key(key: Key) -> str:
    """Return a key field of an entry: 0x1, 0xa000000/8, 0x800&&&0xff00, 0x1..0x5."""
    return str(key).replace(" ", "")


def describe_target(program: Program, target: object) -> str:
    """Return what an entry leads to."""
    match target:
        case MemberTarget() | GroupTarget():
            return str(target)
        case ActionCall():
            action = next(one for one in program.actions if one.name == target.action)
            pairs = zip(action.parameters, target.params, strict=True)
            return f"{target.action}({', '.join(f'{name}={value:#x}' for name, value in pairs)})"
    return "a set of actions"


def describe_entry(program: Program, table: Table, entry: TableEntry) -> Event:
    """Return an entry: its key, its priority, and how it reads."""
    key = {field.name: describe_key(one) for field, one in zip(table.keys, entry.keys, strict=True)}
    target = describe_target(program, entry.target)
    left = ", ".join(f"{name}={value}" for name, value in key.items())
    event: Event = {"key": key, "target": target, "reads": f"{left} -> {target}"}
    if table.needs_priority:
        event["priority"] = entry.priority
    return event
