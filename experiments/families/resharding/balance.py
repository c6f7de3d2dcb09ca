"""Load balance and order: who sends each slice, and when (MLSys 2023, arXiv 2211.05322, section
3.2 and its appendix).

A job takes links for a time: the outgoing link of its sender's host and the incoming
link of every host that needs the slice, for as long as a link takes for it. Where the meshes have
no host in common this is the paper's model, in which a host does one job at a time. Times are in
bytes that a link carries meanwhile.
"""

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import nsmallest
from operator import and_, or_
from typing import NamedTuple

from weft.experiments.families.resharding.jobs import Job, Link, SenderChoice, links_of, makespan

DRAWS = 100
"""How many sets of jobs the randomised greedy draws at a time, as in the paper..."""
DRAWN_CHOICES = 100_000
"""... but no more than have so many (job, sender) to look at, which matters above 1000 of them."""
DFS_CHOICES = 500_000
"""How many choices the depth-first search looks at, about as many as it can in a second."""
_WIDTH = 12
"""How many choices it tries at each step, those first that can begin first."""


def first_replica(jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Take the first replica, in natural order."""
    return SenderChoice(tuple(job.senders[0] for job in jobs), tuple(range(len(jobs))))


def least_loaded(jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Take the sender whose link has least to send so far, in natural order."""
    load: dict[int, int] = {}
    chosen = []
    for job in jobs:
        sender = min(job.senders, key=lambda host: load.get(host, 0))
        load[sender] = load.get(sender, 0) + job.size_bytes
        chosen.append(sender)
    return SenderChoice(tuple(chosen), tuple(range(len(jobs))))


def greedy(jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Take sets of jobs that do not meet: again and again the largest of `DRAWS` random ones; of
    equals the one after which senders' loads differ least."""
    drawn = random.Random(seed)
    taken = _masks(jobs)
    left = list(range(len(jobs)))
    load: dict[int, int] = {host: 0 for job in jobs for host in job.senders}
    senders = [0] * len(jobs)
    order: list[int] = []
    while left:
        best: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
        masks = [mask for number in left for mask in taken[number]]
        every, each = reduce(or_, masks), reduce(and_, masks)
        for _ in range(max(1, min(DRAWS, DRAWN_CHOICES // len(masks)))):
            found = _independent(jobs, taken, left, load, drawn, every, each)
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
        gone = {number for number, _ in best[1]}
        left = [number for number in left if number not in gone]
    return SenderChoice(tuple(senders), tuple(order))


def _masks(jobs: Sequence[Job]) -> list[list[int]]:
    """Return what each job takes with each of its senders, as a bit for each link."""
    bits: dict[Link, int] = {}
    return [
        [
            reduce(or_, (bits.setdefault(each, 1 << len(bits)) for each in links_of(job, sender)))
            for sender in job.senders
        ]
        for job in jobs
    ]


def _independent(
    jobs: Sequence[Job], taken: Sequence[Sequence[int]], left: Sequence[int],
    load: Mapping[int, int], drawn: random.Random, every: int, each: int,
) -> list[tuple[int, int]]:  # fmt: skip
    """Return a random maximal set of jobs that share nothing, each with its sender.

    Args:
        taken: what each job takes with each of its senders, as bits.
        every, each: what at least one of the jobs left takes, and what all of them take.
    """
    busy, found = 0, []
    most = max(load.values())
    rest = list(left)
    # Where no other job can fit, their order is not drawn.
    while rest and busy != every and not busy & each:
        place = int(drawn.random() * len(rest))
        number, rest[place] = rest[place], rest[-1]
        rest.pop()
        masks = taken[number]
        able = [option for option, mask in enumerate(masks) if not mask & busy]
        if able:
            senders = jobs[number].senders
            weights = [most - load[senders[option]] + 1 for option in able]
            option = drawn.choices(able, weights)[0] if len(able) > 1 else able[0]
            busy |= masks[option]
            found.append((number, senders[option]))
    return found


def depth_first(jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Search depth first for (next job, its sender), with a lower bound, until `DFS_CHOICES` were
    looked at; begins from what `least_loaded` finds."""
    return _searched(jobs, seed).best


def _searched(jobs: Sequence[Job], seed: int) -> "_Search":
    search = _Search(jobs, least_loaded(jobs, seed))
    search.run()
    return search


class _Step(NamedTuple):
    """A step of the search: a job begins, sent by one of its senders."""

    begin: int
    smaller: int
    """Minus the size: of jobs that can begin at the same time, the largest is tried first..."""
    load: int
    """... and of its senders the one with the least load before it."""
    job: int
    option: int


class _Search:
    """Search depth first, and hold the best choice that was found.

    Links are numbered. The bound at each step: each link is busy until it is free, and then for
    all jobs that are left and take it whoever sends them; and of those links that are taken by some
    senders only, the mean is that and what the jobs take of them at least.
    """

    def __init__(self, jobs: Sequence[Job], best: SenderChoice) -> None:
        self.best = best
        self._jobs = jobs
        self.length = makespan(jobs, best)
        self._left_to_look = DFS_CHOICES
        numbers: dict[Link, int] = {}
        self._options = [
            [
                tuple(numbers.setdefault(each, len(numbers)) for each in links_of(job, sender))
                for sender in job.senders
            ]
            for job in jobs
        ]
        """By job and sender, the links that are taken."""
        self._free = [0] * len(numbers)
        self._forced = [0] * len(numbers)
        """By link, what jobs that are left take of it whoever sends them."""
        self._wanted = [0] * len(numbers)
        """By link, how many jobs are left that take it if they are sent by some senders."""
        self._open = 0
        """What jobs that are left take at least of the links that depend on senders."""
        self._always: list[frozenset[int]] = []
        self._sometimes: list[frozenset[int]] = []
        self._least_open: list[int] = []
        for job, options in zip(jobs, self._options, strict=True):
            always = frozenset.intersection(*map(frozenset, options))
            sometimes = frozenset().union(*options) - always
            self._always.append(always)
            self._sometimes.append(sometimes)
            self._least_open.append(
                job.size_bytes * min(len(sometimes & {*taken}) for taken in options)
            )
        self._begun = [False] * len(jobs)
        for number in range(len(jobs)):
            self._count(number, 1)
        self._largest_first = sorted(range(len(jobs)), key=lambda each: -jobs[each].size_bytes)
        self._twins = self._earlier_twins()
        self._steps: list[tuple[_Step, list[int], int]] = []
        """What was done: the step, and what was free and the end before it."""
        self._end = 0
        self.least = self._bound()

    def run(self) -> None:
        """Search until nothing is left to try, or the bound is reached."""
        frames = [self._next()]
        while frames and self._left_to_look > 0 and self.length > self.least:
            step = next(frames[-1], None)
            if step is None:
                frames.pop()
                if frames:
                    self._undo()
                continue
            if step.begin - step.smaller >= self.length:
                continue
            self._do(step)
            if len(self._steps) == len(self._jobs):
                self._keep()
                self._undo()
            elif self._bound() < self.length:
                frames.append(self._next())
            else:
                self._undo()

    def _earlier_twins(self) -> list[int]:
        """Return for each job the one before it that is no different, which comes first then; or
        -1."""
        seen: dict[Hashable, int] = {}
        twins = []
        for number, options in enumerate(self._options):
            key = (self._jobs[number].size_bytes, *options)
            twins.append(seen.get(key, -1))
            seen[key] = number
        return twins

    def _count(self, job: int, sign: int) -> None:
        for each in self._always[job]:
            self._forced[each] += sign * self._jobs[job].size_bytes
        for each in self._sometimes[job]:
            self._wanted[each] += sign
        self._open += sign * self._least_open[job]

    def _next(self) -> Iterator[_Step]:
        """Return what may come next, best first."""
        steps = []
        for job in self._largest_first:
            twin = self._twins[job]
            if self._begun[job] or (twin >= 0 and not self._begun[twin]):
                continue
            options = self._options[job]
            self._left_to_look -= len(options)
            size_bytes = self._jobs[job].size_bytes
            for option, taken in enumerate(options):
                begin = max(self._free[each] for each in taken)
                load = sum(self._free[each] + self._forced[each] for each in taken)
                steps.append(_Step(begin, -size_bytes, load, job, option))
        return iter(nsmallest(_WIDTH, steps))

    def _do(self, step: _Step) -> None:
        taken = self._options[step.job][step.option]
        end = step.begin - step.smaller
        self._steps.append((step, [self._free[each] for each in taken], self._end))
        for each in taken:
            self._free[each] = end
        self._end = max(self._end, end)
        self._begun[step.job] = True
        self._count(step.job, -1)

    def _undo(self) -> None:
        step, free, self._end = self._steps.pop()
        for each, time in zip(self._options[step.job][step.option], free, strict=True):
            self._free[each] = time
        self._begun[step.job] = False
        self._count(step.job, 1)

    def _keep(self) -> None:
        self.length = self._end
        chosen = {step.job: step.option for step, _, _ in self._steps}
        self.best = SenderChoice(
            tuple(job.senders[chosen[number]] for number, job in enumerate(self._jobs)),
            tuple(step.job for step, _, _ in self._steps),
        )

    def _bound(self) -> int:
        """Return a time before which nothing that goes on from here ends."""
        busy = [free + forced for free, forced in zip(self._free, self._forced, strict=True)]
        shared = [until for until, wanted in zip(busy, self._wanted, strict=True) if wanted]
        mean = -(-(sum(shared) + self._open) // len(shared)) if shared else 0
        return max(mean, *busy)


def best_of_both(jobs: Sequence[Job], seed: int) -> SenderChoice:
    """Take the better of `greedy` and `depth_first`; the latter if it reaches a lower bound."""
    search = _searched(jobs, seed)
    if search.length <= search.least:
        return search.best
    drawn = greedy(jobs, seed)
    return drawn if makespan(jobs, drawn) <= search.length else search.best
