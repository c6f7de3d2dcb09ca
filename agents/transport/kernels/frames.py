"""What all packets that are sent have in common: their row, their seal, what they cost the link."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES
from weft.agents.transport import layout as at
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import (
    ICRC_BYTES,
)
from weft.agents.wire.packets import put_icrc
from weft.base.jit import store8, store16, store32

Words = npt.NDArray[np.int64]

_BILLION = 1_000_000_000


@internal
def pacing_ns(frame_bytes: int, rate_bps: int) -> int:
    """How long a frame occupies a link, rounded up."""
    return (frame_bytes * 8 * _BILLION + rate_bps - 1) // rate_bps


@internal
def frame_size(headers: int, payload: int) -> int:
    """The frame bytes of a packet with these bytes of headers (BTH included) and payload."""
    return headers + ((payload + 3) & -4) + ICRC_BYTES + FRAME_OVERHEAD_BYTES


@internal
def row_address(batch: Words, index: int) -> int:
    """Where row `index` of a batch's data is; `batch` is `Datagrams.addresses`."""
    result: int = batch[at.BATCH_DATA] + index * batch[at.BATCH_STRIDE]
    return result


@internal
def finish(endpoint: Words, pair: Words, batch: Words, count: int, used: int, now: int) -> int:
    """Seal the packet in row `count`, address it, charge it to the link; returns its frame
    bytes."""
    port = pair[at.SOURCE_PORT]
    return finish_from(endpoint, pair, batch, count, used, now, port, pair[at.TOS])


@internal
def service_of_data(endpoint: Words, pair: Words) -> int:
    """The TOS of a connection's data: marked as ECN-capable where marks are asked for."""
    result: int = pair[at.TOS]
    if endpoint[at.ECT]:
        result = (result & ~3) | endpoint[at.ECT]
    return result


@internal
def finish_from(
    endpoint: Words,
    pair: Words,
    batch: Words,
    count: int,
    used: int,
    now: int,
    source_port: int,
    tos: int,
) -> int:
    """As `finish`, from another source port and with another TOS."""
    row = row_address(batch, count)
    source = endpoint[at.ADDRESS]
    destination = pair[at.PEER_ADDRESS]
    size = put_icrc(row, used, source, destination, source_port)
    store32(batch[at.BATCH_LENGTH] + 4 * count, np.uint32(size))
    store32(batch[at.BATCH_SOURCE] + 4 * count, np.uint32(source))
    store32(batch[at.BATCH_DESTINATION] + 4 * count, np.uint32(destination))
    store16(batch[at.BATCH_SOURCE_PORT] + 2 * count, np.uint16(source_port))
    store8(batch[at.BATCH_TOS] + count, np.uint8(tos))
    frame = size + FRAME_OVERHEAD_BYTES
    endpoint[at.TRANSMITTED_PACKETS] += 1
    endpoint[at.TRANSMITTED_BYTES] += frame
    if endpoint[at.RATE_BPS]:
        begin = max(endpoint[at.LINK_FREE], now - endpoint[at.PACING_CREDIT])
        endpoint[at.LINK_FREE] = begin + pacing_ns(frame, endpoint[at.RATE_BPS])
    return frame
