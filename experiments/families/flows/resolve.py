"""What is asked of a workload of flows, checked and with defaults filled in."""

from dataclasses import fields, replace
from typing import Any

from weft.base.errors import InputError, refuse
from weft.base.option import own_of
from weft.experiments.families.flows.asked import FlowsAsked
from weft.experiments.families.flows.checks import (
    BUFFER_BYTES,
    check_algorithm,
    check_model,
    check_slowdown,
    is_model,
    model_defaults,
)
from weft.experiments.families.flows.file_format import is_sized
from weft.experiments.families.flows.load import graph_of
from weft.experiments.families.flows.workload import (
    WORKLOADS,
    WorkloadOptions,
)
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.family import with_own


def with_flows(asked: Asked, ranks: int) -> Asked:
    """Read a workload of flows, check what is asked of it, and fill in how large it is."""
    own = own_of(asked, FlowsAsked)
    if not own.workload:
        raise InputError("flows need a workload: name a file, or a model like gpt-7b (--workload)")
    if is_model(own.workload):
        defaults = model_defaults(asked.hosts_per_leaf or (asked.k or 2) // 2)
        unsaid: dict[str, Any] = {
            name: value for name, value in defaults.items() if getattr(own, name) is None
        }
        own = replace(own, **unsaid)
        check_model(vars(own), ranks)
    if is_sized(own.workload) and own.buffer_bytes is None:
        own = replace(own, buffer_bytes=BUFFER_BYTES)
    check_slowdown(own.slowdown)
    refuse(
        asked.dtype not in ("", "uint8"),
        f"dtype {asked.dtype!r} means nothing for flows, which are of bytes",
    )
    for algorithm in asked.algorithms:
        check_algorithm(own.workload or "", algorithm)
    asked = with_own(asked, own)
    graph = graph_of(options_of(asked, asked.algorithms[0], ranks))
    most = max(sum(graph.sizes(graph.sent_by(rank))) for rank in range(ranks))
    refuse(
        asked.size_bytes not in (Asked.size_bytes, most),
        f"size {asked.size_bytes} means nothing for flows: the workload has sizes; leave it "
        "out, or scale them (--slowdown)",
    )
    return replace(asked, size_bytes=most)


def options_of(asked: Asked, algorithm: str, ranks: int) -> WorkloadOptions:
    """Return what is asked of a workload."""
    own = own_of(asked, FlowsAsked)
    return WorkloadOptions(
        own.workload or "", algorithm, ranks, asked.rate_bps, own.slowdown, own.layers,
        own.tensor or 1, own.micro_batches or 1, own.buffer_bytes or 0,
        own_of_workload(asked, own.workload or ""),
    )  # fmt: skip


def own_of_workload(asked: Asked, workload: str) -> tuple[tuple[str, Any], ...]:
    """Return what is asked of options that a workload of another package has of its own."""
    if workload not in WORKLOADS:
        return ()
    own = fields(WORKLOADS[workload].options)
    return tuple((each.name, getattr(asked, each.name, each.default)) for each in own)
