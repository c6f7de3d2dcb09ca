"""Small BMv2 JSON programs for the engine's tests, written by hand."""

from __future__ import annotations

import json
from typing import Any

Json = Any

STANDARD = [
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
    ("_padding", 3),
]
ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort"]

ETHERNET = [("dst", 48), ("src", 48), ("type", 16)]
IPV4 = [
    ("version", 4),
    ("ihl", 4),
    ("tos", 8),
    ("length", 16),
    ("identification", 16),
    ("flags", 3),
    ("offset", 13),
    ("ttl", 8),
    ("protocol", 8),
    ("checksum", 16),
    ("src", 32),
    ("dst", 32),
]
UDP = [("src", 16), ("dst", 16), ("length", 16), ("checksum", 16)]


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def hexstr(value: int, bitwidth: int | None = None) -> Json:
    node = {"type": "hexstr", "value": hex(value)}
    return node if bitwidth is None else {**node, "bitwidth": bitwidth}


def data(index: int) -> Json:
    return {"type": "runtime_data", "value": index}


def expression(op: str, left: Json, right: Json, **more: Json) -> Json:
    content = {"op": op, "left": left, "right": right, **more}
    return {"type": "expression", "value": content}


def assign(target: Json, value: Json) -> Json:
    return {"op": "assign", "parameters": [target, value]}


def call(op: str, *parameters: Json) -> Json:
    return {"op": op, "parameters": list(parameters)}


STANDARD_HEADER = {"type": "header", "value": "standard_metadata"}
DROP = call("mark_to_drop", STANDARD_HEADER)


class Document:
    """Collects the parts of a program; ``text`` is its BMv2 JSON."""

    def __init__(self) -> None:
        self.types: list[Json] = []
        self.headers: list[Json] = []
        self.stacks: list[Json] = []
        self.states: list[Json] = []
        self.order: list[str] = []
        self.actions: list[Json] = []
        self.profiles: list[Json] = []
        self.tables: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self.conditionals: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self.start: dict[str, str | None] = {"ingress": None, "egress": None}
        self.more: dict[str, Json] = {}
        self.header("standard_metadata", STANDARD, metadata=True)

    def header(self, name: str, fields: list[Any], *, metadata: bool = False) -> None:
        number = len(self.headers)
        signed = [[*part, False] if len(part) == 2 else list(part) for part in fields]
        self.types.append({"name": f"{name}_t", "id": number, "fields": signed})
        self.headers.append(
            {"name": name, "id": number, "header_type": f"{name}_t", "metadata": metadata}
        )
        if not metadata:
            self.order.append(name)

    def stack(self, name: str, count: int, fields: list[Any]) -> None:
        first = len(self.headers)
        for position in range(count):
            self.header(f"{name}[{position}]", fields)
        self.stacks.append(
            {
                "name": name,
                "id": len(self.stacks),
                "header_type": f"{name}[0]_t",
                "header_ids": list(range(first, first + count)),
            }
        )

    def state(
        self,
        name: str,
        operations: list[Json],
        key: list[Json] | None = None,
        cases: list[tuple[str, str | None, str | None]] | None = None,
        default: str | None = None,
    ) -> None:
        transitions: list[Json] = [
            {"type": "hexstr", "value": value, "mask": mask, "next_state": following}
            for value, mask, following in cases or []
        ]
        transitions.append(
            {"type": "default", "value": None, "mask": None, "next_state": default}
        )
        self.states.append(
            {
                "name": name,
                "id": len(self.states),
                "parser_ops": operations,
                "transition_key": key or [],
                "transitions": transitions,
            }
        )

    def action(self, name: str, parameters: list[tuple[str, int]], primitives: list[Json]) -> int:
        number = len(self.actions)
        self.actions.append(
            {
                "name": name,
                "id": number,
                "runtime_data": [{"name": n, "bitwidth": w} for n, w in parameters],
                "primitives": primitives,
            }
        )
        return number

    def table(
        self,
        pipeline: str,
        name: str,
        keys: list[tuple[str, str, str]],
        actions: list[int],
        following: str | None,
        *,
        default: tuple[int, list[int]] | None = None,
        profile: str | None = None,
        **more: Json,
    ) -> None:
        kinds = [kind for kind, _, _ in keys]
        order = ["range", "ternary", "optional", "lpm", "exact"]
        kind = next((kind for kind in order if kind in kinds), "exact")
        table = {
            "name": name,
            "id": sum(map(len, self.tables.values())),
            "key": [
                {"match_type": kind, "name": f"{h}.{f}", "target": [h, f], "mask": None}
                for kind, h, f in keys
            ],
            "match_type": "ternary" if kind == "optional" else kind,
            "type": "simple" if profile is None else "indirect_ws",
            "max_size": 64,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": actions,
            "actions": [self.actions[number]["name"] for number in actions],
            "base_default_next": following,
            "next_tables": {self.actions[number]["name"]: following for number in actions},
        }
        if profile is not None:
            table["action_profile"] = profile
        if default is not None:
            table["default_entry"] = {
                "action_id": default[0],
                "action_const": False,
                "action_data": [hex(value) for value in default[1]],
                "action_entry_const": False,
            }
        table.update(more)
        self.tables[pipeline].append(table)

    @property
    def text(self) -> str:
        document: dict[str, Json] = {
            "__meta__": {"version": [2, 23]},
            "header_types": self.types,
            "headers": self.headers,
            "header_stacks": self.stacks,
            "header_union_types": [],
            "header_unions": [],
            "header_union_stacks": [],
            "field_lists": [],
            "errors": [[name, code] for code, name in enumerate(ERRORS)],
            "enums": [],
            "parsers": [
                {"name": "parser", "id": 0, "init_state": "start", "parse_states": self.states}
            ],
            "parse_vsets": [],
            "deparsers": [{"name": "deparser", "id": 0, "order": self.order}],
            "meter_arrays": [],
            "counter_arrays": [],
            "register_arrays": [],
            "calculations": [],
            "learn_lists": [],
            "actions": self.actions,
            "pipelines": [
                {
                    "name": name,
                    "id": number,
                    "init_table": self.start[name],
                    "tables": self.tables[name],
                    "action_profiles": self.profiles if name == "ingress" else [],
                    "conditionals": self.conditionals[name],
                }
                for number, name in enumerate(("ingress", "egress"))
            ],
            "checksums": [],
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": [],
        }
        document.update(self.more)
        return json.dumps(document)


