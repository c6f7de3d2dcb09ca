"""Counters, registers, meters and multicast groups as a script handles them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.base.arguments import wholes
from weft.base.errors import InputError
from weft.base.units import shown
from weft.controller.entities import PlannedMulticast
from weft.controller.handles.access import Count, SwitchAccess
from weft.controller.handles.values import Value, read_value
from weft.controller.plan import Update
from weft.switch.messages import p4runtime_pb2

MAX_GROUP = 65535


@dataclass(frozen=True)
class Rates:
    """Hold the rates of a meter's cell, in bytes or packets a second as the meter's unit is, and
    the bursts in the same unit (RFC 2698)."""

    committed: int
    committed_burst: int
    peak: int
    peak_burst: int


class _Cells:
    """The cells of a counter, register or meter, which are read and written by index."""

    _kind = ""
    """The kind of entity, as ``counter_entry``."""

    def __init__(self, switch: SwitchAccess, info: Any) -> None:
        self._switch = switch
        self._id = f"{self._kind.removesuffix('_entry')}_id"
        self._info = info
        self.name: str = info.preamble.name
        """The full name."""

    def __len__(self) -> int:
        """Return how many cells there are."""
        return int(self._info.size)

    def _index(self, index: int) -> int:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self):
            raise IndexError(
                f"{self._switch.name}, {self.name}[{index!r}]: the indices are 0 to {len(self) - 1}"
            )
        return index

    def _read(self, index: int | None = None) -> list[Any]:
        query: dict[str, Any] = {self._id: self._info.preamble.id}
        if index is not None:
            query["index"] = {"index": self._index(index)}
        read = self._switch.read(**{self._kind: query})
        return [getattr(each, self._kind) for each in read]

    def _write(self, index: int, **values: Any) -> None:
        cell = {
            self._id: self._info.preamble.id, "index": {"index": self._index(index)}, **values,
        }  # fmt: skip
        entity = p4runtime_pb2.Entity(**{self._kind: cell})
        self._switch.session.send("modify", [entity], f"write {self.name}[{index}]")


class CounterHandle(_Cells):
    """Handle an indirect counter: ``leaf.counter("port_egress")[3].packets``."""

    _kind = "counter_entry"

    def __getitem__(self, index: int) -> Count:
        (cell,) = self._read(index)
        return Count(cell.data.packet_count, cell.data.byte_count)

    def __setitem__(self, index: int, count: Count) -> None:
        data = {"packet_count": count.packets, "byte_count": count.bytes}
        self._write(index, data=data)

    def read(self) -> list[Count]:
        """Return all cells in order."""
        cells = sorted(self._read(), key=lambda cell: cell.index.index)
        return [Count(cell.data.packet_count, cell.data.byte_count) for cell in cells]


class RegisterHandle(_Cells):
    """Handle a register of bit<W> values: ``leaf.register("seen")[7] = 1``. BMv2 has no registers
    in P4Runtime."""

    _kind = "register_entry"

    def __getitem__(self, index: int) -> int:
        (cell,) = self._read(index)
        return int.from_bytes(cell.data.bitstring, "big")

    def __setitem__(self, index: int, value: Value) -> None:
        width = self._info.type_spec.bitstring.bit.bitwidth
        number = read_value(value, width, f"{self._switch.name}, {self.name}[{index}]")
        self._write(index, data={"bitstring": number.to_bytes((width + 7) // 8 or 1, "big")})

    def read(self) -> list[int]:
        """Return all cells in order."""
        cells = sorted(self._read(), key=lambda cell: cell.index.index)
        return [int.from_bytes(cell.data.bitstring, "big") for cell in cells]


class MeterHandle(_Cells):
    """Handle an indirect meter: ``leaf.meter("police")[0] = Rates(...)``; None lets every packet be
    green."""

    _kind = "meter_entry"

    def __getitem__(self, index: int) -> Rates | None:
        (cell,) = self._read(index)
        return _rates(cell)

    def __setitem__(self, index: int, rates: Rates | None) -> None:
        if rates is None:
            self._write(index)
            return
        figures = (rates.committed, rates.committed_burst, rates.peak, rates.peak_burst)
        config = dict(zip(("cir", "cburst", "pir", "pburst"), figures, strict=True))
        self._write(index, config=config)

    def read(self) -> list[Rates | None]:
        """Return all cells in order."""
        return [_rates(cell) for cell in sorted(self._read(), key=lambda cell: cell.index.index)]


def _rates(cell: Any) -> Rates | None:
    if not cell.HasField("config"):
        return None
    config = cell.config
    return Rates(config.cir, config.cburst, config.pir, config.pburst)


class GroupsHandle:
    """Handle the multicast groups of the packet replication engine, by their numbers."""

    def __init__(self, switch: SwitchAccess) -> None:
        self._switch = switch

    def insert(self, group: int, ports: Sequence[int]) -> None:
        """Make a group (1 to 65535) that copies a packet to each of some ports."""
        self._switch.write(Update("insert", self._group(group, ports)))

    def modify(self, group: int, ports: Sequence[int]) -> None:
        """Let a group that the script has made copy to other ports."""
        self._switch.write(Update("modify", self._group(group, ports)))

    def delete(self, group: int) -> None:
        """Delete a group that the script has made."""
        self._switch.write(Update("delete", self._group(group, ())))

    def read(self) -> dict[int, tuple[int, ...]]:
        """Return the ports of all groups, whoever has made them, by group."""
        query = {"multicast_group_entry": {"multicast_group_id": 0}}
        found = self._switch.read(packet_replication_engine_entry=query)
        groups = (one.packet_replication_engine_entry.multicast_group_entry for one in found)
        return {
            one.multicast_group_id: tuple(sorted(each.egress_port for each in one.replicas))
            for one in groups
        }

    def _group(self, group: int, ports: Sequence[int]) -> PlannedMulticast:
        if isinstance(group, bool) or not isinstance(group, int) or not 1 <= group <= MAX_GROUP:
            raise InputError(
                f"{self._switch.name}: group {shown(group)}: the numbers are 1 to {MAX_GROUP}"
            )
        numbers = wholes(f"{self._switch.name}: group {group}: ports", ports, "[1, 2]")
        if len(set(numbers)) != len(numbers):
            raise InputError(
                f"{self._switch.name}: group {group}: ports {shown([*numbers])} has one twice"
            )
        return PlannedMulticast(group, tuple(sorted(numbers)))
