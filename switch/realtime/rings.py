"""Transmit rings: the set-up of AF_XDP sockets by which frames leave virtual Ethernet ports.

All of a process's rings send from one stretch of memory (UMEM): the first buffers of the pool. Each
needs a buffer of its own for the beginnings of frames. The layout of what the kernel shares is in
``linux/if_xdp.h``; entries that make up a frame together (XDP_USE_SG) came with Linux 6.6. Where
the kernel is older, or refuses, frames leave by packet sockets.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct

import numpy as np

from weft.switch.engine.memory import Memory, rows
from weft.switch.realtime.layout import ENTRY_BYTES, RING_ENTRIES, TransmitRing

RING_BUFFERS = 1024
"""The most buffers of the pool that rings send from. The kernel keeps them in memory, and some 150
bytes for each page of them at each ring."""
BUFFERS_A_RING = 16
"""There are no rings if the pool has fewer buffers for each."""
MOST_FRAME_BYTES = 16_384
"""The longest frame that goes by a ring. A frame has at most 17 pieces in the kernel."""
ETHERNET_BYTES = 14

AF_XDP, SOL_XDP = 44, 283
XDP_MMAP_OFFSETS, XDP_TX_RING, XDP_UMEM_REG = 1, 3, 4
XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING = 5, 6
XDP_SHARED_UMEM, XDP_COPY, XDP_USE_SG = 1 << 0, 1 << 1, 1 << 4
XDP_UMEM_UNALIGNED_CHUNK_FLAG = 1
XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING = 0x8000_0000, 0x1_8000_0000
TX_OFFSETS, COMPLETION_OFFSETS = slice(4, 7), slice(12, 15)
"""Where in a struct xdp_mmap_offsets the producer, the consumer and the entries of a ring are."""
OFFSETS_BYTES = 128
ENTRY_SIZE, PLACE_SIZE = 16, 8
"""The bytes of a struct xdp_desc, and of an entry of a completion ring."""

SIOCGIFMTU, SIOCETHTOOL, ETHTOOL_GDRVINFO = 0x8921, 0x8946, 3
DRIVER_BYTES = 196
"""Of a struct ethtool_drvinfo."""
VIRTUAL = b"veth"

_bind = ctypes.CDLL(None, use_errno=True).bind


class TransmitRings:
    """Hold the rings of a process, one for each of some interfaces, where that can be."""

    def __init__(self, memory: Memory, interfaces: list[str]) -> None:
        """Open what rings there can be: that there are none is no error.

        Each takes one of the first buffers of the pool for good, all of which must be free.
        """
        self.rows = rows(TransmitRing, len(interfaces))
        """One for each interface; that of an interface without a ring has no descriptor."""
        self.buffers = 0
        """So many of the first buffers of the pool are in the memory of the rings."""
        self._sockets: list[socket.socket] = []
        self._mapped: list[mmap.mmap] = []
        if len(interfaces) * BUFFERS_A_RING > len(memory.buffers):
            return
        with contextlib.suppress(OSError):  # what one is refused, the next ones will be
            for number, interface in enumerate(interfaces):
                if _driver(interface) == VIRTUAL:
                    self._open(memory, interface, self.rows[number])
        self.buffers = min(RING_BUFFERS, len(memory.buffers)) if self._sockets else 0

    def _open(self, memory: Memory, interface: str, row: TransmitRing) -> None:
        """Open the ring of an interface if nobody else has one there. Raises ``OSError``."""
        start, size = _stretch(memory)
        index = socket.if_nametoindex(interface)
        ring = socket.socket(AF_XDP, socket.SOCK_RAW, 0)
        mapped = []
        try:
            if self._sockets:
                address = AF_XDP, XDP_SHARED_UMEM, index, 0, self._sockets[0].fileno()
            else:
                chunks = struct.pack(
                    "QQIIII", start, size, ENTRY_BYTES, 0, XDP_UMEM_UNALIGNED_CHUNK_FLAG, 0
                )
                ring.setsockopt(SOL_XDP, XDP_UMEM_REG, chunks)
                address = AF_XDP, XDP_COPY | XDP_USE_SG, index, 0, 0
            ring.setsockopt(SOL_XDP, XDP_UMEM_FILL_RING, 1)
            ring.setsockopt(SOL_XDP, XDP_UMEM_COMPLETION_RING, RING_ENTRIES)
            ring.setsockopt(SOL_XDP, XDP_TX_RING, RING_ENTRIES)
            packed = ring.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, OFFSETS_BYTES)
            offsets = struct.unpack(f"{OFFSETS_BYTES // 8}Q", packed)
            for place, ring_offsets, entry_bytes in (
                (XDP_PGOFF_TX_RING, offsets[TX_OFFSETS], ENTRY_SIZE),
                (XDP_UMEM_PGOFF_COMPLETION_RING, offsets[COMPLETION_OFFSETS], PLACE_SIZE),
            ):
                length = ring_offsets[2] + RING_ENTRIES * entry_bytes
                mapped.append(mmap.mmap(ring.fileno(), length, offset=place))
            name = struct.pack("HHIII", *address)
            if _bind(ring.fileno(), name, len(name)) < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        except OSError as error:
            for memory_map in mapped:
                memory_map.close()
            ring.close()
            if error.errno == errno.EBUSY:
                return
            raise
        self._sockets.append(ring)
        self._mapped += mapped
        posted, completed = (np.frombuffer(shared, np.uint8).ctypes.data for shared in mapped)
        row.descriptor = ring.fileno()
        row.memory, row.memory_end = start, start + size
        row.posted = posted + offsets[TX_OFFSETS][0]
        row.entries = posted + offsets[TX_OFFSETS][2]
        row.completed = completed + offsets[COMPLETION_OFFSETS][0]
        row.taken = completed + offsets[COMPLETION_OFFSETS][1]
        row.most_bytes = min(_mtu(interface) + ETHERNET_BYTES, MOST_FRAME_BYTES)
        memory.context.free_buffer_count -= 1
        buffer = memory.free_buffers[memory.context.free_buffer_count]
        row.room, row.room_bytes = memory.buffers[buffer].ctypes.data, memory.buffers.shape[1]

    def address(self, number: int) -> int:
        """Return the address of the record of an interface's ring, or 0 if it has none."""
        if number >= len(self.rows) or self.rows[number].descriptor == 0:
            return 0
        return int(self.rows.ctypes.data + number * self.rows.itemsize)

    def close(self) -> list[socket.socket]:
        """Give the memory of the rings back, and return their sockets, which are to be closed."""
        for shared in self._mapped:
            shared.close()
        return self._sockets


