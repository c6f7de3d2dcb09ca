"""Entries of tables by handles, which count from 0 in each table.

P4Runtime has no handles. An entry that a command adds gets the least handle that is free, and bears
it as its ``metadata``. Entries that others have added, and those of the program itself, have the
least handles that are left, in the order in which the switch tells them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from weft.controller.bmv2_cli.access import Access
from weft.controller.bmv2_cli.program import TableView
from weft.controller.bmv2_cli.refusals import TABLE_CODES, CommandError, OperationRefused
from weft.controller.bmv2_cli.values import (
    WrittenKey,
    fill_action,
    fill_keys,
    read_keys,
    read_parameters,
)
from weft.switch.messages import p4runtime_pb2

MOST_PRIORITY = (1 << 31) - 1
"""The least number is the first priority of a command; P4Runtime's is the greatest. Their sum is
this, as in simple_switch_grpc."""
_HANDLE = b"handle "

Target = Callable[[Any], None]
"""What fills the ``TableAction`` of an entry."""


class Entries:
    """The entries of a switch's tables."""

    def __init__(self, switch: Access) -> None:
        self._switch = switch
        self._numbered: dict[str, dict[int, Any]] = {}

    def forget(self) -> None:
        """Read the entries anew when they are used next."""
        self._numbered = {}

    def all(self, table: TableView) -> dict[int, Any]:
        """Return the ``TableEntry`` messages of a table by their handles."""
        if table.name not in self._numbered:
            query: dict[str, Any] = {"table_id": table.info.preamble.id}
            if table.ages:
                query["time_since_last_hit"] = {}
            found = [one.table_entry for one in self._switch.read(table_entry=query)]
            self._numbered[table.name] = _numbered(found)
        return self._numbered[table.name]

    def entry(self, table: TableView, handle: int) -> Any:
        """Return the entry of a handle."""
        entries = self.all(table)
        if handle not in entries:
            raise OperationRefused(
                "table",
                "INVALID_HANDLE",
                f"table {table.name} has no entry with handle {handle}; handles are "
                f"{', '.join(map(str, sorted(entries)[:20])) or 'none'}",
            )
        return entries[handle]

    def read_entry(
        self, table: TableView, words: Sequence[str], priority: int | None
    ) -> tuple[list[WrittenKey], Any]:
        """Return the keys that a command has, and an entry without action."""
        keys = read_keys(table.name, table.key, words)
        entry = p4runtime_pb2.TableEntry(table_id=table.info.preamble.id)
        fill_keys(keys, entry)
        if table.ranked:
            if priority is None or not 0 <= priority < MOST_PRIORITY:
                raise CommandError(
                    f"Error: Table is {table.kind}, but could not extract a valid priority from "
                    f"args: {priority!r} is none; the last word is one, 0 to {MOST_PRIORITY - 1}, "
                    "and the least wins"
                )
            entry.priority = MOST_PRIORITY - priority
        return keys, entry

    def find(self, table: TableView, words: Sequence[str], priority: int | None) -> int:
        """Return the handle of the entry of a key; without priority, of the first one."""
        _, wanted = self.read_entry(table, words, 0 if priority is None else priority)
        key = _key(wanted)
        for handle, entry in sorted(self.all(table).items()):
            if _key(entry) == key and priority in (None, shown_priority(table, entry)):
                return handle
        raise OperationRefused(
            "table", "BAD_MATCH_KEY", f"table {table.name} has no entry of {' '.join(words)}"
        )

    def add(self, table: TableView, entry: Any, fill: Target, timeout_ms: int = 0) -> int:
        """Insert an entry, and return its handle."""
        entries = self.all(table)
        handle = _least_free(entries)
        fill(entry.action)
        entry.metadata = _HANDLE + str(handle).encode()
        entry.idle_timeout_ns = timeout_ms * 1_000_000
        self._write("insert", table, entry, f"add an entry to {table.name}")
        entries[handle] = entry
        return handle

    def modify(self, table: TableView, handle: int, fill: Target) -> None:
        """Give an entry another action."""
        entry = p4runtime_pb2.TableEntry()
        entry.CopyFrom(self.entry(table, handle))
        for name in ("action", "time_since_last_hit"):
            entry.ClearField(name)
        fill(entry.action)
        self._write("modify", table, entry, f"modify entry {handle} of {table.name}")
        self.all(table)[handle] = entry

    def set_timeout(self, table: TableView, handle: int, timeout_ms: int) -> None:
        """Let an entry be told of when nothing has hit it for so long; 0: never."""
        check_ages(table)
        entry = p4runtime_pb2.TableEntry()
        entry.CopyFrom(self.entry(table, handle))
        entry.ClearField("time_since_last_hit")
        entry.idle_timeout_ns = timeout_ms * 1_000_000
        self._write("modify", table, entry, f"set the timeout of entry {handle} of {table.name}")
        self.forget()

    def delete(self, table: TableView, handle: int) -> None:
        """Delete an entry."""
        entry = self.entry(table, handle)
        self._write("delete", table, bare(entry), f"delete entry {handle} of {table.name}")
        del self.all(table)[handle]

    def clear(self, table: TableView) -> None:
        """Delete all entries of a table but the default entry."""
        entities = [p4runtime_pb2.Entity(table_entry=bare(one)) for one in self.all(table).values()]
        self._switch.write("delete", entities, f"clear {table.name}", "table", TABLE_CODES)
        self.forget()

    def default(self, table: TableView) -> Any:
        """Return the default entry of a table."""
        query = {"table_id": table.info.preamble.id, "is_default_action": True}
        (found,) = self._switch.read(table_entry=query)
        return found.table_entry

    def set_default(self, table: TableView, fill: Target | None) -> None:
        """Set the default action of a table; None: that of the program."""
        entry = p4runtime_pb2.TableEntry(table_id=table.info.preamble.id, is_default_action=True)
        if fill is not None:
            fill(entry.action)
        self._write("modify", table, entry, f"set the default action of {table.name}")

    def _write(self, kind: str, table: TableView, entry: Any, what: str) -> None:
        entity = p4runtime_pb2.Entity(table_entry=entry)
        self._switch.write(kind, [entity], what, "table", TABLE_CODES)


