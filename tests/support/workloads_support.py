"""What tests of chakra share with others."""

from __future__ import annotations

from typing import Any

from weft.experiments.families.flows.chakra_schema import MESSAGES


def node(number: int, kind: int, after: list[int] | None = None, **attributes: Any) -> Any:
    """A node as Chakra's own tools write them: numbers as int64 or int32."""
    micros = attributes.pop("micros", 0)
    found = MESSAGES["Node"](id=number, name=f"n{number}", type=kind, duration_micros=micros)
    found.data_deps.extend(after or [])
    found.ctrl_deps.extend(attributes.pop("control", []))
    for name, value in attributes.items():
        attribute = found.attr.add(name=name)
        if isinstance(value, str):
            attribute.string_val = value
        elif name in ("comm_src", "comm_dst", "comm_tag"):
            attribute.int32_val = value
        else:
            attribute.int64_val = value
    return found


def trace(*nodes: Any) -> bytes:
    return encode(MESSAGES["GlobalMetadata"](version="0.0.4"), *nodes)


MATRIX = """\
# an incast of two, then a flow that waits for both
Nodes 4
Connections 4
Triggers 2
0->1 id 1 start 0 size 1000 recv_done_trigger 7
2->1 id 2 start 2500000.0 size 3000 recv_done_trigger 7 send_done_trigger 9

1->3 id 3 trigger 7 size 500
3->0 id 4 trigger 9 size 1  # the smallest
trigger id 7 barrier count 2
trigger id 9 oneshot
"""


def encode(*messages: Any) -> bytes:
    """A trace of messages, as `read_nodes` reads it."""
    parts = []
    for message in messages:
        data = message.SerializeToString()
        length = len(data)
        while length >= 0x80:
            parts.append(bytes([length & 0x7F | 0x80]))
            length >>= 7
        parts.append(bytes([length]) + data)
    return b"".join(parts)
