"""Notes of what data came where, of a world in which data travel without bytes."""

import numpy as np
import numpy.typing as npt

from weft.agents.transport.noted_sums import NotedSums
from weft.agents.transport.payload_layout import Landing
from weft.agents.transport.payload_layout import Landings as Words

BARE_BYTES = 256
"""How much of a frame is copied where data travel without bytes: more than any headers."""
_FIRST = 1 << 12


class Landings:
    """The landings of all hosts of a world; there are none if data travel with their bytes, unless
    they are noted all the same (``whole``)."""

    def __init__(self, noted: bool, whole: bool = False) -> None:
        self.whole = whole
        self._rows = np.zeros(_FIRST if noted else 0, Landing.dtype)
        self._words = Words.zeroed(rows=self._rows.ctypes.data, room=len(self._rows))
        self._words.whole = int(whole)
        self.location: int = self._words.location if noted else 0
        """The address of `Words`, or 0."""
        self.sums = NotedSums(self._words) if noted and not whole else None
        """The sums that hosts make."""

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """Return what has come: rows of `Landing`."""
        return self._rows[: self._words.count]

    @property
    def unlike(self) -> bool:
        """Return whether something came that is not what was expected."""
        return bool(self._words.unlike)

    def expect(self, expected: npt.NDArray[np.void]) -> None:
        """Have what comes compared at once where ranks' buffers have it already: rows of
        `Expected`, which are kept and used."""
        self._expected = expected
        self._words.fill(expected=expected.ctypes.data, expectations=len(expected), unlike=0)

    def forget(self) -> None:
        """Begin again; endpoints are yet to be attached."""
        self._words.count = 0
        if self.sums is not None:
            self.sums.forget()

    def start_over(self) -> None:
        """Forget rows that have been looked at; no endpoint may go on with one of them."""
        self._words.count = 0

    def make_room(self) -> None:
        """Have room for more, if there is none."""
        if self.location and self._words.count >= len(self._rows):
            rows = np.zeros(2 * len(self._rows), Landing.dtype)  # of which no more is memory yet
            rows[: len(self._rows)] = self._rows
            self._rows = rows
            self._words.fill(rows=self._rows.ctypes.data, room=len(self._rows))
