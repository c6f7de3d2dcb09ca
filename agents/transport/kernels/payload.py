"""What packets carry of memory: its bytes or, where these do not travel, where they are.

Without bytes, every packet of an RDMA WRITE, of a READ's response and of a chunk has a `Carried`
behind its headers, and the ICRC behind that; all lengths are those that the bytes would have.
Messages between agents (SENDs) are carried as they are.
"""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport import payload_layout as at_payload
from weft.agents.wire.compiled import internal
from weft.base.jit import memcpy, words_at


@internal
def put_payload(endpoint: at.EndpointState, place: int, memory: int, size: int) -> None:
    """Have a packet carry bytes at an address; `place` is where its payload is."""
    if endpoint.landings == 0:
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
    carried = at_payload.Carried(place)
    last = endpoint.last_landings.ctypes.data + 8 * (lane & (at_payload.KEPT_LANDINGS - 1))
    number = words_at(last, 1)[0]
    if goes_on and number:
        row = at_payload.Landing(landings.rows, number - 1)
        same = row.fetched == fetched and row.source + row.length == carried.source
        if same and row.target + row.length == memory:
            row.length += size
            row.landed = landings.step
            return
    row = at_payload.Landing(landings.rows, landings.count)
    row.target = memory
    row.source = carried.source
    row.length = size
    row.sent = carried.sent
    row.landed = landings.step
    row.fetched = fetched
    landings.count += 1
    words_at(last, 1)[0] = np.int64(landings.count)
