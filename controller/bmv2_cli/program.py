"""A program's tables, actions and arrays, as BMv2's command line names them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weft.base.errors import did_you_mean
from weft.base.units import listed
from weft.controller.bmv2_cli.refusals import CommandError
from weft.switch.messages import p4info_pb2

_KINDS = p4info_pb2.MatchField
_WORDS = {
    _KINDS.EXACT: "exact", _KINDS.LPM: "lpm", _KINDS.TERNARY: "ternary",
    _KINDS.OPTIONAL: "ternary", _KINDS.RANGE: "range",
}  # fmt: skip
_STRENGTH = ("exact", "lpm", "ternary", "range")

KINDS = {
    "table": "tables",
    "action": "actions",
    "action profile": "action_profiles",
    "counter": "counters",
    "meter": "meters",
    "register": "registers",
    "parser value set": "value_sets",
}
"""The kinds of things that have names, each with the field of P4Info that has them."""
CRC_WIDTHS = {"crc16_custom": 16, "crc32_custom": 32}
"""Custom CRCs, which are in the program's JSON alone."""


@dataclass(frozen=True)
class KeyField:
    """A field of a table's key."""

    info: Any
    """Its ``p4.config.v1.MatchField``."""
    label: str
    """What BMv2 calls it, as ipv4.dstAddr."""

    @property
    def kind(self) -> str:
        """The kind of match: exact, lpm, ternary or range."""
        return _WORDS.get(self.info.match_type, "exact")

    @property
    def width(self) -> int:
        """How many bits the field has."""
        return int(self.info.bitwidth)


class ProgramView:
    """A program by its P4Info. Names may be shortened to their last parts, as far as these are one
    thing's alone."""

    def __init__(self, p4info: Any, device_config: bytes) -> None:
        self.p4info = p4info
        self.device_config = device_config

    @cached_property
    def _document(self) -> Any:
        with suppress(ValueError, RecursionError):
            document = json.loads(self.device_config)
            if isinstance(document, dict):
                return document
        return {}

    def of_kind(self, kind: str) -> list[Any]:
        """Return all things of a kind (`KINDS`); direct counters and meters are among the
        others."""
        found = list(getattr(self.p4info, KINDS[kind]))
        if kind in ("counter", "meter"):
            found += getattr(self.p4info, f"direct_{KINDS[kind]}")
        return found

    def names(self, kind: str) -> list[str]:
        """Return the names of all things of a kind, in their alphabetical order."""
        if kind in CRC_WIDTHS:
            return sorted(self.custom_crcs(CRC_WIDTHS[kind]))
        return sorted(one.preamble.name for one in self.of_kind(kind))

    def find(self, kind: str, name: str, among: Sequence[int] | None = None) -> Any:
        """Return what has a name. ``among``: the ids of what is possible."""
        everything = self.of_kind(kind)
        possible = [one for one in everything if among is None or one.preamble.id in among]
        found = [one for one in possible if one.preamble.name == name] or [
            one for one in possible if one.preamble.name.endswith(f".{name}")
        ]
        if len(found) == 1:
            return found[0]
        names = sorted(one.preamble.name for one in found or possible)
        if found:
            raise CommandError(
                f"Error: Invalid {kind} name ({name}): it may be {listed(names, 'or')}"
            )
        ends = [end for each in names for end in (each, _last(each))]
        raise CommandError(
            f"Error: Invalid {kind} name ({name}){did_you_mean(name, ends)}: "
            f"the program has {', '.join(names) or 'none'}"
        )

    def with_id(self, kind: str, number: int) -> Any:
        """Return the thing of a kind that has an id."""
        return next(one for one in self.of_kind(kind) if one.preamble.id == number)

    def table(self, name: str) -> "TableView":
        """Return the table of a name."""
        return TableView(self, self.find("table", name))

    def profile(self, name: str) -> Any:
        """Return the action profile of a name."""
        return self.find("action profile", name)

    def action(self, name: str, among: Sequence[int], of: str) -> Any:
        """Return the action of a name, of those with these ids, which are what ``of`` has."""
        actions = [one for one in self.of_kind("action") if one.preamble.id in among]
        if not any(f".{one.preamble.name}".endswith(f".{name}") for one in actions):
            names = sorted(one.preamble.name for one in actions)
            near = did_you_mean(name, [end for one in names for end in (one, _last(one))])
            raise CommandError(
                f"Error: {of} has no action {name}{near}: it has {', '.join(names) or 'none'}"
            )
        return self.find("action", name, among)

    def custom_crcs(self, width: int) -> list[str]:
        """Return the calculations by ``crc16_custom`` or ``crc32_custom``, by their names."""
        return [
            one["name"]
            for one in self._document.get("calculations", ())
            if one.get("algo") == f"crc{width}_custom"
        ]

    def profile_actions(self, profile: Any) -> list[int]:
        """Return the ids of the actions that members of a profile may have."""
        tables = (self.with_id("table", number) for number in profile.table_ids)
        return list(dict.fromkeys(ref.id for table in tables for ref in table.action_refs))

    def labels(self, table: str) -> list[str]:
        """Return what BMv2 calls the fields of a table's key; [] if its JSON does not tell."""
        for pipeline in self._document.get("pipelines", ()):
            for each in pipeline.get("tables", ()):
                if each.get("name") == table:
                    return [_label(key.get("target")) for key in each.get("key", ())]
        return []


def _last(name: str) -> str:
    """Return the last part of a name."""
    return name.rpartition(".")[2]


def _label(target: Any) -> str:
    if isinstance(target, list) and len(target) == 2:
        header, field = map(str, target)
        return f"{header}_valid" if field == "$valid$" else f"{header}.{field}"
    return f"{target}_valid"


class TableView:
    """A table of a program."""

    def __init__(self, program: ProgramView, info: Any) -> None:
        self.program = program
        self.info = info
        self.name: str = info.preamble.name

    @cached_property
    def key(self) -> list[KeyField]:
        """The fields of the key."""
        fields = list(self.info.match_fields)
        labels = self.program.labels(self.name)
        if len(labels) != len(fields):
            labels = [field.name for field in fields]
        return [KeyField(field, label) for field, label in zip(fields, labels, strict=True)]

    @property
    def kind(self) -> str:
        """The kind of match of the table: the weakest of its fields'."""
        return max((field.kind for field in self.key), key=_STRENGTH.index, default="exact")

    @property
    def ranked(self) -> bool:
        """Whether entries have priorities."""
        return self.kind in ("ternary", "range")

    @property
    def ages(self) -> bool:
        """Whether entries may have timeouts."""
        return bool(self.info.idle_timeout_behavior)

    @property
    def profile(self) -> Any | None:
        """The action profile that holds the actions of the entries; None if they have their own."""
        number = self.info.implementation_id
        return self.program.with_id("action profile", number) if number else None

    @property
    def actions(self) -> list[Any]:
        """The actions that are possible, in the order of their names."""
        ids = {ref.id for ref in self.info.action_refs}
        found = (one for one in self.program.of_kind("action") if one.preamble.id in ids)
        return sorted(found, key=lambda one: str(one.preamble.name))

    def action(self, name: str) -> Any:
        """Return the action of a name."""
        ids = [ref.id for ref in self.info.action_refs]
        return self.program.action(name, ids, f"Table {self.name}")
