"""Load balance and order: who sends each slice, and when (MLSys 2023, arXiv 2211.05322, section
3.2 and its appendix).

A task takes the outgoing link of its sender's host and the incoming link of every host that needs
the slice, for as long as a link takes for it. Where the meshes have no host in common this is the
paper's model, in which a host does one task at a time. Times are in bytes that a link carries.
"""

import random
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from weft.base.errors import InputError

DRAWS = 100
"""How many sets of tasks the randomised greedy draws at a time, as in the paper."""
DFS_NODES = 50_000
"""How many choices the depth-first search looks at, about what it does in a second."""


class Job(NamedTuple):
    """A job is what balancers know of a unit task that has to be sent."""

    size_bytes: int
    senders: tuple[int, ...]
    """The hosts that can send it."""
    receivers: tuple[int, ...]
    """The hosts that need it."""


class Choice(NamedTuple):
    """A choice of senders and order."""

    senders: tuple[int, ...]
    """For each job, the host that sends it."""
    order: tuple[int, ...]
    """The jobs in their order."""


def links(job: Job, sender: int) -> list[Hashable]:
    """Return the links that a job takes: (host, direction)."""
    return [(sender, "out"), *((host, "in") for host in job.receivers)]


def times(jobs: Sequence[Job], choice: Choice) -> list[tuple[int, int]]:
    """Return when each job begins and ends, in bytes: in the order of the choice, each as soon as
    all its links are free."""
    free: dict[Hashable, int] = {}
    spans = [(0, 0)] * len(jobs)
    for number in choice.order:
        taken = links(jobs[number], choice.senders[number])
        begin = max((free.get(link, 0) for link in taken), default=0)
        end = begin + jobs[number].size_bytes
        free |= dict.fromkeys(taken, end)
        spans[number] = (begin, end)
    return spans


def makespan(jobs: Sequence[Job], choice: Choice) -> int:
    """Return when the last job ends, in bytes."""
    return max((end for _, end in times(jobs, choice)), default=0)


def first_replica(jobs: Sequence[Job], seed: int) -> Choice:
    """Take the first replica, in natural order."""
    return Choice(tuple(job.senders[0] for job in jobs), tuple(range(len(jobs))))


def least_loaded(jobs: Sequence[Job], seed: int) -> Choice:
    """Take the sender whose link has least to send so far, in natural order."""
    load: dict[int, int] = {}
    chosen = []
    for job in jobs:
        sender = min(job.senders, key=lambda host: load.get(host, 0))
        load[sender] = load.get(sender, 0) + job.size_bytes
        chosen.append(sender)
    return Choice(tuple(chosen), tuple(range(len(jobs))))


def greedy(jobs: Sequence[Job], seed: int) -> Choice:
    """Take sets of jobs that do not meet: again and again the largest of `DRAWS` random ones; of
    equals the one after which senders' loads differ least."""
    drawn = random.Random(seed)
    left = list(range(len(jobs)))
    load: dict[int, int] = {host: 0 for job in jobs for host in job.senders}
    senders = [0] * len(jobs)
    order: list[int] = []
    while left:
        best: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
        for _ in range(DRAWS):
            found = _independent(jobs, left, load, drawn)
            after = dict(load)
            for number, sender in found:
                after[sender] += jobs[number].size_bytes
            worth = len(found), min(after.values()) - max(after.values())
            if best is None or worth > best[0]:
                best = worth, found
        assert best is not None
        for number, sender in best[1]:
            senders[number] = sender
            load[sender] += jobs[number].size_bytes
            order.append(number)
        taken = {number for number, _ in best[1]}
        left = [number for number in left if number not in taken]
    return Choice(tuple(senders), tuple(order))


def _independent(
    jobs: Sequence[Job], left: Sequence[int], load: dict[int, int], drawn: random.Random
) -> list[tuple[int, int]]:
    """Return a random maximal set of jobs that share no link, each with its sender."""
    busy: set[Hashable] = set()
    found = []
    most = max(load.values())
    for number in drawn.sample(left, len(left)):
        job = jobs[number]
        if any((host, "in") in busy for host in job.receivers):
            continue
        able = [host for host in job.senders if (host, "out") not in busy]
        if not able:
            continue
        sender = drawn.choices(able, [most - load[host] + 1 for host in able])[0]
        busy.update(links(job, sender))
        found.append((number, sender))
    return found


def depth_first(jobs: Sequence[Job], seed: int) -> Choice:
    """Search depth first for (next job, its sender), with a lower bound, as long as `DFS_NODES`
    choices were not looked at; begins from what `least_loaded` finds."""
    best = least_loaded(jobs, seed)
    search = _Search(jobs, best, makespan(jobs, best))
    search.go([], {}, 0)
    return search.best


