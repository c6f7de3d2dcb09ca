"""How many queues a port can have, each for a priority."""

from weft.base.errors import InputError

MOST_PRIORITY_QUEUES = 32
"""The most queues of a port, as BMv2 has."""


def check_priority_queues(queues: int) -> None:
    """Raise InputError for a number of queues that a port cannot have."""
    if not 1 <= queues <= MOST_PRIORITY_QUEUES:
        raise InputError(f"{queues} priority queues: a port has 1 to {MOST_PRIORITY_QUEUES}")
