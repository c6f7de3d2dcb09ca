"""A group of ranks on the network in memory, for the tests of the collectives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from agents.collectives.agent import Done, Failed, HostAgent
from agents.collectives.communicator import Communicator
from agents.collectives.operation import Allgather
from agents.collectives.pattern import fill_shard, first_difference
from agents.datagrams import ipv4
from agents.transport import Endpoint, TransportOptions
from tests.memory_network import Faults, MemoryNetwork

MULTICAST_GROUP = ipv4("239.0.0.1")


class Group:
    """P connected ranks; `gather` runs one Allgather after another on them."""

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
    ) -> None:
        self.size = size
        addresses = [ipv4("10.0.0.1") + rank for rank in range(size)]
        multicast = [MULTICAST_GROUP + index for index in range(groups)]
        self.agents: list[HostAgent] = []
        for rank, address in enumerate(addresses):
            endpoint = Endpoint(address, path_mtu, rate_bps, seed=rank + 1, options=options)
            communicator = Communicator(endpoint, rank, addresses, multicast)
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
        self.events: list[Done | Failed] = []
        self.duration_ns = 0
        """Of the last operation: the slowest rank."""

    def start(self, request: Allgather, ranks: list[int] | None = None) -> None:
        """Start the next operation, on all ranks or on some."""
        self.request = replace(request, number=self.number)
        self.number += 1
        self.buffers: list[npt.NDArray[np.uint8]] = []
        self.started_ns = self.network.now_ns
        for rank, agent in enumerate(self.agents):
            buffer = np.full(self.size * request.shard_bytes, 0xEE, np.uint8)
            own = buffer[rank * request.shard_bytes : (rank + 1) * request.shard_bytes]
            fill_shard(own, 7, self.request.number, rank)
            self.buffers.append(buffer)
            if ranks is None or rank in ranks:
                agent.start(self.request, buffer, self.network.now_ns)

    def finish(self, timeout_ns: int, ranks: list[int] | None = None) -> list[Done | Failed]:
        """Run until every rank (or each of some) has ended its operation; its events by rank."""
        waiting = set(range(self.size) if ranks is None else ranks)
        events: dict[int, Done | Failed] = {}

        def ended() -> bool:
            for rank in list(waiting):
                event = self.agents[rank].next_event()
                if event is not None:
                    events[rank] = event
                    waiting.remove(rank)
            return not waiting

        self.network.run(ended, timeout_ns)
        self.events = [events[rank] for rank in sorted(events)]
        self.duration_ns = max(event.finished_ns for event in self.events) - self.started_ns
        return self.events

    def gather(self, request: Allgather, timeout_ns: int = 60_000_000_000) -> list[Done]:
        """One Allgather that must end well, with the right bytes on all ranks."""
        self.start(request)
        done = []
        for event in self.finish(timeout_ns):
            assert isinstance(event, Done), event.error
            done.append(event)
        self.verify()
        return done

    def verify(self) -> None:
        size = self.request.shard_bytes
        for rank, buffer in enumerate(self.buffers):
            for source in range(self.size):
                shard = buffer[source * size : (source + 1) * size]
                wrong = first_difference(shard, 7, self.request.number, source)
                assert wrong is None, f"rank {rank}, shard {source}: byte {wrong} is wrong"
