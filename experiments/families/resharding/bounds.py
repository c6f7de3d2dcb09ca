"""Bounds: before which time no choice of senders and order ends."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from weft.experiments.families.resharding.jobs import Job


def lower_bound(jobs: Sequence[Job]) -> int:
    """Return a time, in bytes, before which no choice ends: the most that comes to a host, or that
    the fullest sender's link carries at least."""
    incoming: dict[int, int] = {}
    for job in jobs:
        for host in job.receivers:
            incoming[host] = incoming.get(host, 0) + job.size_bytes
    return max([*incoming.values(), _outgoing(jobs)])


def _outgoing(jobs: Sequence[Job]) -> int:
    """Return the least that the fullest of the senders' links carries, where jobs may be split.

    By the theorem of max-flow and min-cut it is the largest, over sets of hosts, of what those
    hosts alone can send over their number; and unions of jobs' senders that hang together are sets
    enough. If these are too many, a linear program finds it.
    """
    kinds: dict[frozenset[int], int] = {}
    for job in jobs:
        hosts = frozenset(job.senders)
        kinds[hosts] = kinds.get(hosts, 0) + job.size_bytes
    sets = dict.fromkeys(kinds)
    grown = list(sets)
    while grown:
        hosts = grown.pop()
        more = dict.fromkeys(hosts | kind for kind in kinds if hosts & kind and kind - hosts)
        grown += [each for each in more if each not in sets]
        sets |= more
        if len(sets) > _MOST_SETS:
            return outgoing_bytes(kinds)
    return max((share_bytes(kinds, hosts) for hosts in sets), default=0)


def share_bytes(kinds: Mapping[frozenset[int], int], hosts: frozenset[int]) -> int:
    """Return how much the fullest of some hosts sends at least: its share of what they alone can.

    Args:
        kinds: by sets of hosts, the bytes that any of these hosts may send.
    """
    return -(-own_bytes(kinds, hosts) // len(hosts))


def own_bytes(kinds: Mapping[frozenset[int], int], hosts: frozenset[int]) -> int:
    """Return how much some hosts alone can send. Args: as `share_bytes`."""
    return sum(size for kind, size in kinds.items() if kind <= hosts)


_MOST_SETS = 1 << 10


def outgoing_bytes(kinds: Mapping[frozenset[int], int]) -> int:
    """Return the least that the fullest link carries.

    A linear program says what each host sends, to within its tolerance. Its dual is a price for
    each host; hosts with the highest prices are those that are the fullest (max-flow and min-cut).
    From there on it is whole numbers, by which no tolerance matters (`_Sent`).

    Args:
        kinds: by sets of hosts, the bytes that any of these hosts may send, split as one likes.
    """
    if not kinds:
        return 0
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    shares = [(kind, host) for kind, hosts in enumerate(kinds) for host in sorted(hosts)]
    places = {host: place for place, host in enumerate(sorted({host for _, host in shares}))}
    total = sum(kinds.values())
    columns = 1 + np.arange(len(shares))
    ones = np.ones(len(shares))
    # The makespan is column 0; a row for each host: what it sends is no more than that.
    rows = np.array([places[host] for _, host in shares])
    sent = coo_matrix(
        (
            np.concatenate([ones, -np.ones(len(places))]),
            (
                np.concatenate([rows, np.arange(len(places))]),
                np.concatenate([columns, np.zeros(len(places), int)]),
            ),
        )
    )
    whole = coo_matrix(
        (ones, (np.array([kind for kind, _ in shares]), columns)),
        shape=(len(kinds), 1 + len(shares)),
    )
    found = linprog(
        np.eye(1, 1 + len(shares))[0],
        A_ub=sent,
        b_ub=np.zeros(len(places)),
        A_eq=whole,
        b_eq=[size / total for size in kinds.values()],
        method="highs",
    )
    dearest = sorted(places, key=lambda host: found.ineqlin.marginals[places[host]])
    hosts = max(
        (frozenset(dearest[:count]) for count in range(1, 1 + len(dearest))),
        key=lambda few: Fraction(own_bytes(kinds, few), len(few)),
    )
    parts: list[dict[int, float]] = [{} for _ in kinds]
    for (kind, host), part in zip(shares, found.x[1:].tolist(), strict=True):
        parts[kind][host] = part * total
    return share_bytes(kinds, _Sent([*kinds.values()], parts).fullest(kinds, hosts))


class _Sent:
    """What each host sends of each kind, in whole parts of a byte, to be improved."""

    def __init__(self, sizes: Sequence[int], parts: Sequence[Mapping[int, float]]) -> None:
        self._scale = 1
        """How many parts a byte has."""
        self._of: list[dict[int, int]] = []
        """By kind, what each host sends of it."""
        self._kinds: dict[int, list[int]] = defaultdict(list)
        """By host, the kinds that it may send."""
        self._load: dict[int, int] = defaultdict(int)
        for kind, (size, given) in enumerate(zip(sizes, parts, strict=True)):
            sent = {}
            left = size
            for host in sorted(given, key=lambda host: -given[host]):
                sent[host] = min(left, max(0, round(given[host])))
                left -= sent[host]
            sent[max(sent, key=lambda host: sent[host])] += left
            self._of.append(sent)
            for host, each in sent.items():
                self._kinds[host].append(kind)
                self._load[host] += each

    def fullest(self, kinds: Mapping[frozenset[int], int], hosts: frozenset[int]) -> frozenset[int]:
        """Return the hosts whose share of what they alone can send is the largest.

        While some host sends more than the share of the hosts that are known, it passes on what
        others can send, too. Where it cannot, it and those that it would pass on to have a larger
        share.
        """
        while True:
            self._divide(len(hosts))
            more = self._stuck(own_bytes(kinds, hosts) * self._scale // len(hosts))
            if not more:
                return hosts
            hosts = more

    def _divide(self, count: int) -> None:
        """Cut each part into so many."""
        self._scale *= count
        for sent in [*self._of, self._load]:
            for host in sent:
                sent[host] *= count

    def _stuck(self, limit: int) -> frozenset[int]:
        """Bring every host's load down to a limit; return hosts which that is impossible for
        together, if there are any."""
        while True:
            come: dict[int, tuple[int, int] | None] = {
                host: None for host, load in self._load.items() if load > limit
            }
            if not come:
                return frozenset()
            end = self._reached(come, limit)
            if end is None:
                return frozenset(come)
            path = []
            host = end
            while (step := come[host]) is not None:
                path.append((*step, host))
                host = step[0]
            amount = min(self._load[host] - limit, limit - self._load[end],
                         *(self._of[kind][giver] for giver, kind, _ in path))  # fmt: skip
            for giver, kind, taker in path:
                self._of[kind][giver] -= amount
                self._of[kind][taker] += amount
            self._load[host] -= amount
            self._load[end] += amount

    def _reached(self, come: dict[int, tuple[int, int] | None], limit: int) -> int | None:
        """Add to some hosts those that they can pass something on to, each with the host and the
        kind that it comes from, until one has room; return that, or None."""
        queue = deque(come)
        while queue:
            giver = queue.popleft()
            for kind in self._kinds[giver]:
                if not self._of[kind][giver]:
                    continue
                for host in self._of[kind]:
                    if host in come:
                        continue
                    come[host] = giver, kind
                    if self._load[host] < limit:
                        return host
                    queue.append(host)
        return None
