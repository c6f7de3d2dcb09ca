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
    ("_padding", 6),
]
ALIASES = [
    ("queueing_metadata", "enq_timestamp"),
    ("queueing_metadata", "enq_qdepth"),
    ("queueing_metadata", "deq_timedelta"),
    ("queueing_metadata", "deq_qdepth"),
    ("intrinsic_metadata", "ingress_global_timestamp"),
    ("intrinsic_metadata", "egress_global_timestamp"),
    ("intrinsic_metadata", "mcast_grp"),
    ("intrinsic_metadata", "egress_rid"),
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


def call(op: str, *parameters: Json) -> Json:
    """A primitive; BMv2 wants an expression that is a parameter wrapped once more."""
    wrapped = [
        {"type": "expression", "value": node} if node["type"] == "expression" else node
        for node in parameters
    ]
    return {"op": op, "parameters": wrapped}


def assign(target: Json, value: Json) -> Json:
    return call("assign", target, value)


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
        transitions.append({"type": "default", "value": None, "mask": None, "next_state": default})
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
            "field_aliases": [
                [f"{alias}.{name}", ["standard_metadata", name]] for alias, name in ALIASES
            ],
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
    ttl = expression("&", expression("+", field("ipv4", "ttl"), hexstr(0xFF)), hexstr(0xFF))
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


COMMAND = [("op", 8), ("x", 16), ("y", 16), ("z", 32)]
RESULT = [("ternary", 8), ("range", 8), ("lpm", 8), ("optional", 8), ("info", 32)]


def features() -> str:
    """Whatever ``cmd.op`` asks for: stacks, registers, hashes, clones, resubmission and so on.

    Tables have const entries, so that any switch runs it without a controller. Multicast group 1
    and clone session 1 are the controller's.
    """
    document = Document()
    document.header("meta", [("round", 8), ("value", 32)], metadata=True)
    document.header("cmd", COMMAND)
    document.header("res", RESULT)
    document.stack("item", 3, [("last", 1), ("number", 7)])
    document.state(
        "start",
        [extract("cmd")],
        [field("cmd", "op")],
        [("0x10", "0x10", "items"), ("0x20", None, "skip"), ("0x21", None, "check")],
    )
    last = {"type": "stack_field", "value": ["item", "last"]}
    document.state("items", [extract("item", "stack")], [last], [("0x00", None, "items")])
    document.state(
        "skip",
        [{"op": "advance", "parameters": [hexstr(16)]}],
        [{"type": "lookahead", "value": [0, 8]}],
        [("0x01", None, "items")],
    )
    test = expression("<", field("cmd", "x"), hexstr(100))
    document.state("check", [{"op": "verify", "parameters": [test, hexstr(2)]}])
    spec = field("standard_metadata", "egress_spec")
    cells = {"type": "register_array", "value": "cells"}
    hashes = {
        name: document.action(
            f"hash_{name}",
            [],
            [
                call(
                    "modify_field_with_hash_based_offset",
                    field("cmd", "z"),
                    hexstr(10),
                    {"type": "calculation", "value": f"calc_{name}"},
                    hexstr(100000),
                )
            ],
        )
        for name in ("crc16", "crc32", "csum16", "identity", "xor16", "crcCCITT")
    }
    lists = hexstr(1)
    bodies: dict[int, list[Json]] = {
        0x02: [DROP],
        0x03: [
            call("register_read", field("meta", "value"), cells, field("cmd", "x")),
            assign(
                field("meta", "value"),
                expression(
                    "&",
                    expression("+", field("meta", "value"), field("cmd", "y")),
                    hexstr(0xFFFFFFFF),
                ),
            ),
            call("register_write", cells, field("cmd", "x"), field("meta", "value")),
            assign(field("cmd", "z"), field("meta", "value")),
        ],
        0x04: [call("truncate", hexstr(12))],
        0x05: [assign(field("standard_metadata", "mcast_grp"), hexstr(1))],
        0x06: [call("clone_ingress_pkt_to_egress", hexstr(1), lists)],
        0x07: [assign(field("cmd", "z"), field("standard_metadata", "packet_length"))],
        0x08: [
            call("remove_header", {"type": "header", "value": "cmd"}),
        ],
        0x09: [DROP, assign(spec, hexstr(2))],
        0x11: [call("pop", {"type": "header_stack", "value": "item"}, hexstr(1))],
        0x12: [
            call("push", {"type": "header_stack", "value": "item"}, hexstr(1)),
            call("add_header", {"type": "header", "value": "item[0]"}),
            assign(field("item[0]", "number"), hexstr(5)),
            assign(field("item[0]", "last"), hexstr(0)),
        ],
        0x13: [assign(field("cmd", "z"), {"type": "stack_field", "value": ["item", "number"]})],
    }
    actions = {
        op: document.action(f"op_{op:02x}", [], [*body, call("no_op")])
        for op, body in bodies.items()
    }
    for position, name in enumerate(hashes):
        actions[0x30 + position] = hashes[name]
    forward = document.action("forward", [], [assign(spec, hexstr(1))])
    leave = document.action("leave", [], [assign(spec, hexstr(3)), call("exit")])
    actions[0x0A] = leave
    again = document.action(
        "again",
        [],
        [
            assign(
                field("meta", "round"),
                expression("&", expression("+", field("meta", "round"), hexstr(1)), hexstr(0xFF)),
            ),
            call("resubmit", lists),
        ],
    )
    nothing = document.action("NoAction", [], [])
    marks = {
        name: document.action(f"mark_{name}", [("value", 8)], [assign(field("res", name), data(0))])
        for name in ("ternary", "range", "lpm", "optional")
    }
    show = document.action(
        "show",
        [],
        [
            call("add_header", {"type": "header", "value": "res"}),
            *(assign(field("res", name), hexstr(0)) for name, _ in RESULT),
            assign(
                field("res", "info"),
                expression(
                    "|",
                    expression("<<", field("standard_metadata", "parser_error"), hexstr(8)),
                    field("meta", "round"),
                ),
            ),
        ],
    )
    egress_again = document.action(
        "egress_again",
        [],
        [
            assign(field("cmd", "op"), hexstr(1)),
            assign(field("meta", "round"), hexstr(9)),
            call("recirculate", lists),
        ],
    )
    egress_clone = document.action(
        "egress_clone",
        [],
        [
            assign(field("cmd", "op"), hexstr(1)),
            assign(field("meta", "round"), hexstr(7)),
            call("clone_egress_pkt_to_egress", hexstr(1), lists),
        ],
    )
    egress_show = document.action(
        "egress_show",
        [],
        [
            assign(
                field("res", "info"),
                expression(
                    "|",
                    expression(
                        "|",
                        field("res", "info"),
                        expression("<<", field("standard_metadata", "egress_rid"), hexstr(16)),
                    ),
                    expression(
                        "|",
                        expression("<<", field("standard_metadata", "egress_port"), hexstr(24)),
                        expression("<<", field("standard_metadata", "instance_type"), hexstr(28)),
                    ),
                ),
            ),
            assign(field("res", "optional"), field("standard_metadata", "packet_length")),
        ],
    )
    egress_show_round = document.action(
        "egress_show_round",
        [],
        [
            assign(field("cmd", "y"), field("meta", "round")),
            assign(field("cmd", "x"), field("standard_metadata", "ingress_port")),
        ],
    )

    def exact(value: int) -> Json:
        return {"match_type": "exact", "key": f"0x{value:02x}"}

    def entry(keys: list[Json], action: int, *values: int, priority: int = 1) -> Json:
        return {
            "match_key": keys,
            "action_entry": {"action_id": action, "action_data": [hex(v) for v in values]},
            "priority": priority,
        }

    def const(
        pipeline: str,
        name: str,
        keys: list[Any],
        acts: list[int],
        following: str | None,
        entries: list[Json],
    ) -> None:
        document.table(
            pipeline,
            name,
            keys,
            [*acts, nothing],
            following,
            default=(nothing, []),
            entries=entries,
        )

    document.start["ingress"] = "first"
    document.table("ingress", "first", [], [forward], "resubmit", default=(forward, []))
    const(
        "ingress",
        "resubmit",
        [("exact", "cmd", "op"), ("exact", "meta", "round")],
        [again],
        "mark",
        [entry([exact(0x0B), exact(0)], again), entry([exact(0x0B), exact(1)], again)],
    )
    document.table("ingress", "mark", [], [show], "t_ternary", default=(show, []))
    const(
        "ingress",
        "t_ternary",
        [("ternary", "cmd", "x"), ("exact", "cmd", "$valid$")],
        [marks["ternary"]],
        "t_range",
        [
            entry(
                [
                    {"match_type": "ternary", "key": f"0x{value:04x}", "mask": f"0x{mask:04x}"},
                    exact(1),
                ],
                marks["ternary"],
                result,
                priority=result,
            )
            for value, mask, result in (
                (0x0001, 0x00FF, 1),
                (0x0100, 0xFF00, 2),
                (0x0101, 0xFFFF, 3),
                (0, 0, 9),
            )
        ],
    )
    const(
        "ingress",
        "t_range",
        [("range", "cmd", "y"), ("exact", "cmd", "op")],
        [marks["range"]],
        "t_lpm",
        [
            entry(
                [
                    {"match_type": "range", "start": f"0x{low:04x}", "end": f"0x{high:04x}"},
                    exact(1),
                ],
                marks["range"],
                result,
                priority=result,
            )
            for low, high, result in ((10, 20, 1), (15, 300, 2), (1000, 0xFFFF, 3))
        ],
    )
    const(
        "ingress",
        "t_lpm",
        [("lpm", "cmd", "z")],
        [marks["lpm"]],
        "operate",
        [
            entry(
                [{"match_type": "lpm", "key": f"0x{value:08x}", "prefix_length": length}],
                marks["lpm"],
                length + 1,
            )
            for value, length in ((0, 0), (0x0A000000, 8), (0x0A0B0000, 16), (0x0A0B0C0D, 32))
        ],
    )
    const(
        "ingress",
        "operate",
        [("exact", "cmd", "op")],
        sorted(actions.values()),
        "after",
        [entry([exact(op)], action) for op, action in actions.items()],
    )
    mark_after = document.action("after", [], [assign(field("res", "range"), hexstr(0xAA))])
    document.table("ingress", "after", [], [mark_after], None, default=(mark_after, []))
    document.start["egress"] = "again"
    const(
        "egress",
        "again",
        [("exact", "cmd", "op")],
        [egress_again, egress_clone],
        "show_egress",
        [entry([exact(0x0C)], egress_again), entry([exact(0x0D)], egress_clone)],
    )
    document.table(
        "egress", "show_egress", [], [egress_show], "show_round", default=(egress_show, [])
    )
    document.table(
        "egress", "show_round", [], [egress_show_round], None, default=(egress_show_round, [])
    )
    document.order = ["cmd", "item[0]", "item[1]", "item[2]", "res"]
    document.more = {
        "field_lists": [
            {"id": 1, "name": "kept", "elements": [field("meta", "round")]},
        ],
        "register_arrays": [{"name": "cells", "id": 0, "size": 16, "bitwidth": 32}],
        "calculations": [
            {
                "name": f"calc_{name}",
                "id": number,
                "algo": name,
                "input": [
                    field("cmd", "x"),
                    hexstr(0x5A5, 11),
                    field("cmd", "y"),
                    hexstr(3, 5),
                    field("item[0]", "number"),
                    field("meta", "round"),
                ],
            }
            for number, name in enumerate(hashes)
        ],
    }
    return document.text
