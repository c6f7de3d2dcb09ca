"""The lowered program as BMv2 JSON (behavioral-model, docs/JSON_format.md, version 2.23)."""

from __future__ import annotations

import json
from typing import Any

from weft.switch.compiler import ir
from weft.switch.compiler.emit.flatten import flatten
from weft.switch.compiler.emit.json_expressions import ExpressionEmitter, hexadecimal
from weft.switch.compiler.types import base_type, scalar_width

VERSION = [2, 23]
COMPILER = "weft p4c"

_TABLE_KINDS = ("range", "ternary", "lpm", "exact")


class Emitter(ExpressionEmitter):
    """Writes one program."""

    # Headers

    def header_types(self) -> list[dict[str, Any]]:
        result = []
        for index, model in enumerate(self.program.header_types):
            item: dict[str, Any] = {
                "name": model.name,
                "id": index,
                "fields": [list(field) for field in model.fields],
            }
            if model.max_length is not None:
                item["max_length"] = model.max_length
            result.append(item)
        return result

    def headers(self) -> list[dict[str, Any]]:
        return [
            {
                "name": header.name, "id": index, "header_type": header.header_type,
                "metadata": header.metadata, "pi_omit": True,
            }
            for index, header in enumerate(self.program.headers)
        ]  # fmt: skip

    def stacks(self) -> list[dict[str, Any]]:
        return [
            {
                "name": stack.name, "id": index, "header_type": stack.element_type,
                "size": len(stack.elements),
                "header_ids": [self.header_ids[name] for name in stack.elements],
            }
            for index, stack in enumerate(
                item for item in self.program.stacks if not item.of_unions
            )
        ]  # fmt: skip

    def unions(self) -> dict[str, list[dict[str, Any]]]:
        ids = {union.name: index for index, union in enumerate(self.program.unions)}
        return {
            "header_union_types": [
                {"name": name, "id": index, "headers": [list(item) for item in members]}
                for index, (name, members) in enumerate(self.program.union_types.items())
            ],
            "header_unions": [
                {
                    "name": union.name, "id": index, "union_type": union.union_type,
                    "header_ids": [self.header_ids[name] for name in union.members],
                    "pi_omit": True,
                }
                for index, union in enumerate(self.program.unions)
            ],
            "header_union_stacks": [
                {
                    "name": stack.name, "id": index, "union_type": stack.element_type,
                    "header_union_ids": [ids[name] for name in stack.elements], "pi_omit": True,
                }
                for index, stack in enumerate(
                    item for item in self.program.stacks if item.of_unions
                )
            ],
        }  # fmt: skip

    # Parser and deparser

    def parser(self) -> dict[str, Any]:
        states = self.program.states
        return {
            "name": "parser",
            "id": 0,
            "init_state": states[0].name if states else "start",
            "parse_states": [
                {
                    "name": state.name,
                    "id": index,
                    "parser_ops": [self.parser_operation(item) for item in state.operations],
                    "transitions": [self.transition(case, state) for case in state.cases],
                    "transition_key": [self.expression(key) for key, _ in state.key],
                }
                for index, state in enumerate(states)
            ],
        }

    def parser_operation(self, node: ir.Do) -> dict[str, Any]:
        operation = node.operation
        if operation in ("extract", "extract_VL"):
            parameters: list[Any] = [self.expression(node.operands[0])]
            if len(node.operands) > 1:
                length = self.expression(node.operands[1])
                parameters.append({"type": "expression", "value": length})
        elif operation == "assign" and isinstance(node.operands[0], ir.Field):
            operation = "set"
            parameters = [self.parser_operand(item) for item in node.operands]
        elif operation == "verify":
            parameters = [self.expression(item) for item in node.operands]
        elif operation == "advance":
            parameters = [self.parser_operand(node.operands[0])]
        else:
            operation = "primitive"
            parameters = [self.primitive(node)]
            parameters[0].pop("source_info", None)
        return {"op": operation, "parameters": parameters}

    def parser_operand(self, node: ir.Expression) -> dict[str, Any]:
        """A parameter of a parser's own operation: the last of a stack only as an expression."""
        if isinstance(node, (ir.LastField, ir.LastUnionField)):
            return {"type": "expression", "value": self.expression(node)}
        return self.operand(node)

    def transition(self, case: ir.TransitionCase, state: ir.State) -> dict[str, Any]:
        value: str | None = None
        mask: str | None = None
        if case.kind == "hexstr":
            assert isinstance(case.value, int)
            width = sum((item + 7) // 8 * 8 for _, item in state.key)
            value = hexadecimal(case.value, width)
            mask = None if case.mask is None else hexadecimal(case.mask, width)
        elif case.kind == "parse_vset":
            value = str(case.value)
        return {"type": case.kind, "value": value, "mask": mask, "next_state": case.next_state}

    def value_sets(self) -> list[dict[str, Any]]:
        return [
            {
                "name": model.name, "id": index,
                "compressed_bitwidth": sum(scalar_width(kind) or 0 for _, kind, _ in model.fields),
                "max_size": model.size,
            }
            for index, model in enumerate(self.program.value_sets)
        ]  # fmt: skip

    # Stateful objects

    def counters(self) -> list[dict[str, Any]]:
        result = []
        for index, model in enumerate(self.program.counters):
            item: dict[str, Any] = {
                "name": model.name, "id": index, "size": model.size,
                "is_direct": model.table is not None,
            }  # fmt: skip
            if model.table is not None:
                item["binding"] = model.table
            result.append(self.with_source(item, model.span))
        return result

    def meters(self) -> list[dict[str, Any]]:
        result = []
        for index, model in enumerate(self.program.meters):
            item: dict[str, Any] = {
                "name": model.name, "id": index, "is_direct": model.table is not None,
                "rate_count": 2, "type": model.unit, "size": model.size,
            }  # fmt: skip
            if model.table is not None and model.result is not None:
                item["binding"] = model.table
                item["result_target"] = [model.result.header, model.result.name]
            result.append(self.with_source(item, model.span))
        return result

    def registers(self) -> list[dict[str, Any]]:
        return [
            self.with_source(
                {
                    "name": model.name, "id": index, "size": model.size,
                    "bitwidth": scalar_width(base_type(model.type)) if model.type else 0,
                },
                model.span,
            )
            for index, model in enumerate(self.program.registers)
        ]  # fmt: skip

    def calculations(self) -> list[dict[str, Any]]:
        result = []
        for index, model in enumerate(self.program.calculations):
            inputs: list[dict[str, Any]] = []
            for expression, width in model.inputs:
                if isinstance(expression, ir.Number):
                    value = hexadecimal(expression.value & ((1 << width) - 1), width)
                    inputs.append({"type": "hexstr", "value": value, "bitwidth": width})
                else:
                    inputs.append(self.expression(expression))
            if model.with_payload:
                inputs.append({"type": "payload", "value": None})
            item = {"name": model.name, "id": index, "algo": model.algorithm, "input": inputs}
            result.append(self.with_source(item, model.span))
        return result

    def checksums(self) -> list[dict[str, Any]]:
        return [
            self.with_source(
                {
                    "name": model.name, "id": index, "type": "generic",
                    "target": [model.target.header, model.target.name],
                    "calculation": model.calculation,
                    "verify": model.verify, "update": model.update,
                    "if_cond": _bare_constant(self.condition(model.condition)),
                },
                model.span,
            )
            for index, model in enumerate(self.program.checksums)
        ]  # fmt: skip

    def digests(self) -> list[dict[str, Any]]:
        return [
            {
                "id": model.id, "name": model.name,
                "elements": [self.expression(field) for field in model.fields],
            }
            for model in self.program.digests
        ]  # fmt: skip

    def field_lists(self) -> list[dict[str, Any]]:
        return [
            {
                "id": index + 1, "name": f"field_list_{index + 1}",
                "elements": [self.expression(field) for field in fields],
            }
            for index, (_, fields) in enumerate(self.program.field_lists)
        ]  # fmt: skip

    # Actions and pipelines

    def actions(self) -> list[dict[str, Any]]:
        result = []
        for index, model in enumerate(self.program.actions):
            model.id = index
            primitives = flatten(model.body, self.reporter, model.name)
            result.append(
                {
                    "name": model.name,
                    "id": index,
                    "runtime_data": [
                        {"name": item.name, "bitwidth": item.width} for item in model.parameters
                    ],
                    "primitives": [self.primitive(item) for item in primitives],
                }
            )
        return result

    def pipelines(self) -> list[dict[str, Any]]:
        result = []
        table_id = condition_id = profile_id = 0
        for index, pipeline in enumerate(self.program.pipelines):
            tables: list[dict[str, Any]] = []
            conditions: list[dict[str, Any]] = []
            for node in pipeline.nodes:
                if isinstance(node, ir.TableNode):
                    tables.append(self.table(node, table_id))
                    table_id += 1
                else:
                    conditions.append(self.conditional(node, condition_id))
                    condition_id += 1
            profiles = []
            for profile in self.program.profiles:
                if profile.pipeline == pipeline.name:
                    profiles.append(self.profile(profile, profile_id))
                    profile_id += 1
            result.append(
                {
                    "name": pipeline.name, "id": index, "init_table": pipeline.first,
                    "tables": tables, "action_profiles": profiles, "conditionals": conditions,
                }
            )  # fmt: skip
        return result

    def profile(self, model: ir.ActionProfile, number: int) -> dict[str, Any]:
        item: dict[str, Any] = {"name": model.name, "id": number, "max_size": model.size}
        if model.algorithm is not None:
            item["selector"] = {
                "algo": model.algorithm,
                "input": [self.expression(field) for field in model.inputs or ()],
            }
        return self.with_source(item, model.span)

    def conditional(self, node: ir.ConditionNode, number: int) -> dict[str, Any]:
        item = {
            "name": node.name, "id": number, "expression": self.condition(node.condition),
            "true_next": node.true_next, "false_next": node.false_next,
        }  # fmt: skip
        return self.with_source(item, node.span)

    def table(self, node: ir.TableNode, number: int) -> dict[str, Any]:
        table = node.table
        keys = [key for key in table.keys if key.match_kind != "selector"]
        kinds = {_key_kind(key) for key in keys} | {"exact"}
        profile = table.profile
        kind = "simple" if profile is None else "indirect_ws" if profile.algorithm else "indirect"
        item: dict[str, Any] = {
            "name": table.name,
            "id": number,
            "key": [
                {
                    "match_type": _key_kind(key), "name": key.name,
                    "target": [key.target.header, key.target.name], "mask": None,
                }
                for key in keys
            ],
            "match_type": next(name for name in _TABLE_KINDS if name in kinds),
            "type": kind,
            "max_size": table.capacity,
            "with_counters": table.counter is not None,
            "support_timeout": table.support_timeout,
            "direct_meters": table.meter.name if table.meter is not None else None,
            "action_ids": [choice.action.id for choice in table.actions],
            "actions": [choice.action.name for choice in table.actions],
            "base_default_next": node.default_next,
        }  # fmt: skip
        if profile is not None:
            item["action_profile"] = profile.name
        if node.next_by_action is not None:
            item["next_tables"] = dict(node.next_by_action)
        else:
            item["next_tables"] = {"__HIT__": node.next_hit, "__MISS__": node.next_miss}
        if profile is None and table.default_action is not None:
            item["default_entry"] = {
                "action_id": table.default_action.id,
                "action_const": table.default_constant,
                "action_data": self.action_data(table.default_action, table.default_arguments),
                "action_entry_const": table.default_constant,
            }
        if table.entries:
            item["entries"] = [
                self.entry(entry, keys, table, number)
                for number, entry in enumerate(table.entries, 1)
            ]
        return self.with_source(item, table.span)

    def action_data(self, action: ir.Action, arguments: list[int]) -> list[str]:
        return [
            hexadecimal(value, item.width)
            for value, item in zip(arguments, action.parameters, strict=True)
        ]

    def entry(
        self, entry: ir.Entry, keys: list[ir.Key], table: ir.Table, number: int
    ) -> dict[str, Any]:
        values = [
            value
            for value, key in zip(entry.keys, table.keys, strict=True)
            if key.match_kind != "selector"
        ]
        item = {
            "match_key": [_match(key, value) for key, value in zip(keys, values, strict=True)],
            "action_entry": {
                "action_id": entry.action.id,
                "action_data": self.action_data(entry.action, entry.arguments),
            },
            # In BMv2 a lower number wins.
            "priority": number if entry.rank is None else entry.rank,
        }
        # What p4c leaves out and BMv2 does not read: P4Runtime wants to know of single entries.
        if entry.constant and not table.entries_constant:
            item["is_const"] = True
        if _has_priorities_of_its_own(table):
            item["p4runtime_priority"] = entry.priority
        return self.with_source(item, entry.span)

    def document(self) -> dict[str, Any]:
        """The whole JSON document."""
        actions = self.actions()
        return {
            "header_types": self.header_types(),
            "headers": self.headers(),
            "header_stacks": self.stacks(),
            **self.unions(),
            "field_lists": self.field_lists(),
            "errors": [[name, index] for index, name in enumerate(self.program.errors)],
            "enums": [
                {"name": name, "entries": [[item, index] for index, item in enumerate(members)]}
                for name, members in self.program.enums
            ],
            "parsers": [self.parser()],
            "parse_vsets": self.value_sets(),
            "deparsers": [
                {
                    "name": "deparser",
                    "id": 0,
                    "order": self.program.deparser,
                    "primitives": [self.primitive(item) for item in self.program.deparser_code],
                }
            ],
            "meter_arrays": self.meters(),
            "counter_arrays": self.counters(),
            "register_arrays": self.registers(),
            "calculations": self.calculations(),
            "learn_lists": self.digests(),
            "actions": actions,
            "pipelines": self.pipelines(),
            "checksums": self.checksums(),
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": [
                [name, [field.header, field.name]] for name, field in self.program.aliases
            ],
            "program": None,
            "__meta__": {"version": VERSION, "compiler": COMPILER},
        }

    def text(self, name: str) -> str:
        """The JSON text; `name` is the program's own name."""
        document = self.document()
        document["program"] = name
        return _laid_out(document) + "\n"


