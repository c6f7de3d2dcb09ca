"""The memory of a host that its peers may read and write."""

import itertools
import random

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.types import MemoryRegion, TransportMisuse
from weft.base.errors import refuse
from weft.base.pages import zeroed

_MAXIMUM_REGIONS = at.KEY_INDEX_MASK


class MemoryRegions:
    """The memory regions of an endpoint; their keys come from `draw`."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._registered: dict[int, MemoryRegion] = {}
        self.table: npt.NDArray[np.void] = zeroed(4, at.Region.dtype)
        """A row for each, for compiled code; another array where more are registered."""
        self.rows = 0
        """How many rows have been used."""

    def __len__(self) -> int:
        return len(self._registered)

    def register(self, buffer: npt.NDArray[np.uint8]) -> MemoryRegion:
        """Do as `Endpoint.register` does."""
        if not (buffer.dtype == np.uint8 and buffer.ndim == 1 and buffer.flags.c_contiguous):
            raise TransportMisuse(
                f"a memory region needs a flat, C-contiguous uint8 buffer, not {buffer.dtype}"
                f" of {buffer.ndim} dimensions"
            )
        if not buffer.flags.writeable:
            raise TransportMisuse("a memory region needs a buffer that may be written")
        index = next(number for number in itertools.count() if number not in self._registered)
        refuse(
            index >= _MAXIMUM_REGIONS,
            f"more than {_MAXIMUM_REGIONS} memory regions",
            TransportMisuse,
        )
        if index >= len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        rkey = self._draw.randrange(1, 1 << 16) << 16 | index
        region = MemoryRegion((index + 1) << 40, rkey, buffer)
        self._registered[index] = region
        self.table[index] = (region.address, len(buffer), buffer.ctypes.data, rkey)
        self.rows = max(self.rows, index + 1)
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Do as `Endpoint.deregister` does."""
        index = self._index_of(region)
        del self._registered[index]
        self.table[index] = 0

    def _index_of(self, region: MemoryRegion) -> int:
        """Return the row of a region; TransportMisuse if it is not registered here."""
        index = region.rkey & at.KEY_INDEX_MASK
        refuse(
            self._registered.get(index) is not region,
            f"the memory region with key {region.rkey:#x} is not registered",
            TransportMisuse,
        )
        return index

    def memory_of(self, region: MemoryRegion, offset: int, length: int) -> int:
        """Return the address in memory of part of a region, for queue pairs. Raises TransportMisuse
        if the region has no such part, or is not registered."""
        index = self._index_of(region)
        if offset < 0 or length < 0 or offset + length > region.length:
            raise TransportMisuse(
                f"{length} bytes at offset {offset} of a memory region of {region.length} bytes"
            )
        return int(self.table["memory"][index]) + offset

    def named(self, rkey: int, address: int, length: int) -> npt.NDArray[np.uint8] | None:
        """Return the registered memory that a peer on the same host names, or None."""
        region = self._registered.get(rkey & at.KEY_INDEX_MASK)
        if region is None or region.rkey != rkey:
            return None
        offset = address - region.address
        inside = 0 <= offset <= region.length - length
        return region.buffer[offset : offset + length] if inside else None
