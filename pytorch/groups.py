"""Groups of ranks of one process: their communicators on the network that the process shares."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from weft.agents.collectives.agent import Failed, HostAgent
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.fixed_point import SATURATED, FixedPoint
from weft.agents.collectives.mailbox import Bytes, GivenUp, Mailbox, NotPassed, PeerLost
from weft.agents.collectives.operation import OperationReport
from weft.agents.collectives.requests import Request
from weft.agents.collectives.symmetric import SymmetricMemory
from weft.agents.datagrams import ipv4
from weft.agents.drivers.background import Background
from weft.agents.fused.exchange import LEAST_BYTES, LEAST_FLAGS, Event, Exchange
from weft.agents.fused.exchange import Failed as ExchangeFailed
from weft.agents.participant import Part
from weft.agents.servers.server import ReductionServer
from weft.agents.transport.endpoint import Endpoint
from weft.base.errors import InputError, RunError, WeftError
from weft.pytorch.liveness import Liveness
from weft.pytorch.messages import (
    AskBegun,
    Begun,
    DropGroup,
    GroupLost,
    GroupMade,
    Late,
    RankEnded,
    RankFinished,
    RunnerLink,
    Settings,
    Silent,
    TreeMoved,
    WhoIsLate,
)
from weft.pytorch.switch_watch import SILENT_NS, SwitchWatch

CALL_BYTES = 192
CALL_TAG = -(1 << 31)
"""The size and the tag of the messages by which ranks compare what they call."""
FUSED_TAG = CALL_TAG + 1
"""The tag of what ranks say to each other of the calls of fused operators."""
BROKEN = "broke the protocol"
"""What the agent says of a peer whose messages do not belong to what is under way."""
DOUBT_S = 1.0
"""How long a rank that such a peer was found by waits for what the others call."""
TIMED_OUT = "no end after"
"""What the agent says of a collective for which the time is over."""
ANSWER_S = 2.0
"""How long it may take to find out who is late."""
NO_LIMIT = 1 << 62
SENT_S = 5.0
"""How long a rank that has come to its end waits until what it has sent has come."""
LOOK_S = 0.01

Done = Callable[[str, int], None]
"""Called in the network's thread when an operation ends: the error, or an empty text; and of a
receive the rank that the message came from."""
Introduction = dict[str, dict[str, list[int]]]
"""What a rank tells each other rank of a group: its queue pairs by what they are for."""


@dataclass
class _Asked:
    call: str
    request: Request
    buffer: Array
    output: Array | None
    done: Done
    place: "Place"


@dataclass
class Place:
    """The place of a collective among all of its group, once it is asked for."""

    number: int = -1


@dataclass
class _Agreed:
    """A collective that consists of messages, or of nothing: the ranks compare what they call."""

    call: str
    done: Done
    place: Place


@dataclass
class _Fused:
    """A call of a fused operator that is to be begun."""

    text: str
    begin: Callable[[], None]


@dataclass
class _Running:
    done: Done
    call: str
    """What this rank calls, in words."""
    place: Place
    by_switches: bool
    has_ended: bool = False
    error: str = ""
    doubt: str = ""
    """What went wrong with it, while it is not known whether all ranks call the same."""
    agrees: bool = False
    """Whether the rank before this one calls the same."""


class Network:
    """The network of one process: an endpoint in the fabric and the groups that share it.

    Args:
        settings: of this process.

    Raises:
        MachineError: the sockets cannot be made, or the runner does not listen.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.endpoint = Endpoint(
            ipv4(settings.addresses[settings.rank]),
            settings.path_mtu,
            settings.rate_bps,
            seed=settings.seed * len(settings.addresses) + settings.rank,
            options=settings.transport,
            epoch=settings.epoch,
        )
        self._groups: list[Group] = []
        self.failure = ""
        """Why nothing works any more, or empty."""
        self._left: dict[str, int] = {}
        """How many collectives were begun in groups that this process has left."""
        self.ended = ""
        """Which rank of the run has ended before its time, if any, in words."""
        self.fixed_point = FixedPoint()
        """What blocks lost to the fixed point of switches, in all groups,"""
        self.blocks_saturated = 0
        """and in how many a sum did not fit into their 32 bits."""
        self._told_late: dict[int, Callable[[str], None]] = {}
        """Who waits to be told who is late, by the key of the question."""
        self._next_key = 0
        self.background = Background(
            self.endpoint, settings.interface, self._attend, self._fail_all
        )
        self.background.agents.add(
            SwitchWatch(
                self.endpoint, lambda: any(group.adds for group in self._groups), self._look
            )
        )
        self._liveness = Liveness(self.endpoint, settings.interface)
        self.background.agents.add(self._liveness)
        self.runner = RunnerLink(settings, self._heard)
        self.background.start()

    def call(self, work: Callable[[], object]) -> object:
        """Do something in the network's thread, and return what it returns, or raise what it
        raises."""
        over = threading.Event()
        found: list[object] = []
        raised: list[BaseException] = []

        def doing() -> None:
            try:
                found.append(work())
            except BaseException as error:
                raised.append(error)
            over.set()

        self.background.post(doing)
        over.wait()
        if raised:
            raise raised[0]
        return found[0]

    def make_group(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        made: GroupMade,
        *,
        serves: bool,
        subsets: Sequence[Sequence[int]] = (),
    ) -> "Group":
        """Make a group of ranks of the run; it must be connected.

        Args:
            rank: this process's rank in the group.
            members: ranks of the run, in the order of the group's own.
            made: what the switches hold for it.
            serves: whether each rank's host is a reduction server for it, too.
            subsets: the group's ranks that are members of each multicast group; by default all.
        """
        addresses = [ipv4(self.settings.addresses[member]) for member in members]

        def make() -> Group:
            group = Group(self, name, rank, members, addresses, made, serves, subsets)
            self._groups.append(group)
            self.background.driver.join_groups()
            return group

        group = self.call(make)
        assert isinstance(group, Group)
        return group

    def drop_group(self, group: "Group") -> None:
        """Forget a group, once what is under way in it has ended. When all of its ranks have done
        so, the switches forget it, too."""

        def drop() -> None:
            group.leaving = True
            self._attend()

        try:
            self.call(drop)
        except RunError:
            return

    def _let_go(self, group: "Group") -> None:
        """Let a group go in which nothing is under way any more."""
        self._groups.remove(group)
        self._left[group.name_in_switches] = group.begun
        group.leave()
        self.background.driver.join_groups()
        self.runner.say(DropGroup(group.name_in_switches))

    def finish(self) -> dict[str, int]:
        """Wait until what was sent has come, for a while at most, and return how many collectives
        were begun in each group, by what the runner calls it."""
        end_s = time.monotonic() + SENT_S
        while self.call(lambda: any(group.sending for group in self._groups)):
            if time.monotonic() > end_s:
                break
            time.sleep(LOOK_S)
        found = self.call(
            lambda: {
                **self._left, **{group.name_in_switches: group.begun for group in self._groups}
            }
        )  # fmt: skip
        assert isinstance(found, dict)
        return found

    def ask_who_is_late(self, group: "Group", place: Place, told: Callable[[str], None]) -> None:
        """Ask who has not begun a collective, in the network's thread; the answer, in words, comes
        there, too."""
        self._next_key += 1
        self._told_late[self._next_key] = told
        self.runner.say(
            WhoIsLate(group.name_in_switches, group.members, place.number, self._next_key)
        )

    def _look(self, now_ns: int) -> None:
        """Tell the runner of sums of switches that do not come."""
        for group in self._groups:
            waits = group.waits_for_switches(now_ns)
            if waits is not None:
                place, first = waits
                self.runner.say(Silent(group.name_in_switches, group.members, place.number, first))

    def count(self, report: OperationReport) -> None:
        """Count what a collective has lost in switches."""
        self.fixed_point += report.fixed_point
        self.blocks_saturated += report.blocks_saturated

    def statistics(self) -> dict[str, int]:
        """Return the counters of transport and driver; and those of fixed point, if something was
        lost to it, and of sums that did not fit."""
        return {
            **asdict(self.endpoint.statistics), **self.background.driver.counters(),
            **self.fixed_point.statistics(),
            **({SATURATED: self.blocks_saturated} if self.blocks_saturated else {}),
        }  # fmt: skip

    def close(self) -> None:
        """End the thread and close all sockets."""
        self.background.close()
        self._liveness.close()
        self.runner.close()

    def _attend(self) -> None:
        for group in list(self._groups):
            group.take_events()
            if group.leaving and not group.busy:
                self._let_go(group)

    def _fail_all(self, reason: str) -> None:
        self.failure = reason
        for group in list(self._groups):
            group.fail(reason)

    def _heard(self, message: object) -> None:
        """Take what the runner says, in the thread that reads it."""

        def take() -> None:
            if message is None:
                self._fail_all("the runner is gone")
                return
            if isinstance(message, RankFinished):
                for group in list(self._groups):
                    if message.rank in group.members:
                        group.finished(message.rank, message.begun)
                return
            if isinstance(message, Late):
                told = self._told_late.pop(message.key, None)
                if told is not None:
                    told(message.text)
                return
            if isinstance(message, (AskBegun, GroupLost, TreeMoved)):
                for group in [*self._groups]:
                    if group.name_in_switches != message.name:
                        continue
                    if isinstance(message, GroupLost):
                        group.fail(message.reason)
                    elif isinstance(message, TreeMoved):
                        group.tree_moved(message.epoch)
                    else:
                        self.runner.say(Begun(message.name, group.begun))
                if isinstance(message, AskBegun) and message.name in self._left:
                    self.runner.say(Begun(message.name, self._left[message.name]))
                return
            assert isinstance(message, RankEnded)
            lost = f"lost rank {message.rank} of the run: its process {message.how}"
            self.ended = self.ended or lost
            for group in list(self._groups):
                if message.rank in group.members:
                    group.fail(lost)

        try:
            self.background.post(take)
        except RunError:
            return


