"""A group of ranks on the network in memory, for the tests of the collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tests.support.collective_names import COLLECTIVES
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.theory_support import OFFLOADED

from weft.agents.collectives.agent import Done, Failed, HostAgent
from weft.agents.collectives.communicator import Communicator, Lane
from weft.agents.collectives.registry import partners
from weft.agents.collectives.requests import Request
from weft.agents.collectives.workload import Workload
from weft.agents.datagrams import ipv4
from weft.agents.transport import Endpoint, TransportOptions

MULTICAST_GROUP = ipv4("239.0.0.1")
SEED = 7

EVERY = [
    Request(0, collective, algorithm, 600)
    for collective, algorithms in COLLECTIVES.items()
    for algorithm in algorithms
    if algorithm not in OFFLOADED
]
"""One request of each algorithm of each collective that needs no more than ranks."""


def name_of(request: Request) -> str:
    """As a test's parameter."""
    return f"{request.collective}-{request.algorithm}"


class Group:
    """P connected ranks; `complete` runs operations on them.

    Every rank has a queue pair with every other; with `requests` only those that `partners` names
    for these. What they reduce is `data`, one of `names.DATA`.
    """

    data = "exact"
    switch_values = 0
    """Of a packet, where switches add."""

    def __init__(
        self,
        size: int,
        *,
        rate_bps: int = 1_000_000_000,
        path_mtu: int = 256,
        groups: int = 1,
        faults: Faults | None = None,
        queue_bytes: int | None = None,
        delay_ns: int = 10_000,
        keep_trace: bool = False,
        options: TransportOptions | None = None,
        requests: Sequence[Request] | None = None,
        lanes: Mapping[tuple[int, int], Sequence[Lane]] | None = None,
        epoch: int = 1,
    ) -> None:
        self.size = size
        addresses = [ipv4("10.0.0.1") + rank for rank in range(size)]
        multicast = [MULTICAST_GROUP + index for index in range(groups)]
        self.agents: list[HostAgent] = []
        for rank, address in enumerate(addresses):
            endpoint = Endpoint(
                address, path_mtu, rate_bps, seed=rank + 1, options=options, epoch=epoch
            )
            others = set(range(size))
            if requests is not None:
                others = set().union(*(partners(request, rank, size) for request in requests))
            own = {to: each for (source, to), each in (lanes or {}).items() if source == rank}
            communicator = Communicator(
                endpoint, rank, addresses, multicast, others, lanes=own or None, epoch=epoch
            )
            self.agents.append(HostAgent(endpoint, communicator))
        introductions = [agent.communicator.introduction() for agent in self.agents]
        for rank, agent in enumerate(self.agents):
            agent.communicator.connect(
                {peer: to[rank] for peer, to in enumerate(introductions) if rank in to}
            )
        self.network = MemoryNetwork(
            self.agents, rate_bps=rate_bps, delay_ns=delay_ns, queue_bytes=queue_bytes,
            faults=faults, keep_trace=keep_trace,
        )  # fmt: skip
        self.number = 0
        self.workloads: dict[int, Workload] = {}
        """By operation."""
        self.buffers: dict[int, list[npt.NDArray[np.generic]]] = {}
        self.outputs: dict[int, list[npt.NDArray[np.generic] | None]] = {}
        self.events: list[Done | Failed] = []
        self.started_ns = 0
        self.duration_ns = 0
        """Of the last operations: the slowest rank."""

    @property
    def request(self) -> Request:
        """Of the last operation that was started."""
        return self.workloads[self.number - 1].request

    def prepare(self, request: Request) -> int:
        """Make the buffers of the next operation; its number."""
        number = self.number
        self.number += 1
        workload = Workload(
            replace(request, number=number), self.size, SEED, data=self.data,
            switch_values=self.switch_values,
        )  # fmt: skip
        self.workloads[number] = workload
        self.buffers[number] = [workload.buffer(rank) for rank in range(self.size)]
        self.outputs[number] = [workload.output(rank) for rank in range(self.size)]
        return number

    def start(self, request: Request, ranks: Sequence[int] | None = None) -> int:
        """Start the next operation, on all ranks or on some; its number."""
        number = self.prepare(request)
        self.started_ns = self.network.now_ns
        for rank in range(self.size) if ranks is None else ranks:
            self.start_on(rank, number)
        return number

    def start_on(self, rank: int, number: int) -> None:
        """Start an operation on one rank."""
        self.agents[rank].start(
            self.workloads[number].request,
            self.buffers[number][rank],
            self.network.now_ns,
            self.outputs[number][rank],
        )

    def finish(
        self, timeout_ns: int, ranks: Sequence[int] | None = None, operations: int = 1
    ) -> list[Done | Failed]:
        """Run until every rank (or each of some) has ended so many operations; the events by
        rank."""
        left = dict.fromkeys(range(self.size) if ranks is None else ranks, operations)
        events: list[tuple[int, Done | Failed]] = []

        def ended() -> bool:
            for rank in left:
                while left[rank] and (event := self.agents[rank].next_event()) is not None:
                    events.append((rank, event))
                    left[rank] -= 1
            return not any(left.values())

        self.network.run(ended, timeout_ns, only_looks=True)
        self.events = [event for _, event in sorted(events, key=lambda entry: entry[0])]
        if self.events:
            self.duration_ns = max(event.finished_ns for event in self.events) - self.started_ns
        return self.events

    def complete(self, *requests: Request, timeout_ns: int = 60_000_000_000) -> list[Done]:
        """Operations started together that must end well, with the right bytes on all ranks."""
        numbers = [self.start(request) for request in requests]
        done = []
        for event in self.finish(timeout_ns, operations=len(requests)):
            assert isinstance(event, Done), event.error
            done.append(event)
        for number in numbers:
            self.verify(number)
        return done

    def verify(self, number: int | None = None) -> None:
        """Check what an operation, the last one, left on every rank; forget it."""
        number = self.number - 1 if number is None else number
        workload = self.workloads[number]
        for rank in range(self.size):
            wrong = workload.check(rank, self.buffers[number][rank], self.outputs[number][rank])
            assert not wrong, f"operation {number}, rank {rank}: {wrong}"
        del self.workloads[number], self.buffers[number], self.outputs[number]
