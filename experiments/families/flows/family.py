"""Flows of any workload, as a kind of work."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import FLOWS, GIVEN, flow_algorithms
from weft.base.option import own_of
from weft.experiments.families.flows.asked import FlowsAsked
from weft.experiments.families.flows.checks import (
    GPTS,
    MODEL_SLOWDOWN,
    default_algorithm,
    is_model,
)
from weft.experiments.families.flows.file_format import described, endings, is_sized
from weft.experiments.families.flows.workload import WORKLOADS
from weft.experiments.families.graphs import FlowFamily
from weft.experiments.scenario.family import Family

if TYPE_CHECKING:
    from weft.agents.collectives.algorithm import Algorithm
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.ranks import OperationConfig
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario


class FlowsOfWorkloads(FlowFamily):
    """Flows that depend on each other, as a file, a model or another package has them."""

    name = FLOWS
    position = 2
    options = FlowsAsked
    fullest: Mapping[str, Any] = {"workload": GPTS[0]}
    types_itself = True
    on_cores = True
    about_workloads = f"{described('FILE{}')}, or a step of {', '.join(GPTS)}"
    workload_options: Mapping[str, str | tuple[str, str]] = {
        "layers": "Flows of a model: its layers.",
        "slowdown": (
            "Flows: sizes are scaled so that all takes X times as long as at 400 Gbit/s.",
            f"a model's {MODEL_SLOWDOWN:g}; a file's stay as they are",
        ),
    }

    def algorithms(self) -> Mapping[str, tuple[str, ...]]:
        return {FLOWS: flow_algorithms()}

    def described(self, scenario: Mapping[str, Any]) -> str:
        return f"{self.title(FLOWS)} of {scenario['workload']}"

    def kinds(self, collective: str, algorithm: str) -> "tuple[Algorithm, ...]":
        """Return the algorithm that does Allreduces; for `GIVEN`, one that says nothing of
        itself."""
        from weft.agents.collectives.registry import algorithm_of

        if algorithm == GIVEN:
            return super().kinds(collective, algorithm)
        return (algorithm_of("allreduce", algorithm),)

    def meets(self, collective: str) -> bool:
        return True

    def uses(self, asked: "Asked", option: str) -> bool:
        """Return whether it is for all flows, or there is a workload that heeds it."""
        workload = own_of(asked, FlowsAsked).workload
        if option in ("layers", "tensor", "micro_batches"):
            return is_model(workload)
        return option != "buffer_bytes" or is_sized(workload)

    def having_options(self) -> Iterator[Any]:
        for name, _ in WORKLOADS.options():
            yield WORKLOADS[name]

    def owners(self, asked: "Asked") -> Iterator[Any]:
        yield from self.kinds(asked.collective, GIVEN)
        workload = own_of(asked, FlowsAsked).workload or ""
        if workload in WORKLOADS:
            yield WORKLOADS[workload]

    def workloads(self) -> Sequence[str]:
        return (*GPTS, *WORKLOADS, *(f"FILE{ending}" for ending in endings()))

    def asked_for(self, workload: str) -> Mapping[str, Any] | None:
        is_known = {workload, f"FILE{Path(workload).suffix}"} & {*self.workloads()}
        return {"workload": workload} if is_known else None

    def located(self, options: Mapping[str, Any], places: Sequence[Path]) -> Mapping[str, Any]:
        from weft.experiments.families.flows.files import located

        return located(options, places)

    def with_algorithms(self, asked: "Asked") -> Sequence[str]:
        return asked.algorithms or default_algorithm(own_of(asked, FlowsAsked).workload)

    def resolve(self, asked: "Asked", ranks: int) -> "Asked":
        from weft.experiments.families.flows.resolve import with_flows

        return with_flows(asked, ranks)

    def check_sizes(self, asked: "Asked") -> None:
        Family.check_sizes(self, asked)

    def files(self, asked: "Asked") -> Sequence[Path]:
        workload = own_of(asked, FlowsAsked).workload
        return [Path(workload)] if workload and Path(workload).is_file() else []

    def notes(self, asked: "Asked", algorithm: str, ranks: int) -> Sequence[str]:
        from weft.experiments.families.flows.load import notes_on
        from weft.experiments.families.flows.resolve import options_of

        return notes_on(options_of(asked, algorithm, ranks))

    def graph(self, asked: "Asked", algorithm: str, ranks: int) -> "FlowGraph":
        from weft.experiments.families.flows.load import graph_of
        from weft.experiments.families.flows.resolve import options_of

        return graph_of(options_of(asked, algorithm, ranks))

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.runs.inputs import paced_request

        request = paced_request(scenario, algorithm, flows=scenario.flow_graph(algorithm))
        return OperationConfig(request, seed, data=scenario.data)

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.runs.capacity import check_buffers

        data = 2 * sum(scenario.shard_sizes) // scenario.ranks
        layers = own_of(scenario, FlowsAsked).layers or 1
        return check_buffers(scenario, data, layers, available_bytes)


FAMILY = FlowsOfWorkloads()
