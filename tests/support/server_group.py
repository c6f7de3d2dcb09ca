"""Ranks and reduction servers on the network in memory, for the tests of the servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from tests.support.memory_network import Faults, MemoryNetwork

from weft.agents.collectives.agent import Done, Failed, HostAgent
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.dtypes import HALF_TYPES, dtype_of, is_float
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.agents.participant import AgentGroup
from weft.agents.servers import ReductionServer
from weft.agents.servers.server import MEMORY_BYTES, MOST_OPERATIONS
from weft.agents.transport import Endpoint, TransportOptions

Array = npt.NDArray[np.generic]

FIRST_RANK = ipv4("10.0.0.1")
FIRST_SERVER = ipv4("10.0.2.1")


class Team:
    """One communicator: its ranks' agents and what they have."""

    def __init__(self, job: int, agents: list[HostAgent]) -> None:
        self.job = job
        self.agents = agents
        self.number = 0
        self.inputs: dict[int, list[Array]] = {}
        self.outputs: dict[int, list[Array]] = {}
        self.requests: dict[int, Request] = {}


class ServerGroup:
    """Teams of some sizes, all served by the same servers; host addresses as in the tests of
    the collectives, those of the second team 16 higher, and so on. With `on_ranks` server s is on
    the host of the first team's rank s."""

    def __init__(
        self,
        *sizes: int,
        servers: int = 2,
        rate_bps: int = 1_000_000_000,
        path_mtu: int = 256,
        faults: Faults | None = None,
        queue_bytes: int | None = None,
        delay_ns: int = 10_000,
        memory_bytes: int = MEMORY_BYTES,
        most_operations: int = MOST_OPERATIONS,
        options: TransportOptions | None = None,
        on_ranks: bool = False,
    ) -> None:
        def endpoint(address: int) -> Endpoint:
            return Endpoint(address, path_mtu, rate_bps, seed=address & 0xFFFF, options=options)

        first = FIRST_RANK if on_ranks else FIRST_SERVER
        places = [first + index for index in range(servers)]
        endpoints = {address: endpoint(address) for address in places}
        self.servers = [
            ReductionServer(
                endpoints[address], memory_bytes=memory_bytes, most_operations=most_operations
            )
            for address in places
        ]
        self.teams: list[Team] = []
        for job, size in enumerate(sizes):
            addresses = [FIRST_RANK + 16 * job + rank for rank in range(size)]
            agents = []
            for rank, address in enumerate(addresses):
                made = endpoints.get(address) or endpoint(address)
                communicator = Communicator(
                    made, rank, addresses, (), set(range(size)), servers=places
                )
                agents.append(HostAgent(made, communicator))
            self.teams.append(Team(job, agents))
            for index, server in enumerate(self.servers):
                server.add_job(job, index, addresses, places)
            said = [agent.communicator.introduction() for agent in agents]
            said += [server.introduction(job) for server in self.servers]

            def heard(member: int, said: list[dict[int, tuple[int, ...]]] = said) -> (
                dict[int, tuple[int, ...]]
            ):  # fmt: skip
                return {peer: to[member] for peer, to in enumerate(said) if member in to}

            for rank, agent in enumerate(agents):
                agent.communicator.connect(heard(rank))
            for index, server in enumerate(self.servers):
                server.connect(job, heard(size + index))
        agents = [agent for team in self.teams for agent in team.agents]
        self.hosts: list[AgentGroup | HostAgent | ReductionServer] = [*agents, *self.servers]
        if on_ranks:
            self.hosts = [AgentGroup(agent.endpoint, [agent]) for agent in agents]
            for agent, server in zip(agents, self.servers, strict=False):
                self.hosts[agents.index(agent)] = AgentGroup(agent.endpoint, [agent, server])
        self.network = MemoryNetwork(
            self.hosts, rate_bps=rate_bps, delay_ns=delay_ns, faults=faults,
            queue_bytes=queue_bytes,
        )  # fmt: skip

    def prepare(self, request: Request, team: int = 0, inputs: list[Array] | None = None) -> int:
        """Make the buffers of a team's next operation; its number."""
        own = self.teams[team]
        number, size = own.number, len(own.agents)
        own.number += 1
        elements = request.elements(size)
        own.requests[number] = replace(request, number=number)
        own.inputs[number] = inputs or [
            values(request.dtype, sum(elements), 1000 * number + rank) for rank in range(size)
        ]
        whole = request.collective == "allreduce"
        own.outputs[number] = [
            np.full(
                (sum(elements) if whole else elements[rank]) * request.item_bytes, 0xEE, np.uint8
            ).view(dtype_of(request.dtype))
            for rank in range(size)
        ]
        return number

    def start_on(self, rank: int, number: int, team: int = 0) -> None:
        """Start an operation on one rank."""
        own = self.teams[team]
        own.agents[rank].start(
            own.requests[number], own.inputs[number][rank], self.network.now_ns,
            own.outputs[number][rank],
        )  # fmt: skip

    def start(self, request: Request, team: int = 0, ranks: Sequence[int] | None = None) -> int:
        """Start a team's next operation, on all ranks or on some; its number."""
        number = self.prepare(request, team)
        for rank in range(len(self.teams[team].agents)) if ranks is None else ranks:
            self.start_on(rank, number, team)
        return number

    def finish(
        self,
        timeout_ns: int = 60_000_000_000,
        team: int = 0,
        ranks: Sequence[int] | None = None,
        operations: int = 1,
    ) -> list[Done | Failed]:
        """Run until every rank of a team (or each of some) has ended so many operations; the events
        by rank."""
        agents = self.teams[team].agents
        left = dict.fromkeys(range(len(agents)) if ranks is None else ranks, operations)
        events: list[tuple[int, Done | Failed]] = []

        def ended() -> bool:
            for rank in left:
                while left[rank] and (event := agents[rank].next_event()) is not None:
                    events.append((rank, event))
                    left[rank] -= 1
            return not any(left.values())

        self.network.run(ended, timeout_ns, only_looks=True)
        return [event for _, event in sorted(events, key=lambda entry: entry[0])]

    def complete(self, *requests: Request, timeout_ns: int = 60_000_000_000, team: int = 0) -> None:
        """Operations of a team started together that must end well, with the right result."""
        numbers = [self.start(request, team) for request in requests]
        for event in self.finish(timeout_ns, team, operations=len(requests)):
            assert isinstance(event, Done), event.error
        for number in numbers:
            self.verify(number, team)

    def verify(self, number: int, team: int = 0) -> None:
        """Check an operation's results, bit by bit."""
        own = self.teams[team]
        request = own.requests[number]
        expected = reduced(request, own.inputs[number])
        elements = request.elements(len(own.agents))
        start = 0
        for rank, output in enumerate(own.outputs[number]):
            part = expected
            if request.collective == "reduce-scatter":
                part = expected[start : start + elements[rank]]
                start += elements[rank]
            assert np.array_equal(output.view(np.uint8), part.view(np.uint8)), (number, rank)

    def settled(self) -> None:
        """Let everything come to rest; the servers must have given all memory back."""
        self.network.settle()
        for server in self.servers:
            assert (server.running, server.used_bytes) == (0, 0)


