"""The bytes that each rank contributes, and the flows of a workload."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from weft.agents.collectives.names import FLOWS, VECTORS
from weft.experiments.fused.names import (
    FUSED_OPERATORS,
    OPERATORS,
    SLICE_BYTES,
    THREADS,
    WORKGROUPS,
)
from weft.experiments.pipeline.names import PIPELINE, PIPELINE_MODELS, PIPELINE_SLOWDOWN
from weft.experiments.pipeline.options import PipelineOptions
from weft.experiments.resharding.names import BALANCE, LOCAL_FACTOR
from weft.experiments.resharding.options import ReshardingOptions
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import CARRYING, GRAPHS
from weft.experiments.scenario.fsdp_models import FSDP
from weft.experiments.scenario.shape import network_of, placement_of
from weft.experiments.workloads.workload import WorkloadOptions, described_workloads, workload_of

if TYPE_CHECKING:  # it takes numpy, which help and messages go without
    from weft.agents.collectives.flow_graph import FlowGraph
    from weft.agents.fused.device import Device
    from weft.agents.fused.plan import Plan
    from weft.experiments.fused.options import FusedOptions
    from weft.experiments.pipeline.load import Training
    from weft.experiments.resharding.carrier import Carried


def item_bytes_of(dtype: str) -> int:
    """Return the bytes of an element, such as 4 for ``float32``."""
    if dtype.startswith("float8"):
        return 1
    return 1 if dtype == "bool" else int(dtype.lstrip("buintfloacmpex")) // 8


def shard_sizes_of(asked: Asked, ranks: int) -> tuple[int, ...]:
    """Return how many bytes each of so many ranks contributes.

    For Reduce-Scatter, it is what the rank ends with; for Allreduce and All-to-all, its part of the
    vector; for FSDP, its part of a layer, rounded up to whole elements; for flows, what it sends.
    """
    if asked.collective == "broadcast":
        return tuple(asked.size_bytes if rank == asked.root else 0 for rank in range(ranks))
    if asked.collective in GRAPHS:
        graph = flow_graph_of(asked, asked.algorithms[0], ranks)
        return tuple(sum(graph.sizes(graph.sent_by(rank))) for rank in range(ranks))
    if asked.collective in VECTORS:
        item_bytes = item_bytes_of(asked.dtype)
        each, more = divmod(asked.size_bytes // item_bytes, ranks)
        return tuple(item_bytes * (each + (rank < more)) for rank in range(ranks))
    if asked.collective == FSDP:
        item_bytes = item_bytes_of(asked.dtype)
        return (-(-asked.size_bytes // (ranks * item_bytes)) * item_bytes,) * ranks
    sizes = asked.sizes_bytes or (asked.size_bytes,)
    return tuple(sizes[rank % len(sizes)] for rank in range(ranks))


def own_of_workload(asked: Asked) -> tuple[tuple[str, Any], ...]:
    """Return what is asked of options that a workload of another package has of its own."""
    if asked.workload not in described_workloads():
        return ()
    own = fields(workload_of(asked.workload).options)
    return tuple((each.name, getattr(asked, each.name, each.default)) for each in own)


def carried_of(asked: Asked, algorithm: str, ranks: int) -> "Carried":
    """Return what a resharding, or a training step, sends between so many ranks, and the tensors
    that it carries."""
    if asked.collective == PIPELINE:
        return training_of(asked, algorithm).carried
    from weft.experiments.resharding.load import carried

    return carried(resharding_options_of(asked, algorithm, ranks))


def training_of(asked: Asked, algorithm: str) -> "Training":
    """Return a training step in a pipeline. Raises `InputError` for what makes no sense."""
    from weft.experiments.pipeline.load import training

    _, places = hosts_and_places(asked)
    return training(
        PipelineOptions(
            algorithm,
            places,
            asked.rate_bps,
            asked.mtu,
            asked.block_bytes or 0,
            asked.local_factor or LOCAL_FACTOR,
            asked.balances[0] if asked.balances else BALANCE,
            asked.seed,
            asked.delay_ns,
            asked.model or PIPELINE_MODELS[0],
            asked.slowdown or PIPELINE_SLOWDOWN,
            asked.stages or 0,
            asked.model_chunks or 0,
            asked.micro_batches or 0,
            asked.stage_mesh,
            asked.sharding,
            asked.delayed_weights,
            asked.efficiency or 0.4,
        )
    )


def fused_of(asked: Asked, algorithm: str, ranks: int) -> "Plan":
    """Return a fused operator as a graph of flows. Raises `InputError` for what makes no sense."""
    from weft.experiments.fused.load import fused_plan

    return fused_plan(fused_options_of(asked, algorithm, ranks))


def fused_options_of(asked: Asked, algorithm: str, ranks: int) -> "FusedOptions":
    """Return what is asked of a fused operator. Raises `InputError` for sizes that it does not
    have."""
    from weft.agents.fused.operator import Sizes
    from weft.experiments.fused.load import with_defaults
    from weft.experiments.fused.options import FusedOptions

    operator = asked.operator or next(iter(OPERATORS))
    sizes = Sizes(
        asked.batch_size or 0,
        asked.width or 0,
        asked.inner or 0,
        asked.tables or 0,
        asked.table_rows or 0,
        asked.pooling or 0,
        asked.experts or 0,
        asked.top_k or 0,
        asked.imbalance or 0.0,
        asked.tile_rows or 0,
        "" if asked.dispatch in (None, "none") else asked.dispatch or "",
    )
    return FusedOptions(
        operator,
        algorithm,
        ranks,
        asked.seed,
        with_defaults(operator, sizes),
        asked.task_order or "",
        asked.slice_bytes or SLICE_BYTES,
        asked.senders or 0,
        _device_of(asked),
    )


def _device_of(asked: Asked) -> "Device":
    """Return the device that a fused operator computes on."""
    from weft.agents.fused import device

    if asked.clock == "measured":
        return device.Device(asked.workgroups or THREADS, 0.0, measured=True)
    return device.Device(
        asked.workgroups or WORKGROUPS,
        asked.slowdown or 0.0,
        asked.flops or device.FLOPS,
        asked.memory_bandwidth or device.MEMORY_BYTES_PER_S,
        device.LAUNCH_NS if asked.launch_ns is None else asked.launch_ns,
        device.PUT_NS if asked.put_ns is None else asked.put_ns,
    )


def hosts_and_places(asked: Asked) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Return, for each rank, the name of its host, and the pod and the switch where that is."""
    network = network_of(asked)
    hosts = [network.hosts[host] for host in placement_of(asked, network).jobs[0]]
    pods = {switch.name: switch.pod or 0 for switch in network.switches}
    return (
        tuple(host.name for host in hosts),
        tuple((pods[host.leaf], host.leaf) for host in hosts),
    )


