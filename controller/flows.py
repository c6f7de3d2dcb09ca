"""Flows that are known together, and the pieces that they are sent in: arrays, one row each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.base.errors import InputError

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WITHIN_LEAF = -1
"""The path of what stays below one leaf."""


@dataclass(frozen=True, eq=False)
class Flows:
    """The flows of one step: messages that are known, and may leave, at the same time.

    int64 arrays of the same length; ends are numbers of hosts (or of ranks, see `placed`). Raises
    InputError for arrays that do not fit each other, negative numbers and sizes.
    """

    source: IntArray
    destination: IntArray
    size_bytes: IntArray

    def __post_init__(self) -> None:
        for name in ("source", "destination", "size_bytes"):
            column = np.asarray(getattr(self, name), np.int64)
            if column.ndim != 1 or len(column) != len(self.source):
                raise InputError(f"flows: {name} has shape {column.shape}: one row a flow is valid")
            if len(column) and column.min() < 0:
                raise InputError(f"flows: {name} {column.min()} is negative")
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.source)

    @staticmethod
    def of(rows: Iterable[tuple[int, int, int]]) -> Flows:
        """Flows of (source, destination, bytes)."""
        columns = np.array(list(rows), np.int64).reshape(-1, 3)
        return Flows(columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy())

    @staticmethod
    def together(parts: Sequence[Flows]) -> Flows:
        """The flows of several steps as those of one."""
        if not parts:
            return Flows.of(())
        return Flows(
            np.concatenate([part.source for part in parts]),
            np.concatenate([part.destination for part in parts]),
            np.concatenate([part.size_bytes for part in parts]),
        )

    def placed(self, hosts: Sequence[int] | IntArray) -> Flows:
        """Flows between ranks as those between their hosts, given by number for each rank."""
        host = np.asarray(hosts, np.int64)
        ends = (self.source, self.destination)
        most = max((int(column.max()) for column in ends if len(column)), default=-1)
        if most >= len(host):
            raise InputError(f"flows of rank {most}: only {len(host)} ranks are placed")
        return Flows(host[self.source], host[self.destination], self.size_bytes)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of flows, each on one path, in the order in which their sources send them.

    int64 arrays of the same length. The pieces of a flow cover it, each byte once.
    """

    flow: IntArray
    """Its flow's row."""
    path: IntArray
    """Number of its path between two leaves (`weft.controller.clos_paths`); `WITHIN_LEAF`: none."""
    offset_bytes: IntArray
    size_bytes: IntArray

    def __len__(self) -> int:
        return len(self.flow)
