"""Relays: RDMA WRITEs that are posted by compiled code, each when the block has come that lets it
go.

What is posted is in a table that the operation makes at its start. So a collective passes blocks on
without Python, as a NIC does with *triggered operations* (Portals 4) or with the cross-channel
queues of CORE-Direct. What the table does not know is left to Python, which says what is wrong with
it.
"""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport import relay_layout as at_relay
from weft.agents.transport.kernels.memory import (
    add_event,
    note_change,
    packets_of,
    pair_at,
    work_at,
)
from weft.agents.wire.compiled import entry, internal
from weft.agents.wire.headers import LAST_SEQUENCE
from weft.base.jit import words_at

OPERATIONS = 256
"""How many numbers of operations there are in an immediate."""
_BLOCK_BITS = 24


@internal
def home_of(pair: at.PairState, index: int) -> int:
    """Return the row that stands for the peer of a queue pair: its own, or that of its first
    lane."""
    return pair.first_lane if pair.lanes else index


@internal
def let_go(relay: at_relay.RelayState, row: int) -> None:
    """Put what a block lets go behind all that is to be posted."""
    if at_relay.RelayBlock(relay.blocks, row).writes == 0:
        return
    if relay.first_due == at_relay.NOTHING:
        relay.first_due = row
    else:
        at_relay.RelayBlock(relay.blocks, relay.last_due).next_due = row
    relay.last_due = row


@internal
def least_given(peer: at_relay.RelayPeer) -> int:
    """Return which of a peer's lanes has been given least, of several the first."""
    found = 0
    for number in range(1, peer.lane_count):
        if (
            at_relay.Lane(peer.lanes, number).given_bytes
            < at_relay.Lane(peer.lanes, found).given_bytes
        ):
            found = number
    return found


@internal
def post_write(endpoint: at.EndpointState, location: int, number: int) -> bool:
    """Post a row of the RDMA WRITEs of the relay at an address; return False if the queue pair
    does not take it now."""
    relay = at_relay.RelayState(location)
    write = at_relay.RelayWrite(relay.writes, number)
    peer = at_relay.RelayPeer(relay.peers, write.peer)
    lane_number = least_given(peer)
    lane = at_relay.Lane(peer.lanes, lane_number)
    index = lane.queue_pair
    pair = pair_at(endpoint, index)
    if pair.state == at.FAILED or pair.work_waits or pair.posted_end > LAST_SEQUENCE:
        return False
    if pair.next_work - pair.first_work == pair.work_room:
        return False
    if pair.next_work == pair.first_work:
        pair.send_work = pair.next_work
    work = work_at(pair, pair.next_work)
    work.kind = at.WRITE_WITH_IMMEDIATE
    work.address = write.address
    work.length = write.length
    work.remote_address_or_qkey = peer.address + write.target
    work.rkey_or_batch = peer.rkey
    work.immediate = relay.operation << _BLOCK_BITS | write.block
    work.first = pair.posted_end
    pair.posted_end += packets_of(write.length, endpoint.path_mtu)
    work.end = pair.posted_end
    work.chunk_bytes_or_relay = location
    pair.next_work += 1
    note_change(endpoint, pair, index)
    lane.given_bytes += write.length
    peer.used |= 1 << lane_number
    relay.open_writes += 1
    relay.writing_bytes += write.length
    endpoint.writing_bytes += write.length
    return True


@internal
def post_due(endpoint: at.EndpointState, location: int) -> None:
    """Post what the relay at an address has to post, as far as there is room."""
    relay = at_relay.RelayState(location)
    if relay.is_open == 0:
        return
    while relay.first_due != at_relay.NOTHING:
        block = at_relay.RelayBlock(relay.blocks, relay.first_due)
        while relay.posted < block.writes:
            if (
                endpoint.writing_bytes > relay.most_bytes
                or relay.writing_bytes > relay.most_own_bytes
                or relay.open_writes >= relay.most_open_writes
                or not post_write(endpoint, location, block.first_write + relay.posted)
            ):
                return
            relay.posted += 1
        relay.first_due = block.next_due
        relay.posted = 0


@internal
def tell_end(endpoint: at.EndpointState, location: int, index: int) -> None:
    """Tell Python, once, that all has come to the relay at an address, and that all it was to send
    is acknowledged; what was missing came by the queue pair of row `index`."""
    relay = at_relay.RelayState(location)
    waits = relay.missing or relay.open_writes or relay.first_due != at_relay.NOTHING
    if relay.is_open and not waits and relay.told == 0:
        relay.told = 1
        add_event(endpoint, at.EVENT_RELAY_DONE, index)