def resharding_options_of(asked: Asked, algorithm: str, ranks: int) -> ReshardingOptions:
    """Return what is asked of a resharding."""
    names, places = hosts_and_places(asked)
    return ReshardingOptions(
        algorithm,
        names,
        places,
        asked.rate_bps,
        asked.mtu,
        asked.block_bytes or 0,
        LOCAL_FACTOR if asked.local_factor is None else asked.local_factor,
        asked.seed,
        asked.delay_ns,
        asked.case,
        asked.one_to_many,
        asked.full,
        asked.source,
        asked.destination,
        asked.shape,
        asked.dtype,
    )


def flow_graph_of(asked: Asked, algorithm: str, ranks: int) -> "FlowGraph":
    """Return the flows of a workload between so many ranks. Raises `InputError` if the workload
    makes none."""
    if asked.collective in CARRYING:
        return carried_of(asked, algorithm, ranks).graph
    if asked.collective == FUSED_OPERATORS:
        return fused_of(asked, algorithm, ranks).graph
    from weft.experiments.workloads.load import graph_of

    return graph_of(_workload_options(asked, algorithm, ranks))


def workload_notes_of(asked: Asked, algorithm: str, ranks: int) -> tuple[str, ...]:
    """Return what somebody who runs a workload of flows should know of its files."""
    if asked.collective != FLOWS:
        return ()
    from weft.experiments.workloads.load import notes_on

    return notes_on(_workload_options(asked, algorithm, ranks))


def _workload_options(asked: Asked, algorithm: str, ranks: int) -> WorkloadOptions:
    return WorkloadOptions(
        asked.workload or "", algorithm, ranks, asked.rate_bps, asked.slowdown, asked.layers,
        asked.tensor or 1, asked.micro_batches or 1, own_of_workload(asked),
    )  # fmt: skip
