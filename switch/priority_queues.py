"""How many queues a port can have, each for a priority, and what can hold for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.base.errors import InputError

MOST_PRIORITY_QUEUES = 32
"""The most queues of a port, as BMv2 has."""
MOST_FABRIC_PRIORITIES = 8
"""The priorities that v1model has: `standard_metadata.priority` has 3 bits."""
MOST_RATE = 10**9
"""The most packets a second, and in a queue."""
MOST_WEIGHT = 1 << 16
MOST_QUEUE_BYTES = 1 << 30


@dataclass(frozen=True)
class QueueChange:
    """What is to hold for queues from now on; None leaves a figure as it is.

    ``packets`` and ``bytes``: what a queue holds at most. ``rate_pps``: how many packets a second
    leave it, 0 for as many as the link takes. ``weight``: its share of what the queues without a
    weight leave, 0 for none.
    """

    packets: int | None = None
    bytes: int | None = None
    rate_pps: int | None = None
    weight: int | None = None


def check_priority_queues(queues: int) -> None:
    """Raise InputError for a number of queues that a port cannot have."""
    if not 1 <= queues <= MOST_PRIORITY_QUEUES:
        raise InputError(f"{queues} priority queues: a port has 1 to {MOST_PRIORITY_QUEUES}")


def queue_changes(
    queues: int,
    weights: Sequence[int] = (),
    rates_pps: Sequence[int] = (),
    depths_bytes: Sequence[int] = (),
) -> tuple[QueueChange, ...]:
    """Return what holds for each queue of a port, by priority from 0 on; a list that is empty says
    nothing.

    Raises:
        InputError: a list says more or less than one figure for each queue, or one that cannot be.
    """
    limits = (
        ("queue-weights", weights, 0, MOST_WEIGHT),
        ("queue-rates", rates_pps, 0, MOST_RATE),
        ("queue-depths", depths_bytes, 1, MOST_QUEUE_BYTES),
    )
    for name, figures, least, most in limits:
        if figures and len(figures) != queues:
            raise InputError(
                f"{name} are {len(figures)} for {queues} queues of a port: give one for each, from "
                "priority 0 on, or say priority-queues"
            )
        for figure in figures:
            if not least <= figure <= most:
                raise InputError(f"{name}: {figure} is out of range, {least} to {most}")
    if not any(figures for _, figures, *_ in limits):
        return ()
    return tuple(
        QueueChange(
            bytes=depths_bytes[priority] if depths_bytes else None,
            rate_pps=rates_pps[priority] if rates_pps else None,
            weight=weights[priority] if weights else None,
        )
        for priority in range(queues)
    )
