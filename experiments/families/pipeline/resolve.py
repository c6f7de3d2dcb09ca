"""What is asked of a training step in a pipeline, checked and with defaults filled in."""

from dataclasses import replace

from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.errors import InputError, refuse
from weft.base.option import own_of
from weft.base.units import shown
from weft.experiments.families.flows.checks import check_slowdown
from weft.experiments.families.pipeline.asked import PipelineAsked
from weft.experiments.families.pipeline.load import Training, training
from weft.experiments.families.pipeline.names import (
    EFFICIENCY,
    PIPELINE,
    PIPELINE_MODELS,
    PIPELINE_SLOWDOWN,
)
from weft.experiments.families.pipeline.options import PipelineOptions
from weft.experiments.families.pipeline.schedules import INTERLEAVED
from weft.experiments.families.resharding.names import BALANCE, LOCAL_FACTOR
from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.choices import choose
from weft.experiments.scenario.family import with_own
from weft.experiments.scenario.shape import hosts_and_places


def training_of(asked: Asked, algorithm: str) -> Training:
    """Return a training step in a pipeline. Raises `InputError` for what makes no sense."""
    own = own_of(asked, PipelineAsked)
    _, places = hosts_and_places(asked)
    return training(
        PipelineOptions(
            algorithm,
            places,
            asked.rate_bps,
            asked.mtu,
            own_of(asked, UnicastOptions).block_bytes or 0,
            own.local_factor or LOCAL_FACTOR,
            own.balances[0] if own.balances else BALANCE,
            asked.seed,
            asked.delay_ns,
            own.model or PIPELINE_MODELS[0],
            own.slowdown or PIPELINE_SLOWDOWN,
            own.stages or 0,
            own.model_chunks or 0,
            own.micro_batches or 0,
            own.stage_mesh,
            own.sharding,
            own.delayed_weights,
            own.efficiency or EFFICIENCY,
        )
    )


def with_pipeline(asked: Asked) -> Asked:
    """Check a training step, and fill in how large it is."""
    own = own_of(asked, PipelineAsked)
    choose("model", own.model or PIPELINE_MODELS[0], PIPELINE_MODELS)
    check_slowdown(own.slowdown)
    if asked.dtype not in ("", "uint8"):
        raise InputError(
            f"dtype {shown(asked.dtype)} means nothing for {PIPELINE}: models have types of their "
            "own; leave it out"
        )
    refuse(
        own.micro_batches is not None and own.micro_batches < 1,
        f"micro-batches {own.micro_batches} is out of range: 1 at least",
    )
    if own.model_chunks is not None and not any(
        name.startswith(INTERLEAVED) for name in asked.algorithms
    ):
        raise InputError(
            f"model-chunks {own.model_chunks} means nothing for "
            f"{' and '.join(asked.algorithms)}: it is for {INTERLEAVED}; leave it out"
        )
    own = replace(
        own,
        model=own.model or PIPELINE_MODELS[0],
        slowdown=PIPELINE_SLOWDOWN if own.slowdown is None else own.slowdown,
        efficiency=EFFICIENCY if own.efficiency is None else own.efficiency,
        local_factor=LOCAL_FACTOR if own.local_factor is None else own.local_factor,
    )
    asked, most = with_own(asked, own), 0
    for algorithm in asked.algorithms:
        graph = training_of(asked, algorithm).carried.graph
        most = most or graph.total_bytes
    refuse(
        asked.size_bytes not in (Asked.size_bytes, most),
        f"size {asked.size_bytes} means nothing for {PIPELINE}: the model has sizes; leave it "
        "out, or scale them (--slowdown)",
    )
    return replace(asked, size_bytes=most)