def values(dtype: str, count: int, seed: int) -> Array:
    """Any elements of a type; of floating point: not NaN, and of many magnitudes."""
    generator = np.random.default_rng(seed)
    kind = dtype_of(dtype)
    if not is_float(dtype):
        return generator.integers(0, 256, count * kind.itemsize, np.uint8).view(kind)
    scale = 2.0 ** generator.integers(-6, 6, count)
    return (generator.standard_normal(count) * scale).astype(kind)


def reduced(request: Request, inputs: Sequence[Array]) -> Array:
    """All ranks' vectors combined in the order of ranks, or of groups of `fan_in`, by numpy."""
    kind = dtype_of(request.dtype)
    wide = np.dtype(np.float32) if request.dtype in HALF_TYPES else kind
    parts = [part.astype(wide) for part in inputs]
    fan_in = dict(request.own).get("fan_in") or len(parts)
    while True:
        groups = [parts[at : at + fan_in] for at in range(0, len(parts), fan_in)]
        parts = []
        for group in groups:
            total = group[0].copy()
            for other in group[1:]:
                request.ufunc(total, other, out=total)
            parts.append(total)
        if len(parts) == 1:
            break
    total, ranks = parts[0], len(inputs)
    if request.op == "average" and is_float(request.dtype):
        total = total / wide.type(ranks)
    elif request.op == "average":
        whole = [abs(int(each)) // ranks * (1 if each > 0 else -1) for each in total]
        total = np.array(whole, kind)
    rounded: Array = total.astype(kind)
    return rounded
