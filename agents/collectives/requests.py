"""What is asked of a communicator: one collective operation, the same request on every rank."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.dtypes import dtype_of, is_float, is_integer, is_number
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import (
    FLOWS,
    REDUCING,
    REDUCTIONS,
    ROOTED,
    VECTORS,
    algorithms,
    flow_algorithms,
)
from weft.agents.collectives.tensors import Tensors
from weft.agents.collectives.timing import operation_timeout_ns
from weft.agents.operators.computation import Computation
from weft.base.errors import InputError, refuse

REQUIRED = object()
"""In place of the default of a field that must be given."""


class Converted:
    """A field holds what `convert(its name, the value that was given)` returns."""

    def __init__(self, convert: Callable[[str, Any], object], default: object) -> None:
        self._convert = convert
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> object:
        if instance is not None:
            return instance.__dict__[self._name]
        if self._default is REQUIRED:
            raise AttributeError(self._name)
        return self._default

    def __set__(self, instance: object, value: object) -> None:
        instance.__dict__[self._name] = self._convert(self._name, value)


def whole(default: object = REQUIRED, least: int = 0, most: int | None = None) -> Any:
    """Return a field that holds a Python integer, whatever type of integer it is given; InputError
    for what is none, or out of range."""

    def convert(name: str, given: object) -> int:
        value = whole_number(name, given)
        refuse(value < least, f"{name} {value}: at least {least}")
        refuse(most is not None and value > most, f"{name} {value}: at most {most}")
        return value

    return Converted(convert, default)


def counts() -> Any:
    """Return a field that holds one number of elements, or a tuple of them."""

    def convert(name: str, given: object) -> int | tuple[int, ...]:
        listed = given if isinstance(given, Iterable) else (given,)
        each = tuple(whole_number(name, count) for count in listed)
        refuse(min(each, default=0) < 0, f"{name} {given}: a number of elements is not negative")
        return each if listed is given else each[0]

    return Converted(convert, REQUIRED)


def pairs() -> Any:
    """Return a field that holds pairs of names and values, of a mapping or as they are."""

    def convert(_: str, given: Any) -> tuple[tuple[str, Any], ...]:
        return tuple(dict(given).items())

    return Converted(convert, ())


def whole_number(name: str, value: object) -> int:
    """Return any integer as a Python one; InputError, by name, for what is none."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"{name} {value!r} is no whole number") from error


_UFUNCS: dict[str, np.ufunc] = dict(
    zip(
        REDUCTIONS,
        (
            np.add, np.minimum, np.maximum, np.add,
            np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
        ),
        strict=True,
    )
)  # fmt: skip
MAX_NUMBER = (1 << 32) - 1
"""Control messages carry 32 bits of it."""


