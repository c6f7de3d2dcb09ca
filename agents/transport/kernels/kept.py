"""Requests that come ahead of a gap, where selective repeat is used: an RDMA WRITE's bytes go to
their place at once, everything else waits for its turn.

Every packet of a WRITE is a WRITE ONLY with a RETH of its own, so each says where it belongs. What
cannot be kept is dropped, and comes again; what is wrong with it is then found at its turn. Each
packet that is kept is acknowledged by a NAK (PSN sequence error) of the expected PSN with its own
PSN in the place of the message sequence number, as in IRN (SIGCOMM 2018, section 3.1).
"""

from weft.agents.transport import board_layout as at_board
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import (
    drop_idle_board,
    forget_kept,
    kept_at,
    makes_event,
    take_board,
)
from weft.agents.transport.kernels.echo import push_echo
from weft.agents.transport.kernels.memory import add_event, add_fragment, packets_of
from weft.agents.transport.kernels.payload import take_payload
from weft.agents.transport.kernels.relay import announce_write
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


@internal
def kind_to_keep(endpoint: at.EndpointState, fields: wire.Fields) -> int:
    """Return what a request ahead of a gap would be kept as; 0 if it cannot be."""
    bits = fields.property_bits
    length = fields.payload_length
    if length > endpoint.path_mtu:
        return 0
    if bits & IS_SEND:
        return at_board.KEPT_SEND if bits & IS_LAST or length == endpoint.path_mtu else 0
    if bits & IS_WRITE == 0:
        return at_board.KEPT_READ if fields.dma_length <= at_board.MAXIMUM_KEPT_READ else 0
    if bits & IS_FIRST == 0 or bits & IS_LAST == 0 or fields.dma_length != length:
        return 0
    if length and not find_memory(endpoint, fields.remote_address, fields.rkey, length):
        return 0
    return at_board.KEPT_WRITE


@internal
def word_to_keep(fields: wire.Fields, kind: int) -> int:
    """Return what is kept of a packet in one word."""
    if kind == at_board.KEPT_READ:
        return (
            kind
            | fields.rkey << at_board.KEPT_SHIFT
            | fields.dma_length << at_board.KEPT_READ_SHIFT
        )
    return (
        kind
        | (at_board.KEPT_BEGINS if fields.begins_message else 0)
        | fields.property_bits << at_board.KEPT_SHIFT
        | fields.payload_length << at_board.KEPT_LENGTH_SHIFT
        | fields.immediate << at_board.KEPT_IMMEDIATE_SHIFT
    )


@internal
def keep_packet(
    endpoint: at.EndpointState,
    pair: at.PairState,
    fields: wire.Fields,
    row: int,
    index: int,
    number: int,
    sequence: int,
) -> bool:
    """Keep a request that came ahead of a gap; False if that cannot be. `number` is its row of the
    batch."""
    ahead = sequence - pair.expected
    kind = kind_to_keep(endpoint, fields)
    if kind == 0 or ahead >= endpoint.board_room or not take_board(endpoint, pair):
        return False
    board = at_board.Board(pair.board)
    kept = kept_at(endpoint, pair, sequence)
    if kept.word:
        endpoint.statistics.duplicate_packets += 1
        return True
    length = fields.payload_length
    word = word_to_keep(fields, kind)
    if makes_event(word):
        if endpoint.held_events >= at_board.MAXIMUM_HELD_EVENTS:
            return False
        endpoint.held_events += 1
    kept.word = word
    board.kept_count += 1
    if kind == at_board.KEPT_READ:
        kept.address = fields.remote_address
    elif kind == at_board.KEPT_WRITE:
        if length:
            memory = find_memory(endpoint, fields.remote_address, fields.rkey, length)
            goes_on = not fields.begins_message
            take_payload(endpoint, memory, row + fields.payload_offset, length, index, goes_on, 0)
    else:
        event = add_fragment(endpoint, at.EVENT_FRAGMENT_KEPT, fields, index, number)
        event.sequence = sequence
    endpoint.statistics.reordered_packets += 1
    endpoint.statistics.reorder_peak_packets = max(
        endpoint.statistics.reorder_peak_packets, board.kept_count
    )
    endpoint.statistics.reorder_distance_peak = max(
        endpoint.statistics.reorder_distance_peak, ahead
    )
    return True


