"""The traced form of a program: the same source, with calls that say what a packet goes through.

A switch runs it in place of the ordinary form while it is traced. The records are those of
``weft.switch.engine.dataplane.trace_layout``; what their numbers mean is in the ``Legend``.
"""

import re
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

from weft.switch.engine.architectures.architecture import MARK
from weft.switch.engine.codegen.expressions import Value
from weft.switch.engine.codegen.framing import ParserSource
from weft.switch.engine.codegen.generate import Generator
from weft.switch.engine.codegen.primitives import DROP, LINES, Primitives
from weft.switch.engine.codegen.references import unwrap
from weft.switch.engine.codegen.source import Writer
from weft.switch.engine.dataplane import trace_layout as at
from weft.switch.engine.dataplane.image_layout import ACTION_WORDS
from weft.switch.engine.dataplane.layout import DROP_PORT
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Family, Field, Header, named
from weft.switch.engine.program.program import Cells, Program, ProgramAction, Table
from weft.switch.engine.program.words import words_of

Json = Any

NOTES = f'''
@jit
def note(state, kind, a, b, c, d):
    """Write a record, if the packet under way is traced."""
    if state.trace_head == 0:
        return
    head = TraceHead(state.trace_head)
    if head.packet != 0:
        write_note(
            state, kind, head.packet, head.row, word64(a), word64(b), word64(c), word64(d)
        )


@jit
def note_begin(state, words, packet, operation, instance_type):
    """A packet is taken on; a new one is traced from here if there is room."""
    if state.trace_head == 0:
        return
    head = TraceHead(state.trace_head)
    if operation == RUN_INGRESS and instance_type == 0:
        words.trace_number = 0
        room = head.end + {at.ROOM} <= head.capacity
        if room and head.begun < head.limit:
            head.begun += 1
            words.trace_number = head.begun
        else:
            head.passed += 1
    head.packet = words.trace_number
    if operation == RUN_PARSER:
        head.packet = 0
    head.row = packet


@jit
def note_frame(state, phv, row, data):
    """What comes to the parser."""
    if state.trace_head == 0:
        return
    if TraceHead(state.trace_head).packet == 0:
        return
    length = row.frame_length
    start = row.frame
    note(state, {at.RECEIVED}, phv[INGRESS_PORT], length, phv[INSTANCE_TYPE], row.repeats)
    for place in range(start, start + min(length, {at.FRAME_BYTES}), 32):
        first = load64(data, place)
        second = load64(data, place + 8)
        note(state, {at.FRAME}, first, second, load64(data, place + 16), load64(data, place + 24))


@jit
def note_action(state, image, record, code, count):
    """An action is about to run with the parameters of a record."""
    note(state, {at.ACTION}, code, count, 0, 0)
    start = record + {ACTION_WORDS}
    for first in range(0, count, 4):
        a = image[start + first]
        b = image[start + first + 1] if first + 1 < count else 0
        c = image[start + first + 2] if first + 2 < count else 0
        d = image[start + first + 3] if first + 3 < count else 0
        note(state, {at.ARGUMENTS}, a, b, c, d)


@jit
def note_table(state, image, table, entry):
    """A table was looked up."""
    cell = -1
    if entry >= 0:
        cell = EntryRecord(address_of(image, entry)).index
    note(state, {at.TABLE}, table, cell, 0, 0)
'''

_NOTES = {
    "begin": "note_begin(state, words, packet, operation, phv[INSTANCE_TYPE])\n",
    "frame": "note_frame(state, phv, row, data)\n",
    "parsed": f"note(state, {at.PARSED}, parsed, phv[PARSER_ERROR], 0, 0)\n",
    "ingress": f"""if phv[CHECKSUM_ERROR] != 0:
    note(state, {at.CHECKSUM}, 0, 0, 0, 0)
""",
    "ingress end": f"""clone, again, group = phv[R_CLONE], phv[R_RESUBMIT], phv[MCAST_GRP]
note(state, {at.INGRESS_END}, clone, again, group, phv[EGRESS_SPEC])
note(state, {at.INGRESS_MORE}, words.repeats, 0, phv[R_DIGEST], context.drop)
""",
    "egress": f"""before, after = phv[ENQ_QDEPTH], phv[DEQ_QDEPTH]
note(state, {at.EGRESS}, phv[EGRESS_PORT], before, after, phv[DEQ_TIMEDELTA])
kind, copy = phv[INSTANCE_TYPE], phv[EGRESS_RID]
note(state, {at.EGRESS_MORE}, kind, copy, phv[PRIORITY], phv[R_LENGTH])
""",
    "egress end": f"""clone, port = phv[R_CLONE], phv[EGRESS_SPEC]
note(state, {at.EGRESS_END}, clone, port, context.drop, 0)
""",
    "deparsed": f"""size, rest = words.header_length, words.payload_length
note(state, {at.DEPARSED}, size, rest, words.keep, phv[R_TRUNCATE])
again, nowhere = phv[R_RECIRCULATE], words.queue_bytes == -1
port, repeats = phv[EGRESS_PORT], words.repeats
note(state, {at.LEFT}, again, port, 1 if nowhere else 0, repeats)
""",
}
"""What is told at the marked places of a pipeline."""


