"""The primitives that actions and parser states are made of.

Those of simple_switch: targets/simple_switch/primitives.cpp of p4lang/behavioral-model, and the
core ones of docs/JSON_format.md.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import partialmethod
from typing import Any

from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import Program
from weft.switch.interpreter.expressions import OPERATORS, Evaluator, unwrapped
from weft.switch.interpreter.hashes import computed
from weft.switch.interpreter.memory import Memory
from weft.switch.interpreter.packet import Packet, joined
from weft.switch.interpreter.steps import Choice, Step, source_text

Json = Any

Steps = Generator[Step, int | None, None]

MOST_JUMPS = 65536
"""How often an action may jump back: BMv2 has no limit."""

WORD = (1 << 64) - 1

ARITHMETIC = {
    "add": "+", "subtract": "-", "bit_xor": "^", "bit_or": "|", "bit_and": "&", "shift_left": "<<",
    "shift_right": ">>", "add_to_field": "+", "subtract_from_field": "-",
}  # fmt: skip
"""P4_14's: the first parameter gets the result of the other two, or of itself and the other."""


def as_word(value: int) -> int:
    """Return a number as BMv2 converts it to 64 bits without sign."""
    return value & WORD if value >= -(1 << 63) else 0 if value < 0 else min(value, WORD)


def input_of(packet: Packet, inputs: Sequence[Json]) -> bytes:
    """Return the bytes that a calculation is of: those of invalid headers are left out, and the
    payload comes last."""
    parts: list[tuple[int, int]] = []
    payload = b""
    for item in inputs:
        match item["type"]:
            case "hexstr":
                width = int(item["bitwidth"])
                parts.append((int(item["value"], 16) & ((1 << width) - 1), width))
            case "payload":
                payload = packet.payload[: packet.truncate]
            case "header" if packet.is_valid(item["value"]):
                parts += packet.content(item["value"])
            case "field" if packet.is_valid(item["value"][0]):
                parts.append(packet.bits(*item["value"]))
    return joined(parts) + payload


def assigned(packet: Packet, source: Json = None) -> Iterator[Step]:
    """Tell the values that fields have got."""
    written, packet.written = packet.written, []
    for name, value in written:
        yield Step("assigned", packet, {"field": name, "value": hex(value)}, source)


