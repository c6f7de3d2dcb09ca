"""Results that are compared as they come, and then dropped (``--keep none``).

The ranks' buffers are private mappings of one file, which has the result that all ranks are to
have. What a packet brings is compared where it comes
(`weft.agents.transport.payload_layout.Expected`), and not written if it is right. What is not, and
all that comes later, is written to pages of the rank's own. Every so many events that is compared
with the file, and the pages are given back: from then on the rank sees those of the file. Nothing
tells a byte that has not come from one that has, so it is noted where bytes have come
(`weft.agents.transport.payload_layout.Landings`), and in the end all must have.
"""

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.coverage import Held, find_missing
from weft.agents.collectives.workload import Workload
from weft.agents.transport.payload_layout import Expected
from weft.base.errors import MachineError
from weft.base.libc import libc

Bytes = npt.NDArray[np.uint8]

_AT_ONCE = 1 << 22
"""How many bytes are compared at a time."""
_PRIVATE_FIXED = mmap.MAP_PRIVATE | 0x10
_NOBODY = 0  # may read or write it
_FAILED = ctypes.c_void_p(-1).value

libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _mapped(address: int | None, size: int, protection: int, flags: int, file: int) -> int:
    found = libc.mmap(address, size, protection, flags, file, 0)
    if found == _FAILED:
        why = os.strerror(ctypes.get_errno())
        raise MachineError(f"{size} bytes for results that are dropped: {why}")
    return int(found)


class DroppedResults:
    """The results of an operation on all ranks of a team, which are the same."""

    def __init__(self, workload: Workload, ranks: int) -> None:
        """Make the file and the buffers. Raises MachineError."""
        self.workload = workload
        self._expected = workload.result()
        self._stride = max(1, -(-len(self._expected) // mmap.PAGESIZE)) * mmap.PAGESIZE
        self._ranks = ranks
        size = self._stride * ranks
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # no memory is kept for it
        self._base = _mapped(None, size, _NOBODY, flags, -1)
        weakref.finalize(self, libc.munmap, self._base, size).atexit = False
        file = os.memfd_create("weft")
        try:
            os.ftruncate(file, self._stride)
            os.pwrite(file, self._expected.tobytes(), 0)
            for rank in range(ranks):
                place, both = self._base + rank * self._stride, mmap.PROT_READ | mmap.PROT_WRITE
                _mapped(place, self._stride, both, _PRIVATE_FIXED, file)
        finally:
            os.close(file)
        self._memory: Bytes = np.ctypeslib.as_array(
            (ctypes.c_uint8 * size).from_address(self._base)
        )
        self._came: list[npt.NDArray[np.int64]] = []
        self._wrong: dict[int, str] = {}

    def buffer(self, rank: int) -> Bytes:
        """Return a rank's buffer, which is there for as long as this object."""
        start = rank * self._stride
        return self._memory[start : start + len(self._expected)]

    def expected(self) -> npt.NDArray[np.void]:
        """Return a row of `Expected`, which holds as long as this object."""
        row = np.zeros(1, Expected.dtype)
        row[0] = (
            self._base, self._base + len(self._memory), self._stride,
            self._expected.ctypes.data, len(self._expected),
        )  # fmt: skip
        return row

    def compare(self, landings: npt.NDArray[np.void], written: bool = True) -> None:
        """Compare what has come, and drop it.

        Args:
            landings: rows of `Landing` since the last time, of all memory.
            written: whether some of it is in the buffers; otherwise it is known to be right.
        """
        targets = landings["target"].astype(np.int64) - self._base
        here = np.flatnonzero((targets >= 0) & (targets < len(self._memory)))
        targets, lengths = targets[here], landings["length"][here].astype(np.int64)
        fetched = landings["fetched"][here].astype(np.int64)
        self._came.append(np.stack([targets, lengths, fetched]))
        for length in np.unique(lengths).tolist() if written else ():
            places = targets[lengths == length]
            step = max(1, _AT_ONCE // max(1, length))
            for first in range(0, len(places), step):
                self._compare(places[first : first + step], length)
        if libc.madvise(self._base, len(self._memory), mmap.MADV_DONTNEED):
            raise MachineError(f"results that are dropped: {os.strerror(ctypes.get_errno())}")

    def _compare(self, places: npt.NDArray[np.int64], length: int) -> None:
        """Compare as many bytes from each of some places on."""
        windows = np.lib.stride_tricks.sliding_window_view
        came = windows(self._memory, length)[places]
        wanted = windows(self._expected, length)[places % self._stride]
        for row in np.flatnonzero((came != wanted).any(1)).tolist():
            rank, start = divmod(int(places[row]), self._stride)
            byte = start + int(np.flatnonzero(came[row] != wanted[row])[0])
            self._wrong.setdefault(rank, self._named(rank, byte))

    def _named(self, rank: int, byte: int) -> str:
        for part in self.workload.buffer_parts(rank):
            if byte < part.size_bytes:
                return f"byte {byte} of {part.what} is wrong"
            byte -= part.size_bytes
        return f"byte {byte} behind the result is wrong"

    def wrong(self) -> dict[int, str]:
        """Return what is wrong with ranks' results, of all that has come or has not."""
        targets, lengths, fetched = np.concatenate([*self._came, np.zeros((3, 0), np.int64)], 1)
        held = [
            Held(self.workload, rank, self._base + rank * self._stride, None)
            for rank in range(self._ranks)
        ]
        missing = find_missing(targets + self._base, lengths, fetched, held)
        return {**missing, **self._wrong}


def compare_all(
    results: Sequence[DroppedResults], landings: npt.NDArray[np.void], written: bool
) -> None:
    """Have what has come compared where it belongs (`DroppedResults.compare`)."""
    if len(landings):
        for each in results:
            each.compare(landings, written)
