"""Source of the primitives that actions and parser states are made of."""

import re
from typing import Any

from weft.base.errors import refuse
from weft.switch.engine.codegen.expressions import Translator, Value
from weft.switch.engine.codegen.header_primitives import HeaderPrimitives
from weft.switch.engine.codegen.references import HeaderReference, field_place, last_place, unwrap
from weft.switch.engine.codegen.source import Writer, remark
from weft.switch.engine.codegen.values import load, store_line
from weft.switch.engine.codegen.varbits import store_varbit
from weft.switch.engine.program.attachments import Meter
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Field, named
from weft.switch.engine.program.program import Cells, Program, ProgramAction

Json = Any

ENVIRONMENT = (
    "phv",
    "image",
    "record",
    "state",
    "counters",
    "registers",
    "scratch",
    "words",
    "frame",
)
"""What an action function may take, in this order; each takes only what it uses."""


JUMPS = ("_jump", "_jump_if_zero")
JUMP_LIMIT = 65536
"""How often an action may jump back: BMv2 has no limit, and an endless loop there ends it."""

PARAMETERS = {
    "assign": 2, "assign_VL": 2, "assign_header": 2, "assign_union": 2, "assign_header_stack": 2,
    "assign_union_stack": 2, "push": 2, "pop": 2, "assume": 1, "assert": 1, "exit": 0,
    "log_msg": 2, "modify_field": 2, "modify_field_rng_uniform": 3, "add_to_field": 2,
    "subtract_from_field": 2, "add": 3, "subtract": 3, "bit_xor": 3, "bit_or": 3, "bit_and": 3,
    "shift_left": 3, "shift_right": 3, "drop": 0, "mark_to_drop": 1, "generate_digest": 2,
    "add_header": 1, "add_header_fast": 1, "remove_header": 1, "copy_header": 2,
    "clone_ingress_pkt_to_egress": 2, "clone_egress_pkt_to_egress": 2, "resubmit": 1,
    "recirculate": 1, "modify_field_with_hash_based_offset": 4, "no_op": 0, "execute_meter": 3,
    "count": 2, "register_read": 3, "register_write": 3, "truncate": 1, "_jump": 1,
    "_jump_if_zero": 2,
}  # fmt: skip
"""How many parameters each primitive has, as in BMv2."""

DROP = ("phv[EGRESS_SPEC] = DROP_PORT", "phv[MCAST_GRP] = 0")
LINES = {
    "no_op": ("pass",), "log_msg": ("pass",), "drop": DROP, "mark_to_drop": DROP,
    "exit": ("phv[R_EXIT] = 1",),
}  # fmt: skip
"""Primitives that do the same whatever their parameters are."""

OPERATORS = {
    "add": "+", "subtract": "-", "bit_xor": "^", "bit_or": "|", "bit_and": "&", "shift_left": "<<",
    "shift_right": ">>", "add_to_field": "+", "subtract_from_field": "-",
}  # fmt: skip
"""P4_14's arithmetic: the first parameter becomes what the other two give, or with the only other
one it gives itself."""

NUMBERS = {
    "resubmit": ("R_RESUBMIT", "a field list"),
    "recirculate": ("R_RECIRCULATE", "a field list"),
    "generate_digest": ("R_DIGEST", "a learn list"),
}
"""Primitives that leave the number of a list, their last parameter, for the engine."""


