"""What selective repeat knows of the packets that are sent: which of them have arrived, and which
are lost.

A queue pair has a board (`layout`) while anything of it is on its way. Of every packet the board
has a state and a stamp, its place in the order of sending: packets that were sent again come later
in it than their sequence numbers say. A packet is lost when one that was sent REORDER stamps later
has arrived. The arrival of a packet that was sent twice says nothing of the order: it may be the
first copy.
"""

from weft.agents.transport import board_layout as at_board
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.memory import drop_piece, take_piece, work_at
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import HAS_IMMEDIATE

_HEAD_BYTES = at_board.Board.dtype.itemsize
_SENT_BYTES = at_board.Sent.dtype.itemsize
_KEPT_BYTES = at_board.KeptRequest.dtype.itemsize


@internal
def sent_at(endpoint: at.EndpointState, pair: at.PairState, sequence: int) -> at_board.Sent:
    """Return what the board of a queue pair knows of a packet that was sent."""
    return at_board.Sent(pair.board + _HEAD_BYTES, sequence & (endpoint.board_room - 1))


@internal
def kept_at(endpoint: at.EndpointState, pair: at.PairState, sequence: int) -> at_board.KeptRequest:
    """Return what the board of a queue pair keeps of a packet that came ahead of a gap."""
    room = endpoint.board_room
    return at_board.KeptRequest(
        pair.board + _HEAD_BYTES + room * _SENT_BYTES, sequence & (room - 1)
    )


@internal
def take_board(endpoint: at.EndpointState, pair: at.PairState) -> bool:
    """Give the queue pair an empty board if it has none; False if there is no memory."""
    if pair.board:
        return True
    size = _HEAD_BYTES + (_SENT_BYTES + _KEPT_BYTES) * endpoint.board_room
    pair.board = take_piece(endpoint.boards, size)
    if pair.board == 0:
        return False
    board = at_board.Board(pair.board)
    board.sacked_count = board.lost_count = board.kept_count = 0
    board.stamp = board.delivered = board.highest_sacked = board.promised = 0
    return True


