"""When entries of tables that support timeouts were last hit, and which have been idle too long."""

import numpy as np
from numpy.typing import NDArray

from weft.base.pages import zeroed

NEVER = -1


class Ageing:
    """When entries were hit, in ns, by their cells; compiled code writes ``hits``."""

    def __init__(self, cells: int) -> None:
        self.hits: NDArray[np.int64] = zeroed(cells, np.int64)
        self.timeouts = np.zeros(cells, np.int64)
        self._told = np.full(cells, NEVER, np.int64)
        """The time of the hit after which an entry was last said to be idle."""

    def start(self, cell: int, timeout_ns: int, now_ns: int) -> None:
        """Count an entry as hit now, and set its timeout; 0 means that it has none."""
        self.hits[cell] = now_ns
        self._told[cell] = NEVER
        self.timeouts[cell] = timeout_ns

    def deadline(self) -> int | None:
        """Return when the next timeout ends, or None."""
        ends = (self.hits + self.timeouts)[(self.timeouts > 0) & (self.hits != self._told)]
        return int(ends.min()) if len(ends) else None

    def take(self, now_ns: int) -> list[int]:
        """Return the cells of entries whose timeout has ended, each once until its next hit."""
        hits = self.hits.copy()
        ended = (self.timeouts > 0) & (hits != self._told) & (hits + self.timeouts <= now_ns)
        self._told[ended] = hits[ended]
        return [int(cell) for cell in np.flatnonzero(ended)]