class Primitives:
    """Runs primitives on a packet."""

    def __init__(
        self, program: Program, packet: Packet, memory: Memory, drop_port: int, now_us: int
    ) -> None:
        self.program, self.packet, self.memory = program, packet, memory
        self.drop_port, self.now_us = drop_port, now_us
        self.values = Evaluator(packet, memory)
        self.number = self.values.number
        self.told: list[Step] = []

    def action(self, primitives: Sequence[Json], arguments: Sequence[int]) -> Steps:
        """Run all primitives of an action."""
        self.values.arguments = arguments
        position = jumps = 0
        while position < len(primitives) and jumps < MOST_JUMPS:
            node = primitives[position]
            position += 1
            parameters = node["parameters"]
            jumps_here = node["op"] == "_jump" or (
                node["op"] == "_jump_if_zero" and not self.number(parameters[0])
            )
            if jumps_here:
                target = self.number(parameters[-1])
                jumps += target < position
                position = target
            elif node["op"] != "_jump_if_zero":
                yield from self.one(node)
        self.values.arguments = ()

    def one(self, node: Json) -> Steps:
        """Run one primitive, and tell what it has done."""
        name, source = node["op"], node.get("source_info")
        yield Step("primitive", self.packet, {"primitive": name}, source)
        if name in ARITHMETIC:
            first, left, right = [*node["parameters"][:1], *node["parameters"]][-3:]
            self.assign(first, OPERATORS[ARITHMETIC[name]](self.number(left), self.number(right)))
        else:
            method = getattr(self, f"do_{name}", None)
            if method is None:
                raise ProgramError(f"BMv2's simple_switch has no primitive {name!r}")
            steps = method(*node["parameters"], source) if name in TELLING else (
                method(*node["parameters"])
            )  # fmt: skip
            if steps is not None:
                yield from steps
        yield from assigned(self.packet, source)

    # -- fields

    def assign(self, target: Json, value: int) -> None:
        """Store a number in a field, unless an index is out of bounds."""
        place = self.values.place(target, exact=True)
        if place is not None:
            self.packet.write(place, value)

    def do_assign(self, target: Json, value: Json) -> None:
        """Store the value of an expression."""
        self.assign(target, self.number(value))

    do_modify_field = do_assign

    def set_field(self, target: Json, value: Json) -> None:
        """Do what ``set`` of a parser does: a field of variable length gets its length, too."""
        place = self.values.place(target)
        if place is not None and self.packet.program.field(place).varbit:
            self.do_assign_VL(target, value)
        else:
            self.do_assign(target, value)

    def do_assign_VL(self, target: Json, value: Json) -> None:
        """Copy a field of variable length; what has no room at its end is lost."""
        mine, theirs = self.values.place(target, exact=True), self.values.place(value)
        if mine is None or theirs is None:
            return
        bits, length = self.packet.bits(*theirs)
        most = self.packet.program.field(mine).width
        self.packet.lengths[mine[0]] = min(length, most)
        self.packet.write(mine, bits >> max(length - most, 0))

    def do_modify_field_rng_uniform(
        self, target: Json, low: Json, high: Json, source: Json
    ) -> Steps:
        """Store a random number between two bounds, both included."""
        first, last = as_word(self.number(low)), as_word(self.number(high))
        if first <= last:
            numbers = range(first, last + 1)
            told = {"choice": "random", "from": hex(first), "to": hex(last)}
            chosen = yield Choice("choice", self.packet, told, source, alternatives=numbers)
            self.assign(target, first + (chosen or 0))

    def do_modify_field_with_hash_based_offset(
        self, target: Json, base: Json, calculation: Json, size: Json
    ) -> None:
        """Store a base plus a hash modulo a size."""
        entry = self.packet.program.calculations[calculation["value"]]
        custom = self.memory.crcs.get(entry["name"])
        value = computed(entry["algo"], input_of(self.packet, entry["input"]), custom)
        most = self.number(size)
        if most != 1 << 64:
            most = as_word(most)
            value = value % most if most else 0
        self.assign(target, as_word(self.number(base)) + value)

    # -- what the switch is asked for

    def do_drop(self, *_: Json) -> None:
        """Send the packet nowhere."""
        self.packet["mcast_grp"] = 0
        self.packet.write(self.packet.program.standard("egress_spec"), self.drop_port)

    do_mark_to_drop = do_drop

    def do_exit(self) -> None:
        """End the pipeline behind this action."""
        self.packet.exited = True

    def do_truncate(self, length: Json) -> None:
        """Keep the shortest length that is asked for."""
        kept = max(self.number(length), 0)
        before = self.packet.truncate
        self.packet.truncate = kept if before is None else min(before, kept)

    def do_clone_ingress_pkt_to_egress(self, session: Json, field_list: Json) -> None:
        """Ask for copies of a session."""
        self.packet.clone = self.number(session) & 0x7FFF, self.number(field_list) & 0xFFFF

    do_clone_egress_pkt_to_egress = do_clone_ingress_pkt_to_egress

    def do_resubmit(self, field_list: Json) -> None:
        """Ask for ingress again."""
        self.packet.resubmit = self.number(field_list) & 0xFFFF

    def do_recirculate(self, field_list: Json) -> None:
        """Ask for the parser again, once the packet has been deparsed."""
        self.packet.recirculate = self.number(field_list) & 0xFFFF

    def do_generate_digest(self, _: Json, learn_list: Json) -> None:
        """Tell the controller."""
        self.packet.digest = self.number(learn_list) & 0xFFFF

    # -- the switch's memory

    def cell(self, name: str, index: Json, size: int) -> int | None:
        """Return an index of an array, if there is such a cell."""
        value = self.number(index)
        return value if 0 <= value < size else None

    def do_count(self, counter: Json, index: Json) -> None:
        """Count the packet and its bytes."""
        name = counter["value"]
        cell = self.cell(name, index, self.program.counters[name].size)
        if cell is not None:
            self.memory.count((name, cell), self.packet.ingress_length)

    def do_execute_meter(self, meter: Json, index: Json, target: Json) -> None:
        """Store the colour of the packet."""
        one = self.program.meters[meter["value"]]
        cell = self.cell(one.name, index, one.size)
        if cell is not None:
            size = self.packet.ingress_length
            self.assign(target, self.memory.mark(one, (one.name, cell), size, self.now_us))

    def do_register_read(self, target: Json, register: Json, index: Json, source: Json) -> Steps:
        """Store what a cell of a register holds."""
        name = register["value"]
        cells, wanted = self.memory.registers[name], self.number(index)
        cell = self.cell(name, index, len(cells))
        yield self.register_step(name, wanted, "read", source)
        if cell is not None:
            self.assign(target, cells[cell])

    def do_register_write(self, register: Json, index: Json, value: Json, source: Json) -> Steps:
        """Store a value in a cell of a register."""
        name = register["value"]
        cells, wanted = self.memory.registers[name], self.number(index)
        cell = self.cell(name, index, len(cells))
        if cell is not None:
            entry = self.program.registers[name]
            kept = self.number(value) & ((1 << entry.width) - 1)
            negative = entry.signed and kept >> (entry.width - 1)
            cells[cell] = kept - (1 << entry.width) if negative else kept
        yield self.register_step(name, wanted, "write", source)

    def register_step(self, name: str, index: int, access: str, source: Json) -> Step:
        """Return the step that tells what a cell of a register holds."""
        cells = self.memory.registers[name]
        width = self.program.registers[name].width
        value = hex(cells[index] & ((1 << width) - 1)) if 0 <= index < len(cells) else None
        told = {"register": name, "index": index, "size": len(cells), "access": access}
        return Step("register", self.packet, {**told, "value": value}, source)

    # -- what only people see

    def do_no_op(self) -> None:
        """Do nothing."""

    def do_log_msg(self, text: Json, values: Json, source: Json) -> Steps:
        """Tell a message with values put in."""
        message = text["value"]
        for node in values["value"]:
            message = message.replace("{}", str(as_word(self.number(node))), 1)
        yield Step("message", self.packet, {"text": message}, source)

    def do_assert(self, condition: Json, source: Json) -> Steps:
        """Count an assertion that does not hold."""
        if not self.number(condition):
            self.memory.failed_assertions += 1
            what = str((source or {}).get("source_fragment", "assert")).strip().rstrip(";")
            told = {"assertion": f"{what} at {source_text(source or {'filename': '?'})}"}
            yield Step("assertion_failed", self.packet, told, source)

    do_assume = do_assert

    # -- headers

    def do_add_header(self, node: Json) -> None:
        """Make a header valid, its fields 0, unless it is valid."""
        header = self.values.header(node, exact=True)
        if header is None or self.packet.is_valid(header):
            return
        for name in self.packet.program.headers[header]:
            self.packet.values[header, name] = 0
        self.packet.make_valid(header)
        self.packet.length += self.packet.size(header)

    def do_add_header_fast(self, node: Json) -> None:
        """Make a header valid, whatever its fields are."""
        header = self.values.header(node, exact=True)
        if header is not None:
            self.packet.make_valid(header)

    def do_remove_header(self, node: Json) -> None:
        """Make a header invalid."""
        header = self.values.header(node, exact=True)
        if header is not None and header in self.packet.valid:
            self.packet.valid.discard(header)
            self.packet.length -= self.packet.size(header)

    def do_assign_header(self, target: Json, source: Json) -> None:
        """Copy a header with its validity."""
        mine, theirs = (self.values.header(node, exact=True) for node in (target, source))
        if mine is not None and theirs is not None:
            self.packet.copy_header(mine, theirs)

    do_copy_header = do_assign_header

    def do_assign_union(self, target: Json, source: Json) -> None:
        """Copy each header of a union."""
        sides = [self.values.element(node, exact=True) for node in (target, source)]
        if None not in sides:
            self.copy_all(*(side or [] for side in sides))

    def copy_all(self, target: Sequence[str], source: Sequence[str]) -> None:
        """Copy headers, one after the other."""
        for mine, theirs in zip(target, source, strict=True):
            self.packet.copy_header(mine, theirs)

    def do_assign_header_stack(self, target: Json, source: Json) -> None:
        """Copy a stack with its count of extracted elements."""
        packet, stacks = self.packet, self.packet.program.stacks
        packet.following[target["value"]] = packet.following.get(source["value"], 0)
        for mine, theirs in zip(stacks[target["value"]], stacks[source["value"]], strict=True):
            self.copy_all(mine, theirs)

    do_assign_union_stack = do_assign_header_stack

    def shift(self, stack: Json, places: Json, sign: int) -> None:
        """Move the elements of a stack towards its end (``sign`` 1) or its front; the places that
        become free are not valid."""
        name = unwrapped(stack)["value"]
        elements = self.packet.program.stacks[name]
        size = len(elements)
        count = min(self.number(places), size)
        if count <= 0:
            return
        order = range(size - 1, -1, -1) if sign > 0 else range(size)
        for position in order:
            source = position - sign * count
            if 0 <= source < size:
                self.copy_all(elements[position], elements[source])
            else:
                self.packet.valid.difference_update(elements[position])
        following = self.packet.following.get(name, 0) + sign * count
        self.packet.following[name] = min(max(following, 0), size)

    do_push = partialmethod(shift, sign=1)
    do_pop = partialmethod(shift, sign=-1)


TELLING = {
    "modify_field_rng_uniform", "register_read", "register_write", "log_msg", "assert", "assume",
}  # fmt: skip
"""Primitives that tell more than the fields they assign to, and so are told their place."""