@internal
def drop_board(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Give up the board of a queue pair, for another to have it; what it kept is forgotten."""
    if pair.board == 0:
        return
    board = at_board.Board(pair.board)
    if board.kept_count:
        for sequence in range(endpoint.board_room):
            forget_kept(endpoint, board, kept_at(endpoint, pair, sequence))
    drop_piece(endpoint.boards, pair.board)
    pair.board = 0


@internal
def drop_idle_board(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Give back a board on which nothing is."""
    if (
        pair.board
        and pair.unacknowledged == pair.send_highest
        and at_board.Board(pair.board).kept_count == 0
    ):
        drop_board(endpoint, pair)


@internal
def forget_kept(
    endpoint: at.EndpointState, board: at_board.Board, kept: at_board.KeptRequest
) -> None:
    """Make room for another packet again, if one was kept here."""
    if kept.word == 0:
        return
    board.kept_count -= 1
    if makes_event(kept.word):
        endpoint.held_events -= 1
    kept.word = 0


@internal
def makes_event(word: int) -> bool:
    """Return whether a kept packet becomes an event at its turn, by the first of its words."""
    kind = word & at_board.KEPT_KIND_MASK
    immediate = (word >> at_board.KEPT_SHIFT) & HAS_IMMEDIATE
    return kind == at_board.KEPT_SEND or (kind == at_board.KEPT_WRITE and immediate != 0)


@internal
def packets_in_flight(endpoint: at.EndpointState, pair: at.PairState) -> int:
    """Return how many packets are on their way, by what acknowledgements have told."""
    outstanding: int = pair.send_highest - pair.unacknowledged
    if pair.board == 0:
        return outstanding
    board = at_board.Board(pair.board)
    return outstanding - board.sacked_count - board.lost_count


@internal
def note_transmission(
    endpoint: at.EndpointState, pair: at.PairState, first: int, end: int, is_read: bool
) -> None:
    """Take note that the packets [first, end) leave: one, or as many as a READ request asks for."""
    board = at_board.Board(pair.board)
    board.stamp += 1
    for sequence in range(first, end):
        sent = sent_at(endpoint, pair, sequence)
        word = board.stamp << at_board.STAMP_SHIFT
        if sequence < pair.send_highest:
            word |= at_board.RESENT
            if sent.word & at_board.STATE_MASK == at_board.LOST:
                board.lost_count -= 1
        if is_read:
            word |= at_board.OF_READ
            if sequence > first:
                word |= at_board.ASKED
        sent.word = word


@internal
def seek(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Find what is to be sent next: the first packet that is lost, or what was never sent."""
    following = pair.send_highest
    if pair.board and at_board.Board(pair.board).lost_count:
        following = max(pair.send_next, pair.unacknowledged)
        while following < pair.send_highest:
            if sent_at(endpoint, pair, following).word & at_board.STATE_MASK == at_board.LOST:
                break
            following += 1
    pair.send_next = following
    skip_sent_work(pair)


@internal
def skip_sent_work(pair: at.PairState) -> None:
    """Find the work that what is to be sent next belongs to."""
    while pair.send_work < pair.next_work and work_at(pair, pair.send_work).end <= pair.send_next:
        pair.send_work += 1


@internal
def lose(
    endpoint: at.EndpointState, pair: at.PairState, board: at_board.Board, sequence: int
) -> None:
    """Have a packet sent again."""
    sent = sent_at(endpoint, pair, sequence)
    word = sent.word
    if word & at_board.STATE_MASK == at_board.LOST:
        return
    if word & at_board.STATE_MASK == at_board.SACKED:
        board.sacked_count -= 1
    sent.word = (word & ~at_board.STATE_MASK) | at_board.LOST
    board.lost_count += 1
    if sequence >= pair.send_next:
        return
    pair.send_next = sequence
    number = pair.first_work
    while number < pair.next_work and work_at(pair, number).end <= sequence:
        number += 1
    pair.send_work = number


@internal
def lose_reads(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Ask again for all that READs have not brought (go-back-n), as a READ response is missing."""
    if pair.board == 0:
        return
    board = at_board.Board(pair.board)
    for sequence in range(pair.unacknowledged, pair.send_highest):
        if sent_at(endpoint, pair, sequence).word & at_board.OF_READ:
            lose(endpoint, pair, board, sequence)


@internal
def lose_all(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Take all packets for lost of which nothing else is known, as nothing was acknowledged for too
    long.

    The first one in any case: that it has arrived was told, but not that all before it has.
    """
    pair.acknowledge_asked = pair.unacknowledged
    pair.timed_psn = -1
    if pair.board == 0:
        return
    board = at_board.Board(pair.board)
    for sequence in range(pair.unacknowledged, pair.send_highest):
        state = sent_at(endpoint, pair, sequence).word & at_board.STATE_MASK
        if state != at_board.SACKED or sequence == pair.unacknowledged:
            lose(endpoint, pair, board, sequence)


@internal
def restore(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Take for on its way again what a rash timeout took for lost."""
    if pair.board == 0:
        return
    board = at_board.Board(pair.board)
    for sequence in range(pair.unacknowledged, pair.send_highest):
        sent = sent_at(endpoint, pair, sequence)
        if sent.word & at_board.STATE_MASK == at_board.LOST:
            sent.word &= ~at_board.STATE_MASK
    board.lost_count = 0


@internal
def find_lost(endpoint: at.EndpointState, pair: at.PairState) -> bool:
    """Look for packets that must have arrived before others that have, and return whether there are
    any."""
    board = at_board.Board(pair.board)
    limit = min(board.highest_sacked, pair.send_highest)
    latest = board.delivered - endpoint.reorder
    found = False
    sequence = pair.unacknowledged
    while sequence < limit:
        word = sent_at(endpoint, pair, sequence).word
        if (
            word & at_board.STATE_MASK == at_board.IN_FLIGHT
            and word >> at_board.STAMP_SHIFT <= latest
        ):
            found = True
            lose(endpoint, pair, board, sequence)
            stamp = word >> at_board.STAMP_SHIFT
            # A READ request stands for all that it asks for.
            while word & at_board.OF_READ and sequence + 1 < pair.send_highest:
                if sent_at(endpoint, pair, sequence + 1).word >> at_board.STAMP_SHIFT != stamp:
                    break
                sequence += 1
                lose(endpoint, pair, board, sequence)
        sequence += 1
    return found


@internal
def note_delivery(board: at_board.Board, word: int) -> None:
    """Take note that a packet with this word has arrived; of one that was sent twice the stamp
    tells nothing."""
    if word & (at_board.RESENT | at_board.OF_READ) == 0:
        board.delivered = max(board.delivered, word >> at_board.STAMP_SHIFT)


@internal
def note_arrival(endpoint: at.EndpointState, pair: at.PairState, sequence: int) -> bool:
    """Take note that a packet has arrived ahead of a gap, and return whether that was news of a
    packet that was sent once."""
    if not pair.unacknowledged <= sequence < pair.send_highest:
        return False
    board = at_board.Board(pair.board)
    sent = sent_at(endpoint, pair, sequence)
    word = sent.word
    state = word & at_board.STATE_MASK
    if state == at_board.SACKED or (word & at_board.OF_READ and state != at_board.IN_FLIGHT):
        return False
    board.highest_sacked = max(board.highest_sacked, sequence)
    if word & at_board.OF_READ:
        sent.word = word | at_board.ASKED
        return False
    if state == at_board.LOST:
        board.lost_count -= 1
    sent.word = (word & ~at_board.STATE_MASK) | at_board.SACKED
    board.sacked_count += 1
    note_delivery(board, word)
    return word & at_board.RESENT == 0


@internal
def retire(endpoint: at.EndpointState, pair: at.PairState, reached: int) -> None:
    """Take off the board everything before `reached`: it is acknowledged."""
    board = at_board.Board(pair.board)
    for sequence in range(pair.unacknowledged, reached):
        word = sent_at(endpoint, pair, sequence).word
        if word & at_board.STATE_MASK == at_board.SACKED:
            board.sacked_count -= 1
            continue
        if word & at_board.STATE_MASK == at_board.LOST:
            board.lost_count -= 1
        note_delivery(board, word)