@internal
def take_block(
    endpoint: at.EndpointState, pair: at.PairState, index: int, immediate: int, length: int
) -> bool:
    """Take an RDMA WRITE with immediate that has arrived; False if no relay knows of it, or not
    from this peer, or not of this length, or not twice."""
    if endpoint.first_relay == 0:
        return False
    location = words_at(endpoint.relay_table, OPERATIONS)[immediate >> _BLOCK_BITS & 0xFF]
    number = immediate & (1 << _BLOCK_BITS) - 1
    home = home_of(pair, index)
    while location and not is_awaited(location, number, length, home):
        location = at_relay.RelayState(location).next_alike
    if location == 0:
        return False
    relay = at_relay.RelayState(location)
    block = at_relay.RelayBlock(relay.blocks, number)
    block.arrived = 1
    peer = at_relay.RelayPeer(relay.peers, block.peer)
    peer.missing -= 1
    if relay.tells_peers and peer.missing == 0:
        add_event(endpoint, at.EVENT_RELAY_DONE, index)
    relay.missing -= 1
    relay.received_bytes += length
    let_go(relay, number)
    post_due(endpoint, location)
    tell_end(endpoint, location, index)
    return True


@internal
def is_awaited(location: int, number: int, length: int, home: int) -> bool:
    """Return whether the relay at an address waits for a block of this number and length from the
    peer whose first queue pair has the row `home`."""
    relay = at_relay.RelayState(location)
    if number >= relay.block_count:
        return False
    block = at_relay.RelayBlock(relay.blocks, number)
    if block.peer == at_relay.NOTHING or block.arrived or block.length != length:
        return False
    return bool(at_relay.RelayPeer(relay.peers, block.peer).home == home)


@internal
def announce_write(
    endpoint: at.EndpointState, pair: at.PairState, index: int, immediate: int
) -> None:
    """Tell the relay whose block has arrived by RDMA WRITE with immediate, or else Python."""
    length = pair.write_length
    if not take_block(endpoint, pair, index, immediate, length):
        event = add_event(endpoint, at.EVENT_WRITE_WITH_IMMEDIATE, index)
        event.immediate = immediate
        event.length = length


@internal
def retire_write(endpoint: at.EndpointState, work: at.WorkRequest) -> int:
    """Take note that an RDMA WRITE of a relay is acknowledged; return the relay's address, or 0 if
    it is gone."""
    if work.chunk_bytes_or_relay == at.GONE_RELAY:
        return 0
    relay = at_relay.RelayState(work.chunk_bytes_or_relay)
    relay.open_writes -= 1
    relay.writing_bytes -= work.length
    endpoint.writing_bytes -= work.length
    return int(work.chunk_bytes_or_relay)


@internal
def go_on(endpoint: at.EndpointState, index: int, retired: int) -> None:
    """Post what there is room for now that work on the queue pair of row `index` is done. If RDMA
    WRITEs of a relay are among it, the last of these is at the address `retired`, and has its turn
    first."""
    if retired:
        post_due(endpoint, retired)
    following = endpoint.first_relay
    while following:
        post_due(endpoint, following)
        tell_end(endpoint, following, index)
        following = at_relay.RelayState(following).next_relay


@entry
def begin_relay(location: int) -> None:
    """Let go what waits for no block; it leaves once the relay is open."""
    relay = at_relay.RelayState(location)
    let_go(relay, relay.block_count)


@entry
def proceed_with_relay(state: int, location: int) -> None:
    """Post what there is room for: all peers have been permitted. The endpoint's state and the
    relay's are at addresses."""
    at_relay.RelayState(location).is_open = 1
    post_due(at.EndpointState(state), location)


@entry
def forget_relay(state: int, location: int) -> None:
    """Let what a relay has posted, and is not acknowledged, be nobody's."""
    endpoint, relay = at.EndpointState(state), at_relay.RelayState(location)
    for index in range(endpoint.queue_pairs):
        pair = pair_at(endpoint, index)
        if pair.kind == at.RC:
            for number in range(pair.first_work, pair.next_work):
                work = work_at(pair, number)
                if work.chunk_bytes_or_relay == location:
                    work.chunk_bytes_or_relay = at.GONE_RELAY
    endpoint.writing_bytes -= relay.writing_bytes
    relay.writing_bytes = np.int64(0)
