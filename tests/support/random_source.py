"""Random v1model programs, with the entries that go into their tables and frames to send.

A program is drawn from a seed: headers with fields of random widths (beyond 64 bits too) and signs,
one of variable length, stacks, a union, a parser with every kind of select, tables of all match
kinds, and controls of random statements. No statement depends on the time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from weft.switch.engine.control.entities import (
    ActionCall,
    Exact,
    Key,
    Lpm,
    Range,
    TableEntry,
    Ternary,
)

PORTS = 4
CELLS = {"i": 10, "e": 16 * PORTS + 10}
"""Of registers, counters and meters of a control."""
WIDTHS = [1, 3, 4, 7, 12, 19, 24, 33, 48, 63, 64, 65, 72, 100, 128, 160, 200]
ALGORITHMS = ["crc16", "crc32", "csum16", "xor16", "identity", "crc32_custom", "crc16_custom"]
SURE = ["hdr.base", "hdr.h0", "hdr.h1", "hdr.w0"]
"""Headers that tame programs make valid before anything else, and never invalid."""

BOOL = 0
"""The type of a truth value; others are widths in bits, negative for signed numbers."""


def type_name(kind: int) -> str:
    return "bool" if kind == BOOL else f"{'int' if kind < 0 else 'bit'}<{abs(kind)}>"


@dataclass
class Table:
    """A table: name, (match kind, expression, width) of each key field, actions, const entries."""

    name: str
    keys: list[tuple[str, str, int]]
    actions: list[str]
    const: bool


@dataclass
class RandomProgram:
    """A program's source, what its controller sets up, and frames for it."""

    source: str
    entries: list[TableEntry] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    tame: bool = False


