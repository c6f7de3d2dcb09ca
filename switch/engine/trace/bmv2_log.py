"""Events of traces in the words of BMv2's log, which tools and people look for.

The lines of ``simple_switch --log-console`` at level debug (docs of p4lang/behavioral-model,
"Displaying logging messages"). What BMv2 does not tell, it has in the words of Weft's traces.
"""

from collections.abc import Iterable
from typing import Any

from weft.switch.engine.trace.text import event_text

Event = dict[str, Any]


def bmv2_lines(event: Event) -> list[str]:
    """Return the lines that an event is in BMv2's log, each with its packet in front."""
    head = f"[{event['packet']}.{event['copy']}] [cxt 0] "
    return [head + line for line in _lines(event)]


def _lines(event: Event) -> Iterable[str]:
    match event["event"]:
        case "received":
            return f"Processing packet received on port {event['port']}", "Parser 'parser': start"
        case "parser_state":
            return (f"Parser 'parser' entering state '{event['state']}'",)
        case "extracted":
            return (f"Extracting header '{event['header']}'",)
        case "parser_error":
            return (f"Exception while parsing: {event['error']}",)
        case "parsed":
            return "Parser 'parser': end", "Pipeline 'ingress': start"
        case "table":
            return _table(event)
        case "action":
            values = "".join(f"{value[2:]}," for value in event["arguments"].values())
            return (f"Action entry is {event['action']} - {values}",)
        case "condition":
            return (f'Condition "{event["condition"]}" is {str(event["holds"]).lower()}',)
        case "message":
            return (event["text"],)
        case "cloned":
            return "Cloning packet", *(f"Cloning packet to egress port {one['port']}"
                                       for one in event["to"])  # fmt: skip
        case "resubmitted":
            return "Pipeline 'ingress': end", "Resubmitting packet"
        case "multicast":
            copies = [f"Replicating packet on port {one['port']}" for one in event["to"]]
            return "Pipeline 'ingress': end", "Multicast requested for packet", *copies
        case "to_port":
            return "Pipeline 'ingress': end", f"Egress port is {event['port']}"
        case "egress":
            return ("Pipeline 'egress': start",)
        case "deparsed":
            return (
                "Pipeline 'egress': end",
                "Deparser 'deparser': start",
                "Deparser 'deparser': end",
            )
        case "recirculated":
            return ("Recirculating packet",)
        case "sent":
            return (f"Transmitting packet of size {event['bytes']} out of port {event['port']}",)
        case "dropped" if event["where"] in ("ingress", "egress"):
            where = event["where"]
            return (f"Pipeline '{where}': end", f"Dropping packet at the end of {where}: "
                    f"{event['why']}")  # fmt: skip
    return (event_text(event).strip(),)


def _table(event: Event) -> list[str]:
    key = "\n".join(f"* {name:20}: {value[2:]}" for name, value in event["key"].items())
    lines = [f"Looking up key:\n{key}"] if key else []
    if not event["hit"]:
        return [*lines, f"Table '{event['table']}': miss"]
    handle = f" with handle {event['handle']}" if "handle" in event else ""
    lines.append(f"Table '{event['table']}': hit{handle}")
    if event["entry"] is not None:
        lines.append(f"Dumping entry: {event['entry']['reads']}")
    return lines
