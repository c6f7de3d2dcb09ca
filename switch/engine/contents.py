"""All that a controller has set on a switch and that packets are to meet: one version of it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from weft.switch.engine.control import MeterConfig
from weft.switch.engine.profiles import ProfileState, profile_states
from weft.switch.engine.program import Program
from weft.switch.engine.replication import Replication
from weft.switch.engine.tables import TableState
from weft.switch.engine.value_sets import ValueSetState, value_set_states

State = TypeVar("State")


@dataclass
class Contents:
    """Tables, action profiles and value sets by name; ``rates``: of meters, by their cells."""

    tables: dict[str, TableState] = field(default_factory=dict)
    profiles: dict[str, ProfileState] = field(default_factory=dict)
    value_sets: dict[str, ValueSetState] = field(default_factory=dict)
    replication: Replication = field(default_factory=Replication)
    rates: dict[int, MeterConfig] = field(default_factory=dict)
    ports_down: set[int] = field(default_factory=set)

    def copy(self) -> Contents:
        """Return a copy, which does not change with this one."""
        return Contents(
            {name: _copied(state) for name, state in self.tables.items()},
            {name: _copied(state) for name, state in self.profiles.items()},
            {name: _copied(state) for name, state in self.value_sets.items()},
            _copied(self.replication),
            dict(self.rates),
            set(self.ports_down),
        )


def contents_of(program: Program) -> Contents:
    """Return what a program itself gives: its own entries, and nothing else."""
    return Contents(
        {table.name: TableState(table) for table in program.tables.values()},
        profile_states(program),
        value_set_states(program.groups),
    )


def _copied(state: State) -> State:
    """Return a copy of an object, and of the containers that it holds."""
    new = copy(state)
    for name, value in vars(state).items():
        if isinstance(value, (dict, list, set)):
            setattr(new, name, copy(value))
    return new
