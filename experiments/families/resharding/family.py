"""Reshardings, as a kind of work."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.base.option import own_of
from weft.base.units import format_size
from weft.experiments.families.graphs import PlacedFamily
from weft.experiments.families.resharding.asked import ReshardingAsked
from weft.experiments.families.resharding.names import (
    AUTO,
    BALANCE,
    BALANCES,
    DTYPE,
    RESHARD,
    STRATEGIES,
    algorithm_named,
    algorithms,
    chosen,
    strategies,
)
from weft.experiments.scenario.choices import TENSOR_DTYPES, choose

if TYPE_CHECKING:
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.ranks import OperationConfig
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario


class Resharding(PlacedFamily):
    """A tensor that is sharded over one mesh of devices is brought to another."""

    name = RESHARD
    position = 3
    options = ReshardingAsked
    lists_algorithms = False
    types_itself = True
    more_dtypes = TENSOR_DTYPES
    about_dtypes = f"also {', '.join(TENSOR_DTYPES)}, and one for each tensor, like int32;float16"
    usual_dtype = DTYPE

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {RESHARD: algorithms()}

    def title(self, collective: str) -> str:
        return "Resharding"

    def described(self, scenario: Mapping[str, Any]) -> str:
        size = format_size(int(scenario["size_bytes"]))
        if scenario.get("case"):
            return f"Resharding of case {scenario['case']}, {size}"
        if scenario.get("one_to_many"):
            return f"Resharding from one device to {scenario['one_to_many']}, {size}"
        return f"Resharding from {scenario['source']} to {scenario['destination']}, {size}"

    def colours(self) -> Mapping[str, tuple[str, str]]:
        """Return those of strategies."""
        own = {name: STRATEGIES.fact(name, "colours") for name in STRATEGIES}
        return {**own, AUTO: ("#56b4e9", "#8fd0f5")}

    def check_names(self, asked: "Asked") -> None:
        own = own_of(asked, ReshardingAsked)
        for name in own.strategies:
            choose("strategy", name, strategies())
        for name in own.balances:
            choose("balance", name, tuple(BALANCES))

    def with_algorithms(self, asked: "Asked") -> Sequence[str]:
        """Return each strategy with each balancer that is asked for."""
        own = own_of(asked, ReshardingAsked)
        if not (own.strategies or own.balances):
            return super().with_algorithms(asked)
        return chosen(
            asked.algorithms,
            own.strategies or strategies()[:2],
            own.balances or (BALANCE,),
            algorithm_named,
        )  # fmt: skip

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        from weft.experiments.families.resharding.resolve import with_resharding

        return with_resharding(asked, ranks)

    def graph(self, asked: "Asked", algorithm: str, ranks: int) -> "FlowGraph":
        from weft.experiments.families.resharding.resolve import carried_of

        return carried_of(asked, algorithm, ranks).graph

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.families.resharding.resolve import carried_of
        from weft.experiments.runs.inputs import flows_request

        carried = carried_of(scenario, algorithm, scenario.ranks)
        request = flows_request(
            scenario, algorithm, carried.graph, tensors=carried.tensors,
            own={"block_bytes": carried.block_bytes},
        )  # fmt: skip
        return OperationConfig(request, seed, data=scenario.data)

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.families.resharding.load import check_memory
        from weft.experiments.families.resharding.resolve import options_of

        options = options_of(scenario, scenario.algorithms[0], scenario.ranks)
        return check_memory(options, available_bytes)

    def bound_ns(self, scenario: "Scenario", algorithm: str, *, frames: bool) -> int:
        """Return the least time in which any plan could bring all slices over hosts' links."""
        import numpy as np

        from weft.experiments.families.resharding.resolve import carried_of
        from weft.experiments.theory.bounds import host_rates_bps, sizing_of

        carried = carried_of(scenario, algorithm, scenario.ranks)
        size = sizing_of(scenario, frames=frames)(np.array([carried.bound_bytes], np.int64))
        return int(size[0]) * 8 * 10**9 // int(host_rates_bps(scenario).max())


FAMILY = Resharding()
