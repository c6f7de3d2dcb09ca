"""The queues of a port as a controller sets and reads them."""

from collections.abc import Iterable, Sequence
from typing import Any

from weft.switch.engine.dataplane import layout as at
from weft.switch.priority_queues import QueueChange

SECOND_NS = 1_000_000_000


def change_queues(
    port: at.PortRecord, queues: Iterable[at.QueueRecord], change: QueueChange
) -> None:
    """Let what is asked hold for queues of a port. A rate holds for packets that come from now
    on."""
    for queue in queues:
        if change.packets is not None:
            queue.limit_packets = change.packets
        if change.bytes is not None:
            queue.limit_bytes = change.bytes
        if change.rate_pps is not None:
            queue.packet_ns = SECOND_NS // change.rate_pps if change.rate_pps else 0
            queue.next_ns = 0
        if change.weight is not None:
            queue.weight, queue.deficit = change.weight, 0
            port.governed = 1


def queue_figures(queues: Sequence[at.QueueRecord]) -> list[dict[str, Any]]:
    """Return what holds for the queues of a port, what waits in them and what they have counted, by
    priority."""

    def counted(queue: Any) -> dict[str, int]:
        return at.QueueCounts(*queue.counted.tolist()).__dict__

    return [
        {
            "priority": priority,
            "packets": int(queue.packets),
            "bytes": int(queue.bytes),
            "limit_packets": int(queue.limit_packets),
            "limit_bytes": int(queue.limit_bytes),
            "rate_pps": SECOND_NS // int(queue.packet_ns) if queue.packet_ns else 0,
            "weight": int(queue.weight),
            "held_until_ns": int(queue.held_until_ns),
            **counted(queue),
        }
        for priority, queue in enumerate(queues)
    ]


def queues_told(queues: Sequence[at.QueueRecord]) -> dict[str, Any]:
    """Return the ``queues`` of a port as statistics have them: where there are several."""
    return {"queues": queue_figures(queues)} if len(queues) > 1 else {}
