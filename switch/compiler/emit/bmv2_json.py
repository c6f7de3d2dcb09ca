"""The lowered program as BMv2 JSON (behavioral-model, docs/JSON_format.md, version 2.23)."""

import json
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from weft.switch.compiler import ir
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.emit.primitives import (
    Json,
    SourceNotes,
    condition,
    expression,
    flatten,
    hexadecimal,
    operand,
)
from weft.switch.compiler.types import resolved, size_in_bits

VERSION = [2, 23]
COMPILER = "weft p4c"

_TABLE_KINDS = ("range", "ternary", "lpm", "exact")
_WITH_SOURCE = ("counter_arrays", "meter_arrays", "register_arrays", "calculations", "checksums")
"""The lists whose things tell where in the source they come from."""
_SHORT = 100
"""The most characters of a part of the document that stands in one line though it need not."""


class Emitter:
    """An emitter writes one program. `notes` tell where in the source its parts come from."""

    def __init__(self, program: ir.LoweredProgram, reporter: Reporter, notes: SourceNotes) -> None:
        self.program = program
        self.reporter = reporter
        self.notes = notes
        self.ids = {item.name: number for number, item in enumerate(program.headers)}
        self.ids |= {item.name: number for number, item in enumerate(program.unions)}

    def listed(self, part: str, models: Iterable[Any]) -> list[Json]:
        """Return a part of the document that is a list of things with names and numbers."""
        items = [
            ({"name": model.name, "id": number, **_FIELDS[part](model, self.ids)}, model)
            for number, model in enumerate(models)
        ]
        noted = part in _WITH_SOURCE
        return [self.notes.add(item, model.span) if noted else item for item, model in items]

    # Parser and deparser

    def parser(self, model: ir.LoweredParser, number: int) -> Json:
        """Return a parser with its states."""
        states = model.states
        return {
            "name": model.name,
            "id": number,
            "init_state": states[0].name if states else "start",
            "parse_states": [self.parse_state(*numbered) for numbered in enumerate(states)],
        }

    def parse_state(self, number: int, state: ir.ParseState) -> Json:
        """Return a state of a parser."""
        item = {
            "name": state.name,
            "id": number,
            "parser_ops": [
                self.notes.add(self.parser_operation(item), item.span) for item in state.operations
            ],
            "transitions": [_transition(case, state) for case in state.cases],
            "transition_key": [expression(key) for key, _ in state.key],
        }
        self.notes.add(item, state.transition_span, "transition_source_info")  # BMv2 asks for none
        return self.notes.add(item, state.span)

    def parser_operation(self, node: ir.Do) -> Json:
        """Return an operation of a parser's state."""
        operation, operands = node.operation, node.operands
        match operation:
            case "extract" | "extract_VL":
                lengths = [
                    {"type": "expression", "value": expression(item)} for item in operands[1:]
                ]
                parameters = [expression(operands[0]), *lengths]
            case "assign" if isinstance(operands[0], ir.HeaderField):
                operation, parameters = "set", [_parser_operand(item) for item in operands]
            case "verify":
                parameters = [expression(item) for item in operands]
            case "advance":
                parameters = [_parser_operand(operands[0])]
            case _:
                primitive = {"op": operation, "parameters": [operand(item) for item in operands]}
                operation, parameters = "primitive", [primitive]
        return {"op": operation, "parameters": parameters}

    # Lists of fields

    def digests(self) -> list[Json]:
        """Return the digests, which BMv2 calls learn lists."""
        return [
            {
                "id": model.id, "name": model.name,
                "elements": [expression(field) for field in model.fields],
            }
            for model in self.program.digests
        ]  # fmt: skip

    def field_lists(self) -> list[Json]:
        """Return the lists of fields that are preserved when packets are sent again."""
        return [
            {
                "id": index + 1, "name": f"field_list_{index + 1}",
                "elements": [expression(field) for field in fields],
            }
            for index, (_, fields) in enumerate(self.program.field_lists)
        ]  # fmt: skip

    # Actions and pipelines

    def actions(self) -> list[Json]:
        """Return the actions, and number them."""
        for index, model in enumerate(self.program.actions):
            model.id = index
        return [self.action(model) for model in self.program.actions]

    def action(self, model: ir.LoweredAction) -> Json:
        """Return an action; where the compiler made it of statements, these have their places."""
        item = {
            "name": model.name,
            "id": model.id,
            "runtime_data": [
                {"name": item.name, "bitwidth": item.width} for item in model.parameters
            ],
            "primitives": [
                self.notes.primitive(item)
                for item in flatten(model.body, self.reporter, model.name)
            ],
        }
        return item if model.hidden else self.notes.add(item, model.span)

    def pipelines(self) -> list[Json]:
        """Return the pipelines with their tables, action profiles and conditions."""
        tables, conditions, profiles = count(), count(), count()  # over all pipelines
        return [
            {
                "name": pipeline.name,
                "id": index,
                "init_table": pipeline.first,
                "tables": [
                    self.table(node, next(tables))
                    for node in pipeline.nodes
                    if isinstance(node, ir.TableNode)
                ],
                "action_profiles": [
                    self.profile(profile, next(profiles))
                    for profile in self.program.profiles
                    if profile.pipeline == pipeline.name
                ],
                "conditionals": [
                    self.conditional(node, next(conditions))
                    for node in pipeline.nodes
                    if isinstance(node, ir.ConditionNode)
                ],
            }
            for index, pipeline in enumerate(self.program.pipelines)
        ]

    def profile(self, model: ir.ActionProfile, number: int) -> Json:
        """Return an action profile or selector."""
        item: Json = {"name": model.name, "id": number, "max_size": model.size}
        if model.algorithm is not None:
            item["selector"] = {
                "algo": model.algorithm,
                "input": [expression(field) for field in model.inputs or ()],
            }
        return self.notes.add(item, model.span)

    def conditional(self, node: ir.ConditionNode, number: int) -> Json:
        """Return a condition with the nodes that may follow."""
        item = {
            "name": node.name, "id": number, "expression": condition(node.condition),
            "true_next": node.true_next, "false_next": node.false_next,
        }  # fmt: skip
        return self.notes.add(item, node.span)

    def table(self, node: ir.TableNode, number: int) -> Json:
        """Return a table with its key, actions, entries and the nodes that may follow."""
        table = node.table
        keys = [key for key in table.keys if key.match_kind != "selector"]
        kinds = {_key_kind(key) for key in keys} | {"exact"}
        profile = table.profile
        kind = "simple" if profile is None else "indirect_ws" if profile.algorithm else "indirect"
        item: Json = {
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
        if table.counting is not None:  # BMv2 takes no notice: it counts in all
            item["counting_actions"] = [action.id for action in table.counting]
        if profile is not None:
            item["action_profile"] = profile.name
        item["next_tables"] = (
            {"__HIT__": node.next_hit, "__MISS__": node.next_miss}
            if node.next_by_action is None
            else dict(node.next_by_action)
        )
        default = table.default_action
        if default is not None and (profile is None or default.name != "NoAction"):
            item["default_entry"] = {
                "action_id": default.id,
                # BMv2 takes no const action of a table with a profile, but a const entry.
                "action_const": table.default_constant and profile is None,
                "action_data": _action_data(default, table.default_arguments),
                "action_entry_const": table.default_constant,
            }
        if table.entries:
            item["entries"] = [
                self.entry(entry, keys, table, number)
                for number, entry in enumerate(table.entries, 1)
            ]
        return self.notes.add(item, table.span)

    def entry(
        self, entry: ir.LoweredEntry, keys: list[ir.LoweredKey], table: ir.LoweredTable, number: int
    ) -> Json:
        """Return an entry that the program gives a table; `number` is its place from 1 on."""
        values = dict(zip((id(key) for key in table.keys), entry.keys, strict=True))
        item = {
            "match_key": [_match(key, values[id(key)]) for key in keys],
            "action_entry": {
                "action_id": entry.action.id,
                "action_data": _action_data(entry.action, entry.arguments),
            },
            # In BMv2 a lower number wins.
            "priority": number if entry.rank is None else entry.rank,
        }
        # What p4c leaves out and BMv2 does not read: P4Runtime wants to know of single entries.
        if entry.constant and not table.entries_constant:
            item["is_const"] = True
        if _has_priorities_of_its_own(table):
            item["p4runtime_priority"] = entry.priority
        return self.notes.add(item, entry.span)

    def document(self) -> Json:
        """Return the whole JSON document."""
        program, actions = self.program, self.actions()  # which numbers them
        return {
            "header_types": self.listed("header_types", program.header_types),
            "headers": self.listed("headers", program.headers),
            "header_stacks": self.listed(
                "header_stacks", [item for item in program.stacks if not item.of_unions]
            ),
            "header_union_types": [
                {"name": name, "id": index, "headers": [list(item) for item in members]}
                for index, (name, members) in enumerate(program.union_types.items())
            ],
            "header_unions": self.listed("header_unions", program.unions),
            "header_union_stacks": self.listed(
                "header_union_stacks", [item for item in program.stacks if item.of_unions]
            ),
            "field_lists": self.field_lists(),
            "errors": [[name, index] for index, name in enumerate(program.errors)],
            "enums": [
                {"name": name, "entries": [[item, index] for index, item in enumerate(members)]}
                for name, members in program.enums
            ],
            "parsers": [self.parser(*each) for each in zip(program.parsers, count(), strict=False)],
            "parse_vsets": self.listed("parse_vsets", program.value_sets),
            "deparsers": [
                {
                    "name": model.name,
                    "id": number,
                    "order": model.order,
                    "primitives": [self.notes.primitive(item) for item in model.code],
                }
                for number, model in enumerate(program.deparsers)
            ],
            "meter_arrays": self.listed("meter_arrays", program.meters),
            "counter_arrays": self.listed("counter_arrays", program.counters),
            "register_arrays": self.listed("register_arrays", program.registers),
            "calculations": self.listed("calculations", program.calculations),
            "learn_lists": self.digests(),
            "actions": actions,
            "pipelines": self.pipelines(),
            "checksums": self.listed("checksums", program.checksums),
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": [
                [name, [field.header, field.name]] for name, field in program.aliases
            ],
            "program": None,
            "__meta__": {"version": VERSION, "compiler": COMPILER},
            **program.document_parts,
        }

    def text(self, name: str) -> str:
        """Return the JSON text; `name` is the program's own name."""
        return _laid_out({**self.document(), "program": name}) + "\n"


