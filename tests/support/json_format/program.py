"""The program that all sentences share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tests.support.json_format.nodes import (
    HEADERS,
    STACKS,
    TYPES,
    UNION_STACKS,
    UNIONS,
    Json,
    extract,
    first,
    num,
    of,
    put,
)
from tests.support.json_format.sentences import CALCULATIONS, SENTENCES

from weft.switch.commands.stf import load_program

BASE = Path(__file__).resolve().parents[2] / "stf" / "basic.p4"
OUT_PORT = 1


def _ids(items: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(items)}


def _table(number: int, name: str, described: Json, base: int, names: Sequence[str]) -> Json:
    """A table of a sentence, whose actions begin at a place."""
    (kind, *mask), entries, following = described
    used = sorted({one["action_entry"]["action_id"] for one in entries})
    target = "first" if kind == "valid" else ["first", "a"]
    entries = [
        {
            **one,
            "action_entry": {
                **one["action_entry"],
                "action_id": base + 1 + one["action_entry"]["action_id"],
            },
        }
        for one in entries
    ]
    key = {"match_type": kind, "target": target, "mask": mask[0] if mask else None, "name": "key"}
    actions = [base + 1 + one for one in used]
    by_action = {f"a{one}": None for one in [0, *actions]}
    leads = {
        (one if isinstance(one, str) else f"a{base + 1 + one}"): names[to]
        for one, to in following.items()
    }
    return {
        "name": name, "id": number, "match_type": "exact" if kind == "valid" else kind,
        "type": "simple", "max_size": 16, "with_counters": False, "support_timeout": False,
        "direct_meters": None, "key": [key], "action_ids": [0, *actions],
        "actions": [f"a{one}" for one in [0, *actions]],
        "base_default_next": leads.get("__MISS__"),
        "next_tables": leads if "__HIT__" in leads else {**by_action, **leads},
        "default_entry": {"action_id": 0, "action_const": False, "action_data": [],
                          "action_entry_const": False},
        "entries": entries,
    }  # fmt: skip


@lru_cache(maxsize=1)
def program() -> str:
    """The JSON of the program that all sentences share."""
    document = json.loads(load_program(BASE, [], {}))
    standard = next(one for one in document["header_types"] if one["name"] == "standard_metadata")
    kinds = {"standard_metadata": standard["fields"], **TYPES}
    document["header_types"] = [
        {"name": name, "id": number, "fields": fields, "length_exp": None,
         "max_length": 9 if name == "varied_t" else None}
        for number, (name, fields) in enumerate(kinds.items())
    ]  # fmt: skip
    headers = {"scalars": "scalars_t", "standard_metadata": "standard_metadata", **HEADERS}
    ids = _ids(list(headers))
    document["headers"] = [
        {"name": name, "id": ids[name], "header_type": kind,
         "metadata": name in ("scalars", "standard_metadata"), "pi_omit": True}
        for name, kind in headers.items()
    ]  # fmt: skip
    document["header_stacks"] = [
        {"name": name, "id": number, "header_type": "item_t", "size": size,
         "header_ids": [ids[f"{name}[{place}]"] for place in range(size)]}
        for number, (name, size) in enumerate(STACKS.items())
    ]  # fmt: skip
    document["header_union_types"] = [
        {"name": "u_t", "id": 0, "headers": [["x", "item_t"], ["y", "other_t"]]}
    ]
    unions = _ids(UNIONS)
    document["header_unions"] = [
        {"name": name, "id": number, "union_type": "u_t",
         "header_ids": [ids[f"{name}.x"], ids[f"{name}.y"]]}
        for name, number in unions.items()
    ]  # fmt: skip
    document["header_union_stacks"] = [
        {"name": name, "id": number, "union_type": "u_t",
         "header_union_ids": [unions[f"{name}[0]"], unions[f"{name}[1]"]]}
        for number, name in enumerate(UNION_STACKS)
    ]  # fmt: skip
    document["errors"] = [*document["errors"], ["OwnError", 9]]
    document["parse_vsets"] = [{"name": "values", "id": 0, "compressed_bitwidth": 8, "max_size": 4}]
    document["register_arrays"] = [{"name": "cells", "id": 0, "size": 8, "bitwidth": 12}]
    document["counter_arrays"] = [{"name": "seen", "id": 0, "size": 8, "is_direct": False}]
    document["meter_arrays"] = [
        {"name": "pace", "id": 0, "size": 8, "is_direct": False, "rate_count": 2, "type": "bytes"}
    ]
    document["calculations"] = [
        {"name": f"{name}_{number}", "id": number, "algo": name, "input": inputs}
        for number, (name, inputs) in enumerate(CALCULATIONS)
    ]
    document["checksums"], document["learn_lists"], document["field_lists"] = [], [], []
    order = list(HEADERS)
    document["deparsers"] = [{"name": "deparser", "id": 0, "order": order, "primitives": []}]
    actions: list[Json] = [{"name": "a0", "id": 0, "runtime_data": [], "primitives": []}]
    states = [
        {"name": "start", "id": 0, "parser_ops": [extract("first")],
         "transition_key": [first("op")],
         "transitions": [{"type": "hexstr", "value": hex(number), "mask": None,
                          "next_state": f"p{number}_0"}
                         for number, one in enumerate(SENTENCES) if one.parser]
         + [{"type": "default", "value": None, "mask": None, "next_state": None}]}
    ]  # fmt: skip
    nodes: dict[str, list[Json]] = {"tables": [], "conditionals": [], "action_calls": []}
    entries: list[Json] = []
    following: dict[str, str | None] = {}
    for number, sentence in enumerate(SENTENCES):
        for place, one in enumerate(sentence.parser):
            later: dict[int | None, str | None] = {
                **{other: f"p{number}_{other}" for other in range(len(sentence.parser))},
                None: None,
            }
            states.append({
                "name": f"p{number}_{place}", "id": len(states), "parser_ops": list(one["does"]),
                "transition_key": list(one["key"]),
                "transitions": [
                    {"type": kind, "value": wanted, "mask": mask, "next_state": later[to]}
                    for kind, wanted, mask, to in (
                        *one["choices"], ("default", None, None, one["then"])
                    )
                ],
            })  # fmt: skip
        base = len(actions)
        sets_port = put(of("standard_metadata", "egress_spec"), num(OUT_PORT))
        jumps = any(one["op"].startswith("_jump") for one in sentence.does)
        own = [*sentence.does, sets_port] if jumps else [sets_port, *sentence.does]
        data = [{"name": f"d{place}", "bitwidth": 16} for place in range(len(sentence.data))]
        for place, primitives in enumerate([own, *sentence.actions]):
            actions.append({"name": f"a{base + place}", "id": base + place,
                            "runtime_data": data if place == 0 else [],
                            "primitives": list(primitives)})  # fmt: skip
        names = [f"n{number}_{place}" for place in range(len(sentence.nodes))]
        following[f"a{base}"] = names[0] if names else None
        key = {"match_type": "exact", "key": f"0x{number:02x}"}
        called = {"action_id": base, "action_data": [hex(one) for one in sentence.data]}
        entries.append({"match_key": [key], "action_entry": called, "priority": 1})
        for place, (kind, described) in enumerate(sentence.nodes):
            identifier = sum(map(len, nodes.values())) + 1
            if kind == "tables":
                node = _table(identifier, names[place], described, base, names)
            elif kind == "conditionals":
                test, yes, no = described
                node = {"name": names[place], "id": identifier, "expression": test,
                        "true_next": names[yes], "false_next": names[no]}  # fmt: skip
            else:
                chained = sentence.nodes[0][0] == "action_calls" and place + 1 < len(names)
                node = {"name": names[place], "id": identifier, "action_id": base + 1 + described,
                        "next_node": names[place + 1] if chained else None}  # fmt: skip
            nodes[kind].append(node)
    document["actions"] = actions
    document["parsers"] = [
        {"name": "parser", "id": 0, "init_state": "start", "parse_states": states}
    ]
    dispatch: Json = {
        "name": "dispatch", "id": 0, "match_type": "exact", "type": "simple", "max_size": 256,
        "with_counters": False, "support_timeout": False, "direct_meters": None,
        "key": [{"match_type": "exact", "target": ["first", "op"], "mask": None, "name": "op"}],
        "action_ids": [0, *(one["action_entry"]["action_id"] for one in entries)],
        "actions": ["a0", *(f"a{one['action_entry']['action_id']}" for one in entries)],
        "base_default_next": None, "next_tables": {"a0": None, **following},
        "default_entry": {"action_id": 0, "action_const": True, "action_data": [],
                          "action_entry_const": True},
        "entries": entries,
    }  # fmt: skip
    nodes["tables"].insert(0, dispatch)
    ingress, egress = document["pipelines"]
    ingress.update(init_table="dispatch", action_profiles=[], **nodes)
    egress.update(init_table=None, action_profiles=[], tables=[], conditionals=[], action_calls=[])
    return json.dumps(document)
