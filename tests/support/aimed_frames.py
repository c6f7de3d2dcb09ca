"""Frames and table entries that lead deep into a program, whatever it is: by its own description.

A frame is random bytes in which fields that the parser selects by have values that it looks for; an
entry has a key that a packet before was looked up with.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable
from typing import Any

from weft.switch.engine.control.entities import (
    ActionCall,
    CloneSession,
    Exact,
    GroupTarget,
    Key,
    Lpm,
    MemberTarget,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    Range,
    Replica,
    TableEntry,
    Target,
    Ternary,
)
from weft.switch.engine.control.errors import ControlError
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.program.program import Profile, ProgramAction, Table
from weft.switch.interpreter.description import Description
from weft.switch.interpreter.steps import Step

Json = Any

MOST_STATES = 30
MOST_BITS = 8 * 250
IDS = range(1, 5)
"""Of multicast groups and clone sessions."""


class Aim:
    """A frame on its random way through a parser, as far as fields have fixed places."""

    def __init__(self, program: Description, rng: random.Random) -> None:
        self.program, self.rng = program, rng
        self.value, self.at = rng.getrandbits(MOST_BITS), 0
        self.places: dict[tuple[str, ...], tuple[int, int]] = {}

    def extract(self, target: Json) -> None:
        """Note where the fields of a header are; of a stack, those of its last element."""
        kind, name = target["type"], target["value"]
        header = name
        if kind == "stack":
            header = self.program.stacks[name][0][0]
        elif kind == "union_stack":
            header = self.program.stacks[name[0]][0][
                self.program.member_names[name[0]].index(name[1])
            ]
        for field in self.program.headers[header].values():
            own = name if kind == "union_stack" else [name]
            self.places[tuple([*own, field.name])] = self.at, field.width
            self.at += 0 if field.varbit else field.width

    def place(self, part: Json) -> tuple[int, int]:
        """Where a part of a transition key is in the frame."""
        if part["type"] == "lookahead":
            offset, width = part["value"]
            return self.at + offset, width
        known = isinstance(part["value"][0], str)
        return self.places.get(tuple(part["value"]) if known else (), (MOST_BITS, 0))

    def select(self, state: Json) -> str | None:
        """Take a random transition, and give the key the value that it looks for."""
        choice = self.rng.choice(state["transitions"] or [{"next_state": None, "type": "default"}])
        if choice.get("type") == "hexstr":
            wanted = int(choice["value"], 16)
            for part in reversed(state["transition_key"]):
                first, width = self.place(part)
                shift = MOST_BITS - first - width
                if shift >= 0 and width:
                    mask = (1 << width) - 1
                    self.value = self.value & ~(mask << shift) | (wanted & mask) << shift
                wanted >>= (width + 7) // 8 * 8
        following: str | None = choice["next_state"]
        return following

    def frame(self) -> bytes:
        parser = self.program.document["parsers"][0]
        states = {state["name"]: state for state in parser["parse_states"]}
        name = parser["init_state"]
        for _ in range(MOST_STATES):
            if name is None or self.at > MOST_BITS:
                break
            for node in states[name]["parser_ops"]:
                if node["op"] in ("extract", "extract_VL"):
                    self.extract(node["parameters"][0])
            name = self.select(states[name])
        size = self.rng.choice([self.rng.randrange(1, 80), self.rng.randrange(40, 250)])
        return self.value.to_bytes(MOST_BITS // 8, "big")[:size]


def number(rng: random.Random, width: int) -> int:
    value = rng.choice([0, 1, 2, 3, rng.randrange(8), rng.getrandbits(width), (1 << width) - 1])
    return value & ((1 << width) - 1)


def key_of(rng: random.Random, kind: str, width: int, value: int) -> Key:
    """A random key that a value matches."""
    full = (1 << width) - 1
    match kind:
        case "exact":
            return Exact(value)
        case "lpm":
            length = rng.randrange(width + 1)
            return Lpm(value >> (width - length) << (width - length), length)
        case "range":
            return Range(rng.randrange(value + 1), rng.randrange(value, full + 1))
    mask = rng.choice([0, full] if kind == "optional" else [0, full, rng.getrandbits(width)])
    return Ternary(value & mask, mask)


class RandomController:
    """What fills a switch's tables at random, so that packets like those before hit entries."""

    def __init__(self, control: SwitchControl, rng: random.Random, ports: int) -> None:
        self.control, self.rng = control, rng
        self.program = control.pipelines[0].program
        self.priority = 0
        for number_ in IDS:
            replicas = tuple(Replica(rng.randrange(ports), at) for at in range(rng.randrange(1, 4)))
            kept = rng.choice([0, 0, 30])
            control.insert_replication(MulticastGroup(number_, tuple(dict.fromkeys(replicas))))
            control.insert_replication(CloneSession(number_, replicas[:1], kept))
        for profile in self.program.profiles.values():
            self.fill_profile(profile)
        for name, value_set in self.program.groups.value_sets.items():
            with contextlib.suppress(ControlError):
                control.set_value_set(name, [(Exact(number(rng, value_set.bits)),)])

    def call(self, action: ProgramAction) -> ActionCall:
        return ActionCall(action.name, tuple(number(self.rng, one) for one in action.widths))

    def fill_profile(self, profile: Profile) -> None:
        tables = [one for one in self.program.tables.values() if one.profile is profile]
        actions = [action for table in tables for action in table.actions]
        for number_ in IDS:
            call = self.call(self.rng.choice(actions))
            self.control.insert_member(ProfileMember(profile.name, number_, call))
        if profile.algorithm is not None:
            most = min(profile.size // 3, 3)  # of a profile with room for the ids at least
            weighted = tuple((one, self.rng.randint(1, most)) for one in self.rng.sample(IDS, 3))
            self.control.insert_group(ProfileGroup(profile.name, 1, weighted))

    def target(self, table: Table) -> Target:
        if table.profile is None:
            return self.call(self.rng.choice(table.actions))
        if table.profile.algorithm is not None and self.rng.random() < 0.6:
            return GroupTarget(1)
        return MemberTarget(self.rng.choice(IDS))

    def learn(self, steps: Iterable[Step]) -> None:
        """Insert entries, and set default actions, for some of the tables that a packet met."""
        for step in steps:
            if step.event != "table" or self.rng.random() < 0.5:
                continue
            table = self.program.tables[step.told["table"]]
            with contextlib.suppress(ControlError):  # const, full, there already
                self.enter(table, [int(value, 16) for value in step.told["key"].values()])
        self.control.publish()

    def enter(self, table: Table, values: list[int]) -> None:
        if not values or self.rng.random() < 0.2:
            self.control.set_default(table.name, self.call(self.rng.choice(table.actions)))
            return
        self.priority += table.needs_priority
        keys = tuple(key_of(self.rng, one.kind, one.width, value)
                     for one, value in zip(table.keys, values, strict=True))  # fmt: skip
        priority = self.priority if table.needs_priority else 0
        self.control.insert_entry(TableEntry(table.name, keys, self.target(table), priority))
