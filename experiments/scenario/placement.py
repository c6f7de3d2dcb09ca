"""Placement: which hosts of a network are ranks of which job, and which are reduction servers."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from weft.base.errors import InputError, refuse
from weft.topo.network import Topology


@dataclass(frozen=True)
class Placement:
    """The numbers that hosts with a role have in the topology."""

    jobs: tuple[tuple[int, ...], ...]
    """The hosts of the ranks of each job (a communicator of its own), in order of ranks."""
    servers: tuple[int, ...] = ()
    """The hosts of the reduction servers, in order; ranks' hosts where servers have none of their
    own."""

    @property
    def ranks(self) -> int:
        """Return how many ranks each job has."""
        return len(self.jobs[0])


def servers_on_leaf(servers: int, leaves: int) -> int:
    """Return how many dedicated servers a leaf has at most when all servers are spread over the
    leaves."""
    return -(-servers // leaves)


def place(
    leaves: int,
    hosts_on_leaf: int,
    *,
    jobs: int,
    servers: int = 0,
    dedicated: bool = True,
    order: str = "in-order",
    seed: int = 1,
) -> Placement:
    """Spread ranks and servers over the leaves.

    Every leaf has the same number of ranks, and after them its dedicated servers, if there are any.
    A leaf's ranks go to the jobs in turn.

    Args:
        hosts_on_leaf: all hosts of a leaf, those of servers included.
        servers: number of reduction servers; without hosts of their own, server s is on the host
            of rank s.
        order: order of the ranks: ``in-order``, leaf by leaf; ``strided``, each on another leaf
            than the one before, as far as there are leaves; ``random``.
        seed: seed of the random order.

    Raises:
        InputError: there are too few hosts, or the jobs would not be of equal size.
    """
    most = servers_on_leaf(servers, leaves) if dedicated else 0
    on_leaf = hosts_on_leaf - most
    refuse(
        on_leaf < 1,
        f"servers {servers}: on {leaves} leaves, each with {hosts_on_leaf} for ranks and "
        "servers alike, they leave none for ranks; lower servers, or "
        "put them on the ranks' hosts (--server-placement ranks)",
    )
    ranks = [leaf * hosts_on_leaf + place for leaf in range(leaves) for place in range(on_leaf)]
    if order == "strided":
        ranks = [leaf * hosts_on_leaf + place for place in range(on_leaf) for leaf in range(leaves)]
    elif order == "random":
        random.Random(f"placement {seed}").shuffle(ranks)
    teams = _teams(ranks, jobs)
    if dedicated:
        counts = [servers // leaves + (leaf < servers % leaves) for leaf in range(leaves)]
        where = [
            leaf * hosts_on_leaf + on_leaf + index
            for leaf, count in enumerate(counts)
            for index in range(count)
        ]
    else:
        where = _beside(ranks, servers)
    return Placement(teams, tuple(where))


def _teams(ranks: Sequence[int], jobs: int) -> tuple[tuple[int, ...], ...]:
    """Deal hosts out to jobs in turn. Raises InputError if these would not be of equal size."""
    refuse(
        jobs < 1 or len(ranks) % jobs,
        f"jobs {jobs}: {len(ranks)} hosts for ranks do not make as many equal jobs; choose a "
        f"divisor of {len(ranks)}",
    )
    return tuple(tuple(ranks[job::jobs]) for job in range(jobs))


def _beside(ranks: list[int], servers: int) -> list[int]:
    """Return the hosts of servers that share those of ranks. Raises InputError if there are too
    few."""
    refuse(
        servers > len(ranks),
        f"servers {servers} on the hosts of {len(ranks)} ranks: at most one each; lower it",
    )
    return ranks[:servers]


def place_among(
    network: Topology,
    hosts: Sequence[str],
    *,
    jobs: int,
    servers: int = 0,
    dedicated: bool = True,
    order: str = "in-order",
    seed: int = 1,
) -> Placement:
    """Put ranks on hosts that are named, or on all hosts of a network whose switches are not alike.

    Dedicated servers are on the first of the other hosts; where none are named, on the last ones of
    the network. Ranks go to the jobs in turn.

    Args:
        hosts: names of the ranks' hosts, in the order of the ranks; empty: all but the servers'.
        servers, dedicated, order, seed: as for `place`; an order is for hosts that are not named.

    Raises:
        InputError: a host is not there, or named twice; there are too few hosts; or the jobs would
            not be of equal size.
    """
    for name, times in Counter(hosts).items():
        network.host(name)
        refuse(times > 1, f"hosts: {name!r} is named {times} times: a host has one rank")
    if hosts and order != "in-order":
        raise InputError(
            f"placement {order!r} beside hosts {','.join(hosts)}: the names say the order; leave "
            "one of them out"
        )
    apart = servers if dedicated else 0
    total = len(network.hosts)
    ranks = [network.host(name).rank for name in hosts] or list(range(total - apart))
    taken = set(ranks)
    others = [host.rank for host in network.hosts if host.rank not in taken]
    refuse(
        not ranks or apart > len(others),
        f"servers {servers}: {total} hosts leave {len(others)} for servers beside {len(ranks)} "
        "ranks; lower servers, name fewer hosts, or put them on the ranks' hosts "
        "(--server-placement ranks)",
    )
    if order == "strided":
        below: dict[str, list[int]] = {}
        for rank in ranks:
            below.setdefault(network.hosts[rank].leaf, []).append(rank)
        ranks = [rank for row in zip_longest(*below.values()) for rank in row if rank is not None]
    elif order == "random":
        random.Random(f"placement {seed}").shuffle(ranks)
    teams = _teams(ranks, jobs)
    where = others[:servers] if dedicated else _beside(ranks, servers)
    return Placement(teams, tuple(where))
