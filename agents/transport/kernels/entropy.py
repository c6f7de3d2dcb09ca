"""Which UDP source port data leaves from: its entropy, by which switches choose its path.

REPS (arXiv 2407.21625): every packet has a port of its own; what comes back without a congestion
mark is used once more. PLB (SIGCOMM 2022): a new port when the path is congested. Or else the queue
pair's own, or at a timeout the next of those that it was given.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.memory import add_event
from weft.agents.wire.compiled import internal
from weft.base.jit import words_at

Words = npt.NDArray[np.int64]

CACHE_ROOM = 8
"""How many entropies REPS keeps."""
_FIRST_PORT = 0xC000
_PORT_MASK = 0x3FFF
"""The dynamic ports, as RoCEv2 has them."""


@internal
def draw(endpoint: Words, limit: int) -> int:
    """A random number below `limit`: the upper bits of Knuth's linear congruential generator."""
    state = endpoint[at.RANDOM] * 6364136223846793005 + 1442695040888963407
    endpoint[at.RANDOM] = state
    result: int = ((state >> 33) & 0x7FFFFFFF) % limit
    return result


@internal
def first_entropy(endpoint: Words, pair: Words) -> int:
    """Where the range of a pair of hosts begins among the dynamic ports."""
    mixed = endpoint[at.ADDRESS] * 0x9E3779B1 + pair[at.PEER_ADDRESS] * 0x85EBCA77
    result: int = (mixed >> 15) & _PORT_MASK
    return result


@internal
def draw_port(endpoint: Words, pair: Words) -> int:
    """A random port of the pair of hosts."""
    endpoint[at.ENTROPIES_DRAWN] += 1
    entropy = first_entropy(endpoint, pair) + draw(endpoint, endpoint[at.ENTROPIES])
    result: int = _FIRST_PORT | (entropy & _PORT_MASK)
    return result


@internal
def cached_port(pair: Words, place: int) -> int:
    """The port at a place of REPS's ring."""
    result: int = (pair[at.CACHE + (place >> 2)] >> (16 * (place & 3))) & 0xFFFF
    return result


@internal
def keep_entropy(endpoint: Words, pair: Words, port: int) -> None:
    """Data from this port came through without a mark: use the port once more."""
    distance = (port - first_entropy(endpoint, pair)) & _PORT_MASK
    if port < _FIRST_PORT or distance >= endpoint[at.ENTROPIES]:
        return
    head = pair[at.CACHE_HEAD]
    word = at.CACHE + (head >> 2)
    shift = 16 * (head & 3)
    pair[word] = (pair[word] & ~(0xFFFF << shift)) | (port << shift)
    pair[at.CACHE_HEAD] = (head + 1) % CACHE_ROOM
    pair[at.CACHE_FRESH] = min(CACHE_ROOM, pair[at.CACHE_FRESH] + 1)
    pair[at.CACHE_SIZE] = min(CACHE_ROOM, pair[at.CACHE_SIZE] + 1)


@internal
def next_port(endpoint: Words, pair: Words, now: int) -> int:
    """The port that the next packet leaves from (REPS).

    Random ones for the first window; then the oldest fresh one, once; a random one if there is
    none. While frozen, what is known goes round instead of random ones.
    """
    if pair[at.FROZEN_UNTIL] and now >= pair[at.FROZEN_UNTIL]:
        pair[at.FROZEN_UNTIL] = 0
        pair[at.EXPLORE] = endpoint[at.EXPLORE_PACKETS]
    frozen = pair[at.FROZEN_UNTIL] != 0
    if not frozen and pair[at.EXPLORE] > 0:
        pair[at.EXPLORE] -= 1
        return draw_port(endpoint, pair)
    if pair[at.CACHE_FRESH] > 0:
        place = (pair[at.CACHE_HEAD] - pair[at.CACHE_FRESH]) % CACHE_ROOM
        pair[at.CACHE_FRESH] -= 1
        return cached_port(pair, place)
    if frozen and pair[at.CACHE_SIZE]:
        place = pair[at.CACHE_TURN] % pair[at.CACHE_SIZE]
        pair[at.CACHE_TURN] = place + 1
        return cached_port(pair, place)
    return draw_port(endpoint, pair)


@internal
def change_path(endpoint: Words, pair: Words) -> None:
    """Go on from another port at random (PLB)."""
    before = pair[at.SOURCE_PORT]
    pair[at.CONGESTED_ROUNDS] = 0
    if endpoint[at.ENTROPIES] == 1:
        return
    while pair[at.SOURCE_PORT] == before:
        pair[at.SOURCE_PORT] = draw_port(endpoint, pair)
    endpoint[at.PATH_CHANGES] += 1


@internal
def move_acknowledgements(endpoint: Words, pair: Words) -> None:
    """A packet has come again: what acknowledged it may be lost, so the next leaves from another of
    the queue pair's ports, or from one at random (after Wetherall et al., "Improving Network
    Availability with Protective ReRoute", SIGCOMM 2023, section 2)."""
    if not pair[at.ACKNOWLEDGE_MOVES]:
        return
    endpoint[at.PATH_CHANGES] += 1
    count = pair[at.PORT_COUNT]
    if count < 2:
        pair[at.ACKNOWLEDGE_PORT] = draw_port(endpoint, pair)
        return
    if pair[at.ACKNOWLEDGE_PORT] == 0:
        pair[at.ACKNOWLEDGE_AT] = pair[at.PORT_AT]
    pair[at.ACKNOWLEDGE_AT] = (pair[at.ACKNOWLEDGE_AT] + 1) % count
    pair[at.ACKNOWLEDGE_PORT] = words_at(pair[at.PORTS], count)[pair[at.ACKNOWLEDGE_AT]]


@internal
def leave_path(endpoint: Words, pair: Words, index: int, now: int) -> None:
    """Nothing was acknowledged for too long: the path may be dead."""
    if endpoint[at.ENTROPY] == at.REPS:
        if pair[at.FROZEN_UNTIL] == 0 and pair[at.EXPLORE] == 0:
            pair[at.FROZEN_UNTIL] = now + endpoint[at.FREEZE]
    elif endpoint[at.ENTROPY] == at.PLB:
        change_path(endpoint, pair)
    elif pair[at.PORT_COUNT] > 1:
        pair[at.PORT_AT] = (pair[at.PORT_AT] + 1) % pair[at.PORT_COUNT]
        ports = words_at(pair[at.PORTS], pair[at.PORT_COUNT])
        pair[at.SOURCE_PORT] = ports[pair[at.PORT_AT]]
        endpoint[at.PATH_CHANGES] += 1
        add_event(endpoint, at.EVENT_REPATHED, index, pair[at.SOURCE_PORT], 0, 0, 0, 0)
