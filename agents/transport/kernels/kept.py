"""Requests that come ahead of a gap, where selective repeat is used: an RDMA WRITE's bytes go to
their place at once, everything else waits for its turn.

Every packet of a WRITE is a WRITE ONLY with a RETH of its own, so each says where it belongs. What
cannot be kept is dropped, and comes again; what is wrong with it is then found at its turn. Each
packet that is kept is acknowledged by a NAK (PSN sequence error) of the expected PSN with its own
PSN in the place of the message sequence number, as in IRN (SIGCOMM 2018, section 3.1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import (
    board_of,
    drop_idle_board,
    forget_kept,
    kept_place,
    makes_event,
    take_board,
)
from weft.agents.transport.kernels.echo import push_echo
from weft.agents.transport.kernels.memory import add_event, packets_of
from weft.agents.transport.kernels.state import find_memory, queue_read, refuse
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import (
    HAS_IMMEDIATE,
    IS_FIRST,
    IS_LAST,
    IS_SEND,
    IS_WRITE,
    PSN_MASK,
    SYNDROME_INVALID_REQUEST,
    SYNDROME_PSN_SEQUENCE_ERROR,
    SYNDROME_REMOTE_ACCESS_ERROR,
)
from weft.base.jit import memcpy, table_at

Words = npt.NDArray[np.int64]


@internal
def kind_to_keep(endpoint: Words, fields: Words) -> int:
    """What a request ahead of a gap would be kept as; 0 if it cannot be."""
    bits = fields[wire.PROPERTY_BITS]
    length = fields[wire.PAYLOAD_LENGTH]
    if length > endpoint[at.PATH_MTU]:
        return 0
    if bits & IS_SEND:
        whole = bits & IS_LAST != 0 or length == endpoint[at.PATH_MTU]
        return at.KEPT_SEND if whole else 0
    if bits & IS_WRITE == 0:
        return at.KEPT_READ if fields[wire.DMA_LENGTH] <= at.MAXIMUM_KEPT_READ else 0
    if bits & IS_FIRST == 0 or bits & IS_LAST == 0 or fields[wire.DMA_LENGTH] != length:
        return 0
    if length and not find_memory(endpoint, fields[wire.REMOTE_ADDRESS], fields[wire.RKEY], length):
        return 0
    return at.KEPT_WRITE


@internal
def word_to_keep(fields: Words, kind: int) -> int:
    """What is kept of a packet in one word."""
    word: int = kind
    if kind == at.KEPT_READ:
        word |= fields[wire.RKEY] << at.KEPT_SHIFT
        word |= fields[wire.DMA_LENGTH] << at.KEPT_READ_SHIFT
        return word
    if fields[wire.BEGINS_MESSAGE]:
        word |= at.KEPT_BEGINS
    word |= fields[wire.PROPERTY_BITS] << at.KEPT_SHIFT
    word |= fields[wire.PAYLOAD_LENGTH] << at.KEPT_LENGTH_SHIFT
    word |= fields[wire.IMMEDIATE] << at.KEPT_IMMEDIATE_SHIFT
    return word


@internal
def keep_packet(
    endpoint: Words, pair: Words, fields: Words, row: int, index: int, number: int, sequence: int
) -> bool:
    """Keep a request that came ahead of a gap; False if that cannot be. `number` is its row of the
    batch."""
    ahead = sequence - pair[at.EXPECTED]
    kind = kind_to_keep(endpoint, fields)
    if kind == 0 or ahead >= endpoint[at.BOARD_ROOM] or not take_board(endpoint, pair):
        return False
    board = board_of(endpoint, pair)
    place = kept_place(endpoint, sequence)
    if board[place]:
        endpoint[at.DUPLICATE_PACKETS] += 1
        return True
    length = fields[wire.PAYLOAD_LENGTH]
    word = word_to_keep(fields, kind)
    if makes_event(word):
        if endpoint[at.HELD_EVENTS] >= at.MAXIMUM_HELD_EVENTS:
            return False
        endpoint[at.HELD_EVENTS] += 1
    board[place] = word
    board[at.KEPT_COUNT] += 1
    if kind == at.KEPT_READ:
        board[place + 1] = fields[wire.REMOTE_ADDRESS]
    elif kind == at.KEPT_WRITE:
        if length:
            memory = find_memory(endpoint, fields[wire.REMOTE_ADDRESS], fields[wire.RKEY], length)
            memcpy(memory, row + fields[wire.PAYLOAD_OFFSET], length)
    else:
        add_fragment(endpoint, fields, index, number, length, sequence)
    endpoint[at.REORDERED_PACKETS] += 1
    endpoint[at.REORDER_PEAK_PACKETS] = max(endpoint[at.REORDER_PEAK_PACKETS], board[at.KEPT_COUNT])
    endpoint[at.REORDER_DISTANCE_PEAK] = max(endpoint[at.REORDER_DISTANCE_PEAK], ahead)
    return True


@internal
def add_fragment(
    endpoint: Words, fields: Words, index: int, number: int, length: int, sequence: int
) -> None:
    """Have Python keep a part of a SEND until its turn."""
    before = endpoint[at.EVENTS]
    add_event(
        endpoint,
        at.EVENT_FRAGMENT_KEPT,
        index,
        number,
        fields[wire.PAYLOAD_OFFSET],
        length,
        fields[wire.PROPERTY_BITS] & (IS_FIRST | IS_LAST | HAS_IMMEDIATE),
        fields[wire.IMMEDIATE],
    )
    if endpoint[at.EVENTS] > before:
        rows = table_at(endpoint[at.EVENT_TABLE], endpoint[at.EVENT_ROOM], at.EVENT_WORDS)
        rows[before][7] = sequence


@internal
def receive_ahead(
    endpoint: Words, pair: Words, fields: Words, row: int, index: int, number: int, sequence: int
) -> None:
    """A request ahead of a gap: keep and acknowledge it."""
    if not keep_packet(endpoint, pair, fields, row, index, number, sequence):
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        drop_idle_board(endpoint, pair)
        return
    push_echo(
        endpoint,
        index,
        pair[at.EXPECTED],
        (SYNDROME_PSN_SEQUENCE_ERROR << 24) | (sequence & PSN_MASK),
        fields[wire.MARKED],
        fields[wire.SOURCE_PORT],
    )


@internal
def take_kept_write(endpoint: Words, pair: Words, index: int, word: int) -> None:
    """The turn of an RDMA WRITE's packet, whose bytes are in place."""
    if word & at.KEPT_BEGINS:
        pair[at.WRITE_LENGTH] = 0
    pair[at.WRITE_LENGTH] += (word >> at.KEPT_LENGTH_SHIFT) & at.KEPT_LENGTH_MASK
    if (word >> at.KEPT_SHIFT) & HAS_IMMEDIATE:
        add_event(
            endpoint,
            at.EVENT_WRITE_WITH_IMMEDIATE,
            index,
            word >> at.KEPT_IMMEDIATE_SHIFT,
            pair[at.WRITE_LENGTH],
            0,
            0,
            0,
        )


