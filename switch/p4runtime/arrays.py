"""Indirect counters and registers (specification sections "CounterEntry", "RegisterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from switch.engine.control import CounterCell
from switch.p4runtime import bytestrings
from switch.p4runtime.device import Device
from switch.p4runtime.p4info import Array
from switch.p4runtime.refusals import Refusal, invalid, unimplemented

MODIFY = p4runtime_pb2.Update.MODIFY


def _indices(kind: str, array: Array, message: Any) -> range:
    """The cells that a message means: the one of its index, or all where it has none."""
    if not message.HasField("index"):
        return range(array.size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{kind} {array.name}: index {index} is below 0")
    if index >= array.size:
        raise Refusal(
            code_pb2.OUT_OF_RANGE,
            f"{kind} {array.name}: index {index}; the last one is {array.size - 1}",
        )
    return range(index, index + 1)


def write_counter(device: Device, kind: int, message: Any) -> None:
    """Set one cell, or all of a counter; only MODIFY."""
    if kind != MODIFY:
        raise invalid("a counter can only be modified, neither inserted nor deleted")
    counter = device.info.counter(message.counter_id)
    indices = _indices("counter", counter, message)
    if not message.HasField("data"):
        return
    data = message.data
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"counter {counter.name}: a counter cannot be set below 0")
    for index in indices:
        device.control.write_counter(
            counter.name, index, CounterCell(data.packet_count, data.byte_count)
        )


def read_counters(device: Device, query: Any) -> Iterator[Any]:
    """One cell, all of a counter (no index), or all of all counters (counter id 0)."""
    info = device.info
    counters = [info.counter(query.counter_id)] if query.counter_id else info.counters.values()
    for counter in counters:
        if query.counter_id and query.HasField("index"):
            index = _indices("counter", counter, query).start
            cells = [(index, device.control.read_counter(counter.name, index))]
        else:
            cells = list(enumerate(device.control.read_counters(counter.name)))
        for index, cell in cells:
            entity = p4runtime_pb2.Entity()
            message = entity.counter_entry
            message.counter_id = counter.id
            message.index.index = index
            message.data.packet_count = cell.packets
            message.data.byte_count = cell.bytes
            yield entity


def write_register(device: Device, kind: int, message: Any) -> None:
    """Set one cell, or all of a register; only MODIFY."""
    if kind != MODIFY:
        raise invalid("a register can only be modified, neither inserted nor deleted")
    register = _plain(device.info.register(message.register_id))
    if message.data.WhichOneof("data") != "bitstring":
        raise invalid(f"register {register.name} of bit<{register.width}> takes a bitstring")
    what = f"register {register.name}"
    value = bytestrings.decode(message.data.bitstring, register.width, what)
    for index in _indices("register", register, message):
        device.control.write_register(register.name, index, value)


def read_registers(device: Device, query: Any) -> Iterator[Any]:
    """One cell, all of a register (no index), or all of all registers (register id 0)."""
    info = device.info
    if query.register_id:
        registers = [_plain(info.register(query.register_id))]
    else:
        registers = [register for register in info.registers.values() if register.width]
    for register in registers:
        for index in _indices("register", register, query):
            entity = p4runtime_pb2.Entity()
            message = entity.register_entry
            message.register_id = register.id
            message.index.index = index
            value = device.control.read_register(register.name, index)
            message.data.bitstring = bytestrings.encode(value)
            yield entity


def _plain(register: Array) -> Array:
    if not register.width:
        raise unimplemented(f"register {register.name}: only registers of bit<W> are supported")
    return register