@internal
def receive_ahead(
    endpoint: at.EndpointState,
    pair: at.PairState,
    fields: wire.Fields,
    row: int,
    index: int,
    number: int,
    sequence: int,
) -> None:
    """Keep and acknowledge a request that came ahead of a gap."""
    if not keep_packet(endpoint, pair, fields, row, index, number, sequence):
        endpoint.statistics.out_of_order_packets += 1
        drop_idle_board(endpoint, pair)
        return
    push_echo(
        endpoint,
        index,
        pair.expected,
        (SYNDROME_PSN_SEQUENCE_ERROR << 24) | (sequence & PSN_MASK),
        fields.marked,
        fields.source_port,
    )


@internal
def take_kept_write(endpoint: at.EndpointState, pair: at.PairState, index: int, word: int) -> None:
    """Take an RDMA WRITE's packet whose turn it is, and whose bytes are in place."""
    if word & at_board.KEPT_BEGINS:
        pair.write_length = 0
    pair.write_length += (word >> at_board.KEPT_LENGTH_SHIFT) & at_board.KEPT_LENGTH_MASK
    if (word >> at_board.KEPT_SHIFT) & HAS_IMMEDIATE:
        announce_write(endpoint, pair, index, word >> at_board.KEPT_IMMEDIATE_SHIFT)


@internal
def take_kept_read(
    endpoint: at.EndpointState, pair: at.PairState, kept: at_board.KeptRequest
) -> int:
    """Take a READ whose turn it is; return how many sequence numbers it has, or 0 if there is no
    room for it or it is refused."""
    address = kept.address
    key = (kept.word >> at_board.KEPT_SHIFT) & at_board.KEPT_KEY_MASK
    size = kept.word >> at_board.KEPT_READ_SHIFT
    if size and not find_memory(endpoint, address, key, size):
        refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
        return 0
    lined_up = queue_read(endpoint, pair, address, key, size, pair.expected, 0)
    return packets_of(size, endpoint.path_mtu) if lined_up else 0


@internal
def take_kept(endpoint: at.EndpointState, pair: at.PairState, index: int) -> None:
    """Give what follows a gap that is closed its turn, up to the next gap."""
    if pair.board == 0:
        return
    board = at_board.Board(pair.board)
    while board.kept_count:
        kept = kept_at(endpoint, pair, pair.expected)
        word = kept.word
        if word == 0:
            break
        kind = word & at_board.KEPT_KIND_MASK
        bits = IS_FIRST | IS_LAST if kind == at_board.KEPT_READ else word >> at_board.KEPT_SHIFT
        packets = 1
        goes_on = kind == at_board.KEPT_SEND and bits & IS_FIRST == 0
        if pair.in_message != (at.SEND_MESSAGE if goes_on else at.NO_MESSAGE):
            refuse(endpoint, pair, SYNDROME_INVALID_REQUEST)
            packets = 0
        elif kind == at_board.KEPT_WRITE:
            take_kept_write(endpoint, pair, index, word)
        elif kind == at_board.KEPT_READ:
            packets = take_kept_read(endpoint, pair, kept)
        else:
            pair.in_message = at.NO_MESSAGE if bits & IS_LAST else at.SEND_MESSAGE
            add_event(endpoint, at.EVENT_FRAGMENT_DUE, index).sequence = pair.expected
        forget_kept(endpoint, board, kept)
        if packets == 0:
            break
        if bits & IS_LAST:
            pair.messages += 1
        pass_over(endpoint, pair, board, packets)
    drop_idle_board(endpoint, pair)


@internal
def pass_over(
    endpoint: at.EndpointState, pair: at.PairState, board: at_board.Board, packets: int
) -> None:
    """Pass over so many sequence numbers, which have had their turn; what a peer that lies sent
    within those of a READ is forgotten."""
    for ahead in range(1, min(packets, endpoint.board_room)):
        forget_kept(endpoint, board, kept_at(endpoint, pair, pair.expected + ahead))
    pair.expected += packets
