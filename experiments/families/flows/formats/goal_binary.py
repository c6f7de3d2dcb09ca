"""GOAL schedules as LogGOPSim's txt2bin makes them (``.bin``): the operations of
`weft.experiments.families.flows.formats.goal`, packed, little-endian.

A magic number; how many ranks, and the highest ``cpu`` and ``nic``; where each rank's part begins
and ends, counted from behind the magic number. A rank's part has how many operations there are, and
how many of them wait for none; the numbers of these; the operations; and behind these numbers of
operations, of which each operation has two rows: those that wait until it is done, and until it has
begun.
"""

import struct
from pathlib import Path

import numpy as np

from weft.base.errors import InputError, refuse
from weft.experiments.families.flows.file_format import FileFlows, FileFormat, FileReading
from weft.experiments.families.flows.formats.operations import (
    ANY,
    Operation,
    Schedule,
    flows_of,
)

MAGIC, USED = 4223, 2342
"""What a file begins with; and what LogGOPSim leaves there when a run has used it up."""
KINDS = {1: "send", 2: "recv", 3: "calc"}
_ANY = 0xFFFFFFFF
_HEADER = struct.Struct("<QIBB")
_OPERATION = np.dtype(
    [
        ("waits", "<u4"), ("kind", "u1"), ("peer", "<u4"), ("amount", "<u8"), ("tag", "<u4"),
        ("cpu", "u1"), ("nic", "u1"), ("done", "<u4"), ("done_at", "<u4"), ("begun", "<u4"),
        ("begun_at", "<u4"),
    ]
)  # fmt: skip
"""An operation: how many it waits for, what it is, and its two rows, each a count and a place."""


class GoalBinary(FileFormat):
    """GOAL schedules, packed."""

    name = ".bin"
    position = 4
    about = "a packed GOAL schedule"

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        return flows_of(parse(self.content(path), str(path)), str(path))


FORMAT = GoalBinary()


def parse(data: bytes, name: str) -> Schedule:
    """Return the operations of a schedule.

    Raises:
        InputError: the bytes are none; the message names the place.
    """
    if len(data) < _HEADER.size:
        raise InputError(f"{name}: {len(data)} bytes are no packed GOAL schedule")
    magic, ranks, _, _ = _HEADER.unpack_from(data)
    refuse(magic == USED, f"{name}: LogGOPSim has used this schedule up (--save-mem): pack it anew")
    if magic != MAGIC:
        raise InputError(
            f"{name}: it begins with {magic}, a packed GOAL schedule with {MAGIC}: make one of "
            "text with LogGOPSim's txt2bin"
        )
    part = _Bytes(data, name)
    table = part.array(_HEADER.size, "<u8", 2 * ranks, "the table of ranks").reshape(-1, 2)
    return {rank: _operations(part, rank, int(table[rank, 0]) + 8) for rank in range(ranks)}


class _Bytes:
    """The bytes of a file."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self.name = data, name

    def array(
        self, place: int, dtype: "str | np.dtype[np.void]", count: int, what: str
    ) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
        """Return some of the bytes; raises InputError if they are not there."""
        size = np.dtype(dtype).itemsize * count
        if place + size > len(self._data):
            raise InputError(
                f"{self.name}: byte {place}: {what} has {size} bytes, of which "
                f"{max(0, len(self._data) - place)} are there"
            )
        return np.frombuffer(self._data, dtype, count, place)


def _operations(part: _Bytes, rank: int, start: int) -> list[Operation]:
    what = f"rank {rank}"
    count, roots = (int(n) for n in part.array(start, "<u4", 2, what))
    at = start + 8 + 4 * roots
    rows = part.array(at, _OPERATION, count, what)
    at += _OPERATION.itemsize * count
    ends = [rows[first].astype(np.int64) + rows[many] for many, first in _ROWS]
    length = int(np.max(ends)) if count else 0
    behind = part.array(at, "<u4", length, f"{what}: what waits for its operations").tolist()
    found = []
    for number, row in enumerate(rows.tolist()):
        _, kind, peer, amount, tag, cpu, nic, *_ = row
        where = f"{part.name}: rank {rank}: operation {number}"
        if kind not in KINDS:
            raise InputError(f"{where}: kind {kind} is none of 1 (send), 2 (recv), 3 (calc)")
        found.append(
            Operation(
                number, where, KINDS[kind], amount, ANY if peer == _ANY else peer,
                ANY if tag == _ANY else tag, cpu, nic,
            )
        )  # fmt: skip
    for number, row in enumerate(rows.tolist()):
        done, done_at, begun, begun_at = row[-4:]
        for waiting in behind[done_at : done_at + done]:
            _waiting(found, waiting, number).before.append(number)
        for waiting in behind[begun_at : begun_at + begun]:
            _waiting(found, waiting, number).begun.append(number)
    return found


_ROWS = (("done", "done_at"), ("begun", "begun_at"))
"""How many operations wait for one, and where their numbers are."""


def _waiting(found: list[Operation], waiting: int, number: int) -> Operation:
    refuse(
        waiting >= len(found),
        f"operation {waiting} waits for it, of {len(found)}",
        found[number].error,
    )
    return found[waiting]