def extract(header: str, kind: str = "regular") -> Json:
    return {"op": "extract", "parameters": [{"type": kind, "value": header}]}


def router() -> str:
    """IPv4 routing by LPM through a selector, multicast, counters, checksums, random loss."""
    document = Document()
    document.header("meta", [("salt", 32), ("draw", 32)], metadata=True)
    document.header("ethernet", ETHERNET)
    document.header("ipv4", IPV4)
    document.header("udp", UDP)
    document.state(
        "start",
        [extract("ethernet")],
        [field("ethernet", "type")],
        [("0x0800", None, "parse_ipv4")],
    )
    document.state(
        "parse_ipv4",
        [extract("ipv4")],
        [field("ipv4", "ihl"), field("ipv4", "offset"), field("ipv4", "protocol")],
        [("0x05000011", None, "parse_udp")],
    )
    document.state("parse_udp", [extract("udp")])
    ttl = expression(
        "&", expression("+", field("ipv4", "ttl"), hexstr(0xFF)), hexstr(0xFF)
    )
    nothing = document.action("NoAction", [], [])
    count = document.action(
        "count_ingress",
        [],
        [
            call(
                "count",
                {"type": "counter_array", "value": "port_ingress"},
                field("standard_metadata", "ingress_port"),
            )
        ],
    )
    lose = document.action(
        "lose",
        [("threshold", 32)],
        [
            call(
                "modify_field_rng_uniform",
                field("meta", "draw"),
                hexstr(0),
                hexstr(0xFFFFFFFF),
            ),
            call("_jump_if_zero", expression("<", field("meta", "draw"), data(0)), hexstr(3)),
            DROP,
        ],
    )
    drop = document.action("drop", [], [DROP])
    forward = document.action(
        "forward",
        [("port", 9), ("dst", 48)],
        [
            assign(field("standard_metadata", "egress_spec"), data(0)),
            assign(field("ethernet", "dst"), data(1)),
            assign(field("ipv4", "ttl"), ttl),
        ],
    )
    replicate = document.action(
        "replicate", [("group", 16)], [assign(field("standard_metadata", "mcast_grp"), data(0))]
    )
    selector = [field("ipv4", "src"), field("ipv4", "dst"), field("udp", "src")]
    document.profiles.append(
        {"name": "ecmp", "id": 0, "max_size": 32, "selector": {"algo": "crc32", "input": selector}}
    )
    document.start["ingress"] = "count"
    document.table("ingress", "count", [], [count], "valid", default=(count, []))
    document.tables["ingress"][-1]["default_entry"]["action_const"] = True
    document.conditionals["ingress"] = [
        {
            "name": "valid",
            "id": 0,
            "expression": expression(
                "and",
                expression("d2b", None, field("ipv4", "$valid$")),
                expression("==", field("standard_metadata", "checksum_error"), hexstr(0)),
            ),
            "true_next": "multicast",
            "false_next": "reject",
        }
    ]
    document.table("ingress", "reject", [], [drop], None, default=(drop, []))
    document.table(
        "ingress",
        "multicast",
        [("exact", "ipv4", "dst")],
        [replicate, nothing],
        None,
        default=(nothing, []),
        next_tables={"__HIT__": None, "__MISS__": "route"},
    )
    document.table(
        "ingress",
        "route",
        [("lpm", "ipv4", "dst")],
        [forward, drop],
        None,
        profile="ecmp",
        next_tables={"__HIT__": None, "__MISS__": "reject"},
        with_counters=True,
    )
    document.start["egress"] = "loss"
    document.table(
        "egress",
        "loss",
        [("exact", "standard_metadata", "egress_port")],
        [lose, nothing],
        None,
        default=(nothing, []),
    )
    inputs = [field("ipv4", name) for name, _ in IPV4 if name != "checksum"]
    valid = expression("d2b", None, field("ipv4", "$valid$"))
    document.more = {
        "counter_arrays": [
            {"name": "port_ingress", "id": 0, "size": 8, "is_direct": False},
            {"name": "route_counter", "id": 1, "is_direct": True, "binding": "route"},
        ],
        "calculations": [{"name": "calc", "id": 0, "algo": "csum16", "input": inputs}],
        "checksums": [
            {
                "name": "checksum",
                "id": 0,
                "target": ["ipv4", "checksum"],
                "type": "generic",
                "calculation": "calc",
                "verify": True,
                "update": True,
                "if_cond": valid,
            }
        ],
    }
    return document.text
