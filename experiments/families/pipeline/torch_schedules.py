"""Pipeline schedules for ``torch.distributed.pipelining`` that torch does not have.

The order of actions is that of `weft.experiments.families.pipeline.schedules`, the same that
``weft run pipeline`` carries out; torch's own runtime executes it.
"""

from collections.abc import Callable
from typing import Any

from torch.distributed.pipelining import schedules as torch_schedules

from weft.experiments.families.pipeline.schedules import make

_KINDS = {"F": "FORWARD", "B": "FULL_BACKWARD"}


class ScheduleEager1F1B(torch_schedules._PipelineScheduleRuntime):
    """Eager 1F1B (arXiv 2211.05322): stage i of n does min(m, 2 (n - i) - 1) forward passes before
    its first backward pass, twice as many as 1F1B does, so that activations are on their way
    earlier and communication hides behind computation. Losses and gradients are those of 1F1B.

    Used as `torch.distributed.pipelining.Schedule1F1B` is, in its place.

    Args:
        stage: this rank's stage; each rank has one.
        n_microbatches: m, how many micro-batches a batch is cut into.
        loss_fn: of output and target; the last stage calls it.
        more: what `PipelineScheduleMulti` takes besides, by name.

    Raises:
        InputError: there is no micro-batch.
    """

    def __init__(
        self,
        stage: Any,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__([stage], n_microbatches, loss_fn, **more)
        made = make("eager-1f1b", stage.num_stages, n_microbatches)
        kinds = torch_schedules._ComputationType
        self.pipeline_order = {
            rank: [
                torch_schedules._Action(rank, kinds[_KINDS[action.kind]], action.microbatch)
                for action in actions
            ]
            for rank, actions in enumerate(made.actions)
        }
        self._prepare_schedule_with_comms(self.pipeline_order)
