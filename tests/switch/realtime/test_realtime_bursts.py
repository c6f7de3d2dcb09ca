"""How far ahead of their link frames came into a switch."""

from __future__ import annotations

from weft.switch.engine.control.memory import rows
from weft.switch.realtime.layout import LoopRecord, SocketRecord
from weft.switch.realtime.loop import FORGOTTEN, record_burst

RATE_BPS = 100_000_000
FRAME_BYTES = 1_250
FRAME_NS = 100_000


def greatest_ns(arrivals_ns: list[int]) -> int:
    """The furthest that a frame came ahead of its link, since the last of these calls."""
    io, socket = rows(LoopRecord, 1)[0], rows(SocketRecord, 1)[0]
    for now_ns in arrivals_ns:
        record_burst(io, socket, RATE_BPS, FRAME_BYTES, now_ns)
    assert sum(io.bursts.counts) == len(arrivals_ns)
    return int(io.bursts.greatest_ns)


def test_frames_as_close_as_the_link_carries_them_are_not_ahead() -> None:
    assert greatest_ns([FRAME_NS * (1 + each) for each in range(100)]) == 0


def test_the_last_frame_of_a_burst_is_ahead_by_nearly_all_the_others() -> None:
    ahead_ns = greatest_ns([FRAME_NS] * 21)
    assert 20 * FRAME_NS * (1 - 1 / FORGOTTEN) <= ahead_ns < 20 * FRAME_NS


def test_what_came_late_once_is_forgotten_although_the_link_stays_busy() -> None:
    io, socket = rows(LoopRecord, 1)[0], rows(SocketRecord, 1)[0]
    late_ns = 10 * FRAME_NS
    for number in range(400):
        due_ns = FRAME_NS * (1 + number)
        record_burst(io, socket, RATE_BPS, FRAME_BYTES, max(due_ns, FRAME_NS + late_ns))
    ahead_ns = socket.free_ns - FRAME_NS * 400
    assert ahead_ns <= FRAME_NS