def _told(pipeline: str) -> str:
    """Return a pipeline's source with what is told at its marked places."""
    lines = []
    for line in pipeline.splitlines(keepends=True):
        space, mark, name = line.partition(MARK)
        lines.append(indent(_NOTES[name.strip()], space) if mark else line)
    return f"{NOTES}\n{''.join(lines)}"


@dataclass(frozen=True)
class Target:
    """Name what a value is assigned to: a field, of an element of a stack if ``{}`` is in it."""

    name: str
    width: int


@dataclass(frozen=True)
class Access:
    """A primitive that reads or writes a cell of a register."""

    register: Cells
    writes: bool


@dataclass
class Legend:
    """What the numbers in a traced program's records mean."""

    program: Program
    states: list[str] = field(default_factory=list)
    families: list[tuple[Header, ...]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    assertions: set[int] = field(default_factory=set)
    """Which of the messages are assertions, which do not hold where they are told."""
    targets: list[Target] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)


class TracedPrimitives(Primitives):
    """The source of primitives that also say which values fields and registers get, what log_msg()
    is told, and which assertions fail."""

    legend: Legend
    target: Json = None
    """What the value goes to that is being stored."""

    def assign(self, writer: Writer, target: Json, value: Value) -> None:
        """Store a value, and tell it."""
        self.target = unwrap(target)
        super().assign(writer, target, value)

    def store(self, writer: Writer, field: Field, place: str, value: Value) -> None:
        """Store a value at a place of the PHV, and tell what is there now."""
        super().store(writer, field, place, value)
        if field.varbit:
            return
        name, element = self.target_name()
        targets = self.legend.targets
        self.tell_words(writer, "phv", place, field.width, at.ASSIGNED, len(targets), element)
        targets.append(Target(name, field.width))

    def write(self, writer: Writer, node: Json) -> None:
        """Write a primitive; one that drops the packet tells that as an assignment."""
        super().write(writer, node)
        if LINES.get(node["op"]) == DROP:
            number = len(self.legend.targets)
            self.tell_words(writer, "phv", "EGRESS_SPEC", 9, at.ASSIGNED, number, "-1")
            self.legend.targets.append(Target("standard_metadata.egress_spec", 9))

    def target_name(self) -> tuple[str, str]:
        """Return the name of what a value goes to, and the source of the number of the element, -1
        if it is of no stack, or of the last element."""
        kind, content = self.target["type"], self.target["value"]
        if kind == "expression":
            reference, field = self.translator.element(self.target)
            name = reference.first.name
            if reference.index is None:
                return f"{name}.{field.name}", "-1"
            return f"{re.sub(r'[0-9]+(?=])', '{}', name, count=1)}.{field.name}", "element"
        if kind == "field":
            return ".".join(content).removeprefix("scalars."), "-1"
        return ".".join([f"{content[0]}.last", *content[1:]]), "-1"

    def tell_words(
        self, writer: Writer, array: str, place: str, width: int, kind: int, number: int, which: str
    ) -> None:
        """Write a record with the value at a place of an array; of more than two words they go
        before it."""
        words = [
            f"{array}[{place}]" if not part else f"{array}[{place} + {part}]"
            for part in range(words_of(width))
        ]
        while len(words) > 2:
            *four, _ = [*words[:4], *["0"] * 4][:5]
            writer.line(f"note(state, {at.WORDS}, {', '.join(four)})")
            words = words[4:]
        first, second = [*words, "0", "0"][:2]
        writer.line(f"note(state, {kind}, {number}, {which}, {first}, {second})")

    def tell_cell(self, writer: Writer, parameters: list[Json], writes: bool) -> None:
        """Record what a cell of a register holds; or that there is no such cell."""
        name, index = parameters[:2]
        cells = named(self.program.registers, name["value"], "register")
        number = len(self.legend.accesses)
        self.legend.accesses.append(Access(cells, writes))
        with writer.indented(f"if {self.index(writer, index, cells)}:"):
            place = cells.place("index")
            self.tell_words(writer, "registers", place, cells.width, at.REGISTER, number, "index")
        with writer.indented("else:"):
            writer.line(f"note(state, {at.REGISTER}, {number}, index, 0, 0)")

    def do_register_read(self, writer: Writer, parameters: list[Json]) -> None:
        """Tell what a cell of a register holds, and store it."""
        self.tell_cell(writer, parameters[1:], writes=False)
        super().do_register_read(writer, parameters)

    def do_register_write(self, writer: Writer, parameters: list[Json]) -> None:
        """Store a value in a cell of a register, and tell what it holds now."""
        super().do_register_write(writer, parameters)
        self.tell_cell(writer, parameters, writes=True)

    def do_log_msg(self, writer: Writer, parameters: list[Json]) -> None:
        """Record the message and the low 64 bits of up to three values."""
        text, values = parameters[0]["value"], parameters[1]["value"]
        words = [self.translator.word(value).source for value in values[:3]]
        words += ["0"] * (3 - len(words))
        number = len(self.legend.messages)
        self.legend.messages.append(str(text))
        writer.line(f"note(state, {at.MESSAGE}, {number}, {', '.join(words)})")

    def tell_assertion(self, writer: Writer) -> None:
        """Record the assertion, as it is written, with its place."""
        number = len(self.legend.messages)
        self.legend.assertions.add(number)
        what = str(self.source.get("source_fragment", "assert")).strip().rstrip(";")
        place = f"{self.source.get('filename', '?')}:{self.source.get('line', '?')}"
        self.legend.messages.append(f"{what} ({place})")
        writer.line(f"note(state, {at.MESSAGE}, {number}, 0, 0, 0)")


