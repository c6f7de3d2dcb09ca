"""Which UDP source port data leaves from: its entropy, by which switches choose its path; and what
acknowledgements tell of congestion.

REPS (arXiv 2407.21625): every packet has a port of its own; what comes back without a congestion
mark is used once more. PLB (SIGCOMM 2022): a new port when the path is congested. Or else the queue
pair's own, or at a timeout the next of those that it was given.
"""

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.memory import add_event
from weft.agents.transport.kernels.window import after_round, set_window
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import HAS_PAYLOAD
from weft.base.jit import words_at

CACHE_ROOM = 8
"""How many entropies REPS keeps."""
_FIRST_PORT = 0xC000
_PORT_MASK = 0x3FFF
"""The dynamic ports, as RoCEv2 has them."""
CONGESTED_ROUNDS = 3
"""PLB: so many congested rounds in a row are reason to take another path."""


@internal
def draw(endpoint: at.EndpointState, limit: int) -> int:
    """Return a random number below `limit`: the upper bits of Knuth's linear congruential
    generator."""
    state = endpoint.random * 6364136223846793005 + 1442695040888963407
    endpoint.random = state
    return ((state >> 33) & 0x7FFFFFFF) % limit


@internal
def first_entropy(endpoint: at.EndpointState, pair: at.PairState) -> int:
    """Return where the range of a pair of hosts begins among the dynamic ports."""
    mixed = endpoint.address * 0x9E3779B1 + pair.peer_address * 0x85EBCA77
    return (mixed >> 15) & _PORT_MASK


@internal
def draw_port(endpoint: at.EndpointState, pair: at.PairState) -> int:
    """Return a random port of the pair of hosts."""
    endpoint.statistics.entropies_drawn += 1
    entropy = first_entropy(endpoint, pair) + draw(endpoint, endpoint.entropies)
    return _FIRST_PORT | (entropy & _PORT_MASK)


@internal
def cached_port(pair: at.PairState, place: int) -> int:
    """Return the port at a place of REPS's ring."""
    return int((pair.cache[place >> 2] >> (16 * (place & 3))) & 0xFFFF)


@internal
def keep_entropy(endpoint: at.EndpointState, pair: at.PairState, port: int) -> None:
    """Keep a port whose data came through without a mark, to use it once more."""
    distance = (port - first_entropy(endpoint, pair)) & _PORT_MASK
    if port < _FIRST_PORT or distance >= endpoint.entropies:
        return
    head = pair.cache_head
    cache = pair.cache
    shift = 16 * (head & 3)
    cache[head >> 2] = (cache[head >> 2] & ~(0xFFFF << shift)) | (port << shift)
    pair.cache_head = (head + 1) % CACHE_ROOM
    pair.cache_fresh = min(CACHE_ROOM, pair.cache_fresh + 1)
    pair.cache_size = min(CACHE_ROOM, pair.cache_size + 1)


@internal
def next_port(endpoint: at.EndpointState, pair: at.PairState, now: int) -> int:
    """Return the port that the next packet leaves from (REPS).

    Random ones for the first window; then the oldest fresh one, once; a random one if there is
    none. While frozen, what is known goes round instead of random ones.
    """
    if pair.frozen_until and now >= pair.frozen_until:
        pair.frozen_until = 0
        pair.explore = endpoint.explore_packets
    frozen = pair.frozen_until != 0
    if not frozen and pair.explore > 0:
        pair.explore -= 1
        return draw_port(endpoint, pair)
    if pair.cache_fresh > 0:
        place = (pair.cache_head - pair.cache_fresh) % CACHE_ROOM
        pair.cache_fresh -= 1
        return cached_port(pair, place)
    if frozen and pair.cache_size:
        place = pair.cache_turn % pair.cache_size
        pair.cache_turn = place + 1
        return cached_port(pair, place)
    return draw_port(endpoint, pair)


@internal
def change_path(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Go on from another port at random (PLB)."""
    before = pair.source_port
    pair.congested_rounds = 0
    if endpoint.entropies == 1:
        return
    while pair.source_port == before:
        pair.source_port = draw_port(endpoint, pair)
    endpoint.statistics.path_changes += 1


@internal
def move_acknowledgements(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Move the acknowledgements of a packet that has come again: what acknowledged it may be lost,
    so the next leaves from another of the queue pair's ports, or from one at random (after
    Wetherall et al., "Improving Network Availability with Protective ReRoute", SIGCOMM 2023,
    section 2)."""
    if not pair.acknowledge_moves:
        return
    endpoint.statistics.path_changes += 1
    count = pair.port_count
    if count < 2:
        pair.acknowledge_port = draw_port(endpoint, pair)
        return
    if pair.acknowledge_port == 0:
        pair.acknowledge_at = pair.port_at
    pair.acknowledge_at = (pair.acknowledge_at + 1) % count
    pair.acknowledge_port = words_at(pair.ports, count)[pair.acknowledge_at]


@internal
def leave_path(endpoint: at.EndpointState, pair: at.PairState, index: int, now: int) -> None:
    """Leave the path, which may be dead: nothing was acknowledged for too long."""
    if endpoint.entropy == at.REPS:
        if pair.frozen_until == 0 and pair.explore == 0:
            pair.frozen_until = now + endpoint.freeze
    elif endpoint.entropy == at.PLB:
        change_path(endpoint, pair)
    elif pair.port_count > 1:
        pair.port_at = (pair.port_at + 1) % pair.port_count
        pair.source_port = words_at(pair.ports, pair.port_count)[pair.port_at]
        endpoint.statistics.path_changes += 1
        add_event(endpoint, at.EVENT_REPATHED, index).value = pair.source_port


@internal
def end_round(endpoint: at.EndpointState, pair: at.PairState, now: int) -> None:
    """Judge a round by its marks (PLB: SIGCOMM 2022, section 3)."""
    set_window(endpoint, pair, after_round(endpoint, pair))
    if endpoint.entropy == at.PLB:
        pair.congested_rounds = pair.congested_rounds + 1 if 4 * pair.marked > pair.acked else 0
        if pair.congested_rounds >= CONGESTED_ROUNDS:
            change_path(endpoint, pair)
    pair.marked = pair.acked = 0
    pair.round_end = pair.send_highest


@internal
def take_feedback(
    endpoint: at.EndpointState, pair: at.PairState, fields: wire.Fields, before: int, now: int
) -> None:
    """Take what an acknowledgement or a READ response says of congestion; `before` it, that was
    unacknowledged."""
    response = fields.property_bits & HAS_PAYLOAD
    mark = fields.marked if response else fields.congested
    one = endpoint.echo == at.ECHO_EVERY or response
    packets = 1 if one else pair.unacknowledged - before
    if endpoint.entropy == at.REPS and not response and not mark:
        keep_entropy(endpoint, pair, fields.source_port)
    pair.acked += packets
    if mark:
        pair.marked += packets
    if pair.acked and pair.unacknowledged >= pair.round_end:
        end_round(endpoint, pair, now)
