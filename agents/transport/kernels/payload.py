"""What packets carry of memory: its bytes or, where these do not travel, where they are.

Without bytes, every packet of an RDMA WRITE, of a READ's response and of a chunk has a `Carried`
behind its headers, and the ICRC behind that; all lengths are those that the bytes would have.
Messages between agents (SENDs) are carried as they are.
"""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport import payload_layout as at_payload
from weft.agents.wire.compiled import internal
from weft.base.jit import memcmp, memcpy, words_at


@internal
def is_bare(endpoint: at.EndpointState) -> bool:
    """Return whether data travel without their bytes."""
    return endpoint.landings != 0 and at_payload.Landings(endpoint.landings).whole == 0


@internal
def put_payload(endpoint: at.EndpointState, place: int, memory: int, size: int) -> None:
    """Have a packet carry bytes at an address; `place` is where its payload is."""
    if not is_bare(endpoint):
        memcpy(place, memory, size)
        return
    landings = at_payload.Landings(endpoint.landings)
    landings.step += 1
    carried = at_payload.Carried(place)
    carried.source = memory
    carried.sent = landings.step


@internal
def take_payload(
    endpoint: at.EndpointState,
    memory: int,
    place: int,
    size: int,
    lane: int,
    goes_on: bool,
    fetched: int,
) -> None:
    """Put a packet's payload into memory, or take note that it has come.

    Args:
        lane: the row of the queue pair.
        goes_on: whether it is of the same message as what came before on that queue pair.
        fetched: whether it is of a READ.
    """
    if endpoint.landings == 0:
        memcpy(memory, place, size)
        return
    landings = at_payload.Landings(endpoint.landings)
    landings.step += 1
    source, sent = memory, landings.step
    if landings.whole:
        if landings.unlike or not is_as_expected(landings, memory, place, size):
            memcpy(memory, place, size)
    else:
        carried = at_payload.Carried(place)
        source, sent = carried.source, carried.sent
    last = endpoint.last_landings.ctypes.data + 8 * (lane & (at_payload.KEPT_LANDINGS - 1))
    number = words_at(last, 1)[0]
    if goes_on and number:
        row = at_payload.Landing(landings.rows, number - 1)
        same = row.fetched == fetched and row.source + row.length == source
        if same and row.target + row.length == memory and not row.weight:
            row.length += size
            row.left = sent
            row.landed = landings.step
            return
    words_at(last, 1)[0] = add_landing(landings, memory, source, size, sent, fetched, 0)


@internal
def is_as_expected(landings: at_payload.Landings, memory: int, place: int, size: int) -> bool:
    """Return whether a payload is what its place in memory has already, as it is to; take note of
    one that is not."""
    for number in range(landings.expectations):
        buffers = at_payload.Expected(landings.expected, number)
        if buffers.start <= memory < buffers.end:
            offset = (memory - buffers.start) % buffers.stride
            if offset + size <= buffers.length:
                if memcmp(buffers.result + offset, place, size) == 0:
                    return True
                landings.unlike = 1
    return False


@internal
def take_weights(
    endpoint: at.EndpointState, memory: int, source: int, size: int, weight: int, lane: int
) -> None:
    """Take note that switches have made a sum.

    Args:
        memory, source, weight: as `Landing` has them.
        lane: as `take_payload` has it.
    """
    landings = at_payload.Landings(endpoint.landings)
    landings.step += 1
    last = endpoint.last_landings.ctypes.data + 8 * (lane & (at_payload.KEPT_LANDINGS - 1))
    number = words_at(last, 1)[0]
    if number:
        row = at_payload.Landing(landings.rows, number - 1)
        same = row.weight == weight and row.source + row.length == source
        if same and row.target + row.length == memory:
            row.length += size
            row.left = row.landed = landings.step
            return
    words_at(last, 1)[0] = add_landing(landings, memory, source, size, landings.step, 0, weight)


@internal
def add_landing(
    landings: at_payload.Landings, target: int, source: int, size: int, sent: int, fetched: int,
    weight: int,
) -> int:  # fmt: skip
    """Add a row for what comes at this step; return how many there are."""
    row = at_payload.Landing(landings.rows, landings.count)
    row.target = target
    row.source = source
    row.length = size
    row.sent = row.left = sent
    row.landed = landings.step
    row.fetched = fetched
    row.weight = weight
    landings.count += 1
    return int(np.int64(landings.count))