class _Search:
    """Hold the best choice that a depth-first search has found."""

    def __init__(self, jobs: Sequence[Job], best: Choice, length: int) -> None:
        self.best = best
        self._jobs = jobs
        self._length = length
        self._nodes = 0
        self._least = lower_bound(jobs)
        self._largest_first = sorted(range(len(jobs)), key=lambda n: -jobs[n].size_bytes)

    def go(self, done: list[tuple[int, int]], free: dict[Hashable, int], end: int) -> None:
        """Try all that may follow what is done."""
        self._nodes += 1
        if self._nodes > DFS_NODES or self._length <= self._least:
            return
        if len(done) == len(self._jobs):
            if end < self._length:
                senders = dict(done)
                self._length = end
                self.best = Choice(
                    tuple(senders[number] for number in range(len(self._jobs))),
                    tuple(number for number, _ in done),
                )
            return
        taken = {number for number, _ in done}
        if self._bound(taken, free) >= self._length:
            return
        for begin, number, sender in sorted(self._next(taken, free))[:_WIDTH]:
            job = self._jobs[number]
            until = begin + job.size_bytes
            if until < self._length:
                after = free | dict.fromkeys(links(job, sender), until)
                self.go([*done, (number, sender)], after, max(end, until))

    def _next(self, taken: set[int], free: dict[Hashable, int]) -> list[tuple[int, int, int]]:
        """Return (begin, job, sender) of what may come next."""
        return [
            (max(free.get(link, 0) for link in links(self._jobs[number], sender)), number, sender)
            for number in self._largest_first
            if number not in taken
            for sender in self._jobs[number].senders
        ]

    def _bound(self, taken: set[int], free: dict[Hashable, int]) -> int:
        """Return a time before which nothing that goes on from here ends: by incoming links, and
        by senders' links as if what is left were spread evenly over all."""
        incoming: dict[Hashable, int] = {}
        sent = 0
        hosts: set[int] = set()
        for number, job in enumerate(self._jobs):
            if number in taken:
                continue
            sent += job.size_bytes
            hosts.update(job.senders)
            for host in job.receivers:
                incoming[host, "in"] = incoming.get((host, "in"), 0) + job.size_bytes
        ends = [free.get(link, 0) + size for link, size in incoming.items()]
        outgoing = sum(free.get((host, "out"), 0) for host in hosts) + sent
        return max([*ends, -(-outgoing // max(1, len(hosts)))])


_WIDTH = 12
"""How many choices are tried at each step, those first that can begin first."""


def lower_bound(jobs: Sequence[Job]) -> int:
    """Return a time, in bytes, before which no choice ends: the most that comes to a host, the
    largest job, and for hosts that alone can send some jobs, their share of these."""
    incoming: dict[int, int] = {}
    for job in jobs:
        for host in job.receivers:
            incoming[host] = incoming.get(host, 0) + job.size_bytes
    largest = max((job.size_bytes for job in jobs), default=0)
    return max([*incoming.values(), largest, _outgoing(jobs)])


def _outgoing(jobs: Sequence[Job]) -> int:
    """Return the least that the fullest of the senders' links carries, where jobs may be split.

    By the theorem of max-flow and min-cut it is the largest, over sets of hosts, of what those
    hosts alone can send over their number. The sets looked at are the unions of jobs' senders,
    grown one by one; every set that is looked at gives a bound.
    """
    kinds: dict[frozenset[int], int] = {}
    for job in jobs:
        hosts = frozenset(job.senders)
        kinds[hosts] = kinds.get(hosts, 0) + job.size_bytes
    sets = {*kinds}
    for hosts in [*kinds]:
        if len(sets) < _MOST_SETS:
            sets |= {hosts | other for other in [*sets]}
    return max(
        (
            -(-sum(size for kind, size in kinds.items() if kind <= hosts) // len(hosts))
            for hosts in sets
        ),
        default=0,
    )


_MOST_SETS = 1 << 10


def best_of_both(jobs: Sequence[Job], seed: int) -> Choice:
    """Take the better of `greedy` and `depth_first`."""
    return min(
        (greedy(jobs, seed), depth_first(jobs, seed)), key=lambda choice: makespan(jobs, choice)
    )


def exactly(jobs: Sequence[Job], seed: int) -> Choice:
    """Take the best choice there is (`weft.experiments.resharding.exact`)."""
    from weft.experiments.resharding.exact import solve

    return solve(jobs).choice


BALANCERS: dict[str, Callable[[Sequence[Job], int], Choice]] = {
    "best": best_of_both,
    "none": first_replica,
    "least-loaded": least_loaded,
    "greedy": greedy,
    "dfs": depth_first,
    "exact": exactly,
}
"""By name, functions of the jobs and a seed."""


def balanced(name: str, jobs: Sequence[Job], seed: int) -> Choice:
    """Return what a balancer chooses. Raises InputError where there is none of that name."""
    if name not in BALANCERS:
        raise InputError(f"balance {name!r} is unknown: choose from {', '.join(BALANCERS)}")
    return BALANCERS[name](jobs, seed) if jobs else Choice((), ())
