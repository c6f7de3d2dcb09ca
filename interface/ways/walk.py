"""A packet's way through a whole network, from the host that it leaves to where it ends.

What comes to a switch, a frame at a port, is an *arrival*. Each is looked at once, however many
ways lead to it: what follows is the same. Nothing is sent.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.switch.interpreter.explore import Explorer, Way, Ways
from weft.switch.interpreter.interpreter import Sent
from weft.switch.interpreter.steps import Choice
from weft.topo.network import Direction, Host, Link, Port, Topology

MOST_HOPS = 32
MOST_ARRIVALS = 1000
MOST_RETURNS = 2
"""How often a packet may come back to the same port before that is called a loop."""

Key = tuple[str, int, bytes]
"""A switch, its port, and the frame that comes there."""


@dataclass
class Output:
    """What leaves a switch at a port, or a host, and what becomes of it."""

    port: int
    frame: bytes
    end: str
    """``host``, ``switch``, ``controller``, ``lost`` (the link is down), ``nowhere`` (no link)."""
    to: str = ""
    """The node at the other end."""
    to_port: int = 0
    link: str = ""
    ends: tuple[str, str] = ("", "")
    """Those of the direction in which it goes (`weft.topo.network.Direction.ends`)."""
    loss: float = 0.0
    """The probability by which the link loses it."""
    loop: tuple[str, ...] = ()
    """The switches that it goes round by, if it comes back."""
    copy: int = 0

    @property
    def goes_on(self) -> bool:
        """Return whether it comes to a switch that is looked at."""
        return self.end == "switch" and not self.loop


@dataclass
class Passed:
    """A way through one switch, and what leaves it there."""

    way: Way
    outputs: list[Output]


@dataclass(eq=False)
class Arrival:
    """A frame that comes to a port of a switch, and all ways that it may take there."""

    number: int
    switch: str
    port: int
    frame: bytes
    before: "Arrival | None"
    hops: int
    passed: list[Passed] = field(default_factory=list)
    cut: bool = False
    sampled: bool = False

    @property
    def key(self) -> Key:
        """Return what it is the only one with."""
        return self.switch, self.port, self.frame

    @property
    def line(self) -> "list[Arrival]":
        """Return the arrivals that it first came by, itself first."""
        found: list[Arrival] = []
        one: Arrival | None = self
        while one is not None:
            found.append(one)
            one = one.before
        return found


@dataclass
class Walk:
    """What was found."""

    topology: Topology
    source: str
    start: Output
    every: bool
    """Whether all ways were asked for."""
    arrivals: dict[Key, Arrival] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)
    """What was cut off, in words."""
    order: list[Arrival] = field(default_factory=list)
    """All arrivals, each behind those that it leads to."""
    unread: dict[str, list[str]] = field(default_factory=dict)
    """By switch, what it did not tell."""

    def arrival(self, output: Output) -> Arrival | None:
        """Return what an output becomes at the next switch; None where it ends, or is not
        followed."""
        if not output.goes_on:
            return None
        return self.arrivals.get((output.to, output.to_port, output.frame))

    @property
    def loops(self) -> list[tuple[str, ...]]:
        """Return all loops, each as the switches that it goes round by."""
        return list(dict.fromkeys(one.loop for one in self.outputs if one.loop))

    @property
    def outputs(self) -> list[Output]:
        """Return all that leaves a node, the host first."""
        arrivals = self.arrivals.values()
        found = [one for each in arrivals for passed in each.passed for one in passed.outputs]
        return [self.start, *found]


class Walker:
    """Follows a packet through the switches of a network."""

    def __init__(
        self,
        topology: Topology,
        explorer_of: Callable[[str], Explorer],
        down: Iterable[str] = (),
        answer: Callable[[Choice], int] | None = None,
        changed: Mapping[str, Link] | None = None,
    ) -> None:
        """``explorer_of`` returns that of a switch by its name; ``down`` are the names of links
        that have failed, and ``changed`` has by name those that go on with other figures. With
        ``answer`` the packet goes one way, its choices made by that; else all."""
        self.topology, self.answer = topology, answer
        self._down = frozenset(down)
        self._changed = changed or {}
        self._explorer_of = explorer_of
        self._out: Mapping[tuple[str, int], Direction] = {
            (one.source.node, one.source.number): one for one in topology.directions
        }

    def walk(self, host: Host, frame: bytes, port: int = 1) -> Walk:
        """Return what becomes of a frame that a host sends at one of its ports."""
        walk = Walk(
            self.topology, host.name, self.output(Port(host.name, port), frame, 0),
            self.answer is None,
        )  # fmt: skip
        waiting = deque[Arrival]()
        self.arrive(walk, walk.start, None, waiting)
        while waiting:
            arrival = waiting.popleft()
            found = self.through(arrival)
            arrival.cut, arrival.sampled = found.cut, found.sampled
            for way in found.ways:
                outputs = [
                    self.output(Port(arrival.switch, step.port), step.frame, step.packet.copy)
                    for step in way.steps
                    if isinstance(step, Sent)
                ]
                for output in outputs:
                    self.arrive(walk, output, arrival, waiting)
                arrival.passed.append(Passed(way, outputs))
        find_loops(walk)
        return walk

    def through(self, arrival: Arrival) -> Ways:
        """Return the ways of a frame through a switch."""
        explorer = self._explorer_of(arrival.switch)
        if self.answer is None:
            return explorer.ways(arrival.port, arrival.frame)
        return Ways((explorer.follow(arrival.port, arrival.frame, self.answer),))

    def output(self, at: Port, frame: bytes, copy: int) -> Output:
        """Return what becomes of a frame that leaves a node at a port."""
        output = Output(at.number, frame, "nowhere", copy=copy)
        direction = self._out.get((at.node, at.number))
        if at.number == self.topology.cpu_port and at.node not in _hosts(self.topology):
            output.end = "controller"
        elif direction is not None:
            output.to, output.to_port = direction.destination.node, direction.destination.number
            output.link = direction.link.name
            output.loss = self._changed.get(output.link, direction.link).loss
            output.ends = direction.ends
            is_host = isinstance(self.topology.nodes[output.to], Host)
            output.end = "host" if is_host else "switch"
            if direction.link.name in self._down:
                output.end = "lost"
        return output

    def arrive(
        self, walk: Walk, output: Output, before: Arrival | None, waiting: deque[Arrival]
    ) -> None:
        """Have what comes to a switch looked at, unless it goes round, or there is too much."""
        if output.end != "switch":
            return
        hops = before.hops + 1 if before is not None else 1
        key = (output.to, output.to_port, output.frame)
        if key in walk.arrivals:
            return
        line = before.line if before is not None else []
        again = [at for at, one in enumerate(line) if (one.switch, one.port) == key[:2]]
        if len(again) >= MOST_RETURNS:
            output.loop = tuple(one.switch for one in reversed(line[: again[0] + 1]))
            return
        if hops > MOST_HOPS or len(walk.arrivals) >= MOST_ARRIVALS:
            what = f"{MOST_HOPS} switches in a line" if hops > MOST_HOPS else (
                f"{MOST_ARRIVALS} frames at switches"
            )  # fmt: skip
            if what not in walk.limits:
                walk.limits.append(what)
            return
        arrival = Arrival(len(walk.arrivals) + 1, *key, before, hops)
        walk.arrivals[key] = arrival
        waiting.append(arrival)


def find_loops(walk: Walk) -> None:
    """Mark what comes back unchanged to where it was before, and note the order of arrivals."""
    done: set[Key] = set()
    path: list[tuple[Arrival, Iterator[Output]]] = []

    def enter(arrival: Arrival | None) -> bool:
        if arrival is None or arrival.key in done:
            return False
        path.append((arrival, (one for passed in arrival.passed for one in passed.outputs)))
        return True

    enter(walk.arrival(walk.start))
    while path:
        arrival, outputs = path[-1]
        for output in outputs:
            following = walk.arrival(output)
            line = [one for one, _ in path]
            if following in line:
                output.loop = tuple(one.switch for one in line[line.index(following) :])
            elif enter(following):
                break
        else:
            done.add(arrival.key)
            walk.order.append(arrival)
            path.pop()


def _hosts(topology: Topology) -> set[str]:
    return {host.name for host in topology.hosts}


@dataclass(frozen=True)
class Reach:
    """What all ways of a frame come to."""

    ways: int
    """How many there are."""
    sure: frozenset[str]
    """The ends that every way has: hosts, and the controller."""
    possible: frozenset[str]
    """The ends that some way has."""


def reach(walk: Walk) -> Reach:
    """Return what all ways of the packet come to: of a loop, no end."""
    known: dict[Key, Reach] = {}

    def of_output(output: Output) -> Reach:
        following = walk.arrival(output)
        if output.end in ("host", "controller"):
            name = frozenset((output.to or "the controller",))
            found = Reach(1, name, name)
        elif following is not None and following.key in known:
            found = known[following.key]
        else:
            found = Reach(1, frozenset(), frozenset())
        if walk.every and output.loss > 0:
            return Reach(found.ways + 1, frozenset(), found.possible)
        return found

    for arrival in walk.order:
        count, sure, possible = 0, None, frozenset[str]()
        for passed in arrival.passed:
            ends = [of_output(output) for output in passed.outputs]
            own = passed.way.count
            for end in ends:
                own *= end.ways
            count += own
            together = frozenset[str]().union(*(end.sure for end in ends))
            sure = together if sure is None else sure & together
            possible = possible.union(*(end.possible for end in ends))
        whole = not arrival.cut and sure is not None
        known[arrival.key] = Reach(count, sure or frozenset() if whole else frozenset(), possible)
    return of_output(walk.start)


def summary(walk: Walk) -> dict[str, Any]:
    """Return what the ways come to, as JSON has it."""
    found = reach(walk)
    return {
        "ways": found.ways,
        "always": sorted(found.sure),
        "sometimes": sorted(found.possible - found.sure),
        "loops": [list(loop) for loop in walk.loops],
        "cut": walk.limits + [
            f"more ways through {one.switch} (arrival {one.number})"
            for one in walk.arrivals.values() if one.cut
        ],
        "sampled": sorted({one.switch for one in walk.arrivals.values() if one.sampled}),
    }  # fmt: skip
