"""A group of ranks below the model of a tree of aggregating switches, for the tests of algorithm
``switch``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tests.support.aggregation_switches import JobPlan, TreeNetwork
from tests.support.collective_group import Group
from tests.support.datagram_rows import Datagram, batch_of, rows_of
from tests.support.memory_network import Faults

from weft.agents.collectives.agent import Done, Failed, HostAgent
from weft.agents.collectives.communicator import Communicator, SwitchJob
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import Datagrams, ipv4, ipv4_text
from weft.agents.transport import Endpoint, TransportOptions

Array = npt.NDArray[np.generic]


class PausingAgent(HostAgent):
    """An agent whose process does not run from one time to another: what arrives waits."""

    def __init__(self, endpoint: Endpoint, communicator: Communicator) -> None:
        super().__init__(endpoint, communicator)
        self.pause_ns = (0, 0)
        self._paused = False
        self._kept: list[Datagram] = []

    def _runs(self, now_ns: int) -> bool:
        self._paused = self.pause_ns[0] <= now_ns < self.pause_ns[1]
        if self._kept and not self._paused:
            kept, self._kept = self._kept, []
            super().receive(batch_of(kept), now_ns)
        return not self._paused

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        if self._runs(now_ns):
            super().receive(batch, now_ns)
        else:
            self._kept += rows_of(batch)

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 62) -> Datagrams:
        if self._runs(now_ns):
            return super().transmit(now_ns, budget_bytes)
        return Datagrams.allocate(1, 1)

    def deadline(self) -> int | None:
        return self.pause_ns[1] if self._paused else super().deadline()


class SwitchGroup(Group):
    """P connected ranks whose communicator has an aggregation job; `finish` and `complete` as of
    `Group`."""

    def __init__(
        self,
        size: int,
        *,
        job: JobPlan | None = None,
        levels: int = 1,
        fan: int = 0,
        rate_bps: int = 1_000_000_000,
        path_mtu: int = 256,
        faults: Faults | None = None,
        keep_trace: bool = False,
        options: TransportOptions | None = None,
    ) -> None:
        job = job or JobPlan()
        switch_job = SwitchJob(ipv4_text(job.address), job.epoch, job.slots, job.values)
        self.size = size
        self.switch_values = job.values
        addresses = [ipv4("10.0.0.1") + rank for rank in range(size)]
        self.agents: list[HostAgent] = []
        for rank, address in enumerate(addresses):
            endpoint = Endpoint(address, path_mtu, rate_bps, seed=rank + 1, options=options)
            communicator = Communicator(endpoint, rank, addresses, aggregation=switch_job)
            self.agents.append(PausingAgent(endpoint, communicator))
        introductions = [agent.communicator.introduction() for agent in self.agents]
        for rank, agent in enumerate(self.agents):
            agent.communicator.connect(
                {peer: to[rank] for peer, to in enumerate(introductions) if rank in to}
            )
        self.network: TreeNetwork = TreeNetwork(
            self.agents, [job], levels=levels, fan=fan, rate_bps=rate_bps, faults=faults,
            keep_trace=keep_trace,
        )  # fmt: skip
        self.number = 0
        self.workloads, self.buffers, self.outputs = {}, {}, {}
        self.events: list[Done | Failed] = []
        self.started_ns = self.duration_ns = 0

    def pause(self, rank: int, begin_ns: int, end_ns: int) -> None:
        """Have a rank's process not run for a while."""
        agent = self.agents[rank]
        assert isinstance(agent, PausingAgent)
        agent.pause_ns = (begin_ns, end_ns)

    def begin(self, request: Request, inputs: Sequence[Array]) -> list[Array]:
        """Start an operation on data of the caller's; the results by rank, once it has ended."""
        elements = request.elements(self.size)
        outputs = []
        for rank, agent in enumerate(self.agents):
            whole = request.collective == "allreduce"
            count = sum(elements) if whole else elements[rank]
            output = np.empty(count, inputs[rank].dtype)
            output.view(np.uint8)[:] = 0xEE
            agent.start(request, inputs[rank], self.network.now_ns, output)
            outputs.append(output)
        self.number = request.number + 1
        return outputs
