"""What is asked of flows."""

from dataclasses import dataclass

from weft.agents.collectives.names import FLOWS, MAX_SIZE_BYTES
from weft.base.option import FACTOR, SIZE, TEXT, WHOLE, WORKLOAD, option
from weft.experiments.families.flows.checks import (
    BUFFER_BYTES,
    GPTS,
    MICRO_BATCHES,
    MODEL_SLOWDOWN,
)
from weft.experiments.families.flows.file_format import described
from weft.experiments.families.flows.workload import WORKLOADS


def _other_workloads() -> str:
    """List the workloads of other packages, behind those of Weft."""
    return "".join(f", or {name} ({each.about})" for name, each in WORKLOADS.items())


@dataclass(frozen=True)
class FlowsAsked:
    """What is asked of flows, beside what is asked of all kinds of work."""

    layers: int | None = option(
        None,
        WHOLE,
        "flows of a model: layers.",
        group=WORKLOAD,
        default_text="all",
        who=f"it is for {FLOWS} of a model",
    )
    slowdown: float | None = option(
        None, FACTOR, group=WORKLOAD, default_text=f"flows of a model {MODEL_SLOWDOWN:g}"
    )
    """How many times as long a model's layer takes as on links of 400 Gbit/s. Flows of a file are
    scaled only where it is given."""
    workload: str | None = option(
        None,
        TEXT,
        f"Flows: {described('{}')}, or a step of {', '.join(GPTS)}{_other_workloads()}.",
        group=WORKLOAD,
        metavar="FILE|NAME",
    )
    """Flows: a file, a model, of which one training step is run
    (`weft.experiments.families.flows`), or a workload of another package."""
    tensor: int | None = option(
        None,
        WHOLE,
        "Flows of a model: ranks that share a layer.",
        group=WORKLOAD,
        default_text="a leaf's hosts",
        who=f"it is for {FLOWS} of a model",
    )
    """Flows of a model: how many ranks next to each other share each layer."""
    micro_batches: int | None = option(
        None,
        WHOLE,
        "Flows of a model, pipeline: micro-batches of a step.",
        group=WORKLOAD,
        default_text=str(MICRO_BATCHES),
        who=f"it is for {FLOWS} of a model",
    )
    buffer_bytes: int | None = option(
        None,
        SIZE,
        "Flows of an algorithm of MSCCL: the larger of a rank's input and output.",
        group=WORKLOAD,
        name="buffer",
        default_text=SIZE.write(BUFFER_BYTES),
        between=(1, MAX_SIZE_BYTES),
        who=f"it is for {FLOWS} of a file that leaves its size open",
    )
    """Flows of a file that does not say how large its collective is: its size, the larger of a
    rank's input and output."""
