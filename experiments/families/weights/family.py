"""Moves of weights from a trainer to inference engines, as a kind of work."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base.option import own_of
from weft.base.units import format_size
from weft.experiments.families.graphs import PlacedFamily
from weft.experiments.families.resharding.names import AUTO, chosen, strategies
from weft.experiments.families.weights.asked import WeightsAsked
from weft.experiments.families.weights.names import (
    BALANCE,
    USUAL_STRATEGIES,
    WEIGHTS,
    algorithms,
    named,
)
from weft.experiments.families.weights.part import WeightsMoved
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.part import Part

if TYPE_CHECKING:
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.ranks import OperationConfig, RankReport
    from weft.experiments.results.metric import Metric
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario


class WeightsFamily(PlacedFamily):
    """All weights of a model are brought from a trainer's mesh to that of inference engines."""

    name = WEIGHTS
    position = 6
    options = WeightsAsked
    lists_algorithms = False
    types_itself = True
    adds = (*PlacedFamily.adds, WeightsMoved)

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {WEIGHTS: algorithms()}

    def title(self, collective: str) -> str:
        return "Weights"

    def described(self, scenario: Mapping[str, Any]) -> str:
        size = format_size(int(scenario["size_bytes"]))
        meshes = f"from {scenario['from_mesh']} to {scenario['to_mesh']}"
        if scenario.get("layout"):
            meshes = f"by {scenario['layout']}"
        return f"Weights of {scenario['model']} {meshes}, {size}"

    def located(self, options: Mapping[str, Any], places: Sequence[Path]) -> Mapping[str, Any]:
        from weft.experiments.families.weights.located import located

        return located(options, places)

    def files(self, asked: "Asked") -> Sequence[Path]:
        own = own_of(asked, WeightsAsked)
        named = (Path(name) for name in (own.model, own.layout) if name)
        return [path for path in named if path.is_file()]

    def with_algorithms(self, asked: "Asked") -> Sequence[str]:
        """Return each strategy with each balancer that is asked for."""
        own = own_of(asked, WeightsAsked)
        for name in own.strategies:
            choose("strategy", name, [each for each in strategies() if each != AUTO])
        if not (own.strategies or own.balances):
            return asked.algorithms or USUAL_STRATEGIES
        return chosen(
            asked.algorithms, own.strategies or USUAL_STRATEGIES, own.balances or (BALANCE,), named
        )

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        from weft.experiments.families.weights.resolve import with_weights

        return with_weights(asked)

    def graph(self, asked: "Asked", algorithm: str, ranks: int) -> "FlowGraph":
        from weft.experiments.families.weights.resolve import carried_of

        return carried_of(asked, algorithm).graph

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.families.weights.resolve import carried_of
        from weft.experiments.runs.inputs import flows_request

        carried = carried_of(scenario, algorithm)
        request = flows_request(
            scenario, algorithm, carried.graph, tensors=carried.tensors,
            own={"block_bytes": carried.block_bytes},
        )  # fmt: skip
        return OperationConfig(request, seed, data=scenario.data)

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.families.weights.load import check_memory
        from weft.experiments.families.weights.resolve import options_of

        return check_memory(options_of(scenario, scenario.algorithms[0]), available_bytes)

    def result(
        self, scenario: "Scenario", algorithm: str, reports: "Sequence[RankReport]"
    ) -> Iterator[Part]:
        from weft.experiments.families.weights.result import moved_by

        yield from super().result(scenario, algorithm, reports)
        yield moved_by(scenario, algorithm)

    def metrics(self) -> "Sequence[Metric]":
        from weft.experiments.families.weights.metrics import METRICS

        return METRICS

    def bound_ns(self, scenario: "Scenario", algorithm: str, *, frames: bool) -> int:
        """Return the least time in which any plan could bring all slices over hosts' links."""
        import numpy as np

        from weft.experiments.families.weights.resolve import carried_of
        from weft.experiments.theory.bounds import host_rates_bps, sizing_of

        carried = carried_of(scenario, algorithm)
        size = sizing_of(scenario, frames=frames)(np.array([carried.bound_bytes], np.int64))
        return int(size[0]) * 8 * 10**9 // int(host_rates_bps(scenario).max())


FAMILY = WeightsFamily()
