"""The processes of a program on the hosts: they are started, listened to, served, and ended.

One loop does all of it, so the switches have one user. It reads what processes print, labels it,
and passes it on; it answers what ranks ask for; and it notices processes that end.
"""

import codecs
import os
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TextIO

import msgspec

from weft.base.children import how_it_ended
from weft.base.errors import InputError
from weft.base.lines import Lines
from weft.experiments.families.programs.processes import ENDED_S, RankServer
from weft.experiments.families.programs.silence import Silences
from weft.pytorch.launch import reason_path
from weft.pytorch.messages import (
    AllDone,
    Begun,
    DropGroup,
    GoOn,
    GroupMade,
    Here,
    MakeGroup,
    Message,
    RankEnded,
    RankFinished,
    Recorded,
    Silent,
    Stepped,
    WhoIsLate,
    decode,
    encode,
)
from weft.topo.worlds.processors import CpuTimes, read_cpu_times

GRACE_S = 15.0
"""How long the other ranks may go on after one has failed."""
END_S = 5.0
"""How long a process that is told to end may take before it is killed."""
LISTEN_S = 2.0
"""How long what ranks print is read after the last of them has ended."""
LOOK_S = 0.2
STOPPED_S = 6.0
"""A process that has been stopped (SIGSTOP) for so long is lost to the others."""
MOST_REASON = 300
"""The most characters of an exception that the others are told."""
MOST_SHOWN = 300
"""The most characters of a line that are shown for what a rank printed last."""
KEPT_LINES = 20
"""How many of a rank's last lines are kept to say why it failed."""
MOST_LINE = 1 << 14
"""The most characters of a line; of a longer one each so many are a line."""


@dataclass
class Rank:
    """A rank's process, and what is known of it."""

    rank: int
    host: str
    lines: Lines[Any] | None = None
    """What it and the runner say to each other."""
    recorded: Path | None = None
    """Where it has written what it recorded, once it has."""
    status: int | None = None
    last_lines: list[str] = field(default_factory=list)
    pipes: list["_Printed"] = field(default_factory=list)
    pid: int | None = None
    """Its process, once it has said that it is there."""
    stopped_s: float | None = None
    """Since when the process is seen to be stopped, if it is."""
    is_lost: bool = False
    """Whether the others were told that it is stopped."""

    @property
    def is_heard(self) -> bool:
        """Return whether it may print more."""
        return any(pipe.is_open for pipe in self.pipes)


