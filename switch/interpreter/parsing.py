"""Parser and deparser: from a frame to headers, and back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.switch.engine.control.contents import Contents
from weft.switch.engine.control.entities import Key
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import CORE_ERRORS, number
from weft.switch.interpreter.packet import Packet, joined
from weft.switch.interpreter.primitives import Primitives, assigned
from weft.switch.interpreter.steps import Step
from weft.switch.interpreter.tables import matches

Json = Any

MOST_STATES = 4096
"""How many states a parser may go through: BMv2 has no limit."""


class ParserStop(Exception):
    """A parser error, by its number."""


@dataclass
class Parser:
    """A packet's way through the parser: ``at`` is how many bytes have been parsed."""

    packet: Packet
    primitives: Primitives
    contents: Contents
    number: int = 0
    """Which of the program's parsers."""
    at: int = 0

    def __post_init__(self) -> None:
        self.program = self.packet.program
        self.numbers = {name: code for code, name in enumerate(CORE_ERRORS)} | self.program.errors
        self.names = {code: name for name, code in self.numbers.items()}

    def run(self) -> Iterator[Step]:
        """Parse the frame; what is left is the payload."""
        packet, parser = self.packet, self.program.document["parsers"][self.number]
        states = {state["name"]: state for state in parser["parse_states"]}
        packet.valid.clear()
        packet.lengths.clear()
        packet.following.clear()
        packet["parser_error"] = self.numbers["NoError"]
        yield Step("block", packet, {"block": parser["name"]}, parser.get("source_info"))
        name: str | None = parser["init_state"]
        selected: dict[str, list[str]] = {}
        try:
            for _ in range(MOST_STATES):
                if name is None:
                    break
                state = states[name]
                told = {"state": name, **selected}
                yield Step("parser_state", packet, told, state.get("source_info"))
                for operation in state["parser_ops"]:
                    told = {"operation": operation["op"]}
                    yield Step("operation", packet, told, operation.get("source_info"))
                    yield from self.operation(operation)
                yield Step("transition", packet, {}, state.get("transition_source_info"))
                name, selected = self.transition(state)
            else:
                raise ParserStop(self.numbers["ParserTimeout"])
        except ParserStop as stop:
            packet["parser_error"] = stop.args[0]
            told = {"error": self.names.get(stop.args[0], f"error {stop.args[0]}")}
            yield Step("parser_error", packet, {**told, "offset": self.at})
        packet.payload = packet.frame[self.at :]
        error = packet["parser_error"]
        name_of_error = self.names.get(error, f"error {error}")
        yield Step("parsed", packet, {"bytes": self.at, "error": name_of_error, **selected})

    def need(self, size: int) -> None:
        """Check that so many bytes are left."""
        if size > len(self.packet.frame) - self.at:
            raise ParserStop(self.numbers["PacketTooShort"])

    def need_bits(self, bits: int, more: int = 0) -> None:
        """Check that so many bits are whole bytes, and left behind ``more`` bytes."""
        if bits < 0 or bits % 8:
            raise ParserStop(self.numbers["ParserInvalidArgument"])
        self.need(more + bits // 8)

    def lookahead(self, place: tuple[int, int]) -> int:
        """Return bits ahead in the packet."""
        offset, width = place
        size = (offset + width + 7) // 8
        self.need(size)
        value = int.from_bytes(self.packet.frame[self.at : self.at + size], "big")
        return value >> (8 * size - offset - width) & ((1 << width) - 1)

    def operation(self, node: Json) -> Iterator[Step]:
        """Do one operation of a state."""
        parameters, values = node["parameters"], self.primitives
        match node["op"]:
            case "extract":
                yield self.extract(parameters[0], None)
            case "extract_VL":
                yield self.extract(parameters[0], parameters[1])
            case "set" if parameters[1]["type"] == "lookahead":
                values.assign(parameters[0], self.lookahead(parameters[1]["value"]))
            case "set":
                values.set_field(parameters[0], parameters[1])
            case "verify":
                if not values.number(parameters[0]):
                    code = parameters[1]
                    raise ParserStop(code if isinstance(code, int) else values.number(code))
            case "advance":
                bits = values.number(parameters[0])
                self.need_bits(bits)
                self.at += bits // 8
            case "shift":
                self.need(int(parameters[0]))
                self.at += int(parameters[0])
            case "primitive":
                for inner in parameters:
                    yield from values.one(inner)
            case other:
                raise ProgramError(f"a parser has no operation {other!r}")
        yield from assigned(self.packet, node.get("source_info"))

    def target(self, node: Json) -> str:
        """Return the header that is extracted to."""
        if node["type"] == "regular":
            return str(node["value"])
        name, member = node["value"], 0
        if node["type"] == "union_stack":
            name, wanted = node["value"]
            member = self.program.member_names[name].index(wanted)
        elements, following = self.program.stacks[name], self.packet.following.get(name, 0)
        if following >= len(elements):
            raise ParserStop(self.numbers["StackOutOfBounds"])
        return elements[following][member]

    def extract(self, target: Json, length: Json) -> Step:
        """Extract to a header; ``length``: the expression for the bits of its varbit field."""
        packet, header = self.packet, self.target(target)
        varbit, size = self.program.varbit(header), self.program.fixed_bits(header) // 8
        bits = 0
        if varbit is not None:
            bits = self.primitives.number(length)
            self.need_bits(bits, size)
            if bits > varbit.width:
                raise ParserStop(self.numbers["HeaderTooShort"])
            packet.lengths[header] = bits
            size += bits // 8
        self.need(size)
        value = int.from_bytes(packet.frame[self.at : self.at + size], "big")
        left, fields = 8 * size, {}
        for one in self.program.headers[header].values():
            width = bits if one.varbit else one.width
            left -= width
            part = value >> left & ((1 << width) - 1)
            packet.values[header, one.name] = part if one.varbit else one.cut(part)
            fields[one.name] = hex(part)
        packet.make_valid(header)
        if target["type"] != "regular":
            name = target["value"] if target["type"] == "stack" else target["value"][0]
            packet.following[name] = packet.following.get(name, 0) + 1
        told = {"header": header, "offset": self.at, "bytes": size, "fields": fields}
        self.at += size
        return Step("extracted", packet, told)

    def transition(self, state: Json) -> tuple[str | None, dict[str, list[str]]]:
        """Return the next state, and what it has been selected by."""
        key: list[tuple[int, int]] = []
        for part in state.get("transition_key") or ():
            if part["type"] == "lookahead":
                key.append((self.lookahead(part["value"]), part["value"][1]))
                continue
            place = self.primitives.values.place(part)
            if place is None:
                raise ProgramError(f"a transition key has no part of type {part['type']!r}")
            width = self.program.field(place).width
            key.append((self.packet.read(place) & ((1 << width) - 1), width))
        told = {"selected_by": [hex(value) for value, _ in key]} if key else {}
        usual = None
        for item in state["transitions"]:
            if item.get("type") == "default" or item["value"] == "default":
                usual = item["next_state"]
            elif self.selects(item, key):
                return item["next_state"], told
        return usual, told

    def selects(self, item: Json, key: list[tuple[int, int]]) -> bool:
        """Return whether a transition is taken with a key, whose parts have these widths."""
        mask = None if item.get("mask") is None else number(item["mask"])
        if item.get("type") == "parse_vset":
            return self.in_value_set(item["value"], key, mask)
        padded = joined([(value, (width + 7) // 8 * 8) for value, width in key])
        found, wanted = int.from_bytes(padded, "big"), number(item["value"])
        return found == wanted if mask is None else found & mask == wanted & mask

    def in_value_set(self, name: str, key: list[tuple[int, int]], mask: int | None) -> bool:
        """Return whether a value set has a key, of which ``mask`` hides bits."""
        sizes = [(width + 7) // 8 * 8 for _, width in key]  # masks have whole bytes
        masks = []
        for position, (_, width) in enumerate(key):
            shift = sum(sizes[position + 1 :])
            masks.append((1 << width) - 1 if mask is None else mask >> shift & ((1 << width) - 1))
        members: list[tuple[Key, ...]] = self.contents.value_sets[name].members
        return any(
            all(
                matches(one, value, width, under)
                for one, (value, width), under in zip(member, key, masks, strict=True)
            )
            for member in members
        )


def deparse(packet: Packet, primitives: Primitives, number: int = 0) -> Iterator[Step]:
    """Run what a deparser does first; then `headers_of` is what it emits."""
    nodes = packet.program.document["deparsers"][number].get("primitives") or ()
    yield from primitives.action(nodes, ())


def headers_of(packet: Packet, number: int = 0) -> bytes:
    """Return the bytes of the valid headers, in the order of the deparser."""
    order = packet.program.document["deparsers"][number]["order"]
    return b"".join(joined(packet.content(name)) for name in order if packet.is_valid(name))