@internal
def take_kept_read(endpoint: Words, pair: Words, board: Words, place: int) -> int:
    """The turn of a READ; returns how many sequence numbers it has, or 0 if there is no room for
    it or it is refused."""
    address = board[place + 1]
    key = (board[place] >> at.KEPT_SHIFT) & at.KEPT_KEY_MASK
    size = board[place] >> at.KEPT_READ_SHIFT
    if size and not find_memory(endpoint, address, key, size):
        refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
        return 0
    if not queue_read(endpoint, pair, address, key, size, pair[at.EXPECTED], 0):
        return 0
    return packets_of(size, endpoint[at.PATH_MTU])


@internal
def take_kept(endpoint: Words, pair: Words, index: int) -> None:
    """The gap is closed: what follows it has its turn, up to the next one."""
    if pair[at.BOARD] == 0:
        return
    board = board_of(endpoint, pair)
    while board[at.KEPT_COUNT]:
        expected = pair[at.EXPECTED]
        place = kept_place(endpoint, expected)
        word = board[place]
        if word == 0:
            break
        kind = word & at.KEPT_KIND_MASK
        bits = word >> at.KEPT_SHIFT
        if kind == at.KEPT_READ:
            bits = IS_FIRST | IS_LAST
        packets = 1
        before = at.NO_MESSAGE
        if kind == at.KEPT_SEND and bits & IS_FIRST == 0:
            before = at.SEND_MESSAGE
        if pair[at.IN_MESSAGE] != before:
            refuse(endpoint, pair, SYNDROME_INVALID_REQUEST)
            packets = 0
        elif kind == at.KEPT_WRITE:
            take_kept_write(endpoint, pair, index, word)
        elif kind == at.KEPT_READ:
            packets = take_kept_read(endpoint, pair, board, place)
        else:
            pair[at.IN_MESSAGE] = at.NO_MESSAGE if bits & IS_LAST else at.SEND_MESSAGE
            add_event(endpoint, at.EVENT_FRAGMENT_DUE, index, expected, 0, 0, 0, 0)
        forget_kept(endpoint, board, place)
        if packets == 0:
            break
        if bits & IS_LAST:
            pair[at.MESSAGES] += 1
        pass_over(endpoint, pair, board, packets)
    drop_idle_board(endpoint, pair)


@internal
def pass_over(endpoint: Words, pair: Words, board: Words, packets: int) -> None:
    """So many sequence numbers have had their turn; what a peer that lies sent within those of a
    READ is forgotten."""
    for ahead in range(1, min(packets, endpoint[at.BOARD_ROOM])):
        forget_kept(endpoint, board, kept_place(endpoint, pair[at.EXPECTED] + ahead))
    pair[at.EXPECTED] += packets
