"""The process of a host: a rank, a reduction server or both on UDP sockets, directed by the runner
over the rendezvous.

It serves its network all the time from the hello to the close, so that peers always get their
acknowledgements; buffers are filled and checked in slices between packets, outside the timed part.
"""

import contextlib
import gc
import os
import select
import socket
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace

import numpy as np

from weft.agents.collectives.agent import Done
from weft.agents.collectives.names import ALGORITHMS, algorithms
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.series import BoundRequest, Series
from weft.agents.collectives.sums import prepare as prepare_sums
from weft.agents.collectives.workload import Workload
from weft.agents.datagrams import ipv4
from weft.agents.drivers.computing import Workers
from weft.agents.drivers.messages import (
    Abort,
    Close,
    Connected,
    Finished,
    Hello,
    LineChannel,
    Message,
    Peers,
    Prepare,
    ProgressMessage,
    RankFailed,
    Ready,
    Result,
    Start,
    Verify,
    Working,
)
from weft.agents.drivers.udp import UdpDriver
from weft.agents.participant import Participant, Team
from weft.agents.ranks import OperationConfig, RankConfig, RankReport, report_of
from weft.agents.transport import Endpoint
from weft.agents.transport.receive_worker import ReceiveWorker
from weft.agents.transport.types import PEAKS
from weft.base.errors import MachineError, ProtocolError, RunError, WeftError, refuse

PROGRESS_NS = 250_000_000
"""Time between two reports of progress."""
WARM_UP_NS = 60_000_000_000
"""How much time of its own an operation may take to warm up; what ends takes far less."""
LOOK_UP_NS = 10_000_000
"""How long the rendezvous may go unread while packets come without a pause."""


def run_rank(config: RankConfig) -> int:
    """Be a rank until the runner says close or abort, and return the exit status of the process."""
    channel = _meet(config)
    try:
        _Rank(config, channel).run()
    except WeftError as error:
        print(f"rank {config.rank}: {error}", file=sys.stderr)
        channel.send(RankFailed(str(error)))
        return error.exit_status
    except Exception as error:
        traceback.print_exc()
        channel.send(RankFailed(f"{type(error).__name__}: {error}"))
        return 1
    return 0


def _meet(config: RankConfig) -> LineChannel:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(config.connect_timeout_s)
    try:
        connection.connect(config.rendezvous)
    except OSError as error:
        raise MachineError(f"rendezvous {config.rendezvous}: {error.strerror or error}") from error
    return LineChannel(connection)


