"""Turns: how many ranks write to one at a time.

Where more packets come at once than the queue before a receiver holds, windows of one packet each
are too large, and who has lost may lose again and again. The receiver knows who will write, so it
lets no more of them begin than the link needs, as receiver-driven transports do (NDP, SIGCOMM 2017;
Homa, SIGCOMM 2018, section 3.5: overcommitment). Its link is as busy as with all of them at once.
"""

from collections.abc import Callable, Mapping


class Turns:
    """The turns of writers. So many may begin that together they have a packet for each of their
    paths within a window, and one at least; the next when one has ended.

    Args:
        writers: over how many paths each of them writes.
        limit: the window, in packets; 0 for no limit.
    """

    def __init__(self, writers: Mapping[int, int], limit: int) -> None:
        self.limit = limit
        self._paths = writers
        most = max(writers.values(), default=0)
        rounds = -(-len(writers) // max(1, limit // most)) if limit and most else 1
        ordered = list(writers)
        # Ranks with numbers near each other share a leaf's uplinks: those at once are far apart.
        self._waiting = [writer for first in range(rounds) for writer in ordered[first::rounds]]
        self._writing: list[int] = []

    @property
    def waiting(self) -> bool:
        """Whether there are writers that have not had their turn."""
        return bool(self._waiting)

    def take(self, has_ended: Callable[[int], bool]) -> list[int]:
        """Return the writers that begin now; `has_ended` tells of one that has begun whether all
        that it writes is here."""
        self._writing = [writer for writer in self._writing if not has_ended(writer)]
        used = sum(self._paths[writer] for writer in self._writing)
        begin: list[int] = []
        for writer in self._waiting:
            used += self._paths[writer]
            if used > self.limit > 0 and (begin or self._writing):
                break
            begin.append(writer)
        del self._waiting[: len(begin)]
        self._writing += begin
        return begin