def direct_action(table: TableView, name: str, words: Sequence[str]) -> tuple[list[bytes], Target]:
    """Return the values of the parameters of a table's action, and what fills the action in."""
    action = table.action(name)
    values = read_parameters(action, words)
    return values, lambda message: fill_action(action, values, message.action)


def check_direct(table: TableView) -> None:
    """Raise OperationRefused for a table whose entries lead to members and groups."""
    if table.profile is not None:
        raise OperationRefused(
            "table",
            "WRONG_TABLE_TYPE",
            f"the actions of table {table.name} are members of {table.profile.preamble.name}: use "
            "table_indirect_add and the like",
        )


def check_ages(table: TableView) -> None:
    """Raise CommandError for a table whose entries have no timeouts."""
    if not table.ages:
        raise CommandError(
            f"Error: Table {table.name} does not support entry timeouts: its support_timeout is "
            "not set in the program"
        )


def shown_priority(table: TableView, entry: Any) -> int | None:
    """Return an entry's priority as commands count it; None for a table without priorities."""
    return MOST_PRIORITY - entry.priority if table.ranked else None


def _numbered(entries: Sequence[Any]) -> dict[int, Any]:
    numbered: dict[int, Any] = {}
    others = []
    for entry in entries:
        handle = _handle_of(entry)
        if handle is None or handle in numbered:
            others.append(entry)
        else:
            numbered[handle] = entry
    for entry in others:
        numbered[_least_free(numbered)] = entry
    return numbered


def _handle_of(entry: Any) -> int | None:
    number = entry.metadata.removeprefix(_HANDLE)
    if number == entry.metadata or not number.isdigit() or len(number) > 9:
        return None
    return int(number)


def _least_free(taken: dict[int, Any]) -> int:
    if len(taken) not in taken and all(handle < len(taken) for handle in taken):
        return len(taken)
    return next(handle for handle in range(len(taken) + 1) if handle not in taken)


def bare(entry: Any) -> Any:
    """Return an entry by which it is deleted: with its key alone."""
    return p4runtime_pb2.TableEntry(
        table_id=entry.table_id, match=entry.match, priority=entry.priority
    )


def _key(entry: Any) -> frozenset[bytes]:
    return frozenset(match.SerializeToString() for match in entry.match)
