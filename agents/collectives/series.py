"""Several operations on one rank, one after another or some at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.agents.collectives.agent import Done, Failed, HostAgent
from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.names import MAX_AT_ONCE
from weft.agents.collectives.operation import OperationReport
from weft.agents.collectives.requests import Request
from weft.base.errors import InputError, refuse


@dataclass(frozen=True)
class BoundRequest:
    """A bound request has the arrays of one rank with it, as `HostAgent.start` takes them."""

    request: Request
    buffer: Array
    output: Array | None


class Series:
    """A series runs jobs in order on an agent, at most `at_once` at the same time.

    Whoever drives the agent calls `take` whenever it may have an event, and sees to it that what
    that posts is sent.

    Args:
        waits: how many places before a job those are that must be done before it begins; one entry
            for each kind of job, in turn. Empty: none waits.

    Raises:
        InputError: `at_once` is out of range, or a job would wait for a later one.
    """

    def __init__(
        self,
        agent: HostAgent,
        jobs: Sequence[BoundRequest],
        at_once: int = 1,
        waits: Sequence[Sequence[int]] = (),
    ) -> None:
        if not 1 <= at_once <= MAX_AT_ONCE:
            raise InputError(f"at_once {at_once}: choose 1 to {MAX_AT_ONCE}")
        refuse(
            any(places < 1 for each in waits for places in each),
            f"waits {waits}: a job can wait for those before it, 1 place or more",
        )
        self._agent = agent
        self._jobs = list(jobs)
        self._at_once = at_once
        self._waits = waits
        self._places = {job.request.number: place for place, job in enumerate(self._jobs)}
        self._begun = 0
        self._done = 0
        self._spans_ns: list[tuple[int, int | None]] = []
        """When each job that has begun began, and when it ended if it has; in order."""
        self.error = ""
        """Why the series failed, or empty."""
        self.finished_ns = 0
        """When the last job ended."""
        self.total = OperationReport()
        """The sum of the reports of the jobs that ended."""

    @property
    def algorithm(self) -> str:
        """Return the algorithm of the first job."""
        return self._jobs[0].request.algorithm

    @property
    def ended(self) -> bool:
        """Return whether all jobs are done, or one has failed."""
        return bool(self.error) or self._done == len(self._jobs)

    def start(self, now_ns: int) -> None:
        """Begin the first jobs."""
        while self._begun < len(self._jobs) and self._begun - self._done < self._at_once:
            job = self._jobs[self._begun]
            # There is no room where one that began long ago is still running.
            if not (self._may_begin(self._begun) and self._agent.has_room(job.request.number)):
                return
            self._begun += 1
            self._spans_ns.append((now_ns, None))
            self._agent.start(job.request, job.buffer, now_ns, job.output)

    def take(self, now_ns: int) -> None:
        """Take the agent's events, and begin what comes next."""
        while not self.ended and (event := self._agent.next_event()) is not None:
            self._take(event)
            if not self.ended and not self._agent.failure:
                self.start(now_ns)
            elif not self.ended and self._done == self._begun:
                self.error = self._agent.failure  # a peer's, when nothing was running here
                self.finished_ns = now_ns

    def report(self, now_ns: int) -> OperationReport:
        """Return the sum of the reports of the jobs that ended and of those that run."""
        return self.total if self.ended else self.total + self._agent.report(now_ns)

    def spans_since(self, start_ns: int) -> list[tuple[int, int]]:
        """Return when each job that has ended began and ended, counted from `start_ns`; in
        order."""
        return [
            (begun - start_ns, end - start_ns) for begun, end in self._spans_ns if end is not None
        ]

    def _may_begin(self, place: int) -> bool:
        """Return whether all that a job waits for is done."""
        if not self._waits:
            return True
        waits = self._waits[place % len(self._waits)]
        return all(self._spans_ns[place - back][1] is not None for back in waits if back <= place)

    def _take(self, event: Done | Failed) -> None:
        self.total += event.report
        self.finished_ns = event.finished_ns
        place = self._places[event.number]
        self._spans_ns[place] = (self._spans_ns[place][0], event.finished_ns)
        if isinstance(event, Failed):
            self.error = event.error
        else:
            self._done += 1
