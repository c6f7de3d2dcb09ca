"""Traces in the words of BMv2's log, which tools and people that know it look for.

The lines of ``simple_switch --log-console`` at level debug (docs of p4lang/behavioral-model,
"Displaying logging messages"). What BMv2 does not tell, it has in the words of Weft's traces.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from weft.switch.engine.codegen.references import last_field
from weft.switch.engine.program.program import Program, Table
from weft.switch.engine.program.words import words_of
from weft.switch.engine.trace.text import event_text

Event = dict[str, Any]
Json = Any

MOST_WAYS = 4096
"""Of how many packets and copies at most it is known where they are."""


class Bmv2Log:
    """The lines of the packets of a switch that runs a program, event by event.

    An event of the program before has its numbers without leading zeros.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        document = program.document
        self._parsers = [parser["name"] for parser in document["parsers"]]
        self._deparsers = [deparser["name"] for deparser in document["deparsers"]]
        self._keys = {
            (number, state["name"]): _key_bytes(program, state.get("transition_key") or ())
            for number, parser in enumerate(document["parsers"])
            for state in parser["parse_states"]
        }
        """Of each state of each parser the bytes of the words of its key."""
        self._ids = {header["name"]: header["id"] for header in document["headers"]}
        self._stacks = {
            identifier: stack["id"]
            for stack in document.get("header_stacks") or ()
            for identifier in stack["header_ids"]
        }
        self._ways: dict[tuple[int, int], _Way] = {}
        self._ports: dict[int, int] = {}
        """Where packets came in."""

    def lines(self, event: Event) -> list[str]:
        """Return the lines that an event is, each with its packet in front."""
        packet = event["packet"]
        if event["event"] == "received" and "as" not in event:
            self._forget()
            self._ports[packet] = event["port"]
        way = self._ways.setdefault((packet, event["copy"]), _Way())
        head = f"[{packet}.{event['copy']}] [cxt 0] "
        return [head + line for line in self._lines(event, way)]

    def _forget(self) -> None:
        """Forget the packets before, whose ways have mostly ended."""
        if len(self._ways) > MOST_WAYS:
            self._ways.clear()
            self._ports.clear()

    def _lines(self, event: Event, way: "_Way") -> Iterator[str]:
        match event["event"]:
            case "received":
                way.pipeline = ""
                port = self._ports.get(event["packet"], event["port"])
                yield f"Processing packet received on port {port}"
                yield from self._parser(way, 0)
            case "parser_state":
                if way.parser is None:
                    yield from self._parser(way, len(self._parsers) - 1)
                yield from self._left(event, way)
                way.state = event["state"]
                yield f"Parser '{self._parsers[way.parser or 0]}' entering state '{way.state}'"
            case "extracted":
                yield self._extracted(event["header"])
            case "parser_error":
                way.state = ""
                yield f"Exception while parsing: {event['error']}"
            case "parsed":
                yield from self._left(event, way)
                yield f"Parser '{self._parsers[way.parser or 0]}': end"
                way.parser, way.state = None, ""
                if not way.pipeline:
                    yield from way.start("ingress")
            case "table":
                yield from self._table(event)
            case "action":
                values = "".join(f"{value[2:]}," for value in event["arguments"].values())
                yield f"Action entry is {event['action']} - {values}"
            case "condition":
                yield f'Condition "{event["condition"]}" is {str(event["holds"]).lower()}'
            case "message":
                yield event["text"]
            case "cloned":
                yield from way.end()
                yield f"Cloning packet at {way.pipeline}"
                yield from (f"Cloning packet to egress port {one['port']}" for one in event["to"])
            case "resubmitted":
                yield from way.end()
                yield "Resubmitting packet"
            case "multicast":
                yield from self._ingress_left(way)
                yield "Multicast requested for packet"
                yield from (f"Replicating packet on port {one['port']}" for one in event["to"])
            case "to_port":
                yield from self._ingress_left(way)
                yield f"Egress port is {event['port']}"
            case "egress":
                yield from way.start("egress")
            case "deparsed":
                yield from way.end()
                yield from self._deparser(len(self._deparsers) - 1)
            case "recirculated":
                yield "Recirculating packet"
            case "sent":
                yield f"Transmitting packet of size {event['bytes']} out of port {event['port']}"
            case "dropped" if event["why"].startswith("egress_spec is"):
                yield from way.end()
                if event["where"] == "ingress":
                    yield f"Egress port is {event['why'].rpartition(' ')[2]}"
                yield f"Dropping packet at the end of {event['where']}"
            case _:
                yield event_text(event).strip()

    def _parser(self, way: "_Way", number: int) -> Iterator[str]:
        """Enter a parser."""
        way.parser, way.state = number, ""
        yield f"Parser '{self._parsers[number]}': start"

    def _deparser(self, number: int) -> Iterator[str]:
        yield f"Deparser '{self._deparsers[number]}': start"
        yield f"Deparser '{self._deparsers[number]}': end"

    def _ingress_left(self, way: "_Way") -> Iterator[str]:
        """Leave ingress, whose own deparser runs if it has one."""
        yield from way.end()
        if len(self._deparsers) > 1:
            yield from self._deparser(0)

    def _left(self, event: Event, way: "_Way") -> Iterator[str]:
        """Yield how the state before has chosen the next one."""
        key = event.get("selected_by")
        if way.state and key:
            sizes = self._keys.get((way.parser or 0, way.state)) or [0] * len(key)
            pairs = zip(key, sizes, strict=False)
            digits = "".join(_padded(value, size) for value, size in pairs)
            yield f"Parser state '{way.state}': key is {digits}"
        elif way.state:
            yield f"Parser state '{way.state}' has no switch, going to default next state"

    def _extracted(self, header: str) -> str:
        identifier = self._ids.get(header)
        stack = self._stacks.get(identifier) if identifier is not None else None
        if stack is not None:
            return f"Extracting to header stack {stack}, next header is {identifier}"
        known = self.program.headers.get(header)
        sized = " variable-sized" if known is not None and known.varbit is not None else ""
        return f"Extracting{sized} header '{header}'"

    def _table(self, event: Event) -> Iterator[str]:
        table = self.program.tables.get(event["table"])
        keys = table.keys if table is not None else ()
        if [key.name for key in keys] != [*event["key"]]:  # of the program before
            table = None
        sizes = [(key.width + 7) // 8 for key in keys] if table else [0] * len(event["key"])
        pairs = zip(event["key"].items(), sizes, strict=True)
        key = "".join(f"* {name:20}: {_padded(value, size)}\n" for (name, value), size in pairs)
        yield f"Looking up key:\n{key}"
        if not event["hit"]:
            yield f"Table '{event['table']}': miss"
            return
        yield f"Table '{event['table']}': hit with handle {event['handle']}"
        if table is not None and event["entry"] is not None:
            yield _dumped(table, event["entry"], event["handle"])


class _Way:
    """Where a packet is."""

    def __init__(self) -> None:
        self.parser: int | None = None
        """The parser that it is in."""
        self.state = ""
        """The parser's state, if it is in one."""
        self.pipeline = "ingress"
        """The last one that it was in; copies have been in ingress."""
        self._is_in = False

    def start(self, pipeline: str) -> Iterator[str]:
        """Enter a pipeline."""
        self.pipeline, self._is_in = pipeline, True
        yield f"Pipeline '{pipeline}': start"

    def end(self) -> Iterator[str]:
        """Leave the pipeline, unless that has been told."""
        if self._is_in:
            self._is_in = False
            yield f"Pipeline '{self.pipeline}': end"


def _padded(value: str, size: int) -> str:
    """Return a number in hexadecimal with all digits of so many bytes."""
    return value.removeprefix("0x").zfill(2 * size)


def _key_bytes(program: Program, key: Sequence[Json]) -> list[int]:
    """Return of each word of a state's key how many bytes it has."""
    sizes = []
    for part in key:
        match part["type"]:
            case "lookahead":
                width = part["value"][1]
            case "field":
                width = program.resolve(part["value"]).width
            case _:
                width = last_field(program, part)[1].width
        words = words_of(width)
        sizes += [(width - 64 * (words - 1) + 7) // 8, *[8] * (words - 1)]
    return sizes


_BETWEEN = {"&&&": " &&& ", "..": " -> ", "/": "/"}
"""What BMv2 writes between the two parts of a key, by what traces do."""


def _dumped(table: Table, entry: Event, handle: int) -> str:
    """Return how BMv2 writes an entry; its priority is P4Runtime's."""
    lines = [f"Dumping entry {handle}", "Match key:"]
    for key, (name, value) in zip(table.keys, entry["key"].items(), strict=True):
        size = (key.width + 7) // 8
        first, sign, second = re.fullmatch(r"(\w+)(?:(&&&|\.\.|/)(\w+))?", value).groups()  # type: ignore[union-attr]
        kind = "TERNARY" if key.kind == "optional" else key.kind.upper()
        more = "" if sign is None else _BETWEEN[sign]
        more += second if sign == "/" else _padded(second or "0x", size) if sign else ""
        lines.append(f"* {name:20}: {kind:10}{_padded(first, size)}{more}")
    if "priority" in entry:
        lines.append(f"Priority: {entry['priority']}")
    target = entry["target"]
    action, call, arguments = target.partition("(")
    values = "".join(f"{value}," for value in re.findall(r"=0x([0-9a-f]+)", arguments))
    lines.append(f"Action entry: {action} - {values}" if call else f"Index: {target}")
    return "\n".join([*lines, ""])
