"""Kinds of work whose ranks carry out a graph of flows (`weft.agents.collectives.flow_graph`)."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from weft.experiments.families.flow_times import FlowTimes
from weft.experiments.scenario.family import Family
from weft.experiments.scenario.part import Part

if TYPE_CHECKING:
    from weft.agents.collectives.algorithm import Algorithm
    from weft.agents.collectives.places import TierBytes
    from weft.agents.ranks import OperationConfig, RankReport
    from weft.controller.flows import Flows
    from weft.experiments.scenario.asked import Asked
    from weft.experiments.scenario.scenario import Scenario
    from weft.topo.network import Topology


class FlowFamily(Family):
    """A kind of work that is a graph of flows: a subclass gives `algorithms` and `graph`."""

    sends_flows = True
    repeats = False
    adds: tuple[type[Part], ...] = (FlowTimes,)

    def kinds(self, collective: str, algorithm: str) -> "tuple[Algorithm, ...]":
        """Return an algorithm that says nothing of itself."""
        from weft.agents.collectives.algorithm import Algorithm

        return (Algorithm(),)

    def shard_sizes(self, asked: "Asked", ranks: int) -> tuple[int, ...]:
        """It is what the rank sends."""
        graph = self.graph(asked, asked.algorithms[0], ranks)
        return tuple(sum(graph.sizes(graph.sent_by(rank))) for rank in range(ranks))

    def operation(self, scenario: "Scenario", algorithm: str, seed: int) -> "OperationConfig":
        from weft.agents.ranks import OperationConfig
        from weft.experiments.runs.inputs import flows_request

        request = flows_request(scenario, algorithm, scenario.flow_graph(algorithm))
        return OperationConfig(request, seed, data=scenario.data)

    def check_memory(self, scenario: "Scenario", available_bytes: int | None) -> int:
        from weft.experiments.runs.capacity import check_buffers

        return check_buffers(scenario, sum(scenario.shard_sizes), 1, available_bytes)

    def result(
        self, scenario: "Scenario", algorithm: str, reports: "Sequence[RankReport]"
    ) -> Iterator[Part]:
        yield flows_of(scenario, algorithm, reports)

    def bound_ns(self, scenario: "Scenario", algorithm: str, *, frames: bool) -> int:
        from weft.experiments.theory.bounds import flows_ns, host_rates_bps, sizing_of

        rate_bps = int(host_rates_bps(scenario).max())
        return flows_ns(
            scenario.flow_graph(algorithm), rate_bps, sizing_of(scenario, frames=frames)
        )

    def steps(self, scenario: "Scenario", algorithm: str) -> "list[Flows]":
        from weft.experiments.theory.flow_steps import steps_of_graph

        return steps_of_graph(scenario.flow_graph(algorithm))

    def tier_bytes(
        self, network: "Topology", scenario: "Scenario", algorithm: str, *, frames: bool
    ) -> "Iterator[TierBytes]":
        from weft.experiments.theory.traffic_model import graphs_bytes

        yield from graphs_bytes(network, scenario, algorithm, frames=frames)


class PlacedFamily(FlowFamily):
    """A kind of work whose flows have places in memory, and sizes of their own."""

    has_places = True

    def check_sizes(self, asked: "Asked") -> None:
        """It is checked where the graph is made."""


def flows_of(scenario: "Scenario", algorithm: str, reports: "Sequence[RankReport]") -> FlowTimes:
    """Return when each flow of a workload was under way, as its ranks reported it."""
    graph = scenario.flow_graph(algorithm)
    flows = graph.flows.tolist()
    place = {flow: index for index, flow in enumerate(flows)}
    times: dict[str, list[int | None]] = {
        what: [None] * len(flows) for what in ("begun", "received", "acknowledged")
    }
    for flow, what, at_ns in chain.from_iterable(report.moments for report in reports):
        if flow in place:
            times[what][place[flow]] = at_ns
    return FlowTimes(
        [graph.source[flow] for flow in flows],
        [graph.destination[flow] for flow in flows],
        graph.sizes(graph.flows),
        times["begun"],
        times["received"],
        times["acknowledged"],
    )
