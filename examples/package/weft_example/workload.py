"""A workload: halo exchange, as stencil codes do it. Ranks are a ring; in each step every rank
sends a face to both neighbours, and begins the next step when both of theirs have come."""

from dataclasses import dataclass
from typing import Any

from weft.agents.collectives.flow_graph import RECEIVED, FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.base.errors import refuse
from weft.base.option import SIZE, WHOLE, WORKLOAD, option
from weft.experiments.families.flows.workload import Workload, WorkloadOptions


@dataclass(frozen=True)
class HaloOptions:
    """Options that the command line, scenario files and Python have for this workload."""

    steps: int = option(4, WHOLE, "Halo: steps.", group=WORKLOAD, between=(1, 1000))
    face_bytes: int = option(
        65536, SIZE, "Halo: bytes of a face.", group=WORKLOAD, name="face", between=(1, 1 << 30)
    )


class Halo(Workload):
    """Halo exchange around a ring."""

    name = "halo"
    about = "halo exchange"
    options = HaloOptions

    def graph(self, options: WorkloadOptions, own: Any) -> FlowGraph:
        """Return the flows of all steps."""
        ranks = options.ranks
        refuse(ranks < 3, f"halo between {ranks} ranks: it takes 3 or more to have two neighbours")
        builder = GraphBuilder()
        came: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(ranks)}
        for _ in range(own.steps):
            coming: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(ranks)}
            for rank in range(ranks):
                for neighbour in ((rank + 1) % ranks, (rank - 1) % ranks):
                    flow = builder.flow(rank, neighbour, own.face_bytes, after=came[rank])
                    coming[neighbour].append((flow, RECEIVED))
            came = coming
        return builder.build()


HALO = Halo()
