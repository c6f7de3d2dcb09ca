"""The data of one operation on all ranks: what each contributes, and whether each got what it must.

Contributions are functions of seed, operation, rank and place, so every rank checks its result on
its own. Collectives that reduce nothing carry any bytes (`pattern`). What Reduce-Scatter and
Allreduce sum are, unless other data are asked for, integers so small that floating-point sums are
exact, whatever the order; integer types wrap around, but for those that switches add, which
saturate. Data as gradients are (`gradients`) have sums that are rounded: a result must have the
bits that the algorithm's order of adding makes (`sum_orders`), and so all ranks the same; its
distance from the exact sum is measured, and must be within the bound (`sum_errors`).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from weft.agents.collectives.dtypes import (
    Array,
    average,
    dtype_of,
    is_float,
    largest_power,
    significand_bits,
)
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.gradients import LARGEST, PAGE, gradients
from weft.agents.collectives.names import DATA, FLOWS, REDUCING
from weft.agents.collectives.pattern import fill_shard, first_difference, shard_key, words
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.sum_errors import SumErrors, distances, error_bound, errors_of
from weft.agents.collectives.sum_orders import sums_of
from weft.agents.collectives.unicast import Bytes
from weft.base.errors import InputError, refuse

SLICE_BYTES = 1 << 20
"""How much is filled or checked at a time."""
UNFILLED = 0xEE
"""What a byte is that an operation has to bring."""
_MAX_MAGNITUDE = 1 << 15


class ContributedPart(NamedTuple):
    """A part of a buffer or an output is what one rank contributes to it as a whole."""

    key: int
    """Which of the operation's: tells its bytes from those of all others."""
    size_bytes: int
    source: int
    """The rank that contributes it."""
    what: str
    """What messages call it."""


