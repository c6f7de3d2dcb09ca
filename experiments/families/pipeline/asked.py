"""What is asked of a training step in a pipeline."""

from dataclasses import dataclass, replace

from weft.base.errors import InputError
from weft.base.option import (
    FACTOR,
    FLAG,
    NAMES,
    PIPELINES,
    RESHARDING,
    TEXT,
    WHOLE,
    WORKLOAD,
    option,
)
from weft.experiments.families.pipeline.names import (
    COMMUNICATION,
    EFFICIENCY,
    PIPELINE,
    PIPELINE_MODELS,
    PIPELINE_SLOWDOWN,
    STRATEGY,
)
from weft.experiments.families.pipeline.schedules import SCHEDULES
from weft.experiments.families.resharding.asked import (
    BALANCE_ROW,
    LOCAL_FACTOR_ROW,
)


def _check_efficiency(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(
            f"{name} {value:g}: from {low:g} to {high:g}, as a part of the peak of a V100"
        )


@dataclass(frozen=True)
class PipelineAsked:
    """What is asked of a training step, beside what is asked of all kinds of work."""

    model: str | None = option(
        None,
        TEXT,
        f"pipeline: {', '.join(PIPELINE_MODELS)}.",
        group=WORKLOAD,
        default_text=f"of pipeline {PIPELINE_MODELS[0]}",
    )
    slowdown: float | None = option(
        None,
        FACTOR,
        "pipeline: as at 10 Gbit/s.",
        group=WORKLOAD,
        default_text=f"pipeline {PIPELINE_SLOWDOWN:g}",
    )
    micro_batches: int | None = option(
        None,
        WHOLE,
        group=WORKLOAD,
        default_text="of pipeline the model's",
        who=f"for {PIPELINE}",
    )
    strategies: tuple[str, ...] = option(
        (), NAMES, group=RESHARDING, name="strategy", default_text=f"of pipeline {STRATEGY}"
    )
    balances: tuple[str, ...] = BALANCE_ROW
    local_factor: float | None = LOCAL_FACTOR_ROW
    schedules: tuple[str, ...] = option(
        (),
        NAMES,
        f"Who does what in which order; may be repeated. {', '.join(SCHEDULES)}, or a file, "
        "NAME.toml.",
        group=PIPELINES,
        name="schedule",
        default_text="1f1b and eager-1f1b",
    )
    """The schedules of a training step. With `strategies` and `communications` these make up
    `algorithms`."""
    communications: tuple[str, ...] = option(
        (),
        NAMES,
        "How stages communicate; may be repeated. "
        f"{', '.join(f'{name} ({about})' for name, about in COMMUNICATION.items())}.",
        group=PIPELINES,
        name="communication",
        default_text=next(iter(COMMUNICATION)),
    )
    stages: int | None = option(
        None,
        WHOLE,
        "Stages that the model is cut into.",
        group=PIPELINES,
        default_text="the model's",
        between=(1, 256),
    )
    model_chunks: int | None = option(
        None,
        WHOLE,
        "Of interleaved-1f1b: model chunks of each stage.",
        group=PIPELINES,
        default_text="2",
        between=(2, 64),
    )
    stage_mesh: str = option(
        "",
        TEXT,
        "Hosts and devices of each stage, like 1x4.",
        group=PIPELINES,
        metavar="HxD",
        default_text="the model's",
    )
    """The mesh of each stage; stage i is on the ranks that follow those of the stage before."""
    sharding: str = option(
        "",
        TEXT,
        "How tensors are sharded over a stage's mesh, like S01RR.",
        group=PIPELINES,
        metavar="SPEC",
        default_text="samples over hosts, S0RR",
    )
    delayed_weights: bool = option(
        False,
        FLAG,
        "Gradients of weights come after those of activations, for which others wait.",
        group=PIPELINES,
    )
    efficiency: float | None = option(
        None,
        replace(FACTOR, check=_check_efficiency),
        "Which part of a V100's peak FLOP/s a device computes with.",
        group=PIPELINES,
        default_text=str(EFFICIENCY),
        between=(0.0001, 1000),
    )