class Primitives:
    """The source of primitives; ``hash_names`` maps a calculation's name to its function."""

    def __init__(
        self, program: Program, translator: Translator, hash_names: dict[str, str]
    ) -> None:
        self.program = program
        self.translator = translator
        self.hash_names = hash_names
        self.headers = HeaderPrimitives(program, translator)
        self.source: Json = {}
        """Where in the P4 source the primitive stands that is being written, if that is known."""

    def write_action(self, action: ProgramAction, function: str) -> tuple[str, list[str]]:
        """Return the function of an action, and the names of its arguments."""
        self.translator.action = action
        body = Writer(1)
        try:
            self.write_body(body, action.primitives)
        except ProgramError as error:
            raise ProgramError(f"action {action.name!r}: {error}") from error
        self.translator.action = None
        text = body.text
        found = set(re.findall(r"\w+", text)) | {"phv"}
        used = [name for name in ENVIRONMENT if name in found]
        head = Writer()
        head.line("@jit", f"def {function}({', '.join(used)}):")
        title = remark(f"{action.name}({', '.join(action.parameters)})")
        head.line(f'    """Action {title}."""')
        return head.text + (text if text.strip() else "    pass\n"), used

    def write_body(self, writer: Writer, primitives: tuple[Json, ...]) -> None:
        """Write all primitives; those with jumps become blocks that run or are skipped."""
        if not any(node["op"] in JUMPS for node in primitives):
            for node in primitives:
                self.write(writer, node)
            return
        starts = {0}
        back = False
        for position, node in enumerate(primitives):
            if node["op"] in JUMPS:
                target = self.jump_target(node, len(primitives))
                starts |= {target, position + 1}
                back = back or target <= position
        writer.line("step = 0")
        if back:
            writer.line(f"for _ in range({JUMP_LIMIT}):")
            writer.depth += 1
        depth = writer.depth
        for position, node in enumerate(primitives):
            if position in starts:
                writer.depth = depth
                writer.line(f"if step <= {position}:")
                writer.depth = depth + 1
                writer.line("pass")
            match node["op"]:
                case "_jump":
                    self.jump(writer, node, position, len(primitives))
                case "_jump_if_zero":
                    test = self.translator.condition(node["parameters"][0])
                    with writer.indented(f"if not ({test}):"):
                        self.jump(writer, node, position, len(primitives))
                case _:
                    self.write(writer, node)
        writer.depth = depth
        if back:
            writer.line("break")
            writer.depth -= 1

    def jump(self, writer: Writer, node: Json, position: int, count: int) -> None:
        """Go to another primitive. On the way forward the blocks before it do not run."""
        target = self.jump_target(node, count)
        writer.line(f"step = {target}")
        if target <= position:
            writer.line("continue")

    def jump_target(self, node: Json, count: int) -> int:
        """Return where a jump goes."""
        target = self.translator.integer(node["parameters"][-1]).constant
        if target is None or not 0 <= target <= count:
            raise ProgramError(f"a jump to primitive {target} of {count}")
        return target

    def assign(self, writer: Writer, target: Json, value: Value) -> None:
        """Store a value in a field, or in an element of a stack."""
        node = unwrap(target)
        match node["type"]:
            case "expression":
                reference, field = self.translator.element(node)

                def store_in(one: HeaderReference) -> None:
                    self.store(writer, field, field_place(self.translator, one, field), value)

                self.headers.picked(writer, reference, store_in)
            case "field":
                field = self.program.resolve(node["value"])
                self.store(writer, field, self.translator.name_of(field), value)
            case "stack_field" | "union_stack_field":
                self.store(writer, *last_place(self.program, node), value)
            case _:
                raise ProgramError(f"a value cannot be assigned to a {node['type']!r}")

    def store(self, writer: Writer, field: Field, place: str, value: Value) -> None:
        """Store a value, cut to a field's width, at a place of the PHV."""
        if field.varbit:
            writer.line(store_varbit(field, place, value))
        else:
            writer.line(store_line("phv", place, value, field.width, field.signed))

    def write(self, writer: Writer, node: Json) -> None:
        """Write one primitive. Raises ``ProgramError`` for one that is not supported."""
        name = node["op"]
        refuse(
            name not in PARAMETERS or name in JUMPS,
            f"BMv2's simple_switch has no primitive {name!r}",
            ProgramError,
        )
        parameters = node["parameters"]
        self.source = node.get("source_info") or {}
        refuse(
            len(parameters) != PARAMETERS[name],
            f"primitive {name!r} has {len(parameters)} parameters instead of {PARAMETERS[name]}",
            ProgramError,
        )
        for owner in (self, self.headers):
            method = getattr(owner, f"do_{name}", None)
            if method is not None:
                method(writer, parameters)
                return
        if name in LINES:
            writer.extend(LINES[name])
        elif name in OPERATORS:
            self.assign(
                writer, parameters[0], self.translator.binary(OPERATORS[name], *parameters[-2:])
            )
        else:
            register, what = NUMBERS[name]
            number = self.translator.narrow(parameters[-1], what)
            writer.line(f"phv[{register}] = {number} & 0xFFFF")

    def do_assign(self, writer: Writer, parameters: list[Json]) -> None:
        """Store the value of an expression in a field."""
        self.assign(writer, parameters[0], self.translator.value(parameters[1]))

    do_modify_field = do_assign

    def do_truncate(self, writer: Writer, parameters: list[Json]) -> None:
        """Keep the shortest length that any truncate() asks for."""
        length = self.translator.narrow(parameters[0], "the length of truncate()")
        writer.line(f"kept_bytes = max({length}, 0) + 1")
        with writer.indented("if phv[R_TRUNCATE] == 0 or kept_bytes < phv[R_TRUNCATE]:"):
            writer.line("phv[R_TRUNCATE] = kept_bytes")

    def do_assert(self, writer: Writer, parameters: list[Json]) -> None:
        """Count an assertion that does not hold."""
        with writer.indented(f"if not ({self.translator.condition(parameters[0])}):"):
            writer.line("state.assertions += 1")
            self.tell_assertion(writer)

    def tell_assertion(self, writer: Writer) -> None:
        """Write what tells a trace of an assertion that does not hold: nothing in this form."""

    do_assume = do_assert

    def do_clone_ingress_pkt_to_egress(self, writer: Writer, parameters: list[Json]) -> None:
        """Leave the clone session and the field list for the engine."""
        session = self.translator.narrow(parameters[0], "a clone session")
        fields = self.translator.narrow(parameters[1], "a field list")
        writer.line(
            f"phv[R_CLONE] = ({session} & 0x7FFF) + 1", f"phv[R_CLONE_LIST] = {fields} & 0xFFFF"
        )

    do_clone_egress_pkt_to_egress = do_clone_ingress_pkt_to_egress

    def do_modify_field_rng_uniform(self, writer: Writer, parameters: list[Json]) -> None:
        """Store a random number between two bounds."""
        low, high = (self.translator.word(node) for node in parameters[1:3])
        writer.line(f"low = {low.source}", f"high = {high.source}")
        with writer.indented("if not less64(high, low):"):
            self.assign(
                writer, parameters[0], Value("random_between(state, low, high)", 0, high.high)
            )

    def do_modify_field_with_hash_based_offset(
        self, writer: Writer, parameters: list[Json]
    ) -> None:
        """Store what hash() gives: the base, and the hash modulo the size."""
        target, base_node, calculation, size_node = parameters
        base, size = self.translator.word(base_node), self.translator.integer(size_node)
        if size.constant != 1 << 64:
            size = self.translator.word(size_node)
        function = self.hash_names.get(calculation["value"])
        if function is None:
            raise ProgramError(f"hash() names a calculation {calculation['value']!r} not there")
        writer.line(f"hashed = {function}(phv, scratch, words, frame)")
        if size.constant == 1 << 64:
            most = (1 << 64) - 1
            value = Value("hashed", 0, most)
        else:
            writer.line(f"size = {size.source}")
            most = max(size.high - 1, 0)
            value = Value("(modulo64(hashed, size) if size != 0 else 0)", 0, most)
        if base.constant != 0:
            value = Value(f"({base.source} + {value.source})", base.low, base.high + most)
        self.assign(writer, target, value)

    def index(self, writer: Writer, node: Json, cells: Cells | Meter) -> str:
        """Return the condition that an index is within an array; leaves the index in ``index``."""
        writer.line(f"index = {self.translator.narrow(node, 'an index')}")
        return f"0 <= index < {cells.size}"

    def do_count(self, writer: Writer, parameters: list[Json]) -> None:
        """Count the packet and its bytes in a cell of a counter."""
        cells = named(self.program.counters, parameters[0]["value"], "counter")
        with writer.indented(f"if {self.index(writer, parameters[1], cells)}:"):
            writer.line(
                f"counters[{2 * cells.base} + 2 * index] += 1",
                f"counters[{2 * cells.base + 1} + 2 * index] += phv[R_INGRESS_LENGTH]",
            )

    def do_register_read(self, writer: Writer, parameters: list[Json]) -> None:
        """Store what a cell of a register holds in a field."""
        cells = named(self.program.registers, parameters[1]["value"], "register")
        with writer.indented(f"if {self.index(writer, parameters[2], cells)}:"):
            value = load("registers", cells.place("index"), cells.width, cells.signed)
            self.assign(writer, parameters[0], value)

    def do_register_write(self, writer: Writer, parameters: list[Json]) -> None:
        """Store a value in a cell of a register."""
        cells = named(self.program.registers, parameters[0]["value"], "register")
        with writer.indented(f"if {self.index(writer, parameters[1], cells)}:"):
            value = self.translator.value(parameters[2])
            writer.line(
                store_line("registers", cells.place("index"), value, cells.width, cells.signed)
            )

    def do_execute_meter(self, writer: Writer, parameters: list[Json]) -> None:
        """Run a cell of a meter and store the packet's colour in a field."""
        meter = named(self.program.meters, parameters[0]["value"], "meter")
        with writer.indented(f"if {self.index(writer, parameters[1], meter)}:"):
            length = "phv[R_INGRESS_LENGTH]"
            size = "1" if meter.packets else length
            writer.line(f"colour = run_meter(state, {meter.base} + index, {size}, {length})")
            self.assign(writer, parameters[2], Value("colour", 0, 2))
