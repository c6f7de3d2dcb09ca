"""Entries as the files of p4lang/tutorials have them: JSON, by the names of the program.

What such a file calls ``p4info`` and ``bmv2_json`` is the program that Weft has compiled.
"""

from typing import Any

import msgspec

from weft.base.placed import PlacedDocument
from weft.base.units import shown
from weft.controller.client import LoadableProgram
from weft.controller.entry_files.paper import paper_switch
from weft.controller.handles.switch import SwitchHandle
from weft.topo.switch_kinds import SwitchKind

TARGET = "bmv2"
"""The only target that there is."""


class RuntimeEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A table entry, or the default action of a table."""

    table: str
    action_name: str
    match: dict[str, Any] = {}
    action_params: dict[str, Any] = {}
    default_action: bool = False
    priority: int = 0


class RuntimeReplica(msgspec.Struct, forbid_unknown_fields=True):
    """A copy of a packet."""

    egress_port: int
    instance: int


class RuntimeGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A multicast group."""

    multicast_group_id: int
    replicas: list[RuntimeReplica]


class RuntimeSession(msgspec.Struct, forbid_unknown_fields=True):
    """A clone session."""

    clone_session_id: int
    replicas: list[RuntimeReplica]
    packet_length_bytes: int = 0


class RuntimeFile(msgspec.Struct, forbid_unknown_fields=True):
    """A whole file."""

    target: str = TARGET
    p4info: str = ""
    bmv2_json: str = ""
    table_entries: list[RuntimeEntry] = []
    multicast_group_entries: list[RuntimeGroup] = []
    clone_session_entries: list[RuntimeSession] = []


class RuntimeJson:
    """The content of such a file."""

    def __init__(self, document: PlacedDocument) -> None:
        """Read it. Raises InputError for what is no such file."""
        self._document = document
        self._file = document.typed(RuntimeFile)
        if self._file.target != TARGET:
            raise document.wrong(
                "target", f"{shown(self._file.target)} is unknown: the target is {TARGET!r}"
            )

    def check(self, name: str, program: LoadableProgram, kind: SwitchKind) -> None:
        """See `weft.controller.entry_files.entry_file.EntryFile.check`."""
        self.apply(paper_switch(name, program, kind))

    def apply(self, switch: SwitchHandle) -> None:
        """See `weft.controller.entry_files.entry_file.EntryFile.apply`."""
        for index, each in enumerate(self._file.table_entries):
            with self._document.blaming(f"table_entries[{index}]"):
                self._write(switch, each, f"table_entries[{index}]")
        for index, group in enumerate(self._file.multicast_group_entries):
            with self._document.blaming(f"multicast_group_entries[{index}]"):
                switch.groups.insert(group.multicast_group_id, _copies(group.replicas))
        for index, session in enumerate(self._file.clone_session_entries):
            with self._document.blaming(f"clone_session_entries[{index}]"):
                switch.clones.insert(
                    session.clone_session_id,
                    _copies(session.replicas),
                    session.packet_length_bytes,
                )

    def _write(self, switch: SwitchHandle, each: RuntimeEntry, place: str) -> None:
        table = switch.table(each.table)
        params = {name: _value(value) for name, value in each.action_params.items()}
        if not each.default_action:
            match = {name: _value(value) for name, value in each.match.items()}
            table.insert(match, each.action_name, params, priority=each.priority)
            return
        if each.match:
            raise self._document.wrong(
                f"{place}.match", "a default action is for what no entry matches: leave match out"
            )
        table.set_default(each.action_name, params)


def _value(value: Any) -> Any:
    """Return a value as handles take it: of a list the only value, or a pair."""
    if isinstance(value, list):
        return value[0] if len(value) == 1 else tuple(value)
    return value


def _copies(replicas: list[RuntimeReplica]) -> list[tuple[int, int]]:
    return [(each.egress_port, each.instance) for each in replicas]