_FIELDS: dict[str, Callable[[Any, dict[str, int]], Json]] = {
    "header_types": lambda model, ids: {
        "fields": [list(field) for field in model.fields],
        **({} if model.max_length is None else {"max_length": model.max_length}),
    },
    "headers": lambda model, ids: {
        "header_type": model.header_type, "metadata": model.metadata, "pi_omit": True,
    },
    "header_stacks": lambda model, ids: {
        "header_type": model.element_type, "size": len(model.elements),
        "header_ids": [ids[name] for name in model.elements],
    },
    "header_unions": lambda model, ids: {
        "union_type": model.union_type, "header_ids": [ids[name] for name in model.members],
        "pi_omit": True,
    },
    "header_union_stacks": lambda model, ids: {
        "union_type": model.element_type,
        "header_union_ids": [ids[name] for name in model.elements], "pi_omit": True,
    },
    "parse_vsets": lambda model, ids: {
        "compressed_bitwidth": sum(item.width for item in model.fields), "max_size": model.size,
    },
    "counter_arrays": lambda model, ids: {
        "size": model.size, "is_direct": model.table is not None,
        **({} if model.table is None else {"binding": model.table}),
    },
    "meter_arrays": lambda model, ids: {
        "is_direct": model.table is not None, "rate_count": 2, "type": model.unit,
        "size": model.size,
        **(
            {
                "binding": model.table,
                "result_target": [model.result.header, model.result.name],
            }
            if model.table is not None and model.result is not None else {}
        ),
    },
    "register_arrays": lambda model, ids: {
        "size": model.size,
        "bitwidth": size_in_bits(resolved(model.type)) if model.type else 0,
    },
    "calculations": lambda model, ids: {
        "algo": model.algorithm,
        "input": [
            *(_calculation_input(*item) for item in model.inputs),
            *([{"type": "payload", "value": None}] if model.with_payload else ()),
        ],
    },
    "checksums": lambda model, ids: {
        "type": "generic", "target": [model.target.header, model.target.name],
        "calculation": model.calculation, "verify": model.verify, "update": model.update,
        "if_cond": _bare_constant(condition(model.condition)),
    },
}  # fmt: skip
"""What the things in each list have besides their names and numbers; `ids` are the numbers of
headers and header unions."""

