"""What queues of ports have counted, where a port has several, one for each priority."""

from collections.abc import Iterable, Sequence

import msgspec


class PriorityQueueCounts(msgspec.Struct, forbid_unknown_fields=True):
    """What the queue of a priority has counted: during a run, or since the network is up."""

    priority: int
    tx_packets: int
    """Packets that the link has taken from it."""
    tx_bytes: int
    dropped: int
    """Packets that it had no room for."""
    max_bytes: int
    """The most that waited in it."""


def totals(ports: Iterable[Sequence[PriorityQueueCounts]]) -> list[PriorityQueueCounts]:
    """Return, by priority, what the queues of several ports have counted together, of those that
    packets came to; ``max_bytes`` is that of the fullest."""
    found: dict[int, PriorityQueueCounts] = {}
    for queues in ports:
        for each in queues:
            so_far = found.get(each.priority) or PriorityQueueCounts(each.priority, 0, 0, 0, 0)
            found[each.priority] = PriorityQueueCounts(
                each.priority,
                so_far.tx_packets + each.tx_packets,
                so_far.tx_bytes + each.tx_bytes,
                so_far.dropped + each.dropped,
                max(so_far.max_bytes, each.max_bytes),
            )
    return [each for _, each in sorted(found.items()) if each.tx_packets or each.dropped]
