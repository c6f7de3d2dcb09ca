"""The names and sizes of what a P4 program has, as its P4Info says; full names are found by short
ones."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from weft.base.errors import InputError, did_you_mean


class ProgramNames:
    """The full names of what a program has by short ones, and how much room there is in it.

    A short name is the end of exactly one full name of a table, an action, a key field, a profile,
    a counter or a register. It begins after a dot of the full name, or is the whole of it.
    """

    def __init__(self, p4info: Any, apart: Collection[str] = ()) -> None:
        """Read the names of ``p4info``, the program's ``p4.config.v1.P4Info``.

        ``apart`` names controls whose things are found by ``control.thing`` alone, and the key
        fields of whose tables are found by their full names: so they make no other short name
        ambiguous.
        """
        sized = (*p4info.tables, *p4info.counters, *p4info.registers)
        others = (*p4info.actions, *p4info.action_profiles, *p4info.direct_counters)
        self._sizes = {one.preamble.name: int(one.size) for one in sized}
        self._by_end: defaultdict[str, set[str]] = defaultdict(set)
        for full in (*self._sizes, *(one.preamble.name for one in others)):
            parts = full.split(".")
            control = [place for place, part in enumerate(parts) if part in apart]
            self._enter(parts, control[0] if control else len(parts) - 1)
        for table in p4info.tables:
            inside = not set(apart).isdisjoint(table.preamble.name.split("."))
            for field in table.match_fields:
                parts = field.name.split(".")
                self._enter(parts, 0 if inside else len(parts) - 1)

    def _enter(self, parts: list[str], last: int) -> None:
        """Enter a name under its ends, down to the one that begins with part ``last``."""
        for first in range(last + 1):
            self._by_end[".".join(parts[first:])].add(".".join(parts))

    def __contains__(self, short: str) -> bool:
        """Return whether exactly one thing of the program has that short name."""
        return len(self._by_end.get(short, ())) == 1

    def name(self, short: str) -> str:
        """Return the full name of what the program calls ``short``:
        ``FabricIngress.forwarding.ipv4_route`` for ``ipv4_route``, ``hdr.ipv4.dst_addr`` for
        ``dst_addr``.

        Raises InputError for a short name that is the end of no name, or of several.
        """
        full = self._by_end.get(short, set())
        if len(full) != 1:
            several = f"{len(full)} of that name: {', '.join(sorted(full))}"
            none = f"no such name{did_you_mean(short, self._by_end)}"
            raise InputError(f"{short!r}: the fabric's program has {several if full else none}")
        (only,) = full
        return only

    def size(self, short: str) -> int:
        """Return how many entries a table has room for, or how many cells a counter or register
        has. Raises InputError as `name` does."""
        return self._sizes[self.name(short)]
