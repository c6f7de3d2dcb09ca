"""The data of one operation on all ranks: what each contributes, and whether each got what it must.

Contributions are functions of seed, operation, rank and place, so every rank checks its result on
its own. Allgather and Broadcast carry any bytes (`pattern`). What Reduce-Scatter and Allreduce sum
are integers so small that floating-point sums are exact, whatever the order; integer types wrap
around, but for those that switches add, which saturate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from agents.collectives.dtypes import (
    Array,
    average,
    dtype_of,
    is_float,
    significand_bits,
)
from agents.collectives.names import REDUCING
from agents.collectives.pattern import fill_shard, first_difference, shard_key, words
from agents.collectives.requests import Request
from switch.errors import InputError

Bytes = npt.NDArray[np.uint8]

SLICE_BYTES = 1 << 20
"""How much is filled or checked at a time."""
UNFILLED = 0xEE
"""What a byte is that an operation has to bring."""
_MAX_MAGNITUDE = 1 << 15


class Workload:
    """One operation's data.

    Args:
        keep: keep what is expected after it has been computed: for a process that checks many
            ranks.

    Raises:
        InputError: the request does not fit the number of ranks, or its sums would not be exact.
    """

    def __init__(self, request: Request, size: int, seed: int, *, keep: bool = False) -> None:
        self.request = request
        self.size = size
        self._seed = seed
        self._elements = request.elements(size)
        self._shards = request.shard_bytes(size)
        self._reducing = request.collective in REDUCING
        self._kept: dict[int, Bytes] | None = {} if keep else None
        self._reduced: Array | None = None
        """What an Allreduce comes to, where it is kept."""
        self._magnitude = _MAX_MAGNITUDE if request.algorithm == "switch" else 0
        if self._reducing and is_float(request.dtype):
            exact = 2 ** significand_bits(request.dtype)
            self._magnitude = min(_MAX_MAGNITUDE, exact // size)
            if not self._magnitude:
                raise InputError(
                    f"{size} ranks: sums in {request.dtype} are not exact, so not to be checked"
                )

    @property
    def buffer_bytes(self) -> int:
        """Of every rank's buffer."""
        return sum(self._shards)

    def received_bytes(self, rank: int) -> int:
        """Of others' data that the operation brings a rank, at least."""
        if self._reducing:
            own = self._result_elements(rank) * self.request.item_bytes
            return own * (self.size > 1)
        return self.buffer_bytes - self._shards[rank]

    def buffer(self, rank: int) -> Array:
        """A filled buffer."""
        buffer = np.empty(self.buffer_bytes, np.uint8)
        for _ in self.fill(rank, buffer):
            pass
        return buffer.view(self.request.dtype)

    def output(self, rank: int) -> Array | None:
        """The array for a rank's result, where the operation is not in place."""
        if not self._reducing:
            return None
        output = np.empty(self._result_elements(rank), self.request.dtype)
        output.view(np.uint8)[:] = UNFILLED
        return output

    def fill(self, rank: int, buffer: Bytes) -> Iterator[None]:
        """Write what a rank contributes into uint8[`buffer_bytes`], a slice a step."""
        if self._reducing:
            values = buffer.view(self.request.dtype)
            for first in range(0, len(values), SLICE_BYTES // 8):
                part = values[first : first + SLICE_BYTES // 8]
                part[:] = self._values(rank, first, len(part))
                yield
            return
        for source, offset, part in self._slices(buffer):
            if source == rank:
                fill_shard(part, self._seed, self.request.number, source, offset)
            else:
                part[:] = UNFILLED
            yield

    def check(self, rank: int, buffer: Array, output: Array | None) -> str:
        """What is wrong with a rank's result, or nothing."""
        return next((wrong for wrong in self.checks(rank, buffer, output) if wrong), "")

    def checks(self, rank: int, buffer: Array, output: Array | None) -> Iterator[str]:
        """Check a result, a slice a step; what is wrong with the slice, or nothing."""
        if output is not None:
            yield from self._check_reduced(rank, output)
            return
        for source, offset, part in self._slices(buffer.reshape(-1).view(np.uint8)):
            wrong = self._difference(source, offset, part)
            yield "" if wrong is None else f"byte {wrong} of the shard of rank {source} is wrong"

    def _slices(self, buffer: Bytes) -> Iterator[tuple[int, int, Bytes]]:
        """A buffer of shards in parts of one shard each: (rank, offset in its shard, bytes)."""
        start = 0
        for source, size in enumerate(self._shards):
            for offset in range(0, size, SLICE_BYTES):
                end = min(offset + SLICE_BYTES, size)
                yield source, offset, buffer[start + offset : start + end]
            start += size

    def _difference(self, source: int, offset: int, part: Bytes) -> int | None:
        if self._kept is not None:
            if source not in self._kept:
                self._kept[source] = np.empty(self._shards[source], np.uint8)
                fill_shard(self._kept[source], self._seed, self.request.number, source)
            if np.array_equal(part, self._kept[source][offset : offset + len(part)]):
                return None
        return first_difference(part, self._seed, self.request.number, source, offset)

    def _result_elements(self, rank: int) -> int:
        if self.request.collective == "allreduce":
            return sum(self._elements)
        return self._elements[rank]

    def _check_reduced(self, rank: int, output: Array) -> Iterator[str]:
        everything = self.request.collective == "allreduce"
        start = 0 if everything else sum(self._elements[:rank])
        result = output.reshape(-1)
        if everything and self._kept is not None and self._reduced is None:
            self._reduced = self._expected(0, len(result))
        for first in range(0, len(result), SLICE_BYTES // 8):
            part = result[first : first + SLICE_BYTES // 8]
            if self._reduced is not None:
                expected = self._reduced[first : first + len(part)]
            else:
                expected = self._expected(start + first, len(part))
            wrong = np.flatnonzero(part != expected)
            if len(wrong):
                place = int(wrong[0])
                yield (
                    f"element {first + place} of the result is {part[place]}, not {expected[place]}"
                )
            yield ""

    def _expected(self, first: int, count: int) -> Array:
        """What elements of all ranks' contributions come to."""
        total = self._values(0, first, count)
        for rank in range(1, self.size):
            self.request.ufunc(total, self._values(rank, first, count), out=total)
        if self.request.op == "average":
            average(total, self.size)
        return total

    def _values(self, rank: int, first: int, count: int) -> Array:
        """Elements of a rank's contribution to a reduction."""
        mixed = words(shard_key(self._seed, self.request.number, rank), first, count)
        kind = dtype_of(self.request.dtype)
        if self._magnitude:
            span = np.uint64(2 * self._magnitude + 1)
            values: Array = ((mixed % span).astype(np.int64) - self._magnitude).astype(kind)
        else:
            values = mixed.astype(kind)
        return values