class TracedParser(ParserSource):
    """The source of a parser that says which states it goes through and what it extracts."""

    primitives: TracedPrimitives

    def note(self, *arguments: object) -> None:
        """Write a record."""
        words = ", ".join(map(str, (*arguments, 0, 0, 0)[:5]))
        self.writer.line(f"note(state, {words})")

    def begin_state(self, name: str) -> None:
        """Tell the state."""
        states = self.primitives.legend.states
        self.note(at.STATE, len(states))
        states.append(name)

    def fail(self, code: int | str) -> None:
        """Tell the error."""
        self.note(at.REJECTED, code, "at - start")
        super().fail(code)

    def key(self, parts: list[Json]) -> list[int]:
        """Tell the key of a transition."""
        widths = super().key(parts)
        for place in range(sum(words_of(width) for width in widths)):
            self.note(at.KEY, f"word64(key_{place})", place)
        return widths

    def extracted(self, headers: tuple[Header, ...], element: str) -> None:
        """Tell what lies behind ``extracted_from``."""
        families = self.primitives.legend.families
        self.note(
            at.EXTRACTED, len(families), element, "extracted_from - start", "at - extracted_from"
        )
        families.append(headers)

    def extract(self, header: Header, length: Json) -> None:
        """Extract to a header, and tell."""
        self.writer.line("extracted_from = at")
        super().extract(header, length)
        self.extracted((header,), "0")

    def extract_next(self, family: Family, next_slot: int, length: Json) -> None:
        """Extract to the next element of a stack, and tell."""
        self.writer.line("extracted_from = at")
        super().extract_next(family, next_slot, length)
        self.extracted(tuple(family.headers), "number")


class TracedGenerator(Generator):
    """The source of a program's traced form."""

    parser_source = TracedParser

    def __init__(self, program: Program, drop_port: int = DROP_PORT) -> None:
        super().__init__(program, drop_port)
        self.legend = Legend(program)
        primitives = TracedPrimitives(program, self.translator, self.calculations.names)
        primitives.legend = self.legend
        self.primitives = primitives

    def pipeline(self) -> str:
        """Return the source of the program's entry, which says what a packet goes through."""
        return _told(super().pipeline())

    def action(self, action: ProgramAction) -> str:
        """Return the function of an action; its call says so first."""
        source = super().action(action)
        count = sum(words_of(width) for width in action.widths)
        record = "record" if count else "0"
        told = f"note_action(state, image, {record}, {action.code}, {count})"
        self.calls[action.code] = f"{told}; {self.calls[action.code]}"
        return source

    def branch(self, writer: Writer, node: Json, test: str, following: str) -> None:
        """Tell what a condition says."""
        conditions = self.legend.conditions
        source = (node.get("source_info") or {}).get("source_fragment")
        writer.line(
            f"holds = 1 if {test} else 0",
            f"note(state, {at.CONDITION}, {len(conditions)}, holds, 0, 0)",
        )
        conditions.append(str(source or node["name"]))
        super().branch(writer, node, "holds != 0", following)

    def table(self, writer: Writer, table: Table, numbers: dict[str | None, int]) -> None:
        """Apply a table that needs no look-up, telling so, or any other."""
        if not table.keys and table.default_const and table.default_action is not None:
            writer.line(f"note(state, {at.TABLE}, {table.index}, -1, 0, 0)")
        super().table(writer, table, numbers)

    def lookup(self, writer: Writer, table: Table) -> None:
        """Look an entry up, and tell the key and what was found."""
        sources = [word for key in table.keys for word in self.translator.key_words(key)]
        for place, source in enumerate(sources):
            writer.line(f"note(state, {at.KEY}, word64({source}), {place}, 0, 0)")
        super().lookup(writer, table)
        writer.line(f"note_table(state, image, {table.index}, entry)")


def generate_traced(program: Program, drop_port: int = DROP_PORT) -> tuple[str, Legend]:
    """Return the source of a program's traced form, and what its records mean.

    Of a program that ``generate`` takes; raises ``ProgramError``.
    """
    generator = TracedGenerator(program, drop_port)
    try:
        return generator.module(), generator.legend
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise ProgramError(f"the program cannot be traced: {error!r}") from error
