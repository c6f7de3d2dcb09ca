"""Bounds: before which time no choice of senders and order ends."""

from collections.abc import Mapping, Sequence

import numpy as np

from weft.experiments.resharding.jobs import Job


def lower_bound(jobs: Sequence[Job]) -> int:
    """Return a time, in bytes, before which no choice ends: the most that
    comes to a host, or that the fullest sender's link carries at least."""
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
    return -(-sum(size for kind, size in kinds.items() if kind <= hosts) // len(hosts))


_MOST_SETS = 1 << 10


def outgoing_bytes(kinds: Mapping[frozenset[int], int]) -> int:
    """Return the least that the fullest link carries.

    The program's result is near that. Its dual is a price for each host; hosts with the highest
    prices are those that are the fullest (max-flow and min-cut), and what these alone can send is
    whole bytes.

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
    return max(
        share_bytes(kinds, frozenset(dearest[:count])) for count in range(1, 1 + len(dearest))
    )