class Generator:
    """Draws one program. ``tame``: without what P4 leaves open (fields of headers that are not
    valid) and what BMv2 draws as it likes (random numbers), so that all compilers' code agrees."""

    def __init__(self, seed: int, size: int = 12, *, tame: bool = False) -> None:
        self.rng = random.Random(seed)
        self.size = size
        self.tame = tame
        palette = self.rng.sample(WIDTHS, 6)
        self.widths = [8, 16, 32, *palette]
        self.names: dict[str, int] = {}
        self.headers: dict[str, str] = {}
        self.types: dict[str, list[tuple[str, int]]] = {}
        self.actions: dict[str, list[tuple[str, int]]] = {}
        self.tables: list[Table] = []
        self.egress = False
        self.parameters: dict[str, int] = {}
        self.numbers = 0

    # -- numbers and expressions

    def literal(self, kind: int) -> str:
        width = abs(kind)
        value = self.rng.choice([0, 1, 2, 3, (1 << width) - 1, self.rng.getrandbits(width)])
        return f"{width}{'s' if kind < 0 else 'w'}{value & ((1 << width) - 1)}"

    def name(self, kind: int) -> str:
        known = {**self.names, **self.parameters}
        found = [name for name, item in known.items() if item == kind]
        if found:
            return self.rng.choice(found)
        same = [name for name, item in known.items() if (item < 0) == (kind < 0) and item]
        if not same:
            return self.literal(kind)
        return f"({type_name(kind)}){self.rng.choice(same)}"

    def expression(self, kind: int, depth: int) -> str:
        rng = self.rng
        if kind == BOOL:
            return self.condition(depth)
        if depth <= 0:
            return self.literal(kind) if rng.random() < 0.3 else self.name(kind)
        choice = rng.randrange(12)
        inner = depth - 1
        if choice <= 4:
            operator = rng.choice(["+", "-", "*", "&", "|", "^", "|+|", "|-|"])
            sides = self.expression(kind, inner), self.expression(kind, inner)
            return f"({sides[0]} {operator} {sides[1]})"
        if choice == 5:
            return f"{rng.choice('-~')}({self.expression(kind, inner)})"
        if choice == 6:
            by = self.expression(8, inner) if rng.random() < 0.3 else f"8w{rng.randrange(80)}"
            return f"({self.expression(kind, inner)} {rng.choice(['<<', '>>'])} ({by} & 127))"
        if choice == 7:
            parts = [self.expression(item, inner) for item in (BOOL, kind, kind)]
            return "({} ? {} : {})".format(*parts)
        if choice == 8:
            return f"({type_name(kind)})({self.expression(-kind, inner)})"
        if choice == 9:
            other = rng.choice(self.widths) * (1 if kind > 0 else -1)
            return f"({type_name(kind)})({self.expression(other, inner)})"
        if choice == 10 and kind > 1:
            high = rng.randrange(1, kind)
            left, right = self.expression(kind - high, 0), self.expression(high, 0)
            return f"({left} ++ {right})"
        if choice == 11 and kind > 0:
            wider = kind + rng.randrange(9)
            low = rng.randrange(wider - kind + 1)
            return f"({self.expression(wider, inner)})[{low + kind - 1}:{low}]"
        return self.name(kind)

    def condition(self, depth: int) -> str:
        rng = self.rng
        choice = rng.randrange(8) if depth > 0 else rng.choice([0, 5])
        if choice <= 3:
            kind = rng.choice([*self.widths, -8, -16])
            operator = rng.choice(["==", "!=", "<", ">", "<=", ">="])
            sides = self.expression(kind, depth - 1), self.expression(kind, depth - 1)
            return f"({sides[0]} {operator} {sides[1]})"
        if choice == 4:
            return f"!({self.condition(depth - 1)})"
        if choice == 5:
            known = [*self.headers, "hdr.u"]
            return f"{rng.choice(known)}.isValid()" if self.headers else "true"
        if choice == 6:
            one, other = self.condition(depth - 1), self.condition(depth - 1)
            return f"({one} {rng.choice(['&&', '||'])} {other})"
        if self.tame and not self.headers:  # in a parser: see parser_statements
            return rng.choice(["(hdr.s[0] == hdr.s[1])", "(hdr.w0 == hdr.w1)"])
        return rng.choice(
            ["(hdr.s[0] == hdr.s[1])", "(hdr.w0 == hdr.w1)", "(sm.checksum_error == 1)",
             "(sm.parser_error == error.PacketTooShort)", "(sm.parser_error == error.Odd)",
             "(sm.parser_error == error.StackOutOfBounds)", "(meta.yes)"]
        )  # fmt: skip

    # -- statements

    def target(self) -> tuple[str, int]:
        found = [(name, kind) for name, kind in self.names.items() if not name.startswith("sm.")]
        return self.rng.choice(found)

    def index(self, most: int = 15) -> str:
        """An index of an array, now and then beyond it. Every egress port has cells of its own, as
        BMv2 runs egress of different ports at the same time."""
        index = f"(bit<32>)({self.expression(8, 1)} & {min(self.rng.choice([3, 7, 7, 15]), most)})"
        return f"(bit<32>)sm.egress_port * 16 + {index}" if self.egress else index

    def statement(self, depth: int, in_action: bool = False) -> list[str]:
        rng = self.rng
        choice = rng.randrange(26)
        if choice <= 6:
            name, kind = self.target()
            return [f"{name} = {self.expression(kind, rng.randrange(4))};"]
        if choice == 7:
            name, kind = self.target()
            if kind < 2:
                return []
            low = rng.randrange(kind)
            high = rng.randrange(low, kind)
            return [f"{name}[{high}:{low}] = {self.expression(high - low + 1, 1)};"]
        if choice <= 11 and depth > 0:
            return self.branch(depth, in_action)
        if choice == 12 and depth > 0 and not in_action:
            return self.switch(depth)
        if choice <= 14:
            return self.stateful()
        if choice == 15:
            return self.validity()
        if choice == 16:
            return self.calculate()
        if choice == 17:
            name = rng.choice(["hdr.s", "hdr.r"])
            return [f"{name}.{rng.choice(['push_front', 'pop_front'])}({rng.randrange(1, 4)});"]
        if choice == 18:
            if self.tame:
                return ["hdr.w1 = hdr.w0;"]
            return ["hdr.w0 = hdr.w1;"] if rng.random() < 0.5 else ["hdr.s[1] = hdr.s[0];"]
        if choice <= 21:
            return self.forward()
        if choice == 22 and not in_action and self.tables and depth > 0:
            return self.apply(depth)
        if choice == 23 and rng.random() < 0.2:
            return ["exit;"]
        if choice == 24 and rng.random() < 0.2:
            return ["return;"]
        return [f"meta.yes = {self.condition(2)};"]

    def block(self, depth: int, in_action: bool = False) -> list[str]:
        lines = []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(depth, in_action)
        return [f"    {line}" for line in self.ended(lines)]

    def ended(self, lines: list[str]) -> list[str]:
        """Without what follows a return or exit: p4c warns of it."""
        for at, line in enumerate(lines):
            if line in ("exit;", "return;"):
                return lines[: at + 1]
        return lines

    def branch(self, depth: int, in_action: bool) -> list[str]:
        lines = [f"if ({self.condition(2)}) {{", *self.block(depth - 1, in_action)]
        if self.rng.random() < 0.5:
            lines += ["} else {", *self.block(depth - 1, in_action)]
        return [*lines, "}"]

    def switch(self, depth: int) -> list[str]:
        lines = [f"switch ({self.expression(8, 1)}) {{"]
        for label in self.rng.sample(range(6), 3):
            if self.rng.random() < 0.3:
                lines.append(f"    {label}:")
            lines += [f"    {label + 10}: {{", *self.block(depth - 1), "    }"]
        return [*lines, "    default: {", *self.block(depth - 1), "    }", "}"]

    def apply(self, depth: int) -> list[str]:
        table = self.tables.pop()
        choice = self.rng.randrange(3)
        if choice == 0:
            return [f"{table.name}.apply();"]
        if choice == 1:
            way = self.rng.choice(["hit", "miss"])
            lines = [f"if ({table.name}.apply().{way}) {{", *self.block(depth - 1)]
            return [*lines, "} else {", *self.block(depth - 1), "}"]
        lines = [f"switch ({table.name}.apply().action_run) {{"]
        for action in table.actions[: self.rng.randrange(1, len(table.actions) + 1)]:
            lines += [f"    {action}: {{", *self.block(depth - 1), "    }"]
        return [*lines, "    default: {", *self.block(depth - 1), "    }", "}"]

    def stateful(self) -> list[str]:
        rng = self.rng
        side = "e" if self.egress else "i"
        width = rng.choice([8, 16, 48, 100])
        targets = [name for name, kind in self.names.items() if kind == width]
        choice = rng.randrange(5)
        if choice == 0 and targets:
            most = 7 if self.tame else 15  # beyond it, what is read is as the compiler likes
            return [f"{side}_reg{width}.read({rng.choice(targets)}, {self.index(most)});"]
        if choice <= 2:
            value = self.expression(width, 2)
            return [f"{side}_reg{width}.write({self.index()}, {value});"]
        if choice == 3:
            return [f"{side}_count.count({self.index()});"]
        return [f"{side}_meter.execute_meter({self.index()}, meta.color);"]

    def validity(self) -> list[str]:
        name = self.rng.choice([*self.headers, "hdr.u.a", "hdr.u.b"])
        if name in ("hdr.v", "hdr.base"):
            return []
        if self.tame:
            return self.tame_validity(name)
        return [f"{name}.{self.rng.choice(['setValid', 'setInvalid'])}();"]

    def tame_validity(self, name: str) -> list[str]:
        if name in SURE:
            return []
        kinds = {"hdr.u.a": "ua_t", "hdr.u.b": "ub_t", **self.headers}
        fields = self.types.get(kinds[name])
        assert fields is not None
        if self.rng.random() < 0.3:
            return [f"{name}.setInvalid();"]
        if self.rng.random() < 0.5:
            item, kind = self.rng.choice(fields)
            return [f"if ({name}.isValid()) {{",
                    f"    {name}.{item} = {self.expression(kind, 1)};",
                    f"    meta.m2 = {self.cast(f'{name}.{item}', kind, 32)};", "}"]  # fmt: skip
        return [f"{name}.setValid();", *self.filled(name, fields)]

    def cast(self, text: str, kind: int, width: int) -> str:
        inner = f"(bit<{-kind}>){text}" if kind < 0 else text
        return f"(bit<{width}>)({inner})"

    def filled(self, name: str, fields: list[tuple[str, int]]) -> list[str]:
        return [f"{name}.{item} = {self.literal(kind)};" for item, kind in fields]

    def sure(self) -> list[str]:
        lines = []
        for name in SURE:
            fields = self.filled(name, self.types[self.headers[name]])
            lines += [f"if (!{name}.isValid()) {{", f"    {name}.setValid();"]
            lines += [f"    {line}" for line in fields] + ["}"]
        return lines

    def calculate(self) -> list[str]:
        rng = self.rng
        width = rng.choice([8, 16, 32])
        target = rng.choice([name for name, kind in self.names.items()
                             if kind == width and not name.startswith("sm.")])  # fmt: skip
        if rng.random() < 0.2 and not self.tame:
            return [f"random({target}, {width}w3, {self.literal(width)} | {width}w3);"]
        parts = [self.name(rng.choice(self.widths)) for _ in range(rng.randrange(1, 4))]
        bits = sum(self.width_of(part) for part in parts)
        if bits % 8:
            parts.append(f"{8 - bits % 8}w0")
        method = rng.choice(ALGORITHMS)
        low = f"{width}w{rng.randrange(5)}"
        arguments = f"{low}, {{ {', '.join(parts)} }}, {width}w{rng.randrange(1, 200)}"
        return [f"hash({target}, HashAlgorithm.{method}, {arguments});"]

    def width_of(self, part: str) -> int:
        if part.startswith("("):
            return int(part[part.index("<") + 1 : part.index(">")])
        if part in self.names or part in self.parameters:
            return abs({**self.names, **self.parameters}[part])
        return int(part[: part.index("w")])

    def forward(self) -> list[str]:
        rng = self.rng
        number = rng.randrange(1, 4)
        if self.egress:
            return rng.choice([
                ["if (sm.instance_type == 0 && meta.rounds < 2) {", "    meta.rounds = 2;",
                 "    recirculate_preserving_field_list(1);", "}"],
                ["if (sm.instance_type == 0) {",
                 "    clone_preserving_field_list(CloneType.E2E, 10 + (bit<32>)sm.egress_port, 2);",
                 "}"],
                [f"if ({self.condition(1)}) {{", "    mark_to_drop(sm);", "}"],
                [f"truncate((bit<32>){rng.randrange(20, 120)});"],
            ])  # fmt: skip
        return rng.choice([
            ["if (sm.instance_type == 0 && meta.rounds < 2) {", "    meta.rounds = 1;",
             "    resubmit_preserving_field_list(1);", "}"],
            ["if (sm.instance_type == 0) {", f"    clone(CloneType.I2E, {number});", "}"],
            [f"if ({self.condition(1)}) {{", "    mark_to_drop(sm);", "}"],
            [f"if ({self.condition(1)}) {{", f"    sm.mcast_grp = {number};", "}"],
            [f"sm.egress_spec = {rng.randrange(1, PORTS + 1)};"],
            ["digest<digest_t>(1, { hdr.base.a, meta.m0 });"],
        ])  # fmt: skip

    # -- declarations

    def fields(self, prefix: str, count: int) -> list[tuple[str, int]]:
        rng = self.rng
        found = [(f"{prefix}{at}", rng.choice(self.widths) * rng.choice([1, 1, 1, -1]))
                 for at in range(count)]  # fmt: skip
        found = [(name, abs(kind) if kind == -1 else kind) for name, kind in found]
        spare = -sum(abs(kind) for _, kind in found) % 8
        return [*found, ("spare", spare)] if spare else found

    def declare(self) -> str:
        base = [("a", 8), ("b", 8), ("n", 8), ("sum", 16), ("g", -8), ("c", 16), ("d", 48)]
        self.types = {"base_t": [*base, ("w", 100), ("p", 4)]}
        self.types |= {f"h{at}_t": self.fields("f", self.rng.randrange(1, 6)) for at in range(3)}
        self.types |= {"s_t": [("k", 8), ("v", -16)], "w_t": self.fields("f", 3)}
        self.types |= {"ua_t": [("k", 8), ("x", 24)], "ub_t": [("k", 8), ("y", 72)]}
        lines = []
        for name, fields in self.types.items():
            content = " ".join(f"{type_name(kind)} {item};" for item, kind in fields)
            lines.append(f"header {name} {{ {content} }}")
        self.headers = {"hdr.base": "base_t", "hdr.h0": "h0_t", "hdr.h1": "h1_t"}
        self.headers |= {"hdr.h2": "h2_t", "hdr.w0": "w_t", "hdr.w1": "w_t", "hdr.v": "v_t"}
        self.headers |= {"hdr.s[0]": "s_t", "hdr.s[1]": "s_t", "hdr.s[2]": "s_t"}
        for header, kind_name in self.headers.items():
            for item, kind in self.types.get(kind_name, []):
                if not self.tame or header in SURE:
                    self.names[f"{header}.{item}"] = kind
        metadata = [(f"m{at}", kind) for at, kind in enumerate([8, 16, 32, -16, -8, 48, 100])]
        self.names |= {f"meta.{item}": kind for item, kind in metadata}
        content = " ".join(
            f"{'@field_list(1, 2) ' if at % 2 else ''}{type_name(kind)} {item};"
            for at, (item, kind) in enumerate(metadata)
        )
        return "\n".join([
            "#include <core.p4>", "#include <v1model.p4>", "error { Odd }", *lines,
            "header v_t { bit<8> k; varbit<504> data; bit<8> l; }",
            "header_union u_t { ua_t a; ub_t b; }",
            "struct headers_t { base_t base; h0_t h0; h1_t h1; h2_t h2; w_t w0; w_t w1; v_t v;",
            "    s_t[3] s; s_t[4] r; u_t u; }",
            f"struct metadata_t {{ {content}",
            "    @field_list(1) bit<8> rounds; bool yes; bit<2> color; }",
            "struct digest_t { bit<8> a; bit<8> m; }",
        ])  # fmt: skip

    def parser(self) -> str:
        rng = self.rng
        order = ["h0", "h1", "h2", "w0", "w1", "v", "s", "u"]
        rng.shuffle(order)
        lines = ["    value_set<bit<8>>(4) odd_set;", "    state start {",
                 "        packet.extract(hdr.base);", *self.parser_statements()]  # fmt: skip
        lines += [*self.select("hdr.base.b", order), "    }"]
        for at, name in enumerate(order):
            after = order[at + 1 :]
            if name == "u":
                lines += self.union_states(after)
                continue
            lines.append(f"    state p_{name} {{")
            if name == "v":
                size = rng.choice(["(bit<32>)(hdr.base.n & 31) * 8", "(bit<32>)hdr.base.n * 8"])
                lines.append(f"        packet.extract(hdr.v, {size});")
            elif name == "s":
                stack = rng.choice("sr")
                lines.append(f"        packet.extract(hdr.{stack}.next);")
                again = [f"        transition select(hdr.{stack}.last.k) {{",
                         "            0x80 &&& 0x80: p_s;"]  # fmt: skip
                rest = self.select("", after)[1:]
                lines += [*again, *rest, "    }"]
                continue
            else:
                lines.append(f"        packet.extract(hdr.{name});")
            lines += [*self.parser_statements(), *self.select("hdr.base.a", after), "    }"]
        return "\n".join(lines)

    def union_states(self, after: list[str]) -> list[str]:
        look = ["        transition select(packet.lookahead<bit<8>>()) {"]
        if self.tame:  # in a key, BMv2 does not check that the bytes are there
            look = ["        bit<8> next = packet.lookahead<bit<8>>();",
                    "        transition select(next) {"]  # fmt: skip
        lines = [
            "    state p_u {",
            *look,
            "            0 .. 3: p_ua;",
            "            _: p_ub;",
            "        }",
            "    }",
        ]
        for part in "ab":
            lines += [f"    state p_u{part} {{", f"        packet.extract(hdr.u.{part});"]
            lines += [*self.select(f"hdr.u.{part}.k", after), "    }"]
        return lines

    def parser_statements(self) -> list[str]:
        rng = self.rng
        # BMv2 parses a clone with the metadata of a packet before it.
        known = ("hdr.base",) if self.tame else ("hdr.base", "meta")
        names, self.names = self.names, {
            name: kind for name, kind in self.names.items() if name.startswith(known)
        }  # fmt: skip
        headers, self.headers = self.headers, {}
        lines = []
        for _ in range(rng.randrange(3)):
            choice = rng.randrange(5)
            name, kind = self.target()
            if choice <= 1:
                lines.append(f"{name} = {self.expression(kind, 2)};")
            elif choice == 2:
                lines.append(f"verify(hdr.base.c[3:0] != {rng.randrange(16)}, error.Odd);")
            elif choice == 3:
                lines.append("packet.advance((bit<32>)(hdr.base.n & 1) * 8);")
            else:
                lines.append("meta.m1 = packet.lookahead<bit<16>>();")
        self.names, self.headers = names, headers
        return [f"        {line}" for line in lines]

    def select(self, subject: str, states: list[str]) -> list[str]:
        rng = self.rng
        following = [f"p_{name}" for name in states] + ["accept"]
        kind = rng.randrange(4) if subject else 0

        def pick() -> str:
            return rng.choice(following)

        if kind == 3:
            lines = [f"        transition select({subject}, hdr.base.c) {{"]
            one, other, high, some = (rng.randrange(most) for most in (4, 4, 65536, 65536))
            sets = [f"({one}, 0 .. {high})", f"({other} &&& 3, _)", f"(_, {some} &&& 0xff0)"]
            lines += [f"            {item}: {pick()};" for item in sets]
        else:
            lines = [f"        transition select({subject}) {{"]
            lines += [f"            {label}: {pick()};" for label in rng.sample(range(5), 3)]
            lines.append(f"            {rng.randrange(8)} &&& 7: {pick()};")
            low = rng.randrange(200)
            lines.append(f"            {low} .. {low + rng.randrange(50)}: {pick()};")
            if kind == 2 and rng.random() < 0.7:
                lines.append(f"            odd_set: {pick()};")
        if rng.random() < 0.9:
            lines.append(f"            {'default' if kind != 3 else '_'}: {pick()};")
        return [*lines, "        }"]

    def action(self, name: str) -> list[str]:
        rng = self.rng
        kinds = [rng.choice([*self.widths, -16]) for _ in range(rng.randrange(3))]
        parameters = [(f"p{at}", kind) for at, kind in enumerate(kinds)]
        self.actions[name] = parameters
        self.parameters = dict(parameters)
        head = ", ".join(f"{type_name(kind)} {item}" for item, kind in parameters)
        lines = [f"action {name}({head}) {{"]
        for _ in range(rng.randrange(1, 4)):
            lines += [f"    {line}" for line in self.statement(1, in_action=True)]
        self.parameters = {}
        return [*lines, "}"]

    def table(self, name: str, actions: list[str]) -> tuple[Table, list[str]]:
        rng = self.rng
        kinds = [rng.choice(["exact", "exact", "ternary", "range", "optional", "lpm"])
                 for _ in range(rng.randrange(1, 4))]  # fmt: skip
        while kinds.count("lpm") > 1:
            kinds.remove("lpm")
        keys = []
        for kind in kinds:
            most = 64 if kind == "range" else 200
            known = [item for item in self.names.items() if 0 < item[1] <= most]
            if kind == "lpm" and self.tame:  # BMv2 counts prefixes of other widths from padding on
                known = [item for item in known if item[1] % 8 == 0]
            key, width = rng.choice([*known, ("hdr.base.a", 8), ("hdr.base.b", 8)])
            keys.append((kind, key, width))
        if rng.random() < 0.2:
            keys.append(("exact", "hdr.h0.isValid()", 1))
        chosen = rng.sample(actions, min(len(actions), rng.randrange(1, 4)))
        table = Table(name, keys, chosen, rng.random() < 0.3)
        content = " ".join(f"{key}: {kind} @name(\"k{at}\");"
                           for at, (kind, key, _) in enumerate(keys))  # fmt: skip
        default = rng.choice([*(item for item in chosen if not self.actions[item]), "NoAction"])
        lines = [f"table {name} {{", f"    key = {{ {content} }}",
                 f"    actions = {{ {'; '.join(dict.fromkeys([*chosen, 'NoAction']))}; }}",
                 f"    default_action = {default}();", "    size = 64;"]  # fmt: skip
        if rng.random() < 0.3:
            lines.insert(3, f"    counters = {name}_counter;")
            lines.insert(0, f"direct_counter(CounterType.packets_and_bytes) {name}_counter;")
        return table, [*lines, "}"]

    def control(self, prefix: str, side: str) -> tuple[str, list[Table]]:
        rng = self.rng
        self.egress = side == "e"
        self.tables = []
        cells = CELLS[side]
        lines = [f"register<bit<{width}>>({cells}) {side}_reg{width};"
                 for width in (8, 16, 48, 100)]  # fmt: skip
        lines.append(f"counter({cells}, CounterType.packets_and_bytes) {side}_count;")
        kind = rng.choice(["packets", "bytes"])
        lines.append(f"meter({cells}, MeterType.{kind}) {side}_meter;")
        actions = [f"{side}_act{at}" for at in range(4)]
        for name in actions:
            lines += self.action(name)
        tables = []
        for at in range(max(2, self.size // 4)):
            table, text = self.table(f"{side}_tab{at}", actions)
            tables.append(table)
            lines += text
        self.tables = list(tables)
        lines.append("apply {")
        if self.tame:
            lines += [f"    {line}" for line in self.sure()]
        if not self.egress:
            lines.append(f"    sm.egress_spec = {rng.randrange(1, PORTS + 1)};")
        body: list[str] = []
        for _ in range(self.size):
            found = self.statement(3)
            body += found if found not in (["exit;"], ["return;"]) else []
        while self.tables:
            body += self.apply(1)
        lines += [f"    {line}" for line in body]
        if self.egress:
            lines.append("    hdr.base.p[1:0] = meta.color;")
            lines.append("    hdr.base.p[2:2] = (bit<1>)meta.yes;")
        return "\n".join(f"    {line}" for line in [*lines, "}"]), tables

    # -- what the controller writes, and frames

    def entries(self, prefix: str, tables: list[Table]) -> list[TableEntry]:
        found: list[TableEntry] = []
        for table in tables:
            ordered = any(kind in ("ternary", "range", "optional") for kind, _, _ in table.keys)
            seen = set()
            for at in range(self.rng.randrange(1, 12)):
                keys = tuple(self.key(kind, width) for kind, _, width in table.keys)
                if keys in seen:
                    continue
                seen.add(keys)
                action = self.rng.choice(table.actions)
                values = tuple(self.number(abs(kind)) for _, kind in self.actions[action])
                call = ActionCall(f"{prefix}.{action}", values)
                name = f"{prefix}.{table.name}"
                found.append(TableEntry(name, keys, call, at + 1 if ordered else 0))
        return found

    def number(self, width: int) -> int:
        small = self.rng.choice([0, 1, 2, 3, self.rng.randrange(32), self.rng.getrandbits(width)])
        return small & ((1 << width) - 1)

    def key(self, kind: str, width: int) -> Key:
        value, full = self.number(width), (1 << width) - 1
        if kind == "exact":
            return Exact(value)
        if kind == "lpm":
            length = self.rng.randrange(width + 1)
            mask = full ^ ((1 << (width - length)) - 1)
            return Lpm(value & mask, length)
        if kind == "range":
            other = self.number(width)
            return Range(min(value, other), max(value, other))
        mask = full if kind == "optional" else self.number(width)
        if self.rng.random() < 0.3:
            mask = 0
        return Ternary(value & mask, mask)

    def frame(self) -> bytes:
        rng = self.rng
        least = 14 if self.tame else 1  # Linux, and so BMv2, sends no less
        sizes = [rng.randrange(low, high) for low, high in ((least, 40), (20, 200), (20, 200))]
        size = rng.choice(sizes)
        values = [rng.choice([0, 1, 2, 3, 4, 5, 0x80, 0x81, 255, rng.randrange(256)])
                  for _ in range(size)]  # fmt: skip
        if self.tame and values[12:14] == [0x81, 0] and size < 20:
            values[12] = 0  # Linux drops a frame that ends within a VLAN tag or the type behind it
        return bytes(values)

    def program(self, frames: int = 60) -> RandomProgram:
        head = self.declare()
        parser = self.parser()
        ingress, first = self.control("I", "i")
        egress, second = self.control("E", "e")
        emitted = ["hdr.h0", "hdr.h1", "hdr.h2", "hdr.w0", "hdr.w1", "hdr.v", "hdr.s", "hdr.r",
                   "hdr.u"]  # fmt: skip
        self.rng.shuffle(emitted)
        calls = "\n".join(f"        packet.emit({name});" for name in ["hdr.base", *emitted])
        summed = "hdr.base.a, hdr.base.b, hdr.base.c, hdr.base.d"
        algorithm = self.rng.choice(["csum16", "csum16", "crc16", "xor16"])
        check = (f"hdr.base.isValid(), {{ {summed} }}, hdr.base.sum, "
                 f"HashAlgorithm.{algorithm});")  # fmt: skip
        payload = "_with_payload" if self.rng.random() < 0.3 else ""
        signature = "inout headers_t hdr, inout metadata_t meta"
        source = "\n".join([
            head,
            "parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,",
            "         inout standard_metadata_t sm) {", parser, "}",
            f"control V({signature}) {{", "    apply {",
            f"        verify_checksum{payload}({check}", "    }", "}",
            f"control I({signature}, inout standard_metadata_t sm) {{", ingress, "}",
            f"control E({signature}, inout standard_metadata_t sm) {{", egress, "}",
            f"control U({signature}) {{", "    apply {",
            f"        update_checksum{payload}({check}", "    }", "}",
            "control D(packet_out packet, in headers_t hdr) {", "    apply {", calls, "    }", "}",
            "V1Switch(P(), V(), I(), E(), U(), D()) main;", "",
        ])  # fmt: skip
        entries = [*self.entries("I", first), *self.entries("E", second)]
        return RandomProgram(source, entries, [self.frame() for _ in range(frames)], self.tame)
