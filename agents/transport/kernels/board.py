"""What selective repeat knows of the packets that are sent: which of them have arrived, and which
are lost.

A queue pair has a board (`layout`) while anything of it is on its way. Of every packet the board
has a state and a stamp, its place in the order of sending: packets that were sent again come later
in it than their sequence numbers say. A packet is lost when one that was sent REORDER stamps later
has arrived. The arrival of a packet that was sent twice says nothing of the order: it may be the
first copy.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.memory import free, malloc, work_at
from weft.agents.wire.compiled import compiled, internal
from weft.agents.wire.headers import HAS_IMMEDIATE
from weft.base.jit import words_at

Words = npt.NDArray[np.int64]


@internal
def words_of_board(endpoint: Words) -> int:
    """How many words a board has."""
    result: int = at.BOARD_WORDS + (1 + at.KEPT_WORDS) * endpoint[at.BOARD_ROOM]
    return result


@internal
def board_of(endpoint: Words, pair: Words) -> Words:
    """The board of a queue pair that has one."""
    words: Words = words_at(pair[at.BOARD], words_of_board(endpoint))
    return words


@internal
def sent_place(endpoint: Words, sequence: int) -> int:
    """Where in a board the word of a packet is that was sent."""
    result: int = at.BOARD_WORDS + (sequence & (endpoint[at.BOARD_ROOM] - 1))
    return result


@internal
def kept_place(endpoint: Words, sequence: int) -> int:
    """Where in a board the words of a packet are that came ahead of a gap."""
    room = endpoint[at.BOARD_ROOM]
    result: int = at.BOARD_WORDS + room + at.KEPT_WORDS * (sequence & (room - 1))
    return result


@internal
def take_board(endpoint: Words, pair: Words) -> bool:
    """Give the queue pair an empty board if it has none; False if there is no memory."""
    if pair[at.BOARD]:
        return True
    address = endpoint[at.FREE_BOARDS]
    count = words_of_board(endpoint)
    if address:
        endpoint[at.FREE_BOARDS] = words_at(address, count)[at.NEXT_FREE_BOARD]
    else:
        address = malloc(8 * count)
        if address == 0:
            return False
        board = words_at(address, count)
        for word in range(count):
            board[word] = 0
        board[at.NEXT_BOARD] = endpoint[at.BOARDS]
        endpoint[at.BOARDS] = address
    pair[at.BOARD] = address
    board = words_at(address, count)
    for word in range(at.SACKED_COUNT, at.BOARD_WORDS):
        board[word] = 0
    return True


@internal
def drop_board(endpoint: Words, pair: Words) -> None:
    """The queue pair needs no board any more, another may have it; what it kept is forgotten."""
    if pair[at.BOARD] == 0:
        return
    board = board_of(endpoint, pair)
    if board[at.KEPT_COUNT]:
        for sequence in range(endpoint[at.BOARD_ROOM]):
            forget_kept(endpoint, board, kept_place(endpoint, sequence))
    board[at.NEXT_FREE_BOARD] = endpoint[at.FREE_BOARDS]
    endpoint[at.FREE_BOARDS] = pair[at.BOARD]
    pair[at.BOARD] = 0


@internal
def drop_idle_board(endpoint: Words, pair: Words) -> None:
    """Give back a board on which nothing is."""
    if (
        pair[at.BOARD]
        and pair[at.UNACKNOWLEDGED] == pair[at.SEND_HIGHEST]
        and board_of(endpoint, pair)[at.KEPT_COUNT] == 0
    ):
        drop_board(endpoint, pair)


@compiled
def free_boards(endpoint: Words) -> None:
    """Give back the memory of all boards: the endpoint is not used any more."""
    address = endpoint[at.BOARDS]
    while address:
        following = words_at(address, at.BOARD_WORDS)[at.NEXT_BOARD]
        free(address)
        address = following
    endpoint[at.BOARDS] = 0
    endpoint[at.FREE_BOARDS] = 0


@internal
def forget_kept(endpoint: Words, board: Words, place: int) -> None:
    """The words of a kept packet are free again, if there was one."""
    word = board[place]
    if word == 0:
        return
    board[place] = 0
    board[at.KEPT_COUNT] -= 1
    if makes_event(word):
        endpoint[at.HELD_EVENTS] -= 1


@internal
def makes_event(word: int) -> bool:
    """Whether a kept packet becomes an event at its turn, by the first of its words."""
    kind = word & at.KEPT_KIND_MASK
    immediate = (word >> at.KEPT_SHIFT) & HAS_IMMEDIATE
    return kind == at.KEPT_SEND or (kind == at.KEPT_WRITE and immediate != 0)


@internal
def packets_in_flight(endpoint: Words, pair: Words) -> int:
    """How many packets are on their way, by what acknowledgements have told."""
    outstanding: int = pair[at.SEND_HIGHEST] - pair[at.UNACKNOWLEDGED]
    if pair[at.BOARD] == 0:
        return outstanding
    board = board_of(endpoint, pair)
    flight: int = outstanding - board[at.SACKED_COUNT] - board[at.LOST_COUNT]
    return flight


@internal
def note_transmission(endpoint: Words, pair: Words, first: int, end: int, is_read: bool) -> None:
    """The packets [first, end) leave: one, or as many as a READ request asks for."""
    board = board_of(endpoint, pair)
    board[at.STAMP] += 1
    for sequence in range(first, end):
        place = sent_place(endpoint, sequence)
        word = board[at.STAMP] << at.STAMP_SHIFT
        if sequence < pair[at.SEND_HIGHEST]:
            word |= at.RESENT
            if board[place] & at.STATE_MASK == at.LOST:
                board[at.LOST_COUNT] -= 1
        if is_read:
            word |= at.OF_READ
            if sequence > first:
                word |= at.ASKED
        board[place] = word


@internal
def seek(endpoint: Words, pair: Words) -> None:
    """Find what is to be sent next: the first packet that is lost, or what was never sent."""
    following = pair[at.SEND_HIGHEST]
    if pair[at.BOARD]:
        board = board_of(endpoint, pair)
        if board[at.LOST_COUNT]:
            following = max(pair[at.SEND_NEXT], pair[at.UNACKNOWLEDGED])
            while following < pair[at.SEND_HIGHEST]:
                if board[sent_place(endpoint, following)] & at.STATE_MASK == at.LOST:
                    break
                following += 1
    pair[at.SEND_NEXT] = following
    while pair[at.SEND_WORK] < pair[at.NEXT_WORK]:
        if work_at(pair, pair[at.SEND_WORK])[at.WORK_END] > following:
            break
        pair[at.SEND_WORK] += 1


@internal
def lose(endpoint: Words, pair: Words, board: Words, sequence: int) -> None:
    """Have a packet sent again."""
    place = sent_place(endpoint, sequence)
    word = board[place]
    if word & at.STATE_MASK == at.LOST:
        return
    if word & at.STATE_MASK == at.SACKED:
        board[at.SACKED_COUNT] -= 1
    board[place] = (word & ~at.STATE_MASK) | at.LOST
    board[at.LOST_COUNT] += 1
    if sequence >= pair[at.SEND_NEXT]:
        return
    pair[at.SEND_NEXT] = sequence
    number = pair[at.FIRST_WORK]
    while number < pair[at.NEXT_WORK] and work_at(pair, number)[at.WORK_END] <= sequence:
        number += 1
    pair[at.SEND_WORK] = number


@internal
def lose_reads(endpoint: Words, pair: Words) -> None:
    """A READ response is missing: ask again for all that READs have not brought (go-back-n)."""
    if pair[at.BOARD] == 0:
        return
    board = board_of(endpoint, pair)
    for sequence in range(pair[at.UNACKNOWLEDGED], pair[at.SEND_HIGHEST]):
        if board[sent_place(endpoint, sequence)] & at.OF_READ:
            lose(endpoint, pair, board, sequence)


@internal
def lose_all(endpoint: Words, pair: Words) -> None:
    """Nothing was acknowledged for too long: take all for lost of which nothing else is known.

    The first one in any case: that it has arrived was told, but not that all before it has.
    """
    pair[at.ACKNOWLEDGE_ASKED] = pair[at.UNACKNOWLEDGED]
    pair[at.TIMED_PSN] = -1
    if pair[at.BOARD] == 0:
        return
    board = board_of(endpoint, pair)
    for sequence in range(pair[at.UNACKNOWLEDGED], pair[at.SEND_HIGHEST]):
        state = board[sent_place(endpoint, sequence)] & at.STATE_MASK
        if state != at.SACKED or sequence == pair[at.UNACKNOWLEDGED]:
            lose(endpoint, pair, board, sequence)


@internal
def restore(endpoint: Words, pair: Words) -> None:
    """A timeout was rash: what it took for lost is on its way after all."""
    if pair[at.BOARD] == 0:
        return
    board = board_of(endpoint, pair)
    for sequence in range(pair[at.UNACKNOWLEDGED], pair[at.SEND_HIGHEST]):
        place = sent_place(endpoint, sequence)
        if board[place] & at.STATE_MASK == at.LOST:
            board[place] &= ~at.STATE_MASK
    board[at.LOST_COUNT] = 0


@internal
def find_lost(endpoint: Words, pair: Words) -> bool:
    """Look for packets that must have arrived before others that have; whether there are any."""
    board = board_of(endpoint, pair)
    limit = min(board[at.HIGHEST_SACKED], pair[at.SEND_HIGHEST])
    latest = board[at.DELIVERED] - endpoint[at.REORDER]
    found = False
    sequence = pair[at.UNACKNOWLEDGED]
    while sequence < limit:
        word = board[sent_place(endpoint, sequence)]
        if word & at.STATE_MASK == at.IN_FLIGHT and word >> at.STAMP_SHIFT <= latest:
            found = True
            lose(endpoint, pair, board, sequence)
            stamp = word >> at.STAMP_SHIFT
            # A READ request stands for all that it asks for.
            while word & at.OF_READ and sequence + 1 < pair[at.SEND_HIGHEST]:
                if board[sent_place(endpoint, sequence + 1)] >> at.STAMP_SHIFT != stamp:
                    break
                sequence += 1
                lose(endpoint, pair, board, sequence)
        sequence += 1
    return found


@internal
def note_delivery(board: Words, word: int) -> None:
    """A packet with this word has arrived; of one that was sent twice the stamp tells nothing."""
    if word & (at.RESENT | at.OF_READ) == 0:
        board[at.DELIVERED] = max(board[at.DELIVERED], word >> at.STAMP_SHIFT)


@internal
def note_arrival(endpoint: Words, pair: Words, sequence: int) -> bool:
    """A packet has arrived ahead of a gap; whether that was news of a packet that was sent once."""
    if not pair[at.UNACKNOWLEDGED] <= sequence < pair[at.SEND_HIGHEST]:
        return False
    board = board_of(endpoint, pair)
    place = sent_place(endpoint, sequence)
    word = board[place]
    state = word & at.STATE_MASK
    if state == at.SACKED or (word & at.OF_READ and state != at.IN_FLIGHT):
        return False
    board[at.HIGHEST_SACKED] = max(board[at.HIGHEST_SACKED], sequence)
    if word & at.OF_READ:
        board[place] = word | at.ASKED
        return False
    if state == at.LOST:
        board[at.LOST_COUNT] -= 1
    board[place] = (word & ~at.STATE_MASK) | at.SACKED
    board[at.SACKED_COUNT] += 1
    note_delivery(board, word)
    news: bool = word & at.RESENT == 0
    return news


@internal
def retire(endpoint: Words, pair: Words, reached: int) -> None:
    """Everything before `reached` is acknowledged: take it off the board."""
    board = board_of(endpoint, pair)
    for sequence in range(pair[at.UNACKNOWLEDGED], reached):
        word = board[sent_place(endpoint, sequence)]
        if word & at.STATE_MASK == at.SACKED:
            board[at.SACKED_COUNT] -= 1
            continue
        if word & at.STATE_MASK == at.LOST:
            board[at.LOST_COUNT] -= 1
        note_delivery(board, word)
