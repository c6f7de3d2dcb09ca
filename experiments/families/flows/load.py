"""Loading of the flows that a scenario calls its workload."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import flow_algorithms
from weft.base.entry_points import blamed
from weft.base.errors import InputError, refuse
from weft.base.files import told_as_input
from weft.base.units import shown
from weft.experiments.families.flows.file_format import (
    FORMATS,
    FileFlows,
    FileReading,
    endings,
)
from weft.experiments.families.flows.gpt import MODELS, training_step
from weft.experiments.families.flows.workload import (
    REAL_RATE_BPS,
    WORKLOADS,
    WorkloadOptions,
)


def algorithms_for(workload: str) -> tuple[str, ...]:
    """Return the algorithms that make sense for a workload; the default comes first.

    Raises:
        InputError: it is neither a model nor a file of a known kind.
    """
    if workload in MODELS:
        return flow_algorithms()[1:]
    if workload in WORKLOADS:
        chosen = WORKLOADS[workload].collectives
        return flow_algorithms()[1:] if chosen else flow_algorithms()[:1]
    path = Path(workload)
    if path.suffix not in FORMATS:
        raise InputError(
            f"workload {shown(workload)} is unknown: choose "
            f"{', '.join((*MODELS, *WORKLOADS))}, or name a file that ends in "
            f"{' or '.join(endings())}"
        )
    collective = FORMATS[path.suffix].has_collectives(path)
    return flow_algorithms()[1:] if collective else flow_algorithms()[:1]


def graph_of(options: WorkloadOptions) -> FlowGraph:
    """Return the flows of a workload, by numbers of ranks.

    Raises:
        InputError: there is no such workload, its file makes no sense, or it needs more ranks.
    """
    if options.workload in MODELS:
        return _made(options)
    if options.workload in WORKLOADS:
        return _brought(options)
    graph = _of_files(options).graph
    if graph.ranks > options.ranks:
        raise InputError(
            f"workload {options.workload!r} has flows of node {graph.ranks - 1}: the network has "
            f"{options.ranks} ranks, numbered from 0; choose more hosts"
        )
    return graph


def notes_on(options: WorkloadOptions) -> tuple[str, ...]:
    """Return what somebody who runs a workload should know of its files. Raises InputError as
    `graph_of` does."""
    if options.workload in (*MODELS, *WORKLOADS):
        return ()
    return _of_files(options).notes


def _of_files(options: WorkloadOptions) -> FileFlows:
    path = Path(options.workload)
    files = FORMATS[path.suffix].files(path)
    with told_as_input(f"workload {str(path)!r} cannot be read"):
        states = [file.stat() for file in files or [path]]
    return _read(options, tuple((state.st_mtime_ns, state.st_size) for state in states))


@lru_cache(maxsize=8)
def _made(options: WorkloadOptions) -> FlowGraph:
    return training_step(
        options.workload,
        options.ranks,
        options.tensor,
        options.algorithm,
        share=share(options.rate_bps, options.slowdown or 1.0),
        layers=options.layers,
        micro_batches=options.micro_batches,
    )


@lru_cache(maxsize=8)
def _brought(options: WorkloadOptions) -> FlowGraph:
    workload = WORKLOADS[options.workload]
    with blamed(workload, "graph"):
        graph = workload.graph(options, workload.options(**dict(options.own)))
        refuse(
            not isinstance(graph, FlowGraph) or graph.ranks > options.ranks,
            f"{graph!r:.60} is no FlowGraph between {options.ranks} ranks",
            TypeError,
        )
    return graph


@lru_cache(maxsize=8)
def _read(options: WorkloadOptions, states: tuple[tuple[int, int], ...]) -> FileFlows:
    """Read a workload. `states` are those of the files, which are read again if they have
    changed."""
    path = Path(options.workload)
    reading = FileReading(options.algorithm, options.ranks, options.size_bytes)
    found: FileFlows = FORMATS[path.suffix].read(path, reading)
    if options.slowdown is None:
        return found
    part, graph = share(options.rate_bps, options.slowdown), found.graph
    slowed = replace(
        graph,
        size_bytes=tuple(max(size and 1, round(size * part)) for size in graph.size_bytes),
        delay_ns=tuple(round(delay_ns * options.slowdown) for delay_ns in graph.delay_ns),
    )
    return found._replace(graph=slowed)


def share(rate_bps: int, slowdown: float) -> float:
    """Return which part of a workload's bytes is left if it takes `slowdown` times as long at a
    rate as at `REAL_RATE_BPS`."""
    return slowdown * rate_bps / REAL_RATE_BPS
