"""Faults that a program of PyTorch runs under: links that fail or change, ranks that are killed,
late or slow, each at the end of a step or after a time.

They are the run's own: at its end links are again as they were.
"""

import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from weft.base.errors import InputError, RunError, refuse
from weft.base.units import parse_duration, parse_number
from weft.experiments.families.programs.asked import ProgramAsked
from weft.experiments.families.programs.processes import RankServer
from weft.experiments.runs.up_network import UpNetwork
from weft.topo.link_changes import LinkChange
from weft.topo.network import Link, Topology

MOST_SLOW = 1000.0
MOST_TIME_NS = 24 * 3600 * 10**9
_STEP = re.compile(r"step([1-9][0-9]{0,8})")
WHEN = "stepN, which is the end of the Nth step, or a time since the ranks began, like 2s or 500ms"


@dataclass(frozen=True)
class When:
    """The time of a fault."""

    step: int = 0
    """The end of this step, counted from 1; 0: it is no step."""
    after_ns: int = 0
    """So long after the ranks' processes have begun."""


@dataclass(frozen=True)
class Event:
    """Something that the runner brings about while ranks run."""

    fault: str
    """What was asked for, like ``--kill-rank 2@step5``."""
    when: When
    rank: int
    """Whose steps are meant: the rank that it is done to, and rank 0 for links."""
    kills: bool = False
    link: Link | None = None
    """The link that it is done to, and"""
    up: bool | None = None
    """whether it carries packets from then on; None: as before."""
    change: LinkChange = field(default_factory=LinkChange)
    ends: bool = False
    """Whether this ends the fault."""


@dataclass
class Faults:
    """All faults of a run."""

    events: list[Event] = field(default_factory=list)
    pauses_ns: dict[int, dict[int, int]] = field(default_factory=dict)
    """By rank: how long it does nothing at the end of which steps; 0 stands for every step."""
    slow: dict[int, float] = field(default_factory=dict)
    """How many times as long ranks take to compute."""
    late: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Faults of the rank itself: (rank, step), by what was asked for; step 0 is the begin."""

    def waits_at(self, rank: int) -> list[int]:
        """Return the steps after which a rank waits for the runner."""
        steps = {each.when.step for each in self.events if each.rank == rank and each.when.step}
        return sorted(steps)


def faults_of(options: ProgramAsked, topology: Topology, ranks: int) -> Faults:
    """Return the faults that are asked for.

    Args:
        ranks: how many there are.

    Raises:
        InputError: one of them makes no sense here; it says what would.
    """
    faults = Faults()
    for text in options.fail_link:
        _add_failure(faults, topology, text)
    for text in options.change_link:
        _add_change(faults, topology, text)
    for text in options.kill_rank:
        what = f"--kill-rank {text!r}"
        name, when = _at(what, text, "--kill-rank 2@step5")
        rank = _rank(what, name, ranks)
        faults.events.append(Event(f"--kill-rank {text}", when, rank, kills=True))
    for text in options.delay_rank:
        _add_delay(faults, text, ranks)
    for text in options.slow_rank:
        _add_slowness(faults, text, ranks)
    return faults


def _add_failure(faults: Faults, topology: Topology, text: str) -> None:
    what, fault = f"--fail-link {text!r}", f"--fail-link {text}"
    name, at, rest = text.rpartition("@")
    if not at:
        raise InputError(f"{what}: write LINK@WHEN, like leaf0:spine0@step10; WHEN is {WHEN}")
    first, until, last = rest.partition("..")
    link, begin = _link(what, name, topology), _when(what, first)
    faults.events.append(Event(fault, begin, 0, link=link, up=False))
    if until:
        end = _when(what, last)
        refuse(
            bool(begin.step) != bool(end.step)
            or (end.step, end.after_ns) <= (begin.step, begin.after_ns),
            f"{what}: {last} is not behind {first}: write both as steps or both as times, as "
            "leaf0:spine0@step10..step20",
        )
        faults.events.append(Event(fault, end, 0, link=link, up=True, ends=True))


def _add_change(faults: Faults, topology: Topology, text: str) -> None:
    what = f"--change-link {text!r}"
    words, when = _at(what, text, "--change-link leaf0:spine0:delay=5ms,loss=1%@step10")
    name, _, figures = words.rpartition(":")
    link = _link(what, name, topology)
    change = LinkChange.of_words(figures.split(","), what)
    try:
        change.applied(link)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    faults.events.append(Event(f"--change-link {text}", when, 0, link=link, change=change))


def _add_delay(faults: Faults, text: str, ranks: int) -> None:
    what = f"--delay-rank {text!r}"
    words, at, rest = text.partition("@")
    name, colon, duration = words.partition(":")
    if not colon:
        raise InputError(
            f"{what}: write RANK:TIME, for every step, or RANK:TIME@stepN, like 1:200ms@step5"
        )
    rank = _rank(what, name, ranks)
    when = _when(what, rest) if at else When()
    refuse(
        bool(at) and when.step == 0, f"{what}: a rank is late at the end of a step: write @stepN"
    )
    pause_ns = _duration_ns(what, duration)
    refuse(pause_ns == 0, f"{what}: {duration} is no time: write one like 200ms")
    pauses = faults.pauses_ns.setdefault(rank, {})
    refuse(when.step in pauses, f"{what}: rank {rank} is late there already; name one time")
    pauses[when.step] = pause_ns
    faults.late[f"--delay-rank {text}"] = rank, when.step


def _add_slowness(faults: Faults, text: str, ranks: int) -> None:
    what = f"--slow-rank {text!r}"
    name, _, factor_text = text.partition(":")
    factor = parse_number(factor_text)
    if factor is None or not 1 < factor <= MOST_SLOW:
        raise InputError(
            f"{what}: write RANK:FACTOR, like 1:2.0; a factor is more than 1 and at most "
            f"{MOST_SLOW:g}"
        )
    rank = _rank(what, name, ranks)
    refuse(rank in faults.slow, f"{what}: rank {rank} is slow already; name one factor")
    faults.slow[rank] = factor
    faults.late[f"--slow-rank {text}"] = rank, 0


def _at(what: str, text: str, example: str) -> tuple[str, When]:
    name, at, when = text.rpartition("@")
    if not at:
        raise InputError(f"{what}: when? write @ and {WHEN}; as {example}")
    return name, _when(what, when)


def _when(what: str, text: str) -> When:
    step = _STEP.fullmatch(text)
    if step is not None:
        return When(step=int(step[1]))
    try:
        return When(after_ns=_duration_ns(what, text))
    except InputError:
        raise InputError(f"{what}: {text!r} is no time of a fault: write {WHEN}") from None


def _duration_ns(what: str, text: str) -> int:
    duration_ns = parse_duration(text, f"{what}: time")
    refuse(duration_ns > MOST_TIME_NS, f"{what}: {text} is more than a day")
    return duration_ns


def _rank(what: str, text: str, ranks: int) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) >= ranks:
        raise InputError(f"{what}: there is no rank {text!r}: ranks are 0 to {ranks - 1}")
    return int(text)


def _link(what: str, name: str, topology: Topology) -> Link:
    try:
        if "-" in name:
            return topology.link(name)
        one, _, other = name.partition(":")
        return topology.direction(one, other).link
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


@dataclass(frozen=True)
class Happened:
    """An event that came."""

    event: Event
    attempt: int
    """Its number: 1 is the first time that all ranks were started."""
    begun_ns: int
    """When the ranks' processes began in this attempt, and"""
    at_ns: int
    """when it was done, in CLOCK_MONOTONIC; for a link, when routes led around it."""


