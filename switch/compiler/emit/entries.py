"""The entries that a program gives its tables, as a request of P4Runtime that writes them."""

from typing import Any

from weft.switch.compiler import ir
from weft.switch.messages import p4info_pb2, p4runtime_pb2


def entries_request(program: ir.LoweredProgram, info: Any) -> Any:
    """Return a WriteRequest that inserts all entries of a program's tables, in their order; `info`
    is its P4Info. Entries of a hidden table, or with a hidden action, are not in it."""
    request = p4runtime_pb2.WriteRequest()
    tables = {table.preamble.name: table for table in info.tables}
    actions = {action.preamble.name: action for action in info.actions}
    met = {
        node.table.name: node.table
        for pipeline in program.pipelines
        for node in pipeline.nodes
        if isinstance(node, ir.TableNode)
    }
    for name, table in met.items():
        if table.hidden:
            continue
        for entry in table.entries:
            if entry.action.hidden:
                continue
            update = request.updates.add(type=p4runtime_pb2.Update.INSERT)
            message = update.entity.table_entry
            described = tables[name]
            message.table_id = described.preamble.id
            keys = [key for key in table.keys if key.match_kind != "selector"]
            for field, key, value in zip(described.match_fields, keys, entry.keys, strict=True):
                _match(message, field.id, key, value)
            chosen = actions[entry.action.name]
            message.action.action.action_id = chosen.preamble.id
            for described_parameter, parameter, argument in zip(
                chosen.params, entry.action.parameters, entry.arguments, strict=True
            ):
                message.action.action.params.add(
                    param_id=described_parameter.id, value=_bytes(argument, parameter.width)
                )
            if _has_priorities(described):
                message.priority = entry.priority
            message.is_const = entry.constant or table.entries_constant
    return request


def _has_priorities(described: Any) -> bool:
    """Return whether the entries of a table have priorities, by its keys."""
    kinds = {field.match_type for field in described.match_fields}
    return bool(kinds & _WITH_PRIORITY)


_WITH_PRIORITY = {
    p4info_pb2.MatchField.TERNARY, p4info_pb2.MatchField.RANGE, p4info_pb2.MatchField.OPTIONAL
}  # fmt: skip


def _bytes(value: int, width: int) -> bytes:
    return (value & ((1 << width) - 1)).to_bytes((width + 7) // 8, "big")


def _match(message: Any, number: int, key: ir.LoweredKey, value: Any) -> None:
    """Add what an entry has for a key, but for what matches everything, which is left out."""
    width = key.width
    full = (1 << width) - 1
    if key.match_kind == "exact":
        message.match.add(field_id=number).exact.value = _bytes(value, width)
        return
    first, second = value
    match key.match_kind:
        case "lpm" if second:
            field = message.match.add(field_id=number).lpm
            field.value, field.prefix_len = _bytes(first, width), second
        case "ternary" if second & full:
            field = message.match.add(field_id=number).ternary
            field.value, field.mask = _bytes(first, width), _bytes(second, width)
        case "optional" if second & full:
            message.match.add(field_id=number).optional.value = _bytes(first, width)
        case "range" if (first & full, second & full) != (0, full):
            field = message.match.add(field_id=number).range
            field.low, field.high = _bytes(first, width), _bytes(second, width)
