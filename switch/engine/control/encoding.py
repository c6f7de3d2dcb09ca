"""From what a controller has set on a switch to the image that packets look it up in.

An image has tables, groups and replication lists in one array of words, for compiled look-up
(``engine.dataplane.runtime`` says what is where). It is built anew for every published version.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.base.jit import Record, word_of
from weft.switch.engine.control.contents import Contents, Replicated
from weft.switch.engine.control.entities import (
    ActionCall,
    CloneSession,
    GroupTarget,
    MemberTarget,
    Target,
)
from weft.switch.engine.control.tables import TableState, check_call, encode_key, rank
from weft.switch.engine.dataplane.image_layout import (
    DIRECTORY_WORDS,
    ENTRY_WORDS,
    FIRST_TABLE,
    GROUP,
    GROUP_WORDS,
    RANGE,
    RANGE_GOES_ON,
    ActionRecord,
    Directory,
    EntryGroup,
    EntryRecord,
    GroupRecord,
    ImageHead,
    ReplicaRecord,
    ReplicationRecord,
)
from weft.switch.engine.program.headers import ValueSetUse
from weft.switch.engine.program.program import ProgramAction
from weft.switch.engine.program.words import WORD, signed, split_words, words_of


def words_with(kind: type[Record], /, **values: int) -> list[int]:
    """Return the words of a record in their order, from the values of all of its fields."""
    return [values[name] for name in kind.dtype.names or ()]


MULTIPLIER = 0x9E3779B97F4A7C15


def hash_words(words: Iterable[int]) -> int:
    """Return what ``runtime.hash_word`` computes over the words of a key, as an unsigned number."""
    state = 0
    for word in words:
        mixed = ((state ^ word) & WORD) * MULTIPLIER & WORD
        state = mixed ^ (mixed >> 29)
    return state


def key_pairs(
    keys: Sequence[tuple[int, int]], widths: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return keys, one (value, mask) or (low, high) pair a field, as a pair for each of their
    words."""
    return tuple(
        pair
        for (first, second), width in zip(keys, widths, strict=True)
        for pair in zip(split_words(first, width), split_words(second, width), strict=True)
    )


def key_flags(ranges: Sequence[bool], widths: Sequence[int]) -> list[int]:
    """Return what each word of a key is, from whether each of its fields is a range."""
    return [
        (RANGE_GOES_ON if word else RANGE) if flag else 0
        for flag, width in zip(ranges, widths, strict=True)
        for word in range(words_of(width))
    ]


@dataclass(frozen=True)
class Row:
    """An entry ready for the image, with a pair of 64-bit numbers, (value, mask) or (low, high),
    for each word of the key.

    ``priority`` is the prefix length in a table without priorities.
    """

    keys: tuple[tuple[int, int], ...]
    priority: int
    record: int
    index: int


entry_words: Callable[[Row], tuple[int, ...]] = attrgetter(*EntryRecord.dtype.names or ())
"""entry_words(row): the words of a row's `EntryRecord`."""


