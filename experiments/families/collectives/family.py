"""Collectives, as a kind of work."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import MAX_SIZE_BYTES, REDUCING, VECTORS, algorithms
from weft.base.errors import refuse
from weft.base.option import whole
from weft.base.units import format_size
from weft.experiments.scenario.family import Family

if TYPE_CHECKING:
    from weft.agents.collectives.places import TierBytes
    from weft.agents.ranks import OperationConfig
    from weft.controller.flows import Flows
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario
    from weft.topo.network import Topology


class Collectives(Family):
    """Operations of a collective, one after the other or several at once."""

    name = "collectives"
    position = 0
    on_cores = True

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return algorithms()

    def described(self, scenario: Mapping[str, Any]) -> str:
        sizes = scenario.get("sizes_bytes") or [scenario["size_bytes"]]
        least, most = format_size(min(sizes)), format_size(max(sizes))
        what = f"shards of {least} to {most}"
        if least == most:
            what = most if scenario["collective"] == "broadcast" else f"{most} a rank"
        return f"{self.title(str(scenario['collective']))} of {what}"

    def reduces(self, collective: str) -> bool:
        return collective in REDUCING

    def takes_sizes(self, collective: str) -> bool:
        return collective not in ("broadcast", *VECTORS)

    def meets(self, collective: str) -> bool:
        return collective in ("alltoall", "many-to-one")

    def check_sizes(self, asked: "Asked") -> None:
        from weft.experiments.scenario.shards import item_bytes_of

        item_bytes = item_bytes_of(asked.dtype)
        for size in asked.sizes_bytes or (asked.size_bytes,):
            whole("size", size, 0, MAX_SIZE_BYTES)
            refuse(
                size % item_bytes,
                f"size {size} is no whole number of {asked.dtype} elements: choose a multiple "
                f"of {item_bytes} bytes",
            )

    def shard_sizes(self, asked: "Asked", ranks: int) -> tuple[int, ...]:
        """For Reduce-Scatter, it is what the rank ends with; for Allreduce and All-to-all, its part
        of the vector."""
        from weft.experiments.scenario.shards import item_bytes_of

        if asked.collective == "broadcast":
            return tuple(asked.size_bytes if rank == asked.root else 0 for rank in range(ranks))
        if asked.collective in VECTORS:
            item_bytes = item_bytes_of(asked.dtype)
            each, more = divmod(asked.size_bytes // item_bytes, ranks)
            return tuple(item_bytes * (each + (rank < more)) for rank in range(ranks))
        sizes = asked.sizes_bytes or (asked.size_bytes,)
        return tuple(sizes[rank % len(sizes)] for rank in range(ranks))

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.runs.inputs import paced_request

        return OperationConfig(
            paced_request(scenario, algorithm),
            seed,
            scenario.operations,
            scenario.at_once,
            data=scenario.data,
        )

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.runs.capacity import check_buffers

        data = sum(scenario.shard_sizes)
        if scenario.collective == "many-to-one":
            data = 2 * data // scenario.ranks  # all on the root, and a shard on each other
        if scenario.collective == "alltoall":
            data *= 2  # what comes
        return check_buffers(scenario, data, scenario.operations, available_bytes)

    def bound_ns(self, scenario: "Scenario", algorithm: str, *, frames: bool) -> int:
        from weft.experiments.theory.bounds import algorithm_ns

        return algorithm_ns(scenario, algorithm, frames=frames)

    def steps(self, scenario: "Scenario", algorithm: str) -> "list[Flows]":
        from weft.experiments.theory.flow_steps import steps_of_scenario

        return steps_of_scenario(scenario, algorithm)

    def tier_bytes(
        self, network: "Topology", scenario: "Scenario", algorithm: str, *, frames: bool
    ) -> "Iterator[TierBytes]":
        from weft.experiments.theory.traffic_model import algorithm_bytes

        yield from algorithm_bytes(network, scenario, algorithm, frames=frames)


FAMILY = Collectives()