class Group:
    """A group of ranks as one of them has it: collectives in one order, and messages.

    It is made, and all of it happens, in the network's thread, but for `collective`, `send` and
    `receive`, which may be called in any.
    """

    def __init__(
        self,
        network: Network,
        name: str,
        rank: int,
        members: Sequence[int],
        addresses: Sequence[int],
        made: GroupMade,
        serves: bool,
        subsets: Sequence[Sequence[int]],
    ) -> None:
        self._network = network
        self.name = name
        self.name_in_switches = made.name
        """What the runner calls it."""
        self.rank = rank
        self.size = len(addresses)
        self.members = list(members)
        """The ranks of the run that are its members."""
        self.failure = ""
        """Why nothing can be done in it any more, or empty."""
        self.leaving = False
        """Whether nothing more is to be done in it."""
        endpoint = network.endpoint
        others = [other for other in range(self.size) if other != rank]
        servers = list(addresses) if serves else []
        self._communicator = Communicator(
            endpoint,
            rank,
            addresses,
            [
                ipv4(group) if not subsets or rank in subsets[number] else None
                for number, group in enumerate(made.groups)
            ],
            others,
            servers,
            made.job,
            turns_from_next=True,
            epoch=made.epoch,
        )
        self._agent = HostAgent(endpoint, self._communicator)
        self._mailbox = Mailbox(endpoint, rank, addresses)
        self._server: ReductionServer | None = None
        if serves:
            self._server = ReductionServer(endpoint)
            self._server.add_job(0, rank, addresses, servers)
        self._parts: list[Part] = [
            part for part in (self._agent, self._mailbox, self._server) if part is not None
        ]
        for part in self._parts:
            network.background.agents.add(part)
        self._exchange: Exchange | None = None
        """What fused operators use; it is made when the first one is called."""
        self._told: Callable[[Event], None] = lambda event: None
        """Who hears of the fused call that runs."""
        self._besides = 0
        """How many collectives were begun that the agent has no part in."""
        self._waiting: deque[_Asked | _Agreed | _Fused] = deque()
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
        self._messages: dict[int, Done] = {}
        self._next_key = 0
        self._lock = threading.Lock()

    def introduction(self) -> Introduction:
        """Return what the other ranks must be told, by their number in the group."""
        known = {
            "rank": self._communicator.introduction(),
            "mail": self._mailbox.members.introduction(),
        }
        if self._server is not None:
            known["server"] = self._server.jobs[0].members.introduction()
        return {
            what: {str(peer): [*words] for peer, words in each.items()}
            for what, each in known.items()
        }

    def connect(self, introductions: Sequence[Introduction]) -> None:
        """Connect all queue pairs, given what every rank of the group says.

        Raises:
            InputError: something is lacking.
        """
        own, size = str(self.rank), self.size

        def said(by: int, what: str, to: int) -> list[int]:
            return introductions[by][what][str(to)]

        try:
            ranks = {
                peer: said(peer, "rank", self.rank)
                if peer < size
                else said(peer - size, "server", self.rank)
                for peer in self._communicator.queue_pairs
            }
            mail = {
                peer: said(peer, "mail", self.rank) for peer in self._mailbox.members.queue_pairs
            }
            self._communicator.connect(ranks)
            self._mailbox.members.connect(mail)
            if self._server is not None:
                server = self._server.jobs[0].members
                me = size + self.rank
                server.connect(
                    {
                        peer: said(peer, "rank", me)
                        if peer < size
                        else said(peer - size, "server", me)
                        for peer in server.queue_pairs
                    }
                )
        except (KeyError, IndexError) as error:
            raise InputError(f"group {self.name}: a rank did not name {own}: {error}") from error

    def collective(
        self, call: str, request: Request, buffer: Array, output: Array | None, done: Done
    ) -> Place:
        """Begin a collective when those before it have left room for it. All ranks ask for the same
        in the same order. Return its place among all.

        Args:
            call: what must be the same on all ranks, in words.
            request: its number is set here.
            buffer, output: as `HostAgent.start` has them; they belong to it until it is done.
        """

        return self._ask(_Asked(call, request, buffer, output, done, Place()))

    def agree(self, call: str, done: Done) -> Place:
        """Take part in a collective that consists of messages, or of nothing; it has its place in
        the order of all others.

        Args:
            call: what must be the same on all ranks, in words.
            done: called once the rank before this one was seen to call the same.
        """
        return self._ask(_Agreed(call, done, Place()))

    def _ask(self, asked: _Asked | _Agreed) -> Place:
        def begin() -> None:
            asked.place.number = self.begun
            if self.begun >= self._most:
                self.fail(self._most_why)
                asked.done(self._most_why, -1)
                return
            self._waiting.append(asked)
            self._start()

        self._post(begin, asked.done)
        return asked.place

    def who_is_late(self, place: Place) -> str:
        """Return in words who has not begun a collective, or an empty text if that is not known;
        this is for threads other than the network's."""
        heard = threading.Event()
        found: list[str] = []

        def told(text: str) -> None:
            found.append(text)
            heard.set()

        def ask() -> None:
            if place.number < 0:
                told("")
            else:
                self._network.ask_who_is_late(self, place, told)

        with suppress(RunError):
            self._network.background.post(ask)
            heard.wait(ANSWER_S)
        return "".join(found)

    @property
    def adds(self) -> bool:
        """Whether switches add for it now."""
        return any(running.by_switches for running in self._running.values())

    def waits_for_switches(self, now_ns: int) -> tuple[Place, int] | None:
        """Return the place of the collective for which a sum has not come from the switches for a
        while, if there is one, and the round of that sum. Others may come meanwhile."""
        pair = self._communicator.aggregation
        oldest = None if pair is None else pair.oldest_round
        if oldest != self._oldest_round:
            self._oldest_round, self._oldest_since_ns = oldest, now_ns
        if oldest is None or now_ns < self._oldest_since_ns + SILENT_NS:
            return None
        places = [each.place for each in self._running.values() if each.by_switches]
        return (places[0], oldest) if places else None

    def tree_moved(self, epoch: int) -> None:
        """Take note that switches add in another tree from now on."""
        if self._communicator.aggregation is not None:
            self._communicator.aggregation.move(epoch)

    def send(self, peer: int, tag: int, memory: Bytes, done: Done) -> None:
        """Send a message to a rank of the group."""

        def begin() -> None:
            self._mailbox.send_to(self._key(done), peer, tag, memory, time.monotonic_ns())
            self.take_events()

        self._post(begin, done)

    def receive(
        self, source: int | None, tag: int, memory: Bytes, done: Done
    ) -> Callable[[str], None]:
        """Receive a message from a rank of the group, or from any. Return what withdraws the
        receive for a reason, unless the message has come."""
        keys: list[int] = []

        def begin() -> None:
            keys.append(self._key(done))
            self._mailbox.receive_from(keys[0], source, tag, memory, time.monotonic_ns())
            self.take_events()

        def withdraw(reason: str) -> None:
            for key in keys:
                self._mailbox.withdraw(key, reason)
            self.take_events()

        self._post(begin, done)
        return lambda reason: self._post(lambda: withdraw(reason), lambda error, source: None)

    def begin_fused(
        self, text: str, sends: Sequence[Sequence[int]], expects: Sequence[Sequence[int]],
        told: Callable[[Event], None],
    ) -> None:  # fmt: skip
        """Begin a call of a fused operator, as `Exchange.begin` has it. All ranks call the same, in
        the same order as all other collectives; the one before it has ended.

        Args:
            told: called in the network's thread with each event.
        """

        def begin() -> None:
            if self.begun >= self._most:
                self.fail(self._most_why)
            if self.failure:
                told(ExchangeFailed(self.failure))
                return
            self._told = told
            self._waiting.append(_Fused(text, begun))
            self.take_events()

        def begun() -> None:
            try:
                self._exchange_of_all().begin(text, sends, expects, time.monotonic_ns())
            except WeftError as error:
                self.fail(str(error))
                told(ExchangeFailed(str(error)))

        def failed(error: str, _source: int) -> None:
            told(ExchangeFailed(error))

        self._post(begin, failed)

    def in_exchange(self, work: Callable[[Exchange], None]) -> None:
        """Do something with the exchange of fused operators, in the network's thread."""

        def doing() -> None:
            try:
                work(self._exchange_of_all())
            except WeftError as error:
                self.fail(str(error))
            self.take_events()

        self._post(doing, lambda error, source: None)

    def received(self, source: int, index: int) -> Bytes:
        """Return a slice that has come; it stays until the next fused call is begun."""
        assert self._exchange is not None
        return self._exchange.received(source, index)

    def give_up(self, reason: str) -> None:
        """Let all fail here and on all other ranks, for a reason."""

        def giving_up() -> None:
            self._exchange_of_all().disagree(reason)
            self.fail(reason)

        self._post(giving_up, lambda error, source: None)

    def _exchange_of_all(self) -> Exchange:
        """Return the exchange between all ranks, which connect when the first call is begun."""
        if self._exchange is None:
            addresses = self._communicator.addresses
            memory = SymmetricMemory(
                self._network.endpoint, self.rank, addresses, np.zeros(LEAST_BYTES, np.uint8),
                LEAST_FLAGS,
            )  # fmt: skip
            self._parts.append(memory)
            self._network.background.agents.add(memory)
            self._exchange = Exchange(memory, self._say, self._hear)
        return self._exchange

    def _say(self, peer: int, message: Bytes) -> None:
        """Send a message of the exchange."""
        key = self._key(lambda error, source: None)
        self._mailbox.send_to(key, peer, FUSED_TAG, message, time.monotonic_ns())

    def _hear(self, peer: int, memory: Bytes, heard: Callable[[str], None]) -> None:
        """Receive a message of the exchange."""
        key = self._key(lambda error, source: heard(error))
        self._mailbox.receive_from(key, peer, FUSED_TAG, memory, time.monotonic_ns())

    def take_events(self) -> None:
        """Tell whoever waits of what has ended."""
        while (event := self._agent.next_event()) is not None:
            self._network.count(event.report)
            error = event.error if isinstance(event, Failed) else ""
            running = self._running.get(event.number)
            if BROKEN in error and running is not None:
                # Most often so, and found before the ranks have compared what they call.
                error += (
                    f"; do all ranks call the same? As collective {event.number} of the group, "
                    f"rank {self.rank} calls {running.call}"
                )
                if not self.failure:
                    self._doubt(running, error)
                    continue
            if TIMED_OUT in error and running is not None and not self.failure:
                self._find_late(running, error)
                continue
            if error:
                self.fail(error)
            self._ended(event.number, error)
        while (mail := self._mailbox.next_event()) is not None:
            if isinstance(mail, PeerLost):
                self._mailbox.disagree(mail.reason)  # others may wait for this rank
            if isinstance(mail, (GivenUp, PeerLost)):
                self.fail(mail.reason)
                continue
            done = self._messages.pop(mail.key)
            if isinstance(mail, NotPassed):
                done(mail.error, -1)
            else:
                done("", mail.source)
        if self._exchange is not None:
            self._exchange.look_after()
            while (news := self._exchange.next_event()) is not None:
                if isinstance(news, ExchangeFailed):
                    self.fail(news.error)
                self._told(news)
        doubts = any(running.doubt for running in self._running.values())
        if self._agent.failure and not self.failure and not doubts and not self._finding_late:
            self.fail(self._agent.failure)
        self._start()

    def _doubt(self, running: _Running, error: str) -> None:
        """Wait for a moment until all ranks have compared what they call: if that differs, whoever
        sees it says so, and it is the better reason."""
        running.has_ended, running.doubt = True, error

        def over() -> None:
            with suppress(RunError):
                self._post(lambda: self.fail(error), lambda error, source: None)

        timer = threading.Timer(DOUBT_S, over)
        timer.daemon = True
        timer.start()

    def _find_late(self, running: _Running, error: str) -> None:
        """Let a collective for which the time is over fail once it is known who is late, as far as
        that can be found out."""
        running.has_ended = True
        if self._finding_late:
            return
        self._finding_late = True

        def found(late: str) -> None:
            self.fail(f"timeout: {late}; {error}" if late else f"timeout: {error}")

        def over() -> None:
            with suppress(RunError):
                self._post(lambda: found(""), lambda error, source: None)

        self._network.ask_who_is_late(self, running.place, found)
        timer = threading.Timer(ANSWER_S, over)
        timer.daemon = True
        timer.start()

    def fail(self, reason: str) -> None:
        """Let all that is under way, and all that is asked for later, fail for a reason."""
        if self.failure:
            return
        self.failure = reason
        self._agent.abort(reason, time.monotonic_ns())
        if self._exchange is not None:
            self._exchange.fail(reason)
        self._mailbox.give_up(reason)
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            if isinstance(asked, _Fused):
                self._told(ExchangeFailed(reason))
            else:
                asked.done(reason, -1)
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
        self._mailbox.silent(self.members.index(rank), why)
        if self.begun > most:
            self.fail(why)
        self.take_events()

    def leave(self) -> None:
        """Leave the network. Nothing may be under way."""
        self.failure = self.failure or f"group {self.name} was destroyed"
        self._communicator.leave()
        for part in self._parts:
            self._network.background.agents.remove(part)
        if self._exchange is not None:
            self._exchange.memory.leave()

    @property
    def begun(self) -> int:
        """Return how many collectives have been asked for, of all kinds."""
        return self._next_number + self._besides + len(self._waiting)

    @property
    def sending(self) -> bool:
        """Return whether something that was sent has not come to its receiver's endpoint."""
        return self._mailbox.sending

    @property
    def busy(self) -> bool:
        """Whether something is under way, here or, of its reduction server, for others."""
        serving = self._server is not None and self._server.running
        return bool(self._waiting or self._running or self._messages or serving)

    def _post(self, work: Callable[[], None], done: Done) -> None:
        """Do something in the network's thread, or say why that is not possible."""

        def doing() -> None:
            if self.failure or self._network.failure:
                done(self.failure or self._network.failure, -1)
            else:
                work()

        self._network.background.post(doing)

    def _key(self, done: Done) -> int:
        self._next_key += 1
        self._messages[self._next_key] = done
        return self._next_key

    def _start(self) -> None:
        while self._waiting and self._agent.has_room(self._next_number):
            asked = self._waiting.popleft()
            if not isinstance(asked, _Asked):
                self._besides += 1
                if isinstance(asked, _Fused):
                    self._compare(asked.text, lambda error: None)
                    asked.begin()
                else:
                    self._compare(asked.call, partial(_tell, asked.done))
                continue
            number = self._next_number
            self._running[number] = _Running(
                asked.done, asked.call, asked.place, asked.request.algorithm == "switch"
            )
            self._next_number += 1
            self._compare(asked.call, partial(self._agrees, number))
            try:
                self._agent.start(
                    replace(asked.request, number=number),
                    asked.buffer,
                    time.monotonic_ns(),
                    asked.output,
                )
            except WeftError as error:
                self.fail(str(error))
                self._ended(number, str(error))
                return

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
        """Compare a collective with what the rank before this one calls in its place, and let the
        rank behind this one do so, too: all around, all call the same. Who sees a
        difference tells all others.

        Args:
            compared: told an empty text if the two are the same, and why not otherwise.
        """
        if self.size == 1:
            compared("")
            return
        number = self.begun - len(self._waiting) - 1
        own = np.zeros(CALL_BYTES, np.uint8)
        text = call.encode()[:CALL_BYTES]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        theirs = np.zeros(CALL_BYTES, np.uint8)
        before, behind = (self.rank - 1) % self.size, (self.rank + 1) % self.size

        def told(error: str, _source: int) -> None:
            if not error and not self.failure and not np.array_equal(own, theirs):
                said = theirs.tobytes().rstrip(b"\0").decode(errors="replace")
                error = (
                    f"the ranks do not call the same: as collective {number} of the group, rank "
                    f"{self.rank} calls {text.decode(errors='replace')}, and rank {before} {said}"
                )
                self._exchange_of_all().disagree(error)  # ranks may wait for this one there
                self._mailbox.disagree(error)
            if error:
                self.fail(error)
            compared(error or self.failure)

        now_ns = time.monotonic_ns()
        self._mailbox.receive_from(self._key(told), before, CALL_TAG, theirs, now_ns)
        self._mailbox.send_to(self._key(lambda *_: None), behind, CALL_TAG, own, now_ns)


def _tell(done: Done, error: str) -> None:
    done(error, -1)