class Ranks:
    """All ranks of one program.

    Args:
        path: of the Unix socket at which ranks find the runner.
        server: forks their processes.
        make_group, drop_group: what is done when a rank asks for it; the second is told the name
            and the rank.
        silences: is told what ranks say of what they wait for, and says what to say to whom.
        output, errors: where labelled lines go.
        limit_s: how long the program may take, restarts included.
        end_s: when that is over, in seconds of CLOCK_MONOTONIC.
        look: called now and then; it may raise.
        stepped: called with a rank and its step when it has ended a step and waits; it returns
            whether the rank may go on.
        grace_s: how long the other ranks may go on after one has failed.
    """

    def __init__(
        self,
        path: Path,
        server: RankServer,
        silences: Silences,
        make_group: Callable[[MakeGroup], GroupMade],
        drop_group: Callable[[str, int], None],
        output: TextIO | None,
        errors: TextIO | None,
        limit_s: float,
        end_s: float,
        look: Callable[[], None],
        stepped: Callable[[int, int], bool],
        grace_s: float = GRACE_S,
    ) -> None:
        self._server = server
        self._silences = silences
        self._folder = path.parent
        self._make_group = make_group
        self._drop_group = drop_group
        self._files = {"out": output, "err": errors}
        self._limit_s = limit_s
        self.end_s = end_s
        self._grace_s = grace_s
        self._look = look
        self._stepped = stepped
        self.selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        os.chmod(path, 0o600)
        self._listener.listen(128)
        self._listener.setblocking(False)
        self.selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._newcomers: list[Lines[Any]] = []
        self.ranks: list[Rank] = []
        self._present = 0
        """How many ranks have said that they are there."""
        self.first_failed: Rank | None = None
        self._failed_s: float | None = None
        self.notes: list[str] = []
        """Why ranks were ended, if they were."""
        self.evidence: tuple[CpuTimes, CpuTimes] | None = None
        """What the machine's processors had done when the last rank had come, and when all had
        ended; None until then."""
        self._begun: CpuTimes | None = None

    def start(self, hosts: Sequence[str], begin: Callable[[int], Sequence[IO[bytes]]]) -> None:
        """Start a process on each host; ``begin`` returns what it prints and complains."""
        for rank, host in enumerate(hosts):
            started = Rank(rank, host)
            self.ranks.append(started)
            started.pipes += map(partial(_Printed, self, started), ("out", "err"), begin(rank))

    def run(self) -> None:
        """Serve all ranks until the last one has ended."""
        start = read_cpu_times()
        self._serve()
        self.evidence = self._begun or start, read_cpu_times()

    def _serve(self) -> None:
        last_s = None
        while any(rank.status is None or rank.is_heard for rank in self.ranks):
            if last_s is None and all(rank.status is not None for rank in self.ranks):
                last_s = time.monotonic()
            if last_s is not None and time.monotonic() > last_s + LISTEN_S:
                return  # children of a rank that outlive it may hold its pipes
            for key, _ in self.selector.select(LOOK_S):
                key.data()
            self._look()
            self._reap()
            now_s = time.monotonic()
            self._look_for_stopped(now_s)
            self._say_all(self._silences.due(now_s))
            if now_s > self.end_s:
                self._note(f"the program was ended after {self._limit_s:g} s (--timeout)")
                self._end_all()
            elif self._failed_s is not None and self._all_left_are_stopped():
                self._note("ranks whose processes were stopped were ended")
                self._end_all()
            elif self._failed_s is not None and now_s > self._failed_s + self._grace_s:
                if self._grace_s:
                    self._note(
                        f"ranks that still ran {self._grace_s:g} s after the first failure were "
                        "ended"
                    )
                self._end_all()

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def close(self) -> None:
        """End what still runs, and close everything."""
        self._end_all()
        for rank in self.ranks:
            for pipe in rank.pipes:
                pipe.close()
            if rank.lines is not None:
                rank.lines.close()
        for each in self._newcomers:
            each.close()
        self._listener.close()
        self.selector.close()

    def _end_all(self) -> None:
        left = {rank.rank for rank in self.ranks if self._server.status(rank.rank) is None}
        for rank in left:
            self._server.signal(rank, signal.SIGTERM)
            if self.ranks[rank].stopped_s is not None:
                self._server.signal(rank, signal.SIGKILL)
        for rank in left - self._server.ended(left, END_S):
            self._server.signal(rank, signal.SIGKILL)
        self._server.ended(left, ENDED_S)

    def _reap(self) -> None:
        for rank in self.ranks:
            if rank.status is not None or (status := self._server.status(rank.rank)) is None:
                continue
            rank.status = status
            if status != 0 and self.first_failed is None:
                self.first_failed, self._failed_s = rank, time.monotonic()
            if rank.recorded is None:
                for lines in rank.pipes:
                    lines.read_all()
                self._tell_all(self._ended(rank))
        self._tell_if_done()

    def _ended(self, rank: Rank) -> RankEnded:
        """Return what the others are told of a rank that has ended too early."""
        reason = reason_of(self._folder, rank.rank)[:MOST_REASON] if rank.status else ""
        how = f"on host {rank.host} {how_it_ended(rank.status or 0)}"
        return RankEnded(rank.rank, f"{how}: {reason}" if reason else how)

    def _look_for_stopped(self, now_s: float) -> None:
        """Tell all ranks of one whose process has been stopped for long: it answers nothing, but
        does not end, either."""
        for rank in self.ranks:
            if rank.pid is None or rank.status is not None or not _is_stopped(rank.pid):
                rank.stopped_s = None
                continue
            if rank.stopped_s is None:
                rank.stopped_s = now_s
            if now_s >= rank.stopped_s + STOPPED_S and not rank.is_lost:
                rank.is_lost = True
                how = f"on host {rank.host} has been stopped (SIGSTOP) for {STOPPED_S:g} s"
                self._tell_all(RankEnded(rank.rank, how))

    def _all_left_are_stopped(self) -> bool:
        left = [rank for rank in self.ranks if rank.status is None]
        return bool(left) and all(rank.is_lost and rank.stopped_s is not None for rank in left)

    def _say_all(self, said: Sequence[tuple[int, Message]]) -> None:
        for number, message in said:
            self._tell(self.ranks[number], message)

    def _tell_if_done(self) -> None:
        if all(rank.recorded is not None or rank.status is not None for rank in self.ranks):
            self._tell_all(AllDone())

    def _tell_all(self, message: Message) -> None:
        for rank in self.ranks:
            self._tell(rank, message)

    def _tell(self, rank: Rank, message: Message) -> None:
        if rank.lines is not None:
            rank.lines.send(message)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            newcomer: Lines[Any] = Lines(self._listener.accept()[0], encode, _decoded)
            self._newcomers.append(newcomer)
            self.selector.register(newcomer, selectors.EVENT_READ, lambda: self._meet(newcomer))

    def _meet(self, newcomer: Lines[Any]) -> None:
        """Take a rank's first words."""
        said = newcomer.receive()
        if not said and not newcomer.closed:
            return
        self.selector.unregister(newcomer)
        self._newcomers.remove(newcomer)
        match said:
            case [Here(rank=number), *more] if 0 <= number < len(self.ranks):
                rank = self.ranks[number]
            case _:
                newcomer.close()
                return
        rank.lines = newcomer
        # The rank may have a PID namespace of its own; this is its number here.
        size = struct.calcsize("3i")
        credentials = newcomer.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        rank.pid = struct.unpack("3i", credentials)[0]
        self._present = sum(each.pid is not None for each in self.ranks)
        if self._present == len(self.ranks) and self._begun is None:
            self._begun = read_cpu_times()
        self.selector.register(newcomer, selectors.EVENT_READ, lambda: self._hear(rank, newcomer))
        for other in self.ranks:
            if other.status is not None and other.recorded is None:
                self._tell(rank, self._ended(other))
        for message in more:
            self._take(rank, message)

    def _hear(self, rank: Rank, lines: Lines[Any]) -> None:
        for message in lines.receive():
            self._take(rank, message)
        if lines.closed:
            self.selector.unregister(lines)
            lines.close()
            if rank.lines is lines:  # no newer one
                rank.lines = None

    def _take(self, rank: Rank, message: Message | None) -> None:
        match message:
            case MakeGroup() as asked:
                self._tell(rank, self._make_group(asked))
            case (Silent() | WhoIsLate() | Begun()) as said:
                self._say_all(self._silences.hear(rank.rank, said, time.monotonic()))
            case DropGroup(name=name):
                self._drop_group(name, rank.rank)
            case Stepped(step=step) if self._stepped(rank.rank, step):
                self._tell(rank, GoOn(step))
            case Recorded(path=path, begun=begun):
                rank.recorded = Path(path)
                self._tell_all(RankFinished(rank.rank, begun))
                self._tell_if_done()

    def say(self, rank: Rank, name: str, line: str) -> None:
        """Pass on a line that a rank has printed."""
        rank.last_lines = [*rank.last_lines[1 - KEPT_LINES :], line]
        file = self._files[name]
        if file is not None:
            file.write(f"[{rank.rank}] {line}\n")
            file.flush()


