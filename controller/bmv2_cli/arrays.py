"""Counters, meters and registers by the indices of their cells, and parsers' value sets.

The index of a direct counter's or meter's cell is the handle of the entry that it belongs to.
"""

from collections.abc import Sequence
from typing import Any

from weft.controller.bmv2_cli.access import Access
from weft.controller.bmv2_cli.entries import Entries, bare
from weft.controller.bmv2_cli.program import TableView
from weft.controller.bmv2_cli.refusals import (
    CELL_CODES,
    TABLE_CODES,
    CommandError,
    OperationRefused,
)
from weft.controller.bmv2_cli.values import value_bytes, whole_number
from weft.switch.messages import p4runtime_pb2

MOST_VALUE = (1 << 2048) - 1
"""The greatest value of a cell or member that is read."""

Rate = tuple[float, int]
"""A rate, in bytes or packets a microsecond, and a burst in the same unit."""


class _Cells:
    """Cells of arrays of one kind."""

    kind = ""

    def __init__(self, switch: Access, entries: Entries) -> None:
        self._switch = switch
        self._entries = entries

    def find(self, name: str) -> Any:
        """Return the array of a name."""
        return self._switch.program.find(self.kind, name)

    def table(self, info: Any) -> TableView | None:
        """Return the table whose entries have a direct array's cells; None if it is not direct."""
        number = getattr(info, "direct_table_id", 0)
        program = self._switch.program
        return TableView(program, program.with_id("table", number)) if number else None

    def _check(self, info: Any, index: int) -> int:
        if not 0 <= index < info.size:
            raise OperationRefused(
                self.kind,
                "INVALID_INDEX",
                f"{info.preamble.name} has the indices 0 to {info.size - 1}, not {index}",
            )
        return index

    def _read(self, info: Any, index: int | None = None) -> list[Any]:
        query: dict[str, Any] = {f"{self.kind}_id": info.preamble.id}
        if index is not None:
            query["index"] = {"index": self._check(info, index)}
        field = f"{self.kind}_entry"
        return [getattr(one, field) for one in self._switch.read(**{field: query})]

    def _read_direct(self, table: TableView, handle: int) -> Any:
        field = f"direct_{self.kind}_entry"
        entry = bare(self._entries.entry(table, handle))
        (found,) = self._switch.read(**{field: {"table_entry": entry}})
        return getattr(found, field)

    def _write(self, info: Any, index: int | None, **values: Any) -> None:
        cell: dict[str, Any] = {f"{self.kind}_id": info.preamble.id, **values}
        if index is not None:
            cell["index"] = {"index": self._check(info, index)}
        entity = p4runtime_pb2.Entity(**{f"{self.kind}_entry": cell})
        what = f"write {info.preamble.name}"
        self._switch.write("modify", [entity], what, self.kind, CELL_CODES)

    def _write_direct(self, table: TableView, handle: int | None, **values: Any) -> None:
        entries = self._entries
        found = entries.all(table).values() if handle is None else [entries.entry(table, handle)]
        field = f"direct_{self.kind}_entry"
        entities = [
            p4runtime_pb2.Entity(**{field: {"table_entry": bare(entry), **values}})
            for entry in found
        ]
        what = f"write the {self.kind}s of {table.name}"
        self._switch.write("modify", entities, what, "table", TABLE_CODES)


class Counters(_Cells):
    """The counters of a switch."""

    kind = "counter"

    def read(self, info: Any, index: int) -> tuple[int, int]:
        """Return the packets and bytes of a cell."""
        table = self.table(info)
        data = (
            self._read(info, index)[0] if table is None else self._read_direct(table, index)
        ).data
        return data.packet_count, data.byte_count

    def write(self, info: Any, index: int | None, packets: int, size_bytes: int) -> None:
        """Set a cell, or all cells if ``index`` is None."""
        data = {"packet_count": packets, "byte_count": size_bytes}
        table = self.table(info)
        if table is None:
            self._write(info, index, data=data)
        else:
            self._write_direct(table, index, data=data)


