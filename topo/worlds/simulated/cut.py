"""How a network is cut into parts, so that several cores drive it.

Switches with hosts are dealt out in the order of their numbers, as many hosts to each part. Every
other switch goes where its neighbours are; where these are in several parts, and about as many in
each, it goes to the one that has least to do. So pods stay whole, and spines are shared out.
"""

from collections import Counter
from dataclasses import dataclass

from weft.base.errors import InputError, refuse
from weft.topo.network import Topology


@dataclass(frozen=True)
class Cut:
    """A network in parts."""

    parts: tuple[int, ...]
    """Of each switch, by its place in `Topology.switches`, the number of its part."""
    count: int
    """How many parts there are."""
    window_ns: int
    """The shortest delay of the links that lead from one part to another: what one part does is no
    sooner in another. 0: they have none, so that no part can go ahead of the others."""


def cut(topology: Topology, cores: int) -> Cut:
    """Return a network in as many parts as there are to be cores.

    Raises InputError for more cores than there are switches with hosts, for a host at switches of
    two parts, and for links between parts whose delays vary.
    """
    if cores == 1:
        return Cut((0,) * len(topology.switches), 1, 0)
    numbers = {switch.name: number for number, switch in enumerate(topology.switches)}
    below = Counter(
        numbers[end]
        for link in topology.links
        for end, other in (link.ends, link.ends[::-1])
        if end in numbers and other not in numbers
    )
    most = max(len(below), 1)
    refuse(
        cores < 1 or cores > most,
        f"cores {cores}: the network is cut between switches with hosts, and {most} of these can "
        f"be parted: choose 1 to {most}",
    )
    neighbours: dict[int, list[int]] = {number: [] for number in numbers.values()}
    for link in topology.links:
        if all(end in numbers for end in link.ends):
            one, other = (numbers[end] for end in link.ends)
            neighbours[one].append(other)
            neighbours[other].append(one)
    parts: dict[int, int] = {}
    load: Counter[int] = Counter()
    total, before = sum(below.values()), 0
    for place, switch in enumerate(sorted(below)):
        part = min(cores - 1, (2 * before + below[switch]) * cores // (2 * total))
        # However unequal they are, each part has one.
        part = max(min(part, place), cores - len(below) + place)
        parts[switch] = part
        before += below[switch]
        load[part] += below[switch] + len(neighbours[switch])
    while len(parts) < len(numbers):
        # Nearest to the hosts first: those with a neighbour that has its part.
        known = [
            number
            for number, beside in neighbours.items()
            if number not in parts and any(other in parts for other in beside)
        ] or [number for number in neighbours if number not in parts]
        found: dict[int, int] = {}
        for number in known:
            votes = Counter(parts[other] for other in neighbours[number] if other in parts)
            most = max(votes.values(), default=0)
            among = [part for part in range(cores) if 2 * votes[part] >= most]
            found[number] = min(among, key=lambda part: (load[part], part))
            load[found[number]] += len(neighbours[number])
        parts |= found
    return _checked(topology, Cut(tuple(parts[n] for n in range(len(numbers))), cores, 0), numbers)


def _checked(topology: Topology, made: Cut, numbers: dict[str, int]) -> Cut:
    """Return a cut with its window. Raises InputError for what cannot be cut."""
    for host in topology.hosts:
        beside = topology.neighbours(host.name)
        apart = {made.parts[numbers[each]] for each in beside if each in numbers}
        if len(apart) != 1 or not all(each in numbers for each in beside):
            raise InputError(
                f"cores {made.count}: host {host.name} is linked to {', '.join(beside)}, which "
                "are in different parts of the network; leave cores out"
            )
    window_ns = None
    for link in topology.links:
        ends = [numbers.get(end) for end in link.ends]
        if None in ends or len({made.parts[end] for end in ends if end is not None}) == 1:
            continue
        refuse(
            link.jitter_ns,
            f"cores {made.count}: link {link.name} leads from one part of the network to another, "
            f"and its delay varies by {link.jitter_ns} ns; leave cores out",
        )
        window_ns = link.delay_ns if window_ns is None else min(window_ns, link.delay_ns)
    return Cut(made.parts, made.count, window_ns or 0)
