"""What the packet loop asks the kernel for: the time, and why a call has failed."""

import platform

from weft.base.system_calls import CLOCK_MONOTONIC, Timespec, clock_gettime, errno_location
from weft.switch.engine.native.compiled import int64_view, jit

EVENT_BYTES, EVENT_DATA = (12, 4) if platform.machine() == "x86_64" else (16, 8)
"""The size of a struct epoll_event, and where in it the data are (epoll_event(3type))."""


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
