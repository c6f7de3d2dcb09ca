"""Flows that are known together, and the pieces in which they are sent, as arrays with one row
each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.base.errors import InputError, refuse

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WITHIN_LEAF = -1
"""Stands for the path of what stays below one leaf."""


class Flows:
    """The flows of one step: messages that are known, and may leave, at the same time.

    ``source``, ``destination`` and ``size_bytes`` are int64 arrays of the same length; ends are
    numbers of hosts (or of ranks, see `placed`). Raises InputError for arrays that do not fit each
    other, and for negative numbers and sizes.
    """

    def __init__(self, source: IntArray, destination: IntArray, size_bytes: IntArray) -> None:
        self.source = _column("source", source, len(source))
        self.destination = _column("destination", destination, len(source))
        self.size_bytes = _column("size_bytes", size_bytes, len(source))

    def __len__(self) -> int:
        return len(self.source)

    @staticmethod
    def of(rows: Iterable[tuple[int, int, int]] | IntArray) -> "Flows":
        """Return the flows of rows (source, destination, bytes)."""
        table = rows if isinstance(rows, np.ndarray) else np.array(list(rows), np.int64)
        return Flows(*table.reshape(-1, 3).T.copy())

    @staticmethod
    def together(parts: "Sequence[Flows]") -> "Flows":
        """Return the flows of several steps as the flows of one step."""
        if not parts:
            return Flows.of(())
        columns = zip(
            *((one.source, one.destination, one.size_bytes) for one in parts), strict=True
        )
        return Flows(*map(np.concatenate, columns))

    def placed(self, hosts: Sequence[int] | IntArray) -> "Flows":
        """Return flows between ranks as flows between their hosts; ``hosts`` has each rank's
        host."""
        host = np.asarray(hosts, np.int64)
        ends = (self.source, self.destination)
        most = max((int(column.max()) for column in ends if len(column)), default=-1)
        refuse(
            most >= len(host),
            f"flows of rank {most}: only {len(host)} ranks are placed",
        )
        return Flows(host[self.source], host[self.destination], self.size_bytes)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The parts of flows, each on one path, in the order in which their sources send them.

    All columns are int64 arrays of the same length. The pieces of a flow cover each of its bytes
    once.
    """

    flow: IntArray
    """The row of the flow that the piece is part of."""
    path: IntArray
    """The number of its path between two leaves (`weft.controller.clos_paths`), or
    `WITHIN_LEAF`."""
    offset_bytes: IntArray
    size_bytes: IntArray

    def __len__(self) -> int:
        return len(self.flow)


def _column(name: str, values: IntArray, rows: int) -> IntArray:
    """Return values as an int64 array. Raises InputError unless they are one number from 0 up for
    each flow."""
    column = np.asarray(values, np.int64)
    refuse(
        column.ndim != 1 or len(column) != rows,
        f"flows: {name} has shape {column.shape}: one row a flow is valid",
    )
    if len(column) and column.min() < 0:
        raise InputError(f"flows: {name} {column.min()} is negative")
    return column
