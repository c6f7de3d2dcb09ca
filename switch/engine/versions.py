"""Snapshots of what a controller has set on a switch, to undo a batch of changes that failed."""

from __future__ import annotations

from copy import copy
from typing import Any

CONTAINERS = (dict, list, set)


def take(state: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The attributes of an object, containers copied, and those of the objects with containers of
    their own (tables, action profiles) that its dictionaries hold."""
    taken = [(state, _attributes(state))]
    for value in vars(state).values():
        if isinstance(value, dict):
            taken += [(one, _attributes(one)) for one in value.values() if _is_state(one)]
    return taken


def put_back(snapshot: list[tuple[Any, dict[str, Any]]]) -> None:
    """Give the objects of a snapshot the attributes that they had; a snapshot serves once."""
    for one, attributes in snapshot:
        vars(one).update(attributes)


def _is_state(one: Any) -> bool:
    return any(isinstance(value, CONTAINERS) for value in getattr(one, "__dict__", {}).values())


def _attributes(one: Any) -> dict[str, Any]:
    return {
        name: copy(value) if isinstance(value, CONTAINERS) else value
        for name, value in vars(one).items()
    }