def reason_of(folder: Path, rank: int) -> str:
    """Return which exception has ended a rank's program, if one has."""
    try:
        return reason_path(folder, rank).read_text(errors="replace").strip()
    except OSError:
        return ""


def failure(rank: Rank, reason: str) -> str:
    """Return how a rank has ended.

    Args:
        reason: the exception that has ended its program, or empty: what it printed last is not why
            it ended, but may help.
    """
    last = next((line.strip() for line in reversed(rank.last_lines) if line.strip()), "")
    said = f": {reason}" if reason else f"; it printed last: {last[:MOST_SHOWN]}" if last else ""
    return f"rank {rank.rank} (host {rank.host}) {how_it_ended(rank.status or 0)}{said}"


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (proc(5): state T)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[:1] == ["T"]


def _decoded(line: bytes) -> Message | None:
    try:
        return decode(line)
    except (msgspec.MsgspecError, InputError):
        return None


class LineCutter:
    """Cuts text that comes in parts into lines, each part once, however long a line is.

    Args:
        say: called with each line, or with so much of one that is longer than `MOST_LINE`.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        """What there is of the line that has not ended; no more than `MOST_LINE`."""

    def take(self, chunk: bytes) -> None:
        """Take what has come; nothing is the end."""
        text = self._held + self._decoder.decode(chunk, final=not chunk)
        *lines, rest = map(_pieces, text.split("\n"))
        for *pieces, last in lines:
            self._say_all([*pieces, last.removesuffix("\r")])
        *pieces, self._held = rest
        self._say_all(pieces)
        if not chunk and self._held:
            self._say(self._held)
            self._held = ""

    def _say_all(self, texts: Sequence[str]) -> None:
        for text in texts:
            self._say(text)


def _pieces(text: str) -> list[str]:
    return [text[first : first + MOST_LINE] for first in range(0, len(text), MOST_LINE)] or [""]


class _Printed:
    """What a process prints to one of its streams, read line by line."""

    def __init__(self, ranks: Ranks, rank: Rank, name: str, pipe: IO[bytes]) -> None:
        self._selector, self._pipe = ranks.selector, pipe
        self._cutter = LineCutter(lambda line: ranks.say(rank, name, line))
        self.is_open = True
        """Whether more may come."""
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, selectors.EVENT_READ, self.read)

    def read_all(self) -> None:
        """Take all that there is, for a while at most."""
        end_s = time.monotonic() + LOOK_S
        while self.is_open and time.monotonic() < end_s and self.read():
            pass

    def read(self) -> bool:
        """Take what there is, and return whether there was anything."""
        try:
            chunk = os.read(self._pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        self._cutter.take(chunk)
        if not chunk:
            self._selector.unregister(self._pipe)
            self.is_open = False
        return bool(chunk)

    def close(self) -> None:
        """Read no more."""
        self._pipe.close()
