"""Training steps in a pipeline, as a kind of work."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError
from weft.base.option import own_of
from weft.base.units import shown
from weft.experiments.families.graphs import PlacedFamily
from weft.experiments.families.pipeline.asked import PipelineAsked
from weft.experiments.families.pipeline.names import (
    COMMUNICATION,
    PIPELINE,
    STRATEGY,
    algorithm_named,
    algorithms,
    parts_of_algorithm,
)
from weft.experiments.families.pipeline.part import StepTimes
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.part import Part

if TYPE_CHECKING:
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.ranks import OperationConfig, RankReport
    from weft.experiments.plots.gantt import Chart
    from weft.experiments.results.metric import Metric
    from weft.experiments.results.results import Run
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario

DEFAULTS = ("1f1b", "eager-1f1b")
"""The schedules that are run if none is named."""


class TrainingStep(PlacedFamily):
    """A training step of a model that is cut into stages."""

    name = PIPELINE
    position = 4
    options = PipelineAsked
    lists_algorithms = False
    types_itself = True
    adds = (*PlacedFamily.adds, StepTimes)

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {PIPELINE: algorithms()}

    def title(self, collective: str) -> str:
        return "Training step"

    def described(self, scenario: Mapping[str, Any]) -> str:
        return f"{self.title(PIPELINE)} of {scenario['model']}"

    def colours(self) -> Mapping[str, tuple[str, str]]:
        """Return those of schedules."""
        return {
            "gpipe": ("#e69f00", "#f3bd4a"),
            "1f1b": ("#0072b2", "#5aaae6"),
            "eager-1f1b": ("#d55e00", "#f08c3c"),
            "interleaved-1f1b": ("#009e73", "#3fc79e"),
            "zb-h1": ("#cc79a7", "#e09cc2"),
        }

    def check_names(self, asked: "Asked") -> None:
        for name in own_of(asked, PipelineAsked).communications:
            choose("communication", name, tuple(COMMUNICATION))

    def with_algorithms(self, asked: "Asked") -> Sequence[str]:
        """Return each schedule with each strategy and each way of communication that is asked
        for."""
        own = own_of(asked, PipelineAsked)
        if len(own.balances) > 1:
            raise InputError(
                f"balance {', '.join(own.balances)}: a pipeline's reshardings have one; name one"
            )
        if not (own.schedules or own.strategies or own.communications):
            return asked.algorithms or DEFAULTS
        names = tuple(
            algorithm_named(schedule, strategy, way)
            for schedule in own.schedules or DEFAULTS
            for strategy in own.strategies or (STRATEGY,)
            for way in own.communications or tuple(COMMUNICATION)[:1]
        )
        if asked.algorithms not in ((), names):
            raise InputError(
                f"algorithms {shown(', '.join(asked.algorithms))} beside schedule, strategy or "
                "communication: name those, or algorithms, but not both"
            )
        return names

    def check_algorithm(self, collective: str, algorithm: str) -> None:
        parts_of_algorithm(algorithm)

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        from weft.experiments.families.pipeline.resolve import with_pipeline

        return with_pipeline(asked)

    def graph(self, asked: "Asked", algorithm: str, ranks: int) -> "FlowGraph":
        from weft.experiments.families.pipeline.resolve import training_of

        return training_of(asked, algorithm).carried.graph

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.families.pipeline.resolve import training_of
        from weft.experiments.runs.inputs import flows_request

        carried = training_of(scenario, algorithm).carried
        request = flows_request(
            scenario, algorithm, carried.graph, tensors=carried.tensors,
            own={"block_bytes": carried.block_bytes},
        )  # fmt: skip
        return OperationConfig(request, seed, data=scenario.data)

    def result(
        self, scenario: "Scenario", algorithm: str, reports: "Sequence[RankReport]"
    ) -> Iterator[Part]:
        from weft.experiments.families.pipeline.result import step_of

        yield from super().result(scenario, algorithm, reports)
        if (step := step_of(scenario, algorithm, reports)) is not None:
            yield step

    def metrics(self) -> "Sequence[Metric]":
        from weft.experiments.families.pipeline.metrics import METRICS

        return METRICS

    def chart(self, run: "Run") -> "Chart | None":
        from weft.experiments.families.pipeline.gantt import chart_of

        return chart_of(run)


FAMILY = TrainingStep()