class ImageBuilder:
    """Collect the words of an image; ``finish`` gives the array."""

    def __init__(self, tables: int, value_set_uses: int = 0) -> None:
        self.tables = tables
        self.words: list[int] = [0] * (FIRST_TABLE + tables + value_set_uses)

    def record(self, words: Sequence[int]) -> int:
        """Append a record ([action, parameters]); return its offset."""
        offset = len(self.words)
        self.words.extend(signed(word) for word in words)
        return offset

    def group(self, records: Sequence[int]) -> int:
        """Append a group of records; return its offset."""
        return self.record([*words_with(GroupRecord, kind=GROUP, members=len(records)), *records])

    def table(
        self, place: int, key_words: int, ranges: Sequence[int], rows: list[Row], default: int
    ) -> None:
        """Append a table's directory and entries; word ``place`` of the image points to it.

        ``ranges``: for each key word 0, or RANGE where one begins, or RANGE_GOES_ON.
        """
        linear = sorted(rows, key=lambda row: -row.priority) if any(ranges) else []
        groups: dict[tuple[int, ...], list[Row]] = {}
        if not linear:
            for row in rows:
                groups.setdefault(tuple(mask for _, mask in row.keys), []).append(row)
        ordered = sorted(groups.items(), key=lambda item: -max(row.priority for row in item[1]))
        directory = self.record([0] * (DIRECTORY_WORDS + len(ordered) * (GROUP_WORDS + key_words)))
        self.words[place] = directory
        flags = self.record(ranges) if linear else 0
        at = directory + DIRECTORY_WORDS
        self.words[directory:at] = words_with(
            Directory,
            default=default,
            key_words=key_words,
            groups=len(ordered),
            linear=len(linear),
            linear_offset=len(self.words),
            ranges=flags,
        )
        for row in linear:
            for first, second in row.keys:
                self.words += [signed(first), signed(second)]
            self.words += entry_words(row)
        for masks, members in ordered:
            bits, slots = self._slots(key_words, members)
            best = max(row.priority for row in members)
            header = words_with(EntryGroup, bits=bits, slots=slots, priority=best)
            header += map(signed, masks)
            self.words[at : at + len(header)] = header
            at += len(header)

    def _slots(self, key_words: int, rows: list[Row]) -> tuple[int, int]:
        """Append the hash table of the rows with one mask; return the bits of its size, and its
        offset."""
        best: dict[tuple[int, ...], Row] = {}
        for row in rows:
            key = tuple(value for value, _ in row.keys)
            if key not in best or best[key].priority < row.priority:
                best[key] = row
        bits = max(1, (2 * len(best) - 1).bit_length())
        size = key_words + ENTRY_WORDS
        record = key_words + word_of(EntryRecord, "record")
        offset = len(self.words)
        self.words += [0] * (size << bits)
        for key, row in best.items():
            slot = hash_words(key) >> (64 - bits)
            while self.words[offset + slot * size + record]:
                slot = (slot + 1) & ((1 << bits) - 1)
            at = offset + slot * size
            self.words[at : at + size] = [*map(signed, key), *entry_words(row)]
        return bits, offset

    def replication(self, entries: Mapping[int, Replicated], *, clones: bool) -> None:
        """Append the multicast groups or clone sessions, which are given by their ids."""
        rows = []
        for identifier, entry in entries.items():
            keep = entry.packet_length_bytes if isinstance(entry, CloneSession) else 0
            words = words_with(ReplicationRecord, replicas=len(entry.replicas), keep=keep)
            for copy in entry.replicas:
                words += words_with(ReplicaRecord, **vars(copy))
            rows.append(Row(((identifier, WORD),), 0, self.record(words), 0))
        place = word_of(ImageHead, "clone" if clones else "multicast")
        self.table(place, 1, [False], rows, 0)

    def value_sets(
        self,
        uses: Sequence[ValueSetUse],
        encoded: Mapping[str, tuple[Sequence[Sequence[tuple[int, int]]], Sequence[bool]]],
    ) -> None:
        """Append the value sets of a parser, which ``encoded`` has by name: of each member a
        (value, mask) or (low, high) pair for every part of the key, and which parts are ranges."""
        first = FIRST_TABLE + self.tables
        for position, use in enumerate(uses):
            members, parts = encoded[use.value_set]
            rows = []
            for member in members:
                keys = [
                    pair if flag else (pair[0] & pair[1] & mask, pair[1] & mask)
                    for pair, flag, mask in zip(member, parts, use.masks, strict=True)
                ]
                rows.append(Row(key_pairs(keys, use.widths), 0, 1, 0))
            flags = key_flags(parts, use.widths)
            self.table(first + position, len(flags), flags, rows, 0)

    def finish(self) -> NDArray[np.int64]:
        """Return the image."""
        return np.array(self.words, dtype=np.int64)


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
        self.builder.replication(replication.groups, clones=False)
        self.builder.replication(replication.sessions, clones=True)
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

    def record(self, actions: tuple[ProgramAction, ...], call: ActionCall) -> int:
        """Append an action with its parameters; its offset."""
        action = check_call("", actions, call)
        words = words_with(ActionRecord, action=action.code)
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
        wanted = state.default_target or state.default
        default = 0 if wanted is None else self.target(state, wanted)
        flags = key_flags([key.kind == "range" for key in table.keys], widths)
        self.builder.table(FIRST_TABLE + table.index, len(flags), flags, rows, default)