class Meters(_Cells):
    """The meters of a switch."""

    kind = "meter"

    def read(self, info: Any, index: int) -> list[Rate]:
        """Return the committed and the peak rate of a cell; none if it has none."""
        table = self.table(info)
        cell = self._read(info, index)[0] if table is None else self._read_direct(table, index)
        if not cell.HasField("config"):
            return []
        config = cell.config
        return [(config.cir / 1e6, config.cburst), (config.pir / 1e6, config.pburst)]

    def write(self, info: Any, index: int | None, rates: Sequence[Rate]) -> None:
        """Set the rates of a cell, or of all cells if ``index`` is None."""
        (committed, burst), (peak, peak_burst) = rates
        config = {
            "cir": round(committed * 1e6), "cburst": burst,
            "pir": round(peak * 1e6), "pburst": peak_burst,
        }  # fmt: skip
        table = self.table(info)
        if table is None:
            self._write(info, index, config=config)
        else:
            self._write_direct(table, index, config=config)


class Registers(_Cells):
    """The registers of a switch."""

    kind = "register"

    def read(self, info: Any, index: int | None = None) -> list[int]:
        """Return what a cell holds, or what all hold."""
        cells = sorted(self._read(info, index), key=lambda cell: int(cell.index.index))
        return [int.from_bytes(cell.data.bitstring, "big") for cell in cells]

    def write(self, info: Any, index: int | None, value: int) -> None:
        """Set a cell, or all cells if ``index`` is None."""
        width = self.width(info)
        if width and (value >> width):
            raise CommandError(
                f"Error: Bad format for value: {value} does not fit {width} bits of "
                f"{info.preamble.name}: 0 to {(1 << width) - 1} do"
            )
        self._write(info, index, data={"bitstring": value_bytes(value, width)})

    def width(self, info: Any) -> int:
        """Return how many bits a cell has; 0 if P4Info does not tell."""
        bits = info.type_spec.bitstring
        kind = bits.WhichOneof("type_spec")
        return int(getattr(bits, kind).bitwidth) if kind in ("bit", "int") else 0


class ValueSets:
    """The value sets of a switch's parsers. A member of several fields is one number, the fields
    behind one another."""

    def __init__(self, switch: Access) -> None:
        self._switch = switch

    def find(self, name: str) -> Any:
        """Return the value set of a name."""
        return self._switch.program.find("parser value set", name)

    def read(self, info: Any) -> list[bytes]:
        """Return the members."""
        query = {"value_set_id": info.preamble.id}
        members = []
        for found in self._switch.read(value_set_entry=query):
            for member in found.value_set_entry.members:
                number = 0
                given = {match.field_id: match.exact.value for match in member.match}
                for field in info.match:
                    value = int.from_bytes(given.get(field.id, b""), "big")
                    number = number << field.bitwidth | value
                members.append(value_bytes(number, width_of(info)))
        return members

    def number(self, info: Any, word: str) -> bytes:
        """Return the member that a word is."""
        width = width_of(info)
        number = whole_number(word, "value", MOST_VALUE)
        if number >> width:
            raise CommandError(
                f"Error: Input is too large, it should fit within {width} bits: {word}"
            )
        return value_bytes(number, width)

    def write(self, info: Any, members: Sequence[bytes]) -> None:
        """Let the value set have these members, and no others."""
        entry = p4runtime_pb2.ValueSetEntry(value_set_id=info.preamble.id)
        for member in dict.fromkeys(members):
            number, message = int.from_bytes(member, "big"), entry.members.add()
            for field in reversed(info.match):
                value = number & (1 << field.bitwidth) - 1
                exact = {"value": value_bytes(value, field.bitwidth).lstrip(b"\0") or b"\0"}
                message.match.add(field_id=field.id, exact=exact)
                number >>= field.bitwidth
        entity = p4runtime_pb2.Entity(value_set_entry=entry)
        what = f"write {info.preamble.name}"
        self._switch.write("modify", [entity], what, "parser value set", {})


def width_of(info: Any) -> int:
    """Return how many bits a member of a value set has."""
    return sum(int(field.bitwidth) for field in info.match)