class Injection:
    """The faults of a run, brought about while its ranks run.

    Args:
        faults: all of them.
        net: the network.
        server: of the ranks' processes.
    """

    def __init__(self, faults: Faults, net: UpNetwork, server: RankServer) -> None:
        self.faults = faults
        self.happened: list[Happened] = []
        self._net = net
        self._server = server
        self._left = list(faults.events)
        self._begun_ns = time.monotonic_ns()
        self._attempt = 0
        self._down, self._changed = net.down, dict(net.changed)
        """Links that were down, and figures of links, before the run."""

    def begin(self) -> None:
        """Take note that the ranks' processes begin now, or begin anew."""
        self._attempt += 1
        self._begun_ns = time.monotonic_ns()

    def stepped(self, rank: int, step: int) -> bool:
        """Do what is due when a rank has ended a step, and return whether the rank goes on."""
        due = [each for each in self._left if each.rank == rank and each.when.step == step]
        self._do(due)
        return not any(each.kills for each in due)

    def look(self) -> None:
        """Do what is due by now."""
        since_ns = time.monotonic_ns() - self._begun_ns
        timed = (each for each in self._left if not each.when.step)
        self._do([each for each in timed if each.when.after_ns <= since_ns])

    def _do(self, due: Sequence[Event]) -> None:
        for event in sorted(due, key=lambda each: each.kills):  # what is killed comes last
            self._left.remove(event)
            if event.kills:
                self._server.signal(event.rank, signal.SIGKILL)
            elif event.link is not None:
                self._set(event.link, event)
            self.happened.append(
                Happened(event, self._attempt, self._begun_ns, time.monotonic_ns())
            )

    def _set(self, link: Link, event: Event) -> None:
        if event.up is not None:
            self._net.set_link(*link.ends, up=event.up)
        else:
            self._change(link, event.change.applied(self._net.changed.get(link.name, link)))

    def _change(self, link: Link, after: Link) -> None:
        """Let a link go on with other figures."""
        net = self._net
        net.backend.change_link(net.changed.get(link.name, link), after)
        net.changed[link.name] = after
        if after == link:
            del net.changed[link.name]

    def close(self) -> None:
        """Bring links back to what they were before the run."""
        net = self._net
        links = {one.event.link.name: one.event.link for one in self.happened if one.event.link}
        with suppress(RunError):  # a network that is gone
            for name, link in links.items():
                if (name in net.down) != (name in self._down):
                    net.set_link(*link.ends, up=name not in self._down)
                before = self._changed.get(name, link)
                if net.changed.get(name, link) != before:
                    self._change(link, before)
