"""Limits of time that follow the work: who gets on is waited for, who stands still is named."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.support.operations import gather
from tests.support.rank_rendezvous_support import Actor, both, hello, perform

from weft.agents.drivers.messages import (
    Abort,
    Finished,
    LineChannel,
    Message,
    Prepare,
    Ready,
    Result,
    Start,
    Verify,
    Working,
    encode,
)
from weft.agents.drivers.patience import Patience, silence_s
from weft.agents.drivers.rendezvous import Rendezvous
from weft.agents.ranks import RankReport
from weft.base import lines
from weft.base.effort import Effort
from weft.base.errors import RunError


def test_who_gets_on_is_waited_for_however_long_it_takes() -> None:
    patience = Patience([0], 30.0, 0.0)
    for second in range(10_000):
        if second % 29 == 0:
            patience.reported(0, "slices", second)
        assert patience.overdue(float(second)) == []


def test_who_stands_still_is_given_up_after_its_time_and_the_others_are_not() -> None:
    patience = Patience([0, 1, 2], 30.0, 0.0)
    patience.ended(2)
    for second in range(1, 30):
        patience.reported(0, "slices", second)
        assert patience.overdue(float(second)) == []
    assert patience.overdue(30.0) == [1]


def test_to_report_the_same_again_is_to_stand_still() -> None:
    patience = Patience([0], 30.0, 0.0)
    for second in range(30):
        patience.reported(0, "slices", 7)
        assert patience.overdue(float(second)) == []
    assert patience.overdue(31.0) == [0]


def test_those_who_come_one_after_the_other_are_waited_for_together() -> None:
    patience = Patience(range(4), 30.0, 0.0, together=True)
    clock = itertools.count(1)
    for process in range(3):
        for _ in range(29):
            assert patience.overdue(float(next(clock))) == []
        patience.ended(process)
    found = [patience.overdue(float(next(clock))) for _ in range(30)]
    assert found[-2:] == [[], [3]]


def test_time_before_a_limit_of_its_own_does_not_count() -> None:
    patience = Patience([0], 30.0, 0.0, until_s=100.0)
    found = [second for second in range(200) if patience.overdue(float(second))]
    assert found[0] == 130


def test_nobody_is_given_up_for_what_a_runner_that_was_stopped_did_not_see() -> None:
    patience = Patience([0], 30.0, 0.0)
    assert patience.overdue(100_000.0) == []


def test_the_patience_grows_with_the_processes_that_share_the_machine() -> None:
    assert silence_s(1) < silence_s(100) < silence_s(1000)


class Process:
    """Stands for one that gets a share of a processor."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.clock_s = 0.0

    def used_s(self, pid: int) -> float:
        return self.share * self.clock_s

    def counted_after(self, seconds: int) -> float:
        effort = Effort(1, 0.0, self.used_s)
        for second in range(1, seconds + 1):
            self.clock_s = float(second)
            effort.counted_s(self.clock_s)
        return effort.counted_s(self.clock_s)


def test_a_process_on_a_loaded_machine_is_judged_by_the_processor_time_that_it_got() -> None:
    assert Process(0.1).counted_after(1000) == pytest.approx(100)


def test_a_process_that_does_nothing_or_that_spins_is_judged_by_the_clock() -> None:
    assert Process(0.001).counted_after(1000) == pytest.approx(1000)
    assert Process(1.0).counted_after(1000) == pytest.approx(1000)


class Clock:
    """Passes a second whenever it is looked at; the runner looks when it hears something."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def monotonic_ns(self) -> int:
        return round(self.now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        """The runner lets word of progress gather."""
        self.now_s += seconds


def working(actor: Actor, clock: Clock, seconds: float) -> None:
    """Report slice after slice until so much time has passed."""
    end_s = clock.now_s + seconds
    for slices in itertools.count():
        if clock.now_s >= end_s:
            return
        actor.channel.send(Working(slices))
        time.sleep(0.001)  # for the runner to look at the clock


def test_ranks_that_fill_and_verify_for_long_but_go_on_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("weft.agents.drivers.rendezvous.time", clock)

    def slow(actor: Actor) -> None:
        actor.wait(Prepare)
        working(actor, clock, 100.0)
        actor.channel.send(Ready())
        actor.wait(Start)
        actor.channel.send(Finished(5))
        actor.wait(Verify)
        working(actor, clock, 100.0)
        result = RankReport(actor.rank, f"h{actor.rank}", "ring", True, completion_ns=5)
        actor.channel.send(Result(result))

    with Rendezvous(tmp_path / "meeting.sock", ["h0", "h1"], patience_s=30.0) as meeting:
        for rank, part in enumerate((slow, perform)):
            Actor(meeting.path, rank, both(hello, part))
        meeting.gather()
        results = meeting.run(gather("ring", 100))
    assert [result.verified for result in results] == [True, True]
    assert clock.now_s > 200.0


@pytest.mark.parametrize("phase", ["preparing its buffer", "verifying its data"])
def test_a_rank_that_stands_still_amid_its_work_is_named(tmp_path: Path, phase: str) -> None:
    def hangs(actor: Actor) -> None:
        actor.wait(Prepare)
        actor.channel.send(Working(1))
        if phase != "preparing its buffer":
            actor.channel.send(Ready())
            actor.wait(Start)
            actor.channel.send(Finished(5))
            actor.wait(Verify)
        while not actor.channel.closed and actor.channel.receive() == []:
            actor.channel.send(Working(1))  # it says so again, and is no further
            time.sleep(0.01)

    with Rendezvous(tmp_path / "meeting.sock", ["h0", "h1"], patience_s=0.5) as meeting:
        for rank, part in enumerate((perform, hangs)):
            Actor(meeting.path, rank, both(hello, part))
        meeting.gather()
        with pytest.raises(RunError, match=rf"rank 1 \(host h1, pid 1001\).*0\.5 s while {phase}"):
            meeting.run(gather("ring", 100))


def test_a_message_that_comes_in_parts_shows_how_much_of_it_is_there() -> None:
    ours, theirs = socket.socketpair()
    receiver = LineChannel(theirs)
    line = encode(Abort("x" * 5000))
    for start, end in ((0, 1000), (1000, 3000)):
        ours.send(line[start:end])
        assert receiver.receive() == []
        assert receiver.partial_bytes == end
    ours.send(line[3000:] + encode(Verify()) + line[:10])
    assert receiver.receive() == [Abort("x" * 5000), Verify()]
    assert receiver.partial_bytes == 10
    receiver.close()
    ours.close()


def test_a_message_larger_than_a_socket_takes_comes_whole() -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = LineChannel(ours), LineChannel(theirs)
    long = Abort("x" * (8 << 20))
    thread = threading.Thread(target=sender.send, args=(long,), daemon=True)
    thread.start()
    found: list[Message] = []
    deadline = time.monotonic() + 60
    while not found:
        assert time.monotonic() < deadline
        found = receiver.receive()
    thread.join(60)
    assert found == [long]
    sender.close()
    receiver.close()


def test_a_peer_that_takes_nothing_does_not_hold_the_sender_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "SEND_SILENCE_S", 0.05)
    ours, theirs = socket.socketpair()
    channel = LineChannel(ours)
    channel.send(Abort("x" * (8 << 20)))
    channel.close()
    theirs.close()
