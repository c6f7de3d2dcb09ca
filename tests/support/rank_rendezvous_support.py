"""What tests of rank rendezvous share with others."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from weft.agents.drivers.messages import (
    Abort,
    Connected,
    Finished,
    Hello,
    LineChannel,
    Message,
    Peers,
    Prepare,
    ProgressMessage,
    Ready,
    Result,
    Start,
    Verify,
)
from weft.agents.ranks import RankReport

Part = Callable[["Actor"], None]


class Actor:
    """A rank played by a thread."""

    def __init__(self, path: str, rank: int, part: Part) -> None:
        self.rank = rank
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self.channel = LineChannel(connection)
        self.seen: list[Message] = []
        self._unread: list[Message] = []
        self._part = part
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()

    def _play(self) -> None:
        try:
            with contextlib.suppress(SystemExit):
                self._part(self)
        finally:
            self.channel.close()

    def wait(self, kind: type[Message]) -> Message | None:
        """The next message, which must be of that kind; None if the runner has gone."""
        deadline = time.monotonic() + 120
        while not self._unread and not self.channel.closed and time.monotonic() < deadline:
            self._unread += self.channel.receive()
            time.sleep(0.001)
        if not self._unread:
            return None
        message = self._unread.pop(0)
        self.seen.append(message)
        if isinstance(message, Abort) and kind is not Abort:
            raise SystemExit  # of this thread
        assert isinstance(message, kind), message
        return message


def both(*parts: Part) -> Part:
    def play(actor: Actor) -> None:
        for part in parts:
            part(actor)

    return play


def hello(actor: Actor) -> None:
    peer = 1 - actor.rank
    introduction = {f"0:{actor.rank}:{peer}": [actor.rank + 10, 7]}
    actor.channel.send(Hello(actor.rank, 1000 + actor.rank, introduction))
    actor.wait(Peers)
    actor.channel.send(Connected())


def perform(actor: Actor, error: str = "") -> None:
    actor.wait(Prepare)
    actor.channel.send(Ready())
    start = actor.wait(Start)
    assert isinstance(start, Start)
    actor.channel.send(ProgressMessage(40))
    actor.channel.send(Finished(0 if error else 5, error))
    actor.wait(Verify)
    result = RankReport(actor.rank, f"h{actor.rank}", "ring", not error, error, completion_ns=5)
    actor.channel.send(Result(result))
