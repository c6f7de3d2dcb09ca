"""The system calls of the packet loop, which compiled code makes without Python."""

import platform
from typing import Any

from weft.base.deferred import external
from weft.switch.engine.native.compiled import int64_view, jit
from weft.switch.realtime.layout import Timespec

POLLIN = 1
EVENT_BYTES, EVENT_DATA = (12, 4) if platform.machine() == "x86_64" else (16, 8)
"""The size of a struct epoll_event, and where in it the data are (epoll_event(3type))."""
MSG_DONTWAIT = 0x40
MSG_TRUNC = 0x20
EAGAIN = 11
ENOBUFS = 105
CLOCK_MONOTONIC = 1

clock_gettime: Any = external("clock_gettime", "int32", "int32", "int64")
ppoll: Any = external("ppoll", "int32", "int64", "uint64", "int64", "int64")
epoll_wait: Any = external("epoll_wait", "int32", "int32", "int64", "int32", "int32")
recvmmsg: Any = external("recvmmsg", "int32", "int32", "int64", "uint32", "int32", "int64")
sendmmsg: Any = external("sendmmsg", "int32", "int32", "int64", "uint32", "int32")
errno_location: Any = external("__errno_location", "int64")
write: Any = external("write", "int64", "int32", "int64", "uint64")


@jit
def clock(time: int) -> int:
    """Return the time of CLOCK_MONOTONIC in ns; ``time`` is the address of a `Timespec`."""
    clock_gettime(CLOCK_MONOTONIC, time)
    present = Timespec(time)
    return present.seconds * 1_000_000_000 + present.nanoseconds


@jit
def errno() -> int:
    """Return the C library's errno of this thread."""
    word = int64_view(errno_location() & ~7, 1)[0]
    if errno_location() & 4:
        word >>= 32
    return word & 0xFFFFFFFF  # type: ignore[no-any-return]
