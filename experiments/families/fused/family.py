"""Fused operators, as a kind of work."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.base.errors import InputError
from weft.base.option import own_of
from weft.base.units import format_size, shown
from weft.experiments.families.fused.asked import FusedAsked
from weft.experiments.families.fused.names import (
    FUSED,
    FUSED_OPERATORS,
    SWITCH,
    UNFUSED,
    WAYS,
    algorithm_named,
    algorithms,
    parts_of_algorithm,
)
from weft.experiments.families.fused.part import FusedTimes
from weft.experiments.families.graphs import PlacedFamily
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.part import Part

if TYPE_CHECKING:
    from weft.agents.collectives.algorithm import Algorithm
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.ranks import OperationConfig, RankReport
    from weft.experiments.plots.gantt import Chart
    from weft.experiments.results.metric import Metric
    from weft.experiments.results.results import Run
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario


class FusedOperator(PlacedFamily):
    """An operator whose computation and communication may be fused."""

    name = FUSED_OPERATORS
    position = 5
    options = FusedAsked
    meets_at_hosts = True
    adds = (*PlacedFamily.adds, FusedTimes)

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {FUSED_OPERATORS: algorithms()}

    def title(self, collective: str) -> str:
        return "Operator"

    def payload_reader(self, asked: "Asked") -> str:
        return "computes with them"

    def described(self, scenario: Mapping[str, Any]) -> str:
        size = format_size(int(scenario["size_bytes"]))
        return f"{self.title(FUSED_OPERATORS)} {scenario['operator']}, {size} in all"

    def colours(self) -> Mapping[str, tuple[str, str]]:
        """Return those of operators, too."""
        return {
            "unfused": ("#e69f00", "#f3bd4a"),
            "fused": ("#0072b2", "#5aaae6"),
            "unfused/multicast": ("#cc79a7", "#e09cc2"),
            "fused/multicast": ("#56b4e9", "#8fd0f5"),
            "unfused/switch": ("#d55e00", "#f08c3c"),
            "fused/switch": ("#009e73", "#3fc79e"),
            "computation": ("#44546a", "#a9b8cb"),
            "embedding-all-to-all": ("#0072b2", "#5aaae6"),
            "gemv-allreduce": ("#d55e00", "#f08c3c"),
            "gemm-all-to-all": ("#009e73", "#3fc79e"),
            "all-gather-matmul": ("#cc79a7", "#e09cc2"),
            "matmul-reduce-scatter": ("#e69f00", "#f3bd4a"),
            "communication": ("#7f8ea0", "#b9c4d0"),
        }

    def kinds(self, collective: str, algorithm: str) -> "tuple[Algorithm, ...]":
        from weft.agents.collectives.algorithms.switch import Adding

        if parts_of_algorithm(algorithm)[1] == SWITCH:
            return (Adding(),)
        return super().kinds(collective, algorithm)

    def check_names(self, asked: "Asked") -> None:
        for name in own_of(asked, FusedAsked).ways:
            choose("way", name, tuple(WAYS))

    def with_algorithms(self, asked: "Asked") -> Sequence[str]:
        """Return each way that is asked for, unfused and fused."""
        own = own_of(asked, FusedAsked)
        names = tuple(
            algorithm_named(kind, way)
            for way in own.ways or tuple(WAYS)[:1]
            for kind in (UNFUSED, FUSED)
        )
        if bool(own.ways) and asked.algorithms not in ((), names):
            raise InputError(
                f"algorithms {shown(', '.join(asked.algorithms))} beside way: name ways, or "
                "algorithms, but not both"
            )
        return asked.algorithms or names

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        from weft.experiments.families.fused.resolve import with_fused

        return with_fused(asked, ranks)

    def graph(self, asked: "Asked", algorithm: str, ranks: int) -> "FlowGraph":
        from weft.experiments.families.fused.resolve import plan_of

        return plan_of(asked, algorithm, ranks).graph

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.families.fused.resolve import plan_of
        from weft.experiments.runs.inputs import flows_request

        plan = plan_of(scenario, algorithm, scenario.ranks)
        # All ranks multicast at the same time, and links to hosts carry what all others send.
        at_once = max(1, len({members[0] for members in plan.graph.groups}) - 1)
        request = flows_request(
            scenario, algorithm, plan.graph, at_once, computation=plan.computation
        )
        return OperationConfig(request, seed, data=scenario.data)

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.families.fused.capacity import check_operator

        return check_operator(scenario, available_bytes)

    def result(
        self, scenario: "Scenario", algorithm: str, reports: "Sequence[RankReport]"
    ) -> Iterator[Part]:
        from weft.experiments.families.fused.result import fused_times_of

        yield from super().result(scenario, algorithm, reports)
        yield fused_times_of(scenario, algorithm, reports)

    def metrics(self) -> "Sequence[Metric]":
        from weft.experiments.families.fused.metrics import METRICS

        return METRICS

    def chart(self, run: "Run") -> "Chart | None":
        from weft.experiments.families.fused.workgroups import chart_of

        return chart_of(run)

    def is_settled(self, scenario: "Scenario") -> bool:
        from weft.experiments.families.fused.alone import is_slowed

        return is_slowed(scenario)

    def settled(self, scenario: "Scenario") -> "Scenario":
        """Return one whose device is as slow as its ratio needs."""
        from weft.experiments.families.fused.alone import slowed

        return slowed(scenario)

    def compared(
        self, run: "Run", scenario: "Scenario", took_ns: Callable[[str], int] | None = None
    ) -> "Run":
        """Return a run with what its communication takes alone."""
        from weft.experiments.families.fused.alone import compared, measured

        return compared(run, scenario, measured(run, took_ns) if took_ns else None)

    def bound_ns(self, scenario: "Scenario", algorithm: str, *, frames: bool) -> int:
        """Return the least time in any order of its tiles, and as if puts took none: so it is no
        more than what the same operator takes unfused.

        A schedule of tiles on workgroups would be no bound: where something comes later, another
        tile takes its place, and all may end earlier (Graham, "Bounds on multiprocessing timing
        anomalies", SIAM J. Appl. Math. 17, 1969).
        """
        from weft.experiments.families.fused.resolve import plan_of
        from weft.experiments.theory.bounds import flows_ns, host_rates_bps, sizing_of

        plan = plan_of(scenario, algorithm, scenario.ranks)
        rate_bps, sizing = int(host_rates_bps(scenario).max()), sizing_of(scenario, frames=frames)
        return max(plan.busy_ns, flows_ns(plan.least_graph(), rate_bps, sizing))


FAMILY = FusedOperator()
