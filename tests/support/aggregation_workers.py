"""Workers of aggregation jobs on bare endpoints, below the model of a tree of switches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tests.support.aggregation_switches import JobPlan, TreeNetwork
from tests.support.memory_network import Faults

from weft.agents.datagrams import ipv4
from weft.agents.transport import (
    AggregationQueuePair,
    Completion,
    DataKind,
    Endpoint,
    Reduction,
    TransportOptions,
)

Array = npt.NDArray[np.generic]

KINDS = {
    "int32": DataKind.INT32,
    "float32": DataKind.FLOAT32,
    "float16": DataKind.FLOAT16,
    "bfloat16": DataKind.BFLOAT16,
}


class Workers:
    """P endpoints in one or several jobs; `pairs` by job and rank."""

    def __init__(
        self,
        size: int,
        jobs: Sequence[JobPlan] = (JobPlan(),),
        *,
        levels: int = 1,
        fan: int = 0,
        rate_bps: int = 1_000_000_000,
        faults: Faults | None = None,
        keep_trace: bool = False,
        options: TransportOptions | None = None,
        path_mtu: int = 256,
        may_move: bool = False,
    ) -> None:
        self.size = size
        self._may_move = may_move
        self.hosts = [
            Endpoint(ipv4("10.0.0.1") + rank, path_mtu, rate_bps, seed=rank, options=options)
            for rank in range(size)
        ]
        self.pairs: list[list[AggregationQueuePair]] = [self.join(job) for job in jobs]
        self.network = TreeNetwork(
            self.hosts, jobs, levels=levels, fan=fan, rate_bps=rate_bps, faults=faults,
            keep_trace=keep_trace,
        )  # fmt: skip
        self.completions: list[list[Completion]] = [[] for _ in range(size)]

    def join(self, job: JobPlan) -> list[AggregationQueuePair]:
        """Make every host a worker of a job."""
        return [
            host.create_aggregation(
                job.address, job.epoch, slots=job.slots, values=job.values, ranks=self.size,
                rank=rank, may_move=self._may_move,
            )
            for rank, host in enumerate(self.hosts)
        ]  # fmt: skip

    def post(
        self,
        inputs: Sequence[Array],
        number: int = 0,
        *,
        job: int = 0,
        shards: Sequence[int] | None = None,
        average: bool = False,
        ranks: Sequence[int] | None = None,
    ) -> tuple[list[Reduction], list[Array]]:
        """Post a reduction on all ranks, or on some; it and its results by rank."""
        kind = KINDS[inputs[0].dtype.name]
        posted, results = [], []
        for rank in range(self.size) if ranks is None else ranks:
            count = len(inputs[rank]) if shards is None else shards[rank]
            result = np.empty(count, inputs[rank].dtype)
            result.view(np.uint8)[:] = 0xEE
            results.append(result)
            posted.append(
                self.pairs[job][rank].post_reduction(
                    inputs[rank], result, kind, number, shards=shards, average=average,
                    context=number,
                )
            )  # fmt: skip
        return posted, results

    def run(self, posted: Sequence[Reduction], timeout_ns: int = 60_000_000_000) -> int:
        """Go on until these have ended; returns the time."""

        def ended() -> bool:
            for rank, host in enumerate(self.hosts):
                self.completions[rank] += host.poll()
            return all(reduction.done or reduction.error for reduction in posted)

        return self.network.run(ended, timeout_ns)

    def reduce(self, inputs: Sequence[Array], number: int = 0, **how: object) -> list[Array]:
        """Post and run; the results by rank."""
        posted, results = self.post(inputs, number, **how)  # type: ignore[arg-type]
        self.run(posted)
        assert all(reduction.done for reduction in posted)
        return results
