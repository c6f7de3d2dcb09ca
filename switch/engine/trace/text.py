"""Traces as text for people: a line for each event, and the packets one after the other."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

Event = dict[str, Any]


def json_lines(events: Iterable[Event]) -> str:
    """Return each event as a line of JSON."""
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)


def packets_text(events: Sequence[Event]) -> str:
    """Return all events, grouped by packet, each copy of a packet's under its number."""
    lines = []
    for packet in dict.fromkeys(event["packet"] for event in events):
        own = [event for event in events if event["packet"] == packet]
        start = own[0]["time_ns"]
        for event in own:
            first = event["event"] == "received" and "as" not in event
            indent = "" if first else "  "
            copy = f"copy {event['copy']}: " if event["copy"] else ""
            head = f"packet {packet}: " if first else ""
            timed = event["event"] in ("egress", "sent")
            time = f" (+{(event['time_ns'] - start) / 1000:g} us)" if timed else ""
            lines.append(f"{indent}{head}{copy}{event_text(event)}{time}")
    return "".join(f"{line}\n" for line in lines)


def log_line(event: Event) -> str:
    """Return an event as a line of a log, with packet and copy in front as in BMv2's."""
    return f"[{event['packet']}.{event['copy']}] {event_text(event)}"


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _ports(to: Sequence[dict[str, int]]) -> str:
    if not to:
        return "nowhere: it has no such group or session"
    return ", ".join(
        f"port {one['port']}" + (f" (egress_rid {one['egress_rid']})" if one["egress_rid"] else "")
        for one in to
    )


def event_text(event: Event) -> str:
    """Return an event in words."""
    return str(_TEXTS[event["event"]](event))


def _received(event: Event) -> str:
    if "as" in event:
        return f"{event['as']}: to the parser again, {event['bytes']} bytes"
    return f"received at port {event['port']}, {event['bytes']} bytes"


def _state(event: Event) -> str:
    selected = f" (selected by {', '.join(event['selected_by'])})" if "selected_by" in event else ""
    return f"parser state {event['state']}{selected}"


def _parsed(event: Event) -> str:
    selected = f", selected by {', '.join(event['selected_by'])}" if "selected_by" in event else ""
    outcome = "accept" if event["error"] == "NoError" else f"error {event['error']}"
    return f"parser ends: {outcome}, {event['bytes']} bytes of headers{selected}"


def _extracted(event: Event) -> str:
    place = f"bytes {event['offset']} to {event['offset'] + event['bytes'] - 1}"
    return f"  extracted {event['header']} ({place}): {_pairs(event['fields'])}"


def _table(event: Event) -> str:
    if event["table"].startswith("tbl_"):  # compilers make these; a program's begin with a control
        return "statements outside of tables"
    key = f" ({_pairs(event['key'])})" if event["key"] else ""
    if not event["hit"] and not event["key"]:
        return f"table {event['table']}: its default action"
    if not event["hit"]:
        return f"table {event['table']}{key}: miss"
    entry = event["entry"]
    if entry is None:
        return f"table {event['table']}{key}: hit"
    priority = f", priority {entry['priority']}" if "priority" in entry else ""
    return f"table {event['table']}{key}: hit {entry['reads']}{priority}"


def _register(event: Event) -> str:
    cell = f"  register {event['register']}[{event['index']}]"
    if event["value"] is None:
        return f"{cell}: there is no such cell; it has {event['size']}, from 0 on"
    return f"{cell} {'=' if event['access'] == 'write' else 'is'} {event['value']}"


def _egress(event: Event) -> str:
    kind = f", {event['as']}" if "as" in event else ""
    rid = f", egress_rid {event['egress_rid']}" if "egress_rid" in event else ""
    priority = f", priority {event['priority']}" if "priority" in event else ""
    waits = f"waited {event['waited_us']} us behind {event['enq_qdepth']} packets"
    behind = event["deq_qdepth"]
    return f"egress of port {event['port']}{kind}{rid}{priority}: {waits}, {behind} behind it"


_TEXTS: dict[str, Any] = {
    "received": _received,
    "parser_state": _state,
    "extracted": _extracted,
    "parser_error": lambda event: f"parser error {event['error']} at byte {event['offset']}",
    "parsed": _parsed,
    "checksum_error": lambda event: "a checksum is wrong: checksum_error is 1",
    "table": _table,
    "action": lambda event: f"  action {event['action']}({_pairs(event['arguments'])})",
    "condition": lambda event: f"condition {event['condition']}: {str(event['holds']).lower()}",
    "assigned": lambda event: f"  {event['field']} = {event['value']}",
    "register": _register,
    "message": lambda event: f"  log_msg: {event['text']}",
    "assertion_failed": lambda event: f"  assertion failed: {event['assertion']}",
    "digest": lambda event: f"digest {event['digest']} to the controller",
    "cloned": lambda event: f"cloned: session {event['session']} to {_ports(event['to'])}",
    "resubmitted": lambda event: f"resubmitted with field list {event['field_list']}",
    "multicast": lambda event: f"multicast: group {event['group']} to {_ports(event['to'])}",
    "to_port": lambda event: f"ingress ends: to port {event['port']}",
    "egress": _egress,
    "deparsed": lambda event: (
        f"deparsed: {event['header_bytes']} bytes of headers, {event['payload_bytes']} of payload"
    ),
    "recirculated": lambda event: (
        f"recirculated with field list {event['field_list']}, {event['bytes']} bytes"
    ),
    "sent": lambda event: f"sent at port {event['port']}, {event['bytes']} bytes",
    "dropped": lambda event: f"dropped ({event['where']}): {event['why']}",
}
