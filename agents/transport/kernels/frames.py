"""What all packets that are sent have in common: their row, their seal, what they cost the link."""

import numpy as np

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.payload import is_bare
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import (
    ICRC_BYTES,
)
from weft.agents.wire.packets import covered_bytes, put_icrc
from weft.base.jit import store8, store16, store32

_BILLION = 1_000_000_000


@internal
def pacing_ns(frame_bytes: int, rate_bps: int) -> int:
    """Return how long a frame occupies a link, rounded up."""
    return (frame_bytes * 8 * _BILLION + rate_bps - 1) // rate_bps


@internal
def frame_size(headers: int, payload: int) -> int:
    """Return the frame bytes of a packet with these bytes of headers (BTH included) and payload."""
    return headers + ((payload + 3) & -4) + ICRC_BYTES + FRAME_OVERHEAD_BYTES


@internal
def place_in_message(first: bool, last: bool) -> int:
    """Return which of its four opcodes a packet has: that of the first, a middle, the last or the
    only one of its message."""
    if first:
        return 3 if last else 0
    return 2 if last else 1


@internal
def row_address(batch: at.Batch, index: int) -> int:
    """Return where row `index` of a batch's data is; `batch` is `Datagrams.addresses`."""
    return batch.data + index * batch.stride


@internal
def finish(
    endpoint: at.EndpointState, pair: at.PairState, batch: at.Batch, count: int, used: int, now: int
) -> int:
    """Seal the packet in row `count`, address it, charge it to the link; returns its frame
    bytes."""
    return finish_from(endpoint, pair, batch, count, used, now, pair.source_port, pair.tos)


@internal
def service_of_data(endpoint: at.EndpointState, pair: at.PairState) -> int:
    """Return the TOS of a connection's data: marked as ECN-capable where marks are asked for."""
    return (pair.tos & ~3) | endpoint.ect if endpoint.ect else pair.tos


@internal
def finish_from(
    endpoint: at.EndpointState,
    pair: at.PairState,
    batch: at.Batch,
    count: int,
    used: int,
    now: int,
    source_port: int,
    tos: int,
) -> int:
    """Do what `finish` does, but from another source port and with another TOS."""
    source, destination = endpoint.address, pair.peer_address
    row = row_address(batch, count)
    covered = covered_bytes(row, used) if is_bare(endpoint) else used
    size = put_icrc(row, covered, source, destination, source_port)
    if covered != used:
        size = ((used + 3) & -4) + ICRC_BYTES
    store32(batch.length + 4 * count, np.uint32(size))
    store32(batch.source + 4 * count, np.uint32(source))
    store32(batch.destination + 4 * count, np.uint32(destination))
    store16(batch.source_port + 2 * count, np.uint16(source_port))
    store8(batch.tos + count, np.uint8(tos))
    frame = size + FRAME_OVERHEAD_BYTES
    endpoint.statistics.transmitted_packets += 1
    endpoint.statistics.transmitted_bytes += frame
    if endpoint.rate_bps:
        begin = max(endpoint.link_free, now - endpoint.pacing_credit)
        endpoint.link_free = begin + pacing_ns(frame, endpoint.rate_bps)
    return frame