class _Rank:
    """The state of the process: what the runner has told it, and the operation at hand."""

    def __init__(self, config: RankConfig, channel: LineChannel) -> None:
        self._config = config
        self._channel = channel
        self._rank = config.rank
        self._team, self._member = config.roles[0]
        self._participant = participant_of(config)
        self._driver = UdpDriver(
            self._participant.machine, workers=receive_workers(self._participant, config.workers)
        )
        self._operation = OperationConfig(Request(0, "allgather", "ring", 0))
        self._workloads: list[Workload] = []
        self._jobs: list[BoundRequest] = []
        self._series: Series | None = None
        """The operations, while they run."""
        self._work: Iterator[None] | None = None
        """Filling or checking buffers, a slice at a time."""
        self._slices = 0
        """How many slices of buffers have been filled or checked so far."""
        self._start_ns: int | None = None
        """The common start, until it has come."""
        self._common_start_ns = 0
        self._started_cpu_ns = 0
        self._last_progress_ns = 0
        self._statistics: dict[str, int] = {}
        """Counters when the operation began."""
        self._result: RankReport | None = None
        self._closed = False
        self._workers: Workers | None = None
        """The threads that compute, if operations want any."""
        self._either = select.epoll()
        """Wakes for what the runner says and for what the threads have done."""

    def run(self) -> None:
        # The pages that the fork shares are copied now, not in the timed part.
        warm_up(self._config.algorithms, self._config.collectives)
        self._channel.send(Hello(self._rank, os.getpid(), self._participant.introductions()))
        gc.disable()  # a collection takes milliseconds and what is made here has no cycles
        try:
            while not self._closed:
                self._serve()
                for message in self._channel.receive():
                    self._take(message)
                refuse(
                    self._channel.closed and not self._closed,
                    "the runner has closed the rendezvous",
                    RunError,
                )
                if self._work is not None:
                    self._go_on(self._work)
        finally:
            if self._workers is not None:
                self._workers.close()
            self._driver.close()  # before the rendezvous sees the end: the port is free by then

    def _serve(self) -> None:
        """Carry packets until something else is to be done."""
        now_ns = time.monotonic_ns()
        until_ns = now_ns if self._work is not None else now_ns + LOOK_UP_NS * 10
        if self._start_ns is not None:
            until_ns = min(until_ns, self._start_ns)
        if self._series is not None:
            until_ns = min(until_ns, self._last_progress_ns + PROGRESS_NS)
        has_event = self._participant.machine.has_event
        if self._workers is None:
            self._driver.run(until_ns, wake=self._channel.fileno(), until=has_event)
        else:
            self._driver.run(
                until_ns, wake=self._either.fileno(), until=lambda: has_event() or self._compute()
            )
        now_ns = time.monotonic_ns()
        if self._workers is not None:
            self._compute()
        if self._start_ns is not None and now_ns >= self._start_ns:
            self._begin(now_ns)
        if self._series is None:
            return
        self._series.take(now_ns)
        if self._series.ended:
            self._finish(self._series)
            self._series = None
        elif now_ns >= self._last_progress_ns + PROGRESS_NS:
            self._last_progress_ns = now_ns
            received = self._series.report(now_ns).received_bytes
            self._channel.send(ProgressMessage(received))

    def _compute(self) -> bool:
        """Let threads compute what operations want, and tell these of what is done. Return whether
        the agent has something for its user."""
        agent, workers = self._participant.rank_agent, self._workers
        assert workers is not None
        for each in workers.done():
            refuse(each.error, f"computing failed: {each.error}", RunError)
            agent.computed(each.work, each.began_ns, time.monotonic_ns())
        for work in agent.take_work():
            workers.begin(work)
        return agent.has_event()

    def _make_workers(self) -> None:
        """Make the threads that compute, if the operation computes and takes as long as it
        takes."""
        request = self._operation.request
        wanted = request.computation is not None and request.computation.measured
        if wanted and self._workers is None:
            assert request.flows is not None
            self._workers = Workers(sum(request.flows.pools))
            self._either.register(self._channel.fileno(), select.EPOLLIN)
            self._either.register(self._workers.fileno(), select.EPOLLIN)

    def _take(self, message: Message) -> None:
        match message:
            case Peers(queue_pairs=queue_pairs):
                self._participant.connect(queue_pairs)
                self._channel.send(Connected())
            case Prepare(operation=operation):
                self._operation = operation
                self._work = self._prepare()
            case Start(at_ns=at_ns):
                self._start_ns = at_ns
            case Verify():
                self._work = self._verify()
            case Abort(reason=reason):
                if self._participant.agent is not None:
                    self._participant.agent.abort(reason, time.monotonic_ns())
                self._closed = True
            case Close():
                self._closed = True
            case _:
                raise ProtocolError(f"{message.kind} is not for a rank")

    def _go_on(self, work: Iterator[None]) -> None:
        """Fill or check a slice more, and let the runner know now and then."""
        if next(work, self) is self:
            self._work = None
            return
        self._slices += 1
        now_ns = time.monotonic_ns()
        if now_ns >= self._last_progress_ns + PROGRESS_NS:
            self._last_progress_ns = now_ns
            self._channel.send(Working(self._slices))

    def _prepare(self) -> Iterator[None]:
        """Make the buffers and fill in what this rank contributes."""
        self._make_workers()
        self._workloads = self._operation.workloads(self._team, self._config.teams[self._team])
        before, self._jobs = self._jobs, []
        for index, workload in enumerate(self._workloads):
            own_bytes = workload.buffer_bytes(self._member)
            # The pages of a buffer that is used again are there already.
            again = index < len(before) and before[index].buffer.nbytes == own_bytes
            memory = before[index].buffer.view(np.uint8) if again else np.empty(own_bytes, np.uint8)
            yield from workload.fill(self._member, memory)
            output = workload.empty_output(self._member)
            yield from workload.clear(output)
            self._jobs.append(
                BoundRequest(workload.request, memory.view(workload.request.dtype), output)
            )
        self._result = None
        self._channel.send(Ready())

    def _begin(self, now_ns: int) -> None:
        self._common_start_ns = self._start_ns or now_ns
        self._start_ns = None
        self._statistics = self._counters()
        self._driver.reset_lateness(now_ns - self._common_start_ns)
        self._started_cpu_ns = time.process_time_ns()
        self._last_progress_ns = now_ns
        operation = self._operation
        self._series = Series(
            self._participant.rank_agent, self._jobs, operation.at_once, operation.waits
        )
        self._series.start(now_ns)

    def _finish(self, series: Series) -> None:
        before, after = self._statistics, self._counters()
        statistics = {
            name: after[name] - (0 if name in PEAKS else before.get(name, 0)) for name in after
        }
        self._result = report_of(
            self._rank,
            self._team,
            self._config.host,
            series,
            series.total,
            statistics,
            self._common_start_ns,
            cpu_ns=time.process_time_ns() - self._started_cpu_ns,
            wake_lateness_ns=self._driver.lateness_ns(),
        )
        self._channel.send(Finished(self._result.completion_ns, series.error))

    def _verify(self) -> Iterator[None]:
        """Compare every byte with what it must be and send the result."""
        result = self._result
        if result is None:
            raise ProtocolError("verify before the operation has finished")
        error = result.error
        for workload, job in zip(self._workloads, self._jobs, strict=True):
            if error:
                break
            for wrong in workload.checks(self._member, job.buffer, job.output):
                error = error or wrong
                yield
        self._channel.send(Result(result.checked(error, self._workloads)))

    def _counters(self) -> dict[str, int]:
        """Return all counters of transport and driver; they only grow, the most there was of
        something too."""
        return {**asdict(self._participant.endpoint.statistics), **self._driver.counters()}


