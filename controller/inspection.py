"""Inspection of a switch: it writes entries of tables and cells of counters as text.

Reading needs no ownership of the switch, so it disturbs nobody. Names and widths are those of the
P4Info that the switch itself gives.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import grpc

from weft.base.errors import InputError
from weft.controller.remote import DEADLINE_S, Address, SwitchError, client_at
from weft.switch.messages import p4runtime_pb2

_ADDRESS = re.compile("addr|ip|mac|eth", re.IGNORECASE)
"""A key or parameter whose name has this in it is an address if it is as wide as one."""


class Inspector:
    """A reader of one switch, as a context manager.

    Args:
        name: the switch's name, for messages.
        address: ``unix:PATH`` or ``HOST:PORT``, or a switch in this process.

    Raises:
        SwitchError: the switch is not there, or runs no program.
    """

    def __init__(self, name: str, device_id: int, address: Address) -> None:
        self._name = name
        self._device_id = device_id
        self._client = client_at(name, device_id, address)
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=device_id, response_type="P4INFO_AND_COOKIE"
        )
        try:
            answer = self._client.stub.GetForwardingPipelineConfig(request, timeout=DEADLINE_S)
        except grpc.RpcError as error:
            self._client.tear_down()
            raise self._error("tell its program", error) from None
        self._p4info = answer.config.p4info

    def __enter__(self) -> "Inspector":
        return self

    def __exit__(self, *error: object) -> None:
        self._client.tear_down()

    @property
    def tables(self) -> list[str]:
        """Return the names of the program's tables."""
        return [table.preamble.name for table in self._p4info.tables]

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return, by table, for how many entries it has room, and how many it has."""
        entries = Counter(
            entity.table_entry.table_id
            for table in self._p4info.tables
            for entity in self._read(table_entry={"table_id": table.preamble.id})
        )
        return {
            table.preamble.name: (table.size, entries[table.preamble.id])
            for table in self._p4info.tables
        }

    def table(self, name: str) -> list[str]:
        """Return the entries of a table, one on each line, the default action last.

        Raises:
            InputError: the program has no such table; the full name or its end will do.
        """
        table = self._find("table", name, self._p4info.tables)
        return [
            entry_text(self._p4info, table, entity.table_entry)
            for is_default in (False, True)
            for entity in self._read(
                table_entry={"table_id": table.preamble.id, "is_default_action": is_default}
            )
        ]

    def counters(self) -> list[str]:
        """Return the cells that have counted something, one on each line."""
        found = []
        for counter in self._p4info.counters:
            read = self._read(counter_entry={"counter_id": counter.preamble.id})
            cells = (entity.counter_entry for entity in read)
            found += [(counter, cell.index.index, cell.data) for cell in cells]
        by_id = {table.preamble.id: table for table in self._p4info.tables}
        for counter in self._p4info.direct_counters:
            table = by_id[counter.direct_table_id]
            query = {"table_entry": {"table_id": table.preamble.id}}
            for entity in self._read(direct_counter_entry=query):
                entry = entity.direct_counter_entry
                found.append((counter, _keys(table, entry.table_entry), entry.data))
        return [
            f"{counter.preamble.name}[{place}]: {data.packet_count:,} packets, "
            f"{data.byte_count:,} bytes"
            for counter, place, data in found
            if data.packet_count or data.byte_count
        ]

    def entries(self) -> int:
        """Return how many entries all tables have together, including those that the program itself
        brings."""
        return sum(1 for _ in self._read(table_entry=p4runtime_pb2.TableEntry()))

    def _read(self, **query: Any) -> Iterator[Any]:
        """Return the entities that a query selects; the keyword names the kind of entity."""
        request = p4runtime_pb2.ReadRequest(device_id=self._device_id)
        request.entities.add(**query)
        try:
            for response in self._client.stub.Read(request, timeout=DEADLINE_S):
                yield from response.entities
        except grpc.RpcError as error:
            raise self._error("be read", error) from None

    def _find(self, what: str, name: str, among: Any) -> Any:
        for one in among:
            whole = one.preamble.name
            if name in (whole, one.preamble.alias) or whole.endswith(f".{name}"):
                return one
        names = ", ".join(one.preamble.name for one in among) or "none"
        raise InputError(f"{what} {name!r}: the program of {self._name} has {names}")

    def _error(self, what: str, error: Any) -> SwitchError:
        code = error.code().name
        return SwitchError(f"{self._name} could not {what}: {code}: {error.details()}", code)


def entry_text(p4info: Any, table: Any, entry: Any) -> str:
    """Return an entry as text.

    Args:
        p4info: the ``p4.config.v1.P4Info`` of the switch's program.
        table: the ``p4.config.v1.Table`` in it.
        entry: the ``p4.v1.TableEntry``.
    """
    actions = {action.preamble.id: action for action in p4info.actions}
    keys = "default" if entry.is_default_action else _keys(table, entry)
    priority = f" priority {entry.priority}" if entry.priority else ""
    return f"{table.preamble.name} {keys}{priority} -> {_target(entry.action, actions)}"


def _keys(table: Any, entry: Any) -> str:
    given = {match.field_id: match for match in entry.match}
    shown = (
        f"{key.name}={_match(given[key.id], key) if key.id in given else '*'}"
        for key in table.match_fields
    )
    return " ".join(shown) or "(no key)"


def _target(target: Any, actions: Mapping[int, Any]) -> str:
    kind = target.WhichOneof("type")
    if kind == "action":
        return _action(target.action, actions)
    if kind == "action_profile_action_set":
        several = target.action_profile_action_set.action_profile_actions
        return " | ".join(f"{one.weight} x {_action(one.action, actions)}" for one in several)
    if kind is None:
        return "nothing"
    return f"{kind.removeprefix('action_profile_').removesuffix('_id')} {getattr(target, kind)}"


def _action(action: Any, actions: Mapping[int, Any]) -> str:
    info = actions.get(action.action_id)
    if info is None:
        return f"action {action.action_id:#x}"
    params = {param.id: param for param in info.params}
    given = ", ".join(
        f"{params[one.param_id].name}={_value(one.value, params[one.param_id])}"
        for one in action.params
    )
    return f"{info.preamble.name}({given})"


def _match(match: Any, key: Any) -> str:
    kind = match.WhichOneof("field_match_type")
    if kind == "lpm":
        return f"{_value(match.lpm.value, key)}/{match.lpm.prefix_len}"
    if kind == "ternary":
        mask = int.from_bytes(match.ternary.mask, "big")
        return f"{_value(match.ternary.value, key)}&{mask:#x}"
    if kind == "range":
        return f"{_value(match.range.low, key)}..{_value(match.range.high, key)}"
    return _value(getattr(match, kind).value, key)


def _value(value: bytes, field: Any) -> str:
    """Return a value as text: as an address, a text or a number, by its width and the name of its
    key or parameter."""
    if field.bitwidth == 0:
        return value.decode("utf-8", "replace")
    number = int.from_bytes(value, "big")
    if field.bitwidth == 32 and _ADDRESS.search(field.name):
        return ".".join(map(str, number.to_bytes(4, "big")))
    if field.bitwidth == 48 and _ADDRESS.search(field.name):
        return number.to_bytes(6, "big").hex(":")
    return str(number) if field.bitwidth <= 48 else hex(number)
