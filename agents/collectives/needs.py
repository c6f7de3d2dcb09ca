"""What an algorithm needs of a network, and what it is told of it before anything starts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What an algorithm needs of a network beside links."""

    workers: int = 1
    """How many subgroups multicast has, each with trees of its own."""
    slots: int = 0
    """How many rounds of a job switches that add have room for."""
    values: int = 0
    """How many numbers a packet to them has; 0: as many as is usual."""
    servers: int = 0
    """How many reduction servers there are."""
    on_ranks: bool = False
    """Whether these are on the ranks' hosts."""

    @classmethod
    def of_all(cls, some: "Iterable[Needs]") -> "Needs":
        """Return what several need together."""
        found = cls()
        for each in some:
            found = cls(*map(max, vars(found).values(), vars(each).values()))
        return found


@dataclass(frozen=True)
class Setting:
    """What an operation has around it."""

    ranks: int
    path_mtu: int
    jobs: int
    """How many communicators share the network."""
    shard_sizes: Callable[[], Sequence[int]]
    """Return the bytes of every rank's shard."""
