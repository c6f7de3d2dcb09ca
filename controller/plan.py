"""Plans of all entities of every switch, and the updates that lead from one plan to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.base.errors import InputError
from weft.controller.entities import (
    DefaultAction,
    Entity,
    PlannedEntry,
    PlannedGroup,
    PlannedMember,
    PlannedMulticast,
)


@dataclass(frozen=True)
class Plan:
    """What every switch shall hold, by its name. A switch that is left out holds nothing."""

    entities: Mapping[str, tuple[Entity, ...]] = field(default_factory=dict)
    provided: Mapping[str, Any] = field(default_factory=dict)
    """What features provide, such as addresses, by a feature's name: see the feature's module."""


@dataclass(frozen=True)
class Update:
    """One change of one entity. An entity that is deleted is named by its key alone."""

    kind: Literal["insert", "modify", "delete"]
    entity: Entity

    def __str__(self) -> str:
        return f"{self.kind} {self.entity}"


def merge(*parts: Mapping[str, Sequence[Entity]]) -> dict[str, tuple[Entity, ...]]:
    """Put the planners' results together. Raises InputError if two of them claim the same
    entity."""
    found: dict[str, dict[tuple[object, ...], Entity]] = {}
    for part in parts:
        for switch, entities in part.items():
            known = found.setdefault(switch, {})
            for entity in entities:
                if entity.key in known:
                    raise InputError(f"{switch}: planned twice: {entity}; {known[entity.key]}")
                known[entity.key] = entity
    return {switch: tuple(known.values()) for switch, known in found.items()}


def diff(old: Plan, new: Plan) -> dict[str, list[list[Update]]]:
    """Return, by switch, the updates that turn ``old`` into ``new``, in batches to be sent one
    after the other.

    A batch refers only to what earlier ones made, as a switch may reorder updates within a batch
    (P4Runtime specification, section "Batching and Ordering of Updates"), and nothing is deleted
    while something refers to it. New entries come before old ones go, so a destination that has a
    route in both plans has one all the time.
    """
    changes = {
        switch: _batches(old.entities.get(switch, ()), new.entities.get(switch, ()))
        for switch in dict.fromkeys((*old.entities, *new.entities))
    }
    return {switch: batches for switch, batches in changes.items() if batches}


def _batches(old: Sequence[Entity], new: Sequence[Entity]) -> list[list[Update]]:
    before = {entity.key: entity for entity in old}
    after = {entity.key: entity for entity in new}
    stages: list[list[Update]] = [[] for _ in range(1 + max(_DELETED.values()))]
    for key, entity in after.items():
        if before.get(key) != entity:
            present = key in before or isinstance(entity, DefaultAction)
            update = Update("modify" if present else "insert", entity)
            stages[_WRITTEN[_sort(entity)]].append(update)
    for key, entity in before.items():
        if key not in after:
            update = (
                Update("modify", DefaultAction(entity.table, None))
                if isinstance(entity, DefaultAction)
                else Update("delete", entity)
            )
            stages[_DELETED[_sort(entity)]].append(update)
    return [stage for stage in stages if stage]


_PLACE = "place"
"""Stands for entries of a set's places, to which the members that spray refer: they are written
first and deleted last."""
_WRITTEN = {
    _PLACE: 0, PlannedMember: 1, PlannedMulticast: 1, PlannedGroup: 2,
    PlannedEntry: 3, DefaultAction: 3,
}  # fmt: skip
_DELETED = {
    PlannedEntry: 3, DefaultAction: 3,
    PlannedGroup: 4, PlannedMulticast: 4, PlannedMember: 5, _PLACE: 6,
}  # fmt: skip
"""The number of the batch in which a sort of entity is written or deleted."""


def _sort(entity: Entity) -> str | type[Entity]:
    return _PLACE if isinstance(entity, PlannedEntry) and entity.referred else type(entity)