class Workload:
    """A workload makes and checks the data of one operation.

    Args:
        data: one of `DATA`, what floating-point numbers are where they are reduced.
        switch_values: values of a packet, where switches add such data.
        keep: keep what is expected after it has been computed: for a process that checks many
            ranks.

    Raises:
        InputError: the request does not fit the number of ranks or the data, or sums of exact data
            would not be exact.
    """

    def __init__(
        self,
        request: Request,
        size: int,
        seed: int,
        *,
        data: str = "exact",
        switch_values: int = 0,
        keep: bool = False,
    ) -> None:
        self.request = request
        self.size = size
        self.errors: SumErrors | None = None
        """The errors of the result that was checked last, where sums are rounded."""
        self._seed = seed
        self._elements = request.elements(size)
        self._shards = request.shard_bytes(size)
        self._reducing = request.collective in REDUCING
        self._keep = keep
        self._everything: Bytes | None = None
        """What every rank has in the end, where all have the same and it is kept."""
        self._reduced: Array | None = None
        """What an Allreduce comes to, where it is kept."""
        self._data = data if self._reducing else "exact"
        self._switch_values = switch_values
        self._kept_sums: dict[int, tuple[Array, SumErrors]] = {}
        """What slices of an Allreduce come to, by their first elements, where it is kept."""
        adds = self._reducing and algorithm_of(request.collective, request.algorithm).adds
        self._magnitude = _MAX_MAGNITUDE if adds else 0
        if self._data != "exact":
            self._check_gradients()
        elif self._reducing and is_float(request.dtype):
            exact = 2 ** significand_bits(request.dtype)
            self._magnitude = min(_MAX_MAGNITUDE, exact // size)
            if not self._magnitude:
                raise InputError(
                    f"{size} ranks: sums in {request.dtype} are not exact, so not to be checked"
                )

    def _check_gradients(self) -> None:
        """Raise InputError unless sums of the data are floating-point numbers."""
        request, data = self.request, self._data
        if data not in DATA:
            raise InputError(f"data {data!r}: choose from {', '.join(DATA)}")
        if not (is_float(request.dtype) and request.op in ("sum", "average")):
            raise InputError(
                f"data {data} of {request.dtype} by op {request.op}: it is for sums and averages of"
                " floating-point numbers; choose another dtype or op, or data exact"
            )
        most = int(2.0 ** (largest_power(request.dtype) - 1) / LARGEST[data])
        refuse(
            self.size > most,
            f"data {data} of {request.dtype}: sums of numbers up to {LARGEST[data]:g} on"
            f" {self.size} ranks may leave its range; choose at most {most} ranks, or another"
            " dtype",
        )

    def buffer_bytes(self, rank: int) -> int:
        """Return the size of a rank's buffer."""
        return self.request.buffer_elements(rank, self.size) * self.request.item_bytes

    def received_bytes(self, rank: int) -> int:
        """Return how many bytes of others' data the operation brings a rank, at least."""
        if self._reducing:
            return self._output_bytes(rank) * (self.size > 1)
        flows = self.request.flows
        if flows is not None:
            come = sum(each.size_bytes * each.gets(rank) for each in flows.sums)
            return come + sum(flows.sizes(flows.received_by(rank)))
        if self.request.collective == "alltoall":
            return (self.size - 1) * self._shards[rank]
        return self.buffer_bytes(rank) - self._shards[rank]

    def buffer(self, rank: int) -> Array:
        """Return a filled buffer."""
        buffer = np.empty(self.buffer_bytes(rank), np.uint8)
        for _ in self.fill(rank, buffer):
            pass
        return buffer.view(self.request.dtype)

    def output(self, rank: int) -> Array | None:
        """Return the array for a rank's result, where the operation is not in place."""
        output = self.empty_output(rank)
        for _ in self.clear(output):
            pass
        return output

    def empty_output(self, rank: int) -> Array | None:
        """Return the array for a rank's result, as `output` does, but before it is cleared."""
        count = self.request.output_elements(rank, self.size)
        return None if count is None else np.empty(count, self.request.dtype)

    def clear(self, output: Array | None) -> Iterator[None]:
        """Write over an output, a slice a step, so that what is not brought shows."""
        if output is None:
            return
        yield from _unfill(output.view(np.uint8))

    def fill(self, rank: int, buffer: Bytes) -> Iterator[None]:
        """Write what a rank contributes into uint8[`buffer_bytes(rank)`], a slice a step."""
        if self.request.tensors is not None:
            yield from self.request.tensors.fill(rank, buffer, self._seed, self.request.number)
            return
        if self.request.computation is not None:
            yield from self.request.computation.fill(rank, buffer, self.request.number)
            return
        if self._reducing:
            values = buffer.view(self.request.dtype)
            for first in range(0, len(values), SLICE_BYTES // 8):
                part = values[first : first + SLICE_BYTES // 8]
                part[:] = self._values(rank, first, len(part))
                yield
            return
        end = 0
        for start, contributed in self._contributed(rank):
            yield from _unfill(buffer[end:start])
            end = start + contributed.size_bytes
            for _, offset, piece in _slices([contributed], buffer[start:end]):
                fill_shard(piece, self._seed, self.request.number, contributed.key, offset)
                yield
        yield from _unfill(buffer[end:])

    def check(self, rank: int, buffer: Array, output: Array | None) -> str:
        """Return what is wrong with a rank's result, or nothing."""
        return next((wrong for wrong in self.checks(rank, buffer, output) if wrong), "")

    def checks(self, rank: int, buffer: Array, output: Array | None) -> Iterator[str]:
        """Check a result, a slice a step, and yield what is wrong with the slice, or nothing."""
        if self.request.tensors is not None:
            assert output is not None
            memories = [array.reshape(-1).view(np.uint8) for array in (buffer, output)]
            yield from self.request.tensors.checks(rank, memories, self._seed, self.request.number)
            return
        if self.request.computation is not None:
            assert output is not None
            memories = [array.reshape(-1).view(np.uint8) for array in (buffer, output)]
            yield from self.request.computation.checks(rank, memories, self.request.number)
            return
        if self._reducing:
            assert output is not None
            checking = self._check_reduced if self._data == "exact" else self._check_rounded
            everything = self.request.collective == "allreduce"
            start = 0 if everything else sum(self._elements[:rank])
            yield from checking(start, output.reshape(-1))
            return
        result = (buffer if output is None else output).reshape(-1).view(np.uint8)
        if self._keep and output is None and not self._once:
            if self._everything is None:
                self._everything = self._filled(rank, len(result))
            if all(np.array_equal(*pair) for pair in _pairs(result, self._everything)):
                return
        parts = self.buffer_parts(rank) if output is None else self.output_parts(rank)
        for part, offset, piece in _slices(parts, result):
            wrong = self._difference(part, offset, piece)
            yield "" if wrong is None else f"byte {wrong} of {part.what} is wrong"

    def _contributed(self, rank: int) -> Iterator[tuple[int, ContributedPart]]:
        """Yield the parts of a rank's buffer that it contributes itself, each with its place."""
        if self._once:
            start = 0
            for part in self.buffer_parts(rank):
                if part.source == rank:
                    yield start, part
                start += part.size_bytes
        else:
            yield sum(self._shards[:rank]), self._shard(rank)

    def result(self) -> Bytes:
        """Return what all ranks have in the end, where that is the same."""
        return self._filled(0, self.buffer_bytes(0))

    def _filled(self, rank: int, size_bytes: int) -> Bytes:
        """Return what all ranks have in the end, if that is the same."""
        everything = np.empty(size_bytes, np.uint8)
        for part, offset, piece in _slices(self.buffer_parts(rank), everything):
            fill_shard(piece, self._seed, self.request.number, part.key, offset)
        return everything

    def buffer_parts(self, rank: int) -> list[ContributedPart]:
        """Return the parts of a rank's buffer, in order, for a collective that reduces nothing."""
        if self.request.flows is not None:
            return _flows(self.request.flows, self.request.flows.sent_by(rank).tolist())
        if self.request.collective == "alltoall":
            return [self._exchanged(rank, peer) for peer in range(self.size)]
        one = self.request.collective == "many-to-one" and rank != self.request.root
        sources = range(rank, rank + 1) if one else range(self.size)
        return [self._shard(source) for source in sources]

    def output_parts(self, rank: int) -> list[ContributedPart]:
        """Return the parts of a rank's output, in order, for a collective that reduces nothing;
        there are none if it works in place."""
        if self.request.flows is not None:
            return _flows(self.request.flows, self.request.flows.received_by(rank).tolist())
        if self.request.collective != "alltoall":
            return []
        return [self._exchanged(source, rank) for source in range(self.size)]

    def _shard(self, source: int) -> ContributedPart:
        return ContributedPart(source, self._shards[source], source, f"the shard of rank {source}")

    def _exchanged(self, source: int, destination: int) -> ContributedPart:
        what = f"what rank {source} has for rank {destination}"
        return ContributedPart(
            source * self.size + destination, self._shards[destination], source, what
        )

    def _difference(self, part: ContributedPart, offset: int, piece: Bytes) -> int | None:
        return first_difference(piece, self._seed, self.request.number, part.key, offset)

    @property
    def is_alike(self) -> bool:
        """Return whether the parts of all ranks' buffers are the same."""
        return not self._once

    @property
    def _once(self) -> bool:
        """Return whether no part is on more than one rank in the end."""
        return self.request.collective in ("alltoall", "many-to-one", FLOWS)

    def _output_bytes(self, rank: int) -> int:
        return (self.request.output_elements(rank, self.size) or 0) * self.request.item_bytes

    def _check_reduced(self, start: int, result: Array) -> Iterator[str]:
        """Check a result whose first element is the one at `start` of the vector."""
        keeps = self.request.collective == "allreduce" and self._keep
        if keeps and self._reduced is None:
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

    def _check_rounded(self, start: int, result: Array) -> Iterator[str]:
        """Check as `_check_reduced` does, bit for bit, and against the bound; `errors` are of the
        slices so far."""
        self.errors = SumErrors()
        bits = f"u{self.request.item_bytes}"
        step = max(PAGE, SLICE_BYTES // self.size)
        if self._switch_values:
            step = max(1, step // self._switch_values) * self._switch_values  # whole blocks
        for first in range(0, len(result), step):
            part = result[first : first + step]
            expected, errors = self._sums(start + first, len(part))
            self.errors += errors
            wrong = np.flatnonzero(part.view(bits) != expected.view(bits))
            if len(wrong):
                place = int(wrong[0])
                terms = self._terms(start + first, len(part))
                off = distances(self.request, terms, part)[place]
                allowed = error_bound(self.request, terms, self._switch_values)[place]
                yield (
                    f"element {first + place} of the result is {part[place]}, not"
                    f" {expected[place]}, to which the algorithm's order of adding comes; it is"
                    f" {off:.3g} from the exact value, of at most {allowed:.3g}"
                )
            elif errors.max_of_bound > 1:
                yield (
                    f"an element from {first} to {first + len(part) - 1} of the result is"
                    f" {errors.max_of_bound:.3g} times as far from the exact sum as its bound says"
                )
            yield ""

    def _sums(self, first: int, count: int) -> tuple[Array, SumErrors]:
        """Return what elements come to by the algorithm, and how far that is from the exact
        sums."""
        if first in self._kept_sums:
            return self._kept_sums[first]
        terms = self._terms(first, count)
        expected = sums_of(self.request, terms, first, self._switch_values)
        found = expected, errors_of(self.request, terms, expected, self._switch_values)
        if self._keep and self.request.collective == "allreduce":
            self._kept_sums[first] = found
        return found

    def _terms(self, first: int, count: int) -> Array:
        """Return what all ranks contribute to some elements, [ranks, count]."""
        return np.stack([self._values(rank, first, count) for rank in range(self.size)])

    def _expected(self, first: int, count: int) -> Array:
        """Return what elements of all ranks' contributions come to."""
        total = self._values(0, first, count)
        for rank in range(1, self.size):
            self.request.ufunc(total, self._values(rank, first, count), out=total)
        if self.request.op == "average":
            average(total, self.size)
        return total

    def _values(self, rank: int, first: int, count: int) -> Array:
        """Return elements of a rank's contribution to a reduction."""
        if self._data != "exact":
            request = self.request
            return gradients(
                self._data, request.dtype, self._seed, request.number, rank, first, count
            )
        mixed = words(shard_key(self._seed, self.request.number, rank), first, count)
        kind = dtype_of(self.request.dtype)
        if not self._magnitude:
            return mixed.astype(kind)
        span = np.uint64(2 * self._magnitude + 1)
        values: Array = ((mixed % span).astype(np.int64) - self._magnitude).astype(kind)
        return values


def accuracy_of(workloads: Iterable[Workload]) -> dict[str, float]:
    """Return how accurate the sums are of the results that were checked last, of all operations;
    empty if none is rounded. By the names that results have."""
    errors = [each.errors for each in workloads if each.errors is not None]
    return sum(errors, SumErrors()).figures() if errors else {}


def _unfill(buffer: Bytes) -> Iterator[None]:
    """Write over bytes that an operation has to bring, a slice a step."""
    for start in range(0, len(buffer), SLICE_BYTES):
        buffer[start : start + SLICE_BYTES] = UNFILLED
        yield


def _pairs(one: Bytes, other: Bytes) -> Iterator[tuple[Bytes, Bytes]]:
    """Yield the slices of two buffers of the same size."""
    for start in range(0, len(one), SLICE_BYTES):
        yield one[start : start + SLICE_BYTES], other[start : start + SLICE_BYTES]


def _flows(graph: FlowGraph, flows: Iterable[int]) -> list[ContributedPart]:
    return [
        ContributedPart(
            flow, graph.size_bytes[flow], graph.source[flow],
            f"flow {flow} from rank {graph.source[flow]}",
        )
        for flow in flows
    ]  # fmt: skip


def _slices(
    parts: Iterable[ContributedPart], buffer: Bytes
) -> Iterator[tuple[ContributedPart, int, Bytes]]:
    """Yield the parts that a buffer consists of, in slices: (part, offset in it, bytes)."""
    start = 0
    for part in parts:
        for offset in range(0, part.size_bytes, SLICE_BYTES):
            end = min(offset + SLICE_BYTES, part.size_bytes)
            yield part, offset, buffer[start + offset : start + end]
        start += part.size_bytes
