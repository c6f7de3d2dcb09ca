"""What the switches hold for groups of ranks that come and go while a program runs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.agents.collectives.communicator import SwitchJob
from weft.agents.datagrams import ipv4_text
from weft.base.errors import InputError
from weft.controller import Plan
from weft.controller.features import multicast
from weft.controller.features.aggregation import (
    JOB_BASE_ADDRESS,
    AggregationJob,
    AggregationTree,
    room,
    trees_of,
)
from weft.controller.program_names import ProgramNames
from weft.pytorch.messages import GroupMade, MakeGroup
from weft.topo.reach import Reach

MOST_TREES = 4
"""The most multicast groups of one group of ranks: as many roots are used."""
SILENCE_NS = 24 * 3600 * 10**9
"""A rank may come late to a reduction; whether it is there, others find out by asking it."""

Planner = Callable[[Mapping[str, Any]], Plan]
"""Returns the plan of all switches for what is wanted of features beside what the network holds
anyway."""


@dataclass
class _Kept:
    """What there is for one group of ranks."""

    hosts: tuple[str, ...]
    groups: dict[int, tuple[str, ...]]
    """The hosts of its multicast groups, by their numbers."""
    job: AggregationJob | None
    left: set[int] = field(default_factory=set)
    """The ranks of the run that need it no more."""
    tree: AggregationTree | None = None
    """The tree of its job, once it is planned."""


class GroupTrees:
    """The multicast groups and aggregation jobs of groups of ranks in the switches.

    A number of a multicast group, or of a job, belongs to one group of ranks at a time; what is
    free is used again.

    Args:
        names: of the program that the switches run.
        reach: the paths of the network.
        slots: of each job, N.
        values: of a packet to an aggregating switch, V.
        epochs: numbers of runs and groups on this network, each of which is used once.
        plan: makes the plan of all switches.
        apply: brings the switches to a plan.
    """

    def __init__(
        self,
        names: ProgramNames,
        reach: Reach,
        slots: int,
        values: int,
        epochs: Iterator[int],
        plan: Planner,
        apply: Callable[[Plan], None],
    ) -> None:
        self._names = names
        self._reach = reach
        self._slots = slots
        self._values = values
        self._epochs = epochs
        self._plan = plan
        self._apply = apply
        self._kept: dict[str, _Kept] = {}
        self._made = 0
        self._lacks: Counter[str] = Counter()
        """How many groups lack something, by what."""
        self.most_groups = 0
        """The most groups of ranks that had trees at a time."""

    def make(
        self, asked: MakeGroup, hosts: Sequence[str], subsets: Sequence[Sequence[str]] = ()
    ) -> GroupMade:
        """Make what is asked for; what there is no room for is left out, with a note.

        Args:
            hosts: those of the group.
            subsets: those of each subset.
        """
        self._made += 1
        wanted = _Kept(tuple(hosts), {}, None)
        epoch = next(self._epochs)
        why: list[str] = []
        if asked.multicast:
            roots = multicast.roots_of(self._reach, hosts)
            members = [tuple(each) for each in subsets]
            if not members:
                members = [wanted.hosts] * min(len(roots), len(hosts), MOST_TREES)
            taken = {number for kept in self._kept.values() for number in kept.groups}
            free = (n for n in range(multicast.max_groups(self._names)) if n not in taken)
            wanted.groups = dict(zip(free, members, strict=False))
            if len(wanted.groups) < len(members) or not members:
                wanted.groups = {}
                self._lacks["found no free multicast group and go by unicast"] += 1
                why.append("no multicast group is free, so unicast takes its place")
        if asked.aggregation:
            wanted.job = self._free_job(tuple(hosts), epoch)
            if wanted.job is None:
                self._lacks["found no room for sums in the switches and go by rings"] += 1
                why.append("no room for sums is free, so rings take its place")
        before = dict(self._kept)
        self._kept[asked.name] = wanted
        try:
            self._update()
        except InputError as error:
            self._kept = before
            self._lacks[f"are not in the switches: {error}"] += 1
            return GroupMade(asked.name, [], None, f"group {asked.name}: {error}")
        self.most_groups = max(self.most_groups, len(self._kept))
        job = wanted.job
        return GroupMade(
            asked.name,
            [ipv4_text(multicast.GROUP_BASE_ADDRESS + number) for number in wanted.groups],
            SwitchJob(job.address, job.epoch, job.slots, self._values, SILENCE_NS, True)
            if job
            else None,
            f"group {asked.name} of {len(hosts)} ranks: {'; '.join(why)}" if why else "",
            epoch,
        )

    def drop(self, name: str, rank: int) -> None:
        """Take note that a rank needs a group no more; the last of its members removes it."""
        kept = self._kept.get(name)
        if kept is None:
            return
        kept.left.add(rank)
        if len(kept.left) >= len(kept.hosts):
            del self._kept[name]
            self._update()

    def notes(self) -> list[str]:
        """Return what all groups together lacked: one note, or none."""
        if not self._lacks:
            return []
        lacks = "; ".join(f"{count} {what}" for what, count in self._lacks.items())
        return [f"of {self._made} groups of ranks that there were, {lacks}"]

    @property
    def names(self) -> list[str]:
        """Return the names of the groups that have something in the switches."""
        return list(self._kept)

    def clear(self) -> None:
        """Remove all of it."""
        self._kept.clear()
        self._update()

    def lead_around(self, reach: Reach, plan: Planner) -> dict[str, int]:
        """Plan anew, since links have failed or come back. Return the groups whose jobs have moved,
        with the epochs that these have now: their ranks must be told.

        A job whose tree changes goes on in it with another epoch, so that no sum of a part of the
        old tree is taken for one of the new, and with none of its entries for a moment, so that no
        packet takes some of both. What the old tree had added is gone, and the ranks send it again
        (`AggregationQueuePair.move`).

        Raises:
            InputError: the links that are up do not serve; everything is as it was.
        """
        before = self._reach, self._plan
        self._reach, self._plan = reach, plan
        try:
            planned = self._plan(self._wants())
        except InputError:
            self._reach, self._plan = before
            raise
        found = {tree.job.number: tree for tree in trees_of(planned)}
        moved = {
            name: replace(kept.job, epoch=next(self._epochs))
            for name, kept in self._kept.items()
            if kept.job is not None and kept.tree is not None
            and found[kept.job.number].nodes != kept.tree.nodes
        }  # fmt: skip
        if moved:
            for name in moved:
                self._kept[name].job = None
            try:
                self._apply(self._plan(self._wants()))
            finally:
                for name, job in moved.items():
                    self._kept[name].job = job
        self._update()
        return {name: job.epoch for name, job in moved.items()}

    def _update(self) -> None:
        """Bring the switches to what is kept, and take note of the trees that it led to."""
        plan = self._plan(self._wants())
        self._apply(plan)
        trees = {tree.job.number: tree for tree in trees_of(plan)}
        for kept in self._kept.values():
            if kept.job is not None:
                kept.tree = trees.get(kept.job.number)
                if kept.tree is not None:
                    kept.job = replace(kept.job, root=kept.tree.root)

    def _wants(self) -> dict[str, Any]:
        last = max((n for kept in self._kept.values() for n in kept.groups), default=-1)
        groups: list[Sequence[str] | None] = [None] * (last + 1)
        for kept in self._kept.values():
            for number, members in kept.groups.items():
                groups[number] = members
        jobs = [kept.job for kept in self._kept.values() if kept.job is not None]
        return {"multicast": groups, "aggregation": jobs}

    def _free_job(self, hosts: tuple[str, ...], epoch: int) -> AggregationJob | None:
        """Return a job with a number and rows that no other has; None if all are taken."""
        most, _ = room(self._names)
        numbers = {kept.job.number for kept in self._kept.values() if kept.job is not None}
        number = next((n for n in range(1, most) if n not in numbers), None)
        base = self._free_rows()
        if number is None or base is None:
            return None
        return AggregationJob(ipv4_text(JOB_BASE_ADDRESS + number), hosts, epoch, self._slots, base)

    def _free_rows(self) -> int | None:
        """Return where rows begin that no job has; None if all are taken."""
        _, rows = room(self._names)
        bases = {kept.job.pool_base for kept in self._kept.values() if kept.job is not None}
        pools = range(0, rows - rows % (2 * self._slots), 2 * self._slots)
        return next((first for first in pools if first not in bases), None)
