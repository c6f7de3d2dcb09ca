"""Jobs: what balancers know of unit tasks, and when each is done.

A job takes links for a time: the outgoing link of its sender's host and the incoming
link of every host that needs the slice, for as long as a link takes for it. Where the meshes have
no host in common this is the paper's model (MLSys 2023, arXiv 2211.05322, section 3), in which a
host does one job at a time. Times are in bytes that a link carries meanwhile.
"""

from collections.abc import Sequence
from typing import NamedTuple

from weft.experiments.families.resharding.unit_tasks import UnitTask


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


class SenderChoice(NamedTuple):
    """A choice of senders and order."""

    senders: tuple[int, ...]
    """For each job, the host that sends it."""
    order: tuple[int, ...]
    """The jobs in their order."""


Link = tuple[int, str]
"""A direction of a host's link: the host, and ``in`` or ``out``."""


def links_of(job: Job, sender: int) -> tuple[Link, ...]:
    """Return the links that a job takes, all at the same time, if one of its senders sends it."""
    return ((sender, "out"), *((host, "in") for host in job.receivers))


def times(jobs: Sequence[Job], choice: SenderChoice) -> list[tuple[int, int]]:
    """Return when each job begins and ends: in the order of the choice, each as soon as all its
    links are free."""
    free: dict[Link, int] = {}
    spans = [(0, 0)] * len(jobs)
    for number in choice.order:
        taken = links_of(jobs[number], choice.senders[number])
        begin = max(free.get(link, 0) for link in taken)
        end = begin + jobs[number].size_bytes
        free |= dict.fromkeys(taken, end)
        spans[number] = (begin, end)
    return spans


def makespan(jobs: Sequence[Job], choice: SenderChoice) -> int:
    """Return when the last job ends."""
    return max((end for _, end in times(jobs, choice)), default=0)
