"""Jobs: what balancers know of unit tasks, and when each is done by a model of what it takes.

A job takes links for a time: by default the outgoing link of its sender's host and the incoming
link of every host that needs the slice, for as long as a link takes for it. Where the meshes have
no host in common this is the paper's model (MLSys 2023, arXiv 2211.05322, section 3), in which a
host does one job at a time. Times are in bytes that a link carries meanwhile.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from weft.experiments.resharding.unit_tasks import UnitTask


class Job(NamedTuple):
    """A job is what balancers know of a unit task that has to be sent."""

    size_bytes: int
    senders: tuple[int, ...]
    """The hosts that can send it."""
    receivers: tuple[int, ...]
    """The hosts that need it."""


def job_of(task: UnitTask) -> Job:
    """Return the job of a unit task that has receivers on other hosts."""
    return Job(task.size_bytes, task.sender_hosts, tuple(task.remote))


class Choice(NamedTuple):
    """A choice of senders and order."""

    senders: tuple[int, ...]
    """For each job, the host that sends it."""
    order: tuple[int, ...]
    """The jobs in their order."""


class Use(NamedTuple):
    """What a job takes: resources, all at the same time, and for how long."""

    duration: int
    resources: tuple[Hashable, ...]


Model = Callable[[Job, int], Use]
"""What a job takes if it is sent by one of its senders."""


def by_links(job: Job, sender: int) -> Use:
    """Return what a job takes by the paper's model: (host, direction) of each link."""
    incoming = ((host, "in") for host in job.receivers)
    return Use(job.size_bytes, ((sender, "out"), *incoming))


def times(jobs: Sequence[Job], choice: Choice, model: Model = by_links) -> list[tuple[int, int]]:
    """Return when each job begins and ends: in the order of the choice, each as soon as all that it
    takes is free."""
    free: dict[Hashable, int] = {}
    spans = [(0, 0)] * len(jobs)
    for number in choice.order:
        duration, taken = model(jobs[number], choice.senders[number])
        begin = max((free.get(each, 0) for each in taken), default=0)
        end = begin + duration
        free |= dict.fromkeys(taken, end)
        spans[number] = (begin, end)
    return spans


def makespan(jobs: Sequence[Job], choice: Choice, model: Model = by_links) -> int:
    """Return when the last job ends."""
    return max((end for _, end in times(jobs, choice, model)), default=0)
