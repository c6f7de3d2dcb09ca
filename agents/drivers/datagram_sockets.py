"""What the UDP driver and worker threads have in common: structures for many datagrams a system
call, and buffer sizes."""

from __future__ import annotations

import socket

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams
from weft.agents.drivers.compiled_udp import CONTROL_BYTES, NAME_BYTES, STACK_BYTES, STACK_ROOM

STRIDE = 4096 + 128
"""Room for the largest RoCEv2 packet there is."""
BATCH = 64
"""Datagrams a system call, at most."""

_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33

Words = npt.NDArray[np.int64]


class Messages:
    """mmsghdr structures for up to `BATCH` datagrams, each with a name, one iovec and room for
    control. With `raw` the IPv4 and UDP headers of the datagrams are written here, so each has two
    iovecs: headers and datagram. `headers` holds addresses of the other arrays: keep the object for
    as long as it is used.

    Args:
        batch: where datagrams that arrive go; None for those that are sent.
    """

    def __init__(self, batch: Datagrams | None, *, raw: bool = False) -> None:
        self.raw = raw
        self.headers: Words = np.zeros((BATCH, 8), np.int64)
        self._vectors: Words = np.zeros((BATCH, 4), np.int64)
        self._names = np.zeros((BATCH, NAME_BYTES), np.uint8)
        self._controls = np.zeros((BATCH, CONTROL_BYTES), np.uint8)
        self._stacks = np.zeros((BATCH, STACK_ROOM), np.uint8)
        for index in range(BATCH):
            self.headers[index, 0] = self._names[index].ctypes.data
            self.headers[index, 2] = self._vectors[index].ctypes.data
            self.headers[index, 3] = 2 if raw else 1
            if raw:
                self._vectors[index, :2] = (self._stacks[index].ctypes.data, STACK_BYTES)
            if batch is not None:
                self.headers[index, 4] = self._controls[index].ctypes.data
                self._vectors[index, :2] = (batch.data[index].ctypes.data, batch.stride)


def force_buffer(opened: socket.socket, option: int, size_bytes: int) -> None:
    """Set a socket's SO_RCVBUF or SO_SNDBUF, beyond the machine's limit if the process may."""
    forced = _SO_RCVBUFFORCE if option == socket.SO_RCVBUF else _SO_SNDBUFFORCE
    try:
        opened.setsockopt(socket.SOL_SOCKET, forced, size_bytes)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, option, size_bytes)
