"""Source of the primitives that actions and parser states are made of."""

from __future__ import annotations

import re
from typing import Any

from switch.engine.control import ProgramError
from switch.engine.expressions import Translator, Value, store
from switch.engine.program import Action, Cells, Field, Header, Program
from switch.engine.source import Writer, remark

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


class Primitives:
    """Writes primitives; ``hash_names`` maps a calculation's name to its function."""

    def __init__(
        self, program: Program, translator: Translator, hash_names: dict[str, str]
    ) -> None:
        self.program = program
        self.translator = translator
        self.hash_names = hash_names

    def write_action(self, action: Action, function: str) -> tuple[str, list[str]]:
        """The function of an action, and the names of its arguments."""
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
        head.line("@jit")
        head.line(f"def {function}({', '.join(used)}):")
        title = remark(f"{action.name}({', '.join(action.parameters)})")
        head.line(f'    """Action {title}."""')
        return head.text + (text if text.strip() else "    pass\n"), used

    def write_body(self, writer: Writer, primitives: tuple[Json, ...]) -> None:
        """All primitives; those with jumps become blocks that run or are skipped."""
        jumps = [node for node in primitives if node["op"] in ("_jump", "_jump_if_zero")]
        if not jumps:
            for node in primitives:
                self.write(writer, node)
            return
        writer.line("step = 0")
        starts = {0}
        for position, node in enumerate(primitives):
            if node["op"] in ("_jump", "_jump_if_zero"):
                target = self.jump_target(node, position, len(primitives))
                starts |= {target, position + 1}
        for position, node in enumerate(primitives):
            if position in starts:
                writer.depth = 1
                writer.line(f"if step <= {position}:")
                writer.depth = 2
                writer.line("pass")
            if node["op"] == "_jump":
                writer.line(f"step = {self.jump_target(node, position, len(primitives))}")
            elif node["op"] == "_jump_if_zero":
                target = self.jump_target(node, position, len(primitives))
                test = self.translator.value(node["parameters"][0])
                with writer.indented(f"if {test.source} == 0:"):
                    writer.line(f"step = {target}")
            else:
                self.write(writer, node)
        writer.depth = 1

    def jump_target(self, node: Json, position: int, count: int) -> int:
        """Where a jump goes; only forward."""
        target = self.translator.integer(node["parameters"][-1]).constant
        if target is None or not position < target <= count:
            raise ProgramError("a jump backwards (a loop) is not supported yet")
        return target

    def assign(self, writer: Writer, target: Json, value: Value) -> None:
        """Store a value in a field, or in an element of a stack."""
        field, place = self.target(target)
        writer.line(f"phv[{place}] = {store(value, field.width, field.signed)}")

    def target(self, node: Json) -> tuple[Field, str]:
        """The field and the place that something is assigned to."""
        if node["type"] == "field":
            field = self.program.resolve(node["value"])
            return field, self.translator.name_of(field)
        if node["type"] == "expression":
            _, field, place = self.translator.element(node)
            return field, place
        if node["type"] == "stack_field":
            stack = self.program.stacks[node["value"][0]]
            names = [field.name for field in stack.headers[0].fields]
            offset = names.index(node["value"][1])
            place = self.translator.stack_place(stack.name, f"phv[{stack.next_slot}] - 1", offset)
            return stack.headers[0].fields[offset], place
        raise ProgramError(f"assignment to a {node['type']!r} is not supported yet")

    def write(self, writer: Writer, node: Json) -> None:
        """One primitive; raises ``ProgramError`` for one that is not supported."""
        name = node["op"]
        method = getattr(self, f"do_{name.lstrip('_')}", None)
        if method is None:
            raise ProgramError(f"primitive {name!r} is not supported yet")
        method(writer, node["parameters"])

    def do_assign(self, writer: Writer, parameters: list[Json]) -> None:
        self.assign(writer, parameters[0], self.translator.value(parameters[1]))

    do_modify_field = do_assign

    def arithmetic(self, writer: Writer, target: Json, operator: str, a: Json, b: Json) -> None:
        """P4_14's three-address primitives."""
        self.assign(writer, target, self.translator.binary(operator, a, b))

    def do_add_to_field(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "+", parameters[0], parameters[1])

    def do_subtract_from_field(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "-", parameters[0], parameters[1])

    def do_add(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "+", parameters[1], parameters[2])

    def do_subtract(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "-", parameters[1], parameters[2])

    def do_bit_xor(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "^", parameters[1], parameters[2])

    def do_bit_or(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "|", parameters[1], parameters[2])

    def do_bit_and(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "&", parameters[1], parameters[2])

    def do_shift_left(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], "<<", parameters[1], parameters[2])

    def do_shift_right(self, writer: Writer, parameters: list[Json]) -> None:
        self.arithmetic(writer, parameters[0], ">>", parameters[1], parameters[2])

    def do_no_op(self, writer: Writer, parameters: list[Json]) -> None:
        writer.line("pass")

    do_log_msg = do_no_op

    def do_drop(self, writer: Writer, parameters: list[Json]) -> None:
        writer.line("phv[EGRESS_SPEC] = DROP_PORT")
        writer.line("phv[MCAST_GRP] = 0")

    do_mark_to_drop = do_drop

    def do_exit(self, writer: Writer, parameters: list[Json]) -> None:
        writer.line("phv[R_EXIT] = 1")

    def do_truncate(self, writer: Writer, parameters: list[Json]) -> None:
        length = self.translator.narrow(parameters[0], "the length of truncate()")
        writer.line(f"phv[R_TRUNCATE] = max({length}, 0) + 1")

    def do_assert(self, writer: Writer, parameters: list[Json]) -> None:
        value = self.translator.integer(parameters[0])
        with writer.indented(f"if {value.source} == 0:"):
            writer.line("state[ASSERTIONS] += 1")

    do_assume = do_assert

    def do_clone_ingress_pkt_to_egress(self, writer: Writer, parameters: list[Json]) -> None:
        session = self.translator.narrow(parameters[0], "a clone session")
        fields = self.translator.narrow(parameters[1], "a field list")
        writer.line(f"phv[R_CLONE] = ({session} & 0x7FFF) + 1")
        writer.line(f"phv[R_CLONE_LIST] = {fields}")

    do_clone_egress_pkt_to_egress = do_clone_ingress_pkt_to_egress

    def do_resubmit(self, writer: Writer, parameters: list[Json]) -> None:
        fields = self.translator.narrow(parameters[0], "a field list")
        writer.line(f"phv[R_RESUBMIT] = {fields} + 1")

    def do_recirculate(self, writer: Writer, parameters: list[Json]) -> None:
        fields = self.translator.narrow(parameters[0], "a field list")
        writer.line(f"phv[R_RECIRCULATE] = {fields} + 1")

    def do_modify_field_rng_uniform(self, writer: Writer, parameters: list[Json]) -> None:
        low, high = (self.translator.integer(node) for node in parameters[1:3])
        if not low.unsigned64 or not high.unsigned64:
            raise ProgramError("the bounds of random() have more than 64 bits")
        writer.line(f"low = {low.source}")
        writer.line(f"high = {high.source}")
        with writer.indented("if not less64(high, low):"):
            value = Value("random_between(state, low, high)", 0, high.high)
            self.assign(writer, parameters[0], value)

    def do_modify_field_with_hash_based_offset(
        self, writer: Writer, parameters: list[Json]
    ) -> None:
        target, base_node, calculation, size_node = parameters
        base, size = self.translator.integer(base_node), self.translator.integer(size_node)
        if not base.unsigned64 or size.low < 0 or size.high > 1 << 64:
            raise ProgramError("base or max of hash() has more than 64 bits")
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

    def cells(self, table: dict[str, Cells], node: Json, what: str) -> Cells:
        """The counter, register or meter array that a parameter names."""
        if node["value"] not in table:
            raise ProgramError(f"the program has no {what} {node['value']!r}")
        return table[node["value"]]

    def index(self, writer: Writer, node: Json, cells: Cells) -> str:
        """The condition that an index is within an array; leaves the index in ``index``."""
        value = self.translator.integer(node)
        if not value.narrow:
            raise ProgramError(f"an index into {cells.name!r} of more than 63 bits")
        writer.line(f"index = {value.source}")
        return f"0 <= index < {cells.size}"

    def do_count(self, writer: Writer, parameters: list[Json]) -> None:
        cells = self.cells(self.program.counters, parameters[0], "counter")
        with writer.indented(f"if {self.index(writer, parameters[1], cells)}:"):
            writer.line(f"counters[{2 * cells.base} + 2 * index] += 1")
            writer.line(f"counters[{2 * cells.base + 1} + 2 * index] += phv[R_INGRESS_LENGTH]")

    def do_register_read(self, writer: Writer, parameters: list[Json]) -> None:
        cells = self.cells(self.program.registers, parameters[1], "register")
        with writer.indented(f"if {self.index(writer, parameters[2], cells)}:"):
            field = Field(cells.name, cells.width, cells.signed, 0)
            value = self.translator.load_field(field, "0")
            source = value.source.replace("phv[0]", f"registers[{cells.base} + index]")
            self.assign(writer, parameters[0], Value(source, value.low, value.high))

    def do_register_write(self, writer: Writer, parameters: list[Json]) -> None:
        cells = self.cells(self.program.registers, parameters[0], "register")
        with writer.indented(f"if {self.index(writer, parameters[1], cells)}:"):
            value = self.translator.value(parameters[2])
            source = store(value, cells.width, cells.signed)
            writer.line(f"registers[{cells.base} + index] = {source}")

    def do_execute_meter(self, writer: Writer, parameters: list[Json]) -> None:
        # Meters cannot be configured yet; one without rates is always green, which is 0.
        cells = self.cells(self.program.meters, parameters[0], "meter")
        with writer.indented(f"if {self.index(writer, parameters[1], cells)}:"):
            self.assign(writer, parameters[2], Value("0", 0, 0))

    def header(self, node: Json) -> Header:
        """A header parameter."""
        if node["type"] != "header":
            raise ProgramError(f"a header given as {node['type']!r} is not supported yet")
        return self.program.header(node["value"])

    def do_add_header(self, writer: Writer, parameters: list[Json]) -> None:
        header = self.header(parameters[0])
        place = self.translator.valid_name(header)
        with writer.indented(f"if phv[{place}] == 0:"):
            writer.line(f"phv[{place}] = 1")
            writer.line(f"phv[R_LENGTH] += {header.bits // 8}")
            if header.wide:
                self.use_wide_headers(writer)

    def use_wide_headers(self, writer: Writer) -> None:
        """Have all words of the PHV copied with the packet."""
        writer.line(f"phv[R_FIELDS] = {self.program.field_count}")

    def do_remove_header(self, writer: Writer, parameters: list[Json]) -> None:
        header = self.header(parameters[0])
        place = self.translator.valid_name(header)
        with writer.indented(f"if phv[{place}] != 0:"):
            writer.line(f"phv[{place}] = 0")
            writer.line(f"phv[R_LENGTH] -= {header.bits // 8}")

    def copy_header(self, writer: Writer, target: Header, source: Header) -> None:
        """Copy validity, and the fields of a valid header."""
        if len(target.fields) != len(source.fields):
            raise ProgramError(f"{target.name!r} and {source.name!r} are of different types")
        name_of = self.translator.name_of
        if target.metadata or source.metadata:
            for left, right in zip(target.fields, source.fields, strict=True):
                writer.line(f"phv[{name_of(left)}] = phv[{name_of(right)}]")
            return
        valid = self.translator.valid_name(source)
        writer.line(f"phv[{self.translator.valid_name(target)}] = phv[{valid}]")
        with writer.indented(f"if phv[{valid}] != 0:"):
            if target.wide:
                self.use_wide_headers(writer)
            for left, right in zip(target.fields, source.fields, strict=True):
                writer.line(f"phv[{name_of(left)}] = phv[{name_of(right)}]")

    def do_assign_header(self, writer: Writer, parameters: list[Json]) -> None:
        self.copy_header(writer, self.header(parameters[0]), self.header(parameters[1]))

    do_copy_header = do_assign_header

    def do_assign_header_stack(self, writer: Writer, parameters: list[Json]) -> None:
        target, source = (self.program.stacks[node["value"]] for node in parameters[:2])
        writer.line(f"phv[{target.next_slot}] = phv[{source.next_slot}]")
        for left, right in zip(target.headers, source.headers, strict=True):
            self.copy_header(writer, left, right)

    def do_pop(self, writer: Writer, parameters: list[Json]) -> None:
        self.shift_stack(writer, parameters, -1)

    def do_push(self, writer: Writer, parameters: list[Json]) -> None:
        self.shift_stack(writer, parameters, 1)

    def shift_stack(self, writer: Writer, parameters: list[Json], direction: int) -> None:
        """P4_16 sections 8.18: move elements by a constant number of places."""
        stack = self.program.stacks[parameters[0]["value"]]
        count = self.translator.integer(parameters[1]).constant
        if count is None:
            raise ProgramError("push_front and pop_front need a constant count")
        size = len(stack.headers)
        count = min(count, size)
        following = f"phv[{stack.next_slot}]"
        order = range(size) if direction < 0 else range(size - 1, -1, -1)
        for position in order:
            source = position - direction * count
            if 0 <= source < size:
                self.copy_header(writer, stack.headers[position], stack.headers[source])
            else:
                writer.line(f"phv[{stack.headers[position].valid_slot}] = 0")
        if direction < 0:
            writer.line(f"{following} = max({following} - {count}, 0)")
        else:
            writer.line(f"{following} = min({following} + {count}, {size})")