def _stretch(memory: Memory) -> tuple[int, int]:
    """Return the address and the size of the pages in which the first buffers of a pool are."""
    first = memory.buffers[:RING_BUFFERS]
    start = first.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    end = first.ctypes.data + first.nbytes
    return start, -(-(end - start) // mmap.PAGESIZE) * mmap.PAGESIZE


def _driver(interface: str) -> bytes:
    """Return the name of an interface's driver; raises ``OSError``."""
    answer = np.zeros(DRIVER_BYTES, np.uint8)
    answer[:4].view(np.uint32)[0] = ETHTOOL_GDRVINFO
    _ask(SIOCETHTOOL, struct.pack("16sQ16x", interface.encode(), answer.ctypes.data))
    return answer[4:36].tobytes().rstrip(b"\0")


def _mtu(interface: str) -> int:
    """Return the longest packet, in bytes, that may leave by an interface; raises ``OSError``."""
    answer = _ask(SIOCGIFMTU, struct.pack("16s24x", interface.encode()))
    mtu: int = struct.unpack_from("i", answer, 16)[0]
    return mtu


def _ask(request: int, interface: bytes) -> bytes:
    """Return what the kernel says about an interface, a struct ifreq; raises ``OSError``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        return fcntl.ioctl(asking, request, interface)
