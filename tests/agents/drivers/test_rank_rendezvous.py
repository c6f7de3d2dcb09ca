"""The runner's meeting with its ranks, with ranks played by threads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.support.operations import gather
from tests.support.rank_rendezvous_support import Actor, both, hello, perform

from weft.agents.drivers.messages import (
    Abort,
    Hello,
    Peers,
    Prepare,
    RankFailed,
    Ready,
    Start,
    Verify,
    decode,
    encode,
)
from weft.agents.drivers.rendezvous import Rendezvous, RunProgress
from weft.base.errors import InputError, ProtocolError, RunError
from weft.base.forks import News


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meeting.sock"


@pytest.fixture
def meeting(path: Path) -> Iterator[Rendezvous]:
    with Rendezvous(path, ["h0", "h1"]) as rendezvous:
        yield rendezvous


@pytest.fixture
def impatient(path: Path) -> Iterator[Rendezvous]:
    """It gives up who stands still for half a second."""
    with Rendezvous(path, ["h0", "h1"], patience_s=0.5) as rendezvous:
        yield rendezvous


def test_ranks_meet_run_and_report(path: Path, meeting: Rendezvous) -> None:
    actors = [Actor(meeting.path, rank, both(hello, perform, perform)) for rank in (0, 1)]
    meeting.gather()
    assert meeting.pids == {0: 1000, 1: 1001}
    assert actors[0].seen == [Peers({"0:1:0": [11, 7]})]
    progress: list[RunProgress] = []
    results = meeting.run(gather("ring", 100), progress.append)
    assert [result.verified for result in results] == [True, True]
    assert progress[0].expected_bytes == [100, 100]
    assert progress[0].fraction == 0.2
    assert progress[-1].fraction == 1.0 and progress[-1].finished_ranks == 2
    meeting.run(gather("ring", 100))
    numbers = [m.operation.request.number for m in actors[1].seen if isinstance(m, Prepare)]
    assert numbers == [0, 1]


def test_a_failed_operation_is_a_result_with_its_error(meeting: Rendezvous) -> None:
    for rank in (0, 1):
        Actor(meeting.path, rank, both(hello, lambda actor: perform(actor, "no peer")))
    meeting.gather()
    results = meeting.run(gather("ring", 100))
    assert [result.error for result in results] == ["no peer", "no peer"]


def test_a_rank_that_does_not_come_is_named(impatient: Rendezvous) -> None:
    meeting = impatient
    said = threading.Event()

    def comes(actor: Actor) -> None:
        actor.channel.send(Hello(0, 1000, {}))
        said.set()
        actor.wait(Abort)

    Actor(meeting.path, 0, comes)
    assert said.wait(120)
    with pytest.raises(RunError, match=r"^rank 1 \(host h1\): no answer .* connecting to the rend"):
        meeting.gather()


def test_a_rank_that_goes_away_is_named_and_the_others_told(meeting: Rendezvous) -> None:
    def leaves(actor: Actor) -> None:
        hello(actor)
        actor.wait(Prepare)

    def stays(actor: Actor) -> None:
        hello(actor)
        actor.wait(Prepare)
        actor.channel.send(Ready())
        actor.wait(Abort)

    stayed = Actor(meeting.path, 0, stays)
    Actor(meeting.path, 1, leaves)
    meeting.gather()
    with pytest.raises(RunError, match=r"rank 1 \(host h1, pid 1001\).*closed.*preparing"):
        meeting.run(gather("ring", 100))
    stayed.thread.join(120)
    assert isinstance(stayed.seen[-1], Abort)


def test_a_rank_that_hangs_is_named_at_the_deadline(impatient: Rendezvous) -> None:
    meeting = impatient

    def hangs(actor: Actor) -> None:
        hello(actor)
        actor.wait(Prepare)
        actor.channel.send(Ready())
        actor.wait(Start)
        actor.wait(Abort)

    Actor(meeting.path, 0, both(hello, perform))
    Actor(meeting.path, 1, hangs)
    meeting.gather()
    with pytest.raises(RunError, match=r"rank 1 \(host h1, pid 1001\): no answer.*Allgather by"):
        meeting.run(gather("ring", 100, timeout_ns=100_000_000))


def test_the_fault_of_a_rank_is_passed_on(meeting: Rendezvous) -> None:
    def faulty(actor: Actor) -> None:
        hello(actor)
        actor.channel.send(RankFailed("port 4791 is in use"))

    Actor(meeting.path, 0, both(hello, perform))
    Actor(meeting.path, 1, faulty)
    with pytest.raises(RunError, match=r"rank 1 .*port 4791 is in use"):
        meeting.gather()
        meeting.run(gather("ring", 100))


class Exits:
    """An exit source with one dead rank."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def fileno(self) -> int:
        return self._ours.fileno()

    def poll(self) -> Mapping[int, News]:
        return {1: News(1, 77, -9)}

    def last_words(self, rank: int) -> str:
        return "about to do something"


def test_how_a_process_ended_is_said(path: Path) -> None:
    with (
        Rendezvous(path, ["h0", "h1"], exits=Exits()) as meeting,
        pytest.raises(RunError, match=r"(?s)rank 1 \(host h1\).*SIGKILL.*about to do something"),
    ):
        meeting.gather()


def test_the_socket_is_removed_and_a_bad_path_is_refused(path: Path) -> None:
    with Rendezvous(path, ["h0"]):
        assert path.exists()
    assert not path.exists()
    with pytest.raises(InputError, match="nowhere"):
        Rendezvous(path.parent / "nowhere" / "socket", ["h0"])


def test_messages_survive_the_wire() -> None:
    for message in (Hello(1, 2, {"3": [4, 5]}), Verify(), Start(1 << 62), Abort("é\n")):
        line = encode(message)
        assert line.count(b"\n") == 1
        assert decode(line) == message


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"nonsense", b'{"kind": "nothing"}', b'{"kind": "start", "x": 1}',
             b'{"kind": "start"}']
)  # fmt: skip
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line)
