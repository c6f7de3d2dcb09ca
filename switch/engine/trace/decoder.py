"""Traces as events: one dictionary for each thing that happened to a packet, as JSON has it.

Every event has ``packet`` (its number in the trace), ``copy`` (0: the packet that came in; others:
what was made of it), ``time_ns`` and ``event``; the rest is the event's own. Values of fields are
hexadecimal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.switch.engine.codegen.traced import Legend
from weft.switch.engine.control.contents import Version
from weft.switch.engine.dataplane import trace_layout as at
from weft.switch.engine.dataplane.pipeline import REPEAT_LIMIT
from weft.switch.engine.program.headers import Header
from weft.switch.engine.program.program import Program, ProgramAction, Table
from weft.switch.engine.program.words import WORD, join_words
from weft.switch.engine.trace.entries import describe_entry, no_queue, ports_of
from weft.switch.engine.trace.tracer import Taken

Event = dict[str, Any]

INSTANCE_TYPES = (
    "normal", "ingress clone", "egress clone", "coalesced", "recirculated", "replica",
    "resubmitted",
)  # fmt: skip

COPY_ENDS = frozenset(("sent", "dropped", "multicast"))


MOST_WAYS = 1 << 16
"""How many copies of packets whose end has not come are remembered."""


@dataclass(eq=False)
class _Way:
    """What is known of one copy of a packet while its records come."""

    copy: int
    frame: bytearray = field(default_factory=bytearray)
    key: list[int] = field(default_factory=list)
    action: tuple[ProgramAction, int] | None = None
    words: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    kept: dict[int, list[int]] = field(default_factory=dict)
    """The last record of each kind that the next one goes on with."""


class Decoder:
    """What makes events of records."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.versions: dict[int, tuple[Version, Legend]] = {}
        self.ways: dict[tuple[int, int], _Way] = {}
        self.copies: dict[int, int] = {}
        self.head: Event = {}
        self.place = (0, 0)
        self.way = _Way(0)
        self.methods: dict[int, Callable[[list[int]], None]] = {
            at.RECEIVED: self.received, at.FRAME: self.frame, at.STATE: self.state,
            at.KEY: self.key, at.EXTRACTED: self.extracted, at.REJECTED: self.rejected,
            at.PARSED: self.parsed, at.CHECKSUM: self.checksum, at.TABLE: self.table,
            at.ACTION: self.action, at.ARGUMENTS: self.arguments, at.CONDITION: self.condition,
            at.MESSAGE: self.message, at.INGRESS_MORE: self.ingress_more,
            at.EGRESS_MORE: self.egress_more, at.EGRESS_END: self.egress_end, at.LEFT: self.left,
            at.QUEUE_DROP: self.queue_drop, at.PRIORITY_DROP: self.priority_drop,
            at.WORDS: self.value_words, at.ASSIGNED: self.assigned, at.REGISTER: self.register,
        }  # fmt: skip
        """What takes records of a kind; the others are kept for the record that follows."""

    def feed(self, taken: Taken) -> list[Event]:
        """Return the events of what was taken from a trace, in the order in which they happened.

        What is taken from one trace goes through one decoder, in order.
        """
        self.versions = taken.versions
        self.events = []
        for record in taken.records.tolist():
            self.record(record)
        while len(self.ways) > MOST_WAYS:
            packet, _ = place = next(iter(self.ways))
            del self.ways[place]
            self.copies.pop(packet, None)
        return self.events

    def record(self, record: list[int]) -> None:
        """Take one record."""
        kind, number = record[0] & ((1 << at.KIND_BITS) - 1), record[0] >> at.KIND_BITS
        if number not in self.versions:
            return  # the record is of a program that is long gone
        self.version, self.legend = self.versions[number]
        self.program: Program = self.legend.program
        packet, row = record[1], record[2]
        self.place = packet, row
        if self.place not in self.ways:
            copy = self.copies.get(packet, 0)
            self.copies[packet] = copy + 1
            self.ways[self.place] = _Way(copy)
        self.way = self.ways[self.place]
        self.head = {"packet": packet, "copy": self.way.copy, "time_ns": record[3]}
        if self.way.action is not None and kind != at.ARGUMENTS:
            self.end_action()
        if kind in self.methods:
            self.methods[kind](record[4:])
        else:
            self.way.kept[kind] = record[4:]

    def tell(self, event: str, **more: object) -> None:
        """Add an event."""
        self.events.append({**self.head, "event": event, **more})
        if event in COPY_ENDS:
            self.ways.pop(self.place, None)

    # -- parser

    def received(self, words: list[int]) -> None:
        """Tell that a packet comes to the parser, and forget its frame so far."""
        port, size, kind, repeats = words
        self.way.frame.clear()
        more = {"as": INSTANCE_TYPES[kind], "times": repeats} if kind else {}
        self.tell("received", port=port, bytes=size, **more)

    def frame(self, words: list[int]) -> None:
        """Keep 32 bytes of the frame."""
        self.way.frame += b"".join((word & WORD).to_bytes(8, "big") for word in words)

    def state(self, words: list[int]) -> None:
        """Tell that the parser enters a state."""
        self.tell("parser_state", state=self.legend.states[words[0]], **self.parser_key())

    def parser_key(self) -> dict[str, object]:
        """Return the key that the state before has selected by."""
        key, self.way.key = self.way.key, []
        return {"selected_by": [hex(word) for word in key]} if key else {}

    def key(self, words: list[int]) -> None:
        """Keep a word of the key that a parser state or a table is looked up by."""
        if words[1] == 0:
            self.way.key = []
        self.way.key.append(words[0] & WORD)

    def extracted(self, words: list[int]) -> None:
        """Tell that a header has been extracted, with its fields."""
        family, element, first, size = words
        header = self.legend.families[family][element]
        data = bytes(self.way.frame[first : first + size])
        fields = header_fields(header, data) if len(data) == size else {}
        self.tell("extracted", header=header.name, offset=first, bytes=size, fields=fields)

    def error_name(self, code: int) -> str:
        """Return a parser error by its number."""
        names = {number: name for name, number in self.program.errors.items()}
        return names.get(code, f"error {code}")

    def rejected(self, words: list[int]) -> None:
        """Tell that the parser found an error."""
        self.tell("parser_error", error=self.error_name(words[0]), offset=words[1])

    def parsed(self, words: list[int]) -> None:
        """Tell that the parser has ended."""
        self.tell("parsed", bytes=words[0], error=self.error_name(words[1]), **self.parser_key())

    def checksum(self, words: list[int]) -> None:
        """Tell that a checksum is wrong."""
        self.tell("checksum_error")

    # -- controls

    def table(self, words: list[int]) -> None:
        """Tell that a table was looked up, and which entry was hit."""
        table = next(one for one in self.program.tables.values() if one.index == words[0])
        key = split_key(table, self.way.key)
        self.way.key = []
        if words[1] < 0:
            self.tell("table", table=table.name, hit=False, key=key)
        else:
            entry = self.version.tables.get(table.name, {}).get(words[1])
            found = describe_entry(self.program, table, entry) if entry is not None else None
            self.tell(
                "table", table=table.name, hit=True, key=key, entry=found, handle=words[1] - 1
            )

    def action(self, words: list[int]) -> None:
        """Begin an action; it is told when its parameters have come."""
        self.way.action = self.program.actions[words[0]], words[1]
        self.way.words = []
        if words[1] == 0:
            self.end_action()

    def arguments(self, words: list[int]) -> None:
        """Keep words of the parameters of an action."""
        self.way.words += [word & WORD for word in words]

    def end_action(self) -> None:
        """Tell an action, all of whose parameters are there."""
        assert self.way.action is not None
        action, _ = self.way.action
        self.way.action = None
        values = join_words(self.way.words, action.widths)
        arguments = dict(zip(action.parameters, map(hex, values), strict=False))
        self.tell("action", action=action.name, arguments=arguments)

    def condition(self, words: list[int]) -> None:
        """Tell whether a condition holds."""
        self.tell("condition", condition=self.legend.conditions[words[0]], holds=words[1] != 0)

    def value_words(self, words: list[int]) -> None:
        """Keep words of a value that has more than two."""
        self.way.value += words

    def take_value(self, words: list[int], width: int) -> str:
        """Return a value of which the last words have come."""
        (value,) = join_words([*self.way.value, *words], [width])
        self.way.value = []
        return hex(value)

    def assigned(self, words: list[int]) -> None:
        """Tell the value that a field has got."""
        target = self.legend.targets[words[0]]
        name = target.name.replace("{}", str(words[1]))
        self.tell("assigned", field=name, value=self.take_value(words[2:], target.width))

    def register(self, words: list[int]) -> None:
        """Tell what a cell of a register holds when it is read, or has been written."""
        access, index = self.legend.accesses[words[0]], words[1]
        cells = access.register
        value = self.take_value(words[2:], cells.width) if 0 <= index < cells.size else None
        self.tell(
            "register", register=cells.name, index=index, size=cells.size,
            access="write" if access.writes else "read", value=value,
        )  # fmt: skip

    def message(self, words: list[int]) -> None:
        """Tell a log message with its values put in."""
        text = self.legend.messages[words[0]]
        if words[0] in self.legend.assertions:
            self.tell("assertion_failed", assertion=text)
            return
        for word in words[1 : 1 + text.count("{}")]:
            text = text.replace("{}", str(word & WORD), 1)
        self.tell("message", text=text)

    # -- traffic manager

    def ingress_more(self, words: list[int]) -> None:
        """Tell what the engine does now, in its order
        (``weft.switch.engine.dataplane.pipeline.run_ingress``)."""
        clone, resubmit, group, port = self.way.kept[at.INGRESS_END]
        repeats, _, learn_list, drop_port = words
        if learn_list:
            lists = self.program.learn_lists
            name = lists[learn_list].name if learn_list in lists else str(learn_list)
            self.tell("digest", digest=name)
        if clone:
            self.cloned(clone - 1)
        if resubmit:
            if repeats >= REPEAT_LIMIT:
                self.tell("dropped", where="ingress", why=f"resubmitted {REPEAT_LIMIT} times")
            else:
                self.tell("resubmitted", field_list=resubmit)
        elif group:
            replicas = self.version.groups.get(group)
            to = [] if replicas is None else ports_of(replicas.replicas)
            self.tell("multicast", group=group, to=to)
            if not to:
                self.tell("dropped", where="ingress", why=f"no multicast group {group}")
        elif port == drop_port:
            self.tell("dropped", where="ingress", why=f"egress_spec is the drop port {drop_port}")
        else:
            self.tell("to_port", port=port)

    def cloned(self, session: int) -> None:
        """Tell that a clone session's copies are made."""
        found = self.version.sessions.get(session)
        self.tell("cloned", session=session, to=[] if found is None else ports_of(found.replicas))

    def egress_more(self, words: list[int]) -> None:
        """Tell that egress begins."""
        port, before, after, waited = self.way.kept[at.EGRESS]
        kind, rid, priority, size = words
        more: dict[str, object] = {"as": INSTANCE_TYPES[kind]} if kind else {}
        if rid:
            more["egress_rid"] = rid
        if priority:
            more["priority"] = priority
        self.tell(
            "egress", port=port, bytes=size, enq_qdepth=before, deq_qdepth=after,
            waited_us=waited, **more,
        )  # fmt: skip

    def egress_end(self, words: list[int]) -> None:
        """Tell what becomes of a packet at the end of egress."""
        clone, port, drop_port, _ = words
        if clone:
            self.cloned(clone - 1)
        if port == drop_port:
            self.tell("dropped", where="egress", why=f"egress_spec is the drop port {drop_port}")

    def left(self, words: list[int]) -> None:
        """Tell that a packet has been deparsed, and what becomes of it."""
        header, payload, keep, truncated = self.way.kept[at.DEPARSED]
        recirculated, port, nowhere, repeats = words
        size = min(header + payload, keep) if keep else header + payload
        self.tell("deparsed", header_bytes=header, payload_bytes=payload)
        if recirculated:
            if repeats >= REPEAT_LIMIT:
                self.tell("dropped", where="egress", why=f"recirculated {REPEAT_LIMIT} times")
            else:
                self.tell("recirculated", field_list=recirculated, bytes=size)
        elif nowhere:
            self.tell("dropped", where="port", why=f"there is no port {port}")
        else:
            if truncated:
                size = min(size, truncated - 1)
            self.tell("sent", port=port, bytes=size)

    def queue_drop(self, words: list[int]) -> None:
        """Tell that a packet found no room in the queue of a port."""
        port, packets, size, _ = words
        why = f"the queue of port {port} is full: {packets} packets, {size} bytes"
        self.tell("dropped", where="queue", why=why, port=port, queue_packets=packets,
                  queue_bytes=size)  # fmt: skip

    def priority_drop(self, words: list[int]) -> None:
        """Tell that no queue has a packet's priority."""
        priority, queues, *_ = words
        why = no_queue(priority & WORD, queues)
        self.tell("dropped", where="queue", why=why, priority=priority & WORD)


def header_fields(header: Header, data: bytes) -> dict[str, str]:
    """Return the fields of a header as it is in a packet, with values as text."""
    value, left = int.from_bytes(data, "big"), 8 * len(data)
    fields = {}
    for one in header.fields:
        width = 8 * len(data) - header.bits if one.varbit else one.width
        left -= width
        fields[one.name] = hex(value >> left & ((1 << width) - 1))
    return fields


def split_key(table: Table, words: Sequence[int]) -> dict[str, str]:
    """Return what a table was looked up with, by the names of its key fields."""
    values = join_words(words, (key.width for key in table.keys))
    return {key.name: hex(value) for key, value in zip(table.keys, values, strict=True)}
