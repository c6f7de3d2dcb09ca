"""What is asked of FSDP interleaving."""

from dataclasses import dataclass

from weft.base.option import FACTOR, TEXT, WHOLE, WORKLOAD, option
from weft.experiments.families.fsdp.models import LAYERS, MODELS, SLOWDOWN


@dataclass(frozen=True)
class InterleavingAsked:
    """What is asked of FSDP interleaving, beside what is asked of all kinds of work."""

    model: str | None = option(
        None,
        TEXT,
        f"FSDP: whose layers, {', '.join(MODELS)}.",
        group=WORKLOAD,
        instead_of=("size", "sizes"),
        default_text=MODELS[0],
    )
    """The model whose layers give `size_bytes`, scaled to the rate
    (`weft.experiments.families.fsdp.models`). If it is empty, `size_bytes` is that of a layer."""
    layers: int | None = option(
        None, WHOLE, f"FSDP: steps that are run [{LAYERS}].", group=WORKLOAD
    )
    """How many steps are run; in each the parameters of one layer are gathered and the gradients of
    the one before are reduced."""
    slowdown: float | None = option(
        None,
        FACTOR,
        "FSDP, flows: a layer takes X times as long as at 400 Gbit/s.",
        group=WORKLOAD,
        default_text=str(SLOWDOWN),
        instead_of=("ratio",),
    )
    """How many times as long a model's layer takes as on links of 400 Gbit/s."""