_OUTER, _INNER = 3, 6
"""Levels of the document. Above the first all parts are indented, from the second on none is."""
_encode = json.JSONEncoder(ensure_ascii=False).encode


def _laid_out(value: Any, level: int = 0) -> str:
    """Return JSON text that people can read, and programs read fast: what is short, or deep within,
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


def _key_kind(key: ir.LoweredKey) -> str:
    return "ternary" if key.match_kind == "optional" else key.match_kind


def _match(key: ir.LoweredKey, value: Any) -> Json:
    """Return what an entry has for a key: a number, or two, of which the second may be a prefix
    length."""
    kind = _key_kind(key)
    names = {"exact": ("key",), "lpm": ("key", "prefix_length"), "range": ("start", "end")}
    numbers = (value,) if kind == "exact" else value
    return {
        "match_type": kind,
        **{
            name: number if name == "prefix_length" else hexadecimal(number, key.width)
            for name, number in zip(names.get(kind, ("key", "mask")), numbers, strict=True)
        },
    }


def _action_data(action: ir.LoweredAction, arguments: list[int]) -> list[str]:
    return [
        hexadecimal(value, item.width)
        for value, item in zip(arguments, action.parameters, strict=True)
    ]


def _parser_operand(node: ir.LoweredExpression) -> Json:
    """Return a parameter of a parser's operation, which has the last of a stack only as an
    expression."""
    if isinstance(node, (ir.LastField, ir.LastUnionField)):
        return {"type": "expression", "value": expression(node)}
    return operand(node)


def _transition(case: ir.TransitionCase, state: ir.ParseState) -> Json:
    width = sum((item + 7) // 8 * 8 for _, item in state.key)
    value = case.value if isinstance(case.value, str) else None
    mask = None if case.mask is None else hexadecimal(case.mask, width)
    if case.kind == "hexstr" and isinstance(case.value, int):
        value = hexadecimal(case.value, width)
    return {"type": case.kind, "value": value, "mask": mask, "next_state": case.next_state}


def _calculation_input(node: ir.LoweredExpression, width: int) -> Json:
    if not isinstance(node, ir.Number):
        return expression(node)
    value = hexadecimal(node.value & ((1 << width) - 1), width)
    return {"type": "hexstr", "value": value, "bitwidth": width}


def _bare_constant(condition: Json) -> Json:
    """Return a checksum's condition. BMv2 crashes on a constant that is wrapped as an
    expression."""
    inner = condition["value"]
    return inner if isinstance(inner, dict) and inner.get("type") == "bool" else condition


def _has_priorities_of_its_own(table: ir.LoweredTable) -> bool:
    """Return whether the source gives entries that can change other priorities than N to 1."""
    given = [entry.priority for entry in table.entries]
    return (
        not table.entries_constant
        and given != list(range(len(given), 0, -1))
        and given == sorted(given, reverse=True)
        and all(0 < priority < 1 << 31 for priority in given)
    )