@dataclass(frozen=True)
class Request:
    """A request describes one collective operation, alike on every rank.

    Buffers: an Allgather gathers in place into one array of all ranks' elements, a Broadcast's is
    the root's array on every rank, a Reduce-Scatter reads an array of all ranks' elements and
    writes one of this rank's, an Allreduce reads one array and writes another like it. An
    All-to-all reads a vector with a part for every rank and writes one of the parts that all ranks
    have for this one; a many-to-one's is the rank's own, on the root of all ranks' elements. Arrays
    are C-contiguous, of `dtype`, of any shape; nothing is copied.

    Raises:
        InputError: a value makes no sense.
    """

    number: int = whole(most=MAX_NUMBER)
    """Counts the operations of the communicator, from 0; each rank starts them in this order."""
    collective: str  # type: ignore[misc]  # `number` has no default
    """One of `COLLECTIVES`."""
    algorithm: str  # type: ignore[misc]
    """One of the collective's `algorithms`."""
    counts: int | tuple[int, ...] = counts()
    """Elements of every rank, or of each by itself (MPI's Allgatherv); of Broadcast: of the
    root; of Allreduce and All-to-all: of the vector that each rank contributes."""
    dtype: str = "uint8"
    """The element type by numpy's name, or ``bfloat16``."""
    op: str = "sum"
    """Reduce-Scatter and Allreduce: one of `REDUCTIONS`. An average is the sum, divided once at the
    end; integers truncate toward zero."""
    root: int = whole(0)
    """Broadcast: the rank whose elements all others get; many-to-one: the rank that gets all."""
    lanes: int = whole(1, least=1)
    """Unicast: what one rank sends another is cut into a multiple of so many blocks, if that is
    possible, so that as many lanes of the communicator get equal parts of it."""
    own: Mapping[str, Any] | tuple[tuple[str, Any], ...] = pairs()
    """What is asked of the algorithm's own options, by the names of their fields."""
    beside_bytes: int = whole(0)
    """Multicast: frame bytes that other operations put on the fullest link meanwhile. The roots
    leave room for them."""
    pace_bps: int = whole(0)
    """Multicast: bit/s of the slowest link that the packets go over; 0: that of the rank's own."""
    timeout_ns: int = whole(0)
    """The time limit. 0 means `operation_timeout_ns`, and for flows the time that they wait in
    addition."""
    repeat_ns: int = whole(0)
    """How long losses hold up a KiB of data on average, as far as is known: that makes the default
    time limit longer."""
    flows: FlowGraph | None = None
    """The flows of the collective flows, for which `counts` says nothing."""
    tensors: Tensors | None = None
    """The slices of tensors that these flows carry. None: each carries bytes of its own..."""
    computation: Computation | None = None
    """... or what the graph's waits compute."""

    def __post_init__(self) -> None:
        known = {**algorithms(), FLOWS: flow_algorithms()}
        if self.collective not in known:
            raise InputError(f"collective {self.collective!r}: choose from {', '.join(known)}")
        if self.algorithm not in known[self.collective]:
            raise InputError(
                f"{self.collective} algorithm {self.algorithm!r}: choose from "
                f"{', '.join(known[self.collective])}"
            )
        refuse(
            (self.collective == FLOWS) != (self.flows is not None)
            or (self.flows is not None and self.dtype != "uint8"),
            f"{self.collective}: flows have a graph, and bytes; nothing else has",
        )
        refuse(
            (self.tensors or self.computation) is not None
            and (self.flows is None or self.flows.places is None),
            f"{self.collective}: tensors, and what is computed, are carried by flows that have "
            "places",
        )
        if self.op not in REDUCTIONS:
            raise InputError(f"op {self.op!r}: choose from {', '.join(REDUCTIONS)}")
        refuse(
            self.op.startswith("bitwise") and not is_integer(self.dtype),
            f"op {self.op!r} of {self.dtype}: it is for integers",
        )
        whose = "that of the root" if self.collective == "broadcast" else "of the vector"
        if isinstance(self.counts, tuple) and self.collective in ("broadcast", *VECTORS):
            raise InputError(
                f"counts {self.counts}: {self.collective.title()} has one count, {whose}"
            )
        if not is_number(self.dtype):
            raise InputError(f"dtype {self.dtype!r} is no numpy type of numbers, like float32")
        if self.collective in REDUCING and not (is_float(self.dtype) or is_integer(self.dtype)):
            raise InputError(f"dtype {self.dtype!r} cannot be reduced: integers and floats can")

    @property
    def item_bytes(self) -> int:
        """Return the size of one element."""
        return dtype_of(self.dtype).itemsize

    @cached_property
    def _elements(self) -> dict[int, tuple[int, ...]]:
        return {}

    @cached_property
    def _shard_bytes(self) -> dict[int, tuple[int, ...]]:
        return {}

    def elements(self, size: int) -> tuple[int, ...]:
        """Return the elements of each of `size` ranks: what it contributes, or of Reduce-Scatter
        ends with; of `VECTORS`, parts of the vector that differ by one element at most, the longer
        first; of flows, the bytes that it sends.

        Raises InputError where the request is of another number of ranks.
        """
        if size not in self._elements:
            self._elements[size] = self._counted(size)
        return self._elements[size]

    def _counted(self, size: int) -> tuple[int, ...]:
        counts = self.counts
        refuse(
            self.collective in ROOTED and self.root >= size,
            f"root {self.root} of {size} ranks: choose 0 to {size - 1}",
        )
        if self.flows is not None:
            refuse(
                self.flows.ranks > size,
                f"flows of {self.flows.ranks} ranks on {size}: that is too many",
            )
            sent = self.flows.sent_bytes
            return (*sent, *(0,) * (size - len(sent)))
        if isinstance(counts, tuple):
            refuse(
                len(counts) != size, f"{len(counts)} counts for {size} ranks: one a rank is needed"
            )
            return counts
        if self.collective == "broadcast":
            return tuple(counts if rank == self.root else 0 for rank in range(size))
        if self.collective in VECTORS:
            each, more = divmod(counts, size)
            return (each + 1,) * more + (each,) * (size - more)
        return (counts,) * size

    def shard_bytes(self, size: int) -> tuple[int, ...]:
        """Return `elements` in bytes."""
        if size not in self._shard_bytes:
            width = self.item_bytes
            self._shard_bytes[size] = tuple(count * width for count in self.elements(size))
        return self._shard_bytes[size]

    def buffer_elements(self, rank: int, size: int) -> int:
        """Return how many elements a rank's buffer has."""
        if self.flows is not None:
            return self.flows.buffer_bytes(rank)
        elements = self.elements(size)
        if self.collective == "many-to-one" and rank != self.root:
            return elements[rank]
        return sum(elements)

    def output_elements(self, rank: int, size: int) -> int | None:
        """Return how many elements a rank's output has; None where the collective works in
        place."""
        if self.flows is not None:
            return self.flows.output_bytes(rank)
        elements = self.elements(size)
        if self.collective == "alltoall":
            return size * elements[rank]
        if self.collective in REDUCING:
            return sum(elements) if self.collective == "allreduce" else elements[rank]
        return None

    def limit_ns(self, size: int, rate_bps: int) -> int:
        """Return the time limit on each rank, from its own start."""
        if self.timeout_ns:
            return self.timeout_ns
        waits_ns = 0 if self.flows is None else self.flows.span_ns(0)
        total_bytes = sum(self.shard_bytes(size))
        return waits_ns + operation_timeout_ns(size, total_bytes, rate_bps, self.repeat_ns)

    @property
    def ufunc(self) -> np.ufunc:
        """Return what a reduction does with two elements (`average` divides their sum)."""
        return _UFUNCS[self.op]


def flat_bytes(array: npt.NDArray[np.generic], request: Request, count: int, what: str) -> (
    npt.NDArray[np.uint8]
):  # fmt: skip
    """Return the memory of a caller's array as uint8[bytes], not copied.

    Raises:
        InputError: the array has another dtype or number of elements, is not C-contiguous, or may
            not be written (peers read and write registered memory).
    """
    if not isinstance(array, np.ndarray):
        raise InputError(f"{what}: it is a {type(array).__name__}; pass a numpy array")
    wanted = dtype_of(request.dtype)
    refuse(array.dtype != wanted, f"{what}: its elements are {array.dtype}, the request's {wanted}")
    refuse(array.size != count, f"{what}: it has {array.size} elements; {count} are needed")
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise InputError(
            f"{what}: it is {'read-only' if array.flags.c_contiguous else 'not C-contiguous'}; "
            "pass a C-contiguous array that may be written, such as array.copy()"
        )
    return np.asarray(array).reshape(-1).view(np.uint8)
