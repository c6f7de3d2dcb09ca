"""What ports count as packets pass: how full queues were, and what links carried over time.

Both are arrays that the loop only adds to, so that a packet costs two additions. `depth_bytes` and
`quantile` read the one, `load_bins` the other.
"""

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.dataplane.layout import DEPTH_BUCKETS, LOAD_BINS, Context
from weft.switch.engine.native.compiled import int64_view, jit

DEPTH_UNIT_BYTES = 64


@jit
def count_depth(context: Context, port_index: int, waiting_bytes: int) -> None:
    """Count a packet that has entered a port's queue, in which so many bytes waited before it.

    Depths are counted in units of 64 bytes, rounded up: one bucket each to 15 units, then 8 a power
    of two.
    """
    units = (waiting_bytes + 63) >> 6
    exponent = 0
    while units >= 16:
        units >>= 1
        exponent += 1
    bucket = min(8 * exponent + units, DEPTH_BUCKETS - 1)
    int64_view(context.depths + port_index * DEPTH_BUCKETS * 8, DEPTH_BUCKETS)[bucket] += 1


@jit
def count_load(context: Context, row: int, start_ns: int, end_ns: int, size_bytes: int) -> None:
    """Count a frame that a link carries from one time to another: its bytes go to the bins of
    that time.

    ``row``: the index of the port that sends it; or, of what came in at a port, that port's index
    behind those of all. Frames that began before there was anything to count are left out.
    """
    begin_ns = context.load_start_ns
    if start_ns < begin_ns:
        return
    while max(start_ns, end_ns - 1) - begin_ns >= LOAD_BINS * context.load_bin_ns:
        widen_bins(context)
    bins = int64_view(context.loads + row * LOAD_BINS * 8, LOAD_BINS)
    bin_ns = context.load_bin_ns
    place = (start_ns - begin_ns) // bin_ns
    edge_ns = begin_ns + (place + 1) * bin_ns
    counted = 0
    while edge_ns < end_ns:
        carried = size_bytes * (edge_ns - start_ns) // (end_ns - start_ns)
        bins[place] += carried - counted
        counted = carried
        place += 1
        edge_ns += bin_ns
    bins[place] += size_bytes - counted


@jit
def widen_bins(context: Context) -> None:
    """Make every bin of time twice as long: two and two become one, the later half is free."""
    half = LOAD_BINS // 2
    for row in range(context.load_rows):
        bins = int64_view(context.loads + row * LOAD_BINS * 8, LOAD_BINS)
        for i in range(LOAD_BINS):
            bytes_of_both = bins[2 * i] + bins[2 * i + 1] if i < half else 0
            if bins[i] != bytes_of_both:  # memory that was never written to is left alone
                bins[i] = bytes_of_both
    context.load_bin_ns *= 2


def depth_bytes(bucket: int) -> int:
    """Return the greatest depth, in bytes, that `count_depth` counts in a bucket (the last
    has no end)."""
    exponent = max(0, bucket // 8 - 1)
    units = bucket - 8 * exponent
    return ((units + 1 << exponent) - 1) * DEPTH_UNIT_BYTES


def depths_of(counts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the buckets of a port that hold something: (greatest depth in bytes, packets),
    ascending.

    Packets may be counted at the same time, in another thread.
    """
    return [(depth_bytes(place), count) for place, count in enumerate(counts.tolist()) if count]