def participant_of(config: RankConfig) -> Participant:
    """Return what runs on the host of a rank."""
    endpoint = Endpoint(
        ipv4(config.address),
        config.path_mtu,
        config.rate_bps,
        seed=config.seed * (config.processes or len(config.teams[0].addresses)) + config.rank,
        options=config.transport,
        epoch=config.teams[0].epoch,
    )
    return Participant(endpoint, config.teams, config.roles, config.partners, config.lanes)


def receive_workers(participant: Participant, workers: int) -> list[ReceiveWorker]:
    """Return what receives the groups of each subgroup of a multicast operation with so many
    workers: one worker for each thread, and none where there is only one worker."""
    if workers == 1 or participant.agent is None:
        return []
    pairs = participant.agent.communicator.multicast
    return [participant.endpoint.hand_over(pairs[worker::workers]) for worker in range(workers)]


def warm_up(
    asked: Collection[str] | None = None, collectives: Collection[str] | None = None
) -> None:
    """Run compiled functions once, so that forked ranks find their machine code in memory, and so
    that a forked rank has copied the memory that it is going to write.

    Two agents do a few kilobytes of everything in memory, or of the algorithms that are `asked`
    for, as they do some collectives or all. The sums of reduction servers, which take long to
    compile, are made only where an algorithm with such servers is asked for. Algorithms of other
    packages are done only where they are asked for, as far as these can do that: what they cannot
    do is said where they run.
    """
    considered = [
        (algorithm_of(collective, name), Request(0, collective, name, 750, "float32"))
        for collective, names in algorithms().items()
        if collectives is None or collective in collectives
        for name in names
        if (name in ALGORITHMS.own if asked is None else name in asked)
    ]
    done = [(kind, each) for kind, each in considered if kind.unicast or kind.multicasts]
    own = [pair for pair in done if pair[1].algorithm in ALGORITHMS.own]
    _run_between_two([each for kind, request in own for each in kind.warm_ups(request)])
    for _, request in done:
        if request.algorithm not in ALGORITHMS.own:
            with contextlib.suppress(Exception):
                algorithm_of(request.collective, request.algorithm).check(request)
                _run_between_two([request])
    UdpDriver.warm_up()
    if asked is not None and any(kind.serves for kind, _ in considered):
        prepare_sums()


def _run_between_two(requests: Sequence[Request]) -> None:
    """Do operations one after the other between two agents in memory.

    Raises RunError for one that fails, or that does not end.
    """
    teams = [Team(("10.0.0.1", "10.0.0.2"), groups=("239.0.0.1",))]
    configs = [RankConfig(rank, f"h{rank}", teams, "", path_mtu=256, rate_bps=0) for rank in (0, 1)]
    participants = [participant_of(config) for config in configs]
    for one, other in (participants, participants[::-1]):
        one.connect(other.introductions())
    agents = [participant.rank_agent for participant in participants]
    now_ns = 0
    for number, request in enumerate(requests):
        workload = Workload(replace(request, number=number), len(agents), seed=1)
        for rank, agent in enumerate(agents):
            agent.start(workload.request, workload.buffer(rank), now_ns, workload.output(rank))
        end_ns = now_ns + WARM_UP_NS
        while any(agent.running for agent in agents):
            refuse(now_ns > end_ns, f"warming up: {request.algorithm} does not end", RunError)
            now_ns += 1_000_000
            for sender, receiver in (agents, agents[::-1]):
                batch = sender.transmit(now_ns)
                if len(batch):
                    receiver.receive(batch, now_ns)
        for agent in agents:
            event = agent.next_event()
            if not isinstance(event, Done):
                raise RunError(f"warming up {request.algorithm}: {event}")