_SHORT = 100
"""Characters that a part of the document may have to stand in a line of its own, if it need not."""
_OUTER, _INNER = 3, 6
"""Levels of the document: above these all parts are indented, from these on none is."""
_encode = json.JSONEncoder(ensure_ascii=False).encode


def _laid_out(value: Any, level: int = 0) -> str:
    """JSON text for people to read, and for programs to read fast: what is short, or deep within,
    is in one line."""
    if level >= _OUTER or not value or not isinstance(value, (dict, list)):
        line = _encode(value)
        if level >= _INNER or len(line) <= _SHORT or not isinstance(value, (dict, list)):
            return line
    inner = level + 1
    if isinstance(value, dict):
        begin, end = "{}"
        items = [f"{_encode(key)}: {_laid_out(item, inner)}" for key, item in value.items()]
    else:
        begin, end = "[]"
        items = [_laid_out(item, inner) for item in value]
    margin = "\n" + "  " * level
    return f"{begin}{margin}  " + f",{margin}  ".join(items) + f"{margin}{end}"


def _key_kind(key: ir.Key) -> str:
    return "ternary" if key.match_kind == "optional" else key.match_kind


def _match(key: ir.Key, value: Any) -> dict[str, Any]:
    kind = _key_kind(key)
    width = key.width
    if kind == "exact":
        return {"match_type": kind, "key": hexadecimal(value, width)}
    first, second = value
    if kind == "lpm":
        return {"match_type": kind, "key": hexadecimal(first, width), "prefix_length": second}
    if kind == "range":
        return {
            "match_type": kind,
            "start": hexadecimal(first, width),
            "end": hexadecimal(second, width),
        }
    return {
        "match_type": kind,
        "key": hexadecimal(first, width),
        "mask": hexadecimal(second, width),
    }


def _bare_constant(condition: dict[str, Any]) -> dict[str, Any]:
    """A checksum's condition; BMv2 crashes on a constant one that is wrapped as an expression."""
    inner = condition["value"]
    return inner if isinstance(inner, dict) and inner.get("type") == "bool" else condition


def _has_priorities_of_its_own(table: ir.Table) -> bool:
    """Whether the source gives entries that can change other priorities than N to 1."""
    given = [entry.priority for entry in table.entries]
    return (
        not table.entries_constant
        and given != list(range(len(given), 0, -1))
        and given == sorted(given, reverse=True)
        and all(0 < priority < 1 << 31 for priority in given)
    )
