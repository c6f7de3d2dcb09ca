"""Single datagrams, and batches made of them: for tests; worlds carry whole batches."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES, Datagrams


class Datagram(NamedTuple):
    """One datagram on its own: for tests, traces and tools, not for the packet path."""

    source: int
    destination: int
    source_port: int
    tos: int
    data: bytes


def batch_of(datagrams: Iterable[Datagram], stride: int = 0) -> Datagrams:
    """Return a batch with these datagrams; `stride` is at least the longest of them."""
    listed = list(datagrams)
    widest = max([stride, *(len(datagram.data) for datagram in listed)])
    batch = Datagrams.allocate(max(len(listed), 1), max(widest, 1))
    for datagram in listed:
        add(batch, datagram)
    return batch


def add(batch: Datagrams, datagram: Datagram) -> None:
    """Add one datagram; IndexError if the batch is full, ValueError if it does not fit the
    stride."""
    row = batch.count
    size = len(datagram.data)
    if size > batch.stride:
        raise ValueError(f"a datagram of {size} bytes does not fit a stride of {batch.stride}")
    batch.length[row] = size
    batch.data[row, :size] = np.frombuffer(datagram.data, np.uint8)
    batch.source[row] = datagram.source
    batch.destination[row] = datagram.destination
    batch.source_port[row] = datagram.source_port
    batch.tos[row] = datagram.tos
    batch.count = row + 1


def row_of(batch: Datagrams, index: int) -> Datagram:
    """Return a copy of one datagram."""
    if not 0 <= index < batch.count:
        raise IndexError(f"datagram {index} of a batch of {batch.count}")
    return Datagram(
        int(batch.source[index]),
        int(batch.destination[index]),
        int(batch.source_port[index]),
        int(batch.tos[index]),
        batch.data[index, : batch.length[index]].tobytes(),
    )


def rows_of(batch: Datagrams) -> list[Datagram]:
    """Return copies of all the datagrams, in order."""
    return [row_of(batch, index) for index in range(batch.count)]


def frame_bytes(batch: Datagrams) -> int:
    """Return the bytes that a batch takes on a link: Ethernet frames without FCS."""
    return int(batch.length[: batch.count].sum()) + FRAME_OVERHEAD_BYTES * batch.count
