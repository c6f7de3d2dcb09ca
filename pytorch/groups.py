"""Groups of ranks as one of them has them: what is called in which order, and who is told."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue

from weft.agents.collectives.agent import Failed
from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.mailbox import Bytes, GivenUp, NotPassed, PeerLost
from weft.agents.collectives.operation import OperationReport
from weft.agents.collectives.registry import named
from weft.agents.collectives.requests import Request
from weft.agents.drivers.background import Background
from weft.agents.fused.exchange import Event, Exchange
from weft.agents.fused.exchange import Failed as ExchangeFailed
from weft.base.errors import RunError, WeftError
from weft.pytorch.comparing import CALL_BYTES, Comparing
from weft.pytorch.group_agents import Done, GroupAgents
from weft.pytorch.small_collectives import SmallAllgather
from weft.pytorch.switch_watch import SILENT_NS

BROKEN = "broke the protocol"
"""What the agent says of a peer whose messages do not belong to what is under way."""
DOUBT_S = 1.0
"""How long a rank that such a peer was found by waits for what the others call."""
TIMED_OUT = "no end after"
"""What the agent says of a collective for which the time is over."""
ANSWER_S = 2.0
"""How long it may take to find out who is late."""
NO_LIMIT = 1 << 62


@dataclass
class CallPlace:
    """The place of a collective among all of its group, once it is asked for."""

    number: int = -1


@dataclass
class _Asked:
    """A collective that is to be begun, or fails before."""

    begin: Callable[[], None]
    failed: Done


@dataclass
class _Running:
    done: Done
    call: str
    """What this rank calls, in words."""
    place: CallPlace
    by_switches: bool
    has_ended: bool = False
    error: str = ""
    doubt: str = ""
    """What went wrong with it, while it is not known whether all ranks call the same."""
    agrees: bool = False
    """Whether the rank before this one calls the same."""


class Group:
    """A group of ranks as one of them has it: collectives in one order, and messages.

    It is made, and all of it happens, in the network's thread, but for `collective`, `send` and
    `receive`, which may be called in any.

    Args:
        background: the network's thread.
        agents: of the group, in that.
        name: what messages call it,
        name_in_switches: and what the runner does.
        members: the ranks of the run that are its members.
        ask_who_is_late: asks who has not begun a collective, in the network's thread; the answer,
            in words, comes there, too.
        count: takes note of what a collective has lost in switches.
    """

    def __init__(
        self,
        background: Background,
        agents: GroupAgents,
        name: str,
        name_in_switches: str,
        members: Sequence[int],
        ask_who_is_late: Callable[["Group", CallPlace, Callable[[str], None]], None],
        count: Callable[[OperationReport], None],
    ) -> None:
        self._background = background
        self.agents = agents
        self.name = name
        self.name_in_switches = name_in_switches
        self.members = list(members)
        self._ask_who_is_late = ask_who_is_late
        self._count = count
        self.failure = ""
        """Why nothing can be done in it any more, or empty."""
        self.leaving = False
        """Whether nothing more is to be done in it."""
        self._comparing = Comparing(agents, self.fail, lambda: self.failure)
        self._told: Callable[[Event], None] = lambda event: None
        """Who hears of the fused call that runs."""
        self._besides = 0
        """How many collectives were begun that the agent has no part in."""
        self._waiting: deque[_Asked] = deque()
        """Collectives for which there is no room yet, and what comes behind them."""
        self._running: dict[int, _Running] = {}
        self._most = NO_LIMIT
        """How many collectives there can be, as a rank has come to its end,"""
        self._most_why = ""
        """and why."""
        self._next_number = 0
        self._oldest_round: int | None = None
        """The first round for whose sum it waits, when it was last looked at,"""
        self._oldest_since_ns = 0
        """and since when that is so."""
        self._finding_late = False
        """Whether the time of a collective is over, and it is being found out who is late."""

    def collective(
        self, call: str, request: Request, buffer: Array, output: Array | None, done: Done
    ) -> CallPlace:
        """Begin a collective when those before it have left room for it. All ranks ask for the same
        in the same order. Return its place among all.

        Args:
            call: what must be the same on all ranks, in words.
            request: its number is set here.
            buffer, output: as `HostAgent.start` has them; they belong to it until it is done.
        """
        place = CallPlace()

        def begin() -> None:
            number = self._next_number
            kind = named(request.algorithm)
            by_switches = kind is not None and kind.adds
            self._running[number] = _Running(done, call, place, by_switches)
            self._next_number += 1
            self._compare(call, partial(self._agrees, number))
            try:
                self.agents.host.start(
                    replace(request, number=number), buffer, time.monotonic_ns(), output
                )
            except WeftError as error:
                self.fail(str(error))
                self._ended(number, str(error))

        return self._ask(begin, done, place)

    def agree(self, call: str, done: Done) -> CallPlace:
        """Take part in a collective that consists of messages, or of nothing; it has its place in
        the order of all others.

        Args:
            call: what must be the same on all ranks, in words.
            done: called once the rank before this one was seen to call the same.
        """

        def begin() -> None:
            self._besides += 1
            self._compare(call, lambda error: done(error, -1))

        return self._ask(begin, done, CallPlace())

    def gather(
        self, call: str, own: Bytes, gathered: Bytes, timeout_ns: int, done: Done
    ) -> CallPlace:
        """Carry out an Allgather of few bytes; it has its place in the order of all others.

        Args:
            call: what must be the same on all ranks, in words.
            own, gathered: as `SmallAllgather` has them; read when it begins, written at the end.
            timeout_ns: after which it fails.
        """
        place = CallPlace()

        def begin() -> None:
            self._besides += 1
            number, end_ns = self._number, time.monotonic_ns() + timeout_ns
            over = f"{call}: {TIMED_OUT} {timeout_ns / 1e9:g} s"
            key = self.agents.deadlines.add(end_ns, lambda: self._find_late(place, over))

            def compare(along: Bytes, theirs: Bytes, compared: Callable[[str], None]) -> None:
                self._comparing.compare(number, call, compared, along, theirs)

            def ended(error: str) -> None:
                self.agents.deadlines.remove(key)
                done(error, -1)

            SmallAllgather(self.agents, own, gathered, compare, ended)

        return self._ask(begin, done, place)

    @property
    def most_gathered(self) -> int:
        """Return the most bytes that a rank may give to `gather`."""
        return self.agents.mailbox.short_bytes - CALL_BYTES

    def _ask(self, begin: Callable[[], None], done: Done, place: CallPlace) -> CallPlace:
        def ask() -> None:
            place.number = self.begun
            if self.begun >= self._most:
                self.fail(self._most_why)
                done(self._most_why, -1)
                return
            self._waiting.append(_Asked(begin, done))
            self.take_events()

        self._post(ask, done)
        return place

    def who_is_late(self, place: CallPlace) -> str:
        """Return in words who has not begun a collective, or an empty text if that is not known;
        this is for threads other than the network's."""
        found: SimpleQueue[str] = SimpleQueue()

        def ask() -> None:
            if place.number < 0:
                found.put("")
            else:
                self._ask_who_is_late(self, place, found.put)

        with suppress(RunError, Empty):
            self._background.post(ask)
            return found.get(timeout=ANSWER_S)
        return ""

    @property
    def adds(self) -> bool:
        """Whether switches add for it now."""
        return any(running.by_switches for running in self._running.values())

    def waits_for_switches(self, now_ns: int) -> tuple[CallPlace, int] | None:
        """Return the place of the collective for which a sum has not come from the switches for a
        while, if there is one, and the round of that sum. Others may come meanwhile."""
        pair = self.agents.communicator.aggregation
        oldest = None if pair is None else pair.oldest_round
        if oldest != self._oldest_round:
            self._oldest_round, self._oldest_since_ns = oldest, now_ns
        if oldest is None or now_ns < self._oldest_since_ns + SILENT_NS:
            return None
        places = [each.place for each in self._running.values() if each.by_switches]
        return (places[0], oldest) if places else None

    def tree_moved(self, epoch: int) -> None:
        """Take note that switches add in another tree from now on."""
        if self.agents.communicator.aggregation is not None:
            self.agents.communicator.aggregation.move(epoch)

    def send(self, peer: int, tag: int, memory: Bytes, done: Done) -> None:
        """Send a message to a rank of the group."""
        self._post(lambda: self.agents.send(peer, tag, memory, done), done)

    def receive(
        self, source: int | None, tag: int, memory: Bytes, done: Done
    ) -> Callable[[str], None]:
        """Receive a message from a rank of the group, or from any. Return what withdraws the
        receive for a reason, unless the message has come."""
        keys: list[int] = []

        def begin() -> None:
            keys.append(self.agents.receive(source, tag, memory, done))

        def withdraw(reason: str) -> None:
            for key in keys:
                self.agents.mailbox.withdraw(key, reason)

        self._post(begin, done)
        return lambda reason: self._post(lambda: withdraw(reason))

    def begin_fused(
        self, text: str, sends: Sequence[Sequence[int]], expects: Sequence[Sequence[int]],
        told: Callable[[Event], None],
    ) -> None:  # fmt: skip
        """Begin a call of a fused operator, as `Exchange.begin` has it. All ranks call the same, in
        the same order as all other collectives; the one before it has ended.

        Args:
            told: called in the network's thread with each event.
        """

        def failed(error: str, _source: int = -1) -> None:
            told(ExchangeFailed(error))

        def begin() -> None:
            self._told = told
            self._besides += 1
            self._compare(text, lambda error: None)
            try:
                self.agents.exchange_of_all().begin(text, sends, expects, time.monotonic_ns())
            except WeftError as error:
                self.fail(str(error))
                failed(str(error))

        self._ask(begin, failed, CallPlace())

    def in_exchange(self, work: Callable[[Exchange], None]) -> None:
        """Do something with the exchange of fused operators, in the network's thread."""

        def doing() -> None:
            try:
                work(self.agents.exchange_of_all())
            except WeftError as error:
                self.fail(str(error))
            self.take_events()

        self._post(doing)

    def received(self, source: int, index: int) -> Bytes:
        """Return a slice that has come; it stays until the next fused call is begun."""
        assert self.agents.exchange is not None
        return self.agents.exchange.received(source, index)

    def give_up(self, reason: str) -> None:
        """Let all fail here and on all other ranks, for a reason."""

        def giving_up() -> None:
            self.agents.exchange_of_all().disagree(reason)
            self.fail(reason)

        self._post(giving_up)

    def take_events(self) -> None:
        """Tell whoever waits of what has ended."""
        while (event := self.agents.host.next_event()) is not None:
            self._count(event.report)
            error = event.error if isinstance(event, Failed) else ""
            running = self._running.get(event.number)
            if BROKEN in error and running is not None:
                # Most often so, and found before the ranks have compared what they call.
                error += (
                    f"; do all ranks call the same? As collective {event.number} of the group, "
                    f"rank {self.agents.rank} calls {running.call}"
                )
                if not self.failure:
                    self._doubt(running, error)
                    continue
            if TIMED_OUT in error and running is not None and not self.failure:
                running.has_ended = True
                self._find_late(running.place, error)
                continue
            if error:
                self.fail(error)
            self._ended(event.number, error)
        while (mail := self.agents.mailbox.next_event()) is not None:
            if isinstance(mail, PeerLost):
                self.agents.mailbox.disagree(mail.reason)  # others may wait for this rank
            if isinstance(mail, (GivenUp, PeerLost)):
                self.fail(mail.reason)
                continue
            done = self.agents.messages.pop(mail.key)
            if isinstance(mail, NotPassed):
                done(mail.error, -1)
            else:
                done("", mail.source)
        if self.agents.exchange is not None:
            self.agents.exchange.look_after()
            while (news := self.agents.exchange.next_event()) is not None:
                if isinstance(news, ExchangeFailed):
                    self.fail(news.error)
                self._told(news)
        doubts = any(running.doubt for running in self._running.values())
        if self.agents.host.failure and not self.failure and not doubts and not self._finding_late:
            self.fail(self.agents.host.failure)
        self._start()

    def _doubt(self, running: _Running, error: str) -> None:
        """Wait for a moment until all ranks have compared what they call: if that differs, whoever
        sees it says so, and it is the better reason."""
        running.has_ended, running.doubt = True, error
        self._after(DOUBT_S, lambda: self.fail(error))

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something in the network's thread a while later."""

        def over() -> None:
            with suppress(RunError):
                self._post(do)

        timer = threading.Timer(seconds, over)
        timer.daemon = True
        timer.start()

    def _find_late(self, place: CallPlace, error: str) -> None:
        """Let all fail, as the time for a collective is over, once it is known who is late, as far
        as that can be found out."""
        if self._finding_late:
            return
        self._finding_late = True

        def found(late: str) -> None:
            self.fail(f"timeout: {late}; {error}" if late else f"timeout: {error}")

        self._ask_who_is_late(self, place, found)
        self._after(ANSWER_S, lambda: found(""))

    def fail(self, reason: str) -> None:
        """Let all that is under way, and all that is asked for later, fail for a reason."""
        if self.failure:
            return
        self.failure = reason
        self.agents.host.abort(reason, time.monotonic_ns())
        if self.agents.exchange is not None:
            self.agents.exchange.fail(reason)
        self.agents.mailbox.give_up(reason)
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            asked.failed(reason, -1)
        self.take_events()
        for number, running in list(self._running.items()):
            if running.has_ended:
                self._ended(number, running.error or reason)

    def finished(self, rank: int, begun: Mapping[str, int]) -> None:
        """Take note that the program of a rank of the run has come to its end: it takes part in no
        collective that it has not begun."""
        why = f"the program of rank {rank} of the run has come to its end, and takes no part in it"
        most = begun.get(self.name_in_switches, 0)
        if most < self._most:
            self._most, self._most_why = most, why
        self.agents.mailbox.silent(self.members.index(rank), why)
        if self.begun > most:
            self.fail(why)

    def leave(self) -> None:
        """Leave the network. Nothing may be under way."""
        self.failure = self.failure or f"group {self.name} was destroyed"
        self.agents.leave()

    @property
    def begun(self) -> int:
        """Return how many collectives have been asked for, of all kinds."""
        return self._next_number + self._besides + len(self._waiting)

    @property
    def sending(self) -> bool:
        """Return whether something that was sent has not come to its receiver's endpoint."""
        self.agents.mailbox.look_after(time.monotonic_ns())  # nobody is woken up for that alone
        return self.agents.mailbox.sending

    @property
    def busy(self) -> bool:
        """Whether something is under way, here or, of its reduction server, for others."""
        server = self.agents.server
        serving = server is not None and server.running
        return bool(self._waiting or self._running or self.agents.messages or serving)

    def _post(self, work: Callable[[], None], done: Done = lambda error, source: None) -> None:
        """Do something in the network's thread, which looks for events then, or say why that is
        not possible."""

        def doing() -> None:
            if self.failure:
                done(self.failure, -1)
            else:
                work()

        self._background.post(doing)

    def _start(self) -> None:
        while self._waiting and self.agents.host.has_room(self._next_number):
            self._waiting.popleft().begin()

    def _ended(self, number: int, error: str) -> None:
        """Tell of a collective that has ended, once the rank before this one was seen to call the
        same."""
        running = self._running.get(number)
        if running is None:
            return
        running.has_ended, running.error = True, error
        if error or running.agrees or self.failure:
            del self._running[number]
            running.done(error or ("" if running.agrees else self.failure), -1)

    def _agrees(self, number: int, error: str) -> None:
        """Take note that the rank before this one calls the same as collective of a number."""
        running = self._running.get(number)
        if running is None or error:
            return
        running.agrees = True
        if running.has_ended and not running.doubt:
            self._ended(number, "")

    def _compare(self, call: str, compared: Callable[[str], None]) -> None:
        """Compare the collective that begins with what the rank before this one calls."""
        self._comparing.compare(self._number, call, compared)

    @property
    def _number(self) -> int:
        """Return the place of the collective that begins."""
        return self.begun - len(self._waiting) - 1
