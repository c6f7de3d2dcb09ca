"""Counters, registers and meters as a script handles them."""

from dataclasses import dataclass
from typing import Any

from weft.controller.handles.access import Count, SwitchAccess
from weft.controller.handles.values import Value, read_value
from weft.switch.messages import p4runtime_pb2


@dataclass(frozen=True)
class Rates:
    """The rates of a meter's cell, in bytes or packets a second as the meter's unit is, and
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

    def _check(self) -> None:
        """Raise InputError if switches of this kind do not show such cells."""

    def _index(self, index: int) -> int:
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self):
            raise IndexError(
                f"{self._switch.name}, {self.name}[{index!r}]: the indices are 0 to {len(self) - 1}"
            )
        return index

    def _read(self, index: int | None = None) -> list[Any]:
        self._check()
        query: dict[str, Any] = {self._id: self._info.preamble.id}
        if index is not None:
            query["index"] = {"index": self._index(index)}
        read = self._switch.read(**{self._kind: query})
        return [getattr(each, self._kind) for each in read]

    def _write(self, index: int, **values: Any) -> None:
        self._check()
        cell = {
            self._id: self._info.preamble.id, "index": {"index": self._index(index)}, **values,
        }  # fmt: skip
        entity = p4runtime_pb2.Entity(**{self._kind: cell})
        self._switch.session.send("modify", [entity], f"write {self.name}[{index}]")


class CounterHandle(_Cells):
    """A handle on an indirect counter: ``leaf.counter("port_egress")[3].packets``."""

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
    """A handle on a register of bit<W> values: ``leaf.register("seen")[7] = 1``. BMv2 has no
    registers in P4Runtime."""

    _kind = "register_entry"

    def _check(self) -> None:
        self._switch.require("registers over P4Runtime", f"register {self.name}")

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
    """A handle on an indirect meter: ``leaf.meter("police")[0] = Rates(...)``; None lets every
    packet be green."""

    _kind = "meter_entry"

    def __getitem__(self, index: int) -> Rates | None:
        (cell,) = self._read(index)
        return rates_of(cell, "config")

    def __setitem__(self, index: int, rates: Rates | None) -> None:
        self._write(index, **({} if rates is None else {"config": config_of(rates)}))

    def read(self) -> list[Rates | None]:
        """Return all cells in order."""
        cells = sorted(self._read(), key=lambda cell: cell.index.index)
        return [rates_of(cell, "config") for cell in cells]


def config_of(rates: Rates) -> dict[str, int]:
    """Return the fields of a ``MeterConfig`` with these rates."""
    return {
        "cir": rates.committed, "cburst": rates.committed_burst,
        "pir": rates.peak, "pburst": rates.peak_burst,
    }  # fmt: skip


def rates_of(message: Any, field: str) -> Rates | None:
    """Return the rates of the ``MeterConfig`` in a field of a message; None if there are none."""
    if not message.HasField(field):
        return None
    config = getattr(message, field)
    return Rates(config.cir, config.cburst, config.pir, config.pburst)
