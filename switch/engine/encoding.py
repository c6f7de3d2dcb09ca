"""From what a controller has set on a switch to the image that packets look it up in."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.contents import Contents
from weft.switch.engine.control import ActionCall, GroupTarget, MemberTarget, Target
from weft.switch.engine.groups import ValueSetUse
from weft.switch.engine.image import ImageBuilder, Row, key_flags, key_pairs
from weft.switch.engine.layout import FIRST_TABLE
from weft.switch.engine.program import Action
from weft.switch.engine.tables import TableState, check_call, encode_key, rank
from weft.switch.engine.words import split_words

Weighted = TypeVar("Weighted")


def encode(contents: Contents, uses: Sequence[ValueSetUse]) -> NDArray[np.int64]:
    """Return the image; ``uses``: how the program's parser looks value sets up."""
    return _Encoder(contents, uses).image()


class _Encoder:
    """An image under construction, and where the records of members and groups are in it."""

    def __init__(self, contents: Contents, uses: Sequence[ValueSetUse]) -> None:
        self.contents = contents
        self.uses = uses
        self.builder = ImageBuilder(len(contents.tables), len(uses))
        self.members: dict[tuple[str, int], int] = {}
        self.groups: dict[tuple[str, int], int] = {}

    def image(self) -> NDArray[np.int64]:
        """Return the image of all contents."""
        replication = self.contents.replication
        self.builder.value_sets(
            self.uses, {name: state.encode() for name, state in self.contents.value_sets.items()}
        )
        self.builder.replication(
            {
                number: (0, [(copy.port, copy.instance) for copy in group.replicas])
                for number, group in replication.groups.items()
            },
            clones=False,
        )
        self.builder.replication(
            {
                number: (
                    session.packet_length_bytes,
                    [(copy.port, copy.instance) for copy in session.replicas],
                )
                for number, session in replication.sessions.items()
            },
            clones=True,
        )
        for name, profile in self.contents.profiles.items():
            for member in profile.members.values():
                self.members[name, member.member_id] = self.record(profile.actions, member.call)
            for group in profile.groups.values():
                self.groups[name, group.group_id] = self.builder.group(
                    [
                        self.members[name, identifier]
                        for identifier, weight in sorted(
                            self.live(group.members, group.watch_ports)
                        )
                        for _ in range(weight)
                    ]
                )
        for state in self.contents.tables.values():
            self.table(state)
        return self.builder.finish()

    def live(
        self, members: tuple[Weighted, ...], watch_ports: tuple[int | None, ...]
    ) -> tuple[Weighted, ...]:
        """Return those of a group's members whose watch port is not down."""
        down = self.contents.ports_down
        if not watch_ports or not down:
            return members
        return tuple(
            member for member, port in zip(members, watch_ports, strict=True) if port not in down
        )

    def record(self, actions: tuple[Action, ...], call: ActionCall) -> int:
        """Append an action with its parameters; its offset."""
        action = check_call("", actions, call)
        words = [action.code]
        for value, width in zip(call.params, action.widths, strict=True):
            words += split_words(value, width)
        return self.builder.record(words)

    def target(self, state: TableState, target: Target) -> int:
        """Return the offset of the record that an entry, or a table's default, leads to."""
        table = state.table
        profile = table.profile.name if table.profile else ""
        match target:
            case ActionCall():
                return self.record(table.actions, target)
            case MemberTarget():
                return self.members[profile, target.member_id]
            case GroupTarget():
                return self.groups[profile, target.group_id]
        records = [
            (self.record(table.actions, call), weight)
            for call, weight in self.live(target.actions, target.watch_ports)
        ]
        return self.builder.group([at for at, weight in records for _ in range(weight)])

    def table(self, state: TableState) -> None:
        """Append a table with its entries."""
        table = state.table
        widths = [key.width for key in table.keys]
        rows = []
        for identity, entry in state.entries.items():
            record = self.target(state, entry.target)
            keys = [encode_key(key, width) for key, width in zip(entry.keys, widths, strict=True)]
            rows.append(
                Row(key_pairs(keys, widths), rank(table, entry), record, state.cells[identity])
            )
        default = 0 if state.default is None else self.target(state, state.default)
        if state.default_target is not None:
            default = self.target(state, state.default_target)
        flags = key_flags([key.kind == "range" for key in table.keys], widths)
        self.builder.table(FIRST_TABLE + table.index, len(flags), flags, rows, default)
