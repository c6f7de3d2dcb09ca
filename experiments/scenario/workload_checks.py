"""What a scenario says of a workload of flows: checked, and defaults filled in.

`weft.experiments.workloads` is loaded only where there is a workload: it takes half of Weft with
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.base.errors import InputError
from weft.base.units import shown

if TYPE_CHECKING:
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.experiments.scenario.scenario import Scenario

SLOWDOWN = 10.0
"""By default, of a model: an Allreduce of the 7B model is 84 KB at 100 Mbit/s, 2 MiB at 2.5
Gbit/s."""
MAX_MICRO_BATCHES = 64
MAX_LAYERS = 1000


def is_model(workload: str | None) -> bool:
    """Whether a workload is a model's, and no file."""
    return workload is not None and workload.startswith("gpt-") and "." not in workload


def default_algorithm(workload: str | None) -> tuple[str, ...]:
    """What a scenario of flows runs that names no algorithm."""
    from weft.experiments.workloads.load import algorithms_for

    return algorithms_for(workload)[:1] if workload else ("given",)


def check_flows(scenario: Scenario, ranks: int) -> None:
    """Check a scenario of flows, whose workload is read, and fill in its defaults."""
    if not scenario.workload:
        raise InputError("flows need a workload: name a file, or a model like gpt-7b (--workload)")
    if is_model(scenario.workload):
        _fill_in_model(scenario)
    check_slowdown(scenario.slowdown)
    if scenario.dtype not in ("", "uint8"):
        raise InputError(f"dtype {scenario.dtype!r} means nothing for flows, which are of bytes")
    _check_algorithms(scenario)
    graph = graph_for(scenario, scenario.algorithms[0], ranks)
    most = max(sum(graph.sizes(graph.sent_by(rank))) for rank in range(ranks))
    if scenario.size_bytes not in (type(scenario).size_bytes, most):
        raise InputError(
            f"size {scenario.size_bytes} means nothing for flows: the workload has sizes; leave it "
            "out, or scale them (--slowdown)"
        )
    object.__setattr__(scenario, "size_bytes", most)


def graph_for(scenario: Scenario, algorithm: str, ranks: int) -> FlowGraph:
    """The flows of a scenario. Raises `InputError` where the workload makes none."""
    from weft.experiments.workloads.load import WorkloadOptions, graph_of

    return graph_of(
        WorkloadOptions(
            scenario.workload or "",
            algorithm,
            ranks,
            scenario.rate_bps,
            scenario.slowdown,
            scenario.layers,
            scenario.tensor or 1,
            scenario.micro_batches or 1,
        )
    )


def _fill_in_model(scenario: Scenario) -> None:
    hosts = scenario.hosts_per_leaf or (scenario.k or 2) // 2
    for name, value in model_defaults(hosts).items():
        if getattr(scenario, name) is None:
            object.__setattr__(scenario, name, value)
    given = {name: getattr(scenario, name) for name in ("micro_batches", "tensor", "layers")}
    check_model(given, scenario.ranks)


def model_defaults(hosts_per_leaf: int) -> dict[str, float]:
    """What is taken of a model where nothing else is said."""
    return {"slowdown": SLOWDOWN, "micro_batches": 1, "tensor": hosts_per_leaf}


def check_model(given: Mapping[str, int | None], ranks: int) -> None:
    """Raises `InputError` for numbers of a model's micro-batches, ranks or layers out of range."""
    most = {"micro_batches": MAX_MICRO_BATCHES, "tensor": ranks, "layers": MAX_LAYERS}
    for name, highest in most.items():
        value = given.get(name)
        if value is not None and not 1 <= value <= highest:
            option = name.replace("_", "-")
            raise InputError(f"{option} {shown(value)} is out of range: 1 to {highest}")


def check_slowdown(slowdown: float | None) -> None:
    """Raises `InputError` for one out of range."""
    if slowdown is not None and not 1e-6 <= slowdown <= 1e12:
        raise InputError(f"slowdown {slowdown:g} is out of range: 1e-6 to 1e12")


def _check_algorithms(scenario: Scenario) -> None:
    assert scenario.workload is not None
    for algorithm in scenario.algorithms:
        check_algorithm(scenario.workload, algorithm)


def check_algorithm(workload: str, algorithm: str) -> None:
    """Raises `InputError` for one that makes no sense for a workload."""
    from weft.experiments.workloads.load import algorithms_for

    known = algorithms_for(workload)
    if algorithm not in known:
        raise InputError(
            f"algorithm {algorithm!r} means nothing for workload {shown(workload)}: "
            f"choose from {', '.join(known)}"
        )
