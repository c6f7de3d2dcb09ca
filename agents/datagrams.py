"""Batches of RoCEv2 datagrams: what a host's machines exchange with the world that carries them.

A batch is a structure of arrays with room for `capacity` datagrams, of which the first `count`
are valid. It can be used again and again, so nothing is allocated per packet: whoever hands out a
batch says how long it stays valid.
"""

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

UDP_PORT = 4791
"""The UDP destination port of every RoCEv2 datagram."""

FRAME_OVERHEAD_BYTES = 14 + 20 + 8
"""Ethernet (without FCS), IPv4 and UDP headers in front of a datagram: a link's rate counts them
too."""


@lru_cache(maxsize=1 << 16)
def ipv4(text: str) -> int:
    """Return the address `a.b.c.d` as an integer in host order."""
    return int(ipaddress.IPv4Address(text))


def ipv4_text(address: int) -> str:
    """Return an integer IPv4 address as `a.b.c.d`."""
    return str(ipaddress.IPv4Address(int(address)))


_DTYPES = (np.uint8, np.int32, np.uint32, np.uint32, np.uint16, np.uint8)


@dataclass(slots=True)
class Datagrams:
    """A batch holds datagrams in arrays; rows `count` and up are not valid.

    `data` is uint8[capacity, stride]: RoCEv2 bytes from BTH to ICRC, `length` int32[capacity] of
    them; `source` and `destination` uint32[capacity] are IPv4 addresses; `source_port`
    uint16[capacity] and `tos` uint8[capacity] belong to the UDP and IPv4 headers that only a
    world makes. All arrays are C-contiguous.
    """

    data: npt.NDArray[np.uint8]
    length: npt.NDArray[np.int32]
    source: npt.NDArray[np.uint32]
    destination: npt.NDArray[np.uint32]
    source_port: npt.NDArray[np.uint16]
    tos: npt.NDArray[np.uint8]
    count: int
    addresses: npt.NDArray[np.int64] = field(init=False, repr=False, compare=False)
    """The arrays' memory, for compiled code: data, length, source, destination, source_port, tos,
    then stride and capacity. The arrays of a batch are never exchanged for others."""
    address: int = field(init=False, repr=False, compare=False)
    """Where `addresses` are in memory."""

    def __post_init__(self) -> None:
        arrays: list[npt.NDArray[Any]] = [
            self.data,
            self.length,
            self.source,
            self.destination,
            self.source_port,
            self.tos,
        ]
        for array, dtype in zip(arrays, _DTYPES, strict=True):
            if array.dtype != dtype or not array.flags.c_contiguous:
                raise ValueError(f"a batch needs a C-contiguous {dtype} array, not {array.dtype}")
            if len(array) != len(self.data):
                raise ValueError(f"arrays of {len(array)} and {len(self.data)} rows in one batch")
        memory = [array.ctypes.data for array in arrays]
        self.addresses = np.array([*memory, self.data.shape[1], len(self.data)], np.int64)
        self.address = self.addresses.ctypes.data

    def __len__(self) -> int:
        return self.count

    @property
    def capacity(self) -> int:
        """Return how many datagrams fit."""
        return len(self.length)

    @property
    def stride(self) -> int:
        """Return how many bytes a datagram may have at most."""
        return int(self.data.shape[1])

    @staticmethod
    def allocate(capacity: int, stride: int) -> "Datagrams":
        """Return an empty batch with room for `capacity` datagrams of at most `stride` bytes."""
        return Datagrams(
            data=np.zeros((capacity, stride), np.uint8),
            length=np.zeros(capacity, np.int32),
            source=np.zeros(capacity, np.uint32),
            destination=np.zeros(capacity, np.uint32),
            source_port=np.zeros(capacity, np.uint16),
            tos=np.zeros(capacity, np.uint8),
            count=0,
        )
